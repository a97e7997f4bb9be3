"""Motion and readings of a chain for many states at once: all sigma points of a filter.

The equations are those of `dynamics.accelerate`, `forces` and `imu`, joint by joint in O(N), but up to LANES states are
solved side by side: every quantity is a row with one number a state, and the innermost loops run along these rows,
which the compiler turns into vector instructions. It does so only where it sees that rows do not overlap: hence one
flat scratch array with a block of rows for each link, and slices of it taken outside the loops (as in
`salp_estimation.chain_kernels`).

States are columns, as a filter's algebra wants them: `motion` (2N, P) holds headings, then turning rates; with four
more rows, x and y of the place of the centre of mass of the whole chain, and of its velocity. `reciprocal` (2N, P)
holds one by the masses, then one by the inertias: forces are divided by them far more often than they are changed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from onboard_estimation.filtering.manifold_kernels import sine_cosine
from salp_estimation.thruster_chain import chain_model as m
from salp_estimation.thruster_chain.forces import Array, drag, resisted
from salp_estimation.thruster_chain.imu import along_axes, moved_to

LANES = 16

# Rows of a link's block. What it is told:
_HEADING, _RATE, _RECIPROCAL, _TURNED_BY, _MASS = range(0, 5 * LANES, LANES)
# Its motion at the start of an integration step, and what the slopes add up to.
_OLD_HEADING, _OLD_RATE, _SUM_HEADING, _SUM_RATE = range(5 * LANES, 9 * LANES, LANES)
# Cosine and sine of the heading, velocity; acceleration and turning by external forces alone.
_COSINE, _SINE, _VX, _VY, _FREE_X, _FREE_Y, _FREE_TURN = range(9 * LANES, 16 * LANES, LANES)
# Pins, turned by a right angle; how the pin ahead would accelerate without joints.
_BX, _BY, _HX, _HY, _AHEAD_X, _AHEAD_Y = range(16 * LANES, 22 * LANES, LANES)
# The joint behind: its force, and how that changes with the next joint's; the link's acceleration and turning.
_JX, _JY, _XX, _XY, _YX, _YY, _AX, _AY, _TURN = range(22 * LANES, 31 * LANES, LANES)
_LINK = 31 * LANES

# Rows of the chain as a whole: velocity of its centre of mass, its acceleration, total mass, a sum.
_WHOLE_VX, _WHOLE_VY, _WHOLE_AX, _WHOLE_AY, _TOTAL, _PIN_X, _PIN_Y = range(0, 7 * LANES, LANES)
_X, _Y, _OLD_VX, _OLD_VY, _SUM_X, _SUM_Y, _SUM_VX, _SUM_VY = range(7 * LANES, 15 * LANES, LANES)
_WHOLE = 15 * LANES


@njit(cache=True, error_model="numpy")
def propagate(
    links: Array,
    gravity: Array,
    pivoted: bool,
    reciprocal: Array,
    motion: Array,
    thrust: Array,
    duration: float,
    longest_step: float,
) -> None:
    """Move all states by `duration` seconds under constant thrust: Runge and Kutta's fourth order, in place.

    Parameters
    ----------
    links, gravity, pivoted
        Of the `ChainModel`.
    reciprocal, motion
        (2N, P) and (2N or 2N + 4, P), see above.
    thrust
        (N,) N.
    longest_step
        Longest integration step, s.
    """
    n, points = links.shape[0], motion.shape[1]
    steps = max(1, int(np.ceil(duration / longest_step - 1e-9)))
    h = duration / steps
    blocks, whole = np.zeros((n + 2) * _LINK), np.zeros(_WHOLE)
    for first in range(0, points, LANES):
        count = min(LANES, (points - first + 7) // 8 * 8)
        _load(n, reciprocal, motion, first, count, blocks, whole)
        for _ in range(steps):
            _begin(n, count, blocks, whole)
            for weight, ahead in ((1.0, 0.5 * h), (2.0, 0.5 * h), (2.0, h), (1.0, 0.0)):
                _push_links(links, gravity, pivoted, True, count, thrust, blocks, whole)
                _move_links(n, count, weight, ahead, blocks, whole)
            _finish(n, count, h / 6.0, blocks, whole)
        _store(n, motion, first, blocks, whole)


@njit(cache=True, error_model="numpy")
def read_imus(
    physical: bool,
    links: Array,
    gravity: Array,
    pivoted: bool,
    reciprocal: Array,
    motion: Array,
    thrust: Array,
    readings: Array,
) -> None:
    """Into `readings` (3N, P) those of all links, one link after the other; see `propagate` and `imu.imu_readings`."""
    n, points = links.shape[0], motion.shape[1]
    joined = physical
    for i in range(n):
        joined = joined or links[i, m.IMU_X] != 0.0 or links[i, m.IMU_Y] != 0.0
    blocks, whole = np.zeros((n + 2) * _LINK), np.zeros(_WHOLE)
    for first in range(0, points, LANES):
        count = min(LANES, (points - first + 7) // 8 * 8)
        kept = min(count, points - first)
        _load(n, reciprocal, motion, first, count, blocks, whole)
        _push_links(links, gravity, pivoted, joined, count, thrust, blocks, whole)
        if joined:
            _move_links(n, count, 0.0, 0.0, blocks, whole)
        for i in range(n):
            block = blocks[(i + 1) * _LINK : (i + 2) * _LINK]
            x, y = links[i, m.IMU_X], links[i, m.IMU_Y]
            cosine, sine = links[i, m.IMU_COSINE], links[i, m.IMU_SINE]
            gx, gy = gravity[0], gravity[1]
            for k in range(count):
                c, s, rate = block[_COSINE + k], block[_SINE + k], block[_RATE + k]
                if physical:
                    ax, ay = block[_AX + k] - gx, block[_AY + k] - gy
                else:
                    ax, ay = block[_FREE_X + k], block[_FREE_Y + k]
                ax, ay = moved_to(ax, ay, c, s, rate, block[_TURN + k], x, y)
                if physical:
                    ax, ay = along_axes(ax, ay, c, s, cosine, sine)
                block[_AX + k], block[_AY + k] = ax, ay
            for k in range(kept):
                readings[3 * i, first + k] = block[_AX + k]
                readings[3 * i + 1, first + k] = block[_AY + k]
                readings[3 * i + 2, first + k] = block[_RATE + k]


@njit(cache=True, error_model="numpy")
def _load(n: int, reciprocal: Array, motion: Array, first: int, count: int, blocks: Array, whole: Array) -> None:
    """Columns from `first` on into the blocks 1 to N; what is missing to `count` repeats the last one.

    Block 0 stands for the room that a pivot is fixed to: it has no reciprocal of mass, and all else in it is zero. The
    block N + 1 has no force in the joint behind it.
    """
    last = min(count, motion.shape[1] - first)
    for k in range(count):
        whole[_TOTAL + k] = 0.0
    for i in range(n):
        block = blocks[(i + 1) * _LINK : (i + 2) * _LINK]
        for k in range(last):
            block[_HEADING + k], block[_RATE + k] = motion[i, first + k], motion[n + i, first + k]
            block[_RECIPROCAL + k], block[_TURNED_BY + k] = reciprocal[i, first + k], reciprocal[n + i, first + k]
        for row in (_HEADING, _RATE, _RECIPROCAL, _TURNED_BY):
            for k in range(last, count):
                block[row + k] = block[row + last - 1]
        for k in range(count):
            block[_MASS + k] = 1.0 / block[_RECIPROCAL + k]
            whole[_TOTAL + k] += block[_MASS + k]
    if motion.shape[0] > 2 * n:
        for row, offset in enumerate((_X, _Y, _WHOLE_VX, _WHOLE_VY)):
            for k in range(count):
                whole[offset + k] = motion[2 * n + row, first + min(k, last - 1)]


@njit(cache=True, error_model="numpy")
def _store(n: int, motion: Array, first: int, blocks: Array, whole: Array) -> None:
    """The motion of the blocks into the columns from `first` on."""
    last = min(LANES, motion.shape[1] - first)
    for i in range(n):
        block = blocks[(i + 1) * _LINK : (i + 2) * _LINK]
        for k in range(last):
            motion[i, first + k], motion[n + i, first + k] = block[_HEADING + k], block[_RATE + k]
    if motion.shape[0] > 2 * n:
        for row, offset in enumerate((_X, _Y, _WHOLE_VX, _WHOLE_VY)):
            for k in range(last):
                motion[2 * n + row, first + k] = whole[offset + k]


@njit(cache=True, error_model="numpy")
def _begin(n: int, count: int, blocks: Array, whole: Array) -> None:
    """An integration step starts here."""
    for i in range(n):
        block = blocks[(i + 1) * _LINK : (i + 2) * _LINK]
        for k in range(count):
            block[_OLD_HEADING + k], block[_OLD_RATE + k] = block[_HEADING + k], block[_RATE + k]
            block[_SUM_HEADING + k] = block[_SUM_RATE + k] = 0.0
    for k in range(count):
        whole[_OLD_VX + k], whole[_OLD_VY + k] = whole[_WHOLE_VX + k], whole[_WHOLE_VY + k]
        whole[_SUM_X + k] = whole[_SUM_Y + k] = whole[_SUM_VX + k] = whole[_SUM_VY + k] = 0.0


@njit(cache=True, error_model="numpy")
def _finish(n: int, count: int, share: float, blocks: Array, whole: Array) -> None:
    """An integration step ends: from its start by the sums of the slopes."""
    for i in range(n):
        block = blocks[(i + 1) * _LINK : (i + 2) * _LINK]
        for k in range(count):
            block[_HEADING + k] = block[_OLD_HEADING + k] + share * block[_SUM_HEADING + k]
            block[_RATE + k] = block[_OLD_RATE + k] + share * block[_SUM_RATE + k]
    for k in range(count):
        whole[_X + k] += share * whole[_SUM_X + k]
        whole[_Y + k] += share * whole[_SUM_Y + k]
        whole[_WHOLE_VX + k] = whole[_OLD_VX + k] + share * whole[_SUM_VX + k]
        whole[_WHOLE_VY + k] = whole[_OLD_VY + k] + share * whole[_SUM_VY + k]


@njit(cache=True, error_model="numpy")
def _push_links(
    links: Array,
    gravity: Array,
    pivoted: bool,
    joined: bool,
    count: int,
    thrust: Array,
    blocks: Array,
    whole: Array,
) -> None:
    """From the first link to the last: external forces, and the forces in the joints as functions of the next one's.

    The latter only where they are `joined`. Into `whole` the acceleration of the centre of mass.
    """
    n = links.shape[0]
    moves = False
    for i in range(n):
        for column in range(m.DRAG_ALONG, m.JOINT_FRICTION + 1):
            moves = moves or links[i, column] > 0.0
    if moves:
        for i in range(n):
            _turn_pins(links[i], count, blocks[(i + 1) * _LINK : (i + 2) * _LINK])
        _find_velocities(n, pivoted, count, blocks, whole)
    for k in range(count):
        whole[_WHOLE_AX + k] = whole[_WHOLE_AY + k] = 0.0
    for i in range(n):
        before, block = blocks[i * _LINK : (i + 1) * _LINK], blocks[(i + 1) * _LINK : (i + 2) * _LINK]
        if not moves:
            _turn_pins(links[i], count, block)
        _push(links[i], gravity, thrust[i], count, block)
        if moves:
            after = blocks[(i + 2) * _LINK : (i + 3) * _LINK]
            _resist(links[i], links[i + 1, m.JOINT_FRICTION] if i < n - 1 else 0.0, count, before, block, after)
        for k in range(count):
            whole[_WHOLE_AX + k] += block[_MASS + k] * block[_FREE_X + k]
            whole[_WHOLE_AY + k] += block[_MASS + k] * block[_FREE_Y + k]
        if joined:
            _eliminate(i > 0 or pivoted, count, before, block)
    for k in range(count):
        whole[_WHOLE_AX + k] /= whole[_TOTAL + k]
        whole[_WHOLE_AY + k] /= whole[_TOTAL + k]


@njit(cache=True, error_model="numpy")
def _move_links(n: int, count: int, weight: float, ahead: float, blocks: Array, whole: Array) -> None:
    """From the last link to the first: forces in the joints, accelerations; with a weight, go on along the slopes.

    Slopes are added to the sums with that weight, and the motion is that at the start of the step and `ahead` seconds
    along them.
    """
    for i in range(n, 0, -1):
        block = blocks[i * _LINK : (i + 1) * _LINK]
        _substitute(count, block, blocks[(i + 1) * _LINK : (i + 2) * _LINK])
        if weight > 0.0:
            for k in range(count):
                rate, turn = block[_RATE + k], block[_TURN + k]
                block[_SUM_HEADING + k] += weight * rate
                block[_SUM_RATE + k] += weight * turn
                block[_HEADING + k] = block[_OLD_HEADING + k] + ahead * rate
                block[_RATE + k] = block[_OLD_RATE + k] + ahead * turn
    if weight > 0.0:
        for k in range(count):
            whole[_SUM_X + k] += weight * whole[_WHOLE_VX + k]
            whole[_SUM_Y + k] += weight * whole[_WHOLE_VY + k]
            whole[_SUM_VX + k] += weight * whole[_WHOLE_AX + k]
            whole[_SUM_VY + k] += weight * whole[_WHOLE_AY + k]
            whole[_WHOLE_VX + k] = whole[_OLD_VX + k] + ahead * whole[_WHOLE_AX + k]
            whole[_WHOLE_VY + k] = whole[_OLD_VY + k] + ahead * whole[_WHOLE_AY + k]


@njit(cache=True, error_model="numpy")
def _turn_pins(link: Array, count: int, block: Array) -> None:
    """Cosine and sine of the heading, and the pins turned by a right angle, in the room's frame."""
    bx, by, hx, hy = link[m.BEHIND_X], link[m.BEHIND_Y], link[m.AHEAD_X], link[m.AHEAD_Y]
    for k in range(count):
        s, c = sine_cosine(block[_HEADING + k])
        block[_COSINE + k], block[_SINE + k] = c, s
        block[_BX + k], block[_BY + k] = -(s * bx + c * by), c * bx - s * by
        block[_HX + k], block[_HY + k] = -(s * hx + c * hy), c * hx - s * hy


