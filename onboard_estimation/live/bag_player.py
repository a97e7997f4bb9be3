"""Playing a bag into the live graph: raw messages at the times at which they were recorded, to the publishers' offers.

With `rate` 0 the bag is played in step with the nodes that listen (`InStep`): as fast as they take the messages, in
the bag's order, with none lost.

Also a node for launch files, with ROS 2 and without it: `bag_player`, with the parameters `bag` (path), `rate` (1.0;
0.0: in step with the nodes that listen), `loop`, `start_offset` (s), `topics`, `exclude_topics`, `clock` (Hz, 0: no
/clock), `wait_for_subscribers` (s, 10), `wait_for_nodes` (full names). Ends with the bag.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from onboard_estimation.bags.bag import RawMessage, open_bag
from onboard_estimation.bags.message_types import jazzy_types
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.live.discovery import names_of, settle, subscriptions, wait_until
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.qos import offer_for_topic, parse_offers, publisher_profile
from onboard_estimation.live.schedule import InStep, PlayOptions, Schedule
from onboard_estimation.live.session import parameter, run_node
from onboard_estimation.live.signals import StopRequest

CLOCK = "/clock"

_DEPTH = 1000
_LATE_S = 0.1
_ACKNOWLEDGED_S = 2.0
_MATCHED_S = 1.0
_TELL_S = 5.0
_AT_ONCE, _READ_AHEAD = 100, 10
"""Messages that are read before others may be; so many times."""


@dataclass
class Played:
    """What was played so far.

    Attributes
    ----------
    latest_s
        Of the bag, from its start, seconds.
    late_count, worst_late_s
        Messages that were published more than 0.1 s after they were due, and the worst, seconds.
    notes
        What a person should know, a sentence each.
    """

    message_count: int = 0
    topic_count: int = 0
    latest_s: float = 0.0
    late_count: int = 0
    worst_late_s: float = 0.0
    notes: list[str] = field(default_factory=list)


class Player:
    """Plays one bag on a node that is spun by another thread; `run` returns at the end.

    Raises
    ------
    UserError
        The bag cannot be read, has no such topic, or nothing of it can be played.
    """

    def __init__(self, node: Any, path: Path, options: PlayOptions, stop: StopRequest) -> None:
        self.played = Played()
        self.options = options
        self._node = node
        self._stop = stop
        self._bag = open_bag(path)
        self._start_ns = self._bag.start_ns + round(options.start_offset_s * NANOSECONDS_PER_SECOND)
        self._publishers: dict[str, Any] = {}
        self._clock: Any = None
        try:
            if self._start_ns > self._bag.end_ns:
                raise UserError(f"start-offset {options.start_offset_s:g}: {path} is {self._bag.duration_s:.1f} s long")
            self._make_publishers()
        except BaseException:
            self._bag.close()
            raise
        self.duration_s = self._bag.duration_s
        if self._bag.damage:
            self.played.notes.append(f"{path} is damaged: {self._bag.damage}")

    def run(self, warn: Callable[[str], object], show: Callable[[Played], None] = lambda played: None) -> None:
        """Wait for subscribers, play, and wait until the last messages have arrived; `warn` takes the notes."""
        from rclpy.clock import Clock, ClockType

        for note in self.played.notes:
            warn(note)
        known = len(self.played.notes)
        try:
            self._wait_for_subscribers()
            self._schedule = Schedule(self._start_ns, self._stop, self.options.rate or 1.0)
            if self.options.clock_hz and self.options.rate:
                self._tick()
                steady = Clock(clock_type=ClockType.STEADY_TIME)
                self._node.create_timer(1.0 / self.options.clock_hz, self._tick, clock=steady)
            while not self._stop:
                self._play_once(show)
                if not self.options.loop:
                    break
                self._schedule.start(self._start_ns)
            self._wait_for_acknowledgements()
        finally:
            self._bag.close()
        for note in self.played.notes[known:]:
            warn(note)

    def _make_publishers(self) -> None:
        if self.options.clock_hz:
            self._make_clock()
        self._bag.places(self.options.topics)  # refuses those that are not there
        for name in self.options.topics or self._bag.topics:
            if name in self.options.exclude_topics:
                continue
            if name == CLOCK and self._clock is not None:
                self.played.notes.append("the bag's own /clock is left out, because /clock is published")
                continue
            try:
                kind = self._playable_class(name)
            except UserError as error:
                if self.options.topics:
                    raise
                self.played.notes.append(f"{name} is left out: {error}")
                continue
            offers = [offer for text in self._bag.offers(name) for offer in parse_offers(text)]
            offer, agreed = offer_for_topic(name, offers)
            if not agreed:
                self.played.notes.append(
                    f"{name}: its recorded publishers differ in quality of service; it is reliable"
                )
            self._publishers[name] = self._node.create_publisher(kind, name, publisher_profile(offer, _DEPTH))
        if not self._publishers:
            reasons = self.played.notes or ["all of its topics are excluded, or it has none"]
            raise UserError(f"nothing of {self._bag.path} can be played: {'; '.join(reasons)}")
        self.played.topic_count = len(self._publishers)

    def _make_clock(self) -> None:
        from rclpy.qos import QoSProfile, ReliabilityPolicy

        best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)  # as rclcpp::ClockQoS
        self._clock = self._node.create_publisher(interface_class("rosgraph_msgs/msg/Clock"), CLOCK, best_effort)

    def _playable_class(self, topic: str) -> Any:
        message_type, encoding = self._bag.topics[topic].message_type, self._bag.encoding(topic)
        if encoding not in ("cdr", "ros1"):
            raise UserError(f"its messages are encoded as {encoding!r}; cdr and ros1 can be played")
        if encoding == "ros1" and not self._bag.is_standard(topic):
            raise UserError(f"{message_type} of ROS 1 is no standard type")
        return interface_class(message_type)

    def _wait_for_subscribers(self) -> None:
        """The first messages go nowhere until publishers and subscriptions have found each other."""
        publishers = self._publishers.values()
        if self.options.wait_for_subscribers_s:
            wait_until(
                lambda: bool(self._stop) or any(one.get_subscription_count() for one in publishers),
                self.options.wait_for_subscribers_s,
            )
        self._wait_for_nodes()
        settle(self._node)
        wait_until(lambda: bool(self._stop) or self._all_matched(), _MATCHED_S)

    def _wait_for_nodes(self) -> None:
        while missing := [name for name in self.options.wait_for_nodes if name not in self._listening()]:
            if wait_until(lambda: bool(self._stop) or not set(missing) - self._listening(), _TELL_S):
                return
            remedy = self._other_namespace(missing)
            self._node.get_logger().info(f"waiting for {', '.join(missing)} to subscribe to a topic of the bag{remedy}")

    def _other_namespace(self, missing: list[str]) -> str:
        """What to do where the bag's robot has another namespace than the nodes that are waited for."""
        from onboard_estimation.inspection.inspect import common_namespace  # seldom needed

        namespace = common_namespace(self._publishers) or "/"
        if all((name.rpartition("/")[0] or "/") == namespace for name in missing):
            return ""
        return f", whose topics are in the namespace {namespace}: the launch argument is namespace:={namespace}"

    def _listening(self) -> set[str]:
        """Full names of the nodes that subscribe to something that is played."""
        return {name for topic in self._publishers for name in names_of(subscriptions(self._node, topic))}

    def _all_matched(self) -> bool:
        return all(
            publisher.get_subscription_count() >= len(subscriptions(self._node, publisher.topic_name))
            for publisher in self._publishers.values()
        )

    def _play_once(self, show: Callable[[Played], None]) -> None:
        in_step = InStep(self._node) if self.options.rate == 0.0 else None
        if in_step is not None:
            in_step.meet([publisher.topic_name for publisher in self._publishers.values()])
        for message in _read_ahead(self._messages()):
            if in_step is None and not self._schedule.wait_until(message.log_time_ns):
                return
            if self._stop:
                return
            if in_step is not None and self._clock is not None:
                self._publish_clock(message.log_time_ns)
            publisher = self._publishers[message.topic]
            publisher.publish(message.data)
            if in_step is None:
                self._note_lateness(message.log_time_ns)
            else:
                in_step.taken(publisher.topic_name)
            self.played.message_count += 1
            self.played.latest_s = (message.log_time_ns - self._bag.start_ns) / NANOSECONDS_PER_SECOND
            show(self.played)
        if in_step is not None:
            in_step.finish()
            self.played.notes += in_step.notes

    def _messages(self) -> Iterator[RawMessage]:
        """The messages to publish, all in CDR."""
        for message in self._bag.messages(list(self._publishers)):
            if message.log_time_ns < self._start_ns:
                continue
            if self._bag.encoding(message.topic) == "ros1":
                kind = self._bag.topics[message.topic].message_type
                try:
                    data = bytes(jazzy_types().ros1_to_cdr(message.data, kind))
                except Exception:  # damaged bytes can make rosbags' code fail in any way
                    continue
                message = RawMessage(message.topic, message.log_time_ns, data)
            yield message

    def _note_lateness(self, due_ns: int) -> None:
        late_s = self._schedule.late_s(due_ns)
        if late_s > _LATE_S:
            self.played.late_count += 1
            self.played.worst_late_s = max(late_s, self.played.worst_late_s)

    def _tick(self) -> None:
        self._publish_clock(self._schedule.now_ns())

    def _publish_clock(self, bag_ns: int) -> None:
        message = interface_class("rosgraph_msgs/msg/Clock")()
        message.clock.sec, message.clock.nanosec = divmod(bag_ns, NANOSECONDS_PER_SECOND)
        self._clock.publish(message)

    def _wait_for_acknowledgements(self) -> None:
        """A writer that is destroyed forgets what has not been received."""
        from rclpy.duration import Duration

        deadline = time.monotonic() + _ACKNOWLEDGED_S
        for publisher in self._publishers.values():
            left_s = deadline - time.monotonic()
            if publisher.get_subscription_count() and left_s > 0.0 and not self._stop:
                publisher.wait_for_all_acked(Duration(seconds=left_s))


