"""Plain sentences about a bag: what is wrong with it, the most important first, each with numbers.

Also about clocks and frames of its IMUs and tracked bodies: what is off, by how much, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import acos, cos, degrees, hypot, radians
from statistics import median

from onboard_estimation.base.errors import first_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.inspection.report import Finding, Inspection, RobotReport, Severity, TopicReport, TruthReport
from onboard_estimation.judging.body_frames import FrameReport, Three
from onboard_estimation.judging.clock_alignment import ClockReport

_TOPICS_SHOWN = 3
_WRONG_CLOCK_S = 1.0
_LATE_S = 0.5
_CLOCKS_DIFFER_S = 0.05
_ENOUGH_COVERAGE = 0.95
_RATES_DIFFER = 1.2
_YEAR_2001_S = 978_307_200

LEAST_OFFSET_S = 2e-3
"""A smaller offset is shown, and no finding: few filters would notice."""

# Of many pairs of an IMU and a body, some offset is beyond three standard deviations by chance.
_SURE = 4.0
_OF_PERIOD = 0.6
_SEVERITIES: tuple[tuple[Severity, bool], ...] = (("warning", False), ("note", True))
_SCALE_OFF = 0.1
_DEGREE = degrees(1.0)
_TURNED_RAD = radians(3.0)

_GAIN_OFF = 0.1
# A mirrored truth agrees with a gyro that is turned half round; an accelerometer of the other sign with one as it is.
_HALF_TURNED_RAD = radians(90.0)
_IN_G = 9.81
_TILT_RAD = radians(5.0)
_ALONG = cos(radians(25.0))
_LEVER_M = 0.02


def findings(inspection: Inspection) -> tuple[Finding, ...]:
    """All that there is to say, errors before warnings before notes."""
    seen = inspection.within_namespace()
    topics, truth, robots = seen.topics, seen.truth, seen.robots
    found: list[Finding] = []
    if seen.damage:
        found.append(Finding("error", f"The bag is damaged or incomplete: {seen.damage}."))
    found += _decoding(topics)
    found += _clocks(topics, {report.topic for report in truth}, seen.start_ns / NANOSECONDS_PER_SECOND)
    found += _worst_first(
        "error",
        "Numbers are NaN or infinite",
        topics,
        lambda topic: topic.not_finite or 0,
        lambda topic: f"in {topic.not_finite:,} of {topic.count:,} messages",
    )
    found += [Finding("error", said) for said in seen.unsound]
    covered = {report.topic for report in truth if report.coverage < _ENOUGH_COVERAGE}
    found += _losses(topics, covered)
    found += islice(_truth(truth), 4 * _TOPICS_SHOWN)
    found += [Finding("note", said) for said in inspection.other_poses]
    found += clock_findings(seen.clocks)
    found += frame_findings(seen.frames)
    found += _sameness(topics)
    found += _robots(robots)
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
    last = "topic" if len(faulty) == _TOPICS_SHOWN + 1 else "topics"
    return [Finding(severity, f"{what}: {_first([f'{topic.name} {say(topic)}' for topic in faulty], f' {last}')}.")]


def _first(words: Sequence[str], last: str = "") -> str:
    return first_of(words, _TOPICS_SHOWN, "; ", f"; and {{}} more{last}")


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
    for report in sorted(reports, key=lambda report: report.jumps, reverse=True):
        if report.jumps:
            yield warning(
                f"{report.topic} jumps {_times(report.jumps)} in a way no body moves (markers swapped?), first at "
                f"{report.first_jump_at_s:.2f} s; the largest step is {report.largest_step_m:.3g} m and "
                f"{degrees(report.largest_turn_rad):.3g} deg{_flips(report)}."
            )
        yield from map(warning, report.made_up)
        if report.unusable:
            yield warning(f"{report.topic} has {report.unusable:,} poses that are none.")


def _flips(report: TruthReport) -> str:
    if not report.flips:
        return ""
    return (
        f"; {'one is a turn' if report.flips == 1 else f'{report.flips:,} are turns'} by 90, 120 or 180 deg: give the "
        "body markers at unequal distances"
    )


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


def clock_findings(reports: Sequence[ClockReport]) -> list[Finding]:
    """Errors, warnings and notes on what motion tells; nothing of what it does not."""
    found = [Finding("error", _swapped(one)) for one in reports if one.rather]
    found += [
        Finding("error", f"The orientation of {one.body} contradicts {one.sensor}: it {one.attitude}.")
        for one in reports
        if one.attitude
    ]
    sound = [one for one in reports if not one.rather and one.offset_s is not None]
    found += [Finding("error", _mirrored(one)) for one in sound if one.mirrored]
    found += [
        Finding("error", _scaled(one, one.scale)) for one in sound if one.scale and abs(one.scale - 1.0) > _SCALE_OFF
    ]
    off = [one for one in sound if _is_off(one)]
    off.sort(key=lambda one: -abs(one.offset_s or 0.0))
    found += [
        Finding(severity, _offset(chosen, words, severity))
        for severity, within in _SEVERITIES
        for words, sign in (("early", 1.0), ("late", -1.0))
        if (chosen := [one for one in off if sign * (one.offset_s or 0.0) > 0.0 and _is_within_period(one) == within])
    ]
    found += _differing(sound)
    found += [
        Finding("note", _turned(one, one.rotation_rad, one.rotation_stddev_rad))
        for one in sound
        if one.rotation_rad is not None and one.rotation_stddev_rad is not None and not one.mirrored
        if hypot(*one.rotation_rad) > max(_TURNED_RAD, 3.0 * hypot(*one.rotation_stddev_rad))
    ][:_TOPICS_SHOWN]
    found += [
        Finding("warning", _other_axis(one, one.axis))
        for one in sound
        if one.axis is not None and not one.mirrored and max(map(abs, one.axis)) > cos(3.0 * _TURNED_RAD)
        if min(one.axis) < -0.5
    ]
    return found


def _is_off(report: ClockReport) -> bool:
    offset_s, stddev_s = report.offset_s, report.stddev_s
    return offset_s is not None and stddev_s is not None and abs(offset_s) > max(LEAST_OFFSET_S, _SURE * stddev_s)


def _is_within_period(report: ClockReport) -> bool:
    return abs(report.offset_s or 0.0) < _OF_PERIOD * report.period_s


def _offset(reports: Sequence[ClockReport], words: str, severity: Severity) -> str:
    pairs = [
        f"{one.body} by {_milliseconds(one.offset_s)} +- {_milliseconds(3.0 * (one.stddev_s or 0.0))} ms (3 sigma) "
        f"against {one.sensor}"
        for one in reports
    ]
    other = "late" if words == "early" else "early"
    remedy = (
        "evaluate --align-clock moves the truth by that"
        if severity == "warning"
        else "less than half a period of the IMU: it may hold its readings, or take means, and the clocks be right"
    )
    return f"The ground truth's stamps are too {words}, or the IMU's readings too {other}: {_first(pairs)} ({remedy})."


def _differing(reports: Sequence[ClockReport]) -> list[Finding]:
    """Where one shift of the truth cannot mend all."""
    if len(reports) < 2:
        return []
    first, *_, last = sorted(reports, key=lambda one: one.offset_s or 0.0)
    apart_s = (last.offset_s or 0.0) - (first.offset_s or 0.0)
    sure_s = 3.0 * hypot(first.stddev_s or 0.0, last.stddev_s or 0.0)
    if apart_s < LEAST_OFFSET_S + sure_s:
        return []
    said = (
        f"The IMUs' clocks differ by {_milliseconds(apart_s)} +- {_milliseconds(sure_s)} ms (3 sigma): "
        f"{last.sensor} is later than {first.sensor}. No shift of the truth mends both: evaluate with --delay, "
        f"or stamp them with one clock."
    )
    return [Finding("warning", said)]


def _swapped(report: ClockReport) -> str:
    return (
        f"{report.sensor} does not move as {report.body} does, but as {report.rather}: names swapped, or sensors? Give "
        "evaluate the right --topic."
    )


def _mirrored(report: ClockReport) -> str:
    return (
        f"{report.body} is a mirror image of the motion that {report.sensor} felt: left-handed axes. Evaluate with "
        "--mirror-truth y, or mend the axes in the motion capture."
    )


def _scaled(report: ClockReport, scale: float) -> str:
    sentence = f"{report.body} turns {scale:.3g} times as far as {report.sensor} says"
    if abs(scale * _DEGREE - 1.0) < _SCALE_OFF:
        return f"{sentence}: its rates are in deg/s, rad/s is meant."
    return f"{sentence}: the gyro's range or scale is set wrong."


def _turned(report: ClockReport, rotation: tuple[float, float, float], stddev: tuple[float, float, float]) -> str:
    x, y, z = (degrees(value) for value in rotation)
    angle = hypot(x, y, z)
    return (
        f"The frame of {report.body} is turned against that of {report.sensor} by {angle:.1f} +- "
        f"{3.0 * degrees(max(stddev)):.1g} deg (3 sigma), rotation vector ({x:.1f}, {y:.1f}, {z:.1f}) deg from "
        "the IMU's to the body's: set the body's axes in the motion capture, or judge nothing that depends on them."
    )


def _other_axis(report: ClockReport, axis: tuple[float, float, float]) -> str:
    name = "xyz"[max(range(3), key=lambda place: abs(axis[place]))]
    return (
        f"{report.body} turns about its -{name} axis as {report.sensor} says it turns about +: one of them is upside "
        "down. Set the gyro's axis (--set), or evaluate with --mirror-truth yz."
    )


def _milliseconds(seconds: float | None) -> str:
    return f"{1e3 * abs(seconds or 0.0):.2g}" if abs(seconds or 0.0) < 1e-3 else f"{1e3 * abs(seconds or 0.0):.1f}"


def frame_findings(reports: Sequence[FrameReport]) -> list[Finding]:
    """Errors of axes and units, and notes on lever arms."""
    found = [
        Finding("error", _of_gain(one, one.gain))
        for one in reports
        if one.gain is not None and abs(one.gain - 1.0) > _GAIN_OFF
    ]
    upright = [one for one in reports if one.up is not None and (one.gain is None or one.gain > 0.0)]
    found += [Finding(*said) for one in upright if one.up is not None and (said := _of_up(one, one.up)) is not None]
    away = [one for one in reports if one.lever_m is not None and hypot(*one.lever_m) > _LEVER_M]
    if away:
        places = _first([_place(one) for one in away])
        sentence = (
            f"IMUs sit beside the origin of the body that is tracked: {places}. Where positions or "
            "accelerations are judged, move the body's origin there, or give the estimator the lever arm."
        )
        found.append(Finding("note", sentence))
    return found


def _of_gain(report: FrameReport, gain: float) -> str:
    if gain < 0.0 and report.turned_rad > _HALF_TURNED_RAD:
        return (
            f"{report.body} is a mirror image of the motion that {report.sensor} felt (gain {gain:.2f}): left-handed "
            "axes. Evaluate with --mirror-truth y, or mend the axes in the motion capture."
        )
    if gain < 0.0:
        return (
            f"The accelerometer of {report.sensor} has the other sign (gain {gain:.2f} against {report.body}, with "
            "whose turns its gyro agrees): at rest it must read +9.81 m/s^2 upwards. Mend it in the driver."
        )
    sentence = f"{report.body} moves {gain:.3g} times as far as {report.sensor}'s accelerations say"
    if abs(gain / _IN_G - 1.0) < _GAIN_OFF:
        return f"{sentence}: they are in g, m/s^2 is meant."
    if abs(gain / 1e3 - 1.0) < _GAIN_OFF or abs(gain * 1e3 - 1.0) < _GAIN_OFF:
        return f"{sentence}: one is in mm, m is meant."
    return f"{sentence}: a scale or a range is set wrong."


def _of_up(report: FrameReport, up: Three) -> tuple[Severity, str] | None:
    x, y, z = up
    if z > _ALONG:
        tilt = acos(min(z, 1.0))
        if tilt < _TILT_RAD:
            return None
        return "note", (
            f"The vertical of {report.body} is {degrees(tilt):.1f} deg off its z axis, as {report.sensor} feels "
            "gravity: level the motion capture's ground plane (or the accelerometer's bias is large)."
        )
    if z < -_ALONG:
        return "error", (
            f"The z axis of {report.body} points down, as {report.sensor} feels gravity: evaluate with "
            "--mirror-truth yz, or mend the axes in the motion capture."
        )
    axis = max((abs(x), "x", x), (abs(y), "y", y), (abs(z), "z", z))
    sign = "-" if axis[2] < 0.0 else ""
    return "error", (
        f"The {sign}{axis[1]} axis of {report.body} points up, as {report.sensor} feels gravity; z is meant. Choose z "
        "up in the motion capture, or in its driver's parameters."
    )


def _place(report: FrameReport) -> str:
    x, y, z = (1e3 * value for value in report.lever_m or (0.0, 0.0, 0.0))
    sure = 3e3 * max(report.lever_stddev_m or (0.0,))
    return f"{report.sensor} at ({x:.0f}, {y:.0f}, {z:.0f}) +- {sure:.0f} mm (3 sigma)"
