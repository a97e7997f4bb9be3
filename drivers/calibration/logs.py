"""Logs of one inertial sensor: a CSV table, a bag's `sensor_msgs/Imu` topic, or a format that a converter reads."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.converters import GROUP, Converter
from onboard_estimation.errors import UserError
from onboard_estimation.installed import load
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

Array = NDArray[np.float64]

ACCELEROMETER_UNITS: Mapping[str, float] = {"m/s2": 1.0, "g": STANDARD_GRAVITY_M_S2}
GYRO_UNITS: Mapping[str, float] = {"rad/s": 1.0, "deg/s": float(np.pi / 180.0)}

_IMU = "sensor_msgs/msg/Imu"
_COLUMNS = (
    *((f"gyr_{axis}", f"gyro_{axis}", f"g{axis}", f"w{axis}") for axis in "xyz"),
    *((f"acc_{axis}", f"accelerometer_{axis}", f"a{axis}") for axis in "xyz"),
)
_TIME_COLUMNS = ("time_s", "t", "time")
_LEAST_READINGS = 20
_MOST_EMPTY = 20.0
_LONGEST_PERIOD_S = 0.08  # for three readings in a quarter of a second
_FIRST_DATE_NS = 946_684_800 * NANOSECONDS_PER_SECOND  # the year 2000: before it, no clock was set


@dataclass(frozen=True, eq=False)
class ImuLog:
    """Readings of one sensor, in its frame.

    Attributes
    ----------
    name, sensor
        Of the file, and of the sensor in it.
    time_s
        (K,) from the first reading on, increasing.
    values
        (K, 6) gyro x y z (rad/s), accelerometer x y z (m/s^2); the gyro NaN throughout where there is none.
    recorded
        UTC time of the first reading, where the log tells it.
    notes
        What was left out, in sentences.
    """

    name: str
    sensor: str
    time_s: Array
    values: Array
    recorded: str = ""
    notes: tuple[str, ...] = ()

    @property
    def has_gyro(self) -> bool:
        """Whether it has one."""
        return bool(np.isfinite(self.values[0, :3]).all())

    @property
    def period_s(self) -> float:
        """Median time between readings."""
        return float(np.median(np.diff(self.time_s)))


@dataclass(frozen=True)
class CsvForm:
    """What a CSV table does not tell: units, and the rate where it has no column `time_s`."""

    rate_hz: float | None = None
    accelerometer_unit: str = "m/s2"
    gyro_unit: str = "rad/s"


def read_log(path: Path, form: str | None = None, csv_form: CsvForm | None = None) -> dict[str, ImuLog | UserError]:
    """All inertial sensors of a log, by name: the topic in a bag, the sensor of a converter, `imu` in a table.

    A sensor that cannot be used (too few readings, an attitude only) is there with the reason: others may be wanted.

    Parameters
    ----------
    form
        Format of a converter (`convert --formats`), e.g. `serial_log`; None: a table (.csv) or a bag.

    Raises
    ------
    UserError
        The file cannot be read or holds no IMU.
    """
    if not path.exists():
        raise UserError(f"cannot read {path}: no such file or folder")
    logs: dict[str, ImuLog | UserError]
    if form is not None:
        logs = _converted(path, form)
    elif path.suffix.lower() == ".csv":
        logs = {"imu": _read_csv(path, csv_form or CsvForm())}
    else:
        logs = _read_bag(path)
    if not logs:
        raise UserError(f"{path}: no topic with {_IMU}")
    return logs


def _read_bag(path: Path) -> dict[str, ImuLog | UserError]:
    from onboard_estimation.evaluation.bags import open_bag
    from onboard_estimation.evaluation.bulk import read_channels

    with open_bag(path) as bag:
        topics = [name for name, topic in bag.topics.items() if topic.message_type == _IMU and topic.count]
        columns = read_channels(bag, {name: Channel(name, _IMU, name) for name in topics})
    logs = {}
    for name, column in columns.items():
        notes = tuple(f"{path}, {note}" for note in column.notes(name))
        logs[name] = _log_or_reason(path, name, column.stamps_ns, column.values, notes)
    return logs


def _converted(path: Path, form: str) -> dict[str, ImuLog | UserError]:
    read: Converter = load(GROUP, "format", form)
    content = read(path, False)
    notes = tuple(f"{path}: {note}" for note in content.notes)
    return {
        series.channel.sensor: _log_or_reason(path, series.channel.sensor, series.stamps_ns, series.values, notes)
        for series in content.recording.sensors
        if series.channel.message_type == _IMU and series.channel.field != "orientation" and len(series.stamps_ns)
    }


def _read_csv(path: Path, form: CsvForm) -> ImuLog:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header = [name.strip() for name in next(csv.reader(file), [])]
        time = [header.index(name) for name in _TIME_COLUMNS if name in header]
        wanted = [next((header.index(one) for one in names if one in header), None) for names in _COLUMNS]
        missing = [names[0] for names, place in zip(_COLUMNS, wanted, strict=True) if place is None]
        if any(name.startswith("acc") for name in missing) or len(missing) not in (0, 3):
            raise UserError(
                f"{path}: no column {', '.join(missing)}; there are {', '.join(header)[:200] or 'none'}. Expected is a "
                "header line with acc_x, acc_y, acc_z, gyr_x, gyr_y, gyr_z and time_s"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a table without rows; that is said below
            table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, csv.Error) as error:
        raise UserError(f"{path}: no table of numbers: {str(error)[:200]}") from error
    if not len(table):
        table = np.empty((0, len(header)))
    if table.shape[1] != len(header):
        raise UserError(f"{path}: no table of numbers: {table.shape[1]} in a line, {len(header)} names in its header")
    values = np.full((len(table), 6), np.nan)
    for column, place in enumerate(wanted):
        if place is not None:
            values[:, column] = table[:, place]
    values *= np.repeat([GYRO_UNITS[form.gyro_unit], ACCELEROMETER_UNITS[form.accelerometer_unit]], 3)
    if form.rate_hz is not None:
        seconds = np.arange(len(table)) / form.rate_hz
    elif time:
        seconds = table[:, time[0]]
    else:
        raise UserError(f"{path}: no column time_s; give --rate, readings per second")
    if not np.isfinite(seconds).all() or np.abs(seconds).max(initial=0.0) > 1e10:
        raise UserError(f"{path}: the column {header[time[0]]} holds what is no time in s")
    return _log(path, "imu", np.round(seconds * NANOSECONDS_PER_SECOND).astype(np.int64), values, ())


def _log_or_reason(
    path: Path, sensor: str, stamps_ns: NDArray[np.int64], values: Array, notes: tuple[str, ...]
) -> ImuLog | UserError:
    try:
        return _log(path, sensor, stamps_ns, values, notes)
    except UserError as error:
        return error


def _log(path: Path, sensor: str, stamps_ns: NDArray[np.int64], values: Array, notes: tuple[str, ...]) -> ImuLog:
    """A log without readings that are no numbers or do not follow in time."""
    rates = values[np.isfinite(values[:, :3]).all(axis=1), :3]
    gyro = len(rates) > 0
    if gyro and not np.ptp(rates, axis=0).any():
        # Messages that leave the rate at zero are no gyro that rests.
        gyro, values = False, np.hstack([np.full((len(values), 3), np.nan), values[:, 3:]])
        notes = (*notes, f"{path}, {sensor}: the gyro reads the same throughout; taken for none.")
    finite = np.isfinite(values if gyro else values[:, 3:]).all(axis=1)
    order = np.argsort(stamps_ns[finite], kind="stable")
    stamps, kept = stamps_ns[finite][order], values[finite][order]
    new = np.diff(stamps, prepend=np.int64(-1) if not len(stamps) else stamps[0] - 1) > 0
    stamps, kept = stamps[new], kept[new]
    if len(stamps) < _LEAST_READINGS:
        raise UserError(f"{path}, {sensor}: {len(stamps)} readings; a calibration needs {_LEAST_READINGS} and more")
    span_s = float(stamps[-1] - stamps[0]) / NANOSECONDS_PER_SECOND
    period_s = float(np.median(np.diff(stamps))) / NANOSECONDS_PER_SECOND
    if period_s > _LONGEST_PERIOD_S:
        raise UserError(
            f"{path}, {sensor}: a reading every {period_s:.4g} s; one every {_LONGEST_PERIOD_S:g} s is needed. "
            "Are its times in s?"
        )
    filled_s = len(stamps) * period_s
    if span_s > _MOST_EMPTY * filled_s:
        raise UserError(
            f"{path}, {sensor}: times span {span_s:.4g} s, readings fill {filled_s:.4g} s of it; did its clock jump?"
        )
    if left_out := len(stamps_ns) - len(stamps):
        notes = (*notes, f"{path}, {sensor}: {left_out} readings left out: no numbers, or the time of another.")
    recorded = ""
    if stamps[0] > _FIRST_DATE_NS:
        seconds = int(stamps[0]) // NANOSECONDS_PER_SECOND
        recorded = datetime.fromtimestamp(seconds, timezone.utc).isoformat()
    name = path.resolve().name
    return ImuLog(name, sensor, (stamps - stamps[0]) / NANOSECONDS_PER_SECOND, kept, recorded, notes)
