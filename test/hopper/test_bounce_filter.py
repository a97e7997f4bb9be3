"""The filter that goes by the bounce, against FilterPy and hops in closed form: restitution, bias, gaps, hands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from numpy.polynomial import Polynomial
from synthetic_hops import BODY, GRAVITY, LENGTH, NOMINAL_DT, RATE_HZ, signals

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

STANCE_S, PRELOAD = 0.065, 60.0
START = np.diag([0.01**2, 0.1**2])


def parameters(**changes: float) -> np.ndarray:
    p = np.zeros(phases.PARAMETER_COUNT)
    p[phases.F_STATE], p[phases.F_PHASE], p[phases.SWITCH] = 100.0, 60.0, 14.0
    p[phases.SIGMA_A], p[phases.SIGMA_V], p[phases.SIGMA_P] = 0.3, 0.05, 0.01
    p[phases.JERK], p[phases.DELAY_TD], p[phases.STANCE_TIME] = 1500.0, 0.003, STANCE_S
    for name, value in changes.items():
        p[getattr(phases, name)] = value
    return p


@dataclass
class Bounces:
    """Exact motion (N,) and where it touches down and lifts off, s."""

    time: np.ndarray
    height: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    touchdown_s: list[float]
    liftoff_s: list[float]
    apex_m: list[float]

    def arguments(self, keep=None, low=None):
        keep = np.ones(len(self.time), bool) if keep is None else keep
        low = self.acceleration if low is None else low
        dt = np.diff(self.time[keep], prepend=self.time[0] - NOMINAL_DT)
        count = int(keep.sum())
        nothing = np.full(count, np.nan)
        return dt, low[keep], self.acceleration[keep], np.full(count, 3, np.uint8), nothing, nothing


def bounces(
    height_m: float, restitution: float, count: int, higher: float = 1.0, after_s: float = 0.3, scatter: float = 0.0
) -> Bounces:
    """Dropped, thrown up again with a share of the speed by a stance that is a quintic in time, lifted by rotors.

    Those make up for what the stance takes, so that each hop is `higher` times the one before. `scatter` is that of the
    share, drawn anew for each hop.
    """
    at, pieces, touchdown_s, liftoff_s, apex_m = 0.0, [], [], [], []
    usual, rng, given_back = restitution, np.random.default_rng(11), []
    for _ in range(count):
        restitution = usual * (1.0 + scatter * rng.normal())
        given_back.append(restitution)
        speed, fall_s = np.sqrt(2.0 * GRAVITY * height_m), np.sqrt(2.0 * height_m / GRAVITY)
        pieces.append((at, at + fall_s, LENGTH + height_m, 0.0, -GRAVITY))
        touchdown_s.append(at + fall_s)
        liftoff_s.append(at + fall_s + STANCE_S)
        pieces.append((touchdown_s[-1], liftoff_s[-1], LENGTH, -speed, None))
        height_m *= higher
        rebound = restitution * speed
        braked = rebound**2 / (2.0 * height_m)
        at = liftoff_s[-1] + rebound / braked
        pieces.append((liftoff_s[-1], at, LENGTH, rebound, -braked))
        apex_m.append(LENGTH + height_m)
    pieces.append((at, at + after_s, LENGTH + height_m, 0.0, -GRAVITY))
    time = np.arange(1, int(pieces[-1][1] * RATE_HZ)) / RATE_HZ
    z, v, a = (np.empty(len(time)) for _ in range(3))
    for start, end, at, velocity, steady in pieces:
        inside = (time >= start) & (time < end)
        t = time[inside] - start
        if steady is not None:
            z[inside], v[inside], a[inside] = at + velocity * t + 0.5 * steady * t**2, velocity + steady * t, steady
            continue
        x, down, up, preload = (
            t / STANCE_S,
            velocity * STANCE_S,
            -given_back.pop(0) * velocity * STANCE_S,
            0.5 * PRELOAD * STANCE_S**2,
        )
        quintic = Polynomial([0, 1, 0, -6, 8, -3]) * down + Polynomial([0, 0, 0, -4, 7, -3]) * up
        quintic += preload * (Polynomial([0, 0, 1, -3, 3, -1]) + Polynomial([0, 0, 0, 1, -2, 1]))
        z[inside], v[inside] = at + quintic(x), quintic.deriv()(x) / STANCE_S
        a[inside] = quintic.deriv(2)(x) / STANCE_S**2
    return Bounces(time, z, v, a, touchdown_s, liftoff_s, apex_m)


def run(arguments, p=None, height=2.0, state=None, columns=9, body=BODY):
    """(out, events, state)."""
    if state is None:
        state = bounce_events.start_state(LENGTH + height, 0.0, START, DROP)
    out, events = np.empty((len(arguments[0]), columns)), np.empty(1000, phases.EVENT)
    p = parameters() if p is None else p
    found = bounce_kernels.run(p, body, state, signals(*arguments), out, events)
    return out, events[:found], state


def kinds_of(events) -> list[int]:
    return events["kind"].tolist()


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
        rows.append([kf.x[0, 0], kf.x[1, 0], kf.P[0, 0], kf.P[0, 1], kf.P[1, 1], kf.x[4, 0]])
    return np.array(rows)


def noisy(height=2.0, restitution=0.66, count=5, seed=3):
    hops, rng = bounces(height, restitution, count), np.random.default_rng(seed)
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
    assert kinds_of(events)[:8] == [TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX] * 2
    assert len(events) >= 18
    expected = reference(p, arguments, events, 2.0, ground_step)
    scale = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(out[:, 6], expected[:, 5], atol=2e-4)
    np.testing.assert_allclose(
        out[:, :2] / scale[:2], expected[:, :2] / scale[:2], atol=2e-4
    )  # gains: a jitter's slope
    np.testing.assert_allclose(out[:, [2, 4]], expected[:, [2, 4]], rtol=2e-3, atol=1e-9)


def test_sample_by_sample_whole_and_in_training_it_is_the_same():
    _, arguments = noisy()
    whole, events, state = run(arguments)
    light, found, _ = run(arguments, columns=2)
    np.testing.assert_allclose(light, whole[:, :2], atol=1e-9)
    for field in events.dtype.names:
        np.testing.assert_allclose(found[field], events[field], atol=1e-9)
    single = bounce_events.start_state(LENGTH + 2.0, 0.0, START, DROP)
    rows = [run([column[n : n + 1] for column in arguments], state=single)[0] for n in range(len(whole))]
    np.testing.assert_array_equal(np.concatenate(rows), whole)
    np.testing.assert_array_equal(single, state)


# --- what it learns


@pytest.mark.parametrize("restitution", [0.54, 0.66])
def test_a_robot_s_own_restitution_is_learned_from_hop_to_hop(restitution):
    """The fit says 0.6; the first hop is off by a tenth, and within what it says; the third is right."""
    hops = bounces(4.0, restitution, 6)
    _, events, state = run(hops.arguments(), height=4.0)
    found = apexes(events)
    error = found["height"] - hops.apex_m[: len(found)]
    stddev = np.sqrt(found["variance"])
    assert len(found) == 6
    assert abs(error[0]) > 0.1
    assert np.all(np.abs(error) < 3.0 * stddev)
    assert np.all(np.abs(error[2:]) < 0.15)
    assert np.all(stddev[2:] < 0.5 * stddev[0])
    assert state["bounce"][0] == pytest.approx(restitution / 0.6 - 1.0, abs=0.03)


@pytest.mark.parametrize("restitution", [0.42, 0.8])
def test_a_leg_unlike_any_that_training_saw_is_learned_too(restitution):
    """Five and more standard deviations off: the first landings surprise, and then nothing is believed for long."""
    hops = bounces(3.0, restitution, 12)
    _, events, _ = run(hops.arguments(), height=3.0)
    found = apexes(events)
    late = found["time"] > hops.liftoff_s[7]
    assert late.sum() >= 4
    np.testing.assert_allclose(found["height"][late], hops.apex_m[-1], atol=0.5)


def test_a_bias_of_the_acceleration_is_covered():
    """0.2 m/s^2 in flight, as a scale that is 2 % off: after two hops errors are within what is said, and small."""
    hops = bounces(4.0, 0.66, 8, 0.8)
    low = hops.acceleration + np.where(hops.acceleration < 0.0, 0.2, 0.0)
    out, events, _ = run((*hops.arguments()[:1], low, low, *hops.arguments()[3:]), height=4.0)
    later, aloft = hops.time > hops.liftoff_s[2] + 0.05, np.isin(out[:, 5], [DROP, REBOUND])
    error = np.abs(out[:, 0] - hops.height)[later & aloft]
    assert np.mean(error < 3.0 * np.sqrt(out[later & aloft, 2])) > 0.99
    assert np.max(np.abs(apexes(events)["height"][2:] - hops.apex_m[2:])) < 0.25


def test_no_shock_needs_to_be_measured_rightly():
    """A stance whose readings are twice what they ought to be, and clipped, moves no apex."""
    hops = bounces(3.0, 0.62, 4)
    wrong = np.where(hops.acceleration > 0.0, np.minimum(2.0 * hops.acceleration, 300.0), hops.acceleration)
    right = apexes(run(hops.arguments(), height=3.0)[1])["height"]
    found = apexes(run((*hops.arguments()[:1], wrong, wrong, *hops.arguments()[3:]), height=3.0)[1])
    np.testing.assert_allclose(found["height"], right, atol=0.1)


# --- gaps


@pytest.mark.parametrize("length_s", [0.02, 0.045, 0.07])
@pytest.mark.parametrize("before_s", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("event", ["touchdown_s", "liftoff_s"])
def test_a_gap_at_touchdown_or_liftoff_is_bridged(event, before_s, length_s):
    hops = bounces(3.0, 0.62, 6)
    at = getattr(hops, event)[3] - before_s
    keep = (hops.time < at) | (hops.time >= at + length_s)
    out, events, _ = run(hops.arguments(keep), height=3.0)
    error, stddev = np.abs(out[:, 0] - hops.height[keep]), np.sqrt(out[:, 2])
    aloft = np.isin(out[:, 5], [DROP, REBOUND])
    assert kinds_of(apexes(events)) == [APEX] * 6
    assert np.mean(error[aloft] < 3.0 * stddev[aloft] + 0.01) > 0.97
    assert abs(apexes(events)["height"][3] - hops.apex_m[3]) < 0.6


# --- what is no hop


def test_a_bump_in_the_ascent_is_no_touchdown():
    hops = bounces(3.0, 0.62, 3)
    bumped = hops.acceleration.copy()
    late = (hops.time > hops.liftoff_s[0] + 0.12) & (hops.time < hops.liftoff_s[0] + 0.15)
    bumped[late] += 25.0
    p = parameters(JERK=500.0)
    arguments = (*hops.arguments()[:1], bumped, bumped, *hops.arguments()[3:])
    assert kinds_of(run(arguments, p, 3.0)[1])[:8] == [TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX] * 2


def test_a_height_that_was_told_wrong_is_mended_by_the_shock():
    hops = bounces(3.0, 0.62, 5)
    out, events, _ = run(hops.arguments(), height=4.0)
    assert kinds_of(events)[:4] == [TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX]
    later = hops.time > hops.touchdown_s[3]
    assert np.max(np.abs(out[later, 0] - hops.height[later])) < 0.25


def held(seconds: float, rng, push: float = 0.0) -> np.ndarray:
    """Acceleration of a robot in somebody's hand, m/s^2: it trembles, and is knocked once a second."""
    count = int(seconds * RATE_HZ)
    out = 0.2 * rng.normal(size=count)
    for at in range(400, count - 50, int(RATE_HZ)):
        out[at : at + 5] += push
        out[at + 5 : at + 15] -= 0.5 * push
    return out


