"""Recordings of the PyShoe Vicon set: a foot-mounted IMU at 200 Hz with motion capture, as MATLAB files.

Wagstaff, Peretroukhin and Kelly, "Robust data-driven zero-velocity detection for foot-mounted inertial navigation",
2020. A file holds `imu` (n x 6: accelerometer m/s^2, gyro rad/s), `ts` (s) and `gt` (n x 3: position, m). Its labels of
zero velocity are not read: in places they call still what moves at 1 m/s.

The position is left-handed against a frame with z up: mirrored in y it fits the inertial data.
"""

from __future__ import annotations

import io
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from onboard_estimation.converters import Converted
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.series import Recording, Series

IMU = Channel("imu/foot/data_raw", "sensor_msgs/msg/Imu", "imu/foot")
TRUTH = Channel("ground_truth/foot/position", "geometry_msgs/msg/PointStamped", "ground_truth/foot")

_COLUMNS = {"imu": 6, "gt": 3}
_NAME = re.compile(r"(\d{4})-(\d\d)-(\d\d)-(\d\d)-(\d\d)-(\d\d)")
# Half to twice gravity: the median of a walk that was recorded in m/s^2 lies inside, one in g or raw counts does not.
_PLAUSIBLE_FORCE_M_S2 = (5.0, 20.0)


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
    time_s = arrays["ts"]
    if not np.isfinite(time_s).all():
        raise UserError(f"{path}: {np.sum(~np.isfinite(time_s))} of {len(time_s)} time stamps are not finite")
    steps = np.diff(time_s)
    if (steps <= 0.0).any():
        first = int(np.argmax(steps <= 0.0))
        raise UserError(
            f"{path}: time does not increase at {np.sum(steps <= 0.0)} of {len(steps)} steps, "
            f"first from {time_s[first]:.6f} s to {time_s[first + 1]:.6f} s (row {first + 1})"
        )
    stamps_ns = np.round(time_s * NANOSECONDS_PER_SECOND).astype(np.int64)
    notes = []
    imu, truth = np.hstack([arrays["imu"][:, 3:], arrays["imu"][:, :3]]), arrays["gt"].copy()
    force = float(np.nanmedian(np.linalg.norm(imu[:, 3:], axis=1)))
    low, high = _PLAUSIBLE_FORCE_M_S2
    if not low < force < high:
        raise UserError(
            f"{path}: accelerometer reads {force:.3g} in the median; m/s^2 would be between {low:g} and {high:g}"
        )
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


def _load(path: Path) -> dict[str, NDArray[np.float64]]:
    """The arrays `ts` (n,), `imu` (n, 6) and `gt` (n, 3)."""
    try:
        file = io.BytesIO(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        content: dict[str, Any] = loadmat(file, variable_names=["ts", *_COLUMNS])
    except NotImplementedError as error:
        raise UserError(f"{path} is a MATLAB file of version 7.3 (HDF5); save it with -v7") from error
    except Exception as error:  # SciPy's reader raises whatever a damaged file leads it to
        raise UserError(f"{path} is no readable MATLAB file: {error or type(error).__name__}") from error
    missing = [name for name in ("ts", *_COLUMNS) if name not in content]
    if missing:
        raise UserError(f"{path} has no array {', '.join(missing)}; a PyShoe recording has ts, imu and gt")
    arrays = {}
    for name in ("ts", *_COLUMNS):
        if not np.issubdtype(content[name].dtype, np.number) or np.iscomplexobj(content[name]):
            raise UserError(f"{path}: array {name} holds {content[name].dtype}, not real numbers")
        arrays[name] = content[name].astype(np.float64)
    if 1 not in arrays["ts"].shape or arrays["ts"].size < 2:
        raise UserError(f"{path}: ts is {_shape(arrays['ts'])}, it must be a row or a column of two or more")
    arrays["ts"] = arrays["ts"].ravel()
    for name, columns in _COLUMNS.items():
        if arrays[name].shape != (arrays["ts"].size, columns):
            raise UserError(
                f"{path}: {name} is {_shape(arrays[name])}, it must be {arrays['ts'].size} x {columns} as ts has it"
            )
    return arrays


def _shape(array: NDArray[np.float64]) -> str:
    return " x ".join(map(str, array.shape))


def _epoch(path: Path, first_stamp_ns: int) -> tuple[int, str]:
    """Nanoseconds to add to the stamps, and a sentence on them."""
    match = _NAME.search(path.name)
    if match:
        try:
            start = datetime(*map(int, match.groups()), tzinfo=timezone.utc)  # type: ignore[arg-type, misc]
        except ValueError:
            match = None
    if match is None:
        return max(0, -first_stamp_ns) + NANOSECONDS_PER_SECOND, "Stamps start at 1 s: the file's name holds no date."
    return int(
        start.timestamp()
    ) * NANOSECONDS_PER_SECOND, f"Stamps start at {start:%Y-%m-%d %H:%M:%S}, the file's name taken as UTC."
