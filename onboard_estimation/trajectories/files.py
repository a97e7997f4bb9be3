"""Trajectory files of TUM, KITTI, EuRoC and tables with named columns; read with suspicion, faults name their line.

| format | a line | |
|---|---|---|
| `tum` | `stamp x y z qx qy qz qw` | seconds |
| `kitti` | twelve numbers: the upper three rows of the pose's 4 x 4 matrix | no stamps |
| `euroc` | `stamp, x, y, z, qw, qx, qy, qz` and maybe velocity and biases, which are not read | nanoseconds |
| `csv` | columns by name | |

Columns of a table:

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

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.topics import listed
from onboard_estimation.base.errors import UserError, first_of, printable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.judging.options import FORMATS
from onboard_estimation.trajectories.trajectory import Trajectory, cleaned

Rows = NDArray[np.float64]

SUFFIXES = {".tum": "tum", ".kitti": "kitti", ".euroc": "euroc", ".csv": "csv", ".txt": "tum"}
_LARGEST_BYTES = 500_000_000
_LONGEST_LINE = 10_000
_LARGEST_STAMP_NS = 2**62
_ROTATION_TOLERANCE = 0.01

AXES = ("x", "y", "z", "roll", "pitch", "yaw")
QUATERNION = ("qx", "qy", "qz", "qw")
_TUM_NAMES = ("time_s", "x_m", "y_m", "z_m", *QUATERNION)
_TUM, _KITTI, _EUROC = 8, 12, 8
_EXPECTED = (
    "stamp_ns or time_s; x_m, y_m and z_m (not in the plane); qx, qy, qz, qw or heading_rad or heading_deg or none; "
    "and maybe cov_x_x, cov_x_y, ... or x_stddev_m, ..., yaw_stddev_rad"
)
_NAMED = 5
_OTHER_NAMES = {"x": "x_m", "y": "y_m", "z": "z_m", "heading": "heading_rad"}


class Lines(NamedTuple):
    """What a file holds: comment or header lines at its start, and rows of cells with their lines' numbers."""

    header: Sequence[str]
    rows: list[list[str]]
    numbers: list[int]


def read_trajectory(
    file: Path, format: str | None, times: Path | None, stamps_ns: NDArray[np.int64] | None
) -> Trajectory:
    """Read a file.

    Parameters
    ----------
    format
        One of `FORMATS`, see `format_of`.
    times
        Of a KITTI file: times in s, one a line.
    stamps_ns
        Of a KITTI file without times: stamps of the truth's poses, one for each of its own.

    Raises
    ------
    UserError
        It cannot be read as a trajectory: says in which line, and what is expected.
    """
    lines = _read(file)
    if format == "kitti":
        _, values = _columns(file, lines, _KITTI, _KITTI, None, range(_KITTI))
        stamps = _kitti_stamps(file, len(values), times, stamps_ns)
        return cleaned(file.name, stamps, _poses(values), None, np.array(lines.numbers))
    names: Sequence[str] = _TUM_NAMES
    if format == "euroc":
        names = _euroc_names(file, lines.header)
    elif format == "csv":
        first = 0 if lines.header else 1
        names = lines.header[-1].lstrip("#").split(",") if lines.header else lines.rows[0]
        lines = Lines(lines.header, lines.rows[first:], lines.numbers[first:])
    table = columns_of(file, [name.strip() for name in names])
    most = None if format == "euroc" else len(names)
    stamps, values = _columns(file, lines, len(names), most, table.stamp, list(table.read.values()))
    poses, covariances = table.values(values)
    one = cleaned(file.name, stamps, poses, covariances, np.array(lines.numbers), "z_m" not in table.read)
    return replace(one, notes=(table.note, *one.notes)) if table.note else one


def format_of(file: Path) -> str:
    """The format of a file by its name and its first lines; UserError where that cannot be told."""
    return _guessed(file, _read(file, 1))


