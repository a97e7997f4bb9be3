"""IMUs against the bodies that were tracked with them: whose clock, axes, units or names are wrong, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from math import acos, cos, degrees, hypot, radians
from typing import Literal, NamedTuple

from onboard_estimation.bags.bulk import Column
from onboard_estimation.base.errors import first_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.soundness.body_frames import FrameReport, Three, find_frames
from onboard_estimation.soundness.clock_alignment import (
    ClockReport,
    TrackedBody,
    TruthClock,
    named_after,
    pair,
    truth_clock,
    why_not,
)
from onboard_estimation.soundness.stretches import longest_run, marked, other_unit, unsound_readings

Severity = Literal["error", "warning", "note"]

_SHOWN = 3

LEAST_OFFSET_S = 2e-3
"""A smaller offset is shown, and no finding: few filters would notice."""

_SURE = 4.0
_OF_PERIOD = 0.6
_SCALE_OFF = 0.1
_DEGREE = degrees(1.0)
_TURNED_RAD = radians(3.0)
_SAME_AXIS = cos(3.0 * _TURNED_RAD)

_GAIN_OFF, _CLEAR = 0.1, 0.9
# A mirrored truth agrees with a gyro that is turned half round; an accelerometer of the other sign with one as it is.
_HALF_TURNED_RAD, _EITHER_RAD = radians(90.0), radians(45.0)
_IN_G = 9.81
_TILT_RAD = radians(5.0)
_ALONG = cos(radians(25.0))
_LEVER_M = 0.02


@dataclass(frozen=True)
class Finding:
    """One sentence for a person, and how bad it is."""

    severity: Severity
    text: str


class MotionCheck(NamedTuple):
    """What IMUs and tracked bodies say of each other: clocks of each pair, frames where both turn enough, and sentences
    on places in other units where no accelerometer tells it."""

    clocks: tuple[ClockReport, ...]
    frames: tuple[FrameReport, ...]
    units: tuple[str, ...] = ()

    def without(self, condemned: Container[str]) -> MotionCheck:
        """Without the scales and frames of IMUs that are wrong by themselves, by topic."""
        clocks = (replace(one, scale=None) if one.sensor in condemned else one for one in self.clocks)
        frames = tuple(one for one in self.frames if one.sensor not in condemned)
        return MotionCheck(tuple(clocks), frames, self.units)

    @property
    def mirrored(self) -> bool:
        """The truth is a mirror image of the motion, for all IMUs that tell it."""
        of_frames = [_is_mirrored(one) for one in self.frames if one.explained > _CLEAR]
        of_clocks = [one.mirrored for one in self.clocks if one.offset_s is not None and not one.rather]
        told = of_frames or of_clocks
        return bool(told) and all(told)

    def findings(self) -> list[Finding]:
        """What is wrong, on clocks before frames; on the truth's own clock see `offset`."""
        units = [Finding("error", one) for one in self.units]
        return clock_findings(self.clocks) + frame_findings(self.frames) + units

    def offset(self) -> Finding | None:
        """Whether the truth's clock surely differs by more than a filter does not notice; a note where a held reading
        may do it.
        """
        clock = truth_clock(self.clocks)
        if isinstance(clock, str) or abs(clock.offset_s) <= max(LEAST_OFFSET_S, _SURE * clock.stddev_s):
            return None
        size = f"{_milliseconds(clock.offset_s)} +- {_milliseconds(3.0 * clock.stddev_s)} ms"
        against = first_of([one.sensor for one in self.clocks if one.offset_s is not None and not one.rather], _SHOWN)
        held = all(abs(one.offset_s or 0.0) < _OF_PERIOD * one.period_s for one in self.clocks)
        remedy = "less than their period: held readings, or means, may do it" if held else "--align-clock moves it"
        said = f"The truth's clock is {size} {'late' if clock.offset_s < 0.0 else 'early'} against {against}"
        return Finding("note" if held else "warning", f"{said} (3 sigma; {remedy}).")


