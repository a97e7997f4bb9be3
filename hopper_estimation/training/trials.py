"""Recordings with motion capture as what training needs: samples from the first drop on, and the truth of each hop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopper_estimation.estimators.samples import ordered, taken_of
from hopper_estimation.estimators.sensor_faults import rest_fault
from hopper_estimation.judging.hop_truth import TrueHops, true_hops
from hopper_estimation.judging.local_polynomials import velocity_at
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import TOUCHDOWN, Array, Records
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, POSE
from onboard_estimation.base.series import SET_POSE

FEWEST_HOPS = 3


@dataclass(frozen=True, eq=False)
class Trial:
    """One recording, from its first drop on.

    Attributes
    ----------
    signals
        (N,) of `phases.SIGNAL`.
    start_height_m
        Height at the first sample, of which the filter is told.
    true_height_m, true_velocity_m_s
        (N,) NaN where unknown; the height above the ground of the last stance.
    time_s
        (N,) since the first sample.
    hops
        The truth; its times since the first sample.
    """

    name: str
    signals: Records
    start_height_m: float
    true_height_m: Array
    true_velocity_m_s: Array
    time_s: Array
    hops: TrueHops


def trials_of(configuration: HopperConfiguration, recordings: Mapping[str, Any]) -> list[Trial]:
    """One of each recording (`LoadedRecording` of the evaluation, by name).

    Raises
    ------
    UserError
        A recording has no ground truth of the body, too few hops, or sensors that cannot be right.
    """
    trials = []
    for name, one in recordings.items():
        try:
            trials.append(trial_of(configuration, name, one))
        except UserError as error:
            raise UserError(str(error) if name in str(error) else f"{name}: {error}") from error
    return trials


def trial_of(configuration: HopperConfiguration, name: str, recording: Any) -> Trial:
    """The trial of a recording; raises as `trials_of`."""
    body = configuration.truth_body
    if body not in recording.tracks or len(recording.tracks[body].stamps_ns) < 2:
        raise UserError(f"{name}: no ground truth of {body}, and nothing can be learned without it")
    track = recording.tracks[body]
    samples, readings = taken_of(configuration, list(map(ordered, recording.series)))
    if not len(samples.signals):
        raise UserError(f"{name}: no readings of imu/low_g or imu/high_g")
    fault = rest_fault(configuration, readings)
    if fault is not None:
        raise UserError(fault)
    standing = configuration.robot.standing_height_m
    start_ns = int(track.stamps_ns[0])
    truth_s = (track.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    ground = None if configuration.ground_changes else 0.0
    hops = true_hops(truth_s, track.values[:, 2], standing, ground)
    touchdowns = hops.events.times_s(TOUCHDOWN)
    if len(hops.cycles) < FEWEST_HOPS:
        raise UserError(
            f"{name}: {len(hops.cycles)} whole hops in the ground truth, training needs {FEWEST_HOPS} "
            f"(robot.standing_height_m is {standing:g} m; is the truth's origin on the ground?)"
        )
    # From the start of the first drop, if it was said, else from the highest point before the first touchdown.
    poses = next((one for one in recording.series if one.channel.sensor == SET_POSE and len(one.stamps_ns)), None)
    if poses is not None and (poses.stamps_ns[0] - start_ns) / NANOSECONDS_PER_SECOND < touchdowns[0]:
        first_s = (poses.stamps_ns[0] - start_ns) / NANOSECONDS_PER_SECOND
        height = float(poses.values[0, POSE.position][2])
    else:
        before = truth_s < touchdowns[0]
        before &= truth_s > touchdowns[0] - 1.5
        top = int(np.argmax(np.where(before, track.values[:, 2], -np.inf)))
        first_s, height = float(truth_s[top]), float(track.values[top, 2])
    last_ns = int(track.stamps_ns[-1])
    first = int(np.searchsorted(samples.stamps_ns, start_ns + round(first_s * NANOSECONDS_PER_SECOND)))
    stop = int(np.searchsorted(samples.stamps_ns, last_ns, side="right"))
    stamps_ns = samples.stamps_ns[first:stop]
    if not len(stamps_ns):
        raise UserError(f"{name}: readings and ground truth do not overlap in time")
    time_s = (stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    height_m, known = track.at(stamps_ns, 0.1)
    true_height = np.where(known, height_m[:, 2], np.nan)
    if configuration.ground_changes:
        # The filter counts from the ground of the last stance.
        row = np.searchsorted(touchdowns, time_s, side="right") - 1
        true_height -= np.where(row >= 0, hops.ground_m[np.maximum(row, 0)], 0.0)
    velocity = np.where(known, velocity_at(track, stamps_ns), np.nan)
    return Trial(name, samples.signals[first:stop], height, true_height, velocity, time_s, hops)
