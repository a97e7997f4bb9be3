"""Vertical filters of the hopper against FilterPy, numerical derivatives and hops in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from synthetic_hops import BODY, GRAVITY, LENGTH, NOMINAL_DT, RATE_HZ, exact_hops, signals

from hopper_estimation.estimators import error_state_kernels as error_state
from hopper_estimation.estimators import vertical_kernels as vertical
from hopper_estimation.model import phases
from hopper_estimation.model.phases import (
    APEX,
    DROP,
    LIFTOFF,
    MAX_SQUAT,
    PHASE_AFTER,
    REBOUND,
    STANCE_DOWN,
    STARTUP,
    TOUCHDOWN,
)

KINDS = ("kf1", "kf2", "kf3", "eskf1", "eskf2")
START_COVARIANCE = np.diag([1e-4, 1e-2])
START_BIAS_VARIANCE = 0.01


def parameters(**changes: float) -> np.ndarray:
    """Parameters that detect events of exact readings at once and believe hardly any inferred measurement."""
    p = np.zeros(phases.PARAMETER_COUNT)
    p[phases.F_STATE], p[phases.F_PHASE], p[phases.SWITCH] = 400.0, 400.0, 14.0
    p[phases.SIGMA_A], p[phases.SIGMA_B], p[phases.SIGMA_V], p[phases.SIGMA_P] = 1e-3, 10.0, 10.0, 10.0
    p[phases.JERK], p[phases.THRUST1] = 2000.0, 1.0
    for name, value in changes.items():
        p[getattr(phases, name)] = value
    return p


TRUSTING = {
    "F_STATE": 60.0,
    "F_PHASE": 90.0,
    "SIGMA_A": 3.0,
    "SIGMA_B": 0.8,
    "SIGMA_V": 0.3,
    "SIGMA_P": 0.02,
    "VEL2": 0.4,
    "VEL1": -0.3,
    "CH1": 0.2,
    "THRUST1": 0.9,
    "THRUST0": 0.4,
    "DELAY_TD": 0.003,
    "DELAY_MS": 0.004,
    "DELAY_LO": 0.002,
}


def start(name: str, height: float, velocity: float = 0.0, phase: int = DROP) -> np.ndarray:
    if name.startswith("eskf"):
        return error_state.start_state(height, velocity, START_COVARIANCE, phase)
    bias = START_BIAS_VARIANCE if name == "kf2" else 0.0
    return vertical.start_state(height, velocity, START_COVARIANCE, phase, bias)


def run(name: str, p: np.ndarray, state: np.ndarray, arguments, side=None):
    """(out, events) of a filter by its name."""
    out, events = np.empty((len(arguments[0]), 6)), np.empty(1000, phases.EVENT)
    kernel = error_state.run if name.startswith("eskf") else vertical.run
    found = kernel(int(name[-1]) - 1, p, BODY, state, signals(*arguments, side=side), out, events)
    return out, events[:found]


def noisy_hops(seed: int = 4):
    """Arguments with noise, lost samples, a thrust, and readings that one or no sensor can give."""
    rng = np.random.default_rng(seed)
    count = 5000
    kept = rng.random(count) > 0.02
    kept[1350:1365] = False  # a gap, in flight
    hops = exact_hops(2.0, 5, times=np.arange(1, count + 1)[kept] / RATE_HZ)
    dt, low, high, usable, goal, thrust = hops.arguments()
    low += rng.normal(size=len(dt))
    high += 3.0 * rng.normal(size=len(dt))
    usable[rng.random(len(dt)) < 0.02] = 2
    usable[rng.random(len(dt)) < 0.02] = 1
    usable[rng.random(len(dt)) < 0.01] = 0
    goal[len(dt) // 2 :] = 3.0
    return hops, (dt, low, high, usable, goal, thrust + rng.uniform(0.0, 2.0, len(dt)))


# --- the filters' arithmetic


def reference(name: str, p: np.ndarray, arguments, events: np.ndarray, out: np.ndarray) -> np.ndarray:
    """(N, 5) z, v and their covariance by FilterPy, told which event was seen at which sample."""
    with_bias, error = name != "kf1" and name != "kf3", name.startswith("eskf")
    kf = KalmanFilter(dim_x=3, dim_z=1, dim_u=1)
    kf.x = np.array([[LENGTH + 2.0], [0.0], [0.0]])
    kf.P = np.diag([*np.diag(START_COVARIANCE), START_BIAS_VARIANCE if with_bias else 0.0])
    at = {int(e["sample"]): int(e["kind"]) for e in events}
    rows = np.empty((len(out), 5))
    filtered, doubt, gap = None, 0.0, 0.0

    def update(row, value, deviation, inferred=False):
        nonlocal doubt
        before, variance = kf.P[1, 1], deviation**2
        if inferred and not error:  # a velocity from the estimate: no better than the readings behind that
            variance /= 1.0 - min(doubt / before, vertical.LARGEST_SHARE)
        kf.update(np.array([[value]]), R=np.array([[variance]]), H=np.array([row]))
        if row[0] or row[1]:
            doubt *= kf.P[1, 1] / before

    samples = signals(*arguments)
    for n, (dt, _, _, _, goal, thrust) in enumerate(zip(*arguments, strict=True)):
        held = 0.0 if filtered is None else filtered
        chosen, distrust = phases.choose(samples[n], held, GRAVITY, p[phases.SWITCH] * GRAVITY)
        is_gap = dt > phases.GAP_STEPS * NOMINAL_DT
        gap = dt if is_gap else phases.FORGOTTEN * gap
        if is_gap:  # as before, and it may have changed at any time
            distrust += phases.GAP_M_S2**2 + (chosen - held) ** 2
        deviation = np.sqrt(p[phases.SIGMA_A] ** 2 + distrust)
        step = dt if abs(dt - NOMINAL_DT) > 1e-5 else NOMINAL_DT
        gain = 1.0 - 1.0 / (1.0 + 2.0 * np.pi * p[phases.F_STATE] * step)
        filtered = chosen if filtered is None else filtered + gain * (chosen - filtered)
        to = np.array([[0.5 * dt * dt], [dt], [0.0]])
        transition = np.array([[1.0, dt, -0.5 * dt * dt], [0.0, 1.0, -dt], [0.0, 0.0, 1.0]])
        walk = np.diag([0.0, 0.0, 1e-4 * dt if with_bias else 0.0])
        kf.predict(np.array([[held if is_gap else filtered]]), B=to, F=transition, Q=deviation**2 * to @ to.T + walk)
        doubt += distrust * dt**2
        event, phase = at.get(n), out[n, 5]
        if event == TOUCHDOWN or (event == LIFTOFF and name != "kf3"):
            delay = p[phases.DELAY_TD if event == TOUCHDOWN else phases.DELAY_LO]
            speed = np.hypot(kf.x[1, 0], np.sqrt(kf.P[1, 1]))
            update([1.0, -delay, 0.0], LENGTH, np.hypot(p[phases.SIGMA_P], speed * gap))
        if event == MAX_SQUAT and name != "kf3":
            update([0.0, 1.0, 0.0], p[phases.DELAY_MS] * filtered, p[phases.SIGMA_V], inferred=True)
        if event == LIFTOFF and name in ("kf1", "kf2"):
            v, y = kf.x[1, 0], goal / 4.0
            quadratic = np.polyval(p[[phases.VEL2, phases.VEL1, phases.VEL0]], v / 5.0)
            scale = np.exp(0.05 * (quadratic + p[phases.CH1] * y + p[phases.CH0]))
            update([0.0, 1.0, 0.0], scale * v, p[phases.SIGMA_V], inferred=True)
        if name in ("kf2", "eskf2") and event is None and phase in (DROP, REBOUND):
            pushed = p[phases.THRUST1] * thrust + 0.1 * p[phases.THRUST0] - GRAVITY
            update([0.0, 0.0, 1.0], chosen - pushed, p[phases.SIGMA_B])
        rows[n] = kf.x[0, 0], kf.x[1, 0], kf.P[0, 0], kf.P[0, 1], kf.P[1, 1]
    assert not error or with_bias
    return rows


@pytest.mark.parametrize("name", KINDS)
def test_state_and_covariance_are_filterpys(name):
    _, arguments = noisy_hops()
    p = parameters(**TRUSTING)
    out, events = run(name, p, start(name, LENGTH + 2.0), arguments)
    kinds = events["kind"].tolist()
    assert [kinds.count(kind) for kind in range(4)] == pytest.approx([5, 5, 4.5, 4.5], abs=1.0)
    assert STARTUP not in out[:, 5]
    expected = reference(name, p, arguments, events, out)
    scale = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(out[:, :2] / scale[:2], expected[:, :2] / scale[:2], atol=1e-9)
    np.testing.assert_allclose(out[:, [2, 4]], expected[:, [2, 4]], rtol=1e-9, atol=1e-13)
    size = np.sqrt(expected[:, 2] * expected[:, 4])
    np.testing.assert_allclose(out[:, 3] / size, expected[:, 3] / size, atol=1e-9)
    p[phases.SIGMA_P] *= 1.0001  # a filter that differs by so little is seen
    other = reference(name, p, arguments, events, out)
    assert np.abs((out[:, :2] - other[:, :2]) / scale[:2]).max() > 1e-9


def test_error_covariance_follows_the_nominal_derivative():
    rng = np.random.default_rng(2)
    count = error_state.ERROR_COUNT
    for _ in range(10):
        x = rng.normal(size=count) * [2.0, 5.0, 0.1, 0.1, 1.0, 0.05, 0.05]
        force, step = rng.normal(size=3) * [20.0, 20.0, 200.0], rng.uniform(1e-3, 5e-3)

        def moved(at, step=step, force=force):
            at = at.copy()
            error_state.propagate(at, step, *force, GRAVITY)
            return at

        h = 1e-6
        jacobian = np.column_stack([(moved(x + h * e) - moved(x - h * e)) / (2.0 * h) for e in np.eye(count)])
        root = rng.normal(size=(count, count))
        covariance = root @ root.T
        still, noisy = np.zeros((count, count)), covariance.copy()
        variance = 7.0
        error_state.propagate_covariance(x, still, step, *force, variance)  # what is added, whatever was there
        error_state.propagate_covariance(x, noisy, step, *force, variance)
        expected = jacobian @ covariance @ jacobian.T
        np.testing.assert_allclose(noisy - still, expected, rtol=1e-6, atol=1e-6)
        to = np.array([0.5 * step * step, step])
        np.testing.assert_allclose(still[:2, :2], variance * np.outer(to, to), rtol=1e-12)
        assert np.linalg.eigvalsh(still).min() >= -1e-15


# --- phases


LATE_SAMPLES = {TOUCHDOWN: 2.0, MAX_SQUAT: 3.0, LIFTOFF: 2.0, APEX: 2.0}
"""Max squat is seen by a difference over three samples."""


@pytest.mark.parametrize(("name", "height"), [("kf2", 4.0), ("eskf2", 4.0), ("kf1", 1.0)])
def test_exact_hops_are_seen_in_order_and_time(name, height):
    hops = exact_hops(height, 5)
    out, events = run(name, parameters(), start(name, LENGTH + height), hops.arguments())
    found = list(zip(events["kind"].tolist(), events["time"].tolist(), strict=True))
    shorter = min(len(found), len(hops.events))  # the last apex is at the last sample, or thereafter
    assert [kind for kind, _ in found[:shorter]] == [kind for kind, _ in hops.events[:shorter]]
    assert shorter >= 19
    for (kind, at), (_, true) in zip(found, hops.events, strict=False):
        assert -1.0 <= (at - true) * RATE_HZ <= LATE_SAMPLES[kind] + 1.0, (kind, at, true)
    apexes = events["height"][events["kind"] == APEX]
    np.testing.assert_allclose(apexes, hops.apex_m[0], atol=0.05 * height)
    # The phase after each sample is the one that the last event began.
    last = np.searchsorted(events["sample"], np.arange(len(out)), side="right") - 1
    begun = np.array([DROP, *(PHASE_AFTER[kind] for kind, _ in found)])
    np.testing.assert_array_equal(out[:, 5], begun[last + 1])


def test_a_touchdown_that_was_none_is_given_up():
    """Caught in the hand and carried: no leg is pressed for so long."""
    hops = exact_hops(1.0, 1)
    dt, low, _, usable, goal, thrust = hops.arguments()
    low = np.where(hops.time > hops.events[0][1], 4.0 + 2.0 * hops.time, low)
    state = start("kf1", LENGTH + 1.0)
    out, events = run("kf1", parameters(JERK=1000.0), state, (dt, low, low, usable, goal, thrust))
    assert events["kind"].tolist() == [TOUCHDOWN]
    end = np.searchsorted(hops.time, hops.events[0][1] + 0.26)
    np.testing.assert_array_equal(out[end:, 5], STARTUP)
    assert out[end, 2] > 0.09
    assert out[end, 4] > 9.0


def test_neither_is_a_spike_at_touchdown_a_max_squat_nor_ringing_a_touchdown():
    hops = exact_hops(2.0, 4)
    dt, low, _, usable, goal, thrust = hops.arguments()
    for kind, at in hops.events:
        if kind in (TOUCHDOWN, LIFTOFF):
            since = np.maximum(hops.time - at, 0.0)
            low += 40.0 * np.exp(-since / 0.008) * np.sin(2.0 * np.pi * 190.0 * since)
    low[np.searchsorted(hops.time, hops.events[0][1])] += 150.0
    _, events = run("kf1", parameters(F_PHASE=30.0), start("kf1", LENGTH + 2.0), (dt, low, low, usable, goal, thrust))
    kinds = events["kind"]
    shorter = min(len(kinds), len(hops.events))
    assert shorter >= 15
    np.testing.assert_array_equal(kinds[:shorter], [kind for kind, _ in hops.events[:shorter]])
    assert events["time"][1] - events["time"][0] > 0.004


def test_a_touchdown_ends_a_rebound_whose_apex_was_missed():
    hops = exact_hops(1.0, 4)
    dt, low, _, usable, goal, thrust = hops.arguments()
    state = start("kf3", LENGTH + 1.0)
    # A reading that is wrong by 12 m/s^2 in one rebound: the velocity does not turn before the ground comes.
    times = {(kind, number // 4): at for number, (kind, at) in enumerate(hops.events)}
    wrong = (hops.time > times[LIFTOFF, 1] + 0.01) & (hops.time < times[TOUCHDOWN, 2] - 0.01)
    _, events = run("kf3", parameters(), state, (dt, low + 12.0 * wrong, low, usable, goal, thrust))
    kinds = events["kind"].tolist()
    assert kinds[:9] == [TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX, TOUCHDOWN, MAX_SQUAT, LIFTOFF, TOUCHDOWN, MAX_SQUAT]


# --- any parameters


def random_parameters(rng: np.random.Generator) -> np.ndarray:
    """Inside table II's bounds, every fourth in their corners."""
    low = np.array([5, 5, 12, 1e-4, 1e-4, 1e-4, 1e-4, *[-10] * 7, 200, 0, 0, 0], float)
    high = np.array([400, 400, 14.5, *[10] * 4, *[10] * 7, 20000, 0.06, 0.03, 0.06], float)
    share = rng.random(len(low))
    if rng.random() < 0.25:
        share = np.round(share)
    logarithmic = np.isin(np.arange(len(low)), [0, 1, 3, 4, 5, 6, 14])
    linear = low + (high - low) * share
    return np.where(logarithmic, np.abs(low) ** (1.0 - share) * np.abs(high) ** share, linear)