def against_truth(imus: Mapping[str, Column], bodies: Mapping[str, TrackedBody]) -> MotionCheck:
    """Each IMU against the body that it is on, both by topic; stretches in which an IMU is dead are left out."""
    alive = {
        name: one.at(longest_run(~marked(dead, len(one.stamps_ns)))) if dead else one
        for name, one in imus.items()
        for dead in [unsound_readings(one.stamps_ns, one.values)]
    }
    clocks = pair(alive, bodies, named_after(alive, bodies))
    known = [one for one in clocks if one.rotation_rad is not None and not (one.rather or one.mirrored)]
    frames = tuple(find_frames(one, alive[one.sensor], bodies[one.body]) for one in known)
    told = {one.body for one in frames if _is_scaled(one)}
    others = {name: other_unit(one.track.stamps_ns, one.track.values) for name, one in bodies.items()}
    units = tuple(f"{name} {words}." for name, words in others.items() if words and name not in told)
    return MotionCheck(clocks, frames, units)


class CheckedTruth(NamedTuple):
    """The truth as the IMUs' motion leaves it.

    Attributes
    ----------
    tracks
        By topic; moved where that was asked for, without orientation where a gyro contradicts it.
    contradictions
        What contradicts the sensors, a sentence each.
    clock
        How the clocks agree, or why that is not known; nothing where a contradiction says it.
    comparable
        Whether turns and axes of truth and sensors can be compared: none is condemned.
    """

    tracks: dict[str, BodyTrack]
    contradictions: list[str]
    clock: list[str]
    comparable: bool


def checked_truth(
    imus: Mapping[str, Column], bodies: Mapping[str, TrackedBody], condemned: Container[str], align_clock: bool
) -> CheckedTruth:
    """Hold tracked bodies against IMUs, both by topic.

    Parameters
    ----------
    condemned
        Topics of IMUs that contradict gravity, whose scales say nothing of the truth.
    align_clock
        Move the truth's stamps by what the motion tells.
    """
    seen = {name: one for name, one in bodies.items() if len(one.track.stamps_ns)}
    motion = against_truth({name: one for name, one in imus.items() if len(one.stamps_ns)}, seen).without(condemned)
    clock = truth_clock(motion.clocks)
    off = None if align_clock else motion.offset()
    found = motion.findings() + ([off] if off else [])
    contradictions = [one for one in found if one.severity != "note"]
    shift_ns = 0
    if not isinstance(clock, TruthClock):
        kept = "left" if align_clock else "taken"
        unknown = f"The truth's clock is {kept} as it was recorded: motion does not tell its offset ({clock})."
        said = [unknown] if align_clock or motion.clocks else []
    elif align_clock:
        shift_ns = round(clock.offset_s * NANOSECONDS_PER_SECOND)
        said = [f"The truth's stamps are moved by {clock.words()}, as the motion tells."]
    elif off in contradictions:
        said = []
    else:
        why = "less than a held reading may do" if off else "they agree"
        said = [f"By the motion, the truth's stamps would have to be moved by {clock.words()}: {why}."]
    if isinstance(clock, TruthClock):
        untold = [f"{one.sensor} ({why_not(one)})" for one in motion.clocks if one.offset_s is None or one.rather]
        said += [f"Not held against the truth: {'; '.join(untold)}."] if untold else []
    wrong = {one.body for one in motion.clocks if one.attitude}
    tracks = {
        name: replace(one.track, stamps_ns=one.track.stamps_ns + shift_ns, oriented=name not in wrong)
        for name, one in bodies.items()
    }
    comparable = motion.mirrored or all(one.severity != "error" for one in contradictions)
    return CheckedTruth(tracks, [one.text for one in contradictions], said, comparable)


def _first(words: Sequence[str]) -> str:
    return first_of(words, _SHOWN, "; ", "; and {} more")


