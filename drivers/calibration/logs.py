"""Logs of one inertial sensor, and where in them it rested and was turned.

A log is a CSV table, a bag's `sensor_msgs/Imu` topic, or of a format that a converter reads.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.bounded_file import open_regular, read_bounded_text
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from onboard_estimation.contract.converters import GROUP, Converter

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


_Columns = tuple[str, NDArray[np.int64], Array, tuple[str, ...]]
"""Sensor, stamps, ns, values, notes."""


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
    if form is not None:
        columns = _converted(path, form)
    elif path.suffix.lower() == ".csv":
        return {"imu": _log(path, "imu", *_read_csv(path, csv_form or CsvForm()), ())}
    else:
        columns = _read_bag(path)
    logs: dict[str, ImuLog | UserError] = {}
    for sensor, stamps_ns, values, notes in columns:
        try:
            logs[sensor] = _log(path, sensor, stamps_ns, values, notes)
        except UserError as error:
            logs[sensor] = error
    if not logs:
        raise UserError(f"{path}: no topic with {_IMU}")
    return logs


def _read_bag(path: Path) -> list[_Columns]:
    from onboard_estimation.bags.bag import open_bag
    from onboard_estimation.bags.bulk import read_channels

    with open_bag(path) as bag:
        topics = [name for name, topic in bag.topics.items() if topic.message_type == _IMU and topic.count]
        columns = read_channels(bag, {name: Channel(name, _IMU, name) for name in topics})
    return [
        (name, one.stamps_ns, one.values, tuple(f"{path}, {note}" for note in one.notes(name)))
        for name, one in columns.items()
    ]


def _converted(path: Path, form: str) -> list[_Columns]:
    read: Converter = load(GROUP, "format", form)
    content = read(path, False)
    notes = tuple(f"{path}: {note}" for note in content.notes)
    return [
        (series.channel.sensor, series.stamps_ns, series.values, notes)
        for series in content.recording.sensors
        if series.channel.message_type == _IMU and series.channel.field != "orientation" and len(series.stamps_ns)
    ]


def _read_csv(path: Path, form: CsvForm) -> tuple[NDArray[np.int64], Array]:
    """Stamps, ns, and values."""
    try:
        with open_regular(path) as packed:
            file = io.TextIOWrapper(packed, encoding="utf-8", newline="")
            header = [name.strip() for name in next(csv.reader(file), [])]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a table without rows; that is said below
                table = np.loadtxt(file, delimiter=",", ndmin=2)
        time = [header.index(name) for name in _TIME_COLUMNS if name in header]
        wanted = [next((header.index(one) for one in names if one in header), None) for names in _COLUMNS]
        missing = [names[0] for names, place in zip(_COLUMNS, wanted, strict=True) if place is None]
        if any(name.startswith("acc") for name in missing) or len(missing) not in (0, 3):
            raise UserError(
                f"{path}: no column {', '.join(missing)}; there are {', '.join(header)[:200] or 'none'}. Expected is a "
                "header line with acc_x, acc_y, acc_z, gyr_x, gyr_y, gyr_z and time_s"
            )
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
    return np.round(seconds * NANOSECONDS_PER_SECOND).astype(np.int64), values


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


# Where in a log the sensor rested, in which position, and where it was turned: given, or found.

POSITIONS = ("+x", "-x", "+y", "-y", "+z", "-z")
"""Which axis of the sensor points up, so that it reads + or - g there."""
UP: Array = np.kron(np.eye(3), np.array([[1.0], [-1.0]]))
"""(6, 3) direction of the specific force in these positions, sensor frame."""
SHORTEST_REST_S = 1.5
_BLOCK_S = 0.25
_QUIETEST_SHARE = 20.0  # percentile of the blocks that counts as rest, whatever the sensor's noise
_OVER_FLOOR = 5.0
_LEAST_GYRO_RAD_S = 0.03  # what a hand that holds the sensor still may do
_LEAST_ACCELERATION_M_S2 = 0.15
_MOST_MOVED_M_S2 = 0.3  # between neighbouring blocks of one rest
_MOST_OFF_AXIS = np.deg2rad(30.0)
_LABELS = {
    f"{start}{axis}{end}": f"{label}{axis}"
    for axis in "xyz"
    for label, names in (("+", ("+", "_p")), ("-", ("-", "_a")), ("turn ", ("turn_", "_rot")))
    for start, end in ((names[0], ""), ("", names[1]))
}
"""Of sections, by what files call them."""


@dataclass(frozen=True)
class Section:
    """A stretch of a log, s from its start; `label` is a position ("+x"), a turn ("turn x") or empty for a rest."""

    start_s: float
    end_s: float
    label: str = ""

    @property
    def duration_s(self) -> float:
        """How long it is."""
        return self.end_s - self.start_s

    def rows(self, log: ImuLog) -> slice:
        """Of the log's readings."""
        first, last = np.searchsorted(log.time_s, [self.start_s, self.end_s])
        return slice(int(first), int(last))


