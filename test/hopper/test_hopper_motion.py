"""The hopper's motion and controller against SciPy with exact events, MuJoCo and the paper's table S1."""

from __future__ import annotations

from dataclasses import replace

import hopper_oracle as oracle
import numpy as np
import pytest
from hopper_samples import (
    GRAVITY,
    IDEAL,
    LENGTH_M,
    NOMINAL,
    SCENARIO,
    SECOND_NS,
    STEP_S,
    TICK_S,
    Events,
    advanced,
    simulation,
    trace_of,
)

from hopper_estimation.model import dynamics
from hopper_estimation.model.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP, STARTUP
from hopper_estimation.simulation import simulator

MOTION = [dynamics.HEIGHT, dynamics.VELOCITY, dynamics.FOOT, dynamics.FOOT_VELOCITY]
NO_THRUST = dynamics.Law(0.0, 0.0, 0.33, 2.0, 0.0, 0.0, 0.0)


@pytest.fixture
def plant():
    return NOMINAL


def dropped(plant, start, stop_s):
    """Trace and states at the ticks (K, 4) z, z', y, y' of a fall from a state (4,), without wind and thrust."""
    state = np.zeros(dynamics.STATE_SIZE)
    state[MOTION] = start
    state[dynamics.PHASE] = DROP
    traces, states, delayed, none = [], [], np.zeros(64), np.zeros(1)
    for tick in range(round(stop_s / TICK_S)):
        trace = np.empty((dynamics.TICK_STEPS, dynamics.TRACE_SIZE))
        truth = np.full(3, np.nan)
        motion = dynamics.Motion(NO_THRUST, tick, none, none, np.ones(1), np.zeros(9), truth, trace, np.empty(1))
        dynamics.advance(state, delayed, plant, motion)
        traces.append(trace)
        states.append(state[MOTION])
    return np.concatenate(traces), np.array(states)


def energy(plant, states):
    """(K,) J of states (K, 4)."""
    z, v, y, u = states.T
    s = plant.length - (z - y)
    stored = plant.preload * s + 0.5 * plant.stiffness * s**2
    stored += (
        0.5 * plant.stop_stiffness * np.minimum(s, 0.0) ** 2 + 0.5 * plant.ground_stiffness * np.maximum(-y, 0) ** 2
    )
    moving = 0.5 * (plant.body_mass * v**2 + plant.leg_mass * u**2)
    return stored + moving + plant.gravity * (plant.body_mass * z + plant.leg_mass * y)


@pytest.mark.parametrize("height_m", [1.0, 4.0])
def test_hops_without_thrust_are_those_of_scipy(plant, height_m):
    """The first bounce within 0.5 % of its height; each stance within 0.5 ms, though starts differ a little by then."""
    found = Events(dropped(plant, oracle.hanging(plant, LENGTH_M + height_m), 3.3)[0])
    exact = oracle.hop(plant, oracle.hanging(plant, LENGTH_M + height_m), 0.0, 3.3)
    assert len(exact.apex_m) >= 2
    np.testing.assert_allclose(found.apex_m[0] - LENGTH_M, exact.apex_m[0] - LENGTH_M, rtol=0.005)
    np.testing.assert_allclose(found.apex_m[1] - LENGTH_M, exact.apex_m[1] - LENGTH_M, rtol=0.01)
    for name in ("touchdown_s", "squat_s", "liftoff_s"):
        np.testing.assert_allclose(getattr(found, name)[0], getattr(exact, name)[0], atol=2.0 * STEP_S)
    stance_s = np.array(exact.liftoff_s[:3]) - exact.touchdown_s[:3]
    np.testing.assert_allclose(found.liftoff_s[:3] - found.touchdown_s[:3], stance_s, atol=0.0005)


