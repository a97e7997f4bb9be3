"""Judged runs of `hopper_filters`: filters on simulated robots that nothing was learned or chosen on.

Offline, over recordings whose height was controlled by the truth, and in the loop: the simulated controller goes by the
estimate of a filter that is fed sample by sample, as on the robot.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.hopper.hopper_filters_jobs import Job
from benchmarks.hopper.hopper_filters_models import START_S, Search, entry_of, training_job, trials
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.estimator import HopperEstimator
from hopper_estimation.filter_calibration import filtered
from hopper_estimation.filter_model import FilterEntry
from hopper_estimation.filters import Filtered
from hopper_estimation.hop_matching import HopMatches, match_events
from hopper_estimation.hop_metrics import METRICS, HopErrors, commands_at, hop_errors
from hopper_estimation.hop_truth import TrueHops, true_hops
from hopper_estimation.hops import HopEvents, hop_cycles
from hopper_estimation.phases import EVENTS, PHASES
from hopper_estimation.training_trials import Trial
from onboard_estimation.evaluation.truth import BodyTrack
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Measurement, filter_order
from onboard_estimation.robots import find_robot

Array = NDArray[np.float64]
Line = dict[str, Any]

FIRST_TEST_SEED = 7000
TEST_S = {"1m": 20.0, "2m": 20.0, "3m": 24.0, "4m": 28.0}
"""Of hopping, by commanded height: ten hops or more."""
HEIGHTS_M = {"1m": 1.0, "2m": 2.0, "3m": 3.0, "4m": 4.0}
PARTS = ("cycle", "aerial")
CONTROL_NS = 2_500_000
"""The controller's period."""


@lru_cache(maxsize=16)
def test_trials(seed: int) -> list[Trial]:
    """Of a test robot at all commanded heights."""
    return trials([seed], TEST_S)


def judging_job(estimator: str, search: Search | None, training_seed: int, robots: int, seeds: list[int]) -> Job:
    """To judge a filter on test robots; without a search: an estimator that is not trained."""
    return Job.of(
        "hopper_filters_runs.judged",
        estimator=estimator,
        search=None if search is None else asdict(search),
        training_seed=training_seed,
        robots=robots,
        seeds=seeds,
    )


def judged(
    estimator: str,
    search: dict[str, Any] | None,
    training_seed: int,
    robots: int,
    seeds: list[int],
) -> Line:
    """Errors by hop, coverage by phase and timing of events."""
    training = None if search is None else training_job(Search(**search), training_seed, robots)
    entry = entry_of(estimator, training)
    errors: list[Line] = []
    within = np.zeros((2, len(PHASES), 3))
    timing: dict[str, Line] = {name: {"error_s": [], "delay_s": [], "missed": 0, "extra": 0} for name in EVENTS}
    for trial in (one for seed in seeds for one in test_trials(seed)):
        run = run_of(estimator, entry, trial)
        events = told_events(run, entry, trial.time_s)
        errors += [plain(one) for one in trial_errors(estimator, run, events, trial)]
        within += coverage(run.out, entry, trial)
        for kind, name in enumerate(EVENTS):
            found = match_events(trial.hops.events, events, kind)
            timing[name]["error_s"] += found.error_s.tolist()
            timing[name]["delay_s"] += found.delay_s.tolist()
            timing[name]["missed"] += found.missed
            timing[name]["extra"] += found.extra
    return {"errors": errors, "within": within.tolist(), "timing": timing}


def run_of(estimator: str, entry: FilterEntry, trial: Trial) -> Filtered:
    """A filter over a trial."""
    zz, zv, vv = entry.start_covariance
    return filtered(HopperConfiguration(), estimator, entry.parameters, trial, np.array([[zz, zv], [zv, vv]]))


def told_events(run: Filtered, entry: FilterEntry, time_s: Array) -> HopEvents:
    """Events as they are told: seen at a sample, happened so much earlier."""
    kinds = run.events["kind"]
    seen_s = time_s[run.events["sample"]]
    return HopEvents.of(kinds, seen_s - entry.event_delay_s[kinds], seen_s, run.events["height"])


def trial_errors(estimator: str, run: Filtered, events: HopEvents, trial: Trial) -> list[HopErrors]:
    """Over whole cycles, and over flights only."""
    height, velocity = run.out[:, 0], run.out[:, 1]
    cycles = hop_cycles(events, trial.time_s, height, HopperConfiguration().robot.standing_height_m)
    command = commands_at(trial.hops.cycles.apex_s, trial.time_s, trial.signals["goal"])
    return [
        hop_errors(estimator, trial.hops, trial.time_s, height, velocity, cycles, command, "GT", part)  # type: ignore[arg-type]
        for part in PARTS
    ]


def coverage(out: Array, entry: FilterEntry, trial: Trial) -> Array:
    """(2, 5, 3) of height and velocity in each phase: samples, those within one and three standard deviations."""
    phase, within = out[:, 5].astype(np.int64), np.zeros((2, len(PHASES), 3))
    truth = (trial.true_height_m, trial.true_velocity_m_s)
    scales = ((entry.height_scale, entry.height_floor_m), (entry.velocity_scale, entry.velocity_floor_m_s))
    for number, (true, (scale, floor)) in enumerate(zip(truth, scales, strict=True)):
        stddev = np.sqrt(scale[phase] ** 2 * np.maximum(out[:, 2 + 2 * number], 0.0) + floor[phase] ** 2)
        ratio = np.abs(out[:, number] - true) / stddev
        for which in range(len(PHASES)):
            chosen = ratio[(phase == which) & np.isfinite(ratio)]
            within[number, which] = len(chosen), np.sum(chosen < 1.0), np.sum(chosen < 3.0)
    return within


