"""Fixed-interval smoother of a chain with a trained residual model: the filter forward, then its history back.

Its states hold the whole run in memory: for three links with gyros at 200 Hz about 4 MB for each second of it. That
grows with the square of the number of links, and with the rate of the gyros (`gyro.used_rate_hz` leaves samples out).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onboard_estimation.estimator import Step
from onboard_estimation.measurement import Estimate, Matrix, Measurement, Vector
from salp_estimation.chain_estimator import ChainState
from salp_estimation.residual_estimator import LaggedCommand, ResidualEstimator
from salp_estimation.residual_filter import FilterState
from salp_estimation.residual_history import Instant, RecordingFilter

APART_NS = 4_000_000
"""Estimates closer than this to the one before are left out: in so short a time nothing moves that gyros could tell."""


class ResidualSmoother(ResidualEstimator):
    """`ResidualEstimator`, which looks back over what it has filtered: a `Smoother`.

    Measurements that the filter refused stay refused. A pose from outside corrects all of its past; one that replaced
    the filter's pose says nothing of the pose before it, while joint angles and biases are smoothed through.
    """

    _filter_type = RecordingFilter
    _filter: RecordingFilter

    def followed(self, state: ChainState[FilterState, LaggedCommand], measurement: Measurement) -> Step:
        """As the filter; the instant of an estimate is kept."""
        step = super().followed(state, measurement)
        if step.estimate is None:
            return step
        marked = self._filter.marked(step.state.filtered, measurement.stamp_ns, APART_NS)
        return step._replace(state=replace(step.state, filtered=marked))

    def smoothed(self, state: ChainState[FilterState, LaggedCommand]) -> list[Estimate]:
        """One at the stamps of gyros and poses that are at least `APART_NS` apart, and the filter's own at the end."""
        state = self.leading(state)  # a run that ended while its start was in doubt
        adjoint, information = np.zeros(self._filter.size), np.zeros((self._filter.size,) * 2)
        out: list[Estimate] = []
        step = state.filtered.history
        filtered_ns = 0 if state.stamp_ns is None else state.stamp_ns - state.wheels.pending_ns
        while step is not None:
            if isinstance(step, Instant):
                if not out and filtered_ns > step.stamp_ns:
                    out.append(Estimate(filtered_ns, *self.published(state.filtered)))
                out.append(self._smoothed_at(step, adjoint, information))
            else:
                adjoint, information = step.back(adjoint, information)
            step = step.before
        return out[::-1]

    def _smoothed_at(self, instant: Instant, adjoint: Vector, information: Matrix) -> Estimate:
        correction = -instant.rows @ adjoint
        covariance = instant.rows[:, self._filter.public] - instant.rows @ information @ instant.rows.T
        self._filter.widen(covariance, instant.inflation)
        # Of the errors at the filtered state; then of those at the smoothed one.
        jacobian = self.space.right_jacobian(correction)
        covariance = jacobian @ covariance @ jacobian.T
        mean = self.space.plus(instant.mean, correction)
        return Estimate(instant.stamp_ns, mean, 0.5 * (covariance + covariance.T))
