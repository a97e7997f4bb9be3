"""Sentences about clocks and frames of IMUs and tracked bodies: what is off, by how much, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onboard_estimation.evaluation.clock_alignment import ClockReport
from onboard_estimation.evaluation.finding import Finding, Severity

LEAST_OFFSET_S = 2e-3
"""A smaller offset is shown, and no finding: few filters would notice."""

# Of many pairs of an IMU and a body, some offset is beyond three standard deviations by chance.
_SURE = 4.0
_OF_PERIOD = 0.6
_SEVERITIES: tuple[tuple[Severity, bool], ...] = (("warning", False), ("note", True))
_SCALE_OFF = 0.1
_DEGREE = math.degrees(1.0)
_TURNED_RAD = math.radians(3.0)
_SHOWN = 3


def clock_findings(reports: Sequence[ClockReport]) -> list[Finding]:
    """Errors, warnings and notes on what motion tells; nothing of what it does not."""
    found = [Finding("error", _swapped(one)) for one in reports if one.rather]
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
        if math.hypot(*one.rotation_rad) > max(_TURNED_RAD, 3.0 * math.hypot(*one.rotation_stddev_rad))
    ][:_SHOWN]
    found += [
        Finding("warning", _other_axis(one, one.axis))
        for one in sound
        if one.axis is not None and not one.mirrored and max(map(abs, one.axis)) > math.cos(3.0 * _TURNED_RAD)
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
    more = f"; and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
    other = "late" if words == "early" else "early"
    remedy = (
        "evaluate --align-clock moves the truth by that"
        if severity == "warning"
        else "less than half a period of the IMU: it may hold its readings, or take means, and the clocks be right"
    )
    return (
        f"The ground truth's stamps are too {words}, or the IMU's readings too {other}: "
        f"{'; '.join(pairs[:_SHOWN])}{more} ({remedy})."
    )


def _differing(reports: Sequence[ClockReport]) -> list[Finding]:
    """Where one shift of the truth cannot mend all."""
    if len(reports) < 2:
        return []
    first, *_, last = sorted(reports, key=lambda one: one.offset_s or 0.0)
    apart_s = (last.offset_s or 0.0) - (first.offset_s or 0.0)
    sure_s = 3.0 * math.hypot(first.stddev_s or 0.0, last.stddev_s or 0.0)
    if apart_s < LEAST_OFFSET_S + sure_s:
        return []
    return [
        Finding(
            "warning",
            f"The IMUs' clocks differ by {_milliseconds(apart_s)} +- {_milliseconds(sure_s)} ms (3 sigma): "
            f"{last.sensor} is later than {first.sensor}. No shift of the truth mends both: evaluate with --delay, "
            f"or stamp them with one clock.",
        )
    ]


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
    x, y, z = (math.degrees(value) for value in rotation)
    angle = math.hypot(x, y, z)
    return (
        f"The frame of {report.body} is turned against that of {report.sensor} by {angle:.1f} +- "
        f"{3.0 * math.degrees(max(stddev)):.1g} deg (3 sigma), rotation vector ({x:.1f}, {y:.1f}, {z:.1f}) deg from "
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
