"""The paper's filters of the hopper as the paper has them: errors M1 to M4, ground height, control.

Every seed is another robot on another day. Each of five training seeds has eight robots of its own (from 900000 up) at
1, 2, 3 and 4 m, and random numbers of its own in the optimiser; test robots have seeds from 7000 up. Given are medians
and the worst over training seeds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.hopper.trials import (
    CONFIGURATION,
    FIRST_TEST_SEED,
    FIRST_TRAINING_SEED,
    HEIGHTS_M,
    ROBOT,
    START_S,
    at_heights,
    deviations,
    recorded,
    told,
)
from benchmarks.measuring import Array, Row, cells_row, in_turns, row
from hopper_estimation.estimators.estimator import HopperEstimator
from hopper_estimation.estimators.filters import (
    FilterEntry,
    untrained_entry,
)
from hopper_estimation.judging.hop_metrics import hop_errors
from hopper_estimation.judging.hop_truth import true_hops
from hopper_estimation.judging.hops import HopEvents, hop_cycles
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HopperConfiguration, HopperTrainingConfiguration
from hopper_estimation.model.phases import PHASES, TOUCHDOWN
from hopper_estimation.training.filter_calibration import Trial, trial_of
from hopper_estimation.training.filter_calibration import judged as judged_hops
from hopper_estimation.training.filter_training import train_filter
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement, PhaseEvent, filter_order
from onboard_estimation.contract.tracks import BodyTrack

TRAINING_S = {"1m": 5.2, "2m": 7.2, "3m": 8.8, "4m": 10.6}
TEST_S = {"1m": 20.0, "2m": 20.0, "3m": 24.0, "4m": 28.0}
CONTROL_S = {"1m": 14.0, "2m": 16.0, "3m": 19.0, "4m": 22.0}
"""Of hopping, by commanded height: about four hops of many robots; ten hops or more."""
METRICS = {"m1": "height (M1)", "m2": "velocity (M2)", "m3": "apex height (M3)", "m4": "apex time (M4)"}
GROUND_S, GROUND_HOPS, GROUND_STEP_M = 78.0, 30, {"hardware": 0.01, "uneven": 0.04}
"""Thirty-five hops of 1 to 4 m; by how much the estimator is told that ground changes from hop to hop."""
_NEAR_S, _CONTROL_NS = 0.12, 2_500_000


class Subject(NamedTuple):
    """A filter: what it is called, which estimator trains (empty: none) and runs, and the search's size."""

    label: str
    trained: str
    estimator: str
    individuals: int = 1000
    generations: int = 20
    delays: bool = True


SUBJECTS = (
    Subject("kf1, delays searched", "kf1", "kf1"),
    Subject("kf1, the paper's form", "kf1", "kf1", delays=False),
    Subject("kf2", "kf2", "kf2"),
    Subject("eskf1", "eskf1", "eskf1", 150, 20),
    Subject("eskf2", "eskf2", "eskf2", 60, 10),
    Subject("kf3, retrained", "kf3", "kf3"),
    Subject("kf3, parameters of kf1", "kf1", "kf3_kf1"),
    *(Subject(name, "", name) for name in ("ba1", "ba1_best", "dr1", "dr1_best")),
)


class Size(NamedTuple):
    """How much is done."""

    training_seeds: int = 5
    robots: int = 8
    test_seeds: int = 10
    share: float = 1.0
    """Of individuals and generations."""


def hopper_filters(quick: bool) -> list[Row]:
    """Hopper in the scenario `hardware`: errors by hop of trained filters and baselines on robots not learned from."""
    return rows(Size(1, 1, 1, 0.02) if quick else Size(), SUBJECTS[:2] if quick else SUBJECTS)


def rows(size: Size, subjects: tuple[Subject, ...]) -> list[Row]:
    """Errors, coverage of both forms of KF1, ground height, control by the estimate."""
    jobs = [(one, seed, size) for one in subjects for seed in range(size.training_seeds if one.trained else 1)]
    found = in_turns(judged, jobs)
    out, covered = [], []
    for subject in subjects:
        results = [one for one, (of, *_) in zip(found, jobs, strict=True) if of == subject]
        values, cells = np.array([one.errors for one in results]), {"": subject.label}
        for column, (metric, words) in zip(values.T, METRICS.items(), strict=True):
            scale, unit = (1e3, "ms") if metric == "m4" else (1.0, "%")
            cells[words] = f"{scale * np.median(column):.3g} ({scale * column.max():.3g}) {unit}"
        out.append(cells_row("Median over the training seeds (worst)", f"errors, {subject.label}", cells))
        within = np.sum([one.within for one in results], axis=0)
        shares = within[..., 1:] / np.maximum(within[..., :1], 1.0)
        for name, one in zip(("height", "velocity"), shares, strict=True) if subject.label[:3] == "kf1" else ():
            cells = {"": f"{subject.label}, {name}"}
            cells |= {PHASES[k].replace("_", " "): f"{one[k, 0]:.2f}, {one[k, 1]:.3f}" for k in range(4)}
            covered.append(cells_row("Within one, three standard deviations", f"coverage, {cells['']}", cells))
    entries = [one.entry for one, (of, *_) in zip(found, jobs, strict=True) if of == subjects[0]]
    seeds = range(FIRST_TEST_SEED, FIRST_TEST_SEED + size.test_seeds)
    return [*out, *covered, *_ground_rows(entries, seeds), _control_row(entries, seeds)]


