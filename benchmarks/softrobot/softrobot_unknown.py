"""A soft robot of unknown build (simulated by others): identified and tuned on some runs, judged on those left out.

Two runs teach, both ways round, and then each alone: tip, coverage, and with two how far models see ahead. Needs the
recordings; takes about twenty minutes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recordings import recordings
from benchmarks.softrobot.softrobot_forecast import errors, filtered, true_states
from onboard_estimation.configuration import load
from onboard_estimation.evaluation.judge import judge
from onboard_estimation.evaluation.recording import LoadedRecording, from_simulator
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.description import BASE, TIP
from softrobot_estimation.robot import ROBOT
from softrobot_estimation.unknown_soft_robot import read_unknown_soft_robot

SPLITS = ((1, 3), (2, 4), (1,), (2,), (3,), (4,))
"""Runs that teach; the others judge."""
RUNS = (1, 2, 3, 4)
STEPS = (5, 10, 20)
_GRID = np.linspace(0.7, 1.6, 10)


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows of each run with nothing identified, and of each split."""
    _folder(1)
    with ProcessPoolExecutor(2) as pool:
        split = pool.map(_of_split, SPLITS[:1] if quick else SPLITS)
        untaught = pool.map(_untaught, RUNS)
        found = [row for rows in (*untaught, *split) for row in rows]
    return sorted(found, key=lambda row: str(row["table"]), reverse=True)  # one table after the other


def _untaught(number: int) -> list[dict[str, Any]]:
    known, run_of = configuration(1), recording(number)
    return [tip_row(f"run_{number}, nothing identified", name, known, run_of) for name in (*_BOTH, "open_loop")]


def _of_split(teaching: Sequence[int]) -> list[dict[str, Any]]:
    runs = {number: recording(number) for number in RUNS}
    left_out = [number for number in RUNS if number not in teaching]
    identified, tuned = taught(configuration(1), {number: runs[number] for number in teaching})
    teachers = " and ".join(map(str, teaching))
    rows = []
    for number in left_out:
        for said, known in (("identified and tuned on", tuned), ("only identified on", identified)):
            rows += [tip_row(f"run_{number}, {said} {teachers}", name, known, runs[number]) for name in _BOTH]
    return rows if len(teaching) == 1 else rows + ahead_rows(tuned, runs, teaching, left_out)


_BOTH = ("marginalized_pf", "ukf")


def _folder(number: int) -> Path:
    return recordings("unknown_soft_robot", f"run_{number}")


def recording(number: int) -> LoadedRecording:
    """A run as a judge reads it."""
    return from_simulator(read_unknown_soft_robot(_folder(number)).recording, (TIP, BASE))


def configuration(number: int) -> SoftRobotConfiguration:
    """What the laboratory knows."""
    found = read_unknown_soft_robot(_folder(number)).configurations["softrobot"]
    assert isinstance(found, SoftRobotConfiguration)
    return found


def taught(
    known: SoftRobotConfiguration, runs: dict[int, LoadedRecording]
) -> tuple[SoftRobotConfiguration, SoftRobotConfiguration]:
    """By `identify`, and then by `train` as well."""
    recordings = {f"run_{number}": one for number, one in runs.items()}
    folder = Path(tempfile.mkdtemp(prefix="softrobot-"))
    file, *_ = ROBOT.identify(known, recordings).write(folder / "identified")
    identified = load(SoftRobotConfiguration, file)
    model = folder / "model.npz"
    ROBOT.train(identified, recordings, ["" for _ in recordings]).save(model)
    return identified, replace(identified, learning=replace(identified.learning, model=str(model)))


def tip_row(case: str, name: str, known: SoftRobotConfiguration, run: LoadedRecording) -> dict[str, Any]:
    """Errors and coverage of a filter's tip, as `evaluate` has them."""
    figures = judge(ROBOT, known, name, run).metrics
    place = figures["position"]
    return {
        "case": f"{case}: {name}",
        "table": "Tip (simulated robot of others, whole runs but for the first 2 s)",
        "cells": {
            "run": f"{case}: {name}",
            "3D RMS, mm": f"{1e3 * place['position_ate_rmse_m']:.2f}",
            "worst, mm": f"{1e3 * place['position_ate_max_m']:.1f}",
            "velocity x, y, z RMS, mm/s": ", ".join(
                f"{1e3 * figures['velocity'][f'{axis}_rmse_m_per_s']:.0f}" for axis in "xyz"
            ),
            "within 1, 3 sigma": f"{place['coverage_1_sigma']:.2f}, {place['coverage_3_sigma']:.3f}",
            "lost": f"{figures['run'].get('times_lost', 0.0):.0f}",
        },
    }


def ahead_rows(
    tuned: SoftRobotConfiguration, runs: dict[int, LoadedRecording], teaching: Sequence[int], left_out: Sequence[int]
) -> list[dict[str, Any]]:
    """NMSE after 5, 10, 20 steps of 8 ms: learned stiffness, the ukf's, and the best constant of the teaching runs."""
    nominal = tuned.stiffness.bending_n_m_per_rad

    def of_constants(number: int, values: Sequence[float]) -> list[dict[int, Any]]:
        states, truth = filtered(tuned, "ukf", runs[number]), true_states(tuned, runs[number])
        return [errors(states, truth, STEPS, lambda _, k=k: k) for k in values]  # type: ignore[misc]

    tried = [nominal * share for share in _GRID]
    totals = np.sum([[one[20].mean() for one in of_constants(number, tried)] for number in teaching], axis=0)
    best = tried[int(np.argmin(totals))]
    rows = []
    for number in left_out:
        truth = true_states(tuned, runs[number])
        states = {name: filtered(tuned, name, runs[number]) for name in _BOTH}
        constant = f"best constant, {best:.3f} N m/rad"
        by = {name: errors(one, truth, STEPS) for name, one in states.items()}
        by[constant] = of_constants(number, [best])[0]
        own = {name: errors(one, truth, STEPS, as_seen=False) for name, one in states.items()}
        own[constant] = errors(states["ukf"], truth, STEPS, lambda _: best, as_seen=False)
        for name, found in by.items():
            rows.append(
                {
                    "case": f"run_{number}: {name}",
                    "table": "Ahead (NMSE after 5, 10, 20 steps of 8 ms, on runs left out)",
                    "cells": {
                        "run, stiffness": f"run_{number}: {name}",
                        "all": ", ".join(f"{found[count].mean():.3f}" for count in STEPS),
                        "bending": ", ".join(f"{found[count][:2].mean():.4f}" for count in STEPS),
                        "its rates": ", ".join(f"{found[count][3:5].mean():.3f}" for count in STEPS),
                        "elongation": ", ".join(f"{found[count][2]:.4f}" for count in STEPS),
                        "its rate": ", ".join(f"{found[count][5]:.2f}" for count in STEPS),
                        "all, with the model's own rates": ", ".join(
                            f"{own[name][count].mean():.3f}" for count in STEPS
                        ),
                    },
                }
            )
    return rows
