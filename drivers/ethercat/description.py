"""EtherCAT sensors as files describe them: identity, process data, units, start-up, and what status bits mean.

A file of `config/ethercat/`, or one of the user's own:

    name: ATI Axia80
    vendor_id: 0x732              # null: not checked
    product_ids: [0x26483052]     # empty: not checked
    inputs:                       # TxPDOs, in the order in which 0x1C13 holds them
      - pdo: 0x1A00
        entries:                  # little-endian, one behind the other
          - {index: 0x6000, subindex: 0x01, type: int32, field: force_x, scale: force}
          - {type: uint16}        # without index: whatever the device has there; without field: not read
    outputs:                      # RxPDOs, of 0x1C12
      - pdo: 0x1601
        entries:
          - {index: 0x7010, subindex: 0x01, type: uint32, field: control, initial: 0}
    assign: false                 # true: 0x1C12 and 0x1C13 are written at start, for devices that offer several PDOs
    scales:                       # value = (raw * factor + offset) in that unit; raw / factor where `divide` is true
      force:
        factor: {index: 0x2021, subindex: 0x37, type: uint32, expected: 1000000}   # or a number
        divide: true
        offset: 0.0               # a number or an object, in the unit
        largest: 4000.0           # N, N m: no such sensor gives more, such readings are left out; null: 100 kN, 10 kN m
        unit: {index: 0x2021, subindex: 0x2F, type: uint8, codes: {0: lbf, 1: N}, expected: 1}   # or N
    startup:                      # written in PREOP, in this order, at every start of the device
      - {index: 0x8010, subindex: 1, type: uint8, value: 1, why: calibration matrix on}
    status:
      - {field: status, mask: 0x40000000, level: overload, meaning: a force or torque is out of range}

Forces and torques are the fields `force_x` to `torque_z`; analogue inputs are `voltage_1`, `voltage_2`, ...; `counter`
is the device's count of its readings: by it those that come twice are left out, without it those whose process data all
stand for longer than a second. `expected` is what such an object usually holds: the emulator answers with it, the
driver reads the device's own.

Each class here is a mapping of the file, and the annotation of each of its fields says what is allowed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import numpy as np

from drivers.ethercat.typed_reader import Allowed, Flag, Number, Text, number, one_of, read, whole
from onboard_estimation.base.bounded_file import read_bounded
from onboard_estimation.base.configuration import ConfigurationError
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import resource
from onboard_estimation.base.parameter_file import read_yaml

FOLDER = "config/ethercat"
WRENCH = ("force_x", "force_y", "force_z", "torque_x", "torque_y", "torque_z")
COUNTER = "counter"
LARGEST = {"N": 1e5, "N m": 1e4}
"""Of any sensor's forces and torques, where its file does not say."""
_NAMES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
TYPES = {name: np.dtype(name).newbyteorder("<") for name in _NAMES}
"""That process data and objects may have."""

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
_FIELD = re.compile(r"([a-z][a-z0-9_]*)?", re.ASCII)
_VOLTAGE = re.compile(r"voltage_([1-9][0-9]?)", re.ASCII)
_LARGEST_FRAME = 1486
"""Bytes of process data that fit into one frame."""
_MOST_BYTES = 65536

Index: TypeAlias = Annotated[int, whole(1, 0xFFFF)]
Byte: TypeAlias = Annotated[int, whole(0, 255)]
Word: TypeAlias = Annotated[int, whole(0, 2**32 - 1)]
TypeName: TypeAlias = Annotated[str, one_of(TYPES)]
Unit: TypeAlias = Annotated[str, one_of(UNITS)]
FieldName: TypeAlias = Annotated[
    str, Allowed("small letters, digits and _", lambda one: isinstance(one, str) and bool(_FIELD.fullmatch(one)))
]


@dataclass(frozen=True, kw_only=True)
class ObjectAddress:
    """Where an object stands in the device's dictionary, and its type, one of `TYPES`."""

    index: Index
    subindex: Byte = 0
    type: TypeName

    def __str__(self) -> str:
        return f"0x{self.index:04X}:{self.subindex:02X}"


@dataclass(frozen=True, kw_only=True)
class SdoObject(ObjectAddress):
    """An object that is read; `expected` is what it usually holds, where that is known."""

    expected: Number | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitCode(SdoObject):
    """A unit that an object of the device tells; `otherwise` is taken for codes not listed, empty: they are refused."""

    codes: dict[Word, Unit]
    otherwise: Unit = ""


