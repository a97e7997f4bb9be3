"""Readings that a sensor gives again: frozen is not fresh."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_EVENLY = 2.0
"""Times the mean interval between new readings: no longer ones are those of a sensor that has its own rate."""
_MANY = 0.2
"""Share of readings from which on repeats are said: a device that is read a little too often gives some."""


class Repeats:
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
        self._content = b""  # of the last reading
        self._last: NDArray[Any] | None = None
        self._runs = np.zeros(0, dtype=np.int64)  # of each sensor, where there are several
        self._run = 0  # readings in a row that equal the newest, without the first of them
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
            content = row.tobytes()  # a copy: the driver may still correct readings in place
            self._run = self._run + 1 if content == self._content else 0
            self._content = content
            self._longest = max(self._longest, self._run)
            is_fresh[place] = self._run <= self.by_chance
        fresh = int(np.count_nonzero(is_fresh))
        self.fresh_count += fresh
        self.count += len(rows) - fresh
        return is_fresh

    def fresh_of_each(self, readings: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of B rows (B, n), of B sensors at one instant, are no repeats of their sensor's rows; not counted."""
        bits = np.ascontiguousarray(readings).view(np.int64)
        if self._last is None:
            self._last, self._runs = bits, np.zeros(len(bits), dtype=np.int64)
            return np.ones(len(bits), dtype=np.bool_)
        self._runs = (self._runs + 1) * (bits == self._last).all(axis=1)
        self._last = bits
        is_fresh: NDArray[np.bool_] = self._runs <= self.by_chance
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
        self._told, self._longest = (self.fresh_count, self.count), self._run
        if repeats <= _MANY * (fresh + repeats):
            return ""
        if not fresh:
            return f"{name} reads the same all the time, {repeats} readings left out: {remedy}"
        return f"{name}: {repeats} of {fresh + repeats} readings repeat the one before and are left out"
