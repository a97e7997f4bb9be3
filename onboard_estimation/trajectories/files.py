"""Trajectory files of other filters and laboratories, read as what they are told to be or look like.

| format | a line | stamps |
|---|---|---|
| `tum` | `stamp x y z qx qy qz qw` | s |
| `tum_ns` | the same | ns |
| `openvins` | the same, and upper triangles of the covariances of rotation (about the body's axes) and position | s |
| `euroc` | `stamp, x, y, z, qw, qx, qy, qz` and maybe velocity and biases, which are not read | ns |
| `kitti` | twelve numbers: the upper three rows of the pose's 4 x 4 matrix; before them maybe a frame's number | none |
| `csv` | columns by name, see `columns` | s or ns |
| `motive`, `vicon` | rigid bodies, see `exports` | s, frames |

Cells are separated by commas, semicolons or blanks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.judging.options import FORMATS, EvaluateOptions, Format
from onboard_estimation.trajectories.columns import QUATERNION, STAMPS, columns_of, covariance_name
from onboard_estimation.trajectories.exports import EXPORTS, export_format, read_export
from onboard_estimation.trajectories.lines import Lines, is_number, numbers_of, read_lines
from onboard_estimation.trajectories.trajectory import Trajectory, cleaned, is_trajectory_file

Rows = NDArray[np.float64]

_ROTATION_TOLERANCE = 0.01
_POSE = ("x_m", "y_m", "z_m", *QUATERNION)
_TRIANGLE = [(i, j) for i in range(3) for j in range(i, 3)]
_NAMES: Mapping[str, Sequence[str]] = {
    "tum": ("time_s", *_POSE),
    "tum_ns": ("stamp_ns", *_POSE),
    "euroc": ("stamp_ns", *_POSE[:3], "qw", *QUATERNION[:3]),
    "openvins": (
        "time_s",
        *_POSE,
        *(covariance_name(3 + i, 3 + j, False) for i, j in _TRIANGLE),
        *(covariance_name(i, j, False) for i, j in _TRIANGLE),
    ),
}
_TUM, _OPENVINS, _KITTI = len(_NAMES["tum"]), len(_NAMES["openvins"]), (12, 13)
_LEAST_NS = 1e15  # as seconds, 30 million years
_HINTS = {
    "tum_ns": ": nanoseconds, x y z qx qy qz qw; the other order, w first, looks the same and is {flag} euroc",
    "euroc": ": nanoseconds, x y z qw qx qy qz where no header says else; w last looks the same and is {flag} tum_ns",
}


def with_formats(path: Path, options: EvaluateOptions) -> tuple[EvaluateOptions, list[str]]:
    """The options with the formats of both files, and a sentence on each that was told from the file itself.

    Raises
    ------
    UserError
        A format cannot be told, or is named of what is no file.
    """
    told, found = [], {"format": options.format, "truth_format": options.truth_format}
    for name, file, flag in (("format", path, "--format"), ("truth_format", options.truth, "--truth-format")):
        if file is None or not is_trajectory_file(file):
            if found[name] is not None:
                raise UserError(f"{flag} is of a trajectory file")
        elif found[name] is None:
            found[name] = one = format_of(file, flag)
            hint = _HINTS.get(one, "").format(flag=flag)
            told.append(f"{file.name}: read as {one}, told by its name and first lines{hint} ({flag} says another).")
    return replace(options, format=found["format"], truth_format=found["truth_format"]), told


def read_trajectory(
    file: Path,
    format: str | None,
    times: Path | None = None,
    stamps_ns: NDArray[np.int64] | None = None,
    body: str | None = None,
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
    body
        Of an export of Motive or Vicon's: name of the rigid body; None: the only one.

    Raises
    ------
    UserError
        It cannot be read as a trajectory: says in which line, and what is expected.
    """
    lines = read_lines(file)
    if format is not None and format in EXPORTS:
        stamps, values, numbers, note = read_export(format, file, lines, body)
        one = cleaned(file.name, stamps, values, None, np.array(numbers))
        return replace(one, notes=(note, *one.notes))
    if format == "kitti":
        count = _KITTI[len(lines.rows[0]) == _KITTI[1]]
        _, values = numbers_of(file, lines, count, count, None, range(count))
        stamps = _kitti_stamps(file, values[:, : count - _KITTI[0]], times, stamps_ns)
        return cleaned(file.name, stamps, _poses(values[:, count - _KITTI[0] :]), None, np.array(lines.numbers))
    if format == "csv":
        first = 0 if lines.header else 1
        names = lines.names or lines.rows[0]
        lines = Lines(lines.header, lines.rows[first:], lines.numbers[first:])
    else:
        names = _ordered(file, lines, _NAMES[format or "tum"])
    table = columns_of(file, names)
    most = None if format == "euroc" else len(names)
    stamps, values = numbers_of(file, lines, len(names), most, table.stamp, list(table.read.values()))
    poses, covariances = table.values(values)
    one = cleaned(file.name, stamps, poses, covariances, np.array(lines.numbers), "z_m" not in table.read)
    one = _along_fixed_axes(one) if format == "openvins" else one
    return replace(one, notes=(table.note, *one.notes)) if table.note else one


