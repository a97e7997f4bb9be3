"""Contact data of a walking quadruped: an IMU at the foot of a leg, and the force that the foot's own sensor reads.

Maravgakis, Argiropoulos, Piperakis and Trahanias, "Probabilistic contact state estimation for legged robots using
inertial information", 2023: comma-separated, no header; Fz (counts), accelerometer x y z (g), gyro x y z (deg/s).

The two groups of columns ran on different clocks: a line is no instant. The force has a line every 2 ms. The IMU's
columns end halfway down the file, since it was slower; 4 ms a line is what was meant. In the recording at hand that
does not fit, neither in rate nor at the start, and nothing in the file tells: so rate and offset of the IMU's clock are
those with which its rotation fits best to the swings that the force shows. Both sensors delivered new values more
seldom than lines were written: values repeat.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Matrix, Vector
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2, Recording, Series, imu_channel
from onboard_estimation.contract.converters import Converted
from recorded_robots.files import in_unit, reading

IMU = imu_channel("foot")
FORCE = Channel("foot/contact_force", "sensor_msgs/msg/JointState", "foot/contact_force", "effort", ("fz_counts",))

FORCE_RATE_HZ = 500.0
IMU_RATE_HZ = 250.0

CONTACT_SHARE = 0.15
"""The foot stands where the force is above this share of the way from its 5th to its 95th percentile."""

_COLUMNS = 7
_CLIPPED_G = 3.99
# What is searched for the IMU's clock, and how well it has to fit.
_RATES_HZ = np.arange(225.0, 276.0, 1.0)
_OFFSETS_S = np.arange(-0.6, 0.605, 0.01)
_LEAST_CORRELATION = 0.5
_LEAST_OVERLAP = 0.8
# A rotation that is faster tells no more of a swing.
_SWING_RAD_S = 5.0


class ImuClock(NamedTuple):
    """Rate of the IMU's lines, time of its first line after that of the force, and the correlation that this gives."""

    rate_hz: float
    offset_s: float
    correlation: float


_NOMINAL = ImuClock(IMU_RATE_HZ, 0.0, float("nan"))


def read_quadruped(path: Path, clocks_as_recorded: bool = False) -> Converted:
    """IMU at a foot and the force that it reads (.csv, Maravgakis and others: Fz, accelerometer, gyro; no header).

    Acceleration and rotation become SI units, the force stays in counts (`effort` of a joint `fz_counts`). Two clocks
    wrote the columns: that of the IMU is fitted to that of the force, unless left as recorded: both start together, at
    500 Hz and 250 Hz.

    Raises
    ------
    UserError
        No such table, a cell that is no number, IMU columns that are filled in part or in another unit.
    """
    force, imu_columns = _table(path)
    in_unit(path, imu_columns[:, :3], 0.5, 2.0, "g")
    imu = np.hstack([np.deg2rad(imu_columns[:, 3:]), imu_columns[:, :3] * STANDARD_GRAVITY_M_S2])
    if clocks_as_recorded:
        clock = _NOMINAL
        said = f"Clocks left as recorded: {FORCE_RATE_HZ:g} and {IMU_RATE_HZ:g} lines a second, starting together."
    else:
        clock, said = _fitted(force, imu)
    notes = ["Force left in counts, as recorded.", said]
    clipped = np.count_nonzero(np.abs(imu_columns[:, :3]).max(axis=1) >= _CLIPPED_G)
    if clipped:
        notes.append(f"Accelerometer clipped near 4 g in {clipped} of {len(imu)} lines.")
    force_new, imu_new = _share_of_new(force[:, None]), _share_of_new(imu)
    notes.append(
        f"New values come at about {force_new * FORCE_RATE_HZ:.0f} Hz (force) and {imu_new * clock.rate_hz:.0f} Hz "
        "(IMU); between them they repeat."
    )
    readings = Series(IMU, _stamps(len(imu), clock.rate_hz, clock.offset_s), imu)
    counts = Series(FORCE, _stamps(len(force), FORCE_RATE_HZ, 0.0), force[:, None])
    return Converted(recording=Recording((readings, counts), ()), notes=tuple(notes))


