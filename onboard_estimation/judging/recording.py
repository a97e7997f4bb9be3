"""A robot's recording out of a bag: what its sensors measured in the order of arrival, and its ground truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bags.bag import Bag
from onboard_estimation.bags.bulk import Column, read_channels
from onboard_estimation.bags.topics import (
    TRUTH,
    FreeTopics,
    TopicMatch,
    missing_topics,
    refuse_wrong_types,
    truth_channels,
)
from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.tracks import BodyTrack, HeldValues, clock_parts, mirror
from onboard_estimation.judging.clock_alignment import aligned
from onboard_estimation.judging.options import WhatIf
from onboard_estimation.judging.what_if import changed
from onboard_estimation.pipeline.reading_limits import ABSENT, finite_readings, missing_parts


def load_recording(
    bag: Bag,
    robot: Robot,
    match: TopicMatch,
    what_if: WhatIf,
    mirror_truth: str | None = None,
    align_clock: bool = False,
) -> LoadedRecording:
    """Read a robot's sensors and ground truth from a bag, with the changes of a what-if.

    What is dropped is not read at all: it may be missing, or be of another type. The truth's clock is aligned with the
    sensors as they were recorded, before any other change.

    Raises
    ------
    UserError
        A required topic is missing, has another type or holds nothing usable, and is not dropped; no stamps are set.
    """
    kinds = {name: topic.message_type for name, topic in bag.topics.items()}
    match, dropped = _without_dropped(match, what_if)
    if any(channel.required for channel in match.missing) or not match.channels:
        raise missing_topics(robot.name, match, kinds)
    refuse_wrong_types(robot.name, match, kinds)
    columns = read_channels(bag, {**match.channels, **match.truth, **match.held})
    notes = [*match.notes, *([bag.damage] if bag.damage else [])]
    notes += losses(columns)
    _refuse_useless(bag, match, columns)
    columns, jumps = _longest_part(columns, match)
    notes += jumps
    sensors = {topic: columns[topic] for topic in match.channels}
    series = tuple(Series(match.channels[topic], column.stamps_ns, column.values) for topic, column in sensors.items())
    tracks, held, lost = _known(match, columns, mirror_truth)
    notes += lost
    if align_clock:
        tracks, note = aligned(
            {channel: columns[topic] for topic, channel in match.channels.items()},
            {channel: columns[topic] for topic, channel in match.truth.items()},
            tracks,
        )
        notes.append(note)
    if mirror_truth:
        notes.append(f"Ground truth mirrored in {mirror_truth}.")
    if match.missing_bodies:
        notes.append(_missing_truth(match, kinds))
    if dropped:
        notes.append(f"What if: left out {', '.join(dropped)}.")
    arrival = _by_arrival(list(sensors.values()))[0]
    loaded = LoadedRecording(series, arrival, tracks, is_simulated(bag), tuple(notes), held)
    return changed(loaded, replace(what_if, drop=()))


def load_truth(bag: Bag, robot: Robot, match: TopicMatch) -> LoadedRecording:
    """Read a robot's ground truth alone, for estimates that others made.

    Raises
    ------
    UserError
        A topic has another type.
    """
    kinds = {name: topic.message_type for name, topic in bag.topics.items()}
    match = replace(match, channels={})
    refuse_wrong_types(robot.name, match, kinds)
    columns = read_channels(bag, {**match.truth, **match.held})
    tracks, held, lost = _known(match, columns, None)
    notes = [*match.notes, *([bag.damage] if bag.damage else []), *losses(columns), *lost]
    if match.missing_bodies:
        notes.append(_missing_truth(match, kinds))
    return LoadedRecording((), np.zeros(0, dtype=np.int64), tracks, is_simulated(bag), tuple(notes), held)


def _known(
    match: TopicMatch, columns: Mapping[str, Column], mirror_truth: str | None
) -> tuple[dict[str, BodyTrack], dict[str, HeldValues], list[str]]:
    """Tracks, what else is known, and a sentence on each body of which messages are left out."""
    tracks, held, notes = {}, {}, []
    for topic, one in match.truth.items():
        column = columns[topic]
        track = tracks[one.sensor] = BodyTrack.clean(
            one.sensor, column.stamps_ns, mirror(column.values, mirror_truth or "")
        )
        if track.left_out:
            notes.append(
                f"Ground truth of {one.sensor}: {track.left_out} of {track.left_out + len(track.stamps_ns)} messages "
                "left out (not finite, no rotation, a repeated stamp, or the clock jumped back)."
            )
    for topic, one in match.held.items():
        held[one.sensor] = HeldValues.clean(columns[topic].stamps_ns, columns[topic].values)
    return tracks, held, notes


def _without_dropped(match: TopicMatch, what_if: WhatIf) -> tuple[TopicMatch, list[str]]:
    """The match without the sensors and bodies that are left out, and their names."""
    sensors = [channel.sensor for channel in (*match.channels.values(), *match.missing)]
    bodies = [f"{TRUTH}/{body}" for body in (*(one.sensor for one in match.truth.values()), *match.missing_bodies)]
    what_if.check_drops([*sensors, *bodies])
    kept = replace(
        match,
        channels={topic: one for topic, one in match.channels.items() if not what_if.drops(one.sensor)},
        truth={topic: one for topic, one in match.truth.items() if not what_if.drops(f"{TRUTH}/{one.sensor}")},
        missing=tuple(one for one in match.missing if not what_if.drops(one.sensor)),
        missing_bodies=tuple(one for one in match.missing_bodies if not what_if.drops(f"{TRUTH}/{one}")),
    )
    if not any(channel.required for channel in (*kept.channels.values(), *kept.missing)):
        raise UserError("--drop leaves no sensor")
    return kept, [name for name in (*sensors, *bodies) if what_if.drops(name)]


def _refuse_useless(bag: Bag, match: TopicMatch, columns: Mapping[str, Column]) -> None:
    """Raise UserError where a required topic holds nothing to go on with."""
    for topic, channel in match.channels.items():
        column = columns[topic]
        usable = finite_readings(channel, column.values)
        if not usable.any() and channel.required:
            reasons = [f"{count} {reason}" for reason, count in column.faults.items()]
            missing = missing_parts(channel, column.values)
            reasons += [f"{count} without {part.replace('_', ' ')} ({ABSENT})" for part, count in missing.items()]
            others = len(usable) - max(missing.values(), default=0)
            reasons += [f"{others} not finite"] if others else []
            raise UserError(
                f"none of the {bag.topics[topic].count} messages on {printable(topic)} can be used"
                f"{': ' if reasons else ''}{', '.join(reasons)} (--drop {channel.sensor} does without)"
            )
        if len(column.stamps_ns) > 1 and np.ptp(column.stamps_ns) == 0:
            raise UserError(
                f"all {len(column.stamps_ns)} messages on {printable(topic)} have the same header.stamp, "
                f"{column.stamps_ns[0] / NANOSECONDS_PER_SECOND:.9f} s: estimates need to know when each was measured "
                f"(--drop {channel.sensor} does without)"
            )
        if len(column.stamps_ns) and column.stamps_ns.max() < 0:
            raise UserError(f"{printable(topic)} has stamps before 1970, up to {column.stamps_ns.max()} ns")
    if not any(len(columns[topic].values) for topic in match.channels):
        raise UserError(f"{bag.path}: none of the messages on {', '.join(match.channels)} can be used")


def _longest_part(columns: Mapping[str, Column], match: TopicMatch) -> tuple[dict[str, Column], list[str]]:
    """The columns between two jumps of the sensors' clock, where there are any, and what is lost by that."""
    sensors = [columns[topic] for topic in match.channels]
    sources, order = _by_arrival(sensors)
    stamps = np.empty(len(sources), dtype=np.int64)
    for number, column in enumerate(sensors):
        stamps[sources == number] = column.stamps_ns
    parts = clock_parts(stamps, sources)
    if not parts.jumps:
        return dict(columns), []
    start, stop = parts.longest()
    first = int(order[start]) if start else 0
    last = int(order[stop]) if stop < parts.count else np.iinfo(np.int64).max
    kept = {topic: column.at((column.order >= first) & (column.order < last)) for topic, column in columns.items()}
    sentence = "; ".join(jump.partition(":")[0] for jump in parts.jumps[:3]) + ("; ..." if len(parts.jumps) > 3 else "")
    note = (
        f"{sentence[:1].upper()}{sentence[1:]}. Only the longest of {len(parts.starts)} parts is evaluated: "
        f"{stop - start} of {parts.count} measurements."
    )
    return kept, [note]


