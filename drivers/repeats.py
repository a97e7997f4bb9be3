"""Readings that a sensor gives again, counted and told of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.pipeline.repeats import Repeats

_EVENLY = 2.0
"""Times the mean interval between new readings: no longer ones are those of a sensor that has its own rate."""
_MANY = 0.2
"""Share of readings from which on repeats are said: a device that is read a little too often gives some."""


class CountedRepeats:
    """Finds and counts the readings of one sensor that repeat the one before.

    Attributes
    ----------
    by_chance
        So many repeats in a row may be readings of their own: 0 where what is compared is the device's counter; where
        it is values, as many as noise of a few digits makes.
    count, fresh_count
        Repeats so far, and readings that are none.
    per_fresh
        Readings for each new one when it was last told, where these came evenly: the sensor is slower than it is read,
        which is no fault; 0 where it hung.
    """

    def __init__(self, by_chance: int = 0) -> None:
        self.by_chance = by_chance
        self._known = Repeats()
        self.fresh_count = 0
        self._told = (0, 0)  # fresh and repeated ones when it was last said
        self._longest = 0  # of the runs since then
        self.count = 0
        self.per_fresh = 0.0

    def fresh(self, readings: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of K counters (K,), or of K rows of values (K, n), are no repeats; NaN equals NaN."""
        rows = readings if readings.ndim > 1 else readings[:, None]
        is_fresh = np.ones(len(rows), dtype=np.bool_)
        for place, row in enumerate(rows):
            self._known = self._known.heard(row.tobytes())  # a copy: the driver may still correct readings in place
            self._longest = max(self._longest, self._known.in_a_row)
            is_fresh[place] = self._known.in_a_row <= self.by_chance
        fresh = int(np.count_nonzero(is_fresh))
        self.fresh_count += fresh
        self.count += len(rows) - fresh
        return is_fresh

    def told(self, name: str, remedy: str) -> str:
        """Of the time since the last call: a sentence where many were repeats; empty where few were, or none came.

        Parameters
        ----------
        name
            Of the sensor.
        remedy
            What is to be done where all are.
        """
        fresh, repeats = self.fresh_count - self._told[0], self.count - self._told[1]
        mean, longest = (fresh + repeats) / max(fresh, 1), self._longest + 1
        self.per_fresh = mean if fresh and longest <= _EVENLY * mean else 0.0
        self._told, self._longest = (self.fresh_count, self.count), self._known.in_a_row
        if repeats <= _MANY * (fresh + repeats):
            return ""
        if not fresh:
            return f"{name} reads the same all the time, {repeats} readings left out: {remedy}"
        return f"{name}: {repeats} of {fresh + repeats} readings repeat the one before and are left out"