@dataclass(frozen=True, kw_only=True)
class SdoWrite(ObjectAddress):
    """A value for an object at start."""

    value: Number
    why: Text = "start-up"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A piece of process data.

    Attributes
    ----------
    index, subindex
        Object that is mapped there; index None: not checked.
    type
        One of `TYPES`.
    field
        What the driver calls it; empty: it is not read.
    scale
        Name of its scale; empty: a bare number.
    initial
        What an output is set to.
    """

    index: Index | None = None
    subindex: Byte = 0
    type: TypeName
    field: FieldName = ""
    scale: Text = ""
    initial: Annotated[int, whole(0, 2**63 - 1)] = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return TYPES[self.type].itemsize

    @property
    def mapping(self) -> int:
        """As the device's dictionary has it: index << 16 | subindex << 8 | bits."""
        return (self.index or 0) << 16 | self.subindex << 8 | 8 * self.size


@dataclass(frozen=True, kw_only=True)
class Pdo:
    """A process data object: index in the dictionary, and what is in it."""

    pdo: Annotated[int, whole(0x1600, 0x1BFF)]
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scale:
    """From raw numbers to a unit: raw * factor + offset, or raw / factor + offset."""

    factor: Number | SdoObject = 1.0
    divide: Flag = False
    offset: Number | SdoObject = 0.0
    largest: Annotated[float, number(1e-9, 1e9)] | None = None
    unit: Unit | UnitCode

    @property
    def units(self) -> tuple[str, ...]:
        """All that may come out."""
        if isinstance(self.unit, str):
            return (self.unit,)
        return tuple(filter(None, (*self.unit.codes.values(), self.unit.otherwise)))


@dataclass(frozen=True, kw_only=True)
class StatusBits:
    """What it means when any bit of the mask is set.

    Attributes
    ----------
    level
        `warning`: readings hold; `overload`: a reading is out of range; `error`: readings are none.
    """

    field: Text
    mask: Annotated[int, whole(1, 2**64 - 1)]
    level: Annotated[Level, one_of(get_args(Level))]
    meaning: Text


@dataclass(frozen=True, kw_only=True)
class SensorDescription:
    """One kind of device, see the module."""

    name: Text
    vendor_id: Word | None = None
    product_ids: tuple[Word, ...] = ()
    inputs: tuple[Pdo, ...] = ()
    outputs: tuple[Pdo, ...] = ()
    assign: Flag = False
    scales: dict[Text, Scale] = field(default_factory=dict)
    startup: tuple[SdoWrite, ...] = ()
    status: tuple[StatusBits, ...] = ()

    @property
    def parts(self) -> dict[str, tuple[Pdo, ...]]:
        """Inputs and outputs by their names."""
        return {"inputs": self.inputs, "outputs": self.outputs}

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
        return any(entry.field == WRENCH[0] for entry in self.input_entries)

    @property
    def voltages(self) -> tuple[str, ...]:
        """Fields of its analogue inputs, by number."""
        found = [entry.field for entry in self.input_entries if _VOLTAGE.fullmatch(entry.field)]
        return tuple(sorted(found, key=lambda name: int(name.rpartition("_")[2])))

    @property
    def fields(self) -> tuple[str, ...]:
        """What is read of it."""
        return WRENCH if self.has_wrench else self.voltages

    @property
    def has_counter(self) -> bool:
        """Whether it counts its readings."""
        return any(entry.field == COUNTER for entry in self.input_entries)

    @property
    def largest(self) -> tuple[float, ...]:
        """Of each of `fields`, the largest absolute value that such a sensor gives, in SI units."""
        return tuple(
            LARGEST.get(_dimension(one), math.inf) if (largest := self.scale_of[one].largest) is None else largest
            for one in self.fields
        )

    @property
    def scale_of(self) -> dict[str, Scale]:
        """By field of the inputs, of those that have one."""
        return {entry.field: self.scales[entry.scale] for entry in self.input_entries if entry.scale}


def shipped() -> dict[str, Path]:
    """The files that come along, by name."""
    return {path.stem: path for path in sorted(resource(FOLDER).glob("*.yaml"))}


