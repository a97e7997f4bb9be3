"""A bag as what an emulated robot measures: read as it plays, the readings of both inertial sensors paired to samples.

Both chips are read at one time, and a frame has one: readings of a bag that are next to each other, and no further
apart than half a period, get the stamp of the low-g one; of two, the nearer. What has no partner is a sample of its
own, in which the other chip could not be read.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.configuration import parameter
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import Bag
from onboard_estimation.evaluation.topics import listed, match_topics
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel, Vector
from onboard_estimation.reading_parts import IMU
from onboard_estimation.robots import Robot
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.series import Recording, Series
from onboard_estimation.simulation import imu_channel

LOW_G, HIGH_G = imu_channel("low_g"), imu_channel("high_g")
_PAIR = (LOW_G.sensor, HIGH_G.sensor)
_MESSAGES_AHEAD = 2000
"""So many are put in the order of their stamps: half a second of the hopper with all of its topics."""
_FURTHEST_NS = 60 * NANOSECONDS_PER_SECOND
"""A stamp that is further from the time of recording than most are was not set, or by another clock."""


@dataclass(frozen=True)
class SerialBag:
    """What is played in the place of a simulated robot."""

    bag: str = parameter("", "bag to play; empty: a simulated robot")
    low_g_topic: str = parameter(LOW_G.topic, "of the bag, under any namespace: readings of the low-g sensor")
    high_g_topic: str = parameter(HIGH_G.topic, "the same of the high-g sensor; empty: it could not be read")


class PlayedBag:
    """A bag as a `Simulation`: both sensors, and what else of the robot's topics, ground truth included, it holds.

    What cannot be played is left out and counted: messages that do not decode, values that are not finite, stamps that
    are far from the others, or do not follow the sample before. Of the bag 2000 messages are held, and its index.

    Attributes
    ----------
    topics
        Of the bag, by their names relative to the robot's namespace.
    absent
        Which of both sensors is not in the bag; empty: none.
    rate_hz
        Of the samples, at the beginning.
    unpaired, left_out
        Readings without a partner, where both sensors are there; messages left out.

    Raises
    ------
    UserError
        A topic that is not there (says which are), or several; nothing that can be played.
    """

    def __init__(self, bag: Bag, asked: SerialBag, robot: Robot[Any], configuration: Any) -> None:
        self._bag = bag
        pair = _pair(bag, asked)
        first, paced_by = next(iter(pair.items()))
        space = first.removesuffix(f"/{paced_by.topic}")
        renamed = {channel.topic: topic for topic, channel in pair.items()}
        match = match_topics(robot, configuration, bag.topics, renamed, space if space not in ("", first) else None)
        found = {topic: channel for topic, channel in match.channels.items() if channel.sensor not in _PAIR}
        self._channels = {**pair, **_of_their_types(bag, {**found, **match.truth})}
        self._truth = {channel.topic for channel in match.truth.values()}
        self.topics = {channel.topic: topic for topic, channel in self._channels.items()}
        self.absent = next((one.sensor for one in (LOW_G, HIGH_G) if one.topic not in self.topics), "")
        self.unpaired = self.left_out = 0
        messages = self._read()
        head = list(islice(messages, _MESSAGES_AHEAD))
        stamps_ns = np.sort([item.stamp_ns for item in head if item.channel is paced_by])
        if len(stamps_ns) < 2:
            raise UserError(f"{bag.path}: {first} has no two readings at its beginning that can be played")
        self._period_ns = max(float(np.median(np.diff(stamps_ns))), 1.0)
        self.rate_hz = NANOSECONDS_PER_SECOND / self._period_ns
        self._offset_ns = float(np.median([item.stamp_ns - item.logged_ns for item in head]))
        self._messages = filter(self._is_plausible, chain(head, messages))
        self._window: list[_Item] = []
        self._fill()
        self._start_ns = self._window[0].stamp_ns
        self._sampled_ns = self._start_ns - 1

    @property
    def is_over(self) -> bool:
        """Whether all has been given."""
        return not self._window

    def advance(self, stop_ns: int) -> Recording:
        """See `Simulation`; the first stamp of the bag is zero."""
        items: dict[str, list[_Item]] = {topic: [] for topic in self.topics}
        while self._window and self._window[0].stamp_ns - self._start_ns < stop_ns:
            for item in self._next():
                items[item.channel.topic].append(item)
            self._fill()
        series = [self._series(channel, items[channel.topic]) for channel in self._channels.values()]
        return Recording(
            tuple(one for one in series if one.channel.topic not in self._truth),
            tuple(one for one in series if one.channel.topic in self._truth),
        )

    def _series(self, channel: Channel, items: list[_Item]) -> Series:
        stamps_ns = np.array([item.stamp_ns for item in items], dtype=np.int64) - self._start_ns
        return Series(channel, stamps_ns, np.array([item.value for item in items]))

    def _read(self) -> Iterator[_Item]:
        for number, raw in enumerate(self._bag.messages(list(self._channels))):
            channel = self._channels[raw.topic]
            try:
                measured = to_measurement(channel, self._bag.deserialize(raw))
            except MessageFault:
                self.left_out += 1
                continue
            value = measured.value
            needed = value[IMU.linear_acceleration] if channel is HIGH_G else value  # that chip has no gyro
            if np.isfinite(needed).all():
                yield _Item(measured.stamp_ns, number, raw.log_time_ns, channel, value)
            else:
                self.left_out += 1

    def _is_plausible(self, item: _Item) -> bool:
        is_so = abs(item.stamp_ns - item.logged_ns - self._offset_ns) <= _FURTHEST_NS
        self.left_out += not is_so
        return is_so

    def _fill(self) -> None:
        for item in islice(self._messages, _MESSAGES_AHEAD - len(self._window)):
            insort(self._window, item)

    def _next(self) -> list[_Item]:
        """The next message; of a sample both."""
        first = self._window.pop(0)
        if first.channel.sensor not in _PAIR:
            return [first]
        if first.stamp_ns <= self._sampled_ns:
            self.left_out += 1
            return []
        second = self._partner(first)
        if second is None:
            self.unpaired += not self.absent
            self._sampled_ns = first.stamp_ns
            return [first]
        self._window.remove(second)
        self._sampled_ns = (first if first.channel is LOW_G else second).stamp_ns
        return [one._replace(stamp_ns=self._sampled_ns) for one in (first, second)]

    def _partner(self, first: _Item) -> _Item | None:
        """The next reading, if it is the other sensor's, near enough, and nearer to this than to the one after it."""
        near = (item for item in self._window if item.channel.sensor in _PAIR)
        second, third = next(near, None), next(near, None)
        if second is None or second.channel is first.channel:
            return None
        apart_ns = second.stamp_ns - first.stamp_ns
        if apart_ns > self._period_ns / 2.0:
            return None
        if third is not None and third.channel is first.channel and third.stamp_ns - second.stamp_ns < apart_ns:
            return None
        return second


