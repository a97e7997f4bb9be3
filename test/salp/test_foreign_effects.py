"""Scenario `foreign` of the salp: off, it is `hardware` bit by bit; each effect has the physics that it states."""

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


def test_friction_falls_with_speed_and_is_one_vector() -> None:
    nominal = np.tile([0.4, 0.4, 0.01], (3, 1))
    twists = np.array([[0.0, 0.0, 0.0], [0.2, 0.0, 0.0], [0.2, 0.2, 0.0]])
    falling = effects(stribeck_share=0.25).friction(nominal, twists, np.zeros(3), 0.0)
    np.testing.assert_allclose(falling[:, 0], [0.5, 0.4, 0.4])
    coupled = effects(coupled_share=1.0).friction(nominal, twists, np.zeros(3), 0.0)
    assert np.hypot(*coupled[2, :2]) == pytest.approx(0.4, rel=0.01)
    assert coupled[1, 0] == pytest.approx(0.4)
    assert coupled[1, 1] < 0.01


def test_friction_ripples_once_a_roller_and_drifts_with_time() -> None:
    nominal, twists = np.ones((3, 3)), np.zeros((3, 3))
    rippling = effects(ripple_share=0.2)
    way = np.linspace(0.0, 2.0 * np.pi * 0.05, 241)[:-1]
    along = np.array([rippling.friction(nominal, twists, np.full(3, one), 0.0)[:, 0] for one in way])
    spectrum = np.abs(np.fft.rfft(along - along.mean(axis=0), axis=0))
    assert np.argmax(spectrum, axis=0).tolist() == [12, 12, 12]
    dusty = effects(dust_share_min=0.1)
    start, minute, two = (dusty.friction(nominal, twists, np.zeros(3), t)[:, 0] for t in (0.0, 60.0, 120.0))
    np.testing.assert_allclose(two - start, 2.0 * (minute - start))
    assert np.all(minute != start)


def test_the_harness_keeps_a_share_of_where_it_was_held() -> None:
    found = effects(set_share=0.3, set_time_s=30.0)
    held = np.array([0.5, -0.2])
    once = found.rest_angles(held, 30.0)
    np.testing.assert_allclose(once, 0.3 * held * (1.0 - np.exp(-1.0)))
    for _ in range(20):
        once = found.rest_angles(held, 30.0)
    np.testing.assert_allclose(once, 0.3 * held, rtol=1e-6)


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
