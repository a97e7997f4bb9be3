"""Vicon's CSV export (Tracker, Nexus): objects, segments or markers by name, counted in frames of the capture.

A section begins with its name and its rate in Hz; three rows say what is in the columns: names, above the first column
of each, axes, behind `Frame` and `Sub Frame`, and units. Positions are TX TY TZ, of markers X Y Z; rotations a
quaternion RX RY RZ RW, or RX RY RZ, a rotation vector, which Vicon calls helical. z points up.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.trajectories.lines import Lines, chosen_body, is_number, numbers_of

Rows = NDArray[np.float64]

_SECTIONS = ("Objects", "Segments", "Trajectories", "Model Outputs", "Devices", "Joints")
_UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "deg": np.deg2rad(1.0), "rad": 1.0}
_RATES_HZ = 1e-3, 1e6
_LENGTHS = ("mm", "cm", "m")


def is_vicon(header: str) -> bool:
    """Whether a file's first line is that of an export."""
    return header.strip(' ,;"') in _SECTIONS


def read_vicon(file: Path, lines: Lines, body: str | None) -> tuple[NDArray[np.int64], Rows, list[int], list[str]]:
    """Stamps (K,) in ns from frame 0, poses (K, 7) or a marker's positions (K, 3), NaN in holes; their lines; notes.

    Raises
    ------
    UserError
        It holds no body or marker, or not that one, or several.
    """
    found = dict(_bodies(lines))
    turning = [name for name, (_, columns) in found.items() if len(columns) > 3]
    name = chosen_body(file, turning if turning and body is None else found, body)
    head, columns = found[name]
    (rate, *_), _, axes, units = lines.rows[head - 2 : head + 2]
    if not is_number(rate) or not _RATES_HZ[0] < float(rate) < _RATES_HZ[1]:
        raise UserError(f"{file}: line {lines.numbers[head - 2]} holds no rate in Hz")
    width = len(axes)
    data = takewhile(lambda row: is_number(row[0]), lines.rows[head + 2 :])
    rows = [[cell or "nan" for cell in (row + width * [""])[:width]] for row in data]
    numbers = lines.numbers[head + 2 :][: len(rows)]
    frame_ns = round(NANOSECONDS_PER_SECOND / float(rate))
    stamps, poses = numbers_of(file, Lines([], rows, numbers), width, width, (0, frame_ns), columns)
    note = f"{file.name}: {printable(name)} at {float(rate):g} Hz, stamps count from frame 0 (--shift moves them)"
    poses[:, :3] *= _UNITS[units[columns[0]]]
    if poses.shape[1] == 6:
        note += "; RX RY RZ are taken as a rotation vector, Vicon's helical angles"
        known = np.isfinite(poses).all(axis=1)
        vectors = poses[known, 3:] * _UNITS.get(units[columns[3]], 1.0)
        poses = np.hstack([poses[:, :3], np.full((len(poses), 4), np.nan)])
        poses[known, 3:] = Rotation.from_rotvec(vectors).as_quat()
    return stamps, poses, numbers, [f"{note}."]


def _bodies(lines: Lines) -> Iterator[tuple[str, tuple[int, list[int]]]]:
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