def _once(severity: Severity, faulty: Sequence[ClockReport], sentence: Callable[[ClockReport], str]) -> list[Finding]:
    """A sentence on the first that has a fault, with the names of the others; nothing of none."""
    if not faulty:
        return []
    others = first_of([one.body for one in faulty[1:]], _SHOWN, ", ", " and {} more")
    said = sentence(faulty[0])
    return [Finding(severity, f"{said.removesuffix('.')}; so it is with {others}." if others else said)]


def clock_findings(reports: Sequence[ClockReport]) -> list[Finding]:
    """Errors, warnings and notes on what motion tells; nothing of what it does not."""
    found = [Finding("error", _swapped(one)) for one in reports if one.rather]
    for words in dict.fromkeys(one.attitude for one in reports if one.attitude):
        found += _once("error", [one for one in reports if one.attitude == words], _wrongly_oriented)
    found += _once(
        "error",
        [one for one in reports if one.still and not one.rather],
        lambda one: f"The gyro of {one.sensor} {one.still}.",
    )
    found += [
        Finding("note", f"{one.body} and {one.sensor} are compared by ways alone, not by turns: {one.weaker}.")
        for one in reports
        if one.weaker and one.offset_s is not None and not one.attitude
    ]
    sound = [one for one in reports if not one.rather and one.offset_s is not None]
    # Bodies come from one motion capture: where another IMU agrees with it, the odd IMU is at fault.
    turned = [one for one in sound if one.mirrored or _is_upside_down(one)]
    agreeing = [one.sensor for one in sound if one not in turned and not one.attitude]
    found += [Finding("error", _odd(one, agreeing[0])) for one in turned if agreeing]
    found += [] if agreeing else _once("error", [one for one in sound if one.mirrored], _mirrored)
    scaled = [one for one in sound if one.scale and abs(one.scale - 1.0) > _SCALE_OFF]
    found += _once("error", [one for one in scaled if _in_degrees(one)], _scaled)
    found += [Finding("error", _scaled(one)) for one in scaled if not _in_degrees(one)]
    found += _differing(sound)
    found += [
        Finding("note", _turned(one, one.rotation_rad, one.rotation_stddev_rad))
        for one in sound
        if one.rotation_rad is not None and one.rotation_stddev_rad is not None and not one.mirrored
        if hypot(*one.rotation_rad) > max(_TURNED_RAD, 3.0 * hypot(*one.rotation_stddev_rad))
    ][:_SHOWN]
    found += [] if agreeing else _once("warning", [one for one in turned if not one.mirrored], _upside_down)
    return found


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


def _odd(report: ClockReport, agreeing: str) -> str:
    return (
        f"{report.sensor} turns the other way round than {report.body}, while {agreeing} agrees with the same motion "
        "capture: one of its axes has the wrong sign, or two are swapped. Mend it in its driver, or by the gyro's axis "
        "(--set)."
    )


def _mirrored(report: ClockReport) -> str:
    return (
        f"{report.body} is a mirror image of the motion that {report.sensor} felt: left-handed axes, or those of the "
        "IMU are (one has the wrong sign, or two are swapped). Evaluate with --mirror-truth y, or mend the axes in the "
        "motion capture or in the driver."
    )


def _in_degrees(report: ClockReport) -> bool:
    return report.scale is not None and abs(report.scale * _DEGREE - 1.0) < _SCALE_OFF


def _scaled(report: ClockReport) -> str:
    sentence = f"{report.body} turns {report.scale:.3g} times as far as {report.sensor} says"
    if _in_degrees(report):
        return f"{sentence}: the gyro is in deg/s, and its driver must multiply by {1.0 / _DEGREE:.6g}."
    return f"{sentence}: the gyro's range or scale is set wrong."


def _wrongly_oriented(report: ClockReport) -> str:
    return f"The orientation of {report.body} contradicts {report.sensor}: it {report.attitude}."


