"""Compiled vertical filter that goes by the bounce: how fast a leg leaves the ground follows from how fast it came.

The paper's KF1 integrates the shock of a stance and scales what comes out by a fit of the commanded height
(`vertical_kernels`). Cheap accelerometers clip and alias shocks, so that the integral is off by a third, and a fit of
commands is wrong in the hop after a new one. Here the stance is not integrated. A passive leg gives back a share of
its speed, its coefficient of restitution:

    v_liftoff = e (1 + c) u     u the speed at touchdown, e a trained fit of u, c how much this robot differs

and it is extended again a stance's time T after touchdown, whenever the low-passed acceleration tells of it. Height and
velocity in flight, the bias b of the acceleration and c are estimated together:

    x = (z, v, b, c)    z' = v, v' = y1 - b, b and c constant but for slow walks
    g                   the ground where it changes, by `Body.ground_step` at a touchdown; z is above it

    touchdown    z - v d = L
    max squat    v - y1 d = 0
    liftoff      v - e u c = e u - g t        t since the leg was extended: since touchdown, less T
                 z - v t - g t^2 / 2 = L

u is known well at touchdown: the flight before it began and ended at height L, and its duration tells the speed. So c
and b are learned from hop to hop, within two or three.

What is told is as unsure as the last touchdowns were off, where that is more than foretold: legs that push by
themselves, edges and soft ground are no noise that training has seen.

The acceleration's noise is white in flight; in stance it is what makes the integral of the shock uncertain by a share
of itself. Covariances are moved on over stretches of any length in one step, so that training moves them from event to
event and the live filter from sample to sample, to the same result.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hopper_estimation.estimators import bounce_events as bounce
from hopper_estimation.model import phases
from hopper_estimation.model.phases import Array, Body, Level, Record, Records, Tuned


@njit(cache=True, error_model="numpy", nogil=True)
def bridge(
    t: Tuned, x: Record, s: Record, n: int, a: float, y1: float, events: Records, found: int
) -> tuple[float, float, int]:
    """Over a gap before a `SIGNAL`: acceleration, m/s^2, doubt about the velocity, (m/s)^2, how many events there are.

    Where nothing was read the robot may have landed, as its fall until then foretells.
    """
    used, unknown = phases.acceleration_over_gap(s.dt, y1, a)
    fall = bounce.fall_time(x, used - x.bias, t.body.length) if x.phase == phases.DROP else np.inf
    if fall >= s.dt:
        return used, unknown * s.dt * s.dt, found
    found = phases.add_event(events, found, phases.TOUCHDOWN, n, x.time + fall, t.body.length, x.v, x.zz)
    bounce.step_of_ground(x, t.body.ground_step)
    bounce.land_unseen(x, x.time, fall, used - x.bias, t.body.length, flight_noise(t))
    x.phase, x.since, x.push = phases.STANCE_DOWN, -fall, bounce.UNSEEN_PUSH_M_S
    return x.bias, 0.0, found


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def flight_noise(t: Tuned) -> float:
    """Density of the acceleration's noise in flight, (m/s^2)^2 s."""
    return t.parameters[phases.SIGMA_A] ** 2 * t.body.nominal_dt


