"""Filter of a chain with a trained residual model: prediction, corrections by gyros and by poses given from outside.

The filter's own state holds more than it publishes: see `residual_filter_kernels`. A linearisation serves all gyros
that are read within a few milliseconds of each other, for it costs ten times as much as a correction.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.gating import OPEN, Gate, Innovation, decide
from onboard_estimation.filtering.moments import Moments, innovate, joseph_update
from onboard_estimation.filtering.state_space import StateSpace, se2
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances
from salp_estimation.estimators import residual_filter_kernels as kernels
from salp_estimation.estimators.chain_estimator import Reading
from salp_estimation.estimators.gaussian_sum_start import log_density
from salp_estimation.estimators.residual_filter_kernels import ERROR_TIME_S, Linearised
from salp_estimation.estimators.residual_model import SLIP, ResidualModel
from salp_estimation.model import friction_kernels as friction

Rows = NDArray[np.float64]

LINEARISATION_S = 0.005
"""A linearisation serves so long: over this time a gait's controls change by half a per cent."""
RESTING_STDDEV = 1e-4
"""Of the residual rates of a robot that rests: friction holds it."""
ANGLE_NOISE = 1e-5
ROBOT_TIME_S = 200.0
"""A robot may change while it runs, by wear, load or floor: within minutes it may be any of its population."""
GYRO_SCALE_STDDEV = 0.01
"""Of a MEMS gyro's scale factor, before calibration."""
POSE = StateSpace(se2("pose"))


class Drive(NamedTuple):
    """What the wheels are asked for: lagged rim speeds (N,), m/s, their slopes (N,), m/s^2; whether they are driven."""

    controls: Vector
    slopes: Vector
    driven: bool


class FilterState(NamedTuple):
    """State and covariance in the order of `residual_filter_kernels`; arrays are values, never written.

    Attributes
    ----------
    linearised, start
        The last linearisation, and where the next one's iteration starts.
    history
        The last of the steps that led here, where somebody will look back.
    evidence
        Sum of the `log_density` of all readings of the gyros.
    is_novel
        Whether it has been told that the robot is unlike those in training.
    """

    state: Vector
    covariance: Matrix
    linearised: Linearised | None
    start: Vector
    history: Any = None
    evidence: float = 0.0
    is_novel: bool = False

    def with_moments(self, state: Vector, covariance: Matrix, evidence: float = 0.0) -> FilterState:
        """With another state and covariance, and more evidence; `_replace` would take a twentieth of a step."""
        return FilterState(
            state, covariance, self.linearised, self.start, self.history, self.evidence + evidence, self.is_novel
        )


