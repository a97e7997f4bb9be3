"""A bag at one glance: topics, rates, gaps, clock faults, quality of the ground truth, what to worry about first."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bags.bag import Bag, TopicInfo, open_bag
from onboard_estimation.bags.bulk import Column, read_channels, read_headers
from onboard_estimation.bags.other_poses import possible_truth, unread_poses
from onboard_estimation.bags.topics import POINT, POSE, TRANSFORM, TRUTH
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Matrix
from onboard_estimation.base.series import Series
from onboard_estimation.contract.tracks import BodyTrack, usable_poses
from onboard_estimation.inspection.findings import findings
from onboard_estimation.inspection.report import (
    Inspection,
    RobotReport,
    TimingReport,
    TopicReport,
    TruthReport,
    render,
)
from onboard_estimation.judging.sources import known_channels, suggested_lines
from onboard_estimation.pipeline.reading_limits import ReadingCheck, finite_readings
from onboard_estimation.ros.measurements import value_types
from onboard_estimation.soundness.at_rest import contradict_gravity, dead
from onboard_estimation.soundness.clock_alignment import TrackedBody, delay_s
from onboard_estimation.soundness.motion import MotionCheck, against_truth
from onboard_estimation.soundness.stretches import (
    LEAPS,
    Unsound,
    leaps,
    marked,
    pose_steps,
    stamps_of_another_age,
    unsound_poses,
    unsound_sentences,
)

__all__ = ["Inspection", "inspect_bag", "render"]

Field = Literal["position", "velocity", "effort"]

IMU = "sensor_msgs/msg/Imu"
JOINTS = "sensor_msgs/msg/JointState"
GLOBAL_TOPICS = frozenset({"/tf", "/tf_static", "/clock", "/rosout", "/parameter_events", "/diagnostics"})

_SENSOR_FOLDERS = {TRUTH, "imu", "actuators", "pressure"}
_FIELDS: tuple[Field, ...] = ("velocity", "position", "effort")
_SAME_CLOCK_NS = 60 * NANOSECONDS_PER_SECOND

Integers = NDArray[np.int64]

GAP_PERIODS = 5.0
"""A step of more median steps than this is a gap."""


_FLIPS_RAD = np.deg2rad([90.0, 120.0, 180.0])
_NEAR_FLIP_RAD = float(np.deg2rad(6.0))

_REGULAR_SHARE = 0.8
_REGULAR_BAND = 2.0
_FEWEST_REGULAR = 10


def inspect_with_robots(path: Path, progress: Callable[[str], None] = lambda step: None) -> Inspection:
    """The same with the installed robots in mind, and with options for `evaluate` to try. Raises as `inspect_bag`."""
    found = inspect_bag(path, known_channels(), progress)
    kinds = {topic.name: topic.message_type for topic in found.topics}
    return replace(found, suggested_options=tuple(suggested_lines(kinds)))


def inspect_bag(
    path: str | Path,
    robots: Mapping[str, Sequence[Channel]] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> Inspection:
    """Look a bag through.

    Parameters
    ----------
    robots
        Channels of the known robots, by name: the inspection says whose topics are there.
    progress
        Called with what is being read, for a progress display.

    Raises
    ------
    UserError
        As `open_bag`.
    """
    with open_bag(path) as bag:
        progress("header stamps")
        read = read_headers(bag, [name for name in bag.topics if bag.has_header(name)])
        headers = {name: one for name, (one, _) in read.items()}
        columns = _read_numbers(bag, progress)
        unsound = {name: stamps_of_another_age(one.stamps_ns, one.log_times_ns) for name, one in headers.items()}
        unsound = {name: ages for name, ages in unsound.items() if ages}
        for name in unsound:  # no other check is misled by them
            headers[name], *columns[name] = map(_of_right_age, [headers[name], *columns.get(name, [])])
        topics = tuple(
            _topic_report(bag, topic, headers.get(name), columns.get(name, []), read[name][1] if name in read else {})
            for name, topic in bag.topics.items()
        )
        span = _sensor_span(bag, headers)
        bodies = {name: columns[name][0] for name in bag.topics if is_truth(bag, name) and name in columns}
        truth = tuple(
            truth_report(name, one.stamps_ns, one.values, span, bag.start_ns - round(1e9 * delay_s(one)))
            for name, one in bodies.items()
        )
        progress("truth against IMUs")
        contradicting = contradict_gravity(
            Series(Channel(name, bag.topics[name].message_type, name), one.stamps_ns, one.values)
            for name, (one, *_) in columns.items()
        )
        motion = _motion(bag, columns).without(contradicting)
        known = tuple(_robot_report(name, channels, bag.topics, columns) for name, channels in (robots or {}).items())
        found = Inspection(
            path=str(path),
            format=bag.format,
            distribution=bag.distribution,
            size_bytes=bag.size_bytes,
            namespace=common_namespace(bag.topics),
            message_count=sum(topic.count for topic in topics),
            start_ns=bag.start_ns,
            duration_s=bag.duration_s,
            damage=bag.damage,
            topics=topics,
            truth=truth,
            robots=known,
            clocks=motion.clocks,
            frames=motion.frames,
            unsound=(*_unsound_words(bag, unsound, columns), *contradicting.values(), *motion.units),
            other_poses=() if truth else tuple(filter(None, (possible_truth(bag), unread_poses(bag)))),
        )
        return replace(found, findings=findings(found))


def _of_right_age(column: Column) -> Column:
    return column.at(~marked(stamps_of_another_age(column.stamps_ns, column.log_times_ns), len(column.stamps_ns)))


def _unsound_words(bag: Bag, ages: Mapping[str, list[Unsound]], columns: Mapping[str, list[Column]]) -> Iterator[str]:
    """Sentences on stamps of another age, and on dead sensors."""
    for name, found in ages.items():
        yield from unsound_sentences(name, found, bag.start_ns, "; evaluations leave them out")
    for name, (one, *_) in columns.items():
        channel = Channel(name, bag.topics[name].message_type, name)
        yield from dead(channel, one.stamps_ns, one.values, bag.start_ns - round(1e9 * delay_s(one)))


def is_truth(bag: Bag, topic: str) -> bool:
    """Whether a topic is a body's ground truth: `ground_truth/<body>/...`, under any namespace."""
    return TRUTH in topic.split("/") and bag.types[topic] in (POSE, TRANSFORM, POINT)


