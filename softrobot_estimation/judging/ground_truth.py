"""What motion capture of tip and base tells of a soft robot's state.

The base stands still: its pose is the mean of all that is given, so that its noise, on a lever of the robot's length,
does not end up in the tip's place.

How late motion capture is stamped, and which share of the robot's mass the base feels: from the wrench.

Where the robot vibrates, the force across its base is its inertia times the acceleration of its tip, in phase. The
shift at which both fit best is the delay of motion capture behind the wrench (which is itself late by its low-pass);
the ratio of both is a mass, and tells `behaviour.load_share`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.ndimage import binary_erosion
from scipy.signal import butter, savgol_filter, sosfiltfilt
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.robot import TruthSpecification
from onboard_estimation.contract.tracks import BodyTrack
from softrobot_estimation.model.configuration import TRUE_STIFFNESS, WRENCH, SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP

VELOCITY_FRAMES = 5
"""Through which the parabola is laid whose slope is the velocity; fewer frames in a row have none."""
_SLOPE_VARIANCE = 1.0 / 10.0
"""Of that slope, for frames of unit variance a unit of time apart: 1 / (4 + 1 + 0 + 1 + 4)."""
_LONGEST_FRAME = 1.5
"""Of the usual time between frames: where it is longer, one is missing."""
_BAND_HZ = (1.5, 9.0)
_STEP_S = 0.004
_SEARCHED_S = 0.06
"""Either way: well below a quarter of the vibration's period, where signs change."""
_EDGE_S = 0.25  # of a gap, which its filtered neighbourhood reaches into
_LONGEST_STEP_S = 0.03
_LEAST_TOLD_S = 5e-5
"""A smaller delay is none that the comparison tells."""
_LEAST_EXPLAINED = 0.5
"""Of the force's variance: below it there was no vibration to compare."""


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


def parts(configuration: SoftRobotConfiguration, bodies: Mapping[str, Matrix]) -> dict[str, Matrix]:
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


def rates(
    configuration: SoftRobotConfiguration, tracks: Mapping[str, BodyTrack], stamps_ns: NDArray[np.int64]
) -> dict[str, Matrix]:
    """(K, 3) `velocity` of the tip in the base's frame at the stamps; NaN where frames are missing around."""
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
    found, _ = BodyTrack(TIP, frames_ns, slopes).at(stamps_ns, np.inf)
    return {"velocity": found}


def lateness(
    configuration: SoftRobotConfiguration, series: Sequence[Series], tracks: Mapping[str, BodyTrack]
) -> tuple[float, str]:
    """Seconds by which motion capture is stamped behind the wrench, and a sentence."""
    wrenches = [one for one in series if one.channel.sensor == WRENCH.sensor and len(one.stamps_ns)]
    tip, base = tracks.get(TIP), tracks.get(BASE)
    if not wrenches or tip is None or base is None or not len(tip.stamps_ns) or not len(base.stamps_ns):
        return 0.0, ""
    found = find_capture_delay(configuration, wrenches[0], tip.stamps_ns, in_base(tip.values[:, :3], base.values))
    if abs(found.delay_s) < _LEAST_TOLD_S:
        return 0.0, ""
    side = "behind" if found.delay_s > 0.0 else "ahead of"
    return found.delay_s, (
        f"Motion capture is stamped {1e3 * abs(found.delay_s):.1f} ms {side} the wrench, by the force on the sensor "
        "against the acceleration of the tip: the truth was moved by that."
    )


@dataclass(frozen=True)
class CaptureDelay:
    """What the comparison says.

    Attributes
    ----------
    delay_s
        By how much stamps of motion capture are later than those of the wrench; 0 where it is not known.
    explained
        Share of the force's variance; NaN without a wrench.
    moving_kg, moving_apart_kg
        Force over acceleration of the tip, and half of how far both axes are apart.
    weight_n
        Mean force along gravity: the weight of a robot whose sensor was zeroed without it.
    """

    delay_s: float = 0.0
    explained: float = np.nan
    moving_kg: float = np.nan
    moving_apart_kg: float = np.nan
    weight_n: float = np.nan

    @property
    def known(self) -> bool:
        """Whether it was found."""
        return self.explained >= _LEAST_EXPLAINED


