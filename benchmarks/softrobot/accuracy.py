"""How well a soft robot's filters know tip and stiffness, and how far their models see ahead; nothing is timed."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Array, Row, cells_row, in_turns, middle_worst, recordings
from benchmarks.softrobot.forecast import best_constant, errors, filtered, true_states
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import Measurement
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.tracks import HeldValues
from onboard_estimation.judging.judge import judge
from onboard_estimation.pipeline.estimator import Step
from softrobot_estimation.estimators.unscented_estimator import UnscentedEstimator
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.channels import TRUE_STIFFNESS
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.robot import ROBOT, SoftRobot
from softrobot_estimation.simulation.paper_simulator import known_configuration
from softrobot_estimation.simulation.unknown_soft_robot import read_unknown_soft_robot

RUNS, BOTH = (1, 2, 3, 4), ("marginalized_pf", "ukf")
SPLITS = ((1, 3), (2, 4), (1,), (2,), (3,), (4,))
"""Runs that teach; the others judge."""
HORIZONS = (5, 10, 20)
_UNKNOWN_GRID, _PAPER_GRID = np.linspace(0.7, 1.6, 10), np.linspace(0.6, 1.6, 11)


def softrobot_unknown(quick: bool) -> list[Row]:
    """A soft robot of unknown build (simulated by others): identified and tuned on some runs, judged on those left out.

    Two runs teach, both ways round, and then each alone: tip, coverage, and with two how far models see ahead.
    """
    recordings("unknown_soft_robot")
    untaught = in_turns(_untaught, [(number,) for number in RUNS])
    split = in_turns(_of_split, [(one,) for one in (SPLITS[:1] if quick else SPLITS)])
    found = [row for rows in (*untaught, *split) for row in rows]
    return sorted(found, key=lambda row: str(row["table"]), reverse=True)  # one table after the other


def unknown(number: int) -> tuple[SoftRobotConfiguration, LoadedRecording]:
    """What the laboratory knows, and a run as a judge reads it."""
    found = read_unknown_soft_robot(recordings("unknown_soft_robot", f"run_{number}"))
    return found.configurations["softrobot"], from_simulator(found.recording, (TIP, BASE))


def _untaught(number: int) -> list[Row]:
    known, _ = unknown(1)
    _, run = unknown(number)
    return [tip_row(f"run_{number}, nothing identified", name, known, run) for name in (*BOTH, "open_loop")]


def _of_split(teaching: Sequence[int]) -> list[Row]:
    runs = {number: unknown(number)[1] for number in RUNS}
    left_out = [number for number in RUNS if number not in teaching]
    lessons = {f"run_{number}": runs[number] for number in teaching}
    folder = Path(tempfile.mkdtemp(prefix="softrobot-"))
    file, *_ = ROBOT.identify(unknown(1)[0], lessons).write(folder / "identified")
    identified = load(SoftRobotConfiguration, file)
    ROBOT.train(identified, lessons, ["" for _ in lessons]).save(folder / "model.npz")
    tuned = replace(identified, learning=replace(identified.learning, model=str(folder / "model.npz")))
    teachers = " and ".join(map(str, teaching))
    rows = []
    for number in left_out:
        for said, known in (("identified and tuned on", tuned), ("only identified on", identified)):
            rows += [tip_row(f"run_{number}, {said} {teachers}", name, known, runs[number]) for name in BOTH]
    return rows if len(teaching) == 1 else rows + ahead_rows(tuned, runs, teaching, left_out)


def tip_row(case: str, name: str, known: SoftRobotConfiguration, run: LoadedRecording) -> Row:
    """Errors and coverage of a filter's tip, as `evaluate` has them."""
    figures = judge(ROBOT, known, name, run).metrics
    place = figures["position"]
    cells = {
        "run": f"{case}: {name}",
        "3D RMS, mm": f"{1e3 * place['position_ate_rmse_m']:.2f}",
        "worst, mm": f"{1e3 * place['position_ate_max_m']:.1f}",
        "within 1, 3 sigma": f"{place['coverage_1_sigma']:.2f}, {place['coverage_3_sigma']:.3f}",
        "lost": f"{figures['run'].get('times_lost', 0.0):.0f}",
    }
    return cells_row("Tip (simulated robot of others, whole runs but for the first 2 s)", cells["run"], cells)


def ahead_rows(
    tuned: SoftRobotConfiguration, runs: dict[int, LoadedRecording], teaching: Sequence[int], left_out: Sequence[int]
) -> list[Row]:
    """NMSE after 5, 10, 20 steps of 8 ms: learned stiffness, the ukf's, and the best constant of the teaching runs."""
    truth = {number: true_states(tuned, run) for number, run in runs.items()}
    states = {(name, number): filtered(tuned, name, run) for name in BOTH for number, run in runs.items()}
    lessons = [(states["ukf", number], truth[number]) for number in teaching]
    best = best_constant(tuned, lessons, _UNKNOWN_GRID, HORIZONS[-1])
    rows = []
    for number in left_out:
        by = {name: errors(states[name, number], truth[number], HORIZONS) for name in BOTH}
        by[f"best constant, {best:.3f} N m/rad"] = errors(states["ukf", number], truth[number], HORIZONS, best)
        for name, found in by.items():
            cells = {"run, stiffness": f"run_{number}: {name}"}
            cells["NMSE"] = ", ".join(f"{found[count].mean():.3f}" for count in HORIZONS)
            table = "Ahead (NMSE after 5, 10, 20 steps of 8 ms, on runs left out)"
            rows.append(cells_row(table, f"run_{number}: {name}", cells))
    return rows


