"""Runs of simulated LandSalps, and what filters make of them.

A day is a robot of the scenario `hardware`: its friction, harness, delays and mounting. The paper's runs, training and
held out, are of one robot; runs of one day here have that day's robot, and noise and floor of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Vector
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.filtering.consistency import effective_sample_size, nees
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.chain_estimator import COMMAND, STANDING_M_S
from salp_estimation.estimators.estimator import SalpEstimator
from salp_estimation.estimators.paper_filter import FRESH_S, RATE_HZ, PaperFilter, PaperModel, load_trained
from salp_estimation.estimators.residual_estimator import ResidualEstimator, initial_covariance
from salp_estimation.model.configuration import PAPER, SalpConfiguration
from salp_estimation.model.gait_design import gait_for
from salp_estimation.model.gaits import SETTLE_S
from salp_estimation.simulation.hardware_scenario import hardware_scenario
from salp_estimation.simulation.hardware_simulator import HardwareRobot, HardwareSimulation
from salp_estimation.training.paper_training import driving, fitted, residuals, sampled
from salp_estimation.training.references import thinned
from salp_estimation.training.residual_training import train
from salp_estimation.training.runs import in_force, rim_speeds, training_run

Rows = NDArray[np.float64]

CALIBRATED = "calibrated"
OURS_RATE_HZ = 50.0
"""Gyros' rate that our filters are given; the paper's takes the last sample of each period."""
_LOOKED_AT = 5000  # stamps, for the truth's first one


@dataclass(frozen=True)
class Drive:
    """A gait, driven for some time after the rest at the start, for the `number`-th time on a day."""

    gait: str
    day: int
    number: int
    duration_s: float

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.gait}, day {self.day}, run {self.number}"

    def recording(self, configuration: SalpConfiguration) -> LoadedRecording:
        """What is recorded of it."""
        chain, scenario = configuration.chain, hardware_scenario()
        robot = HardwareRobot(chain, scenario, np.random.default_rng(self.day))
        rng = np.random.default_rng([self.day, self.number])
        simulation = HardwareSimulation(chain, gait_for(chain, self.gait).controls, rng, scenario, robot=robot)
        stop_ns = round((scenario.rest_s + self.duration_s) * NANOSECONDS_PER_SECOND) + 1
        return from_simulator(simulation.advance(stop_ns), chain.link_names)


@dataclass(frozen=True)
class Filter:
    """A filter: that of a model's file, or the one without a model where there is none.

    `noise_factor` multiplies Q and R of the paper's.
    """

    name: str
    model: Path | None = None
    noise_factor: float = 1.0

    def built(self, configuration: SalpConfiguration) -> SalpEstimator | ResidualEstimator | PaperFilter:
        """Of a file, read once."""
        if self.model is None:
            return SalpEstimator(configuration)
        model = load_trained(str(self.model), configuration)
        if isinstance(model, PaperModel):
            return PaperFilter(configuration, model, self.noise_factor)
        return ResidualEstimator(configuration, model)


class Judged(NamedTuple):
    """A filter on a run at K instants: time since its start (K,), s; true joint angles and rim speeds in force.

    Errors and standard deviations (K, N + 2) of the pose, in the body frame, and of the joint angles, and the NEES (K,)
    of the joint angles for each degree of freedom.
    """

    time_s: Vector
    error: Rows
    stddev: Rows
    nees: Vector
    joint_angles: Rows
    controls: Rows

    @property
    def settled(self) -> NDArray[np.bool_]:
        """(K,) from `SETTLE_S` on."""
        return np.asarray(self.time_s >= SETTLE_S, dtype=np.bool_)

    @property
    def rmse_deg(self) -> float:
        """Of the joint angles."""
        return float(np.rad2deg(np.sqrt(np.mean(self.error[self.settled, 3:] ** 2))))

    @property
    def within(self) -> float:
        """Share of the joint angles' errors within three standard deviations."""
        return float(np.mean(np.abs(self.error[self.settled, 3:]) <= 3.0 * self.stddev[self.settled, 3:]))

    @property
    def mean_nees(self) -> float:
        """Of the joint angles, for each degree of freedom."""
        return float(np.mean(self.nees[self.settled]))

    @property
    def drift_cm(self) -> float:
        """Of the position at the end."""
        return float(100.0 * np.hypot(*self.error[-1, :2]))


def true_states(configuration: SalpConfiguration, recording: LoadedRecording, at_ns: NDArray[np.int64]) -> Rows:
    """(K, N + 2) by motion capture, NaN where there is none."""
    found = [recording.tracks[name].at(at_ns, FRESH_S) for name in configuration.chain.link_names]
    poses = np.stack([planar_pose(values) for values, _ in found], axis=1)
    states = configuration.chain.build().state_from_links(poses)
    states[~np.all([known for _, known in found], axis=0)] = np.nan
    return states


