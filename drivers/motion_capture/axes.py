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
_IDENTITY = np.eye(4).ravel()


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


def quaternions_of(matrices: NDArray[np.float64]) -> Matrix:
    """(B, 4) unit quaternions xyzw, w not negative, of rotations (B, 3, 3); NaN where a matrix is none.

    Four times the outer product of the quaternion with itself is linear in the matrix. Of its rows, all of them the
    quaternion but for their lengths, that with the largest diagonal is taken, which is never near zero (Shepperd,
    1978). A matrix that is mirrored or no rotation has another such product than the quaternion that it leads to.
    """
    with np.errstate(all="ignore"):  # whatever a stream holds
        outer = matrices.reshape(-1, 9) @ _OUTER + _IDENTITY
        largest = outer[:, ::5].argmax(axis=1)
        found: Matrix = outer.reshape(-1, 4, 4)[np.arange(len(outer)), largest]
        found /= np.copysign(np.sqrt(np.einsum("bi,bi->b", found, found)), found[:, 3])[:, None]
        outer -= np.einsum("bi,bj->bij", 4.0 * found, found).reshape(-1, 16)
        is_rotation = np.abs(outer, out=outer).max(axis=1) < _LARGEST_ERROR
    if not is_rotation.all():
        found[~is_rotation] = np.nan
    return found


def _outer_map() -> NDArray[np.float64]:
    """(9, 16) from a rotation to four times the outer product of its quaternion, less the identity."""
    found = np.zeros((3, 3, 4, 4))
    for axis in range(3):
        np.fill_diagonal(found[axis, axis], -1.0)
        found[axis, axis, axis, axis] = found[axis, axis, 3, 3] = 1.0
        one, other = (axis + 1) % 3, (axis + 2) % 3
        for row, column, sign in ((one, other, -1.0), (other, one, 1.0)):
            found[row, column, one, other] = found[row, column, other, one] = 1.0
            found[row, column, axis, 3] = found[row, column, 3, axis] = sign
    return found.reshape(9, 16)


_OUTER = _outer_map()
