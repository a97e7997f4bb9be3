"""BA1 and DR1 on hops in closed form; the fit before liftoff against numpy.polyfit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from synthetic_hops import BODY, GRAVITY, LENGTH, NOMINAL_DT, RATE_HZ, Hops, exact_hops, signals

from hopper_estimation.estimators import encoder_kernels as encoder
from hopper_estimation.model import phases
from hopper_estimation.model.phases import APEX, DROP, LIFTOFF, MAX_SQUAT, REBOUND, STARTUP, TOUCHDOWN

KINDS = (encoder.BA1, encoder.DR1)
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
    found = encoder.run(p, BODY, state, signals(*hops.arguments(), leg=leg), out, events)
    return out, events[:found]


def apexes(events: np.ndarray) -> np.ndarray:
    return events["height"][events["kind"] == APEX]


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("readings", [3, 7, 20])
def test_fit_is_polyfits(degree, readings):
    rng = np.random.default_rng(readings)
    count = 45  # more than the ring holds
    times = np.sort(rng.uniform(0.0, 0.05, count)) + 100.0
    values = 0.05 - 3.0 * (times - 100.0) + rng.normal(size=count) * 1e-3
    ring = np.zeros((encoder.MOST_READINGS, 2))
    for k in range(count):
        ring[k % encoder.MOST_READINGS] = times[k], values[k]
    now = times[-1] + 0.0007
    since = times[-readings:] - now
    polynomial, covariance = np.polyfit(since, values[-readings:], degree, cov="unscaled")
    for slope, place in ((False, -1), (True, -2)):
        found, variance = encoder.fitted(ring, count, readings, degree, now, NOMINAL_DT, slope)
        assert found == pytest.approx(polynomial[place], rel=1e-7)
        assert variance == pytest.approx(covariance[place, place], rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("height", [1.0, 4.0])
def test_ballistic_hops_are_exact(kind, height):
    hops = exact_hops(height, 5)
    out, events = run(kind, parameters(kind), hops, height=height)
    found = [(int(e["kind"]), e["time"]) for e in events]
    assert len(found) >= 19
    for (number, at), (true_number, true) in zip(found, hops.events, strict=False):
        assert number == true_number
        # The leg is "pressed" from 3 mm on; max squat is seen by a slope.
        assert -2.0 <= (at - true) * RATE_HZ <= 3.0 + (number == APEX) * 0.005 * RATE_HZ
    assert np.abs(apexes(events)[1:] - hops.apex_m).max() < 0.01 * height
    np.testing.assert_allclose(out[:, 0], hops.height, atol=0.02 * height)


def test_thrust_deceives_the_ballistic_and_not_the_accelerometer():
    hops = exact_hops(2.0, 4, lift=3.0)
    deceived = apexes(run(encoder.BA1, parameters(encoder.BA1), hops)[1])[1:]
    # It leaves with v^2 = 2 (g - lift) h, and BA1 believes in v^2 / 2 g.
    np.testing.assert_allclose(deceived - LENGTH, 2.0 * (GRAVITY - 3.0) / GRAVITY, rtol=0.02)
    seen = apexes(run(encoder.DR1, parameters(encoder.DR1), hops)[1])[1:]
    np.testing.assert_allclose(seen - LENGTH, 2.0, rtol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_the_momentum_is_shared_with_the_leg(kind):
    hops = exact_hops(2.0, 2)
    rebound = [run(kind, parameters(kind, leg), hops)[0] for leg in (0.0, 0.0981)]
    first = np.flatnonzero(rebound[0][:, 5] == REBOUND)[0]
    fallen = GRAVITY / RATE_HZ
    ratio = rebound[1][first, 1] / rebound[0][first, 1]
    assert ratio == pytest.approx(0.5619 / (0.5619 + 0.0981), abs=fallen / rebound[0][first, 1])


def test_shock_of_the_stop_does_not_count_twice():
    """The body loses a share of its speed to the leg right after liftoff: the accelerometer feels what was shared."""
    hops = exact_hops(2.0, 3)
    lost = -0.1 * hops.velocity.max()
    for number, at in hops.events:
        if number == LIFTOFF:
            hops.acceleration[np.searchsorted(hops.time, at) + 2] += lost * RATE_HZ
    settled = [
        apexes(run(encoder.DR1, parameters(encoder.DR1, fit=(2, 5, settle)), hops)[1])[1] for settle in (0.0, 0.02)
    ]
    np.testing.assert_allclose((np.array(settled) - LENGTH) / 2.0, [0.81, 1.0], atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_readings_of_the_encoder(kind):
    hops = exact_hops(2.0, 5)
    rng = np.random.default_rng(1)
    leg = np.where(rng.random(len(hops.dt)) < 0.2, np.nan, hops.compression)
    out, events = run(kind, parameters(kind), hops, leg)
    assert np.isfinite(out).all()
    np.testing.assert_array_equal(np.diff(events["kind"]) % 4, 1)
    np.testing.assert_allclose(apexes(events)[1:], hops.apex_m, atol=0.1)
    # Without any reading there is no touchdown, and a flight that never ends is given up.
    long = exact_hops(2.0, 9)
    out, events = run(kind, parameters(kind), long, np.full(len(long.dt), np.nan))
    assert np.isfinite(out).all()
    assert len(events) == 0
    assert out[-1, 5] == STARTUP


@pytest.mark.parametrize("kind", KINDS)
def test_a_gap_in_stance_is_bridged_by_the_velocity(kind):
    hops = exact_hops(2.0, 2)
    leg = hops.compression.copy()
    touch = np.searchsorted(hops.time, hops.events[0][1])
    gap = slice(touch + 8, touch + 14)
    leg[gap] = np.nan
    out, _ = run(kind, parameters(kind), hops, leg)
    fallen = hops.height[touch + 7] - hops.height[touch + 13]
    assert fallen > 0.03
    assert np.abs(out[gap, 0] - hops.height[gap]).max() < 0.2 * fallen


@pytest.mark.parametrize("kind", KINDS)
def test_a_leg_that_bounces_on_its_stop_does_not_touch_down(kind):
    hops = exact_hops(2.0, 3)
    leg = hops.compression.copy()
    for number, at in hops.events:
        if number == LIFTOFF:
            since = (hops.time - at - 0.004) / 0.03
            leg += np.where((since > 0.0) & (since < 1.0), 0.008 * np.sin(np.pi * since), 0.0)
    _, events = run(kind, parameters(kind), hops, leg)
    kinds = events["kind"]
    shorter = min(len(kinds), len(hops.events))
    assert shorter >= 11
    np.testing.assert_array_equal(kinds[:shorter], [number for number, _ in hops.events[:shorter]])


@pytest.mark.parametrize("kind", KINDS)
def test_standing_is_no_hop(kind):
    rng = np.random.default_rng(2)
    count = int(60 * RATE_HZ)
    hops = exact_hops(2.0, 1)
    hops.dt, hops.acceleration = np.full(count, NOMINAL_DT), 0.1 * rng.normal(size=count)
    leg = 0.0002 * rng.normal(size=count)
    out, events = run(kind, parameters(kind, fit=None), hops, leg, height=0.0, phase=STARTUP)
    assert len(events) == 0
    np.testing.assert_array_equal(out[:, 5], STARTUP)
    np.testing.assert_allclose(out[:, :2], [[LENGTH, 0.0]] * count)
    # Pressed and let go slowly, it still stands.
    leg[2000:2150] += 0.02 * np.sin(np.linspace(0.0, np.pi, 150)) ** 2
    out, events = run(kind, parameters(kind, fit=None), hops, leg, height=0.0, phase=STARTUP)
    assert APEX not in events["kind"]
    assert out[-1, 5] == STARTUP


@pytest.mark.parametrize("kind", KINDS)
def test_covariance_is_that_of_many_encoders(kind):
    """Noise of the encoder alone: the spread of the apexes is what the covariance says, but for what it adds on top."""
    hops = exact_hops(2.0, 2)
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


def test_events_are_in_order_whatever_the_encoder_says():
    rng = np.random.default_rng(4)
    hops = exact_hops(1.0, 8)
    for share in (0.01, 0.2, 1.0):
        for kind in KINDS:
            wild = rng.normal(size=len(hops.dt)) * 0.05
            leg = np.where(rng.random(len(hops.dt)) < share, wild, hops.compression)
            out, events = run(kind, parameters(kind, fit=None), hops, leg, height=1.0)
            assert np.isfinite(out).all()
            assert np.all(out[:, 2] * out[:, 4] >= out[:, 3] ** 2 * (1.0 - 1e-9))
            kinds = events["kind"].tolist()
            for before, after in pairwise(kinds):
                assert after == (before + 1) % 4 or after == TOUCHDOWN
            assert np.all(np.diff(events["sample"]) > 0)
            assert MAX_SQUAT in kinds
