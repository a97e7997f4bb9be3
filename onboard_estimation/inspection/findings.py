"""Plain sentences about a bag: what is wrong with it, the most important first, each with numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import itemgetter
from statistics import median

from onboard_estimation.base.errors import first_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.inspection.report import Inspection, RobotReport, TopicReport, TruthReport
from onboard_estimation.soundness.motion import Finding, MotionCheck, Severity

_TOPICS_SHOWN = 3
_WRONG_CLOCK_S = 1.0
_LATE_S = 0.5
_CLOCKS_DIFFER_S = 0.05
_ENOUGH_COVERAGE = 0.95
_RATES_DIFFER = 1.2
_YEAR_2001_S = 978_307_200


def findings(inspection: Inspection) -> tuple[Finding, ...]:
    """All that there is to say, errors before warnings before notes."""
    topics, truth, robots = inspection.topics, inspection.truth, inspection.robots
    found: list[Finding] = []
    if inspection.damage:
        found.append(Finding("error", f"The bag is damaged or incomplete: {inspection.damage}."))
    found += _decoding(topics)
    found += _clocks(topics, {report.topic for report in truth}, inspection.start_ns / NANOSECONDS_PER_SECOND)
    not_finite = [one for one in topics if one.not_finite]
    found += _worst_first(
        "error",
        "Numbers are NaN or infinite",
        ((one.not_finite or 0, f"{one.name} in {one.not_finite:,} of {one.count:,} messages") for one in not_finite),
    )
    found += [Finding("error", said) for said in inspection.unsound]
    covered = {report.topic for report in truth if report.coverage < _ENOUGH_COVERAGE}
    found += _losses(topics, covered)
    found += islice(_truth(truth), 4 * _TOPICS_SHOWN)
    motion = MotionCheck(inspection.clocks, inspection.frames)
    found += [*filter(None, [motion.offset()]), *motion.findings()]
    found += _sameness(topics)
    found += _robots(robots)
    found = [replace(one, text=inspection.short(one.text)) for one in found]
    found += [Finding("note", said) for said in inspection.other_poses]  # with options to be pasted: whole names
    complete = (robot for robot in robots if not robot.missing_required)
    found += [Finding("warning", f"For {robot.name}, {refused}.") for robot in complete for refused in robot.refused]
    order: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(found, key=lambda finding: order[finding.severity]))


def _worst_first(severity: Severity, what: str, faults: Iterable[tuple[float, str]]) -> list[Finding]:
    """One sentence about the topics that have a fault, by its size and what is said of it; none of those of no size."""
    faulty = sorted((one for one in faults if one[0] > 0), key=itemgetter(0), reverse=True)
    if not faulty:
        return []
    more = "; and {} more topic" if len(faulty) == _TOPICS_SHOWN + 1 else "; and {} more topics"
    return [Finding(severity, f"{what}: {first_of([said for _, said in faulty], _TOPICS_SHOWN, '; ', more)}.")]


def _decoding(topics: Sequence[TopicReport]) -> list[Finding]:
    found = _worst_first(
        "error",
        "Messages are not what their type says",
        ((one.undecodable, f"{one.name} {one.undecodable:,} of {one.count:,} ({one.message_type})") for one in topics),
    )
    return found + _worst_first(
        "note",
        "Messages carry bytes behind their end, as rmw_fastrtps' serialize_message leaves them, and are read without",
        ((one.tailed, f"{one.name} {one.tailed:,} of {one.count:,}, up to {one.longest_tail} bytes") for one in topics),
    )


def _clocks(topics: Sequence[TopicReport], truth: set[str], start_s: float) -> list[Finding]:
    stamped = [topic for topic in topics if topic.delay_median_s is not None]
    unset = [topic for topic in stamped if start_s > _YEAR_2001_S > start_s - _delay_s(topic)]
    wrong = [topic for topic in stamped if topic not in unset and abs(_delay_s(topic)) > _WRONG_CLOCK_S]
    found = _worst_first(
        "error",
        "Header stamps are not set, or count from the device's start",
        ((one.count, f"{one.name} is {_seconds(_delay_s(one))} behind the log") for one in unset),
    )
    off = [(abs(_delay_s(one)), one.name, "behind" if _delay_s(one) > 0 else "ahead of") for one in wrong]
    found += _worst_first(
        "error",
        "Header stamps are of another clock than the recorder's",
        ((delay_s, f"{name} is {_seconds(delay_s)} {where} the log") for delay_s, name, where in off),
    )
    back = [(one.name, one.timing.backward_jumps, one.timing.largest_backward_s) for one in topics]
    found += _worst_first(
        "error",
        "Times jump backwards",
        ((most_s, f"{name} {_times(jumps)}, by up to {_seconds(most_s)}") for name, jumps, most_s in back),
    )
    sound = [topic for topic in stamped if topic not in unset and topic not in wrong]
    late = [(one.name, (one.delay_largest_s or 0.0) - _delay_s(one)) for one in sound]
    found += _worst_first(
        "warning",
        "Messages reached the recorder late",
        ((by_s - _LATE_S, f"{name} by up to {_seconds(by_s)} more than usual") for name, by_s in late),
    )
    delays = [[_delay_s(topic) for topic in sound if (topic.name in truth) == of_truth] for of_truth in (True, False)]
    if all(delays) and abs((of_truth := median(delays[0])) - (of_sensors := median(delays[1]))) > _CLOCKS_DIFFER_S:
        said = (
            f"The ground truth's stamps lie {_seconds(of_truth)} before the log, the sensors' {_seconds(of_sensors)}: "
            f"their clocks, or their latencies, may differ by {_seconds(abs(of_truth - of_sensors))}."
        )
        found.append(Finding("warning", said))
    return found


def _delay_s(topic: TopicReport) -> float:
    return topic.delay_median_s or 0.0


def _losses(topics: Sequence[TopicReport], named: set[str]) -> list[Finding]:
    """Gaps and repeats; not the gaps of ground truths whose holes are told anyway."""
    empty = [topic for topic in topics if not topic.count]
    found = _worst_first(
        "warning",
        "Gaps of more than 5 periods",
        (
            (
                gaps.longest_gap_s,
                f"{name} has {gaps.gaps:,}, {'the longest' if gaps.gaps > 1 else 'of'} {_seconds(gaps.longest_gap_s)} "
                f"at {gaps.longest_gap_at_s:.2f} s",
            )
            for name, gaps in ((one.name, one.timing) for one in topics)
            if gaps.regular and name not in named
        ),
    )
    repeats = ((one.timing.duplicates, one) for one in topics)
    found += _worst_first(
        "warning",
        "Messages repeat the stamp before them",
        ((same, f"{one.name} {same:,} of {one.count:,}") for same, one in repeats),
    )
    if empty:
        names = first_of([topic.name for topic in empty], _TOPICS_SHOWN)
        found.append(Finding("note", f"Topics without any message: {names}."))
    return found


def _truth(reports: Sequence[TruthReport]) -> Iterator[Finding]:
    warning = partial(Finding, "warning")
    for report in sorted(reports, key=lambda report: report.coverage):
        if report.coverage == 0.0:
            yield Finding("error", f"{report.topic} has no pose within the sensors' time.")
        elif report.coverage < _ENOUGH_COVERAGE:
            yield warning(
                f"{report.topic} covers {report.coverage:.1%} of the sensors' time; the longest hole is "
                f"{_seconds(report.longest_hole_s)} at {report.longest_hole_at_s:.2f} s."
            )
    for report in sorted(reports, key=lambda report: report.made_up_s, reverse=True):
        yield from map(warning, report.made_up)
        if report.flips:
            yield warning(
                f"{report.topic} turns by 90, 120 or 180 deg at once, {_times(report.flips)}, as where markers are "
                "swapped: give the body markers at unequal distances."
            )
        if report.unusable:
            yield warning(f"{report.topic} has {report.unusable:,} poses that are none.")


def _sameness(topics: Sequence[TopicReport]) -> list[Finding]:
    """Things that are equal in a sound recording."""
    found = _worst_first(
        "note",
        "More than one frame on a topic",
        ((len(one.frames) - 1, f"{one.name} {', '.join(map(repr, one.frames[:_TOPICS_SHOWN]))}") for one in topics),
    )
    imus = [topic for topic in topics if topic.message_type == "sensor_msgs/msg/Imu"]
    rates = sorted((topic.timing.rate_hz, topic.name) for topic in imus if topic.timing.rate_hz)
    if len(rates) > 1 and rates[-1][0] > _RATES_DIFFER * rates[0][0]:
        said = ", ".join(f"{name} at {rate_hz:.1f} Hz" for rate_hz, name in (rates[0], rates[-1]))
        found.append(Finding("note", f"The IMUs run at different rates: {said}."))
    return found


def _robots(reports: Sequence[RobotReport]) -> list[Finding]:
    """Nothing where some robot is complete; otherwise what the most likely one lacks."""
    if not reports or any(report.present and not report.missing_required for report in reports):
        return []
    nearest = max(reports, key=lambda report: len(report.present) - len(report.missing_required))
    if not nearest.present:
        return [Finding("note", f"No topic of a known robot is here ({', '.join(r.name for r in reports)}).")]
    lacking = ", ".join(nearest.missing_required[: 2 * _TOPICS_SHOWN])
    return [Finding("warning", f"Robot {nearest.name} cannot be evaluated: {lacking} missing.")]


def _seconds(value: float) -> str:
    if abs(value) >= 86_400.0:
        return f"{value / 86_400.0:,.1f} days"
    if abs(value) >= 1.0:
        return f"{value:,.2f} s"
    return f"{value * 1e3:.3g} ms"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
