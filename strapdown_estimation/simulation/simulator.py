"""Simulated walks of a foot with a strapped-down IMU: known truth, stated noise, repeatable from the generator.

The foot turns about a point of contact that stands still in stance and swings to the next place between: it lands on
the heel, flattens, rolls slowly while it stands, rises on the toe. Nothing stands perfectly still: the whole foot sways
by fractions of a millimetre, and rings after each impact. Positions and angles are smooth functions of time, so that
the readings are their exact derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.series import (
    STANDARD_GRAVITY_M_S2,
    Recording,
    Series,
    imu_channel,
    stamps_ns,
    truth_channel,
)

_GRAVITY = np.array([0.0, 0.0, -STANDARD_GRAVITY_M_S2])
# Half the base of the central differences: far below the quickest motion, far above the rounding of a position.
_DIFFERENCE_S = 2e-4


@dataclass(frozen=True)
class Gait:
    """A way to walk.

    Attributes
    ----------
    stride_s, stance_share
        Duration of a stride of one foot, and the share of it that the foot stands.
    stride_m, lift_m
        Length of a stride and height of the foot in swing.
    strike_rad, lift_off_rad
        Pitch on landing (toes up) and on leaving the ground (heel up).
    roll_rad
        Pitch that the foot rolls through while it stands flat.
    turn_rad
        Change of heading from stride to stride.
    variation
        Relative standard deviation of length and duration among strides.
    """

    stride_s: float
    stance_share: float
    stride_m: float
    lift_m: float = 0.10
    strike_rad: float = 0.35
    lift_off_rad: float = 0.8
    roll_rad: float = 0.07
    turn_rad: float = 0.35
    variation: float = 0.05


GAITS: Mapping[str, Gait] = {
    "normal": Gait(stride_s=1.15, stance_share=0.55, stride_m=1.1),
    "slow": Gait(stride_s=1.5, stance_share=0.65, stride_m=0.7, strike_rad=0.2, lift_off_rad=0.5),
    "fast": Gait(stride_s=0.8, stance_share=0.4, stride_m=1.4, lift_m=0.15, strike_rad=0.45, lift_off_rad=1.0),
}


# Magnitudes of sensor, stance and motion capture; of gyro and accelerometer (6,).
_IMU_RATE_HZ, _TRUTH_RATE_HZ = 200.0, 100.0
"""That of the IMU as the recorded walks."""
_DENSITY = np.repeat([np.deg2rad(0.005), 400e-6 * STANDARD_GRAVITY_M_S2], 3)
"""White noise of the MPU-6050's datasheet, rad/s/sqrt(Hz) and m/s^2/sqrt(Hz) (one-sided): 0.005 deg/s and 400 ug."""
_BIAS_STDDEV, _BIAS_WALK = np.repeat([np.deg2rad(0.3), 0.05], 3), np.repeat([3e-5, 1e-4], 3)
"""Constant biases left by a calibration, rad/s and m/s^2 (0.3 deg/s, 5 mg), drawn anew for each recording; and their
random walks, the same by sqrt(s)."""
_SCALE_STDDEV = 3e-3
"""Relative error of each axis left by a calibration (the datasheet's 3 % is without one)."""
_RANGE = np.repeat([np.deg2rad(2000.0), 8.0 * STANDARD_GRAVITY_M_S2], 3)
_LEVER_ARM_M = -0.04, 0.01, 0.09
"""From the point of contact to the IMU, in the IMU frame, which is the foot's (x forward, z up)."""
_SWAY_M, _SWAY_RAD, _SWAY_HZ = 3e-4, 1e-3, 1.3
"""Amplitudes and frequency of the swaying, per axis."""
_RINGING_M, _RINGING_HZ, _RINGING_S = 3e-4, 30.0, 0.015
"""Size, frequency and decay of the vibration after an impact."""
_REST_S, _STAIR_M = 2.0, 0.17
"""Time at rest at both ends; height of a stair."""
_TRUTH_POSITION_STDDEV_M, _TRUTH_ROTATION_STDDEV_RAD = 5e-4, 2e-3


