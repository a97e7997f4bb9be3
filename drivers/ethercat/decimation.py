"""Fewer readings a second, without what would be folded back: a linear-phase low-pass, whose delay the stamps know."""

from __future__ import annotations

import numpy as np

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector

ATTENUATION_DB = 60.0
PASS, STOP = 0.3, 0.7
"""Edges of the bands as shares of the output rate: what is folded back lands between them, above 0.3 of that rate."""
MOST_FILLED = 10
_MARGIN_DB = 2.0
"""Kaiser's formula is an estimate."""


def low_pass(factor: int) -> Vector:
    """(taps,) of odd number, sum 1: symmetric, so that all frequencies are late alike, by (taps - 1) / 2 readings."""
    from scipy.signal import firwin, kaiserord

    nyquist = 0.5 * factor  # of the input, in units of the output rate
    taps, beta = kaiserord(ATTENUATION_DB + _MARGIN_DB, (STOP - PASS) / nyquist)
    window: Vector = firwin(int(taps) | 1, 0.5 * (PASS + STOP) / nyquist, window=("kaiser", beta))
    return window


class Decimator:
    """Every `factor`-th reading, filtered; its stamp is that of the reading in the middle of the filter.

    A few readings that are missing are put on the line between their neighbours; after more the filter starts anew.

    Parameters
    ----------
    factor
        2 or more.
    period_s
        Between readings.

    Attributes
    ----------
    delay_s
        By which what comes out is later than its stamp.
    filled, restarts
        Readings put in; times that the filter started anew.
    """

    def __init__(self, factor: int, period_s: float) -> None:
        self.factor = factor
        self._taps = low_pass(factor)
        self._period_ns = period_s * NANOSECONDS_PER_SECOND
        self.delay_s = 0.5 * (len(self._taps) - 1) * period_s
        self.filled = self.restarts = 0
        self._values = np.empty((2 * len(self._taps), 0))  # each reading twice, so that the newest lie in one piece
        self._stamps: list[int] = []
        self._count = 0

    def __call__(self, stamps_ns: list[int], values: Matrix) -> tuple[list[int], Matrix]:
        """Stamps and values (L, m) that come out of K stamps and values (K, m)."""
        taps = len(self._taps)
        if self._values.shape[1] != values.shape[1]:
            self._values = np.empty((2 * taps, values.shape[1]))
        out_stamps: list[int] = []
        out: list[Vector] = []
        for stamp_ns, value in zip(stamps_ns, values, strict=True):
            for each_ns, each in self._without_gap(stamp_ns, value):
                place = self._count % taps
                self._values[place] = self._values[place + taps] = each
                self._stamps.append(each_ns)
                del self._stamps[:-taps]
                self._count += 1
                if self._count >= taps and (self._count - taps) % self.factor == 0:
                    first = self._count % taps
                    out.append(self._taps @ self._values[first : first + taps])
                    out_stamps.append(self._stamps[taps // 2])
        return out_stamps, np.array(out).reshape(-1, values.shape[1])

    def _without_gap(self, stamp_ns: int, value: Vector) -> list[tuple[int, Vector]]:
        """The reading, with those before it that are missing."""
        if not self._stamps:
            return [(stamp_ns, value)]
        before_ns = self._stamps[-1]
        steps = max(1, round((stamp_ns - before_ns) / self._period_ns))
        if steps > MOST_FILLED or stamp_ns <= before_ns:
            self.restarts += 1
            self._count = 0
            self._stamps.clear()
            return [(stamp_ns, value)]
        before = self._values[(self._count - 1) % len(self._taps)].copy()
        self.filled += steps - 1
        return [
            (before_ns + (stamp_ns - before_ns) * step // steps, before + (value - before) * (step / steps))
            for step in range(1, steps + 1)
        ]
