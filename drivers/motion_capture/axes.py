"""From the axes of a stream to the suite's world, z up.

A stream with y up is turned by a quarter about x: (x, y, z) becomes (x, -z, y). The bodies' own axes turn along, so
that a body which is not turned in the one world is not in the other. It is what the servers themselves do where they
are set to stream with z up, so poses do not depend on that setting, if `up_axis` says what it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix

UP_AXES = ("y", "z")
_LARGEST_ERROR = 0.02


class Axes:
    """Turns poses of a stream with that axis up.

    Raises
    ------
    UserError
        No such axis.
    """

    def __init__(self, up_axis: str) -> None:
        if up_axis not in UP_AXES:
            raise UserError(f"up_axis: {up_axis!r}, allowed: {', '.join(UP_AXES)}")
        self._is_turned = up_axis == "y"

    def to_world(self, positions_m: Matrix, quaternions_xyzw: Matrix) -> tuple[Matrix, Matrix]:
        """Positions (B, 3) and quaternions (B, 4) of the stream in the world; only places and signs change."""
        if not self._is_turned:
            return positions_m, quaternions_xyzw
        x, y, z = positions_m.T
        qx, qy, qz, qw = quaternions_xyzw.T
        return np.column_stack([x, -z, y]), np.column_stack([qx, -qz, qy, qw])

    def to_stream(self, positions_m: Matrix, quaternions_xyzw: Matrix) -> tuple[Matrix, Matrix]:
        """The inverse, for emulators."""
        if not self._is_turned:
            return positions_m, quaternions_xyzw
        x, y, z = positions_m.T
        qx, qy, qz, qw = quaternions_xyzw.T
        return np.column_stack([x, z, -y]), np.column_stack([qx, qz, -qy, qw])


def is_right_handed(matrices: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(B,) which of the matrices (B, 3, 3) are rotations: rows at right angles and of length one, not mirrored."""
    with np.errstate(all="ignore"):  # whatever a stream holds
        away = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
        mirrored = np.einsum("bi,bi->b", np.cross(matrices[:, 0], matrices[:, 1]), matrices[:, 2]) <= 0.0
    found: NDArray[np.bool_] = (away < _LARGEST_ERROR) & ~mirrored
    return found


def quaternions_of(matrices: NDArray[np.float64]) -> Matrix:
    """(B, 4) unit quaternions xyzw, w not negative, of rotations (B, 3, 3); NaN where `is_right_handed` is not.

    The largest of the four candidates is taken (Shepperd, 1978), which is never near zero.
    """
    found = np.full((len(matrices), 4), np.nan)
    good = is_right_handed(matrices)
    m = matrices[good]
    xx, yy, zz = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    # Four times the outer product of the quaternion with itself.
    outer = np.empty((len(m), 4, 4))
    for place, value in enumerate((1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz, 1 + xx + yy + zz)):
        outer[:, place, place] = value
    for (row, column), value in {
        (0, 1): m[:, 0, 1] + m[:, 1, 0],
        (0, 2): m[:, 0, 2] + m[:, 2, 0],
        (1, 2): m[:, 1, 2] + m[:, 2, 1],
        (0, 3): m[:, 2, 1] - m[:, 1, 2],
        (1, 3): m[:, 0, 2] - m[:, 2, 0],
        (2, 3): m[:, 1, 0] - m[:, 0, 1],
    }.items():
        outer[:, row, column] = outer[:, column, row] = value
    largest = np.argmax(np.einsum("bii->bi", outer), axis=1)
    best = outer[np.arange(len(m)), largest]
    best /= np.linalg.norm(best, axis=1, keepdims=True)
    best[best[:, 3] < 0.0] *= -1.0
    found[good] = best
    return found
