"""Filter of a chain with a trained residual model: prediction, corrections by gyros and by poses given from outside.

The filter's own state holds more than it publishes: see `residual_filter_kernels`. A linearisation serves all gyros
that are read within a few milliseconds of each other, for it costs ten times as much as a correction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.state_space import StateSpace, se2
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation import friction_kernels as friction
from salp_estimation import residual_filter_kernels as kernels
from salp_estimation.population import SLIP
from salp_estimation.residual_model import ResidualModel

Rows = NDArray[np.float64]

LINEARISATION_S = 0.005
"""A linearisation serves so long: over this time a gait's controls change by half a per cent."""
ERROR_TIME_S = 1.0
"""What a linearisation leaves over repeats itself for about a sixth of a gait's cycle."""
RESTING_STDDEV = 1e-4
"""Of the residual rates of a robot that rests: friction holds it."""
ANGLE_NOISE = 1e-5
GYRO_SCALE_STDDEV = 0.01
"""Of a MEMS gyro's scale factor, before calibration."""
_POSE = StateSpace(se2("pose"))


@dataclass(frozen=True, slots=True)
class Drive:
    """What the wheels are asked for: lagged rim speeds (N,), m/s, their slopes (N,), m/s^2; whether they are driven."""

    controls: Vector
    slopes: Vector
    driven: bool


@dataclass(frozen=True, slots=True)
class Linearised:
    """Rates near a state: see `kernels.linearise`; `at_ns` where its drive belongs to."""

    at_ns: int
    reference: Vector
    mean: Vector
    by_angles: Rows
    by_parameters: Rows
    left_over: Rows
    stddevs: Vector
    offsets: Vector
    """(N,) what the residual model adds to each gyro's rate."""


@dataclass(frozen=True, slots=True)
class FilterState:
    """State and covariance in the order of `residual_filter_kernels`, and the last linearisation."""

    state: Vector
    covariance: Matrix
    linearised: Linearised | None
    start: Vector


