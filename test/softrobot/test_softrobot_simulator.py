"""The simulated laboratory: what its sensors make of the motion, its drawn robots, and the paper's robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.configuration import load, to_mapping
from onboard_estimation.base.series import Recording
from onboard_estimation.judging.simulated_bags import simulate_to_bag
from onboard_estimation.judging.sources import configuration_in
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
TRUTH_NOISE = ("position", "m"), ("orientation", "deg"), ("alignment", "m"), ("alignment", "deg")
NOISELESS = load(
    SoftRobotConfiguration,
    {
        "pressure.noise_pa": 1e-9, "pressure.offset_stddev_pa": 0.0, "wrench.crosstalk_fraction": 0.0,
        **{f"wrench.{name}": 1e-12 for name in ("force_stddev_n", "torque_stddev_n_m")},
        **{f"wrench.{name}": 0.0 for name in ("force_resolution_n", "torque_resolution_n_m")},
        **{f"wrench.{name}": 0.0 for name in ("force_drift_n", "torque_drift_n_m")},
        **{f"truth.{part}_stddev_{unit}": 0.0 for part, unit in TRUTH_NOISE},
    },
)  # fmt: skip
QUIET = Magnitudes(
    hose_force_n=1e-12, hose_torque_n_m=1e-12, hose_force_n_pa=0.0, scale_spread=0.0, morning_drifts=0.0,
    pressure_step_pa=0.0, jitter_stddev_s=0.0, rare_share=0.0, lost_share=0.0, gap_period_s=(1e9, 1e9),
)  # fmt: skip


def series(recording: Recording, topic: str) -> tuple[NDArray[np.int64], Array]:
    (found,) = [one for one in (*recording.sensors, *recording.truth) if one.channel.topic == topic]
    return found.stamps_ns, found.values


def quiet_simulation(known: Mapping[str, object], **magnitudes: Any) -> LaboratorySimulation:
    return LaboratorySimulation(
        load(SoftRobotConfiguration, to_mapping(NOISELESS), known),
        np.random.default_rng(1),
        magnitudes=replace(QUIET, **magnitudes),
    )


def recorded(seconds: float, known: Mapping[str, object] = MappingProxyType({}), **magnitudes: Any) -> Recording:
    """The quiet robot with some faults more: what is drawn does not hang on the sizes."""
    return quiet_simulation(known, **magnitudes).advance(round(1e9 * seconds))


@pytest.fixture(scope="module")
def quiet() -> Recording:
    return recorded(5.0)


def added(quiet: Recording, faulty: Recording, topic: str) -> Array:
    """By which a shorter recording is off."""
    values = series(faulty, topic)[1]
    return values - series(quiet, topic)[1][: len(values)]


@pytest.mark.parametrize("scenario", ["payload", "paper"])
def test_pieces_are_the_whole_to_the_last_bit(scenario: str) -> None:
    early = replace(Magnitudes(), payload_at_s=(1.0, 1.2), gap_period_s=(0.7, 0.9))
    wholes, pieces = (
        PaperSimulation(CONFIGURATION, np.random.default_rng(5))
        if scenario == "paper"
        else LaboratorySimulation(CONFIGURATION, np.random.default_rng(5), True, early)
        for _ in range(2)
    )
    whole = wholes.advance(2_000_000_000)
    stops = (7, 4_000_000, 4_000_001, 1_103_700_000, 1_110_000_000, 1_110_000_000, 1_999_999_999, 2_000_000_000)
    parts = [pieces.advance(stop) for stop in stops]
    for number, one in enumerate((*whole.sensors, *whole.truth)):
        found = [(*part.sensors, *part.truth)[number] for part in parts]
        np.testing.assert_array_equal(np.concatenate([part.stamps_ns for part in found]), one.stamps_ns)
        np.testing.assert_array_equal(np.vstack([part.values for part in found]), one.values)
        assert (np.diff(one.stamps_ns) > 0).all()
        assert one.stamps_ns[-1] < 2_000_000_000


def test_without_noise_the_wrench_is_the_load_in_the_sensors_axes(quiet: Recording) -> None:
    """At rest it is the weight, tilt included; a tare takes it off, the other sign turns it round."""
    chain = quiet_simulation({}).build.chain
    weight = chain.mass.sum() * chain.gravity
    expected = Rotation.from_euler("z", -30.0, degrees=True).apply(weight)
    stamps, wrench = series(quiet, "wrench")
    resting = wrench[stamps < 1_400_000_000, :3]
    np.testing.assert_allclose(resting, np.tile(expected, (len(resting), 1)), atol=1e-6)
    assert 0.1 < np.degrees(np.arccos(chain.gravity[2] / 9.81)) < 3.0
    tared = recorded(1.4, {"wrench.tare": "with_robot"})
    np.testing.assert_allclose(series(tared, "wrench")[1], 0.0, atol=1e-6)
    back = series(recorded(4.0, {"wrench.sign": "sensor_on_robot"}), "wrench")[1]
    np.testing.assert_allclose(wrench[: len(back)], -back, atol=1e-9)
    assert np.ptp(back[:, :2], axis=0).min() > 0.02


def test_motion_capture_is_late_by_its_delay_and_tells_of_the_tip(quiet: Recording) -> None:
    build = quiet_simulation({}).build
    stamps, tip = series(quiet, "ground_truth/tip/pose")
    delay_ns = round(1e9 * build.capture_delay_s)
    assert 2_000_000 <= delay_ns <= 12_000_000
    np.testing.assert_array_equal((stamps - delay_ns) % 10_000_000, 0)
    base_stamps, base = series(quiet, "ground_truth/base/pose")
    np.testing.assert_array_equal(stamps, base_stamps)
    place = in_base(tip[:, :3], base)
    assert np.linalg.norm(place[:20, :2], axis=1).max() < 0.003
    assert place[0, 2] == pytest.approx(0.135, abs=0.0015)
    # Down is where gravity points: the sensor and the capture agree on the tilt.
    down = Rotation.from_quat(base[0, 3:]).inv().apply([0.0, 0.0, -9.81])
    np.testing.assert_allclose(down, build.chain.gravity, atol=1e-9)


def test_pressures_follow_their_set_points_late(quiet: Recording) -> None:
    stamps, commands = series(quiet, "pressure/chamber_1/command")
    read_at, read = series(quiet, "pressure/chamber_1")
    late = [
        np.corrcoef(np.interp(read_at - 1_000_000 * ms, stamps, commands[:, 0]), read[:, 0])[0, 1]
        for ms in range(0, 80, 5)
    ]
    assert 10 <= 5 * int(np.argmax(late)) <= 60
    assert max(late) > 0.97
    assert commands.min() == pytest.approx(101325.0)
    # A regulator is no quicker than it can be.
    limited = recorded(5.0, regulator_rate_pa_s=(3e4, 3e4))
    rates = np.diff(series(limited, "pressure/chamber_1")[1][:, 0]) / 0.008
    assert 2.5e4 < np.abs(rates).max() < 3.0e4 * 1.01


def test_transducers_markers_and_the_morning_are_off_by_one_number_each(quiet: Recording) -> None:
    drifts = {"wrench.force_drift_n": 0.03, "wrench.torque_drift_n_m": 1e-3}
    markers = {"truth.alignment_stddev_m": 3e-4, "truth.alignment_stddev_deg": 0.3}
    known = {"pressure.offset_stddev_pa": 250.0, **markers, **drifts}
    off = recorded(1.6, known, warming_s=(1e9, 1e9), morning_drifts=1.5)
    for number in (1, 2, 3):
        pressure = added(quiet, off, f"pressure/chamber_{number}")
        assert np.ptp(pressure) < 1e-6
        assert 1.0 < abs(pressure[0, 0]) < 1000.0
    morning = added(quiet, off, "wrench")
    assert np.ptp(morning, axis=0).max() < 1e-8
    assert 0.005 < np.abs(morning[0, :3]).max() < 0.15
    for topic in ("ground_truth/tip/pose", "ground_truth/base/pose"):
        place, turn = between(quiet, off, topic)
        assert np.ptp(place, axis=0).max() < 1e-9
        assert 5e-5 < np.linalg.norm(place[0]) < 1.5e-3
        assert np.ptp(turn, axis=0).max() < 1e-9
        assert 5e-4 < np.linalg.norm(turn[0]) < 0.03


def between(quiet: Recording, faulty: Recording, topic: str) -> tuple[Array, Array]:
    """Places and turns (K, 3) of a body, as the body without fault sees them."""
    after = series(faulty, topic)[1]
    before = series(quiet, topic)[1][: len(after)]
    back = Rotation.from_quat(before[:, 3:]).inv()
    return back.apply(after[:, :3] - before[:, :3]), (back * Rotation.from_quat(after[:, 3:])).as_rotvec()


def test_the_sensor_drifts_as_it_warms_and_the_capture_is_noisy(quiet: Recording) -> None:
    known = {
        "wrench.force_drift_n": 0.03, "wrench.torque_drift_n_m": 1e-3,
        "truth.position_stddev_m": 1e-4, "truth.orientation_stddev_deg": 0.1,
    }  # fmt: skip
    off = recorded(5.0, known, warming_s=(2.0, 2.0))
    stamps, drift = series(quiet, "wrench")[0], added(quiet, off, "wrench")
    share = 1.0 - np.exp(-0.5 * (stamps - stamps[0]) * 1e-9)
    size = drift[-1] / share[-1]
    np.testing.assert_allclose(drift, share[:, None] * size, atol=2e-3 * np.abs(size).max())
    assert (np.abs(size) <= [0.0301] * 3 + [0.001001] * 3).all()
    assert (np.abs(size) >= [0.0149] * 3 + [0.000499] * 3).all()
    place, turn = between(quiet, off, "ground_truth/base/pose")
    np.testing.assert_allclose(place.std(axis=0), 1e-4, rtol=0.15)
    np.testing.assert_allclose(turn.std(axis=0), np.radians(0.1), rtol=0.15)


def test_hoses_pull_slowly_and_with_pressure_and_axes_mix(quiet: Recording) -> None:
    before = series(quiet, "wrench")[1]
    pulled = added(quiet, recorded(5.0, hose_force_n=0.01, hose_torque_n_m=3e-4), "wrench")
    assert 0.002 < np.abs(pulled[:, :3]).max() < 0.05
    assert np.abs(np.diff(pulled[:, :3], axis=0)).max() < 1e-4
    pressed = added(quiet, recorded(5.0, hose_force_n_pa=1e-5), "wrench")[:, 0]
    pressures = np.mean([series(quiet, f"pressure/chamber_{i}")[1][:, 0] for i in (1, 2, 3)], axis=0)
    assert abs(np.corrcoef(pressed, pressures)[0, 1]) > 0.99
    crossed = added(quiet, recorded(5.0, {"wrench.crosstalk_fraction": 0.01}), "wrench")
    arms = np.repeat([1.0, Magnitudes().crosstalk_arm_m], 3)
    bound = 0.01 * (np.abs(before) / arms).sum(axis=1, keepdims=True) * arms
    assert (np.abs(crossed) <= bound).all()
    assert np.abs(crossed[:, :2]).max() > 0.001


def test_electronics_and_hoses_are_slow() -> None:
    """A first-order low-pass: what it reads runs after the load with its time constant."""
    sharp, slow, quick = (
        recorded(5.0, low_pass_s=(low_pass_s,) * 2, lag_s=(lag_s,) * 2, lag_spread=0.0)
        for low_pass_s, lag_s in ((1e-6, 0.1), (0.1, 0.1), (0.1, 0.005))
    )
    missing, smooth = added(sharp, slow, "wrench")[:, 0], series(slow, "wrench")[1][:, 0]
    slope = np.gradient(smooth, 0.008)
    assert np.corrcoef(-0.1 * slope, missing)[0, 1] > 0.95
    moving = np.abs(slope) > 0.5 * np.abs(slope).max()
    assert np.median(missing[moving] / slope[moving]) == pytest.approx(-0.1, rel=0.1)
    # Lagging chambers: the tip comes later, the transducers, at the regulators, read the same.
    assert not added(quick, slow, "pressure/chamber_1").any()
    early, late = (series(one, "ground_truth/tip/pose")[1][:, 2] for one in (quick, slow))
    at = np.arange(len(early))
    shifts = [np.corrcoef(np.interp(at - frames, at, early), late)[0, 1] for frames in range(20)]
    assert 6 <= int(np.argmax(shifts)) <= 12


def test_a_payload_is_hung_on_unannounced() -> None:
    simulation = LaboratorySimulation(
        NOISELESS, np.random.default_rng(4), True, replace(QUIET, payload_at_s=(1.2, 1.2))
    )
    stamps, wrench = series(simulation.advance(1_500_000_000), "wrench")
    before, after = wrench[stamps < 1_150_000_000, 2].mean(), wrench[stamps > 1_300_000_000, 2].mean()
    assert after - before == pytest.approx(9.81 * simulation.build.payload_kg, rel=0.35)  # it bounces
    assert 0.010 <= simulation.build.payload_kg <= 0.040


def test_streams_lose_delay_and_hide_as_much_as_stated() -> None:
    stream = Stream(1000.0, np.random.default_rng(1), 2, Way(0.002, 1e-3, 0.1, 2e-3, 5e-3, 0.05))
    at, noise = stream.samples(20_000_000_000)
    stamps, values = stream.messages(at, noise, at[:, None].astype(np.float64), 30_000_000_000)
    assert len(stamps) / len(at) == pytest.approx(0.95, abs=0.005)
    late_s = (stamps - values[:, 0]) * 1e-9
    assert 0.002 <= late_s.min() < late_s.max() <= 0.007 + 1e-8
    assert late_s.mean() == pytest.approx(0.002 + 1e-3 * np.sqrt(2.0 / np.pi) + 0.1 * 2e-3, rel=0.1)
    np.testing.assert_allclose(noise.std(axis=0), 1.0, atol=0.02)
    visible = Gaps(2.0, (0.1, 0.5), np.random.default_rng(2)).visible(np.arange(0.0, 4000.0, 0.01))
    assert 1.0 - visible.mean() == pytest.approx(0.3 / 2.3, rel=0.1)


def test_upright_it_weighs_the_other_way_and_the_bag_says_so(tmp_path: Path) -> None:
    recording = ROBOT.simulate(CONFIGURATION, "upright", "", 0.5, np.random.default_rng(1))
    assert series(recording, "wrench")[1][:, 2].mean() == pytest.approx(-0.156 * 9.81, abs=0.1)
    simulate_to_bag(ROBOT, CONFIGURATION, "upright", "", 0.2, 1, tmp_path / "upright")
    simulate_to_bag(ROBOT, CONFIGURATION, "laboratory", "", 0.2, 1, tmp_path / "hanging")
    file = configuration_in(tmp_path / "upright", "softrobot")
    assert file is not None
    assert load(SoftRobotConfiguration, file).mounting.attitude == "upright"
    assert configuration_in(tmp_path / "hanging", "softrobot") is None


def test_every_cycle_has_all_patterns_within_the_limit_in_an_order_of_its_own() -> None:
    pattern = mixture(CONFIGURATION.chambers.angles_rad, 67000.0, np.random.default_rng(1))
    count = round(simulated_signals.CYCLE_S / 0.008)
    pressures = pattern(0.008 * np.arange(4 * count))
    assert pressures.min() >= 0.0
    assert 50e3 < pressures.max() <= 67e3
    assert not pressures[:187].any()
    starts = []
    for cycle in np.split(pressures, 4):
        still = np.abs(np.diff(cycle, axis=0)).max(axis=1) == 0.0
        resting = still & (cycle[1:] == 0.0).all(axis=1)
        assert 0.008 * np.count_nonzero(resting) == pytest.approx(5.0, abs=0.8)
        # Steps stand still, and are not zero: about ten seconds of them.
        steps = np.flatnonzero(still & ~resting)
        assert 8.0 < 0.008 * len(steps) < 10.5
        starts.append(round(0.008 * steps[0]))
    assert len(set(starts)) > 1
    np.testing.assert_array_equal(pattern(0.008 * np.arange(4321, 4323)), pressures[4321:4323])


class Even(StiffnessMap):
    """The same stiffness everywhere."""

    def __call__(self, bending_rad: Array) -> Array:
        return np.full(len(bending_rad), 0.15)


def test_the_papers_robot_is_the_filters_segment_under_the_pressures_before_each_stamp() -> None:
    """From one exact state to the next by the filters' model, of even stiffness and without noise."""
    simulation = PaperSimulation(NOISELESS, np.random.default_rng(3))
    simulation.stiffness = Even(0.15, np.random.default_rng(1))
    recording = simulation.advance(4_000_000_000)
    box, known = GreyBox(known_configuration(NOISELESS)), NOISELESS.wrench
    acting = np.hstack([series(recording, f"pressure/chamber_{i}")[1] for i in (1, 2, 3)]) - 101325.0
    row, before, stiffness = box.resting_row()[None], np.zeros(3), np.array([0.15])
    assert row[0, 2] == pytest.approx((0.01 + 0.5 * 0.146) * 9.81 / 1400.0)
    loads, states = [], []
    for now in acting:
        loads.append(box.loads(row, stiffness, before)[0])
        states.append(row[0, :6])
        for _ in range(4):
            row = box.propagate(row, stiffness, now, 0.002)
        before = now
    wrench, turn = series(recording, "wrench")[1], known.base_from_sensor
    assert np.ptp(wrench[:, 2]) > 0.1
    expected = np.array(loads).reshape(-1, 2, 3) @ turn
    np.testing.assert_allclose(wrench, expected.reshape(-1, 6), atol=1e-5)
    tip, base = (series(recording, f"ground_truth/{body}/pose")[1] for body in ("tip", "base"))
    found, places = in_base(tip[:, :3], base), box.segment.position(np.array(states), offset_m=0.006)
    assert np.ptp(found[:, 0]) > 0.01
    np.testing.assert_allclose(found, places, atol=1e-5)
    turned = Rotation.from_quat(base[0, 3:]).inv() * Rotation.from_quat(tip[-1, 3:])
    assert (turned.inv() * Rotation.from_quat(tip_quaternion_xyzw(states[-1]))).magnitude() < 1e-3
