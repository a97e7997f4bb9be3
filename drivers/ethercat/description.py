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
        largest: 4000.0           # N, N m: no such sensor gives more, such readings are left out; null: 100 kN, 10 kN m
        unit: {index: 0x2021, subindex: 0x2F, type: uint8, codes: {0: lbf, 1: N}, expected: 1}   # or N
    startup:                      # written in PREOP, in this order, at every start of the device
      - {index: 0x8010, subindex: 1, type: uint8, value: 1, why: calibration matrix on}
    bias: {output: control, set: 0x1, clear: 0x4, hold_s: 0.05}   # null: the device has none
    status:
      - {field: status, mask: 0x40000000, level: overload, meaning: a force or torque is out of range}

Forces and torques are the fields `force_x` to `torque_z`; analogue inputs are `voltage_1`, `voltage_2`, ...; `counter`
is the device's count of its readings: by it those that come twice are left out, without it those whose process data all
stand for longer than a second. `expected` is what such an object usually holds: the emulator answers with it, the
driver reads the device's own.

Each class here is a mapping of the file, and each of its fields says how it is read; all faults are found at once.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

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
CODES = {
    "int8": "<b", "uint8": "<B", "int16": "<h", "uint16": "<H", "int32": "<i", "uint32": "<I", "int64": "<q",
    "uint64": "<Q", "float32": "<f", "float64": "<d",
}  # fmt: skip
"""Codes, of NumPy as of `struct`, of the types that process data and objects may have."""

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
_MOST = 256
"""Of entries, PDOs, SDOs, status bits: more is no sensor."""
_LARGEST_FRAME = 1486
"""Bytes of process data that fit into one frame."""
_MOST_BYTES = 65536

_Reader = Callable[[str, Any, list[str]], Any]
"""Makes a value of what the file has at a place, None where it is wrong, and why is added to the list."""


def _read(how: _Reader, default: Any = MISSING) -> Any:
    """A field that is read so; without a default it has to be there."""
    return field(default=default, metadata={"how": how})


def _leaf(allowed: str, accepts: Callable[[Any], bool]) -> _Reader:
    def read(where: str, content: Any, faults: list[str]) -> Any:
        if not accepts(content):
            given = "nothing" if content is None else type(content).__name__
            if isinstance(content, (str, int, float)):
                given = repr(content) if not isinstance(content, int) or abs(content) < 2**70 else "a huge number"
            faults.append(f"{where}: {given[:80]} is not allowed; has to be {allowed}")
            return None
        return content

    return read


def _whole(least: int, most: int) -> _Reader:
    return _leaf(f"a whole number from {least:#x} to {most:#x}", lambda one: type(one) is int and least <= one <= most)


def _code(where: str, name: Any, faults: list[str]) -> Any:
    """A whole number as a name of a mapping, where numbers are read as texts."""
    with suppress(ValueError):
        name = int(name, 0)
    return _whole(0, 2**32 - 1)(where, name, faults)


def _number(least: float = -math.inf, most: float = math.inf) -> _Reader:
    check = _leaf(
        "a number" if least == -math.inf else f"a number from {least:g} to {most:g}",
        lambda one: type(one) in (int, float) and abs(one) < 1e300 and least <= one <= most,
    )

    def read(where: str, content: Any, faults: list[str]) -> Any:
        number = check(where, content, faults)
        return None if number is None else float(number)

    return read


def _one_of(names: Collection[str]) -> _Reader:
    return _leaf(f"one of {', '.join(names)}", lambda one: isinstance(one, str) and one in names)


def _record(kind: type[Any]) -> _Reader:
    """A mapping of the fields of a class to its instance."""
    known = {one.name: one for one in fields(kind)}

    def read(where: str, content: Any, faults: list[str]) -> Any:
        listed = ", ".join(known)
        if not isinstance(content, Mapping):
            return _leaf(f"a mapping with {listed}", lambda _: False)(where or "file", content, faults)
        strange = [str(name)[:40] for name in content if name not in known]
        faults += [f"{where or 'file'}: {name!r} is unknown; known: {listed}" for name in strange]
        values = {}
        for name, one in known.items():
            given = content.get(name)
            left_out = name not in content or (given is None and one.default in (None, ()))
            if left_out and one.default is not MISSING:
                values[name] = one.default
            else:
                values[name] = one.metadata["how"](f"{where}.{name}".lstrip("."), given, faults)
        return kind(**values)

    return read


def _listed(how: _Reader) -> _Reader:
    check = _leaf(f"a list of at most {_MOST}", lambda one: isinstance(one, list) and len(one) <= _MOST)

    def read(where: str, content: Any, faults: list[str]) -> Any:
        rows = check(where, content, faults) or ()
        return tuple(how(f"{where}[{place}]", one, faults) for place, one in enumerate(rows))

    return read


