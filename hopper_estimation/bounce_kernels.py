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
from numpy.typing import NDArray

from hopper_estimation import bounce_events as bounce
from hopper_estimation import bounce_state as at
from hopper_estimation import phase_kernels
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.phases import APEX, DROP, LIFTOFF, MAX_SQUAT, REBOUND, STANCE_DOWN, STANCE_UP, STARTUP, TOUCHDOWN
from hopper_estimation.vertical_kernels import Body, Signals

Array = NDArray[np.float64]


@njit(cache=True, error_model="numpy", nogil=True)
def filter_bounces(
    kind: int, parameters: Array, body: Body, state: Array, signals: Signals, out: Array, events: Array
) -> int:
    """Filter samples one after another; how many events were found. As `vertical_kernels.filter_samples`."""
    length, gravity, nominal_dt, ground_step = body
    dt, acceleration, usable = signals.dt, signals.acceleration, signals.usable
    f1, f2 = 2.0 * np.pi * parameters[kernels.F_STATE], 2.0 * np.pi * parameters[kernels.F_PHASE]
    # Gains f t / (1 + f t), and their slopes: steps that differ a little from the usual do without a division.
    slope1, slope2 = 1.0 / (1.0 + f1 * nominal_dt), 1.0 / (1.0 + f2 * nominal_dt)
    usual1, usual2 = f1 * nominal_dt * slope1, f2 * nominal_dt * slope2
    slope1, slope2 = f1 * slope1 * slope1, f2 * slope2 * slope2
    switch = parameters[kernels.SWITCH] * gravity
    flight_noise = parameters[kernels.SIGMA_A] ** 2 * nominal_dt
    threshold = parameters[kernels.JERK] * phase_kernels.JERK_STEPS
    record, record_all = out.shape[0] > 0, out.shape[0] > 0 and out.shape[1] > 2
    tells_ground = out.shape[1] > 6
    z, v, bias = state[at.Z], state[at.V], state[at.BIAS]
    y1, y2, h1, h2, h3 = state[at.Y1], state[at.Y2], state[at.H1], state[at.H2], state[at.H3]
    phase, since, still = int(state[at.PHASE]), state[at.SINCE], state[at.STILL]
    time, gap, push = state[at.TIME], state[at.GAP], state[at.PUSH]
    moving, moving_s, idle, shock = state[at.MOVING], state[at.MOVING_S], state[at.IDLE], state[at.SHOCK]
    started = state[at.STARTED] != 0.0
    stance = phase in (STANCE_DOWN, STANCE_UP)
    noise = bounce.acceleration_noise(parameters, state, stance, flight_noise)
    wider = bounce.widening(state)
    waiting, found, lowest = 0.0, 0, length - bounce.BELOW_M
    for n in range(dt.shape[0]):
        step, bits = dt[n], int(usable[n])
        low, high = acceleration[n, 0], acceleration[n, 1]
        a, more = phase_kernels.choose(bits, low, high, y1, gravity, switch)
        is_gap, used = step > phase_kernels.GAP_STEPS * nominal_dt, 0.0
        gap = phase_kernels.remembered_gap(gap, step, nominal_dt)
        if not started:
            y1, y2, h1, h2, h3, started = a, a, a, a, a, True
        doubt = 0.0
        if is_gap:
            used, unknown = phase_kernels.acceleration_over_gap(step, y1, a)
            at.propagate(state, waiting, noise)
            waiting = 0.0
            state[at.Z], state[at.V] = z, v
            fall = bounce.fall_time(state, used - bias, length) if phase == DROP else np.inf
            if fall < step:
                # It landed where nothing was read: as its fall until then foretells.
                found = phase_kernels.add_event(events, found, TOUCHDOWN, time + fall, length, v, state[at.ZZ], n)
                at.step_of_ground(state, ground_step)
                bounce.land_unseen(state, time, fall, used - bias, length, flight_noise)
                phase, since, push = STANCE_DOWN, -fall, bounce.UNSEEN_PUSH_M_S
                z, v, used = state[at.Z], state[at.V], bias
                noise = bounce.acceleration_noise(parameters, state, True, flight_noise)
            else:
                doubt = unknown * step * step
        longer = step - nominal_dt
        if abs(longer) < bounce.JITTER * nominal_dt:
            gain1, gain2 = usual1 + slope1 * longer, usual2 + slope2 * longer
        else:
            gain1, gain2 = f1 * step / (1.0 + f1 * step), f2 * step / (1.0 + f2 * step)
        y1 += gain1 * (a - y1)
        y2 += gain2 * (a - y2)
        shock += min(bounce.SHOCK_RATE * step, 1.0) * (a - shock)
        rise = y2 - h3
        h3, h2, h1 = h2, h1, y2
        used = (used if is_gap else y1) - bias
        z += step * (v + 0.5 * step * used)
        v += step * used
        since += step
        time += step
        push += step * a
        if phase == STARTUP:
            idle += step
            moving += step * (y1 - moving / bounce.MOVING_TIME_S)
            moving_s = moving_s + step if abs(moving) > bounce.MOVED_M_S else 0.0
        waiting += step
        if more > 0.0:
            at.propagate(state, waiting - step, noise)
            at.propagate(state, step, noise + more * step)
            waiting = 0.0
        usual = step if abs(longer) <= 1e-5 else max(step, nominal_dt)
        limit = threshold * (gap / phase_kernels.JERK_STEPS + (0.0 if is_gap else usual))
        if bits & 7 == 2:
            limit += gain2 * phase_kernels.ALONE_RISE_M_S2
        event = phase_kernels.phase_event(phase, since, v, y2, rise, limit)
        if (
            event == phase_kernels.NO_EVENT
            and phase == STANCE_DOWN
            and y2 < 0.0
            and since > parameters[kernels.STANCE_TIME]
        ):
            event = LIFTOFF  # whose maximum squat was missed
        if event != phase_kernels.NO_EVENT and bits & 8 and phase_kernels.awaits_high(bits, low, gravity, switch):
            event = phase_kernels.NO_EVENT
        below = z < lowest and phase == DROP and event < 0
        still = still + step if max(abs(a), abs(y1)) < phase_kernels.STILL_M_S2 else 0.0
        rests, handled = still > phase_kernels.STILL_S and event < 0, False
        if phase == STARTUP:
            rests = rests and idle >= bounce.IDLE_S
            handled = idle >= bounce.IDLE_S and (state[at.GROUNDED] == 0.0 or moving_s > bounce.MOVED_S)
        elif rests:
            idle, moving, moving_s = bounce.IDLE_S, 0.0, 0.0
            if phase == REBOUND and since - still < bounce.NEVER_FLEW_S:
                state[at.GROUNDED], z = 1.0, length  # the liftoff was none
        if event != phase_kernels.NO_EVENT or below or rests or handled or record_all or doubt > 0.0:
            at.propagate(state, waiting, noise)
            waiting = 0.0
            state[at.Z], state[at.V], state[at.TIME], state[at.GAP] = z, v, time, gap
            by_shock = False
            if event == TOUCHDOWN and (phase == STARTUP or not bounce.may_land(state, length)):
                if shock < bounce.SHOCK_M_S2:
                    event = phase_kernels.NO_EVENT
                else:
                    state[at.GAP], by_shock = max(gap, bounce.SHOCK_SEEN_S), True
            if doubt > 0.0 and event != TOUCHDOWN:
                bounce.add_doubt(state, step, doubt)
            if event == LIFTOFF and not bounce.turned_round(state, push):
                event = phase_kernels.LOST
            if below and z < length - bounce.BELOW_M - bounce.DEVIATIONS * np.sqrt(state[at.ZZ]):
                event = phase_kernels.LOST  # no shock: it is somewhere else
                if gap > bounce.HIDDEN_S:
                    event = TOUCHDOWN
                    state[at.GAP] = max(gap, (length - z) / max(-v, bounce.SLOWEST_M_S))
            if event == phase_kernels.LOST:
                state[at.GROUNDED] *= 1.0 if abs(y1) < bounce.RESTING_M_S2 else 0.0
                bounce.lose(state, length)
                phase, since, idle, moving, moving_s = STARTUP, 0.0, 0.0, 0.0, 0.0
            elif event >= 0:
                found = phase_kernels.add_event(events, found, event, time, z, v, state[at.ZZ], n)
                if event == TOUCHDOWN:
                    at.step_of_ground(state, ground_step)
                    bounce.compare(state, length, parameters[kernels.DELAY_TD])
                    wider = bounce.widening(state)
                    bounce.touch_down(parameters, length, state, by_shock)
                    if doubt > 0.0:
                        bounce.add_doubt(state, step, bounce.shock_variance(state[at.SPEED]))
                    push = 0.0
                elif event == MAX_SQUAT:
                    wanted = parameters[kernels.DELAY_MS] * y1
                    at.update(state, 0.0, 1.0, 0.0, wanted - v, bounce.SQUAT_STDDEV_M_S**2)
                elif event == LIFTOFF:
                    state[at.PUSH] = push
                    bounce.lift_off(parameters, length, gravity, state)
                phase, since = (DROP if event == APEX else event + 1), 0.0
            elif rests or handled:
                if handled:
                    bounce.leave_ground(state)
                bounce.rest(state, length, idle, rests)
                idle = 0.0
                phase, since = STARTUP, (0.0 if rests else since)
            z, v, bias = state[at.Z], state[at.V], state[at.BIAS]
            if event != phase_kernels.NO_EVENT or rests:
                noise = bounce.acceleration_noise(parameters, state, phase in (STANCE_DOWN, STANCE_UP), flight_noise)
        if record:
            out[n, 0], out[n, 1] = z, v
        if record_all:
            out[n, 2], out[n, 3], out[n, 4] = wider * state[at.ZZ], wider * state[at.ZV], wider * state[at.VV]
            out[n, 5] = phase
            if tells_ground:
                out[n, 6], out[n, 7], out[n, 8] = state[at.GROUND], 2.0 * state[at.ZG] + state[at.GG], state[at.VG]
    at.propagate(state, waiting, noise)
    state[at.Z], state[at.V], state[at.TIME], state[at.GAP] = z, v, time, gap
    state[at.STARTED] = 1.0 if started else 0.0
    state[at.Y1], state[at.Y2], state[at.H1], state[at.H2], state[at.H3] = y1, y2, h1, h2, h3
    state[at.PHASE], state[at.SINCE], state[at.STILL] = phase, since, still
    state[at.PUSH], state[at.MOVING], state[at.MOVING_S] = push, moving, moving_s
    state[at.IDLE], state[at.SHOCK] = idle, shock
    return found
