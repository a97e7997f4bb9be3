"""How a sensor sits on the body."""

from __future__ import annotations

import numpy as np

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix

_NAMES = ("x", "y", "z")


def axes_matrix(text: str) -> Matrix:
    """(3, 3) from the sensor's to the body's axes.

    Parameters
    ----------
    text
        Which of the sensor's axes points along the body's x, y and z, e.g. `-y x z`.

    Raises
    ------
    UserError
        They are not three different axes, or make a left-handed frame.
    """
    words = text.replace(",", " ").split()
    rows = []
    for word in words:
        name = word.removeprefix("-").removeprefix("+")
        if name not in _NAMES:
            raise UserError(
                f"axes {text!r}: {word!r} is no axis; three of x, y, z, -x, -y, -z are needed, e.g. '-y x z'"
            )
        rows.append((-1.0 if word.startswith("-") else 1.0) * np.eye(3)[_NAMES.index(name)])
    matrix = np.array(rows)
    if len(rows) != 3 or np.linalg.matrix_rank(matrix) < 3:
        raise UserError(f"axes {text!r}: three different axes are needed, e.g. '-y x z'")
    if np.linalg.det(matrix) < 0.0:
        raise UserError(f"axes {text!r} make a left-handed frame: turn one of them round")
    return matrix