@njit(cache=True, error_model="numpy", nogil=True)
def noise_of(t: Tuned, x: Record) -> float:
    """The same in the phase that the robot is in: over a stance, a share of what turns the robot round."""
    if x.phase == phases.STANCE_DOWN or x.phase == phases.STANCE_UP:
        return bounce.shock_variance(max(x.speed, 1.0)) / t.parameters[phases.STANCE_TIME]
    return flight_noise(t)


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def believed(t: Tuned, x: Record, event: int, step: float, doubt: float) -> int:
    """What an event turns out to be, after a step, s, with as much doubt about the velocity, (m/s)^2.

    A touchdown where none can be needs a shock, and a liftoff a bounce; below the ground one of both was missed.
    """
    length, below = t.body.length, x.phase == phases.DROP and event < 0 and x.z < t.body.length - bounce.BELOW_M
    x.by_shock = 0.0
    if event == phases.TOUCHDOWN and (x.phase == phases.STARTUP or not bounce.may_land(x, length)):
        if x.shock < bounce.SHOCK_M_S2:
            event = phases.NO_EVENT
        else:
            x.gap, x.by_shock = max(x.gap, bounce.SHOCK_SEEN_S), 1.0
    if doubt > 0.0 and event != phases.TOUCHDOWN:
        bounce.add_doubt(x, step, doubt)
    if event == phases.LIFTOFF and not bounce.turned_round(x, x.push):
        event = phases.LOST
    if below and x.z < length - bounce.BELOW_M - bounce.DEVIATIONS * np.sqrt(x.zz):
        event = phases.LOST  # no shock: it is somewhere else
        if x.gap > bounce.HIDDEN_S:
            event = phases.TOUCHDOWN
            x.gap = max(x.gap, (length - x.z) / max(-x.v, bounce.SLOWEST_M_S))
    return event


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def happen(t: Tuned, x: Record, event: int, step: float, doubt: float) -> None:
    """What an event does; see `believed`."""
    p, length = t.parameters, t.body.length
    if event == phases.LOST:
        x.grounded *= 1.0 if abs(x.y1) < bounce.RESTING_M_S2 else 0.0
        bounce.lose(x, length)
        x.phase, x.since, x.idle, x.moving, x.moving_s = phases.STARTUP, 0.0, 0.0, 0.0, 0.0
        return
    if event == phases.TOUCHDOWN:
        bounce.step_of_ground(x, t.body.ground_step)
        bounce.compare(x, length, p[phases.DELAY_TD])
        bounce.doubt_bounce(x)
        bounce.touch_down(p, length, x)
        if doubt > 0.0:
            bounce.add_doubt(x, step, bounce.shock_variance(x.speed))
        x.push = 0.0
    elif event == phases.MAX_SQUAT:
        bounce.update(x, 0.0, 1.0, 0.0, p[phases.DELAY_MS] * x.y1 - x.v, bounce.SQUAT_STDDEV_M_S**2)
    elif event == phases.LIFTOFF:
        bounce.lift_off(p, length, t.body.gravity, x)
    x.phase, x.since = (phases.DROP if event == phases.APEX else event + 1), 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def look(
    t: Tuned,
    x: Record,
    n: int,
    event: int,
    rests: bool,
    handled: bool,
    step: float,
    doubt: float,
    events: Records,
    found: int,
) -> int:
    """A closer look at sample n, where something may have happened after a step, s; how many events there are now.

    Parameters
    ----------
    event
        That was seen.
    rests, handled
        Whether the robot seems to rest, or to be in somebody's hands.
    doubt
        About the velocity, (m/s)^2.
    """
    length = t.body.length
    if rests and x.phase != phases.STARTUP:
        x.idle, x.moving, x.moving_s = bounce.IDLE_S, 0.0, 0.0
        if x.phase == phases.REBOUND and x.since - x.still < bounce.NEVER_FLEW_S:
            x.grounded, x.z = 1.0, length  # the liftoff was none
    event = believed(t, x, event, step, doubt)
    if event >= 0:
        found = phases.add_event(events, found, event, n, x.time, x.z, x.v, x.zz)
    if event != phases.NO_EVENT:
        happen(t, x, event, step, doubt)
    elif rests or handled:
        if handled:
            bounce.leave_ground(x)
        bounce.rest(x, length, x.idle, rests)
        x.idle, x.phase = 0.0, phases.STARTUP
        x.since = 0.0 if rests else x.since
    return found


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def quick_gains(t: Tuned, step: float) -> tuple[float, float]:
    """As `phases.gains`; steps, s, that differ a little from the usual one do without a division."""
    dt, longer = t.body.nominal_dt, step - t.body.nominal_dt
    if abs(longer) >= bounce.JITTER * dt:
        return t.f1 * step / (1.0 + t.f1 * step), t.f2 * step / (1.0 + t.f2 * step)
    gain1 = t.f1 * dt * t.inverse1 + t.f1 * t.inverse1 * t.inverse1 * longer
    return gain1, t.f2 * dt * t.inverse2 + t.f2 * t.inverse2 * t.inverse2 * longer


