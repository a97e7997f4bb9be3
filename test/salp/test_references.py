"""What the filter of the salp has to beat, against SciPy's integration of a dense model and plain sums."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from salp_models import a_model
from salp_recordings import on_hardware, true_state
from scipy.integrate import solve_ivp
from test_chain import landsalp

from onboard_estimation.base.measurement import Estimate
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.judging.judge import judge
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gaits import GAITS
from salp_estimation.robot import ROBOT
from salp_estimation.training.references import integrated_commands, loss_sentences

CONFIGURATION = SalpConfiguration()


def test_integrated_commands_are_those_of_scipy_and_a_dense_model() -> None:
    """Commands at uneven times, one before the start and one long held; asked for between them and after the last."""
    dense, rng = landsalp(), np.random.default_rng(4)
    given_s = np.sort(np.append(rng.uniform(0.0, 2.0, 12), 2.9))
    rim_m_s = np.array([GAITS["turning"].controls(2.0 * time) for time in given_s])
    command = Series(
        ROBOT.channels(CONFIGURATION)[0],
        np.round(1e9 * given_s).astype(np.int64),
        rim_m_s / CONFIGURATION.chain.signed_wheel_radii_m,
    )
    state = np.array([0.3, -0.2, 2.9, 0.2, -0.3])
    start = Estimate(round(1e9 * float(given_s[0] + 0.05)), state, np.eye(5))
    asked_s = np.array([0.8, 1.7, 2.4, 3.3])
    found = integrated_commands(CONFIGURATION, command, start, np.round(1e9 * asked_s).astype(np.int64))
    edges = np.unique(np.concatenate([[1e-9 * start.stamp_ns], given_s[1:], asked_s]))

    def rate(_: float, q: np.ndarray, u: np.ndarray) -> np.ndarray:
        body = dense.motion(q[3:])[0] @ u
        velocity = (body[0] + 1j * body[1]) * np.exp(1j * q[2])
        return np.array([velocity.real, velocity.imag, *body[2:]])

    expected = []
    for begin, end in pairwise(edges):
        held = rim_m_s[np.searchsorted(given_s, begin + 1e-9, side="right") - 1]
        state = solve_ivp(rate, (begin, end), state, "DOP853", args=(held,), rtol=1e-9, atol=1e-11).y[:, -1]
        if end in asked_s:
            expected.append(state)
    np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * np.array(expected)), atol=1e-4)


@pytest.mark.parametrize("trained", [False, True])
def test_an_evaluation_says_what_was_better_than_the_filter(trained: bool, tmp_path: Path) -> None:
    recording = from_simulator(on_hardware("left", 7, 9.0), CONFIGURATION.chain.link_names)
    a_model().save(tmp_path / "model.npz")
    configuration = replace(CONFIGURATION, residual_model=str(tmp_path / "model.npz") if trained else "")
    result = judge(ROBOT, configuration, "ukf", recording)
    found = result.metrics["salp"]
    judged = result.stamps_ns[result.parts["joint_angles"].matched & (result.time_s >= ROBOT.settle_s)]
    angles = true_state(CONFIGURATION, recording, judged)[:, 3:]
    straight, ours = found["joint_angles_assumed_straight_rmse_deg"], found["joint_angles_by_the_filter_rmse_deg"]
    assert straight == pytest.approx(np.rad2deg(np.sqrt(np.mean(angles**2))))
    assert ours == result.metrics["joint_angles"]["rmse_deg"]
    assert ("worse than a chain assumed straight" in result.verdict) == (straight < ours)
    assert ("joint_angles_without_a_model_rmse_deg" in found) == trained
    if trained:  # at 20 Hz what it is at 50
        plain = judge(ROBOT, CONFIGURATION, "ukf", recording).metrics["joint_angles"]["rmse_deg"]
        assert found["joint_angles_without_a_model_rmse_deg"] == pytest.approx(plain, rel=0.1)


def test_runs_that_the_trained_filter_lost_are_counted() -> None:
    held_out = np.array(
        [[0.0, 2.0, 3.0, 5.0, 1.9, 1.0], [1.0, 2.0, 1.0, 4.0, 1.5, 0.9], [2.0, 2.0, 2.0, 9.0, 9.0, 1.0]]
    )
    [said] = loss_sentences(held_out)
    assert (
        "of 3 runs that were held out, it was worse on 1 than the filter without a model, on 2 than a chain ass" in said
    )
    assert "integrated" not in said
    assert "on each of 1 runs" in loss_sentences(held_out[:0:-2])[0]
    assert loss_sentences(held_out[:0]) == []