def test_in_the_hand_no_hop_is_told_and_the_height_is_unknown():
    """Lifted by a metre in a second, held for a minute with knocks of 10 g, then dropped: sane after the first hop."""
    rng, hops = np.random.default_rng(4), bounces(1.5, 0.62, 4)
    t = np.arange(1, int(RATE_HZ) + 1) / RATE_HZ
    lift = 1.5 * (60.0 * t - 180.0 * t**2 + 120.0 * t**3)
    rest = 0.1 * rng.normal(size=int(3 * RATE_HZ))
    parts = [rest, lift, held(60.0, rng, 100.0), hops.acceleration]
    acceleration = np.concatenate(parts)
    count, start = len(acceleration), len(acceleration) - len(hops.time)
    nothing = np.full(count, np.nan)
    arguments = (np.full(count, NOMINAL_DT), acceleration, acceleration, np.full(count, 3, np.uint8), nothing, nothing)
    state = bounce_events.start_state(LENGTH, 0.0, START, STARTUP)
    out, events, _ = run(arguments, state=state)
    standing, carried = slice(800, len(rest)), slice(len(rest) + len(lift), start)
    np.testing.assert_allclose(out[standing, 0], LENGTH, atol=0.01)
    assert np.all(out[standing, 2] < 0.2**2)
    assert not np.any(events["sample"] < start)
    assert np.all(out[carried, 5] == STARTUP)
    error = np.abs(out[carried, 0] - LENGTH - 1.5)
    assert np.all(error < 3.0 * np.sqrt(out[carried, 2]))
    assert out[start - 1, 2] > 1.0**2
    after = slice(start + int(hops.liftoff_s[1] * RATE_HZ) + 60, count)
    truth = hops.height[after.start - start :]
    assert np.all(np.abs(out[after, 0] - truth) < 3.0 * np.sqrt(out[after, 2]) + 0.02)
    assert np.max(np.abs(out[after, 0] - truth)) < 0.3