@njit(cache=True, error_model="numpy")
def _find_velocities(n: int, pivoted: bool, count: int, blocks: Array, whole: Array) -> None:
    """Velocities of the centres of mass of the links, from pin to pin; that of the whole is known."""
    for k in range(count):
        whole[_PIN_X + k] = whole[_PIN_Y + k] = 0.0
    for i in range(n):
        block = blocks[(i + 1) * _LINK : (i + 2) * _LINK]
        for k in range(count):
            rate = block[_RATE + k]
            vx, vy = whole[_PIN_X + k] - rate * block[_BX + k], whole[_PIN_Y + k] - rate * block[_BY + k]
            block[_VX + k], block[_VY + k] = vx, vy
            whole[_PIN_X + k], whole[_PIN_Y + k] = vx + rate * block[_HX + k], vy + rate * block[_HY + k]
    if pivoted:
        return
    for k in range(count):
        whole[_PIN_X + k] = whole[_PIN_Y + k] = 0.0
    for i in range(n):
        block = blocks[(i + 1) * _LINK : (i + 2) * _LINK]
        for k in range(count):
            share = block[_MASS + k] / whole[_TOTAL + k]
            whole[_PIN_X + k] += share * block[_VX + k]
            whole[_PIN_Y + k] += share * block[_VY + k]
    for i in range(n):
        block = blocks[(i + 1) * _LINK : (i + 2) * _LINK]
        for k in range(count):
            block[_VX + k] += whole[_WHOLE_VX + k] - whole[_PIN_X + k]
            block[_VY + k] += whole[_WHOLE_VY + k] - whole[_PIN_Y + k]


