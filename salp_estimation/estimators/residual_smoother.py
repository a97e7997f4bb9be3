"""Fixed-interval smoother of a chain with a trained residual model: the filter forward, then its history back.

The filter's states keep what was done, step by step; the backward pass over it is that of
`onboard_estimation.filtering.moments`. Errors are tangent vectors as in `residual_filter_kernels`; that a
correction of the pose turns the axes of its own error is left out, as in the filter.

The history holds the whole run in memory: for three links with gyros at 200 Hz about 4 MB for each second of it. That
grows with the square of the number of links, and with the rate of the gyros (`gyro.used_rate_hz` leaves samples out).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Vector
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.moments import Later
from salp_estimation.estimators import residual_gyro_kernels as kernels
from salp_estimation.estimators.chain_estimator import GivenPose
from salp_estimation.estimators.gyro_kernels import Estimates, Readings
from salp_estimation.estimators.residual_estimator import POSE, ResidualEstimator, ResidualState
from salp_estimation.estimators.residual_filter_kernels import Linearised, expected_rates, gyro_slope
from salp_estimation.estimators.residual_gyro_kernels import ROBOT_TIME_S

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

    filter_block = None  # type: ignore[assignment]  # what is kept is kept one by one

    def taken(
        self, state: ResidualState, readings: Readings, alone: bool
    ) -> tuple[ResidualState, int, Estimates, bool]:
        """As the filter, one reading after its prediction, which is kept step by step.

        The instant of an estimate is kept, unless there is one less than `APART_NS` before it.
        """
        link, stamp_ns = int(readings.kinds[0]), int(readings.stamps_ns[0])
        before = state if link < 0 else self.predicted(state, stamp_ns)
        after, count, found, told = super().taken(before, readings, alone)
        if not len(found.made_of):
            return after, count, found, told
        _, stddev, _, accepted, inflation = found.seen[0].tolist()
        now, known = after.filtered, before.filtered
        if accepted:
            covariance = kernels.inflated(known, inflation) if inflation > 1.0 else known.covariance
            slope, precision = gyro_slope(known.state, now.near, link), np.array([[1.0 / stddev**2]])
            gain = covariance @ slope * precision
            kept = Correction(after.history, slope[None], gain.T, precision, found.seen[0, :1].copy())
            after = after._replace(history=kept)
        return self._marked(after, stamp_ns), count, found, told

    def _marked(self, state: ResidualState, stamp_ns: int) -> ResidualState:
        last, now, public = state.history, state.filtered, self._public
        while last is not None and not isinstance(last, Instant):
            last = last.before
        if last is not None and stamp_ns - last.stamp_ns < APART_NS:
            return state
        moments = now.state[public], now.covariance[public]
        scales = kernels.less_sure(self.settings, now)
        return state._replace(history=Instant(state.history, stamp_ns, *moments, scales))

    def placed(self, state: ResidualState, stamp_ns: int, given: GivenPose) -> tuple[ResidualState, Innovation]:
        """As the filter; its instant is kept."""
        after, seen = super().placed(state, stamp_ns, given)
        return self._marked(after, stamp_ns), seen

    def moved(self, state: ResidualState, stamp_ns: int, step: int, steps: int) -> ResidualState:
        """Kept."""
        after = super().moved(state, stamp_ns, step, steps)
        near, duration_s = after.filtered.near, state.filtered.wheels.pending_ns / NANOSECONDS_PER_SECOND / steps
        twist = duration_s * expected_rates(near, state.filtered.state)[:3]
        return after._replace(history=Prediction(state.history, near, duration_s, twist))

    def _by_pose(self, state: ResidualState, given: GivenPose) -> tuple[ResidualState, Innovation]:
        after, seen = super()._by_pose(state, given)
        precision: Matrix = np.linalg.inv(seen.covariance).astype(np.float64)
        gain, slopes = state.filtered.covariance[:, -3:] @ precision, np.eye(self._size)[-3:]
        return after._replace(history=Correction(state.history, slopes, gain, precision, seen.value)), seen

    def _replaced(self, state: ResidualState, given: GivenPose) -> ResidualState:
        slopes = np.eye(self._size)[-3:]
        kept = Correction(state.history, slopes, slopes.T, np.zeros((3, 3)), np.zeros(3))
        return super()._replaced(state, given)._replace(history=kept)

    def smoothed(self, state: ResidualState) -> list[Estimate]:
        """One at the stamps of gyros and poses that are at least `APART_NS` apart, and the filter's own at the end."""
        state = self.leading(state)  # a run that ended while its start was in doubt
        later = Later.nothing(self._size)
        out: list[Estimate] = []
        step = state.history
        filtered_ns = 0 if state.stamp_ns is None else state.stamp_ns - state.filtered.wheels.pending_ns
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
