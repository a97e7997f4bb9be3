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

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.gating import Innovation, decide
from onboard_estimation.filtering.unscented import SigmaPoints, Unscented
from onboard_estimation.pipeline.sensor_trust import SensorTrust, bridged_s
from salp_estimation.estimators.chain_estimator import STANDING_M_S, ChainEstimator, GivenPose, Reading
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.configuration import SalpConfiguration

COASTING_S = 0.5
"""A robot whose wheels are told to stand does so after this."""
BIAS_TIME_S = 10.0
"""So long a bias counts as one and the same error: it cannot be averaged over."""
WITHIN_S = 0.2
"""Joints slow down so long before their limits: longer than sigma points are apart, a fraction of a gait's stroke."""
LEAST_PERIOD_S = 1e-3
"""Readings of one gyro are taken to be at least so far apart."""
PLAUSIBLE = 3.0
"""A robot that is told to stand and turns by more than so many standard deviations of its gyro is being moved."""


class Wheels(NamedTuple):
    """What the wheels do.

    Attributes
    ----------
    rim_speeds_m_s
        (N,) as they were last told.
    stand
        Whether that is to stand.
    standing_s
        How long they have been told to stand; infinite before the first command.
    """

    rim_speeds_m_s: Vector
    stand: bool = True
    standing_s: float = math.inf

    @property
    def rest(self) -> bool:
        """Whether the robot is taken to stand: friction holds it where it is."""
        return self.standing_s > COASTING_S

    @property
    def are_known_to_rest(self) -> bool:
        """Whether it was told to: what was before the first command is not known."""
        return COASTING_S < self.standing_s < math.inf

    def after(self, duration_s: float) -> Wheels:
        """So much later."""
        return Wheels(self.rim_speeds_m_s, True, self.standing_s + duration_s) if self.stand else self

    def commanded(self, rim_speeds_m_s: Vector) -> Wheels:
        """From a command on."""
        stand = bool(np.abs(rim_speeds_m_s).max() < STANDING_M_S)
        return Wheels(rim_speeds_m_s, stand, self.standing_s if stand and self.standing_s < math.inf else 0.0)


class Bias(NamedTuple):
    """Of a gyro, rad/s, and its variance."""

    mean: float
    variance: float

    def after(self, duration_s: float, walk_rad_s_sqrt_s: float) -> Bias:
        """Some time later."""
        return self._replace(variance=self.variance + walk_rad_s_sqrt_s**2 * duration_s)

    def learned(self, rate_rad_s: float, noise_stddev_rad_s: float, creep_rad_s: float) -> Bias:
        """From a reading of a robot that stands, but for how its harness may turn the link all the while."""
        creep = min(creep_rad_s**2, self.variance)
        known = self.variance - creep
        error, spread = rate_rad_s - self.mean, self.variance + noise_stddev_rad_s**2
        if error * error > PLAUSIBLE**2 * spread:
            return self
        gain = known / (known + noise_stddev_rad_s**2)
        return Bias(self.mean + gain * error, (1.0 - gain) * known + creep)


def link_errors(count: int) -> Matrix:
    """(N + 2, N): how the base and the joints turn where one link turns and the others do not."""
    out = np.zeros((count + 2, count))
    out[2] = 1.0 / count  # the base has the mean heading of the links
    for joint in range(count - 1):
        out[3 + joint, joint], out[3 + joint, joint + 1] = -1.0, 1.0
    return out


@njit(cache=True, error_model="numpy")
def process_noise_root(
    links: Matrix, points: Matrix, wheel_noise: float, error_root: Matrix, moves: bool, duration_s: float
) -> Matrix:
    """(N + 2, .) factor: noise of the wheels through B(r) at the first of the points; errors of a robot that moves."""
    through_wheels = kernels.control_matrix(links, points[0, 3:])
    n, wheels = through_wheels.shape
    out = np.empty((n, wheels + (error_root.shape[1] if moves else 0)))
    scale = np.sqrt(duration_s)
    for i in range(n):
        for j in range(wheels):
            out[i, j] = scale * wheel_noise * through_wheels[i, j]
        for j in range(out.shape[1] - wheels):
            out[i, wheels + j] = scale * error_root[i, j]
    return out


