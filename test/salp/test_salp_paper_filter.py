"""The paper's own filter against FilterPy and scikit-learn, its training, and the form `paper` of a model's file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from support.paper_filter_oracle import PaperOracle

from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.learning.model_file import load
from onboard_estimation.testing import broken_promises
from salp_estimation.estimators.paper_filter import (
    ExactProcesses,
    PaperFilter,
    PaperModel,
    moments,
    read_model,
    squared_distances,
)
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT
from salp_estimation.training.paper_training import fitted, hyper_parameters, likelihood, residuals, sampled

CONFIGURATION = SalpConfiguration()
CHAIN = CONFIGURATION.chain.build()
PAPERS_OWN = (
    "half_of_the_readings_tell_no_more",  # steps of 0.2 s fall on other readings
    "errors_are_as_large_as_stated",  # what differs from day to day is in no variance of the processes
    "innovations_are_white",
    "commands_explain_the_readings_best",
)
"""Promises that the paper's filter does not keep."""


@pytest.fixture(scope="module")
def model() -> PaperModel:
    runs = {
        gait: simulated_recording(ROBOT, CONFIGURATION, "hardware", gait, 27.0, seed)
        for seed, gait in enumerate(("forward", "turning"), 700)
    }
    return fitted(CONFIGURATION, runs, ("", ""), most_points=200)


def parts(model: PaperModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return model.inputs, model.targets, model.hyper_parameters


def test_a_step_is_that_of_filterpy_and_scikit_learn(model: PaperModel) -> None:
    ours, theirs = PaperFilter(CONFIGURATION, model), PaperOracle(CHAIN, *parts(model))
    rng = np.random.default_rng(5)
    mean, spread = np.array([0.3, -0.2, 2.0, 0.1, -0.2]), CONFIGURATION.initial_covariance()
    for _ in range(20):
        u, gyros = 0.1 * rng.normal(size=3), 0.2 * rng.normal(size=3)
        heard = [0, 1, 2] if rng.uniform() < 0.5 else [2]
        wanted = theirs.predicted(mean, spread, u)
        found = ours.predicted(mean, spread, u)
        np.testing.assert_allclose(found[0], wanted[0], rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(found[1], wanted[1], rtol=0.0, atol=1e-9)
        wanted = theirs.corrected(*found, u, gyros, heard)
        mean, spread, _ = ours.corrected(*found, u, gyros, heard)
        np.testing.assert_allclose(mean, wanted[0], rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(spread, wanted[1], rtol=0.0, atol=1e-9)
        assert np.trace(spread) < np.trace(found[1])  # a gyro that tells nothing would agree as well


def test_processes_are_those_of_scikit_learn(model: PaperModel) -> None:
    ours, theirs = ExactProcesses(*parts(model)), PaperOracle(CHAIN, *parts(model))
    at = model.inputs[::17] * 1.2
    for output, process in enumerate(theirs.processes):
        one = slice(output, output + 1)
        mean, stddev = process.predict(theirs.standard(at), return_std=True)
        np.testing.assert_allclose(ours.means(at, one)[:, 0], mean, rtol=0.0, atol=1e-9)
        np.testing.assert_allclose([ours.variances(row, one)[0] for row in at], stddev**2, rtol=0.0, atol=1e-9)


def test_the_likelihood_and_its_slopes_are_those_of_scikit_learn(model: PaperModel) -> None:
    process: GaussianProcessRegressor = PaperOracle(CHAIN, *parts(model)).processes[3]
    (centre, scale), (mean, stddev) = moments(model.inputs), moments(model.targets)
    inputs = (model.inputs - centre) / scale
    target = ((model.targets - mean) / stddev)[:, 3]
    at = np.log([0.7, 1.3, 0.2])
    value, slopes = likelihood(at, squared_distances(inputs, inputs), target)
    wanted, wanted_slopes = process.log_marginal_likelihood(at, eval_gradient=True)
    assert value == pytest.approx(-wanted, abs=1e-8)
    np.testing.assert_allclose(slopes, -wanted_slopes, rtol=1e-8)
    best, _ = likelihood(np.log(hyper_parameters(inputs, target)), squared_distances(inputs, inputs), target)
    assert best < value


def test_residuals_of_the_model_itself_are_noise() -> None:
    """On the scenario `ideal` nothing is left but the noise of motion capture and gyros, and half a period of u."""
    run = sampled(CONFIGURATION, simulated_recording(ROBOT, CONFIGURATION, "ideal", "forward", 20.0, 3))
    _, found = residuals(CHAIN, run)
    moved = np.nanstd(np.diff(run.states[:, 3:], axis=0), axis=0)
    assert (np.nanstd(found[:, 3:5], axis=0) < 0.25 * moved).all()
    assert (np.abs(np.nanmean(found, axis=0)) < 2e-3).all()


def test_a_file_picks_the_filter(model: PaperModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m.npz")
    configuration = replace(CONFIGURATION, residual_model=str(tmp_path / "m.npz"))
    assert load(tmp_path / "m.npz", "paper")[0].kind == "paper"
    assert isinstance(ROBOT.estimator(configuration, "ukf"), PaperFilter)
    with pytest.raises(UserError, match="a model of the form paper has no smoother"):
        ROBOT.smoother(configuration, "ukf")
    recording = simulated_recording(ROBOT, CONFIGURATION, "hardware", "forward", 20.0, 700)
    result = judge(ROBOT, configuration, "ukf", recording, JudgeSettings(seed=1))
    assert len(result.time_s) == pytest.approx(5.0 * 20.0, abs=2)
    assert result.metrics["joint_angles"]["rmse_deg"] < 3.0


def test_a_model_of_the_superseded_form_is_refused(model: PaperModel, tmp_path: Path) -> None:
    replace(model, header=replace(model.header, kind="gaussian_process")).save(tmp_path / "m.npz")
    with pytest.raises(UserError, match=r"train one with --form paper .* or with --form calibrated"):
        read_model(tmp_path / "m.npz")


@pytest.mark.slow
def test_the_filter_keeps_the_contract(model: PaperModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m.npz")
    configuration = replace(CONFIGURATION, residual_model=str(tmp_path / "m.npz"))
    broken = broken_promises(ROBOT, configuration)
    assert set(broken) <= set(PAPERS_OWN)


def test_too_few_points_are_refused() -> None:
    run = simulated_recording(ROBOT, CONFIGURATION, "hardware", "forward", 12.0, 700)
    with pytest.raises(UserError, match=r"49 points .* at least 200 are needed, 40 s"):
        fitted(CONFIGURATION, {"short": run}, ("",))