def _by_arrival(columns: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of its column for each message (M,) in the order of the bag, and its place in the bag's log order (M,).

    Places are whole numbers below the number of the bag's messages, each taken once: they need no sorting.
    """
    count = max((int(column.order[-1]) + 1 for column in columns if len(column.order)), default=0)
    sources = np.full(count, -1, dtype=np.int16)
    for number, column in enumerate(columns):
        sources[column.order] = number
    order = np.flatnonzero(sources >= 0)
    return sources[order].astype(np.int64), order


def _missing_truth(match: TopicMatch, kinds: Mapping[str, str]) -> str:
    """Sentence on the bodies without ground truth, with the option to paste where a topic may hold it."""
    free = FreeTopics(match, kinds)
    found = (map(free.option, truth_channels(body)) for body in match.missing_bodies)
    options = [option for body in found if (option := next(filter(None, body), None))]
    hint = f" ({' '.join(options)}?)" if options else ""
    all_needed = ", and all bodies are needed" if match.truth else ""
    return f"No ground truth of {', '.join(match.missing_bodies)} in the bag{all_needed}{hint}."


def losses(columns: Mapping[str, Column]) -> list[str]:
    """What became of messages that are not as they should be, by topic, a sentence each."""
    return [note for topic, column in columns.items() for note in column.notes(printable(topic))]


def is_simulated(bag: Any) -> bool:
    """Whether the bag says that it comes from a simulator."""
    return bag.custom_data.get("source") == "simulated"
