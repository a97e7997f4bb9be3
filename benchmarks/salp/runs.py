"""Judged runs of salps: recordings by what makes them, models by what trains them, figures of what came out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from benchmarks.measuring import Array, Row, cells_row, in_turns, middle_worst, recordings, rms
from onboard_estimation.base.configuration import load
from onboard_estimation.base.installed import resource
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.campaigns.training import read_training_bag
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.filtering.consistency import chi_square_band, coverage
from onboard_estimation.judging.judge import _initial, _part
from onboard_estimation.judging.options import EvaluateOptions, JudgeSettings
from onboard_estimation.judging.replay import replay
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.judging.truth import truth_at
from onboard_estimation.judging.what_if import with_beacon
from salp_estimation.model.configuration import PAPER, SalpConfiguration
from salp_estimation.model.gait_design import gait_for
from salp_estimation.model.gaits import GAITS
from salp_estimation.simulation.foreign_effects import ForeignScenario
from salp_estimation.simulation.hardware_simulator import HardwareSimulation
from salp_estimation.training.paper_training import fitted
from salp_estimation.training.references import WORDS, references, rms_deg
from salp_estimation.training.residual_training import train
from salp_estimation.training.runs import training_run

Source = Callable[[], LoadedRecording]

ROBOT, CONFIGURATION, GAIT_NAMES = find_robot("salp"), SalpConfiguration(), tuple(GAITS)
SETTLE_S, INSTANTS_HZ = 6.0, 5.0
"""Estimates are judged at so many instants a second, the same ones in all runs: at each of them the last estimate."""
OFF_DEG, CYCLES_S = 20.0, 12.0
"""Of both joint angles at a start that was told wrong, and two cycles of a gait, after which it is judged."""
SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
FIRST_TRAINING_SEED = 900_000
"""Test seeds count from 100 and stay far below."""
DURATION_S, CHANGE_S, SILENCE_S = 60.0, 25.0, 10.0
WEAK = 0.7
"""A wheel turns at this share of what it is told."""
LOADED_FRICTION, LOADED_DRAG = 2.0, 1.5
"""A payload on a link: dry friction is proportional to the load; drag and thrust, both viscous, grow by half."""
ENDS = 0, 2
_TOLD = ("moves unlike", "contradicts", "contradict the state", "is silent since")
"""Words of sentences on robots and gyros that are not as the filter has them."""


class Run(NamedTuple):
    """A stretch of a run at K instants, by part of the state: errors and standard deviations (K, n), NEES (K,).

    `told` is whether a sentence said that the robot is not as the model has it, or that a gyro is silent; `beside_deg`
    the RMS errors of the joint angles by what the filter has to beat, see `references`.
    """

    error: Mapping[str, Array]
    stddev: Mapping[str, Array]
    nees: Mapping[str, Array]
    told: bool = False
    beside_deg: Mapping[str, float] = {}

    @property
    def joints_deg(self) -> float:
        """RMS of the joint angles' errors."""
        return float(np.rad2deg(rms(self.error["joint_angles"])))


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
    start, _ = _initial(ROBOT, configuration, "ukf", recording, settings)
    assert start is not None
    space = ROBOT.estimator(configuration, "ukf").space
    if job.joint_error_rad:
        exact, _ = _initial(ROBOT, configuration, "ukf", recording, replace(settings, initial="exact"))
        assert exact is not None
        mean, joints = start.mean.copy(), space.coordinates("joint_angles")
        mean[joints] = space.part("joint_angles").plus(exact.mean[joints], np.array(job.joint_error_rad))
        start = replace(start, mean=mean)
    heard = with_beacon(ROBOT, configuration, recording, settings.beacon_s, settings.longest_truth_gap_s)
    replayed = replay(ROBOT, configuration, "ukf", heard, start, configuration.lag_s)
    record, noise = replayed.record, ROBOT.truth_specification(configuration).covariances
    true, _ = truth_at(ROBOT, configuration, recording, record.stamps_ns, settings.longest_truth_gap_s)
    parts = {name: _part(space, name, record, values, noise.get(name)) for name, values in true.items()}
    told = any(words in sentence for words in _TOLD for sentence in replayed.messages)
    beside = references(configuration, heard.series, start, record.stamps_ns)
    return [_stretch(record.time_s, parts, beside, *stretch, told) for stretch in job.stretches_s]


