"""A soft segment that bends to an arc of a circle: constant curvature, with stretch; its shape, masses and stiffness.

Coordinates are q = (bx, by, dL): bending towards the base's x and y (rad, about its y and minus x axes), elongation.
With x = bx^2 + by^2, the squared bending angle, all that is needed are the Stumpff functions
c_k(x) = sum_j (-x)^j / (2j + k)!, which are smooth at x = 0: c_0 = cos sqrt x, c_1 = sin sqrt x / sqrt x,
c_2 = (1 - cos sqrt x) / x. The papers' f2 is c_1 and their f1 is c_2. With

    c_k = 1 / k! - x c_{k+2},    c_k' = (k c_{k+2} - c_{k+1}) / 2

two series, for c_5 and c_6, give all others and all derivatives: no division by x, no branch, no digits lost.

Mass sits in points, each at a fraction of the segment's length and an offset beyond it along the tangent there: the
rows (fraction, offset m, mass kg) of `points` (n, 3). In compiled functions a segment is an array `segment` (7,), see
the offsets below; a state is (bx, by, dL, and their rates), (6,). A state outside the domain (bending beyond
MAXIMUM_BENDING_RAD, no length left) has no acceleration: NaN, which a filter sees and weighs as impossible.

How it moves under pressures, and what it puts on its base, has `grey_box`. The paper's text holds no equations of this
model; they follow Mehl et al. (ICRA 2024) in the choice of q, and MODELS section 4. Left there on purpose: the mass may
lie along the backbone as well as at the tip, for a segment of rubber is as heavy as its plate; and loads are of the
robot on its base, as a force-torque sensor reads them (the papers' reaction of the base has the other sign).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Matrix, Vector

Array = NDArray[np.float64]
Three = tuple[float, float, float]

LENGTH, GRAVITY, DAMPING = 0, 1, 4
MOTION = 15
"""Numbers of a point's motion: place, Jacobian by rows, Jdot qdot."""

MAXIMUM_BENDING_RAD = 2.0 * np.pi
"""Where the series hold to rounding; a segment bent to a full circle has a singular Jacobian, too."""

# Columns of what moves at once (`accelerate`), each of so many numbers side by side: a processor's vectors take them
# together, which they do only where loops are this plain, and offsets into one array are known when it is compiled.
LANES = 8
LOAD, FORCES, MASSES, COLUMNS = 14, 17, 20, 26
"""Behind a state's six: what hangs at the first point, kg; generalised forces, then accelerations; six that it uses.
What lies between is the caller's."""

# Coefficients of c_5 and c_6 as polynomials in x: even and odd powers are summed apart, from the highest, so that a
# processor works at four sums at once and need not wait for each.
_TERMS = 9


def _coefficients(first: int, sign: float) -> tuple[float, ...]:
    """sign / (4j + first)!, highest power first."""
    return tuple(sign / math.factorial(4 * j + first) for j in reversed(range(_TERMS)))


_EVEN_5, _ODD_5 = _coefficients(5, 1.0), _coefficients(7, -1.0)
_EVEN_6, _ODD_6 = _coefficients(6, 1.0), _coefficients(8, -1.0)


@njit(forceinline=True, error_model="numpy", fastmath={"contract"})
def _polynomial(c: tuple[float, ...], x: float) -> float:
    """Written out: a loop in it would keep the loop over lanes from being one of vectors."""
    high = ((((c[0] * x + c[1]) * x + c[2]) * x + c[3]) * x + c[4]) * x + c[5]
    return ((high * x + c[6]) * x + c[7]) * x + c[8]


@njit(forceinline=True, error_model="numpy", fastmath={"contract"})
def stumpff(x: float) -> tuple[float, float, float, float, float, float, float]:
    """c_0 to c_6 at x, the squared bending angle: to 1e-15 up to 180 degrees, to 3e-14 up to MAXIMUM_BENDING_RAD."""
    square = x * x
    c5 = _polynomial(_EVEN_5, square) + x * _polynomial(_ODD_5, square)
    c6 = _polynomial(_EVEN_6, square) + x * _polynomial(_ODD_6, square)
    c4 = 1.0 / 24.0 - x * c6
    c3 = 1.0 / 6.0 - x * c5
    c2 = 0.5 - x * c4
    c1 = 1.0 - x * c3
    return 1.0 - x * c2, c1, c2, c3, c4, c5, c6


