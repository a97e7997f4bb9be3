"""Hopper on ground that steps up or down by 4 cm from hop to hop, heights above the ground of the start.

Simulated (`uneven`, hops of 1 to 4 m), as shipped, with `ground_changes`; steps are drawn anew for each seed. A step is
known no better than the flight before it, so that errors add up: the covariance has to say by how much.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.core.live_processes import row
from hopper_estimation.configuration import HopperConfiguration
from onboard_estimation.evaluation.judge import judge
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.robots import find_robot

SEEDS = range(7300, 7310)
DURATION_S, LAST_S = 78.0, 5.0


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each filter."""
    robot, configuration = find_robot("hopper"), HopperConfiguration(ground_changes=True)
    rows = []
    for name in ("bounce", "kf1"):
        within, last_m = [], []
        for seed in SEEDS[:1] if quick else SEEDS:
            recording = simulated_recording(robot, configuration, "uneven", "mixed", DURATION_S, seed)
            judged = judge(robot, configuration, name, recording)
            height = judged.parts["height"]
            error = height.error[:, 0]
            within.append(np.mean(np.abs(error) < 3.0 * height.stddev[:, 0], where=np.isfinite(error)))
            last_m.append(abs(np.nanmedian(error[judged.time_s > judged.time_s[-1] - LAST_S])))
        figure = (
            f"height within 3 sigma {np.mean(within):.3f} (worst run {np.min(within):.3f}); median error of the last "
            f"{LAST_S:g} of {DURATION_S:g} s {np.median(last_m):.2f} m (worst {np.max(last_m):.2f})"
        )
        met = np.mean(within) >= 0.97
        rows.append(row(name, figure, "0.97", bool(met)) if name == "bounce" else row(name, figure))
    return rows