def _named(what: str, name_of: _Reader, how: _Reader) -> _Reader:
    """A mapping, as pairs of name and value."""
    check = _leaf(what, lambda one: isinstance(one, Mapping) and len(one) <= _MOST)

    def read(where: str, content: Any, faults: list[str]) -> Any:
        rows = check(where, content, faults) or {}
        return tuple((name_of(where, name, faults), how(f"{where}[{name}]", one, faults)) for name, one in rows.items())

    return read


def _either(record: _Reader, otherwise: _Reader) -> _Reader:
    return lambda where, content, faults: (record if isinstance(content, Mapping) else otherwise)(
        where, content, faults
    )


_FLAG = _leaf("true or false", lambda one: isinstance(one, bool))
_TEXT = _leaf("a text", lambda one: isinstance(one, str) and 0 < len(one) <= 200 and one.isprintable())
_UNIT = _one_of(UNITS)


@dataclass(frozen=True, kw_only=True)
class ObjectAddress:
    """Where an object stands in the device's dictionary, and its type, one of `CODES`."""

    index: int = _read(_whole(1, 0xFFFF))
    subindex: int = _read(_whole(0, 255), 0)
    type: str = _read(_one_of(CODES))

    def __str__(self) -> str:
        return f"0x{self.index:04X}:{self.subindex:02X}"


@dataclass(frozen=True, kw_only=True)
class SdoObject(ObjectAddress):
    """An object that is read; `expected` is what it usually holds, where that is known."""

    expected: float | None = _read(_number(), None)


@dataclass(frozen=True, kw_only=True)
class UnitCode(SdoObject):
    """A unit that an object of the device tells; `otherwise` is taken for codes not listed, empty: they are refused."""

    codes: tuple[tuple[int, str], ...] = _read(_named("a mapping of codes to units", _code, _UNIT))
    otherwise: str = _read(_UNIT, "")


@dataclass(frozen=True, kw_only=True)
class SdoWrite(ObjectAddress):
    """A value for an object at start."""

    value: float = _read(_number())
    why: str = _read(_TEXT, "start-up")


@dataclass(frozen=True, kw_only=True)
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

    index: int | None = _read(_whole(1, 0xFFFF), None)
    subindex: int = _read(_whole(0, 255), 0)
    type: str = _read(_one_of(CODES))
    field: str = _read(
        _leaf(
            "small letters, digits and _, or nothing", lambda one: isinstance(one, str) and bool(_FIELD.fullmatch(one))
        ),
        "",
    )
    scale: str = _read(_TEXT, "")
    initial: int = _read(_whole(0, 2**63 - 1), 0)

    @property
    def size(self) -> int:
        """Bytes."""
        return struct.calcsize(CODES[self.type])

    @property
    def mapping(self) -> int:
        """As the device's dictionary has it: index << 16 | subindex << 8 | bits."""
        return (self.index or 0) << 16 | self.subindex << 8 | 8 * self.size


@dataclass(frozen=True, kw_only=True)
class Pdo:
    """A process data object: index in the dictionary, and what is in it."""

    pdo: int = _read(_whole(0x1600, 0x1BFF))
    entries: tuple[Entry, ...] = _read(_listed(_record(Entry)), ())


@dataclass(frozen=True, kw_only=True)
class Scale:
    """From raw numbers to a unit: raw * factor + offset, or raw / factor + offset."""

    factor: float | SdoObject = _read(_either(_record(SdoObject), _number()), 1.0)
    divide: bool = _read(_FLAG, False)
    offset: float | SdoObject = _read(_either(_record(SdoObject), _number()), 0.0)
    largest: float | None = _read(_number(1e-9, 1e9), None)
    unit: str | UnitCode = _read(_either(_record(UnitCode), _UNIT))

    @property
    def units(self) -> tuple[str, ...]:
        """All that may come out."""
        if isinstance(self.unit, str):
            return (self.unit,)
        return tuple(filter(None, (*(name for _, name in self.unit.codes), self.unit.otherwise)))


@dataclass(frozen=True, kw_only=True)
class Bias:
    """Bits of an output that make the device take its present reading as zero, and forget that."""

    output: str = _read(_TEXT)
    set: int = _read(_whole(1, 2**32 - 1))
    clear: int = _read(_whole(0, 2**32 - 1), 0)
    hold_s: float = _read(_number(0.001, 5.0), 0.05)


@dataclass(frozen=True, kw_only=True)
class StatusBits:
    """What it means when any bit of the mask is set.

    Attributes
    ----------
    level
        `warning`: readings hold; `overload`: a reading is out of range; `error`: readings are none.
    """

    field: str = _read(_TEXT)
    mask: int = _read(_whole(1, 2**64 - 1))
    level: Level = _read(_one_of(("warning", "overload", "error")))
    meaning: str = _read(_TEXT)