def find_rests(log: ImuLog) -> list[Section]:
    """Rests of a log: blocks of a quarter of a second that are as quiet as its quietest fifth, in rows.

    A turn at constant speed is quiet, too: the gyro has to read what it reads in most quiet blocks.
    """
    count = int(np.floor(log.time_s[-1] / _BLOCK_S))
    if count < 2:
        return []
    edges = np.searchsorted(log.time_s, _BLOCK_S * np.arange(count + 1))
    full = np.diff(edges) >= 3
    mean, spread = np.full((count, 6), np.nan), np.full((count, 6), np.inf)
    for block in np.flatnonzero(full).tolist():
        values = log.values[edges[block] : edges[block + 1]]
        mean[block], spread[block] = values.mean(axis=0), values.std(axis=0)
    quiet = full & _quiet(spread[:, 3:].max(axis=1), _LEAST_ACCELERATION_M_S2)
    if log.has_gyro:
        quiet &= _quiet(spread[:, :3].max(axis=1), _LEAST_GYRO_RAD_S)
        if quiet.any():
            usual = np.median(mean[quiet, :3], axis=0)
            noise = np.median(spread[quiet, :3])
            quiet &= np.abs(mean[:, :3] - usual).max(axis=1) < max(_LEAST_GYRO_RAD_S, noise)
    noise = float(np.median(spread[quiet, 3:])) if quiet.any() else 0.0
    moved = np.linalg.norm(np.diff(mean[:, 3:], axis=0), axis=1) > max(_MOST_MOVED_M_S2, 3.0 * noise)
    goes_on = quiet[:-1] & quiet[1:] & ~moved
    first, last = quiet.copy(), quiet.copy()
    first[1:] &= ~goes_on
    last[:-1] &= ~goes_on
    blocks = zip(np.flatnonzero(first).tolist(), np.flatnonzero(last).tolist(), strict=True)
    # The blocks at both ends may hold the begin of a motion.
    rests = [Section((start + 1) * _BLOCK_S, end * _BLOCK_S) for start, end in blocks]
    return [one for one in rests if one.duration_s >= SHORTEST_REST_S]


def _quiet(spread: Array, least: float) -> NDArray[np.bool_]:
    finite = spread[np.isfinite(spread)]
    floor = float(np.percentile(finite, _QUIETEST_SHARE)) if len(finite) else 0.0
    out: NDArray[np.bool_] = spread < max(least, _OVER_FLOOR * floor)
    return out


