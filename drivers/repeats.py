"""Readings that a sensor gives again: frozen is not fresh."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MANY = 0.2
"""Share of readings from which on repeats are said: a device that is read a little too often gives some."""


class Repeats:
    """Finds and counts the readings of one sensor that repeat the one before.

    Parameters
    ----------
    by_chance
        So many repeats in a row may be readings of their own: 0 where what is compared is the device's counter; where
        it is values, as many as noise of a few digits makes.

    Attributes
    ----------
    count
        Repeats so far.
    """

    def __init__(self, by_chance: int = 0) -> None:
        self._by_chance = by_chance
        self._data: bytes | None = None  # of the newest reading
        self._last: NDArray[Any] | None = None  # of each sensor, where there are several
        self._runs = np.zeros(0, dtype=np.int64)
        self._run = 0  # readings in a row that equal the newest, without the first of them
        self._fresh = 0
        self._told = (0, 0)  # fresh and repeated ones when it was last said
        self.count = 0

    def fresh(self, readings: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of K counters (K,), or of K rows of values (K, n), are no repeats; NaN equals NaN."""
        found = []
        for row in readings:
            data = row.tobytes()  # the driver may still correct its readings in place
            self._run = self._run + 1 if data == self._data else 0
            found.append(self._run <= self._by_chance)
            self._data = data
        fresh = sum(found)
        self._fresh += fresh
        self.count += len(found) - fresh
        return np.array(found, dtype=np.bool_)

    def fresh_of_each(self, readings: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of B rows (B, n), of B sensors at one instant, are no repeats of their sensor's rows; not counted."""
        bits = np.ascontiguousarray(readings).view(np.int64)
        if self._last is None:
            self._last, self._runs = bits, np.zeros(len(bits), dtype=np.int64)
            return np.ones(len(bits), dtype=np.bool_)
        self._runs = (self._runs + 1) * (bits == self._last).all(axis=1)
        self._last = bits
        is_fresh: NDArray[np.bool_] = self._runs <= self._by_chance
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
        fresh, repeats = self._fresh - self._told[0], self.count - self._told[1]
        self._told = (self._fresh, self.count)
        if repeats <= _MANY * (fresh + repeats):
            return ""
        if not fresh:
            return f"{name} reads the same all the time, {repeats} readings left out: {remedy}"
        return f"{name}: {repeats} of {fresh + repeats} readings repeat the one before and are left out"