def format_of(file: Path, flag: str = "--format") -> Format:
    """The format of a file by its name and its first lines; UserError, naming the option, where that cannot be told."""
    lines = read_lines(file, 1)
    first, header = lines.rows[0], lines.header[-1] if lines.header else ""
    suffix = file.suffix.lower()
    if export := export_format(header):
        return export
    names = lines.names
    if set(STAMPS) & {name.lower() for name in names}:
        return "csv"
    if suffix in (".kitti", ".euroc"):
        return "kitti" if suffix == ".kitti" else "euroc"
    bare, table = not header or header.startswith("#"), suffix == ".csv"
    if (
        len(first) >= _TUM
        and is_number(first[0])
        and (abs(float(first[0])) >= _LEAST_NS or (table and bare and first[0].isdecimal()))
    ):
        ordered = len(names) >= _TUM and names[4].lower().startswith("q")
        return "tum_ns" if len(first) == _TUM and not (lines.commas or ordered) else "euroc"
    if table and not (bare and all(map(is_number, first))):
        return "csv"
    if suffix == ".tum" or len(first) in (_TUM, _OPENVINS):
        return "openvins" if len(first) == _OPENVINS else "tum"
    if len(first) in _KITTI and all(map(is_number, first)):
        return "kitti"
    raise UserError(
        f"{file}: cannot tell its format, line {lines.numbers[0]} has {len(first)} columns; name it with {flag} "
        f"{'|'.join(FORMATS)}, or its columns in a line above them: time_s,x_m,y_m,z_m,qx,qy,qz,qw or without q"
    )


def _kitti_stamps(
    file: Path, frames: Rows, times: Path | None, stamps_ns: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Stamps (K,) of poses with numbers of frames (K, 1), or without (K, 0): places in longer times."""
    count = len(frames)
    if times is not None:
        found, _ = numbers_of(times, read_lines(times), 1, 1, (0, NANOSECONDS_PER_SECOND), ())
        if frames.size and len(found) > count and set(frames[:, 0]) <= set(range(len(found))):
            return found[frames[:, 0].astype(np.int64)]
        if len(found) != count:
            raise UserError(f"--times {times} has {len(found)} times for the {count} poses of {file}")
        return found
    if stamps_ns is None or len(stamps_ns) != count:
        others = "" if stamps_ns is None else f", and its {count} poses are not the truth's {len(stamps_ns)}"
        raise UserError(f"{file} is of the format kitti, which has no stamps{others}: give its times with --times FILE")
    return stamps_ns


def _poses(values: Rows) -> Rows:
    """Poses (K, 7) of rows (K, 12); quaternions of zeros where a matrix is no rotation."""
    matrices = values.reshape(-1, 3, 4)
    turns = matrices[:, :, :3]
    out = np.zeros((len(values), 7))
    out[:, :3] = matrices[:, :, 3]
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(turns @ turns.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    good = off < _ROTATION_TOLERANCE
    good[good] = np.linalg.det(turns[good]) > 0.0
    if good.any():
        out[good, 3:] = Rotation.from_matrix(turns[good]).as_quat()
    return out


def _along_fixed_axes(one: Trajectory) -> Trajectory:
    """With covariances of rotations along the fixed axes, that were about the body's: OpenVINS' error is a left one.

    Of rotations from the frame of the positions to the body, as JPL writes them; `ov_eval` divides by them alike.
    """
    if one.covariances is None:
        return one
    turns = Rotation.from_quat(one.poses[:, 3:]).as_matrix()
    covariances = one.covariances.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        covariances[:, 3:, 3:] = turns @ covariances[:, 3:, 3:] @ turns.transpose(0, 2, 1)
    note = (
        f"{one.name}: covariances of rotations are taken about the body's axes, as OpenVINS and ov_eval have them "
        "(along fixed axes, as odometry messages have them: --format csv with cov_roll_roll, ...)."
    )
    return replace(one, covariances=covariances, notes=(*one.notes, note))


def _ordered(file: Path, lines: Lines, names: Sequence[str]) -> list[str]:
    """The names of columns with the quaternion's in the order of the header, where that tells it."""
    letters = [name.lower()[-1:] for name in lines.names[4:8] if name.lower().startswith("q")]
    if len(letters) < len(QUATERNION):
        return list(names)
    if sorted(letters) != sorted("wxyz"):
        found = ", ".join(lines.names[4:8])
        raise UserError(f"{file}: columns 5 to 8 are {found}; a quaternion w, x, y, z must stand there")
    return [*names[:4], *(f"q{letter}" for letter in letters), *names[8:]]
