"""A recording as a pipeline and a judge need it: measurements in their order of arrival, ground truth as tracks.

What-if changes are made to it: sensors left out, stamps delayed, biases and noise added, and motion capture given to
the filter as a beacon.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError, printable
from onboard_estimation.evaluation.bags import Bag
from onboard_estimation.evaluation.bulk import Column, read_channels
from onboard_estimation.evaluation.clock_alignment import aligned
from onboard_estimation.evaluation.options import WhatIf, is_part
from onboard_estimation.evaluation.topics import (
    TRUTH,
    FreeTopics,
    TopicMatch,
    missing_topics,
    refuse_wrong_types,
    truth_channels,
)
from onboard_estimation.evaluation.truth import BodyTrack, HeldValues, clock_parts, mirror
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel, Matrix, Measurement, component_names
from onboard_estimation.reading_limits import ABSENT, finite_readings, missing_parts
from onboard_estimation.robots import Robot
from onboard_estimation.series import Recording, Series
from onboard_estimation.simulation import SET_POSE

_DURATION = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\W\d]*)")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_LONGEST_DELAY_S = 3600.0

SHORTEST_PERIOD_S = 0.01
_PLANAR = [0, 1, 5]  # x, y, yaw among x, y, z, roll, pitch, yaw


@dataclass(frozen=True, eq=False)
class LoadedRecording:
    """What an evaluation reads from a bag or a simulator.

    Attributes
    ----------
    series
        One of each sensor, rows in the order of recording.
    arrival
        (M,) int64: for each measurement in the order of arrival, the number of its series.
    tracks
        Ground truth by body.
    simulated
        Whether it comes from a simulator.
    notes
        Losses, one sentence each.
    held
        What else is known of the truth, by name, see `TruthSpecification`.
    """

    series: tuple[Series, ...]
    arrival: NDArray[np.int64]
    tracks: Mapping[str, BodyTrack]
    simulated: bool
    notes: tuple[str, ...] = ()
    held: Mapping[str, HeldValues] = field(default_factory=dict)

    def measurements(self) -> Iterator[Measurement]:
        """All measurements in the order of arrival."""
        rows = [zip(one.stamps_ns.tolist(), one.values, strict=True) for one in self.series]
        sensors = [one.channel.sensor for one in self.series]
        for number in self.arrival.tolist():
            stamp_ns, value = next(rows[number])
            yield Measurement(stamp_ns, sensors[number], value)

    def first_stamp_ns(self) -> int:
        """Earliest stamp of a measurement."""
        return min(int(one.stamps_ns.min()) for one in self.series if len(one.stamps_ns))

    def mirrored(self, axes: str) -> LoadedRecording:
        """With axes of the truth turned round, see `mirror`."""
        return replace(
            self, tracks={name: replace(one, values=mirror(one.values, axes)) for name, one in self.tracks.items()}
        )

    def changed(self, what_if: WhatIf) -> LoadedRecording:
        """With the changes of a what-if; the order of arrival stays."""
        if what_if == WhatIf(seed=what_if.seed):
            return self
        kept = [number for number, one in enumerate(self.series) if not what_if.drops(one.channel.sensor)]
        series = tuple(changed_series(self.series, what_if))
        if not series:
            raise UserError("--drop leaves no sensor")
        place = np.full(len(self.series), -1)
        place[kept] = np.arange(len(kept))
        arrival = place[self.arrival]
        notes = (*self.notes, *what_if.sentences())
        return replace(self, series=series, arrival=arrival[arrival >= 0], notes=notes)


def from_simulator(recording: Recording, bodies: Sequence[str], held: Sequence[Channel] = ()) -> LoadedRecording:
    """A simulated recording without the way through a bag; measurements arrive in the order of their stamps."""
    stamps = np.concatenate([one.stamps_ns for one in recording.sensors])
    numbers = np.repeat(np.arange(len(recording.sensors)), [len(one.stamps_ns) for one in recording.sensors])
    arrival = numbers[np.argsort(stamps, kind="stable")]
    tracks = {
        body: BodyTrack.clean(body, one.stamps_ns, one.values)
        for body in bodies
        for one in recording.truth
        if one.channel.topic.startswith(f"ground_truth/{body}/")
    }
    known = {
        channel.sensor: HeldValues.clean(one.stamps_ns, one.values)
        for channel in held
        for one in recording.truth
        if one.channel.topic == channel.topic
    }
    return LoadedRecording(recording.sensors, arrival, tracks, simulated=True, held=known)


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
    return loaded.changed(replace(what_if, drop=()))


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


def changed_series(series: Sequence[Series], what_if: WhatIf) -> list[Series]:
    """Changed copies; those that are dropped are left out.

    Raises
    ------
    UserError
        A change that names no sensor or component of these series, or has no number.
    """
    out = list(series)
    for name in what_if.drop:
        dropped = _matching(out, name, "--drop")
        out = [one for one in out if one not in dropped]
    for text in what_if.delay:
        sensor, value = _split(text, "--delay")
        shift = _delay_ns(text, value)
        for one in _matching(out, sensor, "--delay"):
            out[out.index(one)] = replace(one, stamps_ns=one.stamps_ns + shift)
    rng = np.random.default_rng(what_if.seed)
    changes = [("--bias", text, -math.inf) for text in what_if.bias]
    changes += [("--noise", text, 0.0) for text in what_if.noise]
    for option, text, least in changes:
        for place, columns, number in _components(out, text, option, least):
            values = out[place].values.copy()
            added = number if option == "--bias" else rng.normal(0.0, number, (len(values), len(columns)))
            values[:, columns] += added
            out[place] = replace(out[place], values=values)
    return out


def parse_duration(text: str) -> float:
    """Seconds from `20ms`, `0.02s`, `500us`; a number alone is refused, for it may be meant in any of them."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{text!r} is no time; write 20ms, 0.02s or 500us")
    number, unit = found.groups()
    if not unit:
        raise UserError(f"{text!r} has no unit; write {number}ms, {number}s or {number}us")
    if unit not in _SECONDS:
        raise UserError(f"{unit!r} is no unit of time; write {number}ms, {number}s or {number}us")
    return float(number) * _SECONDS[unit]


