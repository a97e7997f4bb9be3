"""A recording as a pipeline and a judge need it: measurements in their order of arrival, ground truth as tracks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Channel, Measurement
from onboard_estimation.base.series import Fault, Recording, Series
from onboard_estimation.contract.tracks import BodyTrack, HeldValues, mirror


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
    faults
        What is wrong with its sensors, or contradicts them in its truth, one sentence each; among the notes as well.
    comparable
        Whether turns and axes of truth and sensors can be compared: none is condemned.
    injected
        Faults that were put into it, of sensors or of the simulated robot.
    """

    series: tuple[Series, ...]
    arrival: NDArray[np.int64]
    tracks: Mapping[str, BodyTrack]
    simulated: bool
    notes: tuple[str, ...] = ()
    held: Mapping[str, HeldValues] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    comparable: bool = True
    injected: tuple[Fault, ...] = ()

    def measurements(self) -> Iterator[Measurement]:
        """All measurements in the order of arrival."""
        rows = [zip(one.stamps_ns.tolist(), one.values, strict=True) for one in self.series]
        sensors = [one.channel.sensor for one in self.series]
        for number in self.arrival.tolist():
            stamp_ns, value = next(rows[number])
            yield Measurement(stamp_ns, sensors[number], value)

    def within(self, start_ns: int, stop_ns: int, sensors: Collection[str]) -> LoadedRecording:
        """What is stamped from the one instant until before the other; of measurements those of some sensors alone."""
        rows = [
            (one.stamps_ns >= start_ns) & (one.stamps_ns < stop_ns) & (one.channel.sensor in sensors)
            for one in self.series
        ]
        kept = np.empty(len(self.arrival), dtype=np.bool_)
        for number, inside in enumerate(rows):
            kept[self.arrival == number] = inside
        tracks = {}
        for name, track in self.tracks.items():
            part = slice(*np.searchsorted(track.stamps_ns, (start_ns, stop_ns)).tolist())
            tracks[name] = replace(track, stamps_ns=track.stamps_ns[part], values=track.values[part])
        series = tuple(one.rows(np.flatnonzero(inside)) for one, inside in zip(self.series, rows, strict=True))
        return replace(self, series=series, arrival=self.arrival[kept], tracks=tracks)

    def mirrored(self, axes: str) -> LoadedRecording:
        """With axes of the truth turned round, see `mirror`."""
        return replace(
            self, tracks={name: replace(one, values=mirror(one.values, axes)) for name, one in self.tracks.items()}
        )


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
