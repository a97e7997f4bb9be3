"""Robots unlike those that a residual model was trained with: how far off, what follows for the covariance, and what is
said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from salp_models import a_model
from salp_recordings import true_state
from test_residual_filter import a_case

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.learning import model_file
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import WARN, HealthReport
from salp_estimation.estimators import residual_filter_kernels as kernels
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.paper_filter import read_model
from salp_estimation.estimators.residual_estimator import ResidualEstimator
from salp_estimation.estimators.residual_gyro_kernels import NOVEL_FROM
from salp_estimation.estimators.residual_model import ResidualModel
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT
from salp_estimation.training.residual_training import HeldOutErrors, inflation

Array = NDArray[np.float64]
CONFIGURATION = SalpConfiguration()
LINKS = CONFIGURATION.chain.link_names
WEAK = 0.4
PARAMETERS = slice(8, 47)


@pytest.mark.parametrize("times", [1.0, 3.0])
def test_it_is_the_square_of_how_far_off_a_robot_is(times: float) -> None:
    """Robots so many times further off than the prior says, measured linearly: in the mean over robots."""
    rng = np.random.default_rng(3)
    count, seen = 20, 12
    prior = rng.uniform(0.5, 2.0, count) ** 2
    design = rng.normal(size=(seen, count))
    gain = np.diag(prior) @ design.T @ np.linalg.inv(design @ np.diag(prior) @ design.T + np.eye(seen))
    covariance = np.diag(prior) - gain @ design @ np.diag(prior)
    found = []
    for _ in range(1000):
        robot = times * np.sqrt(prior) * rng.normal(size=count)
        found.append(kernels.novelty(gain @ (design @ robot + rng.normal(size=seen)), covariance, prior))
    assert np.mean(found) == pytest.approx(times**2, rel=0.15)


def test_parameters_drift_as_a_stationary_process_does() -> None:
    """F P F^T + Q, and after a long time those of any robot, whatever was known."""
    case, keep = a_case(3), 0.9
    count, size = case.by_parameters.shape[1], len(case.state)
    first = PARAMETERS.start
    rng = np.random.default_rng(1)
    root = rng.normal(size=(count, count))
    population: Array = rng.normal(size=(1, count))[0]
    prior = root @ root.T
    transition, noise = np.eye(size), np.zeros((size, size))
    here = slice(first, first + count)
    transition[here, here] *= keep
    noise[here, here] = (1.0 - keep**2) * prior
    state, covariance = case.state.copy(), case.covariance.copy()
    kernels.drift(state, covariance, first, population, prior, keep)
    np.testing.assert_allclose(covariance, transition @ case.covariance @ transition.T + noise, atol=1e-12)
    np.testing.assert_allclose(state[here] - population, keep * (case.state[here] - population))
    np.testing.assert_array_equal(np.delete(state, np.r_[here]), np.delete(case.state, np.r_[here]))
    kernels.drift(state, covariance, first, population, prior, 0.0)
    np.testing.assert_allclose(covariance[here, here], prior)
    assert not covariance[here, :first].any()


@pytest.mark.parametrize(("trained", "unlike"), [(1.0, 3.0), (2.0, 1.5), (4.0, 1.0)])
def test_what_is_published_is_that_much_less_sure(trained: float, unlike: float) -> None:
    """As held-out runs asked for; three times as far from the population, three times at least."""
    spread = np.random.default_rng(5).normal(size=(8, 8))
    covariance = spread @ spread.T
    estimator = ResidualEstimator(CONFIGURATION, replace(a_model(), inflation=np.array([2.0 * trained, trained])))
    now = estimator.begun(np.zeros(8), covariance)
    mean, usual = estimator.published(now)
    factors = np.array([1.0, 1.0, 1.0, trained, trained, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(usual, covariance * np.outer(factors, factors), err_msg="a pose that was just given")
    _, usual = estimator.published(now._replace(given=now.given * [0.0, 0.25, 1.0]))
    factors[:2] = 2.0 * trained, np.sqrt(0.25 + 0.75 * (2.0 * trained) ** 2)
    np.testing.assert_allclose(usual, covariance * np.outer(factors, factors), err_msg="what it has drifted since")
    population = a_model().population
    known, state = now.covariance.copy(), now.state.copy()
    known[PARAMETERS, PARAMETERS] *= 1e-6
    state[PARAMETERS] = population.parameters + 3.0 * np.sqrt(np.diag(population.prior))
    _, wider = estimator.published(now._replace(state=state, covariance=known))
    factors[:3], factors[3:5] = 1.0, unlike * trained
    np.testing.assert_allclose(wider, covariance * np.outer(factors, factors), rtol=1e-4)


def of_a_robot(weak: float) -> LoadedRecording:
    """A run with commands that are larger than what the first wheel does, by that share."""
    simulation = ROBOT.simulation(CONFIGURATION, "hardware", "turning", np.random.default_rng(7), imu_rate_hz=50.0)
    recording = simulation.advance(round(20.0 * 1e9))
    told = np.array([1.0 / weak, 1.0, 1.0])
    sensors = tuple(
        replace(one, values=one.values * told) if one.channel.sensor == COMMAND else one for one in recording.sensors
    )
    return from_simulator(replace(recording, sensors=sensors), LINKS)


@pytest.mark.slow
def test_a_weak_wheel_is_told_of_and_a_usual_robot_is_not() -> None:
    words = "the robot moves unlike those that its residual model was trained with"
    channels = ROBOT.channels(CONFIGURATION)
    usual, weak = (Pipeline(ResidualEstimator(CONFIGURATION, a_model()), channels) for _ in range(2))
    usual.run(of_a_robot(1.0).measurements())
    assert not [sentence for sentence in usual.messages if words in sentence]
    recording = of_a_robot(WEAK)
    estimates = weak.run(recording.measurements())
    assert [sentence for sentence in weak.messages if words in sentence]
    assert weak.health["novelty"] > NOVEL_FROM**0.5
    stamps = np.array([one.stamp_ns for one in estimates])
    errors = np.array([one.mean[3:5] for one in estimates]) - true_state(CONFIGURATION, recording, stamps)[:, 3:]
    stddevs = np.sqrt([np.diag(one.covariance)[3:5] for one in estimates])
    assert np.mean(np.abs(errors) < 3.0 * stddevs) >= 0.97
    report = HealthReport(new, "salp")(weak, channels, int(stamps[-1]), 1)
    (command,) = (one for one in report.status if one.hardware_id == COMMAND)
    assert command.level == WARN[0]
    assert words in command.message


# How sure it may be, by runs that were held out.


def held_out(label: str, ratios: NDArray[np.float64]) -> HeldOutErrors:
    """Errors of joint angles over their standard deviations, those of the pose twice as large."""
    squares = (ratios**2).mean(axis=1)
    return HeldOutErrors(label, 0.01 * ratios, (2.0 * ratios, ratios), (4.0 * squares, squares))


def held_out_errors(rng: np.random.Generator, runs: int, scale: float) -> list[HeldOutErrors]:
    """Runs of 400 errors each, so many times as large as stated; most of each is the same all through a run."""
    out = []
    for number in range(runs):
        common = rng.normal(size=(1, 2))
        ratios = scale * (np.sqrt(0.75) * common + 0.5 * rng.normal(size=(400, 2)))
        out.append(held_out(f"run {number}", ratios))
    return out


@pytest.mark.parametrize("scale", [1.5, 12.0])
def test_the_factor_is_that_by_which_errors_are_larger_than_stated(scale: float) -> None:
    found = inflation(held_out_errors(np.random.default_rng(1), 200, scale))
    np.testing.assert_allclose(found, [2.0 * scale, scale], rtol=0.08)


def known(path: Path) -> ResidualModel:
    model = read_model(path)
    assert isinstance(model, ResidualModel)
    return model


def test_the_factor_is_kept_with_the_model_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    replace(a_model(), inflation=np.array([1.5, 2.5])).save(path)
    np.testing.assert_array_equal(known(path).inflation, [1.5, 2.5])
    header, arrays = model_file.load(path)
    older = {name: value for name, value in arrays.items() if name != "inflation"}
    model_file.save(path, header, older)
    np.testing.assert_array_equal(known(path).inflation, 1.0)
    model_file.save(path, header, {**older, "inflation": np.array([2.5])})
    np.testing.assert_array_equal(known(path).inflation, 2.5)
    for wrong in ([], [0.5], [2.0, 0.5], [2.0, 2.0, 2.0]):
        model_file.save(path, header, {**older, "inflation": np.array(wrong)})
        with pytest.raises(UserError, match="inflation that is no number from 1 on"):
            known(path)
