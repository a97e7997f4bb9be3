"""Scenario `foreign` of the salp: off, it is `hardware` bit by bit; slopes pull, and links ring, as they should."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2, Recording
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gaits import GAITS
from salp_estimation.simulation.foreign_effects import ForeignEffects, ForeignScenario, foreign_scenario
from salp_estimation.simulation.hardware_simulator import HardwareSimulation

Array = NDArray[np.float64]
CHAIN = SalpConfiguration().chain
EFFECTS = [one.name for one in fields(ForeignScenario) if one.default == 0.0]


def simulated(foreign: ForeignScenario | None, seed: int = 3, seconds: float = 3.0) -> Recording:
    rng = np.random.default_rng(seed)
    simulation = HardwareSimulation(CHAIN, GAITS["left"].controls, rng, foreign=foreign)
    return simulation.advance(round(seconds * 1e9))


def values(recording: Recording) -> list[Array]:
    return [one.values for one in (*recording.sensors, *recording.truth)]


def effects(seed: int = 1, **magnitudes: Any) -> ForeignEffects:
    return ForeignEffects(ForeignScenario(**magnitudes), np.zeros(2), 0.05, 12, np.random.default_rng(seed))


def test_each_effect_alone_changes_the_run_and_without_any_it_is_hardware_bit_by_bit() -> None:
    without = values(simulated(None))
    for one, other in zip(without, values(simulated(ForeignScenario())), strict=True):
        np.testing.assert_array_equal(one, other)
    for effect in EFFECTS:
        alone = replace(ForeignScenario(), **{effect: getattr(foreign_scenario(), effect)})
        assert getattr(alone, effect) > 0.0
        with_it = values(simulated(alone))
        assert any(not np.array_equal(one, other) for one, other in zip(without, with_it, strict=True)), effect
        moved = effect not in ("warm_up_rad_s", "flexible_share")  # of the gyros alone
        assert moved == (not np.array_equal(without[-1], with_it[-1])), effect


def test_a_chain_on_a_slope_is_pulled_downhill_whatever_its_heading() -> None:
    found = effects(slope_deg=1.0)
    headings = np.linspace(-3.0, 3.0, 7)
    pulled = found.downhill(headings)
    world = np.column_stack(
        [
            np.cos(headings) * pulled[:, 0] - np.sin(headings) * pulled[:, 1],
            np.sin(headings) * pulled[:, 0] + np.cos(headings) * pulled[:, 1],
        ]
    )
    np.testing.assert_allclose(world, np.tile(found.downhill_n, (7, 1)), atol=1e-12)
    drawn = np.array([effects(seed, slope_deg=1.0).downhill_n for seed in range(400)])
    assert drawn.std() == pytest.approx(STANDARD_GRAVITY_M_S2 * np.deg2rad(1.0), rel=0.1)


def test_a_link_that_bends_rings_at_its_frequency_and_fades() -> None:
    found = effects(flexible_share=0.3, flexible_hz=8.0, flexible_damping=0.02)
    time_s = np.arange(0.0, 4.0, 0.0025)
    turning = np.where(time_s[:, None] > 0.1, 0.1, 0.0) * np.ones(3)
    rung = found.gyro_rates(time_s, turning)[:, 0]
    (jump,) = np.flatnonzero(np.diff(turning[:, 0])) + 1
    assert -0.3 * 0.1 * 1.75 < rung[jump] < -0.3 * 0.1 * 0.25, "the gyro's end stays behind at first"
    after = rung[time_s > 0.11]
    spectrum = np.abs(np.fft.rfft(after, 1 << 14))
    assert np.fft.rfftfreq(1 << 14, 0.0025)[np.argmax(spectrum)] == pytest.approx(8.0, abs=0.1)
    first, later = np.abs(after[:100]).max(), np.abs(after[400:500]).max()
    assert later / first == pytest.approx(np.exp(-0.02 * 2.0 * np.pi * 8.0 * 1.0), rel=0.1)
    halves = effects(flexible_share=0.3)
    np.testing.assert_allclose(
        np.vstack([halves.gyro_rates(time_s[:801], turning[:801]), halves.gyro_rates(time_s[800:], turning[800:])[1:]]),
        effects(flexible_share=0.3).gyro_rates(time_s, turning),
        atol=1e-12,
    )
