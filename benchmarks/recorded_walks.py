"""Recorded walks: position error of the strapdown filter, whole and without heights.

The figures of `docs/strapdown.md`, through the same `evaluate` as a user's: position error in cm RMS after heading
alignment. Needs the recordings; nothing here is timed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.conversion import convert_pyshoe
from onboard_estimation.evaluation.evaluate import EvaluateOptions, evaluate_bag

TARGETS_CM = {
    "2017-11-22-11-27-30": 4.0,
    "2017-11-22-11-48-35": 7.0,
    "2017-11-27-11-12-44": 8.0,
    "2018-02-09-11-16-53": 12.0,
}
WITHOUT = {"all parts": {}, "without heights": {"ground.enabled": False}}


def run(quick: bool) -> list[dict[str, Any]]:
    """A row a recording, then a row for each variant."""
    data = Path(os.environ.get("ONBOARD_ESTIMATION_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (data / "pyshoe_vicon").is_dir():
        raise UserError(f"the recorded walks are not in {data}; set ONBOARD_ESTIMATION_DATA")
    with tempfile.TemporaryDirectory() as folder:
        bags = {}
        for name in TARGETS_CM:
            bags[name] = Path(folder) / name
            convert_pyshoe(data / "pyshoe_vicon" / f"{name}.mat", bags[name])
        rows = []
        for variant, overrides in WITHOUT.items():
            errors = [error_cm(bag, overrides) for bag in bags.values()]
            for name, error in zip(bags, errors, strict=True):
                row = {"case": f"{name}, {variant}", "figure": f"{error:.1f} cm", "rmse_cm": round(error, 2)}
                if not overrides:
                    row |= {"target": f"<= {TARGETS_CM[name]:g} cm", "met": error <= TARGETS_CM[name]}
                rows.append(row)
    return rows


def error_cm(bag: Path, overrides: dict[str, Any]) -> float:
    """RMS of the position error."""
    result = evaluate_bag(bag, EvaluateOptions(robot="strapdown", overrides=overrides), write=False).result
    return 100.0 * float(np.asarray(result.metrics["position"]["position_ate_rmse_m"]))
