"""What the ground truth tells of a robot's state at some instants."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    found = {body: recording.tracks[body].at(stamps_ns, longest_gap_s) for body in bodies}
    valid = np.all([good for _, good in found.values()], axis=0)
    if not valid.any():
        return {}, valid
    parts = {}
    seen = {body: one[valid] for body, (one, _) in found.items()}
    seen |= {name: one.at(stamps_ns[valid]) for name, one in recording.held.items()}
    known = robot.true_parts(configuration, seen)
    if isinstance(robot, WithTrueRates):
        tracks = {body: recording.tracks[body] for body in bodies}
        known |= robot.true_rates(configuration, tracks, stamps_ns[valid])
    for name, values in known.items():
        parts[name] = np.full((len(stamps_ns), values.shape[1]), np.nan)
        parts[name][valid] = values
    if not all(recording.tracks[body].oriented for body in bodies):  # without an orientation nothing may be left
        valid &= np.any([np.isfinite(values).all(axis=1) for values in parts.values()], axis=0)
    return (parts if valid.any() else {}), valid
