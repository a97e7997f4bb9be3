"""Plain sentences about a bag: what is wrong with it, the most important first, each with numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
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
    found += _worst_first(
        "error",
        "Numbers are NaN or infinite",
        topics,
        lambda topic: topic.not_finite or 0,
        lambda topic: f"in {topic.not_finite:,} of {topic.count:,} messages",
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


def _worst_first(
    severity: Severity,
    what: str,
    topics: Iterable[TopicReport],
    weight: Callable[[TopicReport], float],
    say: Callable[[TopicReport], str],
) -> list[Finding]:
    """One sentence about the topics that a fault is on, or none."""
    faulty = sorted((topic for topic in topics if weight(topic) > 0), key=weight, reverse=True)
    if not faulty:
        return []
    more = "; and {} more topic" if len(faulty) == _TOPICS_SHOWN + 1 else "; and {} more topics"
    said = first_of([f"{topic.name} {say(topic)}" for topic in faulty], _TOPICS_SHOWN, "; ", more)
    return [Finding(severity, f"{what}: {said}.")]


def _decoding(topics: Sequence[TopicReport]) -> list[Finding]:
    found = _worst_first(
        "error",
        "Messages are not what their type says",
        topics,
        lambda topic: topic.undecodable,
        lambda topic: f"{topic.undecodable:,} of {topic.count:,} ({topic.message_type})",
    )
    return found + _worst_first(
        "note",
        "Messages carry bytes behind their end, as rmw_fastrtps' serialize_message leaves them, and are read without",
        topics,
        lambda topic: topic.tailed,
        lambda topic: f"{topic.tailed:,} of {topic.count:,}, up to {topic.longest_tail} bytes",
    )


def _clocks(topics: Sequence[TopicReport], truth: set[str], start_s: float) -> list[Finding]:
    stamped = [topic for topic in topics if topic.delay_median_s is not None]
    unset = [topic for topic in stamped if start_s > _YEAR_2001_S > start_s - _delay_s(topic)]
    wrong = [topic for topic in stamped if topic not in unset and abs(_delay_s(topic)) > _WRONG_CLOCK_S]
    found = _worst_first(
        "error",
        "Header stamps are not set, or count from the device's start",
        unset,
        lambda topic: topic.count,
        lambda topic: f"is {_seconds(_delay_s(topic))} behind the log",
    )
    found += _worst_first(
        "error",
        "Header stamps are of another clock than the recorder's",
        wrong,
        lambda topic: abs(_delay_s(topic)),
        lambda topic: f"is {_seconds(abs(_delay_s(topic)))} {'behind' if _delay_s(topic) > 0 else 'ahead of'} the log",
    )
    found += _worst_first(
        "error",
        "Times jump backwards",
        topics,
        lambda topic: topic.timing.backward_jumps and topic.timing.largest_backward_s,
        lambda topic: f"{_times(topic.timing.backward_jumps)}, by up to {_seconds(topic.timing.largest_backward_s)}",
    )
    sound = [topic for topic in stamped if topic not in unset and topic not in wrong]
    found += _worst_first(
        "warning",
        "Messages reached the recorder late",
        sound,
        lambda topic: max(0.0, _lateness(topic) - _LATE_S),
        lambda topic: f"by up to {_seconds(_lateness(topic))} more than usual",
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


def _lateness(topic: TopicReport) -> float:
    return (topic.delay_largest_s or 0.0) - _delay_s(topic)


def _losses(topics: Sequence[TopicReport], named: set[str]) -> list[Finding]:
    """Gaps and repeats; not the gaps of ground truths whose holes are told anyway."""
    empty = [topic for topic in topics if not topic.count]
    found = _worst_first(
        "warning",
        "Gaps of more than 5 periods",
        (topic for topic in topics if topic.timing.regular and topic.name not in named),
        lambda topic: topic.timing.gaps and topic.timing.longest_gap_s,
        lambda topic: (
            f"has {topic.timing.gaps:,}, {'the longest' if topic.timing.gaps > 1 else 'of'} "
            f"{_seconds(topic.timing.longest_gap_s)} at {topic.timing.longest_gap_at_s:.2f} s"
        ),
    )
    found += _worst_first(
        "warning",
        "Messages repeat the stamp before them",
        topics,
        lambda topic: topic.timing.duplicates,
        lambda topic: f"{topic.timing.duplicates:,} of {topic.count:,}",
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
        topics,
        lambda topic: len(topic.frames) - 1,
        lambda topic: ", ".join(repr(frame) for frame in topic.frames[:_TOPICS_SHOWN]),
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