@njit(cache=True, error_model="numpy")
def gyro_rate(
    links: Matrix, state: Matrix, spread: float, controls: Vector, link: int, moved: Vector, largest: float
) -> tuple[Matrix, float]:
    """Rates (k, 1) that a link's gyro reads at the sigma points, and the variance of the model's error in them.

    Given the state, the error that has moved it along is no longer zero in the mean: where its covariance with the
    state is c, it is c^T P^-1 (x - mean). At the mean plus and minus `spread` times the columns of the lower root L of
    P that is plus and minus `spread` times the elements of L^-1 c. What this explains is no noise any more.

    Parameters
    ----------
    state
        (3n + 1, n) sigma points, then L, as `SigmaPoints.packed`.
    moved
        (n,) c.
    largest
        All the variance that there is to explain: a state that was given anew may hold less of the error than c says.
    """
    n = state.shape[1]
    count = 2 * n + 1
    rates = np.ascontiguousarray(kernels.gyro_rates(links, state[:count], controls, WITHIN_S)[:, link : link + 1])
    parts, explained = np.empty(n), 0.0
    for i in range(n):
        rest = moved[i]
        for j in range(i):
            rest -= state[count + i, j] * parts[j]
        diagonal = state[count + i, i]
        parts[i] = rest / diagonal if diagonal > 0.0 else 0.0  # an exact part of the state tells of no error
        explained += parts[i] * parts[i]
    share = spread
    if explained > largest:
        share = spread * np.sqrt(largest / explained)
        explained = largest
    for i in range(n):
        rates[1 + i, 0] += share * parts[i]
        rates[1 + n + i, 0] -= share * parts[i]
    return rates, explained


def _as_predicted(rates: Matrix, points: Matrix) -> Matrix:
    return rates


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
        # Variances of a gyro's reading about what the model says, (rad/s)^2, how long the model's error lasts, and the
        # density, (rad/s)^2/Hz, with which it moves the robot.
        gyro = configuration.gyro
        self._white, self._scale = gyro.noise_stddev_rad_s**2, gyro.scale_stddev**2
        self._model, self._lasts_s = process.link_rate_error_rad_s**2, 2.0 * process.error_time_s
        self._moves = self._lasts_s * self._model
        self._moved, self._nothing = self._moves * turning.T.copy(), np.zeros(self.space.dimension)
        self._bias_walk = configuration.gyro.bias_walk_rad_s_sqrt_s

    def begun(self, mean: Vector, covariance: Matrix) -> tuple[Filtered, Wheels]:
        """Sigma points of the initial moments."""
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
        longest = self.configuration.process.longest_step_s
        steps = max(1, int(np.ceil(duration_s / longest - 1e-9)))
        step_s = duration_s / steps
        propagate = partial(
            kernels.propagate, self._links, controls=wheels.rim_speeds_m_s, duration=step_s, longest_step=longest
        )
        points, noise = filtered.points, (self._wheel_noise, self._error_root, not wheels.rest, step_s)
        for _ in range(steps):
            noise_root = process_noise_root(self._links, points.points, *noise)
            points = self._unscented.predict(points, propagate, noise_root)
        return Filtered(points, filtered.biases), wheels.after(duration_s)

    def corrected(
        self, filtered: Filtered, wheels: Wheels, stamp_ns: int, reading: Reading, gyro: SensorTrust, may_recover: bool
    ) -> tuple[Filtered, Innovation, int]:
        """By the turning rate of the link, less the gyro's bias.

        The gate goes by the variance of this one reading. Neighbouring ones share their errors, and each alone tells
        less: the correction is made with a noise that counts as one those that follow each other within an error's
        duration.
        """
        link, controls, period_s = reading.link, wheels.rim_speeds_m_s, max(reading.period_s, LEAST_PERIOD_S)
        bias = filtered.biases[link]
        if wheels.are_known_to_rest:
            bias = bias.learned(
                reading.rate_rad_s, self.configuration.gyro.noise_stddev_rad_s, self.configuration.process.creep_rad_s
            )
        rate = reading.rate_rad_s - bias.mean
        measured, scaled = np.array([rate]), self._scale * rate**2
        single = self._white + self._model + scaled + bias.variance
        # White noise in the place of errors that last, so long after that gyro's last reading.
        repeated = max(1.0, self._lasts_s / period_s) * (self._model + scaled)
        lasting = self._white + repeated + max(1.0, 2.0 * BIAS_TIME_S / period_s) * bias.variance
        moved, largest = (self._nothing, 0.0) if wheels.rest else (self._moved[link], self._moves / period_s)
        points, inflation = filtered.points, 1.0
        for _ in range(2):  # again where the gate asks for a wider covariance
            rates, explained = gyro_rate(self._links, points.packed, self._spread, controls, link, moved, largest)
            left = np.array([[math.sqrt(lasting - explained)]])
            after, seen, _ = self._unscented.update(points, partial(_as_predicted, rates), measured, left)
            spread = single + max(0.0, float(seen.root[0, 0]) ** 2 - lasting)
            nis = float(seen.value[0]) ** 2 / spread
            if inflation > 1.0:
                break
            accepted, inflation, rejected = decide(self._gate, nis, 1, gyro.rejected_in_a_row, may_recover)
            if inflation == 1.0:
                break
            points = self._unscented.inflated(points, inflation)
        passes = accepted or inflation > 1.0
        seen = Innovation(seen.value, np.array([[math.sqrt(spread)]]), nis, passes, inflation)
        points = after if passes else filtered.points
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
