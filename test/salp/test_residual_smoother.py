"""Smoother of the filter with residual models: its steps against dense algebra and the general smoother, then on runs.

The model is made by hand of round numbers: the subject is looking back, not what is learned.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from salp_models import a_model
from salp_recordings import on_hardware
from test_residual_filter import Case, a_case, dense_prediction, predicted

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Estimate, Measurement
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.filtering.moments import Later, Moments
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators import residual_filter_kernels as kernels
from salp_estimation.estimators.residual_gyro_kernels import ROBOT_TIME_S
from salp_estimation.estimators.residual_smoother import APART_NS, Correction, PastStep, Prediction, ResidualSmoother
from salp_estimation.model.configuration import InitialConfiguration, SalpConfiguration
from salp_estimation.robot import ROBOT

Array = NDArray[np.float64]
CONFIGURATION = SalpConfiguration(initial=InitialConfiguration(wrong_start_probability=0.0))
"""One filter from the start on; where two are followed, see `test_gaussian_sum_start`."""
LINKS = CONFIGURATION.chain.link_names
CHANNELS = ROBOT.channels(CONFIGURATION)
SECONDS = 15.0


# Single steps.


def prediction_of(case: Case, duration_s: float) -> Prediction:
    twist = duration_s * case.rates(case.state)[:3]
    return Prediction(None, case.linearised(), duration_s, twist)


def drifted(case: Case, covariance: Array, duration_s: float) -> Array:
    """What the drift of the parameters makes of it, but for its noise."""
    count = case.by_parameters.shape[1]
    out, nothing = covariance.copy(), np.zeros((count, count))
    first = 3 * case.links - 1
    kernels.drift(case.state.copy(), out, first, nothing[0], nothing, float(np.exp(-duration_s / ROBOT_TIME_S)))
    return out


def test_transition_is_that_of_the_prediction() -> None:
    """By the filter's own covariance, exactly; by differences of the motion, but for the twist's own curvature."""
    case, other = a_case(3), a_case(3, 1)
    duration_s = 0.02
    transition = prediction_of(case, duration_s).times_transition(np.eye(len(case.state)))
    # The process noise is the same for both covariances, so that it leaves their difference.
    other = replace(case, covariance=other.covariance)
    first, second = (drifted(case, predicted(one, duration_s)[1], duration_s) for one in (case, other))
    change = transition @ (case.covariance - other.covariance) @ transition.T
    np.testing.assert_allclose(first - second, change, rtol=0.0, atol=1e-13)
    first, second = (drifted(case, dense_prediction(one, duration_s)[1], duration_s) for one in (case, other))
    dense = first - second
    moved = np.abs(dense - (case.covariance - other.covariance)).max()
    assert np.abs(change - dense).max() < 5e-3 * moved


def test_backward_pass_is_the_general_smoother() -> None:
    """Linear and Gaussian, with transitions as the filter has them: the same as Rauch, Tung and Striebel's."""
    rng = np.random.default_rng(3)
    size = len(a_case(2).state)
    mean, covariance = rng.normal(size=size), a_case(2).covariance + np.diag(rng.uniform(0.1, 1.0, size))
    before_mean, before, cross = mean, covariance, covariance
    steps: list[tuple[Array, ...]] = []
    history: PastStep | None = None
    marks: list[PastStep | None] = []
    for k in range(12):
        if k > 0:
            step: PastStep
            if k == 7:
                pose = np.eye(size)[-3:]
                step = Correction(history, pose, pose.T, np.zeros((3, 3)), np.zeros(3))
                transition = np.diag([*np.ones(size - 3), 0.0, 0.0, 0.0])
            else:
                step = replace(prediction_of(a_case(2, k), 0.3), before=history)
                transition = step.times_transition(np.eye(size))
            root = 0.3 * rng.normal(size=(size, size))
            cross = covariance @ transition.T
            before_mean = mean = transition @ mean
            before = covariance = transition @ covariance @ transition.T + root @ root.T
            history = step
        for width in (1, 3):
            slopes, noise = rng.normal(size=(width, size)), np.diag(rng.uniform(0.1, 1.0, width))
            spread = slopes @ covariance @ slopes.T + noise
            gain = covariance @ slopes.T @ np.linalg.inv(spread)
            innovation = np.linalg.cholesky(spread) @ rng.normal(size=width)
            mean, covariance = mean + gain @ innovation, covariance - gain @ spread @ gain.T
            history = Correction(history, slopes, gain, np.linalg.inv(spread), innovation)
        marks.append(history)
        steps.append((before_mean, before, cross, mean, covariance))
    later = Later.nothing(size)
    walked = history
    for k in range(11, -1, -1):
        while walked is not marks[k]:
            assert isinstance(walked, (Prediction, Correction))
            later = walked.back(later)
            walked = walked.before
        *_, filtered_mean, filtered = steps[k]
        if k < 11:
            before_mean, before, cross, *_ = steps[k + 1]
            gain = cross @ np.linalg.inv(before)
            mean = filtered_mean + gain @ (mean - before_mean)
            covariance = filtered + gain @ (covariance - before) @ gain.T
        found = later.smoothed(Moments(filtered_mean, filtered))
        np.testing.assert_allclose(found.mean, mean, rtol=0.0, atol=1e-8)
        np.testing.assert_allclose(found.covariance, covariance, rtol=0.0, atol=1e-8)


