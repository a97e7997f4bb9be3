"""Runs of simulated LandSalps, the models that they teach, and what filters make of other runs.

A day is a robot of the scenario `hardware`: its friction, harness, delays and mounting. The paper's runs, training and
held out, are of one robot; runs of one day here have that day's robot, and noise and floor of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.filtering.consistency import effective_sample_size
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from salp_estimation.estimators.paper_filter import PaperModel, load_trained
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gait_design import gait_for
from salp_estimation.model.gaits import GAITS
from salp_estimation.robot import ROBOT
from salp_estimation.simulation.hardware_scenario import hardware_scenario
from salp_estimation.simulation.hardware_simulator import HardwareRobot, HardwareSimulation
from salp_estimation.training.paper_training import driving, fitted, residuals, sampled
from salp_estimation.training.residual_training import train
from salp_estimation.training.runs import training_run

Rows = NDArray[np.float64]

FIRST_DAY, FIRST_OTHER_DAY, CHECKED_DAY, FIRST_TEST_DAY = 930_000, 931_000, 932_000, 100
"""Seeds: days that teach and are judged, days that teach beside the first one, the day that noise is chosen on, days
that judge alone."""
CHECKED_RUN, TEST_RUN, SHOWN_RUN = 50, 60, 70
"""Numbers of a day's runs; from zero on they teach."""
FORWARD_ONLY, MULTI_GAIT, FIVE_DAYS, AS_ONE = "forward-only", "multi-gait", "five days", "five days, as one"
OURS, PLAIN = "ours (calibrated)", "ours (no model)"
_REST_NS = round(hardware_scenario().rest_s * NANOSECONDS_PER_SECOND)


class Drive(NamedTuple):
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
        rng = np.random.default_rng([self.day, self.number, list(GAITS).index(self.gait)])
        simulation = HardwareSimulation(chain, gait_for(chain, self.gait).controls, rng, scenario, robot=robot)
        stop_ns = _REST_NS + round(self.duration_s * NANOSECONDS_PER_SECOND) + 1
        return from_simulator(simulation.advance(stop_ns), chain.link_names)


def driven(recording: LoadedRecording) -> LoadedRecording:
    """What is recorded from the start of the drive on: the paper's filter knows nothing of a robot at rest."""
    return recording.within(_REST_NS, np.iinfo(np.int64).max, {one.channel.sensor for one in recording.series})


def evaluated(configuration: SalpConfiguration, recording: LoadedRecording, model: Path | None) -> EvaluationResult:
    """A filter with that model, or the one without, from the true state, told as surely as in section V-B."""
    one = replace(configuration, residual_model=str(model or ""))
    return judge(ROBOT, one, "ukf", recording, JudgeSettings(initial="exact"))


def figures_of(task: tuple[SalpConfiguration, Drive, Mapping[str, Path | None]]) -> list[tuple[float, ...]]:
    """RMSE (deg), share within 3 sigma and NEES of joint angles, position off at the end (cm): by each of the filters.

    Models by the names of the filters.
    """
    configuration, drive, models = task
    recording, found = drive.recording(configuration), []
    for name, model in models.items():
        result = evaluated(configuration, recording if name in (OURS, PLAIN) else driven(recording), model)
        joints, pose = result.metrics["joint_angles"], result.parts["pose"]
        names = "rmse_deg", "coverage_3_sigma", "mean_nees_per_degree_of_freedom"
        drift_cm = 100.0 * np.hypot(*pose.error[pose.matched][-1, :2])
        found.append((*(joints[one] for one in names), float(drift_cm)))
    return found


