"""The bounce with the leg's encoder beside it: whichever foretells the touchdowns better is believed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hopper_samples_for_tests import CONFIGURATION, ROBOT

from benchmarks.hopper.trials import deviations
from hopper_estimation.estimators.filter_model import filters_of
from hopper_estimation.estimators.filters import body_of, state_filter
from hopper_estimation.model import phases
from hopper_estimation.model.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP, TOUCHDOWN
from hopper_estimation.training.filter_calibration import filtered, judged
from hopper_estimation.training.trials import Trial, trial_of
from onboard_estimation.judging.simulated_bags import simulated_recording

ENTRY = filters_of("").entry("bounce")
START = np.diag([1e-4, 1e-2])


@pytest.fixture(scope="module")
def trial() -> Trial:
    return trial_of(CONFIGURATION, "4100", simulated_recording(ROBOT, CONFIGURATION, "hardware", "2m", 40.0, 4100))


def apex_error_percent(configuration, name, entry, trial) -> float:
    """After the first two hops, in which nothing is known yet of who is right."""
    return float(np.mean(judged(configuration, name, entry, trial)[0].m3_with_missed[2:]))


def without_leg(signals: np.ndarray) -> np.ndarray:
    signals = signals.copy()
    signals["leg"] = np.nan
    return signals


def test_without_the_leg_it_is_the_bounce(trial):
    blind = replace(trial, signals=without_leg(trial.signals))
    alone, both = (
        filtered(CONFIGURATION, name, ENTRY.parameters, blind, START) for name in ("bounce", "bounce_encoder")
    )
    np.testing.assert_array_equal(both.out, alone.out)
    np.testing.assert_array_equal(both.events, alone.events)


def wrong_masses():
    """An encoder whose leg is thought to be four times as heavy as it is: liftoffs seem slower."""
    robot = CONFIGURATION.robot
    return replace(CONFIGURATION, robot=replace(robot, leg_mass_kg=4.0 * robot.leg_mass_kg))


def wrong_spring():
    """A bounce that every hop surprises: it is thought to give back half as much, and that it never differs."""
    parameters = ENTRY.parameters.copy()
    parameters[phases.VEL0] -= 8.0
    return replace(ENTRY, parameters=parameters)


def test_whoever_is_wrong_is_not_believed(trial):
    sound, heavy = CONFIGURATION, wrong_masses()
    bounce, leg = (apex_error_percent(sound, name, ENTRY, trial) for name in ("bounce", "dr1_best"))
    heavier = apex_error_percent(heavy, "dr1_best", ENTRY, trial)
    assert heavier > 4.0 * max(bounce, leg)
    assert apex_error_percent(sound, "bounce_encoder", ENTRY, trial) < 1.2 * max(bounce, leg)
    assert apex_error_percent(heavy, "bounce_encoder", ENTRY, trial) < 1.2 * bounce + 0.5
    slack = wrong_spring()
    weak = apex_error_percent(sound, "bounce", slack, trial)
    assert weak > 1.5 * leg
    assert apex_error_percent(sound, "bounce_encoder", slack, trial) < 1.2 * leg + 0.5


def test_in_stance_the_leg_tells_the_height_and_what_is_said_is_covered(trial):
    out = filtered(CONFIGURATION, "bounce_encoder", ENTRY.parameters, trial, START).out
    alone = filtered(CONFIGURATION, "bounce", ENTRY.parameters, trial, START).out
    known = np.isfinite(trial.true_height_m)
    stance = known & np.isin(alone[:, 5], (STANCE_DOWN, STANCE_UP))
    errors_m = [np.sqrt(np.mean((one[stance, 0] - trial.true_height_m[stance]) ** 2)) for one in (out, alone)]
    assert errors_m[0] < 0.8 * errors_m[1]
    speed_error = np.abs(out[stance, 1] - trial.true_velocity_m_s[stance])
    assert np.mean(speed_error < 3.0 * np.sqrt(out[stance, 4])) > 0.97
    assert np.median(np.sqrt(out[stance, 4])) < 0.5 * np.median(np.sqrt(alone[stance, 4]))
    for settings in (CONFIGURATION, wrong_masses()):
        height, _ = deviations(filtered(settings, "bounce_encoder", ENTRY.parameters, trial, START).out, ENTRY, trial)
        assert np.mean(height[np.isfinite(height)] < 3.0) > 0.97


def test_a_landing_where_nothing_was_read_tells_nothing_of_who_is_right(trial):
    """A gap of 50 ms around the second touchdown: the bounce lands as it foretold, which is no merit."""
    at_s = trial.hops.cycles.touchdown_s[1]
    until = int(np.searchsorted(trial.time_s, at_s + 0.2))
    kept = (np.abs(trial.time_s - at_s) > 0.025)[:until]
    steps = np.diff(trial.time_s[:until][kept], prepend=trial.time_s[0] - trial.signals["dt"][0])
    gapped = trial.signals[:until][kept]
    gapped["dt"] = steps
    kind = state_filter("bounce_encoder", CONFIGURATION.robot)
    remembered = []
    for signals in (gapped, trial.signals[:until]):
        state = kind.new_state(trial.start_height_m, 0.0, START, DROP)
        touchdowns = kind.run(ENTRY.parameters, body_of(CONFIGURATION), state, signals).events
        assert np.sum(touchdowns["kind"] == TOUCHDOWN) == 2
        remembered.append(state[2]["own_done"][0, 0])
    unseen, seen = remembered
    assert unseen < seen


def test_what_both_foretold_is_remembered_when_a_height_is_set():
    kind = state_filter("bounce_encoder", CONFIGURATION.robot)
    old = kind.new_state(1.0, 0.0, START, REBOUND)
    for part in old:
        for name in part.dtype.names:
            part[name] = 7.0
    bounce, leg, both = kind.set_to(old, 2.0, 0.0, START, DROP)
    assert [bounce[name][0] for name in ("z", "bias", "cc", "seen", "time", "grounded")] == [
        2.0,
        7.0,
        7.0,
        7.0,
        7.0,
        0.0,
    ]
    assert leg["count"] == 0
    assert [both[name].ravel()[0] for name in ("own_done", "leg_done", "ratios")] == [7.0] * 3
    assert both["unread"] == np.inf
