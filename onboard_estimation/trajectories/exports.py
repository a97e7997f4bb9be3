"""What motion capture's own programs write: CSV with several bodies by name, in units of their own, and with holes.

*Motive* (OptiTrack). After a line of names and values, and an empty one, four to six lines say what is in each column:
`Type` (Rigid Body, Marker, ...), `Name`, `ID`, sometimes `Parent`, then Rotation or Position, and the axis in the last,
which begins with `Frame` and `Time (Seconds)`. Rotations are quaternions x, y, z, w. Its y points up: poses are turned
so that z does. Times count from the start of the capture.

*Vicon* (Tracker, Nexus). A section begins with its name and its rate in Hz; three rows say what is in the columns:
names, above the first column of each, axes, behind `Frame` and `Sub Frame`, and units. Positions are TX TY TZ, of
markers X Y Z; rotations a quaternion RX RY RZ RW, or RX RY RZ, a rotation vector, which Vicon calls helical. z points
up. Times are counted in frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError, short
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.trajectories.lines import Lines, cells, chosen_body, is_number, numbers_of

Rows = NDArray[np.float64]

_METRES = {"meters": 1.0, "centimeters": 0.01, "millimeters": 0.001, "inches": 0.0254, "feet": 0.3048}
_Z_UP = [(kind, axis) for kind, axes in (("Position", "XZY"), ("Rotation", "XZYW")) for axis in axes]
"""Columns of a pose of Motive's in the order x, y, z once z points up and not y; those of its Z change their sign."""
_TIMES = [f"%Y-%m-%d {clock}" for clock in ("%I.%M.%S.%f %p", "%I.%M.%S %p", "%H.%M.%S.%f", "%H.%M.%S")]
_LAST_YEAR = 2100  # of later ones nanoseconds are not counted

_SECTIONS = ("Objects", "Segments", "Trajectories", "Model Outputs", "Devices", "Joints")
_UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "deg": np.deg2rad(1.0)}
_RATES_HZ = 1e-3, 1e6
_LENGTHS = ("mm", "cm", "m")


class _Layout(NamedTuple):
    """Where one body is in a file.

    Attributes
    ----------
    rows
        Those with its numbers, of so many columns as `width` says.
    stamp, start_ns
        Column of its times and how many ns their unit has; what they count from.
    columns
        By the column of each number: position, then nothing, a rotation vector or a quaternion; the factors to m, rad.
    note
        What was taken for granted.
    """

    rows: slice
    width: int
    stamp: tuple[int, int]
    start_ns: int
    columns: dict[int, float]
    note: str


def export_format(header: str) -> Literal["motive", "vicon"] | None:
    """Which export a file with that first line is, `motive` or `vicon`; None: it is none."""
    if header.startswith("Format Version,"):
        return "motive"
    return "vicon" if header.strip(' ,;"') in _SECTIONS else None


def read_export(
    format: str, file: Path, lines: Lines, body: str | None
) -> tuple[NDArray[np.int64], Rows, list[int], str]:
    """Stamps (K,) in ns, poses (K, 7) or a marker's positions (K, 3), NaN in holes; their lines; a note.

    Raises
    ------
    UserError
        It is no such export, or not of bodies as they can be read; it holds no body, or not that one, or several.
    """
    found = EXPORTS[format](file, lines, body)
    rows = [[cell or "nan" for cell in (row + found.width * [""])[: found.width]] for row in lines.rows[found.rows]]
    numbers = lines.numbers[found.rows]
    table = Lines([], rows, numbers)
    stamps, values = numbers_of(file, table, found.width, None, found.stamp, list(found.columns))
    values *= list(found.columns.values())
    if values.shape[1] == 6:
        known = np.isfinite(values).all(axis=1)
        quaternions = np.full((len(values), 4), np.nan)
        quaternions[known] = Rotation.from_rotvec(values[known, 3:]).as_quat()
        values = np.hstack([values[:, :3], quaternions])
    return stamps + found.start_ns, values, numbers, f"{file.name}: {found.note}."


