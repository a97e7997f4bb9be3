"""OptiTrack Motive's CSV export: rigid bodies by name, in its own units and axes, from the start of the capture.

After a line of names and values, and an empty one, four to six lines say what is in each column: `Type` (Rigid Body,
Marker, ...), `Name`, `ID`, sometimes `Parent`, then Rotation or Position, and the axis in the last, which begins with
`Frame` and `Time (Seconds)`. Rotations are quaternions x, y, z, w. Motive's y points up: poses are turned so that z
does.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.trajectories.lines import Lines, cells, chosen_body, numbers_of

Rows = NDArray[np.float64]

_METRES = {"meters": 1.0, "centimeters": 0.01, "millimeters": 0.001, "inches": 0.0254, "feet": 0.3048}
_WANTED = [*(("Rotation", axis) for axis in "XYZW"), *(("Position", axis) for axis in "XYZ")]
_LAST_YEAR = 2100
_Z_UP = Rotation.from_euler("x", 90, degrees=True)


def is_motive(header: str) -> bool:
    """Whether a file's first line is that of an export."""
    return header.startswith("Format Version,")


def read_motive(file: Path, lines: Lines, body: str | None) -> tuple[NDArray[np.int64], Rows, list[int], list[str]]:
    """Stamps (K,) in ns, poses (K, 7), NaN where it was lost, their lines, and sentences on what was taken.

    Raises
    ------
    UserError
        It is no export of rigid bodies with quaternions in global coordinates, or of another body, or of several.
    """
    first = cells(lines.header[0])
    told = dict(zip(first[::2], first[1::2], strict=False))
    for name, wanted in (("Rotation Type", "Quaternion"), ("Coordinate Space", "Global")):
        if told.get(name, wanted) != wanted:
            raise UserError(f"{file}: its {name} is {printable(told[name])}: export it again as {wanted}")
    unit = told.get("Length Units", "Meters")
    if unit.lower() not in _METRES:
        raise UserError(f"{file}: its Length Units are {printable(unit)}, none of {', '.join(_METRES)}")
    name, columns, start = _columns(file, lines, body)
    rows = [[cell or "nan" for cell in row] for row in lines.rows[start:]]
    numbers = lines.numbers[start:]
    time = lines.rows[start - 1].index("Time (Seconds)")
    stamps, values = numbers_of(
        file, Lines([], rows, numbers), len(lines.rows[start - 1]), None, (time, NANOSECONDS_PER_SECOND), columns
    )
    poses = np.full((len(values), 7), np.nan)
    lengths = np.linalg.norm(values[:, :4], axis=1)
    there = np.isfinite(values).all(axis=1) & (lengths > 0.0)
    poses[there, :3] = _Z_UP.apply(values[there, 4:] * _METRES[unit.lower()])
    poses[there, 3:] = (_Z_UP * Rotation.from_quat(values[there, :4]) * _Z_UP.inv()).as_quat() * lengths[there, None]
    began_ns, note = _start(told.get("Capture Start Time", ""))
    note = f"{file.name}: rigid body {printable(name)}, turned from y up to z up; {note}."
    return stamps + began_ns, poses, numbers, [note]


def _columns(file: Path, lines: Lines, body: str | None) -> tuple[str, list[int], int]:
    """The body's name, the columns of `_WANTED`, and the first row with numbers."""
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
    if absent := [f"{kind} {axis}" for kind, axis in _WANTED if (kind, axis) not in bodies[name]]:
        raise UserError(f"{file}: {printable(name)} has no {', '.join(absent)}: export rotations and positions")
    return name, [bodies[name][one] for one in _WANTED], end + 1


def _start(text: str) -> tuple[int, str]:
    """Start of the capture in ns, and how it was taken."""
    found = re.fullmatch(r"([12]\d{3})-(\d\d?)-(\d\d?) (\d\d?)\.(\d\d?)\.(\d\d?)(?:\.(\d+))? ?([AP])?\.?M?\.?", text)
    if found is None:
        return 0, "when the capture started is not said: stamps count from 0"
    *date, hour, minute, second = map(int, found.groups()[:6])
    if found[8]:
        hour = hour % 12 + (12 if found[8] == "P" else 0)
    try:
        if date[0] > _LAST_YEAR:  # of which nanoseconds are not counted
            raise ValueError
        start = datetime(date[0], date[1], date[2], hour, minute, second, tzinfo=UTC)
    except ValueError:
        return 0, f"{printable(text)} is no time: stamps count from 0"
    seconds = (start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    fraction_ns = int((found[7] or "0").ljust(9, "0")[:9])
    return seconds * NANOSECONDS_PER_SECOND + fraction_ns, f"its start {text} is taken as UTC (--shift moves it)"
