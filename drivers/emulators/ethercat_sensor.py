"""What a sensor measures, as its process data: SI values through the factors of its file into counts, status, bias."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drivers.ethercat.configuration import PressureSensors
from drivers.ethercat.description import CODES, SdoObject, SensorDescription, UnitCode, limits
from drivers.ethercat.device import conversion_of, dtype_of
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.base.configuration import non_negative
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel

Signal = Callable[[int], Sequence[float]]
"""Values of `SensorDescription.fields` at a time, ns since the epoch: N, N m, V."""
_LARGEST_FLOAT = 3.4e38


@dataclass(frozen=True)
class EmulatedPressure(PressureSensors):
    """Pressure sensors on the bus's analogue inputs, as for the driver."""

    ambient_pa: float = non_negative(
        101325.0, "pressure of the air around, the sensors' zero; 0: they measure absolute", "Pa"
    )

    def faults(self) -> Iterable[str]:
        """A line needs two points."""
        if self.pascals[0] == self.pascals[1]:
            yield f"pascals: {list(self.pascals)}, allowed: two different ones"

    def voltage(self, pressure_pa: float) -> float:
        """V, of an absolute pressure."""
        slope = (self.volts[1] - self.volts[0]) / (self.pascals[1] - self.pascals[0])
        return self.volts[0] + slope * (pressure_pa - self.ambient_pa - self.pascals[0])


class Sensor:
    """A sensor as its file describes it.

    Parameters
    ----------
    signal
        What there is to be measured.

    Attributes
    ----------
    status
        Levels (`warning`, `overload`, `error`) that the device tells, each by the first of its bits.
    """

    def __init__(self, description: SensorDescription, signal: Signal) -> None:
        self.status: frozenset[str] = frozenset()
        self._description, self._signal = description, signal
        inputs, self._outputs = dtype_of(description.input_entries), dtype_of(description.output_entries)
        assert inputs.fields is not None
        self._size, self._places = inputs.itemsize, {name: one[1] for name, one in inputs.fields.items()}
        self._types = {entry.field: entry.type for entry in description.input_entries}
        si = conversion_of(description, description.fields, expected)
        self._scales = list(zip(si.fields, si.gain.tolist(), si.offset.tolist(), strict=True))
        self._bias: Sequence[float] = [0.0] * len(si.fields)
        self._control = 0

    def inputs(self, now_ns: int) -> bytes:
        """Process data for the master, sampled now; what is neither measured nor status is zero."""
        data = bytearray(self._size)
        for value, bias, (field, gain, offset) in zip(self._signal(now_ns), self._bias, self._scales, strict=True):
            self._put(data, field, (value - bias - offset) / gain)
        firsts = {bits.level: bits for bits in reversed(self._description.status) if bits.level in self.status}
        for field in {bits.field for bits in firsts.values()}:
            told = [bits.mask & -bits.mask for bits in firsts.values() if bits.field == field]
            self._put(data, field, sum(set(told)))
        return bytes(data)

    def _put(self, data: bytearray, field: str, raw: float) -> None:
        """As the device holds it: a float, or a whole number within its limits."""
        kind, place = self._types[field], self._places[field]
        if kind.startswith("float"):
            struct.pack_into(CODES[kind], data, place, min(max(raw, -_LARGEST_FLOAT), _LARGEST_FLOAT))
        else:
            least, most = limits(kind)
            whole = min(max(round(raw), least), most) if math.isfinite(raw) else 0
            struct.pack_into(CODES[kind], data, place, whole)

    def outputs(self, data: bytes, now_ns: int) -> None:
        """Process data from the master: the bits for bias act when they rise."""
        bias = self._description.bias
        if bias is None:
            return
        control = int(np.frombuffer(data, self._outputs)[bias.output][0])
        risen, self._control = control & ~self._control, control
        if risen & bias.set:
            self._bias = tuple(self._signal(now_ns))
        if risen & bias.clear:
            self._bias = [0.0] * len(self._bias)


def expected(one: SdoObject) -> float:
    """What such an object of the emulated device holds."""
    return one.expected if one.expected is not None else 0.0 if isinstance(one, UnitCode) else 1.0


