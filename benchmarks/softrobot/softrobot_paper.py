"""The paper's two tables on its own kind of robot (simulated): a constant-curvature segment of unknown stiffness.

Table I: ten filters with other random numbers on one recording. Over 20 robots: tip, stiffness, coverage, and how far
learned stiffness, the ukf's and the best constant see ahead (Table II). Noise was set on seeds 1 to 12.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.softrobot.softrobot_forecast import errors, filtered, true_states
from onboard_estimation.estimator import Step
from onboard_estimation.evaluation.judge import judge
from onboard_estimation.evaluation.recording import LoadedRecording, from_simulator
from onboard_estimation.evaluation.truth import HeldValues
from onboard_estimation.measurement import Measurement
from softrobot_estimation import grey_box_kernels as kernels
from softrobot_estimation.channels import TRUE_STIFFNESS
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.description import BASE, TIP
from softrobot_estimation.paper_simulator import known_configuration
from softrobot_estimation.robot import ROBOT, SoftRobot
from softrobot_estimation.unscented_estimator import UnscentedEstimator

Array = NDArray[np.float64]

SEEDS, TABLE_SEED, DURATION_S = range(101, 121), 101, 20.0
HORIZONS, STEPS_S = (5, 10, 20), (0.008, 0.016, 0.024)
BOTH = ("marginalized_pf", "ukf")
KNOWN = known_configuration(SoftRobotConfiguration())
_GRID = np.linspace(0.6, 1.6, 11)
_TOLD_STDDEV = 1e-4


def run(quick: bool) -> list[dict[str, Any]]:
    """Table I, figures over seeds, Table II."""
    seeds = SEEDS[:2] if quick else SEEDS
    repetitions = range(1, 3 if quick else 11)
    with ProcessPoolExecutor(2) as pool:
        table = list(pool.map(_repeated, repetitions))
        found = list(pool.map(_judged, seeds))
        told = list(pool.map(_told, seeds))
        ahead = list(pool.map(_ahead, seeds))
    ukf = _figures(KNOWN, "ukf", recording(TABLE_SEED))
    return [
        _table_one(f"marginalized_pf, {len(table)} runs on one recording", table),
        _table_one("ukf", [ukf]),
        *(_over_seeds(name, [one[name] for one in found]) for name in BOTH),
        _over_seeds("ukf, told the true stiffness at each sample", told),
        *_table_two(ahead),
    ]


def recording(seed: int) -> LoadedRecording:
    """Of the robot of that seed."""
    simulated = ROBOT.simulate(SoftRobotConfiguration(), "paper", "", DURATION_S, np.random.default_rng(seed))
    return from_simulator(simulated, (TIP, BASE), (TRUE_STIFFNESS,))


def _figures(
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
    return _figures(known, "marginalized_pf", recording(TABLE_SEED))


def _judged(seed: int) -> dict[str, dict[str, float]]:
    run_of = recording(seed)
    return {name: _figures(KNOWN, name, run_of) for name in BOTH}


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
    run_of = recording(seed)
    return _figures(KNOWN, "ukf", run_of, _ToldRobot(run_of.held[TRUE_STIFFNESS.sensor]))


def _ahead(seed: int) -> dict[str, dict[tuple[float, int], Array]]:
    """NMSE (6,) by model, step and horizon."""
    run_of = recording(seed)
    truth = true_states(KNOWN, run_of)
    runs = {name: filtered(KNOWN, name, run_of) for name in BOTH}
    constants = [KNOWN.stiffness.bending_n_m_per_rad * share for share in _GRID]
    found: dict[str, dict[tuple[float, int], Array]] = {name: {} for name in (*BOTH, "constant")}
    for step_s in STEPS_S:
        for name in BOTH:
            for count, value in errors(runs[name], truth, HORIZONS, None, step_s).items():
                found[name][step_s, count] = value
        tried = [errors(runs[BOTH[0]], truth, HORIZONS, lambda _, k=k: k, step_s) for k in constants]  # type: ignore[misc]
        best = min(tried, key=lambda one: float(one[HORIZONS[-1]].mean()))
        for count, value in best.items():
            found["constant"][step_s, count] = value
    return found


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


def _table_two(ahead: Sequence[dict[str, dict[tuple[float, int], Array]]]) -> list[dict[str, Any]]:
    """NMSE by horizon and step, medians over robots; then how often the learned stiffness is the better one."""
    rows = []
    for count in HORIZONS:
        for name in ("marginalized_pf", "ukf", "constant"):
            cells = {"ahead": f"{count} steps", "stiffness": name}
            for step_s in STEPS_S:
                values = [float(one[name][step_s, count].mean()) for one in ahead]
                cells[f"{1e3 * step_s:.0f} ms"] = f"{np.median(values):.4f} ({max(values):.4f})"
            rows.append(
                {
                    "case": f"{count} steps: {name}",
                    "table": "The paper's Table II (NMSE ahead; medians over robots, worst in brackets)",
                    "cells": cells,
                }
            )
    for other in ("constant", "ukf"):
        ratios = {
            count: np.array(
                [one[other][0.008, count].mean() / one["marginalized_pf"][0.008, count].mean() for one in ahead]
            )
            for count in HORIZONS
        }
        rows.append(
            {
                "case": f"{other} over learned, steps of 8 ms",
                "table": "Ahead: error of others over that of the learned stiffness",
                "cells": {"over learned, steps of 8 ms": other}
                | {
                    f"{count} steps": f"{np.median(one):.2f} (better in {int((one > 1.0).sum())} of {len(one)})"
                    for count, one in ratios.items()
                },
            }
        )
    return rows
