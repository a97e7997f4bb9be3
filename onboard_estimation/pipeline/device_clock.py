"""Times of a device's own clock as host time.

A sensor stamps its readings by its own clock, which runs some 100 ppm fast or slow; they arrive after a latency that
varies by milliseconds: in batches, after stalls of the host. Latency is never negative, so in each second the reading
with the least difference between arrival and device time tells the clocks' offset best. A line through these minima
over half a minute, little moved by seconds without a good one, maps device time to host time.

What all readings have in common of the latency cannot be seen one way. It is `latency_s`, or an echo tells it: the
device's answer to a question, with the times of both.

Host time that is set while readings come would be a latency of some milliseconds to the line. So live readings are
mapped to the host's monotonic clock, and stamps become time since the epoch in the end. A log has that time only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND

Array = NDArray[np.float64]

WINDOW_S = 30.0
"""Of the readings that count: longer, and a clock whose rate changes is followed late."""
_PIECE_S = 1.0
_EARLY_S = 0.005
"""So much before its line no reading arrives, whatever the latency: the clock has jumped."""
_LATE_S = 0.5
"""So much after it none arrives for long, unless the clock has jumped back."""
_LONGEST_LATE_NS = NANOSECONDS_PER_SECOND
_CONFIRMATIONS = 5
_LARGEST_SKEW = 1e-3
_LEAST_STDDEV_S = 1e-6


class Line(NamedTuple):
    """Host time less device time, s: `offset_s + skew * (device time - at_s)`.

    Attributes
    ----------
    stddev_s
        Of the points about the line.
    points
        How many there are.
    spread_s2
        Mean square distance of the points from `at_s`.
    """

    at_s: float
    offset_s: float
    skew: float
    stddev_s: float
    points: int
    spread_s2: float

    def __call__(self, device_s: float) -> float:
        """Offset at that device time, s."""
        return self.offset_s + self.skew * (device_s - self.at_s)

    def stddev_at(self, device_s: float) -> float:
        """Standard deviation of the line there, s; that of the points' common latency is not in it."""
        away = (device_s - self.at_s) ** 2 / self.spread_s2 if self.spread_s2 > 0.0 else 0.0
        return self.stddev_s * math.sqrt((1.0 + away) / self.points)


def robust_line(device_s: Array, offsets_s: Array) -> Line:
    """Through the points (P,), by the median of all pairs' slopes (Theil and Sen): up to a quarter may be far off."""
    at_s = float(np.mean(device_s))
    x, y = device_s - at_s, offsets_s
    skew = 0.0
    if len(x) > 2:
        first, second = np.triu_indices(len(x), 1)
        apart = x[second] - x[first]
        far = apart >= 0.2 * (x.max() - x.min())  # neighbours tell nothing but their noise
        slopes = (y[second] - y[first])[far] / apart[far]
        skew = float(np.clip(np.median(slopes), -_LARGEST_SKEW, _LARGEST_SKEW))
    left = y - skew * x
    offset_s = float(np.median(left))
    # Points of stalls count as if they were four deviations off; 1.4826 makes one of a median distance.
    far_s = 4.0 * 1.4826 * float(np.median(np.abs(left - offset_s)))
    stddev_s = max(float(np.sqrt(np.mean(np.clip(left - offset_s, -far_s, far_s) ** 2))), _LEAST_STDDEV_S)
    return Line(at_s, offset_s, skew, stddev_s, len(x), float(np.mean(x**2)))


def epoch_offset_ns() -> int:
    """Time since the epoch less that of the host's monotonic clock, as of now; of the quickest of three looks."""
    looks = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(3)]
    before_ns, epoch_ns, after_ns = min(looks, key=lambda look: look[2] - look[0])
    return epoch_ns - (before_ns + after_ns) // 2