SEEDS, DURATION_S = range(101, 121), 20.0
KNOWN = known_configuration(SoftRobotConfiguration())
_TOLD_STDDEV = 1e-4
_TOLD = "ukf, told the true stiffness at each sample"


def softrobot_paper(quick: bool) -> list[Row]:
    """The paper's own kind of robot (simulated): a constant-curvature segment of unknown stiffness, 20 of them.

    Tip and coverage, and how far learned stiffness, the ukf's and the best constant see ahead (the paper's Table II).
    Noise was set on seeds 1 to 12.
    """
    found, ahead = zip(*in_turns(_paper_judged, [(seed,) for seed in SEEDS[: 2 if quick else None]]), strict=True)
    rows = []
    for name in (*BOTH, _TOLD):
        place = [one[name] for one in found]
        least = min(one["coverage_3_sigma"] for one in place)
        middle_1, middle_3 = (float(np.median([one[f"coverage_{k}_sigma"] for one in place])) for k in (1, 3))
        cells = {
            "filter": name,
            "tip RMSE, mm": middle_worst([one["position_ate_rmse_m"] for one in place], scale=1e3),
            "largest error, mm": middle_worst([one["position_ate_max_m"] for one in place], 1, scale=1e3),
            "tip within 1, 3 sigma": f"{middle_1:.2f}, {middle_3:.3f} ({least:.3f})",
        }
        table = f"Over {len(place)} robots (simulated, from seed {SEEDS[0]} on; medians, worst run in brackets)"
        rows.append(cells_row(table, name, cells))
    return [*rows, *_table_two(ahead)]


class _Told(UnscentedEstimator):
    def __init__(self, configuration: SoftRobotConfiguration, true: HeldValues) -> None:
        super().__init__(configuration)
        self._true = true

    def step(self, state: Any, measurement: Measurement) -> Step:
        if state.filtered is not None:
            true = np.interp(measurement.stamp_ns, self._true.stamps_ns, self._true.values[:, 0])
            mean, covariance = state.filtered.mean.copy(), self._unscented.covariance(state.filtered)
            place = kernels.ROW
            covariance[place], covariance[:, place] = 0.0, 0.0
            mean[place], covariance[place, place] = math.log(true / self.grey_box.stiffness), _TOLD_STDDEV**2
            state = state._replace(filtered=self._unscented.start(mean, covariance))
        return super().step(state, measurement)


class _ToldRobot(SoftRobot):
    """Whose ukf is told the true stiffness at each measurement: what there is to be had from knowing it."""

    def __init__(self, true: HeldValues) -> None:
        self._true = true

    def estimator(self, configuration: SoftRobotConfiguration, name: str) -> _Told:
        return _Told(configuration, self._true)


def _paper_judged(seed: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[int, Array]]]:
    """Figures of the tip by filter; NMSE (6,) ahead by model and horizon."""
    simulated = ROBOT.simulate(SoftRobotConfiguration(), "paper", "", DURATION_S, np.random.default_rng(seed))
    run = from_simulator(simulated, (TIP, BASE), (TRUE_STIFFNESS,))
    told = _ToldRobot(run.held[TRUE_STIFFNESS.sensor])
    judged = {**{name: judge(ROBOT, KNOWN, name, run) for name in BOTH}, _TOLD: judge(told, KNOWN, "ukf", run)}
    truth, states = true_states(KNOWN, run), {name: filtered(KNOWN, name, run) for name in BOTH}
    best = best_constant(KNOWN, [(states[BOTH[0]], truth)], _PAPER_GRID, HORIZONS[-1])
    ahead = {name: errors(one, truth, HORIZONS) for name, one in states.items()}
    ahead["constant"] = errors(states[BOTH[0]], truth, HORIZONS, best)
    return {name: one.metrics["position"] for name, one in judged.items()}, ahead


def _table_two(ahead: Sequence[dict[str, dict[int, Array]]]) -> list[Row]:
    """NMSE by horizon, medians over robots; how often the learned stiffness is the better one."""
    rows = []
    for name in (*BOTH, "constant"):
        cells = {"stiffness": name}
        for count in HORIZONS:
            values, learned = (np.array([float(one[k][count].mean()) for one in ahead]) for k in (name, BOTH[0]))
            ratios = values / learned
            better = f"learned {np.median(ratios):.2f} times better, in {int((ratios > 1.0).sum())} of {len(ratios)}"
            cells[f"{count} steps"] = f"{middle_worst(values, 4)}; {better}"
        title = "The paper's Table II (NMSE ahead, steps of 8 ms; medians over robots, worst in brackets)"
        rows.append(cells_row(title, f"ahead: {name}", cells))
    return rows
