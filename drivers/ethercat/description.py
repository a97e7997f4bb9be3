"""EtherCAT sensors as they are described: identity, process data, units, start-up, bias, and what status bits mean.

Files that say so are read by `description_file`.
Forces and torques are the fields `force_x` to `torque_z`; analogue inputs are `voltage_1`, `voltage_2`, ...
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

WRENCH = ("force_x", "force_y", "force_z", "torque_x", "torque_y", "torque_z")
CODES = {
    "int8": "<i1",
    "uint8": "<u1",
    "int16": "<i2",
    "uint16": "<u2",
    "int32": "<i4",
    "uint32": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "float32": "<f4",
    "float64": "<f8",
}
"""NumPy's codes of the types that process data and objects may have."""

UNITS = {
    "N": ("N", 1.0),
    "kN": ("N", 1e3),
    "lbf": ("N", 4.4482216152605),
    "klbf": ("N", 4448.2216152605),
    "kgf": ("N", 9.80665),
    "N m": ("N m", 1.0),
    "N mm": ("N m", 1e-3),
    "kN m": ("N m", 1e3),
    "lbf in": ("N m", 0.1129848290276167),
    "lbf ft": ("N m", 1.3558179483314004),
    "kgf cm": ("N m", 0.0980665),
    "V": ("V", 1.0),
    "mV": ("V", 1e-3),
    "degC": ("degC", 1.0),
    "m/s^2": ("m/s^2", 1.0),
    "g": ("m/s^2", 9.80665),
    "rad/s": ("rad/s", 1.0),
    "deg/s": ("rad/s", math.pi / 180.0),
}
"""By name of a unit: the SI unit (or degC), and how many of these it is."""

Level = Literal["warning", "overload", "error"]
LEVELS = ("warning", "overload", "error")
FIELD = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_VOLTAGE = re.compile(r"voltage_([1-9][0-9]?)", re.ASCII)
MOST = 256
"""Of entries, PDOs, SDOs, status bits: more is no sensor."""
_LARGEST_FRAME = 1486
"""Bytes of process data that fit into one frame."""


@dataclass(frozen=True)
class SdoObject:
    """An object of the device's dictionary; `expected` is what it usually holds, where that is known."""

    index: int
    subindex: int
    type: str
    expected: float | None = None

    def __str__(self) -> str:
        return f"0x{self.index:04X}:{self.subindex:02X}"


@dataclass(frozen=True)
class Entry:
    """A piece of process data.

    Attributes
    ----------
    index, subindex
        Object that is mapped there; index None: not checked.
    type
        One of `CODES`.
    field
        What the driver calls it; empty: it is not read.
    scale
        Name of its scale; empty: a bare number.
    initial
        What an output is set to.
    """

    index: int | None
    subindex: int
    type: str
    field: str
    scale: str
    initial: int

    @property
    def size(self) -> int:
        """Bytes."""
        return int(CODES[self.type][2:])


@dataclass(frozen=True)
class Pdo:
    """A process data object: index in the dictionary, and what is in it."""

    index: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class UnitCode:
    """A unit that an object of the device tells; `otherwise` is taken for codes not listed, empty: they are refused."""

    object: SdoObject
    codes: tuple[tuple[int, str], ...]
    otherwise: str


@dataclass(frozen=True)
class Scale:
    """From raw numbers to a unit: raw * factor + offset, or raw / factor + offset."""

    factor: float | SdoObject
    divide: bool
    offset: float | SdoObject
    unit: str | UnitCode

    @property
    def units(self) -> tuple[str, ...]:
        """All that may come out."""
        if isinstance(self.unit, str):
            return (self.unit,)
        named = [name for _, name in self.unit.codes]
        return (*named, self.unit.otherwise) if self.unit.otherwise else tuple(named)


@dataclass(frozen=True)
class SdoWrite:
    """A value for an object at start."""

    object: SdoObject
    value: float
    why: str


@dataclass(frozen=True)
class Bias:
    """Bits of an output that make the device take its present reading as zero, and forget that."""

    output: str
    set: int
    clear: int
    hold_s: float


@dataclass(frozen=True)
class StatusBits:
    """What it means when any bit of the mask is set.

    Attributes
    ----------
    level
        `warning`: readings hold; `overload`: a reading is out of range; `error`: readings are none.
    """

    field: str
    mask: int
    level: Level
    meaning: str


