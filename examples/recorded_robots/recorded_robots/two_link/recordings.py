"""Recordings of two jointed links with an IMU on each and optical truth, as MATLAB files of 50 Hz.

Made for Weygers and Kok, "Drift-free inertial sensor-based joint kinematics for long-term arbitrary movements", IEEE
Sensors Journal 20(14), 2020. A file holds a struct `data`: `rate` (Hz), `sensorData` (n x 12: accelerometer 1, gyro 1,
accelerometer 2, gyro 2; m/s^2 and rad/s), `ref` (n x 17: orientations of both sensors as quaternions w x y z, to a
world with z up, then their positions in m, then three columns that nobody describes), `r_12` and `r_21`, the lever arms
to the joint (m), which are not read: the filter finds them.

The IMUs lag the reference by about 15 ms; and in one recording the reference turns over for some frames.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording, Series, imu_channel, truth_channel
from onboard_estimation.contract.converters import Converted
from recorded_robots.files import in_unit, read_matlab, real, size

Array = NDArray[np.float64]

NAMES = ("proximal", "distal")
_COLUMNS = {"sensorData": 12, "ref": 17}
_LONGEST_LAG_S = 0.06
_FEWEST_ROWS = 10
_JUMP_RAD_S = 2.5
"""The reference turns faster or slower than the gyro by more than this: it is wrong there."""
_BETWEEN_JUMPS = 12
"""Rows between two jumps that are as wrong as these."""
_AGREED_RAD_S = 0.5
"""Rows that tell the lag: where reference and gyro agree to this with it."""


def read_two_link_imu(path: Path, truth_as_recorded: bool = False) -> Converted:
    """Two jointed links with an IMU on each and optical truth (.mat, Weygers and Kok).

    Of its clocks: the IMUs lag the reference, which is delayed by as much as brings its rates onto those of the gyros;
    rows at which the reference turns over are left out and counted. Both unless left as recorded. Stamps start at 1 s.

    Raises
    ------
    UserError
        No such MATLAB file, an array that is missing or has the wrong shape, no rate, another unit.
    """
    rate_hz, sensors, reference = _load(path)
    stamps_ns = np.round(np.arange(len(sensors)) * (NANOSECONDS_PER_SECOND / rate_hz)).astype(np.int64)
    readings = [np.roll(sensors[:, 6 * k : 6 * k + 6], 3, axis=1) for k in range(2)]  # gyro first
    quaternions = [np.roll(reference[:, 4 * k : 4 * k + 4], -1, axis=1) for k in range(2)]  # w last
    poses = [np.hstack([reference[:, 8 + 3 * k : 11 + 3 * k], quaternions[k]]) for k in range(2)]
    norms = np.linalg.norm(quaternions, axis=2)
    read = np.asarray(np.isfinite(sensors).all(axis=1))
    seen = np.asarray(np.isfinite(reference[:, :14]).all(axis=1) & (np.abs(norms - 1.0) < 0.01).all(axis=0))
    notes = []
    for name, good in (("sensorData", read), ("ref", seen)):
        if good.sum() < _FEWEST_ROWS:
            raise UserError(f"{path}: {name} has {good.sum()} rows of {len(good)} that are numbers and rotations")
        if not good.all():
            notes.append(f"{name}: {np.sum(~good)} of {len(good)} rows left out, not finite or no rotation.")
    in_unit(path, sensors[read, :3], 5.0, 20.0, "m/s^2")
    truth_ns = stamps_ns
    if truth_as_recorded:
        notes.append("Reference left as recorded: it leads the IMUs, and may turn over.")
    elif read.all() and seen.all():
        lags_s = [_lag_s(one[:, :3], turn, rate_hz) for one, turn in zip(readings, quaternions, strict=True)]
        lag_s = float(np.mean(lags_s))
        wrong = _wrong_rows(readings, quaternions, lag_s, rate_hz)
        truth_ns, seen = stamps_ns + round(lag_s * NANOSECONDS_PER_SECOND), ~wrong
        notes.append(f"Reference delayed by {1000 * lag_s:.1f} ms, by which the gyros lag its rates.")
        if wrong.any():
            notes.append(
                f"Reference: {wrong.sum()} of {len(wrong)} rows left out, it jumps there and the gyros do not."
            )
    else:
        notes.append("Reference left as recorded: with rows missing its lag cannot be told.")
    imus = [Series(imu_channel(name), stamps_ns[read], one[read]) for name, one in zip(NAMES, readings, strict=True)]
    truth = [Series(truth_channel(name), truth_ns[seen], one[seen]) for name, one in zip(NAMES, poses, strict=True)]
    return Converted(
        recording=Recording(tuple(imus), tuple(truth)),
        notes=(*notes, "Stamps start at 1 s."),
        counts={"rows": len(sensors), "reference_rows": int(seen.sum())},
    )


def _lag_s(rates: Array, quaternions: Array, rate_hz: float) -> float:
    """By how much the gyro's rates (n, 3) come after those of the reference (n, 4), s.

    By least squares over the lag, and at each over what is constant: bias, and how the frames are turned.
    """
    steps = np.arange(len(rates))
    rotations = Rotation.from_quat(quaternions)
    true = (rotations[:-2].inv() * rotations[2:]).as_rotvec() * (0.5 * rate_hz)
    # Simpson's rule: the mean rate over the same two steps.
    seen = (rates[:-2] + 4.0 * rates[1:-1] + rates[2:]) / 6.0
    across = np.column_stack([seen, np.ones(len(seen))])

    def differences(lag_s: float, used: NDArray[np.bool_]) -> Array:
        """(n - 2, 3) of the reference, delayed, and the gyro, turned and shifted to fit where it is used."""
        delayed = np.column_stack([np.interp(steps[1:-1] - lag_s * rate_hz, steps[1:-1], one) for one in true.T])
        fit, *_ = np.linalg.lstsq(across[used], delayed[used], rcond=None)
        return np.asarray(delayed - across @ fit)

    lag_s, used = 0.0, np.linalg.norm(true - seen, axis=1) < _JUMP_RAD_S
    for _ in range(3):
        if used.sum() < _FEWEST_ROWS:
            return 0.0
        found = minimize_scalar(
            lambda lag_s, used: float(np.sum(differences(lag_s, used)[used] ** 2)),
            args=(used,),
            bounds=(-_LONGEST_LAG_S, _LONGEST_LAG_S),
            method="bounded",
        )
        lag_s = float(found.x)
        used = np.linalg.norm(differences(lag_s, used), axis=1) < _AGREED_RAD_S
    return lag_s


def _wrong_rows(readings: list[Array], quaternions: list[Array], lag_s: float, rate_hz: float) -> NDArray[np.bool_]:
    """(n,) where either reference jumps against its gyro, and shortly between two jumps."""
    wrong = np.zeros(len(readings[0]), dtype=np.bool_)
    steps = np.arange(len(wrong))
    for one, turn in zip(readings, quaternions, strict=True):
        rotations = Rotation.from_quat(turn)
        true = (rotations[:-1].inv() * rotations[1:]).as_rotvec() * rate_hz
        seen = np.column_stack([np.interp(steps[:-1] + 0.5 + lag_s * rate_hz, steps, rate) for rate in one[:, :3].T])
        jumps = np.flatnonzero(np.linalg.norm(true - seen, axis=1) > _JUMP_RAD_S)
        for jump in jumps:
            wrong[jump : jump + 2] = True
        for first, second in pairwise(jumps):
            if second - first <= _BETWEEN_JUMPS:
                wrong[first : second + 1] = True
    return wrong


def _load(path: Path) -> tuple[float, Array, Array]:
    """Rate in Hz, `sensorData` (n, 12) and `ref` (n, 17)."""
    struct = read_matlab(path, "data").get("data")
    fields = () if struct is None else struct.dtype.names or ()
    missing = [name for name in ("rate", *_COLUMNS) if name not in fields]
    if struct is None or missing or struct.size != 1:
        wanted = ", ".join(missing) or "one element"
        raise UserError(f"{path}: its struct data lacks {wanted}; a recording has rate, sensorData and ref in it")
    rate, sensors, reference = (real(path, name, struct[name].item()) for name in ("rate", *_COLUMNS))
    if rate.size != 1 or not 1.0 <= rate.item() <= 10_000.0:
        raise UserError(f"{path}: rate is {rate.ravel()[:4]}, it must be one number in Hz, 1 to 10000")
    rows = len(sensors)
    for (name, columns), array in zip(_COLUMNS.items(), (sensors, reference), strict=True):
        if array.shape != (rows, columns) or rows < _FEWEST_ROWS:
            raise UserError(f"{path}: {name} is {size(array)}, it must be {max(rows, _FEWEST_ROWS)} x {columns}")
    return rate.item(), sensors, reference
