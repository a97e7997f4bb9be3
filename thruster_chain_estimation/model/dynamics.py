"""How a planar chain of rigid links moves and what its IMUs read: one definition, for many states side by side.

Each link is a rigid body with a mass, an inertia about its centre of mass, and two pins: `behind`, towards the link
before it, and `ahead`, towards the next. Vectors from the centre of mass to the pins are fixed in the link's frame, so
centres of mass may lie anywhere. Thrusters are the only external forces. With F_k the force that joint k exerts on link
k (and -F_k on link k - 1),

    m_i a_i = f_i + F_i - F_{i+1},    j_i alpha_i = t_i + b_i x F_i - h_i x F_{i+1},

and both links of a joint accelerate alike where it holds them. The forces solve a block-tridiagonal system of 2 x 2
blocks: O(N). It gives the accelerations of equation (11) of `multilink_inertial_parameters` (Andrews and Morgansen,
"Modeling, observability, and inertial parameter estimation of a planar multi-link system with thrusters") and, beside
them, the true acceleration of each link, which the paper's equation (21) leaves out.

What IMUs read has two models. `paper` is equations (21), (32) and (33): the acceleration that the external forces alone
would give the link, in the room's frame. It leaves out the forces in the joints, which no accelerometer does: it is
there for comparison with the paper's figures, and fails on data of real sensors. `physical` is the specific force at
the IMU's place on the link, along the link's axes. It is the same whatever the room's x is: the heading of a chain
that floats on a level plane cannot be seen in it, only differences of headings.

Numbers are floats (states, sigma points); complex, where an imaginary part of 1e-30 gives exact derivatives; or,
outside of compiled code, a `jets.Jet`, for mixed ones. Up to LANES states are solved side by side: every quantity is a
row with one number a state, and the innermost loops run along these rows, which the compiler turns into vector
instructions. It does so only where it sees that rows do not overlap: hence one flat scratch array with a block of rows
for each link, and slices of it taken outside the loops (as in `salp_estimation.model.chain_kernels`).

States are columns, as a filter's algebra wants them: `motion` (2N, P) holds headings, then turning rates; with four
more rows, x and y of the place of the centre of mass of the whole chain, and of its velocity. `given` (3N, P) holds one
by the masses, one by the inertias (forces are divided by them far more often than they are changed), and the thrusts.
What is fixed of a chain are its `links` (N, COLUMNS), see `rods`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload, register_jitable
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.filtering.manifold_kernels import sine_cosine

Array = NDArray[np.float64]
Number = Any
"""float, complex or Jet."""
Numbers = NDArray[Any]

# Columns of links; places are seen from the centre of mass, in the link's frame, m.
BEHIND_X, BEHIND_Y, AHEAD_X, AHEAD_Y = range(4)
THRUST_X, THRUST_Y, THRUST_ARM = range(4, 7)  # force and torque of a thrust of one newton
IMU_X, IMU_Y = 7, 8
COLUMNS = 9

LANES = 16

# Rows of a link's block. What it is told:
HEADING, RATE, RECIPROCAL, TURNED_BY, THRUST, MASS = range(0, 6 * LANES, LANES)
# Cosine and sine of the heading; acceleration and turning by external forces alone.
COSINE, SINE, FREE_X, FREE_Y, FREE_TURN = range(6 * LANES, 11 * LANES, LANES)
# Pins, turned by a right angle; how the pin ahead would accelerate without joints.
BX, BY, HX, HY, _AHEAD_X, _AHEAD_Y = range(11 * LANES, 17 * LANES, LANES)
# The joint behind: its force, and how that changes with the next joint's; the link's acceleration and turning.
JX, JY, _XX, _XY, _YX, _YY, AX, AY, TURN = range(17 * LANES, 26 * LANES, LANES)
LINK = 33 * LANES  # not 32: blocks 4 KiB apart share the lines of a cache

# Rows of the chain as a whole: acceleration of its centre of mass, total mass.
WHOLE_AX, WHOLE_AY, _TOTAL = range(0, 3 * LANES, LANES)
WHOLE = 3 * LANES

equation = register_jitable(error_model="numpy")
"""Of a function that is compiled where compiled code calls it, and is plain Python elsewhere."""


def rods(
    lengths_m: ArrayLike,
    thruster_angles: ArrayLike = 0.0,
    thruster_places: ArrayLike = (0.0, 0.0),
    imu_places: ArrayLike = (0.0, 0.0),
) -> Array:
    """Links (N, COLUMNS) of the paper's chain: centres of mass halfway between the pins.

    Parameters
    ----------
    lengths_m
        (N,) between the pins.
    thruster_angles
        (N,) or one, from the link's x to the thrust, counter-clockwise, rad.
    thruster_places, imu_places
        (N, 2), or (2,) for all, m.
    """
    half = 0.5 * np.asarray(lengths_m, dtype=np.float64)
    links = np.zeros((len(half), COLUMNS))
    links[:, BEHIND_X], links[:, AHEAD_X] = -half, half
    links[:, THRUST_X], links[:, THRUST_Y] = np.cos(thruster_angles), np.sin(thruster_angles)
    x, y = np.asarray(thruster_places, dtype=np.float64).T
    links[:, THRUST_ARM] = x * links[:, THRUST_Y] - y * links[:, THRUST_X]
    links[:, [IMU_X, IMU_Y]] = imu_places
    return links


def sine_cosine_of(angle: Number) -> tuple[Number, Number]:
    """Of a Jet; compiled, of a float or a complex number."""
    found: tuple[Number, Number] = angle.sine_cosine()
    return found


@overload(sine_cosine_of, strict=False, jit_options={"error_model": "numpy"})
def _compiled_sine_cosine_of(angle: Any) -> Any:
    if isinstance(angle, types.Complex):
        return lambda angle: (np.sin(angle), np.cos(angle))
    return lambda angle: sine_cosine(angle)


@njit(cache=True, error_model="numpy")
def propagate(links: Array, given: Numbers, motion: Numbers, duration: float, longest_step: float) -> None:
    """Move all states by `duration` seconds: Runge and Kutta's fourth order in steps of `longest_step` at most."""
    n, points = len(links), motion.shape[1]
    steps = max(1, int(np.ceil(duration / longest_step - 1e-9)))
    h = duration / steps
    blocks, whole = np.zeros((n + 2) * LINK, motion.dtype), np.zeros(WHOLE, motion.dtype)
    for first in range(0, points, LANES):
        count, last = _lanes(points - first), min(LANES, points - first)
        load_given(n, given, first, count, blocks, whole)
        at = np.empty((len(motion), count), motion.dtype)
        for k in range(count):
            at[:, k] = motion[:, first + min(k, last - 1)]
        slope = np.empty_like(at)
        for _ in range(steps):
            before, total = at, np.zeros_like(at)
            for weight, ahead in ((1.0, 0.5 * h), (2.0, 0.5 * h), (2.0, h), (1.0, 0.0)):
                _slope(links, at, blocks, whole, slope)
                total += weight * slope
                at = before + ahead * slope
            at = before + h / 6.0 * total
        motion[:, first : first + last] = at[:, :last]


