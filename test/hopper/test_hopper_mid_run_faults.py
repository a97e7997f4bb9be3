"""Sensors and legs that are otherwise from an instant amid a run: told, or covered at three standard deviations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hopper_samples_for_tests import CONFIGURATION, HIGH, LOW, ROBOT, changed, loaded, values_by, without

from hopper_estimation.simulation.scenario import Change
from onboard_estimation.base.series import Recording
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.judge import judge

AT_S = 20.0
LEAST_COVERED, MOST_MISSED = 0.97, 2
"""Shares of instants; of twenty seeds."""
ALONG = 5


class Fault(NamedTuple):
    """What happens at `AT_S` to a simulated robot, to its sensors, and the one that may be blamed."""

    changes: tuple[Change, ...] = ()
    sensors: Mapping[str, Any] = MappingProxyType({})
    sensor: str = ""


def spoilt(change: Callable[[Any], Any]) -> Any:
    """A change of a sensor's values (K, 6) from `AT_S` on."""
    return values_by(lambda time_s, values: np.where((time_s >= AT_S)[:, None], change(values.copy()), values))


def scaled(values: Any, factor: float) -> Any:
    largest = CONFIGURATION.sensors.low_range_m_s2
    values[:, ALONG] = np.clip(factor * values[:, ALONG], -largest, largest)
    return values


def biased_gyro(rad_s: float) -> Any:
    return {LOW: spoilt(lambda values: values + rad_s * (np.arange(6) == 1)), "imu/attitude": without}


FAULTS = {
    "none": Fault(),
    "none, without attitude": Fault(sensors={"imu/attitude": without}),
    "gyro +0.05 rad/s": Fault(sensors=biased_gyro(0.05), sensor="the gyro of imu/low_g"),
    "gyro +0.15 rad/s": Fault(sensors=biased_gyro(0.15), sensor="the gyro of imu/low_g"),
    "low-g scale +8 %": Fault(sensors={LOW: spoilt(partial(scaled, factor=1.08))}),
    "leg softer by a fifth": Fault((Change(AT_S, "stiffness", 0.8),)),
    "leg stiffer by half": Fault((Change(AT_S, "stiffness", 1.5),)),
    "leg loses half as much again": Fault((Change(AT_S, "loss", 1.5),)),
    "3 N downwards": Fault((Change(AT_S, "force", offset=-3.0),)),
    "3 N downwards for 2 s": Fault((Change(AT_S, "force", offset=-3.0), Change(AT_S + 2.0, "force", 0.0))),
    "high-g sensor upside down": Fault(sensors={HIGH: spoilt(np.negative)}, sensor="imu/high_g contradicts imu/low_g"),
}


def run(fault: Fault, seed: int) -> EvaluationResult:
    simulation = ROBOT.simulation(
        CONFIGURATION, "hardware", "mixed", np.random.default_rng(seed), changes=fault.changes
    )
    recording: Recording = simulation.advance(60_000_000_001)
    return judge(ROBOT, CONFIGURATION, "bounce", loaded(changed(recording, fault.sensors)))


def covered(result: EvaluationResult) -> float:
    height = result.parts["height"]
    chosen = (result.stamps_ns * 1e-9 > AT_S) & np.isfinite(height.error[:, 0])
    return float(np.mean(np.abs(height.error[chosen, 0]) < 3.0 * height.stddev[chosen, 0]))


def complaints(result: EvaluationResult) -> list[str]:
    """Notes on what is wrong with a sensor."""
    return [note for note in result.notes if "contradicts" in note or "gyro of" in note or "is silent" in note]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_twenty_robots_each_with_a_fault(name: str) -> None:
    """Other seeds than those that anything was chosen by; without a fault nothing is told in twenty minutes."""
    fault, within, missed = FAULTS[name], [], []
    for seed in range(20):
        result = run(fault, seed)
        told = complaints(result)
        assert all(fault.sensor and fault.sensor in one for one in told), (seed, told)
        within.append(covered(result))
        missed.append(within[-1] < LEAST_COVERED and not told)
    print(f"{name}: within three standard deviations, median {np.median(within):.3f}, worst {min(within):.3f}")
    assert sum(missed) <= MOST_MISSED, within