def _read(file: Path, most: int | None = None) -> Lines:
    """Cells of all lines, or of so many, separated by commas or blanks; what is no table of short lines is refused."""
    header: list[str] = []
    rows: list[list[str]] = []
    numbers: list[int] = []
    try:
        if (size := file.stat().st_size) > _LARGEST_BYTES:
            raise UserError(
                f"{file} has {size / 1e6:.0f} MB; trajectories of up to {_LARGEST_BYTES / 1e6:.0f} are read"
            )
        for number, line in _text_lines(file):
            if line.startswith("#") or (not rows and not header and _is_header(line)):
                if not rows:
                    header.append(line)
                continue
            rows.append([cell.strip() for cell in line.split(",")] if "," in line else line.split())
            numbers.append(number)
            if len(rows) == most:
                break
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error
    if not rows:
        raise UserError(f"{file} holds no line with numbers")
    return Lines(header, rows, numbers)


def _text_lines(file: Path) -> Iterator[tuple[int, str]]:
    with file.open("rb") as stream:
        number = 0
        while raw := stream.readline(_LONGEST_LINE + 1):
            number += 1
            if len(raw) > _LONGEST_LINE:
                raise UserError(
                    f"{file}: line {number} has more than {_LONGEST_LINE:,} characters, it is no trajectory"
                )
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError:
                raise UserError(f"{file}: line {number} is no text, it is no trajectory") from None
            if "\0" in line:
                raise UserError(f"{file}: line {number} is no text, it is no trajectory")
            if line:
                yield number, line


def _is_header(line: str) -> bool:
    first = re.split(r"[,\s]", line, maxsplit=1)[0]
    return not _is_number(first)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _guessed(file: Path, lines: Lines) -> str:
    first, header = lines.rows[0], lines.header[-1] if lines.header else ""
    by_name = SUFFIXES.get(file.suffix.lower())
    named = {cell.strip().lower() for cell in header.lstrip("#").split(",")}
    if named & {"stamp_ns", "time_s"}:
        return "csv"
    if by_name in ("tum", "kitti", "euroc") and file.suffix.lower() != ".txt":
        return by_name
    if len(first) == _KITTI and all(map(_is_number, first)):
        return "kitti"
    bare = by_name == "csv" and (not header or header.startswith("#"))
    if len(first) >= _EUROC and re.fullmatch(r"\d+" if bare else r"\d{16,}", first[0]):
        return "euroc"
    if by_name == "csv":
        return "csv"
    if len(first) == _TUM:
        return "tum"
    raise UserError(
        f"{file}: cannot tell its format, line {lines.numbers[0]} has {len(first)} columns; name it with "
        f"--format {'|'.join(FORMATS)}"
    )


def _columns(
    file: Path, lines: Lines, least: int, most: int | None, stamp: tuple[int, int] | None, read: Sequence[int]
) -> tuple[NDArray[np.int64], Rows]:
    """Stamps (K,) in ns, exact (a double has no nanoseconds of today), and numbers (K, d) of the columns to be read.

    `stamp` is their column, and how many ns its unit has; None: there are none. UserError at the first row with too few
    or too many cells, or another count than the one before, or with what is no number.
    """
    stamps, out = np.zeros(len(lines.rows), dtype=np.int64), np.empty((len(lines.rows), len(read)))
    usual = len(lines.rows[0]) if lines.rows else 0
    for place, (row, number) in enumerate(zip(lines.rows, lines.numbers, strict=True)):
        if len(row) < least or (most is not None and len(row) > most) or len(row) != usual:
            expected = usual if usual >= least and most is None else least
            raise UserError(f"{file}: line {number} has {len(row)} columns, not {expected}")
        if stamp is not None:
            found = _stamp_ns(row[stamp[0]], stamp[1])
            if found is None:
                unit = "nanoseconds" if stamp[1] == 1 else "seconds"
                raise UserError(f"{file}: line {number}: {_shown(row[stamp[0]])} is no time in {unit}")
            stamps[place] = found
        for i, column in enumerate(read):
            try:
                out[place, i] = float(row[column])
            except ValueError:
                raise UserError(f"{file}: line {number}: {_shown(row[column])} is no number") from None
    return stamps, out