class _Item(NamedTuple):
    """A message; of two with one stamp that comes first which was read first."""

    stamp_ns: int
    number: int
    logged_ns: int
    channel: Channel
    value: Vector


def _of_their_types(bag: Bag, channels: Mapping[str, Channel]) -> dict[str, Channel]:
    return {topic: one for topic, one in channels.items() if bag.topics[topic].message_type == one.message_type}


def _pair(bag: Bag, asked: SerialBag) -> dict[str, Channel]:
    """Channel of each of both sensors' topics in the bag: one or two."""
    there = [name for name, topic in bag.topics.items() if topic.message_type == LOW_G.message_type]
    found: dict[str, Channel] = {}
    for option, name, channel in (
        ("low_g_topic", asked.low_g_topic, LOW_G),
        ("high_g_topic", asked.high_g_topic, HIGH_G),
    ):
        topics = [one for one in there if one == name] or [one for one in there if f"/{one}".endswith(f"/{name}")]
        if len(topics) > 1:
            raise UserError(f"{bag.path} has several {name}: {_ready(option, topics)}")
        if topics and topics[0] in found:
            raise UserError(f"low_g_topic and high_g_topic are both {topics[0]}")
        if not topics and name not in ("", channel.topic):
            raise UserError(f"{bag.path} has no {name}; {_ready(option, there)}")
        found.update((one, channel) for one in topics)
    if not found:
        raise UserError(f"{bag.path} has neither {LOW_G.topic} nor {HIGH_G.topic}; {_ready('low_g_topic', there)}")
    return found


def _ready(option: str, topics: Sequence[str]) -> str:
    if not topics:
        return f"it has no topic of type {LOW_G.message_type}"
    return "set " + listed([f"-p {option}:={topic}" for topic in topics]).replace(", ", " or ")