def find_capture_delay(
    configuration: SoftRobotConfiguration, wrench: Series | None, frames_ns: NDArray[np.int64], tip_m: Matrix
) -> CaptureDelay:
    """Compare a wrench, where there is one, with places (K, 3) of the tip in the base's frame at their stamps (K,)."""
    if wrench is None:
        return CaptureDelay()
    usable = np.isfinite(wrench.values).all(axis=1)
    stamps_ns, first = np.unique(wrench.stamps_ns[usable], return_index=True)
    forces_n = wrench.values[usable][first, :3] @ configuration.wrench.into_base[:3, :3].T
    start_ns, stop_ns = max(stamps_ns[0], frames_ns[0]), min(stamps_ns[-1], frames_ns[-1])
    grid_s = np.arange(0.0, (stop_ns - start_ns) / NANOSECONDS_PER_SECOND, _STEP_S)
    if len(grid_s) < 4.0 / (_BAND_HZ[0] * _STEP_S):
        return CaptureDelay()
    weight_n = float(forces_n.mean(axis=0) @ configuration.mounting.down_in_base)
    band = butter(3, _BAND_HZ, "band", fs=1.0 / _STEP_S, output="sos")
    force, force_known = _resampled((stamps_ns - start_ns) / NANOSECONDS_PER_SECOND, forces_n[:, :2], grid_s)
    place, place_known = _resampled((frames_ns - start_ns) / NANOSECONDS_PER_SECOND, tip_m[:, :2], grid_s)
    force, place = sosfiltfilt(band, force, axis=0), sosfiltfilt(band, place, axis=0)
    acceleration = CubicSpline(grid_s, place)(grid_s, 2)
    near = int(_EDGE_S / _STEP_S)
    known = binary_erosion(force_known & place_known, np.ones(2 * near + 1))
    if not known.any():
        return CaptureDelay(weight_n=weight_n)
    both = _best_shift(grid_s, force, acceleration, known)
    x, y = (_best_shift(grid_s, force[:, [i]], acceleration[:, [i]], known) for i in range(2))
    # The robot pushes on its base against its acceleration.
    delay_s, explained, mass_kg = both
    found = CaptureDelay(delay_s, explained, -mass_kg, 0.5 * abs(x[2] - y[2]), weight_n)
    return found if found.known else CaptureDelay(explained=explained, weight_n=weight_n)


def _resampled(stamps_s: Vector, values: Matrix, grid_s: Vector) -> tuple[Matrix, NDArray[np.bool_]]:
    """At the grid, and where no sample is missing around."""
    after = np.clip(np.searchsorted(stamps_s, grid_s), 1, len(stamps_s) - 1)
    usual_s = max(1.5 * float(np.median(np.diff(stamps_s))), _LONGEST_STEP_S)
    return CubicSpline(stamps_s, values)(grid_s), stamps_s[after] - stamps_s[after - 1] <= usual_s


def _best_shift(
    grid_s: Vector, force: Matrix, acceleration: Matrix, known: NDArray[np.bool_]
) -> tuple[float, float, float]:
    """Delay of the acceleration (s), share of the force's variance that it explains then, and their ratio (kg)."""
    inside = known & (grid_s > _SEARCHED_S) & (grid_s < grid_s[-1] - _SEARCHED_S)
    shifts = np.arange(-_SEARCHED_S, _SEARCHED_S + 1e-9, 0.001)
    spline = CubicSpline(grid_s, acceleration)
    wanted = force[inside].ravel()
    powers = []
    for shift in shifts:
        moved = spline(grid_s[inside] + shift).ravel()
        product, power = float(moved @ wanted), float(moved @ moved)
        # A force along the acceleration is no inertia, however well it fits.
        powers.append((product**2 / power if product < 0.0 else 0.0, product / power))
    explained = np.array([one for one, _ in powers]) / float(wanted @ wanted)
    best = int(np.clip(np.argmax(explained), 1, len(shifts) - 2))
    before, there, after = explained[best - 1 : best + 2]
    curve = before - 2.0 * there + after
    beside = 0.0 if curve >= 0.0 else 0.5 * (before - after) / curve
    return float(shifts[best] + 0.001 * beside), float(there), powers[best][1]
