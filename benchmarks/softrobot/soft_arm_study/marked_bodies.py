"""Markers of a recording as a motion: how far the tip has gone and turned from where it rested."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.reading_parts import POSE
from onboard_estimation.series import Series
from recorded_robots.soft_arm import read_soft_arm

Array = NDArray[np.float64]

STARTED_SHARE, ARRIVED_SHARE = 0.02, 0.3
"""Of the farthest that a tip goes: more than the first away from rest it moves, beyond the second it surely has."""
RESTED_S = 0.2
"""Before the start, where the rest is read: markers creep by 0.2 mm in the first tenths of a second of a capture."""
_UNSURE_S = 0.02  # just before the start: two frames at 100 Hz, which may already be of the motion
_LEAST_MOTION_M = 1e-3


@dataclass(frozen=True, eq=False)
class TipMotion:
    """The middle of the tip's markers from its rest on, and what stands around it.

    Attributes
    ----------
    times_s
        (K,) since the tip began to move; below zero at rest.
    displacements_m, turns_rad
        (K, 3) each, from the rest before the start, along and about the capture's axes.
    resting_offset_m
        (3,) from the middle of the base's markers to that of the tip's, at rest.
    base_markers_m
        (M, 3) mean places of the base's markers.
    nominal_pressure_mbar
        By the file's name, if that says one.
    """

    times_s: Array
    displacements_m: Array
    turns_rad: Array
    resting_offset_m: Array
    base_markers_m: Array
    nominal_pressure_mbar: int | None

    @property
    def deflections_m(self) -> Array:
        """(K,) distance from the rest."""
        return np.asarray(np.linalg.norm(self.displacements_m, axis=1))

    def between(self, first_s: float, last_s: float) -> NDArray[np.bool_]:
        """Which instants lie in this stretch of time.

        Raises
        ------
        UserError
            None does.
        """
        chosen = (self.times_s >= first_s) & (self.times_s <= last_s)
        if not chosen.any():
            raise UserError(
                f"nothing was recorded from {first_s:.2f} to {last_s:.2f} s after the tip began to move; the recording "
                f"goes from {self.times_s[0]:.2f} to {self.times_s[-1]:.2f} s"
            )
        return chosen


def read_tip_motion(path: Path) -> TipMotion:
    """A recording of markers (.c3d) of a body `base` and a body `tip` that rests first, then moves.

    Raises
    ------
    UserError
        The file cannot be read, lacks one of the bodies, or its tip does not move or never rests.
    """
    content = read_soft_arm(path)
    truth = {one.channel.topic.removeprefix("ground_truth/"): one for one in content.recording.truth}
    if missing := [body for body in ("base", "tip") if f"{body}/pose" not in truth]:
        raise UserError(f"{path} has no pose of {' and '.join(missing)}; needed are three markers and more of each")
    tip, base = truth["tip/pose"], truth["base/pose"]
    start_s = _start_s(path, tip)
    times_s = tip.stamps_ns / NANOSECONDS_PER_SECOND - start_s
    rested = (times_s >= -RESTED_S) & (times_s < -_UNSURE_S)
    positions = tip.values[:, POSE.position]
    rotations = Rotation.from_quat(tip.values[:, POSE.orientation])
    middle = positions[rested].mean(axis=0)
    markers = [one for name, one in truth.items() if name.startswith("base_") and name.endswith("/position")]
    return TipMotion(
        times_s=times_s,
        displacements_m=positions - middle,
        turns_rad=(rotations * rotations[np.flatnonzero(rested)].mean().inv()).as_rotvec(),
        resting_offset_m=middle - base.values[:, POSE.position].mean(axis=0),
        base_markers_m=np.array([one.values.mean(axis=0) for one in markers]),
        nominal_pressure_mbar=content.counts.get("nominal_pressure_mbar"),
    )


def _start_s(path: Path, tip: Series) -> float:
    """When the tip leaves its rest: back from where it surely moves to where it was last near its place before."""
    times_s = tip.stamps_ns / NANOSECONDS_PER_SECOND
    away_m = np.linalg.norm(tip.values[:, POSE.position] - tip.values[0, POSE.position], axis=1)
    farthest_m = float(away_m.max())
    if farthest_m < _LEAST_MOTION_M:
        raise UserError(
            f"{path}: the tip moves by {farthest_m * 1e3:.2f} mm at most; a recording of a motion is needed"
        )
    moving = int(np.argmax(away_m > ARRIVED_SHARE * farthest_m))
    before = (times_s < times_s[moving] - 3 * _UNSURE_S) & (times_s > times_s[moving] - RESTED_S - 3 * _UNSURE_S)
    if times_s[moving] - times_s[0] < RESTED_S + 3 * _UNSURE_S or not before.any():
        raise UserError(
            f"{path}: the tip moves {times_s[moving] - times_s[0]:.2f} s after the recording begins; "
            f"it must rest for {RESTED_S:g} s first"
        )
    near = np.abs(away_m[: moving + 1] - np.median(away_m[before])) <= STARTED_SHARE * farthest_m
    return float(times_s[np.flatnonzero(near)[-1] + 1])
