"""What the emulated sensors measure: forces, torques and pressures of a bag, of messages as they come, or made up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.emulators.ethercat.configuration import EmulatedPressure
from drivers.emulators.ethercat.sensor import Signal
from drivers.ethercat.description import SensorDescription
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import open_bag
from onboard_estimation.evaluation.bulk import read_channels
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel

_SWINGS = ((2.0, 0.5), (1.5, 0.7), (6.0, 0.3), (0.10, 0.9), (0.08, 1.1), (0.04, 0.6))
"""Amplitude in N or N m, and frequency in Hz, of a wrench that is made up."""
_LOAD_N = -12.0
_WRENCH_TYPE, _PRESSURE_TYPE = "geometry_msgs/msg/WrenchStamped", "sensor_msgs/msg/FluidPressure"
_PRESSURES_PA = (20_000.0, 15_000.0, 0.2)
"""Middle and amplitude above the surroundings, and frequency in Hz; each chamber a third of a turn behind the other."""


class Track(NamedTuple):
    """Values by time, each until the next comes.

    Attributes
    ----------
    times_ns
        (K,) from the start of the bag, rising.
    values
        (K, m)
    """

    times_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    def at(self, time_ns: int) -> tuple[float, ...]:
        """The newest value; before the first, that one."""
        place = max(0, int(np.searchsorted(self.times_ns, time_ns, side="right")) - 1)
        return tuple(self.values[place].tolist())


class Played:
    """Wrench and pressures at a time: of a message where one has come, of the bag, or made up.

    Parameters
    ----------
    sensors
        Chambers whose pressure is measured, in the order of the analogue inputs, and how.
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

    def __init__(self, sensors: EmulatedPressure, bag: Path | None, loops: bool) -> None:
        self._sensors, self._loops = sensors, loops
        self.wrench: tuple[float, ...] | None = None
        self.pressures: dict[str, float] = {}
        self.start_ns: int | None = None
        self._tracks: dict[str, Track] = {}
        self._length_ns = 1
        if bag is not None:
            self._tracks = read_tracks(bag, ("wrench", *(f"pressure/{name}" for name in sensors.chambers if name)))
            self._length_ns = 1 + max(int(track.times_ns[-1]) for track in self._tracks.values())

    def signal(self, description: SensorDescription, first_input: int) -> Signal:
        """What one device measures, whose analogue inputs begin with that one of the bus."""
        inputs = range(first_input, first_input + len(description.voltages))

        def measured(now_ns: int) -> tuple[float, ...]:
            wrench = self._wrench_at(now_ns) if description.has_wrench else ()
            return (*wrench, *(self._voltage_at(now_ns, place) for place in inputs))

        return measured

    def _wrench_at(self, now_ns: int) -> tuple[float, ...]:
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

    def _voltage_at(self, now_ns: int, place: int) -> float:
        """V, at an analogue input; 0 without a sensor."""
        sensors = self._sensors
        name = sensors.chambers[place] if place < len(sensors.chambers) else ""
        if not name:
            return 0.0
        if name in self.pressures:
            return sensors.voltage(self.pressures[name])
        track = self._tracks.get(f"pressure/{name}")
        if track is not None:
            return sensors.voltage(*track.at(self._bag_ns(now_ns)))
        above_pa = 0.0
        if not self._tracks:
            middle_pa, swing_pa, hertz = _PRESSURES_PA
            turns = hertz * (now_ns % (1000 * NANOSECONDS_PER_SECOND)) / NANOSECONDS_PER_SECOND - place / 3.0
            above_pa = middle_pa + swing_pa * math.sin(2.0 * math.pi * turns)
        return sensors.voltage(sensors.ambient_pa + above_pa)

    def _bag_ns(self, now_ns: int) -> int:
        if self.start_ns is None:
            self.start_ns = now_ns
        passed_ns = now_ns - self.start_ns
        return passed_ns % self._length_ns if self._loops else passed_ns


def read_tracks(path: Path, names: Sequence[str]) -> dict[str, Track]:
    """What a bag has of these topics, in any one namespace.

    Raises
    ------
    UserError
        None of them is there, one is there twice or of another type, or there are no numbers in it.
    """
    with open_bag(path) as bag:
        topics = {topic: name for topic in bag.topics for name in names if f"/{topic}".endswith(f"/{name}")}
        if len(set(topics.values())) < len(topics):
            raise UserError(f"{path} has one of these more than once: {', '.join(topics)}")
        if not topics:
            there = ", ".join(list(bag.topics)[:20])
            raise UserError(f"{path} has nothing to play: none of {', '.join(names)}; it has {there}")
        kinds = {topic: _WRENCH_TYPE if name == "wrench" else _PRESSURE_TYPE for topic, name in topics.items()}
        columns = read_channels(bag, {topic: Channel(topic, kind, topic) for topic, kind in kinds.items()})
    found: dict[str, Track] = {}
    for topic, column in columns.items():
        finite = np.isfinite(column.values).all(axis=1)
        stamps_ns, values = column.stamps_ns[finite], column.values[finite]
        order = np.argsort(stamps_ns, kind="stable")
        if len(order):
            found[topics[topic]] = Track(stamps_ns[order], values[order])
    if not found:
        raise UserError(f"{path} has nothing to play: no message of {', '.join(topics)} holds numbers")
    first_ns = min(int(track.times_ns[0]) for track in found.values())
    return {name: track._replace(times_ns=track.times_ns - first_ns) for name, track in found.items()}
