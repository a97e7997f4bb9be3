"""Fixed-interval smoother of a chain with a trained residual model: the filter forward, then its history back.

The filter's states keep what was done, step by step; the backward pass over it is that of
`onboard_estimation.filtering.moments`. Errors are tangent vectors as in `residual_filter_kernels`; that a
correction of the pose turns the axes of its own error is left out, as in the filter.

The history holds the whole run in memory: for three links with gyros at 200 Hz about 4 MB for each second of it. That
grows with the square of the number of links, and with the rate of the gyros (`gyro.used_rate_hz` leaves samples out).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Estimate, Matrix, Measurement, Vector
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.moments import Later
from onboard_estimation.pipeline.estimator import Step
from salp_estimation.estimators.chain_estimator import ChainState, GivenPose, Reading
from salp_estimation.estimators.residual_estimator import (
    POSE,
    ROBOT_TIME_S,
    FilterState,
    LaggedCommand,
    ResidualEstimator,
)
from salp_estimation.estimators.residual_filter_kernels import Linearised, expected_rates, gyro_slope

Rows = NDArray[np.float64]

APART_NS = 4_000_000
"""Estimates closer than this to the one before are left out: in so short a time nothing moves that gyros could tell."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A step in time of `duration_s` after the step `before` (None: the first); `twist` (3,) is that of the base."""

    before: PastStep | None
    linearised: Linearised
    duration_s: float
    twist: Vector

    def times_transition(self, rows: Rows) -> Rows:
        """(..., n) rows times F, whose rows are those of the identity but for all except the gyros' own."""
        near, duration_s = self.linearised, self.duration_s
        m, p = near.by_parameters.shape
        a = m - 3
        first = a + 2 * (m - 2)
        parameters, residuals = slice(first, first + p), slice(first + p, first + p + m)
        rates = duration_s * np.concatenate([rows[..., -3:], rows[..., :a]], axis=-1)
        out: Rows = rows.copy()
        out[..., :a] += rates @ near.by_angles
        out[..., parameters] *= np.exp(-duration_s / ROBOT_TIME_S)
        out[..., parameters] += rates @ near.by_parameters
        out[..., residuals] *= np.exp(-duration_s / near.lasts_s)
        out[..., residuals] += rates * near.stddevs
        out[..., -3:] = rows[..., -3:] @ self.pose_transition()
        return out

    def pose_transition(self) -> Matrix:
        """(3, 3) what carries a pose's error, a body-frame twist, through the motion by xi: Ad(exp(-xi))."""
        left = POSE.right_jacobian(-self.twist)
        return POSE.right_jacobian(self.twist) @ np.linalg.inv(left)

    def back(self, later: Later) -> Later:
        """F^T adjoint, F^T information F."""
        return Later(
            self.times_transition(later.adjoint), self.times_transition(self.times_transition(later.information).T)
        )


@dataclass(frozen=True, slots=True)
class Correction:
    """By a measurement of k numbers that entered the state.

    Attributes
    ----------
    slopes, gain
        H (k, n) and K (n, k).
    precision, innovation
        S^-1 (k, k) and v (k,); zero where the numbers took the place of the filter's: what came later says nothing of
        the old ones.
    """

    before: PastStep | None
    slopes: Rows
    gain: Rows
    precision: Matrix
    innovation: Vector

    def back(self, later: Later) -> Later:
        """See `Later`."""
        return later.before_correction(self.slopes, self.gain, self.precision, self.innovation)


@dataclass(frozen=True, slots=True)
class Instant:
    """Where an estimate is asked for: the public state (q,), its rows (q, n) of the covariance, `inflation` (q,)."""

    before: PastStep | None
    stamp_ns: int
    mean: Vector
    rows: Rows
    inflation: Vector


PastStep: TypeAlias = Prediction | Correction | Instant


