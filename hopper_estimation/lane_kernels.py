"""Compiled filters KF1 and KF3 with many parameter sets at once, for training: the same numbers, in less time.

Between events a sample does the same to every filter: low-pass, prediction, and the question whether anything happens.
`_usual_sample` does that for sixteen filters ("lanes") in one loop without branches, which the compiler turns into
vector instructions. What the sample alone decides, its step, which readings it has, how much a rise may be, is found
out once for all lanes; stamps may come as they like. What else there may be, an event, a gap, the first sample, is left
to `vertical_kernels.filter_samples` itself, one lane at a time. The results are the same to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import phase_kernels
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP, STARTUP
from hopper_estimation.vertical_kernels import Body, Signals

Array = NDArray[np.float64]

LANES = 16
# Places of rows in the one array of all lanes: what a sample changes, the same before it, and what it does not change.
# One array with constant distances is what the compiler can see through.
(_Z, _V, _PZZ, _PZV, _PVV, _Y1, _Y2, _H1, _H2, _H3, _SINCE, _STILL, _DISTRUSTED) = range(0, 13 * LANES, LANES)
_BEFORE = 13 * LANES
(_F1, _F2, _SWITCH, _Q, _THRESHOLD, _RISE_ABOVE, _RISE_FROM, _V_BELOW, _RISE_BELOW, _LEVEL_BELOW, _FROM, _LONGEST,
 _STILL_LONGEST) = range(26 * LANES, 39 * LANES, LANES)  # fmt: skip
_HAPPENS, _SQUARES = range(39 * LANES, 41 * LANES, LANES)
_SIZE = 43 * LANES
_ROWS = (
    (_Z, kernels.S_Z),
    (_V, kernels.S_V),
    (_PZZ, kernels.S_PZZ),
    (_PZV, kernels.S_PZV),
    (_PVV, kernels.S_PVV),
    (_Y1, kernels.S_Y1),
    (_Y2, kernels.S_Y2),
    (_H1, kernels.S_H1),
    (_H2, kernels.S_H2),
    (_H3, kernels.S_H3),
    (_SINCE, kernels.S_SINCE),
    (_STILL, kernels.S_STILL),
    (_DISTRUSTED, kernels.S_DISTRUSTED),
)


class Choice(NamedTuple):
    """What `choose` says of a sample to filters whose switch is not reached, or is.

    Attributes
    ----------
    value
        Acceleration to go by, m/s^2; NaN: the filtered one so far.
    more
        Variance by which it deserves less trust than usual.
    awaits
        Whether no event is seen, as a reading is waited for.
    """

    value: float
    more: float
    awaits: bool


@njit(cache=True, error_model="numpy", inline="always")
def choice_of(usable: int, low: float, high: float, gravity: float, switch: float) -> Choice:
    """For any filter with its switch on the same side of the specific force."""
    value, more = phase_kernels.choose(usable, low, high, np.nan, gravity, switch)
    return Choice(value, more, phase_kernels.awaits_high(usable, low, gravity, switch))


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _usual_sample(
    rows: Array,
    step: float,
    gain_step: float,
    over: float,
    alone: float,
    force: float,
    below: Choice,
    above: Choice,
) -> tuple[int, int]:
    """One sample for all lanes as far as nothing happens; in how many of them something does, and how many are still.

    `gain_step` is what the low-pass filters take for the step, `over` and `alone` are what the limit of a rise has of
    the sample, `force` is the specific force that decides between the two choices. See `filter_samples` for all else.
    """
    half = 0.5 * step
    count = still_count = 0
    for k in range(LANES):
        y1, y2, h1, h2, h3 = rows[_Y1 + k], rows[_Y2 + k], rows[_H1 + k], rows[_H2 + k], rows[_H3 + k]
        z, v, since, still = rows[_Z + k], rows[_V + k], rows[_SINCE + k], rows[_STILL + k]
        pzz, pzv, pvv = rows[_PZZ + k], rows[_PZV + k], rows[_PVV + k]
        distrusted = rows[_DISTRUSTED + k]
        rows[_BEFORE + _Y1 + k], rows[_BEFORE + _Y2 + k] = y1, y2
        rows[_BEFORE + _H1 + k], rows[_BEFORE + _H2 + k], rows[_BEFORE + _H3 + k] = h1, h2, h3
        rows[_BEFORE + _Z + k], rows[_BEFORE + _V + k] = z, v
        rows[_BEFORE + _SINCE + k], rows[_BEFORE + _STILL + k] = since, still
        rows[_BEFORE + _PZZ + k], rows[_BEFORE + _PZV + k], rows[_BEFORE + _PVV + k] = pzz, pzv, pvv
        rows[_BEFORE + _DISTRUSTED + k] = distrusted
        w1, w2 = rows[_F1 + k] * gain_step, rows[_F2 + k] * gain_step
        gain2 = w2 / (1.0 + w2)
        is_above = force > rows[_SWITCH + k]
        a = above.value if is_above else below.value
        more = above.more if is_above else below.more
        awaits = above.awaits if is_above else below.awaits
        a = a if a == a else y1
        y1 += w1 / (1.0 + w1) * (a - y1)
        y2 += gain2 * (a - y2)
        rise = y2 - h3
        z += step * (v + half * y1)
        v += step * y1
        noise = (rows[_Q + k] + more) * step * step
        distrusted += more * step * step
        pzz += step * (2.0 * pzv + step * pvv)
        pzv += step * pvv
        pzz += half * half * noise
        pzv += half * noise
        pvv += noise
        since += step
        still += step
        still = still if (abs(a) < phase_kernels.STILL_M_S2) & (abs(y1) < phase_kernels.STILL_M_S2) else 0.0
        rows[_Y1 + k], rows[_Y2 + k], rows[_H1 + k], rows[_H2 + k], rows[_H3 + k] = y1, y2, y2, h1, h2
        rows[_Z + k], rows[_V + k], rows[_SINCE + k], rows[_STILL + k] = z, v, since, still
        rows[_PZZ + k], rows[_PZV + k], rows[_PVV + k] = pzz, pzv, pvv
        rows[_DISTRUSTED + k] = distrusted
        is_event = (
            ((rise > rows[_RISE_ABOVE + k] * over + gain2 * alone) & (since > rows[_RISE_FROM + k]))
            | ((v < rows[_V_BELOW + k]) & (since > rows[_FROM + k]))
            | ((rise < rows[_RISE_BELOW + k]) & (since > rows[_FROM + k]))
            | ((y2 < rows[_LEVEL_BELOW + k]) & (since > rows[_FROM + k]))
            | (since > rows[_LONGEST + k])
        )
        happens = (is_event & (not awaits)) | (still > rows[_STILL_LONGEST + k])
        rows[_HAPPENS + k] = 1.0 if happens else 0.0
        count += happens
        still_count += still > phase_kernels.STILL_S
    return count, still_count


@njit(cache=True, error_model="numpy", nogil=True)
def _stand(rows: Array, step: float, length: float) -> None:
    """What a sample changes in lanes where the robot stands and nothing happens, see `filter_samples`."""
    for k in range(LANES):
        stands = (rows[_STILL + k] > phase_kernels.STILL_S) & (rows[_HAPPENS + k] == 0.0)
        z, pzz = phase_kernels.standing(rows[_Z + k], rows[_PZZ + k], step, length)
        rows[_Z + k] = z if stands else rows[_Z + k]
        rows[_PZZ + k] = pzz if stands else rows[_PZZ + k]
        rows[_PVV + k] = phase_kernels.STANDING_PVV if stands else rows[_PVV + k]
        for row in (_V, _PZV, _SINCE, _DISTRUSTED):
            rows[row + k] = 0.0 if stands else rows[row + k]


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def add_squares(rows: Array, z: int, v: int, sums: int, height: float, velocity: float, largest: float) -> None:
    """Add squared errors of all lanes; what is not known counts for nothing.

    `z` and `v` are the places of heights and velocities, `sums` that of the sums for both and of how many there are.
    """
    for k in range(LANES):
        ez, ev = rows[z + k] - height, rows[v + k] - velocity
        known = (ez == ez) & (ev == ev)
        square_z, square_v = ez * ez, ev * ev
        square_z = square_z if square_z < largest else largest
        square_v = square_v if square_v < largest else largest
        rows[sums + k] += square_z if known else 0.0
        rows[sums + LANES + k] += square_v if known else 0.0
        rows[sums + 2 * LANES + k] += 1.0 if known else 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def _expect(rows: Array, k: int, phase: int) -> None:
    """What ends a lane's phase, as `phase_event` has it."""
    infinite = np.inf
    flies = phase in (DROP, REBOUND, STARTUP)
    rows[_RISE_ABOVE + k] = rows[_THRESHOLD + k] if flies else infinite
    rows[_RISE_FROM + k] = phase_kernels.SHORTEST_FLIGHT_S if phase == REBOUND else phase_kernels.SHORTEST_DROP_S
    rows[_V_BELOW + k] = 0.0 if phase == REBOUND else -infinite
    rows[_RISE_BELOW + k] = 0.0 if phase == STANCE_DOWN else -infinite
    rows[_LEVEL_BELOW + k] = 0.0 if phase == STANCE_UP else -infinite
    rows[_FROM + k] = phase_kernels.SHORTEST_REBOUND_S if phase == REBOUND else phase_kernels.SHORTEST_STANCE_S
    rows[_LONGEST + k] = infinite
    # A robot that stands is in `STARTUP` from the first such sample on.
    rows[_STILL_LONGEST + k] = infinite if phase == STARTUP else phase_kernels.STILL_S
    if phase == DROP:
        rows[_LONGEST + k] = phase_kernels.LONGEST_FLIGHT_S
    elif not flies:
        rows[_LONGEST + k] = phase_kernels.LONGEST_STANCE_S


