"""Sentences about the frames of tracked bodies: axes that are not the motion's, and where the IMUs sit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onboard_estimation.evaluation.body_frames import FrameReport, Three
from onboard_estimation.evaluation.finding import Finding, Severity

_GAIN_OFF = 0.1
_IN_G = 9.81
_TILT_RAD = math.radians(5.0)
_ALONG = math.cos(math.radians(25.0))
_LEVER_M = 0.02
_SHOWN = 3


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
        found.append(
            Finding(
                "note",
                f"IMUs sit beside the origin of the body that is tracked: {places}{more}. Where positions or "
                "accelerations are judged, move the body's origin there, or give the estimator the lever arm.",
            )
        )
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