class Result(NamedTuple):
    """Of a training seed: the filter, mean errors of all hops by metric, numbers of samples within its deviations."""

    entry: FilterEntry
    errors: list[float]
    within: Array


def judged(subject: Subject, training_seed: int, size: Size) -> Result:
    """Trained on its robots, judged on the test robots."""
    entry = untrained_entry()
    if subject.trained:
        robots = range(FIRST_TRAINING_SEED + 10 * training_seed, FIRST_TRAINING_SEED + 10 * training_seed + size.robots)
        individuals = max(round(size.share * subject.individuals), 8)
        generations = max(round(size.share * subject.generations), 2)
        settings = HopperTrainingConfiguration(
            individuals=individuals, generations=generations, seeds=(training_seed,), threads=1, delays=subject.delays
        )
        entry = train_filter(CONFIGURATION, subject.trained, at_heights(robots, TRAINING_S), settings).entry
    found = [
        (trial, *judged_hops(CONFIGURATION, subject.estimator, entry, trial))
        for seed in range(FIRST_TEST_SEED, FIRST_TEST_SEED + size.test_seeds)
        for trial in at_heights([seed], TEST_S)
    ]
    errors = [float(np.nanmean(np.concatenate([one.values[metric] for _, one, _ in found]))) for metric in METRICS]
    return Result(entry, errors, np.sum([_within(told.out, entry, trial) for trial, _, told in found], axis=0))


def _within(out: Array, entry: FilterEntry, trial: Trial) -> Array:
    """(2, P, 3) samples of height and velocity in each phase, and those within one and three standard deviations."""
    phase, ratio = out[:, 5].astype(np.int64), deviations(out, entry, trial)
    bounds = np.array([np.inf, 1.0, 3.0])
    of_phase = [ratio[:, phase == one, None] < bounds for one in range(len(PHASES))]
    return np.stack([one.sum(axis=1) for one in of_phase], axis=1)


def _ground_rows(entries: list[FilterEntry], seeds: range) -> list[Row]:
    """After 30 hops: mean size of the error over test robots, median over training seeds; the drift of a hop."""
    out = []
    for scenario in GROUND_STEP_M:
        found = in_turns(ground_errors, [(entry, scenario, seed) for entry in entries for seed in seeds])
        for way in found[0]:
            errors = np.array([one[way] for one in found]).reshape(len(entries), len(seeds), -1)
            size, signed = np.median(np.abs(errors[..., -1]).mean(axis=1)), np.median(errors[..., -1].mean(axis=1))
            step = np.abs(np.diff(errors, axis=-1)).mean()
            figure = f"{size:.3f} m mean size, {signed:+.3f} m with sign, {step:.3f} m a hop"
            out.append(row(f"ground height after {GROUND_HOPS} hops, {scenario}, {way}", figure))
    return out


def ground_errors(entry: FilterEntry, scenario: str, seed: int) -> dict[str, list[float]]:
    """Of the ground's height under each touchdown, m, as shipped and by eq. (12); the first is where the sum begins."""
    recording = recorded(scenario, "mixed", START_S + GROUND_S, seed)
    uneven = replace(CONFIGURATION, ground_changes=scenario == "uneven", ground_step_stddev_m=GROUND_STEP_M[scenario])
    trial = trial_of(uneven, f"{scenario}, seed {seed}", recording)
    true_m = np.asarray(trial.hops.ground_m if scenario == "uneven" else np.zeros(len(trial.hops.ground_m)))
    ground_m = {"as shipped": _shipped(entry, recording, trial, uneven), "eq. (12)": _summed(entry, trial)}
    errors = {way: one - true_m for way, one in ground_m.items()}
    return {way: (one - one[0])[: GROUND_HOPS + 1].tolist() for way, one in errors.items()}


