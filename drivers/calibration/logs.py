"""Logs of one inertial sensor, and where in them it rested and was turned.

A log is a CSV table, a bag's `sensor_msgs/Imu` topic, or of a format that a converter reads.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.calibration.procedure import Procedure
from onboard_estimation.base.bounded_file import open_regular, read_bounded_text, reading
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from onboard_estimation.contract.converters import GROUP, Converter
from onboard_estimation.soundness.at_rest import is_imu
from onboard_estimation.soundness.stretches import longest_run, runs

Array = NDArray[np.float64]

ACCELEROMETER_UNITS: Mapping[str, float] = {"m/s2": 1.0, "g": STANDARD_GRAVITY_M_S2}
GYRO_UNITS: Mapping[str, float] = {"rad/s": 1.0, "deg/s": float(np.pi / 180.0)}

_IMU = "sensor_msgs/msg/Imu"
_COLUMNS = (
    *((f"gyr_{axis}", f"gyro_{axis}", f"g{axis}", f"w{axis}") for axis in "xyz"),
    *((f"acc_{axis}", f"accelerometer_{axis}", f"a{axis}") for axis in "xyz"),
    ("time_s", "t", "time"),
)
_USUAL = Procedure()
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
    reference
        Log that its rests are found in: of another sensor on the same board, where it has no gyro, or is too noisy to
        show them; None: itself.
    """

    name: str
    sensor: str
    time_s: Array
    values: Array
    recorded: str = ""
    notes: Sequence[str] = ()
    reference: ImuLog | None = None

    @property
    def has_gyro(self) -> bool:
        """Whether it has one."""
        return bool(np.isfinite(self.values[0, :3]).all())

    @property
    def period_s(self) -> float:
        """Median time between readings."""
        return float(np.median(np.diff(self.time_s)))


_Columns = tuple[str, NDArray[np.int64], Array, Sequence[str]]
"""Sensor, stamps, ns, values, notes."""


def read_log(path: Path, form: str | None = None, procedure: Procedure = _USUAL) -> dict[str, ImuLog | UserError]:
    """All inertial sensors of a log, by name: the topic in a bag, the sensor of a converter, `imu` in a table.

    A sensor that cannot be used (too few readings, an attitude only) is there with the reason: others may be wanted.

    Parameters
    ----------
    form
        Format of a converter (`convert --formats`), e.g. `serial_log`; None: a table (.csv) or a bag.
    procedure
        Of a table: its units, and its rate where it has no column `time_s`.

    Raises
    ------
    UserError
        The file cannot be read or holds no IMU.
    """
    if not path.exists():
        raise UserError(f"cannot read {path}: no such file or folder")
    is_table = form is None and path.suffix.lower() == ".csv"
    columns = _read_csv(path, procedure) if is_table else _converted(path, form) if form else _read_bag(path)
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
        columns = read_channels(bag, {name: Channel(name, _IMU, name) for name in topics}).items()
    return [(name, one.stamps_ns, one.values, [f"{path}, {note}" for note in one.notes(name)]) for name, one in columns]


def _converted(path: Path, form: str) -> list[_Columns]:
    read: Converter = load(GROUP, "format", form)
    content = read(path, False)
    notes = [f"{path}: {note}" for note in content.notes]
    imus = [one for one in content.recording.sensors if is_imu(one.channel) and len(one.stamps_ns)]
    return [(one.channel.sensor, one.stamps_ns, one.values, notes) for one in imus]


