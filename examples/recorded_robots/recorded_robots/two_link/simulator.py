"""Simulated motions of two jointed links: known truth, stated noise, repeatable from the generator.

The joint travels, the first link turns and the joint bends by sums of sines, so that the readings are their exact
derivatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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

Array = NDArray[np.float64]

LEVER_ARMS_M = np.array([[0.12, 0.003, -0.019], [-0.15, 0.002, -0.019]])
"""From each IMU to the joint, in the IMU's frame."""
_GRAVITY = np.array([0.0, 0.0, -STANDARD_GRAVITY_M_S2])
_MOUNT_STDDEV_RAD = 0.15  # by which the second IMU is turned against the first with the joint straight, per axis
_PLAY_RAD, _PLAY_HZ = 0.004, 0.4  # by which the joint turns across its axes
# Of uncalibrated IMUs of a telephone: white noise of a reading, biases drawn anew for each recording, errors of scale.
_RATE_STDDEV_RAD_S, _ACCELERATION_STDDEV_M_S2 = 0.005, 0.05
_GYRO_BIAS_STDDEV_RAD_S, _ACCELEROMETER_BIAS_STDDEV_M_S2 = 0.01, 0.05
_SCALE_STDDEV = 0.005
_TRUTH_RATE_HZ = 50.0
# Half the base of the central differences: far below the quickest motion, far above the rounding of a position.
_DIFFERENCE_S = 5e-4
_SINES = 3


class Style(NamedTuple):
    """How the links are moved.

    Attributes
    ----------
    travel_m
        Amplitude of the joint's motion, per axis.
    turn_rad, bend_rad
        Amplitudes of the first link's turn about each axis, and of the joint's.
    frequency_hz
        Of the slowest and of the quickest sine.
    """

    travel_m: float
    turn_rad: float
    bend_rad: float
    frequency_hz: tuple[float, float]


STYLES: Mapping[str, Style] = {
    "swing": Style(0.15, 0.5, 0.7, (0.3, 1.2)),
    "slow": Style(0.01, 0.4, 0.8, (0.1, 0.3)),
}


class Simulated(NamedTuple):
    """A recording, with what only a simulator knows of it.

    Attributes
    ----------
    axes
        (2, 3) of the hinge, in the frames of both IMUs.
    gyro_bias_rad_s
        (2, 3) of both IMUs.
    """

    recording: Recording
    axes: Array
    gyro_bias_rad_s: Array


def simulate(
    style: Style,
    hinge: bool,
    duration_s: float,
    rng: np.random.Generator,
    names: tuple[str, str] = ("proximal", "distal"),
    imu_rate_hz: float = 50.0,
    distal_delay_s: float = 0.0,
    truth_stddev_rad: float = 0.007,
) -> Simulated:
    """Recording of a motion, with a hinge or else a ball joint.

    Parameters
    ----------
    imu_rate_hz, distal_delay_s
        Rate of both IMUs; how much later than the first the second is read.
    truth_stddev_rad
        How far the frame of motion capture on each link is turned against the sensor's, per axis.
    """
    motion = LinkedMotion(style, hinge, rng)
    biases = rng.normal(0.0, _GYRO_BIAS_STDDEV_RAD_S, (2, 3))
    truth_ns = stamps_ns(duration_s, _TRUTH_RATE_HZ)
    sensors, truth = [], []
    for link, name in enumerate(names):
        imu_ns = stamps_ns(duration_s, imu_rate_hz) + round(link * distal_delay_s * NANOSECONDS_PER_SECOND)
        readings = motion.readings(link, imu_ns / NANOSECONDS_PER_SECOND)
        sensors.append(Series(imu_channel(name), imu_ns, _measured(readings, biases[link], rng)))
        position, rotation = motion.pose(link, truth_ns / NANOSECONDS_PER_SECOND)
        marked = rotation * Rotation.from_rotvec(rng.normal(0.0, truth_stddev_rad, 3))
        truth.append(Series(truth_channel(name), truth_ns, np.hstack([position, marked.as_quat()])))
    return Simulated(Recording(tuple(sensors), tuple(truth)), motion.axes, biases)


