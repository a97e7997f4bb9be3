"""Recordings of the PyShoe Vicon set: a foot-mounted IMU at 200 Hz with motion capture, as MATLAB files.

Wagstaff, Peretroukhin and Kelly, "Robust data-driven zero-velocity detection for foot-mounted inertial navigation",
2020. A file holds `imu` (n x 6: accelerometer m/s^2, gyro rad/s), `ts` (s) and `gt` (n x 3: position, m). Its labels of
zero velocity are not read: in places they call still what moves at 1 m/s.

The position is left-handed against a frame with z up: mirrored in y it fits the inertial data.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Matrix
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.converters import Converted
from recorded_robots.files import in_unit, increasing, read_matlab, real, size

IMU = Channel("imu/foot/data_raw", "sensor_msgs/msg/Imu", "imu/foot")
TRUTH = Channel("ground_truth/foot/position", "geometry_msgs/msg/PointStamped", "ground_truth/foot")

_COLUMNS = {"imu": 6, "gt": 3}
_DATE = re.compile(r"\d{4}(-\d\d){5}")


def read_pyshoe(path: Path, truth_as_recorded: bool = False) -> Converted:
    """Walks and runs with a foot-mounted IMU and Vicon (.mat, Wagstaff and others).

    Of its axes: the truth is left-handed there and is mirrored in y, unless left as recorded. It has no orientation.
    Rows that are not finite are left out and counted. Stamps start at the date in the file's name, taken as UTC, else
    at 1 s.

    Raises
    ------
    UserError
        No such MATLAB file, an array that is missing or has the wrong shape, time that does not increase, another unit.
    """
    arrays = _load(path)
    increasing(path, arrays["ts"])
    stamps_ns = np.round(arrays["ts"] * NANOSECONDS_PER_SECOND).astype(np.int64)
    notes = []
    imu, truth = np.hstack([arrays["imu"][:, 3:], arrays["imu"][:, :3]]), arrays["gt"]
    in_unit(path, imu[:, 3:], 5.0, 20.0, "m/s^2")
    if truth_as_recorded:
        notes.append("Ground truth left as recorded: left-handed.")
    else:
        truth[:, 1] *= -1.0
        notes.append("Ground truth mirrored in y: it is recorded left-handed.")
    series = []
    for channel, values in ((IMU, imu), (TRUTH, truth)):
        finite = np.isfinite(values).all(axis=1)
        if not finite.any():
            raise UserError(f"{path}: none of the {len(values)} rows of {channel.sensor} is finite")
        if not finite.all():
            notes.append(f"{channel.sensor}: {np.sum(~finite)} of {len(values)} rows left out, not finite.")
        series.append(Series(channel, stamps_ns[finite], values[finite]))
    epoch_ns, note = _epoch(path, int(stamps_ns[0]))
    return Converted(recording=Recording((series[0],), (series[1],)), epoch_ns=epoch_ns, notes=(*notes, note))


def _load(path: Path) -> dict[str, Matrix]:
    """The arrays `ts` (n,), `imu` (n, 6) and `gt` (n, 3)."""
    names = ("ts", *_COLUMNS)
    content = read_matlab(path, *names)
    missing = [name for name in names if name not in content]
    if missing:
        raise UserError(f"{path} has no array {', '.join(missing)}; a PyShoe recording has ts, imu and gt")
    arrays = {name: real(path, f"array {name}", content[name]) for name in names}
    if 1 not in arrays["ts"].shape or arrays["ts"].size < 2:
        raise UserError(f"{path}: ts is {size(arrays['ts'])}, it must be a row or a column of two or more")
    arrays["ts"] = arrays["ts"].ravel()
    for name, columns in _COLUMNS.items():
        if arrays[name].shape != (arrays["ts"].size, columns):
            wanted = f"it must be {arrays['ts'].size} x {columns} as ts has it"
            raise UserError(f"{path}: {name} is {size(arrays[name])}, {wanted}")
    return arrays


def _epoch(path: Path, first_stamp_ns: int) -> tuple[int, str]:
    """Nanoseconds to add to the stamps, and a sentence on them."""
    named = _DATE.search(path.name)
    try:
        start = datetime.strptime(named[0] if named else "", "%Y-%m-%d-%H-%M-%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return max(0, -first_stamp_ns) + NANOSECONDS_PER_SECOND, "Stamps start at 1 s: the file's name holds no date."
    said = f"Stamps start at {start:%Y-%m-%d %H:%M:%S}, the file's name taken as UTC."
    return int(start.timestamp()) * NANOSECONDS_PER_SECOND, said