@njit(cache=True, error_model="numpy")
def _push(link: Array, gravity: Array, thrust: float, count: int, block: Array) -> None:
    """Acceleration and turning by thrust and gravity."""
    ux, uy, arm = thrust * link[m.THRUST_X], thrust * link[m.THRUST_Y], thrust * link[m.THRUST_ARM]
    gx, gy = gravity[0], gravity[1]
    for k in range(count):
        c, s, reciprocal = block[_COSINE + k], block[_SINE + k], block[_RECIPROCAL + k]
        block[_FREE_X + k] = gx + reciprocal * (c * ux - s * uy)
        block[_FREE_Y + k] = gy + reciprocal * (s * ux + c * uy)
        block[_FREE_TURN + k] = block[_TURNED_BY + k] * arm


@njit(cache=True, error_model="numpy")
def _resist(link: Array, next_friction: float, count: int, before: Array, block: Array, after: Array) -> None:
    """Add what drag and the friction of both joints do; a link before the first, and after the last, does not turn."""
    along, across, turning = link[m.DRAG_ALONG], link[m.DRAG_ACROSS], link[m.DRAG_TURNING]
    quadratic_along, quadratic_across = link[m.QUADRATIC_ALONG], link[m.QUADRATIC_ACROSS]
    quadratic_turning, friction = link[m.QUADRATIC_TURNING], link[m.JOINT_FRICTION]
    for k in range(count):
        c, s, rate = block[_COSINE + k], block[_SINE + k], block[_RATE + k]
        vx, vy, reciprocal = block[_VX + k], block[_VY + k], block[_RECIPROCAL + k]
        fx, fy = drag(c, s, vx, vy, along, across, quadratic_along, quadratic_across)
        torque = resisted(rate, turning, quadratic_turning)
        torque += friction * (before[_RATE + k] - rate) + next_friction * (after[_RATE + k] - rate)
        block[_FREE_X + k] += reciprocal * fx
        block[_FREE_Y + k] += reciprocal * fy
        block[_FREE_TURN + k] += block[_TURNED_BY + k] * torque