@equation
def _slope(links: Array, at: Numbers, blocks: Numbers, whole: Numbers, slope: Numbers) -> None:
    """Into `slope` how motions `at` go on, both (2N or 2N + 4, lanes), of what `load_given` has put into the blocks."""
    n, count = len(links), at.shape[1]
    load_motion(n, at, 0, count, blocks)
    push_links(links, True, count, blocks, whole)
    move_links(n, count, blocks)
    for i in range(n):
        block = blocks[(i + 1) * LINK : (i + 2) * LINK]
        for k in range(count):
            slope[i, k], slope[n + i, k] = block[RATE + k], block[TURN + k]
    if at.shape[0] > 2 * n:
        for k in range(count):
            slope[2 * n, k], slope[2 * n + 1, k] = at[2 * n + 2, k], at[2 * n + 3, k]
            slope[2 * n + 2, k], slope[2 * n + 3, k] = whole[WHOLE_AX + k], whole[WHOLE_AY + k]


@njit(cache=True, error_model="numpy")
def read_imus(physical: bool, links: Array, given: Numbers, motion: Numbers, readings: Numbers) -> None:
    """Into `readings` (3N, P) acceleration x, y (m/s^2) and turning rate (rad/s), one link after the other."""
    n, points = len(links), motion.shape[1]
    blocks, whole = np.zeros((n + 2) * LINK, motion.dtype), np.zeros(WHOLE, motion.dtype)
    for first in range(0, points, LANES):
        count = _lanes(points - first)
        load_given(n, given, first, count, blocks, whole)
        load_motion(n, motion, first, count, blocks)
        read_links(physical, links, count, blocks, whole)
        for i in range(n):
            block = blocks[(i + 1) * LINK : (i + 2) * LINK]
            for k in range(min(count, points - first)):
                readings[3 * i, first + k] = block[AX + k]
                readings[3 * i + 1, first + k] = block[AY + k]
                readings[3 * i + 2, first + k] = block[RATE + k]