def _read_csv(path: Path, procedure: Procedure) -> list[_Columns]:
    try:
        with reading(path), open_regular(path) as packed:
            file = io.TextIOWrapper(packed, encoding="utf-8", newline="")
            header = [name.strip() for name in next(csv.reader(file), [])]
            lines = file.readlines()
        *places, time = [next((header.index(one) for one in names if one in header), -1) for names in _COLUMNS]
        missing = [names[0] for names, place in zip(_COLUMNS, places, strict=False) if place < 0]
        if any(name.startswith("acc") for name in missing) or len(missing) not in (0, 3):
            raise UserError(
                f"{path}: no column {', '.join(missing)}; there are {', '.join(header)[:200] or 'none'}. Expected is a "
                "header line with acc_x, acc_y, acc_z, gyr_x, gyr_y, gyr_z and time_s"
            )
        table = np.loadtxt(lines, delimiter=",", ndmin=2) if lines else np.empty((0, len(header)))
    except (ValueError, csv.Error) as error:
        raise UserError(f"{path}: no table of numbers: {str(error)[:200]}") from error
    if table.shape[1] != len(header):
        raise UserError(f"{path}: no table of numbers: {table.shape[1]} in a line, {len(header)} names in its header")
    if procedure.rate_hz is None and time < 0:
        raise UserError(f"{path}: no column time_s; give --rate, readings per second")
    seconds = table[:, time] if procedure.rate_hz is None else np.arange(len(table)) / procedure.rate_hz
    if not np.isfinite(seconds).all() or np.abs(seconds).max(initial=0.0) > 1e10:
        raise UserError(f"{path}: the column {header[time]} holds what is no time in s")
    table = np.column_stack([table, np.full(len(table), np.nan)])  # which is what a column that is missing reads
    scales = np.repeat([GYRO_UNITS[procedure.gyro_unit], ACCELEROMETER_UNITS[procedure.accelerometer_unit]], 3)
    return [("imu", np.round(seconds * NANOSECONDS_PER_SECOND).astype(np.int64), table[:, places] * scales, ())]


def _log(path: Path, sensor: str, stamps_ns: NDArray[np.int64], values: Array, notes: Sequence[str]) -> ImuLog:
    """A log without readings that are no numbers or do not follow in time."""
    rates = values[np.isfinite(values[:, :3]).all(axis=1), :3]
    gyro = len(rates) > 0
    if gyro and not np.ptp(rates, axis=0).any():
        # Messages that leave the rate at zero are no gyro that rests.
        gyro, values = False, np.hstack([np.full((len(values), 3), np.nan), values[:, 3:]])
        notes = (*notes, f"{path}, {sensor}: the gyro reads the same throughout; taken for none.")
    finite = np.isfinite(values if gyro else values[:, 3:]).all(axis=1)
    stamps, first = np.unique(stamps_ns[finite], return_index=True)
    kept = values[finite][first]
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
    return ImuLog(path.resolve().name, sensor, (stamps - stamps[0]) / NANOSECONDS_PER_SECOND, kept, recorded, notes)


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
    log = log.reference or log
    count = int(np.floor(log.time_s[-1] / _BLOCK_S))
    if count < 2:
        return []
    edges = np.searchsorted(log.time_s, _BLOCK_S * np.arange(count + 1))
    blocks = np.split(log.values[: edges[-1]], edges[1:-1])
    few = np.full(6, np.inf)  # too few readings are not at rest
    mean = np.array([one.mean(axis=0) if len(one) >= 3 else np.zeros(6) for one in blocks])
    spread = np.array([one.std(axis=0) if len(one) >= 3 else few for one in blocks])
    quiet = _quiet(spread[:, 3:], _LEAST_ACCELERATION_M_S2) & _quiet(spread[:, :3], _LEAST_GYRO_RAD_S)
    if not quiet.any():
        return []
    usual = np.median(mean[quiet, :3], axis=0)
    gyro_noise, noise = float(np.median(spread[quiet, :3])), float(np.median(spread[quiet, 3:]))
    quiet &= ~(np.abs(mean[:, :3] - usual).max(axis=1) >= max(_LEAST_GYRO_RAD_S, gyro_noise))
    moved = np.linalg.norm(np.diff(mean[:, 3:], axis=0), axis=1) > max(_MOST_MOVED_M_S2, 3.0 * noise)
    # The blocks at both ends may hold the begin of a motion.
    rests = [Section((start + 1) * _BLOCK_S, end * _BLOCK_S) for start, end in runs(quiet[:-1] & quiet[1:] & ~moved)]
    return [one for one in rests if one.duration_s >= SHORTEST_REST_S]


