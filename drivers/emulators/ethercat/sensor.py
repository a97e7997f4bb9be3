"""What a sensor measures, as its process data: SI values through the factors of its file into counts, status, bias."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence

from drivers.ethercat.description import UNITS, WRENCH, Entry, ObjectAddress, Pdo, Scale, SdoObject, SensorDescription
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

Signal = Callable[[int], Sequence[float]]
"""Values of `Sensor.fields` at a time, ns since the epoch: N, N m, V."""

_SAMPLES_PER_S = 8000
"""Of the sensor's own clock, that its counter of samples counts."""
_LARGEST_FLOAT = 3.4e38
_COUNTERS = ("counter", "sample_counter")
_AT_REST = {"acceleration_z": STANDARD_GRAVITY_M_S2, "orientation_w": 1.0, "temperature": 25.0}
_LETTERS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float32": "f", "float64": "d",
}  # fmt: skip


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
        self._inputs = struct.Struct("<" + "".join(_LETTERS[entry.type] for entry in entries))
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
    letter = _LETTERS[kind]
    return struct.pack(f"<{letter}", value if letter in "fd" else int(value))


def _held(raw: float, allowed: tuple[int, int] | None) -> float:
    """As the device holds it: a whole number within its limits, or a float."""
    if allowed is None:
        return math.copysign(math.inf, raw) if abs(raw) > _LARGEST_FLOAT else raw
    return min(max(round(raw), allowed[0]), allowed[1]) if math.isfinite(raw) else 0


def _number(one: float | SdoObject) -> float:
    if isinstance(one, SdoObject):
        return 1.0 if one.expected is None else one.expected
    return one