class DeviceClock:
    """Maps the times of one device, as they arrive.

    Parameters
    ----------
    tick_s
        Of the device's clock.
    wrap
        Ticks after which it starts again from zero; None: it does not.
    latency_s
        Least time from a reading to its arrival; known beforehand, or 0.
    offset_ns
        Of the host's times over a clock that nobody sets: `epoch_offset_ns` for what arrives now; None for a log.

    Attributes
    ----------
    jumps
        How often the clock was seen to start anew: the device restarted.
    implausible
        Times that could not follow those before, and were not confirmed.
    """

    def __init__(
        self,
        tick_s: float,
        wrap: int | None = None,
        latency_s: float = 0.0,
        offset_ns: Callable[[], int] | None = None,
    ) -> None:
        self._tick_s, self._wrap, self._latency_s = tick_s, wrap, latency_s
        self._offset_ns = offset_ns or int  # int() is 0
        self.jumps = self.implausible = 0
        self._host_ns: int | None = None  # that host times count from: the first arrival, by the clock that nobody sets
        self._suspects: list[tuple[int, int]] = []
        self._stamp_ns = 0
        self._restart()

    def _restart(self) -> None:
        self._last: tuple[int, int] | None = None  # ticks and arrival of the last reading
        self._ticks = 0  # since the first one
        self._device_s = 0.0  # newest
        self._points: list[tuple[float, float]] = []  # device time and offset, the best of each second
        self._best: tuple[float, float, float] | None = None  # of this second: cost, device time, offset
        self._piece_end_s = _PIECE_S
        self._line: Line | None = None
        self._late_since_ns: int | None = None

    @property
    def skew_ppm(self) -> float:
        """By how much the host's clock gains on the device's; NaN before it is known."""
        return 1e6 * self._line.skew if self._line is not None and self._line.points > 2 else math.nan

    @property
    def stddev_s(self) -> float:
        """Of a mapped time, s, but for the latency that all readings share; NaN before it is known."""
        if self._line is None or self._line.points < 3:
            return math.nan
        return self._line.stddev_at(self._device_s)

    def stamp_ns(self, ticks: int, received_ns: int) -> int | None:
        """Host time of a reading, ns since the epoch; None: its device time cannot be right.

        Stamps rise, also where the line changes; they fall where the host was set back by a second or more. By less,
        they rise half as fast until they are right again.

        Parameters
        ----------
        ticks
            By the device's clock.
        received_ns
            When it arrived, by the host's, ns since the epoch.
        """
        epoch_ns = self._offset_ns()
        step = self._step(ticks, received_ns - epoch_ns)
        if step is None:
            return None
        device_s = self._tick_s * self._ticks
        assert self._host_ns is not None
        received_s = (received_ns - epoch_ns - self._host_ns) / NANOSECONDS_PER_SECOND
        offset_s = received_s - device_s
        self._point(offset_s, device_s, offset_s)
        return self._rising(epoch_ns + self._mapped_ns(device_s), step)

    def echo(self, asked_ns: int, ticks: int, answered_ns: int) -> None:
        """The device was asked and answered at these host times, and read its clock in between.

        Only echoes count then, of each second the quickest: call either this and `at`, or `stamp_ns`.
        """
        middle_ns = (asked_ns + answered_ns) // 2 - self._offset_ns()
        if self._step(ticks, middle_ns) is not None:
            assert self._host_ns is not None
            device_s = self._tick_s * self._ticks
            offset_s = (middle_ns - self._host_ns) / NANOSECONDS_PER_SECOND - device_s
            self._point((answered_ns - asked_ns) / NANOSECONDS_PER_SECOND, device_s, offset_s)

    def at(self, ticks: int) -> int | None:
        """Host time of ticks near those of the last echo; None before the first."""
        if self._last is None or self._host_ns is None:
            return None
        step = ticks - self._last[0]
        if self._wrap is not None:
            step = (step + self._wrap // 2) % self._wrap - self._wrap // 2
        return self._offset_ns() + self._mapped_ns(self._tick_s * (self._ticks + step))

    def _step(self, ticks: int, host_ns: int) -> int | None:
        """Ticks since the last time, which this one takes the place of; None where it cannot follow."""
        if self._host_ns is None:
            self._host_ns = host_ns
        if self._last is None:
            self._last = (ticks, host_ns)
            # Device time starts where host time stands, so that offsets stay small.
            self._ticks = round((host_ns - self._host_ns) / NANOSECONDS_PER_SECOND / self._tick_s)
            self._piece_end_s = self._tick_s * self._ticks + _PIECE_S
            return 0
        step = self._steps(self._last, ticks, host_ns)
        device_s = self._tick_s * (self._ticks + step)
        late_s = (host_ns - self._host_ns) / NANOSECONDS_PER_SECOND - device_s - self._offset_s(device_s)
        if step < 0 or late_s < -_EARLY_S or self._late_for_long(late_s, host_ns):
            return self._suspect(ticks, host_ns)
        self.implausible += len(self._suspects)
        self._suspects.clear()
        self._ticks += step
        self._last = (ticks, host_ns)
        return step

    def _steps(self, last: tuple[int, int], ticks: int, host_ns: int) -> int:
        """From then to now; a clock that wraps did so as often as fits the host's time best."""
        step = ticks - last[0]
        if self._wrap is None:
            return step
        passed = (host_ns - last[1]) / NANOSECONDS_PER_SECOND / self._tick_s
        return step + self._wrap * round((passed - step) / self._wrap)

    def _late_for_long(self, late_s: float, host_ns: int) -> bool:
        """Whether readings have come late for so long that no stall explains it: after one they come all at once."""
        if late_s <= _LATE_S:
            self._late_since_ns = None
            return False
        if self._late_since_ns is None:
            self._late_since_ns = host_ns
        return host_ns - self._late_since_ns > _LONGEST_LATE_NS

    def _suspect(self, ticks: int, host_ns: int) -> int | None:
        """A time that cannot follow: a fault of one reading, or, once confirmed by more, a jump."""
        if self._suspects:
            last = self._suspects[-1]
            step_s = self._tick_s * self._steps(last, ticks, host_ns)
            if not 0.0 <= step_s < max(1.0, 2e-9 * (host_ns - last[1])):
                self.implausible += len(self._suspects)
                self._suspects.clear()
        self._suspects.append((ticks, host_ns))
        if len(self._suspects) < _CONFIRMATIONS:
            return None
        self._suspects.clear()
        self.jumps += 1
        self._restart()
        return self._step(ticks, host_ns)

    def _point(self, cost: float, device_s: float, offset_s: float) -> None:
        """One more reading for the line; of each second that of the least cost counts."""
        self._device_s = device_s
        if self._best is None or cost < self._best[0]:
            self._best = (cost, device_s, offset_s)
            if len(self._points) < 3:
                self._line = self._through([*self._points, self._best[1:]])
        if device_s >= self._piece_end_s:
            self._points.append(self._best[1:])
            self._best = None
            self._piece_end_s = device_s + _PIECE_S
            # After a long silence the only point may be older than that: it counts until there is another one.
            while len(self._points) > 1 and self._points[0][0] < device_s - WINDOW_S:
                self._points.pop(0)
            self._line = self._through(self._points)

    def _through(self, points: list[tuple[float, float]]) -> Line:
        """Few points tell no skew: then their least offset counts."""
        device_s, offsets_s = np.array(points).T
        if len(points) < 3:
            best = int(np.argmin(offsets_s))
            return Line(float(device_s[best]), float(offsets_s[best]), 0.0, math.inf, len(points), 0.0)
        return robust_line(device_s, offsets_s)

    def _offset_s(self, device_s: float) -> float:
        return 0.0 if self._line is None else self._line(device_s)

    def _mapped_ns(self, device_s: float) -> int:
        assert self._host_ns is not None
        host_s = device_s + self._offset_s(device_s) - self._latency_s
        return self._host_ns + round(host_s * NANOSECONDS_PER_SECOND)

    def _rising(self, mapped_ns: int, step: int) -> int:
        if self._stamp_ns - mapped_ns > NANOSECONDS_PER_SECOND:
            self._stamp_ns = mapped_ns - 1  # the host's clock was set back
        least_ns = self._stamp_ns + round(0.5 * step * self._tick_s * NANOSECONDS_PER_SECOND)
        self._stamp_ns = max(mapped_ns, least_ns, self._stamp_ns + 1)
        return self._stamp_ns
