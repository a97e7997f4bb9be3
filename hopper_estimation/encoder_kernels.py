"""Compiled baselines that need a leg encoder: BA1 (ballistic flight) and DR1 (dead reckoning) of the paper's table III.

    stance    the foot stands on the ground, so that z = L - s and v = -s' with the compression s of the leg
    liftoff   the stop ends the extension; body and leg share the momentum: v = -s' m_b / (m_b + m_l), at z = L
    flight    BA1  v' = -g                until the encoder sees the next touchdown
              DR1  v' = a                 a: the accelerometer's reading, chosen as by the filters; before the stop's
                                          shock has died away -g, else the momentum that is shared would count twice

s' comes from a least-squares polynomial through the last readings before the stop, extrapolated to it. Nothing corrects
the flight. The phases are the encoder's: touchdown when the leg is pressed, max squat when s' turns, liftoff when the
leg is extended again, apex when v turns.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.phase_kernels import LOST_HEIGHT_M, LOST_SPEED_M_S, NO_EVENT, add_event, choose
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

BA1, DR1 = 0, 1

# Elements of a parameter vector; `baselines.encoder_parameters` fills it.
(C_READINGS, C_DEGREE, C_PRESSED_M, C_SHARE, C_NOISE_M, C_UNMODELLED, C_SWITCH, C_SETTLE_S) = range(8)
PARAMETER_COUNT = 8

# Elements of a state; the readings are a ring of times and compressions.
(C_Z, C_V, C_PZZ, C_PZV, C_PVV, C_PHASE, C_SINCE, C_APEX, C_TIME, C_COUNT) = range(10)
C_READ = 10
MOST_READINGS = 32
STATE_SIZE = C_READ + 2 * MOST_READINGS

_SHORTEST_STANCE_S = 0.004
_SHORTEST_FLIGHT_S = 0.09
_LONGEST_STANCE_S = 0.25
_LONGEST_FLIGHT_S = 2.5
_SLOWEST_HOP_M_S = 0.3
_STANCE_READINGS = 6
_GROUND_STDDEV_M = 0.003
_SPEED_SHARE = 0.02
"""Standard deviation of a liftoff speed, as a share: scale of the encoder, and what the stop does not share."""


@njit(cache=True, error_model="numpy")
def fitted(
    read: Array, count: int, readings: int, degree: int, now: float, dt: float, slope: bool
) -> tuple[float, float]:
    """Value or slope at a time of the polynomial through the last readings; its variance for readings of variance 1.

    Parameters
    ----------
    read
        (MOST_READINGS, 2) times (s) and readings, a ring.
    count
        Readings written so far, of which the last `readings` are used, as far as there are as many.
    degree
        1 or 2; 1 while there are only two readings.
    now, dt
        Time asked for, s; usual time between readings, s, the unit in which it is solved.
    """
    used = min(readings, count)
    m0, m1, m2, m3, m4, b0, b1, b2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(count - used, count):
        t, y = (read[k % MOST_READINGS, 0] - now) / dt, read[k % MOST_READINGS, 1]
        m0 += 1.0
        m1 += t
        m2 += t * t
        m3 += t * t * t
        m4 += t * t * t * t
        b0 += y
        b1 += t * y
        b2 += t * t * y
    # Weights w solve M w = e, e choosing value or slope at t = 0: estimate w . b, variance w . e.
    if degree == 1 or used < 3:
        m2_, m3_, m4_ = m2, 0.0, 1.0
        m02 = 0.0
        b2 = 0.0
    else:
        m2_, m3_, m4_ = m2, m3, m4
        m02 = m2
    a11, a12, a22 = m2_ * m4_ - m3_ * m3_, m02 * m3_ - m1 * m4_, m0 * m4_ - m02 * m02
    a13, a23 = m1 * m3_ - m02 * m2_, m1 * m02 - m0 * m3_
    determinant = m0 * a11 + m1 * a12 + m02 * a13
    if slope:
        return (a12 * b0 + a22 * b1 + a23 * b2) / (determinant * dt), a22 / (determinant * dt * dt)
    return (a11 * b0 + a12 * b1 + a13 * b2) / determinant, a11 / determinant


@njit(cache=True, error_model="numpy", nogil=True)
def filter_encoder_samples(
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
        `BA1`, `DR1`.
    parameters
        (PARAMETER_COUNT,), of the encoder.
    state
        (STATE_SIZE,), changed.

    The others are those of `vertical_kernels.filter_samples`.
    """
    length, gravity, nominal_dt, _ = body
    dt, acceleration, usable, _, _, leg = signals
    readings, degree = min(int(parameters[C_READINGS]), MOST_READINGS), int(parameters[C_DEGREE])
    pressed, share = parameters[C_PRESSED_M], parameters[C_SHARE]
    noise = parameters[C_NOISE_M] ** 2
    switch = parameters[C_SWITCH] * gravity
    record = out.shape[0] > 0
    read = state[C_READ:].reshape(MOST_READINGS, 2)
    z, v = state[C_Z], state[C_V]
    pzz, pzv, pvv = state[C_PZZ], state[C_PZV], state[C_PVV]
    phase, since, apex = int(state[C_PHASE]), state[C_SINCE], state[C_APEX]
    time, count = state[C_TIME], int(state[C_COUNT])
    found = 0
    for n in range(dt.shape[0]):
        step = dt[n]
        time += step
        since += step
        s = leg[n]
        present = not np.isnan(s)
        event = NO_EVENT
        if phase in (DROP, REBOUND):
            u, distrust = -gravity, 0.0
            if kind == DR1 and (phase == DROP or since > parameters[C_SETTLE_S]):
                u, distrust = choose(int(usable[n]), acceleration[n, 0], acceleration[n, 1], 0.0, gravity, switch)
            z += step * (v + 0.5 * step * u)
            v += step * u
            pzz += step * (2.0 * pzv + step * pvv)
            pzv += step * pvv
            pvv += step * parameters[C_UNMODELLED] + step * step * distrust
            # Right after liftoff the leg bounces on its stop: no touchdown.
            if present and s > pressed and (phase == DROP or since > _SHORTEST_FLIGHT_S):
                event = TOUCHDOWN
            elif phase == REBOUND and v < 0.0:
                event = APEX
            elif since > _LONGEST_FLIGHT_S:
                pzz += LOST_HEIGHT_M**2
                pvv += LOST_SPEED_M_S**2
                v, phase, since = 0.0, STARTUP, 0.0
        elif phase == STARTUP:
            if present and s > pressed:
                event = TOUCHDOWN
        elif since > _LONGEST_STANCE_S:
            pzz += LOST_HEIGHT_M**2
            pvv += LOST_SPEED_M_S**2
            v, phase, since = 0.0, STARTUP, 0.0
        elif not present:
            z += step * v
        elif phase == STANCE_UP and s <= pressed:
            event = LIFTOFF
        else:
            read[count % MOST_READINGS, 0], read[count % MOST_READINGS, 1] = time, s
            count += 1
            z, pzz, pzv = length - s, noise + _GROUND_STDDEV_M**2, 0.0
            if count > degree:
                slope, variance = fitted(read, count, min(readings, _STANCE_READINGS), degree, time, nominal_dt, True)
                v, pvv = -slope, noise * variance
            if phase == STANCE_DOWN and since > _SHORTEST_STANCE_S and (v > 0.0 or s <= pressed):
                event = MAX_SQUAT
        if event >= 0:
            found = add_event(events, found, event, time, z, v, pzz, n)
            phase = DROP if event == APEX else event + 1
            since = 0.0
            if event == TOUCHDOWN:
                read[0, 0], read[0, 1] = time, s
                count = 1
                z, pzz, pzv = length - s, noise + _GROUND_STDDEV_M**2, 0.0
            elif event == LIFTOFF:
                last = read[(count - 1) % MOST_READINGS, 0]
                stop = time
                if count > degree:
                    value, _ = fitted(read, count, readings, degree, last, nominal_dt, False)
                    slope, _ = fitted(read, count, readings, degree, last, nominal_dt, True)
                    if slope < 0.0:
                        stop = min(max(last - value / slope, last), time)
                    slope, variance = fitted(read, count, readings, degree, stop, nominal_dt, True)
                    v, pvv = max(-slope, 0.0) * share, noise * variance * share * share
                pvv += (_SPEED_SHARE * v) ** 2
                if v < _SLOWEST_HOP_M_S:
                    z, v, phase = length, 0.0, STARTUP  # it stands
                else:
                    flown = time - stop
                    z, v = length + flown * (v - 0.5 * gravity * flown), v - gravity * flown
            elif event == APEX:
                apex = z
        if record:
            out[n, 0], out[n, 1], out[n, 2], out[n, 3], out[n, 4], out[n, 5] = z, v, pzz, pzv, pvv, phase
    state[C_Z], state[C_V] = z, v
    state[C_PZZ], state[C_PZV], state[C_PVV] = pzz, pzv, pvv
    state[C_PHASE], state[C_SINCE], state[C_APEX] = phase, since, apex
    state[C_TIME], state[C_COUNT] = time, count
    return found
