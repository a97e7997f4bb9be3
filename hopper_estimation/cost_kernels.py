"""Compiled cost of filter parameters: the whole of a population over all trials, in threads.

    cost = mean |h - h_true| / h_true over all hops + |n - n_true| / n_true + 0.01 RMSE(z) + 0.01 RMSE(vz)

(eqs. (8) to (10) of the paper, weights as MODELS settles them): h and n are heights and number of the apexes. A hop
whose apex was not told counts as an error of 100 %.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import error_state_kernels, vertical_kernels
from hopper_estimation.lane_kernels import LANES, filter_lanes
from hopper_estimation.phases import APEX
from hopper_estimation.vertical_kernels import E_HEIGHT, E_KIND, E_TIME, EVENT_SIZE

Array = NDArray[np.float64]

RMSE_WEIGHT = 0.01
RMSE_STEPS = 4
"""The errors along the way only give a slope where hops are missed: every fourth sample tells as much."""
_LARGEST_ERROR = 10.0
_LARGEST_SQUARE = 1e6
ERROR_STATE = 100
"""Kinds from here on are error-state filters, numbered from zero there."""


@njit(cache=True, error_model="numpy", nogil=True)
def trial_cost(
    kind: int,
    parameters: Array,
    length: float,
    gravity: float,
    nominal_dt: float,
    state: Array,
    dt: Array,
    low: Array,
    high: Array,
    usable: NDArray[np.uint8],
    goal: Array,
    thrust: Array,
    side: Array,
    true_height: Array,
    true_velocity: Array,
    touchdown_s: Array,
    next_touchdown_s: Array,
    hop_height: Array,
    out: Array,
    events: Array,
) -> tuple[float, float, float, float]:
    """Apex error, miscount, RMSE of height (m) and velocity (m/s) of one trial; `out` and `events` are scratch.

    Samples as `filter_samples` takes them; the truth (N,) at the samples, NaN where unknown; and of each hop (H,) its
    two touchdowns, s since the first sample, and the height of its apex above standing, m (NaN: not seen, not judged).
    """
    if kind >= ERROR_STATE:
        found = error_state_kernels.filter_error_samples(
            kind - ERROR_STATE,
            parameters,
            length,
            gravity,
            nominal_dt,
            state,
            dt,
            low,
            high,
            usable,
            goal,
            thrust,
            side,
            out,
            events,
        )
    else:
        found = vertical_kernels.filter_samples(
            kind, parameters, length, gravity, nominal_dt, state, dt, low, high, usable, goal, thrust, out, events
        )
    found = min(found, events.shape[0])
    square_z, square_v, count = 0.0, 0.0, 0
    for n in range(0, dt.shape[0], RMSE_STEPS):
        ez, ev = out[n, 0] - true_height[n], out[n, 1] - true_velocity[n]
        if ez == ez and ev == ev:
            square_z += min(ez * ez, _LARGEST_SQUARE)
            square_v += min(ev * ev, _LARGEST_SQUARE)
            count += 1
    apex, miscount, judged = hop_errors(found, events, length, touchdown_s, next_touchdown_s, hop_height)
    if judged == 0 or count == 0:
        return 1.0, 1.0, 0.0, 0.0
    return apex, miscount, np.sqrt(square_z / count), np.sqrt(square_v / count)


@njit(cache=True, error_model="numpy", nogil=True)
def hop_errors(
    found: int, events: Array, length: float, touchdown_s: Array, next_touchdown_s: Array, hop_height: Array
) -> tuple[float, float, int]:
    """Apex error, miscount and number of the hops that are judged; arguments as those of `trial_cost`."""
    error, judged, told, event = 0.0, 0, 0, 0
    for hop in range(touchdown_s.shape[0]):
        while event < found and events[event, E_TIME] < touchdown_s[hop]:
            event += 1
        seen = 0
        hop_error = 1.0
        while event < found and events[event, E_TIME] < next_touchdown_s[hop]:
            if int(events[event, E_KIND]) == APEX:
                if seen == 0:
                    miss = abs(events[event, E_HEIGHT] - length - hop_height[hop]) / hop_height[hop]
                    hop_error = min(miss, _LARGEST_ERROR) if miss == miss else _LARGEST_ERROR
                seen += 1
            event += 1
        if hop_height[hop] == hop_height[hop]:
            error += hop_error
            told += seen
            judged += 1
    if judged == 0:
        return 1.0, 1.0, 0
    return error / judged, abs(told - judged) / judged, judged


@njit(cache=True, error_model="numpy", nogil=True)
def population_costs(
    kind: int,
    population: Array,
    length: float,
    gravity: float,
    nominal_dt: float,
    starts: Array,
    sample_offsets: NDArray[np.int64],
    hop_offsets: NDArray[np.int64],
    dt: Array,
    low: Array,
    high: Array,
    usable: NDArray[np.uint8],
    goal: Array,
    thrust: Array,
    side: Array,
    true_height: Array,
    true_velocity: Array,
    touchdown_s: Array,
    next_touchdown_s: Array,
    hop_height: Array,
    costs: Array,
) -> None:
    """Costs (P,) of parameters (P, n) over T trials, one after another in the arrays.

    `starts` (T, state size) are the states at the first sample of each; `sample_offsets` and `hop_offsets` (T + 1,) say
    where a trial's samples and hops begin. Every hop counts the same, whichever trial it is of.
    """
    if kind in (vertical_kernels.KF1, vertical_kernels.KF3):  # eight at once
        _lane_costs(
            kind,
            population,
            length,
            gravity,
            nominal_dt,
            starts,
            sample_offsets,
            hop_offsets,
            dt,
            low,
            high,
            usable,
            goal,
            thrust,
            true_height,
            true_velocity,
            touchdown_s,
            next_touchdown_s,
            hop_height,
            costs,
        )
        return
    longest = 0
    for t in range(starts.shape[0]):
        longest = max(longest, sample_offsets[t + 1] - sample_offsets[t])
    out, events = np.empty((longest, 6)), np.empty((4 + longest // 20, EVENT_SIZE))
    for p in range(population.shape[0]):
        apex, miscount, square_z, square_v, hops, samples = 0.0, 0.0, 0.0, 0.0, 0, 0
        for t in range(starts.shape[0]):
            a, b = sample_offsets[t], sample_offsets[t + 1]
            c, d = hop_offsets[t], hop_offsets[t + 1]
            one, count, rmse_z, rmse_v = trial_cost(
                kind,
                population[p],
                length,
                gravity,
                nominal_dt,
                starts[t].copy(),
                dt[a:b],
                low[a:b],
                high[a:b],
                usable[a:b],
                goal[a:b],
                thrust[a:b],
                side[a:b],
                true_height[a:b],
                true_velocity[a:b],
                touchdown_s[c:d],
                next_touchdown_s[c:d],
                hop_height[c:d],
                out[: b - a],
                events,
            )
            apex += one * (d - c)
            miscount += count * (d - c)
            square_z += rmse_z * rmse_z * (b - a)
            square_v += rmse_v * rmse_v * (b - a)
            hops += d - c
            samples += b - a
        costs[p] = (apex + miscount) / hops + RMSE_WEIGHT * (np.sqrt(square_z / samples) + np.sqrt(square_v / samples))


@njit(cache=True, error_model="numpy", nogil=True)
def _lane_costs(
    kind: int,
    population: Array,
    length: float,
    gravity: float,
    nominal_dt: float,
    starts: Array,
    sample_offsets: NDArray[np.int64],
    hop_offsets: NDArray[np.int64],
    dt: Array,
    low: Array,
    high: Array,
    usable: NDArray[np.uint8],
    goal: Array,
    thrust: Array,
    true_height: Array,
    true_velocity: Array,
    touchdown_s: Array,
    next_touchdown_s: Array,
    hop_height: Array,
    costs: Array,
) -> None:
    """`population_costs` of KF1 and KF3: the same numbers."""
    longest = 0
    for t in range(starts.shape[0]):
        longest = max(longest, sample_offsets[t + 1] - sample_offsets[t])
    found, squares = np.zeros(LANES, dtype=np.int64), np.empty((LANES, 3))
    events = np.empty((LANES, 4 + longest // 20, EVENT_SIZE))
    parameters, sums = np.empty((LANES, population.shape[1])), np.empty((LANES, 4))
    for first in range(0, population.shape[0], LANES):
        count = min(LANES, population.shape[0] - first)
        for k in range(LANES):  # the last ones may be there more than once
            parameters[k] = population[first + min(k, count - 1)]
        sums[:] = 0.0
        hops, samples = 0, 0
        for t in range(starts.shape[0]):
            a, b = sample_offsets[t], sample_offsets[t + 1]
            c, d = hop_offsets[t], hop_offsets[t + 1]
            filter_lanes(
                kind,
                parameters,
                length,
                gravity,
                nominal_dt,
                starts[t],
                dt[a:b],
                low[a:b],
                high[a:b],
                usable[a:b],
                goal[a:b],
                thrust[a:b],
                true_height[a:b],
                true_velocity[a:b],
                RMSE_STEPS,
                _LARGEST_SQUARE,
                squares,
                events,
                found,
            )
            for k in range(count):
                apex, miscount, judged = hop_errors(
                    found[k], events[k], length, touchdown_s[c:d], next_touchdown_s[c:d], hop_height[c:d]
                )
                rmse_z, rmse_v = np.sqrt(squares[k, 0] / squares[k, 2]), np.sqrt(squares[k, 1] / squares[k, 2])
                if judged == 0 or squares[k, 2] == 0.0:
                    apex, miscount, rmse_z, rmse_v = 1.0, 1.0, 0.0, 0.0
                sums[k, 0] += apex * (d - c)
                sums[k, 1] += miscount * (d - c)
                sums[k, 2] += rmse_z * rmse_z * (b - a)
                sums[k, 3] += rmse_v * rmse_v * (b - a)
            hops += d - c
            samples += b - a
        for k in range(count):
            rmse = np.sqrt(sums[k, 2] / samples) + np.sqrt(sums[k, 3] / samples)
            costs[first + k] = (sums[k, 0] + sums[k, 1]) / hops + RMSE_WEIGHT * rmse
