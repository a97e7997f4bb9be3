"""A recording as a pipeline and a judge need it: measurements in their order of arrival, ground truth as tracks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import Bag
from onboard_estimation.evaluation.bulk import Column, read_channels
from onboard_estimation.evaluation.topics import TopicMatch, missing_topics
from onboard_estimation.evaluation.truth import BodyTrack, mirror
from onboard_estimation.evaluation.what_if import WhatIf
from onboard_estimation.measurement import Measurement
from onboard_estimation.robots import Recording, Robot, Series


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
    """

    series: tuple[Series, ...]
    arrival: NDArray[np.int64]
    tracks: Mapping[str, BodyTrack]
    simulated: bool
    notes: tuple[str, ...] = ()

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

    def changed(self, what_if: WhatIf) -> LoadedRecording:
        """With the changes of a what-if; the order of arrival stays."""
        if what_if == WhatIf(seed=what_if.seed):
            return self
        kept = [number for number, one in enumerate(self.series) if not what_if.drops(one.channel.sensor)]
        series = tuple(what_if.apply(self.series))
        if not series:
            raise UserError("--drop leaves no sensor")
        place = np.full(len(self.series), -1)
        place[kept] = np.arange(len(kept))
        arrival = place[self.arrival]
        notes = (*self.notes, *what_if.sentences())
        return replace(self, series=series, arrival=arrival[arrival >= 0], notes=notes)


def from_simulator(recording: Recording, bodies: Sequence[str]) -> LoadedRecording:
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
    return LoadedRecording(recording.sensors, arrival, tracks, simulated=True)


def load_recording(
    bag: Bag, robot: Robot, match: TopicMatch, what_if: WhatIf, mirror_truth: str | None = None
) -> LoadedRecording:
    """Read a robot's sensors and ground truth from a bag.

    Raises
    ------
    UserError
        A required topic is missing and not dropped, or has another type; nothing usable is left.
    """
    missing = tuple(channel for channel in match.missing if channel.required and not what_if.drops(channel.sensor))
    if missing or not match.channels:
        kinds = {name: topic.message_type for name, topic in bag.topics.items()}
        raise missing_topics(robot.name, replace(match, missing=missing), kinds)
    columns = read_channels(bag, {**match.channels, **match.truth})
    notes = [bag.damage] if bag.damage else []
    notes += [f"{topic}: {reason}." for topic, column in columns.items() for reason in _losses(column)]
    sensors = {topic: columns[topic] for topic in match.channels}
    series = tuple(Series(match.channels[topic], column.stamps_ns, column.values) for topic, column in sensors.items())
    if not any(len(one.stamps_ns) for one in series):
        raise UserError(f"{bag.path}: none of the messages on {', '.join(match.channels)} can be used")
    order = np.concatenate([column.order for column in sensors.values()])
    numbers = np.repeat(np.arange(len(series)), [len(one.stamps_ns) for one in series])
    tracks: dict[str, BodyTrack] = {}
    for topic, channel in match.truth.items():
        values = columns[topic].values
        track = BodyTrack.clean(
            channel.sensor, columns[topic].stamps_ns, mirror(values, mirror_truth) if mirror_truth else values
        )
        tracks[channel.sensor] = track
        if track.left_out:
            notes.append(
                f"Ground truth of {channel.sensor}: {track.left_out} of {len(values)} messages left out "
                "(not finite, no rotation, or a repeated stamp)."
            )
    if mirror_truth:
        notes.append(f"Ground truth mirrored in {mirror_truth}.")
    if match.missing_bodies:
        notes.append(f"No ground truth of {', '.join(match.missing_bodies)} in the bag.")
    dropped = [channel.sensor for channel in match.missing if what_if.drops(channel.sensor)]
    if dropped:
        notes.append(f"Not in the bag, and left out as asked: {', '.join(dropped)}.")
    return LoadedRecording(series, numbers[np.argsort(order, kind="stable")], tracks, _is_simulated(bag), tuple(notes))


def _losses(column: Column) -> list[str]:
    return [f"{count} messages left out: {reason}" for reason, count in column.faults.items()]


def _is_simulated(bag: Any) -> bool:
    return bag.custom_data.get("source") == "simulated"
