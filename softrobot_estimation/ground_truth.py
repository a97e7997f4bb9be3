"""What motion capture of tip and base tells of a soft robot's state.

The base stands still: its pose is the mean of all that is given, so that its noise, on a lever of the robot's length,
does not end up in the tip's place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.signal import savgol_filter
from scipy.spatial.transform import Rotation

from onboard_estimation.evaluation.truth import BodyTrack
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix
from onboard_estimation.robots import TruthSpecification
from onboard_estimation.series import Series
from softrobot_estimation.capture_delay import find_capture_delay
from softrobot_estimation.channels import TRUE_STIFFNESS, WRENCH
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.description import BASE, TIP

VELOCITY_FRAMES = 5
"""Through which the parabola is laid whose slope is the velocity; fewer frames in a row have none."""
_SLOPE_VARIANCE = 1.0 / 10.0
"""Of that slope, for frames of unit variance a unit of time apart: 1 / (4 + 1 + 0 + 1 + 4)."""
_LONGEST_FRAME = 1.5
"""Of the usual time between frames: where it is longer, one is missing."""


def covariances(configuration: SoftRobotConfiguration) -> dict[str, Matrix]:
    """Noise of the tip's place and velocity, with marker bodies that sit a little off and are turned a little.

    Turned axes of the base move a tip that is its length away, across the base's z.
    """
    truth, segment = configuration.truth, configuration.segment
    lever_m = segment.length_m + segment.tip_plate_thickness_m
    place = truth.position_stddev_m**2 + 2.0 * truth.alignment_stddev_m**2
    across = (np.radians(truth.alignment_stddev_deg) * lever_m) ** 2
    velocity = _SLOPE_VARIANCE * (truth.position_stddev_m * truth.rate_hz) ** 2
    return {"position": np.diag([place + across, place + across, place]), "velocity": velocity * np.eye(3)}


def specification(configuration: SoftRobotConfiguration) -> TruthSpecification:
    """Poses of tip and base, and the stiffness of a simulated robot."""
    return TruthSpecification((TIP, BASE), "none", covariances(configuration), (TRUE_STIFFNESS,))


def parts(bodies: Mapping[str, Matrix]) -> dict[str, Matrix]:
    """Place of the tip in the base's frame, and the stiffness where it is known."""
    found = {"position": in_base(bodies[TIP][:, :3], bodies[BASE])}
    if (stiffness := bodies.get(TRUE_STIFFNESS.sensor)) is not None:
        found["stiffness"] = stiffness
    return found


def in_base(positions: Matrix, base: Matrix) -> Matrix:
    """Positions (K, 3) of the world in the frame of a base that stands still, seen at poses (M, 7)."""
    turned = Rotation.from_quat(base[:, 3:]).mean()
    places: Matrix = turned.inv().apply(positions - base[:, :3].mean(axis=0))
    return places


def velocities(tracks: Mapping[str, BodyTrack], stamps_ns: NDArray[np.int64]) -> Matrix:
    """(K, 3) velocity of the tip in the base's frame at the stamps; NaN where frames are missing around."""
    frames_ns, places = tracks[TIP].stamps_ns, in_base(tracks[TIP].values[:, :3], tracks[BASE].values)
    slopes = np.full(places.shape, np.nan)
    steps_s = np.diff(frames_ns) / NANOSECONDS_PER_SECOND
    usual_s = float(np.median(steps_s)) if len(steps_s) else 0.0
    half = VELOCITY_FRAMES // 2
    for piece in np.split(np.arange(len(places)), np.flatnonzero(steps_s > _LONGEST_FRAME * usual_s) + 1):
        if len(piece) >= VELOCITY_FRAMES:
            step_s = float(np.mean(steps_s[piece[:-1]]))
            inner = savgol_filter(places[piece], VELOCITY_FRAMES, 2, deriv=1, delta=step_s, axis=0)[half:-half]
            slopes[piece[half:-half]] = inner
    # Between two frames on the line through both: beside a frame without a slope there is none.
    after = np.clip(np.searchsorted(frames_ns, stamps_ns), 1, max(len(frames_ns) - 1, 1))
    if len(frames_ns) < VELOCITY_FRAMES:
        return np.full((len(stamps_ns), 3), np.nan)
    before_ns, after_ns = frames_ns[after - 1], frames_ns[after]
    share = np.clip((stamps_ns - before_ns) / (after_ns - before_ns), 0.0, 1.0)[:, None]
    found: Matrix = (1.0 - share) * slopes[after - 1] + share * slopes[after]
    return found


def lateness(
    configuration: SoftRobotConfiguration, series: Sequence[Series], tracks: Mapping[str, BodyTrack]
) -> tuple[float, str]:
    """Seconds by which motion capture is stamped behind the wrench, and a sentence; see `capture_delay`."""
    wrenches = [one for one in series if one.channel.sensor == WRENCH.sensor and len(one.stamps_ns)]
    tip, base = tracks.get(TIP), tracks.get(BASE)
    if not wrenches or tip is None or base is None or not len(tip.stamps_ns) or not len(base.stamps_ns):
        return 0.0, ""
    found = find_capture_delay(configuration, wrenches[0], tip.stamps_ns, in_base(tip.values[:, :3], base.values))
    if not found.known:
        return 0.0, ""
    return found.delay_s, (
        f"Motion capture is stamped {1e3 * found.delay_s:.1f} ms behind the wrench, by the force on the sensor against "
        "the acceleration of the tip: the truth was moved by that."
    )
