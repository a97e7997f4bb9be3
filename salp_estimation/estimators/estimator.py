"""Unscented Kalman filter of the chain's pose and joint angles from one gyro per link (paper, section IV).

State: pose of the base frame and joint angles, dimension N + 2; the pose's error is a body-frame twist. The process
model integrates q' = B(r) u, eq. (5), under the last command; the measurement model of link i is its turning rate under
that command, eq. (6). Each gyro is a scalar measurement of its own, filtered at its own stamp.

Where this leaves the paper: what the quasi-static model leaves out, dry friction and the harness first of all, turns a
link by some hundredths of a radian a second, and lasts. It moves the robot, and the gyro of the link measures it, so
that noise of process and measurement are one and the same; the paper takes them as independent, and as white. Biases
of the gyros are learned while the robot stands.

Dry friction, harness and lag turn a link otherwise than B(r) u says, by some hundredths of a radian a second that
repeat themselves over much of a gait's cycle. A filter that takes them for noise of its own gyros, independent from one
sample to the next, is sure within a second of what is not so. Here

- the error of link i's turning rate is a process of its own with a standard deviation and a duration; over longer times
  it moves the robot as white noise of density q = 2 x variance x duration does;
- the gyro measures that error as well as moves by it: reading and state are correlated, by q along what the link's
  turning moves. So a gyro tells first how its link has turned, whatever the model says, and only then, as far as model
  and reading agree, what the joint angles are;
- readings closer together than the error lasts repeat it: they count for one.

What is then left of a gyro is its scale and its bias, which is learned while the robot stands.
"""

from __future__ import annotations

import numpy as np

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.filtering.unscented import Unscented
from onboard_estimation.pipeline.sensor_trust import bridged_s
from salp_estimation.estimators import unscented_gyro_kernels as kernels
from salp_estimation.estimators.chain_estimator import ChainEstimator, ChainState, GivenPose
from salp_estimation.estimators.unscented_gyro_kernels import Filtered
from salp_estimation.model.chain_kernels import completed
from salp_estimation.model.configuration import SalpConfiguration


def link_errors(count: int) -> Matrix:
    """(N + 2, N): how the base and the joints turn where one link turns and the others do not."""
    out = np.zeros((count + 2, count))
    out[2] = 1.0 / count  # the base has the mean heading of the links
    for joint in range(count - 1):
        out[3 + joint, joint], out[3 + joint, joint + 1] = -1.0, 1.0
    return out


class SalpEstimator(ChainEstimator[Filtered]):
    """Pose and shape of the chain.

    A pose from outside replaces the filter's, whose joint angles stay.
    """

    kernels = kernels

    def __init__(self, configuration: SalpConfiguration) -> None:
        super().__init__(configuration)
        model = configuration.chain.build()
        self.space = model.space()
        self._unscented, self._pose = Unscented(self.space), self.space.coordinates("pose")
        process, gyro, n = configuration.process, configuration.gyro, self.space.dimension
        # An error of that size and duration, in white noise that moves as far over longer times.
        lasts_s, turning = 2.0 * process.error_time_s, link_errors(model.link_count)
        sizes = [process.body_speed_error_m_s * np.eye(n, 2), process.link_rate_error_rad_s * turning]
        self.settings = kernels.Settings(
            completed(model.links),
            self._wheel_radii_m,
            self.space.layout,
            StateSpace(vector("rate", ("rate",), "rad/s")).layout,
            self._gyro_element,
            self._gyro_sign,
            self.gate,
            process.wheel_speed_noise_m_s_sqrt_hz,
            np.sqrt(lasts_s) * np.hstack(sizes),
            lasts_s * process.link_rate_error_rad_s**2 * turning.T.copy(),
            gyro.noise_stddev_rad_s**2,
            process.link_rate_error_rad_s**2,
            gyro.scale_stddev**2,
            lasts_s,
            process.creep_rad_s**2,
            gyro.bias_walk_rad_s_sqrt_s**2,
            process.longest_step_s,
        )

    def begun(self, mean: Vector, covariance: Matrix) -> Filtered:
        """Sigma points of the initial moments."""
        count = len(self._link_of)
        biases = np.tile([0.0, self.configuration.initial.gyro_bias_stddev_rad_s**2], (count, 1))
        return Filtered(self._unscented.start(mean, covariance).packed, np.append(np.zeros(count), np.inf), biases)

    def placed(self, state: ChainState[Filtered], stamp_ns: int, given: GivenPose) -> tuple[ChainState[Filtered], None]:
        """The given pose in the place of the filter's, and independent of the joint angles."""
        now = Filtered(*[array.copy() for array in state.filtered])
        kernels.predict(self.settings, now, bridged_s(self.pending_ns(state, stamp_ns)))
        mean, covariance = self.published(now)
        tangent = self.space.tangent("pose")
        mean[self._pose] = given.pose
        covariance[tangent, :] = covariance[:, tangent] = 0.0
        covariance[tangent, tangent] = given.covariance
        placed = now._replace(points=self._unscented.start(mean, covariance).packed)
        return ChainState(placed, state.gyros, stamp_ns), None
