"""Subscribing to a topic as it is published, its type and quality of service from the graph; and how often it comes."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.live.discovery import absolute, others_endpoints, publishers, settle
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.qos import matching
from onboard_estimation.live.session import place

_POLL_S = 0.05
_ANNOUNCED_S = 4.0
_DEPTH = 100
_RAW_DEPTH = 2000


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
            gaps_s, count = np.diff(self._times_ns) / 1e9, self.count
        if not len(gaps_s):
            return None
        rate_hz = 1.0 / float(gaps_s.mean()) if gaps_s.any() else math.inf
        return Rate(rate_hz, float(gaps_s.min()), float(gaps_s.max()), float(gaps_s.std()), len(gaps_s), count)


@dataclass(frozen=True)
class Watched:
    """A topic that was found: its full name and its type, `sensor_msgs/msg/Imu`."""

    name: str
    message_type: str


def wait_for_topic(node: Any, topic: str, timeout_s: float, say_waiting: Callable[[str, str], None]) -> Watched:
    """The topic, as soon as somebody publishes or subscribes to it; `say_waiting` is called once (name, place).

    Raises
    ------
    UserError
        It did not appear in time (0: waits for ever), or it has several types.
    """
    name = absolute(topic)
    started, said = time.monotonic(), False
    while True:
        types = dict(node.get_topic_names_and_types()).get(name, [])
        if types and others_endpoints(node, name):
            break
        waited_s = time.monotonic() - started
        if timeout_s and waited_s >= timeout_s:
            raise UserError(f"no topic {name} within {timeout_s:g} s in {place()}")
        if not said and waited_s >= _ANNOUNCED_S:
            say_waiting(name, place())
            said = True
        time.sleep(_POLL_S)
    if len(types) > 1:
        raise UserError(f"{name} has several types: {', '.join(sorted(types))}; only one can be shown")
    settle(node, still_s=0.1, at_least_s=0.0)
    return Watched(name, types[0])


def subscribe(node: Any, watched: Watched, take: Callable[[Any], None], raw: bool = False) -> None:
    """Call `take`, in the executor's thread, with each message, serialised where it is to be raw."""
    profile = matching(publishers(node, watched.name), _RAW_DEPTH if raw else _DEPTH)
    node.create_subscription(interface_class(watched.message_type), watched.name, take, profile, raw=raw)
