"""Search along one coordinate at a time, for few coordinates and an objective that takes seconds.

Steps of every coordinate grow where they lead on and are halved where neither direction does: a pattern search after
Hooke and Jeeves. It asks for nothing smooth, never ends worse than it began, and may be stopped at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_GROWTH = 1.5
_SMALLEST_SHARE = 0.15
"""Of the first step: with all steps below it, the search is over."""


class Found(NamedTuple):
    """Where the search ended: coordinates (n,), the value there, and how often the objective was asked."""

    best: Array
    value: float
    evaluations: int


def maximise(
    objective: Callable[[Array], float],
    first_steps: Sequence[float],
    bound: float,
    evaluations: int,
    start_value: float,
) -> Found:
    """The best place that is found, from zero.

    Parameters
    ----------
    objective
        Value at coordinates (n,); NaN or minus infinity where there is none.
    first_steps
        (n,) of each coordinate; its sign is tried first.
    bound
        No coordinate goes further from zero.
    evaluations
        Of the objective, at most.
    start_value
        Of the objective at zero.
    """
    steps = np.array(first_steps, dtype=np.float64)
    smallest = _SMALLEST_SHARE * np.abs(steps)
    best, value, used = np.zeros(len(steps)), start_value, 0
    while used < evaluations and (np.abs(steps) >= smallest).any():
        for place in range(len(steps)):
            if abs(steps[place]) < smallest[place]:
                continue
            for sign in (1.0, -1.0):
                tried = best.copy()
                tried[place] = np.clip(best[place] + sign * steps[place], -bound, bound)
                if tried[place] == best[place] or used >= evaluations:
                    continue
                used += 1
                found = objective(tried)
                if found > value:
                    best, value = tried, found
                    steps[place] *= sign * _GROWTH
                    break
            else:
                steps[place] *= 0.5
    return Found(best, value, used)