def positions_of(means_m_s2: Array, gravity_m_s2: float) -> list[str]:
    """Position of each rest by gravity; empty where no axis points up or down to within 30 degrees.

    Parameters
    ----------
    means_m_s2
        (n, 3) mean specific force. Where it is not within a fifth of g everywhere (a high-g sensor may be off by 1 g),
        the middle between least and largest is taken for the bias.
    """
    if not len(means_m_s2):
        return []
    plain = np.abs(np.linalg.norm(means_m_s2, axis=1) / gravity_m_s2 - 1.0).max() < 0.2
    highest, lowest = means_m_s2.max(axis=0), means_m_s2.min(axis=0)
    directions = means_m_s2 if plain else means_m_s2 - (highest + lowest) / 2.0
    # The middle is the bias only of an axis that was up once and down once.
    seen = np.abs((highest - lowest) / (2.0 * gravity_m_s2) - 1.0) < 0.3
    lengths = np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-9)  # of one rest alone it is zero
    cosines = directions @ UP.T / lengths
    best = cosines.argmax(axis=1)
    near = (cosines[np.arange(len(best)), best] > np.cos(_MOST_OFF_AXIS)) & (plain | seen[best // 2])
    return [POSITIONS[place] if is_near else "" for place, is_near in zip(best, near, strict=True)]


def read_sections(path: Path, log: ImuLog) -> list[Section]:
    """Sections of a JSON file `{"x_p": {"start": 540, "end": 1271}, ...}`, or of a CSV file with name, start, end.

    `start` and `end` are numbers of readings, the end left out; `start_s` and `end_s` are s from the log's start.
    Names: `x_p` or `+x` (x points up), `x_a` or `-x` (down), `x_rot` or `turn_x` (turned about x), likewise y and z.

    Raises
    ------
    UserError
        The file cannot be read, or a section is not of this form or not in the log.
    """
    text = read_bounded_text(path, str(path))
    try:
        if path.suffix.lower() == ".csv":
            entries = [(row.get("name"), row) for row in csv.DictReader(text.splitlines())]
        else:
            entries = list(json.loads(text).items())
    except (ValueError, AttributeError, RecursionError, csv.Error) as error:
        raise UserError(f"{path}: neither a JSON object of sections nor a CSV file with name, start, end") from error
    sections = []
    for name, entry in entries:
        label = _LABELS.get(str(name))
        start, end = _bound(entry, "start", log), _bound(entry, "end", log)
        if label is None or start is None or end is None:
            raise UserError(
                f"{path}: section {str(name)[:40]!r}: expected x_p, x_a or x_rot (y, z likewise) with start and "
                "end, or start_s and end_s"
            )
        if not 0.0 <= start < end <= log.time_s[-1] + log.period_s:
            raise UserError(
                f"{path}: section {name} from {start:g} to {end:g} s is not in the log of {log.time_s[-1]:.4g} s"
            )
        sections.append(Section(start, end, label))
    return sections


def _bound(entry: Any, name: str, log: ImuLog) -> float | None:
    """s from the log's start; None where there is no such number."""
    try:
        if entry.get(f"{name}_s") not in (None, ""):
            value = float(entry[f"{name}_s"])
        else:
            number = float(entry[name])
            if not 0 <= number <= len(log.time_s):
                return float("inf")
            value = float(np.append(log.time_s, log.time_s[-1] + log.period_s)[int(number)])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return value if np.isfinite(value) else None


# Turns between rests: by how much the gyro says that the sensor was turned, and about which axis.

_WITHIN = 0.15
_NEARLY = 0.5
_ALONG = 0.9
_LONGEST_GAP = 5.0
_HELD = 5


@dataclass(frozen=True, eq=False)
class Turn:
    """A turn about one axis.

    Attributes
    ----------
    turned_rad
        (3,) integral of the gyro less its bias, sensor frame.
    fault
        Why it cannot be used; empty where it can.
    """

    axis: str
    section: Section
    turned_rad: Array
    fault: str = ""

    @property
    def angle_rad(self) -> float:
        """About its axis, by the gyro."""
        return float(self.turned_rad["xyz".index(self.axis)])


def given_turn(log: ImuLog, section: Section, bias_rad_s: Array) -> Turn:
    """The turn of a section labelled "turn x"."""
    turned, _ = _integrals(log, section, bias_rad_s)
    return Turn(section.label[-1], section, turned, _fault(log, section))


def find_turns(
    log: ImuLog, rests: Sequence[Section], bias_rad_s: Array, turn_rad: float
) -> tuple[list[Turn], list[str]]:
    """Turns of about the angle between neighbouring rests, and sentences on what is nearly one.

    Parameters
    ----------
    rests
        In the order of time.
    bias_rad_s
        (3,)
    """
    turns, sentences = [], []
    for before, after in pairwise(rests):
        section = Section(before.end_s, after.start_s)
        turned, path = _integrals(log, section, bias_rad_s)
        place = int(np.argmax(np.abs(turned)))
        if abs(turned[place]) < _ALONG * path[place] or np.linalg.norm(np.delete(path, place)) > 0.25 * path[place]:
            continue
        off = abs(abs(turned[place]) / turn_rad - 1.0)
        if off <= _WITHIN:
            turns.append(Turn("xyz"[place], section, turned, _fault(log, section)))
        elif off < _NEARLY or abs(turned[place]) > 10.0 * turn_rad:
            hint = "; is its unit deg/s (--gyro-unit)?" if abs(turned[place]) > 10.0 * turn_rad else ""
            degrees = abs(np.rad2deg(turned[place]))
            sentences.append(
                f"a motion about {'xyz'[place]} at {section.start_s:.1f} s is {degrees:.0f} deg by the gyro, not "
                f"{np.rad2deg(turn_rad):g} to within {100 * _WITHIN:g} %: not used{hint}"
            )
    return turns, sentences


def _integrals(log: ImuLog, section: Section, bias_rad_s: Array) -> tuple[Array, Array]:
    """(3,) integral of the rate over the section by trapezoids, and of its magnitude, rad."""
    rows = section.rows(log)
    rates = log.values[rows, :3] - bias_rad_s
    steps = np.diff(log.time_s[rows])[:, None]
    middle = (rates[1:] + rates[:-1]) / 2.0
    return (middle * steps).sum(axis=0), (np.abs(middle) * steps).sum(axis=0)


def _fault(log: ImuLog, section: Section) -> str:
    """Why the gyro's integral over the section is wrong; empty where nothing says so."""
    rows = section.rows(log)
    rates, times = log.values[rows, :3], log.time_s[rows]
    where = f"the turn at {section.start_s:.1f} s is not used: "
    gap = float(np.diff(times).max(initial=0.0))
    if gap > _LONGEST_GAP * log.period_s:
        return f"{where}{1e3 * gap:.0f} ms of readings are missing in it; turn again"
    # The end of the range: the largest value of the turn, several times in a row.
    for axis, values in zip("xyz", np.abs(rates).T, strict=True):
        at_end = values == values.max(initial=0.0)
        held = np.convolve(at_end, np.ones(_HELD), "valid")
        if len(values) > _HELD and held.max(initial=0.0) >= _HELD and values.max() > 0.5:
            return (
                f"{where}the gyro stays at {values.max():.3g} rad/s about {axis} for "
                f"{np.count_nonzero(at_end)} readings, the end of its range; turn more slowly"
            )
    return ""
