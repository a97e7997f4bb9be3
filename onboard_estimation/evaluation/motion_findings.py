"""Sentences about clocks and frames of IMUs and tracked bodies: what is off, by how much, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onboard_estimation.evaluation.body_frames import FrameReport, Three
from onboard_estimation.evaluation.clock_alignment import ClockReport
from onboard_estimation.evaluation.inspection_report import Finding, Severity

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

_GAIN_OFF = 0.1
_IN_G = 9.81
_TILT_RAD = math.radians(5.0)
_ALONG = math.cos(math.radians(25.0))
_LEVER_M = 0.02


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


def frame_findings(reports: Sequence[FrameReport]) -> list[Finding]:
    """Errors of axes and units, and notes on lever arms."""
    found = [
        Finding("error", _of_gain(one, one.gain))
        for one in reports
        if one.gain is not None and abs(one.gain - 1.0) > _GAIN_OFF
    ]
    upright = [one for one in reports if one.up is not None and (one.gain is None or one.gain > 0.0)]
    found += [Finding(*said) for one in upright if one.up is not None and (said := _of_up(one, one.up)) is not None]
    away = [one for one in reports if one.lever_m is not None and math.hypot(*one.lever_m) > _LEVER_M]
    if away:
        places = "; ".join(_place(one) for one in away[:_SHOWN])
        more = f"; and {len(away) - _SHOWN} more" if len(away) > _SHOWN else ""
        sentence = (
            f"IMUs sit beside the origin of the body that is tracked: {places}{more}. Where positions or "
            "accelerations are judged, move the body's origin there, or give the estimator the lever arm."
        )
        found.append(Finding("note", sentence))
    return found


def _of_gain(report: FrameReport, gain: float) -> str:
    if gain < 0.0:
        return (
            f"{report.body} is a mirror image of the motion that {report.sensor} felt (gain {gain:.2f}): left-handed "
            "axes. Evaluate with --mirror-truth y, or mend the axes in the motion capture."
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
        tilt = math.acos(min(z, 1.0))
        if tilt < _TILT_RAD:
            return None
        return "note", (
            f"The vertical of {report.body} is {math.degrees(tilt):.1f} deg off its z axis, as {report.sensor} feels "
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
