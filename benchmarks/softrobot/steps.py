"""Speed of the marginalised particle filter of a soft segment against the same in NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import Array, Row, case, interleaved, runge_kutta
from onboard_estimation.filtering.marginalized_particles import (
    Cloud,
    MarginalizedParticleFilter,
    ParticleFilterSettings,
    UnknownFunction,
)
from onboard_estimation.filtering.normal_inverse_gamma import FOLDED_LOSSES
from onboard_estimation.filtering.particle_weights import Draws
from onboard_estimation.filtering.walking_prior import HyperParameterWalk
from onboard_estimation.learning.reduced_rank import ReducedRankBasis
from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment

_C5, _C6 = ([(-1) ** j / factorial(2 * j + first) for j in range(9)][::-1] for first in (5, 6))


class NumpySegment:
    """The equations of `curvature_kernels` for a mass at the tip, as sums over columns of all particles."""

    def __init__(self, segment: ConstantCurvatureSegment) -> None:
        self.segment, self.gravity = segment, segment.gravity_m_s2

    def _motion(self, states: Array, forces: Array, stiffness: Array) -> tuple[list[Array], tuple[Array, ...], Any]:
        """Second rates of q, the tip's position, and its acceleration."""
        segment, mass = self.segment, self.segment.tip_mass_kg
        bx, by, stretch, *rates = states.T
        length, (vx, vy, v) = segment.length_m + stretch, rates
        x = bx * bx + by * by
        c5, c6 = np.full_like(x, _C5[0]), np.full_like(x, _C6[0])
        for a, b in zip(_C5[1:], _C6[1:], strict=True):
            c5, c6 = c5 * x + a, c6 * x + b
        c4, c3 = 1.0 / 24.0 - x * c6, 1.0 / 6.0 - x * c5
        c2, c1 = 0.5 - x * c4, 1.0 - x * c3
        c1_u, c2_u = 0.5 * (c3 - c2), c4 - 0.5 * c3
        c1_uu, c2_uu = 0.75 * (c5 - c4) + 0.25 * c3, 2.0 * c6 - 1.25 * c5 + 0.25 * c4
        g, g_u, h_u = length * c2, length * c2_u, length * c1_u
        jacobian = (
            (g + 2.0 * bx * bx * g_u, 2.0 * bx * by * g_u, bx * c2),
            (2.0 * bx * by * g_u, g + 2.0 * by * by * g_u, by * c2),
            (2.0 * bx * h_u, 2.0 * by * h_u, c1),
        )
        u_rate, u_rate_rate = 2.0 * (bx * vx + by * vy), 2.0 * (vx * vx + vy * vy)
        g_rate = g_u * u_rate + v * c2
        g_rate_rate = length * c2_uu * u_rate**2 + g_u * u_rate_rate + 2.0 * v * c2_u * u_rate
        h_rate_rate = length * c1_uu * u_rate**2 + h_u * u_rate_rate + 2.0 * v * c1_u * u_rate
        convective = (2.0 * vx * g_rate + bx * g_rate_rate, 2.0 * vy * g_rate + by * g_rate_rate, h_rate_rate)
        pull = [mass * (self.gravity[i] - convective[i]) for i in range(3)]
        r = [
            forces[i]
            - (stiffness if i < 2 else segment.elongation_stiffness_n_m) * states[:, i]
            - segment.damping[i] * rates[i]
            + sum(jacobian[row][i] * pull[row] for row in range(3))
            for i in range(3)
        ]
        m = [
            [mass * sum(jacobian[row][i] * jacobian[row][j] for row in range(3)) for j in range(i + 1)]
            for i in range(3)
        ]
        l10, l20 = m[1][0] / m[0][0], m[2][0] / m[0][0]
        d1 = m[1][1] - l10 * m[1][0]
        l21 = (m[2][1] - l20 * m[1][0]) / d1
        d2 = m[2][2] - l20 * m[2][0] - l21 * l21 * d1
        y1 = r[1] - l10 * r[0]
        a2 = (r[2] - l20 * r[0] - l21 * y1) / d2
        a1 = y1 / d1 - l21 * a2
        second = [r[0] / m[0][0] - l10 * a1 - l20 * a2, a1, a2]
        moved = [sum(jacobian[row][i] * second[i] for i in range(3)) + convective[row] for row in range(3)]
        return second, (bx * g, by * g, length * c1), moved

    def step(self, states: Array, step_s: float, forces: Array, stiffness: Array) -> Array:
        """One step of Runge and Kutta."""

        def slope(place: Array) -> Array:
            second, _, _ = self._motion(place, forces, stiffness)
            return np.column_stack([place[:, 3:], *second])

        return runge_kutta(slope, states, step_s)

    def loads(self, states: Array, forces: Array, stiffness: Array) -> Array:
        """(N, 3) torque_x, torque_y, force_z on the base."""
        _, (x, y, z), moved = self._motion(states, forces, stiffness)
        fx, fy, fz = (self.segment.tip_mass_kg * (self.gravity[i] - moved[i]) for i in range(3))
        return np.column_stack([y * fz - z * fy, z * fx - x * fz, fz])


