"""Judged runs of salps: recordings by what makes them, models by what trains them, figures of what came out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.pool import in_turns
from benchmarks.recordings import recordings
from onboard_estimation.base.configuration import load
from onboard_estimation.base.installed import resource
from onboard_estimation.campaigns.training import read_training_bag
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.filtering.consistency import Consistency, judge_consistency
from onboard_estimation.judging.judge import _part, _Replays, truth_at
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings
from onboard_estimation.judging.simulated_bags import simulated_recording
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gaits import GAITS
from salp_estimation.simulation.foreign_effects import ForeignScenario
from salp_estimation.simulation.hardware_simulator import HardwareSimulation
from salp_estimation.training.residual_training import train
from salp_estimation.training.runs import training_run

Array = NDArray[np.float64]
Source = Callable[[], LoadedRecording]

ROBOT, CONFIGURATION, GAIT_NAMES = find_robot("salp"), SalpConfiguration(), tuple(GAITS)
SETTLE_S, INSTANTS_HZ = 6.0, 5.0
"""Estimates are judged at so many instants a second, the same ones in all runs: at each of them the last estimate."""
OFF_DEG, CYCLES_S = 20.0, 12.0
"""Of both joint angles at a start that was told wrong, and two cycles of a gait, after which it is judged."""
SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
FIRST_TRAINING_SEED, FORWARD_SEED = 900_000, 910_000
"""Test seeds count from 100 and stay far below."""
_TOLD = ("moves unlike", "contradicts", "contradict the state", "is silent since")
"""Words of sentences on robots and gyros that are not as the filter has them."""


class Run(NamedTuple):
    """A stretch of a run at K instants, by part of the state: errors and standard deviations (K, n), NEES (K,).

    `told` is whether a sentence said that the robot is not as the model has it, or that a gyro is silent.
    """

    error: Mapping[str, Array]
    stddev: Mapping[str, Array]
    nees: Mapping[str, Array]
    told: bool = False

    def rms(self, part: str, columns: slice = slice(None)) -> float:
        """Root of the mean square of all finite errors."""
        return float(np.sqrt(np.nanmean(np.square(self.error[part][:, columns]))))

    @property
    def joints_deg(self) -> float:
        """RMS of the joint angles' errors."""
        return float(np.rad2deg(self.rms("joint_angles")))

    @property
    def covered(self) -> float:
        """Share of the joint angles' errors within three standard deviations."""
        ratio = np.abs(self.error["joint_angles"]) / self.stddev["joint_angles"]
        return float(np.mean(ratio[np.isfinite(ratio)] < 3.0))


@dataclass(frozen=True)
class Job:
    """A filter on a recording.

    Attributes
    ----------
    settings, file
        Of the configuration, beside its defaults.
    seed
        Of the initial error.
    joint_error_rad
        By what the joint angles are told wrong at the start, in place of what is drawn.
    stretches_s
        What is judged, from and until s since the start.
    """

    source: Source
    settings: Mapping[str, Any]
    seed: int
    file: str = ""
    beacon_s: float | None = None
    joint_error_rad: tuple[float, ...] = ()
    stretches_s: tuple[tuple[float, float], ...] = ((SETTLE_S, np.inf),)


def judged(job: Job) -> list[Run]:
    """A run for each stretch: as `judge` does it, without its search for mirror images: simulators make none."""
    configuration = load(SalpConfiguration, resource(job.file) if job.file else None, job.settings)
    settings, recording = JudgeSettings(seed=job.seed, beacon_s=job.beacon_s), job.source()
    replays = _Replays(ROBOT, configuration, "ukf", settings)
    start, _ = replays.initial(recording)
    assert start is not None
    space = ROBOT.estimator(configuration, "ukf").space
    if job.joint_error_rad:
        exact, _ = replace(replays, settings=replace(settings, initial="exact")).initial(recording)
        assert exact is not None
        mean, joints = start.mean.copy(), space.coordinates("joint_angles")
        mean[joints] = space.part("joint_angles").plus(exact.mean[joints], np.array(job.joint_error_rad))
        start = replace(start, mean=mean)
    replayed = replays.replay(replays.with_beacon(recording), start)
    record, noise = replayed.record, ROBOT.truth_specification(configuration).covariances
    true, _ = truth_at(ROBOT, configuration, recording, record.stamps_ns, settings)
    parts = {name: _part(space, name, record, values, noise.get(name)) for name, values in true.items()}
    told = any(words in sentence for words in _TOLD for sentence in replayed.messages)
    return [_stretch(record.time_s, parts, from_s, until_s, told) for from_s, until_s in job.stretches_s]


