"""A bag as what an emulated robot measures, the readings of both inertial sensors paired to samples.

Both chips are read at one time, and a frame has one: readings of a bag that are each the other's nearest, and no
further apart than half a period, get the stamp of the low-g one. What has no partner is a sample of its own, in which
the other chip could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.configuration import parameter
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import Bag
from onboard_estimation.evaluation.bulk import Column, read_channels
from onboard_estimation.evaluation.topics import listed, match_topics
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.reading_parts import IMU
from onboard_estimation.robots import Robot
from onboard_estimation.series import Recording, Series
from onboard_estimation.simulation import imu_channel

Stamps = NDArray[np.int64]

LOW_G, HIGH_G = imu_channel("low_g"), imu_channel("high_g")
_PAIR = (LOW_G.sensor, HIGH_G.sensor)
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
    are far from the others, or come again.

    Attributes
    ----------
    topics
        Of the bag, by their names relative to the robot's namespace.
    absent
        Which of both sensors is not in the bag; empty: none.
    rate_hz
        Of the samples.
    unpaired, left_out
        Readings without a partner, where both sensors are there; messages left out.

    Raises
    ------
    UserError
        A topic that is not there (says which are), or several; nothing that can be played.
    """

    def __init__(self, bag: Bag, asked: SerialBag, robot: Robot[Any], configuration: Any) -> None:
        pair = _pair(bag, asked)
        first, paced_by = next(iter(pair.items()))
        space = first.removesuffix(f"/{paced_by.topic}")
        renamed = {channel.topic: topic for topic, channel in pair.items()}
        match = match_topics(robot, configuration, bag.topics, renamed, space if space not in ("", first) else None)
        found = {topic: channel for topic, channel in match.channels.items() if channel.sensor not in _PAIR}
        channels = {**pair, **_of_their_types(bag, {**found, **match.truth})}
        self._truth = {channel.topic for channel in match.truth.values()}
        self.topics = {channel.topic: topic for topic, channel in channels.items()}
        self.absent = next((one.sensor for one in (LOW_G, HIGH_G) if one.topic not in self.topics), "")
        columns = read_channels(bag, channels)
        offsets_ns = [column.stamps_ns - column.log_times_ns for column in columns.values()]
        offset_ns = float(np.median(np.concatenate(offsets_ns))) if any(map(len, offsets_ns)) else 0.0
        series = [_playable(channels[topic], column, offset_ns) for topic, column in columns.items()]
        counts = [len(column.stamps_ns) + column.faults.total() for column in columns.values()]
        self.left_out = sum(counts) - sum(len(one.stamps_ns) for one in series)
        paced_ns = series[0].stamps_ns
        if len(paced_ns) < 2:
            raise UserError(f"{bag.path}: {first} has no two readings that can be played")
        period_ns = max(float(np.median(np.diff(paced_ns))), 1.0)
        self.rate_hz = NANOSECONDS_PER_SECOND / period_ns
        self.unpaired = 0
        if not self.absent:
            series[1], self.unpaired = _at_one_time(series[0], series[1], period_ns / 2.0)
        start_ns = min(int(one.stamps_ns[0]) for one in series if len(one.stamps_ns))
        self._series = [replace(one, stamps_ns=one.stamps_ns - start_ns) for one in series]

    @property
    def is_over(self) -> bool:
        """Whether all has been given."""
        return not any(len(one.stamps_ns) for one in self._series)

    def advance(self, stop_ns: int) -> Recording:
        """See `Simulation`; the first stamp of the bag is zero."""
        given, self._series, waiting = [], [], self._series
        for one in waiting:
            count = int(np.searchsorted(one.stamps_ns, stop_ns))
            given.append(one.rows(slice(count)))
            self._series.append(one.rows(slice(count, None)))
        return Recording(
            tuple(one for one in given if one.channel.topic not in self._truth),
            tuple(one for one in given if one.channel.topic in self._truth),
        )


def _playable(channel: Channel, column: Column, offset_ns: float) -> Series:
    """What can be played of a topic, in the order of its stamps; a sensor is not read twice at one time."""
    needed = column.values[:, IMU.linear_acceleration] if channel is HIGH_G else column.values  # that chip has no gyro
    away_ns = np.abs(column.stamps_ns - column.log_times_ns - offset_ns)
    kept = np.flatnonzero(np.isfinite(needed).all(axis=1) & (away_ns <= _FURTHEST_NS))
    kept = kept[np.argsort(column.stamps_ns[kept], kind="stable")]
    if channel.sensor in _PAIR:
        kept = kept[np.diff(column.stamps_ns[kept], prepend=-1) > 0]
    return Series(channel, column.stamps_ns[kept], column.values[kept])


def _at_one_time(low: Series, high: Series, furthest_ns: float) -> tuple[Series, int]:
    """The high-g readings with the stamps of their partners, each the other's nearest; readings that have none."""
    if not len(high.stamps_ns):
        return high, len(low.stamps_ns)
    there, back = _nearest(low.stamps_ns, high.stamps_ns), _nearest(high.stamps_ns, low.stamps_ns)
    apart_ns = np.abs(high.stamps_ns[there] - low.stamps_ns)
    paired = np.flatnonzero((back[there] == np.arange(len(there))) & (apart_ns <= furthest_ns))
    stamps_ns = high.stamps_ns.copy()
    stamps_ns[there[paired]] = low.stamps_ns[paired]
    return replace(high, stamps_ns=stamps_ns), len(there) + len(back) - 2 * len(paired)


def _nearest(times_ns: Stamps, among_ns: Stamps) -> NDArray[np.intp]:
    """(K,) which of (L,) rising times is nearest to each."""
    after = np.clip(np.searchsorted(among_ns, times_ns), 1, max(len(among_ns) - 1, 1))
    is_before = times_ns - among_ns[after - 1] <= among_ns[np.minimum(after, len(among_ns) - 1)] - times_ns
    return np.where(is_before | (len(among_ns) == 1), after - 1, after)


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