def _stamp_ns(text: str, ns: int) -> int | None:
    try:
        about = float(text) * ns
        if not math.isfinite(about) or abs(about) > _LARGEST_STAMP_NS:
            return None
        return int((Decimal(text) * ns).to_integral_value())
    except (ValueError, InvalidOperation):
        return None


def _shown(cell: str) -> str:
    return repr(printable(cell[:40]))


def _kitti_stamps(file: Path, count: int, times: Path | None, stamps_ns: NDArray[np.int64] | None) -> NDArray[np.int64]:
    if times is not None:
        found, _ = _columns(times, _read(times), 1, 1, (0, NANOSECONDS_PER_SECOND), ())
        if len(found) != count:
            raise UserError(f"--times {times} has {len(found)} times for the {count} poses of {file}")
        return found
    if stamps_ns is None:
        raise UserError(f"{file} is of the format kitti, which has no stamps: give its times with --times FILE")
    if len(stamps_ns) != count:
        raise UserError(
            f"{file} is of the format kitti, which has no stamps, and its {count} poses are not the truth's "
            f"{len(stamps_ns)}: give its times with --times FILE"
        )
    return stamps_ns


def _poses(values: Rows) -> Rows:
    """Poses (K, 7) of rows (K, 12); quaternions of zeros where a matrix is no rotation."""
    matrices = values.reshape(-1, 3, 4)
    turns = matrices[:, :, :3]
    out = np.zeros((len(values), 7))
    out[:, :3] = matrices[:, :, 3]
    with np.errstate(invalid="ignore"):
        off = np.abs(turns @ turns.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    good = (off < _ROTATION_TOLERANCE) & (np.linalg.det(np.where(np.isfinite(turns), turns, 0.0)) > 0.0)
    if good.any():
        out[good, 3:] = Rotation.from_matrix(turns[good]).as_quat()
    return out


def _euroc_names(file: Path, header: Sequence[str]) -> list[str]:
    """Of the columns that are read; the quaternion's by the header (some filters write w last), else w first."""
    names = [re.sub(r"\[.*?\]", "", cell).strip().lower() for cell in (header[-1] if header else "").split(",")]
    letters = "wxyz"
    if len(names) >= _EUROC and any(name.startswith("q") for name in names[4:8]):
        letters = "".join(name[-1:] for name in names[4:8])
    if sorted(letters) != sorted("wxyz"):
        raise UserError(f"{file}: columns 5 to 8 are {', '.join(names[4:8])}; a quaternion w, x, y, z must stand there")
    return ["stamp_ns", "x_m", "y_m", "z_m", *(f"q{letter}" for letter in letters)]


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
        poses = np.zeros((len(numbers), 7))
        for axis, name in enumerate(("x_m", "y_m", "z_m")):
            poses[:, axis] = column.get(name, 0.0)
        heading = column.get("heading_rad")
        if heading is None and "heading_deg" in column:
            heading = np.deg2rad(column["heading_deg"])
        if heading is not None:
            poses[:, 5], poses[:, 6] = np.sin(0.5 * heading), np.cos(0.5 * heading)
        elif QUATERNION[0] in column:
            poses[:, 3:] = np.column_stack([column[name] for name in QUATERNION])
        else:
            poses = poses[:, :3]
        return poses, _covariances(column, len(numbers))


def columns_of(file: Path, names: Sequence[str]) -> Columns:
    """Columns of a table by its header.

    Raises
    ------
    UserError
        What is needed is missing, stands there twice or in two ways: says what is expected.
    """

    def refused(what: str) -> UserError:
        return UserError(f"{file}: {what}; its columns are {listed(names)}; expected: {_EXPECTED}")

    known = [_OTHER_NAMES.get(name.lower(), name.lower()) for name in names]
    doubled = [name for name in dict.fromkeys(known) if known.count(name) > 1]
    if doubled:
        raise refused(f"{printable(doubled[0])} stands there {known.count(doubled[0])} times")
    stamps = [name for name in ("stamp_ns", "time_s") if name in known]
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
    note = f"{file.name}: columns not read: {first_of(list(map(printable, others)), _NAMED)}." if others else ""
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
        values = column[name] if name.startswith("cov_") else np.square(column[name])
        out[:, i, j] = out[:, j, i] = values
    return out
