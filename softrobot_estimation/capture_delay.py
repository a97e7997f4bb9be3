"""How late motion capture is stamped, and which share of the robot's mass the base feels: from the wrench.

Where the robot vibrates, the force across its base is its inertia times the acceleration of its tip, in phase. The
shift at which both fit best is the delay of motion capture behind the wrench (which is itself late by its low-pass);
the ratio of both is a mass, and tells `behaviour.load_share`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.ndimage import binary_erosion
from scipy.signal import butter, sosfiltfilt

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.series import Series
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.constant_curvature import ConstantCurvatureSegment

_BAND_HZ = (1.5, 9.0)
_STEP_S = 0.004
_SEARCHED_S = 0.06
"""Either way: well below a quarter of the vibration's period, where signs change."""
_EDGE_S = 0.25  # of a gap, which its filtered neighbourhood reaches into
_LONGEST_STEP_S = 0.03
_LEAST_EXPLAINED = 0.5
"""Of the force's variance: below it there was no vibration to compare."""


@dataclass(frozen=True)
class CaptureDelay:
    """What the comparison says.

    Attributes
    ----------
    delay_s
        By how much stamps of motion capture are later than those of the wrench; 0 where it is not known.
    explained
        Share of the force's variance; NaN without a wrench.
    apart_s
        Half of how far the delays by x and by y alone are apart.
    moving_kg, moving_apart_kg
        Force over acceleration of the tip, and half of how far both axes are apart.
    weight_n
        Mean force along gravity: the weight of a robot whose sensor was zeroed without it.
    """

    delay_s: float = 0.0
    explained: float = np.nan
    apart_s: float = np.nan
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
    sign = 1.0 if configuration.wrench.sign == "robot_on_sensor" else -1.0
    forces_n = sign * wrench.values[usable][first, :3] @ configuration.wrench.base_from_sensor.T
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
    found = CaptureDelay(delay_s, explained, 0.5 * abs(x[0] - y[0]), -mass_kg, 0.5 * abs(x[2] - y[2]), weight_n)
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


def load_share(configuration: SoftRobotConfiguration, segment: ConstantCurvatureSegment, moving_kg: float) -> float:
    """`behaviour.load_share` with which the model puts that mass times the acceleration of its tip on the base.

    For small bending: each mass moves as far as its Jacobian says, and the load is linear in the share.
    """
    known = configuration.segment
    soft_kg = known.mass_kg - known.tip_plate_mass_kg

    def across(fraction: float, offset_m: float) -> float:
        return float(segment.jacobian(np.zeros(6), fraction, offset_m)[0][0, 0])

    tip, plate = across(1.0, known.tip_plate_thickness_m), across(1.0, 0.5 * known.tip_plate_thickness_m)
    spread = sum(mass * across(fraction, offset) for fraction, offset, mass in segment.arrays[1][1:].tolist())
    spread /= segment.backbone_mass_kg
    return (moving_kg * tip - known.tip_plate_mass_kg * plate - soft_kg * spread) / (soft_kg * (plate - spread))
