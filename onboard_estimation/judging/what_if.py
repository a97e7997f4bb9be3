"""What-if changes of a recording: faults of its sensors, for a while or all along, motion capture as a beacon."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Matrix, component_names
from onboard_estimation.base.series import SET_POSE, Fault, Held, Series, run_start_ns
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.simulated import Changing
from onboard_estimation.filtering.planar import PLANAR, about_vertical
from onboard_estimation.judging.options import WhatIf, is_part
from onboard_estimation.judging.truth import truth_at

_LONGEST_DELAY_S = 3600.0


SHORTEST_PERIOD_S = 0.01


_ALIASES = {"accel": "accelerometer", "linear_acceleration": "accelerometer", "angular_velocity": "gyro"}
"""Other names of components: short, and the message's own."""


def changed(recording: LoadedRecording, what_if: WhatIf, seed: int = 0) -> LoadedRecording:
    """With the changes of a what-if that it has not yet, `seed` of their noise; the order of arrival stays.

    Raises as `with_faults`, and of a fault that begins after the end.
    """
    asked = what_if.faults()
    if not asked:
        return recording
    faults = [one for one in asked if one not in recording.injected]
    start_ns = run_start_ns(recording.series)
    end_s = (max(one.stamps_ns.max(initial=start_ns) for one in recording.series) - start_ns) / NANOSECONDS_PER_SECOND
    if late := [one.text for one in faults if one.from_s > end_s]:
        raise UserError(f"--fault {late[0]}: begins after the end of the recording, {end_s:.1f} s")
    left = with_faults(recording.series, faults, np.random.default_rng(seed))
    if not left:
        raise UserError("--drop leaves no sensor")
    place, keep = np.zeros(len(recording.series), dtype=np.int64), np.zeros(len(recording.arrival), dtype=np.bool_)
    for new, (number, (_, rows)) in enumerate(left.items()):
        place[number] = new
        keep[np.flatnonzero(recording.arrival == number)[rows]] = True
    return replace(
        recording,
        series=tuple(one for one, _ in left.values()),
        arrival=place[recording.arrival[keep]],
        notes=tuple(dict.fromkeys((*recording.notes, *what_if.sentences()))),
        injected=(*recording.injected, *faults),
    )


def changed_series(series: Sequence[Series], what_if: WhatIf, seed: int = 0) -> list[Series]:
    """Changed copies, `seed` of the noise; those that are dropped are left out. Raises as `with_faults`."""
    return [one for one, _ in with_faults(series, what_if.faults(), np.random.default_rng(seed)).values()]


def spoiling(
    simulation: Any, faults: Sequence[Fault], seed: int, channels: Iterable[Channel]
) -> Callable[[Sequence[Series]], list[Series]]:
    """What makes of a simulation's readings, piece by piece, those with faults; changes of the robot itself are begun.

    Parameters
    ----------
    channels
        Of the robot: a faulty sensor keeps its range.
    """
    others = simulation.changeable if isinstance(simulation, Changing) else {}
    if own := tuple(one for one in faults if one.name in others):
        if wrong := [one.text for one in own if one.kind not in ("offset", "scale")]:
            raise UserError(f"--fault {wrong[0]}: a robot changes by an amount or a factor: +0.1, *0.8")
        simulation.changes = (*simulation.changes, *own)
        faults = [one for one in faults if one not in own]
    rng, held, known = np.random.default_rng(seed), Held(), {one.sensor: one for one in channels}

    def spoilt(sensors: Sequence[Series]) -> list[Series]:
        ranged = [replace(one, channel=known.get(one.channel.sensor, one.channel)) for one in sensors]
        return [one for one, _ in with_faults(ranged, faults, rng, 0, held, others or ["nothing"]).values()]

    return spoilt


def with_faults(
    series: Sequence[Series],
    faults: Sequence[Fault],
    rng: np.random.Generator,
    start_ns: int | None = None,
    held: Held | None = None,
    others: Collection[str] = ("what `simulate --fault` can change",),
) -> dict[int, tuple[Series, NDArray[np.intp]]]:
    """Changed copies, and which of their messages are left, by their numbers; none where a sensor is left out.

    Parameters
    ----------
    start_ns
        Of the run; None: as the series have it.
    held
        See `Fault.misread`.
    others
        What else a fault can be of, for messages.

    Raises
    ------
    UserError
        A change that names no sensor or component of these series, or has no number.
    """
    out = {number: (one, np.arange(len(one.stamps_ns))) for number, one in enumerate(series)}
    start_ns = run_start_ns(series) if start_ns is None else start_ns
    held = {} if held is None else held
    for fault in faults:
        _refuse_numbers(fault)
        name = fault.name if fault.kind in ("silent", "late") else fault.sensor
        found = [number for number, (one, _) in out.items() if is_part(one.channel.sensor, name)]
        if not found:
            there = ", ".join(one.channel.sensor for one, _ in out.values())
            there += f"; of the robot itself {', '.join(others)}" if fault.flag == "--fault" else ""
            raise UserError(f"{fault.flag} {name}: no such sensor; there are {there}")
        for number in found:
            one, rows = out[number]
            if fault.kind == "silent" and fault.is_lasting:
                del out[number]
            elif fault.kind == "silent":
                kept = np.delete(np.arange(len(rows)), fault.rows(one, start_ns))
                out[number] = one.rows(kept), rows[kept]
            elif fault.kind == "late":
                out[number] = fault.delayed(one, start_ns), rows
            else:
                out[number] = fault.misread(one, _columns(one, fault), start_ns, rng, held), rows
    return out