@dataclass(frozen=True, kw_only=True)
class SensorDescription:
    """One kind of device, see the module."""

    name: str = _read(_TEXT)
    vendor_id: int | None = _read(_whole(0, 2**32 - 1), None)
    product_ids: tuple[int, ...] = _read(_listed(_whole(0, 2**32 - 1)), ())
    inputs: tuple[Pdo, ...] = _read(_listed(_record(Pdo)), ())
    outputs: tuple[Pdo, ...] = _read(_listed(_record(Pdo)), ())
    assign: bool = _read(_FLAG, False)
    scales: tuple[tuple[str, Scale], ...] = _read(
        _named("a mapping of names to scales", lambda _, name, __: str(name), _record(Scale)), ()
    )
    startup: tuple[SdoWrite, ...] = _read(_listed(_record(SdoWrite)), ())
    bias: Bias | None = _read(_record(Bias), None)
    status: tuple[StatusBits, ...] = _read(_listed(_record(StatusBits)), ())

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
        scales, name_of = dict(self.scales), {entry.field: entry.scale for entry in self.input_entries}
        given = ((scales[name_of[one]].largest, LARGEST.get(_dimension(one), math.inf)) for one in self.fields)
        return tuple(otherwise if largest is None else largest for largest, otherwise in given)


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
    description = _record(SensorDescription)("", content, faults)
    faults = faults or list(_contradictions(description))
    if faults:
        raise ConfigurationError(source, faults)
    found: SensorDescription = description
    return found


def limits(kind: str) -> tuple[int, int]:
    """Least and largest number of an integer type of that name, `uint8`."""
    bits = int(kind.lstrip("uint"))
    return (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _fits(value: float, kind: str) -> bool:
    least, most = limits(kind)
    return value == int(value) and least <= value <= most


def _contradictions(one: SensorDescription) -> Iterator[str]:
    """What is right by itself, and does not go together."""
    scales = dict(one.scales)
    inputs = {entry.field: entry for entry in one.input_entries if entry.field}
    outputs = {entry.field: entry for entry in one.output_entries if entry.field}
    for where, first, entries in (("inputs", 0x1A00, one.input_entries), ("outputs", 0x1600, one.output_entries)):
        for pdo in one.parts[where]:
            if not first <= pdo.pdo <= first + 0x1FF:
                yield f"{where}: pdo {pdo.pdo:#x} is not allowed; has to be from {first:#x} to {first + 0x1FF:#x}"
        named = [entry.field for entry in entries if entry.field]
        for name in sorted({name for name in named if named.count(name) > 1}):
            yield f"{where}: field {name} is there {named.count(name)} times"
        size = sum(entry.size for entry in entries)
        if size > _LARGEST_FRAME:
            yield f"{where}: {size} bytes, at most {_LARGEST_FRAME} fit into a frame"
        for entry in entries:
            if entry.scale and entry.scale not in scales:
                yield f"{where}: {entry.field or 'an entry'} has scale {entry.scale}, which `scales` does not have"
    present = [name for name in WRENCH if name in inputs]
    if present and len(present) < len(WRENCH):
        missing = ", ".join(name for name in WRENCH if name not in inputs)
        yield f"inputs: {missing} missing beside {', '.join(present)}"
    if not present and not one.voltages:
        yield "inputs: neither force_x to torque_z nor voltage_1 among the fields: nothing to publish"
    for name, entry in inputs.items():
        wanted = _dimension(name)
        if wanted and not entry.scale:
            yield f"inputs: {name} has no scale"
        elif wanted and entry.scale in scales:
            wrong = [unit for unit in scales[entry.scale].units if UNITS[unit][0] != wanted]
            if wrong:
                yield f"scales.{entry.scale}: unit {', '.join(wrong)} of {name}, which is in {wanted}"
    for name, scale in scales.items():
        if scale.factor == 0.0:
            yield f"scales.{name}.factor: 0 is not allowed"
    for place, write in enumerate(one.startup):
        if not write.type.startswith("float") and not _fits(write.value, write.type):
            yield f"startup[{place}].value: {write.value:g} is not allowed; has to be a number that {write.type} holds"
    for entry in outputs.values():
        if entry.type.startswith("float") or not _fits(entry.initial, entry.type):
            yield f"outputs: initial {entry.initial} of {entry.field} is no number that {entry.type} holds"
    if one.bias is not None:
        output = outputs.get(one.bias.output)
        if output is None or not (_fits(one.bias.set, output.type) and _fits(one.bias.clear, output.type)):
            yield f"bias: no output {one.bias.output} that holds {one.bias.set:#x} and {one.bias.clear:#x}"
    for bits in one.status:
        entry_of = inputs.get(bits.field)
        if entry_of is None or not entry_of.type.startswith("uint") or not _fits(bits.mask, entry_of.type):
            yield f"status: no input {bits.field} of an unsigned type that holds the mask {bits.mask:#x}"


def _dimension(name: str) -> str:
    """SI unit that a field has to be in; empty: any."""
    if name in WRENCH:
        return "N" if name.startswith("force") else "N m"
    return "V" if _VOLTAGE.fullmatch(name) else ""