@pytest.mark.parametrize("variant", ["1m", "4m"])
def test_hops_under_thrust_are_those_of_scipy(variant):
    """Duty cycles as recorded, delayed and lagging; SciPy begins anew at each apex, as errors of timing would grow."""
    made = simulation(variant)
    duty = advanced(made, 12.0)["motors/command"][1][:, 0]
    trace = trace_of(made)
    found = Events(trace)
    thrust = oracle.delayed_thrust(made.plant, duty, TICK_S)
    starts = [round(SCENARIO.drop_s / STEP_S) - 1, *found.apex_rows][: 3 if variant == "1m" else 2]
    for hop, row in enumerate(starts):
        z, v, compression = trace[row, [dynamics.T_HEIGHT, dynamics.T_VELOCITY, dynamics.T_COMPRESSION]]
        state = np.array([z, v, z - LENGTH_M + compression, v])
        start_s = (row + 1) * STEP_S
        exact = oracle.hop(made.plant, state, start_s, found.apex_s[hop] + 0.02, thrust)
        assert found.apex_m[hop] - LENGTH_M == pytest.approx(exact.apex_m[0] - LENGTH_M, rel=0.005)
        assert found.touchdown_s[hop] == pytest.approx(exact.touchdown_s[0], abs=0.0002)
        stance_s = exact.liftoff_s[0] - exact.touchdown_s[0]
        assert found.liftoff_s[hop] - found.touchdown_s[hop] == pytest.approx(stance_s, abs=0.0005)
        assert found.apex_s[hop] == pytest.approx(exact.apex_s[0], abs=0.004)


@pytest.mark.parametrize("height_m", [1.0, 4.0])
def test_energy_is_kept_without_losses(plant, height_m):
    """On the mean over the rebound; within a ring of the leg on its stop, the fixed step lets it swing by 0.4 %."""
    free = plant._replace(loss=0.0, stop_damping=0.0, ground_damping=0.0, drag=0.0)
    trace, states = dropped(free, oracle.hanging(free, LENGTH_M + height_m), 2.5)
    phase = trace[dynamics.TICK_STEPS - 1 :: dynamics.TICK_STEPS, dynamics.T_PHASE]
    at_start = energy(free, oracle.hanging(free, LENGTH_M + height_m)[None])[0]
    kept = energy(free, states) / at_start
    stance_over = np.flatnonzero(phase == REBOUND)[0]
    first_rebound = slice(stance_over, stance_over + np.argmax(phase[stance_over:] != REBOUND))
    assert np.mean(kept[first_rebound]) == pytest.approx(1.0, abs=0.001)
    assert np.all(np.abs(kept - 1.0) < 0.005)
    # And losses lose it: with the leg's own the rebound is far lower.
    assert (
        np.mean(energy(plant, dropped(plant, oracle.hanging(plant, LENGTH_M + height_m), 1.2)[1])[-4:])
        < 0.75 * at_start
    )


@pytest.mark.parametrize("height_m", [1.0, 4.0])
def test_stance_without_losses_is_mujoco_s(plant, height_m):
    """Down to the largest squat; later, foot and stop rattle without damping, and small differences grow."""
    pytest.importorskip("mujoco")
    free = plant._replace(loss=0.0, stop_damping=0.0, ground_damping=0.0, drag=0.0)
    start = oracle.hanging(free, LENGTH_M + 0.05)
    start[[1, 3]] = -np.sqrt(2.0 * GRAVITY * (height_m - 0.05))
    time_s, other = oracle.mujoco_stance(free, start, 0.06)
    trace, _ = dropped(free, start, 0.06)
    found = Events(trace)
    squat = np.flatnonzero((other[:-1, 1] < 0.0) & (other[1:, 1] >= 0.0))[0]
    squat_s = np.interp(0.0, other[squat : squat + 2, 1], time_s[squat : squat + 2])
    assert found.squat_s[0] == pytest.approx(squat_s, abs=2.0 * STEP_S)
    squeezed_m = LENGTH_M - other[squat, 0] + other[squat, 2]
    row = round(squat_s / STEP_S)
    assert trace[row, dynamics.T_COMPRESSION] == pytest.approx(squeezed_m, rel=0.005)
    np.testing.assert_allclose(
        np.interp(time_s[:squat], np.arange(1, len(trace) + 1) * STEP_S, trace[:, dynamics.T_HEIGHT]),
        other[:squat, 0],
        atol=0.0005,
    )
    # The two oracles agree far better with each other than the simulator's step allows.
    exact = oracle.hop(free, start, 0.0, 0.06)
    assert exact.squat_s[0] == pytest.approx(squat_s, abs=2e-6)