@njit(cache=True, error_model="numpy", nogil=True)
def run(parameters: Array, body: Body, states: Records, signals: Records, out: Array, events: Records) -> int:
    """The filter over one `SIGNAL` after another; how many events were found. As `vertical_kernels.run`.

    `states` are (1,) of `STATE`. With nine columns `out` has the ground's height too, and what that adds to zz and zv;
    with two the covariance is moved on from event to event only.
    """
    x, t, found, every = states[0], phases.tuned(parameters, body), 0, out.shape[1] > 2
    level = Level(x.y1, x.y2, x.h1, x.h2, x.h3)
    z, v, bias, push, shock = x.z, x.v, x.bias, x.push, x.shock
    phase, since, still, begun, time, gap = x.phase, x.since, x.still, x.begun, x.time, x.gap
    noise, wider, waiting, lowest = noise_of(t, x), bounce.widening(x), 0.0, body.length - bounce.BELOW_M
    for n in range(len(signals)):
        s = signals[n]
        a, distrust = phases.choose(s, level.y1, body.gravity, t.switch)
        gap = phases.remembered_gap(gap, s.dt, body.nominal_dt)
        if begun == 0.0:
            level, begun = Level(a, a, a, a, a), 1.0
        is_gap, used, doubt = s.dt > phases.GAP_STEPS * body.nominal_dt, 0.0, 0.0
        if is_gap:
            bounce.propagate(x, waiting, noise)
            x.z, x.v, x.time, x.phase, x.since, x.push, waiting = z, v, time, phase, since, push, 0.0
            used, doubt, found = bridge(t, x, s, n, a, level.y1, events, found)
            z, v, phase, since, push, noise = x.z, x.v, x.phase, x.since, x.push, noise_of(t, x)
        gain1, gain2 = quick_gains(t, s.dt)
        level, rise = phases.heard(level, a, gain1, gain2)
        shock += min(bounce.SHOCK_RATE * s.dt, 1.0) * (a - shock)
        used = (used if is_gap else level.y1) - bias
        z += s.dt * (v + 0.5 * s.dt * used)
        v += s.dt * used
        since, time, push, waiting = since + s.dt, time + s.dt, push + s.dt * a, waiting + s.dt
        if phase == phases.STARTUP:
            bounce.wait(x, s.dt, level.y1)
        if distrust > 0.0:
            bounce.propagate(x, waiting - s.dt, noise)
            bounce.propagate(x, s.dt, noise + distrust * s.dt)
            waiting = 0.0
        limit = phases.touchdown_rise(t, s, gap, gain2)
        event = phases.phase_event(phase, since, v, level.y2, rise, limit)
        pushes_off = phase == phases.STANCE_DOWN and level.y2 < 0.0 and since > parameters[phases.STANCE_TIME]
        if event == phases.NO_EVENT and pushes_off:
            event = phases.LIFTOFF  # whose maximum squat was missed
        if phases.awaits_high(s.usable, s.low, body.gravity, t.switch):
            event = phases.NO_EVENT
        still = still + s.dt if max(abs(a), abs(level.y1)) < phases.STILL_M_S2 else 0.0
        due = phase != phases.STARTUP or x.idle >= bounce.IDLE_S
        rests = still > phases.STILL_S and event < 0 and due
        handled = phase == phases.STARTUP and due and (x.grounded == 0.0 or x.moving_s > bounce.MOVED_S)
        below = z < lowest and phase == phases.DROP
        if event != phases.NO_EVENT or below or rests or handled or every or doubt > 0.0:
            bounce.propagate(x, waiting, noise)
            x.z, x.v, x.time, x.gap, x.phase, x.since, x.still, waiting = z, v, time, gap, phase, since, still, 0.0
            x.push, x.shock, x.y1 = push, shock, level.y1
            found = look(t, x, n, event, rests, handled, s.dt, doubt, events, found)
            z, v, bias, phase, since, push = x.z, x.v, x.bias, x.phase, x.since, x.push
            noise, wider = noise_of(t, x), bounce.widening(x)
        out[n, 0], out[n, 1] = z, v
        if every:
            shifted = bounce.shift_variance(phase, v)
            out[n, 2], out[n, 3], out[n, 4], out[n, 5] = wider * x.zz + shifted, wider * x.zv, wider * x.vv, phase
            out[n, 6], out[n, 7], out[n, 8] = x.ground, 2.0 * x.zg + x.gg, x.vg
    bounce.propagate(x, waiting, noise)
    x.z, x.v, x.push, x.shock, x.time, x.gap = z, v, push, shock, time, gap
    x.phase, x.since, x.still, x.begun = phase, since, still, begun
    x.y1, x.y2, x.h1, x.h2, x.h3 = level
    return found