class ResidualFilter:
    """What moves and corrects a state; it has none but its settings.

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
        self._bias_walk = bias_walk_rad_s_sqrt_s
        self._links = links
        self._population = model.population
        self._prior = model.population.prior
        self._variances_between = np.diagonal(self._prior).copy()
        n = self.link_count
        self._means: tuple[Rows, Vector, Rows] = np.zeros((2 * n - 1, 1)), np.zeros(2 * n - 1), np.zeros((0, 1))
        if model.processes is not None:  # of the rates, then of the gyros
            inducing, inverse_scales, weights = model.processes.mean_arrays
            self._means = inducing, inverse_scales, weights[: n + 2]
            self._gyro_means = inducing, inverse_scales, weights[n + 2 :]
            _, _, projections, shrinkages, signal = model.processes.variance_arrays
            self._variances = inducing, inverse_scales, projections, shrinkages[: n + 2], signal[: n + 2]
        self._angles, self._biases = slice(0, n - 1), slice(n - 1, 2 * n - 1)
        self._parameters = slice(3 * n - 1, 3 * n - 1 + friction.parameter_count(n))
        self.size = self._parameters.stop + n + 5
        self.public = np.concatenate([np.arange(self.size - 3, self.size), np.arange(2 * n - 1)])
        """(2 N + 2,) where pose, joint angles and biases stand in the state."""
        self._public_block = np.ix_(self.public, self.public)
        self._public_angles = slice(3, n + 2)  # where joint angles stand among those

    def start(self, pose: Vector, joint_angles: Vector, biases: Vector, covariance: Matrix) -> FilterState:
        """From a pose (3,), joint angles (N - 1,), biases (N,) and their covariance (2 N + 2, 2 N + 2)."""
        n = self.link_count
        state, whole = np.zeros(self.size), np.zeros((self.size, self.size))
        state[self._angles], state[self._biases], state[-3:] = joint_angles, biases, pose
        state[self._parameters] = self._population.parameters
        scales = slice(self._biases.stop, self._biases.stop + n)
        whole[scales, scales] = GYRO_SCALE_STDDEV**2 * np.eye(n)
        whole[self._parameters, self._parameters] = self._prior
        residuals = slice(self._parameters.stop, self.size - 3)
        whole[residuals, residuals] = np.eye(n + 2)
        whole[self._public_block] = covariance
        return FilterState(state, whole, None, np.zeros(n + 2))

    def stated(self, now: FilterState) -> tuple[Vector, Matrix]:
        """Mean (2 N + 2,) and covariance of pose, joint angles and biases, in this order, as the filter has them."""
        return now.state[self.public], now.covariance[self._public_block]

    def published(self, now: FilterState) -> tuple[Vector, Matrix]:
        """The same with joint angles as sure as they may be taken to be."""
        mean, covariance = self.stated(now)
        self.widen(covariance, self.inflation(now))
        return mean, covariance

    def inflation(self, now: FilterState) -> float:
        """By how much joint angles are less sure where they are published: as held-out runs or this robot ask for."""
        return max(self.model.inflation, math.sqrt(self.novelty(now)))

    def widen(self, covariance: Matrix, factor: float) -> None:
        """Standard deviations of joint angles in one (2 N + 2, 2 N + 2) to publish, in place."""
        covariance[self._public_angles] *= factor
        covariance[:, self._public_angles] *= factor

    def novelty(self, now: FilterState) -> float:
        """Of the robot to those in training, see `kernels.novelty`."""
        here = self._parameters
        return kernels.novelty(
            now.state[here] - self._population.parameters, now.covariance[here, here], self._variances_between
        )

    def linearise(self, now: FilterState, at_ns: int, drive: Drive) -> tuple[FilterState, Linearised]:
        """The rates near the state under that drive, which the state keeps."""
        n = self.link_count
        m, p = n + 2, friction.parameter_count(n)
        if not drive.driven:
            slopes, nothing = (np.zeros((m, n - 1)), np.zeros((m, p))), np.zeros((m, m))
            stddevs = np.full(m, RESTING_STDDEV)
            made = Linearised(at_ns, now.state, np.zeros(m), *slopes, nothing, stddevs, np.zeros(n))
            return now._replace(linearised=made, start=np.zeros(m)), made
        mean, by_angles, by_parameters, left_over, start = kernels.linearise(
            self._links, now.state, now.covariance, drive.controls, drive.slopes, SLIP, now.start, *self._means
        )
        offsets = np.zeros(n)
        angles, parameters = now.state[self._angles], now.state[self._parameters]
        place = friction.Place(self._links, angles, drive.controls, drive.slopes, parameters, SLIP)
        effects = friction.force_effects(place, start)
        stddevs = self._population.scale(effects)
        if self.model.processes is not None:
            inputs = np.concatenate([angles, drive.controls])[None]
            stddevs = np.sqrt(stddevs**2 + predict_variances(*self._variances, inputs)[0])
            offsets = predict_means(*self._gyro_means, inputs)[0]
        made = Linearised(at_ns, now.state, mean, by_angles, by_parameters, left_over, stddevs, offsets)
        return now._replace(linearised=made, start=start), made

    def predict(self, now: FilterState, duration_s: float, linearised: Linearised) -> FilterState:
        """A short time later."""
        noise = self._population.correlation_times_s, self._bias_walk, ANGLE_NOISE
        state, covariance = kernels.predict(now.state, now.covariance, linearised, duration_s, *noise)
        keep = float(np.exp(-duration_s / ROBOT_TIME_S))
        kernels.drift(state, covariance, self._parameters.start, self._population.parameters, self._prior, keep)
        return now.with_moments(state, covariance)

    def correct_gyro(
        self,
        now: FilterState,
        reading: Reading,
        speed_m_s: float,
        linearised: Linearised,
        gate: Gate = OPEN,
        rejected_in_a_row: int = 0,
        may_recover: bool = True,
    ) -> tuple[FilterState, Innovation, int]:
        """Corrected by one gyro, where the gate lets it pass; see `decide`.

        Parameters
        ----------
        speed_m_s
            Of its own wheel.

        Returns
        -------
        State, what the update saw, and rejections in a row, with this one.
        """
        after, seen = self._corrected(now, reading, speed_m_s, linearised, gate)
        _, inflation, rejected = decide(gate, seen.nis, 1, rejected_in_a_row, may_recover)
        if inflation > 1.0:
            wider = now.with_moments(now.state, self._widened(now.covariance, inflation))
            evidence = after.evidence
            after, seen = self._corrected(wider, reading, speed_m_s, linearised, OPEN)
            after, seen = after._replace(evidence=evidence), replace(seen, inflation=inflation)
        return after, seen, rejected

    def _widened(self, covariance: Matrix, factor: float) -> Matrix:
        """All less known, but no parameter less than before any reading."""
        scales = np.full(self.size, np.sqrt(factor))
        variances, prior = np.diagonal(covariance)[self._parameters], np.diagonal(self._prior)
        known = variances > 0.0
        scales[self._parameters][known] = np.clip(np.sqrt(prior[known] / variances[known]), 1.0, np.sqrt(factor))
        return covariance * np.outer(scales, scales)

    def _corrected(
        self, now: FilterState, reading: Reading, speed_m_s: float, linearised: Linearised, gate: Gate
    ) -> tuple[FilterState, Innovation]:
        link, rate_rad_s, period_s = reading
        rest, growth = self.model.gyro_noise[link]
        variance = rest**2 + (growth * speed_m_s) ** 2
        threshold = gate.threshold(1)
        share = max(1.0, 2.0 * ERROR_TIME_S / max(period_s, 1e-3))
        innovation, spread, repeated, state, covariance = kernels.update(
            now.state, now.covariance, linearised, link, rate_rad_s, variance, share, threshold
        )
        nis = innovation * innovation / spread
        accepted = nis <= threshold
        seen = Innovation(np.array([innovation]), np.array([[np.sqrt(spread)]]), nis, accepted)
        evidence = log_density(innovation, spread, variance, repeated, share, threshold)
        return now.with_moments(state, covariance, evidence), seen

    def correct_pose(self, now: FilterState, pose: Vector, covariance: Matrix) -> tuple[FilterState, Innovation]:
        """Corrected by a pose (3,) of the base with its covariance along the body's axes (3, 3)."""
        before, of_pose = Moments(now.state, now.covariance), np.eye(self.size)[-3:].copy()
        seen = innovate(before, POSE.minus(pose, now.state[-3:]), of_pose, covariance)
        step, after = joseph_update(now.covariance, of_pose, covariance, seen.root, seen.value)
        place = POSE.plus(now.state[-3:], step[-3:])
        state = np.concatenate([now.state[:-3] + step[:-3], place])
        return now._replace(state=state, covariance=after, linearised=None), seen

    def replace_pose(self, now: FilterState, pose: Vector, covariance: Matrix) -> FilterState:
        """With a pose (3,) and its covariance (3, 3) in the place of its own; the rest stays."""
        state, whole = now.state.copy(), now.covariance.copy()
        state[-3:] = pose
        whole[-3:, :] = whole[:, -3:] = 0.0
        whole[-3:, -3:] = covariance
        return now._replace(state=state, covariance=whole, linearised=None)
