"""An inspection in a terminal of 100 columns: a table of topics, the ground truth, and the findings in sentences."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from onboard_estimation.errors import printable
from onboard_estimation.evaluation.bags import size_text
from onboard_estimation.evaluation.inspection_report import (
    INTERVAL_EDGES,
    Inspection,
    RobotReport,
    TimingReport,
    TopicReport,
    TruthReport,
)
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

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
    parts: list[RenderableType] = [_title(inspection), Text(), _topic_table(inspection)]
    if any(topic.has_header for topic in inspection.topics):
        parts += [
            _frames(inspection),
            Text("delay   log time minus header stamp: median, and farthest from it", "dim"),
        ]
    uneven = [topic for topic in inspection.topics if _is_uneven(topic.timing)]
    if uneven:
        parts += [Text(), _interval_table(uneven)]
    if inspection.truth:
        parts += [Text(), _truth_table(inspection)]
    if inspection.clocks:
        parts += [Text(), _clock_table(inspection)]
        parts += [Text(), _frame_table(inspection)] if inspection.frames else []
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


def _topic_table(inspection: Inspection) -> Table:
    """Columns for faults are there where some topic has the fault."""
    topics = inspection.topics
    faults = {
        "gaps": ("warning", [_gaps(topic.timing) for topic in topics]),
        "same": ("warning", [_count(topic.timing.duplicates) for topic in topics]),
        "back": ("error", [_count(topic.timing.backward_jumps) for topic in topics]),
        "NaN": ("error", [_count(topic.not_finite or 0) for topic in topics]),
        "damaged": ("error", [_count(topic.undecodable) for topic in topics]),
    }
    there = {heading: column for heading, column in faults.items() if any(column[1])}
    table = _table("topic", "type")
    for heading in ("count", "Hz", "s", *there, "delay ms", "farthest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row, topic in enumerate(topics):
        table.add_row(
            topic.name,
            topic.message_type.split("/")[-1],
            f"{topic.count:,}",
            _rate(topic.timing),
            f"{topic.timing.duration_s:.1f}" if topic.count > 1 else "",
            *(Text(column[row], _STYLES[severity]) for severity, column in there.values()),
            *_delay(topic),
        )
    return table


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
    table = _table("intervals / median")
    low = [f"{edge:g}" for edge in INTERVAL_EDGES[:-1]]
    for heading in [*(f"{a}-{b}" for a, b in pairwise(low)), f"> {low[-1]}"]:
        table.add_column(heading, justify="right", no_wrap=True)
    for topic in uneven:
        total = sum(topic.timing.intervals)
        shares = [f"{100.0 * count / total:.2g} %" if count else "" for count in topic.timing.intervals]
        table.add_row(topic.name, *shares)
    return table


def _truth_table(inspection: Inspection) -> Table:
    reports = inspection.truth
    faults = {
        "longest hole": [_hole(report) for report in reports],
        "jumps": [_count(report.jumps) for report in reports],
        "frozen": [f"{report.frozen_s:.3g} s" if report.frozen_s else "" for report in reports],
        "unusable": [_count(report.unusable) for report in reports],
    }
    there = {heading: column for heading, column in faults.items() if any(column)}
    table = _table("ground truth")
    for heading in ("covered", *there, "largest step", "largest turn"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row, report in enumerate(reports):
        table.add_row(
            report.topic,
            f"{report.coverage:.1%}",
            *(Text(column[row], _STYLES["warning"]) for column in there.values()),
            f"{report.largest_step_m * 1e3:.3g} mm",
            f"{math.degrees(report.largest_turn_rad):.3g} deg",
        )
    return table


def _clock_table(inspection: Inspection) -> Table:
    """What was told; the rest are refusals."""
    table = _table("IMU", "tracked body")
    for heading in ("truth early by", "3 sigma", "explained", "frames turned by"):
        table.add_column(heading, justify="right", no_wrap=True)
    for report in inspection.clocks:
        if report.offset_s is None or report.stddev_s is None or report.explained is None:
            table.add_row(report.sensor, report.body, "not told", "", "", "")
            continue
        turned = "" if report.rotation_rad is None else f"{math.degrees(math.hypot(*report.rotation_rad)):.3g} deg"
        table.add_row(
            report.sensor,
            report.body,
            f"{1e3 * report.offset_s:.2f} ms",
            f"{3e3 * report.stddev_s:.2g} ms",
            f"{report.explained:.1%}",
            turned,
        )
    return table


def _frame_table(inspection: Inspection) -> Table:
    """Where the IMUs sit."""
    table = _table("IMU", "on the tracked body at x, y, z")
    for heading in ("3 sigma", "up in the truth's frame"):
        table.add_column(heading, justify="right", no_wrap=True)
    for report in inspection.frames:
        lever, stddev, up = report.lever_m, report.lever_stddev_m, report.up
        table.add_row(
            report.sensor,
            "not told" if lever is None else f"{', '.join(f'{1e3 * value:.1f}' for value in lever)} mm",
            "" if stddev is None else f"{3e3 * max(stddev):.2g} mm",
            "" if up is None else ", ".join(f"{round(value, 2) + 0.0:.2f}" for value in up),
        )
    return table


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
    table = _table("robot")
    table.add_column("topics found", justify="right", no_wrap=True)
    table.add_column("missing", overflow="fold")
    for report in reports:
        if not report.present:
            continue
        optional = [name for name in report.missing if name not in report.missing_required]
        missing = [*report.missing_required, *(f"{name} (optional)" for name in optional)]
        table.add_row(
            report.name,
            f"{len(report.present)} of {len(report.present) + len(report.missing)}",
            ", ".join(missing) or "none",
        )
    return table


def _finding_list(inspection: Inspection) -> RenderableType:
    if not inspection.findings:
        return Text(f"Nothing wrong was found ({_LOOKED_FOR}).", "green")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in inspection.findings:
        table.add_row(Text(finding.severity, _STYLES[finding.severity]), Text(finding.text))
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
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