def test_setting_it_down_is_a_touchdown_at_most():
    """Lowered by hand at half a metre a second, with a shock of 6 g: no liftoff, no apex."""
    rng = np.random.default_rng(5)
    acceleration = held(4.0, rng)
    at = len(acceleration) // 2
    acceleration[at : at + 8] += 60.0
    count = len(acceleration)
    nothing = np.full(count, np.nan)
    arguments = (np.full(count, NOMINAL_DT), acceleration, acceleration, np.full(count, 3, np.uint8), nothing, nothing)
    state = bounce_events.start_state(LENGTH + 0.3, -0.5, np.diag([0.1**2, 0.5**2]), DROP)
    assert set(kinds_of(run(arguments, state=state)[1])) <= {TOUCHDOWN, MAX_SQUAT}


def with_rest(hops: Bounces, until_s: float, seconds: float = 5.0):
    """Arguments of hops that stop at once, and the first sample of what follows."""
    stop = int(np.searchsorted(hops.time, until_s))
    rest = 0.1 * np.random.default_rng(2).normal(size=int(seconds * RATE_HZ))
    acceleration = np.concatenate([hops.acceleration[:stop], rest])
    nothing = np.full(len(acceleration), np.nan)
    both = np.full(len(acceleration), 3, np.uint8)
    return (np.full(len(acceleration), NOMINAL_DT), acceleration, acceleration, both, nothing, nothing), stop


