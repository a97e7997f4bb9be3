"""Unscented Kalman filter of the chain's pose and joint angles from one gyro per link (paper, section IV).

State: pose of the base frame and joint angles, dimension N + 2; the pose's error is a body-frame twist. The process
model integrates q' = B(r) u, eq. (5), under the last command; the measurement model of link i is its turning rate under
that command, eq. (6). Each gyro is a scalar measurement of its own, filtered at its own stamp.
"""

from __future__ import annotations

import numpy as np

from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.unscented import SigmaPoints, Unscented
from onboard_estimation.measurement import Estimate, Matrix, Vector
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain_estimator import ChainEstimator, GivenPose, Gyro, Reading, bridged_s
from salp_estimation.configuration import SalpConfiguration


class SalpEstimator(ChainEstimator[SigmaPoints, Vector]):
    """Pose and shape of the chain; its wheels turn (N,) as they were last told, m/s at the rim.

    A pose from outside replaces the filter's, whose joint angles stay.
    """

    def __init__(self, configuration: SalpConfiguration) -> None:
        super().__init__(configuration)
        model = configuration.chain.build()
        self.space = model.space()
        self._unscented = Unscented(self.space)
        self._links, self._pose = model.links, self.space.coordinates("pose")
        self._gyro_root = np.array([[configuration.gyro.noise_stddev_rad_s]])
        process = configuration.process
        self._wheel_noise = process.wheel_speed_noise_m_s_sqrt_hz
        self._other_noise = np.diag(
            [process.body_speed_noise_m_s_sqrt_hz] * 2
            + [process.body_rate_noise_rad_s_sqrt_hz]
            + [process.joint_rate_noise_rad_s_sqrt_hz] * (model.link_count - 1)
        )

    def begun(self, initial: Estimate | None) -> tuple[SigmaPoints, Vector]:
        """Sigma points of the initial moments."""
        if initial is None:
            mean, covariance = self.space.origin(), self.configuration.initial_covariance()
        else:
            mean, covariance = initial.mean, initial.covariance
        return self._unscented.start(mean, covariance), np.zeros(len(self._links))

    def commanded(
        self, filtered: SigmaPoints, wheels: Vector, elapsed_ns: int, rim_speeds_m_s: Vector
    ) -> tuple[SigmaPoints, Vector]:
        """Up to the command the last one acts, from then on this one."""
        return self._moved(filtered, wheels, elapsed_ns), rim_speeds_m_s

    def predicted(
        self, filtered: SigmaPoints, wheels: Vector, stamp_ns: int, elapsed_ns: int
    ) -> tuple[SigmaPoints, Vector]:
        """By the last command."""
        return self._moved(filtered, wheels, elapsed_ns), wheels

    def _moved(self, filtered: SigmaPoints, controls: Vector, elapsed_ns: int) -> SigmaPoints:
        duration_s = bridged_s(elapsed_ns)
        if duration_s <= 0.0:
            return filtered
        links, longest = self._links, self.configuration.process.longest_step_s
        steps = max(1, int(np.ceil(duration_s / longest - 1e-9)))
        step_s = duration_s / steps

        def propagate(points: Matrix) -> Matrix:
            return kernels.propagate(links, points, controls, step_s, longest)

        for _ in range(steps):
            filtered = self._unscented.predict(filtered, propagate, self._process_noise_root(filtered, step_s))
        return filtered

    def _process_noise_root(self, filtered: SigmaPoints, duration_s: float) -> Matrix:
        """(N + 2, 2N + 2) factor: noise of the wheels through B(r), and what else the model may miss."""
        joint_angles = np.ascontiguousarray(filtered.mean[3:])
        through_wheels = self._wheel_noise * kernels.control_matrix(self._links, joint_angles)
        root: Matrix = np.sqrt(duration_s) * np.hstack([through_wheels, self._other_noise])
        return root

    def corrected(
        self, filtered: SigmaPoints, wheels: Vector, stamp_ns: int, reading: Reading, gyro: Gyro, may_recover: bool
    ) -> tuple[SigmaPoints, Innovation, int]:
        """By the turning rate of the link."""
        links, link = self._links, reading.link

        def measure(points: Matrix) -> Matrix:
            return kernels.gyro_rate(links, points, wheels, link)

        rate, rejected = np.array([reading.rate_rad_s]), gyro.rejected_in_a_row
        return self._unscented.update(filtered, measure, rate, self._gyro_root, self._gate, rejected, may_recover)

    def placed(self, filtered: SigmaPoints, given: GivenPose) -> tuple[SigmaPoints, None]:
        """The given pose in the place of the filter's, and independent of the joint angles."""
        mean, covariance = self.published(filtered)
        tangent = self.space.tangent("pose")
        mean[self._pose] = given.pose
        covariance[tangent, :] = covariance[:, tangent] = 0.0
        covariance[tangent, tangent] = given.covariance
        return self._unscented.start(mean, covariance), None

    def published(self, filtered: SigmaPoints) -> tuple[Vector, Matrix]:
        """Mean and covariance."""
        return filtered.mean, self._unscented.covariance(filtered)
