"""Where an IMU sits in the frame of a tracked body, and whether the truth's axes are those of the motion.

With the attitude of the body known, the position p of its frame follows from the IMU's specific force f twice over

    p = k integral integral R f  -  R l  -  integral integral R b  +  polynomial,      R: body to world

with the lever arm l from the body's frame to the IMU, the accelerometer's bias b, and a gain k that is 1. Gravity is in
the polynomial. Nothing is differentiated, no angular acceleration is needed. Of a mirror image as truth, k is -1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_simpson
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.bulk import Column
from onboard_estimation.base.measurement import IMU, POSE
from onboard_estimation.soundness.at_rest import turns_of_gravity
from onboard_estimation.soundness.clock_alignment import ClockReport, TrackedBody, overlap
from onboard_estimation.soundness.delay_fit import Sensed, Windows, body_ways, long_run_variance, strapdown

Rows = NDArray[np.float64]
Three = tuple[float, float, float]
_Fit = tuple[Rows, Rows, float, float]

LARGEST_STDDEV_M = 0.01
"""A lever arm that is told worse than this along any axis is refused."""

_SMOOTHED_S = 0.3
_BLOCKS_S = (0.0, 0.25, 1.0, 3.0)
# What scales and skewness of the IMU do: of the gain, and in m; of the bias, in m/s^2.
_LEAST_STDDEV = np.array([0.01, 1e-3, 1e-3, 1e-3, 0.01, 0.01, 0.01])
_MARGIN_S = 0.05
_LEVER = slice(1, 4)


@dataclass(frozen=True)
class FrameReport:
    """Frames of an IMU and the body that it is on.

    Attributes
    ----------
    sensor, body
        Their topics.
    up
        The direction against gravity in the truth's frame, a unit vector; None where it was not told.
    gain
        Size of the body's motion against what the accelerometer says: 1; -1 for a mirror image; 9.8 for readings in g.
    lever_m, lever_stddev_m
        Place of the IMU in the body's frame, and its standard deviations; None where refused.
    refused
        Why there is no lever arm.
    explained
        Share that the accelerations explain of the motion that lever arm and bias do not.
    left_handed_imu
        The IMU contradicts itself: gravity turns in it against its gyro; None where that is not told.
    turned_rad
        Angle from the IMU's axes to the body's.
    condition
        Of the equations for the lever arm: large where the body turns about one axis only.
    """

    sensor: str
    body: str
    refused: str
    up: Three | None = None
    gain: float | None = None
    lever_m: Three | None = None
    lever_stddev_m: Three | None = None
    condition: float | None = None
    explained: float = 0.0
    left_handed_imu: bool | None = None
    turned_rad: float = 0.0


def find_frames(clock: ClockReport, readings: Column, tracked: TrackedBody) -> FrameReport:
    """Frames, from what `find_offset` has told of the clocks and of how the IMU is turned."""
    blank = FrameReport(clock.sensor, clock.body, "")
    if clock.offset_s is None or clock.rotation_rad is None:
        return FrameReport(clock.sensor, clock.body, "how the IMU is turned against the body is not known")
    both = overlap(readings, tracked)
    if isinstance(both, str) or not np.isfinite(both.values).all():
        return FrameReport(clock.sensor, clock.body, both if isinstance(both, str) else "readings are missing")
    body_s = both.body_s + clock.offset_s - both.guess_s
    mounting = Rotation.from_rotvec(clock.rotation_rad)
    gravity_turns = turns_of_gravity(
        np.round(1e9 * both.times_s).astype(np.int64),
        both.values[:, IMU.angular_velocity],
        both.values[:, IMU.linear_acceleration],
    )
    left_handed = None if gravity_turns is None else gravity_turns < 0.0
    blank = replace(blank, turned_rad=float(mounting.magnitude()), left_handed_imu=left_handed)
    rates = mounting.apply(both.values[:, IMU.angular_velocity])
    inside = (both.times_s >= body_s[0]) & (both.times_s <= body_s[-1])
    times_s, forces = both.times_s[inside], mounting.apply(both.values[inside, IMU.linear_acceleration])
    if len(times_s) < 4:
        return FrameReport(clock.sensor, clock.body, "too few usable messages")
    attitude = _attitudes(times_s, rates[inside], body_s, Rotation.from_quat(both.poses[:, POSE.orientation]))
    world = attitude.apply(forces)
    gravity = world.mean(axis=0)
    x, y, z = (gravity / np.linalg.norm(gravity)).tolist()
    fit = _fit(times_s, world - gravity, attitude.as_matrix(), body_s, both.poses)
    if fit is None:
        return FrameReport(clock.sensor, clock.body, "no second without a gap", (x, y, z))
    values, stddevs, condition, explained = fit
    blank = replace(blank, up=(x, y, z), gain=float(values[0]), condition=condition, explained=explained)
    if stddevs[_LEVER].max() > LARGEST_STDDEV_M or not np.isfinite(condition):
        worst = 1e3 * float(stddevs[_LEVER].max())
        why = f"the turns tell it to {worst:.2g} mm only (condition number {condition:.1g}); turn it about all axes"
        return replace(blank, refused=why)
    lever, stddev = values[_LEVER].tolist(), stddevs[_LEVER].tolist()
    return replace(blank, lever_m=tuple(lever), lever_stddev_m=tuple(stddev))


def _attitudes(times_s: Rows, rates: Rows, body_s: Rows, truth: Rotation) -> Rotation:
    """Attitudes at the IMU's times: the gyro's from reading to reading, the truth's over parts of a second."""
    turned = strapdown(times_s, rates)
    nearest = np.clip(np.searchsorted(times_s, body_s), 0, len(times_s) - 1)
    # The truth at the nearest reading, by the rate there.
    ahead = Rotation.from_rotvec(rates[nearest] * (times_s[nearest] - body_s)[:, None])
    drift = truth * ahead * turned[nearest].inv()
    usual = drift[:1]
    away = np.unwrap((usual.inv() * drift).as_rotvec(), axis=0)
    rows = min(_SMOOTHED_S / float(np.median(np.diff(body_s))), len(body_s) / 8.0)
    smooth = gaussian_filter1d(away, rows, axis=0, mode="nearest")
    at = np.column_stack([np.interp(times_s, body_s, column) for column in smooth.T])
    return usual * Rotation.from_rotvec(at) * turned


