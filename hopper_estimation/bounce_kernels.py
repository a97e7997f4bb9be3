"""Compiled vertical filter that goes by the bounce: how fast a leg leaves the ground follows from how fast it came.

The paper's KF1 integrates the shock of a stance and scales what comes out by a fit of the commanded height
(`vertical_kernels`). Cheap accelerometers clip and alias shocks, so that the integral is off by a third, and a fit of
commands is wrong in the hop after a new one. Here the stance is not integrated. A passive leg gives back a share of
its speed, its coefficient of restitution:

    v_liftoff = e (1 + c) u     u the speed at touchdown, e a trained fit of u, c how much this robot differs

and it is extended again a stance's time T after touchdown, whenever the low-passed acceleration tells of it. Height and
velocity in flight, the bias b of the acceleration and c are estimated together:

    x = (z, v, b, c)    z' = v, v' = y1 - b, b and c constant but for slow walks

    touchdown    z - v d = L
    max squat    v - y1 d = 0
    liftoff      v - e u c = e u - g t        t since the leg was extended: since touchdown, less T
                 z - v t - g t^2 / 2 = L

u is known well at touchdown: the flight before it began and ended at height L, and its duration tells the speed. So c
and b are learned from hop to hop, within two or three.

The acceleration's noise is white in flight; in stance it is what makes the integral of the shock uncertain by a share of
itself. Covariances are moved on over stretches of any length in one step, so that training moves them from event to
event and the live filter from sample to sample, to the same result.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.phases import (
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
from hopper_estimation.vertical_kernels import Body, Signals

Array = NDArray[np.float64]

# Elements of a filter's state: the mean, its covariance, filtered readings, phase, the last landing.
(B_Z, B_V, B_BIAS, B_BOUNCE, B_ZZ, B_ZV, B_VV, B_ZB, B_VB, B_BB, B_ZC, B_VC, B_BC, B_CC, B_Y1, B_Y2, B_H1, B_H2, B_H3,
 B_PHASE, B_SINCE, B_STILL, B_STARTED, B_TIME, B_GAP, B_LANDED, B_SPEED, B_SPEED_VARIANCE,
 B_LANDED_GAP, B_PUSH, B_GROUNDED, B_MOVING, B_MOVING_S) = range(33)  # fmt: skip
STATE_SIZE = 33

BIAS_STDDEV_M_S2 = 0.15
"""What zeroing at rest leaves of scale and tilt errors: 1 % of gravity, and a degree."""
BIAS_WALK = 1e-4
"""(m/s^2)^2 a hop: some tenths of m/s^2 in ten minutes."""
RESTITUTION_SPREAD = 0.06
"""Between robots of a design: 5 % of spring loss and preload, two grounds."""
RESTITUTION_WALK = 0.005
"""From hop to hop."""
STANCE_SHARE = 0.5
"""Of the shock's integral that clipping, aliasing and the leg's own mass may take or add."""
SQUAT_STDDEV_M_S = 0.5
"""A maximum squat is seen some milliseconds early or late, at 10 g."""
LONGEST_AFTER_S = 0.15
"""A liftoff that is seen later after it was due is another's."""
USUAL_AFTER_S = 0.05
"""Rotors push up to two weights, and training knows what they do until a liftoff is usually seen."""
BELOW_M = 0.15
"""Lower than the leg can be pressed: the touchdown was missed."""
ABOVE_M = 0.15
"""Uneven ground, and what a height may be off by when nothing says so."""
SHOCK_M_S2 = 40.0
"""No rotor pushes like that: low-passed acceleration of a stance, wherever the robot was thought to be."""
LEAST_POSITION_M = 0.005
"""Unevenness of flat ground, and of the foot."""
SEEN_STDDEV_S = 0.002
"""Of the delay with which touchdowns are seen, between robots and sensors."""
USUAL_RESTITUTION = 0.6
LEAST_PUSH_M_S = 0.8
"""A stance turns a robot round that fell from 5 cm; setting it down by hand does not."""
LEAST_PUSH_SHARE = 0.35
"""Of what turns the robot round, as the sensors tell it, with the high-g sensor missing."""
PUSH_SHARE = 0.4
"""By how much a landing's speed may be off that is told by the shock alone."""
UNSURE_M_S = 1.0
SHOCK_SEEN_S = 0.006
HIDDEN_S = 0.002
UNSEEN_PUSH_M_S = 1e3
KNOWN_M = 0.5
STANDING_M = 0.1
CARRIED_M_S = 0.5
"""What is at rest by its readings may be carried at a steady speed."""
MOVED_M_S = 0.25
MOVED_S = 0.15
MOVING_TIME_S = 1.0
"""A robot whose readings add up to such a speed for so long was lifted, or takes off."""
ROOM_M = 3.0
ROOM_M_S = 2.0
ROOM_TIME_S = 2.0
"""A robot in somebody's hands is somewhere within reach."""
_SLOWEST_M_S = 0.3
_DEVIATIONS = 4.0


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
    """(STATE_SIZE,) before the first sample, with the covariance (2, 2) of height and velocity."""
    state = np.zeros(STATE_SIZE)
    state[B_Z], state[B_V], state[B_PHASE] = height_m, velocity_m_s, phase
    state[[B_ZZ, B_ZV, B_VV]] = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    state[B_GROUNDED] = 1.0 if phase == STARTUP else 0.0
    state[B_BB], state[B_CC] = BIAS_STDDEV_M_S2**2, RESTITUTION_SPREAD**2
    return state


