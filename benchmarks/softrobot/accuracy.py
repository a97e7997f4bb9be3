"""How well a soft robot's filters know the tip, and how far their models see ahead; nothing is timed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.measuring import Row, cells_row, in_turns, recordings
from onboard_estimation.base.configuration import load
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.judging.judge import judge
from softrobot_estimation.judging.foresight import best_constant, errors, filtered, true_states
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import STEP_S
from softrobot_estimation.robot import ROBOT
from softrobot_estimation.simulation.unknown_soft_robot import read_unknown_soft_robot

RUNS, BOTH = (1, 2, 3, 4), ("marginalized_pf", "ukf")
SPLITS = ((1, 3), (2, 4), (1,), (2,), (3,), (4,))
"""Runs that teach; the others judge."""
HORIZONS = (5, 10, 20)
_GRID = np.linspace(0.7, 1.6, 10)


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
    states = {
        (name, number): filtered(ROBOT.estimator(tuned, name), run) for name in BOTH for number, run in runs.items()
    }
    lessons = [(states["ukf", number], truth[number]) for number in teaching]
    best = best_constant(lessons, _GRID, HORIZONS[-1], STEP_S)
    rows = []
    for number in left_out:
        by = {name: errors(states[name, number], truth[number], HORIZONS, STEP_S) for name in BOTH}
        by[f"best constant, {best:.3f} N m/rad"] = errors(states["ukf", number], truth[number], HORIZONS, STEP_S, best)
        for name, found in by.items():
            cells = {"run, stiffness": f"run_{number}: {name}"}
            cells["NMSE"] = ", ".join(f"{found[count].mean():.3f}" for count in HORIZONS)
            table = "Ahead (NMSE after 5, 10, 20 steps of 8 ms, on runs left out)"
            rows.append(cells_row(table, f"run_{number}: {name}", cells))
    return rows
