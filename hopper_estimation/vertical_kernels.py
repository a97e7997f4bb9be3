"""Compiled hopping phase estimator and vertical state filters: KF1, KF2, KF3 of the paper.

One sample after another:

    low-pass filters          y1 (for the state) and y2 (for the phase), cut-offs f1 and f2
    prediction                v += y1 dt, z += v dt + y1 dt^2 / 2, covariance with an acceleration noise
    phase                     touchdown    jerk of y2 over several readings above a threshold
                              max squat    that jerk becomes negative
                              liftoff      y2 below zero
                              apex         v below zero
    inferred measurements     at touchdown and liftoff the leg is extended: z - v d = L
                              at max squat the body turns round: v - y1 d = 0
                              at liftoff v = s v, s = exp(fit), a fit of liftoff velocity and commanded height
                              in flight (KF2) the accelerometer's bias is its reading less thrust and gravity

(sections III and IV-A). The delays d, between an event and its detection, are ours: at 8 m/s a touchdown that is seen
10 ms late is 8 cm lower than the leg is long. Zero delays are the paper's form.

Readings that deserve less trust than usual make the covariance wider. The velocities that are inferred are inferred
from the estimate, and their trained weights belong to it: so that doubtful readings do not make them weigh more, their
variance grows by the same ratio as that of the velocity.

Robustness is ours, too: an event cannot follow another sooner than legs can move, a touchdown ends a rebound whose
apex was missed, and a stance or a drop that lasts longer than any is given up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.phase_kernels import (
    ALONE_RISE_M_S2,
    GAP_STEPS,
    JERK_STEPS,
    LOST,
    LOST_HEIGHT_M,
    LOST_SPEED_M_S,
    NO_EVENT,
    STANDING_PVV,
    STILL_M_S2,
    STILL_S,
    acceleration_over_gap,
    add_event,
    awaits_high,
    choose,
    phase_event,
    remembered_gap,
    standing,
)
from hopper_estimation.phases import (
    APEX,
    DROP,
    LIFTOFF,
    MAX_SQUAT,
    REBOUND,
    STARTUP,
    TOUCHDOWN,
)

Array = NDArray[np.float64]

# Elements of a parameter vector; the first fifteen are those of the paper's table II.
(F_STATE, F_PHASE, SWITCH, SIGMA_A, SIGMA_B, SIGMA_V, SIGMA_P, VEL2, VEL1, VEL0, CH1, CH0, THRUST1, THRUST0, JERK,
 DELAY_TD, DELAY_MS, DELAY_LO, STANCE_TIME) = range(19)  # fmt: skip
PARAMETER_COUNT = 19

KF1, KF2, KF3 = 0, 1, 2

# Elements of a filter's state.
(S_Z, S_V, S_B, S_PZZ, S_PZV, S_PVV, S_PZB, S_PVB, S_PBB, S_Y1, S_Y2, S_H1, S_H2, S_H3, S_PHASE, S_SINCE, S_STILL,
 S_APEX, S_STARTED, S_TIME, S_DISTRUSTED, S_GAP) = range(22)  # fmt: skip
STATE_SIZE = 22


FIT_SCALE = 0.05
LARGEST_EXPONENT = 5.0
_FASTEST_M_S = 30.0
SPEED_SCALE_M_S = 5.0
_HEIGHT_SCALE_M = 4.0
_USUAL_GOAL_M = 2.0
LARGEST_SHARE = 1.0 - 1e-9


class Body(NamedTuple):
    """What all filters know of the robot.

    Attributes
    ----------
    length
        Height of the body with the leg extended, m.
    gravity
        m/s^2.
    nominal_dt
        Usual time between samples, s.
    ground_step
        Standard deviation of the ground's change from hop to hop, m; only `bounce_kernels` estimates it.
    """

    length: float
    gravity: float
    nominal_dt: float
    ground_step: float = 0.0


class Signals(NamedTuple):
    """What all filters take of N samples.

    Attributes
    ----------
    dt
        (N,) time since the sample before, s.
    acceleration
        (N, 4) vertical acceleration of the body by the low-g and the high-g sensor, gravity taken off, and the
        horizontal specific force in the level frame of the given attitude, m/s^2.
    usable
        (N,) bit 1: the low-g reading is there and inside its range; bit 2: the high-g reading is; bit 3: the low-g
        reading is beyond its range; bit 4: a high-g reading was due and is missing.
    goal, thrust
        (N,) commanded hop height, m (NaN: none was commanded); specific thrust of the duty cycle, m/s^2 (NaN: unknown,
        and nothing is inferred from it).
    leg
        (N,) compression of the leg, m; NaN where there is no reading.
    """

    dt: Array
    acceleration: Array
    usable: NDArray[np.uint8]
    goal: Array
    thrust: Array
    leg: Array


@njit(cache=True, error_model="numpy", inline="always")
def part_of(signals: Signals, start: int, stop: int) -> Signals:
    """Some samples."""
    return Signals(
        signals.dt[start:stop],
        signals.acceleration[start:stop],
        signals.usable[start:stop],
        signals.goal[start:stop],
        signals.thrust[start:stop],
        signals.leg[start:stop],
    )


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
    """(STATE_SIZE,) before the first sample, with the covariance (2, 2) of height and velocity."""
    state = np.zeros(STATE_SIZE)
    state[S_Z], state[S_V], state[S_PHASE] = height_m, velocity_m_s, phase
    state[[S_PZZ, S_PZV, S_PVV]] = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    return state


@njit(cache=True, error_model="numpy")
def lift_scale(parameters: Array, velocity: float, goal: float) -> float:
    """s: the share of the estimated liftoff velocity (m/s) that is believed, at a commanded height (m)."""
    x, y = velocity / SPEED_SCALE_M_S, goal / _HEIGHT_SCALE_M
    fit = (parameters[VEL2] * x + parameters[VEL1]) * x + parameters[VEL0] + parameters[CH1] * y + parameters[CH0]
    return np.exp(min(max(FIT_SCALE * fit, -LARGEST_EXPONENT), LARGEST_EXPONENT))


@njit(cache=True, error_model="numpy")
def assumed_goal(goal: float, apex: float, length: float) -> float:
    """Commanded hop height, m; where none was (NaN) that of the last hop, with its apex at `apex` (0: none)."""
    if not np.isnan(goal):
        return goal
    return max(apex - length, 0.0) if apex > 0.0 else _USUAL_GOAL_M


@njit(cache=True, error_model="numpy")
def liftoff_velocity(parameters: Array, velocity: float, goal: float) -> float:
    """s v: the liftoff velocity that is inferred from the estimated one (m/s), no faster than any leg is.

    Without a bound, parameters that a training tries let the velocity grow from hop to hop until it is no number.
    """
    return min(max(lift_scale(parameters, velocity, goal) * velocity, -_FASTEST_M_S), _FASTEST_M_S)


@njit(cache=True, error_model="numpy", nogil=True)
def filter_samples(
    kind: int,
    parameters: Array,
    body: Body,
    state: Array,
    signals: Signals,
    out: Array,
    events: Array,
) -> int:
    """Filter samples one after another; how many events were found.

    Parameters
    ----------
    kind
        `KF1`, `KF2`, `KF3`.
    parameters
        (PARAMETER_COUNT,).
    state
        (STATE_SIZE,), changed.
    out
        (N, 6) or (0, 6): z, v, their covariance (zz, zv, vv) and the phase after each sample.
    events
        (M, EVENT_SIZE), written; events beyond M are lost.
    """
    length, gravity, nominal_dt, _ = body
    dt, acceleration, usable, goal, thrust, _ = signals
    f1, f2 = 2.0 * np.pi * parameters[F_STATE], 2.0 * np.pi * parameters[F_PHASE]
    gain1, gain2 = f1 * nominal_dt / (1.0 + f1 * nominal_dt), f2 * nominal_dt / (1.0 + f2 * nominal_dt)
    switch = parameters[SWITCH] * gravity
    q = parameters[SIGMA_A] ** 2
    r_p, r_v, r_b = parameters[SIGMA_P] ** 2, parameters[SIGMA_V] ** 2, parameters[SIGMA_B] ** 2
    threshold = parameters[JERK] * JERK_STEPS
    with_bias = kind == KF2
    all_updates = kind != KF3
    record = out.shape[0] > 0
    z, v, b = state[S_Z], state[S_V], state[S_B]
    pzz, pzv, pvv = state[S_PZZ], state[S_PZV], state[S_PVV]
    pzb, pvb, pbb = state[S_PZB], state[S_PVB], state[S_PBB]
    y1, y2, h1, h2, h3 = state[S_Y1], state[S_Y2], state[S_H1], state[S_H2], state[S_H3]
    phase, since, still, apex = int(state[S_PHASE]), state[S_SINCE], state[S_STILL], state[S_APEX]
    started, time, distrusted, gap = state[S_STARTED], state[S_TIME], state[S_DISTRUSTED], state[S_GAP]
    found = 0
    for n in range(dt.shape[0]):
        step = dt[n]
        g1, g2 = gain1, gain2
        if abs(step - nominal_dt) > 1e-5:
            g1, g2 = f1 * step / (1.0 + f1 * step), f2 * step / (1.0 + f2 * step)
        a, more = choose(int(usable[n]), acceleration[n, 0], acceleration[n, 1], y1, gravity, switch)
        is_gap, over_gap = step > GAP_STEPS * nominal_dt, y1
        gap = remembered_gap(gap, step, nominal_dt)
        if is_gap:
            over_gap, unknown = acceleration_over_gap(step, y1, a)
            more += unknown
        if started == 0.0:
            y1, y2, h1, h2, h3, started = a, a, a, a, a, 1.0
        y1 += g1 * (a - y1)
        y2 += g2 * (a - y2)
        rise = y2 - h3
        h3, h2, h1 = h2, h1, y2
        used = over_gap if is_gap else y1
        if with_bias:
            used -= b
        half = 0.5 * step
        z += step * (v + half * used)
        v += step * used
        noise = (q + more) * step * step
        distrusted += more * step * step
        if with_bias:
            # d(z, v)/db = (-dt^2/2, -dt), the bias walks slowly.
            pzz += step * (2.0 * pzv + step * pvv) - step * step * (pzb + step * pvb) + 0.25 * step**4 * pbb
            pzv += step * (pvv - pzb - 1.5 * step * pvb + 0.5 * step * step * pbb)
            pvv += step * (step * pbb - 2.0 * pvb)
            pzb += step * (pvb - half * pbb)
            pvb -= step * pbb
            pbb += 1e-4 * step
        else:
            pzz += step * (2.0 * pzv + step * pvv)
            pzv += step * pvv
        pzz += half * half * noise
        pzv += half * noise
        pvv += noise
        since += step
        time += step
        # A third of the time that the readings of the rise span. Stamps of a sender that was held up stand close
        # together; what they are of did not.
        usual = step if abs(step - nominal_dt) <= 1e-5 else max(step, nominal_dt)
        over = gap / JERK_STEPS + (0.0 if is_gap else usual)
        limit = threshold * over
        if usable[n] & 7 == 2:
            limit += g2 * ALONE_RISE_M_S2
        event = phase_event(phase, since, v, y2, rise, limit)
        if usable[n] & 8 and awaits_high(int(usable[n]), acceleration[n, 0], gravity, switch):
            event = NO_EVENT
        if event == LOST:
            pzz += LOST_HEIGHT_M**2
            pvv += LOST_SPEED_M_S**2
            distrusted += LOST_SPEED_M_S**2
            phase, since = STARTUP, 0.0
        # A robot that stands: supported, and not moving for longer than any flight's balance of forces lasts.
        still = still + step if max(abs(a), abs(y1)) < STILL_M_S2 else 0.0
        if event >= 0:
            found = add_event(events, found, event, time, z, v, pzz, n)
            if event == TOUCHDOWN or (event == LIFTOFF and all_updates):
                delay = parameters[DELAY_TD] if event == TOUCHDOWN else parameters[DELAY_LO]
                # z - v d = L
                before, hz, hv = pvv, pzz - delay * pzv, pzv - delay * pvv
                gain = 1.0 / (hz - delay * hv + r_p + (v * v + pvv) * gap * gap)
                residual = length - (z - delay * v)
                if with_bias:
                    hb = pzb - delay * pvb
                    b += hb * gain * residual
                    pzb -= hz * hb * gain
                    pvb -= hv * hb * gain
                    pbb -= hb * hb * gain
                z += hz * gain * residual
                v += hv * gain * residual
                pzz -= hz * hz * gain
                pzv -= hz * hv * gain
                pvv -= hv * hv * gain
                distrusted *= pvv / before
            if all_updates and event in (MAX_SQUAT, LIFTOFF):
                wanted = parameters[DELAY_MS] * y1
                if event == LIFTOFF:
                    wanted = liftoff_velocity(parameters, v, assumed_goal(goal[n], apex, length))
                before, share = pvv, min(distrusted / pvv, LARGEST_SHARE)
                gain = 1.0 / (pvv + r_v / (1.0 - share))
                residual = wanted - v
                if with_bias:
                    b += pvb * gain * residual
                    pzb -= pzv * pvb * gain
                    pbb -= pvb * pvb * gain
                    pvb -= pvv * pvb * gain
                z += pzv * gain * residual
                v += pvv * gain * residual
                pzz -= pzv * pzv * gain
                pzv -= pzv * pvv * gain
                pvv -= pvv * pvv * gain
                distrusted *= pvv / before
            if event == APEX:
                apex = z
                phase = DROP
            else:
                phase = event + 1
            since = 0.0
        elif with_bias and phase in (DROP, REBOUND) and thrust[n] == thrust[n]:
            measured = a - (parameters[THRUST1] * thrust[n] + parameters[THRUST0] * 0.1 - gravity)
            gain = 1.0 / (pbb + r_b)
            residual = measured - b
            z += pzb * gain * residual
            v += pvb * gain * residual
            b += pbb * gain * residual
            pzz -= pzb * pzb * gain
            pzv -= pzb * pvb * gain
            pvv -= pvb * pvb * gain
            pzb -= pzb * pbb * gain
            pvb -= pvb * pbb * gain
            pbb -= pbb * pbb * gain
        if still > STILL_S and event < 0:
            phase, since, v = STARTUP, 0.0, 0.0
            z, pzz = standing(z, pzz, step, length)
            pzv, pvv, distrusted = 0.0, STANDING_PVV, 0.0
            pzb, pvb = 0.0, 0.0
        if record:
            out[n, 0], out[n, 1], out[n, 2], out[n, 3], out[n, 4], out[n, 5] = z, v, pzz, pzv, pvv, phase
    state[S_Z], state[S_V], state[S_B] = z, v, b
    state[S_PZZ], state[S_PZV], state[S_PVV] = pzz, pzv, pvv
    state[S_PZB], state[S_PVB], state[S_PBB] = pzb, pvb, pbb
    state[S_Y1], state[S_Y2], state[S_H1], state[S_H2], state[S_H3] = y1, y2, h1, h2, h3
    state[S_PHASE], state[S_SINCE], state[S_STILL], state[S_APEX] = phase, since, still, apex
    state[S_STARTED], state[S_TIME], state[S_DISTRUSTED], state[S_GAP] = started, time, distrusted, gap
    return found