class ResidualSmoother(ResidualEstimator):
    """`ResidualEstimator`, which looks back over what it has filtered: a `Smoother`.

    Measurements that the filter refused stay refused. A pose from outside corrects all of its past; one that replaced
    the filter's pose says nothing of the pose before it, while joint angles and biases are smoothed through.
    """

    def followed(self, state: ChainState[FilterState, LaggedCommand], measurement: Measurement) -> Step:
        """As the filter; the instant of an estimate is kept, unless there is one less than `APART_NS` before it."""
        followed = super().followed(state, measurement)
        now: FilterState = followed.state.filtered
        last = now.history
        while last is not None and not isinstance(last, Instant):
            last = last.before
        is_near = last is not None and measurement.stamp_ns - last.stamp_ns < APART_NS
        if followed.estimate is None or is_near:
            return followed
        public = self._public
        moments = now.state[public], now.covariance[public]
        marked = now._replace(history=Instant(now.history, measurement.stamp_ns, *moments, self.inflation(now)))
        return followed._replace(state=replace(followed.state, filtered=marked))

    def _moved(self, now: FilterState, duration_s: float, linearised: Linearised) -> FilterState:
        twist = duration_s * expected_rates(linearised, now.state)[:3]
        after = super()._moved(now, duration_s, linearised)
        return after._replace(history=Prediction(now.history, linearised, duration_s, twist))

    def _by_gyro(
        self, now: FilterState, reading: Reading, speed_m_s: float, linearised: Linearised, gate: Gate
    ) -> tuple[FilterState, Innovation]:
        after, seen = super()._by_gyro(now, reading, speed_m_s, linearised, gate)
        if not seen.accepted:
            return after, seen
        slope = gyro_slope(now.state, linearised, reading.link)
        precision = 1.0 / seen.covariance
        gain = now.covariance @ slope * precision
        return after._replace(history=Correction(now.history, slope[None], gain.T, precision, seen.value)), seen

    def _by_pose(self, now: FilterState, given: GivenPose) -> tuple[FilterState, Innovation]:
        after, seen = super()._by_pose(now, given)
        precision: Matrix = np.linalg.inv(seen.covariance).astype(np.float64)
        gain, slopes = now.covariance[:, -3:] @ precision, np.eye(self._size)[-3:]
        return after._replace(history=Correction(now.history, slopes, gain, precision, seen.value)), seen

    def _replaced(self, now: FilterState, given: GivenPose) -> FilterState:
        slopes = np.eye(self._size)[-3:]
        step = Correction(now.history, slopes, slopes.T, np.zeros((3, 3)), np.zeros(3))
        return super()._replaced(now, given)._replace(history=step)

    def smoothed(self, state: ChainState[FilterState, LaggedCommand]) -> list[Estimate]:
        """One at the stamps of gyros and poses that are at least `APART_NS` apart, and the filter's own at the end."""
        state = self.leading(state)  # a run that ended while its start was in doubt
        later = Later.nothing(self._size)
        out: list[Estimate] = []
        step = state.filtered.history
        filtered_ns = 0 if state.stamp_ns is None else state.stamp_ns - state.wheels.pending_ns
        while step is not None:
            if isinstance(step, Instant):
                if not out and filtered_ns > step.stamp_ns:
                    out.append(Estimate(filtered_ns, *self.published(state.filtered)))
                out.append(self._smoothed_at(step, later))
            else:
                later = step.back(later)
            step = step.before
        return out[::-1]

    def _smoothed_at(self, instant: Instant, later: Later) -> Estimate:
        correction = -instant.rows @ later.adjoint
        covariance = instant.rows[:, self._public] - instant.rows @ later.information @ instant.rows.T
        covariance = covariance * np.outer(instant.inflation, instant.inflation)
        # Of the errors at the filtered state; then of those at the smoothed one.
        jacobian = self.space.right_jacobian(correction)
        covariance = jacobian @ covariance @ jacobian.T
        mean = self.space.plus(instant.mean, correction)
        return Estimate(instant.stamp_ns, mean, 0.5 * (covariance + covariance.T))
