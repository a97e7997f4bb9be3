"""Scenario `foreign` of the hopper: off, it is `hardware`; each effect has the physics and size that it states."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from hopper_samples import CONFIGURATION, IDEAL, SCENARIO, SECOND_NS, Events, trace_of

from hopper_estimation.model import dynamics
from hopper_estimation.model.phases import REBOUND, STANCE_DOWN
from hopper_estimation.simulation.foreign_effects import ForeignScenario, foreign_scenario
from hopper_estimation.simulation.simulator import HopperSimulation
from onboard_estimation.contract.robot import find_robot

EFFECTS = [one.name for one in fields(ForeignScenario) if one.default == 0.0]


def run(foreign, seconds=14.0, scenario=SCENARIO, seed=4, variant="2m"):
    made = HopperSimulation(CONFIGURATION, variant, np.random.default_rng(seed), scenario, foreign=foreign)
    made.trace = []
    recording = made.advance(round(seconds * SECOND_NS))
    return made, {one.channel.sensor: one.values for one in (*recording.sensors, *recording.truth)}


@cache
def usual():
    return run(None)


def test_with_all_magnitudes_zero_it_is_hardware():
    _, found = run(ForeignScenario())
    for name, values in usual()[1].items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, atol=1e-9, err_msg=name)  # rotor's angle: rounding


def test_the_scenario_hardware_draws_nothing_foreign():
    robot = find_robot("hopper")
    recording = robot.simulate(CONFIGURATION, "hardware", "2m", 6.0, np.random.default_rng(4))
    made = HopperSimulation(CONFIGURATION, "2m", np.random.default_rng(4))
    expected = made.advance(6 * SECOND_NS + 1)
    for one, other in zip((*recording.sensors, *recording.truth), (*expected.sensors, *expected.truth), strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    assert made.foreign is None
    assert robot.simulation(CONFIGURATION, "foreign", "2m", np.random.default_rng(4)).foreign is not None


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_effect_alone_changes_what_it_acts_on(effect):
    alone = replace(ForeignScenario(), **{effect: getattr(foreign_scenario(), effect)})
    if effect == "push_per_m":  # at 2 m there is none
        pairs = usual_at_one_metre(), run(alone, variant="1m")[1]
    else:
        pairs = usual()[1], run(replace(alone, edge_share=1.0) if effect == "edge_share" else alone)[1]
    without, with_it = pairs
    touched = {name for name in without if not np.allclose(without[name], with_it[name], rtol=1e-9, atol=1e-6)}
    sensors_only = {
        "lever_m": {"imu/low_g", "imu/high_g"},
        "ringing_m_s2": {"imu/low_g", "imu/high_g"},
        "low_warm_up_m_s2": {"imu/low_g"},
        "high_warm_up_m_s2": {"imu/high_g"},
        "shock_offset_m_s2": {"imu/low_g"},
    }
    expected = sensors_only.get(effect)
    assert touched == expected if expected else {"imu/low_g", "imu/high_g", "ground_truth/body"} <= touched


@cache
def usual_at_one_metre():
    return run(None, variant="1m")[1]


def liftoff_shares(foreign, variant="2m", seconds=30.0):
    """Speed at liftoff over that at touchdown, by hop."""
    made, _ = run(foreign, seconds, IDEAL, variant=variant)
    trace = trace_of(made)
    found = Events(trace)
    rows = [np.round(at / dynamics.STEP_S).astype(int) - 1 for at in (found.touchdown_s, found.liftoff_s)]
    count = min(len(one) for one in rows)
    down, up = (trace[one[:count], dynamics.T_VELOCITY] for one in rows)
    return -up / down


def test_a_leg_that_pushes_more_or_less_scatters_the_liftoff():
    still, pushed = (liftoff_shares(ForeignScenario(push_scatter=size)).std() for size in (0.0, 0.1))
    assert pushed > 0.01
    assert pushed > 5.0 * still


def test_a_leg_pushes_more_when_more_is_asked_for():
    high, low = (
        np.median(liftoff_shares(ForeignScenario(push_per_m=0.05), variant) - np.median(liftoff_shares(None, variant)))
        for variant in ("4m", "1m")
    )
    assert high > 0.0 > low


def test_soft_ground_gives_way_and_loses_more():
    made, _ = run(ForeignScenario(softest_ratio=5.0), 1.0)
    plants = [made.foreign._plant(made.plant, STANCE_DOWN, hop) for hop in range(500)]
    softer = np.array([made.plant.ground_stiffness / one.ground_stiffness for one in plants])
    assert 1.0 <= softer.min() < 1.05 < 4.8 < softer.max() <= 5.0
    assert np.median(softer) == pytest.approx(np.sqrt(5.0), rel=0.15)
    np.testing.assert_allclose([one.ground_damping / made.plant.ground_damping for one in plants], softer)


def test_soft_ground_and_edges_take_energy():
    hard = liftoff_shares(None).mean()
    assert liftoff_shares(ForeignScenario(softest_ratio=8.0)).mean() < hard - 0.003
    assert liftoff_shares(ForeignScenario(edge_share=1.0, edge_m=0.015)).mean() != pytest.approx(hard, abs=1e-4)


def test_a_landing_sets_off_a_swing_of_its_frequency_with_the_rates_of_its_angles():
    made = HopperSimulation(
        CONFIGURATION,
        "2m",
        np.random.default_rng(4),
        IDEAL,
        foreign=ForeignScenario(wobble_deg=4.0, wobble_damping=0.01),
    )
    swings = []
    for k in range(1, 17):
        made.advance(k * SECOND_NS // 2)
        swings.append(made.foreign.swings)
    swings = np.concatenate(swings)
    moved = np.abs(swings[:, 0]) > 1e-9
    first = int(np.argmax(moved))
    assert first * dynamics.TICK_STEPS * dynamics.STEP_S > 6.0, "only once it has landed"
    free = swings[first : first + 300]
    crossings = np.flatnonzero(np.diff(np.sign(free[:, 0])))
    assert np.diff(crossings).mean() * 0.0025 == pytest.approx(0.5 / 3.0, rel=0.03)
    np.testing.assert_allclose(np.diff(swings[:, :2], axis=0) / 0.0025, swings[1:, 2:], atol=1e-9)


def test_a_swing_fades_as_it_is_damped():
    peaks = []
    for damping in (0.01, 0.15):
        made = HopperSimulation(
            CONFIGURATION,
            "2m",
            np.random.default_rng(4),
            IDEAL,
            foreign=ForeignScenario(wobble_deg=4.0, wobble_damping=damping),
        )
        swings = []
        for k in range(1, 17):
            made.advance(k * SECOND_NS // 2)
            swings.append(made.foreign.swings[:, 0])
        swing = np.abs(np.concatenate(swings))
        first = int(np.argmax(swing > 1e-9))
        peaks.append(swing[first + 133 : first + 266].max() / swing[first : first + 133].max())
    # A cycle of 133 ticks fades by exp(-2 pi d / sqrt(1 - d^2)).
    np.testing.assert_allclose(peaks, np.exp(-2.0 * np.pi * np.array([0.01, 0.15]) / np.sqrt(1 - 0.15**2)), rtol=0.06)


def test_the_leg_rings_after_liftoff_at_its_frequency_and_only_in_the_readings():
    alone = ForeignScenario(ringing_m_s2=8.0, ringing_damping=0.05)
    (made, found), (_, without) = run(alone, seconds=10.0), run(None, seconds=10.0)
    np.testing.assert_array_equal(found["ground_truth/body"], without["ground_truth/body"])
    trace = trace_of(made)
    start = int(np.flatnonzero(np.diff((trace[:, dynamics.T_PHASE] == REBOUND).astype(int)) == 1)[0])
    rung = (found["imu/low_g"] - without["imu/low_g"])[:, 5]
    at = round(start * dynamics.STEP_S * SCENARIO.imu_rate_hz * (1.0 - SCENARIO.lost_share))
    assert np.abs(rung[: at - 30]).max() < 1e-9, "silent before the first liftoff"
    window = rung[at : at + 250]
    spectrum = np.abs(np.fft.rfft(window, 4096))
    frequency_hz = np.fft.rfftfreq(4096, 1.0 / SCENARIO.imu_rate_hz)[np.argmax(spectrum)]
    assert 20.0 < frequency_hz < 60.0
    assert 1.0 < np.abs(window).max() < 20.0
    assert np.abs(rung[at + 200 : at + 250]).max() < 0.2 * np.abs(window).max(), "it fades"


def test_sensors_warm_up_and_shift_with_each_shock():
    _, found = run(ForeignScenario(low_warm_up_m_s2=0.5, high_warm_up_m_s2=5.0, warm_up_time_s=5.0))
    change = found["imu/high_g"][:, 5] - usual()[1]["imu/high_g"][:, 5]
    assert abs(change[:400].mean()) < 0.2 * abs(change[-400:].mean())
    shocked = ForeignScenario(shock_offset_m_s2=0.3)
    levels = np.round((run(shocked)[1]["imu/low_g"] - usual()[1]["imu/low_g"])[:, 5], 2)
    seen = np.unique(levels[np.abs(levels) < 1.0])
    assert abs(levels[: 5 * 840]).max() == 0.0, "nothing before the first landing"
    assert len(seen) > 3
