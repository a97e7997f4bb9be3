"""Compiled filter that goes by the bounce, and DR1 of the leg's encoder beside it: both by how well they have done.

Which of the two foretells a flight better is not known before: springs that give back what they get are good for one,
masses and scales that are known for the other. What both foretold is seen at the touchdown, where the robot is a leg's
length high; the mean squares m of these errors, of the last few hops, weigh them:

    w = m_bounce^2 / (m_bounce^2 + m_leg^2)     of DR1; its covariance grows by m over what it foretold, if more

What is told is the mean, with the moments of both. While the leg is pressed, its encoder tells the height. Phases and
events are the bounce's, and where it knows of no hops, or the leg is not read, it goes alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import bounce_state as at
from hopper_estimation import encoder_kernels as encoder
from hopper_estimation import phase_kernels
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.bounce_kernels import filter_bounces
from hopper_estimation.phases import APEX, DROP, REBOUND, STANCE_DOWN, STANCE_UP, TOUCHDOWN
from hopper_estimation.vertical_kernels import Body, Signals

Array = NDArray[np.float64]

USUAL_M, USUAL_HOPS = 0.1, 0.3
"""What a touchdown is foretold to, before any was seen, and for how many it counts."""
FORGOTTEN = 0.7
"""Share of the mean square that is kept from hop to hop: the last three count most."""
LEAST_M, LARGEST_M = 0.005, 1.0
STANCE_STDDEV_M = 0.02
"""What a pressed leg does not tell of the height: how the foot stands and sinks, a leg that leans, the leg's length."""
STANCE_SHARE = 0.1
"""And of the speed, as a share of the landing's: a stance turns it round in tens of milliseconds, by some of which
the slope of an encoder's readings is late."""
UNREAD_S = 0.1
"""A leg that was not read for longer is not gone by."""
_LEG = at.STATE_SIZE
_DONE = _LEG + encoder.STATE_SIZE
_HOPS, _SQUARES = range(2)
"""Of each: how many touchdowns are remembered, and the sum of their squared errors."""
_RATIOS = _DONE + 2 * 2
"""Of the leg's: the sum of these over what was foretold; the bounce's own covariance has it."""
_LANDED_M_S, _UNREAD = _RATIOS + 1, _RATIOS + 2
STATE_SIZE = _UNREAD + 1
KEPT = list(range(_DONE, _LANDED_M_S))


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Array:
    """(STATE_SIZE,) before the first sample: the bounce's, the encoder's, and how both have done."""
    state = np.zeros(STATE_SIZE)
    state[:_LEG] = at.start_state(height_m, velocity_m_s, covariance, phase)
    leg = state[_LEG:_DONE]
    leg[encoder.C_Z], leg[encoder.C_V], leg[encoder.C_PHASE] = height_m, velocity_m_s, phase
    leg[encoder.C_PZZ], leg[encoder.C_PZV], leg[encoder.C_PVV] = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    state[_DONE:] = *(2 * [USUAL_HOPS, USUAL_HOPS * USUAL_M**2]), USUAL_HOPS, 0.0, np.inf
    return state


