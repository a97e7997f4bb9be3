"""The filter that goes by the bounce, against FilterPy and hops in closed form: restitution, bias, gaps, hands."""

from __future__ import annotations

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from synthetic_hops import BODY, GRAVITY, LENGTH, NOMINAL_DT, RATE_HZ, STANCE_S, Hops, arguments_of, exact_hops, signals

from hopper_estimation.estimators import bounce_events, bounce_kernels
from hopper_estimation.model import phases
from hopper_estimation.model.phases import (
    APEX,
    DROP,
    LIFTOFF,
    MAX_SQUAT,
    REBOUND,
    STANCE_DOWN,
    STANCE_UP,
    STARTUP,
    TOUCHDOWN,
)

START = np.diag([0.01**2, 0.1**2])


def parameters(**changes: float) -> np.ndarray:
    p = np.zeros(phases.PARAMETER_COUNT)
    p[phases.F_STATE], p[phases.F_PHASE], p[phases.SWITCH] = 100.0, 60.0, 14.0
    p[phases.SIGMA_A], p[phases.SIGMA_V], p[phases.SIGMA_P] = 0.3, 0.05, 0.01
    p[phases.JERK], p[phases.DELAY_TD], p[phases.STANCE_TIME] = 1500.0, 0.003, STANCE_S
    for name, value in changes.items():
        p[getattr(phases, name)] = value
    return p


def bounces(*arguments, **more) -> Hops:
    """Of stances that last equally long; readings are those of an instant, not of a mean over a step."""
    hops = exact_hops(*arguments, quintic=True, **more)
    before, after = (hops.motion(hops.time + one)[1] for one in (-1e-6, 1e-6))
    hops.acceleration = (after - before) / 2e-6
    return hops


def run(arguments, p=None, height=2.0, state=None, columns=9, body=BODY):
    """(out, events, state)."""
    if state is None:
        state = bounce_events.start_state(LENGTH + height, 0.0, START, DROP)
    out, events = np.empty((len(arguments[0]), columns)), np.empty(1000, phases.EVENT)
    p = parameters() if p is None else p
    found = bounce_kernels.run(p, body, state, signals(*arguments[:4], np.nan, np.nan), out, events)
    return out, events[:found], state


def apexes(events) -> np.ndarray:
    return events[events["kind"] == APEX]


# --- arithmetic


def reference(p, arguments, events, height, ground_step=0.0) -> np.ndarray:
    """(N, 6) z, v, their covariance and the ground by FilterPy, told the events; without gaps.

    Over (z, v, bias, restitution, ground), all of them against the ground of the start.
    """
    kf = KalmanFilter(dim_x=5, dim_z=1, dim_u=1)
    kf.x = np.array([[LENGTH + height], [0.0], [0.0], [0.0], [0.0]])
    kf.P = np.diag([*np.diag(START), bounce_events.BIAS_STDDEV_M_S2**2, bounce_events.RESTITUTION_SPREAD**2, 0.0])
    at = {int(e["sample"]): int(e["kind"]) for e in events}
    rows, filtered, time, phase = [], None, 0.0, DROP
    landed, speed, unsure = 0.0, 0.0, 0.0
    for n, (dt, low, high, *_) in enumerate(zip(*arguments, strict=True)):
        chosen = high if abs(low + GRAVITY) > p[phases.SWITCH] * GRAVITY else low
        rate = 2.0 * np.pi * p[phases.F_STATE]
        filtered = chosen if filtered is None else filtered + rate * dt / (1.0 + rate * dt) * (chosen - filtered)
        density = p[phases.SIGMA_A] ** 2 * NOMINAL_DT
        if phase in (STANCE_DOWN, STANCE_UP):
            density = (bounce_events.STANCE_SHARE * 1.6 * max(speed, 1.0)) ** 2 / p[phases.STANCE_TIME]
        to, noise = np.array([[0.5 * dt * dt], [dt], [0.0], [0.0], [0.0]]), np.zeros((5, 5))
        noise[:2, :2] = density * np.array([[dt**3 / 3.0, dt**2 / 2.0], [dt**2 / 2.0, dt]])
        transition = np.eye(5)
        transition[0, 1], transition[0, 2], transition[1, 2] = dt, -0.5 * dt * dt, -dt
        kf.predict(np.array([[filtered]]), B=to, F=transition, Q=noise)
        time += dt
        event = at.get(n)
        unevenness = p[phases.SIGMA_P] ** 2 + bounce_events.LEAST_POSITION_M**2

        def measured(row, value, variance):
            kf.update(np.array([[value]]), R=np.array([[variance]]), H=np.array([row]))

        if event == TOUCHDOWN:
            kf.P[4, 4] += ground_step**2
            delay = p[phases.DELAY_TD]
            spread = (kf.x[1, 0] ** 2 + kf.P[1, 1]) * bounce_events.SEEN_STDDEV_S**2
            measured([1.0, -delay, 0.0, 0.0, -1.0], LENGTH, unevenness + spread)
            landed, speed, unsure = time - delay, -kf.x[1, 0], kf.P[1, 1]
        elif event == MAX_SQUAT:
            measured([0.0, 1.0, 0.0, 0.0, 0.0], p[phases.DELAY_MS] * filtered, bounce_events.SQUAT_STDDEV_M_S**2)
        elif event == LIFTOFF:
            quadratic = np.polyval(p[[phases.VEL2, phases.VEL1, phases.VEL0]], speed / 5.0)
            e, since = 0.6 * np.exp(0.05 * quadratic), max(time - landed - p[phases.STANCE_TIME], 0.0)
            kf.P[2, 2] += bounce_events.BIAS_WALK
            kf.P[3, 3] += bounce_events.RESTITUTION_WALK**2
            spread = (p[phases.SIGMA_V] * e * speed / 5.0) ** 2 + e * e * unsure
            measured([0.0, 1.0, 0.0, -e * speed, 0.0], e * speed - GRAVITY * since, spread)
            fallen = 0.5 * GRAVITY * since**2
            measured([1.0, -since, 0.0, 0.0, -1.0], LENGTH + fallen, unevenness)
        if event is not None:
            phase = DROP if event == APEX else event + 1
        shifted = bounce_events.LEFT_STDDEV_S * kf.x[1, 0] if phase == REBOUND else 0.0
        rows.append([kf.x[0, 0], kf.x[1, 0], kf.P[0, 0] + shifted**2, kf.P[0, 1], kf.P[1, 1], kf.x[4, 0]])
    return np.array(rows)