def contact_threshold(force: Vector) -> float:
    """Force above which the foot stands, from the forces of a walk (K,); see `CONTACT_SHARE`."""
    low, high = np.percentile(force, [5.0, 95.0])
    return float(low + CONTACT_SHARE * (high - low))


def fit_imu_clock(force: Vector, rotation_rad_s: Vector) -> ImuClock:
    """The clock of the IMU with which its rotation (K,) correlates best with the swings that the force (N,) shows.

    A constant delay between rotation and force cannot be told from an offset of the clocks. Resolution 1 Hz and 10 ms;
    the correlation is NaN if nothing varies.
    """
    times = np.arange(len(force)) / FORCE_RATE_HZ
    swing = (force < contact_threshold(force)).astype(np.float64)
    activity = np.minimum(rotation_rad_s, _SWING_RAD_S)
    best = _NOMINAL
    for rate in _RATES_HZ.tolist():
        for offset in _OFFSETS_S.tolist():
            position = (times - offset) * rate
            inside = (position >= 0.0) & (position <= len(activity) - 1)
            if inside.mean() < _LEAST_OVERLAP:
                continue
            there, then = activity[position[inside].astype(np.int64)], swing[inside]
            spread = float(there.std() * then.std())
            if spread == 0.0:
                continue
            correlation = float(np.mean((there - there.mean()) * (then - then.mean()))) / spread
            if not correlation <= best.correlation:
                best = ImuClock(rate, offset, correlation)
    return best


def _fitted(force: Vector, imu: Matrix) -> tuple[ImuClock, str]:
    """The clock that fits, else the nominal one, and a sentence on it."""
    found = fit_imu_clock(force, np.linalg.norm(imu[:, :3], axis=1))
    if not found.correlation >= _LEAST_CORRELATION:
        return _NOMINAL, (
            f"No clock of the IMU fits its rotation to the swings (best correlation {found.correlation:.2f}): "
            f"left at {IMU_RATE_HZ:g} Hz, starting with the force."
        )
    return found, (
        f"Clock of the IMU estimated: {found.rate_hz:.0f} lines a second, starting {found.offset_s:+.2f} s after the "
        f"force (correlation of its rotation with the force's swings {found.correlation:.2f})."
    )


def _table(path: Path) -> tuple[Vector, Matrix]:
    """Force (N,) and the IMU's columns (K, 6) as recorded."""
    with reading(path, "comma-separated table"), path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    force, imu = np.empty(len(rows)), list[list[float]]()
    for line, cells in enumerate(rows, start=1):
        if len(cells) != _COLUMNS:
            raise UserError(f"{path}, line {line}: {len(cells)} cells; it must be 7: Fz, ax, ay, az, gx, gy, gz")
        force[line - 1] = _number(path, line, cells[0])
        filled = [cell for cell in cells[1:] if cell.strip()]
        if filled and len(imu) < line - 1:
            raise UserError(f"{path}, line {line}: readings of the IMU after they had ended in line {len(imu) + 1}")
        if 0 < len(filled) < _COLUMNS - 1:
            raise UserError(f"{path}, line {line}: {len(filled)} of 6 cells of the IMU are filled")
        if filled:
            imu.append([_number(path, line, cell) for cell in filled])
    if len(imu) < 2:
        raise UserError(f"{path}: {len(rows)} lines, {len(imu)} with readings of the IMU; two at least are needed")
    return force, np.array(imu)


def _number(path: Path, line: int, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise UserError(f"{path}, line {line}: {cell.strip()!r} is no number (the file has no header line)")
    return value


def _share_of_new(values: Matrix) -> float:
    """Share of the rows that differ from the one before."""
    return float(np.mean((np.diff(values, axis=0) != 0.0).any(axis=1)))


def _stamps(count: int, rate_hz: float, offset_s: float) -> NDArray[np.int64]:
    seconds = offset_s + np.arange(count) / rate_hz
    stamps: NDArray[np.int64] = np.round(seconds * NANOSECONDS_PER_SECOND).astype(np.int64)
    return stamps
