"""Compiled filters KF1 and KF3 with eight parameter sets at once, for training: the same numbers, in half the time.

Between events a sample does the same to every filter: low-pass, prediction, and the question whether anything may
happen. `_usual_sample` does that for eight filters ("lanes") in one loop without branches, which the compiler turns
into vector instructions. Whatever else a sample may bring, an event, a robot that stands, a reading that is missing, is
left to `vertical_kernels.filter_samples` itself, one lane at a time. The results are the same to the last bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.phases import DROP, REBOUND, STANCE_DOWN, STANCE_UP, STARTUP
from hopper_estimation.vertical_kernels import Body, Signals

Array = NDArray[np.float64]

LANES = 8
# Places of rows in the one array of all lanes: what a sample changes, the same before it, and what it does not change.
# One array with constant distances is what the compiler can see through.
(_Z, _V, _PZZ, _PZV, _PVV, _Y1, _Y2, _H1, _H2, _H3, _SINCE, _STILL) = range(0, 12 * LANES, LANES)
_BEFORE = 12 * LANES
(_GAIN1, _GAIN2, _SWITCH, _Q, _THRESHOLD, _RISE_ABOVE, _RISE_FROM, _V_BELOW, _RISE_BELOW, _LEVEL_BELOW, _LONGEST) = (
    range(24 * LANES, 35 * LANES, LANES)
)
_MAY_HAPPEN, _SQUARE_Z, _SQUARE_V, _SQUARED = range(35 * LANES, 39 * LANES, LANES)
_SIZE = 39 * LANES
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
)
_LONG_STANCE_S, _LONG_FLIGHT_S, _SHORT_FLIGHT_S = 0.2, 2.0, 0.08
"""A little sooner than a phase is given up, and than a touchdown is believed after a liftoff, in `phase_event`."""
_BOTH, _CLIPPED_LOW = 3, 6
"""Usual readings: both sensors, or the high-g one where the low-g one is clipped."""


@njit(cache=True, error_model="numpy", nogil=True)
def _usual_sample(rows: Array, step: float, low: float, high: float, force: float) -> int:
    """One sample for all lanes as far as nothing happens; in how many of them something may.

    `low` and `high` are what the sensors say of the vertical acceleration, `force` is the specific force that decides
    between them. See `filter_samples` for all else.
    """
    half = 0.5 * step
    count = 0
    for k in range(LANES):
        y1, y2, h1, h2, h3 = rows[_Y1 + k], rows[_Y2 + k], rows[_H1 + k], rows[_H2 + k], rows[_H3 + k]
        z, v, since, still = rows[_Z + k], rows[_V + k], rows[_SINCE + k], rows[_STILL + k]
        pzz, pzv, pvv = rows[_PZZ + k], rows[_PZV + k], rows[_PVV + k]
        rows[_BEFORE + _Y1 + k], rows[_BEFORE + _Y2 + k] = y1, y2
        rows[_BEFORE + _H1 + k], rows[_BEFORE + _H2 + k], rows[_BEFORE + _H3 + k] = h1, h2, h3
        rows[_BEFORE + _Z + k], rows[_BEFORE + _V + k] = z, v
        rows[_BEFORE + _SINCE + k], rows[_BEFORE + _STILL + k] = since, still
        rows[_BEFORE + _PZZ + k], rows[_BEFORE + _PZV + k], rows[_BEFORE + _PVV + k] = pzz, pzv, pvv
        a = high if force > rows[_SWITCH + k] else low
        y1 += rows[_GAIN1 + k] * (a - y1)
        y2 += rows[_GAIN2 + k] * (a - y2)
        rise = y2 - h3
        z += step * (v + half * y1)
        v += step * y1
        noise = rows[_Q + k] * step * step
        pzz += step * (2.0 * pzv + step * pvv)
        pzv += step * pvv
        pzz += half * half * noise
        pzv += half * noise
        pvv += noise
        since += step
        still += step
        still = still if (abs(a) < kernels.STILL_M_S2) & (abs(y1) < kernels.STILL_M_S2) else 0.0
        rows[_Y1 + k], rows[_Y2 + k], rows[_H1 + k], rows[_H2 + k], rows[_H3 + k] = y1, y2, y2, h1, h2
        rows[_Z + k], rows[_V + k], rows[_SINCE + k], rows[_STILL + k] = z, v, since, still
        rows[_PZZ + k], rows[_PZV + k], rows[_PVV + k] = pzz, pzv, pvv
        may_happen = (
            ((rise > rows[_RISE_ABOVE + k] * step) & (since > rows[_RISE_FROM + k]))
            | (v < rows[_V_BELOW + k])
            | (rise < rows[_RISE_BELOW + k])
            | (y2 < rows[_LEVEL_BELOW + k])
            | (since > rows[_LONGEST + k])
            | (still > kernels.STILL_S)
        )
        rows[_MAY_HAPPEN + k] = 1.0 if may_happen else 0.0
        count += may_happen
    return count


@njit(cache=True, error_model="numpy", nogil=True)
def _add_squares(rows: Array, height: float, velocity: float, largest: float) -> None:
    """Add squared errors of all lanes; what is not known counts for nothing."""
    for k in range(LANES):
        ez, ev = rows[_Z + k] - height, rows[_V + k] - velocity
        known = (ez == ez) & (ev == ev)
        square_z, square_v = ez * ez, ev * ev
        square_z = square_z if square_z < largest else largest
        square_v = square_v if square_v < largest else largest
        rows[_SQUARE_Z + k] += square_z if known else 0.0
        rows[_SQUARE_V + k] += square_v if known else 0.0
        rows[_SQUARED + k] += 1.0 if known else 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def _expect(rows: Array, k: int, phase: int) -> None:
    """What may end a lane's phase, see `phase_event`: bounds that are never passed for what does not end it.

    They may ask too often: then `filter_samples` finds that nothing happens.
    """
    infinite = np.inf
    flies = phase in (DROP, REBOUND, STARTUP)
    rows[_RISE_ABOVE + k] = rows[_THRESHOLD + k] if flies else infinite
    rows[_RISE_FROM + k] = _SHORT_FLIGHT_S if phase == REBOUND else 0.0
    rows[_V_BELOW + k] = 0.0 if phase == REBOUND else -infinite
    rows[_RISE_BELOW + k] = 0.0 if phase == STANCE_DOWN else -infinite
    rows[_LEVEL_BELOW + k] = 0.0 if phase == STANCE_UP else -infinite
    rows[_LONGEST + k] = infinite
    if phase == DROP:
        rows[_LONGEST + k] = _LONG_FLIGHT_S
    elif not flies:
        rows[_LONGEST + k] = _LONG_STANCE_S


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
    """Filter the samples of a trial with eight parameter sets.

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
    rows[_SQUARE_Z:_SIZE] = 0.0
    for k in range(LANES):
        one = parameters[k]
        f1, f2 = 2.0 * np.pi * one[kernels.F_STATE], 2.0 * np.pi * one[kernels.F_PHASE]
        rows[_GAIN1 + k] = f1 * nominal_dt / (1.0 + f1 * nominal_dt)
        rows[_GAIN2 + k] = f2 * nominal_dt / (1.0 + f2 * nominal_dt)
        rows[_SWITCH + k] = one[kernels.SWITCH] * gravity
        rows[_Q + k] = one[kernels.SIGMA_A] ** 2
        rows[_THRESHOLD + k] = one[kernels.JERK] * kernels.JERK_STEPS
        states[k] = start
        for row, place in _ROWS:
            rows[row + k] = start[place]
        found[k] = 0
        _expect(rows, k, int(start[kernels.S_PHASE]))
    # The same in all lanes, whatever their parameters.
    time, gap, started = start[kernels.S_TIME], start[kernels.S_GAP], start[kernels.S_STARTED] != 0.0
    for n in range(dt.shape[0]):
        step, bits = dt[n], int(usable[n])
        is_usual = started and abs(step - nominal_dt) <= 1e-5 and bits in (_BOTH, _CLIPPED_LOW)
        count, before = LANES, 0
        if is_usual:
            low_reading = acceleration[n, 0] if bits == _BOTH else acceleration[n, 1]
            before = _BEFORE
            count = _usual_sample(rows, step, low_reading, acceleration[n, 1], abs(acceleration[n, 0] + gravity))
        if count > 0:
            for k in range(LANES):
                if is_usual and rows[_MAY_HAPPEN + k] == 0.0:
                    continue
                state = states[k]
                for row, place in _ROWS:
                    state[place] = rows[before + row + k]
                state[kernels.S_TIME], state[kernels.S_GAP] = time, gap
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
        gap = step if step > kernels.GAP_STEPS * nominal_dt else kernels.FORGOTTEN * gap
        if n % judged_steps == 0:
            _add_squares(rows, true_height[n], true_velocity[n], largest_square)
    for k in range(LANES):
        squares[k, 0], squares[k, 1], squares[k, 2] = rows[_SQUARE_Z + k], rows[_SQUARE_V + k], rows[_SQUARED + k]
