"""One module: times of its own clock as host time, whether it answers, and how it fares."""

from __future__ import annotations

import math

from onboard_estimation.timing.device_clock import DeviceClock

_TICK_S = 1e-6
_END_US = 2**31 * 1_000_000
"""Of what a stamp can hold."""


class Module:
    """What is known of a module from its feedback.

    Attributes
    ----------
    received, missed, refused
        How many readings came; how many feedbacks of the group came without one of it; how many readings had a time
        that cannot follow those before.
    is_silent
        Whether it has not answered for a while.
    """

    def __init__(self, name: str, silent_s: float, latency_s: float) -> None:
        self.name = name
        self.received = self.missed = self.refused = 0
        self.is_silent = False
        self.clock = DeviceClock(_TICK_S, latency_s=latency_s)
        self._silent_s = silent_s
        self._received_us = 0
        self._reported = (0.0, 0, 0, 0, 0)
        self.begin(0.0)

    def begin(self, now_s: float) -> None:
        """It may answer from now on."""
        self._heard_s = self._silent_since_s = now_s
        self._reported = (now_s, *self._reported[1:])

    def stamp_ns(self, received_us: int, hardware_us: int, now_s: float) -> int | None:
        """When the reading was sent, ns since the epoch of the host; None: it is none, or an old one again."""
        if not 0 < received_us < _END_US or received_us == self._received_us:
            self.missed += 1
            return None
        self._received_us, self._heard_s = received_us, now_s
        self.received += 1
        # Without a time of its own there is none better than that of its arrival.
        stamp_ns = 1000 * received_us
        mapped_ns = self.clock.stamp_ns(hardware_us, stamp_ns) if hardware_us > 0 else stamp_ns
        self.refused += mapped_ns is None
        return mapped_ns

    def change(self, now_s: float) -> str:
        """A sentence where it fell silent or came back since the last call; else empty."""
        quiet_s = now_s - self._heard_s
        silent = quiet_s > self._silent_s
        if silent == self.is_silent:
            return ""
        self.is_silent = silent
        if not silent:
            return f"module {self.name} answers again, after {self._heard_s - self._silent_since_s:.1f} s"
        self._silent_since_s = self._heard_s
        return f"module {self.name} has been silent for {quiet_s:.1f} s, after {self.received} readings"

    def report(self, now_s: float) -> tuple[bool, str, dict[str, float]]:
        """Since the last report: whether all is well, in words, figures for /diagnostics."""
        before_s, *before = self._reported
        counts = (self.received, self.missed, self.refused, self.clock.jumps)
        self._reported = (now_s, *counts)
        received, missed, refused, jumps = (now - then for now, then in zip(counts, before, strict=True))
        rate_hz = received / (now_s - before_s) if now_s > before_s else math.nan
        values = {
            "rate_hz": rate_hz,
            "received": self.received,
            "lost": self.missed,
            "refused": self.refused,
            "clock_skew_ppm": self.clock.skew_ppm,
            "clock_stddev_us": 1e6 * self.clock.stddev_s,
            "clock_jumps": self.clock.jumps,
            "clock_implausible": self.clock.implausible,
        }
        words = [f"{rate_hz:.1f} Hz"]
        words += [f"{missed} lost"] if missed else []
        words += [f"{refused} refused"] if refused else []
        words += [f"its clock started anew {jumps} times"] if jumps else []
        return len(words) == 1 and received > 0, ", ".join(words), values