def judged(configuration: SalpConfiguration, recording: LoadedRecording, one: Filter) -> Judged:
    """A filter from the true state, told as surely as in section V-B, at its estimates, `RATE_HZ` at the most.

    The paper's begins with the drive.
    """
    estimator, chain = one.built(configuration), configuration.chain
    space, size = estimator.space, len(chain.link_names) + 2
    papers, ours = isinstance(estimator, PaperFilter), isinstance(estimator, ResidualEstimator)
    command = next(series for series in recording.series if series.channel.sensor == COMMAND)
    commanded = rim_speeds(chain, command)
    stamps_ns = np.unique(np.concatenate([series.stamps_ns for series in recording.series]))[:_LOOKED_AT]
    ready = np.isfinite(true_states(configuration, recording, stamps_ns)).all(axis=1)
    if papers:  # it knows nothing of a robot at rest
        ready &= np.abs(in_force(*commanded, stamps_ns)).max(axis=1) > STANDING_M_S
    begin = int(np.argmax(ready))
    start_ns = int(stamps_ns[begin])
    covariance = initial_covariance(configuration) if ours else configuration.initial_covariance()
    mean = np.zeros(space.coordinate_count)
    mean[:size] = true_states(configuration, recording, stamps_ns[begin : begin + 1])[0]
    initial = Estimate(start_ns, mean, covariance)
    channels = [series.channel for series in recording.series]
    measurements = list(recording.measurements()) if papers else thinned(recording.series, OURS_RATE_HZ)
    record = list(Pipeline(estimator, channels, initial, configuration.lag_s).run(measurements))
    slots = (np.array([estimate.stamp_ns for estimate in record]) - start_ns) * RATE_HZ // NANOSECONDS_PER_SECOND
    record = [record[k] for k in np.flatnonzero(np.diff(slots, prepend=-1.0))]
    at_ns = np.array([estimate.stamp_ns for estimate in record])
    true = true_states(configuration, recording, at_ns)
    known = np.isfinite(true).all(axis=1)
    base = chain.build().space()
    means = np.array([estimate.mean[:size] for estimate in record])[known]
    spreads = np.array([estimate.covariance[:size, :size] for estimate in record])[known]
    noise = configuration.true_covariances()
    spreads[:, :3, :3] += noise["pose"]
    spreads[:, 3:, 3:] += noise["joint_angles"]
    true, at_ns = true[known], at_ns[known]
    errors = -np.array([base.minus(*pair) for pair in zip(true, means, strict=True)])
    return Judged(
        (at_ns - start_ns) / NANOSECONDS_PER_SECOND,
        errors,
        np.sqrt(np.diagonal(spreads, axis1=1, axis2=2)),
        nees(errors[:, 3:], spreads[:, 3:, 3:]) / (size - 3),
        true[:, 3:],
        in_force(*commanded, at_ns),
    )


def judged_drive(task: tuple[SalpConfiguration, Drive, tuple[Filter, ...]]) -> dict[str, Judged]:
    """What each filter makes of a run, by its name."""
    configuration, drive, filters = task
    recording = drive.recording(configuration)
    return {one.name: judged(configuration, recording, one) for one in filters}


class Honesty(NamedTuple):
    """Of a model's processes on a run that they have not seen: two numbers for their residuals of D_f and D_h together.

    Attributes
    ----------
    variance_ratio
        Mean square of what is left over the variance that the processes state.
    instants_as_one
        How many successive residuals count as one, for they are correlated.
    """

    variance_ratio: float
    instants_as_one: float


def honesty(task: tuple[SalpConfiguration, Drive, Path]) -> Honesty:
    """Of a model's file on a run."""
    configuration, drive, path = task
    model = load_trained(str(path), configuration)
    assert isinstance(model, PaperModel)
    chain = configuration.chain.build()
    inputs, targets = residuals(chain, sampled(configuration, drive.recording(configuration)))
    rows = driving(inputs, targets, chain.link_count)
    inputs, targets = inputs[rows], targets[rows]
    everything = slice(None)
    left = targets - model.processes.means(inputs, everything)
    some = inputs[:: max(1, len(inputs) // 60)]
    stated = np.mean([model.processes.variances(one, everything) for one in some], axis=0)
    normalised = left / np.sqrt(stated)
    return Honesty(float(np.mean(normalised**2)), len(left) / effective_sample_size(normalised))


class Lesson(NamedTuple):
    """Runs that teach, and the files of the models of them, by form.

    `points` is how many the paper's form takes at the most; `held_out` whether the covariance of ours is calibrated.
    """

    drives: tuple[Drive, ...]
    files: dict[str, Path]
    points: int
    held_out: bool


def taught(task: tuple[SalpConfiguration, Lesson]) -> int:
    """Train models into their files; how many points the paper's took."""
    configuration, lesson = task
    return taught_by(configuration, {one.name: one.recording(configuration) for one in lesson.drives}, lesson)


def taught_by(configuration: SalpConfiguration, recordings: Mapping[str, LoadedRecording], lesson: Lesson) -> int:
    """The same with these recordings."""
    hashes = [""] * len(recordings)
    model = fitted(configuration, recordings, hashes, lesson.points)
    model.save(lesson.files[PAPER])
    if CALIBRATED in lesson.files:
        runs = [training_run(configuration, one, name) for name, one in recordings.items()]
        judging = list(recordings.values()) if lesson.held_out else None
        ours, _ = train(configuration, runs, hashes, CALIBRATED, recordings=judging)
        ours.save(lesson.files[CALIBRATED])
    return len(model.inputs)