def _stretch(since_s: Array, parts: Mapping[str, Any], from_s: float, until_s: float, told: bool) -> Run:
    # The last fifth of a second is left: the gyros' last samples come a little before the end.
    at_s = np.arange(from_s, min(until_s, np.ceil(since_s[-1]) - 0.1), 1.0 / INSTANTS_HZ)
    rows = np.searchsorted(since_s, at_s, side="right") - 1
    error, stddev, nees = (
        {name: getattr(parts[name], what)[rows] for name in ("joint_angles", "pose")}
        for what in ("error", "stddev", "nees")
    )
    return Run(error, stddev, nees, told)


def all_judged(jobs: Iterable[Job]) -> list[list[Run]]:
    """Stretches of each job, in their order."""
    return in_turns(judged, [(job,) for job in jobs])


def off_jobs(job: Job) -> list[Job]:
    """From joint angles `OFF_DEG` off, told as they usually are, of all signs; after `CYCLES_S`."""
    errors = [tuple(float(np.deg2rad(OFF_DEG)) * sign for sign in signs) for signs in SIGNS]
    return [replace(job, seed=0, joint_error_rad=error, stretches_s=((CYCLES_S, np.inf),)) for error in errors]


# What recordings are made by.


def simulated(scenario: str, gait: str, seed: int, seconds: float) -> Source:
    """A robot of our own scenarios."""
    return partial(simulated_recording, ROBOT, CONFIGURATION, scenario, gait, seconds, seed)


def foreign(scenario: ForeignScenario, gait: str, seed: int, seconds: float) -> Source:
    """A robot with effects that no estimator has a term for."""
    return partial(_foreign, scenario, gait, seed, seconds)


def unknown(day: int, gait: str) -> Source:
    """The robot of unknown build."""
    return partial(_unknown, day, gait)


def _foreign(scenario: ForeignScenario, gait: str, seed: int, seconds: float) -> LoadedRecording:
    rng = np.random.default_rng(seed)
    simulation = HardwareSimulation(CONFIGURATION.chain, GAITS[gait].controls, rng, foreign=scenario)
    return loaded(simulation.advance(round(1e9 * seconds) + 1))


def _unknown(day: int, gait: str) -> LoadedRecording:
    return read_training_bag(ROBOT, CONFIGURATION, recordings("unknown_salp", f"day_{day}_{gait}"), EvaluateOptions())


def loaded(recording: Any) -> LoadedRecording:
    """What a simulator made, as a bag of it would be read."""
    specification = ROBOT.truth_specification(CONFIGURATION)
    return from_simulator(recording, specification.bodies, specification.held)


# What models are trained with.


@dataclass(frozen=True)
class TrainingSet:
    """Runs of the scenario `hardware`: so many robots (seeds) for each gait, or as many runs forward alone."""

    forward_only: bool = False
    gaits: tuple[str, ...] = GAIT_NAMES
    seeds: int = 5
    duration_s: float = 20.5

    def runs(self) -> list[tuple[str, int]]:
        """Gait and seed of each."""
        if self.forward_only:
            return [("forward", FORWARD_SEED + k) for k in range(len(self.gaits) * self.seeds)]
        numbers = enumerate(self.gaits)
        return [(gait, FIRST_TRAINING_SEED + 100 * number + k) for number, gait in numbers for k in range(self.seeds)]

    def sources(self) -> list[Source]:
        """Of all runs."""
        return [simulated("hardware", gait, seed, self.duration_s) for gait, seed in self.runs()]


