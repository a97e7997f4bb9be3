"""The simulated hopper: motion and controller against SciPy and the paper's table S1, sensors by stated magnitudes."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from scipy import signal
from scipy.integrate import solve_ivp

from hopper_estimation.model import dynamics
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP, STARTUP
from hopper_estimation.simulation import simulator
from hopper_estimation.simulation.foreign_effects import ForeignScenario, foreign_scenario
from hopper_estimation.simulation.scenario import hopper_scenario, ideal_scenario
from hopper_estimation.simulation.simulator import HopperSimulation
from onboard_estimation.base.series import Fault

CONFIGURATION = HopperConfiguration()
SCENARIO = hopper_scenario()
IDEAL = ideal_scenario()
SOON = {"rest_s": 0.5, "drop_s": 3.0}
"""A run that begins to hop soon."""
LENGTH_M = CONFIGURATION.robot.standing_height_m
GRAVITY = CONFIGURATION.robot.gravity_m_s2
STEP_S = dynamics.STEP_S
TICK_S = STEP_S * dynamics.TICK_STEPS
SECOND_NS = 1_000_000_000
SILENT = {"noise_m_s2": 0.0, "step_m_s2": 0.0}


def simulation(variant="1m", seed=1, scenario=IDEAL, uneven=False):
    rng = np.random.default_rng(seed)
    made = simulator.HopperSimulation(CONFIGURATION, variant, rng, scenario, uneven)
    made.trace = []
    return made


def advanced(made, stop_s, step_s=None):
    """Series by topic, of one or of several calls."""
    out = {}
    stops = [stop_s] if step_s is None else np.arange(step_s, stop_s + 1e-9, step_s)
    for stop in stops:
        recording = made.advance(round(stop * SECOND_NS))
        for one in (*recording.sensors, *recording.truth):
            out.setdefault(one.channel.topic, []).append((one.stamps_ns, one.values))
    return {topic: tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True)) for topic, pieces in out.items()}


def trace_of(made):
    return np.concatenate(made.trace)


def silent(scenario):
    return replace(
        scenario, low_g=replace(scenario.low_g, **SILENT), high_g=replace(scenario.high_g, **SILENT), jitter_s=0.0
    )


class Events:
    """True events of a trace: a row holds the state at the end of its step."""

    def __init__(self, trace):
        phase = trace[:, dynamics.T_PHASE]
        rows = np.flatnonzero(np.diff(phase)) + 1
        into = {one: rows[phase[rows] == one] for one in range(5)}
        first = into[STANCE_DOWN][0]
        times = {one: (at[at >= first] + 1) * STEP_S for one, at in into.items()}
        self.touchdown_s, self.squat_s, self.liftoff_s, self.apex_s = (
            times[one] for one in (STANCE_DOWN, STANCE_UP, REBOUND, DROP)
        )
        self.apex_rows = into[DROP][into[DROP] >= first]
        self.apex_m = trace[self.apex_rows, dynamics.T_HEIGHT]


# ------------------------------------------------------------------------------------------------ motion and controller


def delayed_thrust(plant, duty):
    """Thrust over time from duty cycles (K,), one a tick from time zero on: delay, then a first-order lag, exactly."""
    wanted = plant.full_thrust * np.concatenate([np.zeros(plant.thrust_delay_ticks), duty])[: len(duty)] ** 2
    keep = np.exp(-TICK_S / plant.thrust_lag)
    at_tick = [0.0]
    for one in wanted:
        at_tick.append(one + (at_tick[-1] - one) * keep)

    def thrust(time_s):
        k = min(int(time_s / TICK_S + 1e-9), len(wanted) - 1)
        return wanted[k] + (at_tick[k] - wanted[k]) * np.exp(-(time_s - k * TICK_S) / plant.thrust_lag)

    return thrust


def scipys_hop(plant, state, start_s, stop_s, thrust):
    """Times of touchdown, largest squat, liftoff and apex, and its height, of a hop from z, z', y, y' in the air.

    Written from the equations, not from the compiled motion: body at z, foot at y, compression s = L - (z - y),

        N = F_0 + k s + c_e max(s, 0) s' + [s < 0] (k_e s + c_e0 s'),   ground: max(k_g p - c_g y', 0) at a depth p > 0
        m_b z'' = N + T - D - m_b g,     m_l y'' = -N + F_g - m_l g.
    """

    def rate(t, y):
        squeezed, speed = plant.length - (y[0] - y[2]), y[3] - y[1]
        force = plant.preload + plant.stiffness * squeezed + plant.loss * max(squeezed, 0.0) * speed
        if squeezed < 0.0:
            force += plant.stop_stiffness * squeezed + plant.stop_damping * speed
        push = max(-plant.ground_stiffness * y[2] - plant.ground_damping * y[3], 0.0) if y[2] < 0.0 else 0.0
        lift = thrust(t) - plant.drag * y[1] * abs(y[1])
        body, foot = (force + lift) / plant.body_mass, (push - force) / plant.leg_mass
        return [y[1], body - plant.gravity, y[3], foot - plant.gravity]

    def turns(t, y):
        return y[1]

    def touches(t, y):
        return y[2]

    def leaves(t, y):
        return min(y[2], y[0] - y[2] - plant.length)

    touches.direction, leaves.direction = -1, 1
    solved = solve_ivp(
        rate, (start_s, stop_s), state, events=(touches, turns, leaves), rtol=1e-8, atol=1e-10, max_step=TICK_S
    )
    touchdown_s = solved.t_events[0][0]
    squat_s, apex_s = (one for one in solved.t_events[1] if one > touchdown_s)
    liftoff_s = next(one for one in solved.t_events[2] if one > squat_s)
    return touchdown_s, squat_s, liftoff_s, apex_s, solved.y_events[1][-1][0]


@pytest.mark.parametrize("variant", ["1m", "4m"])
def test_hops_under_thrust_are_those_of_scipy(variant):
    """Duty cycles as recorded, delayed and lagging; SciPy begins anew at each apex, as errors of timing would grow."""
    made = simulation(variant)
    duty = advanced(made, 12.0)["motors/command"][1][:, 0]
    trace = trace_of(made)
    found, thrust = Events(trace), delayed_thrust(made.plant, duty)
    starts = [round(SCENARIO.drop_s / STEP_S) - 1, *found.apex_rows][: 3 if variant == "1m" else 2]
    for hop, row in enumerate(starts):
        z, v, compression = trace[row, [dynamics.T_HEIGHT, dynamics.T_VELOCITY, dynamics.T_COMPRESSION]]
        state, start_s = np.array([z, v, z - LENGTH_M + compression, v]), (row + 1) * STEP_S
        touchdown_s, squat_s, liftoff_s, apex_s, apex_m = scipys_hop(
            made.plant, state, start_s, found.apex_s[hop] + 0.02, thrust
        )
        assert found.apex_m[hop] - LENGTH_M == pytest.approx(apex_m - LENGTH_M, rel=0.005)
        assert found.touchdown_s[hop] == pytest.approx(touchdown_s, abs=0.0002)
        assert found.squat_s[hop] == pytest.approx(squat_s, abs=0.0005)
        assert found.liftoff_s[hop] - found.touchdown_s[hop] == pytest.approx(liftoff_s - touchdown_s, abs=0.0005)
        assert found.apex_s[hop] == pytest.approx(apex_s, abs=0.004)


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
        assert height == pytest.approx(goal_m, rel=0.06)
        assert stance == pytest.approx(stance_s, rel=0.06)
        assert rebound == pytest.approx(upper_s - stance_s, rel=0.2)
        assert drop == pytest.approx(cycle_s - upper_s, rel=0.2)


@cache
def controlled():
    made = simulation("2m", 5)
    stamps, duty = advanced(made, 11.0)["motors/command"]
    return stamps, duty, trace_of(made)


def test_thrust_follows_the_locomotion_energy():
    """Section II: proportional within 0.33 m, at most 0.837 of the weight, never below 5 %; none in stance."""
    stamps, duty, trace = controlled()
    assert (duty == duty[:, :1]).all()
    np.testing.assert_array_equal(stamps, np.arange(len(stamps)) * round(TICK_S * SECOND_NS))
    duty = duty[:, 0]
    rest, drop = (round(one / TICK_S) for one in (SCENARIO.rest_s, SCENARIO.drop_s))
    assert (duty[:rest] == 0.0).all()
    assert duty[rest:].min() == 0.05
    at_tick = trace[dynamics.TICK_STEPS - 1 :: dynamics.TICK_STEPS][drop - 1 : -1]
    phase, z, v = (at_tick[:, column] for column in (dynamics.T_PHASE, dynamics.T_HEIGHT, dynamics.T_VELOCITY))
    short_m = 2.0 - (z - LENGTH_M + v**2 / (2.0 * GRAVITY))
    ratio, dropping = 2.0 * duty[drop:] ** 2, (phase == DROP) | (phase == STARTUP)
    sign = np.select([phase == REBOUND, dropping], [1.0, -1.0], 0.0)
    wanted = np.maximum(0.837 * np.clip(sign * short_m / 0.33, 0.0, 1.0), 2.0 * 0.05**2)
    np.testing.assert_allclose(ratio, wanted, rtol=1e-9)
    assert (sign == 0.0).any(), "a stance is in it"
    assert ratio.max() == pytest.approx(0.837)
    assert ((ratio > 0.1) & (ratio < 0.7)).any(), "proportional"


def test_the_exact_estimate_controls_like_the_truth():
    made = simulation("2m", 5)
    made.advance(6 * SECOND_NS)
    for tick in range(round(6.0 / TICK_S), round(7.2 / TICK_S)):
        z, v, phase = made.trace[-1][-1, [dynamics.T_HEIGHT, dynamics.T_VELOCITY, dynamics.T_PHASE]]
        made.take_estimate(z, v, DROP if phase == STARTUP else int(phase))
        made.advance(round((tick + 1) * TICK_S * SECOND_NS))
    np.testing.assert_array_equal(trace_of(made), controlled()[2][: round(7.2 / STEP_S)])


def test_hops_on_uneven_ground_keep_the_energy_relation():
    """Without thrust and drag, the body meets each ground at the speed that the fall to it gives."""
    scenario = replace(IDEAL, rotors=replace(IDEAL.rotors, drag_n_s2_m2=0.0), leg=replace(IDEAL.leg, loss_n_s_m2=10.0))
    made = simulation("4m", 14, scenario, uneven=True)
    made.advance(6 * SECOND_NS)
    made.take_estimate(100.0, 0.0, REBOUND)
    made.plant = made.plant._replace(full_thrust=1e-9)
    made.advance(16 * SECOND_NS)
    trace = trace_of(made)
    found, ground = Events(trace), trace[:, dynamics.T_GROUND]
    changes = np.flatnonzero(np.diff(ground)) + 1
    np.testing.assert_array_equal(changes, found.apex_rows)
    np.testing.assert_array_equal(ground[found.apex_rows], made._grounds[1 : len(found.apex_rows) + 1])
    touched = np.round(found.touchdown_s / STEP_S).astype(int) - 1
    fell = list(zip(found.apex_m, touched[1:], strict=False))
    falls = [(apex_m, row) for apex_m, row in fell if apex_m - LENGTH_M - ground[row] > 0.2]
    assert len(falls) >= 4
    for apex_m, row in falls:
        z, v, compression = trace[row, [dynamics.T_HEIGHT, dynamics.T_VELOCITY, dynamics.T_COMPRESSION]]
        assert z - LENGTH_M + compression == pytest.approx(ground[row], abs=2.0 * abs(v) * STEP_S)
        assert v**2 == pytest.approx(2.0 * GRAVITY * (apex_m - z), rel=0.005)


# -------------------------------------------------------------------------------------------------------------- sensors


def test_readings_at_rest_are_gravity_offset_and_noise():
    made = simulation(seed=3, scenario=replace(SCENARIO, rest_s=12.0, drop_s=16.0))
    series = advanced(made, 12.0)
    for topic, sensor in (("imu/low_g/data_raw", made._low), ("imu/high_g/data_raw", made._high)):
        reading, magnitudes = series[topic][1][:, 3:], sensor.scenario
        expected = sensor.scale * GRAVITY * sensor.tilt[:, 2] + sensor.offset
        # The drift has the stated deviation over a day: over ten seconds it is a part of an offset.
        spare = 4.0 * magnitudes.noise_m_s2 / np.sqrt(len(reading))
        np.testing.assert_allclose(reading.mean(axis=0)[:2], expected[:2], atol=spare)
        assert reading[:, 2].mean() == pytest.approx(expected[2], abs=spare + 3.0 * magnitudes.drift_m_s2)
        digits = reading / magnitudes.step_m_s2
        np.testing.assert_allclose(digits, np.round(digits), atol=1e-6)
        noise = np.diff(reading, axis=0).std(axis=0) / np.sqrt(2.0)  # differences do not see the drift
        wanted = np.hypot(magnitudes.noise_m_s2, magnitudes.step_m_s2 / np.sqrt(12.0))
        np.testing.assert_allclose(noise, wanted, rtol=0.05)
        lying = pytest.approx(reading[:, 2].mean(), abs=6 * magnitudes.noise_m_s2 / np.sqrt(10))
        assert reading[:10, 2].mean() == lying, "it lies still"
    gyro = series["imu/low_g/data_raw"][1][:, :3]
    np.testing.assert_allclose(gyro.mean(axis=0), made._gyro_bias, atol=4 * SCENARIO.gyro_noise_rad_s / 100)
    np.testing.assert_allclose(gyro.std(axis=0), SCENARIO.gyro_noise_rad_s, rtol=0.05)
    leg = series["leg/state"][1][:, 0]
    np.testing.assert_allclose(leg / SCENARIO.encoder.step_m, np.round(leg / SCENARIO.encoder.step_m), atol=1e-6)
    assert leg.std() == pytest.approx(SCENARIO.encoder.noise_m, rel=0.06)


def test_readings_saturate_at_their_range():
    made = simulation("4m", 2, SCENARIO)
    series = advanced(made, 9.0)
    low, high = (series[f"imu/{name}_g/data_raw"][1][:, 5] for name in ("low", "high"))
    assert low.max() == SCENARIO.low_g.range_m_s2
    assert np.sum(low == low.max()) > 20
    assert SCENARIO.low_g.range_m_s2 < 1.3 * SCENARIO.low_g.range_m_s2 < high.max() < SCENARIO.high_g.range_m_s2


def test_filters_and_clocks_of_the_accelerometers_are_scipy_s():
    """From the exact acceleration: one pole, held at 1 kHz, read at 840 Hz; in uneven pieces too."""
    made = simulation("2m", 4, replace(silent(IDEAL), **SOON))
    series = advanced(made, 4.9, step_s=0.0175)
    trace = trace_of(made)
    felt = trace[:, dynamics.T_ACCELERATION] + GRAVITY
    for name, sensor in (("low", made._low), ("high", made._high)):
        magnitudes = sensor.scenario
        one_pole = ([1.0], [1.0 / (2.0 * np.pi * magnitudes.bandwidth_hz), 1.0])
        numerator, denominator, _ = signal.cont2discrete(one_pole, STEP_S, "zoh")
        # A force is held over the step at whose end the trace has the output: the delay of one step falls out.
        filtered = GRAVITY + signal.lfilter(numerator[0, 1:], denominator, felt - GRAVITY)
        chip = filtered[:: dynamics.CHIP_STEPS]
        stamps, values = series[f"imu/{name}_g/data_raw"]
        expected = sensor.scale * chip[stamps // 1_000_000] + sensor.offset[2]
        expected = expected.clip(-magnitudes.range_m_s2, magnitudes.range_m_s2)
        np.testing.assert_allclose(values[:, 5], expected, atol=1e-6)
        assert expected.max() > 150.0, "a stance is in it"


def test_mount_rings_as_a_second_order_system():
    mount, high_g = replace(IDEAL.mount, share=1.0), replace(SCENARIO.high_g, bandwidth_hz=1e5)
    scenario = replace(silent(IDEAL), mount=mount, high_g=high_g, **SOON)
    made = simulation("1m", 4, scenario)
    made.advance(4 * SECOND_NS)
    trace = trace_of(made)
    omega, damping = 2.0 * np.pi * made.plant.ring_frequency, made.plant.ring_damping
    assert made.plant.ring_frequency == SCENARIO.mount.frequency_hz
    time_s = np.arange(len(trace)) * STEP_S
    system = ([2.0 * damping * omega, omega**2], [1.0, 2.0 * damping * omega, omega**2])
    mount = GRAVITY + signal.lsim(system, trace[:, dynamics.T_ACCELERATION], time_s, interp=False)[1][1:]
    rows = slice(round(3.0 / STEP_S), None, dynamics.CHIP_STEPS)
    shown, expected = trace[:-1][rows, dynamics.T_HIGH], mount[rows]
    assert expected.std() > 50.0
    assert np.std(shown - expected) < 0.05 * expected.std()


def test_pieces_join_without_gaps_and_repeats():
    """Bounds that are no multiple of anything; a robot without noise of its motion moves the same."""
    scenario = replace(silent(IDEAL), lost_share=0.0, **SOON)
    whole, parts = simulation("mixed", 8, scenario), simulation("mixed", 8, scenario)
    expected = advanced(whole, 4.5)
    found, before = {}, 0
    for stop in [1, 2_499_999, 2_500_000, 2_500_001, *range(3_333_333, 4_500_000_000, 37_037_037), 4_500_000_000]:
        recording = parts.advance(stop)
        for one in (*recording.sensors, *recording.truth):
            if len(one.stamps_ns):
                assert before <= one.stamps_ns[0], one.channel.topic
                assert one.stamps_ns[-1] < stop, one.channel.topic
            assert one.values.shape == (len(one.stamps_ns), expected[one.channel.topic][1].shape[1])
            found.setdefault(one.channel.topic, []).append(one.stamps_ns)
        before = stop
    assert set(found) == set(expected)
    for topic, pieces in found.items():
        np.testing.assert_array_equal(np.concatenate(pieces), expected[topic][0], err_msg=topic)
    np.testing.assert_array_equal(trace_of(parts)[: len(trace_of(whole))], trace_of(whole))
    assert all(not len(one.stamps_ns) for one in parts.advance(4_500_000_000).sensors), "nothing twice"


def test_a_change_amid_a_run_acts_from_its_instant_on_and_nothing_else_is_drawn_for_it():
    plain, pulled = simulation(), simulation()
    pulled.changes = (Fault("body.force", "offset", -3.0, 7.0, 7.2),)
    for made in (plain, pulled):
        advanced(made, 8.0)
    before, felt = round(7.0 / STEP_S), trace_of(pulled)[:, dynamics.T_ACCELERATION]
    np.testing.assert_array_equal(trace_of(pulled)[:before], trace_of(plain)[:before])
    there = felt[before] - trace_of(plain)[before, dynamics.T_ACCELERATION]
    assert there == pytest.approx(-3.0 / pulled.plant.body_mass)
    assert pulled.plant == plain.plant


def test_truth_is_late_and_noisy_as_stated_and_the_starting_height_is_given_once():
    made = simulation("2m", 13, replace(SCENARIO, **SOON))
    series = advanced(made, 15.0)
    given, values = series["set_pose"]
    assert given.tolist() == [3_000_000_000]
    covariance = values[0, 7:].reshape(6, 6)
    assert covariance[2, 2] == pytest.approx(SCENARIO.capture.start_stddev_m**2)
    assert np.delete(np.diag(covariance), 2).min() >= 1e6
    off_m = values[0, 2] - trace_of(made)[round(3.0 / STEP_S) - 1, dynamics.T_HEIGHT]
    assert 0.0 < abs(off_m) < 2.5 * SCENARIO.capture.start_stddev_m + 0.001
    stamps, poses = series["ground_truth/body/pose"]
    np.testing.assert_array_equal(stamps, np.round(np.arange(9_000) * SECOND_NS / 600.0).astype(np.int64))
    trace = trace_of(made)
    moving = stamps > 4 * SECOND_NS
    at = np.arange(1, len(trace) + 1) * STEP_S

    def exact(late_s, column=dynamics.T_HEIGHT):
        return np.interp(1e-9 * stamps[moving] - late_s, at, trace[:, column])

    late_s = np.arange(0.0, 0.006, 0.0001)
    misfit = [np.std(poses[moving, 2] - exact(one)) for one in late_s]
    guess_s = late_s[np.argmin(misfit)]
    rest, speed = poses[moving, 2] - exact(guess_s), exact(guess_s, dynamics.T_VELOCITY)
    found_s = guess_s - (rest @ speed) / (speed @ speed)
    assert made._latency_s > 0.0005
    assert found_s == pytest.approx(made._latency_s, abs=5e-6)
    noise = np.column_stack([poses[moving, :2], poses[moving, 2] - exact(made._latency_s)])
    np.testing.assert_allclose(noise.std(axis=0), SCENARIO.capture.position_stddev_m, rtol=0.04)
    np.testing.assert_allclose(np.linalg.norm(poses[:, 3:], axis=1), 1.0, atol=1e-12)


def test_commanded_heights():
    stamps, values = advanced(simulation("0.3m"), 3.0)["commanded_height"]
    assert set(values[:, 2]) == {0.3}
    np.testing.assert_array_equal(stamps, np.arange(6) * SECOND_NS // 2)
    soon = replace(IDEAL, **SOON)
    stamps, values = advanced(simulation("mixed", 3, soon), 3.0 + 24.0)["commanded_height"]
    blocks = ((stamps - 3 * SECOND_NS) // (12 * SECOND_NS)).clip(0)
    first, second = (set(values[blocks == k, 2]) for k in range(2))
    assert len(first) == len(second) == 1, "one height for 12 s"
    assert first != second
    assert first | second <= {1.0, 2.0, 3.0, 4.0}
    stamps, values = advanced(simulation("varied", 3, soon), 3.0 + 40.0)["commanded_height"]
    heights, first = np.unique(values[:, 2], return_index=True)
    lasting_s = np.diff(np.sort(stamps[first])) / SECOND_NS
    assert len(heights) >= 5
    assert 0.3 <= heights.min() < 1.0 < 2.0 < heights.max() <= 5.0
    assert 2.0 <= lasting_s[1:].min() <= lasting_s[1:].max() <= 8.01


# --------------------------------------------------------------------------------------------------- scenario `foreign`

EFFECTS = [one.name for one in fields(ForeignScenario) if one.default == 0.0]


def run(foreign, seconds=6.0, scenario=SCENARIO, variant="2m"):
    scenario = replace(scenario, **SOON)
    made = HopperSimulation(CONFIGURATION, variant, np.random.default_rng(4), scenario, foreign=foreign)
    made.trace = []
    recording = made.advance(round(seconds * SECOND_NS))
    return made, {one.channel.sensor: one.values for one in (*recording.sensors, *recording.truth)}


@cache
def usual(variant="2m"):
    return run(None, variant=variant)[1]


def test_with_all_magnitudes_zero_it_is_hardware():
    _, found = run(ForeignScenario())
    for name, values in usual().items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, atol=1e-9, err_msg=name)  # rotor's angle: rounding


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_effect_alone_changes_what_it_acts_on(effect):
    alone = replace(ForeignScenario(), **{effect: getattr(foreign_scenario(), effect)})
    if effect == "edge_share":
        alone = replace(alone, edge_share=1.0)
    variant = "1m" if effect == "push_per_m" else "2m"  # at 2 m there is none
    without, with_it = usual(variant), run(alone, variant=variant)[1]
    touched = {name for name in without if not np.allclose(without[name], with_it[name], rtol=1e-9, atol=1e-6)}
    both = {"imu/low_g", "imu/high_g"}
    sensors_only = {"lever_m": both, "ringing_m_s2": both, "high_warm_up_m_s2": {"imu/high_g"}}
    sensors_only |= {"low_warm_up_m_s2": {"imu/low_g"}, "shock_offset_m_s2": {"imu/low_g"}}
    expected = sensors_only.get(effect)
    assert touched == expected if expected else {"imu/low_g", "imu/high_g", "ground_truth/body"} <= touched


@cache
def swings_of(damping):
    """(K, 4) angles and rates of a swing from the first landing on, at the ticks; the sample of that landing."""
    foreign, scenario = ForeignScenario(wobble_deg=4.0, wobble_damping=damping), replace(IDEAL, **SOON)
    made = HopperSimulation(CONFIGURATION, "2m", np.random.default_rng(4), scenario, foreign=foreign)
    swings = []
    for k in range(1, 11):
        made.advance(k * SECOND_NS // 2)
        swings.append(made.foreign.swings)
    swings = np.concatenate(swings)
    first = int(np.argmax(np.abs(swings[:, 0]) > 1e-9))
    return swings[first:], first


def test_a_landing_sets_off_a_swing_of_its_frequency_that_fades_as_it_is_damped():
    swings, first = swings_of(0.01)
    assert first * dynamics.TICK_STEPS * dynamics.STEP_S > 3.0, "only once it has landed"
    crossings = np.flatnonzero(np.diff(np.sign(swings[:300, 0])))
    assert np.diff(crossings).mean() * 0.0025 == pytest.approx(0.5 / 3.0, rel=0.03)
    np.testing.assert_allclose(np.diff(swings[:300, :2], axis=0) / 0.0025, swings[1:300, 2:], atol=1e-9)
    # A cycle of 133 ticks fades by exp(-2 pi d / sqrt(1 - d^2)).
    swung = (np.abs(swings_of(damping)[0][:266, 0]).reshape(2, 133).max(axis=1) for damping in (0.01, 0.15))
    peaks = [later / sooner for sooner, later in swung]
    np.testing.assert_allclose(peaks, np.exp(-2.0 * np.pi * np.array([0.01, 0.15]) / np.sqrt(1 - 0.15**2)), rtol=0.06)
