"""Costs of parameters are those of their filter run as a whole over each trial."""

from dataclasses import replace

import numpy as np
import pytest

from hopper_estimation.estimators.filters import body_of, state_filter
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.robot import HopperRobot
from hopper_estimation.training import filter_training
from hopper_estimation.training.filter_training import FilterObjective
from hopper_estimation.training.trials import trials_of
from onboard_estimation.contract.recorded import from_simulator

CONFIGURATION = HopperConfiguration()
BODY = body_of(CONFIGURATION)


@pytest.fixture(scope="module")
def trials():
    robot = HopperRobot()
    recordings = {
        gait: from_simulator(
            robot.simulate(CONFIGURATION, "hardware", gait, 13.0, np.random.default_rng(910_000)), ("body",)
        )
        for gait in ("1m", "3m")
    }
    return trials_of(CONFIGURATION, recordings)


def with_real_stamps(trial, rng):
    """A trial as robots record it: stamps that jitter, lost messages, high-g readings that come a sample late."""
    kept = rng.random(len(trial.time_s)) > 0.005
    signals = trial.signals[kept]
    late = trial.time_s[kept] + rng.uniform(0.0, 8e-5, kept.sum())
    signals["dt"][1:] = np.diff(late)
    signals["usable"][rng.random(len(late)) < 0.1] = 9
    height, velocity = trial.true_height_m[kept], trial.true_velocity_m_s[kept]
    return replace(trial, signals=signals, true_height_m=height, true_velocity_m_s=velocity, time_s=trial.time_s[kept])


@pytest.mark.parametrize("stamps", ["ideal", "real"])
@pytest.mark.parametrize("name", ["kf1", "kf3", "eskf1", "bounce"])
def test_costs_are_those_of_whole_runs(trials, name, stamps):
    if stamps == "real":
        trials = [with_real_stamps(trial, np.random.default_rng(7)) for trial in trials]
        assert all(np.mean(np.abs(trial.signals["dt"] - BODY.nominal_dt) > 1e-5) > 0.5 for trial in trials)
    objective = FilterObjective(CONFIGURATION, name, trials, threads=1, delays=True)
    problem, kind = objective.problem(), state_filter(name, CONFIGURATION.robot)
    wanted = problem.to_units(np.random.default_rng(0).random((5, problem.count)))
    samples = sum(len(trial.signals) for trial in trials)
    hops = sum(len(trial.hops.cycles) for trial in trials)
    expected = []
    for one in objective.full(wanted):
        cost, squares = 0.0, np.zeros(2)
        for trial, costed in zip(trials, objective._trials, strict=True):
            state = kind.new_state(trial.start_height_m, 0.0, np.diag([0.01**2, 0.1**2]), phases.DROP)
            out, events = kind.run(one, BODY, state, trial.signals)
            *sums, count = filter_training.squared_errors(out, trial.true_height_m, trial.true_velocity_m_s)
            squares += np.array(sums) / count * len(trial.signals)
            apex, miscount, surprise, judged = filter_training.apex_errors(events, BODY.length, *costed[4:])
            unlikely = filter_training.SURPRISE_WEIGHT * (surprise + 4.0) if name == "bounce" else 0.0
            cost += judged / hops * (apex + miscount + unlikely)
        expected.append(cost + filter_training.RMSE_WEIGHT * np.sqrt(squares / samples).sum())
    np.testing.assert_allclose(objective(wanted), expected, rtol=1e-12 if name != "bounce" else 1e-6)
    np.testing.assert_array_equal(
        FilterObjective(CONFIGURATION, name, trials, threads=2, delays=True)(wanted), objective(wanted)
    )
    assert np.ptp(expected) > 0.1


def test_a_gap_is_forgotten_before_it_becomes_a_number_that_is_hardly_one():
    gap = phases.remembered_gap(0.0, 0.05, BODY.nominal_dt)
    assert gap == 0.05
    shares = []
    for _ in range(600):
        gap = phases.remembered_gap(gap, BODY.nominal_dt, BODY.nominal_dt)
        shares.append(gap)
    assert shares[0] == 0.9 * 0.05
    assert gap == 0.0
    assert min(one for one in shares if one > 0.0) + BODY.nominal_dt == BODY.nominal_dt  # nothing was lost
