"""Compiled cost of filter parameters: the whole of a population over all trials, in threads.

    cost = mean |h - h_true| / h_true over all hops + |n - n_true| / n_true + 0.01 RMSE(z) + 0.01 RMSE(vz)

(eqs. (8) to (10) of the paper, weights as MODELS settles them): h and n are heights and number of the apexes. A hop
whose apex was not seen counts as an error of 100 %.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation import error_state_kernels, vertical_kernels
from hopper_estimation.bounce_kernels import filter_bounces
from hopper_estimation.phase_kernels import E_HEIGHT, E_KIND, E_TIME, E_VARIANCE, EVENT_SIZE
from hopper_estimation.phases import APEX
from hopper_estimation.vertical_kernels import Body, Signals, part_of

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

RMSE_WEIGHT = 0.01
RMSE_STEPS = 4
"""The errors along the way only give a slope where hops are missed: every fourth sample tells as much."""
LARGEST_SQUARE = 1e6
SURPRISE_WEIGHT = 0.01
_LARGEST_ERROR = 10.0
_LARGEST_SURPRISE = 10.0
_USUAL_SURPRISE = 4.0
_TRUTH_SHARE = 0.003
ERROR_STATE = 100
"""Kinds from here on are error-state filters, numbered from zero there."""
BOUNCE = 200


class JoinedTrials(NamedTuple):
    """T trials, one after another in the arrays.

    Attributes
    ----------
    starts
        (T, state size) states at the first sample of each.
    sample_offsets, hop_offsets
        (T + 1,) where a trial's samples and hops begin.
    signals
        N samples.
    true_height, true_velocity
        (N,) the truth at the samples, m and m/s, NaN where unknown.
    touchdown_s, next_touchdown_s, hop_height
        (H,) both touchdowns of each hop, s since its trial's first sample, and the height of its apex above standing, m
        (NaN: not seen, not judged).
    """

    starts: Array
    sample_offsets: Integers
    hop_offsets: Integers
    signals: Signals
    true_height: Array
    true_velocity: Array
    touchdown_s: Array
    next_touchdown_s: Array
    hop_height: Array


@njit(cache=True, error_model="numpy", nogil=True)
def add_squares(out: Array, true_height: Array, true_velocity: Array, squares: Array) -> None:
    """Into `squares` (3,) the sums of squared errors of height and velocity, and how many were summed up."""
    square_z, square_v, count = 0.0, 0.0, 0
    for n in range(0, out.shape[0], RMSE_STEPS):
        ez, ev = out[n, 0] - true_height[n], out[n, 1] - true_velocity[n]
        if ez == ez and ev == ev:
            square_z += min(ez * ez, LARGEST_SQUARE)
            square_v += min(ev * ev, LARGEST_SQUARE)
            count += 1
    squares[0], squares[1], squares[2] = square_z, square_v, count


@njit(cache=True, error_model="numpy", nogil=True)
def hop_errors(
    found: int, events: Array, length: float, touchdown_s: Array, next_touchdown_s: Array, hop_height: Array
) -> tuple[float, float, float, int]:
    """Apex error, miscount, surprise and number of the hops that are judged, of the first `found` events.

    The surprise is the mean negative log likelihood of the apex heights' errors, as shares of the heights, given the
    filter's own variance. See `JoinedTrials` for the rest.
    """
    error, surprise, judged, apexes, event = 0.0, 0.0, 0, 0, 0
    for hop in range(touchdown_s.shape[0]):
        while event < found and events[event, E_TIME] < touchdown_s[hop]:
            event += 1
        seen = 0
        hop_error, hop_surprise = 1.0, _LARGEST_SURPRISE
        while event < found and events[event, E_TIME] < next_touchdown_s[hop]:
            if int(events[event, E_KIND]) == APEX:
                if seen == 0:
                    miss = abs(events[event, E_HEIGHT] - length - hop_height[hop]) / hop_height[hop]
                    hop_error = min(miss, _LARGEST_ERROR) if miss == miss else _LARGEST_ERROR
                    variance = events[event, E_VARIANCE] / hop_height[hop] ** 2 + _TRUTH_SHARE**2
                    hop_surprise = 0.5 * (hop_error * hop_error / variance + np.log(variance))
                seen += 1
            event += 1
        if hop_height[hop] == hop_height[hop]:
            error += hop_error
            surprise += min(hop_surprise, _LARGEST_SURPRISE) if hop_surprise == hop_surprise else _LARGEST_SURPRISE
            apexes += seen
            judged += 1
    if judged == 0:
        return 1.0, 1.0, _LARGEST_SURPRISE, 0
    return error / judged, abs(apexes - judged) / judged, surprise / judged, judged


@njit(cache=True, error_model="numpy", nogil=True)
def _filtered(
    kind: int, parameters: Array, body: Body, state: Array, signals: Signals, out: Array, events: Array
) -> int:
    """A trial through the filter of that kind; how many events there were. `out` has two columns for `BOUNCE`."""
    if kind == BOUNCE:
        return filter_bounces(0, parameters, body, state, signals, out, events)
    if kind >= ERROR_STATE:
        return error_state_kernels.filter_error_samples(
            kind - ERROR_STATE, parameters, body, state, signals, out, events
        )
    return vertical_kernels.filter_samples(kind, parameters, body, state, signals, out, events)


@njit(cache=True, error_model="numpy", nogil=True)
def population_costs(kind: int, population: Array, body: Body, trials: JoinedTrials, costs: Array) -> None:
    """Costs (P,) of parameters (P, n) over trials. Every hop counts the same, whichever trial it is of."""
    samples, hops = trials.sample_offsets, trials.hop_offsets
    longest = 0
    for t in range(trials.starts.shape[0]):
        longest = max(longest, samples[t + 1] - samples[t])
    out, events = np.empty((longest, 2 if kind == BOUNCE else 6)), np.empty((4 + longest // 20, EVENT_SIZE))
    squares = np.empty(3)
    for k in range(population.shape[0]):
        errors, miscounts, surprises, squares_z, squares_v = 0.0, 0.0, 0.0, 0.0, 0.0
        for t in range(trials.starts.shape[0]):
            a, b, c, d = samples[t], samples[t + 1], hops[t], hops[t + 1]
            signals, start = part_of(trials.signals, a, b), trials.starts[t].copy()
            found = _filtered(kind, population[k], body, start, signals, out[: b - a], events)
            add_squares(out[: b - a], trials.true_height[a:b], trials.true_velocity[a:b], squares)
            apex, miscount, surprise, judged = hop_errors(
                min(found, events.shape[0]),
                events,
                body.length,
                trials.touchdown_s[c:d],
                trials.next_touchdown_s[c:d],
                trials.hop_height[c:d],
            )
            rmse_z, rmse_v = np.sqrt(squares[0] / squares[2]), np.sqrt(squares[1] / squares[2])
            if judged == 0 or squares[2] == 0.0:
                apex, miscount, rmse_z, rmse_v = 1.0, 1.0, 0.0, 0.0
            errors += apex * (d - c)
            miscounts += miscount * (d - c)
            surprises += surprise * (d - c)
            squares_z += rmse_z * rmse_z * (b - a)
            squares_v += rmse_v * rmse_v * (b - a)
        rmse = np.sqrt(squares_z / samples[-1]) + np.sqrt(squares_v / samples[-1])
        costs[k] = (errors + miscounts) / hops[-1] + RMSE_WEIGHT * rmse
        if kind == BOUNCE:
            costs[k] += SURPRISE_WEIGHT * (surprises / hops[-1] + _USUAL_SURPRISE)