def _fit(times_s: Rows, forces: Rows, attitudes: Rows, body_s: Rows, poses: Rows) -> _Fit | None:
    """Least squares over windows, with forces (N, 3) in the world's axes and attitudes (N, 3, 3) at the IMU's times.

    Gain, lever arm, bias, (7,), their standard deviations, the condition number of the lever arm's part, and the share
    that the accelerations explain of what lever arm and bias do not.
    """

    def twice(values: Rows) -> Rows:
        once = cumulative_simpson(values, x=times_s, axis=0, initial=0.0)
        return cumulative_simpson(once, x=times_s, axis=0, initial=0.0)

    columns = attitudes.reshape(-1, 9)
    columns = columns - columns.mean(axis=0)
    sensed = np.hstack([twice(forces), -attitudes.reshape(-1, 9), -twice(columns)])
    motion = body_ways(body_s, poses[:, POSE.position])
    windows = Windows(motion, Sensed(times_s, sensed, np.zeros_like(sensed)), _MARGIN_S, 0.0)
    if not windows.count:
        return None
    at = np.column_stack([np.interp(windows.times_s, times_s, column) for column in sensed.T])
    seen = windows.projected(at)
    # (R, 3, 7): what gain, lever arm and bias each move along x, y, z.
    slopes = np.concatenate(
        [seen[:, :3, None], seen[:, 3:12].reshape(-1, 3, 3), seen[:, 12:].reshape(-1, 3, 3)], axis=2
    )
    information = np.einsum("rci,rcj->ij", slopes, slopes)
    inverse = np.linalg.pinv(information, hermitian=True)
    values: Rows = inverse @ np.einsum("rci,rc->i", slopes, windows.truth)
    left = windows.truth - slopes @ values
    noise = long_run_variance(windows.times_s, np.einsum("rci,rc->ri", slopes, left), _BLOCKS_S)
    stddevs: Rows = np.hypot(np.sqrt(np.diag(inverse @ noise @ inverse)), _LEAST_STDDEV)
    # Noise that is integrated twice makes a gain small: it counts as far as accelerations tell what the rest does not.
    others, of_truth = slopes[:, :, 1:], np.einsum("rci,rc->i", slopes[:, :, 1:], windows.truth)
    remaining = np.linalg.pinv(information[1:, 1:], hermitian=True)
    felt = slopes[:, :, 0] - others @ (remaining @ information[1:, 0])
    moved = windows.truth - others @ (remaining @ of_truth)
    explained = float(np.sum(felt * moved) ** 2 / max(np.sum(felt**2) * np.sum(moved**2), np.finfo(np.float64).tiny))
    return values, stddevs, float(np.linalg.cond(information[_LEVER, _LEVER])), explained