@njit(cache=True, error_model="numpy")
def restitution(parameters: Array, speed: float) -> float:
    """e: speed after a bounce over the speed (m/s) before it, of the robots that training saw."""
    x = speed / kernels.SPEED_SCALE_M_S
    fit = (parameters[kernels.VEL2] * x + parameters[kernels.VEL1]) * x + parameters[kernels.VEL0]
    exponent = min(max(kernels.FIT_SCALE * fit, -kernels.LARGEST_EXPONENT), kernels.LARGEST_EXPONENT)
    return USUAL_RESTITUTION * np.exp(exponent)


@njit(cache=True, error_model="numpy", inline="always")
def propagate(state: Array, step: float, noise: float) -> None:
    """Move the covariance on by `step` s with an acceleration noise of that density, (m/s^2)^2 s."""
    zz, zv, vv = state[B_ZZ], state[B_ZV], state[B_VV]
    zb, vb, bb = state[B_ZB], state[B_VB], state[B_BB]
    zc, vc, bc = state[B_ZC], state[B_VC], state[B_BC]
    half = 0.5 * step
    # z' = z + t v - t^2/2 b, v' = v - t b
    state[B_ZZ] = (
        zz + step * (2.0 * zv + step * vv) - 2.0 * half * step * (zb + step * vb) + (half * step) ** 2 * bb
    ) + noise * step * step * step / 3.0
    state[B_ZV] = zv + step * (vv - zb - 1.5 * step * vb + half * step * bb) + noise * half * step
    state[B_VV] = vv + step * (step * bb - 2.0 * vb) + noise * step
    state[B_ZB] = zb + step * (vb - half * bb)
    state[B_VB] = vb - step * bb
    state[B_ZC] = zc + step * (vc - half * bc)
    state[B_VC] = vc - step * bc


@njit(cache=True, error_model="numpy", nogil=True)
def update(state: Array, hz: float, hv: float, hc: float, residual: float, variance: float) -> None:
    """A measurement hz z + hv v + hc c, with its residual and variance: mean and covariance."""
    z = state[B_ZZ] * hz + state[B_ZV] * hv + state[B_ZC] * hc
    v = state[B_ZV] * hz + state[B_VV] * hv + state[B_VC] * hc
    b = state[B_ZB] * hz + state[B_VB] * hv + state[B_BC] * hc
    c = state[B_ZC] * hz + state[B_VC] * hv + state[B_CC] * hc
    gain = 1.0 / (hz * z + hv * v + hc * c + variance)
    step = gain * residual
    state[B_Z] += z * step
    state[B_V] += v * step
    state[B_BIAS] += b * step
    state[B_BOUNCE] += c * step
    state[B_ZZ] -= z * z * gain
    state[B_ZV] -= z * v * gain
    state[B_VV] -= v * v * gain
    state[B_ZB] -= z * b * gain
    state[B_VB] -= v * b * gain
    state[B_BB] -= b * b * gain
    state[B_ZC] -= z * c * gain
    state[B_VC] -= v * c * gain
    state[B_BC] -= b * c * gain
    state[B_CC] -= c * c * gain