@njit(forceinline=True, error_model="numpy", fastmath={"contract"})
def point_motion(
    length_m: float, fraction: float, offset: float, q: Three, rates: Three
) -> tuple[Three, tuple[Three, Three, Three], Three]:
    """Position of a point, rows of its Jacobian in q, and Jdot qdot, all in the base's frame.

    Up to the point the segment is bent by b = fraction q[:2] and is m = fraction (L0 + dL) long. The point lies at
    (b_x G, b_y G, H), G = m c_2 + h c_1 and H = m c_1 + h c_0 at u = b^2, with h its offset along the tangent.
    """
    bx, by, length = fraction * q[0], fraction * q[1], fraction * (length_m + q[2])
    vx, vy, stretching = fraction * rates[0], fraction * rates[1], fraction * rates[2]
    c0, c1, c2, c3, c4, c5, c6 = stumpff(bx * bx + by * by)
    # First and second derivatives in u
    c1_u, c2_u = 0.5 * (c3 - c2), c4 - 0.5 * c3
    c0_uu, c1_uu, c2_uu = -0.5 * c1_u, 0.75 * (c5 - c4) + 0.25 * c3, 2.0 * c6 - 1.25 * c5 + 0.25 * c4
    g, g_u, g_uu = length * c2 + offset * c1, length * c2_u + offset * c1_u, length * c2_uu + offset * c1_uu
    h, h_u, h_uu = length * c1 + offset * c0, length * c1_u - 0.5 * offset * c1, length * c1_uu + offset * c0_uu
    jacobian = (
        (fraction * (g + 2.0 * bx * bx * g_u), fraction * 2.0 * bx * by * g_u, fraction * bx * c2),
        (fraction * 2.0 * bx * by * g_u, fraction * (g + 2.0 * by * by * g_u), fraction * by * c2),
        (fraction * 2.0 * bx * h_u, fraction * 2.0 * by * h_u, fraction * c1),
    )
    u_rate, u_rate_rate = 2.0 * (bx * vx + by * vy), 2.0 * (vx * vx + vy * vy)
    g_rate = g_u * u_rate + stretching * c2
    g_rate_rate = g_uu * u_rate * u_rate + g_u * u_rate_rate + 2.0 * stretching * c2_u * u_rate
    h_rate_rate = h_uu * u_rate * u_rate + h_u * u_rate_rate + 2.0 * stretching * c1_u * u_rate
    convective = (2.0 * vx * g_rate + bx * g_rate_rate, 2.0 * vy * g_rate + by * g_rate_rate, h_rate_rate)
    return (bx * g, by * g, h), jacobian, convective


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def accelerate(segment: Array, points: Array, lanes: Array) -> None:
    """Of LANES states: sum_i m_i J_i^T (J_i qdd + Jdot_i qdot - g) = forces, in `lanes` (at least COLUMNS LANES,).

    Its columns begin with q and rates. Forces become accelerations.
    """
    length, gx, gy, gz = segment[LENGTH], segment[GRAVITY], segment[GRAVITY + 1], segment[GRAVITY + 2]
    lanes[MASSES * LANES : COLUMNS * LANES] = 0.0
    for i in range(points.shape[0]):
        fraction, offset, own_mass, hung = points[i, 0], points[i, 1], points[i, 2], 1.0 if i == 0 else 0.0
        for k in range(LANES):
            q = lanes[k], lanes[LANES + k], lanes[2 * LANES + k]
            rates = lanes[3 * LANES + k], lanes[4 * LANES + k], lanes[5 * LANES + k]
            mass = own_mass + hung * max(lanes[LOAD * LANES + k], 0.0)
            _, (jx, jy, jz), convective = point_motion(length, fraction, offset, q, rates)
            fx, fy, fz = mass * (gx - convective[0]), mass * (gy - convective[1]), mass * (gz - convective[2])
            lanes[FORCES * LANES + k] += jx[0] * fx + jy[0] * fy + jz[0] * fz
            lanes[(FORCES + 1) * LANES + k] += jx[1] * fx + jy[1] * fy + jz[1] * fz
            lanes[(FORCES + 2) * LANES + k] += jx[2] * fx + jy[2] * fy + jz[2] * fz
            lanes[MASSES * LANES + k] += mass * (jx[0] * jx[0] + jy[0] * jy[0] + jz[0] * jz[0])
            lanes[(MASSES + 1) * LANES + k] += mass * (jx[0] * jx[1] + jy[0] * jy[1] + jz[0] * jz[1])
            lanes[(MASSES + 2) * LANES + k] += mass * (jx[0] * jx[2] + jy[0] * jy[2] + jz[0] * jz[2])
            lanes[(MASSES + 3) * LANES + k] += mass * (jx[1] * jx[1] + jy[1] * jy[1] + jz[1] * jz[1])
            lanes[(MASSES + 4) * LANES + k] += mass * (jx[1] * jx[2] + jy[1] * jy[2] + jz[1] * jz[2])
            lanes[(MASSES + 5) * LANES + k] += mass * (jx[2] * jx[2] + jy[2] * jy[2] + jz[2] * jz[2])
    # Solved by the factors L D L^T of the mass matrix, elongation last.
    for k in range(LANES):
        squared = lanes[k] * lanes[k] + lanes[LANES + k] * lanes[LANES + k]
        inside = (squared <= MAXIMUM_BENDING_RAD * MAXIMUM_BENDING_RAD) & (length + lanes[2 * LANES + k] > 0.0)
        m00, m01, m02 = lanes[MASSES * LANES + k], lanes[(MASSES + 1) * LANES + k], lanes[(MASSES + 2) * LANES + k]
        r0, r1 = lanes[FORCES * LANES + k], lanes[(FORCES + 1) * LANES + k]
        l10, l20 = m01 / m00, m02 / m00
        d1 = lanes[(MASSES + 3) * LANES + k] - l10 * m01
        l21 = (lanes[(MASSES + 4) * LANES + k] - l20 * m01) / d1
        d2 = lanes[(MASSES + 5) * LANES + k] - l20 * m02 - l21 * l21 * d1
        y1 = r1 - l10 * r0
        a2 = (lanes[(FORCES + 2) * LANES + k] - l20 * r0 - l21 * y1) / d2
        a1 = y1 / d1 - l21 * a2
        lanes[FORCES * LANES + k] = r0 / m00 - l10 * a1 - l20 * a2 if inside else np.nan
        lanes[(FORCES + 1) * LANES + k] = a1 if inside else np.nan
        lanes[(FORCES + 2) * LANES + k] = a2 if inside else np.nan


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _accelerations(
    segment: Array, points: Array, states: Array, actuation: Array, stiffness: Array, out: Array
) -> None:
    """Of states (K, 6) under actuation - stiffness q - damping qdot, into `out` (K, 3)."""
    lanes = np.zeros(COLUMNS * LANES)
    for first in range(0, states.shape[0], LANES):
        count = min(LANES, states.shape[0] - first)
        for k in range(LANES):
            place = first + min(k, count - 1)
            state, held_by = states[place], stiffness[min(place, len(stiffness) - 1)]
            for i in range(6):
                lanes[i * LANES + k] = state[i]
            for i in range(3):
                held = held_by[i] * state[i] + segment[DAMPING + i] * state[3 + i]
                lanes[(FORCES + i) * LANES + k] = actuation[i] - held
        accelerate(segment, points, lanes)
        for k in range(count):
            for i in range(3):
                out[first + k, i] = lanes[(FORCES + i) * LANES + k]


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def locate(segment: Array, fraction: float, offset: float, states: Array, motions: Array) -> None:
    """Motions of one point, see MOTION, into `motions` (K, MOTION)."""
    for k in range(states.shape[0]):
        state = states[k]
        position, (jx, jy, jz), convective = point_motion(
            segment[LENGTH], fraction, offset, (state[0], state[1], state[2]), (state[3], state[4], state[5])
        )
        for j in range(3):
            motions[k, j], motions[k, 12 + j] = position[j], convective[j]
            motions[k, 3 + j], motions[k, 6 + j], motions[k, 9 + j] = jx[j], jy[j], jz[j]


