"""What the emulated sensors measure: forces, torques and pressures of a bag, of messages as they come, or made up."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drivers.ethercat.description import SensorDescription
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import Bag, open_bag
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

_SWINGS = ((2.0, 0.5), (1.5, 0.7), (6.0, 0.3), (0.10, 0.9), (0.08, 1.1), (0.04, 0.6))
"""Amplitude in N or N m, and frequency in Hz, of a wrench that is made up."""
_LOAD_N = -12.0
_PRESSURES_PA = (20_000.0, 15_000.0, 0.2)
"""Middle and amplitude above the surroundings, and frequency in Hz; each chamber a third of a turn behind the other."""


@dataclass(frozen=True)
class PressureSensors:
    """A line from pressure to voltage, the same for all.

    Attributes
    ----------
    volts, pascals
        At the ends of the range.
    ambient_pa
        Pressure of the air around; 0 where the sensors measure absolute pressure.
    """

    volts: tuple[float, float]
    pascals: tuple[float, float]
    ambient_pa: float

    def __call__(self, pressure_pa: float) -> float:
        """V, of an absolute pressure."""
        slope = (self.volts[1] - self.volts[0]) / (self.pascals[1] - self.pascals[0])
        return self.volts[0] + slope * (pressure_pa - self.ambient_pa - self.pascals[0])


@dataclass(frozen=True)
class Track:
    """Values by time, each until the next comes.

    Attributes
    ----------
    times_ns
        From the start of the bag, rising.
    """

    times_ns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]

    def at(self, time_ns: int) -> tuple[float, ...]:
        """The newest value; before the first, that one."""
        return self.values[max(0, bisect_right(self.times_ns, time_ns) - 1)]


class Played:
    """Wrench and pressures at a time: of a message where one has come, of the bag, or made up.

    Parameters
    ----------
    chambers
        Names of those whose pressure is measured, in the order of the analogue inputs; empty text: no sensor.
    bag
        Plays `wrench` and `pressure/<chamber>`, of any namespace; None: they are made up.
    loops
        Whether the bag begins anew when it is over; its last values stay otherwise.

    Attributes
    ----------
    wrench, pressures
        Newest of the messages, N, N m and Pa; None: none has come.
    start_ns
        When the bag began, ns since the epoch; None: it has not yet. The first sample begins it.

    Raises
    ------
    UserError
        The bag cannot be read, or has nothing to play.
    """

    def __init__(self, chambers: Sequence[str], sensors: PressureSensors, bag: Path | None, loops: bool) -> None:
        self._chambers, self._sensors, self._loops = chambers, sensors, loops
        self.wrench: tuple[float, ...] | None = None
        self.pressures: dict[str, float] = {}
        self.start_ns: int | None = None
        self._tracks: dict[str, Track] = {}
        self._length_ns = 1
        if bag is not None:
            self._tracks = read_tracks(bag, ("wrench", *(f"pressure/{name}" for name in chambers if name)))
            self._length_ns = 1 + max(track.times_ns[-1] for track in self._tracks.values())

    def signal(self, description: SensorDescription, first_input: int) -> _Signal:
        """What one device measures, whose analogue inputs begin with that one of the bus."""
        return _Signal(self, description.has_wrench, range(first_input, first_input + len(description.voltages)))

    def wrench_at(self, now_ns: int) -> tuple[float, ...]:
        """(6,) N and N m."""
        if self.wrench is not None:
            return self.wrench
        if "wrench" in self._tracks:
            return self._tracks["wrench"].at(self._bag_ns(now_ns))
        if self._tracks:
            return (0.0,) * 6
        seconds = now_ns % (1000 * NANOSECONDS_PER_SECOND) / NANOSECONDS_PER_SECOND
        swung = [size * math.sin(2.0 * math.pi * hertz * seconds) for size, hertz in _SWINGS]
        swung[2] += _LOAD_N
        return tuple(swung)

    def voltage_at(self, now_ns: int, place: int) -> float:
        """V, at an analogue input; 0 without a sensor."""
        name = self._chambers[place] if place < len(self._chambers) else ""
        if not name:
            return 0.0
        pressure_pa = self.pressures.get(name)
        track = self._tracks.get(f"pressure/{name}")
        if pressure_pa is None and track is not None:
            (pressure_pa,) = track.at(self._bag_ns(now_ns))
        elif pressure_pa is None and self._tracks:
            pressure_pa = self._sensors.ambient_pa
        elif pressure_pa is None:
            middle_pa, swing_pa, hertz = _PRESSURES_PA
            turns = hertz * (now_ns % (1000 * NANOSECONDS_PER_SECOND)) / NANOSECONDS_PER_SECOND - place / 3.0
            pressure_pa = self._sensors.ambient_pa + middle_pa + swing_pa * math.sin(2.0 * math.pi * turns)
        return self._sensors(pressure_pa)

    def _bag_ns(self, now_ns: int) -> int:
        if self.start_ns is None:
            self.start_ns = now_ns
        passed_ns = now_ns - self.start_ns
        return passed_ns % self._length_ns if self._loops else passed_ns


@dataclass(frozen=True)
class _Signal:
    """A `Signal` of one device."""

    played: Played
    has_wrench: bool
    inputs: range

    def __call__(self, now_ns: int) -> tuple[float, ...]:
        wrench = self.played.wrench_at(now_ns) if self.has_wrench else ()
        return (*wrench, *(self.played.voltage_at(now_ns, place) for place in self.inputs))


def read_tracks(path: Path, names: Sequence[str]) -> dict[str, Track]:
    """What a bag has of these topics, in any one namespace.

    Raises
    ------
    UserError
        None of them is there, one is there twice, or a message cannot be read.
    """
    with open_bag(path) as bag:
        topics: dict[str, str] = {}
        for topic in bag.topics:
            for name in names:
                if topic == f"/{name}" or topic.endswith(f"/{name}"):
                    if name in topics.values():
                        raise UserError(f"{path} has {name} more than once: {topic} is another")
                    topics[topic] = name
        if not topics:
            there = ", ".join(list(bag.topics)[:20])
            raise UserError(f"{path} has nothing to play: none of {', '.join(names)}; it has {there}")
        tracks = _tracks(bag, topics)
    first_ns = min(track.times_ns[0] for track in tracks.values())
    return {
        name: replace(track, times_ns=tuple(one - first_ns for one in track.times_ns)) for name, track in tracks.items()
    }


def _tracks(bag: Bag, topics: dict[str, str]) -> dict[str, Track]:
    """By name, with times since the epoch."""
    found: dict[str, list[tuple[int, tuple[float, ...]]]] = {}
    for raw in bag.messages(list(topics)):
        message = bag.deserialize(raw)
        try:
            stamp = message.header.stamp
            time_ns = stamp.sec * NANOSECONDS_PER_SECOND + stamp.nanosec
            if topics[raw.topic] == "wrench":
                parts = message.wrench.force, message.wrench.torque
                value = tuple(float(getattr(part, axis)) for part in parts for axis in "xyz")
            else:
                value = (float(message.fluid_pressure),)
        except AttributeError as error:
            kind = bag.topics[raw.topic].message_type
            raise UserError(f"{raw.topic} of {bag.path} is a {kind}, which cannot be played: {error}") from error
        if all(map(math.isfinite, value)):
            found.setdefault(topics[raw.topic], []).append((time_ns, value))
    if not found:
        raise UserError(f"{bag.path} has nothing to play: no message of {', '.join(topics)} holds numbers")
    return {name: Track(*zip(*sorted(rows), strict=True)) for name, rows in found.items()}
