"""What the ground truth tells of a robot's state at some instants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import POSE
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.truth import WithTrueRates

Rows = NDArray[np.float64]


def truth_at(
    robot: Robot,
    configuration: Any,
    recording: LoadedRecording,
    stamps_ns: NDArray[np.int64],
    longest_gap_s: float,
) -> tuple[dict[str, Rows], NDArray[np.bool_]]:
    """Parts of the state that the truth tells at the stamps, none if it tells nothing, and where it is valid.

    Parameters
    ----------
    longest_gap_s
        Between two messages of the truth that are interpolated.
    """
    bodies = robot.truth_specification(configuration).bodies
    valid = np.zeros(len(stamps_ns), dtype=np.bool_)
    if not bodies or any(body not in recording.tracks for body in bodies):
        return {}, valid
    seen = {}
    valid = np.ones(len(stamps_ns), dtype=np.bool_)
    for body in bodies:
        seen[body], good = recording.tracks[body].at(stamps_ns, longest_gap_s)
        valid &= good
    if not valid.any():
        return {}, valid
    known_ns = stamps_ns
    if not valid.all():  # copies of those of a long recording take room
        seen, known_ns = {body: one[valid] for body, one in seen.items()}, stamps_ns[valid]
    seen |= {name: one.at(known_ns) for name, one in recording.held.items()}
    unknown = [body for body in bodies if not recording.tracks[body].oriented]
    known = _without_orientation(robot, configuration, seen, unknown)
    if isinstance(robot, WithTrueRates):
        tracks = {body: recording.tracks[body] for body in bodies}
        known |= robot.true_rates(configuration, tracks, known_ns)
    parts = {name: np.full((len(stamps_ns), values.shape[1]), np.nan) for name, values in known.items()}
    for name, values in known.items():
        parts[name][valid] = values
    return (parts, valid) if parts else ({}, np.zeros_like(valid))


def _without_orientation(
    robot: Robot, configuration: Any, seen: Mapping[str, Rows], unknown: Sequence[str]
) -> dict[str, Rows]:
    """True parts that do not depend on the orientation of bodies that have none: turned, they stay as they are."""
    known = dict(robot.true_parts(configuration, dict(seen)))
    if not unknown:
        return known
    turned = {name: values.copy() for name, values in seen.items()}
    for number, name in enumerate(unknown, start=1):  # each otherwise, for angles between them may be what is judged
        turned[name][:, POSE.orientation] = Rotation.from_rotvec([0.3, -0.2, 0.7 * number]).as_quat()
    others = robot.true_parts(configuration, turned)
    return {name: values for name, values in known.items() if np.array_equal(values, others[name])}