def control_job(search: Search, training_seed: int, robots: int, seed: int, gait: str, seconds: float) -> Job:
    """To let a filter control a test robot."""
    return Job.of(
        "hopper_filters_runs.controlled",
        search=asdict(search),
        training_seed=training_seed,
        robots=robots,
        seed=seed,
        gait=gait,
        seconds=seconds,
    )


def controlled(
    search: dict[str, Any], training_seed: int, robots: int, seed: int, gait: str, seconds: float
) -> list[Line]:
    """Errors by hop where the controller goes by the estimate: over whole cycles, and over flights only."""
    wanted = Search(**search)
    entry = entry_of(wanted.estimator, training_job(wanted, training_seed, robots))
    configuration = HopperConfiguration()
    robot = find_robot("hopper")
    simulation: Any = robot.simulation(configuration, "hardware", gait, np.random.default_rng(seed))
    estimator = HopperEstimator(configuration, wanted.estimator, entry)
    state, order, told = estimator.start(None), filter_order(robot.channels(configuration)), []
    drop_ns = round(START_S * NANOSECONDS_PER_SECOND)
    stamps, means = [], []
    poses: list[tuple[Array, Array]] = []
    for stop_ns in range(CONTROL_NS, drop_ns + round(seconds * NANOSECONDS_PER_SECOND) + 1, CONTROL_NS):
        piece = simulation.advance(stop_ns)
        rows = [
            (int(stamp_ns), order[one.channel.sensor], one.channel.sensor, value)
            for one in piece.sensors
            for stamp_ns, value in zip(one.stamps_ns, one.values, strict=True)
        ]
        newest = None
        for stamp_ns, _, sensor, value in sorted(rows, key=lambda row: row[:3]):
            state, estimate, _, events, _ = estimator.step(state, Measurement(stamp_ns, sensor, value))
            told += [event for event in events if event.seen_ns >= drop_ns]  # as offline: from the first drop on
            if estimate is not None:
                newest = estimate
                stamps.append(stamp_ns)
                means.append(estimate.mean)
        if newest is not None and stop_ns > drop_ns:
            phase = PHASES.index(estimator.phase(state))
            simulation.take_estimate(float(newest.mean[0]), float(newest.mean[1]), phase)
        poses.append((piece.truth[0].stamps_ns, piece.truth[0].values))
    track = BodyTrack.clean(
        configuration.truth_body, np.concatenate([one[0] for one in poses]), np.concatenate([one[1] for one in poses])
    )
    start_ns = int(track.stamps_ns[0])
    standing = configuration.robot.standing_height_m
    hops = true_hops((track.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND, track.values[:, 2], standing, 0.0)
    time_s = (np.array(stamps) - start_ns) / NANOSECONDS_PER_SECOND
    estimated = np.array(means)
    cycles = hop_cycles(HopEvents.from_phase_events(told, start_ns), time_s, estimated[:, 0], standing)
    return [
        plain(
            hop_errors(
                wanted.estimator,
                _after(hops, START_S),
                time_s,
                estimated[:, 0],
                estimated[:, 1],
                cycles,
                HEIGHTS_M[gait],
                "SE",
                part,  # type: ignore[arg-type]
            )
        )
        for part in PARTS
    ]


def _after(hops: TrueHops, start_s: float) -> TrueHops:
    """RuntimeError where the flight to the first drop was taken for a hop."""
    if len(hops.cycles) and hops.cycles.touchdown_s[0] < start_s:
        raise RuntimeError(f"a hop at {hops.cycles.touchdown_s[0]:.2f} s, before the drop at {start_s:g} s")
    return hops


def plain(errors: HopErrors) -> Line:
    """As plain data."""
    return {
        "estimator": errors.estimator,
        "control": errors.control,
        "part": errors.part,
        "values": {metric: _short(errors.values[metric]) for metric in METRICS},
        "apex_error_m": _short(errors.apex_error_m),
        "apex_time_error_s": _short(errors.apex_time_error_s),
        "command_m": errors.command_m.tolist(),
        "touchdown_s": errors.touchdown_s.tolist(),
        "partner": errors.matches.partner.tolist(),
        "extra": errors.matches.extra.tolist(),
    }


def errors_of(line: Line, name: str | None = None) -> HopErrors:
    """Back from plain data, under another name."""
    arrays = {
        key: np.array(line[key], float) for key in ("apex_error_m", "apex_time_error_s", "command_m", "touchdown_s")
    }
    return HopErrors(
        name or line["estimator"],
        line["control"],
        line["part"],
        {metric: np.array(line["values"][metric], float) for metric in METRICS},
        np.full(len(line["command_m"]), np.nan),
        arrays["apex_error_m"],
        arrays["apex_time_error_s"],
        arrays["command_m"],
        arrays["touchdown_s"],
        HopMatches(np.array(line["partner"], dtype=np.int64), np.array(line["extra"], dtype=np.int64)),
    )


def _short(values: Array) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
