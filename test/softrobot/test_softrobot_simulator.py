"""The simulated laboratory: what its sensors make of the motion, its drawn robots, and the paper's robot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.writing import configuration_in
from onboard_estimation.base.configuration import load
from onboard_estimation.base.series import Recording
from onboard_estimation.judging.simulated_bags import simulate_to_bag
from softrobot_estimation.judging.ground_truth import in_base
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import tip_quaternion_xyzw
from softrobot_estimation.model.grey_box import GreyBox
from softrobot_estimation.robot import ROBOT
from softrobot_estimation.simulation import simulated_signals
from softrobot_estimation.simulation.laboratory import Magnitudes
from softrobot_estimation.simulation.paper_simulator import PaperSimulation, StiffnessMap, known_configuration
from softrobot_estimation.simulation.simulated_signals import Gaps, Stream, Way, mixture
from softrobot_estimation.simulation.simulator import LaboratorySimulation

Array = NDArray[np.float64]

CONFIGURATION = SoftRobotConfiguration()
NOISELESS = replace(
    CONFIGURATION,
    wrench=replace(
        CONFIGURATION.wrench,
        force_stddev_n=1e-12,
        torque_stddev_n_m=1e-12,
        force_resolution_n=0.0,
        torque_resolution_n_m=0.0,
        crosstalk_fraction=0.0,
        force_drift_n=0.0,
        torque_drift_n_m=0.0,
    ),
    pressure=replace(CONFIGURATION.pressure, noise_pa=1e-9, offset_stddev_pa=0.0),
    truth=replace(
        CONFIGURATION.truth,
        position_stddev_m=0.0,
        orientation_stddev_deg=0.0,
        alignment_stddev_m=0.0,
        alignment_stddev_deg=0.0,
    ),
)
QUIET = Magnitudes(
    hose_force_n=1e-12,
    hose_torque_n_m=1e-12,
    hose_force_n_pa=0.0,
    scale_spread=0.0,
    morning_drifts=0.0,
    pressure_step_pa=0.0,
    jitter_stddev_s=0.0,
    rare_share=0.0,
    lost_share=0.0,
    gap_period_s=(1e9, 1e9),
)


def series(recording: Recording, topic: str) -> tuple[NDArray[np.int64], Array]:
    (found,) = [one for one in (*recording.sensors, *recording.truth) if one.channel.topic == topic]
    return found.stamps_ns, found.values


@pytest.mark.parametrize("scenario", ["laboratory", "payload", "paper"])
def test_pieces_are_the_whole_to_the_last_bit(scenario: str) -> None:
    early = replace(Magnitudes(), payload_at_s=(1.0, 1.2), gap_period_s=(0.7, 0.9))
    wholes, pieces = (
        PaperSimulation(CONFIGURATION, np.random.default_rng(5))
        if scenario == "paper"
        else LaboratorySimulation(CONFIGURATION, np.random.default_rng(5), scenario == "payload", early)
        for _ in range(2)
    )
    whole = wholes.advance(3_000_000_000)
    stops = (7, 4_000_000, 4_000_001, 1_103_700_000, 1_110_000_000, 1_110_000_000, 2_999_999_999, 3_000_000_000)
    parts = [pieces.advance(stop) for stop in stops]
    for number, one in enumerate((*whole.sensors, *whole.truth)):
        found = [(*part.sensors, *part.truth)[number] for part in parts]
        np.testing.assert_array_equal(np.concatenate([part.stamps_ns for part in found]), one.stamps_ns)
        np.testing.assert_array_equal(np.vstack([part.values for part in found]), one.values)
        assert (np.diff(one.stamps_ns) > 0).all()
        assert one.stamps_ns[-1] < 3_000_000_000


def test_one_seed_is_one_robot() -> None:
    one, again, other = (
        ROBOT.simulate(CONFIGURATION, "laboratory", "", 2.0, np.random.default_rng(seed)) for seed in (3, 3, 4)
    )
    for first, second in zip((*one.sensors, *one.truth), (*again.sensors, *again.truth), strict=True):
        np.testing.assert_array_equal(first.values, second.values)
    assert np.abs(series(one, "wrench")[1][0] - series(other, "wrench")[1][0]).max() > 0.005


def test_without_noise_the_wrench_is_the_load_in_the_sensors_axes() -> None:
    """At rest it is the weight, tilt included; a tare takes it off, the other sign turns it round."""
    simulation = LaboratorySimulation(NOISELESS, np.random.default_rng(1), magnitudes=QUIET)
    recording = simulation.advance(1_400_000_000)
    _, wrench = series(recording, "wrench")
    chain = simulation.build.chain
    weight = (chain.mass.sum() + chain.beyond[:, 1].sum()) * chain.gravity
    expected = Rotation.from_euler("z", -30.0, degrees=True).apply(weight)
    np.testing.assert_allclose(wrench[:, :3], np.tile(expected, (len(wrench), 1)), atol=1e-6)
    tilt = np.degrees(np.arccos(chain.gravity[2] / 9.81))
    assert 0.1 < tilt < 3.0
    tared = replace(NOISELESS, wrench=replace(NOISELESS.wrench, tare="with_robot"))
    resting = LaboratorySimulation(tared, np.random.default_rng(1), magnitudes=QUIET).advance(1_400_000_000)
    np.testing.assert_allclose(series(resting, "wrench")[1], 0.0, atol=1e-6)
    turned = replace(NOISELESS, wrench=replace(NOISELESS.wrench, sign="sensor_on_robot"))
    moving = [
        LaboratorySimulation(one, np.random.default_rng(1), magnitudes=QUIET).advance(4_000_000_000)
        for one in (NOISELESS, turned)
    ]
    there, back = (series(one, "wrench")[1] for one in moving)
    np.testing.assert_allclose(there, -back, atol=1e-9)
    assert np.ptp(there[:, :2], axis=0).min() > 0.02


def test_motion_capture_is_late_by_its_delay_and_tells_of_the_tip() -> None:
    simulation = LaboratorySimulation(NOISELESS, np.random.default_rng(2), magnitudes=QUIET)
    recording = simulation.advance(6_000_000_000)
    stamps, tip = series(recording, "ground_truth/tip/pose")
    delay_ns = round(1e9 * simulation.build.capture_delay_s)
    assert 2_000_000 <= delay_ns <= 12_000_000
    np.testing.assert_array_equal((stamps - delay_ns) % 10_000_000, 0)
    base_stamps, base = series(recording, "ground_truth/base/pose")
    np.testing.assert_array_equal(stamps, base_stamps)
    place = in_base(tip[:, :3], base)
    assert np.linalg.norm(place[:20, :2], axis=1).max() < 0.003
    assert place[0, 2] == pytest.approx(0.135, abs=0.0015)
    # Down is where gravity points: the sensor and the capture agree on the tilt.
    down = Rotation.from_quat(base[0, 3:]).inv().apply([0.0, 0.0, -9.81])
    np.testing.assert_allclose(down, simulation.build.chain.gravity, atol=1e-9)


def test_pressures_follow_their_set_points_late() -> None:
    simulation = LaboratorySimulation(NOISELESS, np.random.default_rng(3), magnitudes=QUIET)
    recording = simulation.advance(16_000_000_000)
    for number in range(3):
        topic = f"pressure/chamber_{number + 1}"
        stamps, commands = series(recording, f"{topic}/command")
        read_at, read = series(recording, topic)
        late = [
            np.corrcoef(np.interp(read_at - 1_000_000 * ms, stamps, commands[:, 0]), read[:, 0])[0, 1]
            for ms in range(0, 80, 5)
        ]
        assert 10 <= 5 * int(np.argmax(late)) <= 60
        assert max(late) > 0.97
        assert commands.min() == pytest.approx(101325.0)


def recorded(configuration: SoftRobotConfiguration, magnitudes: Magnitudes, seed: int = 3) -> Recording:
    return LaboratorySimulation(configuration, np.random.default_rng(seed), magnitudes=magnitudes).advance(
        5_000_000_000
    )


@pytest.fixture(scope="module")
def quiet() -> Recording:
    return recorded(NOISELESS, QUIET)


def test_a_transducer_is_off_by_one_number(quiet: Recording) -> None:
    """The same robot with one fault more: what is drawn does not hang on the sizes."""
    off = replace(NOISELESS, pressure=replace(NOISELESS.pressure, offset_stddev_pa=250.0))
    for number in (1, 2, 3):
        before, after = (series(one, f"pressure/chamber_{number}")[1] for one in (quiet, recorded(off, QUIET)))
        assert np.ptp(after - before) < 1e-6
        assert 1.0 < abs((after - before)[0, 0]) < 1000.0


def test_the_sensor_drifts_as_it_warms_and_is_off_since_the_morning(quiet: Recording) -> None:
    known = replace(NOISELESS.wrench, force_drift_n=0.03, torque_drift_n_m=1e-3)
    drifting = replace(NOISELESS, wrench=known)
    stamps, before = series(quiet, "wrench")
    drift = series(recorded(drifting, replace(QUIET, warming_s=(2.0, 2.0))), "wrench")[1] - before
    share = 1.0 - np.exp(-0.5 * (stamps - stamps[0]) * 1e-9)
    size = drift[-1] / share[-1]
    np.testing.assert_allclose(drift, share[:, None] * size, atol=2e-3 * np.abs(size).max())
    assert (np.abs(size) <= [0.0301] * 3 + [0.001001] * 3).all()
    assert (np.abs(size) >= [0.0149] * 3 + [0.000499] * 3).all()
    morning = series(recorded(drifting, replace(QUIET, warming_s=(1e9, 1e9), morning_drifts=1.5)), "wrench")[1] - before
    assert np.ptp(morning, axis=0).max() < 1e-8
    assert 0.005 < np.abs(morning[0, :3]).max() < 0.15


def test_hoses_pull_slowly_and_axes_mix(quiet: Recording) -> None:
    _, before = series(quiet, "wrench")
    pulled = series(recorded(NOISELESS, replace(QUIET, hose_force_n=0.01, hose_torque_n_m=3e-4)), "wrench")[1] - before
    assert 0.002 < np.abs(pulled[:, :3]).max() < 0.05
    assert np.abs(np.diff(pulled[:, :3], axis=0)).max() < 1e-4
    with_pressure = recorded(NOISELESS, replace(QUIET, hose_force_n=1e-2, hose_torque_n_m=3e-4, hose_force_n_pa=1e-5))
    # Far stiffer hoses than any: what they pull beside goes with the mean pressure.
    pulled = series(with_pressure, "wrench")[1][:, 0] - before[:, 0] - pulled[:, 0]
    pressures = np.mean([series(quiet, f"pressure/chamber_{i}")[1][:, 0] for i in (1, 2, 3)], axis=0)
    assert abs(np.corrcoef(pulled, pressures)[0, 1]) > 0.99
    mixed = replace(NOISELESS, wrench=replace(NOISELESS.wrench, crosstalk_fraction=0.01))
    crossed = series(recorded(mixed, QUIET), "wrench")[1] - before
    arms = np.repeat([1.0, Magnitudes().crosstalk_arm_m], 3)
    bound = 0.01 * (np.abs(before) / arms).sum(axis=1, keepdims=True) * arms
    assert (np.abs(crossed) <= bound).all()
    assert np.abs(crossed[:, :2]).max() > 0.001


def test_electronics_and_hoses_are_slow(quiet: Recording) -> None:
    """A first-order low-pass: what it reads runs after the load with its time constant."""
    _, sharp = series(recorded(NOISELESS, replace(QUIET, low_pass_s=(1e-6, 1e-6))), "wrench")
    _, smooth = series(recorded(NOISELESS, replace(QUIET, low_pass_s=(0.1, 0.1))), "wrench")
    slope = np.gradient(smooth[:, 0], 0.008)
    assert np.corrcoef(0.1 * slope, (sharp - smooth)[:, 0])[0, 1] > 0.95
    moving = np.abs(slope) > 0.5 * np.abs(slope).max()
    assert np.median((sharp - smooth)[moving, 0] / slope[moving]) == pytest.approx(0.1, rel=0.1)
    # Lagging chambers: the tip comes later, the transducers, at the regulators, read the same.
    quick, slow = (recorded(NOISELESS, replace(QUIET, lag_s=(lag, lag), lag_spread=0.0)) for lag in (0.005, 0.1))
    np.testing.assert_array_equal(*(series(one, "pressure/chamber_1")[1] for one in (quick, slow)))
    early, late = (series(one, "ground_truth/tip/pose")[1][:, 2] for one in (quick, slow))
    at = np.arange(len(early))
    shifts = [np.corrcoef(np.interp(at - frames, at, early), late)[0, 1] for frames in range(20)]
    assert 6 <= int(np.argmax(shifts)) <= 12
    # A regulator is no quicker than it can be.
    limited = recorded(NOISELESS, replace(QUIET, regulator_rate_pa_s=(3e4, 3e4)))
    rates = np.diff(series(limited, "pressure/chamber_1")[1][:, 0]) / 0.008
    assert 2.5e4 < np.abs(rates).max() < 3.0e4 * 1.01


def test_marker_bodies_sit_a_little_off(quiet: Recording) -> None:
    off = replace(NOISELESS, truth=replace(NOISELESS.truth, alignment_stddev_m=3e-4, alignment_stddev_deg=0.3))
    shifted = recorded(off, QUIET)
    for body in ("tip", "base"):
        before, after = (series(one, f"ground_truth/{body}/pose")[1] for one in (quiet, shifted))
        turned = Rotation.from_quat(before[:, 3:])
        place = turned.inv().apply(after[:, :3] - before[:, :3])
        assert np.ptp(place, axis=0).max() < 1e-9
        assert 5e-5 < np.linalg.norm(place[0]) < 1.5e-3
        turn = (turned.inv() * Rotation.from_quat(after[:, 3:])).as_rotvec()
        assert np.ptp(turn, axis=0).max() < 1e-9
        assert 5e-4 < np.linalg.norm(turn[0]) < 0.03
    noisy = replace(NOISELESS, truth=replace(NOISELESS.truth, position_stddev_m=1e-4, orientation_stddev_deg=0.1))
    before, after = (series(one, "ground_truth/base/pose")[1] for one in (quiet, recorded(noisy, QUIET)))
    np.testing.assert_allclose((after - before)[:, :3].std(axis=0), 1e-4, rtol=0.15)
    turn = (Rotation.from_quat(before[:, 3:]).inv() * Rotation.from_quat(after[:, 3:])).as_rotvec()
    np.testing.assert_allclose(turn.std(axis=0), np.radians(0.1), rtol=0.15)


def test_a_payload_is_hung_on_unannounced() -> None:
    simulation = LaboratorySimulation(
        NOISELESS, np.random.default_rng(4), True, replace(QUIET, payload_at_s=(1.2, 1.2))
    )
    stamps, wrench = series(simulation.advance(1_500_000_000), "wrench")
    before, after = wrench[stamps < 1_150_000_000, 2].mean(), wrench[stamps > 1_300_000_000, 2].mean()
    assert after - before == pytest.approx(9.81 * simulation.build.payload_kg, rel=0.35)  # it bounces
    assert 0.010 <= simulation.build.payload_kg <= 0.040


def test_upright_it_weighs_the_other_way_and_the_bag_says_so(tmp_path: Path) -> None:
    recording = ROBOT.simulate(CONFIGURATION, "upright", "", 0.5, np.random.default_rng(1))
    assert series(recording, "wrench")[1][:, 2].mean() == pytest.approx(-0.156 * 9.81, abs=0.1)
    simulate_to_bag(ROBOT, CONFIGURATION, "upright", "", 0.2, 1, tmp_path / "upright")
    simulate_to_bag(ROBOT, CONFIGURATION, "laboratory", "", 0.2, 1, tmp_path / "hanging")
    file = configuration_in(tmp_path / "upright", "softrobot")
    assert file is not None
    assert load(SoftRobotConfiguration, file).mounting.attitude == "upright"
    assert configuration_in(tmp_path / "hanging", "softrobot") is None


def test_as_much_is_lost_hidden_and_late_as_stated() -> None:
    magnitudes = Magnitudes(gap_period_s=(3.0, 100.0), lost_share=0.01)
    simulation = LaboratorySimulation(CONFIGURATION, np.random.default_rng(6), magnitudes=magnitudes)
    recording = simulation.advance(14_000_000_000)
    stamps, _ = series(recording, "wrench")
    assert 0.98 < len(stamps) / 1750 < 0.997
    spacing_ms = np.diff(stamps) * 1e-6
    assert 0.05 < spacing_ms[np.abs(spacing_ms - 8.0) < 4.0].std() < 0.5
    assert spacing_ms.min() > 2.0
    tip, _ = series(recording, "ground_truth/tip/pose")
    assert 0.05 < np.diff(tip).max() * 1e-9 < 0.75
    _, stiffness = series(recording, "ground_truth/stiffness")
    assert stiffness.max() / stiffness.min() > 1.05
    assert 0.05 < stiffness.mean() < 0.35


def test_stream_noise_has_the_stated_sizes() -> None:
    way = Way(0.002, 1e-3, 0.1, 2e-3, 5e-3, 0.05)
    stream = Stream(1000.0, np.random.default_rng(1), 2, way)
    at, noise = stream.samples(20_000_000_000)
    stamps, values = stream.messages(at, noise, at[:, None].astype(np.float64), 30_000_000_000)
    assert len(stamps) / len(at) == pytest.approx(0.95, abs=0.005)
    late_s = (stamps - values[:, 0]) * 1e-9
    assert late_s.min() >= 0.002
    assert late_s.max() <= 0.007 + 1e-8
    assert late_s.mean() == pytest.approx(0.002 + 1e-3 * np.sqrt(2.0 / np.pi) + 0.1 * 2e-3, rel=0.1)
    np.testing.assert_allclose(noise.std(axis=0), 1.0, atol=0.02)
    gaps = Gaps(2.0, (0.1, 0.5), np.random.default_rng(2))
    visible = gaps.visible(np.arange(0.0, 4000.0, 0.01))
    assert 1.0 - visible.mean() == pytest.approx(0.3 / 2.3, rel=0.1)


def test_every_cycle_has_all_patterns_within_the_limit_in_an_order_of_its_own() -> None:
    angles = CONFIGURATION.chambers.angles_rad
    pattern = mixture(angles, 67000.0, np.random.default_rng(1))
    time_s = np.arange(0.0, 4.0 * simulated_signals.CYCLE_S, 0.008)
    pressures = pattern(time_s)
    assert pressures.min() >= 0.0
    assert 50e3 < pressures.max() <= 67e3
    assert not pressures[time_s < 1.5].any()
    still = np.abs(np.diff(pressures, axis=0)).max(axis=1) == 0.0
    resting = still & (pressures[1:] == 0.0).all(axis=1)
    cycles = (time_s[1:] // simulated_signals.CYCLE_S).astype(int)
    starts = []
    for number in range(4):
        rest_s = 0.008 * np.count_nonzero(resting & (cycles == number))
        assert rest_s == pytest.approx(5.0, abs=0.8)
        # Steps stand still, and are not zero: about ten seconds of them.
        steps = still & ~resting & (cycles == number)
        assert 8.0 < 0.008 * np.count_nonzero(steps) < 10.5
        starts.append(round(float(time_s[1:][steps][0] - number * simulated_signals.CYCLE_S)))
    assert len(set(starts)) > 1
    np.testing.assert_array_equal(pattern(time_s[4321:4323]), pressures[4321:4323])


def test_the_papers_robot_is_the_filters_segment_with_the_recorded_stiffness() -> None:
    """From one exact state to the next by the filters' model, with the stiffness in the recording; noise as stated."""
    simulation = PaperSimulation(CONFIGURATION, np.random.default_rng(7))
    recording = simulation.advance(12_000_000_000)
    known = known_configuration(CONFIGURATION)
    box = GreyBox(known)
    _, stiffness = series(recording, "ground_truth/stiffness")
    _, tip = series(recording, "ground_truth/tip/pose")
    _, base = series(recording, "ground_truth/base/pose")
    read = np.hstack([series(recording, f"pressure/chamber_{i}")[1] for i in (1, 2, 3)]) - 101325.0
    row = box.resting_row()[None]
    places, rows = [], []
    for acting, held in zip(read, stiffness, strict=True):
        rows.append(row[0])
        places.append(box.segment.position(row[0, :6], offset_m=0.006))
        for _ in range(4):
            row = box.propagate(row, held, acting, 0.002)
    found = in_base(tip[:, :3], base)
    assert np.abs(found).max() > 0.13
    assert np.ptp(found[:, 0]) > 0.01
    # The stiffness changes a little within each step.
    assert np.abs(np.array(places) - found).max() < 2e-3
    turned = Rotation.from_quat(base[0, 3:]).inv() * Rotation.from_quat(tip[-1, 3:])
    expected = Rotation.from_quat(tip_quaternion_xyzw(rows[-1][:6]))
    assert (turned.inv() * expected).magnitude() < 0.03
    _, wrench = series(recording, "wrench")
    still = np.arange(150)
    np.testing.assert_allclose(read[still].std(axis=0), 70.0, rtol=0.2)
    np.testing.assert_allclose(wrench[still].std(axis=0)[:3], 0.009, rtol=0.2)
    np.testing.assert_allclose(wrench[still].mean(axis=0)[:3], [0.0, 0.0, 0.156 * 9.81], atol=0.004)
    assert stiffness.max() / stiffness.min() > 1.1