@njit(cache=True, error_model="numpy", nogil=True)
def filter_bounces_with_leg(
    of_leg: Array, kind: int, parameters: Array, body: Body, state: Array, signals: Signals, out: Array, events: Array
) -> int:
    """Filter samples one after another; how many events were found. As `bounce_kernels.filter_bounces`.

    `of_leg` (encoder.PARAMETER_COUNT,) are the encoder's parameters.
    """
    count = signals.dt.shape[0]
    told, seen = np.empty((count, 6)), np.empty_like(events)
    found = filter_bounces(kind, parameters, body, state[:_LEG], signals, out, events)
    seen_count = encoder.filter_encoder_samples(encoder.DR1, of_leg, body, state[_LEG:_DONE], signals, told, seen)
    done = state[_DONE:_RATIOS].reshape(2, 2)
    next_own, own_count = 0, min(found, events.shape[0])
    next_leg, leg_count = 0, min(seen_count, seen.shape[0])
    for n in range(count):
        first = next_own
        while next_own < own_count and int(events[next_own, phase_kernels.E_SAMPLE]) == n:
            # A landing in a gap is as foretold, and tells nothing.
            is_seen = events[next_own, phase_kernels.E_HEIGHT] != body.length
            if int(events[next_own, phase_kernels.E_KIND]) == TOUCHDOWN and is_seen:
                _compare(done[0], events[next_own], body.length, parameters[kernels.DELAY_TD])
            next_own += 1
        while next_leg < leg_count and int(seen[next_leg, phase_kernels.E_SAMPLE]) == n:
            if int(seen[next_leg, phase_kernels.E_KIND]) == TOUCHDOWN:
                square = _compare(done[1], seen[next_leg], body.length, 0.0)
                ratio = square / max(seen[next_leg, phase_kernels.E_VARIANCE], LEAST_M**2)
                state[_RATIOS] = FORGOTTEN * state[_RATIOS] + ratio
                state[_LANDED_M_S] = abs(seen[next_leg, phase_kernels.E_VELOCITY])
            next_leg += 1
        state[_UNREAD] = 0.0 if signals.leg[n] == signals.leg[n] else state[_UNREAD] + signals.dt[n]
        phase, leg_phase = int(out[n, 5]), int(told[n, 5])
        stands = phase in (STANCE_DOWN, STANCE_UP)
        if state[_UNREAD] > UNREAD_S or not (stands or phase in (DROP, REBOUND)):
            continue  # the bounce alone
        if leg_phase in (STANCE_DOWN, STANCE_UP):
            for column in range(5):
                out[n, column] = told[n, column]
            out[n, 2] += STANCE_STDDEV_M**2
            out[n, 4] += (STANCE_SHARE * state[_LANDED_M_S]) ** 2
        elif leg_phase in (DROP, REBOUND):
            # The bounce sees a liftoff late: until then it is the leg's alone.
            m, m_leg = done[0, _SQUARES] / done[0, _HOPS], done[1, _SQUARES] / done[1, _HOPS]
            share = 1.0 if stands else m * m / (m * m + m_leg * m_leg)
            told[n, 2] += STANCE_STDDEV_M**2
            told[n, 4] += (STANCE_SHARE * state[_LANDED_M_S]) ** 2 if stands else 0.0
            _mix(out[n], told[n], share, max(state[_RATIOS] / done[1, _HOPS], 1.0))
        for row in range(first, next_own):
            if int(events[row, phase_kernels.E_KIND]) == APEX:
                events[row, phase_kernels.E_HEIGHT], events[row, phase_kernels.E_VELOCITY] = out[n, 0], out[n, 1]
                events[row, phase_kernels.E_VARIANCE] = out[n, 2]
    return found


@njit(cache=True, error_model="numpy", nogil=True)
def _compare(done: Array, event: Array, length: float, late: float) -> float:
    """How well a touchdown was foretold that is seen `late`, s, is remembered; the square of its error, m^2."""
    height = event[phase_kernels.E_HEIGHT] - late * event[phase_kernels.E_VELOCITY]
    error = min(max(abs(height - length), LEAST_M), LARGEST_M)
    done *= FORGOTTEN
    done[_HOPS] += 1.0
    done[_SQUARES] += error * error
    return error * error


@njit(cache=True, error_model="numpy", nogil=True)
def _mix(out: Array, told: Array, share: float, wider: float) -> None:
    """Mean and covariance of both; `share` is that of the second, and `wider` what its covariance grows by."""
    apart_z, apart_v, rest = told[0] - out[0], told[1] - out[1], 1.0 - share
    out[0] += share * apart_z
    out[1] += share * apart_v
    out[2] = rest * out[2] + share * wider * told[2] + share * rest * apart_z * apart_z
    out[3] = rest * out[3] + share * wider * told[3] + share * rest * apart_z * apart_v
    out[4] = rest * out[4] + share * wider * told[4] + share * rest * apart_v * apart_v
