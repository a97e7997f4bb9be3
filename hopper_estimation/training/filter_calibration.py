"""Recordings with motion capture as trials, and what a trained filter's covariance and events need by its errors there.

A trial has samples from the first drop on, and the truth of each hop. In each phase two numbers a quantity say how sure
a filter is: a factor on its standard deviation, which grows along a flight, and a floor, for errors that are there
right after an update. They are those under which the errors are most likely (normal distribution, errors beyond four
standard deviations count as four), raised together until 75 % lie within one and 99 % within three standard deviations:
more than ought to, as other robots' errors are larger than those of the hops that the parameters were fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopper_estimation.estimators.filters import Filtered, FilterEntry, body_of, state_filter
from hopper_estimation.estimators.samples import ordered, taken_of
from hopper_estimation.estimators.sensor_faults import rest_fault
from hopper_estimation.judging.hop_metrics import HopErrors, commands_at, hop_errors
from hopper_estimation.judging.hop_truth import TrueHops, true_hops, velocity_at
from hopper_estimation.judging.hops import HopEvents, hop_cycles, match_events
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import APEX, DROP, EVENTS, PHASES, TOUCHDOWN, Array, Records
from onboard_estimation.base.errors import UserError, said_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, POSE
from onboard_estimation.base.series import SET_POSE

FEWEST_HOPS = 3
WITHIN_ONE, WITHIN_THREE = 0.75, 0.99
_LARGEST = 4.0
_SMALL_SHARE = 0.3
_SMALLEST_EVENT_STDDEV_S = 0.0005
_SETTLING_HOPS = 2
_FEWEST = 200
_FEWEST_TOUCHDOWNS = 12
_SAME_TOUCHDOWN_S = 0.1


@dataclass(frozen=True, eq=False)
class Trial:
    """One recording, from its first drop on.

    Attributes
    ----------
    signals
        (N,) of `phases.SIGNAL`.
    start_height_m
        Height at the first sample, of which the filter is told.
    true_height_m, true_velocity_m_s
        (N,) NaN where unknown; the height above the ground of the last stance.
    time_s
        (N,) since the first sample.
    hops
        The truth; its times since the first sample.
    """

    name: str
    signals: Records
    start_height_m: float
    true_height_m: Array
    true_velocity_m_s: Array
    time_s: Array
    hops: TrueHops


def trials_of(configuration: HopperConfiguration, recordings: Mapping[str, Any]) -> list[Trial]:
    """One of each recording (`LoadedRecording` of the evaluation, by name).

    Raises
    ------
    UserError
        A recording has no ground truth of the body, too few hops, or sensors that cannot be right.
    """
    trials = []
    for name, one in recordings.items():
        with said_of(name):
            trials.append(trial_of(configuration, name, one))
    return trials


def trial_of(configuration: HopperConfiguration, name: str, recording: Any) -> Trial:
    """The trial of a recording; raises as `trials_of`."""
    body = configuration.truth_body
    if body not in recording.tracks or len(recording.tracks[body].stamps_ns) < 2:
        raise UserError(f"{name}: no ground truth of {body}, and nothing can be learned without it")
    track = recording.tracks[body]
    samples, readings = taken_of(configuration, list(map(ordered, recording.series)))
    if not len(samples.signals):
        raise UserError(f"{name}: no readings of imu/low_g or imu/high_g")
    fault = rest_fault(configuration, readings)
    if fault:
        raise UserError(fault)
    standing = configuration.robot.standing_height_m
    start_ns = int(track.stamps_ns[0])
    truth_s = (track.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    ground = None if configuration.ground_changes else 0.0
    hops = true_hops(truth_s, track.values[:, 2], standing, ground)
    touchdowns = hops.events.times_s(TOUCHDOWN)
    if len(hops.cycles) < FEWEST_HOPS:
        raise UserError(
            f"{name}: {len(hops.cycles)} whole hops in the ground truth, training needs {FEWEST_HOPS} "
            f"(robot.standing_height_m is {standing:g} m; is the truth's origin on the ground?)"
        )
    # From the start of the first drop, if it was said, else from the highest point before the first touchdown.
    before = (truth_s < touchdowns[0]) & (truth_s > touchdowns[0] - 1.5)
    top = int(np.argmax(np.where(before, track.values[:, 2], -np.inf)))
    first_s, height = float(truth_s[top]), float(track.values[top, 2])
    poses = next((one for one in recording.series if one.channel.sensor == SET_POSE and len(one.stamps_ns)), None)
    if poses is not None and (said_s := (poses.stamps_ns[0] - start_ns) / NANOSECONDS_PER_SECOND) < touchdowns[0]:
        first_s, height = said_s, float(poses.values[0, POSE.position][2])
    last_ns = int(track.stamps_ns[-1])
    first = int(np.searchsorted(samples.stamps_ns, start_ns + round(first_s * NANOSECONDS_PER_SECOND)))
    stop = int(np.searchsorted(samples.stamps_ns, last_ns, side="right"))
    stamps_ns = samples.stamps_ns[first:stop]
    if not len(stamps_ns):
        raise UserError(f"{name}: readings and ground truth do not overlap in time")
    time_s = (stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    height_m, known = track.at(stamps_ns, 0.1)
    true_height = np.where(known, height_m[:, 2], np.nan)
    if configuration.ground_changes:
        # The filter counts from the ground of the last stance.
        row = np.searchsorted(touchdowns, time_s, side="right") - 1
        true_height -= np.where(row >= 0, hops.ground_m[np.maximum(row, 0)], 0.0)
    velocity = np.where(known, velocity_at(track, stamps_ns), np.nan)
    return Trial(name, samples.signals[first:stop], height, true_height, velocity, time_s, hops)


def filtered(
    configuration: HopperConfiguration,
    estimator: str,
    parameters: Array,
    trial: Trial,
    start_covariance: Array,
) -> Filtered:
    """Run a filter over a trial from its first drop; `start_covariance` (2, 2)."""
    kind = state_filter(estimator, configuration.robot)
    state = kind.new_state(trial.start_height_m, 0.0, start_covariance, DROP)
    return kind.run(parameters, body_of(configuration), state, trial.signals)


def run_of(configuration: HopperConfiguration, estimator: str, entry: FilterEntry, trial: Trial) -> Filtered:
    """What a trained filter tells over a trial."""
    zz, zv, vv = entry.start_covariance
    return filtered(configuration, estimator, entry.parameters, trial, np.array([[zz, zv], [zv, vv]]))


def judged(
    configuration: HopperConfiguration, estimator: str, entry: FilterEntry, trial: Trial
) -> tuple[HopErrors, Filtered]:
    """Errors by hop of a filter over a trial, and what it told."""
    run = run_of(configuration, estimator, entry, trial)
    kinds, seen_s = run.events["kind"], trial.time_s[run.events["sample"]]
    events = HopEvents.of(kinds, seen_s - entry.event_delay_s[kinds], seen_s, run.events["height"])
    height, velocity = run.out[:, 0], run.out[:, 1]
    cycles = hop_cycles(events, trial.time_s, height, configuration.robot.standing_height_m)
    command = commands_at(trial.hops.cycles.apex_s, trial.time_s, trial.signals["goal"])
    errors = hop_errors(trial.hops, trial.time_s, height, velocity, cycles, command, configuration.ground_changes)
    return errors, run


def calibrated(
    configuration: HopperConfiguration, estimator: str, parameters: Array, trials: Sequence[Trial]
) -> FilterEntry:
    """The entry of a model: parameters, converged covariance, scales and floors by phase, delays of events."""
    start = np.diag([0.01**2, 0.1**2])
    runs = [filtered(configuration, estimator, parameters, trial, start) for trial in trials]
    # (A, 3) covariance right after each apex, but for the first ones.
    settled = [run.out[run.events["sample"][run.events["kind"] == APEX][_SETTLING_HOPS:], 2:5] for run in runs]
    rows = np.concatenate(settled) if settled else np.empty((0, 3))
    # Filters whose own covariance means something begin with that of the height that they are told.
    as_told = estimator == "bounce" or not len(rows)
    start_covariance = np.array([start[0, 0], 0.0, start[1, 1]]) if as_told else rows.mean(axis=0)
    least = 1.0 if estimator == "bounce" else 0.0
    found = np.empty((2, len(PHASES), 2))  # by quantity and phase: scale, floor
    for quantity, noise in enumerate((configuration.truth_stddev_m, configuration.truth_velocity_stddev_m_s)):
        for phase in range(len(PHASES)):
            errors = [_errors(run, trial, quantity, phase) for run, trial in zip(runs, trials, strict=True)]
            error, sigma = np.concatenate(errors, axis=1)
            found[quantity, phase] = scale_and_floor(error, sigma, noise, least)
    (height_scale, height_floor), (velocity_scale, velocity_floor) = found.transpose(0, 2, 1)
    spread = height_scale, height_floor, velocity_scale, velocity_floor
    touchdowns = _touchdown_fit(configuration, runs, trials)
    return FilterEntry(parameters, start_covariance, *spread, *_event_delays(runs, trials), *touchdowns)


def _errors(run: Filtered, trial: Trial, quantity: int, phase: int) -> Array:
    """(2, K) errors and standard deviations of height (0) or velocity (1) in one phase."""
    true = np.array([trial.true_height_m, trial.true_velocity_m_s])
    known = (run.out[:, 5] == phase) & np.isfinite(true).all(axis=0)
    variance = run.out[known, (2, 4)[quantity]]
    return np.array([run.out[known, quantity] - true[quantity, known], np.sqrt(np.maximum(variance, 0.0))])


def scale_and_floor(error: Array, sigma: Array, noise: float, least_scale: float = 0.0) -> tuple[float, float]:
    """Factor a and floor b with which sqrt((a sigma)^2 + b^2) fits the errors, the truth's `noise` taken off.

    A standard deviation that is small beside the errors is not scaled down much further: it grows where readings
    deserve less trust than those of the training, and that must show.
    Nor is its factor below `least_scale`, for filters whose own covariance means something.

    With too few errors (a phase that hardly occurs), a generous guess.
    """
    if len(error) < _FEWEST:
        return 3.0, 0.1
    step = max(len(error) // 20_000, 1)
    error, variance = error[::step], sigma[::step] ** 2
    size = max(float(np.sqrt(np.mean(error**2))), 1e-6)
    usual = max(float(np.sqrt(np.mean(variance))), 1e-9)
    best, found = np.inf, (size / usual, size)
    least = max(min(1.0, _SMALL_SHARE * size / usual), least_scale)
    for share in np.linspace(0.0, 1.0, 21):  # of the error's size that is there whatever the filter says
        floor = max(share * size, 1e-4)
        for scale in np.maximum(np.geomspace(0.02, 3.0, 25) * size / usual, least):
            total = scale**2 * variance + floor**2
            squared = np.minimum(error**2 / total, _LARGEST**2)
            cost = float(np.mean(squared + np.log(total)))
            if cost < best:
                best, found = cost, (float(scale), float(floor))
    scale, floor = found
    ratio = np.abs(error) / np.sqrt(scale**2 * variance + floor**2 + noise**2)
    raised = max(float(np.quantile(ratio, WITHIN_ONE)), float(np.quantile(ratio, WITHIN_THREE)) / 3.0)
    return max(scale * raised, least_scale), max(floor * raised, 1e-4)


def _event_delays(runs: Sequence[Filtered], trials: Sequence[Trial]) -> tuple[Array, Array]:
    """(4,) how late each event is seen (median), and the standard deviation (robust), s."""
    delay, stddev = np.zeros(len(EVENTS)), np.full(len(EVENTS), 0.01)
    for kind in range(len(EVENTS)):
        parts = []
        for run, trial in zip(runs, trials, strict=True):
            seen = trial.time_s[run.events["sample"][run.events["kind"] == kind]]
            estimated = HopEvents.of(np.full(len(seen), kind), seen)
            parts.append(match_events(trial.hops.events, estimated, kind).error_s)
        differences = np.concatenate(parts)
        if len(differences):
            # Nothing is seen before it happens: what looks so is the motion capture's latency.
            delay[kind] = max(float(np.median(differences)), 0.0)
            spread = 1.4826 * float(np.median(np.abs(differences - delay[kind])))
            stddev[kind] = max(spread, _SMALLEST_EVENT_STDDEV_S)
    return delay, stddev


def _touchdown_fit(
    configuration: HopperConfiguration, runs: Sequence[Filtered], trials: Sequence[Trial]
) -> tuple[Array, float]:
    """Coefficients (3,) and what is left (m) of the errors of heights at touchdowns, for the sum over changing ground.

    The height of a touchdown ought to be the standing height above the ground of the stance before and its change.
    """
    standing = configuration.robot.standing_height_m
    features, errors = [], []
    for run, trial in zip(runs, trials, strict=True):
        kinds = run.events["kind"]
        touchdowns = np.flatnonzero(kinds == TOUCHDOWN)
        touchdowns_s = trial.time_s[run.events["sample"][touchdowns]]
        true_s = trial.hops.events.times_s(TOUCHDOWN)
        for row in range(1, len(touchdowns)):
            between = kinds[touchdowns[row - 1] : touchdowns[row]]
            nearest = int(np.argmin(np.abs(true_s - touchdowns_s[row])))
            if APEX not in between or nearest == 0 or abs(true_s[nearest] - touchdowns_s[row]) > _SAME_TOUCHDOWN_S:
                continue
            apex = run.events["height"][touchdowns[row - 1] + int(np.argmax(between == APEX))]
            event = run.events[touchdowns[row]]
            change = trial.hops.ground_m[nearest] - trial.hops.ground_m[nearest - 1]
            features.append((event["velocity"], apex))
            errors.append(event["height"] - standing - change)
    if len(errors) < _FEWEST_TOUCHDOWNS:
        return np.zeros(3), 0.1
    error, design = np.array(errors), np.column_stack([np.ones(len(errors)), features])
    fit = np.linalg.lstsq(design, error, rcond=None)[0]
    left = float(np.sqrt(np.sum((error - design @ fit) ** 2) / (len(error) - design.shape[1])))
    return np.clip(fit, -10.0, 10.0), min(max(left, 1e-3), 5.0)
