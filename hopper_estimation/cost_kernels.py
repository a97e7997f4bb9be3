"""Cost of filter parameters over trials, of which the errors are compiled.

    cost = mean |h - h_true| / h_true over all hops + |n - n_true| / n_true + 0.01 RMSE(z) + 0.01 RMSE(vz)

(eqs. (8) to (10) of the paper, weights as MODELS settles them): h and n are heights and number of the apexes. A hop
whose apex was not seen counts as an error of 100 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from hopper_estimation.filters import Filtered, State, StateFilter
from hopper_estimation.phases import APEX, EVENT, Array, Body, Records, copied

RMSE_WEIGHT = 0.01
RMSE_STEPS = 4
"""The errors along the way only give a slope where hops are missed: every fourth sample tells as much."""
LARGEST_SQUARE = 1e6
SURPRISE_WEIGHT = 0.01
_LARGEST_ERROR = 10.0
_LARGEST_SURPRISE = 10.0
_USUAL_SURPRISE = 4.0
_TRUTH_SHARE = 0.003


class CostedTrial(NamedTuple):
    """A trial as its cost needs it.

    Attributes
    ----------
    start
        State of the filter at the first sample.
    signals
        (N,) of `phases.SIGNAL`.
    true_height, true_velocity
        (N,) the truth at the samples, m and m/s, NaN where unknown.
    touchdown_s, next_touchdown_s, hop_height
        (H,) see `hop_errors`; s since the trial's first sample.
    """

    start: State
    signals: Records
    true_height: Array
    true_velocity: Array
    touchdown_s: Array
    next_touchdown_s: Array
    hop_height: Array


def room_for(trials: Sequence[CostedTrial]) -> Filtered:
    """For what comes of any of them: memory that is used again and again is fast."""
    longest = max(len(one.signals) for one in trials)
    return Filtered(np.empty((longest, 2)), np.empty(4 + longest // 20, EVENT))


def cost(
    state_filter: StateFilter,
    parameters: Array,
    body: Body,
    trials: Sequence[CostedTrial],
    room: Filtered,
    surprise_weight: float,
) -> float:
    """Of parameters (PARAMETER_COUNT,) over trials. Every hop counts the same, whichever trial it is of."""
    errors, miscounts, surprises, squares_z, squares_v, hops, samples = 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0
    for one in trials:
        run = state_filter.run(parameters, body, tuple(map(copied, one.start)), one.signals, room)
        square_z, square_v, count = squared_errors(run.out, one.true_height, one.true_velocity)
        apex, miscount, surprise, judged = hop_errors(
            run.events, body.length, one.touchdown_s, one.next_touchdown_s, one.hop_height
        )
        if judged == 0 or count == 0:
            apex, miscount, square_z, square_v, count = 1.0, 1.0, 0.0, 0.0, 1
        rmse_z, rmse_v = np.sqrt(square_z / count), np.sqrt(square_v / count)
        errors += apex * len(one.hop_height)
        miscounts += miscount * len(one.hop_height)
        surprises += surprise * len(one.hop_height)
        squares_z += rmse_z * rmse_z * len(one.signals)
        squares_v += rmse_v * rmse_v * len(one.signals)
        hops += len(one.hop_height)
        samples += len(one.signals)
    found = (errors + miscounts) / hops + RMSE_WEIGHT * (np.sqrt(squares_z / samples) + np.sqrt(squares_v / samples))
    if surprise_weight > 0.0:
        found += surprise_weight * (surprises / hops + _USUAL_SURPRISE)
    return float(found)


@njit(cache=True, error_model="numpy", nogil=True)
def squared_errors(out: Array, true_height: Array, true_velocity: Array) -> tuple[float, float, int]:
    """Sums of the squared errors of height and velocity, and how many were summed up."""
    square_z, square_v, count = 0.0, 0.0, 0
    for n in range(0, out.shape[0], RMSE_STEPS):
        ez, ev = out[n, 0] - true_height[n], out[n, 1] - true_velocity[n]
        if ez == ez and ev == ev:
            square_z += min(ez * ez, LARGEST_SQUARE)
            square_v += min(ev * ev, LARGEST_SQUARE)
            count += 1
    return square_z, square_v, count


@njit(cache=True, error_model="numpy", nogil=True)
def hop_errors(
    events: Records, length: float, touchdown_s: Array, next_touchdown_s: Array, hop_height: Array
) -> tuple[float, float, float, int]:
    """Apex error, miscount, surprise and number of the hops that are judged.

    The surprise is the mean negative log likelihood of the apex heights' errors, as shares of the heights, given the
    filter's own variance.

    Parameters
    ----------
    events
        Of `phases.EVENT`.
    touchdown_s, next_touchdown_s, hop_height
        (H,) both touchdowns of each hop, s on the events' clock, and the height of its apex above standing, m (NaN: not
        seen, not judged).
    """
    error, surprise, judged, apexes, event = 0.0, 0.0, 0, 0, 0
    for hop in range(touchdown_s.shape[0]):
        while event < len(events) and events[event].time < touchdown_s[hop]:
            event += 1
        seen = 0
        hop_error, hop_surprise = 1.0, _LARGEST_SURPRISE
        while event < len(events) and events[event].time < next_touchdown_s[hop]:
            if events[event].kind == APEX:
                if seen == 0:
                    miss = abs(events[event].height - length - hop_height[hop]) / hop_height[hop]
                    hop_error = min(miss, _LARGEST_ERROR) if miss == miss else _LARGEST_ERROR
                    variance = events[event].variance / hop_height[hop] ** 2 + _TRUTH_SHARE**2
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
