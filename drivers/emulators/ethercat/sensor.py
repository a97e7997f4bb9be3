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
from drivers.ethercat.description import (
    CODES,
    UNITS,
    WRENCH,
    Entry,
    ObjectAddress,
    Pdo,
    Scale,
    SdoObject,
    SensorDescription,
)
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.base.configuration import non_negative
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2

Signal = Callable[[int], Sequence[float]]
"""Values of `Sensor.fields` at a time, ns since the epoch: N, N m, V."""

_SAMPLES_PER_S = 8000
"""Of the sensor's own clock, that its counter of samples counts."""
_LARGEST_FLOAT = 3.4e38
_COUNTERS = ("counter", "sample_counter")
_AT_REST = {"acceleration_z": STANDARD_GRAVITY_M_S2, "orientation_w": 1.0, "temperature": 25.0}


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
    signal
        As given.
    fields
        What `signal` gives: `force_x` to `torque_z`, or `voltage_1` and so on.
    status
        Levels (`warning`, `overload`, `error`) that the device tells, each by the first of its bits.
    """

    def __init__(self, description: SensorDescription, signal: Signal) -> None:
        self.fields = (WRENCH if description.has_wrench else ()) + description.voltages
        self.status: frozenset[str] = frozenset()
        self._description, self.signal = description, signal
        self._bias = [0.0] * len(self.fields)
        self._control = 0
        self._began_ns: int | None = None
        self.lay_out(description.inputs, description.outputs)

    def lay_out(self, inputs: Sequence[Pdo], outputs: Sequence[Pdo]) -> None:
        """These process data are the ones from now on."""
        entries = [entry for pdo in inputs for entry in pdo.entries]
        self._inputs = struct.Struct("<" + "".join(CODES[entry.type][1] for entry in entries))
        self._numbers: list[float] = [0] * len(entries)
        scales = dict(self._description.scales)
        self._measured: list[tuple[int, int, float, float, tuple[int, int] | None]] = []
        self._counter: tuple[int, int] | None = None
        self._words: list[tuple[int, str]] = []
        for place, entry in enumerate(entries):
            if entry.field in self.fields:
                gain, offset = raw_of(scales.get(entry.scale))
                self._measured.append((place, self.fields.index(entry.field), gain, offset, limits(entry)))
            elif entry.field in _AT_REST:
                gain, offset = raw_of(scales.get(entry.scale))
                self._numbers[place] = _held(_AT_REST[entry.field] * gain + offset, limits(entry))
            elif entry.field in _COUNTERS:
                self._counter = place, (1 << 8 * entry.size) - 1
            elif entry.field:
                self._words.append((place, entry.field))
        self._control_at: tuple[int, int] | None = None
        at = 0
        for entry in (entry for pdo in outputs for entry in pdo.entries):
            if self._description.bias is not None and entry.field == self._description.bias.output:
                self._control_at = at, at + entry.size
            at += entry.size

    def inputs(self, now_ns: int) -> bytes:
        """Process data for the master, sampled now."""
        numbers = self._numbers
        measured = self.signal(now_ns)
        for place, field, gain, offset, allowed in self._measured:
            raw = (measured[field] - self._bias[field]) * gain + offset
            numbers[place] = _held(raw, allowed)
        if self._counter is not None:
            if self._began_ns is None:
                self._began_ns = now_ns
            place, mask = self._counter
            numbers[place] = (now_ns - self._began_ns) * _SAMPLES_PER_S // 1_000_000_000 & mask
        for place, word in self._words:
            numbers[place] = self._word(word)
        return self._inputs.pack(*numbers)

    def outputs(self, data: bytes, now_ns: int) -> None:
        """Process data from the master: the bits for bias act when they rise."""
        bias = self._description.bias
        if bias is None or self._control_at is None:
            return
        control = int.from_bytes(data[slice(*self._control_at)], "little")
        risen, self._control = control & ~self._control, control
        if risen & bias.set:
            self._bias = list(self.signal(now_ns))
        if risen & bias.clear:
            self._bias = [0.0] * len(self.fields)

    def _word(self, field: str) -> int:
        """A status word."""
        word = 0
        for level in self.status:
            first = next((bits for bits in self._description.status if bits.level == level), None)
            if first is not None and first.field == field:
                word |= first.mask & -first.mask
        return word


def raw_of(scale: Scale | None) -> tuple[float, float]:
    """Gain and offset from SI to what the device counts, by what its objects are expected to hold.

    Both from value = raw * factor + offset in the scale's unit, or raw / factor + offset.
    """
    if scale is None:
        return 1.0, 0.0
    factor, offset = (_number(one) for one in (scale.factor, scale.offset))
    name = scale.unit if isinstance(scale.unit, str) else dict(scale.unit.codes).get(
        int(scale.unit.expected or 0), scale.unit.otherwise
    )  # fmt: skip
    si = UNITS[name][1]
    counts = factor if scale.divide else 1.0 / factor
    return counts / si, -offset * counts


def limits(entry: Entry) -> tuple[int, int] | None:
    """Smallest and largest number that it holds; None: a float."""
    bits = 8 * entry.size
    if entry.type.startswith("uint"):
        return 0, (1 << bits) - 1
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if entry.type.startswith("int") else None


def objects(description: SensorDescription) -> Iterable[tuple[ObjectAddress, float, bool]]:
    """Objects of its dictionary that the file names: which, what they hold, whether they can be written."""
    for _, scale in description.scales:
        for one in (scale.factor, scale.offset):
            if isinstance(one, SdoObject):
                yield one, _number(one), False
        if not isinstance(scale.unit, str):
            yield scale.unit, scale.unit.expected or 0, False
    for write in description.startup:
        yield write, 0, True


def packed(kind: str, value: float) -> bytes:
    """A number as a device holds it."""
    return struct.pack(CODES[kind], value if kind.startswith("float") else int(value))


def _held(raw: float, allowed: tuple[int, int] | None) -> float:
    """As the device holds it: a whole number within its limits, or a float."""
    if allowed is None:
        return math.copysign(math.inf, raw) if abs(raw) > _LARGEST_FLOAT else raw
    return min(max(round(raw), allowed[0]), allowed[1]) if math.isfinite(raw) else 0


def _number(one: float | SdoObject) -> float:
    if isinstance(one, SdoObject):
        return 1.0 if one.expected is None else one.expected
    return one


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
        Plays `wrench` and `pressure/<chamber>`, of any namespace; None: they are made up.
    loops
        Whether the bag begins anew when it is over; its last values stay otherwise.

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

    def __init__(self, sensors: EmulatedPressure, bag: Path | None, loops: bool) -> None:
        self._sensors, self._loops = sensors, loops
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
            wrench = self._wrench_at(now_ns) if description.has_wrench else ()
            return (*wrench, *(self._voltage_at(now_ns, place) for place in inputs))

        return measured

    def _newest(self, name: str, now_ns: int) -> tuple[float, ...] | None:
        """Of a message, or of the bag; None: it is in neither."""
        if name in self.messages or name not in self._tracks:
            return self.messages.get(name)
        self.start_ns = now_ns if self.start_ns is None else self.start_ns
        passed_ns = now_ns - self.start_ns
        times_ns, values = self._tracks[name]
        bag_ns = passed_ns % self._length_ns if self._loops else passed_ns
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