def simulate(
    gait: Gait,
    duration_s: float,
    rng: np.random.Generator,
    stairs: bool = False,
    name: str = "foot",
) -> Recording:
    """Recording of a walk that begins and ends at rest; `stairs`: half of the strides climb, the rest descends."""
    walk = Walk(gait, duration_s, rng, stairs)
    imu_ns = stamps_ns(duration_s, _IMU_RATE_HZ)
    readings = walk.readings(imu_ns / NANOSECONDS_PER_SECOND)
    truth_ns = stamps_ns(duration_s, _TRUTH_RATE_HZ)
    positions, rotations = walk.pose(truth_ns / NANOSECONDS_PER_SECOND)
    positions = positions + rng.normal(0.0, _TRUTH_POSITION_STDDEV_M, positions.shape)
    turned = rotations * Rotation.from_rotvec(rng.normal(0.0, _TRUTH_ROTATION_STDDEV_RAD, positions.shape))
    return Recording(
        (Series(imu_channel(name), imu_ns, _measured(readings, rng)),),
        (Series(truth_channel(name), truth_ns, np.hstack([positions, turned.as_quat()])),),
    )


class Walk:
    """The true motion as a function of time, drawn once from the generator.

    Attributes
    ----------
    lift_off_s, touchdown_s
        (M,) begin and end of each swing.
    """

    def __init__(self, gait: Gait, duration_s: float, rng: np.random.Generator, stairs: bool = False) -> None:
        self._gait = gait
        walking_s = duration_s - 2.0 * _REST_S
        count = max(0, int(walking_s / (gait.stride_s * (1.0 + 2.0 * gait.variation))))
        strides_s = gait.stride_s * np.clip(1.0 + gait.variation * rng.standard_normal(count), 0.8, 1.2)
        lengths = gait.stride_m * np.clip(1.0 + gait.variation * rng.standard_normal(count), 0.7, 1.3)
        self.lift_off_s = _REST_S + np.concatenate([[0.0], np.cumsum(strides_s)[:-1]])[:count]
        self.touchdown_s = self.lift_off_s + (1.0 - gait.stance_share) * strides_s
        headings = rng.uniform(-np.pi, np.pi) + gait.turn_rad * np.arange(count + 1)
        steps = np.zeros((count, 3))
        steps[:, 0], steps[:, 1] = lengths * np.cos(headings[1:]), lengths * np.sin(headings[1:])
        if stairs:
            steps[:, 2] = np.where(np.arange(count) < count // 2, 1.0, -1.0) * _STAIR_M
            steps[2 * (count // 2) :, 2] = 0.0
        self._places = np.vstack([np.zeros(3), np.cumsum(steps, axis=0)])
        self._headings = headings
        self._phases = rng.uniform(0.0, 2.0 * np.pi, 6)
        self._frequencies = _SWAY_HZ * rng.uniform(0.6, 1.4, 6)
        self._ringing = rng.normal(0.0, _RINGING_M, (count, 3))

    def pose(self, times_s: Vector) -> tuple[NDArray[np.float64], Rotation]:
        """Positions (K, 3) of the IMU, m, and its attitudes, at the instants (K,)."""
        contact, heading, pitch = self._foot(times_s)
        sway = np.sin(2.0 * np.pi * times_s[:, None] * self._frequencies + self._phases)
        rotation = Rotation.from_euler("ZYX", np.column_stack([heading, pitch, np.zeros_like(pitch)]))
        rotation = rotation * Rotation.from_rotvec(_SWAY_RAD * sway[:, 3:])
        return contact + _SWAY_M * sway[:, :3] + self._rings(times_s) + rotation.apply(_LEVER_ARM_M), rotation

    def readings(self, times_s: Vector) -> NDArray[np.float64]:
        """What a perfect IMU reads (K, 6): gyro, accelerometer."""
        h = _DIFFERENCE_S
        (before, turned_before), (now, turned), (after, turned_after) = (self.pose(times_s + d) for d in (-h, 0.0, h))
        acceleration = (after - 2.0 * now + before) / h**2
        rate = (turned_before.inv() * turned_after).as_rotvec() / (2.0 * h)
        return np.hstack([rate, turned.inv().apply(acceleration - _GRAVITY)])

    def _foot(self, times_s: Vector) -> tuple[NDArray[np.float64], Vector, Vector]:
        """Point of contact (K, 3), heading (K,) and pitch (K,), toes down positive."""
        gait, count = self._gait, len(self.lift_off_s)
        if count == 0:
            return np.zeros((len(times_s), 3)), np.full(len(times_s), self._headings[0]), np.zeros(len(times_s))
        # Stride k holds from its lift-off to the next one; before the first, the foot stands.
        stride = np.clip(np.searchsorted(self.lift_off_s, times_s, side="right") - 1, 0, count - 1)
        swing = (times_s - self.lift_off_s[stride]) / (self.touchdown_s - self.lift_off_s)[stride]
        share = _smooth(swing)
        start, end = self._places[stride], self._places[stride + 1]
        contact = start + share[:, None] * (end - start)
        inside = np.clip(swing, 0.0, 1.0)
        contact[:, 2] += gait.lift_m * 64.0 * (inside * (1.0 - inside)) ** 3
        heading = self._headings[stride] + share * (self._headings[stride + 1] - self._headings[stride])
        return contact, heading, self._pitch(times_s)

    def _pitch(self, times_s: Vector) -> Vector:
        """Heel up, toes up, flat, slow roll, heel up: smooth between these, each held for a moment."""
        gait = self._gait
        knots, pitches = list[float](), list[float]()
        following = np.append(self.lift_off_s[1:], np.inf)
        for off, down, following_off in zip(self.lift_off_s, self.touchdown_s, following, strict=True):
            stance_s = min(following_off - down, gait.stance_share * gait.stride_s)
            if not knots:
                knots, pitches = [off - 0.3 * stance_s], [0.0]
            knots += [off, down, down + 0.2 * stance_s, down + 0.7 * stance_s]
            rolled = 0.0 if np.isinf(following_off) else 0.5 * gait.roll_rad
            pitches += [gait.lift_off_rad, -gait.strike_rad, -0.5 * gait.roll_rad, rolled]
        times, values = np.array(knots), np.array(pitches)
        piece = np.clip(np.searchsorted(times, times_s, side="right") - 1, 0, len(times) - 2)
        share = _smooth((times_s - times[piece]) / (times[piece + 1] - times[piece]))
        return values[piece] + share * (values[piece + 1] - values[piece])

    def _rings(self, times_s: Vector) -> NDArray[np.float64]:
        """Displacement (K, 3) by the vibration after impacts, which starts smoothly."""
        last = np.searchsorted(self.touchdown_s, times_s, side="right") - 1
        out = np.zeros((len(times_s), 3))
        hit = last >= 0
        since = times_s[hit] - self.touchdown_s[last[hit]]
        share = (since / _RINGING_S) ** 3 * np.exp(-since / _RINGING_S)
        out[hit] = self._ringing[last[hit]] * (share * np.cos(2.0 * np.pi * _RINGING_HZ * since))[:, None]
        return out


def _smooth(share: Vector) -> Vector:
    """From 0 to 1 with no velocity and acceleration at both ends, constant outside."""
    s = np.clip(share, 0.0, 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def _measured(true: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Readings (K, 6) with scale error, bias, white noise and clipping."""
    bias = rng.normal(0.0, _BIAS_STDDEV)
    walk = _BIAS_WALK / np.sqrt(_IMU_RATE_HZ)
    drift = np.cumsum(rng.normal(0.0, 1.0, true.shape) * walk, axis=0)
    white = rng.normal(0.0, 1.0, true.shape) * _DENSITY * np.sqrt(0.5 * _IMU_RATE_HZ)
    return np.clip(true * (1.0 + rng.normal(0.0, _SCALE_STDDEV, 6)) + bias + drift + white, -_RANGE, _RANGE)
