"""Motion capture as a beacon: the pose of the truth, given to the filter every so many seconds.

It goes the way of a pose that a user sets: as a `set_pose` measurement, with the covariance of the truth's own noise.
So a run shows what an occasional absolute pose is worth, and whether the drift between two of them stays inside its
covariance.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix
from onboard_estimation.robots import Robot
from onboard_estimation.series import Series
from onboard_estimation.simulation import SET_POSE

SHORTEST_PERIOD_S = 0.01
_PLANAR = [0, 1, 5]  # x, y, yaw among x, y, z, roll, pitch, yaw


def with_beacon(
    robot: Robot, configuration: Any, recording: LoadedRecording, period_s: float | None, longest_gap_s: float
) -> LoadedRecording:
    """The recording with a `set_pose` measurement every `period_s` seconds, the first one after one period.

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
    found = {body: recording.tracks[body].at(stamps, longest_gap_s) for body in specification.bodies}
    valid = np.all([good for _, good in found.values()], axis=0)
    if not valid.any():
        raise UserError(
            f"--beacon {period_s:g}: none of the {len(stamps)} instants for it in {run_s:.1f} s has a ground truth of "
            f"all bodies (gaps up to {longest_gap_s:g} s are bridged, see --truth-gap); take a shorter period"
        )
    stamps = stamps[valid]
    parts = robot.true_parts(configuration, {body: values[valid] for body, (values, _) in found.items()})
    pose = parts.get("pose")
    if pose is None or pose.shape[1] != 3:
        raise UserError(f"--beacon {period_s:g}: the ground truth of {robot.name} tells no planar pose")
    noise = specification.covariances.get("pose", np.zeros((3, 3)))
    values = np.array([_message(x, y, heading, noise) for x, y, heading in pose])
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
    cosine, sine = math.cos(heading_rad), math.sin(heading_rad)
    turn = np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    covariance = np.zeros((6, 6))
    covariance[np.ix_(_PLANAR, _PLANAR)] = turn @ noise @ turn.T
    position = [x, y, 0.0]
    quaternion = [0.0, 0.0, math.sin(0.5 * heading_rad), math.cos(0.5 * heading_rad)]
    return np.concatenate([position, quaternion, covariance.ravel()])
