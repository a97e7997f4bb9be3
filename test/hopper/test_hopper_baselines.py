"""Estimators with the leg's encoder: BA1 and DR1 on hops in closed form, and the bounce with the encoder beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hopper_samples_for_tests import CONFIGURATION, ROBOT
from synthetic_hops import BODY, GRAVITY, LENGTH, RATE_HZ, Hops, exact_hops, signals

from benchmarks.hopper.trials import deviations
from hopper_estimation.estimators import encoder_kernels as encoder
from hopper_estimation.estimators.filters import filters_of
from hopper_estimation.model import phases
from hopper_estimation.model.phases import APEX, DROP, LIFTOFF, STANCE_DOWN, STANCE_UP, STARTUP
from hopper_estimation.training.filter_calibration import Trial, filtered, judged, trial_of
from onboard_estimation.judging.simulated_bags import simulated_recording

EXACT_FIT = (2, 3, 0.0)


def parameters(kind: int, leg_kg: float = 0.0, fit: tuple[int, int, float] | None = EXACT_FIT) -> encoder.Encoder:
    """Without the mass of a leg, the body leaves as fast as the leg extends: so do hops in closed form."""
    best = encoder.encoder_of("dr1_best" if kind == encoder.DR1 else "ba1_best", 0.5619, leg_kg)
    return best if fit is None else best._replace(degree=fit[0], readings=fit[1], settle_s=fit[2])


def run(kind: int, p: np.ndarray, hops: Hops, leg=None, height: float = 2.0, phase: int = DROP):
    count = len(hops.dt)
    state = encoder.start_state(LENGTH + height, 0.0, np.diag([1e-4, 1e-4]), phase)
    out, events = np.empty((count, 6)), np.empty(400, phases.EVENT)
    leg = hops.compression if leg is None else leg
    found = encoder.run(
        p, np.zeros(phases.PARAMETER_COUNT), BODY, state, signals(*hops.arguments(), leg=leg), out, events
    )
    return out, events[:found]


def apexes(events: np.ndarray) -> np.ndarray:
    return events["height"][events["kind"] == APEX]


@pytest.mark.parametrize(("kind", "height"), [(encoder.BA1, 1.0), (encoder.DR1, 4.0)])
def test_ballistic_hops_are_exact(kind, height):
    hops = exact_hops(height, 5)
    out, events = run(kind, parameters(kind), hops, height=height)
    found = [(int(e["kind"]), e["time"]) for e in events]
    assert len(found) >= 19
    for (number, at), (true_number, true) in zip(found, hops.events, strict=False):
        assert number == true_number
        # The leg is "pressed" from 3 mm on; max squat is seen by a slope.
        assert -2.0 <= (at - true) * RATE_HZ <= 3.0 + (number == APEX) * 0.005 * RATE_HZ
    assert np.abs(apexes(events)[1:] - hops.apex_m[0]).max() < 0.01 * height
    np.testing.assert_allclose(out[:, 0], hops.height, atol=0.02 * height)


def test_thrust_deceives_the_ballistic_and_not_the_accelerometer():
    hops = exact_hops(2.0, 4, fall=GRAVITY - 3.0)
    deceived = apexes(run(encoder.BA1, parameters(encoder.BA1), hops)[1])[1:]
    # It leaves with v^2 = 2 (g - lift) h, and BA1 believes in v^2 / 2 g.
    np.testing.assert_allclose(deceived - LENGTH, 2.0 * (GRAVITY - 3.0) / GRAVITY, rtol=0.02)
    seen = apexes(run(encoder.DR1, parameters(encoder.DR1), hops)[1])[1:]
    np.testing.assert_allclose(seen - LENGTH, 2.0, rtol=0.02)


def test_shock_of_the_stop_does_not_count_twice():
    """The body loses a share of its speed to the leg right after liftoff: the accelerometer feels what was shared."""
    hops = exact_hops(2.0, 3)
    lost = -0.1 * hops.velocity.max()
    for number, at in hops.events:
        if number == LIFTOFF:
            hops.acceleration[np.searchsorted(hops.time, at) + 2] += lost * RATE_HZ
    fits = (parameters(encoder.DR1, fit=(2, 5, settle)) for settle in (0.0, 0.02))
    settled = [apexes(run(encoder.DR1, fit, hops)[1])[1] for fit in fits]
    np.testing.assert_allclose((np.array(settled) - LENGTH) / 2.0, [0.81, 1.0], atol=0.02)


@pytest.mark.parametrize("kind", [encoder.BA1, encoder.DR1])
def test_missing_readings_of_the_encoder(kind):
    hops = exact_hops(2.0, 5)
    rng = np.random.default_rng(1)
    leg = np.where(rng.random(len(hops.dt)) < 0.2, np.nan, hops.compression)
    out, events = run(kind, parameters(kind), hops, leg)
    assert np.isfinite(out).all()
    np.testing.assert_array_equal(np.diff(events["kind"]) % 4, 1)
    np.testing.assert_allclose(apexes(events)[1:], hops.apex_m[0], atol=0.1)
    # Without any reading there is no touchdown, and a flight that never ends is given up.
    long = exact_hops(2.0, 9)
    out, events = run(kind, parameters(kind), long, np.full(len(long.dt), np.nan))
    assert np.isfinite(out).all()
    assert len(events) == 0
    assert out[-1, 5] == STARTUP


def test_covariance_is_that_of_many_encoders():
    """Noise of the encoder alone: the spread of the apexes is what the covariance says, but for what it adds on top."""
    hops = exact_hops(2.0, 2)
    kind = encoder.BA1
    p = parameters(kind, 0.5619, fit=(1, 4, 0.0))
    p = p._replace(noise=0.002**2, unmodelled=0.0)
    rng = np.random.default_rng(3)
    heights, variances = [], []
    for _ in range(300):
        leg = np.where(hops.compression > 0.0, hops.compression + 0.002 * rng.normal(size=len(hops.dt)), 0.0)
        _, events = run(kind, p, hops, leg)
        top = events[events["kind"] == APEX]
        if len(top):
            heights.append(top["height"][0])
            variances.append(top["variance"][0])
    assert len(heights) > 280
    predicted = np.sqrt(np.median(variances))
    assert 0.8 < np.std(heights) / predicted < 1.2


# ------------------------------------------------------------------------------- the bounce with the encoder beside it

ENTRY = filters_of("").entry("bounce")
START = np.diag([1e-4, 1e-2])


@pytest.fixture(scope="module")
def trial() -> Trial:
    return trial_of(CONFIGURATION, "4100", simulated_recording(ROBOT, CONFIGURATION, "hardware", "2m", 40.0, 4100))


def apex_error_percent(configuration, name, entry, trial) -> float:
    """After the first two hops, in which nothing is known yet of who is right."""
    return float(np.mean(judged(configuration, name, entry, trial)[0].m3_with_missed[2:]))


def test_without_the_leg_it_is_the_bounce(trial):
    signals = trial.signals.copy()
    signals["leg"] = np.nan
    blind = replace(trial, signals=signals)
    alone, both = (
        filtered(CONFIGURATION, name, ENTRY.parameters, blind, START) for name in ("bounce", "bounce_encoder")
    )
    np.testing.assert_array_equal(both.out, alone.out)
    np.testing.assert_array_equal(both.events, alone.events)


HEAVY = replace(CONFIGURATION, robot=replace(CONFIGURATION.robot, leg_mass_kg=4.0 * CONFIGURATION.robot.leg_mass_kg))
"""An encoder whose leg is thought to be four times as heavy as it is: liftoffs seem slower."""


def wrong_spring():
    """A bounce that every hop surprises: it is thought to give back half as much, and that it never differs."""
    parameters = ENTRY.parameters.copy()
    parameters[phases.VEL0] -= 8.0
    return replace(ENTRY, parameters=parameters)


def test_whoever_is_wrong_is_not_believed(trial):
    sound, heavy = CONFIGURATION, HEAVY
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
    for settings in (CONFIGURATION, HEAVY):
        height, _ = deviations(filtered(settings, "bounce_encoder", ENTRY.parameters, trial, START).out, ENTRY, trial)
        assert np.mean(height[np.isfinite(height)] < 3.0) > 0.97