def _refuse_numbers(fault: Fault) -> None:
    """Raise UserError where a number is none of its kind."""
    said = f"{fault.flag} {fault.name}={fault.size:g}"
    if fault.kind == "late" and not abs(fault.size) <= _LONGEST_DELAY_S:
        raise UserError(f"{said}s: must be at most {_LONGEST_DELAY_S:g} s either way")
    if not math.isfinite(fault.size):
        raise UserError(f"{said}: must be finite")
    if fault.kind in ("noise", "clip") and fault.size < 0.0:
        what = "a standard deviation" if fault.kind == "noise" else "a largest magnitude"
        raise UserError(f"{said}: {what} must be 0 or more")


def _columns(series: Series, fault: Fault) -> NDArray[np.intp]:
    """Of its values, those that a fault is of."""
    names, component = component_names(series.channel), fault.name.partition(".")[2]
    for other, ours in _ALIASES.items():
        component = ours + component.removeprefix(other) if is_part(component, other) else component
    if not component and (fault.kind == "stuck" or len(names) == 1):
        return np.arange(series.values.shape[1])
    columns = np.flatnonzero([bool(component) and is_part(known, component) for known in names])
    if not len(columns):
        raise UserError(
            f"{fault.flag} {fault.name}: say which component of {series.channel.sensor}: {', '.join(names)} or a prefix"
        )
    return columns


def with_beacon(
    robot: Robot, configuration: Any, recording: LoadedRecording, period_s: float | None, longest_gap_s: float
) -> LoadedRecording:
    """The recording with a `set_pose` measurement every `period_s` seconds, the first one after one period.

    It goes the way of a pose that a user sets, with the covariance of the truth's own noise. So a run shows what an
    occasional absolute pose is worth, and whether the drift between two of them stays inside its covariance.

    Parameters
    ----------
    period_s
        None: the recording as it is.
    longest_gap_s
        Between two messages of the truth that are interpolated; there is no beacon in longer gaps.

    Raises
    ------
    UserError
        A period that is none, a robot that is not told its planar pose, no ground truth of its pose, or a recording
        shorter than the period.
    """
    if period_s is None:
        return recording
    if not SHORTEST_PERIOD_S <= period_s < math.inf:
        raise UserError(f"--beacon {period_s:g}: must be a period of {SHORTEST_PERIOD_S:g} s or more")
    channel = next((one for one in robot.channels(configuration) if one.sensor == SET_POSE), None)
    if channel is None:
        raise UserError(f"--beacon {period_s:g}: {robot.name} does not listen to {SET_POSE}, so it takes no beacon")
    specification = robot.truth_specification(configuration)
    missing = [body for body in specification.bodies if body not in recording.tracks]
    if missing or not specification.bodies:
        lacking = f"of {', '.join(missing)} " if missing else ""
        raise UserError(
            f"--beacon {period_s:g}: the beacon is made of the ground truth, which {lacking}is not in the recording"
        )
    filled = [one for one in recording.series if len(one.stamps_ns)]
    first_ns = run_start_ns(filled)
    last_ns = int(np.median([one.stamps_ns.max() for one in filled]))
    period_ns = round(period_s * NANOSECONDS_PER_SECOND)
    run_s = (last_ns - first_ns) / NANOSECONDS_PER_SECOND
    if last_ns < first_ns + period_ns:
        raise UserError(f"--beacon {period_s:g}: the run has {run_s:.1f} s only, so no beacon falls into it")
    stamps: NDArray[np.int64] = np.arange(first_ns + period_ns, last_ns + 1, period_ns, dtype=np.int64)
    parts, valid = truth_at(robot, configuration, recording, stamps, longest_gap_s)
    if not valid.any():
        raise UserError(
            f"--beacon {period_s:g}: none of the {len(stamps)} instants for it in {run_s:.1f} s has a ground truth of "
            f"all bodies (gaps up to {longest_gap_s:g} s are bridged, see --truth-gap); take a shorter period"
        )
    stamps, pose = stamps[valid], parts.get("pose")
    if pose is None or pose.shape[1] != 3:
        raise UserError(f"--beacon {period_s:g}: the ground truth of {robot.name} tells no planar pose")
    noise = specification.covariances.get("pose", np.zeros((3, 3)))
    values = np.array([_message(x, y, heading, noise) for x, y, heading in pose[valid]])
    # Where each belongs among the stamps of all others: stray ones move it by no more than their own number.
    others = np.sort(np.concatenate([one.stamps_ns for one in filled]))
    arrival = np.insert(recording.arrival, np.searchsorted(others, stamps, side="right"), len(recording.series))
    note = f"Motion capture as a beacon: the pose every {period_s:g} s, {len(stamps)} times."
    return replace(
        recording,
        series=(*recording.series, Series(channel, stamps, values)),
        arrival=arrival,
        notes=(*recording.notes, note),
    )


def _message(x: float, y: float, heading_rad: float, noise: Matrix) -> NDArray[np.float64]:
    """(43,) value of a PoseWithCovarianceStamped from a planar pose and its noise as a body-frame twist (3, 3)."""
    turn = about_vertical(heading_rad)
    covariance = np.zeros((6, 6))
    covariance[np.ix_(PLANAR, PLANAR)] = turn @ noise @ turn.T
    position = [x, y, 0.0]
    quaternion = [0.0, 0.0, math.sin(0.5 * heading_rad), math.cos(0.5 * heading_rad)]
    return np.concatenate([position, quaternion, covariance.ravel()])