@njit(cache=True, error_model="numpy")
def _eliminate(is_joined: bool, count: int, before: Array, block: Array) -> None:
    """The force in the joint behind a link as a function of the next joint's; see `dynamics.accelerate`."""
    for k in range(count):
        ax, ay, turn = block[_FREE_X + k], block[_FREE_Y + k], block[_FREE_TURN + k]
        square = block[_RATE + k] * block[_RATE + k]
        hx, hy = block[_HX + k], block[_HY + k]
        # A pin at (x, y), of which (-y, x) is kept, accelerates by turn (-y, x) - square (x, y) more than the centre.
        block[_AHEAD_X + k] = ax + turn * hx - square * hy
        block[_AHEAD_Y + k] = ay + turn * hy + square * hx
    if not is_joined:
        for k in range(count):
            block[_JX + k] = block[_JY + k] = 0.0
            block[_XX + k] = block[_XY + k] = block[_YX + k] = block[_YY + k] = 0.0
        return
    for k in range(count):
        im, ij, bx, by = block[_RECIPROCAL + k], block[_TURNED_BY + k], block[_BX + k], block[_BY + k]
        pm, pj, px, py = before[_RECIPROCAL + k], before[_TURNED_BY + k], before[_HX + k], before[_HY + k]
        turn, square = block[_FREE_TURN + k], block[_RATE + k] * block[_RATE + k]
        rx = before[_AHEAD_X + k] - (block[_FREE_X + k] + turn * bx - square * by)
        ry = before[_AHEAD_Y + k] - (block[_FREE_Y + k] + turn * by + square * bx)
        dxx = im + pm + ij * bx * bx + pj * px * px
        dxy = ij * bx * by + pj * px * py
        dyy = im + pm + ij * by * by + pj * py * py
        # The joint before, through the link before: what is left of both sides is symmetric again.
        jqx, jqy = pj * before[_BX + k], pj * before[_BY + k]
        lxx, lxy, lyx, lyy = -pm - px * jqx, -px * jqy, -py * jqx, -pm - py * jqy
        rx -= lxx * before[_JX + k] + lxy * before[_JY + k]
        ry -= lyx * before[_JX + k] + lyy * before[_JY + k]
        dxx -= lxx * before[_XX + k] + lxy * before[_YX + k]
        dxy -= lxx * before[_XY + k] + lxy * before[_YY + k]
        dyy -= lyx * before[_XY + k] + lyy * before[_YY + k]
        share = 1.0 / (dxx * dyy - dxy * dxy)
        ixx, ixy, iyy = share * dyy, -share * dxy, share * dxx
        block[_JX + k], block[_JY + k] = ixx * rx + ixy * ry, ixy * rx + iyy * ry
        jhx, jhy = ij * block[_HX + k], ij * block[_HY + k]
        uxx, uxy, uyx, uyy = -im - bx * jhx, -bx * jhy, -by * jhx, -im - by * jhy
        block[_XX + k], block[_XY + k] = ixx * uxx + ixy * uyx, ixx * uxy + ixy * uyy
        block[_YX + k], block[_YY + k] = ixy * uxx + iyy * uyx, ixy * uxy + iyy * uyy


@njit(cache=True, error_model="numpy")
def _substitute(count: int, block: Array, after: Array) -> None:
    """The force in the joint behind a link, with the next joint's; then what the link does under both."""
    for k in range(count):
        nx, ny = after[_JX + k], after[_JY + k]
        jx = block[_JX + k] - block[_XX + k] * nx - block[_XY + k] * ny
        jy = block[_JY + k] - block[_YX + k] * nx - block[_YY + k] * ny
        block[_JX + k], block[_JY + k] = jx, jy
        torque = block[_BX + k] * jx + block[_BY + k] * jy - block[_HX + k] * nx - block[_HY + k] * ny
        block[_AX + k] = block[_FREE_X + k] + block[_RECIPROCAL + k] * (jx - nx)
        block[_AY + k] = block[_FREE_Y + k] + block[_RECIPROCAL + k] * (jy - ny)
        block[_TURN + k] = block[_FREE_TURN + k] + block[_TURNED_BY + k] * torque