def noisy(height=2.0, restitution=0.66, count=5, seed=3):
    hops, rng = bounces(height, count, restitution), np.random.default_rng(seed)
    low = hops.acceleration + 0.3 * rng.normal(size=len(hops.time))
    keep = rng.random(len(hops.time)) > 0.02
    return hops, hops.arguments(keep, low)


@pytest.mark.parametrize("ground_step", [0.0, 0.08])
def test_state_and_covariance_are_filterpys(ground_step):
    _, arguments = noisy()
    p = parameters(VEL2=0.4, VEL1=-0.8, VEL0=1.0, DELAY_TD=0.002, DELAY_MS=0.003, SIGMA_A=0.8)
    out, events, _ = run(arguments, p, columns=9, body=BODY._replace(ground_step=ground_step))
    out[:, 0] += out[:, 6]
    out[:, 2:4] += out[:, 7:9]
    assert (np.ptp(out[:, 6]) > 0.0) == (ground_step > 0.0)
    assert events["kind"].tolist()[:8] == [TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX] * 2
    assert len(events) >= 18
    expected = reference(p, arguments, events, 2.0, ground_step)
    scale = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(out[:, 6], expected[:, 5], atol=2e-4)
    np.testing.assert_allclose(
        out[:, :2] / scale[:2], expected[:, :2] / scale[:2], atol=2e-4
    )  # gains: a jitter's slope
    np.testing.assert_allclose(out[:, [2, 4]], expected[:, [2, 4]], rtol=2e-3, atol=1e-9)


# --- what it learns


def test_a_robot_s_own_restitution_is_learned_from_hop_to_hop():
    """The fit says 0.6; the first hop is off by a tenth, and within what it says; the third is right."""
    restitution = 0.54
    hops = bounces(4.0, 6, restitution)
    _, events, state = run(hops.arguments(), height=4.0)
    error, stddev = apexes(events)["height"] - hops.apex_m, np.sqrt(apexes(events)["variance"])
    assert abs(error[0]) > 0.1
    assert np.all(np.abs(error) < 3.0 * stddev)
    assert np.all(np.abs(error[2:]) < 0.15)
    assert np.all(stddev[2:] < 0.5 * stddev[0])
    assert state["bounce"][0] == pytest.approx(restitution / 0.6 - 1.0, abs=0.03)


def test_a_leg_unlike_any_that_training_saw_is_learned_too():
    """Five and more standard deviations off: the first landings surprise, and then nothing is believed for long."""
    hops = bounces(3.0, 12, 0.42)
    found = apexes(run(hops.arguments(), height=3.0)[1])
    late = found["height"][found["time"] > hops.liftoff_s[7]]
    assert len(late) >= 4
    np.testing.assert_allclose(late, hops.apex_m[-1], atol=0.5)