@pytest.mark.parametrize("name", ["kf2", "eskf2"])
def test_no_parameters_lead_astray(name):
    """100 vectors on hops with clipped, wrong and missing readings: finite, valid, positive semi-definite."""
    rng = np.random.default_rng(7)
    _, arguments = noisy_hops(8)
    arguments = [np.ascontiguousarray(one[:3000]) for one in arguments]
    arguments[1][rng.random(3000) < 0.01] = 147.0
    arguments[2][rng.random(3000) < 0.002] = -1961.0
    arguments[0][1500] = 0.3
    side = rng.normal(size=(3000, 2)) * np.abs(arguments[1])[:, None] * 0.1
    valid = {(PHASE_AFTER[k - 1], PHASE_AFTER[k]) for k in range(4)}
    valid |= {(phase, STARTUP) for phase in range(5)} | {(STARTUP, STANCE_DOWN), (REBOUND, STANCE_DOWN)}
    for _ in range(100):
        p, state = random_parameters(rng), start(name, LENGTH + 2.0)
        out, events = run(name, p, state, arguments, side)
        assert np.isfinite(out).all(), p.tolist()
        assert all(np.isfinite(state[field]).all() for field in state.dtype.names), p.tolist()
        assert all(np.isfinite(events[field]).all() for field in events.dtype.names), p.tolist()
        assert out[:, [2, 4]].min() >= 0.0, p.tolist()
        assert np.all(out[:, 3] ** 2 <= out[:, 2] * out[:, 4] * (1.0 + 1e-7) + 1e-18), p.tolist()
        in_phase = out[:, 5].astype(int)
        change = np.flatnonzero(np.diff(in_phase))
        assert set(zip(in_phase[change].tolist(), in_phase[change + 1].tolist(), strict=True)) <= valid
        if name.startswith("eskf"):
            covariance = state["p"][0]
            size = np.sqrt(np.diag(covariance))
            correlation = covariance / np.outer(size, size)
            np.testing.assert_allclose(correlation, correlation.T, atol=1e-9)
            assert np.linalg.eigvalsh(correlation).min() > -1e-9, p.tolist()
