"""The axis of a hinge in the frames of both IMUs, from their gyros alone.

Links on a hinge turn about its axis against each other, and alike across it: |w_1 x j_1| = |w_2 x j_2| (Seel, Schauer
and Raisch, "Joint axis and position estimation from inertial measurement data by exploiting kinematic constraints",
2012). Squared, that is linear in the matrices A_i = I - j_i j_i^T:

    w_1^T A_1 w_1 - w_2^T A_2 w_2 = 0,

so that their twelve elements are the vector that the mean of all such rows takes to zero, and a 12 x 12 matrix holds
all that the gyros have shown. No orientation is needed, nor a first guess; only the sign of the one axis against the
other is left open, which the orientation tells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onboard_estimation.base.measurement import Matrix, Vector

_CLEAR = 30.0
"""The second smallest eigenvalue has to be so many times the smallest: links on other joints stay below 10."""
_MOVED = 0.05
"""And has to be this at least, (rad/s)^4 s: slower motions are not clear of the gyros' biases."""
_LONG_ENOUGH_S = 10.0
"""For a few seconds, a ball joint may turn like a hinge."""
_ROWS, _COLUMNS = np.array([0, 1, 2, 0, 0, 1]), np.array([0, 1, 2, 1, 2, 2])
_TWICE = np.where(_ROWS == _COLUMNS, 1.0, np.sqrt(2.0))


class Shown(NamedTuple):
    """What the gyros have shown of a hinge.

    Attributes
    ----------
    squares
        (12, 12) sum of the rows' squares, (rad/s)^4 s; replaced, not written.
    time_s
        For how long.
    """

    squares: Matrix = np.zeros((12, 12))
    time_s: float = 0.0

    def followed(self, proximal: Vector, distal: Vector, step_s: float) -> Shown:
        """With the rates (3,) of both, rad/s, over a step."""
        row = np.concatenate([_products(proximal), -_products(distal)])
        return Shown(self.squares + step_s * np.outer(row, row), self.time_s + step_s)

    def axes(self, rotation: Matrix) -> tuple[Vector, Vector] | None:
        """The unit vectors j_1 and j_2; None as long as they are not clear.

        Their sign against each other is by `rotation` (3, 3), from the second IMU's frame to the first's, roughly.
        """
        if self.time_s < _LONG_ENOUGH_S:
            return None
        sizes, vectors = np.linalg.eigh(self.squares)
        if sizes[1] < max(_MOVED, _CLEAR * sizes[0]):
            return None
        first, second = _axis(vectors[:6, 0]), _axis(vectors[6:, 0])
        return first, second if first @ rotation @ second > 0.0 else -second


def _products(rate: Vector) -> Vector:
    """(6,) such that its product with the elements of a symmetric matrix, weighted alike, is w^T A w."""
    return _TWICE * rate[_ROWS] * rate[_COLUMNS]


def _axis(elements: Vector) -> Vector:
    """(3,) direction that a matrix I - j j^T, up to its scale, takes to zero."""
    matrix = np.zeros((3, 3))
    matrix[_ROWS, _COLUMNS] = matrix[_COLUMNS, _ROWS] = elements / _TWICE
    _, directions = np.linalg.eigh(np.sign(np.trace(matrix)) * matrix)
    axis: Vector = directions[:, 0]
    return axis
