"""Sensors and legs that are otherwise from an instant amid a run: told, or covered at three standard deviations.

Three robots each; how it is with twenty, and how soon it is told, is measured by the benchmark `mid_run_faults`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hopper_samples_for_tests import CONFIGURATION, ROBOT

from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import EvaluateOptions, WhatIf
from onboard_estimation.judging.simulated_bags import SimulatedRun, simulated_source

AT_S = 20.0
LEAST_COVERED = 0.97
"""Share of instants."""
SEEDS = (0, 1, 2)

WITHOUT_ATTITUDE = {"drop": ("imu/attitude",)}
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, ""),
    "none, without attitude": (WITHOUT_ATTITUDE, ""),
    "gyro +0.05 rad/s": ({**WITHOUT_ATTITUDE, "fault": ("imu/low_g.gyro_y=+0.05@20",)}, "gyro of imu/low_g"),
    "gyro +0.15 rad/s": ({**WITHOUT_ATTITUDE, "fault": ("imu/low_g.gyro_y=+0.15@20",)}, "gyro of imu/low_g"),
    "low-g scale +8 %": ({"fault": ("imu/low_g.accel_z=*1.08@20",)}, ""),
    "leg softer by a fifth": ({"fault": ("leg.stiffness=*0.8@20",)}, ""),
    "leg stiffer by half": ({"fault": ("leg.stiffness=*1.5@20",)}, ""),
    "leg loses half as much again": ({"fault": ("leg.loss=*1.5@20",)}, ""),
    "3 N downwards": ({"fault": ("body.force=-3@20",)}, ""),
    "3 N downwards for 2 s": ({"fault": ("body.force=-3@20..22",)}, ""),
    "high-g sensor upside down": ({"fault": ("imu/high_g.accel=*-1@20",)}, "imu/high_g contradicts imu/low_g"),
}
"""What happens at `AT_S` to a simulated robot or its sensors, and the one that may be blamed."""


def run(what_if: dict[str, Any], seed: int) -> EvaluationResult:
    options = EvaluateOptions(what_if=WhatIf(**what_if))
    source = simulated_source(SimulatedRun("hopper", "hardware", "mixed", 60.0, seed), options)
    # Filtered at once, which takes a fifth of the time: that needs a recording of which nobody asks when it was told.
    return judge(ROBOT, CONFIGURATION, "bounce", replace(source.recording, injected=()))


def covered(result: EvaluationResult) -> float:
    height = result.parts["height"]
    chosen = (result.stamps_ns * 1e-9 > AT_S) & np.isfinite(height.error[:, 0])
    return float(np.mean(np.abs(height.error[chosen, 0]) < 3.0 * height.stddev[chosen, 0]))


def complaints(result: EvaluationResult) -> list[str]:
    """Notes on what is wrong with a sensor."""
    return [note for note in result.notes if "contradicts" in note or "gyro of" in note or "is silent" in note]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_of_the_right_sensor_or_covered(name: str) -> None:
    """Other seeds than those that anything was chosen by; without a fault nothing is told."""
    what_if, sensor = FAULTS[name]
    for seed in SEEDS:
        result = run(what_if, seed)
        told = complaints(result)
        assert all(sensor and sensor in one for one in told), (seed, told)
        assert told or covered(result) >= LEAST_COVERED, (seed, covered(result))