class NumpyCloud(NamedTuple):
    """Particles: states, stiffness, weights, and what they learned: means, C, psi."""

    states: Array
    values: Array
    weights: Array
    means: Array
    matrices: Array
    scatters: Array
    degrees_of_freedom: float
    draws: Draws


class NumpyFilter:
    """Algorithm 1 with fixed hyper-parameters, nothing forgotten.

    Parameters
    ----------
    tracker
        Ours, whose settings it takes over.
    segment, gains
        The model, and (3, C) generalised forces of unit pressures.
    """

    def __init__(self, tracker: Any, segment: ConstantCurvatureSegment, gains: Array) -> None:
        self.gains, self.model, self.unknown = gains, NumpySegment(segment), tracker.unknown
        self.basis, self.settings = tracker.unknown.basis, tracker.settings
        self.prior = tracker.prior
        self.root = np.linalg.inv(np.linalg.cholesky(np.asarray(self.settings.measurement_covariance)))
        self.process_noise = np.asarray(self.settings.process_noise)
        basis = self.basis
        self.centre, self.half_widths = np.array(basis.centre), np.array(basis.half_widths)
        self.waves = 0.5 * np.pi * np.arange(1, basis.indices.max() + 1)
        self.norm = np.sqrt(np.prod(np.array(basis.length_scales) / self.half_widths))
        self.factors = self.norm / self.unknown.noise_share * np.exp(0.5 * basis.log_spectral_densities())

    def start(self, cloud: Any) -> NumpyCloud:
        """As ours started."""
        count, m = len(cloud.states), self.basis.function_count
        return NumpyCloud(
            cloud.states,
            cloud.values[:, 0],
            np.exp(cloud.log_weights),
            np.zeros((count, m)),
            np.tile(np.eye(m), (count, 1, 1)),
            np.full(count, self.prior.scatters[0]),
            self.prior.degrees_of_freedom,
            cloud.draws,
        )

    def functions(self, states: Array) -> Array:
        """(N, M) sines: of each coordinate all half waves at once, then products."""
        place = np.clip(
            (states[:, :3] - self.centre) / self.half_widths, -1.0 + self.basis.margin, 1.0 - self.basis.margin
        )
        sines = np.sin((place + 1.0)[:, :, None] * self.waves)
        indices = self.basis.indices - 1
        return np.asarray(
            sines[:, 0, indices[:, 0]] * sines[:, 1, indices[:, 1]] * sines[:, 2, indices[:, 2]] * self.factors
        )

    def density(self, measured: Array, states: Array, forces: Array, values: Array) -> Array:
        """Logarithm (N,), up to a constant."""
        errors = (measured - self.model.loads(states, forces, values)) @ self.root.T
        return -0.5 * np.einsum("ij,ij->i", errors, errors)

    def bounded(self, deviations: Array) -> Array:
        """Stiffness of these deviations from its mean."""
        return np.maximum(self.unknown.constants[0] + deviations, self.unknown.lowest[0])

    def step(self, cloud: NumpyCloud, step_s: float, measured: Array, pressures: Array) -> NumpyCloud:
        """Lines 2 to 16."""
        rng, draws = cloud.draws.generator()
        forces, count = self.gains @ pressures, len(cloud.states)
        ahead = self.model.step(cloud.states, step_s, forces, cloud.values)
        expected = np.einsum("ij,ij->i", cloud.means, self.functions(ahead))
        first = self.density(measured, ahead, forces, self.bounded(expected))
        logs = np.log(cloud.weights) + first
        weights = np.exp(logs - logs.max())
        edges = np.cumsum(weights)
        ancestors = np.searchsorted(edges, (np.arange(count) + rng.random()) * (edges[-1] / count), side="right")
        ancestors = np.minimum(ancestors, count - 1)
        states = ahead[ancestors] + np.sqrt(step_s) * self.process_noise * rng.standard_normal(ahead.shape)
        functions = self.functions(states)
        values, learned = self._learned(cloud, ancestors, functions, rng)
        logs = self.density(measured, states, forces, values) - first[ancestors]
        weights = np.exp(logs - logs.max())
        return learned._replace(states=states, values=values, weights=weights / weights.sum(), draws=draws)

    def _learned(
        self, cloud: NumpyCloud, ancestors: Array, functions: Array, rng: np.random.Generator
    ) -> tuple[Array, NumpyCloud]:
        """Samples, and statistics with them: rank one."""
        matrices, means, scatters = cloud.matrices[ancestors], cloud.means[ancestors], cloud.scatters[ancestors]
        gains = np.matmul(matrices, functions[:, :, None])[:, :, 0]
        widths = 1.0 + np.einsum("ij,ij->i", gains, functions)
        expected = np.einsum("ij,ij->i", means, functions)
        drawn = rng.standard_t(cloud.degrees_of_freedom, (len(expected), 1))[:, 0]
        values = self.bounded(expected + np.sqrt(widths * scatters / cloud.degrees_of_freedom) * drawn)
        errors = values - self.unknown.constants[0] - expected
        shares = gains / widths[:, None]
        matrices -= shares[:, :, None] * gains[:, None, :]
        return values, cloud._replace(
            matrices=matrices,
            means=means + shares * errors[:, None],
            scatters=scatters + errors**2 / widths,
            degrees_of_freedom=cloud.degrees_of_freedom + 1.0,
        )