def _turned(report: ClockReport, rotation: tuple[float, float, float], stddev: tuple[float, float, float]) -> str:
    x, y, z = (degrees(value) for value in rotation)
    angle = hypot(x, y, z)
    return (
        f"The frame of {report.body} is turned against that of {report.sensor} by {angle:.1f} +- "
        f"{3.0 * degrees(max(stddev)):.1g} deg (3 sigma), rotation vector ({x:.1f}, {y:.1f}, {z:.1f}) deg from "
        "the IMU's to the body's: set the body's axes in the motion capture, or judge nothing that depends on them."
    )


def _is_upside_down(report: ClockReport) -> bool:
    return report.axis is not None and not (report.mirrored or report.attitude) and min(report.axis) < -_SAME_AXIS


def _upside_down(report: ClockReport) -> str:
    name = "xyz"[min(range(3), key=lambda place: (report.axis or (0.0, 0.0, 0.0))[place])]
    return (
        f"{report.body} turns about its -{name} axis as {report.sensor} says it turns about +: one of them is upside "
        "down, or the body's quaternion is inverse. Set the gyro's axis (--set), or evaluate with --mirror-truth yz."
    )


def _milliseconds(seconds: float | None) -> str:
    return f"{1e3 * abs(seconds or 0.0):.2g}" if abs(seconds or 0.0) < 1e-3 else f"{1e3 * abs(seconds or 0.0):.1f}"


def frame_findings(reports: Sequence[FrameReport]) -> list[Finding]:
    """Errors of axes and units, and notes on lever arms."""
    odd = len({_is_mirrored(one) for one in reports if one.explained > _CLEAR}) > 1
    found = [
        Finding("error", _of_gain(one, one.gain, odd)) for one in reports if one.gain is not None and _is_scaled(one)
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


def _is_scaled(report: FrameReport) -> bool:
    return report.gain is not None and abs(report.gain - 1.0) > _GAIN_OFF and report.explained > _CLEAR


def _is_mirrored(report: FrameReport) -> bool:
    return (
        report.gain is not None
        and report.gain < 0.0
        and report.explained > _CLEAR
        and report.turned_rad > _HALF_TURNED_RAD
    )


def _of_gain(report: FrameReport, gain: float, odd: bool) -> str:
    unsure = abs(report.turned_rad - _HALF_TURNED_RAD) < _EITHER_RAD
    if _is_mirrored(report) and (odd or report.left_handed_imu):
        return (
            f"The axes of {report.sensor} are left-handed (gain {gain:.2f} against {report.body}): one has the wrong "
            "sign, or two are swapped, in its gyro or in its accelerometer. Mend it in the driver."
        )
    if _is_mirrored(report):
        axes = f", or those of {report.sensor} are (one has the wrong sign, or two are swapped)"
        other = axes if report.left_handed_imu is None else ""
        other += f", or {report.sensor}'s accelerometer has the other sign" if unsure else ""
        return (
            f"{report.body} is a mirror image of the motion that {report.sensor} felt (gain {gain:.2f}): left-handed "
            f"axes{other}. Evaluate with --mirror-truth y, or mend the axes in the motion capture."
        )
    if gain < 0.0:
        other = f", or {report.body} is a mirror image" if unsure else ""
        return (
            f"The accelerometer of {report.sensor} has the other sign (gain {gain:.2f} against {report.body}, with "
            f"whose turns its gyro agrees){other}: at rest it must read +9.81 m/s^2 upwards. Mend it in the driver."
        )
    sentence = f"{report.body} moves {gain:.3g} times as far as {report.sensor}'s accelerations say"
    if abs(gain / _IN_G - 1.0) < _GAIN_OFF:
        return f"{sentence}: they are in g, m/s^2 is meant."
    for unit, size in (("mm", 1e3), ("cm", 1e2)):
        if abs(gain / size - 1.0) < _GAIN_OFF or abs(gain * size - 1.0) < _GAIN_OFF:
            return f"{sentence}: one is in {unit}, m is meant."
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