_INVERSION_STEPS = 8


@dataclass(frozen=True)
class ConstantCurvatureSegment:
    """One segment; q = (bx, by, dL), rad and m, and its rates are a state (6,).

    Every method takes one state (6,) or a batch (K, 6), and gives one row or K; a batch is, to the last bit, what its
    states give alone. Frames: the base's origin is where the segment starts, its z runs along the straight segment.
    """

    length_m: float
    """Of the unloaded segment, L0."""
    tip_mass_kg: float
    """A point on the tangent at the segment's end, `tip_mass_offset_m` beyond it."""
    bending_stiffness_n_m_per_rad: float
    elongation_stiffness_n_m: float
    gravity_m_s2: tuple[float, float, float]
    """In the base's frame: (0, 0, 9.81) hanging, (0, 0, -9.81) upright."""
    damping: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Viscous, along bx, by (N m s/rad) and dL (N s/m)."""
    tip_mass_offset_m: float = 0.0
    backbone_mass_kg: float = 0.0
    """Spread evenly along the segment's length, and stretched with it."""
    backbone_points: int = 4
    """Gauss-Legendre points that stand for the spread mass: 4 give accelerations to 3e-5 up to 180 degrees."""

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """Compiled functions' `segment` (7,) and `points` (n, 3)."""
        segment = np.array([self.length_m, *self.gravity_m_s2, *self.damping])
        points = [[1.0, self.tip_mass_offset_m, self.tip_mass_kg]] if self.tip_mass_kg > 0.0 else []
        if self.backbone_mass_kg > 0.0:
            places, weights = np.polynomial.legendre.leggauss(self.backbone_points)
            points += [
                [0.5 * (1.0 + x), 0.0, 0.5 * w * self.backbone_mass_kg] for x, w in zip(places, weights, strict=True)
            ]
        return segment, np.array(points)

    @property
    def stiffness(self) -> Array:
        """(3,) along q."""
        bending = self.bending_stiffness_n_m_per_rad
        return np.array([bending, bending, self.elongation_stiffness_n_m])

    def position(self, states: ArrayLike, fraction: float = 1.0, offset_m: float = 0.0) -> Array:
        """(3,) or (K, 3): of the backbone at a fraction of its length, or `offset_m` beyond on the tangent; m."""
        return self._located(states, fraction, offset_m)[..., :3]

    def jacobian(self, states: ArrayLike, fraction: float = 1.0, offset_m: float = 0.0) -> tuple[Array, Array]:
        """J = dp/dq (3, 3) or (K, 3, 3) of that position, and Jdot qdot (3,) or (K, 3), m/s^2."""
        out = self._located(states, fraction, offset_m)
        return out[..., 3:12].reshape(*out.shape[:-1], 3, 3), out[..., 12:]

    def accelerations(self, states: ArrayLike, actuation: ArrayLike, stiffness: ArrayLike) -> Array:
        """Second rates of q (3,) or (K, 3) under generalised forces (3,), held by stiffness (3,) or (K, 3) along q.

        NaN outside the model's domain.
        """
        array, held = (np.asarray(one, dtype=np.float64) for one in (states, stiffness))
        out = np.empty((*array.shape[:-1], 3))
        pushed = np.asarray(actuation, dtype=np.float64)
        _accelerations(*self.arrays, np.atleast_2d(array), pushed, *np.atleast_2d(held, out))
        return out

    def _located(self, states: ArrayLike, fraction: float, offset_m: float) -> Array:
        """(MOTION,) or (K, MOTION), see MOTION."""
        array = np.asarray(states, dtype=np.float64)
        out = np.empty((*array.shape[:-1], MOTION))
        locate(self.arrays[0], fraction, offset_m, np.atleast_2d(array), np.atleast_2d(out))
        return out