def test_hops_that_end_on_the_ground_end_standing():
    """The last stance does not throw the robot up again: it stands, a leg's length high, and surely."""
    hops = bounces(2.0, 0.62, 4)
    arguments, stop = with_rest(hops, hops.touchdown_s[3] + 0.6 * STANCE_S)
    out, events, _ = run(arguments)
    settled = slice(stop + int(1.5 * RATE_HZ), len(out))
    assert kinds_of(apexes(events)) == [APEX] * 3
    assert np.all(events["sample"] < settled.start)
    assert np.all(out[settled, 5] == STARTUP)
    np.testing.assert_allclose(out[settled, 0], LENGTH, atol=0.1)
    assert np.all(out[settled, 2] < 0.2**2)


def test_a_liftoff_that_was_none_is_taken_back():
    """The shock was enough for a hop, but the robot stands: known to be there once it has rested."""
    hops = bounces(2.0, 0.62, 4)
    arguments, stop = with_rest(hops, hops.liftoff_s[3] + 0.01)
    out, events, _ = run(arguments)
    assert kinds_of(events)[-1] == LIFTOFF
    settled = slice(stop + int(1.5 * RATE_HZ), None)
    assert np.all(out[settled, 5] == STARTUP)
    np.testing.assert_allclose(out[settled, 0], LENGTH, atol=0.1)
    assert np.all(out[settled, 2] < 0.2**2)


def test_a_landing_that_surprises_teaches_nothing_of_bias_and_bounce():
    """Ten standard deviations too high, where what led there was no flight as modelled; within them it does teach."""
    found = []
    for off_m in (0.02, 1.0):
        hops = bounces(2.0, 0.62, 3)
        state = run(hops.arguments(hops.time < hops.touchdown_s[2] - 0.002))[2]
        state["z"] += off_m
        before = state.copy()
        bounce_events.touch_down(parameters(), LENGTH, state[0])
        found.append((state["bias"][0] - before["bias"][0], state["cc"][0] / before["cc"][0]))
    (usual, less_sure), (surprised, surer) = found
    assert abs(usual) > 1e-4
    assert less_sure <= 1.0
    assert surprised == 0.0
    assert surer > 2.0


@pytest.mark.parametrize("rested", [True, False])
def test_where_it_begins_is_known_of_a_robot_that_was_seen_to_rest(rested):
    """Lifted by a metre in a second: after rest its height is known to a metre; without, it was anywhere before."""
    rng = np.random.default_rng(7)
    t = np.arange(1, int(RATE_HZ) + 1) / RATE_HZ
    lift = 60.0 * t - 180.0 * t**2 + 120.0 * t**3
    acceleration = np.concatenate([0.1 * rng.normal(size=int(2 * RATE_HZ) if rested else 1), lift])
    both, nothing = np.full(len(acceleration), 3, np.uint8), np.full(len(acceleration), np.nan)
    arguments = (np.full(len(acceleration), NOMINAL_DT), acceleration, acceleration, both, nothing, nothing)
    out, _, _ = run(arguments, state=bounce_events.start_state(LENGTH, 0.0, START, STARTUP))
    assert (np.sqrt(out[-1, 2]) < 1.0) == rested


@pytest.mark.parametrize("scatter", [0.0, 0.12])
def test_a_leg_that_surprises_hop_after_hop_is_less_sure(scatter):
    """It gives back another share each time, by more than the filter was trained to: what is told is wider."""
    hops = bounces(2.0, 0.66, 16, scatter=scatter)
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
