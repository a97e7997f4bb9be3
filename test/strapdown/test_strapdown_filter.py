"""The filter on simulated walks with known truth, and on input that is not as it should be."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from onboard_estimation.base.configuration import describe, load
from onboard_estimation.base.installed import resource
from onboard_estimation.base.measurement import Estimate, Measurement
from onboard_estimation.base.series import Recording
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.filtering.consistency import chi_square_band
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.judging.judge import judge
from onboard_estimation.pipeline.pipeline import Pipeline
from strapdown_estimation.estimators.estimator import StrapdownEstimator
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.model.state import SPACE, move
from strapdown_estimation.robot import ROBOT
from strapdown_estimation.simulation.simulator import GAITS, Conditions, Walk, simulate

POSITION = SPACE.coordinates("position")
SENSOR = "imu/foot"


def measurements(recording: Recording) -> list[Measurement]:
    (imu,) = recording.sensors
    return [Measurement(int(stamp), SENSOR, value) for stamp, value in zip(imu.stamps_ns, imu.values, strict=True)]


def run(given: list[Measurement], **overrides: object) -> tuple[list[Estimate], Pipeline]:
    pipeline = Pipeline(StrapdownEstimator(load(Strapdown, None, overrides)))
    return pipeline.run(given), pipeline


@cache
def walk(scenario: str, gait: str, seed: int, duration_s: float = 20.0) -> Recording:
    return ROBOT.simulate(Strapdown(), scenario, gait, duration_s, np.random.default_rng(seed))


def judged(recording: Recording | LoadedRecording, **overrides: object) -> dict:
    loaded = from_simulator(recording, ("foot",)) if isinstance(recording, Recording) else recording
    return judge(ROBOT, load(Strapdown, None, overrides), "eskf", loaded).metrics["position"]


def lying(seconds: float, seed: int = 0) -> list[Measurement]:
    """An IMU that lies tilted, with noise and biases, and is not touched."""
    rng = np.random.default_rng(seed)
    gravity = Rotation.from_euler("ZYX", [0.3, -0.2, 3.0]).inv().apply([0, 0, 9.80665])
    count = int(200 * seconds)
    values = np.hstack([rng.normal(0.002, 0.008, (count, 3)), gravity + 0.03 + rng.normal(0.0, 0.02, (count, 3))])
    return [Measurement(k * 5_000_000, SENSOR, one) for k, one in enumerate(values)]


def test_simulated_readings_are_the_motions_derivatives() -> None:
    """Integrated finely from the true state, the perfect readings lead along the true path."""
    motion = Walk(GAITS["normal"], 12.0, np.random.default_rng(0), Conditions())
    times = np.arange(0.0, 9.0, 5e-4)
    readings = motion.readings(times)
    positions, attitudes = motion.pose(times)
    at = SPACE.origin()
    at[POSITION], at[SPACE.coordinates("attitude")] = positions[0], attitudes[0].as_quat()
    at[SPACE.coordinates("velocity")] = (motion.pose(np.array([1e-4]))[0] - motion.pose(np.array([-1e-4]))[0])[0] / 2e-4
    for k in range(1, len(times)):
        at, _ = move(at, readings[k - 1], readings[k], 5e-4, 9.80665)
    np.testing.assert_allclose(at[POSITION], positions[-1], atol=2e-3)
    turn = Rotation.from_quat(at[SPACE.coordinates("attitude")]).inv() * attitudes[-1]
    assert turn.magnitude() < 1e-4


def test_simulated_foot_stands_in_stance() -> None:
    """The point of contact moves by no more than the stated swaying between touchdown and lift-off."""
    conditions = Conditions(ringing_m=0.0)
    motion = Walk(GAITS["fast"], 15.0, np.random.default_rng(1), conditions)
    for down, off in zip(motion.touchdown_s[:-1], motion.lift_off_s[1:], strict=True):
        positions, attitudes = motion.pose(np.linspace(down, off, 50))
        contact = positions - attitudes.apply(conditions.lever_arm_m)
        assert np.abs(contact - contact.mean(axis=0)).max() < 4.0 * conditions.sway_m


def test_simulation_repeats() -> None:
    one, two = (simulate(GAITS["slow"], 8.0, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(one.sensors[0].values, two.sensors[0].values)
    np.testing.assert_array_equal(one.truth[0].values, two.truth[0].values)


@pytest.mark.parametrize("gait", ["normal", "slow", "fast"])
def test_simulated_walks_stay_on_the_ground(gait: str) -> None:
    found = judged(walk("walk", gait, 11))
    assert found["position_vertical_rmse_m"] < 0.01
    assert found["position_ate_rmse_m"] < 0.012 * found["true_path_length_m"]
    assert found["coverage_3_sigma"] > 0.99


@pytest.mark.parametrize("gait", ["normal", "slow"])
def test_stairs_are_climbed(gait: str) -> None:
    """The height follows the stairs (17 cm each) and comes back down with them: no stair is taken for the last one."""
    recording = walk("stairs", gait, 12)
    climb = np.ptp(recording.truth[0].values[:, 2])
    found = judged(recording)
    assert climb > 0.6
    assert found["position_vertical_rmse_m"] < 0.03
    assert found["coverage_3_sigma"] > 0.99


def test_known_levels_help_on_stairs() -> None:
    recording = walk("stairs", "slow", 13, 40.0)
    with_levels, without = judged(recording), judged(recording, **{"ground.enabled": False})
    assert with_levels["position_vertical_rmse_m"] < without["position_vertical_rmse_m"]


@pytest.mark.slow
def test_consistent_over_seeds() -> None:
    """NEES of the position, averaged over the seeds at each instant.

    The filter allows for more than is simulated (the recorded sensor's unmodelled errors), so it errs to the safe side:
    the average stays below the band's upper end nearly always, and is no tenth of what it should be.
    """
    seeds = 12
    values = []
    for seed in range(seeds):
        loaded = from_simulator(walk("walk", "normal", 100 + seed), ("foot",))
        values.append(judge(ROBOT, Strapdown(), "eskf", loaded).parts["position"].nees[::20])
    averaged = np.mean(values, axis=0)
    _, high = chi_square_band(3, 0.95, seeds)
    assert np.mean(averaged < high) > 0.9
    assert 0.2 < np.mean(averaged[20:]) / 3.0 < 1.2


def test_lying_still_it_stays_where_it_is() -> None:
    record, pipeline = run(lying(20.0))
    means, end = np.array([one.mean for one in record]), record[-1]
    stddev = np.sqrt(np.diag(end.covariance))
    assert record[0].stamp_ns == pytest.approx(200_000_000, abs=5_000_000)
    assert np.abs(means[:, POSITION]).max() < 0.005
    assert np.abs(end.mean[SPACE.coordinates("velocity")]).max() < 0.002
    # The gyro's bias is learnt at rest, and the stated uncertainty is right.
    bias = end.mean[SPACE.coordinates("gyro_bias")]
    assert np.abs(bias - 0.002).max() < 3.0 * stddev[SPACE.tangent("gyro_bias")].max() < 0.006
    assert pipeline.breakdowns == 0
    assert pipeline.statistics()[SENSOR]["gated"] == 0


def test_origin_and_heading_are_zero_at_the_start() -> None:
    record, _ = run(lying(1.0))
    np.testing.assert_allclose(record[0].mean[POSITION], 0.0, atol=1e-12)
    forward = Rotation.from_quat(record[0].mean[SPACE.coordinates("attitude")]).apply([1.0, 0, 0])
    assert abs(np.arctan2(forward[1], forward[0])) < 1e-9


def test_never_at_rest_gives_no_estimate() -> None:
    rng = np.random.default_rng(0)
    shaken = [
        Measurement(k * 5_000_000, SENSOR, rng.normal([0, 0, 0, 0, 0, 9.8], [1, 1, 1, 3, 3, 3])) for k in range(600)
    ]
    record, _ = run(shaken)
    assert record == []


def test_a_steady_turn_is_no_rest() -> None:
    turn = np.array([0, 0, 0.5, 0, 0, 0])
    turning = [Measurement(one.stamp_ns, SENSOR, one.value + turn) for one in lying(3.0)]
    record, _ = run(turning)
    assert record == []


@pytest.mark.parametrize("storage_order", ["sorted", "shuffled"])
def test_mounting_does_not_matter(storage_order: str) -> None:
    """Another attitude of the IMU on the foot, or late messages, give the same path."""
    given = measurements(walk("walk", "normal", 21))
    reference, _ = run(given)
    if storage_order == "sorted":
        mounting = Rotation.random(random_state=8)
        given = [
            Measurement(m.stamp_ns, SENSOR, np.concatenate([mounting.apply(m.value[:3]), mounting.apply(m.value[3:])]))
            for m in given
        ]
        record, _ = run(given)
        lengths = [np.linalg.norm(np.diff([e.mean[POSITION] for e in r], axis=0), axis=1) for r in (reference, record)]
        np.testing.assert_allclose(lengths[0], lengths[1], atol=1e-5)
        return
    rng = np.random.default_rng(9)
    arrival = np.argsort(np.arange(len(given)) + rng.uniform(0, 10, len(given)), kind="stable")
    record, pipeline = run([given[k] for k in arrival])
    assert pipeline.statistics()[SENSOR]["late"] > 100
    np.testing.assert_array_equal(record[-1].mean, reference[-1].mean)
    np.testing.assert_array_equal([e.mean for e in record], [e.mean for e in reference])


def test_not_a_number_is_left_out_and_the_gap_bridged() -> None:
    given = measurements(walk("walk", "normal", 22))
    bad = list(given)
    for k in range(400, len(bad), 50):
        bad[k] = Measurement(bad[k].stamp_ns, SENSOR, np.full(6, np.nan))
    reference, _ = run(given)
    record, pipeline = run(bad)
    assert pipeline.statistics()[SENSOR]["invalid"] == len(range(400, len(bad), 50))
    assert pipeline.breakdowns == 0
    assert np.linalg.norm(record[-1].mean[POSITION] - reference[-1].mean[POSITION]) < 0.2


def test_uncertainty_covers_a_gap() -> None:
    """Half a second without readings in a swing: the filter knows that it missed something, and how much."""
    recording = walk("walk", "normal", 23)
    given = measurements(recording)
    gap = range(900, 1000)
    record, _ = run([m for k, m in enumerate(given) if k not in gap])
    at = {one.stamp_ns: one for one in record}
    before, after = at[given[899].stamp_ns], at[given[1000].stamp_ns]
    assert np.sqrt(after.covariance[0, 0]) > np.sqrt(before.covariance[0, 0]) + 1.0
    assert np.linalg.eigvalsh(record[-1].covariance)[0] > 0.0


def test_saturation_is_told_from_the_range() -> None:
    """Clipped at 3 g, told or not: told, the uncertainty covers the error; untold, contradictions show at times."""
    recording = walk("walk", "fast", 24)
    imu = recording.sensors[0]
    values = np.clip(imu.values, *(np.array([-1, 1])[:, None] * [30, 30, 30, 25, 25, 25]))
    assert (values != imu.values).any(axis=1).sum() > 50
    clipped = Recording((type(imu)(imu.channel, imu.stamps_ns, values),), recording.truth)
    untold, told = judged(clipped), judged(clipped, **{"imu.accelerometer_range_m_s2": 25.0})
    assert told["mean_nees_per_degree_of_freedom"] < untold["mean_nees_per_degree_of_freedom"]
    assert told["coverage_3_sigma"] > 0.97 > untold["coverage_3_sigma"]


def test_wrong_velocity_is_doubted_at_rest() -> None:
    """A velocity far outside its uncertainty is refused by the gate at first, then gives way to the rest."""
    given = lying(4.0)
    estimator = StrapdownEstimator(Strapdown())
    state = state_after(estimator, given[:400])
    mean = state.filtered.moments.mean.copy()
    mean[SPACE.coordinates("velocity")] = [1.0, 0.0, 0.5]
    wrong = Moments(mean, state.filtered.moments.covariance)
    state = state._replace(filtered=state.filtered._replace(moments=wrong))
    innovations = []
    for one in given[400:]:
        state, last, innovation, *_ = estimator.step(state, one)
        innovations.append(innovation)
    accepted = [one.accepted for one in innovations]
    assert not any(accepted[:19])
    assert all(accepted[25:])
    assert sum(one.inflation > 1.0 for one in innovations) == 1
    assert np.abs(last.mean[SPACE.coordinates("velocity")]).max() < 0.01


def state_after(estimator: StrapdownEstimator, given: list[Measurement], initial: Estimate | None = None) -> Any:
    state = estimator.start(initial)
    for one in given:
        state = estimator.step(state, one).state
    return state


def test_going_on_from_a_state_that_was_kept_is_as_going_straight_on() -> None:
    given = measurements(walk("walk", "fast", 25))[:1600]
    kept = state_after(StrapdownEstimator(Strapdown()), given[:700])
    state_after(StrapdownEstimator(Strapdown()), given)
    straight, estimator = run(given)[0], StrapdownEstimator(Strapdown())
    for _ in range(2):
        state = kept
        for one in given[700:]:
            state, repeated, *_ = estimator.step(state, one)
        np.testing.assert_array_equal(repeated.mean, straight[-1].mean)
        np.testing.assert_array_equal(repeated.covariance, straight[-1].covariance)
    assert estimator.step(estimator.start(None), given[0]).estimate is None


def test_default_file_holds_the_defaults() -> None:
    assert load(Strapdown, resource("config/strapdown.yaml")) == Strapdown()
    assert all(one.doc for one in describe(Strapdown))