# Runs.


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "made.npz"
    a_model().save(path)
    return path


@pytest.fixture(scope="module")
def recording() -> LoadedRecording:
    return from_simulator(on_hardware("left", 7, SECONDS), LINKS)


def judged(recording: LoadedRecording, model_file: Path, smoothed: bool) -> EvaluationResult:
    configuration = replace(CONFIGURATION, residual_model=str(model_file))
    settings = JudgeSettings(settle_s=0.0, smooth=smoothed, beacon_s=5.0)
    return judge(ROBOT, configuration, "ukf", recording, settings)


@pytest.mark.slow
def test_a_smoothed_run_is_nearer_and_surer(recording: LoadedRecording, model_file: Path) -> None:
    filtered, smoothed = (judged(recording, model_file, one) for one in (False, True))
    assert smoothed.estimator == "ukf, smoothed"
    assert any(note.startswith("Smoothed:") for note in smoothed.notes)
    assert smoothed.sensors == filtered.sensors
    np.testing.assert_array_equal(smoothed.stamps_ns[-1], filtered.stamps_ns[-1])
    np.testing.assert_array_equal(smoothed.mean[-1], filtered.mean[-1])
    np.testing.assert_array_equal(smoothed.covariance[-1], filtered.covariance[-1])
    assert np.diff(smoothed.stamps_ns)[:-1].min() >= APART_NS
    places = np.searchsorted(filtered.stamps_ns, smoothed.stamps_ns)
    np.testing.assert_array_equal(filtered.stamps_ns[places], smoothed.stamps_ns)
    np.testing.assert_array_equal(smoothed.covariance, smoothed.covariance.transpose(0, 2, 1))
    assert (np.linalg.eigvalsh(smoothed.covariance)[:, 0] > 0.0).all()
    # Nowhere larger: in no direction of joint angles and biases, whose errors have the same axes in both. Of gyros
    # with one stamp the filter's record has the last, and the smoother knows them all at the first.
    for part in (slice(3, 5), slice(5, 8)):
        less = filtered.covariance[places, part, part] - smoothed.covariance[:, part, part]
        assert np.linalg.eigvalsh(less)[:, 0].min() > -1e-12
    heading = filtered.covariance[places, 2, 2] - smoothed.covariance[:, 2, 2]
    assert heading.min() > -1e-12
    errors = {}
    for name, result in (("filtered", filtered), ("smoothed", smoothed)):
        early = result.time_s < 0.5 * SECONDS
        errors[name] = {part: np.sqrt(np.nanmean(result.parts[part].error[early] ** 2)) for part in result.parts}
        nees = np.nanmean(result.parts["joint_angles"].nees)
        assert nees < 6.0, name
    assert errors["smoothed"]["joint_angles"] < errors["filtered"]["joint_angles"]
    # The first pose of the beacon tells what the heading was from the start.
    assert errors["smoothed"]["pose"] < 0.3 * errors["filtered"]["pose"]


def smoothed_run(measurements: list[Measurement]) -> Pipeline:
    pipeline = Pipeline(ResidualSmoother(CONFIGURATION, a_model()), CHANNELS)
    pipeline.run(measurements)
    return pipeline


@pytest.fixture(scope="module")
def measurements(recording: LoadedRecording) -> list[Measurement]:
    """The first four seconds, in order."""
    start_ns = next(recording.measurements()).stamp_ns
    return [one for one in recording.measurements() if one.stamp_ns < start_ns + 4_000_000_000]


@pytest.fixture(scope="module")
def plain(measurements: list[Measurement]) -> list[Estimate]:
    """Those measurements smoothed as they are."""
    return smoothed_run(measurements).smoothed()


def pose_given(stamp_ns: int, x: float, stddev: float) -> Measurement:
    covariance = np.diag([stddev**2] * 6)
    return Measurement(stamp_ns, "set_pose", np.array([x, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, *covariance.ravel()]))


def test_a_pose_that_replaces_the_filters_says_nothing_of_the_past(
    measurements: list[Measurement], plain: list[Estimate]
) -> None:
    at_ns = measurements[len(measurements) // 2].stamp_ns + 1
    replaced = sorted([*measurements, pose_given(at_ns, 50.0, 0.01)], key=lambda one: one.stamp_ns)
    moved = smoothed_run(replaced).smoothed()
    before = [one for one in moved if one.stamp_ns < at_ns]
    after = [one for one in moved if one.stamp_ns > at_ns]
    assert len(before) > 40
    assert len(after) > 40
    for one, other in zip(before, plain, strict=False):
        assert one.stamp_ns == other.stamp_ns
        np.testing.assert_allclose(one.mean[:2], other.mean[:2], rtol=0.0, atol=0.005)
        np.testing.assert_allclose(one.mean[3:5], other.mean[3:5], rtol=0.0, atol=0.02)
        # What came later still tells joint angles and biases, and so hardly less of the pose.
        np.testing.assert_allclose(
            one.covariance, other.covariance, rtol=0.0, atol=0.03 * np.abs(other.covariance).max()
        )
    assert min(one.mean[0] for one in after) > 49.0


def test_no_smoother_without_a_model() -> None:
    with pytest.raises(UserError, match="--model FILE"):
        ROBOT.smoother(CONFIGURATION, "ukf")
