"""An inspection in a terminal of 100 columns: a table of topics, the ground truth, and the findings in sentences."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from onboard_estimation.bags.bag import size_text
from onboard_estimation.base.errors import printable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.inspection.report import (
    INTERVAL_EDGES,
    Inspection,
    RobotReport,
    TimingReport,
    TopicReport,
    TruthReport,
)
from onboard_estimation.judging.body_frames import FrameReport
from onboard_estimation.judging.clock_alignment import ClockReport

_FRAMES_SHOWN = 8
_OTHER_CLOCK_S = 10.0
# Of the histogram of intervals: the bin around the median, and which share outside it is worth a row.
_EVEN = slice(2, 3)
_UNEVEN_SHARE = 0.01
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
_LOOKED_FOR = (
    "gaps, repeated and backward stamps, NaN, delays, holes and jumps in the ground truth, its clock against the IMUs'"
)


def render(inspection: Inspection) -> RenderableType:
    """Tables and findings, for `rich`; made for a terminal of 100 columns."""
    inspection = inspection.within_namespace()
    parts: list[RenderableType] = [_title(inspection), Text(), _topic_table(inspection.topics)]
    if any(topic.has_header for topic in inspection.topics):
        parts += [
            _frames(inspection),
            Text("delay   log time minus header stamp: median, and farthest from it", "dim"),
        ]
    uneven = [topic for topic in inspection.topics if _is_uneven(topic.timing)]
    if uneven:
        parts += [Text(), _interval_table(uneven)]
    if inspection.truth:
        parts += [Text(), _truth_table(inspection.truth)]
    if inspection.clocks:
        parts += [Text(), _clock_table(inspection.clocks)]
        parts += [Text(), _frame_table(inspection.frames)] if inspection.frames else []
        parts += _refusals(inspection)
    if any(robot.present for robot in inspection.robots):
        parts += [Text(), _robot_table(inspection.robots)]
    parts += [Text(), _finding_list(inspection)]
    return Group(*parts)


def _title(inspection: Inspection) -> Text:
    start = datetime.datetime.fromtimestamp(inspection.start_ns // NANOSECONDS_PER_SECOND, tz=datetime.timezone.utc)
    origin = f"{inspection.format}, {inspection.distribution}" if inspection.distribution else inspection.format
    place = f", topics under {inspection.namespace}/" if inspection.namespace else ""
    line = Text.assemble(
        (printable(inspection.path), "bold"), f"  ({origin}, {size_text(inspection.size_bytes)}{place})\n"
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


def _table(rows: Sequence[Any], *columns: _Column) -> Table:
    shown = [one for one in columns if not one.severity or any(map(one.cell, rows))]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for one in shown:
        if one.is_name:
            table.add_column(one.heading, overflow="fold")
        else:
            table.add_column(one.heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [(one.cell(row), one.severity) for one in shown]
        table.add_row(*(Text(cell, _STYLES[severity]) if severity else cell for cell, severity in cells))
    return table


def _topic_table(topics: Sequence[TopicReport]) -> Table:
    return _table(
        topics,
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


def _frames(inspection: Inspection) -> Text:
    by_frame: dict[str, list[str]] = {}
    for topic in inspection.topics:
        for frame in topic.frames:
            by_frame.setdefault(frame, []).append(topic.name)
    shown = [
        f"{frame or '(none)'}: {names[0] if len(names) == 1 else f'{len(names)} topics'}"
        for frame, names in list(by_frame.items())[:_FRAMES_SHOWN]
    ]
    more = f"; and {len(by_frame) - _FRAMES_SHOWN} more" if len(by_frame) > _FRAMES_SHOWN else ""
    return Text(f"frames  {'; '.join(shown)}{more}", "dim")


def _is_uneven(timing: TimingReport) -> bool:
    return sum(timing.intervals) - sum(timing.intervals[_EVEN]) > _UNEVEN_SHARE * sum(timing.intervals)


def _interval_table(uneven: Sequence[TopicReport]) -> Table:
    """Histograms of the intervals, of the topics whose messages do not come evenly."""
    low = [f"{edge:g}" for edge in INTERVAL_EDGES[:-1]]

    def share(place: int, topic: TopicReport) -> str:
        count, total = topic.timing.intervals[place], sum(topic.timing.intervals)
        return f"{100.0 * count / total:.2g} %" if count else ""

    headings = [*(f"{a}-{b}" for a, b in pairwise(low)), f"> {low[-1]}"]
    shares = [_Column(heading, partial(share, place)) for place, heading in enumerate(headings)]
    return _table(uneven, _Column("intervals / median", lambda one: one.name, is_name=True), *shares)


def _truth_table(reports: Sequence[TruthReport]) -> Table:
    return _table(
        reports,
        _Column("ground truth", lambda one: one.topic, is_name=True),
        _Column("covered", lambda one: f"{one.coverage:.1%}"),
        _Column("longest hole", _hole, "warning"),
        _Column("jumps", lambda one: _count(one.jumps), "warning"),
        _Column("frozen", lambda one: f"{one.frozen_s:.3g} s" if one.frozen_s else "", "warning"),
        _Column("unusable", lambda one: _count(one.unusable), "warning"),
        _Column("largest step", lambda one: f"{one.largest_step_m * 1e3:.3g} mm"),
        _Column("largest turn", lambda one: f"{math.degrees(one.largest_turn_rad):.3g} deg"),
    )


def _clock_table(reports: Sequence[ClockReport]) -> Table:
    """What was told; the rest are refusals."""

    def where_told(cell: Callable[[Any], str], otherwise: str = "") -> Callable[[Any], str]:
        return lambda one: otherwise if None in (one.offset_s, one.stddev_s, one.explained) else cell(one)

    def turned(one: ClockReport) -> str:
        return "" if one.rotation_rad is None else f"{math.degrees(math.hypot(*one.rotation_rad)):.3g} deg"

    return _table(
        reports,
        _Column("IMU", lambda one: one.sensor, is_name=True),
        _Column("tracked body", lambda one: one.body, is_name=True),
        _Column("truth early by", where_told(lambda one: f"{1e3 * one.offset_s:.2f} ms", "not told")),
        _Column("3 sigma", where_told(lambda one: f"{3e3 * one.stddev_s:.2g} ms")),
        _Column("explained", where_told(lambda one: f"{one.explained:.1%}")),
        _Column("frames turned by", where_told(turned)),
    )


def _frame_table(reports: Sequence[FrameReport]) -> Table:
    """Where the IMUs sit."""

    def place(one: FrameReport) -> str:
        return f"{', '.join(f'{1e3 * value:.1f}' for value in one.lever_m)} mm" if one.lever_m else "not told"

    return _table(
        reports,
        _Column("IMU", lambda one: one.sensor, is_name=True),
        _Column("on the tracked body at x, y, z", place, is_name=True),
        _Column("3 sigma", lambda one: f"{3e3 * max(one.lever_stddev_m):.2g} mm" if one.lever_stddev_m else ""),
        _Column("up in the truth's frame", lambda one: ", ".join(f"{round(x, 2) + 0.0:.2f}" for x in one.up or ())),
    )


def _refusals(inspection: Inspection) -> list[Text]:
    """Why there is no offset, each reason once."""
    reasons: dict[str, list[str]] = {}
    refused = [(one.refused, one.sensor) for one in inspection.clocks]
    refused += [(one.refused, one.sensor) for one in inspection.frames]
    for reason, sensor in refused:
        if reason:
            reasons.setdefault(reason, []).append(sensor)
    return [Text(f"not told   {', '.join(names)}: {reason}", "dim") for reason, names in reasons.items()]


def _robot_table(reports: Sequence[RobotReport]) -> Table:
    def missing(one: RobotReport) -> str:
        optional = [f"{name} (optional)" for name in one.missing if name not in one.missing_required]
        return ", ".join([*one.missing_required, *optional]) or "none"

    return _table(
        [one for one in reports if one.present],
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
