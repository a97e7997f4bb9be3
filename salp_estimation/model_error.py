"""What the quasi-static model leaves out, for the filter without a residual model: how large, how long, where it shows.

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
from typing import NamedTuple

import numpy as np
from numba import njit

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation import chain_kernels as kernels
from salp_estimation.chain_estimator import STANDING_M_S
from salp_estimation.configuration import SalpConfiguration

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

    def learned(self, rate_rad_s: float, noise_stddev_rad_s: float) -> Bias:
        """From a reading of a robot that stands."""
        error, spread = rate_rad_s - self.mean, self.variance + noise_stddev_rad_s**2
        if error * error > PLAUSIBLE**2 * spread:
            return self
        gain = self.variance / spread
        return Bias(self.mean + gain * error, (1.0 - gain) * self.variance)


class ReadingNoise:
    """Variances of a gyro's readings about what the model says, (rad/s)^2.

    Attributes
    ----------
    moved
        Density of the part that moves the robot as well, (rad/s)^2/Hz.
    """

    def __init__(self, settings: SalpConfiguration) -> None:
        self._white = settings.gyro.noise_stddev_rad_s**2
        self._scale = settings.gyro.scale_stddev**2
        self._model = settings.process.link_rate_error_rad_s**2
        self._lasts_s = 2.0 * settings.process.error_time_s
        self.moved = self._lasts_s * self._model

    def single(self, rate_rad_s: float, bias_variance: float) -> float:
        """Of one reading of that rate, less its bias."""
        return self._white + self._model + self._scale * rate_rad_s**2 + bias_variance

    def lasting(self, rate_rad_s: float, bias_variance: float, period_s: float) -> float:
        """Of white noise in the place of errors that last, so long after that gyro's last reading."""
        repeated = self._model + self._scale * rate_rad_s**2
        biases = max(1.0, 2.0 * BIAS_TIME_S / period_s) * bias_variance
        return self._white + max(1.0, self._lasts_s / period_s) * repeated + biases


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
    rates = kernels.gyro_rate(links, state[:count], controls, link, WITHIN_S)
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