def common_namespace(topics: Iterable[str]) -> str:
    """What all topics start with, as `/salp`, apart from those that ROS has once for all robots; empty if nothing."""
    folders = [posixpath.dirname(topic) for topic in topics if topic not in GLOBAL_TOPICS]
    if not folders or not all(folder.startswith("/") for folder in folders):
        return ""
    names = posixpath.commonpath(folders).split("/")
    ends = [place for place, name in enumerate(names) if name in _SENSOR_FOLDERS]
    return "/".join(names[: ends[0]] if ends else names).rstrip("/")


def _read_numbers(bag: Bag, progress: Callable[[str], None]) -> dict[str, list[Column]]:
    """The numbers of the topics that an estimator could read; of joint states, all three arrays."""
    topics = [topic for topic in bag.topics.values() if topic.message_type in value_types() and topic.count]
    columns: dict[str, list[Column]] = {}
    for place, field in enumerate(_FIELDS):
        chosen = [topic for topic in topics if place == 0 or topic.message_type == JOINTS]
        progress(f"numbers ({field} of joints)" if place else "numbers")
        channels = {topic.name: Channel(topic.name, topic.message_type, topic.name, field) for topic in chosen}
        for name, column in read_channels(bag, channels).items():
            columns.setdefault(name, []).append(column)
    return columns


def _topic_report(
    bag: Bag, topic: TopicInfo, headers: Column | None, columns: list[Column], frames: Mapping[str, int]
) -> TopicReport:
    times = headers.stamps_ns if headers else _log_times(bag, topic.name)
    zero_ns, median, farthest = bag.start_ns, None, None
    if headers and len(times):
        delays_s = (headers.log_times_ns - headers.stamps_ns) / NANOSECONDS_PER_SECOND
        median = float(np.median(delays_s))
        farthest = float(delays_s[np.argmax(np.abs(delays_s - median))])
        # Moments are told by the recorder's clock, whatever the stamps' clock is.
        zero_ns -= round(median * NANOSECONDS_PER_SECOND)
    return TopicReport(
        name=topic.name,
        message_type=topic.message_type,
        count=topic.count,
        has_header=headers is not None,
        timing=timing_report(times, zero_ns),
        undecodable=_undecodable(columns or ([headers] if headers else [])),
        not_finite=_not_finite(topic, columns) if columns else None,
        delay_median_s=median,
        delay_largest_s=farthest,
        frames=tuple(sorted(frames, key=lambda name: -frames[name])),
        tailed=max((column.tails.total() for column in columns), default=0),
        longest_tail=max((tail for column in columns for tail in column.tails), default=0),
    )


