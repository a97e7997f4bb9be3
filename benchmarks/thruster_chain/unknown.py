"""Thruster chains of unknown build (simulated): what the estimator `robust` knows of headings, masses and inertias."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pool import in_turns
from benchmarks.recordings import recordings
from benchmarks.timing import row
from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.simulated_bags import simulated_recording
from thruster_chain_estimation.model.configuration import (
    ChainConfiguration,
    GyroConfiguration,
    InitialConfiguration,
    ThrusterChainConfiguration,
)
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation.robot_build import hardware_scenario
from thruster_chain_estimation.simulation.unknown_chain import read_unknown_chain
from thruster_chain_estimation.training.training import train

Array = NDArray[np.float64]
Line = dict[str, Any]

SETTLE_S = 5.0
"""Coverage of what is learned is counted from here on."""
FOUND_WITHIN_S = 10.0
"""A change of masses that is told so long after a load was taken up is that load; all others are false alarms."""
_CHANGED = re.compile(r"[Mm]asses changed at about ([0-9.]+) s")


@dataclass(frozen=True)
class Job:
    """A run and an estimator: a folder of `unknown_thruster_chain`, or a seed of a simulated scenario.

    `trained_with`: the run of the same robot whose motion capture it was calibrated with.
    """

    estimator: str
    folder: str = ""
    links: int = 0
    scenario: str = ""
    variant: str = ""
    seed: int = 0
    duration_s: float = 30.0
    trained_with: str = ""

    def loaded(self) -> tuple[ThrusterChainConfiguration, LoadedRecording]:
        """What is known of the robot, and its recording."""
        if self.folder:
            return recorded(self.folder)
        configuration = laboratory(self.links)
        return configuration, simulated_recording(
            ROBOT, configuration, self.scenario, self.variant, self.duration_s, self.seed
        )


def recorded(folder: str) -> tuple[ThrusterChainConfiguration, LoadedRecording]:
    """What is known of a robot of `unknown_thruster_chain`, and a run of it."""
    content = read_unknown_chain(recordings("unknown_thruster_chain") / folder)
    configuration = content.configurations["thruster_chain"]
    specification = ROBOT.truth_specification(configuration)
    return configuration, from_simulator(content.recording, specification.bodies, specification.held)


def laboratory(count: int) -> ThrusterChainConfiguration:
    """A chain as a laboratory builds it: the paper's links and thrusters' directions, parts not in the middle."""
    rng, angles = np.random.default_rng(count), (0.785398, 2.0944, -1.5708)

    def places(most_m: float) -> tuple[float, ...]:
        return tuple(rng.uniform(-most_m, most_m, count).tolist())

    chain = ChainConfiguration(
        link_names=tuple(f"link_{link + 1}" for link in range(count)),
        link_lengths_m=(0.25,) * count,
        masses_kg=(0.5,) * count,
        inertias_kg_m2=(2.6e-3,) * count,
        thruster_x_m=places(0.02),
        thruster_y_m=places(0.015),
        thruster_angles_rad=tuple(angles[link % 3] for link in range(count)),
        imu_x_m=places(0.03),
        imu_y_m=places(0.02),
        joint_travel_deg=110.0,
    )
    initial = InitialConfiguration(headings_rad=(0.0,) * count, heading_stddev_rad=0.005, rest_s=1.5)
    return ThrusterChainConfiguration(chain=chain, initial=initial, gyro=GyroConfiguration(range_rad_s=17.453))


def judged(job: Job) -> Line:
    """Figures of a run, by the same judge as a user's."""
    configuration, recording = job.loaded()
    start_s = time.process_time()
    with TemporaryDirectory() as folder:
        if job.trained_with:
            calibration = Path(folder) / "calibration.npz"
            _, other = recorded(job.trained_with)
            train(configuration, {job.trained_with: other}, [""]).save(calibration)
            configuration = replace(configuration, calibration=str(calibration))
        try:
            result = judge(ROBOT, configuration, job.estimator, recording, JudgeSettings(seed=job.seed))
        except UserError as error:
            return {"refused": str(error)}
    line = figures(configuration, recording, result)
    return {**line, "processor_s": round(time.process_time() - start_s, 2)}