STEP_S, RATE_HZ = 0.008, 125.0
FUNCTIONS = 40
NOISE = np.array([2e-3, 2e-3, 2e-2])
LEARNED_STEPS, TIMED_STEPS = 250, 8 * FOLDED_LOSSES
COMPARED_STEPS, TOLERANCE = 25, 1e-6
NUMPY = "NumPy"

ARM_M, AREA_M2, CHAMBERS_RAD = 0.0126, 1.55e-4, np.radians([90.0, 210.0, 330.0])
STIFFNESS = 0.15
"""N m/rad."""
SEGMENT = ConstantCurvatureSegment(
    length_m=0.128,
    tip_mass_kg=0.156,
    bending_stiffness_n_m_per_rad=STIFFNESS,
    elongation_stiffness_n_m=1400.0,
    gravity_m_s2=(0.0, 0.0, 9.81),
    damping=(6.4e-4, 6.4e-4, 3.0),
)
GAINS = AREA_M2 * np.vstack([-ARM_M * np.cos(CHAMBERS_RAD), -ARM_M * np.sin(CHAMBERS_RAD), np.ones(3)])
"""(3, 3) generalised forces of unit pressures."""


def stiffness_rows(values: Array) -> Array:
    """(N, 3) along q, of bending stiffness (N, 1)."""
    rows = np.empty((len(values), 3))
    rows[:, :2], rows[:, 2] = values, SEGMENT.elongation_stiffness_n_m
    return rows


class SoftSegment:
    """The segment as the filter asks for it: inputs are pressures, the unknown is its bending stiffness over q."""

    def propagate(self, states: Array, inputs: Array, values: Array, step_s: float) -> Array:
        forces, stiffness = GAINS @ inputs, stiffness_rows(values)
        return runge_kutta(lambda s: np.hstack([s[:, 3:], SEGMENT.accelerations(s, forces, stiffness)]), states, step_s)

    def outputs(self, states: Array, inputs: Array, values: Array) -> Array:
        second = SEGMENT.accelerations(states, GAINS @ inputs, stiffness_rows(values))
        jacobian, convective = SEGMENT.jacobian(states)
        moved = (jacobian @ second[:, :, None])[:, :, 0] + convective
        force = SEGMENT.tip_mass_kg * (np.array(SEGMENT.gravity_m_s2) - moved)
        return np.hstack([np.cross(SEGMENT.position(states), force)[:, :2], force[:, 2:]])

    def places(self, states: Array) -> Array:
        return states[:, :3]


def tracker(particles: int, walk: bool = False, memory_s: float = np.inf) -> MarginalizedParticleFilter:
    """Ours."""
    basis = ReducedRankBasis((0.0,) * 3, (0.82, 0.82, 0.012), (0.55, 0.55, 0.008), FUNCTIONS)
    unknown = UnknownFunction(
        basis,
        constants=(STIFFNESS,),
        stddevs=(0.085 * STIFFNESS,),
        memory_s=memory_s,
        lowest=(0.14 * STIFFNESS,),
        walk=HyperParameterWalk() if walk else None,
    )
    settings = ParticleFilterSettings(
        process_noise=[7e-4, 7e-4, 1e-5, 0.35, 0.35, 5e-3],
        measurement_covariance=np.diag(NOISE**2),
        recovery_stddevs=[0.07, 0.07, 1e-3, 0.7, 0.7, 1e-2],
        particle_count=particles,
    )
    return MarginalizedParticleFilter(SoftSegment(), unknown, settings)


class Course:
    """Pressures that turn round the segment, whose stiffness depends on its bending, and what its base feels."""

    def __init__(self, steps: int) -> None:
        rng, tracked, state = np.random.default_rng(1), SoftSegment(), np.zeros((1, 6))
        phases = np.array([0.0, 2.1, 4.2])
        time_s = STEP_S * np.arange(steps)
        self.pressures = 20e3 * np.maximum(0.0, np.sin(np.pi * time_s[:, None] + phases))
        self.loads = np.empty((steps, 3))
        for number, pressures in enumerate(self.pressures):
            stiffness = STIFFNESS * (1.0 + 0.085 * np.cos(4.4 * state[:, :1]))
            state = tracked.propagate(state, pressures, stiffness, STEP_S)
            self.loads[number] = tracked.outputs(state, pressures, stiffness)[0]
        self.loads += NOISE * rng.standard_normal(self.loads.shape)


