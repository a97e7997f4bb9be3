"""Recorded walks by a strapdown filter whose contact detector was set without the walk that is judged.

What decides between stance and swing is the share of the recent peak of energy, and what counts as slow. Both are
varied over a grid, from a quarter of the shipped values to three times them; of the settings that are within 10 % of
the best on three walks (geometric mean of the position errors), the middle one judges the fourth, each in turn.
Needs the recordings; nothing here is timed; takes some minutes on two cores.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recordings import recordings
from benchmarks.strapdown.recorded_walks import TARGETS_CM
from onboard_estimation.evaluation.evaluate import evaluate_bag
from onboard_estimation.evaluation.options import EvaluateOptions
from onboard_estimation.evaluation.simulated_bags import convert

SHARES = (0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.55, 0.75)
SLOW_RAD_S = (0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
NEARLY_AS_GOOD = 1.1
TARGET_CM, SHARE_TARGET = 6.0, 0.97
Setting = tuple[float, float]


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each walk."""
    shares, slow = (SHARES[3:6], SLOW_RAD_S[3:4]) if quick else (SHARES, SLOW_RAD_S)
    settings = list(product(shares, slow))
    with tempfile.TemporaryDirectory() as folder:
        bags = {name: Path(folder) / name for name in TARGETS_CM}
        for name, bag in bags.items():
            convert("pyshoe", recordings("pyshoe_vicon") / f"{name}.mat", bag)
        with ProcessPoolExecutor(2) as pool:
            jobs = list(product(bags.values(), settings))
            found = dict(zip(jobs, pool.map(_judged, *zip(*jobs, strict=True), chunksize=4), strict=True))
    rows = []
    for name, bag in bags.items():
        others = [one for one in bags.values() if one != bag]
        share, slow_rad_s = chosen = middle({one: [found[bag, one][0] for bag in others] for one in settings})
        error_cm, within = found[bag, chosen]
        rows.append(
            {
                "case": f"{name}, left out",
                "figure": f"{error_cm:.1f} cm, within 3 sigma {within:.3f}; share {share:g}, slow {slow_rad_s:g} rad/s",
                "rmse_cm": round(error_cm, 2),
                "target": f"<= {TARGET_CM:g} cm, {SHARE_TARGET:g}",
                "met": error_cm <= TARGET_CM and within >= SHARE_TARGET,
            }
        )
    return rows


def middle(errors_cm: dict[Setting, list[float]]) -> Setting:
    """The setting in the middle, by ratios, of those that do nearly as well as the best."""
    scores = {one: float(np.exp(np.mean(np.log(errors)))) for one, errors in errors_cm.items()}
    best = min(scores.values())
    centre = np.mean([np.log(one) for one, score in scores.items() if score <= NEARLY_AS_GOOD * best], axis=0)
    return min(scores, key=lambda one: float(np.sum((np.log(one) - centre) ** 2)))


def _judged(bag: Path, setting: Setting) -> tuple[float, float]:
    """RMS of the position error, cm, and how much of it is within three standard deviations."""
    overrides = {"contact.relative_energy": setting[0], "contact.slow_energy_rad_s": setting[1]}
    result = evaluate_bag(bag, EvaluateOptions(robot="strapdown", overrides=overrides), write=False).result
    position = result.metrics["position"]
    return 100.0 * float(position["position_ate_rmse_m"]), float(position["coverage_3_sigma"])
