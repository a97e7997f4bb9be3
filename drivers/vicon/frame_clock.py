"""Host times of frames, from their numbers.

A frame arrives after the exposure by the latency that the server tells, and by what the network adds, which jitters.
Its number counts exposures, which are evenly spaced: it is the reading of a clock that ticks once a frame. That clock
is mapped to the host's by the arrivals less the latency told (`onboard_estimation.timing.device_clock`), and what
jitters falls out.

What the least time on the network is cannot be seen one way: `latency_s`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.timing.device_clock import DeviceClock

_WRAP = 1 << 32
_CHECKED_OVER_S = 2.0
_MUCH = 0.05
"""Share by which numbers may rise faster or slower than their rate says, over that time: arrivals jitter."""
_LONGEST_LATENCY_S = 10.0


class FrameClock:
    """Maps the frames of one server, across connections.

    Parameters
    ----------
    latency_s
        Least time on the network.
    tell
        Takes a sentence where the rate changes, or is not the one that was told.

    Attributes
    ----------
    rate_hz
        That the numbers count by; NaN: unknown, stamps are arrivals less the latency told.
    device_clock
        That frames are mapped by now; None: they are not.
    unmapped
        Frames without a time: the first few after a jump, until it is confirmed.
    implausible_latencies
        How often a latency was told that cannot be: then the last one counts.
    """

    def __init__(self, latency_s: float, tell: Callable[[str], object]) -> None:
        self._latency_s, self._tell = latency_s, tell
        self._told: tuple[float, ...] = ()
        self.device_clock: DeviceClock | None = None
        self._jumps = self.unmapped = 0
        self._since: tuple[int, int] | None = None  # number and arrival that the rate is checked from
        self._contrary_hz = math.nan  # that they rose at in the piece before, against what was told
        self._told_latency_s = 0.0
        self._last_ns = 0
        self.rate_hz = math.nan
        self.implausible_latencies = 0

    @property
    def jumps(self) -> int:
        """How often the numbers began anew: a server that restarted, a recording that was played again."""
        return self._jumps + (self.device_clock.jumps if self.device_clock is not None else 0)

    @property
    def stddev_s(self) -> float:
        """Of a stamp, s, but for the network's least time and what the told latency is wrong by; NaN: unknown."""
        return self.device_clock.stddev_s if self.device_clock is not None else math.nan

    def tell_rates(self, rates_hz: tuple[float, ...]) -> None:
        """What the server says; the first counts, until the numbers speak against it."""
        if rates_hz and rates_hz != self._told:
            self._told = rates_hz
            self._begin(rates_hz[0])

    def stamp_ns(self, number: int, latency_s: float | None, received_ns: int) -> int | None:
        """Host time of a frame's exposure, ns since the epoch; None: not known yet, the numbers jumped.

        Stamps rise, but where the host's clock was set back by a second or more.
        """
        if latency_s is not None and 0.0 <= latency_s <= _LONGEST_LATENCY_S:
            self._told_latency_s = latency_s
        elif latency_s is not None:
            self.implausible_latencies += 1
        exposed_ns = received_ns - round(NANOSECONDS_PER_SECOND * self._told_latency_s)
        self._check(number, received_ns)
        stamp_ns: int | None = exposed_ns - round(NANOSECONDS_PER_SECOND * self._latency_s)
        if self.device_clock is not None:
            stamp_ns = self.device_clock.stamp_ns(number, exposed_ns)
        if stamp_ns is None:
            self.unmapped += 1
            return None
        if not 0 <= self._last_ns - stamp_ns < NANOSECONDS_PER_SECOND:
            self._last_ns = stamp_ns
        else:
            self._last_ns += 1
        return self._last_ns

    def reconnected(self) -> None:
        """What was between is no measure of the rate."""
        self._since, self._contrary_hz = None, math.nan

    def _begin(self, rate_hz: float) -> None:
        self._jumps = self.jumps
        self.rate_hz = rate_hz
        self.reconnected()
        self.device_clock = DeviceClock(1.0 / rate_hz, _WRAP, self._latency_s) if math.isfinite(rate_hz) else None

    def _check(self, number: int, received_ns: int) -> None:
        """Whether the numbers rise as the rate says."""
        if self._since is None or number < self._since[0]:
            self._since = (number, received_ns)
            return
        passed_s = (received_ns - self._since[1]) / NANOSECONDS_PER_SECOND
        if passed_s < _CHECKED_OVER_S:
            return
        risen_hz = (number - self._since[0]) / passed_s
        self._since = (number, received_ns)
        before_hz, self._contrary_hz = self._contrary_hz, math.nan
        if not self._told or _agree(self.rate_hz, risen_hz):
            return
        if not _agree(before_hz, risen_hz):  # a stall of the host makes one piece longer and the next one shorter
            self._contrary_hz = risen_hz
            return
        fitting = [told_hz for told_hz in self._told if _agree(told_hz, risen_hz)]
        if fitting or math.isfinite(self.rate_hz):
            said = ", ".join(f"{told_hz:g}" for told_hz in self._told)
            taken = f"{fitting[0]:g} Hz is taken" if fitting else "stamps are arrivals less the latency told"
            self._tell(f"frame numbers rise at {risen_hz:.1f} Hz, and the server tells {said} Hz: {taken}")
            self._begin(fitting[0] if fitting else math.nan)


def _agree(one_hz: float, risen_hz: float) -> bool:
    return abs(one_hz - risen_hz) <= _MUCH * risen_hz
