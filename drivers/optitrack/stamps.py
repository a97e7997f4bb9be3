"""When the cameras exposed a frame, as time of this host.

From 3.0 a frame has the tick of the server's clock in the middle of the exposure. Echoes map it: the server is asked
for its clock, of each second the quickest answer counts, and its tick is held to be of the middle between question and
answer. Half of that round trip is the largest error.

Before 3.0 there is neither. From 2.7 a frame has a time of the server's software, mapped one way: arrivals less the
known least latency. Before 2.7 that time has too few digits, and each frame is stamped by its arrival less that
latency, as uncertain as arrivals vary.
"""

from __future__ import annotations

import math
import time

from drivers.optitrack.frames import Frame
from drivers.optitrack.protocol import ServerInfo
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.timing.device_clock import DeviceClock

_SOFTWARE_TICK_S = 1e-6
_LONGEST_SOFTWARE_TIME_S = 1e9
_LONGEST_AGO_NS, _LATEST_NS = 2 * NANOSECONDS_PER_SECOND, NANOSECONDS_PER_SECOND // 20
"""A frame's exposure is before its arrival, and not long; later only by the error of the mapping."""
_LONGEST_ROUND_NS = NANOSECONDS_PER_SECOND // 2
_LONGEST_WITHOUT_ECHO_NS = 3 * NANOSECONDS_PER_SECOND
_MOST_OPEN = 32
_SMOOTHING = 0.01


class FrameStamps:
    """Of the frames of one server, from one start of it to the next.

    Parameters
    ----------
    latency_s
        Least time from exposure to arrival, where the server's version does not tell it.

    Attributes
    ----------
    clock
        Of the server.
    unstamped
        Frames left out for a time that cannot be, or, where the server has none, stamped by their arrival.
    echoes
        Answers that counted.
    """

    def __init__(self, info: ServerInfo, latency_s: float) -> None:
        self._latency_ns = round(latency_s * NANOSECONDS_PER_SECOND)
        self.is_echoed = info.clock_hz is not None
        self._has_software_time = info.version >= (2, 7)
        self.clock = DeviceClock(
            1.0 / info.clock_hz if info.clock_hz else _SOFTWARE_TICK_S, None, 0.0 if self.is_echoed else latency_s
        )
        self.unstamped = self.echoes = 0
        self._open: dict[int, None] = {}
        self._first_ns = self._last_ns = 0
        self._period_ns = self._variance_ns2 = math.nan

    @property
    def stddev_s(self) -> float:
        """Of a stamp, but for what all have in common; NaN before it is known."""
        if self.is_echoed or self._has_software_time:
            return self.clock.stddev_s
        return math.sqrt(self._variance_ns2 / 2.0) / NANOSECONDS_PER_SECOND  # of one arrival, from intervals

    def ask(self) -> int:
        """Number to send with an echo request, now."""
        asked_ns = time.time_ns()
        self._open[asked_ns] = None
        if len(self._open) > _MOST_OPEN:
            del self._open[next(iter(self._open))]
        return asked_ns

    def answer(self, asked_ns: int, ticks: int, arrived_ns: int) -> bool:
        """Take an echo; false where nothing was asked like that, or it took too long."""
        if asked_ns not in self._open:
            return False
        del self._open[asked_ns]
        if not 0 <= arrived_ns - asked_ns <= _LONGEST_ROUND_NS:
            return False
        self.echoes += 1
        self.clock.echo(asked_ns, ticks, arrived_ns)
        return True

    def __call__(self, frame: Frame, arrived_ns: int) -> int | None:
        """Stamp of a frame, ns since the epoch; None where its time cannot be, or the clock is not known yet."""
        if self.is_echoed:
            return self._by_echoes(frame.exposure_ticks, arrived_ns)
        if not self._has_software_time:
            self._watch(arrived_ns)
            return arrived_ns - self._latency_ns
        stamp_ns = None
        if math.isfinite(frame.time_s) and 0.0 <= frame.time_s < _LONGEST_SOFTWARE_TIME_S:
            stamp_ns = self.clock.stamp_ns(round(frame.time_s / _SOFTWARE_TICK_S), arrived_ns)
        return self._checked(stamp_ns, arrived_ns)

    def _by_echoes(self, ticks: int | None, arrived_ns: int) -> int | None:
        """A server that plays a take has no exposures, and one whose echoes never come no clock: then by arrival."""
        self._first_ns = self._first_ns or arrived_ns
        if not ticks or (not self.echoes and arrived_ns - self._first_ns > _LONGEST_WITHOUT_ECHO_NS):
            self.unstamped += 1
            return arrived_ns - self._latency_ns
        return self._checked(self.clock.at(ticks), arrived_ns)

    def _checked(self, stamp_ns: int | None, arrived_ns: int) -> int | None:
        if stamp_ns is not None and -_LATEST_NS <= arrived_ns - stamp_ns <= _LONGEST_AGO_NS:
            return stamp_ns
        self.unstamped += 1
        return None

    def _watch(self, arrived_ns: int) -> None:
        """How much arrivals vary."""
        interval_ns = arrived_ns - self._last_ns
        self._last_ns = arrived_ns
        if not 0 < interval_ns < NANOSECONDS_PER_SECOND:
            return
        if math.isnan(self._period_ns):
            self._period_ns, self._variance_ns2 = interval_ns, 0.0
        self._period_ns += _SMOOTHING * (interval_ns - self._period_ns)
        away = (interval_ns - self._period_ns) ** 2 - self._variance_ns2
        self._variance_ns2 += _SMOOTHING * away