def _stretch(
    since_s: Array, parts: Mapping[str, Any], beside: Mapping[str, Array], from_s: float, until_s: float, told: bool
) -> Run:
    # The last fifth of a second is left: the gyros' last samples come a little before the end.
    at_s = np.arange(from_s, min(until_s, np.ceil(since_s[-1]) - 0.1), 1.0 / INSTANTS_HZ)
    rows = np.searchsorted(since_s, at_s, side="right") - 1
    error, stddev, nees = (
        {name: getattr(parts[name], what)[rows] for name in ("joint_angles", "pose")}
        for what in ("error", "stddev", "nees")
    )
    truth = parts["joint_angles"].truth[rows]
    return Run(error, stddev, nees, told, {name: rms_deg(angles[rows], truth) for name, angles in beside.items()})


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


def foreign(scenario: ForeignScenario, gait: str, seed: int, seconds: float) -> LoadedRecording:
    """Of a robot with effects that no estimator has a term for."""
    rng = np.random.default_rng(seed)
    simulation = HardwareSimulation(CONFIGURATION.chain, GAITS[gait].controls, rng, foreign=scenario)
    return loaded(simulation.advance(round(1e9 * seconds) + 1))


def unknown(day: int, gait: str) -> LoadedRecording:
    """Of the robot of unknown build."""
    return read_training_bag(ROBOT, CONFIGURATION, recordings("unknown_salp", f"day_{day}_{gait}"), EvaluateOptions())


def loaded(recording: Any) -> LoadedRecording:
    """What a simulator made, as a bag of it would be read."""
    specification = ROBOT.truth_specification(CONFIGURATION)
    return from_simulator(recording, specification.bodies, specification.held)


@dataclass(frozen=True)
class Change:
    """What changes at one of the links, from when on and until when, s since the start of the run."""

    kind: str
    links: Sequence[int] = (0, 1, 2)
    from_s: float = CHANGE_S
    until_s: float = np.inf

    @property
    def stretches_s(self) -> dict[str, tuple[float, float]]:
        """What is judged of a run: while it is changed, and after that."""
        found = {"": (max(self.from_s, SETTLE_S), self.until_s)}
        return found if self.until_s == np.inf else {**found, ", after that": (self.until_s, np.inf)}

    def recording(self, gait: str, seed: int, link: int) -> LoadedRecording:
        """Of a simulated robot that this happens to: the robot and the noise that the seed gives without it."""
        chain = CONFIGURATION.chain
        simulation = _Weakened(chain, gait_for(chain, gait).controls, np.random.default_rng(seed))
        pieces = []
        if self.kind == "weak":
            simulation.weak = link, self.from_s
        elif self.kind == "loaded":
            if self.from_s > 0.0:
                pieces.append(simulation.advance(round(1e9 * self.from_s)))
            mechanics = simulation.robot.mechanics
            mechanics.friction[link] *= LOADED_FRICTION
            mechanics.drag[link] *= LOADED_DRAG
            mechanics.thrust[link] *= LOADED_DRAG
        pieces.append(simulation.advance(round(1e9 * DURATION_S) + 1))
        sensors, truth = (tuple(map(_joined, *(getattr(one, k) for one in pieces))) for k in ("sensors", "truth"))
        if self.kind == "silent":
            silent = f"imu/{chain.link_names[link]}"
            sensors = tuple(self._silenced(one) if one.channel.sensor == silent else one for one in sensors)
        return loaded(Recording(sensors, truth))

    def _silenced(self, one: Series) -> Series:
        since_s = one.stamps_ns / NANOSECONDS_PER_SECOND
        return one.rows((since_s < self.from_s) | (since_s >= self.until_s))


