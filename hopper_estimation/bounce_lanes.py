"""Compiled filter that goes by the bounce with many parameter sets at once, for training: the same in less time.

In flight a sample does the same to every filter: low-pass, prediction, and the question whether anything happens.
`_fly` does that for sixteen filters ("lanes") in one loop without branches, which the compiler turns into vector
instructions. A lane in which something happens, a touchdown, a gap, a robot that rests, is left to `filter_bounces`
itself for the next `ALONE` samples, and for as many again until it is in flight. Covariances move from event to event
there as here. The results are the same but for how numbers are rounded.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import bounce_events as bounce
from hopper_estimation import bounce_state as at
from hopper_estimation import phase_kernels
from hopper_estimation import vertical_kernels as kernels
from hopper_estimation.bounce_kernels import filter_bounces
from hopper_estimation.lane_kernels import LANES, Choice, add_squares, choice_of
from hopper_estimation.phases import DROP, REBOUND
from hopper_estimation.vertical_kernels import Body, Signals

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

ALONE = 32
# Places of rows in the one array of all lanes: what a sample changes, and what it does not, as `lane_kernels` has it.
(_Z, _V, _Y1, _Y2, _H1, _H2, _H3, _SINCE, _STILL, _PUSH, _SHOCK, _WAITING) = range(0, 12 * LANES, LANES)
(_BIAS, _GAIN1, _GAIN2, _SLOPE1, _SLOPE2, _F1, _F2, _SWITCH, _THRESHOLD, _RISE_FROM, _V_BELOW, _LONGEST, _LOWEST,
 _NOISE) = range(12 * LANES, 26 * LANES, LANES)  # fmt: skip
_FLIES, _HAPPENS, _SQUARES = range(26 * LANES, 29 * LANES, LANES)
_SIZE = 31 * LANES
_ROWS = (
    (_Z, at.Z),
    (_V, at.V),
    (_Y1, at.Y1),
    (_Y2, at.Y2),
    (_H1, at.H1),
    (_H2, at.H2),
    (_H3, at.H3),
    (_SINCE, at.SINCE),
    (_STILL, at.STILL),
    (_PUSH, at.PUSH),
    (_SHOCK, at.SHOCK),
)


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def _fly(
    rows: Array,
    step: float,
    longer: float,
    over: float,
    alone: float,
    force: float,
    below: Choice,
    above: Choice,
) -> int:
    """One sample for all lanes in flight as far as nothing happens; in how many of them something does.

    Those are not changed. `longer` is by what the step is, to first order; `over` and `alone` are what the limit of a
    rise has of the sample, `force` is the specific force that decides between the two choices.
    """
    half, shock_gain = 0.5 * step, min(bounce.SHOCK_RATE * step, 1.0)
    count = 0
    for k in range(LANES):
        y1, y2, h1, h2, h3 = rows[_Y1 + k], rows[_Y2 + k], rows[_H1 + k], rows[_H2 + k], rows[_H3 + k]
        z, v, since, still = rows[_Z + k], rows[_V + k], rows[_SINCE + k], rows[_STILL + k]
        push, shock, waiting = rows[_PUSH + k], rows[_SHOCK + k], rows[_WAITING + k]
        is_above = force > rows[_SWITCH + k]
        a = above.value if is_above else below.value
        more = above.more if is_above else below.more
        gain1 = rows[_GAIN1 + k] + rows[_SLOPE1 + k] * longer
        gain2 = rows[_GAIN2 + k] + rows[_SLOPE2 + k] * longer
        new1, new2 = y1 + gain1 * (a - y1), y2 + gain2 * (a - y2)
        new_shock = shock + shock_gain * (a - shock)
        rise = new2 - h3
        used = new1 - rows[_BIAS + k]
        new_z, new_v = z + step * (v + half * used), v + step * used
        new_since, new_still = since + step, still + step
        is_still = (abs(a) < phase_kernels.STILL_M_S2) & (abs(new1) < phase_kernels.STILL_M_S2)
        new_still = new_still if is_still else 0.0
        happens = (
            ((rise > rows[_THRESHOLD + k] * over + gain2 * alone) & (new_since > rows[_RISE_FROM + k]))
            | ((new_v < rows[_V_BELOW + k]) & (new_since > phase_kernels.SHORTEST_REBOUND_S))
            | (new_since > rows[_LONGEST + k])
            | (new_z < rows[_LOWEST + k])
            | (new_still > phase_kernels.STILL_S)
            | (more > 0.0)
        )
        flies = rows[_FLIES + k] != 0.0
        goes_on = flies & (not happens)
        rows[_Y1 + k] = new1 if goes_on else y1
        rows[_Y2 + k] = new2 if goes_on else y2
        rows[_H1 + k] = new2 if goes_on else h1
        rows[_H2 + k] = h1 if goes_on else h2
        rows[_H3 + k] = h2 if goes_on else h3
        rows[_Z + k] = new_z if goes_on else z
        rows[_V + k] = new_v if goes_on else v
        rows[_SINCE + k] = new_since if goes_on else since
        rows[_STILL + k] = new_still if goes_on else still
        rows[_PUSH + k] = push + step * a if goes_on else push
        rows[_SHOCK + k] = new_shock if goes_on else shock
        rows[_WAITING + k] = waiting + step if goes_on else waiting
        happens = flies & happens
        rows[_HAPPENS + k] = 1.0 if happens else 0.0
        count += happens
    return count


@njit(cache=True, error_model="numpy", nogil=True)
def _set_gains(rows: Array, step: float) -> None:
    """Of the low-pass filters for such a step."""
    for k in range(LANES):
        w1, w2 = rows[_F1 + k] * step, rows[_F2 + k] * step
        rows[_GAIN1 + k], rows[_GAIN2 + k] = w1 / (1.0 + w1), w2 / (1.0 + w2)


@njit(cache=True, error_model="numpy", nogil=True)
def _take_off(rows: Array, k: int, state: Array, length: float) -> None:
    """A lane that flies on from a state: what it has, and what ends its phase, as `phase_event` has it."""
    for row, place in _ROWS:
        rows[row + k] = state[place]
    drops = int(state[at.PHASE]) == DROP
    rows[_FLIES + k], rows[_WAITING + k], rows[_BIAS + k] = 1.0, 0.0, state[at.BIAS]
    rows[_RISE_FROM + k] = phase_kernels.SHORTEST_DROP_S if drops else phase_kernels.SHORTEST_FLIGHT_S
    rows[_V_BELOW + k] = -np.inf if drops else 0.0
    rows[_LONGEST + k] = phase_kernels.LONGEST_FLIGHT_S if drops else np.inf
    rows[_LOWEST + k] = length - bounce.BELOW_M if drops else -np.inf


@njit(cache=True, error_model="numpy", nogil=True)
def filter_bounce_lanes(
    parameters: Array,
    body: Body,
    start: Array,
    signals: Signals,
    truth: tuple[Array, Array, int, float],
    squares: Array,
    events: Array,
    found: Integers,
) -> None:
    """Filter the samples of a trial with `LANES` parameter sets, as `lane_kernels.filter_lanes` does."""
    length, gravity, nominal_dt = body.length, body.gravity, body.nominal_dt
    dt, acceleration, usable = signals.dt, signals.acceleration, signals.usable
    true_height, true_velocity, judged_steps, largest_square = truth
    rows, states, out = np.zeros(_SIZE), np.empty((LANES, start.shape[0])), np.empty((ALONE, 2))
    back = np.zeros(LANES, dtype=np.int64)  # the sample before which a lane is back from a run of its own
    for k in range(LANES):
        one = parameters[k]
        f1, f2 = 2.0 * np.pi * one[kernels.F_STATE], 2.0 * np.pi * one[kernels.F_PHASE]
        slope1, slope2 = 1.0 / (1.0 + f1 * nominal_dt), 1.0 / (1.0 + f2 * nominal_dt)
        rows[_F1 + k], rows[_F2 + k] = f1, f2
        rows[_SLOPE1 + k], rows[_SLOPE2 + k] = f1 * slope1 * slope1, f2 * slope2 * slope2
        rows[_SWITCH + k] = one[kernels.SWITCH] * gravity
        rows[_THRESHOLD + k] = one[kernels.JERK] * phase_kernels.JERK_STEPS
        rows[_NOISE + k] = one[kernels.SIGMA_A] ** 2 * nominal_dt
        rows[_Z + k] = np.nan  # as of all lanes that do not fly here: no errors to be squared
        states[k] = start
        found[k] = 0
    _set_gains(rows, nominal_dt)
    squares[:] = 0.0
    soonest, time, gap = 0, start[at.TIME], start[at.GAP]
    for n in range(dt.shape[0]):
        step, bits = dt[n], int(usable[n])
        is_gap = step > phase_kernels.GAP_STEPS * nominal_dt
        gap_before, gap = gap, phase_kernels.remembered_gap(gap, step, nominal_dt)
        if n == soonest:
            for k in range(LANES):
                phase = int(states[k, at.PHASE])
                if back[k] == n and n > 0 and phase in (DROP, REBOUND):
                    _take_off(rows, k, states[k], length)
        if is_gap:
            rows[_HAPPENS : _HAPPENS + LANES] = 1.0
            count = LANES
        else:
            longer = step - nominal_dt
            usual = step if abs(longer) <= 1e-5 else max(step, nominal_dt)
            low, high = acceleration[n, 0], acceleration[n, 1]
            is_regular = abs(longer) < bounce.JITTER * nominal_dt
            if not is_regular:
                _set_gains(rows, step)
            count = _fly(
                rows,
                step,
                longer if is_regular else 0.0,
                gap / phase_kernels.JERK_STEPS + usual,
                phase_kernels.ALONE_RISE_M_S2 if bits & 7 == 2 else 0.0,
                abs(low + gravity),
                choice_of(bits, low, high, gravity, np.inf),
                choice_of(bits, low, high, gravity, -1.0),
            )
            if not is_regular:
                _set_gains(rows, nominal_dt)
        if count > 0 or n == soonest:
            soonest = dt.shape[0]
            for k in range(LANES):
                flies = rows[_FLIES + k] != 0.0
                if (back[k] == n and not flies) or (flies and rows[_HAPPENS + k] != 0.0):
                    state, stop = states[k], min(n + ALONE, dt.shape[0])
                    if flies:
                        for row, place in _ROWS:
                            state[place] = rows[row + k]
                        at.propagate(state, rows[_WAITING + k], rows[_NOISE + k])
                        rows[_FLIES + k], rows[_Z + k] = 0.0, np.nan
                    state[at.TIME], state[at.GAP] = time, gap_before
                    part, room = kernels.part_of(signals, n, stop), min(found[k], events.shape[1])
                    found[k] += filter_bounces(0, parameters[k], body, state, part, out[: stop - n], events[k, room:])
                    for row in range(-n % judged_steps, stop - n, judged_steps):
                        error_z, error_v = out[row, 0] - true_height[n + row], out[row, 1] - true_velocity[n + row]
                        _add(squares[k], error_z, error_v, largest_square)
                    back[k] = stop
                if rows[_FLIES + k] == 0.0:
                    soonest = min(soonest, back[k])
        time += step
        if n % judged_steps == 0:
            add_squares(rows, _Z, _V, _SQUARES, true_height[n], true_velocity[n], largest_square)
    for k in range(LANES):
        for column in range(3):
            squares[k, column] += rows[_SQUARES + column * LANES + k]


@njit(cache=True, error_model="numpy", nogil=True)
def _add(squares: Array, error_z: float, error_v: float, largest: float) -> None:
    """Squared errors of a sample; what is not known counts for nothing."""
    if error_z == error_z and error_v == error_v:
        squares[0] += min(error_z * error_z, largest)
        squares[1] += min(error_v * error_v, largest)
        squares[2] += 1.0