def _read_ahead(messages: Iterator[RawMessage]) -> Iterator[RawMessage]:
    """The same messages, read by a thread of their own, a thousand before they are due: a slow disk delays none."""
    reader = ThreadPoolExecutor(1, "reader")

    def some() -> list[RawMessage]:
        return list(islice(messages, _AT_ONCE))

    pending = deque(reader.submit(some) for _ in range(_READ_AHEAD))
    try:
        while found := pending.popleft().result():
            pending.append(reader.submit(some))
            yield from found
    finally:
        reader.shutdown(cancel_futures=True)


def main(arguments: list[str] | None = None) -> None:
    """The node `bag_player`: plays until the bag ends, or a signal comes."""
    run_node("bag_player", _run_as_node, arguments)


def _run_as_node(node: Any, stop: StopRequest) -> None:
    bag, usual = parameter(node, "bag", ""), vars(PlayOptions(wait_for_subscribers_s=10.0))
    given = {name: parameter(node, re.sub("_(s|hz)$", "", name), default) for name, default in usual.items()}
    if not bag:
        raise UserError("parameter bag is empty: it names the bag to play")
    player = Player(node, Path(bag), PlayOptions(**given), stop)
    log, rate = node.get_logger(), player.options.rate
    log.info(f"playing {bag}: {player.duration_s:.1f} s, {player.played.topic_count} topics, rate {rate:g}")
    player.run(log.warning)
    log.info(summary(bag, player.played))


def summary(path: Path | str, played: Played) -> str:
    """One line on what was played."""
    late = (
        f"; {played.late_count} messages were more than 0.1 s late, the worst {played.worst_late_s:.2f} s"
        if played.late_count
        else ""
    )
    return f"{path}: {played.message_count} messages on {played.topic_count} topics played{late}"


if __name__ == "__main__":
    main()