# What the emulated sensors measure: forces, torques and pressures of a bag, of messages as they come, or made up.

_SWINGS = ((2.0, 0.5), (1.5, 0.7), (6.0, 0.3), (0.10, 0.9), (0.08, 1.1), (0.04, 0.6))
"""Amplitude in N or N m, and frequency in Hz, of a wrench that is made up."""
_LOAD_N = -12.0
_WRENCH_TYPE, _PRESSURE_TYPE = "geometry_msgs/msg/WrenchStamped", "sensor_msgs/msg/FluidPressure"
_PRESSURES_PA = (20_000.0, 15_000.0, 0.2)
"""Middle and amplitude above the surroundings, and frequency in Hz; each chamber a third of a turn behind the other."""


Track = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Times (K,), ns from the start of the bag, rising; values (K, m), each until the next comes."""


class Played:
    """Wrench and pressures at a time: of a message where one has come, of the bag, or made up.

    Parameters
    ----------
    sensors
        Chambers whose pressure is measured, in the order of the analogue inputs, and how.
    bag
        Plays `wrench` and `pressure/<chamber>`, of any namespace, over and over; None: they are made up.

    Attributes
    ----------
    messages
        Newest of `wrench` (N, N m) and `pressure/<chamber>` (Pa), as far as one has come.
    start_ns
        When the bag began, ns since the epoch; None: it has not yet. The first sample begins it.

    Raises
    ------
    UserError
        The bag cannot be read, or has nothing to play.
    """

    def __init__(self, sensors: EmulatedPressure, bag: Path | None) -> None:
        self._sensors = sensors
        self.messages: dict[str, tuple[float, ...]] = {}
        self.start_ns: int | None = None
        self._tracks: dict[str, Track] = {}
        self._length_ns = 1
        if bag is not None:
            self._tracks = read_tracks(bag, ("wrench", *(f"pressure/{name}" for name in sensors.chambers if name)))
            self._length_ns = 1 + max(int(times_ns[-1]) for times_ns, _ in self._tracks.values())

    def signal(self, description: SensorDescription, first_input: int) -> Signal:
        """What one device measures, whose analogue inputs begin with that one of the bus."""
        inputs = range(first_input, first_input + len(description.voltages))

        def measured(now_ns: int) -> tuple[float, ...]:
            if description.has_wrench:
                return self._wrench_at(now_ns)
            return tuple(self._voltage_at(now_ns, place) for place in inputs)

        return measured

    def _newest(self, name: str, now_ns: int) -> tuple[float, ...] | None:
        """Of a message, or of the bag; None: it is in neither."""
        if name in self.messages or name not in self._tracks:
            return self.messages.get(name)
        self.start_ns = now_ns if self.start_ns is None else self.start_ns
        times_ns, values = self._tracks[name]
        bag_ns = (now_ns - self.start_ns) % self._length_ns
        place = max(0, int(np.searchsorted(times_ns, bag_ns, side="right")) - 1)  # before the first, that one
        return tuple(values[place].tolist())

    def _wrench_at(self, now_ns: int) -> tuple[float, ...]:
        """(6,) N and N m."""
        found = self._newest("wrench", now_ns)
        if found is not None or self._tracks:
            return found or (0.0,) * 6
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
        if (found := self._newest(f"pressure/{name}", now_ns)) is not None:
            return sensors.voltage(*found)
        above_pa = 0.0
        if not self._tracks:
            middle_pa, swing_pa, hertz = _PRESSURES_PA
            turns = hertz * (now_ns % (1000 * NANOSECONDS_PER_SECOND)) / NANOSECONDS_PER_SECOND - place / 3.0
            above_pa = middle_pa + swing_pa * math.sin(2.0 * math.pi * turns)
        return sensors.voltage(sensors.ambient_pa + above_pa)


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
            found[topics[topic]] = stamps_ns[order], values[order]
    if not found:
        raise UserError(f"{path} has nothing to play: no message of {', '.join(topics)} holds numbers")
    first_ns = min(int(stamps_ns[0]) for stamps_ns, _ in found.values())
    return {name: (stamps_ns - first_ns, values) for name, (stamps_ns, values) in found.items()}
