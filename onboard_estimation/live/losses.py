"""Messages that were published and never taken, counted by the numbers that their publishers give them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

KEPT = 5000
"""Readings that a publisher keeps for a reliable listener that stands still, and that may wait in a listener's queue:
six seconds at 840 Hz. What nobody waits for is not kept."""
_SHORTEST_NS = 10_000
"""Between two messages of one publisher, in the mean."""
_RECENT_NS = 2_000_000_000


class Losses:
    """Counts what of a topic was lost on the way, or pushed out of the full queue of this process.

    The numbers of several publishers go on each by itself, which tells them apart.

    Attributes
    ----------
    count
        Messages lost; None as long as the middleware has numbered none.
    mixed
        How often a publisher was heard again after another one: more than none, and there are two at a time.
    """

    def __init__(self) -> None:
        self.count: int | None = None
        self.mixed = 0
        self._newest: list[tuple[int, int]] = []  # number and time, ns, of each publisher; the one heard last is last

    def see(self, information: Mapping[str, Any]) -> None:
        """A message was taken; `information` is what rclpy gives with it."""
        number, sent_ns = information.get("publication_sequence_number"), information.get("source_timestamp") or 0
        if number is None:
            return
        self.count = self.count or 0
        # Most of what is newer by far is of another publisher: nobody sends so many in so short a time.
        places = [
            place
            for place, (before, then_ns) in enumerate(self._newest)
            if 0 < number - before <= 1 + (sent_ns - then_ns) // _SHORTEST_NS
        ]
        if places:
            place = max(places, key=lambda place: (self._newest[place][0], place))
            self.mixed += place != len(self._newest) - 1
            self.count += number - self._newest.pop(place)[0] - 1
        self._newest = [one for one in self._newest if one[1] > self._newest[-1][1] - _RECENT_NS]
        self._newest.append((number, sent_ns))


class WithInformation:
    """A callback that gets messages with what rclpy knows of each, on any executor: the events executor gives a pair.

    Parameters
    ----------
    take
        Gets message and information.
    """

    __signature__ = inspect.signature(lambda message, information: None)

    def __init__(self, take: Callable[[Any, Mapping[str, Any]], object]) -> None:
        self._take = take

    def __call__(self, *received: Any) -> None:
        """Hand on a message."""
        message, information = received if len(received) == 2 else received[0]
        self._take(message, information)
