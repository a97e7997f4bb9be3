"""How well a soft robot's filters know tip and stiffness, and how far their models see ahead; nothing is timed."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pool import in_turns
from benchmarks.recordings import recordings
from benchmarks.softrobot.forecast import errors, filtered, true_states
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import Measurement
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.tracks import HeldValues
from onboard_estimation.judging.judge import judge
from onboard_estimation.pipeline.estimator import Step
from softrobot_estimation.estimators.unscented_estimator import UnscentedEstimator
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import TRUE_STIFFNESS, SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.robot import ROBOT, SoftRobot
from softrobot_estimation.simulation.paper_simulator import known_configuration
from softrobot_estimation.simulation.unknown_soft_robot import read_unknown_soft_robot

SPLITS = ((1, 3), (2, 4), (1,), (2,), (3,), (4,))
"""Runs that teach; the others judge."""
RUNS = (1, 2, 3, 4)
HORIZONS = (5, 10, 20)
_UNKNOWN_GRID = np.linspace(0.7, 1.6, 10)


def softrobot_unknown(quick: bool) -> list[dict[str, Any]]:
    """A soft robot of unknown build (simulated by others): identified and tuned on some runs, judged on those left out.

    Two runs teach, both ways round, and then each alone: tip, coverage, and with two how far models see ahead.
    """
    _unknown_folder(1)
    untaught = in_turns(_untaught, [(number,) for number in RUNS])
    split = in_turns(_of_split, [(one,) for one in (SPLITS[:1] if quick else SPLITS)])
    found = [row for rows in (*untaught, *split) for row in rows]
    return sorted(found, key=lambda row: str(row["table"]), reverse=True)  # one table after the other


def _untaught(number: int) -> list[dict[str, Any]]:
    known, run_of = configuration(1), unknown_recording(number)
    return [tip_row(f"run_{number}, nothing identified", name, known, run_of) for name in (*BOTH, "open_loop")]


def _of_split(teaching: Sequence[int]) -> list[dict[str, Any]]:
    runs = {number: unknown_recording(number) for number in RUNS}
    left_out = [number for number in RUNS if number not in teaching]
    identified, tuned = taught(configuration(1), {number: runs[number] for number in teaching})
    teachers = " and ".join(map(str, teaching))
    rows = []
    for number in left_out:
        for said, known in (("identified and tuned on", tuned), ("only identified on", identified)):
            rows += [tip_row(f"run_{number}, {said} {teachers}", name, known, runs[number]) for name in BOTH]
    return rows if len(teaching) == 1 else rows + ahead_rows(tuned, runs, teaching, left_out)


BOTH = ("marginalized_pf", "ukf")


def _unknown_folder(number: int) -> Path:
    return recordings("unknown_soft_robot", f"run_{number}")


def unknown_recording(number: int) -> LoadedRecording:
    """A run as a judge reads it."""
    return from_simulator(read_unknown_soft_robot(_unknown_folder(number)).recording, (TIP, BASE))


def configuration(number: int) -> SoftRobotConfiguration:
    """What the laboratory knows."""
    found = read_unknown_soft_robot(_unknown_folder(number)).configurations["softrobot"]
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
        return [errors(states, truth, HORIZONS, lambda _, k=k: k) for k in values]  # type: ignore[misc]

    tried = [nominal * share for share in _UNKNOWN_GRID]
    totals = np.sum([[one[20].mean() for one in of_constants(number, tried)] for number in teaching], axis=0)
    best = tried[int(np.argmin(totals))]
    rows = []
    for number in left_out:
        truth = true_states(tuned, runs[number])
        states = {name: filtered(tuned, name, runs[number]) for name in BOTH}
        constant = f"best constant, {best:.3f} N m/rad"
        by = {name: errors(one, truth, HORIZONS) for name, one in states.items()}
        by[constant] = of_constants(number, [best])[0]
        for name, found in by.items():
            rows.append(
                {
                    "case": f"run_{number}: {name}",
                    "table": "Ahead (NMSE after 5, 10, 20 steps of 8 ms, on runs left out)",
                    "cells": {
                        "run, stiffness": f"run_{number}: {name}",
                        "all": ", ".join(f"{found[count].mean():.3f}" for count in HORIZONS),
                        "bending": ", ".join(f"{found[count][:2].mean():.4f}" for count in HORIZONS),
                        "its rates": ", ".join(f"{found[count][3:5].mean():.3f}" for count in HORIZONS),
                        "elongation": ", ".join(f"{found[count][2]:.4f}" for count in HORIZONS),
                        "its rate": ", ".join(f"{found[count][5]:.2f}" for count in HORIZONS),
                    },
                }
            )
    return rows


Array = NDArray[np.float64]

SEEDS, TABLE_SEED, DURATION_S = range(101, 121), 101, 20.0
KNOWN = known_configuration(SoftRobotConfiguration())
_GRID = np.linspace(0.6, 1.6, 11)
_TOLD_STDDEV = 1e-4


def softrobot_paper(quick: bool) -> list[dict[str, Any]]:
    """The paper's two tables on its own kind of robot (simulated): a constant-curvature segment of unknown stiffness.

    Table I: ten filters with other random numbers on one recording. Over 20 robots: tip, stiffness, coverage, and how
    far learned stiffness, the ukf's and the best constant see ahead (Table II). Noise was set on seeds 1 to 12.
    """
    seeds = SEEDS[:2] if quick else SEEDS
    repetitions = range(1, 3 if quick else 11)
    table = in_turns(_repeated, [(seed,) for seed in repetitions])
    found, told, ahead = ([*in_turns(one, [(seed,) for seed in seeds])] for one in (_paper_judged, _told, _ahead))
    ukf = _paper_figures(KNOWN, "ukf", paper_recording(TABLE_SEED))
    return [
        _table_one(f"marginalized_pf, {len(table)} runs on one recording", table),
        _table_one("ukf", [ukf]),
        *(_over_seeds(name, [one[name] for one in found]) for name in BOTH),
        _over_seeds("ukf, told the true stiffness at each sample", told),
        *_table_two(ahead),
    ]


def paper_recording(seed: int) -> LoadedRecording:
    """Of the robot of that seed."""
    simulated = ROBOT.simulate(SoftRobotConfiguration(), "paper", "", DURATION_S, np.random.default_rng(seed))
    return from_simulator(simulated, (TIP, BASE), (TRUE_STIFFNESS,))


def _paper_figures(
    known: SoftRobotConfiguration, name: str, run_of: LoadedRecording, robot: SoftRobot = ROBOT
) -> dict[str, float]:
    """Of one filter on one run: m, m/s, N m/rad, shares."""
    result = judge(robot, known, name, run_of)
    place, speed, stiff = (result.metrics[part] for part in ("position", "velocity", "stiffness"))
    normalised = []
    for part in ("position", "velocity"):
        compared = result.parts[part]
        off, true = compared.error, compared.truth
        fair = np.isfinite(off).all(axis=1) & (result.time_s > ROBOT.settle_s)
        normalised.append((off[fair] ** 2).mean(axis=0) / true[fair].var(axis=0))
    return {
        "place": place["position_ate_rmse_m"],
        "worst": place["position_ate_max_m"],
        "speed": float(np.sqrt(np.mean([speed[f"{axis}_rmse_m_per_s"] ** 2 for axis in "xyz"]) * 3.0)),
        "nmse": float(np.concatenate(normalised).mean()),
        "place_1": place["coverage_1_sigma"],
        "place_3": place["coverage_3_sigma"],
        "stiffness": stiff["bending_rmse_n_m_per_rad"],
        "stiffness_1": stiff["coverage_1_sigma"],
        "stiffness_3": stiff["coverage_3_sigma"],
        "lost": result.metrics["run"].get("times_lost", 0.0),
    }


def _repeated(seed: int) -> dict[str, float]:
    known = replace(KNOWN, learning=replace(KNOWN.learning, seed=seed))
    return _paper_figures(known, "marginalized_pf", paper_recording(TABLE_SEED))


def _paper_judged(seed: int) -> dict[str, dict[str, float]]:
    run_of = paper_recording(seed)
    return {name: _paper_figures(KNOWN, name, run_of) for name in BOTH}


class _Told(UnscentedEstimator):
    def __init__(self, configuration: SoftRobotConfiguration, true: HeldValues) -> None:
        super().__init__(configuration)
        self._true = true

    def step(self, state: Any, measurement: Measurement) -> Step:
        if state.filtered is not None:
            true = np.interp(measurement.stamp_ns, self._true.stamps_ns, self._true.values[:, 0])
            mean, covariance, place = (
                state.filtered.mean.copy(),
                self._unscented.covariance(state.filtered),
                kernels.ROW,
            )
            covariance[place], covariance[:, place] = 0.0, 0.0
            mean[place], covariance[place, place] = math.log(true / self.grey_box.stiffness), _TOLD_STDDEV**2
            state = state._replace(filtered=self._unscented.start(mean, covariance))
        return super().step(state, measurement)


class _ToldRobot(SoftRobot):
    def __init__(self, true: HeldValues) -> None:
        self._true = true

    def estimator(self, configuration: SoftRobotConfiguration, name: str) -> _Told:
        return _Told(configuration, self._true)


def _told(seed: int) -> dict[str, float]:
    """Of a ukf that is told the true stiffness at each measurement: what there is to be had from knowing it."""
    run_of = paper_recording(seed)
    return _paper_figures(KNOWN, "ukf", run_of, _ToldRobot(run_of.held[TRUE_STIFFNESS.sensor]))


def _ahead(seed: int) -> dict[str, dict[int, Array]]:
    """NMSE (6,) by model and horizon."""
    run_of = paper_recording(seed)
    truth = true_states(KNOWN, run_of)
    runs = {name: filtered(KNOWN, name, run_of) for name in BOTH}
    constants = [KNOWN.stiffness.bending_n_m_per_rad * share for share in _GRID]
    tried = [errors(runs[BOTH[0]], truth, HORIZONS, lambda _, k=k: k) for k in constants]  # type: ignore[misc]
    best = min(tried, key=lambda one: float(one[HORIZONS[-1]].mean()))
    return {**{name: errors(one, truth, HORIZONS) for name, one in runs.items()}, "constant": best}


def _table_one(case: str, rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return {
        "case": case,
        "table": f"The paper's Table I (simulated, seed {TABLE_SEED}; means)",
        "cells": {
            "filter": case,
            "position RMSE, mm": f"{1e3 * mean['place']:.2f}",
            "velocity RMSE, mm/s": f"{1e3 * mean['speed']:.1f}",
            "NMSE": f"{mean['nmse']:.4f}",
        },
    }


def _over_seeds(name: str, rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    def middle(key: str, scale: float = 1.0) -> float:
        return scale * float(np.median([row[key] for row in rows]))

    worst = 1e3 * max(row["worst"] for row in rows)
    return {
        "case": name,
        "table": f"Over {len(rows)} robots (simulated, from seed {SEEDS[0]} on; medians, worst run in brackets)",
        "cells": {
            "filter": name,
            "tip RMSE, mm": f"{middle('place', 1e3):.2f} ({1e3 * max(row['place'] for row in rows):.2f})",
            "largest error, mm": f"{middle('worst', 1e3):.1f} ({worst:.1f})",
            "stiffness RMSE, N m/rad": f"{middle('stiffness'):.3f} ({max(row['stiffness'] for row in rows):.3f})",
            "tip within 1, 3 sigma": f"{middle('place_1'):.2f}, {middle('place_3'):.3f} "
            f"({min(row['place_3'] for row in rows):.3f})",
            "stiffness within 1, 3 sigma": f"{middle('stiffness_1'):.2f}, {middle('stiffness_3'):.3f} "
            f"({min(row['stiffness_3'] for row in rows):.3f})",
            "tracks lost and found": f"{sum(row['lost'] for row in rows):.0f}",
        },
    }


def _table_two(ahead: Sequence[dict[str, dict[int, Array]]]) -> list[dict[str, Any]]:
    """NMSE by horizon, medians over robots; how often the learned stiffness is the better one."""
    rows = []
    for name in (*BOTH, "constant"):
        cells = {"stiffness": name}
        for count in HORIZONS:
            values = np.array([float(one[name][count].mean()) for one in ahead])
            ratios = values / [float(one[BOTH[0]][count].mean()) for one in ahead]
            better = f"learned {np.median(ratios):.2f} times better, in {int((ratios > 1.0).sum())} of {len(ratios)}"
            cells[f"{count} steps"] = f"{np.median(values):.4f} ({max(values):.4f}); {better}"
        title = "The paper's Table II (NMSE ahead, steps of 8 ms; medians over robots, worst in brackets)"
        rows.append({"case": f"ahead: {name}", "table": title, "cells": cells})
    return rows