class _Weakened(HardwareSimulation):
    """With a wheel that turns more slowly than it is told, from some time on."""

    weak: tuple[int, float] = (0, np.inf)

    def _actual_speeds(self, time_s: Array, step_s: float) -> Array:
        speeds = super()._actual_speeds(time_s, step_s)
        link, from_s = self.weak
        speeds[time_s >= from_s, link] *= WEAK
        return speeds


def _joined(*parts: Series) -> Series:
    stamps = np.concatenate([one.stamps_ns for one in parts])
    return replace(parts[0], stamps_ns=stamps, values=np.concatenate([one.values for one in parts]))


CHANGES = {
    "nothing": Change("none", from_s=0.0),
    "gyro silent for 10 s": Change("silent", until_s=CHANGE_S + SILENCE_S),
    "gyro silent for good": Change("silent"),
    "wheel at 70 %": Change("weak", from_s=0.0),
    "wheel at 70 % from 25 s on": Change("weak"),
    "payload": Change("loaded", ENDS, from_s=0.0),
    "payload from 25 s on": Change("loaded", ENDS),
}


# What models are trained with.


@dataclass(frozen=True)
class TrainingSet:
    """Runs of the scenario `hardware`: so many robots (seeds) for each gait."""

    gaits: tuple[str, ...] = GAIT_NAMES
    seeds: int = 5
    duration_s: float = 20.5

    def runs(self) -> list[tuple[str, int]]:
        """Gait and seed of each."""
        numbers = enumerate(self.gaits)
        return [(gait, FIRST_TRAINING_SEED + 100 * number + k) for number, gait in numbers for k in range(self.seeds)]

    def sources(self) -> list[Source]:
        """Of all runs."""
        return [simulated("hardware", gait, seed, self.duration_s) for gait, seed in self.runs()]


class Trained(NamedTuple):
    """Settings of a filter with a model, and the factor of its standard deviations."""

    settings: dict[str, Any]
    factor: float | None


def trained(folder: Path, form: str, sources: Sequence[Source]) -> Trained:
    """A model in a file of the folder."""
    taught = [source() for source in sources]
    if form == PAPER:
        path = folder / f"{PAPER}_{uuid4().hex}.npz"
        fitted(CONFIGURATION, {f"run {number}": one for number, one in enumerate(taught)}, [""] * len(taught)).save(
            path
        )
        return Trained({"residual_model": str(path)}, None)
    runs = [training_run(CONFIGURATION, one, f"run {number}") for number, one in enumerate(taught)]
    model, _ = train(CONFIGURATION, runs, [""] * len(runs), form, recordings=taught)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".npz", delete=False) as file:
        path = Path(file.name)
    model.save(path)
    return Trained({"residual_model": str(path)}, float(model.inflation[1]))


# What is said of runs.


class Consistency(NamedTuple):
    """Over runs of one length, of a part: mean NEES per degree of freedom, shares in its band and within 1, 3 sigma."""

    nees_per_degree_of_freedom: float
    share_in_band: float
    coverage_1_sigma: float
    coverage_3_sigma: float


def consistency(runs: Sequence[Run], part: str) -> Consistency:
    """Of a part, over runs of one length."""
    nees, error, stddev = (np.array([getattr(one, what)[part] for one in runs]) for what in ("nees", "error", "stddev"))
    size, within = error.shape[-1], (coverage(error, stddev, sigmas) for sigmas in (1.0, 3.0))
    return Consistency(float(np.nanmean(nees)) / size, _share_in_band(nees, size), *within)


