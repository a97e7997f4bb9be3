"""How often messages come: mean rate, extremes and standard deviation of the time between them, over a window."""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Rate:
    """Times between the messages of a window, seconds; `window` is their number, `count` that of all messages."""

    rate_hz: float
    min_s: float
    max_s: float
    std_dev_s: float
    window: int
    count: int


class RateMeter:
    """Takes the time of each message; `note` and `read` may be called from different threads."""

    def __init__(self, window: int) -> None:
        self.count = 0
        self._times_ns: deque[int] = deque(maxlen=window + 1)
        self._lock = threading.Lock()

    def note(self, time_ns: int) -> None:
        """A message came at that time (of any one clock, nanoseconds)."""
        with self._lock:
            self.count += 1
            self._times_ns.append(time_ns)

    def read(self) -> Rate | None:
        """Of the window; None before the second message."""
        with self._lock:
            times, count = list(self._times_ns), self.count
        if len(times) < 2:
            return None
        gaps_s = [(after - before) / 1e9 for before, after in pairwise(times)]
        mean_s = sum(gaps_s) / len(gaps_s)
        deviation_s = math.sqrt(sum((gap - mean_s) ** 2 for gap in gaps_s) / len(gaps_s))
        rate_hz = 1.0 / mean_s if mean_s > 0.0 else math.inf
        return Rate(rate_hz, min(gaps_s), max(gaps_s), deviation_s, len(gaps_s), count)
