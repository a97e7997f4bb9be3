"""Where each field stands in a device's process data, checked against what the device itself maps, and what it means.

Two checks at start: the objects in 0x1C12 and 0x1C13 and in the PDOs they name, against the description; and the bytes
that the master has mapped. A layout that is off by a byte gives forces that look like forces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.ethercat.description import CODES, UNITS, Entry, Pdo, Scale, SdoObject, SensorDescription, UnitCode
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix

ASSIGNMENTS = {"inputs": 0x1C13, "outputs": 0x1C12}
_MAPPED_BITS = 8


def dtype_of(entries: Sequence[Entry]) -> np.dtype[Any]:
    """Structured type of process data; fields without a name are left out, but have their place.

    Parameters
    ----------
    entries
        One behind the other, without gaps.
    """
    names, formats, offsets, place = [], [], [], 0
    for entry in entries:
        if entry.field:
            names.append(entry.field)
            formats.append(CODES[entry.type])
            offsets.append(place)
        place += entry.size
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": max(place, 1)})


def check_size(name: str, part: str, entries: Sequence[Entry], found: int) -> None:
    """Refuse process data of another length than described.

    Raises
    ------
    UserError
        With both lengths.
    """
    described = sum(entry.size for entry in entries)
    if found != described:
        raise UserError(
            f"{name}: the device maps {found} bytes of {part}, its description has {described}: another firmware, or "
            "other PDOs chosen; correct `" + part + "` of the description, nothing is read before they agree"
        )


def check_mapping(name: str, part: str, pdos: Sequence[Pdo], assigned: Mapping[int, Sequence[int]]) -> None:
    """Refuse PDOs other than described.

    Parameters
    ----------
    part
        `inputs` or `outputs`.
    pdos
        As described.
    assigned
        Of the device, by index of the PDO and in the order of the assignment: its entries as the dictionary has them,
        index << 16 | subindex << 8 | bits. An index of 0 is a gap.

    Raises
    ------
    UserError
        With all differences and their places.
    """
    wanted = [pdo.index for pdo in pdos]
    if list(assigned) != wanted:
        found, described = (", ".join(f"0x{index:04X}" for index in one) or "none" for one in (assigned, wanted))
        raise UserError(
            f"{name}: the device has the {part} {found} assigned (0x{ASSIGNMENTS[part]:04X}), its description has "
            f"{described}; correct one of them, or set assign: true"
        )
    faults = [fault for pdo in pdos for fault in _mapping_faults(pdo, assigned[pdo.index])]
    if faults:
        raise UserError(f"{name}: the device maps other {part} than described", faults)


def _mapping_faults(pdo: Pdo, mapped: Sequence[int]) -> list[str]:
    """Differences of one PDO; entries without an index may be anything of their length."""
    there: dict[int, tuple[int, int]] = {}
    place = 0
    for one in mapped:
        there[place] = one >> _MAPPED_BITS, one & 0xFF
        place += one & 0xFF
    faults = []
    described = 0
    for entry in pdo.entries:
        bits = 8 * entry.size
        if entry.index is not None:
            found = there.get(described)
            wanted = entry.index << 8 | entry.subindex
            if found != (wanted, bits):
                shown = "nothing that begins there" if found is None else f"{_object(found[0])} of {found[1]} bits"
                faults.append(
                    f"0x{pdo.index:04X}, byte {described // 8}: described is {entry.field or 'an entry'}, "
                    f"{_object(wanted)} of {bits} bits; the device has {shown}"
                )
        described += bits
    if place != described:
        faults.append(f"0x{pdo.index:04X}: described are {described} bits, the device has {place}")
    return faults


def _object(number: int) -> str:
    return "a gap" if not number >> 8 else f"0x{number >> 8:04X}:{number & 0xFF:02X}"


@dataclass(frozen=True)
class Conversion:
    """From raw fields to SI: value = raw * gain + offset.

    Attributes
    ----------
    fields
        m names.
    gain, offset
        (m,) float64.
    remarks
        Sentences on what was assumed.
    """

    fields: tuple[str, ...]
    gain: NDArray[np.float64]
    offset: NDArray[np.float64]
    remarks: tuple[str, ...] = ()

    def __call__(self, records: NDArray[Any]) -> Matrix:
        """(K, m) SI values of K records."""
        one = records.dtype
        assert one.fields is not None
        kind, first = one.fields[self.fields[0]][:2]
        size = kind.itemsize
        if all(one.fields[field][:2] == (kind, first + size * place) for place, field in enumerate(self.fields)):
            # They lie in a row: one view in place of a copy for each.
            strides = (one.itemsize, size)
            shape = (len(records), len(self.fields))
            raw = np.ndarray(shape, kind, records.view(np.uint8).data, first, strides) if len(records) else None
        else:
            raw = np.column_stack([records[field] for field in self.fields])
        return np.zeros((0, len(self.fields))) if raw is None else raw * self.gain + self.offset


def objects_of(description: SensorDescription, fields: Sequence[str]) -> list[SdoObject]:
    """Objects that the conversion of these fields needs, each once."""
    found: dict[SdoObject, None] = {}
    for scale in _scales(description, fields):
        for one in (scale.factor, scale.offset, scale.unit):
            if isinstance(one, SdoObject):
                found[one] = None
    return list(found)


def conversion_of(
    description: SensorDescription, fields: Sequence[str], values: Mapping[SdoObject, float]
) -> Conversion:
    """The conversion of these fields.

    Parameters
    ----------
    values
        What the device's objects hold, of those that `objects_of` names.

    Raises
    ------
    UserError
        A factor is zero or not finite, or a unit's code is unknown.
    """
    gains, offsets, remarks = [], [], []
    for field, scale in zip(fields, _scales(description, fields), strict=True):
        unit, remark = _unit(description.name, scale.unit, values)
        if remark:
            remarks.append(remark)
        factor = _value(scale.factor, values)
        offset = _value(scale.offset, values)
        if not (np.isfinite(factor) and np.isfinite(offset) and factor != 0.0):
            raise UserError(
                f"{description.name}: {field} has the factor {factor:g} and the offset {offset:g} "
                f"(object {scale.factor}): is the device calibrated?"
            )
        in_si = UNITS[unit][1]
        gains.append((1.0 / factor if scale.divide else factor) * in_si)
        offsets.append(offset * in_si)
    return Conversion(tuple(fields), np.array(gains), np.array(offsets), tuple(dict.fromkeys(remarks)))


def _scales(description: SensorDescription, fields: Sequence[str]) -> list[Scale]:
    """Of each field."""
    scales, name_of = dict(description.scales), {entry.field: entry.scale for entry in description.input_entries}
    return [scales[name_of[field]] for field in fields]


def _value(one: float | SdoObject, values: Mapping[SdoObject, float]) -> float:
    return values[one] if isinstance(one, SdoObject) else one


def _unit(name: str, unit: str | UnitCode, values: Mapping[SdoObject, float]) -> tuple[str, str]:
    """Name of the unit, and a remark where it was assumed."""
    if isinstance(unit, str):
        return unit, ""
    told = values[unit]
    code = int(told) if math.isfinite(told) else -1  # of a device that tells it as a floating-point number
    known = dict(unit.codes)
    if code in known:
        return known[code], ""
    if unit.otherwise:
        return unit.otherwise, f"{name}: unit {code:#x} in {unit} is not known, {unit.otherwise} is assumed"
    listed = ", ".join(f"{each:#x} {word}" for each, word in unit.codes)
    raise UserError(f"{name}: the device tells unit {code:#x} in {unit}; known: {listed}")
