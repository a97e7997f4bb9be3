"""What has arrived from a node's sensors: all of it is taken at one waking.

To wake costs more than most filters do: an executor looks at all that a node has, for one message. So whichever sensor
wakes the node, all of them are read out. And where estimates come with the readings of some sensors only, the others do
not wake it at all: they are read when one of those is, unless those are silent. After that the node rests for as long
as it may, and readings gather.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message

from onboard_estimation.base.measurement import Channel, Measurement
from onboard_estimation.live.discovery import names_of, publishers
from onboard_estimation.live.losses import KEPT, Losses
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.read_out import read_out
from onboard_estimation.nodes.pacing import PATIENCE_S, longest_stay_s
from onboard_estimation.nodes.parameters import SteadyNode
from onboard_estimation.ros.measurements import MessageFault
from onboard_estimation.ros.message_layouts import SerializedReader

_AT_ONCE = 64
"""Messages of a sensor at one waking, at most: timers and services have their turn then."""
_SHORTEST_REST_S = 0.0002
_LEFT_OUT_SAID_S = 1.0
_STAMP = attrgetter("stamp_ns")


class Arrivals:
    """Subscribes to sensors, and hands on readings: of each sensor as they came, and among sensors by their stamps.

    Parameters
    ----------
    channels
        In the order in which messages of one instant are to be taken.
    reliable
        Ask for reliable sensors. Nothing may be lost then, however fast they come: all of them wake the node.
    pacing
        Names of the sensors that estimates come with; the others do not wake the node while one of these is heard.
    take
        Gets the readings of one waking; how long the node may rest after it, s.
    """

    def __init__(
        self,
        node: SteadyNode,
        channels: Sequence[Channel],
        reliable: bool,
        pacing: Collection[str],
        take: Callable[[list[Measurement]], float],
    ) -> None:
        self._node, self._take, self._rests = node, take, not reliable
        self._channels = channels
        self._paces = [channel.sensor in pacing for channel in channels]
        self._heard_pace = False
        qos = QoSProfile(
            depth=KEPT, reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT
        )
        self._readers: list[Callable[[bytes], Measurement]] = []
        self._left_out: list[LeftOut] = []
        self._losses = [Losses() for _ in channels]
        self._mixed = [0 for _ in channels]
        self._subscriptions: list[Any] = []
        for place, channel in enumerate(channels):
            kind = interface_class(channel.message_type)
            self._readers.append(SerializedReader(channel, partial(deserialize_message, message_type=kind)))
            topic = node.resolve_topic_name(channel.topic)
            self._left_out.append(LeftOut(f"a message on {topic}", node.get_logger().error))
            listen = self._losses[place].listen
            self._subscriptions.append(listen(node, kind, channel.topic, qos, partial(self._wake, place)))
        if not reliable and any(self._paces) and not all(self._paces):
            node.every(PATIENCE_S / 2.0, self._look_for_pace)

    def counters(self) -> dict[str, dict[str, int]]:
        """By sensor, how many messages so far could not be read, were `lost`; `losses_unknown` where nobody tells."""
        return {
            channel.sensor: {"unreadable": left_out.count}
            | ({} if losses.count is None else {"lost": losses.count})
            | ({} if losses.are_counted else {"losses_unknown": 1})
            for channel, left_out, losses in zip(self._channels, self._left_out, self._losses, strict=True)
        }

    def several(self) -> dict[str, str]:
        """By sensor that several publishers were heard of at a time since this was last asked, a sentence that says so.

        One that has just ended, and is not yet missed by the middleware, is not heard.
        """
        found: dict[str, str] = {}
        for place, (channel, losses) in enumerate(zip(self._channels, self._losses, strict=True)):
            if losses.mixed > self._mixed[place]:
                topic = self._node.resolve_topic_name(channel.topic)
                names = sorted(name for one in publishers(self._node, topic) for name in names_of([one]))
                who = " and ".join(names) if len(names) > 1 else "several nodes"
                found[channel.sensor] = f"{topic} is published by {who} at a time: end all but one of them"
            self._mixed[place] = losses.mixed
        return found

    def leave(self, topics: Collection[str]) -> list[str]:
        """Listen to these no longer: what measures them runs in this process. Those that were listened to.

        No more resting then, which would hold that up.
        """
        heard = [place for place, one in enumerate(self._subscriptions) if one is not None]
        left = [place for place in heard if self._channels[place].topic in topics]
        for place in left:
            self._node.destroy_subscription(self._subscriptions[place])
            self._subscriptions[place] = None
        self._rests = self._rests and not left
        return [self._channels[place].topic for place in left]

    def joined(self, readings: Sequence[Measurement]) -> list[Measurement]:
        """Readings that came without messages, in their order, and what has arrived by now of what is listened to.

        Left to the executor, messages would come after readings that are newer, and those be filtered once more.
        """
        arrived: list[list[Measurement]] = [[] for _ in self._subscriptions]
        self._read_out(arrived)
        return _in_order([list(readings), *arrived])

    def _wake(self, place: int, data: bytes, information: Mapping[str, Any]) -> None:
        """A message of one sensor, by which the node was woken: with it all that has arrived from any of them.

        After a rest the node looks for itself: to go back to the executor and be woken costs more than all else here.
        """
        began_s = woken_s = time.monotonic()
        stay_s = longest_stay_s(self._node)
        arrived: list[list[Measurement]] = [[] for _ in self._subscriptions]
        self._read(place, data, information, arrived[place])
        while self._read_out(arrived):
            rest_s = self._take(_in_order(arrived))
            # What comes meanwhile is taken at one waking. Readings keep step with the waking, not with its end.
            left_s = woken_s + rest_s - time.monotonic()
            if left_s <= _SHORTEST_REST_S or not self._rests:
                return
            time.sleep(left_s)
            woken_s = time.monotonic()
            if woken_s - began_s > stay_s or not self._node.context.ok():
                return
            arrived = [[] for _ in self._subscriptions]

    def _read_out(self, arrived: list[list[Measurement]]) -> bool:
        """Read out all sensors; whether there is anything by now."""
        for place, subscription in enumerate(self._subscriptions):
            if subscription is None:
                continue
            for data, information in read_out(subscription, _AT_ONCE):
                self._read(place, data, information, arrived[place])
        return any(arrived)

    def _read(self, place: int, data: bytes, information: Mapping[str, Any], found: list[Measurement]) -> None:
        self._losses[place].see(information)
        try:
            found.append(self._readers[place](data))
        except MessageFault as error:
            self._left_out[place](error)
        if self._paces[place]:
            self._heard_pace = True

    def _look_for_pace(self) -> None:
        """Let the others wake the node where the pacing sensors are silent, and no longer once they are heard."""
        if bool(self._node.silent) != self._heard_pace:
            others = [one for one, paces in zip(self._subscriptions, self._paces, strict=True) if not paces]
            self._node.silent = others if self._heard_pace else ()
            if self._node.executor is not None:
                self._node.executor.wake()
        self._heard_pace = False


def _in_order(arrived: Sequence[list[Measurement]]) -> list[Measurement]:
    """By their stamps; those of one instant in the order of the sensors."""
    several = [one for one in arrived if one]
    if len(several) <= 1:
        return several[0] if several else []
    return sorted(chain.from_iterable(several), key=_STAMP)


class LeftOut:
    """Counts what is left out of a topic, and says it at most once a second; `what` as in "a message on /imu"."""

    def __init__(self, what: str, tell: Callable[[str], object]) -> None:
        self._what, self._tell = what, tell
        self._said_s = -_LEFT_OUT_SAID_S
        self.count = 0

    def __call__(self, error: Exception) -> None:
        """One was left out because of the error."""
        self.count += 1
        now_s = time.monotonic()
        if now_s - self._said_s >= _LEFT_OUT_SAID_S:
            self._said_s = now_s
            so_far = f" ({self.count} so far)" if self.count > 1 else ""
            self._tell(f"{self._what} is left out{so_far}: {error}")
