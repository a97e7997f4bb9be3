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
def sine_cosine(angle: float) -> tuple[float, float]:
    """sin(a) and cos(a), to 2e-16 for |a| < 1e5, in plain arithmetic.

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
    plus_into(states, tangents, layout, out)
    return out


@njit(cache=True)
def plus_into(states: Rows, tangents: Rows, layout: Layout, out: Rows) -> None:
    """Into `out` (k, a) the states reached from `states` (k, a), or from a single one (1, a), by `tangents` (k, n)."""
    c = t = 0
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        _plus_block(states, tangents, kind, size, c, t, out)
        c += 4 if kind == SO3 else size
        t += size


@njit(cache=True)
def _plus_block(x: Rows, d: Rows, kind: int, size: int, c: int, t: int, out: Rows) -> None:
    """One block, at coordinates c and tangent dimensions t, of all rows: out = plus(x, d), which may be x."""
    step = 1 if x.shape[0] > 1 else 0
    if kind == VECTOR:
        for e in range(size):
            for k in range(out.shape[0]):
                out[k, c + e] = x[step * k, c + e] + d[k, t + e]
    elif kind == ANGLES:
        for e in range(size):
            for k in range(out.shape[0]):
                out[k, c + e] = wrap(x[step * k, c + e] + d[k, t + e])
    elif kind == SE2:
        for k in range(out.shape[0]):
            heading, turn = x[step * k, c + 2], d[k, t + 2]
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            forward = s * d[k, t] - v * d[k, t + 1]
            left = v * d[k, t] + s * d[k, t + 1]
            cosine, sine = np.cos(heading), np.sin(heading)
            out[k, c] = x[step * k, c] + cosine * forward - sine * left
            out[k, c + 1] = x[step * k, c + 1] + sine * forward + cosine * left
            out[k, c + 2] = wrap(heading + turn)
    else:
        for k in range(out.shape[0]):
            half = 0.5 * np.sqrt(d[k, t] ** 2 + d[k, t + 1] ** 2 + d[k, t + 2] ** 2)
            scale = 0.5 * _sin_quotient(half)
            ex, ey, ez, ew = scale * d[k, t], scale * d[k, t + 1], scale * d[k, t + 2], np.cos(half)
            qx, qy, qz, qw = x[step * k, c], x[step * k, c + 1], x[step * k, c + 2], x[step * k, c + 3]
            px = qw * ex + qx * ew + qy * ez - qz * ey
            py = qw * ey - qx * ez + qy * ew + qz * ex
            pz = qw * ez + qx * ey - qy * ex + qz * ew
            pw = qw * ew - qx * ex - qy * ey - qz * ez
            norm = 1.0 / np.sqrt(px * px + py * py + pz * pz + pw * pw)
            out[k, c], out[k, c + 1], out[k, c + 2], out[k, c + 3] = px * norm, py * norm, pz * norm, pw * norm


@njit(cache=True)
def minus(states: Rows, bases: Rows, layout: Layout, dimension: int) -> Rows:
    """(k, n) tangent vectors at `bases` (k, a), or at a single one (1, a), that lead to `states` (k, a)."""
    out = np.empty((states.shape[0], dimension))
    c = t = 0
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        _minus_block(states, bases, kind, size, c, t, out)
        c += 4 if kind == SO3 else size
        t += size
    return out


@njit(cache=True)
def _minus_block(a: Rows, b: Rows, kind: int, size: int, c: int, t: int, out: Rows) -> None:
    """One block, at coordinates c and tangent dimensions t, of all rows: out = minus(a, b)."""
    step = 1 if b.shape[0] > 1 else 0
    if kind == VECTOR:
        for e in range(size):
            for k in range(out.shape[0]):
                out[k, t + e] = a[k, c + e] - b[step * k, c + e]
    elif kind == ANGLES:
        for e in range(size):
            for k in range(out.shape[0]):
                out[k, t + e] = wrap(a[k, c + e] - b[step * k, c + e])
    elif kind == SE2:
        for k in range(out.shape[0]):
            cosine, sine = np.cos(b[step * k, c + 2]), np.sin(b[step * k, c + 2])
            dx, dy = a[k, c] - b[step * k, c], a[k, c + 1] - b[step * k, c + 1]
            forward, left = cosine * dx + sine * dy, -sine * dx + cosine * dy
            turn = wrap(a[k, c + 2] - b[step * k, c + 2])
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            norm = 1.0 / (s * s + v * v)
            out[k, t] = norm * (s * forward + v * left)
            out[k, t + 1] = norm * (-v * forward + s * left)
            out[k, t + 2] = turn
    else:
        # Relative rotation conj(b) * a, then its rotation vector along the shorter way round.
        for k in range(out.shape[0]):
            ax, ay, az, aw = a[k, c], a[k, c + 1], a[k, c + 2], a[k, c + 3]
            bx, by, bz, bw = b[step * k, c], b[step * k, c + 1], b[step * k, c + 2], b[step * k, c + 3]
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


@njit(cache=True)
def mean(points: Rows, weights: Rows, layout: Layout, dimension: int) -> Rows:
    """(a,) weighted mean of `points` (k, a)."""
    centre = np.empty((1, points.shape[1]))
    centred(points, weights, layout, centre, np.empty((points.shape[0], dimension)))
    return centre[0]


@njit(cache=True)
def centred(points: Rows, weights: Rows, layout: Layout, centre: Rows, deviations: Rows) -> None:
    """Into `centre` (1, a) the weighted mean of `points` (k, a), into `deviations` (k, n) the tangents from there.

    Gauss-Newton on the tangent vectors, block by block, started at the first point. The first sigma point is the centre
    of the others, so that few steps are needed (one, on vectors).
    """
    step = np.empty((1, deviations.shape[1]))
    c = t = 0
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        width = 4 if kind == SO3 else size
        for e in range(c, c + width):
            centre[0, e] = points[0, e]
        for attempt in range(31):
            _minus_block(points, centre, kind, size, c, t, deviations)
            if attempt == (1 if kind == VECTOR else 30):
                break
            largest = 0.0
            for e in range(t, t + size):
                total = 0.0
                for row in range(points.shape[0]):
                    total += weights[row] * deviations[row, e]
                step[0, e] = total
                largest = max(largest, abs(total))
            if kind != VECTOR and largest < 1e-13:
                break
            _plus_block(centre, step, kind, size, c, t, centre)
        c += width
        t += size


@njit(cache=True)
def right_jacobian(d: Rows, layout: Layout) -> Rows:
    """(n, n) block-diagonal right Jacobian of the exponential map at the tangent vector d (n,).

    Sola et al., "A micro Lie theory for state estimation in robotics", 2018, eqs. (143) and (163).
    """
    jacobian = np.eye(d.shape[0])
    apply_right_jacobian(d, layout, jacobian)
    return jacobian


@njit(cache=True)
def apply_right_jacobian(d: Rows, layout: Layout, columns: Rows) -> None:
    """In place, the right Jacobian at the tangent vector d (n,) times `columns` (n, m)."""
    t = 0
    for block in range(layout.shape[0]):
        kind, size = layout[block, 0], layout[block, 1]
        if kind == SE2:
            turn = d[t + 2]
            s, v = _sin_quotient(turn), _cos_quotient(turn)
            a, b = turn * _sin_remainder(turn), _cos_remainder(turn)
            along, across = a * d[t] - b * d[t + 1], b * d[t] + a * d[t + 1]
            for j in range(columns.shape[1]):
                x, y, w = columns[t, j], columns[t + 1, j], columns[t + 2, j]
                columns[t, j], columns[t + 1, j] = s * x + v * y + along * w, s * y - v * x + across * w
        elif kind == SO3:
            x, y, z = d[t], d[t + 1], d[t + 2]
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
