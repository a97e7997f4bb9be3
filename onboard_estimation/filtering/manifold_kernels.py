"""Compiled plus, minus, mean of sigma points, and right Jacobian of product state spaces.

A space is told to the kernels as its `layout`: (blocks, 2) int64, kind and tangent dimension of each block. See
`state_space` for the conventions. States are rows of (k, a) arrays, and tangent vectors rows of (k, n) arrays; between
kernels tangent vectors are columns, (n, k), as the filters' matrices have them.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Layout = NDArray[np.int64]
Whole = int | np.int64

VECTOR, ANGLES, SE2, SO3 = 0, 1, 2, 3
# Whole numbers that `plus_block` and `minus_block` are called with are made by np.int64: numba would compile both for
# each literal anew.
# Below this angle the first two terms of the series of sin a / a are exact to double precision.
_SMALL_ANGLE = 1e-4


@njit(cache=True)
def wrap(angle: float) -> float:
    """The same angle in (-pi, pi]."""
    if -np.pi < angle <= np.pi:
        return angle
    wrapped = np.pi - (np.pi - angle) % (2.0 * np.pi)
    # Just above pi the remainder rounds to the whole turn.
    return np.pi if wrapped <= -np.pi else wrapped  # and what is no number stays none


@njit(cache=True)
def sine_cosine(angle: float) -> tuple[float, float]:
    """sin(a) and cos(a), to 3e-16 for |a| < 1e5, in plain arithmetic.

    A loop that calls the library's functions is not turned into vector instructions; a loop of this is. Polynomials on
    [-pi/4, pi/4] and the split of pi/2 are those of FreeBSD's msun library (k_sin.c, k_cos.c, e_rem_pio2.c).
    """
    quarters = np.rint(angle * 0.6366197723675814)  # 2 / pi
    x = angle - quarters * 1.57079632673412561417 - quarters * 6.07710050650619224932e-11
    z = x * x
    s = 1.58969099521155010221e-10
    s = -2.50507602534068634195e-08 + z * s
    s = 2.75573137070700676789e-06 + z * s
    s = -1.98412698298579493134e-04 + z * s
    s = 8.33333333332248946124e-03 + z * s
    s = x + x * z * (-1.66666666666666324348e-01 + z * s)
    c = -1.13596475577881948265e-11
    c = 2.08757232129817482790e-09 + z * c
    c = -2.75573143513906633035e-07 + z * c
    c = 2.48015872894767294178e-05 + z * c
    c = -1.38888888888741095749e-03 + z * c
    c = 1.0 - 0.5 * z + z * z * (4.16666666666666019037e-02 + z * c)
    quadrant = quarters - 4.0 * np.floor(0.25 * quarters)
    swapped = (quadrant == 1.0) | (quadrant == 3.0)
    sine, cosine = (c if swapped else s), (s if swapped else c)
    return (-sine if quadrant >= 2.0 else sine), (-cosine if (quadrant == 1.0) | (quadrant == 2.0) else cosine)


@njit(cache=True)
def _sin_quotient(angle: float) -> float:
    """sin(a) / a."""
    if abs(angle) < _SMALL_ANGLE:
        return 1.0 - angle * angle / 6.0
    return np.sin(angle) / angle


@njit(cache=True, inline="always")
def _cos_quotient(angle: float) -> float:
    """(1 - cos a) / a = sin^2(a / 2) / (a / 2), which loses no digits."""
    return angle * _cos_remainder(angle)


@njit(cache=True, inline="always")
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


@njit(cache=True, inline="always")
def is_curved(layout: Layout) -> bool:
    """Whether a block of the space has a right Jacobian other than the identity."""
    for block in range(layout.shape[0]):
        if layout[block, 0] >= SE2:
            return True
    return False


@njit(cache=True, inline="always")
def coordinate_count(layout: Layout) -> int:
    """Numbers that a state is stored in."""
    count = 0
    for block in range(layout.shape[0]):
        count += 4 if layout[block, 0] == SO3 else layout[block, 1]
    return count


@njit(cache=True)
def plus(states: Rows, tangents: Rows, layout: Layout) -> Rows:
    """(k, a) states reached from `states` (k, a) by `tangents` (k, n)."""
    out = np.empty_like(states)
    plus_into(states, tangents.T.copy(), layout, out, states.shape[0])
    return out


@njit(cache=True)
def plus_into(states: Rows, tangents: Rows, layout: Layout, out: Rows, count: Whole) -> None:
    """Into the first `count` rows of `out` the states reached from those of `states` by the columns of `tangents`."""
    c, t, first, step = np.int64(0), np.int64(0), np.int64(0), np.int64(1)
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        plus_block(states, step, tangents, 1.0, kind, size, c, t, out, first, count)
        c += 4 if kind == SO3 else size
        t += size


@njit(cache=True)
def plus_block(
    x: Rows,
    step: Whole,
    d: Rows,
    scale: float,
    kind: Whole,
    size: Whole,
    c: Whole,
    t: Whole,
    out: Rows,
    first: Whole,
    count: Whole,
) -> None:
    """One block, at coordinates c of x and rows t of d: out[first + k] = plus(x[step k], scale d[:, k]).

    For k from 0 to count - 1. `out` may be `x`.
    """
    if kind == VECTOR:
        for e in range(size):
            for k in range(count):
                out[first + k, c + e] = x[step * k, c + e] + scale * d[t + e, k]
    elif kind == ANGLES:
        for e in range(size):
            for k in range(count):
                out[first + k, c + e] = wrap(x[step * k, c + e] + scale * d[t + e, k])
    elif kind == SE2:
        heading = cosine = sine = 0.0
        for k in range(count):
            i = step * k
            if k == 0 or step > 0:
                heading = x[i, c + 2]
                cosine, sine = np.cos(heading), np.sin(heading)
            turn = scale * d[t + 2, k]
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            forward = scale * (s * d[t, k] - v * d[t + 1, k])
            left = scale * (v * d[t, k] + s * d[t + 1, k])
            out[first + k, c] = x[i, c] + cosine * forward - sine * left
            out[first + k, c + 1] = x[i, c + 1] + sine * forward + cosine * left
            out[first + k, c + 2] = wrap(heading + turn)
    else:
        for k in range(count):
            i = step * k
            dx, dy, dz = scale * d[t, k], scale * d[t + 1, k], scale * d[t + 2, k]
            half = 0.5 * np.sqrt(dx**2 + dy**2 + dz**2)
            share = 0.5 * _sin_quotient(half)
            ex, ey, ez, ew = share * dx, share * dy, share * dz, np.cos(half)
            qx, qy, qz, qw = x[i, c], x[i, c + 1], x[i, c + 2], x[i, c + 3]
            px = qw * ex + qx * ew + qy * ez - qz * ey
            py = qw * ey - qx * ez + qy * ew + qz * ex
            pz = qw * ez + qx * ey - qy * ex + qz * ew
            pw = qw * ew - qx * ex - qy * ey - qz * ez
            norm = 1.0 / np.sqrt(px * px + py * py + pz * pz + pw * pw)
            out[first + k, c], out[first + k, c + 1] = px * norm, py * norm
            out[first + k, c + 2], out[first + k, c + 3] = pz * norm, pw * norm


@njit(cache=True)
def minus(states: Rows, bases: Rows, layout: Layout, dimension: int) -> Rows:
    """(k, n) tangent vectors at `bases` (k, a) that lead to `states` (k, a)."""
    out = np.empty((dimension, states.shape[0]))
    minus_into(states, bases, layout, out)
    return out.T.copy()


@njit(cache=True)
def minus_into(states: Rows, bases: Rows, layout: Layout, out: Rows) -> None:
    """Into `out` (n, k) the tangent vectors at `bases` (k, a) that lead to `states` (k, a)."""
    c, t, step = np.int64(0), np.int64(0), np.int64(1)
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        minus_block(states, bases, step, kind, size, c, t, out)
        c += 4 if kind == SO3 else size
        t += size


@njit(cache=True)
def minus_block(a: Rows, b: Rows, step: Whole, kind: Whole, size: Whole, c: Whole, t: Whole, out: Rows) -> None:
    """One block, at coordinates c and tangent dimensions t: out[:, k] = minus(a[k], b[step k]) for every row k of a."""
    if kind == VECTOR:
        for e in range(size):
            for k in range(a.shape[0]):
                out[t + e, k] = a[k, c + e] - b[step * k, c + e]
    elif kind == ANGLES:
        for e in range(size):
            for k in range(a.shape[0]):
                out[t + e, k] = wrap(a[k, c + e] - b[step * k, c + e])
    elif kind == SE2:
        cosine = sine = 0.0
        for k in range(a.shape[0]):
            i = step * k
            if k == 0 or step > 0:
                cosine, sine = np.cos(b[i, c + 2]), np.sin(b[i, c + 2])
            dx, dy = a[k, c] - b[i, c], a[k, c + 1] - b[i, c + 1]
            forward, left = cosine * dx + sine * dy, -sine * dx + cosine * dy
            turn = wrap(a[k, c + 2] - b[i, c + 2])
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            norm = 1.0 / (s * s + v * v)
            out[t, k] = norm * (s * forward + v * left)
            out[t + 1, k] = norm * (-v * forward + s * left)
            out[t + 2, k] = turn
    else:
        # Relative rotation conj(b) * a, then its rotation vector along the shorter way round.
        for k in range(a.shape[0]):
            i = step * k
            ax, ay, az, aw = a[k, c], a[k, c + 1], a[k, c + 2], a[k, c + 3]
            bx, by, bz, bw = b[i, c], b[i, c + 1], b[i, c + 2], b[i, c + 3]
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
            out[t, k], out[t + 1, k], out[t + 2, k] = scale * rx, scale * ry, scale * rz


@njit(cache=True)
def centred(points: Rows, layout: Layout, centre: Rows, deviations: Rows) -> None:
    """Into the first row of `centre` the mean of sigma points (2n + 1, a), into `deviations` the tangents from there.

    (., 2n): the first point is the centre of the others, and has no weight. On vectors the mean is the plain one; on
    other blocks Gauss-Newton on the tangent vectors finds it in few steps, started at the first point.
    """
    outer, share = points[1:], 1.0 / (points.shape[0] - 1)
    c, t, none, one = np.int64(0), np.int64(0), np.int64(0), np.int64(1)
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        width = 4 if kind == SO3 else size
        if kind == VECTOR:
            for e in range(size):
                # Summed up from the first point, so that values far from zero keep their digits.
                total = 0.0
                for k in range(outer.shape[0]):
                    total += share * (outer[k, c + e] - points[0, c + e])
                centre[0, c + e] = points[0, c + e] + total
                for k in range(outer.shape[0]):
                    deviations[t + e, k] = outer[k, c + e] - centre[0, c + e]
        else:
            step = np.empty((size, 1))
            for e in range(c, c + width):
                centre[0, e] = points[0, e]
            for _ in range(30):
                minus_block(outer, centre, none, kind, size, c, t, deviations)
                largest = 0.0
                for e in range(size):
                    total = 0.0
                    for k in range(outer.shape[0]):
                        total += share * deviations[t + e, k]
                    step[e, 0] = total
                    largest = max(largest, abs(total))
                if largest < 1e-13:
                    break
                plus_block(centre, none, step, 1.0, kind, size, c, none, centre, none, one)
        c += width
        t += size


@njit(cache=True)
def right_jacobian(d: Rows, layout: Layout) -> Rows:
    """(n, n) block-diagonal right Jacobian of the exponential map at the tangent vector d (n,).

    Sola et al., "A micro Lie theory for state estimation in robotics", 2018, eqs. (143) and (163).
    """
    jacobian = np.eye(d.shape[0])
    apply_right_jacobian(d.reshape(-1, 1), layout, jacobian)
    return jacobian


@njit(cache=True)
def apply_right_jacobian(d: Rows, layout: Layout, columns: Rows) -> None:
    """In place, the right Jacobian at the tangent vector d (n, 1) times `columns` (n, m)."""
    t = 0
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        if kind == SE2:
            turn = d[t + 2, 0]
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            a, b = turn * _sin_remainder(turn), _cos_remainder(turn)
            along, across = a * d[t, 0] - b * d[t + 1, 0], b * d[t, 0] + a * d[t + 1, 0]
            for j in range(columns.shape[1]):
                x, y, w = columns[t, j], columns[t + 1, j], columns[t + 2, j]
                columns[t, j], columns[t + 1, j] = s * x + v * y + along * w, s * y - v * x + across * w
        elif kind == SO3:
            x, y, z = d[t, 0], d[t + 1, 0], d[t + 2, 0]
            angle = np.sqrt(x * x + y * y + z * z)
            a, b = _cos_remainder(angle), _sin_remainder(angle)
            for j in range(columns.shape[1]):
                # J = I - a [d]x + b [d]x [d]x
                p, q, r = columns[t, j], columns[t + 1, j], columns[t + 2, j]
                u, v, w = y * r - z * q, z * p - x * r, x * q - y * p
                columns[t, j] = p - a * u + b * (y * w - z * v)
                columns[t + 1, j] = q - a * v + b * (z * u - x * w)
                columns[t + 2, j] = r - a * w + b * (x * v - y * u)
        t += size


@njit(cache=True)
def skew(x: float, y: float, z: float) -> Rows:
    """(3, 3) matrix of the cross product with the vector (x, y, z) from the left."""
    out = np.zeros((3, 3))
    out[0, 1], out[0, 2] = -z, y
    out[1, 0], out[1, 2] = z, -x
    out[2, 0], out[2, 1] = -y, x
    return out


@njit(cache=True)
def rotation_matrix(x: float, y: float, z: float, w: float) -> Rows:
    """(3, 3) rotation of a unit quaternion."""
    out = np.empty((3, 3))
    out[0, 0], out[1, 1], out[2, 2] = (
        1.0 - 2.0 * (y * y + z * z),
        1.0 - 2.0 * (x * x + z * z),
        1.0 - 2.0 * (x * x + y * y),
    )
    out[0, 1], out[1, 0] = 2.0 * (x * y - z * w), 2.0 * (x * y + z * w)
    out[0, 2], out[2, 0] = 2.0 * (x * z + y * w), 2.0 * (x * z - y * w)
    out[1, 2], out[2, 1] = 2.0 * (y * z - x * w), 2.0 * (y * z + x * w)
    return out