@njit(cache=True, error_model="numpy", nogil=True)
def _may_land(state: Array, length: float) -> bool:
    """Whether the robot may be at the leg's length above the ground, and falling."""
    low = state[B_Z] - _DEVIATIONS * np.sqrt(state[B_ZZ]) < length + ABOVE_M
    return low and state[B_V] - _DEVIATIONS * np.sqrt(state[B_VV]) < 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def touch_down(parameters: Array, length: float, state: Array, by_shock: bool, calm: float) -> None:
    """The leg is extended; how fast the robot comes is what it bounces by.

    After a gap the touchdown was when the height fell to the leg's length, as far as the gap allows; `calm` is the
    velocity's variance without the shock that may have begun in it (negative: there was no gap).
    """
    gap, delay = state[B_GAP], parameters[kernels.DELAY_TD]
    fast = max(-state[B_V], _SLOWEST_M_S)
    late = min(max((length - state[B_Z]) / fast, 0.0), max(gap, delay)) if gap > delay else delay
    state[B_GROUNDED] = 1.0 if state[B_ZZ] < KNOWN_M**2 else 0.0
    if by_shock and not _may_land(state, length):
        state[B_ZZ] += (length - state[B_Z]) ** 2
    variance = KNOWN_M**2 if by_shock else 0.0  # or a hand caught it: the liftoff tells
    variance += parameters[kernels.SIGMA_P] ** 2 + LEAST_POSITION_M**2
    unsure_s = min(gap, np.sqrt(state[B_ZZ]) / fast) if calm >= 0.0 else gap
    variance += (state[B_V] ** 2 + (state[B_VV] if calm < 0.0 else calm)) * (unsure_s * unsure_s + SEEN_STDDEV_S**2)
    update(state, 1.0, -late, 0.0, length - (state[B_Z] - late * state[B_V]), variance)
    state[B_LANDED], state[B_SPEED] = state[B_TIME] - late, max(-state[B_V], 0.0)
    state[B_SPEED_VARIANCE], state[B_LANDED_GAP] = (state[B_VV] if calm < 0.0 else calm), unsure_s


@njit(cache=True, error_model="numpy", nogil=True)
def _fall_time(state: Array, acceleration: float, length: float) -> float:
    """Until the robot is at the leg's length, s, where it is known well enough; infinite: it is not, or it rises."""
    z, v = state[B_Z], state[B_V]
    if v >= -_SLOWEST_M_S or state[B_ZZ] > KNOWN_M**2 or z < length - BELOW_M:
        return np.inf
    if z <= length:
        return 0.0
    # z + v t + a t^2 / 2 = L in the form that does without a difference of like numbers.
    root = v * v - 2.0 * acceleration * (z - length)
    return 2.0 * (z - length) / (np.sqrt(root) - v) if root >= 0.0 else np.inf


@njit(cache=True, error_model="numpy", nogil=True)
def _land_unseen(
    state: Array, time: float, fall: float, acceleration: float, length: float, flight_noise: float
) -> None:
    """A touchdown in a gap, `fall` s after its last reading at `time`: the state then, without a measurement."""
    propagate(state, fall, flight_noise)
    state[B_V] += acceleration * fall
    speed = max(-state[B_V], _SLOWEST_M_S)
    state[B_GROUNDED] = 1.0
    state[B_LANDED], state[B_SPEED], state[B_SPEED_VARIANCE] = time + fall, speed, state[B_VV]
    state[B_LANDED_GAP] = np.sqrt(state[B_ZZ]) / speed
    state[B_Z] = length