def begun(filter_: MarginalizedParticleFilter) -> Cloud:
    """A cloud about rest."""
    return filter_.start(np.zeros(6), np.diag([4.7e-5, 4.7e-5, 1e-8, 4.7e-3, 4.7e-3, 1e-6]), 1)


def run_through(filter_: Any, course: Course, cloud: Any, first: int, last: int) -> Any:
    """The cloud after these steps, ours or NumPy's."""
    for number in range(first, last):
        cloud = filter_.step(cloud, STEP_S, course.loads[number], course.pressures[number])
        cloud = cloud if isinstance(cloud, NumpyCloud) else cloud[0]
    return cloud


def agreement(filter_: MarginalizedParticleFilter, peer: NumpyFilter, course: Course) -> float:
    """Largest difference of states and stiffness after a fifth of a second, in deviations of the cloud.

    Raises
    ------
    RuntimeError
        They are not the same.
    """
    cloud = run_through(filter_, course, begun(filter_), 0, COMPARED_STEPS)
    other = run_through(peer, course, peer.start(begun(filter_)), 0, COMPARED_STEPS)
    difference = np.column_stack([cloud.states - other.states, cloud.values[:, 0] - other.values])
    scale = np.column_stack([cloud.states, cloud.values]).std(axis=0)
    largest = float(np.abs(difference / scale).max())
    if not largest <= TOLERANCE:
        raise RuntimeError(f"particles differ by {largest:.2g} of the cloud's deviation, more than {TOLERANCE:g}")
    return largest


def repeated(filter_: MarginalizedParticleFilter, course: Course) -> Callable[[], Cloud]:
    """The timed steps over and over, from a cloud that has learned."""
    cloud = run_through(filter_, course, begun(filter_), 0, LEARNED_STEPS)
    return partial(run_through, filter_, course, cloud, LEARNED_STEPS, LEARNED_STEPS + TIMED_STEPS)


def per_step(samples: dict[str, Array]) -> dict[str, Array]:
    """Times of one step of those measured together."""
    return {name: values / TIMED_STEPS for name, values in samples.items()}


def marginalized_pf_step(quick: bool) -> list[Row]:
    """One step of the marginalised particle filter of a soft segment, 500 particles and 40 functions, against NumPy.

    Both have the same model: one step of Runge and Kutta over 8 ms, and twice the load on the base. NumPy's is
    vectorised over particles and thrifty (`peers`). Before anything is timed, both run from the same random numbers,
    and their particles are compared. A cloud is followed for two seconds, so that it has learned something and its
    particles are related as they are at work; then half a second of steps is timed over and over from there, in which
    matrices are folded eight times: a step is their mean. Times are the processor's, on one thread: alone on a machine
    they are the clock's. Further: more particles, hyper-parameters learned, with forgetting.
    """
    repetitions = 3 if quick else 11
    course, filter_ = Course(LEARNED_STEPS + TIMED_STEPS), tracker(500)
    peer = NumpyFilter(filter_, SEGMENT, GAINS)
    difference = agreement(filter_, peer, course)
    cloud = run_through(peer, course, peer.start(begun(filter_)), 0, LEARNED_STEPS)
    candidates: dict[str, Callable[[], object]] = {
        "ours": repeated(filter_, course),
        NUMPY: partial(run_through, peer, course, cloud, LEARNED_STEPS, LEARNED_STEPS + TIMED_STEPS),
    }
    samples = per_step(interleaved(candidates, repetitions, clock=time.process_time))
    rows = [
        case("500 particles", samples, "ours", NUMPY, 4.0, largest_difference=difference),
        case("500 particles, processor time of a step", samples, "ours", target_s=1e-3),
    ]
    for particles, walk, memory_s, target_s in (
        (500, True, np.inf, 4e-3),
        (3000, False, np.inf, 8e-3),
        (800, True, np.inf, 8e-3),
        (500, False, 20.0, 1e-3),
        (3000, False, 20.0, 8e-3),
    ):
        name = f"{particles} particles{', hyper-parameters learned' if walk else ''}"
        name += f", forgetting within {memory_s:g} s" if memory_s < np.inf else ""
        candidate = repeated(tracker(particles, walk, memory_s), course)
        samples = per_step(interleaved({"ours": candidate}, repetitions, clock=time.process_time))
        rows.append(case(f"{name}, processor time of a step", samples, "ours", target_s=target_s))
    return rows