def figures(configuration: ThrusterChainConfiguration, recording: LoadedRecording, result: EvaluationResult) -> Line:
    """What is told of a run: errors at its end, coverage over its time, and when masses were said to have changed."""
    headings, masses, inertias, position = (
        result.parts[name] for name in ("headings", "masses", "inertias", "position")
    )
    moving, late = result.time_s > configuration.initial.rest_s, result.time_s > SETTLE_S
    end = np.flatnonzero(masses.matched)[-1]
    found, true = masses.estimate[end], masses.truth[end]
    line: Line = {
        "heading_deg": _rms_deg(headings.error[moving]),
        "joint_deg": _rms_deg(np.diff(headings.error[moving], axis=1)),
        "headings_covered": _covered(headings.error[moving], headings.stddev[moving]),
        "position_m": float(f"{np.sqrt(np.nanmean(np.sum(position.error**2, axis=1))):.3g}"),
        "position_covered": _covered(position.error, position.stddev),
        "ratios": _rounded(found / found.sum() / (true / true.sum()) - 1.0),
        "duration_s": round(float(result.time_s[-1]), 3),
        "broke_down": int(sum(row.get("breakdowns", 0) for row in result.sensors.values())),
        "messages": int(sum(row["received"] for row in result.sensors.values())),
    }
    for name, part in (("masses", masses), ("inertias", inertias)):
        line[name] = _rounded(part.error[end] / part.truth[end])
        line[f"{name}_covered"] = _covered(part.error[late], part.stddev[late])
    start_s = result.stamps_ns[0] / 1e9
    line["changes_s"] = [
        round(float(told.group(1)) - start_s, 2) for note in result.notes if (told := _CHANGED.search(note))
    ]
    return line


def _rms_deg(errors: Array) -> float:
    return float(f"{np.rad2deg(np.sqrt(np.nanmean(errors**2))):.4g}")


def _covered(errors: Array, stddevs: Array) -> float:
    sigmas = np.abs(errors / stddevs)
    return float(f"{np.mean(sigmas[np.isfinite(sigmas)] < 3.0):.4f}")


def _rounded(values: Sequence[float] | Array) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


Row = dict[str, Any]

FOLDERS = tuple(f"robot_{robot}/run_{number}" for robot in "ab" for number in (1, 2, 3))
LINKS = (2, 3, 5, 8)
VARIANTS = {101: "mixed", 102: "one_off", 103: "mixed", 104: "one_off", 105: "mixed"}
"""Of each test seed; none was looked at while the estimator was written."""
RATIO, COVERAGE, BY_A_THIRD = 0.08, 0.95, 2.0 / 3.0


def thruster_chain_unknown(quick: bool) -> list[Row]:
    """Thruster chains of unknown build (simulated): headings, joint angles, masses and inertias of `robust`.

    Nothing is trained, so that every run is of a robot left out, but where a row says that a robot was calibrated with
    one other run of its own. There are two kinds, both simulated: the six recordings of `unknown_thruster_chain`, by a
    simulator that is not ours, and the scenarios `hardware` and `load` with 2, 3, 5 and 8 links.
    """
    recorded, simulated = recorded_jobs(), simulated_jobs()
    calibrated = calibrated_jobs() if recorded else []
    if quick:
        recorded, calibrated, simulated = recorded[:2], calibrated[:1], simulated[:2]
    jobs = [*recorded, *calibrated, *simulated]
    lines = dict(zip(jobs, in_turns(judged, [(job,) for job in jobs]), strict=True))
    tables = [*_recorded_rows(lines, [*recorded, *calibrated]), *_simulated_rows(lines, simulated)]
    return [*_targets(lines, recorded), *_found(lines, simulated), *tables]


def recorded_jobs() -> list[Job]:
    """The six recordings, each by both estimators; none where they are not there."""
    try:
        recordings("unknown_thruster_chain")
    except UserError as error:
        print(error)
        return []
    return [Job(estimator, folder) for folder in FOLDERS for estimator in ("gyros", "robust")]


def calibrated_jobs() -> list[Job]:
    """Every run of a robot, calibrated with the motion capture of one of its other two."""
    return [
        Job("robust", folder, trained_with=other)
        for folder in FOLDERS
        for other in FOLDERS
        if other != folder and Path(other).parent == Path(folder).parent
    ]


def simulated_jobs() -> list[Job]:
    """Seed by seed; gyros, to which masses are nothing, without loads."""
    return [
        Job(estimator, "", links, scenario, variant, seed)
        for seed, variant in VARIANTS.items()
        for links in LINKS
        for scenario, estimator in (("load", "robust"), ("hardware", "robust"), ("hardware", "gyros"))
    ]


def _targets(lines: Mapping[Job, Line], jobs: Sequence[Job]) -> list[Row]:
    """What the issue asks of robots that are left out."""
    runs = {
        folder: {job.estimator: lines[job] for job in jobs if job.folder == folder and "refused" not in lines[job]}
        for folder in FOLDERS
    }
    pairs = [(found["robust"], found["gyros"]) for found in runs.values() if {"robust", "gyros"} <= set(found)]
    if not pairs:
        return []
    kind, out = "recorded unknown robots (simulated)", []
    for name, what in (("heading_deg", "headings"), ("joint_deg", "joint angles")):
        ours, gyros = (np.array([pair[k][name] for pair in pairs]) for k in range(2))
        ratio = ours / gyros
        figure = f"median {np.median(ratio):.2f}, worst {np.max(ratio):.2f}"
        met = np.median(ratio) <= BY_A_THIRD and np.max(ratio) < 1.0
        case = f"{kind}, {what}: RMSE by that of gyros, {len(pairs)} runs"
        out.append(row(case, figure, "median <= 2/3, worst < 1", met))
    ratios = np.abs(np.concatenate([one["ratios"] for one, _ in pairs]))
    held = [float(np.mean([one[f"{part}_covered"] for one, _ in pairs])) for part in ("masses", "inertias")]
    figure, target = f"median {100 * np.median(ratios):.1f} %, worst {100 * ratios.max():.1f} %", f"{100 * RATIO:g} %"
    out.append(row(f"{kind}, mass ratios at the end", figure, f"median <= {target}", np.median(ratios) <= RATIO))
    case = f"{kind}, 3-sigma coverage of masses, inertias after {SETTLE_S:g} s"
    out.append(row(case, f"{held[0]:.3f}, {held[1]:.3f}", f">= {COVERAGE:g}", min(held) >= COVERAGE))
    return out


