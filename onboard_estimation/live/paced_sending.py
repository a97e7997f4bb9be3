"""A recording sent in real time, as a robot's sensors would: each message when it is due, stamped when it is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.live.messages import new
from onboard_estimation.live.types import interface_class
from onboard_estimation.ros.sensor_messages import to_message
from onboard_estimation.series import Series

_DEPTH = 100
_SEEN_S = 0.5
"""The other side may see us later than we see it."""


class PacedSender:
    """Publishers of a recording's topics, and what they sent.

    Parameters
    ----------
    node
        Of rclpy; topics are relative to its namespace.
    series
        What is sent. Of one instant in this order: a filter gives its estimate with the last.
    """

    def __init__(self, node: Any, series: Sequence[Series]) -> None:
        from rclpy.qos import QoSProfile

        self._series = series
        self._publishers = [
            node.create_publisher(
                interface_class(one.channel.message_type), one.channel.topic, QoSProfile(depth=_DEPTH)
            )
            for one in series
        ]

    def await_listeners(self, timeout_s: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Until somebody listens to each topic; UserError that names the others after the time, or of `meanwhile`."""
        end_s = time.monotonic() + timeout_s
        while waiting := [one.topic_name for one in self._publishers if one.get_subscription_count() == 0]:
            if time.monotonic() > end_s:
                raise UserError(f"nobody listens to {', '.join(waiting)} after {timeout_s:g} s")
            meanwhile()
            time.sleep(0.02)
        time.sleep(_SEEN_S)

    def send(
        self, rate: float = 1.0, before: Callable[[int], None] = lambda due_ns: None
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """Send all of it; stamps sent of each topic (K,), and by how much each instant was late (I,), ns.

        Parameters
        ----------
        rate
            Times real time.
        before
            Called before each instant, with its time in the recording, ns; what it takes must be little.
        """
        due = sorted(
            (stamp, place, row)
            for place, one in enumerate(self._series)
            for row, stamp in enumerate(one.stamps_ns.tolist())
        )
        sent_ns = [np.zeros(len(one.stamps_ns), dtype=np.int64) for one in self._series]
        late_ns = []
        start_ns = time.monotonic_ns() - round(due[0][0] / rate) if due else 0
        for at_ns, instant in groupby(due, key=lambda one: one[0]):
            messages = [
                (place, row, to_message(new, self._series[place].channel, 0, self._series[place].values[row]))
                for _, place, row in instant
            ]
            before(at_ns)
            due_ns = start_ns + round(at_ns / rate)
            sleep_until(due_ns)
            late_ns.append(time.monotonic_ns() - due_ns)
            now_ns = time.time_ns()
            for place, row, message in messages:
                stamp_with(message, now_ns)
                self._publishers[place].publish(message)
                sent_ns[place][row] = now_ns
        return sent_ns, np.array(late_ns, dtype=np.int64)


def stamp_with(message: Any, at_ns: int) -> None:
    """Put a time into a message's header, ns since the epoch."""
    stamp = message.header.stamp
    stamp.sec, stamp.nanosec = divmod(at_ns, 1_000_000_000)


def sleep_until(at_ns: int) -> None:
    """Until that time of the monotonic clock."""
    ahead_ns = at_ns - time.monotonic_ns()
    if ahead_ns > 0:
        time.sleep(1e-9 * ahead_ns)
