"""Columns of a table by name: poses, and covariances along the fixed axes.

| columns | |
|---|---|
| `stamp_ns` or `time_s` | nanoseconds or seconds |
| `x_m`, `y_m`, `z_m` | position; without `z_m` in the plane |
| `qx`, `qy`, `qz`, `qw` | orientation, from the body to the frame of the positions |
| `heading_rad` or `heading_deg` | in the plane, in the place of the quaternion |
| `cov_A_B` | covariances, A and B of x, y, z, roll, pitch, yaw: m and rad, rotations about the fixed axes |
| `x_stddev_m`, `y_stddev_m`, `z_stddev_m`, `roll_stddev_rad`, `pitch_stddev_rad`, `yaw_stddev_rad` | in their place |

In the plane `heading` stands for `yaw`. Positions and headings may leave out their unit (`x`, `heading`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bags.topics import listed
from onboard_estimation.base.errors import UserError, first_of, short
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.filtering.planar import planar_poses

Rows = NDArray[np.float64]

AXES = ("x", "y", "z", "roll", "pitch", "yaw")
QUATERNION = ("qx", "qy", "qz", "qw")
STAMPS = ("stamp_ns", "time_s")
_EXPECTED = (
    "stamp_ns or time_s; x_m, y_m and z_m (not in the plane); qx, qy, qz, qw or heading_rad or heading_deg or none; "
    "and maybe cov_x_x, cov_x_y, ... or x_stddev_m, ..., yaw_stddev_rad"
)
_NAMED = 5
_OTHER_NAMES = {"x": "x_m", "y": "y_m", "z": "z_m", "heading": "heading_rad"}


class Columns(NamedTuple):
    """Where what stands in a table.

    Attributes
    ----------
    stamp
        Column of the stamps, and how many nanoseconds their unit has.
    read
        The columns that are read beside it, by what is in them.
    note
        On columns that are not read; empty where there are none.
    """

    stamp: tuple[int, int]
    read: dict[str, int]
    note: str

    def values(self, numbers: Rows) -> tuple[Rows, Rows | None]:
        """Poses (K, 7) or positions (K, 3), and covariances (K, 6, 6) along the fixed axes, from numbers (K, d)."""
        column = dict(zip(self.read, numbers.T, strict=True))
        nothing = np.zeros(len(numbers))
        poses = np.column_stack([column.get(name, nothing) for name in ("x_m", "y_m", "z_m")])
        heading = column.get("heading_rad")
        if heading is None and "heading_deg" in column:
            heading = np.deg2rad(column["heading_deg"])
        if heading is not None:
            poses = np.hstack([poses, planar_poses(poses[:, :2], heading)[:, 3:]])
        elif QUATERNION[0] in column:
            poses = np.column_stack([poses, *(column[name] for name in QUATERNION)])
        return poses, _covariances(column, len(numbers))


def columns_of(file: Path, names: Sequence[str]) -> Columns:
    """Columns of a table by its header.

    Raises
    ------
    UserError
        What is needed is missing, stands there twice or in two ways: says what is expected.
    """

    def refused(what: str) -> UserError:
        return UserError(f"{file}: {what}; its columns are {listed(list(map(short, names)))}; expected: {_EXPECTED}")

    known = [_OTHER_NAMES.get(name.lower(), name.lower()) for name in names]
    doubled = [name for name in dict.fromkeys(known) if known.count(name) > 1]
    if doubled:
        raise refused(f"{short(doubled[0])} stands there {known.count(doubled[0])} times")
    stamps = [name for name in STAMPS if name in known]
    if len(stamps) != 1:
        raise refused("it has both stamp_ns and time_s" if stamps else "it has neither stamp_ns nor time_s")
    missing = [name for name in ("x_m", "y_m") if name not in known]
    turned = [name for name in QUATERNION if name in known]
    if 0 < len(turned) < len(QUATERNION):
        missing += [name for name in QUATERNION if name not in known]
    if missing:
        raise refused(f"{', '.join(missing)} is missing")
    headings = [name for name in ("heading_rad", "heading_deg") if name in known]
    if len(headings) + bool(turned) > 1:
        raise refused("it has more than one orientation")
    wanted = {"x_m", "y_m", "z_m", *QUATERNION, "heading_rad", "heading_deg", *_spreads()}
    stamp = known.index(stamps[0])
    read = {name: place for place, name in enumerate(known) if name in wanted}
    others = [names[place] for place in range(len(names)) if place not in (*read.values(), stamp)]
    note = f"{file.name}: columns not read: {first_of(list(map(short, others)), _NAMED)}." if others else ""
    return Columns((stamp, 1 if stamps[0] == "stamp_ns" else NANOSECONDS_PER_SECOND), read, note)


def covariance_name(first: int, second: int, planar: bool) -> str:
    """Column of the covariance of two of `AXES`."""
    names = [_axis(axis, planar) for axis in (first, second)]
    return f"cov_{names[0]}_{names[1]}"


def stddev_name(axis: int, planar: bool) -> str:
    """Column of the standard deviation along one of `AXES`."""
    return f"{_axis(axis, planar)}_stddev_{'m' if axis < 3 else 'rad'}"


def _axis(axis: int, planar: bool) -> str:
    return "heading" if planar and AXES[axis] == "yaw" else AXES[axis]


def _spreads() -> dict[str, tuple[int, int]]:
    """Elements by all names that columns of covariances and standard deviations may have."""
    pairs = [(i, j) for i in range(6) for j in range(6)]
    found = {covariance_name(i, j, planar): (i, j) for planar in (False, True) for i, j in pairs}
    return found | {stddev_name(i, planar): (i, i) for planar in (False, True) for i in range(6)}


def _covariances(column: dict[str, Rows], count: int) -> Rows | None:
    """(K, 6, 6): covariances, or else standard deviations; zero along axes that are not named."""
    spreads = {name: place for name, place in _spreads().items() if name in column}
    if full := {name: place for name, place in spreads.items() if name.startswith("cov_")}:
        spreads = full
    if not spreads:
        return None
    out = np.zeros((count, 6, 6))
    for name, (i, j) in spreads.items():
        with np.errstate(over="ignore"):  # infinite, it is not known
            values = column[name] if name.startswith("cov_") else np.square(column[name])
        out[:, i, j] = out[:, j, i] = values
    return out