@dataclass(frozen=True)
class SensorDescription:
    """One kind of device, see the module."""

    name: str
    vendor_id: int | None
    product_ids: tuple[int, ...]
    inputs: tuple[Pdo, ...]
    outputs: tuple[Pdo, ...]
    assign: bool
    scales: tuple[tuple[str, Scale], ...]
    startup: tuple[SdoWrite, ...]
    bias: Bias | None
    status: tuple[StatusBits, ...]

    @property
    def input_entries(self) -> tuple[Entry, ...]:
        """Of all TxPDOs, in order."""
        return tuple(entry for pdo in self.inputs for entry in pdo.entries)

    @property
    def output_entries(self) -> tuple[Entry, ...]:
        """Of all RxPDOs, in order."""
        return tuple(entry for pdo in self.outputs for entry in pdo.entries)

    @property
    def has_wrench(self) -> bool:
        """Whether it is a force-torque sensor."""
        return WRENCH[0] in {entry.field for entry in self.input_entries}

    @property
    def voltages(self) -> tuple[str, ...]:
        """Fields of its analogue inputs, by number."""
        found = [entry.field for entry in self.input_entries if _VOLTAGE.fullmatch(entry.field)]
        return tuple(sorted(found, key=lambda name: int(name.rpartition("_")[2])))


def fits(value: float, kind: str) -> bool:
    """Whether an integer type of that name, `uint8`, holds a number."""
    bits = int(kind.lstrip("uint"))
    least, most = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return value == int(value) and least <= value <= most


def contradictions(one: SensorDescription) -> Iterator[str]:
    """What is right by itself, and does not go together."""
    scales = dict(one.scales)
    inputs = {entry.field: entry for entry in one.input_entries if entry.field}
    outputs = {entry.field: entry for entry in one.output_entries if entry.field}
    for where, entries in (("inputs", one.input_entries), ("outputs", one.output_entries)):
        fields = [entry.field for entry in entries if entry.field]
        for field in sorted({field for field in fields if fields.count(field) > 1}):
            yield f"{where}: field {field} is there {fields.count(field)} times"
        size = sum(entry.size for entry in entries)
        if size > _LARGEST_FRAME:
            yield f"{where}: {size} bytes, at most {_LARGEST_FRAME} fit into a frame"
        for entry in entries:
            if entry.scale and entry.scale not in scales:
                yield f"{where}: {entry.field or 'an entry'} has scale {entry.scale}, which `scales` does not have"
    present = [field for field in WRENCH if field in inputs]
    missing = [field for field in WRENCH if field not in inputs]
    if present and missing:
        yield f"inputs: {', '.join(missing)} missing beside {', '.join(present)}"
    if not present and not one.voltages:
        yield "inputs: neither force_x to torque_z nor voltage_1 among the fields: nothing to publish"
    for field, entry in inputs.items():
        wanted = _dimension(field)
        if wanted and not entry.scale:
            yield f"inputs: {field} has no scale"
        elif wanted and entry.scale in scales:
            wrong = [unit for unit in scales[entry.scale].units if UNITS[unit][0] != wanted]
            if wrong:
                yield f"scales.{entry.scale}: unit {', '.join(wrong)} of {field}, which is in {wanted}"
    for name, scale in scales.items():
        if scale.factor == 0.0:
            yield f"scales.{name}.factor: 0 is not allowed"
    for entry in outputs.values():
        if not entry.type.startswith(("int", "uint")) or not fits(entry.initial, entry.type):
            yield f"outputs: initial {entry.initial} of {entry.field} is no number that {entry.type} holds"
    if one.bias is not None:
        output = outputs.get(one.bias.output)
        if output is None or not (fits(one.bias.set, output.type) and fits(one.bias.clear, output.type)):
            yield f"bias: no output {one.bias.output} that holds {one.bias.set:#x} and {one.bias.clear:#x}"
    for bits in one.status:
        entry_of = inputs.get(bits.field)
        if entry_of is None or not entry_of.type.startswith("uint") or not fits(bits.mask, entry_of.type):
            yield f"status: no input {bits.field} of an unsigned type that holds the mask {bits.mask:#x}"


def _dimension(field: str) -> str:
    """SI unit that a field has to be in; empty: any."""
    if field in WRENCH:
        return "N" if field.startswith("force") else "N m"
    return "V" if _VOLTAGE.fullmatch(field) else ""
