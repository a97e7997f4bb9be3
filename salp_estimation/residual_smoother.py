"""Fixed-interval smoother of a chain with a trained residual model: the filter forward, then its history back.

It holds the whole run in memory: for three links with gyros at 200 Hz about 4 MB for each second of it. That grows with
the square of the number of links, and with the rate of the gyros (`gyro.used_rate_hz` leaves samples out).
"""

from __future__ import annotations

import numpy as np

from onboard_estimation.measurement import Estimate, Matrix, Measurement, Vector
from onboard_estimation.smoother import Smoother
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.residual_estimator import ResidualEstimator
from salp_estimation.residual_history import Instant, RecordingFilter
from salp_estimation.residual_model import ResidualModel

APART_NS = 4_000_000
"""Estimates closer than this to the one before are left out: in so short a time nothing moves that gyros could tell."""


class ResidualSmoother(ResidualEstimator, Smoother):
    """`ResidualEstimator`, which looks back over what it has filtered.

    Measurements that the filter refused stay refused. A pose from outside corrects all of its past; one that replaced
    the filter's pose says nothing of the pose before it, while joint angles and biases are smoothed through.
    """

    def __init__(self, configuration: SalpConfiguration, model: ResidualModel, initial: Estimate | None = None) -> None:
        super().__init__(configuration, model, initial)
        started = self._filter.now
        bias_walk = configuration.gyro.bias_walk_rad_s_sqrt_s
        self._filter = self._recorder = RecordingFilter(configuration.chain.build().links, model, bias_walk)
        self._filter.now = started

    def apply(self, measurement: Measurement) -> Estimate | None:
        """As the filter; the instant of an estimate is kept."""
        estimate = super().apply(measurement)
        if estimate is not None:
            self._recorder.mark(estimate.stamp_ns, APART_NS)
        return estimate

    def smoothed(self) -> list[Estimate]:
        """One at the stamps of gyros and poses that are at least `APART_NS` apart, and the filter's own at the end."""
        adjoint, information = np.zeros(self._recorder.size), np.zeros((self._recorder.size,) * 2)
        out: list[Estimate] = []
        step = self._recorder.history
        while step is not None:
            if isinstance(step, Instant):
                if not out and self._clock.state_ns is not None and self._clock.state_ns > step.stamp_ns:
                    out.append(Estimate(self._clock.state_ns, *self._recorder.published()))
                out.append(self._smoothed_at(step, adjoint, information))
            else:
                adjoint, information = step.back(adjoint, information)
            step = step.before
        return out[::-1]

    def _smoothed_at(self, instant: Instant, adjoint: Vector, information: Matrix) -> Estimate:
        correction = -instant.rows @ adjoint
        public = self._recorder.public
        covariance = instant.rows[:, public] - instant.rows @ information @ instant.rows.T
        # Of the errors at the filtered state; then of those at the smoothed one.
        jacobian = self.space.right_jacobian(correction)
        covariance = jacobian @ covariance @ jacobian.T
        mean = self.space.plus(instant.mean, correction)
        return Estimate(instant.stamp_ns, mean, 0.5 * (covariance + covariance.T))
