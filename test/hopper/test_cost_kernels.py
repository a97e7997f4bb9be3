"""Costs of a population are those of its filters run one by one over each trial."""

from dataclasses import replace

import numpy as np
import pytest

from hopper_estimation import cost_kernels, phase_kernels
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.bounce_kernels import filter_bounces
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_kinds import kernel_body
from hopper_estimation.filter_training import FilterObjective
from hopper_estimation.robot import HopperRobot
from hopper_estimation.training_trials import trials_of
from hopper_estimation.vertical_kernels import Signals
from onboard_estimation.evaluation.recording import from_simulator

CONFIGURATION = HopperConfiguration()
BODY = kernel_body(CONFIGURATION)
KINDS = {"kf1": kernels.KF1, "kf3": kernels.KF3}


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


def population(objective, count, seed=0):
    problem = objective.problem()
    return objective.full(problem.to_units(np.random.default_rng(seed).random((count, problem.count))))


def with_real_stamps(trial, rng):
    """A trial as robots record it: stamps that jitter, lost messages, high-g readings that come a sample late."""
    kept = rng.random(len(trial.time_s)) > 0.005
    signals = Signals(*(column[kept] for column in trial.signals))
    late = trial.time_s[kept] + rng.uniform(0.0, 8e-5, kept.sum())
    signals.dt[1:] = np.diff(late)
    signals.usable[rng.random(len(late)) < 0.1] = 9
    height, velocity = trial.true_height_m[kept], trial.true_velocity_m_s[kept]
    return replace(trial, signals=signals, true_height_m=height, true_velocity_m_s=velocity, time_s=trial.time_s[kept])


@pytest.mark.parametrize("stamps", ["ideal", "real"])
@pytest.mark.parametrize("name", KINDS)
def test_population_costs_are_those_of_single_trials(trials, name, stamps):
    if stamps == "real":
        trials = [with_real_stamps(trial, np.random.default_rng(7)) for trial in trials]
        assert all(np.mean(np.abs(trial.signals.dt - BODY.nominal_dt) > 1e-5) > 0.5 for trial in trials)
    objective = FilterObjective(CONFIGURATION, name, trials, threads=1, delays=True)
    wanted = population(objective, 5)
    joined = objective._trials
    expected = []
    for one in wanted:
        sums = np.zeros(4)
        for t in range(len(trials)):
            samples = slice(*joined.sample_offsets[t : t + 2])
            cycles = slice(*joined.hop_offsets[t : t + 2])
            count, judged = samples.stop - samples.start, cycles.stop - cycles.start
            out, events, squares = np.empty((count, 6)), np.empty((count, phase_kernels.EVENT_SIZE)), np.empty(3)
            signals = Signals(*(column[samples] for column in joined.signals))
            found = kernels.filter_samples(KINDS[name], one, BODY, joined.starts[t].copy(), signals, out, events)
            cost_kernels.add_squares(out, joined.true_height[samples], joined.true_velocity[samples], squares)
            hops = (column[cycles] for column in (joined.touchdown_s, joined.next_touchdown_s, joined.hop_height))
            apex, miscount, _, _ = cost_kernels.hop_errors(found, events, BODY.length, *hops)
            rmse_z, rmse_v = np.sqrt(squares[:2] / squares[2])
            sums += [apex * judged, miscount * judged, rmse_z * rmse_z * count, rmse_v * rmse_v * count]
        rmse = np.sqrt(sums[2] / joined.sample_offsets[-1]) + np.sqrt(sums[3] / joined.sample_offsets[-1])
        expected.append((sums[0] + sums[1]) / joined.hop_offsets[-1] + cost_kernels.RMSE_WEIGHT * rmse)
    problem = objective.problem()
    shares = np.random.default_rng(0).random((5, problem.count))
    np.testing.assert_array_equal(objective(problem.to_units(shares)), expected)
    assert np.ptp(expected) > 0.1


def single_bounces(parameters, start, signals, room=1000):
    """(N, 2) heights and velocities, and events, of one filter that goes by the bounce."""
    out, events = np.empty((len(signals.dt), 2)), np.empty((room, phase_kernels.EVENT_SIZE))
    found = filter_bounces(0, parameters, BODY, start.copy(), signals, out, events)
    return out, events[: min(found, room)]


@pytest.mark.parametrize("stamps", ["ideal", "real"])
def test_costs_of_bounces_are_those_of_single_trials(trials, stamps):
    if stamps == "real":
        trials = [with_real_stamps(trial, np.random.default_rng(7)) for trial in trials]
    objective = FilterObjective(CONFIGURATION, "bounce", trials, threads=1)
    joined, hops = objective._trials, len(objective._trials.hop_height)
    expected = []
    for one in population(objective, 5):
        cost, errors = 0.0, np.zeros(2)
        for t in range(len(trials)):
            samples, cycles = slice(*joined.sample_offsets[t : t + 2]), slice(*joined.hop_offsets[t : t + 2])
            signals = Signals(*(column[samples] for column in joined.signals))
            out, events = single_bounces(one, joined.starts[t], signals)
            columns = (column[cycles] for column in (joined.touchdown_s, joined.next_touchdown_s, joined.hop_height))
            apex, miscount, surprise, judged = cost_kernels.hop_errors(len(events), events, BODY.length, *columns)
            cost += judged / hops * (apex + miscount + cost_kernels.SURPRISE_WEIGHT * surprise)
            squares = np.empty(3)
            cost_kernels.add_squares(out, joined.true_height[samples], joined.true_velocity[samples], squares)
            errors += squares[:2] / squares[2] * (samples.stop - samples.start)
        cost += cost_kernels.RMSE_WEIGHT * np.sqrt(errors / joined.sample_offsets[-1]).sum()
        expected.append(cost + 4.0 * cost_kernels.SURPRISE_WEIGHT)
    problem = objective.problem()
    shares = np.random.default_rng(0).random((5, problem.count))
    np.testing.assert_allclose(objective(problem.to_units(shares)), expected, rtol=1e-12)
    assert np.ptp(expected) > 0.1


def test_a_gap_is_forgotten_before_it_becomes_a_number_that_is_hardly_one():
    gap = phase_kernels.remembered_gap(0.0, 0.05, BODY.nominal_dt)
    assert gap == 0.05
    shares = []
    for _ in range(600):
        gap = phase_kernels.remembered_gap(gap, BODY.nominal_dt, BODY.nominal_dt)
        shares.append(gap)
    assert shares[0] == 0.9 * 0.05
    assert gap == 0.0
    assert min(one for one in shares if one > 0.0) + BODY.nominal_dt == BODY.nominal_dt  # nothing was lost