def find(name: str) -> SensorDescription:
    """Of a shipped file by its name, `ati_axia80`, or of any file by its path.

    Raises
    ------
    UserError
        There is no such file, or it cannot be read.
    ConfigurationError
        With all its faults.
    """
    path = Path(name)
    if path.suffix != ".yaml":
        known = shipped()
        if name not in known:
            raise UserError(f"sensor {name!r}: not among {', '.join(known)}; or give the path of a .yaml file")
        path = known[name]
    return parse(read_bounded(path, f"sensor description {path}", _MOST_BYTES), str(path))


def parse(data: bytes, source: str = "sensor description") -> SensorDescription:
    """The description in a file's bytes.

    Raises
    ------
    ConfigurationError
        With all faults.
    """
    try:
        content, faults = read_yaml(data.decode())
    except (UserError, UnicodeDecodeError) as error:
        raise ConfigurationError(source, [f"no YAML: {str(error)[:300]}"]) from error
    description: SensorDescription = read(SensorDescription, content, faults)
    if faults := faults or list(_contradictions(description)):
        raise ConfigurationError(source, faults)
    return description


def _holds(one: Entry | ObjectAddress | None, *values: float) -> bool:
    """Whether something of a whole type is there, and these are numbers of it."""
    if one is None or one.type.startswith("float"):
        return False
    info = np.iinfo(TYPES[one.type])
    return all(value == int(value) and info.min <= value <= info.max for value in values)


def _contradictions(one: SensorDescription) -> Iterator[str]:
    """What is right by itself, and does not go together."""
    for part, first, entries in (("inputs", 0x1A00, one.input_entries), ("outputs", 0x1600, one.output_entries)):
        for pdo in one.parts[part]:
            if not first <= pdo.pdo <= first + 0x1FF:
                yield f"{part}: pdo {pdo.pdo:#x} is not allowed; has to be from {first:#x} to {first + 0x1FF:#x}"
        named = [entry.field for entry in entries if entry.field]
        for name in sorted({name for name in named if named.count(name) > 1}):
            yield f"{part}: field {name} is there {named.count(name)} times"
        if (size := sum(entry.size for entry in entries)) > _LARGEST_FRAME:
            yield f"{part}: {size} bytes, at most {_LARGEST_FRAME} fit into a frame"
        for entry in entries:
            if entry.scale and entry.scale not in one.scales:
                yield f"{part}: {entry.field or 'an entry'} has scale {entry.scale}, which `scales` does not have"
    yield from _without_reading(one)
    for name, scale in one.scales.items():
        if scale.factor == 0.0:
            yield f"scales.{name}.factor: 0 is not allowed"
    for place, write in enumerate(one.startup):
        if not write.type.startswith("float") and not _holds(write, write.value):
            yield f"startup[{place}].value: {write.value:g} is not allowed; has to be a number that {write.type} holds"
    inputs, outputs = ({each.field: each for each in part} for part in (one.input_entries, one.output_entries))
    for name, entry in outputs.items():
        if name and not _holds(entry, entry.initial):
            yield f"outputs: initial {entry.initial} of {name} is no number that {entry.type} holds"
    for bits in one.status:
        told = inputs.get(bits.field)
        if not _holds(told, bits.mask) or (told and not told.type.startswith("uint")):
            yield f"status: no input {bits.field} of an unsigned type that holds the mask {bits.mask:#x}"


def _without_reading(one: SensorDescription) -> Iterator[str]:
    """Why there are no forces, torques or voltages in the inputs."""
    inputs = {entry.field: entry for entry in one.input_entries}
    missing = [name for name in WRENCH if name not in inputs]
    if 0 < len(missing) < len(WRENCH):
        yield f"inputs: {', '.join(missing)} missing beside {', '.join(name for name in WRENCH if name in inputs)}"
    if missing == list(WRENCH) and not one.voltages:
        yield "inputs: neither force_x to torque_z nor voltage_1 among the fields: nothing to publish"
    for name, entry in inputs.items():
        if wanted := _dimension(name):
            units = one.scales[entry.scale].units if entry.scale in one.scales else ()
            wrong = [unit for unit in units if UNITS[unit][0] != wanted]
            if not entry.scale:
                yield f"inputs: {name} has no scale"
            elif wrong:
                yield f"scales.{entry.scale}: unit {', '.join(wrong)} of {name}, which is in {wanted}"


def _dimension(name: str) -> str:
    """SI unit that a field has to be in; empty: any."""
    if name in WRENCH:
        return "N" if name.startswith("force") else "N m"
    return "V" if _VOLTAGE.fullmatch(name) else ""