def test_a_bias_of_the_acceleration_is_covered():
    """0.2 m/s^2 in flight, as a scale that is 2 % off: after two hops errors are within what is said, and small."""
    hops = bounces(4.0, 8, 0.66, 0.8)
    low = hops.acceleration + np.where(hops.acceleration < 0.0, 0.2, 0.0)
    out, events, _ = run(hops.arguments(low=low, high=low), height=4.0)
    later, aloft = hops.time > hops.liftoff_s[2] + 0.05, np.isin(out[:, 5], [DROP, REBOUND])
    error = np.abs(out[:, 0] - hops.height)[later & aloft]
    assert np.mean(error < 3.0 * np.sqrt(out[later & aloft, 2])) > 0.99
    assert np.max(np.abs(apexes(events)["height"][2:] - hops.apex_m[2:])) < 0.25


# --- gaps


@pytest.mark.parametrize(("event", "before_s", "length_s"), [("touchdown_s", 0.03, 0.07), ("liftoff_s", 0.0, 0.02)])
def test_a_gap_at_touchdown_or_liftoff_is_bridged(event, before_s, length_s):
    hops = bounces(3.0, 6, 0.62)
    at = getattr(hops, event)[3] - before_s
    keep = (hops.time < at) | (hops.time >= at + length_s)
    out, events, _ = run(hops.arguments(keep), height=3.0)
    error, stddev = np.abs(out[:, 0] - hops.height[keep]), np.sqrt(out[:, 2])
    aloft = np.isin(out[:, 5], [DROP, REBOUND])
    assert len(apexes(events)) == 6
    assert np.mean(error[aloft] < 3.0 * stddev[aloft] + 0.01) > 0.97
    assert abs(apexes(events)["height"][3] - hops.apex_m[3]) < 0.6


# --- what is no hop


def test_a_height_that_was_told_wrong_is_mended_by_the_shock():
    hops = bounces(3.0, 5, 0.62)
    out, events, _ = run(hops.arguments(), height=4.0)
    assert events["kind"].tolist()[:4] == [TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX]
    later = hops.time > hops.touchdown_s[3]
    assert np.max(np.abs(out[later, 0] - hops.height[later])) < 0.25


def with_rest(hops: Hops, until_s: float, seconds: float = 5.0):
    """Arguments of hops that stop at once, and the first sample of what follows."""
    stop = int(np.searchsorted(hops.time, until_s))
    rest = 0.1 * np.random.default_rng(2).normal(size=int(seconds * RATE_HZ))
    return arguments_of(np.concatenate([hops.acceleration[:stop], rest])), stop


@pytest.mark.parametrize("lifted", [False, True])
def test_hops_that_end_on_the_ground_end_standing(lifted):
    """The last stance does not throw it up again; and a liftoff that was none is taken back once it has rested."""
    hops = bounces(2.0, 4, 0.62)
    arguments, stop = with_rest(hops, hops.liftoff_s[3] + 0.01 if lifted else hops.touchdown_s[3] + 0.6 * STANCE_S)
    out, events, _ = run(arguments)
    settled = slice(stop + int(1.5 * RATE_HZ), len(out))
    assert len(apexes(events)) == 3
    assert not lifted or events["kind"][-1] == LIFTOFF
    assert np.all(events["sample"] < settled.start)
    assert np.all(out[settled, 5] == STARTUP)
    np.testing.assert_allclose(out[settled, 0], LENGTH, atol=0.1)
    assert np.all(out[settled, 2] < 0.2**2)


@pytest.mark.parametrize("rested", [True, False])
def test_where_it_begins_is_known_of_a_robot_that_was_seen_to_rest(rested):
    """Lifted by a metre in a second: after rest its height is known to a metre; without, it was anywhere before."""
    rng = np.random.default_rng(7)
    t = np.arange(1, int(RATE_HZ) + 1) / RATE_HZ
    lift = 60.0 * t - 180.0 * t**2 + 120.0 * t**3
    acceleration = np.concatenate([0.1 * rng.normal(size=int(2 * RATE_HZ) if rested else 1), lift])
    start = bounce_events.start_state(LENGTH, 0.0, START, STARTUP)
    out, _, _ = run(arguments_of(acceleration), state=start)
    assert (np.sqrt(out[-1, 2]) < 1.0) == rested


@pytest.mark.parametrize("scatter", [0.0, 0.12])
def test_a_leg_that_surprises_hop_after_hop_is_less_sure(scatter):
    """It gives back another share each time, by more than the filter was trained to: what is told is wider."""
    hops = bounces(2.0, 16, 0.66, scatter=scatter)
    p = parameters(SIGMA_V=0.02)
    out, _, state = run(hops.arguments(), p)
    later = hops.time > hops.touchdown_s[5]
    flies = later & (out[:, 5] == REBOUND)
    error, stddev = np.abs(out[flies, 0] - hops.height[flies]), np.sqrt(out[flies, 2]) + 0.01
    assert np.mean(error < 3.0 * stddev) > 0.95
    wider = bounce_events.widening(state[0])
    assert (wider > 1.5) == (scatter > 0.0)
    if scatter > 0.0:
        assert np.mean(error < 3.0 * (stddev - 0.01) / np.sqrt(wider) + 0.03) < 0.95