def _motive(file: Path, lines: Lines, body: str | None) -> _Layout:
    first = cells(lines.header[0]) if lines.header else []
    told = dict(zip(first[::2], first[1::2], strict=False))
    for name, wanted in (("Rotation Type", "Quaternion"), ("Coordinate Space", "Global")):
        if told.get(name, wanted) != wanted:
            raise UserError(f"{file}: its {name} is {short(told[name])}: export it again as {wanted}")
    unit = told.get("Length Units", "Meters")
    if unit.lower() not in _METRES:
        raise UserError(f"{file}: its Length Units are {short(unit)}, none of {', '.join(_METRES)}")
    end = next((i for i, row in enumerate(lines.rows) if row[0] == "Frame"), None)
    heads = {row[1]: row for row in lines.rows[:end] if len(row) > 1}
    if end is None or "Time (Seconds)" not in lines.rows[end] or not {"Type", "Name"} <= set(heads):
        raise UserError(f"{file}: its header is not that of a CSV export of Motive (Type, Name, ..., Frame)")
    kinds, axes = lines.rows[end - 1], lines.rows[end]
    bodies: dict[str, dict[tuple[str, str], int]] = {}
    for column, (type, name, kind, axis) in enumerate(zip(heads["Type"], heads["Name"], kinds, axes, strict=False)):
        if type == "Rigid Body":
            bodies.setdefault(name.strip('"'), {})[kind, axis] = column
    name = chosen_body(file, bodies, body)
    if absent := [f"{kind} {axis}" for kind, axis in _Z_UP if (kind, axis) not in bodies[name]]:
        raise UserError(f"{file}: {short(name)} has no {', '.join(absent)}: export rotations and positions")
    factors = {"Position": _METRES[unit.lower()], "Rotation": 1.0}
    columns = {bodies[name][one]: -factors[one[0]] if one[1] == "Z" else factors[one[0]] for one in _Z_UP}
    began_ns, note = _start(told.get("Capture Start Time", ""))
    note = f"rigid body {short(name)}, turned from y up to z up; {note}"
    stamp = (axes.index("Time (Seconds)"), NANOSECONDS_PER_SECOND)
    return _Layout(slice(end + 1, None), len(axes), stamp, began_ns, columns, note)


def _start(text: str) -> tuple[int, str]:
    """Start of Motive's capture in ns, and how it was taken."""
    for form in _TIMES if text else ():
        with suppress(ValueError):
            began = datetime.strptime(text.replace(".M.", "M"), form).replace(tzinfo=UTC)
            if began.year <= _LAST_YEAR:
                began_ns = (began - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
                return began_ns, f"its start {text} is taken as UTC (--shift moves it)"
    return (
        0,
        f"{short(text) + ' is no time' if text else 'when the capture started is not said'}: stamps count from 0",
    )


def _vicon(file: Path, lines: Lines, body: str | None) -> _Layout:
    found = dict(_vicon_bodies(lines))
    turning = [name for name, (_, columns) in found.items() if len(columns) > 3]
    name = chosen_body(file, turning if turning and body is None else found, body)
    head, columns = found[name]
    (rate, *_), _, axes, units = lines.rows[head - 2 : head + 2]
    if not is_number(rate) or not _RATES_HZ[0] < float(rate) < _RATES_HZ[1]:
        raise UserError(f"{file}: line {lines.numbers[head - 2]} holds no rate in Hz")
    note = f"{short(name)} at {float(rate):g} Hz, stamps count from frame 0 (--shift moves them)"
    if len(columns) == 6:
        note += "; RX RY RZ are taken as a rotation vector, Vicon's helical angles"
    count = len(list(takewhile(lambda row: is_number(row[0]), lines.rows[head + 2 :])))
    stamp = (0, round(NANOSECONDS_PER_SECOND / float(rate)))
    factors = {column: _UNITS.get(units[column], 1.0) for column in columns}
    return _Layout(slice(head + 2, head + 2 + count), len(axes), stamp, 0, factors, note)


def _vicon_bodies(lines: Lines) -> Iterator[tuple[str, tuple[int, list[int]]]]:
    """By names, the row of the axes and the columns of position and rotation, if there is one."""
    for head, axes in enumerate(lines.rows):
        if axes[0] != "Frame" or not 2 <= head < len(lines.rows) - 1:
            continue
        names, units = lines.rows[head - 1], lines.rows[head + 1]
        there: dict[str, dict[str, int]] = {}
        name = ""
        for column, axis in enumerate(axes[: len(units)]):
            name = (names[column : column + 1] or [""])[0] or name
            there.setdefault(name, {}).setdefault(axis, column)
        for name, one in there.items():
            letters = "TX TY TZ RX RY RZ RW" if "RX" in one else "TX TY TZ" if "TX" in one else "X Y Z"
            columns = [one[axis] for axis in letters.split() if axis in one]
            if name and len(columns) in (3, 6, 7) and units[columns[0]] in _LENGTHS:
                yield name, (head, columns)


EXPORTS: Mapping[str, Callable[[Path, Lines, str | None], _Layout]] = {"motive": _motive, "vicon": _vicon}
"""Where a body is, by formats that hold several."""
