"""Two jointed IMUs on simulated motions with known truth, and as a robot of the suite."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.judging.judge import judge
from onboard_estimation.testing import Check, checks
from recorded_robots.two_link.configuration import TwoLink
from recorded_robots.two_link.robot import ROBOT
from recorded_robots.two_link.simulator import LEVER_ARMS_M, STYLES, Simulated, simulate

Array = NDArray[np.float64]

AXES = {"joint.kind": "hinge", "joint.proximal_axis": [0.0, 1.0, 0.0], "joint.distal_axis": [0.0, 1.0, 0.0]}
CONSISTENT = {"coverage_3_sigma": 0.985, "mean_nees_per_degree_of_freedom": 1.5}


def configured(**overrides: Any) -> TwoLink:
    return load(TwoLink, None, {name.replace("__", "."): value for name, value in overrides.items()})


@cache
def simulated(style: str, hinge: bool, seed: int, duration_s: float = 25.0, **conditions: Any) -> Simulated:
    rng = np.random.default_rng(seed)
    return simulate(STYLES[style], hinge, duration_s, rng, **conditions)


def judged(recording: Recording, configuration: TwoLink) -> EvaluationResult:
    return judge(ROBOT, configuration, "eskf", from_simulator(recording, ("proximal", "distal")))


def rmse_deg(result: EvaluationResult, from_s: float = 0.0) -> float:
    """Of the whole turn, all three axes together."""
    part = result.parts["relative_orientation"]
    error = part.error[part.matched & (result.time_s >= from_s)]
    return float(np.rad2deg(np.sqrt(np.mean(np.sum(error**2, axis=1)))))


def stddev_deg(result: EvaluationResult) -> Array:
    """(K,) largest of the three axes."""
    return np.rad2deg(np.sqrt(np.diagonal(result.covariance, axis1=1, axis2=2)[:, :3].max(axis=1)))


@pytest.mark.parametrize("check", checks(ROBOT), ids=str)
def test_contract(check: Check) -> None:
    check()


@pytest.mark.parametrize("check", checks(ROBOT, load(TwoLink, None, AXES)), ids=str)
def test_contract_with_a_hinge(check: Check) -> None:
    check()


@pytest.mark.parametrize("kind", ["free", "hinge"])
def test_orientation_arms_and_biases_are_found_from_nothing(kind: str) -> None:
    """Four motions each: about a degree once settled, and no surer than right."""
    errors, coverage, nees, strange = [], [], [], []
    for seed in range(4):
        made = simulated("swing", kind == "hinge", seed)
        result = judged(made.recording, configured(joint__kind=kind))
        errors.append(rmse_deg(result, from_s=10.0))
        metrics = result.metrics["relative_orientation"]
        coverage.append(metrics["coverage_3_sigma"])
        nees.append(metrics["mean_nees_per_degree_of_freedom"])
        space = ROBOT.estimator(configured(joint__kind=kind), "eskf").space
        true = {
            "proximal_lever_arm": LEVER_ARMS_M[0],
            "distal_lever_arm": LEVER_ARMS_M[1],
            "proximal_gyro_bias": made.gyro_bias_rad_s[0],
            "distal_gyro_bias": made.gyro_bias_rad_s[1],
        }
        for name, value in true.items():
            error = result.mean[-1][space.coordinates(name)] - value
            strange.append(np.abs(error) / np.sqrt(np.diag(result.covariance[-1])[space.tangent(name)]))
        if kind == "hinge":
            axes = [result.mean[-1][space.coordinates(name)] for name in ("proximal_axis", "distal_axis")]
            sign = np.sign(axes[0] @ made.axes[0])
            np.testing.assert_allclose(sign * np.array(axes), made.axes, atol=0.02)
    print(f"simulated {kind}: {np.round(errors, 2)} deg, NEES {np.round(nees, 2)}, 3 sigma {np.round(coverage, 3)}")
    assert max(errors) < 2.0  # one degree of it lies between the truth's frames and the sensors'
    assert min(coverage) >= CONSISTENT["coverage_3_sigma"]
    assert np.mean(nees) < CONSISTENT["mean_nees_per_degree_of_freedom"]
    assert np.mean(np.array(strange) < 3.0) > 0.95


def test_it_is_better_than_its_gyros_alone() -> None:
    """A comparison that is refused always leaves the gyros: 10 times worse within half a minute."""
    made = simulated("swing", False, 1)
    alone = judged(made.recording, configured(joint__gate_probability=1e-12, joint__recover_after=10**6))
    both = judged(made.recording, configured())
    assert rmse_deg(both, 10.0) < 0.2 * rmse_deg(alone, 10.0)


def test_in_slow_motion_only_a_hinge_tells_the_heading() -> None:
    """Gravity tells the tilt, so either knows that; and both know how little they know."""
    made = simulated("slow", True, 2)
    axes = {"joint__kind": "hinge", "joint__axis_stddev_rad": 0.02}
    axes |= {f"joint__{name}_axis": axis.tolist() for name, axis in zip(("proximal", "distal"), made.axes, strict=True)}
    free, hinge = judged(made.recording, configured()), judged(made.recording, configured(**axes))
    assert rmse_deg(hinge, 10.0) < 0.5 * rmse_deg(free, 10.0)
    assert stddev_deg(free)[-1] > 5.0
    assert stddev_deg(hinge)[-1] < 2.5
    for result in (free, hinge):
        metrics = result.metrics["relative_orientation"]
        assert metrics["coverage_3_sigma"] >= CONSISTENT["coverage_3_sigma"]
        assert metrics["mean_nees_per_degree_of_freedom"] < CONSISTENT["mean_nees_per_degree_of_freedom"]


def test_the_imus_need_not_be_read_at_the_same_instants() -> None:
    """Ten milliseconds apart, taken for simultaneous, would be 2 deg and more at these rates."""
    made = simulated("swing", False, 3, distal_delay_s=0.0077)
    result = judged(made.recording, configured())
    assert rmse_deg(result, 10.0) < 1.5
    assert result.metrics["relative_orientation"]["coverage_3_sigma"] >= CONSISTENT["coverage_3_sigma"]
    assert len(result.time_s) > 2400  # with each reading of either


def test_quick_imus_are_smoothed_over_the_same_window() -> None:
    made = simulated("swing", False, 4, 12.0, imu_rate_hz=200.0)
    result = judged(made.recording, configured())
    assert rmse_deg(result, 8.0) < 2.0
    assert result.metrics["relative_orientation"]["coverage_3_sigma"] >= CONSISTENT["coverage_3_sigma"]


def test_imus_that_are_read_too_seldom_are_told() -> None:
    made = simulated("swing", False, 4, 12.0, imu_rate_hz=8.0)
    result = judged(made.recording, configured(imus__longest_gap_s=0.3))
    assert any("joint.half_window_s two periods of the slower IMU" in note for note in result.notes)


@pytest.mark.parametrize("silent", [0, 1])
def test_a_silent_imu_is_told_and_the_covariance_grows_until_it_speaks(silent: int) -> None:
    recording = simulated("swing", False, 0).recording
    sensors = list(recording.sensors)
    times = sensors[silent].stamps_ns * 1e-9
    sensors[silent] = sensors[silent].rows(np.flatnonzero((times < 15.0) | (times >= 16.0)))
    result = judged(replace(recording, sensors=tuple(sensors)), configured())
    name = ("imu/proximal", "imu/distal")[silent]
    assert any(f"No readings of {name}" in note for note in result.notes)
    sigma = np.abs(result.parts["relative_orientation"].error) / result.parts["relative_orientation"].stddev
    stddev, during = stddev_deg(result), (result.time_s > 15.9) & (result.time_s < 16.0)
    assert during.sum() > 2  # it goes on with the other
    assert stddev[during].min() > 45.0
    assert stddev[result.time_s > 20.0].max() < 5.0
    assert sigma[result.time_s > 15.0].max() < 4.0


def with_bad(recording: Recording, sensor: int, kind: str, start_s: float, stop_s: float) -> Recording:
    one: Series = recording.sensors[sensor]
    times, values = one.stamps_ns * 1e-9, one.values.copy()
    bad = (times >= start_s) & (times < stop_s)
    spoilt = {"zeros": 0.0 * values, "stuck": np.tile(values[bad][0], (len(values), 1)), "flipped": -values}
    values[bad] = spoilt[kind][bad]
    sensors = list(recording.sensors)
    sensors[sensor] = replace(one, values=values)
    return replace(recording, sensors=tuple(sensors))


@pytest.mark.parametrize("kind", ["zeros", "stuck", "flipped"])
@pytest.mark.parametrize(("sensor", "duration_s"), [(0, 0.1), (1, 0.5)])
def test_after_bad_readings_it_is_sane_again_within_the_time_that_it_states(
    sensor: int, duration_s: float, kind: str
) -> None:
    recording = simulated("swing", False, 1).recording
    stop_s = 15.0 + duration_s
    result = judged(with_bad(recording, sensor, kind, 15.0, stop_s), configured())
    part = result.parts["relative_orientation"]
    late = result.time_s > stop_s + ROBOT.recovery_s
    assert (np.abs(part.error) / part.stddev)[late].max() < 5.0


def test_links_that_are_no_hinge_are_not_held_to_its_axes() -> None:
    """Configured as a hinge with given axes, moved as a ball joint: the axes are refused, and it says so."""
    made = simulated("swing", False, 5)
    result = judged(made.recording, load(TwoLink, None, AXES))
    assert any("do not turn about the hinge's axes" in note for note in result.notes)
    assert rmse_deg(result, 15.0) < 3.0


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"joint.kind": "hinge", "joint.proximal_axis": [0.0, 1.0, 0.0]}, "give both or none"),
        ({k: v for k, v in AXES.items() if k != "joint.kind"}, "set joint.kind to hinge"),
        ({"imus.distal": "proximal"}, "must be another name"),
        ({"imus.longest_gap_s": 0.02}, "must be longer than joint.half_window_s (0.055)"),
        ({"joint.lever_arm_stddev_m": 0.0}, "joint.lever_arm_stddev_m"),
        ({"joint.kind": "screw"}, "joint.kind"),
    ],
)
def test_configurations_that_cannot_be_are_refused(overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        load(TwoLink, None, overrides)
    assert said in str(refused.value)
