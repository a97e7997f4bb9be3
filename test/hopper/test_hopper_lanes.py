"""Many filters at once give the numbers of one filter after another: the paper's to the last bit."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from hopper_estimation import cost_kernels, phase_kernels
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.bounce_kernels import filter_bounces
from hopper_estimation.bounce_lanes import filter_bounce_lanes
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_calibration import filtered
from hopper_estimation.filter_kinds import kernel_body
from hopper_estimation.filter_training import FilterObjective
from hopper_estimation.lane_kernels import LANES, filter_lanes
from hopper_estimation.robot import HopperRobot
from hopper_estimation.training_trials import trials_of
from hopper_estimation.vertical_kernels import Signals
from onboard_estimation.evaluation.recording import from_simulator
from onboard_estimation.evaluation.training import TrainingOptions, read_training_bag

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


def changed(trial, **columns):
    """A trial with other signals: functions of the columns of these names, which change them."""
    signals = Signals(*(column.copy() for column in trial.signals))
    for name, change in columns.items():
        change(getattr(signals, name))
    return replace(trial, signals=signals)


def troubled(trial, rng):
    """Signals of a trial with all that readings may be: missing, clipped, late, with gaps, at rest now and then."""
    signals = Signals(*(column.copy() for column in trial.signals))
    dt, usable, count = signals.dt, signals.usable, len(signals.dt)
    usable[rng.random(count) < 0.02] = 1
    usable[rng.random(count) < 0.02] = 9
    usable[rng.random(count) < 0.01] = 12
    usable[rng.random(count) < 0.01] = 2
    usable[rng.random(count) < 0.01] = 4
    usable[rng.random(count) < 0.005] = 0
    dt[rng.random(count) < 0.01] *= 2.0
    dt[rng.random(count) < 0.002] *= 25.0
    for rest in (slice(3000, 3900), slice(-900, None)):
        signals.acceleration[rest, 0], signals.acceleration[rest, 1] = 0.01 * rng.normal(size=900), 0.0
        usable[rest] = 3
    return signals


def lanes_in_trouble(trials, name):
    """Of each trial: parameters of all lanes, start, signals with trouble, the truth with a tenth of it unknown."""
    objective, rng = FilterObjective(CONFIGURATION, name, trials, threads=1, delays=True), np.random.default_rng(1)
    for number, trial in enumerate(trials):
        signals, height = troubled(trial, rng), trial.true_height_m.copy()
        height[rng.random(len(height)) < 0.1] = np.nan
        parameters, start = population(objective, LANES, number), objective._trials.starts[number]
        yield parameters, start, signals, (height, trial.true_velocity_m_s)


def in_lanes(lanes, parameters, start, signals, truth, most=400):
    """Squares, events and how many there are, of all lanes."""
    squares, found = np.empty((LANES, 3)), np.empty(LANES, dtype=np.int64)
    events = np.empty((LANES, most, phase_kernels.EVENT_SIZE))
    lanes(parameters, BODY, start, signals, (*truth, 4, 1e6), squares, events, found)
    assert found.max() > 8
    return squares, events, found


@pytest.mark.parametrize("stamps", ["ideal", "real"])
@pytest.mark.parametrize("name", KINDS)
def test_population_costs_are_those_of_single_trials(trials, name, stamps):
    if stamps == "real":
        trials = [with_real_stamps(trial, np.random.default_rng(7)) for trial in trials]
        assert all(np.mean(np.abs(trial.signals.dt - BODY.nominal_dt) > 1e-5) > 0.5 for trial in trials)
    objective = FilterObjective(CONFIGURATION, name, trials, threads=1, delays=True)
    wanted = population(objective, LANES + 3)
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
    shares = np.random.default_rng(0).random((LANES + 3, problem.count))
    np.testing.assert_array_equal(objective(problem.to_units(shares)), expected)
    assert np.ptp(expected) > 0.1


@pytest.mark.parametrize("name", KINDS)
def test_events_and_errors_with_readings_that_are_missing_or_late(trials, name):
    for parameters, start, signals, truth in lanes_in_trouble(trials, name):
        squares, events, found = in_lanes(partial(filter_lanes, KINDS[name]), parameters, start, signals, truth)
        truth_z, truth_v = truth
        for k in range(LANES):
            out, single = np.empty((len(truth_z), 6)), np.empty((400, phase_kernels.EVENT_SIZE))
            count = kernels.filter_samples(KINDS[name], parameters[k], BODY, start.copy(), signals, out, single)
            assert found[k] == count
            # The sample's number is that within a call: one sample for what lanes leave to the single filter.
            columns = [column for column in range(phase_kernels.EVENT_SIZE) if column != phase_kernels.E_SAMPLE]
            np.testing.assert_array_equal(events[k, :count, columns], single[:count, columns].T)
            error_z, error_v = out[::4, 0] - truth_z[::4], out[::4, 1] - truth_v[::4]
            known = np.isfinite(error_z) & np.isfinite(error_v)
            sums = [np.minimum(error[known] ** 2, 1e6) for error in (error_z, error_v)]
            np.testing.assert_array_equal(squares[k], [*(np.cumsum(one)[-1] for one in sums), known.sum()])


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
    for one in population(objective, LANES + 3):
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
    shares = np.random.default_rng(0).random((LANES + 3, problem.count))
    np.testing.assert_allclose(objective(problem.to_units(shares)), expected, rtol=1e-9)
    assert np.ptp(expected) > 0.1


def test_bounces_with_readings_that_are_missing_or_late(trials):
    for parameters, start, signals, truth in lanes_in_trouble(trials, "bounce"):
        squares, events, found = in_lanes(filter_bounce_lanes, parameters, start, signals, truth)
        for k in range(LANES):
            out, single = single_bounces(parameters[k], start, signals)
            assert found[k] == len(single)
            np.testing.assert_allclose(events[k, : found[k], :5], single[:, :5], rtol=1e-9, atol=1e-9)
            wanted = np.empty(3)
            cost_kernels.add_squares(out, *truth, wanted)
            np.testing.assert_allclose(squares[k], wanted, rtol=1e-9)


def test_recordings_with_real_stamps_are_filtered_as_everywhere_else(shared_data):
    folder = shared_data / "unknown_hopper" / "robot_1"
    if not folder.is_dir():
        pytest.skip(f"no unknown_hopper in {shared_data}")
    recording = read_training_bag(HopperRobot(), CONFIGURATION, folder, TrainingOptions())
    (trial,) = trials_of(CONFIGURATION, {"robot_1": recording})
    objective = FilterObjective(CONFIGURATION, "kf1", [trial], threads=1)
    parameters = population(objective, LANES)
    start, truth = objective._trials.starts[0], (trial.true_height_m, trial.true_velocity_m_s)
    _, events, found = in_lanes(partial(filter_lanes, kernels.KF1), parameters, start, trial.signals, truth, 2000)
    for k in range(LANES):
        run = filtered(CONFIGURATION, "kf1", parameters[k], trial, np.diag([0.01**2, 0.1**2]))
        assert len(run.events) == found[k] > 8
        np.testing.assert_array_equal(events[k, : found[k], :5], run.events[:, :5])


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