class ResidualFilter:
    """The state, and what moves and corrects it; arrays are replaced, never written.

    Parameters
    ----------
    links
        (N, .) of the nominal chain.
    bias_walk_rad_s_sqrt_s
        Of the gyros' biases.
    """

    def __init__(self, links: Rows, model: ResidualModel, bias_walk_rad_s_sqrt_s: float) -> None:
        self.model = model
        self.link_count = len(links)
        self.bias_walk = bias_walk_rad_s_sqrt_s
        self._links = links
        self._population = model.population
        self._means = model.mean_arrays()
        self._variances = model.variance_arrays()
        n = self.link_count
        self._angles, self._biases = slice(0, n - 1), slice(n - 1, 2 * n - 1)
        self._parameters = slice(3 * n - 1, 3 * n - 1 + friction.parameter_count(n))
        self.size = self._parameters.stop + n + 5
        # Pose, joint angles and biases.
        self._public = np.concatenate([np.arange(self.size - 3, self.size), np.arange(2 * n - 1)])
        self._public_block = np.ix_(self._public, self._public)
        self.now = FilterState(np.zeros(self.size), np.eye(self.size), None, np.zeros(n + 2))

    def start(self, pose: Vector, joint_angles: Vector, biases: Vector, covariance: Matrix) -> None:
        """Start from a pose (3,), joint angles (N - 1,), biases (N,) and their covariance (2 N + 2, 2 N + 2)."""
        n = self.link_count
        state, whole = np.zeros(self.size), np.zeros((self.size, self.size))
        state[self._angles], state[self._biases], state[-3:] = joint_angles, biases, pose
        state[self._parameters] = self._population.parameters
        scales = slice(self._biases.stop, self._biases.stop + n)
        whole[scales, scales] = GYRO_SCALE_STDDEV**2 * np.eye(n)
        whole[self._parameters, self._parameters] = self._population.prior
        residuals = slice(self._parameters.stop, self.size - 3)
        whole[residuals, residuals] = np.eye(n + 2)
        whole[self._public_block] = covariance
        self.now = FilterState(state, whole, None, np.zeros(n + 2))

    def published(self) -> tuple[Vector, Matrix]:
        """Mean (2 N + 2,) and covariance of pose, joint angles and biases, in this order."""
        return self.now.state[self._public], self.now.covariance[self._public_block]

    def linearise(self, at_ns: int, drive: Drive) -> Linearised:
        """The rates near the state now, under that drive."""
        now, n = self.now, self.link_count
        m, p = n + 2, friction.parameter_count(n)
        if not drive.driven:
            nothing = np.zeros((m, m))
            made = Linearised(
                at_ns,
                now.state,
                np.zeros(m),
                np.zeros((m, n - 1)),
                np.zeros((m, p)),
                nothing,
                np.full(m, RESTING_STDDEV),
                np.zeros(n),
            )
            self.now = FilterState(now.state, now.covariance, made, np.zeros(m))
            return made
        mean, by_angles, by_parameters, left_over, start = kernels.linearise(
            self._links, now.state, now.covariance, drive.controls, drive.slopes, SLIP, now.start, *self._means
        )
        offsets = np.zeros(n)
        effects = friction.force_effects(
            self._links,
            now.state[self._angles],
            drive.controls,
            drive.slopes,
            now.state[self._parameters],
            SLIP,
            start,
        )
        stddevs = np.sqrt(self._population.residual_stddevs**2 + effects @ self._population.force_stddevs**2)
        if self._variances is not None:
            inputs = np.concatenate([now.state[self._angles], drive.controls])[None]
            stddevs = np.sqrt(stddevs**2 + predict_variances(*self._variances, inputs, 0, m)[0])
            offsets = predict_means(*self._means, inputs, m, m + n)[0]
        made = Linearised(at_ns, now.state, mean, by_angles, by_parameters, left_over, stddevs, offsets)
        self.now = FilterState(now.state, now.covariance, made, start)
        return made

    def predict(self, duration_s: float, linearised: Linearised) -> None:
        """Move on for a short time."""
        now = self.now
        state, covariance = np.empty_like(now.state), np.empty_like(now.covariance)
        kernels.predict(
            self.link_count,
            now.state,
            now.covariance,
            linearised.reference,
            linearised.mean,
            linearised.by_angles,
            linearised.by_parameters,
            linearised.left_over,
            linearised.stddevs,
            duration_s,
            self._population.correlation_times_s,
            self.bias_walk,
            ANGLE_NOISE,
            ERROR_TIME_S,
            state,
            covariance,
        )
        self.now = FilterState(state, covariance, now.linearised, now.start)

    def correct_gyro(
        self, link: int, rate_rad_s: float, linearised: Linearised, speed_m_s: float, period_s: float, gate: Gate
    ) -> Innovation:
        """Correct by one gyro; `period_s` since its last sample, `speed_m_s` of its own wheel."""
        rest, growth = self.model.gyro_noise[link]
        variance = rest**2 + (growth * speed_m_s) ** 2
        now = self.now
        state, covariance = np.empty_like(now.state), np.empty_like(now.covariance)
        threshold = gate.threshold(1)
        innovation, spread = kernels.update(
            self.link_count,
            link,
            rate_rad_s,
            variance,
            linearised.offsets[link],
            now.state,
            now.covariance,
            linearised.reference,
            linearised.mean,
            linearised.by_angles,
            linearised.by_parameters,
            linearised.left_over,
            linearised.stddevs,
            max(1.0, 2.0 * ERROR_TIME_S / max(period_s, 1e-3)),
            threshold,
            state,
            covariance,
        )
        nis = innovation * innovation / spread
        accepted = nis <= threshold
        if accepted:
            self.now = FilterState(state, covariance, now.linearised, now.start)
        seen = Innovation(np.array([innovation]), np.array([[np.sqrt(spread)]]), nis, accepted)
        if gate.count(accepted):
            inflation = gate.inflation(seen)
            self.now = FilterState(now.state, now.covariance * inflation, now.linearised, now.start)
            again = self.correct_gyro(link, rate_rad_s, linearised, speed_m_s, period_s, _open_gate())
            return replace(again, inflation=inflation)
        return seen

    def correct_pose(self, pose: Vector, covariance: Matrix) -> Innovation:
        """Correct by a pose (3,) of the base with its covariance along the body's axes (3, 3)."""
        now = self.now
        error = _POSE.minus(pose, now.state[-3:])
        spread = now.covariance[-3:, -3:] + covariance
        root: Matrix = np.linalg.cholesky(spread).astype(np.float64)
        nis = float(np.sum(np.linalg.solve(root, error) ** 2))
        gain = np.linalg.solve(spread, now.covariance[-3:]).T
        step = gain @ error
        state = now.state + np.concatenate([step[:-3], np.zeros(3)])
        state[-3:] = _POSE.plus(now.state[-3:], step[-3:])
        keep = np.eye(self.size)
        keep[:, -3:] -= gain
        after = keep @ now.covariance @ keep.T + gain @ covariance @ gain.T
        self.now = FilterState(state, 0.5 * (after + after.T), None, now.start)
        return Innovation(error, root, nis, True)

    def replace_pose(self, pose: Vector, covariance: Matrix) -> None:
        """Take a pose (3,) with its covariance (3, 3) in the place of the filter's own; the rest stays."""
        now = self.now
        state, whole = now.state.copy(), now.covariance.copy()
        state[-3:] = pose
        whole[-3:, :] = whole[:, -3:] = 0.0
        whole[-3:, -3:] = covariance
        self.now = FilterState(state, whole, None, now.start)


def _open_gate() -> Gate:
    return Gate(1.0, 0)