class Trained(NamedTuple):
    """Settings of a filter with a model, and the factor of its standard deviations."""

    settings: dict[str, Any]
    factor: float


def trained(folder: Path, form: str, sources: Sequence[Source]) -> Trained:
    """A model in a file of the folder."""
    taught = [source() for source in sources]
    runs = [training_run(CONFIGURATION, one, f"run {number}") for number, one in enumerate(taught)]
    model, _ = train(CONFIGURATION, runs, [""] * len(runs), form, recordings=taught)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".npz", delete=False) as file:
        path = Path(file.name)
    model.save(path)
    return Trained({"residual_model": str(path), "gyro.used_rate_hz": 50.0}, model.inflation)


# What is said of runs.


def consistency(runs: Sequence[Run], part: str) -> Consistency:
    """Of a part, over runs of one length."""
    return judge_consistency(
        *(np.array([getattr(one, what)[part] for one in runs]) for what in ("nees", "error", "stddev"))
    )


def judged_row(table: str, case: str, form: str, runs: Sequence[Run], factor: float | None = None) -> dict[str, Any]:
    """Of the joint angles: medians and worst cases over runs."""
    rms_deg, covered = (np.array([getattr(one, what) for one in runs]) for what in ("joints_deg", "covered"))
    nees = [np.nanmean(one.nees["joint_angles"]) / one.error["joint_angles"].shape[1] for one in runs]
    cells = {
        "case": case,
        "form": form,
        "runs": str(len(runs)),
        "joint RMSE, median (worst)": f"{np.median(rms_deg):.2f} ({rms_deg.max():.2f}) deg",
        "3 sigma": f"{covered.mean():.3f}",
        "throughout": f"{(covered == 1.0).sum()} runs",
        "NEES": f"{np.mean(nees):.2f}",
        "told": f"{sum(one.told for one in runs)} runs",
        **({} if factor is None else {"factor": f"{factor:.2f}"}),
    }
    return {"case": f"{case}, {form}", "table": table, "cells": cells}


def full_row(table: str, case: str, gait: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Of joint angles and pose, with what instants and standard deviations say."""
    rms_deg = np.array([one.joints_deg for one in runs])
    stated = [np.rad2deg(np.sqrt(np.nanmean(one.stddev["joint_angles"] ** 2))) for one in runs]
    position_cm = [100.0 * np.sqrt(2.0) * one.rms("pose", slice(2)) for one in runs]
    heading_deg = [np.rad2deg(one.rms("pose", slice(2, 3))) for one in runs]
    cells = {
        "case": case,
        "gait": gait,
        "runs": str(len(runs)),
        "joint RMSE, median (worst)": f"{np.median(rms_deg):.2f} ({rms_deg.max():.2f}) deg",
        "stated": f"{np.median(stated):.1f} deg",
        "position": f"{np.median(position_cm):.1f} ({max(position_cm):.1f}) cm",
        "heading": f"{np.median(heading_deg):.1f} ({max(heading_deg):.1f}) deg",
    }
    for part, words in (("joint_angles", "joint angles"), ("pose", "pose")):
        found = consistency(runs, part)
        cells[f"{words}: NEES"] = f"{found.nees_per_degree_of_freedom:.3g}"
        cells[f"{words}: in band"] = f"{100.0 * found.share_in_band:.0f} %"
        cells[f"{words}: 1, 3 sigma"] = f"{found.coverage_1_sigma:.2f}, {found.coverage_3_sigma:.3f}"
    return {
        "case": f"{table}: {case}, {gait}",
        "table": table,
        "gait": gait,
        "joint_rmse_deg": rms_deg.tolist(),
        "cells": cells,
    }