@njit(cache=True, error_model="numpy", nogil=True)
def lift_off(parameters: Array, length: float, gravity: float, state: Array) -> None:
    """Velocity by the bounce, then the leg was extended. Without a landing: the leg is extended now."""
    speed, gap, position = state[B_SPEED], state[B_GAP], parameters[kernels.SIGMA_P] ** 2 + LEAST_POSITION_M**2
    if state[B_SPEED_VARIANCE] > UNSURE_M_S**2:
        speed = max(state[B_PUSH], 0.0) / (1.0 + USUAL_RESTITUTION)
        state[B_SPEED_VARIANCE] = (PUSH_SHARE * speed) ** 2
    state[B_GROUNDED] = 0.0
    after = state[B_TIME] - state[B_LANDED] - parameters[kernels.STANCE_TIME]
    if speed <= 0.0 or after > LONGEST_AFTER_S:
        update(state, 1.0, 0.0, 0.0, length - state[B_Z], position + (state[B_V] ** 2 + state[B_VV]) * gap * gap)
        return
    after = max(after, 0.0)
    rebound = restitution(parameters, speed) * speed
    share = rebound / speed
    state[B_BB] += BIAS_WALK
    state[B_CC] += RESTITUTION_WALK**2
    spread = parameters[kernels.SIGMA_V] * rebound / kernels.SPEED_SCALE_M_S
    late = state[B_LANDED_GAP]
    pushed = gravity * max(after - USUAL_AFTER_S, 0.0)
    variance = spread * spread + share * share * state[B_SPEED_VARIANCE] + (gravity * late) ** 2 + pushed * pushed
    update(state, 0.0, 1.0, -rebound, rebound * (1.0 + state[B_BOUNCE]) - gravity * after - state[B_V], variance)
    fallen = 0.5 * gravity * after * after
    variance = position + (state[B_V] ** 2 + state[B_VV]) * late * late
    update(state, 1.0, -after, 0.0, length - (state[B_Z] - after * state[B_V] - fallen), variance)
    state[B_SPEED] = 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def filter_bounces(
    kind: int, parameters: Array, body: Body, state: Array, signals: Signals, out: Array, events: Array
) -> int:
    """Filter samples one after another; how many events were found. As `vertical_kernels.filter_samples`."""
    length, gravity, nominal_dt = body
    dt, acceleration, usable = signals.dt, signals.acceleration, signals.usable
    f1, f2 = 2.0 * np.pi * parameters[kernels.F_STATE], 2.0 * np.pi * parameters[kernels.F_PHASE]
    switch = parameters[kernels.SWITCH] * gravity
    flight_noise = parameters[kernels.SIGMA_A] ** 2 * nominal_dt
    threshold = parameters[kernels.JERK] * kernels.JERK_STEPS
    record, record_all = out.shape[0] > 0, out.shape[0] > 0 and out.shape[1] > 2
    z, v, bias = state[B_Z], state[B_V], state[B_BIAS]
    y1, y2, h1, h2, h3 = state[B_Y1], state[B_Y2], state[B_H1], state[B_H2], state[B_H3]
    phase, since, still = int(state[B_PHASE]), state[B_SINCE], state[B_STILL]
    time, gap, push = state[B_TIME], state[B_GAP], state[B_PUSH]
    moving, moving_s = state[B_MOVING], state[B_MOVING_S]
    started = state[B_STARTED] != 0.0
    stance = phase in (STANCE_DOWN, STANCE_UP)
    noise = _noise(parameters, state, stance, flight_noise)
    waiting, found = 0.0, 0
    for n in range(dt.shape[0]):
        step, bits = dt[n], int(usable[n])
        low, high = acceleration[n, 0], acceleration[n, 1]
        a, more = kernels.choose(bits, low, high, y1, gravity, switch)
        is_gap, used = step > kernels.GAP_STEPS * nominal_dt, 0.0
        gap = step if is_gap else kernels.FORGOTTEN * gap
        if not started:
            y1, y2, h1, h2, h3, started = a, a, a, a, a, True
        calm = -1.0
        if is_gap:
            used, unknown = kernels.acceleration_over_gap(step, y1, a)
            propagate(state, waiting, noise)
            waiting, calm = 0.0, state[B_VV] + flight_noise * step
            state[B_Z], state[B_V] = z, v
            fall = _fall_time(state, used - bias, length) if phase == DROP else np.inf
            if fall < step:
                # It landed where nothing was read: as its fall until then foretells.
                found = kernels.add_event(events, found, TOUCHDOWN, time + fall, length, v, state[B_ZZ], n)
                _land_unseen(state, time, fall, used - bias, length, flight_noise)
                phase, since, push = STANCE_DOWN, -fall, UNSEEN_PUSH_M_S
                z, v, used = state[B_Z], state[B_V], bias
                noise = _noise(parameters, state, True, flight_noise)
            else:
                more += unknown
        gain2 = f2 * step / (1.0 + f2 * step)
        y1 += f1 * step / (1.0 + f1 * step) * (a - y1)
        y2 += gain2 * (a - y2)
        rise = y2 - h3
        h3, h2, h1 = h2, h1, y2
        used = (used if is_gap else y1) - bias
        z += step * (v + 0.5 * step * used)
        v += step * used
        since += step
        time += step
        push += step * a
        moving = moving + step * (y1 - moving / MOVING_TIME_S) if phase == STARTUP else 0.0
        moving_s = moving_s + step if abs(moving) > MOVED_M_S else 0.0
        waiting += step
        if more > 0.0:
            propagate(state, waiting - step, noise)
            propagate(state, step, noise + more * step)
            waiting = 0.0
        usual = step if abs(step - nominal_dt) <= 1e-5 else max(step, nominal_dt)
        limit = threshold * (gap / kernels.JERK_STEPS + (0.0 if is_gap else usual))
        if bits & 7 == 2:
            limit += gain2 * kernels.ALONE_RISE_M_S2
        event = kernels.phase_event(phase, since, v, y2, rise, limit)
        if bits & 8 and kernels.awaits_high(bits, low, gravity, switch):
            event = kernels.NO_EVENT
        below = phase == DROP and event < 0 and z < length - BELOW_M
        still = still + step if max(abs(a), abs(y1)) < kernels.STILL_M_S2 else 0.0
        rests = still > kernels.STILL_S and event < 0
        handled = phase == STARTUP and (state[B_GROUNDED] == 0.0 or moving_s > MOVED_S)
        if event != kernels.NO_EVENT or below or rests or handled or record_all:
            propagate(state, waiting, noise)
            waiting = 0.0
            state[B_Z], state[B_V], state[B_TIME], state[B_GAP] = z, v, time, gap
            by_shock = False
            if event == TOUCHDOWN and (phase == STARTUP or not _may_land(state, length)):
                if y2 < SHOCK_M_S2:
                    event = kernels.NO_EVENT
                else:
                    state[B_GAP], by_shock = max(gap, SHOCK_SEEN_S), True
            if event == LIFTOFF and not _turned_round(state, push):
                event = kernels.LOST
            if below and z < length - BELOW_M - _DEVIATIONS * np.sqrt(state[B_ZZ]):
                event = kernels.LOST  # no shock: it is somewhere else
                if gap > HIDDEN_S:
                    event = TOUCHDOWN
                    state[B_GAP] = max(gap, (length - z) / max(-v, _SLOWEST_M_S))
            if event == kernels.LOST:
                _lose(state, length)
                phase, since = STARTUP, 0.0
            elif event >= 0:
                found = kernels.add_event(events, found, event, time, z, v, state[B_ZZ], n)
                if event == TOUCHDOWN:
                    touch_down(parameters, length, state, by_shock, calm)
                    push = 0.0
                elif event == MAX_SQUAT:
                    wanted = parameters[kernels.DELAY_MS] * y1
                    update(state, 0.0, 1.0, 0.0, wanted - v, SQUAT_STDDEV_M_S**2)
                elif event == LIFTOFF:
                    state[B_PUSH] = push
                    lift_off(parameters, length, gravity, state)
                phase, since = (DROP if event == APEX else event + 1), 0.0
            elif rests or handled:
                if handled:
                    state[B_GROUNDED] = 0.0
                _rest(state, length, step, rests)
                phase, since = STARTUP, (0.0 if rests else since)
            z, v, bias = state[B_Z], state[B_V], state[B_BIAS]
            if event != kernels.NO_EVENT or rests:
                noise = _noise(parameters, state, phase in (STANCE_DOWN, STANCE_UP), flight_noise)
        if record:
            out[n, 0], out[n, 1] = z, v
        if record_all:
            out[n, 2], out[n, 3], out[n, 4], out[n, 5] = state[B_ZZ], state[B_ZV], state[B_VV], phase
    propagate(state, waiting, noise)
    state[B_Z], state[B_V], state[B_TIME], state[B_GAP], state[B_STARTED] = z, v, time, gap, 1.0 if started else 0.0
    state[B_Y1], state[B_Y2], state[B_H1], state[B_H2], state[B_H3] = y1, y2, h1, h2, h3
    state[B_PHASE], state[B_SINCE], state[B_STILL] = phase, since, still
    state[B_PUSH], state[B_MOVING], state[B_MOVING_S] = push, moving, moving_s
    return found


