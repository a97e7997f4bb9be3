"""What an inspection of a bag finds out, as data: for the terminal (`inspection.render`) and for JSON."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from onboard_estimation.base.atomic_file import plain
from onboard_estimation.base.errors import printable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.soundness.body_frames import FrameReport
from onboard_estimation.soundness.clock_alignment import ClockReport
from onboard_estimation.soundness.motion import Finding


@dataclass(frozen=True)
class TimingReport:
    """Times of one topic's messages, by their header stamps (log times where the type has no header).

    Attributes
    ----------
    rate_hz
        1 / median of the steps forward; None for less than two messages.
    duration_s
        From the first to the last message.
    regular
        Most steps are near the median, so that a gap means lost messages.
    gaps
        Steps longer than five median steps.
    longest_gap_s, longest_gap_at_s
        The longest of them, and when it starts, in seconds since the bag's start.
    duplicates
        Messages with the same time as the one before.
    backward_jumps, largest_backward_s
        Messages with an earlier time than the one before, and how far the farthest jumps.
    """

    rate_hz: float | None
    duration_s: float
    regular: bool
    gaps: int
    longest_gap_s: float
    longest_gap_at_s: float
    duplicates: int
    backward_jumps: int
    largest_backward_s: float


@dataclass(frozen=True)
class TopicReport:
    """One topic.

    Attributes
    ----------
    has_header
        Times are header stamps; otherwise log times.
    undecodable
        Messages that are not what the topic's type says.
    tailed, longest_tail
        Messages with bytes behind their end, and the most such bytes of one; of topics that an estimator could read.
    not_finite
        Messages with NaN or infinity among the numbers that an estimator reads; None where they were not looked at.
    delay_median_s, delay_largest_s
        Log time minus header stamp: the median, and the value farthest from it. None without header.
    frames
        Every `header.frame_id`, the most frequent first.
    """

    name: str
    message_type: str
    count: int
    has_header: bool
    timing: TimingReport
    undecodable: int
    not_finite: int | None
    delay_median_s: float | None
    delay_largest_s: float | None
    frames: tuple[str, ...]
    tailed: int = 0
    longest_tail: int = 0


@dataclass(frozen=True)
class TruthReport:
    """Quality of one ground-truth topic.

    Attributes
    ----------
    coverage
        Share of the sensors' time with a pose at most five median steps away.
    longest_hole_s, longest_hole_at_s
        The longest time without a pose within the sensors' time, and when it starts, in seconds since the bag's start.
    flips
        Leaps that are a turn by 90, 120 or 180 degrees, as of markers that are taken one for the other.
    made_up_s, made_up
        Time in which motion capture made the poses up, repeating the last one, at the origin or a leap away, and
        sentences on it.
    largest_step_m, largest_turn_rad
        The largest step between neighbouring poses.
    unusable
        Poses with NaN, or whose quaternion is none.
    """

    topic: str
    coverage: float
    longest_hole_s: float
    longest_hole_at_s: float
    largest_step_m: float
    largest_turn_rad: float
    unusable: int
    flips: int = 0
    made_up_s: float = 0.0
    made_up: tuple[str, ...] = ()


@dataclass(frozen=True)
class RobotReport:
    """Which of a known robot's topics are in the bag; names relative to the robot's namespace.

    Attributes
    ----------
    refused
        What the robot's estimators would refuse as beyond their sensors' ranges, one sentence a topic.
    """

    name: str
    present: tuple[str, ...]
    missing: tuple[str, ...]
    missing_required: tuple[str, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inspection:
    """A bag at one glance.

    Attributes
    ----------
    namespace
        What all topics start with (`/salp`), or empty; the findings leave it out.
    start_ns, duration_s
        By log time.
    findings
        What is wrong or worth knowing, the most important first.
    clocks
        What the motion tells of each IMU and the tracked body that it is on.
    frames
        Where the IMUs sit on their bodies, and which way is up.
    unsound
        Sentences on stamps of another age, dead sensors, and accelerometers that contradict gravity.
    other_poses
        Where there is no truth, sentences on poses that may be it or cannot be read.
    suggested_options
        For `evaluate`, to take topics of other names for those of a robot; none where names alone tell the robot.
    """

    path: str
    format: str
    distribution: str | None
    size_bytes: int
    namespace: str
    message_count: int
    start_ns: int
    duration_s: float
    damage: str | None
    topics: tuple[TopicReport, ...]
    truth: tuple[TruthReport, ...]
    robots: tuple[RobotReport, ...]
    clocks: tuple[ClockReport, ...] = ()
    frames: tuple[FrameReport, ...] = ()
    unsound: tuple[str, ...] = ()
    other_poses: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    suggested_options: tuple[str, ...] = ()

    def summary(self) -> Mapping[str, Any]:
        """What `--json` prints: plain dictionaries, lists, finite numbers, text and None."""
        return plain(asdict(self))

    def short(self, text: str) -> str:
        """With all names of topics within the namespace: `imu/link_1/data_raw` for `/salp/imu/link_1/data_raw`."""
        return text.replace(f"{self.namespace}/", "") if self.namespace else text


_OTHER_CLOCK_S = 10.0
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
_LOOKED_FOR = (
    "gaps, repeated and backward stamps, NaN, delays, holes and jumps in the ground truth, its clock against the IMUs'"
)


def render(inspection: Inspection) -> RenderableType:
    """Tables and findings, for `rich`; made for a terminal of 100 columns."""
    parts: list[RenderableType] = [_title(inspection), Text(), _topic_table(inspection)]
    if any(topic.has_header for topic in inspection.topics):
        parts.append(Text("delay   log time minus header stamp: median, and farthest from it", "dim"))
    if inspection.truth:
        parts += [Text(), _truth_table(inspection)]
    if inspection.clocks:
        parts += [Text(), _clock_table(inspection)]
        parts += [Text(), _frame_table(inspection)] if inspection.frames else []
        parts += _refusals(inspection)
    if any(robot.present for robot in inspection.robots):
        parts += [Text(), _robot_table(inspection)]
    parts += [Text(), _finding_list(inspection)]
    return Group(*parts)


def _title(inspection: Inspection) -> Text:
    start = datetime.datetime.fromtimestamp(inspection.start_ns // NANOSECONDS_PER_SECOND, tz=datetime.timezone.utc)
    origin = f"{inspection.format}, {inspection.distribution}" if inspection.distribution else inspection.format
    place = f", topics under {inspection.namespace}/" if inspection.namespace else ""
    line = Text.assemble(
        (printable(inspection.path), "bold"), f"  ({origin}, {decimal(inspection.size_bytes)}{place})\n"
    )
    line.append(
        f"{inspection.message_count:,} messages over {inspection.duration_s:.2f} s, from {start:%Y-%m-%d %H:%M:%S} UTC"
    )
    return line


class _Column(NamedTuple):
    """A column of a table. One with a severity is of a fault: it is there where some row has the fault."""

    heading: str
    cell: Callable[[Any], str]
    severity: str = ""
    is_name: bool = False


def _table(inspection: Inspection, rows: Sequence[Any], *columns: _Column) -> Table:
    shown = [one for one in columns if not one.severity or any(map(one.cell, rows))]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for one in shown:
        if one.is_name:
            table.add_column(one.heading, overflow="fold")
        else:
            table.add_column(one.heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [(inspection.short(one.cell(row)), one.severity) for one in shown]
        table.add_row(*(Text(cell, _STYLES[severity]) if severity else cell for cell, severity in cells))
    return table


def _topic_table(inspection: Inspection) -> Table:
    return _table(
        inspection,
        inspection.topics,
        _Column("topic", lambda one: one.name, is_name=True),
        _Column("type", lambda one: one.message_type.split("/")[-1], is_name=True),
        _Column("count", lambda one: f"{one.count:,}"),
        _Column("Hz", lambda one: _rate(one.timing)),
        _Column("s", lambda one: f"{one.timing.duration_s:.1f}" if one.count > 1 else ""),
        _Column("gaps", lambda one: _gaps(one.timing), "warning"),
        _Column("same", lambda one: _count(one.timing.duplicates), "warning"),
        _Column("back", lambda one: _count(one.timing.backward_jumps), "error"),
        _Column("NaN", lambda one: _count(one.not_finite or 0), "error"),
        _Column("damaged", lambda one: _count(one.undecodable), "error"),
        _Column("delay ms", lambda one: _delay(one)[0]),
        _Column("farthest", lambda one: _delay(one)[1]),
    )


def _truth_table(inspection: Inspection) -> Table:
    return _table(
        inspection,
        inspection.truth,
        _Column("ground truth", lambda one: one.topic, is_name=True),
        _Column("covered", lambda one: f"{one.coverage:.1%}"),
        _Column("longest hole", _hole, "warning"),
        _Column("made up", lambda one: f"{one.made_up_s:.3g} s" if one.made_up_s else "", "warning"),
        _Column("unusable", lambda one: _count(one.unusable), "warning"),
        _Column("largest step", lambda one: f"{one.largest_step_m * 1e3:.3g} mm"),
        _Column("largest turn", lambda one: f"{math.degrees(one.largest_turn_rad):.3g} deg"),
    )


def _clock_table(inspection: Inspection) -> Table:
    """What was told; the rest are refusals."""

    def where_told(cell: Callable[[Any], str], otherwise: str = "") -> Callable[[Any], str]:
        return lambda one: otherwise if None in (one.offset_s, one.stddev_s, one.explained) else cell(one)

    def turned(one: ClockReport) -> str:
        return "" if one.rotation_rad is None else f"{math.degrees(math.hypot(*one.rotation_rad)):.3g} deg"

    return _table(
        inspection,
        inspection.clocks,
        _Column("IMU", lambda one: one.sensor, is_name=True),
        _Column("tracked body", lambda one: one.body, is_name=True),
        _Column("truth early by", where_told(lambda one: f"{1e3 * one.offset_s:.2f} ms", "not found")),
        _Column("3 sigma", where_told(lambda one: f"{3e3 * one.stddev_s:.2g} ms")),
        _Column("explained", where_told(lambda one: f"{one.explained:.1%}")),
        _Column("frames turned by", where_told(turned)),
    )


def _frame_table(inspection: Inspection) -> Table:
    """Where the IMUs sit."""

    def place(one: FrameReport) -> str:
        return f"{', '.join(f'{1e3 * value:.1f}' for value in one.lever_m)} mm" if one.lever_m else "not found"

    return _table(
        inspection,
        inspection.frames,
        _Column("IMU", lambda one: one.sensor, is_name=True),
        _Column("on the tracked body at x, y, z", place, is_name=True),
        _Column("3 sigma", lambda one: f"{3e3 * max(one.lever_stddev_m):.2g} mm" if one.lever_stddev_m else ""),
        _Column("up in the truth's frame", lambda one: ", ".join(f"{round(x, 2) + 0.0:.2f}" for x in one.up or ())),
    )


def _refusals(inspection: Inspection) -> list[Text]:
    """Why there is no offset, each reason once."""
    reasons: dict[str, list[str]] = {}
    reports: list[ClockReport | FrameReport] = [*inspection.clocks, *inspection.frames]
    for one in reports:
        if one.refused:
            reasons.setdefault(one.refused, []).append(inspection.short(one.sensor))
    return [Text(f"not found  {', '.join(names)}: {reason}", "dim") for reason, names in reasons.items()]


def _robot_table(inspection: Inspection) -> Table:
    def missing(one: RobotReport) -> str:
        optional = [f"{name} (optional)" for name in one.missing if name not in one.missing_required]
        return ", ".join([*one.missing_required, *optional]) or "none"

    return _table(
        inspection,
        [one for one in inspection.robots if one.present],
        _Column("robot", lambda one: one.name, is_name=True),
        _Column("topics found", lambda one: f"{len(one.present)} of {len(one.present) + len(one.missing)}"),
        _Column("missing", missing, is_name=True),
    )


def _finding_list(inspection: Inspection) -> RenderableType:
    if not inspection.findings:
        return Text(f"Nothing wrong was found ({_LOOKED_FOR}).", "green")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in inspection.findings:
        table.add_row(Text(finding.severity, _STYLES[finding.severity]), Text(finding.text))
    return table


def _count(count: int) -> str:
    return f"{count:,}" if count else ""


def _gaps(timing: TimingReport) -> str:
    return f"{timing.gaps:,} ({timing.longest_gap_s:.3g} s)" if timing.gaps and timing.regular else ""


def _hole(report: TruthReport) -> str:
    return f"{report.longest_hole_s:.3g} s at {report.longest_hole_at_s:.1f} s" if report.longest_hole_s else ""


def _rate(timing: TimingReport) -> str:
    if timing.rate_hz is None:
        return ""
    rate = f"{timing.rate_hz:.1f}" if timing.rate_hz < 1e5 else f"{timing.rate_hz:.1e}"
    return rate if timing.regular else f"~{rate}"


def _delay(topic: TopicReport) -> tuple[str, str]:
    """Median and farthest delay, milliseconds."""
    if topic.delay_median_s is None or topic.delay_largest_s is None:
        return "", ""
    if abs(topic.delay_median_s) > _OTHER_CLOCK_S:
        return "other", "clock"
    most = f"{topic.delay_largest_s * 1e3:.3g}" if abs(topic.delay_largest_s) < 100.0 else "> 100 s"
    return f"{topic.delay_median_s * 1e3:.3g}", most