def test_times_of_hops_are_the_paper_s(monkeypatch):
    """Table S1, ground truth rows: stance, stance and rebound, whole cycle; the robot without spreads."""
    table = {1.03: (0.059, 0.68, 1.18), 2.02: (0.067, 0.98, 1.68), 3.03: (0.069, 1.26, 2.14), 3.78: (0.071, 1.71, 2.72)}
    for goal_m, (stance_s, upper_s, cycle_s) in table.items():
        monkeypatch.setitem(simulator.HEIGHTS_M, "paper", goal_m)
        made = simulation("paper")
        made.advance(20 * SECOND_NS)
        found = Events(trace_of(made))
        count = min(len(found.apex_s), len(found.touchdown_s) - 1)
        down, up, top = found.touchdown_s[: count + 1], found.liftoff_s[:count], found.apex_s[:count]
        stance, rebound, drop = np.mean(up - down[:-1]), np.mean(top - up), np.mean(down[1:] - top)
        height = np.mean(found.apex_m[:count]) - LENGTH_M
        print(f"{goal_m} m: stance {stance:.4f} s, rebound {rebound:.3f} s, drop {drop:.3f} s, hop {height:.2f} m")
        assert height == pytest.approx(goal_m, rel=0.06)
        assert stance == pytest.approx(stance_s, rel=0.06)
        assert rebound == pytest.approx(upper_s - stance_s, rel=0.2)
        assert drop == pytest.approx(cycle_s - upper_s, rel=0.2)


@pytest.fixture(scope="module")
def controlled():
    made = simulation("2m", 5)
    stamps, duty = advanced(made, 14.0)["motors/command"]
    return made, stamps, duty, trace_of(made)


def test_thrust_follows_the_locomotion_energy(controlled):
    """Section II: proportional within 0.33 m, at most 0.837 of the weight, never below 5 %; none in stance."""
    _, stamps, duty, trace = controlled
    assert (duty == duty[:, :1]).all()
    np.testing.assert_array_equal(stamps, np.arange(len(stamps)) * round(TICK_S * SECOND_NS))
    duty = duty[:, 0]
    rest, drop = (round(one / TICK_S) for one in (SCENARIO.rest_s, SCENARIO.drop_s))
    assert (duty[:rest] == 0.0).all()
    assert duty[rest:].min() == 0.05
    assert duty[rest:].max() <= 1.0
    at_tick = trace[dynamics.TICK_STEPS - 1 :: dynamics.TICK_STEPS][drop - 1 : -1]
    phase = np.where(at_tick[:, dynamics.T_PHASE] == STARTUP, DROP, at_tick[:, dynamics.T_PHASE])
    z, v = at_tick[:, dynamics.T_HEIGHT], at_tick[:, dynamics.T_VELOCITY]
    short_m = 2.0 - (z - LENGTH_M + v**2 / (2.0 * GRAVITY))
    share = np.clip(np.select([phase == REBOUND, phase == DROP], [short_m, -short_m], 0.0) / 0.33, 0.0, 1.0)
    ratio = 2.0 * duty[drop:] ** 2
    np.testing.assert_allclose(ratio, np.maximum(0.837 * share, 2.0 * 0.05**2), rtol=1e-9)
    stance = (phase == STANCE_DOWN) | (phase == STANCE_UP)
    assert stance.any()
    assert (duty[drop:][stance] == 0.05).all()
    assert (share == 1.0).any(), "sliding"
    assert ((share > 0.1) & (share < 0.9)).any(), "proportional"
    assert ratio.max() == pytest.approx(0.837)