def tip_quaternion_xyzw(states: ArrayLike) -> Array:
    """(4,) or (K, 4): from the tip's axes, which are the base's where the segment is straight, to the base's.

    There is no twist about the backbone.
    """
    x, y = 0.5 * np.asarray(states, dtype=np.float64)[..., :2].T
    angle = np.hypot(x, y)
    share = np.sinc(angle / np.pi)
    return np.stack([-share * y, share * x, np.zeros_like(angle), np.cos(angle)], axis=-1)


def with_damping_ratios(segment: ConstantCurvatureSegment, bending: float, axial: float) -> ConstantCurvatureSegment:
    """The segment with those shares of critical damping, by its stiffness, where it is straight."""
    straight, inertia = np.zeros(6), np.zeros(3)
    for fraction, offset_m, mass_kg in segment.arrays[1].tolist():
        inertia += mass_kg * (segment.jacobian(straight, fraction, offset_m)[0] ** 2).sum(axis=0)
    ratios = np.array([bending, bending, axial])
    x, y, elongation = (2.0 * ratios * np.sqrt(segment.stiffness * inertia)).tolist()
    return replace(segment, damping=(x, y, elongation))


def coordinates_of_tip(segment: ConstantCurvatureSegment, positions: Matrix, offset_m: float) -> Matrix:
    """q (K, 3) of the arcs that end `offset_m` before the places (K, 3), on the tangent there.

    Bent by less than 180 degrees. An arc from the origin, z at its start, is turned at its end by twice the angle of
    its chord. The offset is taken off along the tangent of the last round, which leaves a share offset / length of the
    error each time.
    """
    across = np.hypot(positions[:, 0], positions[:, 1])
    along, bending = positions[:, 2], np.zeros(len(positions))
    for _ in range(_INVERSION_STEPS):
        end_across, end_along = across - offset_m * np.sin(bending), along - offset_m * np.cos(bending)
        bending = 2.0 * np.arctan2(end_across, end_along)
    chord = np.hypot(across - offset_m * np.sin(bending), along - offset_m * np.cos(bending))
    length = chord / np.sinc(0.5 * bending / np.pi)  # chord = length sin(t / 2) / (t / 2)
    scale = np.divide(bending, across, out=np.zeros_like(across), where=across > 0.0)
    q: Matrix = np.column_stack([scale[:, None] * positions[:, :2], length - segment.length_m])
    return q


def state_of_tip(
    segment: ConstantCurvatureSegment, place: Vector, velocity: Vector, offset_m: float
) -> tuple[Vector, Matrix]:
    """State (6,) with a point `offset_m` beyond the end at a place (3,), of that velocity; its Jacobian there."""
    state = np.zeros(6)
    state[:3] = coordinates_of_tip(segment, place[None], offset_m)[0]
    jacobian, _ = segment.jacobian(state, offset_m=offset_m)
    state[3:] = np.linalg.solve(jacobian, velocity)
    return state, jacobian