@equation
def _lanes(points: int) -> int:
    """How many are solved side by side: whole vectors of the processor, as far as there are points."""
    return min(LANES, (points + 7) // 8 * 8)


@equation
def load_given(n: int, given: Numbers, first: int, count: int, blocks: Numbers, whole: Numbers) -> None:
    """Columns from `first` on into the blocks 1 to N; what is missing to `count` repeats the last one.

    Block 0 is none, and block N + 1 has no force in the joint behind it.
    """
    last = min(count, given.shape[1] - first)
    for k in range(count):
        whole[_TOTAL + k] = 0.0
    for i in range(n):
        block = blocks[(i + 1) * LINK : (i + 2) * LINK]
        for k in range(count):
            column = first + min(k, last - 1)
            block[RECIPROCAL + k], block[TURNED_BY + k] = given[i, column], given[n + i, column]
            block[THRUST + k] = given[2 * n + i, column]
            block[MASS + k] = 1.0 / block[RECIPROCAL + k]
            whole[_TOTAL + k] += block[MASS + k]


@equation
def load_motion(n: int, motion: Numbers, first: int, count: int, blocks: Numbers) -> None:
    """Headings and turning rates likewise."""
    last = min(count, motion.shape[1] - first)
    for i in range(n):
        block = blocks[(i + 1) * LINK : (i + 2) * LINK]
        for k in range(count):
            column = first + min(k, last - 1)
            block[HEADING + k], block[RATE + k] = motion[i, column], motion[n + i, column]


@equation
def push_links(links: Array, joined: bool, count: int, blocks: Numbers, whole: Numbers) -> None:
    """From the first link to the last: external forces, and the forces in the joints as functions of the next one's.

    The latter only where they are `joined`. Into `whole` the acceleration of the centre of mass.
    """
    for k in range(count):
        whole[WHOLE_AX + k] = whole[WHOLE_AY + k] = 0.0
    for i in range(len(links)):
        before, block = blocks[i * LINK : (i + 1) * LINK], blocks[(i + 1) * LINK : (i + 2) * LINK]
        _turn_pins(links[i], count, block)
        _push(links[i], count, block)
        for k in range(count):
            whole[WHOLE_AX + k] += block[MASS + k] * block[FREE_X + k]
            whole[WHOLE_AY + k] += block[MASS + k] * block[FREE_Y + k]
        if joined:
            eliminate(i > 0, count, before, block)
    for k in range(count):
        whole[WHOLE_AX + k] /= whole[_TOTAL + k]
        whole[WHOLE_AY + k] /= whole[_TOTAL + k]


@equation
def move_links(n: int, count: int, blocks: Numbers) -> None:
    """From the last link to the first: forces in the joints, and what the links do under them."""
    for i in range(n, 0, -1):
        substitute(count, blocks[i * LINK : (i + 1) * LINK], blocks[(i + 1) * LINK : (i + 2) * LINK])


@equation
def read_links(physical: bool, links: Array, count: int, blocks: Numbers, whole: Numbers) -> None:
    """In place of each link's acceleration what its IMU reads, at its place on the link: equation (20)."""
    joined = physical
    for i in range(len(links)):
        joined = joined or links[i, IMU_X] != 0.0 or links[i, IMU_Y] != 0.0
    push_links(links, joined, count, blocks, whole)
    if joined:
        move_links(len(links), count, blocks)
    for i in range(len(links)):
        block, x, y = blocks[(i + 1) * LINK : (i + 2) * LINK], links[i, IMU_X], links[i, IMU_Y]
        for k in range(count):
            c, s, turn = block[COSINE + k], block[SINE + k], block[TURN + k]
            rx, ry, square = c * x - s * y, s * x + c * y, block[RATE + k] * block[RATE + k]
            if physical:
                ax, ay = block[AX + k], block[AY + k]
            else:
                ax, ay = block[FREE_X + k], block[FREE_Y + k]
            ax, ay = ax - square * rx - turn * ry, ay - square * ry + turn * rx
            if physical:
                ax, ay = c * ax + s * ay, c * ay - s * ax
            block[AX + k], block[AY + k] = ax, ay


@equation
def _turn_pins(link: Array, count: int, block: Numbers) -> None:
    """Cosine and sine of the heading, and the pins turned by a right angle, in the room's frame."""
    bx, by, hx, hy = link[BEHIND_X], link[BEHIND_Y], link[AHEAD_X], link[AHEAD_Y]
    for k in range(count):
        s, c = sine_cosine_of(block[HEADING + k])
        block[COSINE + k], block[SINE + k] = c, s
        block[BX + k], block[BY + k] = -(s * bx + c * by), c * bx - s * by
        block[HX + k], block[HY + k] = -(s * hx + c * hy), c * hx - s * hy


@equation
def _push(link: Array, count: int, block: Numbers) -> None:
    """Acceleration and turning by thrust."""
    ux, uy, arm = link[THRUST_X], link[THRUST_Y], link[THRUST_ARM]
    for k in range(count):
        c, s, thrust = block[COSINE + k], block[SINE + k], block[THRUST + k]
        push = block[RECIPROCAL + k] * thrust
        block[FREE_X + k] = push * (c * ux - s * uy)
        block[FREE_Y + k] = push * (s * ux + c * uy)
        block[FREE_TURN + k] = block[TURNED_BY + k] * (thrust * arm)


@equation
def join(n: int, count: int, blocks: Numbers) -> None:
    """What the links do, from what they would do freely (FREE_X, FREE_Y, FREE_TURN) and how they are joined."""
    for i in range(n):
        eliminate(i > 0, count, blocks[i * LINK : (i + 1) * LINK], blocks[(i + 1) * LINK : (i + 2) * LINK])
    move_links(n, count, blocks)


@equation
def eliminate(is_joined: bool, count: int, before: Numbers, block: Numbers) -> None:
    """The force in the joint behind a link as a function of the next joint's."""
    for k in range(count):
        ax, ay, turn = block[FREE_X + k], block[FREE_Y + k], block[FREE_TURN + k]
        square = block[RATE + k] * block[RATE + k]
        hx, hy = block[HX + k], block[HY + k]
        # A pin at (x, y), of which (-y, x) is kept, accelerates by turn (-y, x) - square (x, y) more than the centre.
        block[_AHEAD_X + k] = ax + turn * hx - square * hy
        block[_AHEAD_Y + k] = ay + turn * hy + square * hx
    if not is_joined:
        for k in range(count):
            block[JX + k] = block[JY + k] = 0.0
            block[_XX + k] = block[_XY + k] = block[_YX + k] = block[_YY + k] = 0.0
        return
    for k in range(count):
        im, ij, bx, by = block[RECIPROCAL + k], block[TURNED_BY + k], block[BX + k], block[BY + k]
        pm, pj, px, py = before[RECIPROCAL + k], before[TURNED_BY + k], before[HX + k], before[HY + k]
        turn, square = block[FREE_TURN + k], block[RATE + k] * block[RATE + k]
        rx = before[_AHEAD_X + k] - (block[FREE_X + k] + turn * bx - square * by)
        ry = before[_AHEAD_Y + k] - (block[FREE_Y + k] + turn * by + square * bx)
        dxx = im + pm + ij * bx * bx + pj * px * px
        dxy = ij * bx * by + pj * px * py
        dyy = im + pm + ij * by * by + pj * py * py
        # The joint before, through the link before: what is left of both sides is symmetric again.
        jqx, jqy = pj * before[BX + k], pj * before[BY + k]
        lxx, lxy, lyx, lyy = -pm - px * jqx, -px * jqy, -py * jqx, -pm - py * jqy
        rx -= lxx * before[JX + k] + lxy * before[JY + k]
        ry -= lyx * before[JX + k] + lyy * before[JY + k]
        dxx -= lxx * before[_XX + k] + lxy * before[_YX + k]
        dxy -= lxx * before[_XY + k] + lxy * before[_YY + k]
        dyy -= lyx * before[_XY + k] + lyy * before[_YY + k]
        share = 1.0 / (dxx * dyy - dxy * dxy)
        ixx, ixy, iyy = share * dyy, -share * dxy, share * dxx
        block[JX + k], block[JY + k] = ixx * rx + ixy * ry, ixy * rx + iyy * ry
        jhx, jhy = ij * block[HX + k], ij * block[HY + k]
        uxx, uxy, uyx, uyy = -im - bx * jhx, -bx * jhy, -by * jhx, -im - by * jhy
        block[_XX + k], block[_XY + k] = ixx * uxx + ixy * uyx, ixx * uxy + ixy * uyy
        block[_YX + k], block[_YY + k] = ixy * uxx + iyy * uyx, ixy * uxy + iyy * uyy


@equation
def substitute(count: int, block: Numbers, after: Numbers) -> None:
    """The force in the joint behind a link, with the next joint's; then what the link does under both."""
    for k in range(count):
        nx, ny = after[JX + k], after[JY + k]
        jx = block[JX + k] - block[_XX + k] * nx - block[_XY + k] * ny
        jy = block[JY + k] - block[_YX + k] * nx - block[_YY + k] * ny
        block[JX + k], block[JY + k] = jx, jy
        torque = block[BX + k] * jx + block[BY + k] * jy - block[HX + k] * nx - block[HY + k] * ny
        block[AX + k] = block[FREE_X + k] + block[RECIPROCAL + k] * (jx - nx)
        block[AY + k] = block[FREE_Y + k] + block[RECIPROCAL + k] * (jy - ny)
        block[TURN + k] = block[FREE_TURN + k] + block[TURNED_BY + k] * torque
