"""Files that describe EtherCAT sensors: read, with all their faults in one pass.

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
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import yaml

from drivers.ethercat.description import (
    CODES,
    FIELD,
    LEVELS,
    MOST,
    UNITS,
    Bias,
    Entry,
    Level,
    Pdo,
    Scale,
    SdoObject,
    SdoWrite,
    SensorDescription,
    StatusBits,
    UnitCode,
    contradictions,
    fits,
)
from onboard_estimation.configuration import ConfigurationError
from onboard_estimation.errors import UserError
from onboard_estimation.resources import resource

FOLDER = "config/ethercat"
_MOST_BYTES = 65536


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
        reader.faults += contradictions(description)
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
        if not isinstance(scales, Mapping) or len(scales) > MOST:
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
        if field != "" and not (isinstance(field, str) and FIELD.fullmatch(field)):
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
        if not isinstance(codes, Mapping) or not 0 < len(codes) <= MOST:
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
        if there.type.startswith(("int", "uint")) and not fits(value, there.type):
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
        if level not in LEVELS:
            self._fault(f"{where}.level", level, f"one of {', '.join(LEVELS)}")
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
        if isinstance(content, list) and len(content) <= MOST:
            return content
        self._fault(where, content, f"a list of at most {MOST}")
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
