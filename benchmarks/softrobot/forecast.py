"""How far a soft robot's models see ahead: states after some steps, from a filter's state, against motion capture.

The paper's Table II: a filter's model runs on from its estimate, through the pressures that were measured then; errors
are normalised by the variance of what they are errors of (NMSE), for bending, elongation and their rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline

from benchmarks.measuring import Array
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.contract.recorded import LoadedRecording
from softrobot_estimation.estimators.particle_estimator import stiffness_prior
from softrobot_estimation.estimators.unscented_estimator import UnscentedEstimator
from softrobot_estimation.judging.ground_truth import in_base, lateness
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import GreyBox
from softrobot_estimation.robot import ROBOT

SETTLE_S, EVERY, STEP_S = 5.0, 7, 0.008
_LONGEST_FRAME_S = 0.015
_FRAMES = 5


class Filtered(NamedTuple):
    """What a filter knew at a run's wrenches: (K,) stamps, (K, ROW) rows, pressures, and stiffness as it knew it."""

    configuration: SoftRobotConfiguration
    stamps_s: Array
    rows: Array
    chambers_pa: Array
    readings_pa: Array
    stiffness: Sequence[Callable[[Array], float]]


class TrueStates(NamedTuple):
    """(M,) stamps, (M, 6) bending, elongation and rates by motion capture, and which of them are known."""

    stamps_s: Array
    states: Array
    known: NDArray[np.bool_]


def filtered(configuration: SoftRobotConfiguration, name: str, recording: LoadedRecording) -> Filtered:
    """A whole run."""
    estimator: Any = ROBOT.estimator(configuration, name)
    state, found = estimator.start(None), []
    for measurement in sorted(recording.measurements(), key=lambda one: one.stamp_ns):
        step = estimator.step(state, measurement)
        state = step.state
        if step.estimate is not None and step.innovation is not None:
            row, stiffness = _known(estimator, state.filtered)
            heard, stamp_s = state.sensors, measurement.stamp_ns / NANOSECONDS_PER_SECOND
            found.append((stamp_s, row, heard.chambers_pa, heard.readings_pa, stiffness))
    *arrays, stiffnesses = zip(*found, strict=True)
    return Filtered(estimator.configuration, *map(np.array, arrays), stiffnesses)


def _known(estimator: Any, state: Any) -> tuple[Array, Callable[[Array], float]]:
    """A filter's row, and the stiffness that it would count on from here."""
    box: GreyBox = estimator.grey_box
    if isinstance(estimator, UnscentedEstimator):
        now = box.stiffness * float(np.exp(state.mean[kernels.ROW]))
        return state.mean[: kernels.ROW], lambda row: now
    weights = np.exp(state.cloud.log_weights)
    learned = weights @ state.cloud.learned.means[:, 0]
    learned_from = stiffness_prior(estimator.configuration).prior()

    def learned_stiffness(row: Array) -> float:
        phi, _ = learned_from.functions(row[None, :3])
        return max(0.25 * box.stiffness, box.stiffness + float(phi[0] @ learned))

    return weights @ state.cloud.states, learned_stiffness


def true_states(configuration: SoftRobotConfiguration, recording: LoadedRecording) -> TrueStates:
    """By arcs through the tip's places, as early as the wrench says that they were."""
    box, tip = GreyBox(configuration), recording.tracks[TIP]
    late_s, _ = lateness(configuration, recording.series, recording.tracks)
    stamps_s = tip.stamps_ns / NANOSECONDS_PER_SECOND - late_s
    places = in_base(tip.values[:, :3], recording.tracks[BASE].values)
    shapes = coordinates_of_tip(box.segment, places, box.beyond_m)
    # Slopes of parabolas through five frames in a row.
    offsets = np.arange(_FRAMES) - _FRAMES // 2
    rates, known = np.full_like(shapes, np.nan), np.zeros(len(shapes), dtype=bool)
    for middle in range(_FRAMES // 2, len(shapes) - _FRAMES // 2):
        near = middle + offsets
        times = stamps_s[near] - stamps_s[middle]
        if np.diff(times).max() < _LONGEST_FRAME_S:
            rates[middle], known[middle] = np.polyfit(times, shapes[near], 2)[1], True
    return TrueStates(stamps_s, np.hstack([shapes, rates]), known)


def best_constant(
    known: SoftRobotConfiguration, runs: Sequence[tuple[Filtered, TrueStates]], shares: Array, horizon: int
) -> float:
    """Of these shares of the nominal stiffness, N m/rad, that with which the runs are foreseen best."""
    tried = (known.stiffness.bending_n_m_per_rad * shares).tolist()
    return min(tried, key=lambda k: sum(errors(*run, (horizon,), k)[horizon].mean() for run in runs))


def errors(run: Filtered, truth: TrueStates, steps: Sequence[int], constant: float | None = None) -> dict[int, Array]:
    """NMSE (6,) of bending x, y, elongation and their rates, after each number of steps.

    With one constant stiffness, where it is given, in the place of what the filter knew, and of the law. The model's
    rates are slopes over five frames, as the truth's are: elongation swings at 20 Hz, of which frames 10 ms apart show
    a part.
    """
    known = run.configuration
    if constant is not None:
        even = replace(known.behaviour, bending_stiffening_per_rad2=0.0, pressure_stiffening_per_100_kpa=0.0)
        known = replace(known, behaviour=even)
    box = GreyBox(known)
    frames_s = float(np.median(np.diff(truth.stamps_s))) * (np.arange(_FRAMES) - _FRAMES // 2)
    most = max(steps) + math.ceil(frames_s[-1] / STEP_S)
    found: dict[int, list[Array]] = {count: [] for count in steps}
    first = int(np.searchsorted(run.stamps_s, run.stamps_s[0] + SETTLE_S))
    ahead_s = STEP_S * np.arange(most + 1)
    for start in range(first, len(run.stamps_s) - most - 1, EVERY):
        row, chambers = run.rows[start][None].copy(), run.chambers_pa[start]
        way = [row[0, :6]]
        for step in range(most):
            chambers, mean_pa = box.through_hoses(run.readings_pa[start + step], chambers, STEP_S)
            stiffness = run.stiffness[start](row[0]) if constant is None else constant
            row = box.propagate(row, np.array([stiffness]), mean_pa, STEP_S)
            way.append(row[0, :6])
        states = np.array(way)
        if not np.isfinite(states).all():  # a stiffness with which it falls over
            for step in steps:
                found[step].append(np.full(6, np.inf))
            continue
        shapes = CubicHermiteSpline(ahead_s, states[:, :3], states[:, 3:])
        for step in steps:
            true = _at(truth, run.stamps_s[start] + step * STEP_S)
            if true is not None:
                rates = frames_s @ shapes(ahead_s[step] + frames_s) / (frames_s @ frames_s)
                found[step].append(np.concatenate([states[step, :3], rates]) - true)
    variances = truth.states[truth.known].var(axis=0)
    return {count: np.mean(np.square(rows), axis=0) / variances for count, rows in found.items()}


def _at(truth: TrueStates, stamp_s: float) -> Array | None:
    after = int(np.searchsorted(truth.stamps_s, stamp_s))
    if not 0 < after < len(truth.stamps_s) or not truth.known[after - 1 : after + 1].all():
        return None
    before_s, after_s = truth.stamps_s[after - 1 : after + 1]
    share = (stamp_s - before_s) / (after_s - before_s)
    return np.asarray((1.0 - share) * truth.states[after - 1] + share * truth.states[after])