def _delay_ns(text: str, value: str) -> int:
    try:
        seconds = parse_duration(value)
    except UserError as error:
        raise UserError(f"--delay {text}: {error}") from None
    if abs(seconds) > _LONGEST_DELAY_S:
        raise UserError(f"--delay {text}: must be at most {_LONGEST_DELAY_S:g} s either way")
    return round(seconds * NANOSECONDS_PER_SECOND)


def _matching(series: Iterable[Series], name: str, option: str) -> list[Series]:
    series = list(series)
    found = [one for one in series if is_part(one.channel.sensor, name)]
    if not found:
        raise UserError(f"{option} {name}: no such sensor; there are {', '.join(one.channel.sensor for one in series)}")
    return found


def _split(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UserError(f"{option} {text}: write {option} SENSOR=VALUE")
    return name, value


def _components(series: Sequence[Series], text: str, option: str, least: float) -> list[tuple[int, list[int], float]]:
    name, value = _split(text, option)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{option} {text}: {value!r} is no number")
    if number < least:
        raise UserError(f"{option} {text}: a standard deviation must be {least:g} or more")
    sensor, _, component = name.partition(".")
    out = []
    for one in _matching(series, sensor, option):
        names = component_names(one.channel)
        columns = [i for i, known in enumerate(names) if component and is_part(known, component)]
        if not columns:
            raise UserError(
                f"{option} {text}: say which component of {one.channel.sensor}: {', '.join(names)} or a prefix"
            )
        out.append((list(series).index(one), columns, number))
    return out


def with_beacon(
    robot: Robot, configuration: Any, recording: LoadedRecording, period_s: float | None, longest_gap_s: float
) -> LoadedRecording:
    """The recording with a `set_pose` measurement every `period_s` seconds, the first one after one period.

    It goes the way of a pose that a user sets, with the covariance of the truth's own noise. So a run shows what an
    occasional absolute pose is worth, and whether the drift between two of them stays inside its covariance.

    Parameters
    ----------
    period_s
        None: the recording as it is.
    longest_gap_s
        Between two messages of the truth that are interpolated; there is no beacon in longer gaps.

    Raises
    ------
    UserError
        A period that is none, a robot that is not told its planar pose, no ground truth of its pose, or a recording
        shorter than the period.
    """
    if period_s is None:
        return recording
    if not SHORTEST_PERIOD_S <= period_s < math.inf:
        raise UserError(f"--beacon {period_s:g}: must be a period of {SHORTEST_PERIOD_S:g} s or more")
    channel = next((one for one in robot.channels(configuration) if one.sensor == SET_POSE), None)
    if channel is None:
        raise UserError(f"--beacon {period_s:g}: {robot.name} does not listen to {SET_POSE}, so it takes no beacon")
    specification = robot.truth_specification(configuration)
    missing = [body for body in specification.bodies if body not in recording.tracks]
    if missing or not specification.bodies:
        lacking = f"of {', '.join(missing)} " if missing else ""
        raise UserError(
            f"--beacon {period_s:g}: the beacon is made of the ground truth, which {lacking}is not in the recording"
        )
    filled = [one for one in recording.series if len(one.stamps_ns)]
    # Medians over the sensors, because one of them may have a clock of its own.
    first_ns = int(np.median([one.stamps_ns.min() for one in filled]))
    last_ns = int(np.median([one.stamps_ns.max() for one in filled]))
    period_ns = round(period_s * NANOSECONDS_PER_SECOND)
    run_s = (last_ns - first_ns) / NANOSECONDS_PER_SECOND
    if last_ns < first_ns + period_ns:
        raise UserError(f"--beacon {period_s:g}: the run has {run_s:.1f} s only, so no beacon falls into it")
    stamps: NDArray[np.int64] = np.arange(first_ns + period_ns, last_ns + 1, period_ns, dtype=np.int64)
    found = {body: recording.tracks[body].at(stamps, longest_gap_s) for body in specification.bodies}
    valid = np.all([good for _, good in found.values()], axis=0)
    if not valid.any():
        raise UserError(
            f"--beacon {period_s:g}: none of the {len(stamps)} instants for it in {run_s:.1f} s has a ground truth of "
            f"all bodies (gaps up to {longest_gap_s:g} s are bridged, see --truth-gap); take a shorter period"
        )
    stamps = stamps[valid]
    parts = robot.true_parts(configuration, {body: values[valid] for body, (values, _) in found.items()})
    pose = parts.get("pose")
    if pose is None or pose.shape[1] != 3:
        raise UserError(f"--beacon {period_s:g}: the ground truth of {robot.name} tells no planar pose")
    noise = specification.covariances.get("pose", np.zeros((3, 3)))
    values = np.array([_message(x, y, heading, noise) for x, y, heading in pose])
    # Where each belongs among the stamps of all others: stray ones move it by no more than their own number.
    others = np.sort(np.concatenate([one.stamps_ns for one in filled]))
    arrival = np.insert(recording.arrival, np.searchsorted(others, stamps, side="right"), len(recording.series))
    note = f"Motion capture as a beacon: the pose every {period_s:g} s, {len(stamps)} times."
    return replace(
        recording,
        series=(*recording.series, Series(channel, stamps, values)),
        arrival=arrival,
        notes=(*recording.notes, note),
    )


def _message(x: float, y: float, heading_rad: float, noise: Matrix) -> NDArray[np.float64]:
    """(43,) value of a PoseWithCovarianceStamped from a planar pose and its noise as a body-frame twist (3, 3)."""
    cosine, sine = math.cos(heading_rad), math.sin(heading_rad)
    turn = np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    covariance = np.zeros((6, 6))
    covariance[np.ix_(_PLANAR, _PLANAR)] = turn @ noise @ turn.T
    position = [x, y, 0.0]
    quaternion = [0.0, 0.0, math.sin(0.5 * heading_rad), math.cos(0.5 * heading_rad)]
    return np.concatenate([position, quaternion, covariance.ravel()])