class Even(StiffnessMap):
    """The same stiffness everywhere."""

    def __call__(self, bending_rad: Array) -> Array:
        return np.full(len(bending_rad), 0.15)


def test_the_papers_wrench_is_that_of_the_pressures_before_its_stamp() -> None:
    simulation = PaperSimulation(NOISELESS, np.random.default_rng(3))
    simulation.stiffness = Even(0.15, np.random.default_rng(1))
    recording = simulation.advance(4_000_000_000)
    box, known = GreyBox(known_configuration(NOISELESS)), NOISELESS.wrench
    acting = np.hstack([series(recording, f"pressure/chamber_{i}")[1] for i in (1, 2, 3)]) - 101325.0
    _, wrench = series(recording, "wrench")
    row, before, stiffness = box.resting_row()[None], np.zeros(3), np.array([0.15])
    assert row[0, 2] == pytest.approx((0.01 + 0.5 * 0.146) * 9.81 / 1400.0)
    loads = []
    for now in acting:
        loads.append(box.loads(row, stiffness, before)[0])
        for _ in range(4):
            row = box.propagate(row, stiffness, now, 0.002)
        before = now
    turned = np.hstack(
        [np.array(loads)[:, :3] @ known.base_from_sensor, np.array(loads)[:, 3:] @ known.base_from_sensor]
    )
    assert np.ptp(wrench[:, 2]) > 0.1
    np.testing.assert_allclose(wrench, turned, atol=1e-5)
