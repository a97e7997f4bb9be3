"""Unscented Kalman filter of the chain's pose and joint angles from one gyro per link (paper, section IV).

State: pose of the base frame and joint angles, dimension N + 2; the pose's error is a body-frame twist. The process
model integrates q' = B(r) u, eq. (5), under the last command; the measurement model of link i is its turning rate under
that command, eq. (6). Each gyro is a scalar measurement of its own, filtered at its own stamp.

Where this leaves the paper: what the quasi-static model leaves out, dry friction and the harness first of all, turns a
link by some hundredths of a radian a second, and lasts. It moves the robot, and the gyro of the link measures it, so
that noise of process and measurement are one and the same; the paper takes them as independent, and as white. See
`model_error`. Biases of the gyros are learned while the robot stands.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onboard_estimation.filtering.gating import Innovation, decide
from onboard_estimation.filtering.unscented import SigmaPoints, Unscented
from onboard_estimation.measurement import Estimate, Matrix, Vector
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain_estimator import ChainEstimator, GivenPose, Gyro, Reading, bridged_s
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.model_error import (
    LEAST_PERIOD_S,
    Bias,
    ReadingNoise,
    Wheels,
    gyro_rate,
    link_errors,
    process_noise_root,
)


class Filtered(NamedTuple):
    """Sigma points of pose and joint angles, and what is known of the gyros' biases, by link."""

    points: SigmaPoints
    biases: tuple[Bias, ...]


class SalpEstimator(ChainEstimator[Filtered, Wheels]):
    """Pose and shape of the chain.

    A pose from outside replaces the filter's, whose joint angles stay.
    """

    def __init__(self, configuration: SalpConfiguration) -> None:
        super().__init__(configuration)
        model = configuration.chain.build()
        self.space = model.space()
        self._unscented, self._spread = Unscented(self.space), math.sqrt(self.space.dimension)
        self._links, self._pose = model.links, self.space.coordinates("pose")
        process = configuration.process
        self._wheel_noise = process.wheel_speed_noise_m_s_sqrt_hz
        # An error of that size and duration, in white noise that moves as far over longer times.
        lasting = np.sqrt(2.0 * process.error_time_s)
        turning, speeds = link_errors(len(self._links)), np.eye(self.space.dimension, 2)
        sizes = [process.body_speed_error_m_s * speeds, process.link_rate_error_rad_s * turning]
        self._error_root = lasting * np.hstack(sizes)
        self._noise = ReadingNoise(configuration)
        self._moved, self._nothing = self._noise.moved * turning.T.copy(), np.zeros(self.space.dimension)
        self._gyro_noise_rad_s = configuration.gyro.noise_stddev_rad_s
        self._bias_walk = configuration.gyro.bias_walk_rad_s_sqrt_s

    def begun(self, initial: Estimate | None) -> tuple[Filtered, Wheels]:
        """Sigma points of the initial moments."""
        if initial is None:
            mean, covariance = self.space.origin(), self.configuration.initial_covariance()
        else:
            mean, covariance = initial.mean, initial.covariance
        count = len(self._links)
        biases = (Bias(0.0, self.configuration.initial.gyro_bias_stddev_rad_s**2),) * count
        return Filtered(self._unscented.start(mean, covariance), biases), Wheels(np.zeros(count))

    def commanded(
        self, filtered: Filtered, wheels: Wheels, elapsed_ns: int, rim_speeds_m_s: Vector
    ) -> tuple[Filtered, Wheels]:
        """Up to the command the last one acts, from then on this one."""
        filtered, wheels = self.predicted(filtered, wheels, 0, elapsed_ns)
        return filtered, wheels.commanded(rim_speeds_m_s)

    def predicted(self, filtered: Filtered, wheels: Wheels, stamp_ns: int, elapsed_ns: int) -> tuple[Filtered, Wheels]:
        """By the last command."""
        duration_s = bridged_s(elapsed_ns)
        if duration_s <= 0.0:
            return filtered, wheels
        links, longest, controls = self._links, self.configuration.process.longest_step_s, wheels.rim_speeds_m_s
        steps = max(1, int(np.ceil(duration_s / longest - 1e-9)))
        step_s = duration_s / steps

        def propagate(points: Matrix) -> Matrix:
            return kernels.propagate(links, points, controls, step_s, longest)

        points, moves = filtered.points, not wheels.rest
        for _ in range(steps):
            noise_root = process_noise_root(links, points.points, self._wheel_noise, self._error_root, moves, step_s)
            points = self._unscented.predict(points, propagate, noise_root)
        return Filtered(points, filtered.biases), wheels.after(duration_s)

    def corrected(
        self, filtered: Filtered, wheels: Wheels, stamp_ns: int, reading: Reading, gyro: Gyro, may_recover: bool
    ) -> tuple[Filtered, Innovation, int]:
        """By the turning rate of the link, less the gyro's bias.

        The gate goes by the variance of this one reading. Neighbouring ones share their errors, and each alone tells
        less: the correction is made with a noise that counts as one those that follow each other within an error's
        duration.
        """
        link, controls, period_s = reading.link, wheels.rim_speeds_m_s, max(reading.period_s, LEAST_PERIOD_S)
        bias = filtered.biases[link]
        if wheels.are_known_to_rest:
            bias = bias.learned(reading.rate_rad_s, self._gyro_noise_rad_s)
        rate = reading.rate_rad_s - bias.mean
        measured, noise = np.array([rate]), self._noise
        single, lasting = noise.single(rate, bias.variance), noise.lasting(rate, bias.variance, period_s)
        moved, largest = (self._nothing, 0.0) if wheels.rest else (self._moved[link], noise.moved / period_s)

        def update(points: SigmaPoints) -> tuple[SigmaPoints, Innovation]:
            rates, explained = gyro_rate(self._links, points.packed, self._spread, controls, link, moved, largest)
            left = np.array([[math.sqrt(lasting - explained)]])
            after, seen, _ = self._unscented.update(points, lambda _: rates, measured, left)
            spread = single + max(0.0, float(seen.root[0, 0]) ** 2 - lasting)
            nis = float(seen.value[0]) ** 2 / spread
            return after, Innovation(seen.value, np.array([[math.sqrt(spread)]]), nis, True)

        points, seen = update(filtered.points)
        accepted, inflation, rejected = decide(self._gate, seen.nis, 1, gyro.rejected_in_a_row, may_recover)
        if inflation > 1.0:
            points, seen = update(self._unscented.inflated(filtered.points, inflation))
            seen = replace(seen, inflation=inflation)
        elif not accepted:
            points, seen = filtered.points, replace(seen, accepted=False)
        bias = bias.after(period_s, self._bias_walk) if period_s < math.inf else bias
        return Filtered(points, (*filtered.biases[:link], bias, *filtered.biases[link + 1 :])), seen, rejected

    def placed(self, filtered: Filtered, given: GivenPose) -> tuple[Filtered, None]:
        """The given pose in the place of the filter's, and independent of the joint angles."""
        mean, covariance = self.published(filtered)
        tangent = self.space.tangent("pose")
        mean[self._pose] = given.pose
        covariance[tangent, :] = covariance[:, tangent] = 0.0
        covariance[tangent, tangent] = given.covariance
        return filtered._replace(points=self._unscented.start(mean, covariance)), None

    def published(self, filtered: Filtered) -> tuple[Vector, Matrix]:
        """Mean and covariance."""
        return filtered.points.mean, self._unscented.covariance(filtered.points)