class LinkedMotion:
    """The true motion as a function of time, drawn once from the generator.

    Attributes
    ----------
    axes
        (2, 3) of the hinge, in the frames of both IMUs.
    """

    def __init__(self, style: Style, hinge: bool, rng: np.random.Generator) -> None:
        self._style, self._hinge = style, hinge
        # By row: travel, turn and bend about three axes each, wobble about two.
        slowest, quickest = np.log(style.frequency_hz)
        self._frequencies = np.exp(rng.uniform(slowest, quickest, (9, _SINES)))
        self._phases = rng.uniform(0.0, 2.0 * np.pi, (9, _SINES))
        self._wobble = rng.uniform(0.0, 2.0 * np.pi, 3)
        axis = np.array([0.0, 1.0, 0.0]) + rng.normal(0.0, 0.1, 3)
        self._axis = axis / np.linalg.norm(axis)
        self._mount = Rotation.from_rotvec(rng.normal(0.0, _MOUNT_STDDEV_RAD, 3))
        self.axes = np.stack([self._axis, self._mount.inv().apply(self._axis)])

    def pose(self, link: int, times_s: Vector) -> tuple[Array, Rotation]:
        """Positions (K, 3) of an IMU, m, and its attitudes, at the instants (K,)."""
        style = self._style
        joint = style.travel_m * self._sines(slice(0, 3), times_s)
        rotation = Rotation.from_euler("ZYX", style.turn_rad * self._sines(slice(3, 6), times_s))
        if link == 1:
            bend = style.bend_rad * self._sines(slice(6, 9), times_s)
            # Straight at the start, where the configuration knows something of it.
            bend = bend - style.bend_rad * self._sines(slice(6, 9), np.zeros(1))
            turned = bend[:, :1] * self._axis if self._hinge else bend
            wobble = np.sin(2.0 * np.pi * _PLAY_HZ * times_s[:, None] + self._wobble) * _PLAY_RAD
            rotation = rotation * Rotation.from_rotvec(turned) * Rotation.from_rotvec(wobble) * self._mount
        return joint - rotation.apply(LEVER_ARMS_M[link]), rotation

    def readings(self, link: int, times_s: Vector) -> Array:
        """What a perfect IMU reads (K, 6): gyro, accelerometer."""
        h = _DIFFERENCE_S
        (before, turned_before), (now, turned), (after, turned_after) = (
            self.pose(link, times_s + step) for step in (-h, 0.0, h)
        )
        acceleration = (after - 2.0 * now + before) / h**2
        rate = (turned_before.inv() * turned_after).as_rotvec() / (2.0 * h)
        return np.hstack([rate, turned.inv().apply(acceleration - _GRAVITY)])

    def _sines(self, rows: slice, times_s: Vector) -> Array:
        """(K, 3) each a mean of sines."""
        angles = 2.0 * np.pi * times_s[:, None, None] * self._frequencies[rows] + self._phases[rows]
        out: Array = np.mean(np.sin(angles), axis=2)
        return out


def _measured(true: Array, gyro_bias: Vector, rng: np.random.Generator) -> Array:
    """Readings (K, 6) with scale error, bias and white noise."""
    bias = np.concatenate([gyro_bias, rng.normal(0.0, _ACCELEROMETER_BIAS_STDDEV_M_S2, 3)])
    stddev = np.repeat([_RATE_STDDEV_RAD_S, _ACCELERATION_STDDEV_M_S2], 3)
    scale = 1.0 + rng.normal(0.0, _SCALE_STDDEV, 6)
    return np.asarray(true * scale + bias + rng.normal(0.0, 1.0, true.shape) * stddev)
