"""Thruster chains of unknown build (simulated): what the estimator `robust` knows of headings, masses and inertias."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import Row, cells_row, in_turns, middle_worst, recordings, rms, row
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.filtering.consistency import coverage
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

Line = dict[str, Any]

SETTLE_S, DURATION_S = 5.0, 30.0
"""Coverage of what is learned is counted from the first on."""
FOUND_WITHIN_S = 10.0
"""A change of masses that is told so long after a load was taken up is that load; all others are false alarms."""
_CHANGED = re.compile(r"[Mm]asses changed at about ([0-9.]+) s")
FOLDERS = tuple(f"robot_{robot}/run_{number}" for robot in "ab" for number in (1, 2, 3))
LINKS = (2, 3, 5, 8)
VARIANTS = {101: "mixed", 102: "one_off", 103: "mixed", 104: "one_off", 105: "mixed"}
"""Of each test seed; none was looked at while the estimator was written."""
RATIO, COVERAGE, BY_A_THIRD = 0.08, 0.95, 2.0 / 3.0


class Job(NamedTuple):
    """A run and an estimator: a folder of `unknown_thruster_chain`, or a seed of a simulated scenario.

    `trained_with`: the run of the same robot whose motion capture it was calibrated with.
    """

    estimator: str
    folder: str = ""
    links: int = 0
    scenario: str = ""
    seed: int = 0
    trained_with: str = ""

    def loaded(self) -> tuple[ThrusterChainConfiguration, LoadedRecording]:
        """What is known of the robot, and its recording."""
        if self.folder:
            return recorded(self.folder)
        known, variant = laboratory(self.links), VARIANTS[self.seed]
        return known, simulated_recording(ROBOT, known, self.scenario, variant, DURATION_S, self.seed)


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
    with TemporaryDirectory() as folder:
        if job.trained_with:
            calibration = Path(folder) / "calibration.npz"
            train(configuration, {job.trained_with: recorded(job.trained_with)[1]}, [""]).save(calibration)
            configuration = replace(configuration, calibration=str(calibration))
        return figures(
            configuration, judge(ROBOT, configuration, job.estimator, recording, JudgeSettings(seed=job.seed))
        )


def figures(configuration: ThrusterChainConfiguration, result: EvaluationResult) -> Line:
    """What is told of a run: errors at its end, coverage over its time, and when masses were said to have changed."""
    headings, position, masses = (result.parts[name] for name in ("headings", "position", "masses"))
    moving, late = result.time_s > configuration.initial.rest_s, result.time_s > SETTLE_S
    end = np.flatnonzero(masses.matched)[-1]
    found, true = masses.estimate[end], masses.truth[end]
    line: Line = {
        "headings": np.rad2deg(rms(headings.error[moving])),
        "joint angles": np.rad2deg(rms(np.diff(headings.error[moving], axis=1))),
        "headings_covered": coverage(headings.error[moving], headings.stddev[moving], 3.0),
        "position": np.sqrt(np.nanmean(np.sum(position.error**2, axis=1))),
        "position_covered": coverage(position.error, position.stddev, 3.0),
        "mass ratios": np.abs(found / found.sum() / (true / true.sum()) - 1.0),
        "duration_s": float(result.time_s[-1]),
    }
    for name in ("masses", "inertias"):
        part = result.parts[name]
        line[name] = np.abs(part.error[end] / part.truth[end])
        line[f"{name}_covered"] = coverage(part.error[late], part.stddev[late], 3.0)
    told = [float(found.group(1)) for note in result.notes if (found := _CHANGED.search(note))]
    return line | {"changes_s": np.array(told) - result.stamps_ns[0] / 1e9}


def thruster_chain_unknown(quick: bool) -> list[Row]:
    """Thruster chains of unknown build (simulated): headings, joint angles, masses and inertias of `robust`.

    Nothing is trained, so that every run is of a robot left out, but where a row says that a robot was calibrated with
    one other run of its own. There are two kinds, both simulated: the six recordings of `unknown_thruster_chain`, by a
    simulator that is not ours, and the scenarios `hardware` and `load` with 2, 3, 5 and 8 links.
    """
    recordings("unknown_thruster_chain")
    of = [Job(estimator, folder) for folder in FOLDERS for estimator in ("gyros", "robust")]
    siblings = [(one, other) for one, other in product(FOLDERS, FOLDERS) if one != other and one[:7] == other[:7]]
    calibrated = [Job("robust", one, trained_with=other) for one, other in siblings]
    # Gyros, to which masses are nothing, without loads.
    kinds = (("load", "robust"), ("hardware", "robust"), ("hardware", "gyros"))
    simulated = [
        Job(estimator, "", links, scenario, seed)
        for seed, links, (scenario, estimator) in product(VARIANTS, LINKS, kinds)
    ]
    if quick:
        of, calibrated, simulated = of[:2], calibrated[:1], simulated[:2]
    jobs = [*of, *calibrated, *simulated]
    lines = dict(zip(jobs, in_turns(judged, [(job,) for job in jobs]), strict=True))
    groups: dict[tuple[str, int, str], list[Line]] = {}
    for job in simulated:
        groups.setdefault((job.scenario, job.links, job.estimator), []).append(lines[job])
    title = "Simulated robots, medians (worst cases) over seeds"
    return [
        *_targets([(lines[robust], lines[gyros]) for gyros, robust in zip(of[::2], of[1::2], strict=True)]),
        *_found({job: lines[job] for job in simulated if job.estimator == "robust"}),
        *(
            _row("Recorded unknown robots (simulated)",
                 f"{job.folder}, calibrated with {Path(job.trained_with).name}" if job.trained_with else job.folder,
                 job.estimator, [lines[job]])
            for job in (*of, *calibrated)
        ),
        *(
            _row(title, f"{scenario}, {links} links, {len(found)} seeds", estimator, found)
            for (scenario, links, estimator), found in sorted(groups.items())
        ),
    ]  # fmt: skip


def _targets(pairs: Sequence[tuple[Line, Line]]) -> list[Row]:
    """What the issue asks of robots that are left out, by what `robust` and gyros alone found."""
    kind, out = "recorded unknown robots (simulated)", []
    for what in ("headings", "joint angles"):
        ratio = np.array([ours[what] / gyros[what] for ours, gyros in pairs])
        figure = f"median {np.median(ratio):.2f}, worst {np.max(ratio):.2f}"
        met = np.median(ratio) <= BY_A_THIRD and np.max(ratio) < 1.0
        case = f"{kind}, {what}: RMSE by that of gyros, {len(pairs)} runs"
        out.append(row(case, figure, "median <= 2/3, worst < 1", met))
    ratios = np.concatenate([one["mass ratios"] for one, _ in pairs])
    held = [float(np.mean([one[f"{part}_covered"] for one, _ in pairs])) for part in ("masses", "inertias")]
    figure, target = f"median {100 * np.median(ratios):.1f} %, worst {100 * ratios.max():.1f} %", f"{100 * RATIO:g} %"
    out.append(row(f"{kind}, mass ratios at the end", figure, f"median <= {target}", np.median(ratios) <= RATIO))
    case = f"{kind}, 3-sigma coverage of masses, inertias after {SETTLE_S:g} s"
    out.append(row(case, f"{held[0]:.3f}, {held[1]:.3f}", f">= {COVERAGE:g}", min(held) >= COVERAGE))
    return out


def _found(lines: Mapping[Job, Line]) -> list[Row]:
    """How soon loads are found, and how often one is told of that is none."""
    at_s, delays_s, false = hardware_scenario().load.at_s, [], 0
    for job, line in lines.items():
        since_s = line["changes_s"] - at_s
        is_load = (job.scenario == "load") & (since_s >= 0.0) & (since_s <= FOUND_WITHIN_S)
        delays_s += since_s[is_load][:1].tolist()
        false += int(np.count_nonzero(~is_load))
    loads, minutes = (job.scenario == "load" for job in lines), sum(one["duration_s"] for one in lines.values()) / 60.0
    found = f"{len(delays_s)} of {sum(loads)} within {FOUND_WITHIN_S:g} s"
    if delays_s:
        found += f", after {np.median(delays_s):.1f} s in the median, {np.max(delays_s):.1f} s at most"
    return [
        row("simulated loads of 40 % of a link", found),
        row(
            f"simulated, changes of masses told of that were none, in {minutes:.0f} min",
            f"{false}, {60.0 * false / minutes:.1f} an hour",
        ),
    ]


def _row(table: str, what: str, estimator: str, found: Sequence[Line]) -> Row:
    """Medians and worst cases of lines."""
    cells = {"run": what, "estimator": estimator}
    for name in ("headings", "joint angles"):
        cells[f"{name}, deg"] = middle_worst([line[name] for line in found])
    cells["3 sigma"] = f"{np.min([line['headings_covered'] for line in found]):.3f}"
    for name in ("mass ratios", "masses", "inertias"):
        cells[name] = middle_worst(np.concatenate([line[name] for line in found]), unit=" %", scale=100.0)
        if name != "mass ratios":
            cells[f"3 sigma of {name}"] = f"{np.mean([line[f'{name}_covered'] for line in found]):.3f}"
    cells["position, m"] = middle_worst([line["position"] for line in found])
    cells["3 sigma of position"] = f"{np.min([line['position_covered'] for line in found]):.3f}"
    return cells_row(table, f"{what}, {estimator}", cells)