def _log_times(bag: Bag, topic: str) -> NDArray[np.int64]:
    parts = [block.log_times_ns for block in bag.blocks([topic])]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def _undecodable(columns: list[Column]) -> int:
    """Messages without numbers for a reason other than that joint states may leave an array empty."""
    faults = [
        sum(count for reason, count in column.faults.items() if reason.startswith("does not decode"))
        for column in columns
    ]
    return max(faults, default=0)


def _not_finite(topic: TopicInfo, columns: list[Column]) -> int:
    """Messages with a number that is not finite, in any of the topic's arrays."""
    channel = Channel(topic.name, topic.message_type, topic.name)
    places = [column.order[~finite_readings(channel, column.values)] for column in columns]
    return len(np.unique(np.concatenate(places)))


def _sensor_span(bag: Bag, headers: Mapping[str, Column]) -> tuple[int, int]:
    """First and last stamp of the sensors, apart from strays; of the bag, where no sensor has stamps."""
    sensors = {name: entry for name, entry in headers.items() if len(entry.stamps_ns) and not is_truth(bag, name)}
    if not sensors:
        return bag.start_ns, bag.end_ns
    # Clocks may differ by sensor: that of the sensors which agree with the recorder counts, if any does.
    delays = {name: entry.log_times_ns - entry.stamps_ns for name, entry in sensors.items()}
    usual = min((float(np.median(delay)) for delay in delays.values()), key=abs)
    near = [entry.stamps_ns[np.abs(delays[name] - usual) <= _SAME_CLOCK_NS] for name, entry in sensors.items()]
    stamps = np.concatenate(near)
    return int(stamps.min()), int(stamps.max())


def _motion(bag: Bag, columns: Mapping[str, list[Column]]) -> MotionCheck:
    """Each IMU against the body that it is on, without the poses that were made up."""
    imus, bodies = {}, {}
    for name, (column, *_) in columns.items():
        if bag.topics[name].message_type == IMU and len(column.stamps_ns):
            imus[name] = column
        elif is_truth(bag, name) and len(column.stamps_ns):
            track = BodyTrack.clean(name, column.stamps_ns, column.values)
            made_up = marked(unsound_poses(track.stamps_ns, track.values), len(track.stamps_ns))
            bodies[name] = TrackedBody(track.without(made_up), delay_s(column))
    return against_truth(imus, bodies)


def _robot_report(
    name: str, channels: Sequence[Channel], topics: Mapping[str, TopicInfo], columns: Mapping[str, list[Column]]
) -> RobotReport:
    def found(channel: Channel) -> list[str]:
        named = (topic for topic in topics if f"/{topic}".endswith(f"/{channel.topic}"))
        return [topic for topic in named if topics[topic].message_type == channel.message_type]

    present = [channel for channel in channels if found(channel)]
    missing = [channel for channel in channels if channel not in present]
    return RobotReport(
        name,
        tuple(channel.topic for channel in present),
        tuple(channel.topic for channel in missing),
        tuple(channel.topic for channel in missing if channel.required),
        tuple(
            sentence
            for channel in present
            for topic in found(channel)
            for sentence in _refused(channel, topic, columns.get(topic, []))
        ),
    )


def _refused(channel: Channel, topic: str, columns: list[Column]) -> list[str]:
    """What of a topic is beyond the range of the channel's sensor, or lacks what is needed of it, in words."""
    place = _FIELDS.index(channel.field) if channel.field in _FIELDS and channel.message_type == JOINTS else 0
    if not (channel.limits or channel.needs) or channel.field == "orientation" or place >= len(columns):
        return []
    check = ReadingCheck([channel])
    _, said = check.refused(channel.sensor, columns[place].values)
    count = sum(counts.get(channel.sensor, 0) for counts in (check.out_of_range, check.incomplete))
    return [f"{topic}, {count:,} of {len(columns[place].values):,} messages: {sentence}" for _, sentence in said]


