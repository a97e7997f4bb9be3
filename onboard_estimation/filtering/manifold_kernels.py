"""Compiled plus, minus, mean and right Jacobian of product state spaces.

A space is told to the kernels as its `layout`: (blocks, 2) int64, kind and tangent dimension of each block.
States are rows of (k, a) arrays, tangent vectors rows of (k, n) arrays; the innermost functions take whole arrays and
row numbers, because making a view of a row costs numba as much as the arithmetic on it. See `state_space` for the
conventions.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Layout = NDArray[np.int64]

VECTOR, ANGLES, SE2, SO3 = 0, 1, 2, 3
# Below this angle the first two terms of the series of sin a / a are exact to double precision.
_SMALL_ANGLE = 1e-4


@njit(cache=True)
def wrap(angle: float) -> float:
    """The same angle in (-pi, pi]."""
    if -np.pi < angle <= np.pi:
        return angle
    wrapped = np.pi - (np.pi - angle) % (2.0 * np.pi)
    # Just above pi the remainder rounds to the whole turn.
    return wrapped if wrapped > -np.pi else np.pi


@njit(cache=True)
def _sin_quotient(angle: float) -> float:
    """sin(a) / a."""
    if abs(angle) < _SMALL_ANGLE:
        return 1.0 - angle * angle / 6.0
    return np.sin(angle) / angle


@njit(cache=True)
def _cos_quotient(angle: float) -> float:
    """(1 - cos a) / a = sin^2(a / 2) / (a / 2), which loses no digits."""
    return angle * _cos_remainder(angle)


@njit(cache=True)
def _cos_remainder(angle: float) -> float:
    """(1 - cos a) / a^2."""
    return 0.5 * _sin_quotient(0.5 * angle) ** 2


@njit(cache=True)
def _sin_remainder(angle: float) -> float:
    """(a - sin a) / a^3."""
    if abs(angle) < 0.1:  # the difference would lose digits
        square = angle * angle
        return (1.0 - square / 20.0 * (1.0 - square / 42.0 * (1.0 - square / 72.0))) / 6.0
    return (angle - np.sin(angle)) / angle**3


@njit(cache=True)
def is_curved(layout: Layout) -> bool:
    """Whether a block of the space has a right Jacobian other than the identity."""
    for block in range(layout.shape[0]):
        if layout[block, 0] >= SE2:
            return True
    return False


@njit(cache=True)
def plus(states: Rows, tangents: Rows, layout: Layout) -> Rows:
    """(k, a) states reached from `states` (k, a) by `tangents` (k, n)."""
    out = np.empty_like(states)
    for row in range(states.shape[0]):
        plus_row(states, row, tangents, row, layout, out, row)
    return out


@njit(cache=True)
def plus_row(x: Rows, i: int, d: Rows, j: int, layout: Layout, out: Rows, k: int) -> None:
    """One state: out[k] = plus(x[i], d[j]). `x` and `out` may be the same array."""
    c = t = 0
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        if kind == VECTOR:
            for e in range(size):
                out[k, c + e] = x[i, c + e] + d[j, t + e]
        elif kind == ANGLES:
            for e in range(size):
                out[k, c + e] = wrap(x[i, c + e] + d[j, t + e])
        elif kind == SE2:
            heading, turn = x[i, c + 2], d[j, t + 2]
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            forward = s * d[j, t] - v * d[j, t + 1]
            left = v * d[j, t] + s * d[j, t + 1]
            cosine, sine = np.cos(heading), np.sin(heading)
            out[k, c] = x[i, c] + cosine * forward - sine * left
            out[k, c + 1] = x[i, c + 1] + sine * forward + cosine * left
            out[k, c + 2] = wrap(heading + turn)
        else:
            half = 0.5 * np.sqrt(d[j, t] ** 2 + d[j, t + 1] ** 2 + d[j, t + 2] ** 2)
            scale = 0.5 * _sin_quotient(half)
            ex, ey, ez, ew = scale * d[j, t], scale * d[j, t + 1], scale * d[j, t + 2], np.cos(half)
            qx, qy, qz, qw = x[i, c], x[i, c + 1], x[i, c + 2], x[i, c + 3]
            px = qw * ex + qx * ew + qy * ez - qz * ey
            py = qw * ey - qx * ez + qy * ew + qz * ex
            pz = qw * ez + qx * ey - qy * ex + qz * ew
            pw = qw * ew - qx * ex - qy * ey - qz * ez
            norm = 1.0 / np.sqrt(px * px + py * py + pz * pz + pw * pw)
            out[k, c], out[k, c + 1], out[k, c + 2], out[k, c + 3] = px * norm, py * norm, pz * norm, pw * norm
        c += 4 if kind == SO3 else size
        t += size


@njit(cache=True)
def minus(states: Rows, bases: Rows, layout: Layout, dimension: int) -> Rows:
    """(k, n) tangent vectors at `bases` (k, a) that lead to `states` (k, a)."""
    out = np.empty((states.shape[0], dimension))
    for row in range(states.shape[0]):
        minus_row(states, row, bases, row, layout, out, row)
    return out


@njit(cache=True)
def minus_row(a: Rows, i: int, b: Rows, j: int, layout: Layout, out: Rows, k: int) -> None:
    """One state: out[k] = minus(a[i], b[j])."""
    c = t = 0
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        if kind == VECTOR:
            for e in range(size):
                out[k, t + e] = a[i, c + e] - b[j, c + e]
        elif kind == ANGLES:
            for e in range(size):
                out[k, t + e] = wrap(a[i, c + e] - b[j, c + e])
        elif kind == SE2:
            cosine, sine = np.cos(b[j, c + 2]), np.sin(b[j, c + 2])
            dx, dy = a[i, c] - b[j, c], a[i, c + 1] - b[j, c + 1]
            forward, left = cosine * dx + sine * dy, -sine * dx + cosine * dy
            turn = wrap(a[i, c + 2] - b[j, c + 2])
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            norm = 1.0 / (s * s + v * v)
            out[k, t] = norm * (s * forward + v * left)
            out[k, t + 1] = norm * (-v * forward + s * left)
            out[k, t + 2] = turn
        else:
            # Relative rotation conj(b) * a, then its rotation vector along the shorter way round.
            ax, ay, az, aw = a[i, c], a[i, c + 1], a[i, c + 2], a[i, c + 3]
            bx, by, bz, bw = b[j, c], b[j, c + 1], b[j, c + 2], b[j, c + 3]
            rx = bw * ax - bx * aw - by * az + bz * ay
            ry = bw * ay + bx * az - by * aw - bz * ax
            rz = bw * az - bx * ay + by * ax - bz * aw
            rw = bw * aw + bx * ax + by * ay + bz * az
            if rw < 0.0:
                rx, ry, rz, rw = -rx, -ry, -rz, -rw
            sine = np.sqrt(rx * rx + ry * ry + rz * rz)
            scale = (
                2.0 / rw * (1.0 - (sine / rw) ** 2 / 3.0) if sine < _SMALL_ANGLE else 2.0 * np.arctan2(sine, rw) / sine
            )
            out[k, t], out[k, t + 1], out[k, t + 2] = scale * rx, scale * ry, scale * rz
        c += 4 if kind == SO3 else size
        t += size


@njit(cache=True)
def mean(points: Rows, weights: Rows, layout: Layout, dimension: int) -> Rows:
    """(a,) weighted mean of `points` (k, a): Gauss-Newton on the tangent vectors, started at the first point.

    The first sigma point is the centre of the others, so that few steps are needed (one, on flat spaces).
    """
    centre = points[:1].copy()
    difference = np.empty((1, dimension))
    step = np.empty((1, dimension))
    flat = True
    for block in range(layout.shape[0]):
        flat = flat and layout[block, 0] == VECTOR
    for _ in range(30):
        step[:] = 0.0
        size = 0.0
        for row in range(points.shape[0]):
            minus_row(points, row, centre, 0, layout, difference, 0)
            for i in range(dimension):
                step[0, i] += weights[row] * difference[0, i]
        for i in range(dimension):
            size = max(size, abs(step[0, i]))
        plus_row(centre, 0, step, 0, layout, centre, 0)
        if flat or size < 1e-13:
            break
    return centre[0]


@njit(cache=True)
def right_jacobian(d: Rows, layout: Layout) -> Rows:
    """(n, n) block-diagonal right Jacobian of the exponential map at the tangent vector d (n,).

    Sola et al., "A micro Lie theory for state estimation in robotics", 2018, eqs. (143) and (163).
    """
    n = d.shape[0]
    jacobian = np.eye(n)
    t = 0
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        if kind == SE2:
            turn = d[t + 2]
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            a, b = turn * _sin_remainder(turn), _cos_remainder(turn)
            jacobian[t, t], jacobian[t, t + 1] = s, v
            jacobian[t + 1, t], jacobian[t + 1, t + 1] = -v, s
            jacobian[t, t + 2] = a * d[t] - b * d[t + 1]
            jacobian[t + 1, t + 2] = b * d[t] + a * d[t + 1]
        elif kind == SO3:
            x, y, z = d[t], d[t + 1], d[t + 2]
            angle = np.sqrt(x * x + y * y + z * z)
            a, b = _cos_remainder(angle), _sin_remainder(angle)
            skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
            jacobian[t : t + 3, t : t + 3] = np.eye(3) - a * skew + b * (skew @ skew)
        t += size
    return jacobian
