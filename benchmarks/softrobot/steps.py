"""Speed of the marginalised particle filter of a soft segment against the same in NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numba import njit

from benchmarks.measuring import Array, Row, case, interleaved
from benchmarks.softrobot.peers import NumpyCloud, NumpyFilter
from onboard_estimation.filtering.marginalized_particles import (
    Cloud,
    MarginalizedParticleFilter,
    ParticleFilterSettings,
    UnknownFunction,
)
from onboard_estimation.filtering.normal_inverse_gamma import FOLDED_LOSSES
from onboard_estimation.filtering.walking_prior import HyperParameterWalk
from onboard_estimation.learning.reduced_rank import ReducedRankBasis
from softrobot_estimation.model.constant_curvature import ConstantCurvatureSegment
from softrobot_estimation.model.curvature_kernels import MOTION, acceleration, add_load

STEP_S, RATE_HZ = 0.008, 125.0
FUNCTIONS = 40
ROWS = [3, 4, 2]
"""Of a load: torques about x and y, and the weight."""
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


@njit(cache=True, error_model="numpy")
def moved(segment: Array, points: Array, states: Array, forces: Array, stiffness: Array, step_s: float) -> Array:
    """States (K, 6) after a step of the classical fourth-order rule, with stiffness (K, 3)."""
    out, start, stage = states.copy(), np.empty(6), np.empty(6)
    motions = np.empty((points.shape[0], MOTION))
    for k in range(states.shape[0]):
        state = out[k]
        start[:] = state
        stage[:] = state
        for order in range(4):
            weight = step_s / 6.0 if order == 0 or order == 3 else step_s / 3.0
            ahead = 0.5 * step_s if order < 2 else step_s
            a = acceleration(segment, points, stage, forces, stiffness[k], motions)
            for i in range(3):
                rate = stage[3 + i]
                state[i] += weight * rate
                state[3 + i] += weight * a[i]
                stage[i] = start[i] + ahead * rate
                stage[3 + i] = start[3 + i] + ahead * a[i]
    return out


@njit(cache=True, error_model="numpy")
def base_loads(segment: Array, points: Array, states: Array, forces: Array, stiffness: Array) -> Array:
    """(K, 6) on the base, about its origin."""
    out, origin, motions = np.zeros((states.shape[0], 6)), np.zeros(3), np.empty((points.shape[0], MOTION))
    for k in range(states.shape[0]):
        accelerations = acceleration(segment, points, states[k], forces, stiffness[k], motions)
        for i in range(points.shape[0]):
            add_load(segment, points[i, 2], origin, motions[i], accelerations, out[k])
    return out


def stiffness_rows(values: Array) -> Array:
    """(N, 3) along q, of bending stiffness (N, 1)."""
    rows = np.empty((len(values), 3))
    rows[:, :2], rows[:, 2] = values, SEGMENT.elongation_stiffness_n_m
    return rows


class SoftSegment:
    """The segment as the filter asks for it: inputs are pressures, the unknown is its bending stiffness over q."""

    def propagate(self, states: Array, inputs: Array, values: Array, step_s: float) -> Array:
        return np.asarray(moved(*SEGMENT.arrays, states, GAINS @ inputs, stiffness_rows(values), step_s))

    def outputs(self, states: Array, inputs: Array, values: Array) -> Array:
        return np.asarray(base_loads(*SEGMENT.arrays, states, GAINS @ inputs, stiffness_rows(values))[:, ROWS])

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