def timing_report(times_ns: Integers, zero_ns: int) -> TimingReport:
    """Faults in a topic's times (K,), in the order of the bag; moments count in seconds from `zero_ns`."""
    steps = np.diff(times_ns) / NANOSECONDS_PER_SECOND
    forward = steps[steps > 0]
    any_forward = len(forward) > 0
    median = float(np.median(forward)) if any_forward else math.inf
    near = (forward > median / _REGULAR_BAND) & (forward < median * _REGULAR_BAND)
    is_gap = steps > GAP_PERIODS * median
    longest = int(np.argmax(steps)) if is_gap.any() else None
    return TimingReport(
        rate_hz=1.0 / median if any_forward else None,
        duration_s=float(times_ns[-1] - times_ns[0]) / NANOSECONDS_PER_SECOND if any_forward else 0.0,
        regular=len(forward) >= _FEWEST_REGULAR and float(near.mean()) > _REGULAR_SHARE,
        gaps=int(np.count_nonzero(is_gap)),
        longest_gap_s=0.0 if longest is None else float(steps[longest]),
        longest_gap_at_s=0.0 if longest is None else (int(times_ns[longest]) - zero_ns) / NANOSECONDS_PER_SECOND,
        duplicates=int(np.count_nonzero(steps == 0)),
        backward_jumps=int(np.count_nonzero(steps < 0)),
        largest_backward_s=float(-steps.min(initial=0.0)),
    )


def truth_report(
    topic: str, stamps_ns: Integers, values: Matrix, span_ns: tuple[int, int], zero_ns: int
) -> TruthReport:
    """Quality of a ground truth of poses (K, 7) or positions (K, 3), for sensors whose stamps span `span_ns`."""
    usable = usable_poses(values)
    stamps, first = np.unique(stamps_ns[usable], return_index=True)
    poses = values[usable][first]
    steps = np.diff(stamps) / NANOSECONDS_PER_SECOND
    longest_step = GAP_PERIODS * float(np.median(steps)) if len(steps) else 0.0
    coverage, hole_s, hole_at_ns = _coverage(stamps, longest_step, span_ns)
    # Across a hole a body may have gone anywhere.
    near = steps <= longest_step
    distances, turns = pose_steps(poses)
    made_up = unsound_poses(stamps, poses)
    # A step out of what is repeated is none of the body.
    repeated = marked([one for one in made_up if one.why != LEAPS], len(poses))
    near &= ~(repeated[1:] | repeated[:-1])
    is_flip = (np.abs(turns[:, None] - _FLIPS_RAD) < _NEAR_FLIP_RAD).any(axis=1)
    return TruthReport(
        topic=topic,
        coverage=coverage,
        longest_hole_s=hole_s,
        longest_hole_at_s=(hole_at_ns - zero_ns) / NANOSECONDS_PER_SECOND,
        largest_step_m=float(distances[near].max(initial=0.0)),
        largest_turn_rad=float(turns[near].max(initial=0.0)),
        unusable=int(np.count_nonzero(~usable)),
        flips=int(np.count_nonzero(near & leaps(distances, turns, steps) & is_flip)),
        made_up_s=sum(one.duration_s for one in made_up),
        made_up=tuple(unsound_sentences(topic, made_up, zero_ns, "; evaluations leave them out")),
    )


def _coverage(stamps: Integers, longest_step_s: float, span_ns: tuple[int, int]) -> tuple[float, float, int]:
    """(share of the span within steps that are no holes, longest hole in seconds, where it starts in ns)."""
    start, stop = span_ns
    inside = stamps[(stamps >= start) & (stamps <= stop)]
    limit = longest_step_s * NANOSECONDS_PER_SECOND
    edges = np.concatenate([[start], inside, [stop]])
    steps = np.diff(edges)
    holes = steps > max(limit, 1.0)
    longest = int(np.argmax(np.where(holes, steps, 0))) if len(steps) else 0
    if stop <= start:
        return (1.0 if len(inside) else 0.0), 0.0, start
    if not len(inside):
        return 0.0, (stop - start) / NANOSECONDS_PER_SECOND, start
    uncovered = float(steps[holes].sum())
    hole = float(steps[longest]) / NANOSECONDS_PER_SECOND if holes.any() else 0.0
    return max(0.0, 1.0 - uncovered / (stop - start)), hole, int(edges[longest])
