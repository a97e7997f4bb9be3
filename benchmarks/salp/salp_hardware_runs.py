"""Judged runs of `salp_hardware`: which are asked for, done in parallel, one line of figures each.

Lines are added to `scratch/salp_hardware/runs.jsonl` as they come. Each has a key made of the code and settings that it
comes from, so that a benchmark that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.salp.salp_hardware_models import ALL_GAITS, SCRATCH, Model, Subject, trained
from onboard_estimation.capabilities.truth import initial_state
from onboard_estimation.evaluation.recording import LoadedRecording, with_beacon
from onboard_estimation.evaluation.replay import EstimateSeries
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.filtering.consistency import nees
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.pipeline import Pipeline
from onboard_estimation.robots import Robot, find_robot
from salp_estimation.configuration import SalpConfiguration

Array = NDArray[np.float64]
Line = dict[str, Any]

SETTLE_S = 6.0
TRUTH_GAP_S = 0.1
"""Motion capture is interpolated between messages at most this far apart, as by `judge`."""
INSTANTS_HZ = 5.0
"""Estimates are judged at so many instants a second, the same ones in all runs: at each of them the last estimate."""
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Campaign:
    """A subject over gaits and seeds."""

    subject: Subject
    seeds: tuple[int, ...]
    gaits: tuple[str, ...] = ALL_GAITS
    duration_s: float = 60.0


@dataclass(frozen=True)
class Job:
    """One simulated recording, and all that is judged on it."""

    scenario: str
    gait: str
    seed: int
    duration_s: float
    subjects: tuple[Subject, ...]


def line_key(subject: Subject, gait: str, seed: int, duration_s: float) -> str:
    """By which a line is found again."""
    return f"{subject.key()}/{gait}/{seed}/{duration_s:g}"


def compute(campaigns: Iterable[Campaign], workers: int | None = None) -> dict[str, Line]:
    """Lines of all campaigns by their keys; what is kept is taken from there, all else is done, and kept.

    Parameters
    ----------
    workers
        Processes; None: one for each core. 0: in this process.
    """
    campaigns = list(campaigns)
    wanted = {
        line_key(one.subject, gait, seed, one.duration_s): (gait, seed, one.duration_s, one.subject)
        for one in campaigns
        for seed in one.seeds
        for gait in one.gaits
    }
    lines = {name: line for name, line in _kept().items() if name in wanted}
    missing = [settings for name, settings in wanted.items() if name not in lines]
    if lines:
        print(f"{len(lines)} of {len(wanted)} runs are there from before", flush=True)
    together: dict[tuple[str, str, int, float], list[Subject]] = {}
    for gait, seed, duration_s, subject in missing:
        together.setdefault((subject.scenario, gait, seed, duration_s), []).append(subject)
    jobs = [Job(*which, tuple(subjects)) for which, subjects in together.items()]
    models = {subject.model for job in jobs for subject in job.subjects if subject.model is not None}
    start = time.monotonic()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with (SCRATCH / "runs.jsonl").open("a") as file:
        for number, done in enumerate(_done(jobs, list(models), workers), 1):
            for line in done:
                lines[line["key"]] = line
                file.write(json.dumps(line) + "\n")
            file.flush()
            gone_s = time.monotonic() - start
            print(f"{number} of {len(jobs)} recordings judged, {gone_s:.0f} s: {_said(done)}", flush=True)
    return lines


def _done(jobs: list[Job], models: list[Model], workers: int | None) -> Iterator[list[Line]]:
    """Results of the jobs as they come; models are trained before."""
    if workers == 0:
        for model in models:
            trained(model)
        yield from map(judged, jobs)
        return
    for name in _ONE_THREAD:  # before a process of the pool imports NumPy
        os.environ[name] = "1"
    with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for file in as_completed([pool.submit(trained, model) for model in models]):
            print(f"trained {file.result().name}", flush=True)
        for future in as_completed([pool.submit(judged, job) for job in jobs]):
            yield future.result()


def _kept() -> dict[str, Line]:
    path = SCRATCH / "runs.jsonl"
    lines = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:  # of a run that was killed while it wrote
            continue
        lines[line["key"]] = line
    return lines


def _said(done: list[Line]) -> str:
    said = [f"{one['subject']} {np.rad2deg(rms(np.array(one['joint_angles']['error']))):.2f}" for one in done]
    return f"{done[0]['gait']}, seed {done[0]['seed']}, joint RMSE in deg: {'; '.join(said)}"


def rms(errors: Array) -> float:
    """Root of the mean square of all finite errors."""
    return float(np.sqrt(np.nanmean(np.square(errors))))


def judged(job: Job) -> list[Line]:
    """A line for each subject."""
    robot = find_robot("salp")
    recording = simulated_recording(robot, SalpConfiguration(), job.scenario, job.gait, job.duration_s, job.seed)
    return [_line(subject, job, recording) for subject in job.subjects]


def _line(subject: Subject, job: Job, recording: LoadedRecording) -> Line:
    robot, configuration = find_robot("salp"), subject.configuration()
    seen = with_beacon(robot, configuration, recording, subject.beacon_s, TRUTH_GAP_S)
    start_s = time.process_time()
    record, parts = replayed(robot, configuration, seen, job.seed)
    took_s = time.process_time() - start_s
    since_s = (record.stamps_ns - record.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    rows = np.searchsorted(since_s, instants(job.duration_s), side="right") - 1
    line: Line = {
        "key": line_key(subject, job.gait, job.seed, job.duration_s),
        "subject": subject.name,
        "gait": job.gait,
        "seed": job.seed,
        "processor_s": round(took_s, 2),
    }
    for name, true in parts.items():
        error, covariance = part_errors(robot, configuration, record, name, true, rows)
        stddev = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        line[name] = {"error": _short(error), "stddev": _short(stddev), "nees": _short(nees(error, covariance))}
    return line


def replayed(
    robot: Robot,
    configuration: SalpConfiguration,
    recording: LoadedRecording,
    seed: int,
    joint_error_rad: Array | None = None,
    tell: Callable[[str], None] | None = None,
) -> tuple[EstimateSeries, dict[str, Array]]:
    """What the filter says of a recording, and the truth at the same stamps.

    `joint_error_rad` (N - 1,) is by what the joint angles are told wrong at the start, in place of what is drawn;
    `tell` receives the sentences of the run.

    As `judge` does it, with the initial error that it draws for this seed, but without its search for mirror images: a
    simulator makes none, and a filter that is lost would be replayed three times more.
    """
    covariance = robot.initial_covariance(configuration)
    assert covariance is not None
    space = robot.estimator(configuration, "ukf").space
    stamps = np.unique(np.concatenate([one.stamps_ns for one in recording.series]))
    parts = truth_at(robot, configuration, recording, stamps)
    first = int(np.argmax(np.isfinite(parts["pose"]).all(axis=1)))
    start = initial_state(space, {name: one[first] for name, one in parts.items()}, covariance, int(stamps[first]))
    error = covariance_root(covariance) @ np.random.default_rng(seed).normal(size=space.dimension)
    for block in space.blocks:
        if block.name not in parts:  # a gyro's bias starts at zero
            error[space.tangent(block.name)] = 0.0
    if joint_error_rad is not None:
        error[space.tangent("joint_angles")] = joint_error_rad
    start = replace(start, mean=space.plus(start.mean, error))
    estimator, channels = robot.estimator(configuration, "ukf"), robot.channels(configuration)
    pipeline = Pipeline(estimator, channels, start, configuration.lag_s, tell=tell)
    record = EstimateSeries.of(pipeline.run(recording.measurements()))
    return record, truth_at(robot, configuration, recording, record.stamps_ns)


def part_errors(
    robot: Robot,
    configuration: SalpConfiguration,
    record: EstimateSeries,
    name: str,
    true: Array,
    rows: NDArray[np.intp],
) -> tuple[Array, Array]:
    """(K, n) errors of a part of the state in these rows, and (K, n, n) their covariances, with the truth's noise."""
    space = robot.estimator(configuration, "ukf").space
    # The covariance belongs to the tangent space at the estimate, so the error is taken there too.
    errors: Array = -space.part(name).minus(true[rows], record.means[rows][:, space.coordinates(name)])
    tangent = space.tangent(name)
    return errors, record.covariances[rows][:, tangent, tangent] + robot.truth_specification(configuration).covariances[
        name
    ]


def truth_at(
    robot: Robot, configuration: SalpConfiguration, recording: LoadedRecording, stamps_ns: NDArray[np.int64]
) -> dict[str, Array]:
    """Parts of the state at the stamps; NaN where motion capture has a gap."""
    bodies = robot.truth_specification(configuration).bodies
    found = {body: recording.tracks[body].at(stamps_ns, TRUTH_GAP_S) for body in bodies}
    valid = np.all([good for _, good in found.values()], axis=0)
    parts = robot.true_parts(configuration, {body: values for body, (values, _) in found.items()})
    return {name: np.where(valid[:, None], values, np.nan) for name, values in parts.items()}


def instants(duration_s: float) -> Array:
    """Seconds since the start at which a run is judged."""
    # The last fifth of a second is left: the gyros' last samples come a little before the end.
    return np.arange(SETTLE_S, duration_s - 0.1, 1.0 / INSTANTS_HZ)


def _short(values: Array) -> Any:
    """Nested lists of numbers with five digits."""
    return [float(f"{value:.5g}") for value in values] if values.ndim == 1 else [_short(row) for row in values]
