"""The hopper's sensors, truth and commands against SciPy and their stated magnitudes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hopper_samples import (
    GRAVITY,
    IDEAL,
    NOMINAL,
    SCENARIO,
    SECOND_NS,
    STEP_S,
    TICK_S,
    advanced,
    quiet_mount,
    silent,
    simulation,
    trace_of,
)
from scipy import signal

from hopper_estimation.model import dynamics
from hopper_estimation.simulation import simulator
from hopper_estimation.simulation.scenario import HopperScenario


@pytest.fixture(scope="module")
def resting():
    """Ten seconds on the ground: robot and readings."""
    made = simulation(seed=3, scenario=replace(SCENARIO, rest_s=12.0, drop_s=16.0))
    return made, advanced(made, 12.0)


def test_readings_at_rest_are_gravity_offset_and_noise(resting):
    made, series = resting
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
        np.testing.assert_allclose(
            noise, np.hypot(magnitudes.noise_m_s2, magnitudes.step_m_s2 / np.sqrt(12.0)), rtol=0.05
        )
        first = reading[:10, 2].mean()
        assert first == pytest.approx(reading[:, 2].mean(), abs=6 * magnitudes.noise_m_s2 / np.sqrt(10)), (
            "it lies still"
        )
    gyro = series["imu/low_g/data_raw"][1][:, :3]
    np.testing.assert_allclose(gyro.mean(axis=0), made._gyro_bias, atol=4 * SCENARIO.gyro_noise_rad_s / 100)
    np.testing.assert_allclose(gyro.std(axis=0), SCENARIO.gyro_noise_rad_s, rtol=0.05)
    leg = series["leg/state"][1][:, 0]
    np.testing.assert_allclose(leg / SCENARIO.encoder.step_m, np.round(leg / SCENARIO.encoder.step_m), atol=1e-6)
    assert leg.std() == pytest.approx(SCENARIO.encoder.noise_m, rel=0.06)


def test_drift_has_the_stated_size_and_time(resting):
    deviation, correlation_s = 2.0, 0.8
    wander = simulator._Wander(4, deviation, correlation_s, np.random.default_rng(5))
    pieces = np.concatenate([wander.next(n) for n in [1, 1, 7, 1000, *[5000] * 30]])
    assert pieces.std() == pytest.approx(deviation, rel=0.06)
    lag = round(correlation_s / TICK_S)
    assert np.mean(pieces[:-lag] * pieces[lag:]) / pieces.var() == pytest.approx(np.exp(-1.0), abs=0.08)
    assert np.abs(np.diff(pieces, axis=0)).max() < 6.0 * deviation * np.sqrt(2.0 * TICK_S / correlation_s), "no seams"


def test_the_zero_of_each_sensor_drifts_as_stated():
    """Over half a second, an Ornstein-Uhlenbeck process of 20 s moves by sqrt(2 (1 - exp(-0.5 / 20))) deviations."""
    low_g, high_g = (replace(one, drift_m_s2=size) for one, size in ((SCENARIO.low_g, 2.0), (SCENARIO.high_g, 40.0)))
    made = simulation(seed=3, scenario=replace(SCENARIO, low_g=low_g, high_g=high_g, rest_s=60.0, drop_s=64.0))
    series = advanced(made, 60.0)
    moved = []
    for topic, sensor in (("imu/low_g/data_raw", low_g), ("imu/high_g/data_raw", high_g)):
        stamps, values = series[topic]
        tenths = stamps // 100_000_000
        smooth = np.bincount(tenths, values[:, 5]) / np.bincount(tenths)
        moved.append((smooth[5:] - smooth[:-5]) / sensor.drift_m_s2)
        assert moved[-1].std() == pytest.approx(np.sqrt(2.0 * (1.0 - np.exp(-0.5 / 20.0))), rel=0.25)
    assert abs(np.corrcoef(moved)[0, 1]) < 0.3, "each its own"


def test_readings_saturate_at_their_range():
    made = simulation("4m", 2, SCENARIO)
    series = advanced(made, 9.0)
    low, high = (series[f"imu/{name}_g/data_raw"][1][:, 5] for name in ("low", "high"))
    assert low.max() == SCENARIO.low_g.range_m_s2
    assert np.sum(low == low.max()) > 20
    assert SCENARIO.low_g.range_m_s2 < 1.3 * SCENARIO.low_g.range_m_s2 < high.max() < SCENARIO.high_g.range_m_s2
    narrow = replace(SCENARIO, low_g=replace(SCENARIO.low_g, range_m_s2=5.0))
    reading = advanced(simulation("4m", 2, narrow), 9.0)["imu/low_g/data_raw"][1][:, 3:]
    assert reading.max() == 5.0
    assert reading.min() == -5.0


def test_filters_and_clocks_of_the_accelerometers_are_scipy_s():
    """From the exact acceleration: one pole, held at 1 kHz, read at 840 Hz; in uneven pieces too."""
    made = simulation("2m", 4, silent(IDEAL))
    series = advanced(made, 8.4, step_s=0.0175)
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
    scenario = replace(silent(quiet_mount(IDEAL, share=1.0)), high_g=replace(SCENARIO.high_g, bandwidth_hz=1e5))
    made = simulation("1m", 4, scenario)
    made.advance(7 * SECOND_NS)
    trace = trace_of(made)
    omega, damping = 2.0 * np.pi * made.plant.ring_frequency, made.plant.ring_damping
    assert made.plant.ring_frequency == SCENARIO.mount.frequency_hz
    time_s = np.arange(len(trace)) * STEP_S
    system = ([2.0 * damping * omega, omega**2], [1.0, 2.0 * damping * omega, omega**2])
    mount = GRAVITY + signal.lsim(system, trace[:, dynamics.T_ACCELERATION], time_s, interp=False)[1][1:]
    rows = slice(round(6.0 / STEP_S), None, dynamics.CHIP_STEPS)
    shown, expected = trace[:-1][rows, dynamics.T_HIGH], mount[rows]
    assert expected.std() > 50.0
    assert np.std(shown - expected) < 0.05 * expected.std()


def test_vibration_is_aliased():
    """703 Hz, held at 1 kHz and read at 840 Hz, shows at 137 and 297 Hz: as strongly as the holding lets it.

    (At 700 Hz exactly, a multiple of the clocks' common 40 Hz, further images fall on the same lines.)
    """
    rotors = replace(IDEAL.rotors, lift_weights=1.8, vibration_m_s2=10.0, rotor_frequency_hz=703.0)
    scenario = replace(silent(IDEAL), rotors=rotors, rest_s=0.5, drop_s=12.0)
    made = simulation("4m", 6, scenario)
    made.plant = made.plant._replace(full_thrust=1.0)  # too weak to lift off: rotors at full speed on the ground
    series = advanced(made, 11.0)
    stamps, values = series["imu/high_g/data_raw"]
    reading = values[stamps > 3 * SECOND_NS, 5] / made._high.scale
    window = np.hanning(len(reading))
    amplitude = 2.0 / window.sum() * np.abs(np.fft.rfft((reading - reading.mean()) * window, 8 * len(reading)))
    frequency = np.fft.rfftfreq(8 * len(reading), 1.0 / 840.0)
    gain = 1.0 / np.hypot(1.0, 703.0 / SCENARIO.high_g.bandwidth_hz)
    found = {round(line): amplitude[np.abs(frequency - line) < 3.0].max() for line in (137.0, 297.0)}
    # The image of a held wave at f has the gain sinc(f / 1 kHz): 703 Hz folds to 137, its image at 297 Hz stays.
    for line, image_hz in ((137, 703.0), (297, 297.0)):
        assert found[line] == pytest.approx(10.0 * gain * np.sinc(image_hz / 1000.0), rel=0.05)
    assert frequency[np.argmax(amplitude)] == pytest.approx(297.0, abs=0.5)


def drawn(made):
    """Everything drawn once, by name, in spreads of its own."""
    out = {}
    nominal = NOMINAL
    shares = {
        "preload": SCENARIO.leg.preload_spread,
        "stiffness": SCENARIO.leg.stiffness_spread,
        "loss": SCENARIO.leg.loss_spread,
        "stop_stiffness": SCENARIO.leg.stop_spread,
        "stop_damping": SCENARIO.leg.stop_spread,
        "ground_stiffness": SCENARIO.leg.ground_spread,
        "ground_damping": SCENARIO.leg.ground_spread,
        "drag": SCENARIO.rotors.drag_spread,
        "full_thrust": SCENARIO.rotors.thrust_spread,
        "ring_frequency": SCENARIO.mount.frequency_spread,
    }
    for name, share in shares.items():
        out[name] = (getattr(made.plant, name) / getattr(nominal, name) - 1.0) / share
    for name, sensor, offset in (("low", made._low, 0.3), ("high", made._high, 5.0)):
        out[f"{name} scale"] = (sensor.scale - 1.0) / sensor.scenario.scale_stddev
        for axis in range(3):
            out[f"{name} offset {axis}"] = sensor.offset[axis] / offset
        tilts = np.rad2deg([sensor.tilt[1, 2], sensor.tilt[2, 0]]) / SCENARIO.mount.tilt_stddev_deg
        out[f"{name} roll"], out[f"{name} pitch"] = tilts
    for axis in range(3):
        out[f"gyro bias {axis}"] = made._gyro_bias[axis] / SCENARIO.gyro_bias_rad_s
    out["encoder"] = (made._encoder_scale - 1.0) / SCENARIO.encoder.scale_stddev
    return out


def test_spreads_are_as_stated_and_cut_off():
    robots = [simulation(seed=seed, scenario=SCENARIO) for seed in range(250)]
    rows = [drawn(one) for one in robots]
    draws = {name: [one[name] for one in rows] for name in rows[0]}
    for name, values in draws.items():
        values = np.array(values)
        assert np.abs(values).max() <= 2.5 + 1e-9, name
        assert values.std() == pytest.approx(0.98, abs=0.16), name
        assert abs(values.mean()) < 0.25, name
        assert len(set(values)) > 200, name
    everything = np.concatenate(list(draws.values()))
    assert np.mean(np.abs(everything) >= 2.5 - 1e-9) == pytest.approx(0.0124, abs=0.004), "set to the limit"
    latency = np.array([one._latency_s for one in robots])
    assert latency.min() >= 0.0
    assert latency.max() <= SCENARIO.capture.latency_s + 2.5 * SCENARIO.capture.latency_spread_s + 1e-12
    assert latency.mean() == pytest.approx(SCENARIO.capture.latency_s, abs=0.0002)
    assert len(set(latency)) > 200


def test_a_seed_gives_the_same_run_and_another_seed_another():
    first, again, other = (advanced(simulation("mixed", seed, SCENARIO, uneven=True), 9.0) for seed in (1, 1, 2))
    for topic, (stamps, values) in first.items():
        np.testing.assert_array_equal(again[topic][0], stamps)
        np.testing.assert_array_equal(again[topic][1], values)
        if topic not in ("commanded_height",):
            assert not np.array_equal(other[topic][1], values), topic
    one, two = (simulation("mixed", seed, SCENARIO, uneven=True) for seed in (1, 2))
    assert all(value != drawn(two)[name] for name, value in drawn(one).items())
    assert not np.array_equal(one._grounds, two._grounds)
    assert one._latency_s != two._latency_s


def test_pieces_join_without_gaps_and_repeats():
    """Bounds that are no multiple of anything; a robot without noise of its motion moves the same."""
    scenario = replace(silent(IDEAL), lost_share=0.0)
    whole, parts = simulation("mixed", 8, scenario), simulation("mixed", 8, scenario)
    expected = advanced(whole, 7.5)
    found, before = {}, 0
    for stop in [
        1,
        2_499_999,
        2_500_000,
        2_500_001,
        3_000_000,
        *range(3_333_333, 7_500_000_000, 37_037_037),
        7_500_000_000,
    ]:
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
    assert all(not len(one.stamps_ns) for one in parts.advance(7_500_000_000).sensors), "nothing twice"


def test_both_imus_lose_the_same_share_of_readings():
    series = advanced(simulation(seed=9, scenario=replace(SCENARIO, lost_share=0.05)), 10.0)
    low, high = series["imu/low_g/data_raw"][0], series["imu/high_g/data_raw"][0]
    np.testing.assert_array_equal(low, high)
    grid = np.round(np.arange(8400) * SECOND_NS / 840.0).astype(np.int64)
    assert set(low) < set(grid)
    assert 1.0 - len(low) / 8400 == pytest.approx(0.05, abs=4.0 * np.sqrt(0.05 * 0.95 / 8400))
    assert len(series["imu/attitude/data"][0]) == 10 * SCENARIO.attitude.rate_hz
    assert len(series["ground_truth/body/pose"][0]) == 10 * SCENARIO.capture.rate_hz


def test_truth_is_late_and_noisy_as_stated():
    made = simulation("2m", 13, SCENARIO)
    stamps, poses = advanced(made, 20.0)["ground_truth/body/pose"]
    np.testing.assert_array_equal(stamps, np.round(np.arange(12_000) * SECOND_NS / 600.0).astype(np.int64))
    trace = trace_of(made)
    moving = stamps > 7 * SECOND_NS
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


def test_attitude_sensor_errs_as_stated_from_the_true_attitude():
    series = advanced(simulation("2m", 12, SCENARIO), 60.0)
    stamps, quaternions = series["imu/attitude/data"]
    truth_ns, poses = series["ground_truth/body/pose"]
    for axis in (0, 1):
        true = np.interp(stamps, truth_ns, 2.0 * np.rad2deg(poses[:, 3 + axis]))
        error = 2.0 * np.rad2deg(quaternions[:, axis]) - true
        assert error.std() == pytest.approx(SCENARIO.attitude.error_deg, rel=0.3)  # about thirty independent values
        assert true[stamps < SCENARIO.rest_s * SECOND_NS].std() < 0.1
        assert 0.6 * SCENARIO.sway_deg < true[stamps > 4 * SECOND_NS].std() < 1.1 * SCENARIO.sway_deg


def test_starting_height_is_given_once():
    errors = []
    for seed in range(12):
        made = simulation("1m", seed, replace(SCENARIO, drop_s=3.5, rest_s=0.5))
        stamps, values = advanced(made, 3.6)["set_pose"]
        assert stamps.tolist() == [3_500_000_000]
        covariance = values[0, 7:].reshape(6, 6)
        assert covariance[2, 2] == pytest.approx(SCENARIO.capture.start_stddev_m**2)
        assert np.delete(np.diag(covariance), 2).min() >= 1e6
        np.testing.assert_array_equal(values[0, 3:7], [0.0, 0.0, 0.0, 1.0])
        errors.append(values[0, 2] - trace_of(made)[round(3.5 / STEP_S) - 1, dynamics.T_HEIGHT])
    assert np.abs(errors).max() < 2.5 * SCENARIO.capture.start_stddev_m + 0.001
    assert 0.5 < np.std(errors) / SCENARIO.capture.start_stddev_m < 1.6


def test_commanded_heights():
    for variant, height in simulator.HEIGHTS_M.items():
        stamps, values = advanced(simulation(variant), 3.0)["commanded_height"]
        assert set(values[:, 2]) == {height}
        np.testing.assert_array_equal(stamps, np.arange(6) * SECOND_NS // 2)
    stamps, values = advanced(simulation("mixed", 3), 6.0 + 96.0)["commanded_height"]
    blocks = ((stamps - 6 * SECOND_NS) // (12 * SECOND_NS)).clip(0)
    goals = [set(values[blocks == k, 2]) for k in range(8)]
    assert all(len(one) == 1 for one in goals), "one height for 12 s"
    for four in (goals[:4], goals[4:]):
        assert set.union(*four) == {1.0, 2.0, 3.0, 4.0}
    stamps, values = advanced(simulation("varied", 3), 6.0 + 96.0)["commanded_height"]
    heights, first = np.unique(values[:, 2], return_index=True)
    lasting_s = np.diff(np.sort(stamps[first])) / SECOND_NS
    assert 12 <= len(heights) <= 50
    assert 0.3 <= heights.min() < 0.7
    assert 3.0 < heights.max() <= 5.0
    assert lasting_s[1:].min() >= 2.0
    assert lasting_s[1:].max() <= 8.01


def test_scenario_file_gives_the_defaults():
    assert HopperScenario() == SCENARIO
