"""EtherCAT sensors as files describe them: identity, process data, units, start-up, bias, and what status bits mean.

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
        unit: {index: 0x2021, subindex: 0x2F, type: uint8, codes: {0: lbf, 1: N}, expected: 1}   # or N
    startup:                      # written in PREOP, in this order, at every start of the device
      - {index: 0x8010, subindex: 1, type: uint8, value: 1, why: calibration matrix on}
    bias: {output: control, set: 0x1, clear: 0x4, hold_s: 0.05}   # null: the device has none
    status:
      - {field: status, mask: 0x40000000, level: overload, meaning: a force or torque is out of range}

`expected` is what such an object usually holds: the emulator answers with it, the driver reads the device's own.
Forces and torques are the fields `force_x` to `torque_z`; analogue inputs are `voltage_1`, `voltage_2`, ...
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from onboard_estimation.configuration import ConfigurationError
from onboard_estimation.errors import UserError
from onboard_estimation.resources import resource

FOLDER = "config/ethercat"
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
_LEVELS = ("warning", "overload", "error")
_FIELD = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_VOLTAGE = re.compile(r"voltage_([1-9][0-9]?)", re.ASCII)
_MOST_BYTES = 65536
_MOST = 256
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
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UserError(f"sensor description {path} cannot be read: {error.strerror}") from error
    return parse(data, str(path))


def parse(data: bytes, source: str = "sensor description") -> SensorDescription:
    """The description in a file's bytes.

    Raises
    ------
    ConfigurationError
        With all faults.
    """
    if len(data) > _MOST_BYTES:
        raise ConfigurationError(source, [f"more than {_MOST_BYTES} bytes"])
    try:
        content = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ConfigurationError(source, [f"no YAML: {' '.join(str(error).split())[:300]}"]) from error
    reader = _Reader()
    description = reader.description(content)
    if not reader.faults:
        reader.faults += _contradictions(description)
    if reader.faults:
        raise ConfigurationError(source, reader.faults)
    return description


class _Reader:
    """Reads parts of a file, with stand-ins for what is wrong, so that all faults are found in one pass."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def description(self, content: Any) -> SensorDescription:
        """The whole file."""
        names = ("name", "vendor_id", "product_ids", "inputs", "outputs", "assign", "scales", "startup", "bias")
        top = self._mapping("file", content, (*names, "status"))
        vendor_id = None
        if top.get("vendor_id") is not None:
            vendor_id = self._integer("vendor_id", top["vendor_id"], 0, 2**32 - 1)
        ids = enumerate(self._list("product_ids", top.get("product_ids")))
        products = tuple(self._integer(f"product_ids[{place}]", one, 0, 2**32 - 1) for place, one in ids)
        scales = top.get("scales")
        scales = {} if scales is None else scales
        if not isinstance(scales, Mapping) or len(scales) > _MOST:
            self._fault("scales", scales, "a mapping of names to scales")
            scales = {}
        bias = top.get("bias")
        return SensorDescription(
            name=self._text("name", top.get("name")),
            vendor_id=vendor_id,
            product_ids=products,
            inputs=tuple(self._pdos("inputs", top.get("inputs"), 0x1A00)),
            outputs=tuple(self._pdos("outputs", top.get("outputs"), 0x1600)),
            assign=self._flag("assign", top.get("assign", False)),
            scales=tuple((str(name), self._scale(f"scales.{name}", one)) for name, one in scales.items()),
            startup=tuple(
                self._write(f"startup[{place}]", one)
                for place, one in enumerate(self._list("startup", top.get("startup")))
            ),
            bias=None if bias is None else self._bias(bias),
            status=tuple(
                self._status(f"status[{place}]", one)
                for place, one in enumerate(self._list("status", top.get("status")))
            ),
        )

    def _pdos(self, where: str, content: Any, first: int) -> Iterator[Pdo]:
        for place, one in enumerate(self._list(where, content)):
            here = f"{where}[{place}]"
            pdo = self._mapping(here, one, ("pdo", "entries"))
            index = self._integer(f"{here}.pdo", pdo.get("pdo"), first, first + 0x1FF)
            listed = enumerate(self._list(f"{here}.entries", pdo.get("entries")))
            yield Pdo(index, tuple(self._entry(f"{here}.entries[{each}]", entry) for each, entry in listed))

    def _entry(self, where: str, content: Any) -> Entry:
        entry = self._mapping(where, content, ("index", "subindex", "type", "field", "scale", "initial"))
        index = entry.get("index")
        field = entry.get("field", "")
        if field != "" and not (isinstance(field, str) and _FIELD.fullmatch(field)):
            self._fault(f"{where}.field", field, "small letters, digits and _, or nothing")
            field = ""
        return Entry(
            index=None if index is None else self._integer(f"{where}.index", index, 1, 0xFFFF),
            subindex=self._integer(f"{where}.subindex", entry.get("subindex", 0), 0, 255),
            type=self._type(f"{where}.type", entry.get("type")),
            field=field,
            scale=self._text(f"{where}.scale", entry["scale"]) if "scale" in entry else "",
            initial=self._integer(f"{where}.initial", entry.get("initial", 0), 0, 2**63 - 1),
        )

    def _scale(self, where: str, content: Any) -> Scale:
        scale = self._mapping(where, content, ("factor", "divide", "offset", "unit"))
        unit = scale.get("unit")
        return Scale(
            factor=self._number_or_object(f"{where}.factor", scale.get("factor", 1.0)),
            divide=self._flag(f"{where}.divide", scale.get("divide", False)),
            offset=self._number_or_object(f"{where}.offset", scale.get("offset", 0.0)),
            unit=self._unit_code(f"{where}.unit", unit)
            if isinstance(unit, Mapping)
            else self._unit(f"{where}.unit", unit),
        )

    def _unit_code(self, where: str, content: Any) -> UnitCode:
        told = self._mapping(where, content, ("index", "subindex", "type", "expected", "codes", "otherwise"))
        codes = told.get("codes")
        if not isinstance(codes, Mapping) or not 0 < len(codes) <= _MOST:
            self._fault(f"{where}.codes", codes, "a mapping of codes to units")
            codes = {}
        rows = [(self._integer(f"{where}.codes", code, 0, 2**32 - 1), name) for code, name in codes.items()]
        units = tuple((code, self._unit(f"{where}.codes[{code}]", name)) for code, name in rows)
        otherwise = self._unit(f"{where}.otherwise", told["otherwise"]) if "otherwise" in told else ""
        return UnitCode(self._object(where, told), units, otherwise)

    def _write(self, where: str, content: Any) -> SdoWrite:
        write = self._mapping(where, content, ("index", "subindex", "type", "value", "why"))
        there = self._object(where, write)
        value = self._number(f"{where}.value", write.get("value"))
        if there.type.startswith(("int", "uint")) and not _fits(value, there.type):
            self._fault(f"{where}.value", value, f"a number that {there.type} holds")
        return SdoWrite(there, value, self._text(f"{where}.why", write.get("why", "start-up")))

    def _bias(self, content: Any) -> Bias:
        bias = self._mapping("bias", content, ("output", "set", "clear", "hold_s"))
        return Bias(
            output=self._text("bias.output", bias.get("output")),
            set=self._integer("bias.set", bias.get("set"), 1, 2**32 - 1),
            clear=self._integer("bias.clear", bias.get("clear", 0), 0, 2**32 - 1),
            hold_s=self._number("bias.hold_s", bias.get("hold_s", 0.05), 0.001, 5.0),
        )

    def _status(self, where: str, content: Any) -> StatusBits:
        bits = self._mapping(where, content, ("field", "mask", "level", "meaning"))
        level = bits.get("level")
        if level not in _LEVELS:
            self._fault(f"{where}.level", level, f"one of {', '.join(_LEVELS)}")
        return StatusBits(
            field=self._text(f"{where}.field", bits.get("field")),
            mask=self._integer(f"{where}.mask", bits.get("mask"), 1, 2**64 - 1),
            level=cast(Level, level),
            meaning=self._text(f"{where}.meaning", bits.get("meaning")),
        )

    def _object(self, where: str, told: Mapping[Any, Any]) -> SdoObject:
        expected = told.get("expected")
        return SdoObject(
            index=self._integer(f"{where}.index", told.get("index"), 1, 0xFFFF),
            subindex=self._integer(f"{where}.subindex", told.get("subindex", 0), 0, 255),
            type=self._type(f"{where}.type", told.get("type")),
            expected=None if expected is None else self._number(f"{where}.expected", expected),
        )

    def _number_or_object(self, where: str, content: Any) -> float | SdoObject:
        if isinstance(content, Mapping):
            return self._object(where, self._mapping(where, content, ("index", "subindex", "type", "expected")))
        return self._number(where, content)

    def _type(self, where: str, content: Any) -> str:
        if isinstance(content, str) and content in CODES:
            return content
        self._fault(where, content, f"one of {', '.join(CODES)}")
        return "uint8"

    def _unit(self, where: str, content: Any) -> str:
        if isinstance(content, str) and content in UNITS:
            return content
        self._fault(where, content, f"one of {', '.join(UNITS)}")
        return "N"

    def _mapping(self, where: str, content: Any, names: Collection[str]) -> Mapping[Any, Any]:
        if not isinstance(content, Mapping):
            self._fault(where, content, f"a mapping with {', '.join(names)}")
            return {}
        for name in content:
            if name not in names:
                self.faults.append(f"{where}: {str(name)[:40]!r} is unknown; known: {', '.join(names)}")
        return content

    def _list(self, where: str, content: Any) -> list[Any]:
        if content is None:
            return []
        if isinstance(content, list) and len(content) <= _MOST:
            return content
        self._fault(where, content, f"a list of at most {_MOST}")
        return []

    def _integer(self, where: str, content: Any, least: int, most: int) -> int:
        if isinstance(content, int) and not isinstance(content, bool) and least <= content <= most:
            return content
        self._fault(where, content, f"a whole number from {least:#x} to {most:#x}")
        return least

    def _number(self, where: str, content: Any, least: float = -math.inf, most: float = math.inf) -> float:
        if isinstance(content, str):  # of YAML 1.1, 1e-6 is a text, and 1.0e-6 a number
            with suppress(ValueError):
                content = float(content)
        if isinstance(content, (int, float)) and not isinstance(content, bool):
            number = float(content) if abs(content) < 1e300 else math.inf
            if math.isfinite(number) and least <= number <= most:
                return number
        self._fault(where, content, "a number" if least == -math.inf else f"a number from {least:g} to {most:g}")
        return 1.0

    def _text(self, where: str, content: Any) -> str:
        if isinstance(content, str) and 0 < len(content) <= 200 and content.isprintable():
            return content
        self._fault(where, content, "a text")
        return "?"

    def _flag(self, where: str, content: Any) -> bool:
        if isinstance(content, bool):
            return content
        self._fault(where, content, "true or false")
        return False

    def _fault(self, where: str, content: Any, allowed: str) -> None:
        given = "nothing" if content is None else type(content).__name__
        if isinstance(content, (str, int, float)):
            given = repr(content) if not isinstance(content, int) or abs(content) < 2**70 else "a huge number"
        self.faults.append(f"{where}: {given[:80]} is not allowed; has to be {allowed}")


def _fits(value: float, kind: str) -> bool:
    bits = int(kind.lstrip("uint"))
    least, most = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return value == int(value) and least <= value <= most


def _contradictions(one: SensorDescription) -> Iterator[str]:
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
        if not entry.type.startswith(("int", "uint")) or not _fits(entry.initial, entry.type):
            yield f"outputs: initial {entry.initial} of {entry.field} is no number that {entry.type} holds"
    if one.bias is not None:
        output = outputs.get(one.bias.output)
        if output is None or not (_fits(one.bias.set, output.type) and _fits(one.bias.clear, output.type)):
            yield f"bias: no output {one.bias.output} that holds {one.bias.set:#x} and {one.bias.clear:#x}"
    for bits in one.status:
        entry_of = inputs.get(bits.field)
        if entry_of is None or not entry_of.type.startswith("uint") or not _fits(bits.mask, entry_of.type):
            yield f"status: no input {bits.field} of an unsigned type that holds the mask {bits.mask:#x}"


def _dimension(field: str) -> str:
    """SI unit that a field has to be in; empty: any."""
    if field in WRENCH:
        return "N" if field.startswith("force") else "N m"
    return "V" if _VOLTAGE.fullmatch(field) else ""
