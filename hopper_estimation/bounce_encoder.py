"""Compiled filter that goes by the bounce, and DR1 of the leg's encoder beside it: both by how well they have done.

Which of the two foretells a flight better is not known before: springs that give back what they get are good for one,
masses and scales that are known for the other. What both foretold is seen at the touchdown, where the robot is a leg's
length high; the mean squares m of these errors, of the last few hops, weigh them:

    w = m_bounce^2 / (m_bounce^2 + m_leg^2)     of DR1; its covariance grows by m over what it foretold, if more

What is told is the mean, with the moments of both. While the leg is pressed, its encoder tells the height. Phases and
events are the bounce's, and where it knows of no hops, or the leg is not read, it goes alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from hopper_estimation import bounce_kernels, phases
from hopper_estimation import encoder_kernels as encoder
from hopper_estimation.encoder_kernels import Encoder
from hopper_estimation.phases import (
    APEX,
    DROP,
    REBOUND,
    STANCE_DOWN,
    STANCE_UP,
    TOUCHDOWN,
    Array,
    Body,
    Record,
    Records,
    layout,
)

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
_HOPS, _SQUARES = range(2)
STATE = layout(
    [
        *((name, np.float64, 2) for name in ("own_done", "leg_done")),
        *((name, np.float64) for name in ("ratios", "landed_m_s", "unread")),
    ]
)
"""How the bounce and the leg have done: how many touchdowns are remembered, and the sum of their squared errors. Of the
leg's, the sum of these over what was foretold (the bounce's own covariance has it); speed of the last landing; for how
long the leg was not read, s."""


def start_state(*_: Any) -> Records:
    """(1,) of `STATE` before the first sample, wherever the robot is."""
    state = phases.new_state(STATE, ratios=USUAL_HOPS, unread=np.inf)
    state["own_done"] = state["leg_done"] = USUAL_HOPS, USUAL_HOPS * USUAL_M**2
    return state


@njit(cache=True, error_model="numpy", nogil=True)
def run(
    e: Encoder,
    parameters: Array,
    body: Body,
    own: Records,
    leg: Records,
    states: Records,
    signals: Records,
    out: Array,
    events: Records,
) -> int:
    """Both over one `SIGNAL` after another; how many events were found. As `bounce_kernels.run`.

    `own` and `leg` are states of both, `states` (1,) of `STATE`.
    """
    x, told, leg_events = states[0], np.empty((len(signals), 6)), np.empty_like(events)
    found = bounce_kernels.run(parameters, body, own, signals, out, events)
    leg_found = encoder.run(e, body, leg, signals, told, leg_events)
    next_own, next_leg = 0, 0
    for n in range(len(signals)):
        first = next_own
        while next_own < found and events[next_own].sample == n:
            # A landing in a gap is as foretold, and tells nothing.
            if events[next_own].kind == TOUCHDOWN and events[next_own].height != body.length:
                compare(x.own_done, events[next_own], body.length, parameters[phases.DELAY_TD])
            next_own += 1
        while next_leg < leg_found and leg_events[next_leg].sample == n:
            if leg_events[next_leg].kind == TOUCHDOWN:
                square = compare(x.leg_done, leg_events[next_leg], body.length, 0.0)
                x.ratios = FORGOTTEN * x.ratios + square / max(leg_events[next_leg].variance, LEAST_M**2)
                x.landed_m_s = abs(leg_events[next_leg].velocity)
            next_leg += 1
        x.unread = x.unread + signals[n].dt if np.isnan(signals[n].leg) else 0.0
        if tell(x, out[n], told[n]):
            for row in range(first, next_own):
                if events[row].kind == APEX:
                    events[row].height, events[row].velocity, events[row].variance = out[n, 0], out[n, 1], out[n, 2]
    return found


@njit(cache=True, error_model="numpy", nogil=True)
def tell(x: Record, out: Array, told: Array) -> bool:
    """What both tell, from what the bounce (`out`) and the leg (`told`) do; whether it is not the bounce's alone."""
    phase, leg_phase = int(out[5]), int(told[5])
    stands = phase in (STANCE_DOWN, STANCE_UP)
    if x.unread > UNREAD_S or not (stands or phase in (DROP, REBOUND)):
        return False
    if leg_phase in (STANCE_DOWN, STANCE_UP):
        for column in range(5):
            out[column] = told[column]
        out[2] += STANCE_STDDEV_M**2
        out[4] += (STANCE_SHARE * x.landed_m_s) ** 2
    elif leg_phase in (DROP, REBOUND):
        # The bounce sees a liftoff late: until then it is the leg's alone.
        m, m_leg = x.own_done[_SQUARES] / x.own_done[_HOPS], x.leg_done[_SQUARES] / x.leg_done[_HOPS]
        share = 1.0 if stands else m * m / (m * m + m_leg * m_leg)
        told[2] += STANCE_STDDEV_M**2
        told[4] += (STANCE_SHARE * x.landed_m_s) ** 2 if stands else 0.0
        mix(out, told, share, max(x.ratios / x.leg_done[_HOPS], 1.0))
    return True


@njit(cache=True, error_model="numpy", nogil=True)
def compare(done: Array, event: Record, length: float, late: float) -> float:
    """How well a touchdown was foretold that is seen `late`, s, is remembered; the square of its error, m^2."""
    error = min(max(abs(event.height - late * event.velocity - length), LEAST_M), LARGEST_M)
    done[_HOPS] = FORGOTTEN * done[_HOPS] + 1.0
    done[_SQUARES] = FORGOTTEN * done[_SQUARES] + error * error
    return error * error


@njit(cache=True, error_model="numpy", nogil=True)
def mix(out: Array, told: Array, share: float, wider: float) -> None:
    """Mean and covariance of both; `share` is that of the second, and `wider` what its covariance grows by."""
    z, v, zz, zv, vv = out[0], out[1], out[2], out[3], out[4]
    apart_z, apart_v, rest = told[0] - z, told[1] - v, 1.0 - share
    out[0] = z + share * apart_z
    out[1] = v + share * apart_v
    out[2] = rest * zz + share * wider * told[2] + share * rest * apart_z * apart_z
    out[3] = rest * zv + share * wider * told[3] + share * rest * apart_z * apart_v
    out[4] = rest * vv + share * wider * told[4] + share * rest * apart_v * apart_v
