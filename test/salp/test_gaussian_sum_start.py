"""Starts that are further off than they are said to be."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from salp_models import a_model
from salp_recordings import true_state

from onboard_estimation.base.measurement import Estimate
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.filtering.state_space import StateSpace, angles, se2
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.gaussian_sum_start import DECIDED_S, log_density, mixture
from salp_estimation.estimators.residual_estimator import ResidualEstimator, initial_covariance
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT

CONFIGURATION = SalpConfiguration()
UNDOUBTED = replace(CONFIGURATION, initial=replace(CONFIGURATION.initial, wrong_start_probability=0.0))
LINKS = CONFIGURATION.chain.link_names
SECONDS = 15.0


def test_readings_that_share_an_error_are_as_likely_as_the_exact_density_says() -> None:
    """A state of variance p, seen by n readings with own errors r and a common one v, in the mean over the readings."""
    own, common, prior, count = 4e-4, 3e-3, 0.02, 40
    covariance = own * np.eye(count) + common + prior
    exact = -0.5 * (count + np.linalg.slogdet(covariance)[1])
    # What the filter does, over the readings' covariance: E (y_k - x_k)^2 by rows that predict each from those before.
    ours, left, weights = 0.0, prior, np.zeros(count)
    for k in range(count):
        off = np.eye(count)[k] - weights
        spread = left + own + count * common
        mean_square = float(off @ covariance @ off)
        ours += log_density(math.sqrt(mean_square), spread, own, count * common, count, math.inf)
        weights = weights + left / spread * off
        left -= left**2 / spread
    assert ours == pytest.approx(exact, abs=0.02 * count)
    taken_apart = sum(log_density(0.0, own + count * common, own, count * common, 1.0, math.inf) for _ in range(count))
    assert taken_apart < exact - 20.0


def test_a_mixture_has_the_moments_of_both() -> None:
    space = StateSpace(se2("pose"), angles("joint_angles", ("alpha_1",)))
    rng = np.random.default_rng(2)
    parts = []
    for mean in ([0.3, -0.1, 3.1, 0.2], [0.32, -0.05, -3.0, -0.4]):
        root = np.tril(rng.normal(size=(4, 4))) * 0.05 + 0.05 * np.eye(4)
        parts.append(Estimate(7, np.array(mean), root @ root.T))
    made = mixture(space, 0.7, *parts)
    draws = [
        space.plus(np.tile(one.mean, (count, 1)), rng.multivariate_normal(np.zeros(4), one.covariance, count))
        for one, count in zip(parts, (70_000, 30_000), strict=True)
    ]
    errors = space.minus(np.vstack(draws), np.tile(made.mean, (100_000, 1)))
    np.testing.assert_allclose(errors.mean(axis=0), 0.0, atol=4e-3)
    np.testing.assert_allclose(made.covariance, np.cov(errors.T), atol=0.04 * np.abs(made.covariance).max())
    assert mixture(space, 1.0, *parts) is parts[0]


@pytest.fixture(scope="module")
def recording() -> LoadedRecording:
    simulation = ROBOT.simulation(CONFIGURATION, "hardware", "turning", np.random.default_rng(7), imu_rate_hz=50.0)
    return from_simulator(simulation.advance(round(SECONDS * 1e9)), LINKS)


def begun(recording: LoadedRecording, configuration: SalpConfiguration, off_deg: float) -> Pipeline:
    """A pipeline that starts at the truth, but for both joint angles."""
    estimator = ResidualEstimator(configuration, a_model())
    first_ns = next(recording.measurements()).stamp_ns
    mean = np.concatenate([true_state(CONFIGURATION, recording, np.array([first_ns]))[0], np.zeros(3)])
    mean[3:5] += math.radians(off_deg)
    initial = Estimate(first_ns, mean, initial_covariance(configuration))
    return Pipeline(estimator, ROBOT.channels(configuration), initial)


def worst_ratio(recording: LoadedRecording, estimates: list[Estimate], from_s: float) -> float:
    """Largest error of a joint angle over its standard deviation, from some time on."""
    stamps = np.array([one.stamp_ns for one in estimates])
    missed = np.array([one.mean[3:5] for one in estimates]) - true_state(CONFIGURATION, recording, stamps)[:, 3:]
    stddevs = np.array([np.sqrt(np.diag(one.covariance)[3:5]) for one in estimates])
    late = stamps >= next(recording.measurements()).stamp_ns + from_s * 1e9
    return float(np.abs(missed / stddevs)[late].max())


@pytest.mark.slow
def test_a_start_that_is_far_off_is_found_out(recording: LoadedRecording) -> None:
    """20 deg off at both joints, told as 5: a usual error after two cycles, where one filter keeps an unlikely one."""
    worst = {}
    for name, configuration in (("doubted", CONFIGURATION), ("believed", UNDOUBTED)):
        pipeline = begun(recording, configuration, 20.0)
        estimates = list(pipeline.run(recording.measurements()))
        worst[name] = worst_ratio(recording, estimates, DECIDED_S + 0.3)
        assert pipeline.state.wide is None
    assert worst["doubted"] < 1.5 < 2.5 < worst["believed"]


@pytest.mark.slow
def test_a_start_that_is_as_told_stays_so(recording: LoadedRecording) -> None:
    """The filter goes on with what it was told, to the last bit, and costs what it did."""
    plain, doubted = (begun(recording, one, 3.0) for one in (UNDOUBTED, CONFIGURATION))
    alone, both = (list(one.run(recording.measurements())) for one in (plain, doubted))
    assert [one.stamp_ns for one in alone] == [one.stamp_ns for one in both]
    np.testing.assert_array_equal(alone[-1].mean, both[-1].mean)
    np.testing.assert_array_equal(alone[-1].covariance, both[-1].covariance)
    assert doubted.state.wide is None
    first = np.sqrt(np.diag(both[0].covariance)[3:5])
    np.testing.assert_allclose(first, math.radians(5.0), rtol=1e-3)  # until it is driven, as sure as it was told
    assert worst_ratio(recording, both, 3.0) < 3.0