def test_hops_reach_the_commanded_height():
    for variant in ("1m", "2m", "3m", "4m", "5m"):  # 0.3 m is lower than its rotors can hold
        goal_m = simulator.HEIGHTS_M[variant]
        made = simulation(variant)
        made.advance(16 * SECOND_NS)
        np.testing.assert_allclose(Events(trace_of(made)).apex_m - LENGTH_M, goal_m, rtol=0.07)


def test_the_exact_estimate_controls_like_the_truth(controlled):
    truth = controlled[3]
    made = simulation("2m", 5)
    made.advance(6 * SECOND_NS)
    for tick in range(round(6.0 / TICK_S), round(10.0 / TICK_S)):
        z, v, phase = made.trace[-1][-1, [dynamics.T_HEIGHT, dynamics.T_VELOCITY, dynamics.T_PHASE]]
        give_estimate(made, z, v, DROP if phase == STARTUP else int(phase))
        made.advance(round((tick + 1) * TICK_S * SECOND_NS))
    np.testing.assert_array_equal(trace_of(made), truth[: round(10.0 / STEP_S)])


def test_a_wrong_estimate_changes_the_hops():
    made = simulation("2m", 5)
    made.advance(6 * SECOND_NS)
    give_estimate(made, LENGTH_M + 3.0, 0.0, REBOUND)  # above the goal for ever: no thrust
    made.advance(9 * SECOND_NS)
    assert Events(trace_of(made)).apex_m[0] - LENGTH_M < 1.2


def give_estimate(made, height_m, velocity_m_s, phase):
    made.take_estimate(height_m, velocity_m_s, phase)


def test_uneven_ground_steps_as_stated():
    flat, uneven = (simulation(seed=13, scenario=SCENARIO, uneven=one)._grounds for one in (False, True))
    assert flat[0] == uneven[0] == 0.0
    assert flat.std() == pytest.approx(SCENARIO.leg.foot_unevenness_m, rel=0.05)
    assert np.abs(flat).max() <= 3.0 * SCENARIO.leg.foot_unevenness_m
    steps = np.diff(uneven)
    # Cut at two deviations (0.96 of the stated one is left), the foot's own unevenness on top.
    expected = np.hypot(0.96 * SCENARIO.leg.step_m, np.sqrt(2.0) * SCENARIO.leg.foot_unevenness_m)
    assert steps.std() == pytest.approx(expected, rel=0.03)


def test_hops_on_uneven_ground_keep_the_energy_relation():
    """Without thrust and drag, the body meets each ground at the speed that the fall to it gives."""
    scenario = replace(IDEAL, rotors=replace(IDEAL.rotors, drag_n_s2_m2=0.0), leg=replace(IDEAL.leg, loss_n_s_m2=10.0))
    made = simulation("4m", 14, scenario, uneven=True)
    made.advance(6 * SECOND_NS)
    give_estimate(made, 100.0, 0.0, REBOUND)
    made.plant = made.plant._replace(full_thrust=1e-9)
    made.advance(16 * SECOND_NS)
    trace = trace_of(made)
    found, ground = Events(trace), trace[:, dynamics.T_GROUND]
    changes = np.flatnonzero(np.diff(ground)) + 1
    np.testing.assert_array_equal(changes, found.apex_rows)
    np.testing.assert_array_equal(ground[found.apex_rows], made._grounds[1 : len(found.apex_rows) + 1])
    touched = np.round(found.touchdown_s / STEP_S).astype(int) - 1
    falls = [
        (apex_m, row)
        for apex_m, row in zip(found.apex_m, touched[1:], strict=False)
        if apex_m - LENGTH_M - ground[row] > 0.2
    ]
    assert len(falls) >= 4
    for apex_m, row in falls:
        z, v, compression = trace[row, [dynamics.T_HEIGHT, dynamics.T_VELOCITY, dynamics.T_COMPRESSION]]
        assert z - LENGTH_M + compression == pytest.approx(ground[row], abs=2.0 * abs(v) * STEP_S)
        assert v**2 == pytest.approx(2.0 * GRAVITY * (apex_m - z), rel=0.005)