def _share_in_band(nees: Matrix, size: int) -> float:
    """Share of K instants at which the NEES (S, K) of S runs, averaged over those that have one, is in its 95 % band.

    Judged across runs: as errors of one run are correlated in time, even a consistent filter's mean over time is not.
    """
    counts = np.isfinite(nees).sum(axis=0)
    averaged, runs = np.nansum(nees, axis=0)[counts > 0] / counts[counts > 0], counts[counts > 0].tolist()
    bands = {count: chi_square_band(size, runs=count) for count in set(runs)}
    inside = [bands[n][0] <= mean <= bands[n][1] for n, mean in zip(runs, averaged.tolist(), strict=True)]
    return float(np.mean(inside)) if inside else float("nan")


def judged_row(table: str, case: str, form: str, runs: Sequence[Run], factor: float | None = None) -> Row:
    """Of the joint angles: medians and worst cases over runs; of the pose, whether it is covered."""
    part = "joint_angles"
    covered, posed = (
        np.array([coverage(one.error[name], one.stddev[name], 3.0) for one in runs]) for name in (part, "pose")
    )
    nees = [np.nanmean(one.nees[part]) / one.error[part].shape[1] for one in runs]
    cells = {
        "case": case,
        "form": form,
        "runs": str(len(runs)),
        "joint RMSE, median (worst)": middle_worst([one.joints_deg for one in runs], unit=" deg"),
        "3 sigma": f"{covered.mean():.3f}",
        "throughout": f"{(covered == 1.0).sum()} runs",
        "NEES": f"{np.mean(nees):.2f}",
        "pose: 3 sigma (worst)": f"{posed.mean():.3f} ({posed.min():.3f})",
        "told": f"{sum(one.told for one in runs)} runs",
        **beside_cells(runs),
        **({} if factor is None else {"factor": f"{factor:.2f}"}),
    }
    return cells_row(table, f"{case}, {form}", cells)


_BESIDE = dict(zip(WORDS, ("no model", "commands", "straight"), strict=True))


def beside_cells(runs: Sequence[Run]) -> dict[str, str]:
    """What the filter has to beat, and on how many runs it does not; nothing of runs of other filters."""
    if not all(one.beside_deg for one in runs):
        return {}
    cells, lost = {}, []
    for name, words in _BESIDE.items():
        errors = [one.beside_deg[name] for one in runs]
        cells[words] = middle_worst(errors, 1, " deg")
        lost.append(str(sum(error < one.joints_deg for error, one in zip(errors, runs, strict=True))))
    return {**cells, "worse than these on": f"{', '.join(lost)} runs"}


def full_row(table: str, case: str, gait: str, runs: Sequence[Run]) -> Row:
    """Of joint angles and pose, with what instants and standard deviations say."""
    rmse_deg, pose = [one.joints_deg for one in runs], [one.error["pose"] for one in runs]
    cells = {
        "case": case,
        "gait": gait,
        "runs": str(len(runs)),
        "joint RMSE, median (worst)": middle_worst(rmse_deg, unit=" deg"),
        "stated": f"{np.median([np.rad2deg(rms(one.stddev['joint_angles'])) for one in runs]):.1f} deg",
        "position": middle_worst([np.sqrt(2.0) * rms(one[:, :2]) for one in pose], 1, " cm", 100.0),
        "heading": middle_worst([np.rad2deg(rms(one[:, 2])) for one in pose], 1, " deg"),
    }
    for part in ("joint_angles", "pose"):
        found, words = consistency(runs, part), part.replace("_", " ")
        cells[f"{words}: NEES"] = f"{found.nees_per_degree_of_freedom:.3g}"
        cells[f"{words}: in band"] = f"{100.0 * found.share_in_band:.0f} %"
        cells[f"{words}: 1, 3 sigma"] = f"{found.coverage_1_sigma:.2f}, {found.coverage_3_sigma:.3f}"
    return cells_row(table, f"{table}: {case}, {gait}", cells, joint_rmse_deg=rmse_deg)