@njit(cache=True, error_model="numpy", nogil=True)
def _noise(parameters: Array, state: Array, stance: bool, flight_noise: float) -> float:
    """Density of the acceleration's noise, (m/s^2)^2 s: over a stance, a share of what turns the robot round."""
    if not stance:
        return flight_noise
    return (STANCE_SHARE * (1.0 + USUAL_RESTITUTION) * max(state[B_SPEED], 1.0)) ** 2 / parameters[kernels.STANCE_TIME]


@njit(cache=True, error_model="numpy", nogil=True)
def _turned_round(state: Array, push: float) -> bool:
    """Whether the shock of this stance, m/s, was enough for a bounce; what a gap hides of it is believed."""
    if state[B_GAP] > SHOCK_SEEN_S or state[B_LANDED_GAP] > SHOCK_SEEN_S:
        return True
    known = state[B_SPEED] if state[B_SPEED_VARIANCE] < UNSURE_M_S**2 else 0.0
    return push > max(LEAST_PUSH_M_S, LEAST_PUSH_SHARE * (1.0 + USUAL_RESTITUTION) * known)


@njit(cache=True, error_model="numpy", nogil=True)
def _lose(state: Array, length: float) -> None:
    """A stance that does not end is a robot that stands; a flight that does not end is somewhere else."""
    state[B_SPEED] = 0.0
    if state[B_GROUNDED] != 0.0:
        update(state, 1.0, 0.0, 0.0, length - state[B_Z], STANDING_M**2)
        update(state, 0.0, 1.0, 0.0, -state[B_V], CARRIED_M_S**2)
    else:
        state[B_ZZ] += kernels.LOST_HEIGHT_M**2
        state[B_VV] += kernels.LOST_SPEED_M_S**2