def _honesty(task: tuple[SalpConfiguration, Drive, Path]) -> tuple[float, float]:
    """Of a model on a run: mean square of residuals over the stated variance, and how many of them count as one."""
    configuration, drive, path = task
    model, chain = load_trained(str(path), configuration), configuration.chain.build()
    assert isinstance(model, PaperModel)
    inputs, targets = residuals(chain, sampled(configuration, drive.recording(configuration)))
    rows, everything = driving(inputs, targets, chain.link_count), slice(None)
    left = targets[rows] - model.processes.means(inputs[rows], everything)
    some = inputs[rows][:: max(1, len(left) // 60)]
    normalised = left / np.sqrt(np.mean([model.processes.variances(one, everything) for one in some], axis=0))
    return float(np.mean(normalised**2)), len(left) / effective_sample_size(normalised)


def _taught(task: tuple[SalpConfiguration, Sequence[Drive], Mapping[str, Path], int, bool]) -> int:
    """As `teach`, of simulated runs."""
    configuration, drives, files, points, quick = task
    return teach(configuration, {one.name: one.recording(configuration) for one in drives}, files, points, quick)


def teach(
    configuration: SalpConfiguration,
    recordings: Mapping[str, LoadedRecording],
    files: Mapping[str, Path],
    points: int,
    quick: bool,
) -> int:
    """Train the paper's model, and ours where a file is named for it; how many points the paper's took.

    Parameters
    ----------
    points
        Of the paper's model, at the most.
    quick
        No runs are held out to calibrate the covariance of ours.
    """
    hashes = [""] * len(recordings)
    model = fitted(configuration, recordings, hashes, points)
    model.save(files[MULTI_GAIT])
    if OURS in files:
        runs = [training_run(configuration, one, name) for name, one in recordings.items()]
        ours, _ = train(configuration, runs, hashes, recordings=None if quick else list(recordings.values()))
        ours.save(files[OURS])
    return len(model.inputs)


class Study:
    """Models in a folder, and what filters with them made of runs; `points` and `lesson_s` as the paper has them.

    Attributes
    ----------
    home, away
        (filters, gaits, days, 4) as `figures_of`: on held-out runs of the days that taught, and of others.
    lasts
        How many successive residuals count as one, on the day that taught, and on another after five that taught.
    variance_ratio
        Mean square of residuals over the stated variance, there.
    """

    def __init__(
        self, configuration: SalpConfiguration, folder: Path, points: int, lesson_s: float, quick: bool
    ) -> None:
        self.configuration, self.folder, self.quick = configuration, folder, quick
        self.points, self.lesson_s, self.test_s = (300, 16.0, 24.0) if quick else (points, lesson_s, 48.0)
        self.gaits = ("forward", "left", "turning") if quick else tuple(GAITS)
        count = 1 if quick else 2
        self.days, self.test_days = range(FIRST_DAY, FIRST_DAY + count), range(FIRST_TEST_DAY, FIRST_TEST_DAY + count)
        self.home: dict[str, Rows] = {}
        self.away: dict[str, Rows] = {}
        self.lasts, self.variance_ratio = (np.nan, np.nan), np.nan

    def model(self, name: str, day: int = FIRST_DAY) -> Path:
        """Of a model's file."""
        return self.folder / f"{name}_{day}.npz"

    def train(self) -> int:
        """All models; how many points the multi-gait one has."""
        other_days = [Drive(gait, FIRST_OTHER_DAY + k, 0, self.lesson_s) for k, gait in enumerate(GAITS)]
        lessons = {(FIVE_DAYS, FIRST_DAY): other_days}
        for day, (name, gaits) in product(self.days, {MULTI_GAIT: [*GAITS], FORWARD_ONLY: ["forward"] * 5}.items()):
            lessons[name, day] = [Drive(gait, day, number, self.lesson_s) for number, gait in enumerate(gaits)]
        tasks = []
        for (name, day), drives in lessons.items():
            ours = {} if name == FORWARD_ONLY else {OURS: self.model(f"{OURS}, {name}", day)}
            tasks.append(
                (self.configuration, drives, {MULTI_GAIT: self.model(name, day), **ours}, self.points, self.quick)
            )
        return int(all_of(_taught, tasks)[list(lessons).index((MULTI_GAIT, FIRST_DAY))])

    def tests(self, days: Sequence[int], number: int = TEST_RUN) -> list[Drive]:
        """A run of each gait on each of the days."""
        return [Drive(gait, day, number, self.test_s) for gait, day in product(self.gaits, days)]

    def judge(self) -> None:
        """All filters, and first the noise of one that counts errors that last once."""
        checked = [(MULTI_GAIT, one) for one in self.tests([FIRST_DAY], CHECKED_RUN)]
        checked += [(FIVE_DAYS, one) for one in self.tests([CHECKED_DAY], CHECKED_RUN)]
        found = all_of(_honesty, [(self.configuration, drive, self.model(name)) for name, drive in checked])
        (_, at_home), (self.variance_ratio, lasts) = np.median(np.reshape(found, (2, -1, 2)), axis=1).tolist()
        self.lasts = at_home, lasts
        model = load_trained(str(self.model(FIVE_DAYS)), self.configuration)
        assert isinstance(model, PaperModel)
        # Q and R so many times as large, and the means as they are.
        replace(model, hyper_parameters=model.hyper_parameters * [lasts, 1.0, lasts]).save(self.model(AS_ONE))
        here = {
            day: {FORWARD_ONLY: self.model(FORWARD_ONLY, day), MULTI_GAIT: self.model(MULTI_GAIT, day),
                  OURS: self.model(f"{OURS}, {MULTI_GAIT}", day), PLAIN: None}
            for day in self.days
        }  # fmt: skip
        there: dict[str, Path | None] = {name: self.model(name) for name in (MULTI_GAIT, FIVE_DAYS, AS_ONE)}
        there |= {OURS: self.model(f"{OURS}, {FIVE_DAYS}"), PLAIN: None}
        tasks = [
            (self.configuration, one, here.get(one.day, there)) for one in self.tests([*self.days, *self.test_days])
        ]
        by_drive = dict(zip((one for _, one, _ in tasks), all_of(figures_of, tasks), strict=True))
        for filters, days, to in ((here[FIRST_DAY], self.days, self.home), (there, self.test_days, self.away)):
            rows = np.reshape(
                [by_drive[one] for one in self.tests(days)], (len(self.gaits), len(days), len(filters), 4)
            )
            to.update(zip(filters, np.moveaxis(rows, 2, 0), strict=True))