def _quiet(spread: Array, least: float) -> NDArray[np.bool_]:
    """Which blocks are, by the standard deviations (n, 3) of their readings; a sensor that is none (NaN) is."""
    largest = spread.max(axis=1)
    floor = np.percentile(largest[np.isfinite(largest)], _QUIETEST_SHARE) if np.isfinite(largest).any() else 0.0
    return ~(largest >= max(least, _OVER_FLOOR * float(floor)))


def positions_of(means_m_s2: Array, gravity_m_s2: float) -> list[str]:
    """Position of each rest by gravity; empty where no axis points up or down to within 30 degrees.

    Parameters
    ----------
    means_m_s2
        (n, 3) mean specific force. Where it is not within a fifth of g everywhere (a high-g sensor may be off by 1 g),
        the middle between least and largest is taken for the bias.
    """
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
    """Sections of a JSON file `{"x_p": {"start": 540, "end": 1271}, ...}`.

    `start` and `end` are numbers of readings, the end left out; `start_s` and `end_s` are s from the log's start.
    Names: `x_p` or `+x` (x points up), `x_a` or `-x` (down), `x_rot` or `turn_x` (turned about x), likewise y and z.

    Raises
    ------
    UserError
        The file cannot be read, or a section is not of this form or not in the log.
    """
    text = read_bounded_text(path, str(path))
    try:
        entries = list(json.loads(text).items())
    except (ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}: no JSON object of sections") from error
    sections = []
    for name, entry in entries:
        label, start, end = _LABELS.get(str(name), ""), _bound(entry, "start", log), _bound(entry, "end", log)
        if not label or np.isnan(start + end):
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


def _bound(entry: Any, name: str, log: ImuLog) -> float:
    """s from the log's start, infinite beyond its readings; NaN where there is no such number."""
    try:
        if f"{name}_s" in entry:
            return float(entry[f"{name}_s"])
        times, number = np.append(log.time_s, log.time_s[-1] + log.period_s), float(entry[name])
        return float(times[int(number)]) if 0 <= number < len(times) else number * np.inf
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return np.nan


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


def find_turns(log: ImuLog, rests: Sequence[Section], bias_rad_s: Array, turn_rad: float) -> list[Turn]:
    """Turns of about the angle between neighbouring rests; with a fault those that are nearly one.

    Parameters
    ----------
    rests
        In the order of time.
    bias_rad_s
        (3,)
    """
    turns = []
    for before, after in pairwise(rests):
        section = Section(before.end_s, after.start_s)
        turned, path = _integrals(log, section, bias_rad_s)
        place = int(np.argmax(np.abs(turned)))
        size = abs(turned[place])
        off, is_huge = abs(size / turn_rad - 1.0), size > 10.0 * turn_rad
        is_one_axis = size >= _ALONG * path[place] and np.linalg.norm(np.delete(path, place)) <= 0.25 * path[place]
        if not is_one_axis or (off >= _NEARLY and not is_huge):
            continue
        fault = _fault(log, section)
        if off > _WITHIN:
            fault = (
                f"a motion about {'xyz'[place]} at {section.start_s:.1f} s is {np.rad2deg(size):.0f} deg by the gyro, "
                f"not {np.rad2deg(turn_rad):g} to within {100 * _WITHIN:g} %: not used"
                f"{'; is its unit deg/s (--gyro-unit)?' if is_huge else ''}"
            )
        turns.append(Turn("xyz"[place], section, turned, fault))
    return turns


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
        if len(longest_run(at_end)) >= _HELD and values.max() > 0.5:
            return (
                f"{where}the gyro stays at {values.max():.3g} rad/s about {axis} for "
                f"{np.count_nonzero(at_end)} readings, the end of its range; turn more slowly"
            )
    return ""