@njit(cache=True, error_model="numpy", nogil=True)
def filter_lanes(
    kind: int,
    parameters: Array,
    body: Body,
    start: Array,
    signals: Signals,
    truth: tuple[Array, Array, int, float],
    squares: Array,
    events: Array,
    found: NDArray[np.int64],
) -> None:
    """Filter the samples of a trial with `LANES` parameter sets; no reading may be NaN.

    Parameters
    ----------
    kind
        `KF1` or `KF3`.
    parameters
        (LANES, PARAMETER_COUNT).
    start
        (STATE_SIZE,) at the first sample.
    truth
        Height and velocity (N,), NaN where unknown; every so many samples errors are squared, each up to that much,
        and summed up.
    squares
        (LANES, 3), written: sums for height and velocity, and how many were summed up.
    events
        (LANES, M, EVENT_SIZE), written; `found` (LANES,) how many.
    """
    gravity, nominal_dt = body.gravity, body.nominal_dt
    dt, acceleration, usable = signals.dt, signals.acceleration, signals.usable
    true_height, true_velocity, judged_steps, largest_square = truth
    rows = np.empty(_SIZE)
    states = np.empty((LANES, start.shape[0]))
    out = np.empty((0, 6))
    rows[_SQUARES:_SIZE] = 0.0
    for k in range(LANES):
        one = parameters[k]
        rows[_F1 + k], rows[_F2 + k] = 2.0 * np.pi * one[kernels.F_STATE], 2.0 * np.pi * one[kernels.F_PHASE]
        rows[_SWITCH + k] = one[kernels.SWITCH] * gravity
        rows[_Q + k] = one[kernels.SIGMA_A] ** 2
        rows[_THRESHOLD + k] = one[kernels.JERK] * phase_kernels.JERK_STEPS
        states[k] = start
        for row, place in _ROWS:
            rows[row + k] = start[place]
        found[k] = 0
        _expect(rows, k, int(start[kernels.S_PHASE]))
    # The same in all lanes, whatever their parameters.
    time, gap, started = start[kernels.S_TIME], start[kernels.S_GAP], start[kernels.S_STARTED] != 0.0
    for n in range(dt.shape[0]):
        step, bits = dt[n], int(usable[n])
        is_gap = step > phase_kernels.GAP_STEPS * nominal_dt
        gap_before, gap = gap, phase_kernels.remembered_gap(gap, step, nominal_dt)
        is_usual = started and not is_gap
        count, before = LANES, 0
        if is_usual:
            # As in `filter_samples`; what is the same in all lanes costs next to nothing.
            is_nominal = abs(step - nominal_dt) <= 1e-5
            over = gap / phase_kernels.JERK_STEPS + (step if is_nominal else max(step, nominal_dt))
            alone = phase_kernels.ALONE_RISE_M_S2 if bits & 7 == 2 else 0.0
            low, high = acceleration[n, 0], acceleration[n, 1]
            before = _BEFORE
            count, still_count = _usual_sample(
                rows,
                step,
                nominal_dt if is_nominal else step,
                over,
                alone,
                abs(low + gravity),
                choice_of(bits, low, high, gravity, np.inf),
                choice_of(bits, low, high, gravity, -1.0),
            )
            if still_count > 0:
                _stand(rows, step, body.length)
        if count > 0:
            for k in range(LANES):
                if is_usual and rows[_HAPPENS + k] == 0.0:
                    continue
                state = states[k]
                for row, place in _ROWS:
                    state[place] = rows[before + row + k]
                state[kernels.S_TIME], state[kernels.S_GAP] = time, gap_before
                found[k] += kernels.filter_samples(
                    kind,
                    parameters[k],
                    body,
                    state,
                    kernels.part_of(signals, n, n + 1),
                    out,
                    events[k, min(found[k], events.shape[1]) :],
                )
                for row, place in _ROWS:
                    rows[row + k] = state[place]
                _expect(rows, k, int(state[kernels.S_PHASE]))
            started = True
        time += step
        if n % judged_steps == 0:
            add_squares(rows, _Z, _V, _SQUARES, true_height[n], true_velocity[n], largest_square)
    for k in range(LANES):
        for column in range(3):
            squares[k, column] = rows[_SQUARES + column * LANES + k]