def _shipped(entry: FilterEntry, recording: Any, trial: Trial, configuration: HopperConfiguration) -> Array:
    """(N,) ground under each true touchdown, by the estimator as a user has it: what it adds to heights."""
    from_start, from_below = (
        one.filter_recording(one.start(None), recording.series, recording.arrival, 0.0)
        for changes in (True, False)
        for one in [HopperEstimator(replace(configuration, ground_changes=changes), "kf1", entry)]
    )
    assert from_start is not None
    assert from_below is not None
    start_ns = int(recording.tracks[configuration.truth_body].stamps_ns[0])
    time_s = (from_start.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    rows = np.searchsorted(time_s, trial.hops.events.times_s(TOUCHDOWN) + _NEAR_S) - 1
    ground: Array = (from_start.means[:, 0] - from_below.means[:, 0])[rows]
    return ground


def _summed(entry: FilterEntry, trial: Trial) -> Array:
    """(N,) the same by eq. (12) as printed: by the height at each touchdown, before its update.

    A touchdown that was not told counts as one at the standing height: nothing is known of a change.
    """
    run = told("kf1", entry, trial)
    kinds, height, told_s = run.events["kind"], run.events["height"], trial.time_s[run.events["sample"]]
    # The filter takes a touchdown for as late as its position update does.
    at_touchdown = height - entry.parameters[phases.DELAY_TD] * run.events["velocity"]
    true_s, standing_m = trial.hops.events.times_s(TOUCHDOWN), CONFIGURATION.robot.standing_height_m
    touchdown = np.full(len(true_s), standing_m)
    for number, at_s in enumerate(true_s):
        near = np.flatnonzero((kinds == TOUCHDOWN) & (np.abs(told_s - at_s) < _NEAR_S))
        if len(near):
            touchdown[number] = at_touchdown[near[0]]
    return np.cumsum(touchdown - standing_m)


def _control_row(entries: list[FilterEntry], seeds: range) -> Row:
    """Where the simulated controller goes by the estimate, each test robot with one training seed's filter."""
    jobs = [
        (entries[k % len(entries)], seed, gait, CONTROL_S[gait]) for k, seed in enumerate(seeds) for gait in CONTROL_S
    ]
    m3, off_m = (np.concatenate(one) for one in zip(*in_turns(controlled, jobs), strict=True))
    figure = f"M3 {np.nanmean(m3):.1f} %, apexes {np.nanmean(off_m):.2f} m off the command, {len(m3)} hops"
    return row("controlled by its own estimate, kf1", figure)


def controlled(entry: FilterEntry, seed: int, gait: str, seconds: float) -> tuple[Array, Array]:
    """(N,) M3, %, and (N,) how far the apexes are off the command, m."""
    simulation: Any = ROBOT.simulation(CONFIGURATION, "hardware", gait, np.random.default_rng(seed))
    estimator = HopperEstimator(CONFIGURATION, "kf1", entry)
    state, order, seen = estimator.start(None), filter_order(ROBOT.channels(CONFIGURATION)), []
    drop_ns = round(START_S * NANOSECONDS_PER_SECOND)
    stamps, means, poses = [], [], []
    for stop_ns in range(_CONTROL_NS, drop_ns + round(seconds * NANOSECONDS_PER_SECOND) + 1, _CONTROL_NS):
        piece = simulation.advance(stop_ns)
        readings = [
            (int(stamp_ns), order[one.channel.sensor], one.channel.sensor, value)
            for one in piece.sensors
            for stamp_ns, value in zip(one.stamps_ns, one.values, strict=True)
        ]
        newest = None
        for stamp_ns, _, sensor, value in sorted(readings, key=lambda one: one[:3]):
            state, estimate, _, events, _ = estimator.step(state, Measurement(stamp_ns, sensor, value))
            # As offline: from the first drop on.
            seen += [one for one in events if isinstance(one, PhaseEvent) and one.seen_ns >= drop_ns]
            if estimate is not None:
                newest = estimate
                stamps.append(stamp_ns)
                means.append(estimate.mean)
        if newest is not None and stop_ns > drop_ns:
            phase = PHASES.index(estimator.phase(state))
            simulation.take_estimate(float(newest.mean[0]), float(newest.mean[1]), phase)
        poses.append((piece.truth[0].stamps_ns, piece.truth[0].values))
    joined = (np.concatenate(one) for one in zip(*poses, strict=True))
    track = BodyTrack.clean(CONFIGURATION.truth_body, *joined)
    start_ns, standing_m = int(track.stamps_ns[0]), CONFIGURATION.robot.standing_height_m
    hops = true_hops((track.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND, track.values[:, 2], standing_m, 0.0)
    time_s, estimated = (np.array(stamps) - start_ns) / NANOSECONDS_PER_SECOND, np.array(means)
    cycles = hop_cycles(HopEvents.from_phase_events(seen, start_ns), time_s, estimated[:, 0], standing_m)
    found = hop_errors(hops, time_s, estimated[:, 0], estimated[:, 1], cycles, HEIGHTS_M[gait])
    return found.values["m3"], found.values["m5"]