def _found(lines: Mapping[Job, Line], jobs: Sequence[Job]) -> list[Row]:
    """How soon loads are found, and how often one is told of that is none."""
    at_s, delays_s, missed, false, hours = hardware_scenario().load.at_s, [], 0, 0, 0.0
    for job in jobs:
        line = lines[job]
        if job.estimator != "robust" or "refused" in line:
            continue
        changes = [told for told in line["changes_s"] if told < at_s or job.scenario != "load"]
        after = [told for told in line["changes_s"] if told >= at_s and job.scenario == "load"]
        hours += line["duration_s"] / 3600.0
        false += len(changes) + sum(told > at_s + FOUND_WITHIN_S for told in after)
        if job.scenario == "load":
            soon = [told - at_s for told in after if told <= at_s + FOUND_WITHIN_S]
            delays_s += soon[:1]
            missed += not soon
    if not hours:
        return []
    found = f"{len(delays_s)} of {len(delays_s) + missed} within {FOUND_WITHIN_S:g} s"
    if delays_s:
        found += f", after {np.median(delays_s):.1f} s in the median, {np.max(delays_s):.1f} s at most"
    told = f"{false}, {false / hours:.1f} an hour"
    return [
        row("simulated loads of 40 % of a link", found),
        row(f"simulated, changes of masses told of that were none, in {60.0 * hours:.0f} min", told),
    ]


def _recorded_rows(lines: Mapping[Job, Line], jobs: Sequence[Job]) -> list[Row]:
    return [
        _row(
            "Recorded unknown robots (simulated)",
            f"{job.folder}, calibrated with {Path(job.trained_with).name}" if job.trained_with else job.folder,
            [job.estimator],
            [lines[job]],
        )
        for job in jobs
    ]


def _simulated_rows(lines: Mapping[Job, Line], jobs: Sequence[Job]) -> list[Row]:
    groups: dict[tuple[str, int, str], list[Line]] = {}
    for job in jobs:
        groups.setdefault((job.scenario, job.links, job.estimator), []).append(lines[job])
    title = "Simulated robots, medians (worst cases) over seeds"
    return [
        _row(title, f"{scenario}, {links} links, {len(found)} seeds", [estimator], found)
        for (scenario, links, estimator), found in sorted(groups.items())
    ]


def _row(table: str, what: str, estimator: Sequence[str], found: Sequence[Line]) -> Row:
    """Medians and worst cases of lines; what an estimator does not learn is left empty."""
    ran = [line for line in found if "refused" not in line]
    cells = {"run": what, "estimator": estimator[0]}
    if not ran:
        return {"table": table, "cells": cells | {"headings": f"refused: {found[0]['refused']}"}}
    lost = sum(line["broke_down"] for line in ran) / sum(line["messages"] for line in ran)
    for name, column in (("heading_deg", "headings, deg"), ("joint_deg", "joint angles, deg")):
        cells[column] = _spread([line[name] for line in ran], 1.0, "")
    cells["3 sigma"] = f"{np.min([line['headings_covered'] for line in ran]):.3f}"
    for name, column in (("ratios", "mass ratios"), ("masses", "masses"), ("inertias", "inertias")):
        cells[column] = _spread(np.abs(np.concatenate([line[name] for line in ran])), 100.0, " %")
        if name != "ratios":
            cells[f"3 sigma of {column}"] = f"{np.mean([line[f'{name}_covered'] for line in ran]):.3f}"
    cells["position, m"] = _spread([line["position_m"] for line in ran], 1.0, "")
    cells["3 sigma of position"] = f"{np.min([line['position_covered'] for line in ran]):.3f}"
    cells["broke down"] = f"at {100 * lost:.0f} % of the messages" if lost else ""
    return {"table": table, "cells": cells, "runs": list(ran)}


def _spread(values: Sequence[float] | Array, scale: float, unit: str) -> str:
    if len(values) == 1:
        return f"{scale * values[0]:.2f}{unit}"
    return f"{scale * np.median(values):.2f} ({scale * np.max(values):.2f}){unit}"
