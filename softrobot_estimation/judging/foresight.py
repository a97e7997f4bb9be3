"""What a filter knew all through a run, its states against the true ones, and how far its model sees ahead.

States are x = (q, q'): bending towards x and y (rad), elongation (m), and their rates. Errors are normalised as the
paper's NMSE: a state's mean squared error over its variance in the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline, CubicSpline, make_interp_spline

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.filtering.particle_weights import systematic
from softrobot_estimation.estimators.particle_estimator import ParticleEstimator
from softrobot_estimation.estimators.wrench_filter import WrenchFilter
from softrobot_estimation.judging.ground_truth import in_base, lateness
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import GreyBox

SETTLE_S, EVERY = 5.0, 7
"""Until the first look ahead, and wrenches from one to the next."""
STATES = kernels.RELAXED
_LONGEST_FRAME_S = 0.015
_FRAMES = 5
_DRAWN = 25

Stiffness = Callable[[Matrix, NDArray[np.intp]], Vector]
"""N m/rad (S,) that a filter would count on at rows (S, ROW), by what it knew at these wrenches (S,)."""


class Filtered(NamedTuple):
    """What a filter knew at a run's K wrenches.

    Attributes
    ----------
    estimator, state
        The filter, and what it knew at the end.
    stamps_s, rows, chambers_pa, readings_pa
        (K,), (K, ROW), and (K, C) pressures behind the hoses and at the transducers.
    stiffness_now, drawn
        (K,) N m/rad where the robot was, and (K, S) of particles by their weights; (K, 1) of a filter without.
    stiffness
        At other places.
    """

    estimator: WrenchFilter[Any]
    state: Any
    stamps_s: Vector
    rows: Matrix
    chambers_pa: Matrix
    readings_pa: Matrix
    stiffness_now: Vector
    drawn: Matrix
    stiffness: Stiffness


class TrueStates(NamedTuple):
    """(M,) stamps, (M, 6) states, which of them are known, and through frames at which times (s) rates were laid."""

    stamps_s: Vector
    states: Matrix
    known: NDArray[np.bool_]
    frames_s: Vector

    def at(self, stamps_s: Vector) -> Matrix:
        """(K, 6) on the line between two known ones; NaN elsewhere."""
        after = np.clip(np.searchsorted(self.stamps_s, stamps_s), 1, len(self.stamps_s) - 1)
        share = (stamps_s - self.stamps_s[after - 1]) / (self.stamps_s[after] - self.stamps_s[after - 1])
        there = self.known[after - 1] & self.known[after] & (share >= 0.0) & (share <= 1.0)
        between = (1.0 - share)[:, None] * self.states[after - 1] + share[:, None] * self.states[after]
        return np.where(there[:, None], between, np.nan)

    @property
    def variances(self) -> Vector:
        """(6,) in the run."""
        return np.asarray(self.states[self.known].var(axis=0))


def filtered(estimator: WrenchFilter[Any], recording: LoadedRecording) -> Filtered:
    """A whole run; UserError without a wrench."""
    state, found = estimator.start(None), []
    for measurement in sorted(recording.measurements(), key=lambda one: one.stamp_ns):
        step = estimator.step(state, measurement)
        state = step.state
        if step.estimate is not None and step.innovation is not None:
            stamp_s = measurement.stamp_ns / NANOSECONDS_PER_SECOND
            found.append((stamp_s, state.chambers_pa, state.readings_pa, *_known(estimator, state.filtered)))
    if not found:
        raise UserError("no wrench has corrected the filter: wrenches and pressures of all chambers are needed")
    stamps_s, chambers_pa, readings_pa, rows, now, drawn, weights = map(np.array, zip(*found, strict=True))

    def ahead(places: Matrix, starts: NDArray[np.intp]) -> Vector:
        if not isinstance(estimator, ParticleEstimator):
            return np.asarray(now[starts])
        unknown = estimator.unknown
        phi, _ = unknown.basis.functions(places[:, :3])
        least = -np.inf if unknown.lowest is None else unknown.lowest[0]
        return np.maximum(least, unknown.constants[0] + (phi * weights[starts]).sum(axis=1))

    return Filtered(estimator, state, stamps_s, rows, chambers_pa, readings_pa, now, drawn, ahead)


def _known(estimator: WrenchFilter[Any], state: Any) -> tuple[Vector, float, Vector, Vector]:
    """A filter's row, its stiffness there, that of some particles, and weights (M,) of the basis functions."""
    if not isinstance(estimator, ParticleEstimator):
        now = estimator.grey_box.stiffness * math.exp(state.mean[kernels.ROW])
        return state.mean[: kernels.ROW], now, np.array([now]), np.zeros(0)
    cloud, weights = state.cloud, np.exp(state.cloud.log_weights)
    some = systematic(weights, 0.5)[:: max(1, len(weights) // _DRAWN)]
    alive = weights > 0.0
    row = weights[alive] @ cloud.states[alive]
    return row, float(weights @ cloud.values[:, 0]), cloud.values[some, 0], estimator.mean_weights(cloud)


def true_states(configuration: SoftRobotConfiguration, recording: LoadedRecording, exact: bool = False) -> TrueStates:
    """By arcs through the tip's places, as early as the wrench says that they were.

    Rates are slopes of parabolas through five frames in a row; of frames that are `exact`, those of a spline.
    """
    box, tip = GreyBox(configuration), recording.tracks[TIP]
    places = in_base(tip.values[:, :3], recording.tracks[BASE].values)
    shapes = coordinates_of_tip(box.segment, places, box.beyond_m)
    stamps_s = tip.stamps_ns / NANOSECONDS_PER_SECOND
    if exact:
        states = np.hstack([shapes, CubicSpline(stamps_s, shapes)(stamps_s, 1)])
        return TrueStates(stamps_s, states, np.ones(len(states), dtype=np.bool_), np.zeros(0))
    stamps_s = stamps_s - lateness(configuration, recording.series, recording.tracks)[0]
    offsets = np.arange(_FRAMES) - _FRAMES // 2
    rates, known = np.full_like(shapes, np.nan), np.zeros(len(shapes), dtype=np.bool_)
    for middle in range(_FRAMES // 2, len(shapes) - _FRAMES // 2):
        near = middle + offsets
        times = stamps_s[near] - stamps_s[middle]
        if np.diff(times).max() < _LONGEST_FRAME_S:
            rates[middle], known[middle] = np.polyfit(times, shapes[near], 2)[1], True
    frames_s: Vector = np.median(np.diff(stamps_s)) * offsets.astype(np.float64)
    return TrueStates(stamps_s, np.hstack([shapes, rates]), known, frames_s)


def best_constant(
    runs: Sequence[tuple[Filtered, TrueStates]],
    shares: Vector,
    steps: int,
    step_s: float,
    settle_s: float = SETTLE_S,
) -> float:
    """Of these shares of the configured stiffness, N m/rad, that with which the runs are foreseen best."""
    tried = (runs[0][0].estimator.grey_box.stiffness * shares).tolist()
    return min(tried, key=lambda k: sum(errors(*run, (steps,), step_s, k, settle_s)[steps].mean() for run in runs))


def errors(
    run: Filtered,
    truth: TrueStates,
    steps: Sequence[int],
    step_s: float,
    constant: float | None = None,
    settle_s: float = SETTLE_S,
) -> Mapping[int, Vector]:
    """NMSE (6,) of the states foreseen, after each number of steps.

    With one constant stiffness, where it is given, in the place of what the filter knew, and of the law. Where the
    truth's rates are slopes over frames the model's are too: elongation swings at 20 Hz, of which frames 10 ms apart
    show a part. Infinite where a robot falls over.
    """
    known = run.estimator.configuration
    if constant is not None:
        even = replace(known.behaviour, bending_stiffening_per_rad2=0.0, pressure_stiffening_per_100_kpa=0.0)
        known = replace(known, behaviour=even)
    box = GreyBox(known)
    most = max(steps) + (math.ceil(truth.frames_s[-1] / step_s) if len(truth.frames_s) else 0)
    first = int(np.searchsorted(run.stamps_s, run.stamps_s[0] + settle_s))
    starts = np.arange(first, np.searchsorted(run.stamps_s, run.stamps_s[-1] - (most + 1) * step_s), EVERY)
    # What is read is held until the next reading: its integral over time has its means over any step.
    pieces_s = np.diff(run.stamps_s)[:, None]
    total = np.vstack([np.zeros_like(run.readings_pa[:1]), np.cumsum(pieces_s * run.readings_pa[:-1], axis=0)])
    read = make_interp_spline(run.stamps_s, total, 1)
    rows, chambers, way = run.rows[starts], run.chambers_pa[starts], [run.rows[starts, :STATES]]
    for step in range(most):
        now_s = run.stamps_s[starts] + step * step_s
        mean_read = (read(now_s + step_s) - read(now_s)) / step_s
        flat, mean_pa = box.through_hoses(mean_read.ravel(), chambers.ravel(), step_s)
        chambers = flat.reshape(chambers.shape)
        stiffness = run.stiffness(rows, starts) if constant is None else np.full(len(rows), constant)
        rows = box.propagate(rows, stiffness, mean_pa.reshape(chambers.shape), step_s)
        way.append(rows[:, :STATES])
    return {count: _nmse(np.array(way), run.stamps_s[starts], truth, count, step_s) for count in steps}


def _nmse(way: Matrix, starts_s: Vector, truth: TrueStates, count: int, step_s: float) -> Vector:
    """(6,) of what was foreseen (steps, S, 6) from instants (S,) on, after `count` steps."""
    foreseen, ahead_s = way[count].copy(), count * step_s
    if len(frames_s := truth.frames_s):
        alive = np.isfinite(way).all(axis=(0, 2))
        shapes = CubicHermiteSpline(step_s * np.arange(len(way)), way[:, alive, :3], way[:, alive, 3:])
        slopes = np.tensordot(frames_s, shapes(ahead_s + frames_s), axes=1) / (frames_s @ frames_s)
        foreseen[alive, 3:] = slopes
    true = truth.at(starts_s + ahead_s)
    there = np.isfinite(true).all(axis=1)
    squares = np.square(np.where(np.isfinite(foreseen), foreseen, np.inf) - true)[there]
    return np.asarray(squares.mean(axis=0) / truth.variances)
