"""Trajectory files of TUM, KITTI, EuRoC and tables with named columns; read with suspicion, faults name their line.

| format | a line | |
|---|---|---|
| `tum` | `stamp x y z qx qy qz qw` | seconds |
| `kitti` | twelve numbers: the upper three rows of the pose's 4 x 4 matrix | no stamps |
| `euroc` | `stamp, x, y, z, qw, qx, qy, qz` and maybe velocity and biases, which are not read | nanoseconds |
| `csv` | columns by name, see `trajectory_tables` | |
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.errors import UserError, printable
from onboard_estimation.evaluation.options import FORMATS
from onboard_estimation.evaluation.topics import listed
from onboard_estimation.evaluation.trajectory import Trajectory, cleaned
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Rows = NDArray[np.float64]

SUFFIXES = {".tum": "tum", ".kitti": "kitti", ".euroc": "euroc", ".csv": "csv", ".txt": "tum"}
_LARGEST_BYTES = 500_000_000
_LONGEST_LINE = 10_000
_AT_ONCE = 20_000
_LARGEST_STAMP_NS = 2**62
_ROTATION_TOLERANCE = 0.01
_TUM, _KITTI, _EUROC = 8, 12, 8

AXES = ("x", "y", "z", "roll", "pitch", "yaw")
QUATERNION = ("qx", "qy", "qz", "qw")
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
    numbers = np.array(lines.numbers, dtype=np.int64)
    if format == "csv":
        header = lines.header[-1] if lines.header else ",".join(lines.rows[0]) if lines.rows else ""
        first = 0 if lines.header else 1
        columns = columns_of(file, [cell.strip() for cell in header.lstrip("#").split(",")])
        rows, kept = lines.rows[first:], lines.numbers[first:]
        _check_counts(file, rows, kept, columns.count, columns.count)
        stamps = _stamps(file, rows, kept, columns.stamp, 1 if columns.in_ns else NANOSECONDS_PER_SECOND)
        values = _numbers(file, rows, kept, columns.read)
        found = columns.values(values)
        one = cleaned(file.name, stamps, found.poses, found.covariances, np.array(kept), found.planar)
        return replace(one, notes=(columns.note, *one.notes)) if columns.note else one
    if format == "kitti":
        _check_counts(file, lines.rows, lines.numbers, _KITTI, _KITTI)
        values = _numbers(file, lines.rows, lines.numbers, list(range(_KITTI)))
        return cleaned(file.name, _kitti_stamps(file, len(values), times, stamps_ns), _poses(values), None, numbers)
    if format == "tum":
        _check_counts(file, lines.rows, lines.numbers, _TUM, _TUM)
        stamps = _stamps(file, lines.rows, lines.numbers, 0, NANOSECONDS_PER_SECOND)
        return cleaned(
            file.name, stamps, _numbers(file, lines.rows, lines.numbers, list(range(1, _TUM))), None, numbers
        )
    order = _euroc_order(file, lines.header)
    _check_counts(file, lines.rows, lines.numbers, _EUROC, None)
    stamps = _stamps(file, lines.rows, lines.numbers, 0, 1)
    return cleaned(file.name, stamps, _numbers(file, lines.rows, lines.numbers, [1, 2, 3, *order]), None, numbers)


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


def _check_counts(file: Path, rows: list[list[str]], numbers: Sequence[int], least: int, most: int | None) -> None:
    """UserError at the first row with too few or too many cells, or another count than the one before."""
    for row, number in zip(rows, numbers, strict=True):
        if len(row) < least or (most is not None and len(row) > most) or len(row) != len(rows[0]):
            expected = len(rows[0]) if len(rows[0]) >= least and most is None else least
            raise UserError(f"{file}: line {number} has {len(row)} columns, not {expected}")


def _numbers(file: Path, rows: list[list[str]], lines: Sequence[int], columns: Sequence[int]) -> Rows:
    """(K, d) numbers of some columns."""
    out = np.empty((len(rows), len(columns)))
    for start in range(0, len(rows), _AT_ONCE):
        piece = [[row[column] for column in columns] for row in rows[start : start + _AT_ONCE]]
        try:
            out[start : start + len(piece)] = np.array(piece, dtype=np.str_).astype(np.float64)
        except ValueError:
            for row, number in zip(piece, lines[start:], strict=False):
                for cell in row:
                    if not _is_number(cell):
                        raise UserError(f"{file}: line {number}: {_shown(cell)} is no number") from None
            raise
    return out


def _stamps(file: Path, rows: list[list[str]], lines: Sequence[int], column: int, ns: int) -> NDArray[np.int64]:
    """(K,) ns, exact: a double has no nanoseconds of today."""
    out = np.empty(len(rows), dtype=np.int64)
    for place, (row, number) in enumerate(zip(rows, lines, strict=True)):
        stamp = _stamp_ns(row[column], ns)
        if stamp is None:
            unit = "nanoseconds" if ns == 1 else "seconds"
            raise UserError(f"{file}: line {number}: {_shown(row[column])} is no time in {unit}")
        out[place] = stamp
    return out


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
        lines = _read(times)
        _check_counts(times, lines.rows, lines.numbers, 1, 1)
        found = _stamps(times, lines.rows, lines.numbers, 0, NANOSECONDS_PER_SECOND)
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


def _euroc_order(file: Path, header: Sequence[str]) -> list[int]:
    """Columns of qx, qy, qz, qw: by the header where it names them (some filters write w last), else w first."""
    names = [re.sub(r"\[.*?\]", "", cell).strip().lower() for cell in (header[-1] if header else "").split(",")]
    letters = "".join(name[-1:] for name in names[4:8])
    if len(names) < _EUROC or not any(name.startswith("q") for name in names[4:8]):
        return [5, 6, 7, 4]
    if sorted(letters) != sorted("wxyz"):
        raise UserError(f"{file}: columns 5 to 8 are {', '.join(names[4:8])}; a quaternion w, x, y, z must stand there")
    return [4 + letters.index(letter) for letter in "xyzw"]


class TableValues(NamedTuple):
    """Poses (K, 7) or positions (K, 3), covariances (K, 6, 6) along the fixed axes, and whether heights are unknown."""

    poses: Rows
    covariances: Rows | None
    planar: bool


@dataclass(frozen=True)
class Columns:
    """Where what stands in a table.

    Attributes
    ----------
    count
        Of all columns.
    stamp, in_ns
        Column of the stamps, and whether they are in nanoseconds.
    names, read
        Of the columns that are read beside it: what is in them, and which they are.
    note
        On columns that are not read; empty where there are none.
    """

    count: int
    stamp: int
    in_ns: bool
    names: tuple[str, ...]
    read: tuple[int, ...]
    note: str

    def values(self, numbers: Rows) -> TableValues:
        """From the numbers (K, d) of the columns that are read."""
        column = dict(zip(self.names, numbers.T, strict=True))
        count, planar = len(numbers), "z_m" not in column
        poses = np.zeros((count, 7))
        poses[:, 0], poses[:, 1] = column["x_m"], column["y_m"]
        if not planar:
            poses[:, 2] = column["z_m"]
        heading = column.get("heading_rad")
        if heading is None and "heading_deg" in column:
            heading = np.deg2rad(column["heading_deg"])
        if heading is not None:
            poses[:, 5], poses[:, 6] = np.sin(0.5 * heading), np.cos(0.5 * heading)
        elif QUATERNION[0] in column:
            poses[:, 3:] = np.column_stack([column[name] for name in QUATERNION])
        else:
            poses = poses[:, :3]
        return TableValues(poses, _covariances(column, count), planar)


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
    read = [place for place, name in enumerate(known) if name in wanted]
    others = [names[place] for place in range(len(names)) if place not in (*read, known.index(stamps[0]))]
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    note = f"{file.name}: columns not read: {listed(others[:_NAMED])}{more}." if others else ""
    return Columns(
        len(names),
        known.index(stamps[0]),
        stamps[0] == "stamp_ns",
        tuple(known[place] for place in read),
        tuple(read),
        note,
    )


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