@njit(cache=True, error_model="numpy", nogil=True)
def _rest(state: Array, length: float, step: float, rests: bool) -> None:
    """A robot that rests on the ground stands on an extended leg; where it is in somebody's hands, nobody knows."""
    if state[B_GROUNDED] != 0.0:
        state[B_V], state[B_SPEED] = 0.0, 0.0
        state[B_Z] += (length - state[B_Z]) * min(10.0 * step, 1.0)
        state[B_ZZ], state[B_ZV], state[B_VV] = min(state[B_ZZ], 1e-2), 0.0, 1e-4
        state[B_ZB], state[B_VB], state[B_ZC], state[B_VC] = 0.0, 0.0, 0.0, 0.0
        return
    if rests:
        state[B_V], state[B_SPEED], state[B_VV] = 0.0, 0.0, CARRIED_M_S**2
        state[B_ZV], state[B_VB], state[B_VC] = 0.0, 0.0, 0.0
        state[B_ZZ] += CARRIED_M_S**2 * step * MOVING_TIME_S
    wide = ROOM_TIME_S / step
    update(state, 1.0, 0.0, 0.0, length + 0.5 * ROOM_M - state[B_Z], ROOM_M**2 * wide)
    update(state, 0.0, 1.0, 0.0, -state[B_V], ROOM_M_S**2 * wide)
