"""What-if changes of a recording: sensors left out, stamps delayed, biases and noise, motion capture as a beacon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, component_names
from onboard_estimation.base.series import SET_POSE, Series
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import Robot
from onboard_estimation.judging.alignment import about_vertical
from onboard_estimation.judging.options import WhatIf, is_part
from onboard_estimation.judging.truth import truth_at

_LONGEST_DELAY_S = 3600.0


SHORTEST_PERIOD_S = 0.01


_PLANAR = [0, 1, 5]  # x, y, yaw among x, y, z, roll, pitch, yaw


def changed(recording: LoadedRecording, what_if: WhatIf, seed: int = 0) -> LoadedRecording:
    """With the changes of a what-if, `seed` of its noise; the order of arrival stays. Raises as `changed_series`."""
    if what_if == WhatIf():
        return recording
    kept = [number for number, one in enumerate(recording.series) if not what_if.drops(one.channel.sensor)]
    series = tuple(changed_series(recording.series, what_if, seed))
    if not series:
        raise UserError("--drop leaves no sensor")
    place = np.full(len(recording.series), -1)
    place[kept] = np.arange(len(kept))
    arrival = place[recording.arrival]
    notes = (*recording.notes, *what_if.sentences())
    return replace(recording, series=series, arrival=arrival[arrival >= 0], notes=notes)


def changed_series(series: Sequence[Series], what_if: WhatIf, seed: int = 0) -> list[Series]:
    """Changed copies, `seed` of the noise; those that are dropped are left out.

    Raises
    ------
    UserError
        A change that names no sensor or component of these series, or has no number.
    """
    out = list(series)
    for name in what_if.drop:
        dropped = _matching(out, name, "--drop")
        out = [one for one in out if one not in dropped]
    for name, delay_s in what_if.delay_s.items():
        if not abs(delay_s) <= _LONGEST_DELAY_S:
            raise UserError(f"--delay {name}={delay_s:g}s: must be at most {_LONGEST_DELAY_S:g} s either way")
        shift = round(delay_s * NANOSECONDS_PER_SECOND)
        for one in _matching(out, name, "--delay"):
            out[out.index(one)] = replace(one, stamps_ns=one.stamps_ns + shift)
    rng = np.random.default_rng(seed)
    changes = [("--bias", *one) for one in what_if.bias.items()] + [("--noise", *one) for one in what_if.noise.items()]
    for option, name, number in changes:
        if not math.isfinite(number):
            raise UserError(f"{option} {name}={number:g}: must be finite")
        if option == "--noise" and number < 0.0:
            raise UserError(f"{option} {name}={number:g}: a standard deviation must be 0 or more")
        for place, columns in _components(out, name, option):
            values = out[place].values.copy()
            added = number if option == "--bias" else rng.normal(0.0, number, (len(values), len(columns)))
            values[:, columns] += added
            out[place] = replace(out[place], values=values)
    return out


def _matching(series: Iterable[Series], name: str, option: str) -> list[Series]:
    series = list(series)
    found = [one for one in series if is_part(one.channel.sensor, name)]
    if not found:
        raise UserError(f"{option} {name}: no such sensor; there are {', '.join(one.channel.sensor for one in series)}")
    return found


def _components(series: Sequence[Series], name: str, option: str) -> list[tuple[int, list[int]]]:
    """Places among the series, and columns of their values, that a name stands for."""
    sensor, _, component = name.partition(".")
    out = []
    for one in _matching(series, sensor, option):
        names = component_names(one.channel)
        columns = [i for i, known in enumerate(names) if component and is_part(known, component)]
        if not columns:
            raise UserError(
                f"{option} {name}: say which component of {one.channel.sensor}: {', '.join(names)} or a prefix"
            )
        out.append((list(series).index(one), columns))
    return out


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
    # Medians over the sensors, because one of them may have a clock of its own.
    first_ns = int(np.median([one.stamps_ns.min() for one in filled]))
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
    covariance[np.ix_(_PLANAR, _PLANAR)] = turn @ noise @ turn.T
    position = [x, y, 0.0]
    quaternion = [0.0, 0.0, math.sin(0.5 * heading_rad), math.cos(0.5 * heading_rad)]
    return np.concatenate([position, quaternion, covariance.ravel()])
