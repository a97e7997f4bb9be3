"""Unscented Kalman filter on pressures and wrench, whose stiffness walks at random: the baseline `ukf`.

State: a row of the grey box, the logarithm of the stiffness against the configured one, and offsets of the six outputs.
After Mehl et al. (ICRA 2024), who have pose, rates and a walking stiffness; what real robots and sensors do beside is
the grey box's, and the same for `marginalized_pf`.
"""

from __future__ import annotations

import math

import numpy as np

from onboard_estimation.base.measurement import Matrix, Notice, Vector
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.particle_weights import moments
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.filtering.unscented import SigmaPoints, Unscented
from softrobot_estimation.estimators.wrench_filter import FilterState, Pending, WrenchFilter
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration

_STIFFNESS, _OFFSETS = kernels.ROW, slice(kernels.ROW + 1, kernels.ROW + 7)
_MOMENTS = slice(kernels.MOMENTS, kernels.PAYLOAD)
_SIZE = kernels.ROW + 7
_STATE = StateSpace(vector("state", tuple(str(place) for place in range(_SIZE)), ""))
_GATE = Gate(1.0 - 1e-9, 3)
"""Only what cannot be: the model's own errors come in bursts."""
_LEAST_STDDEV = 1e-9
_LARGEST_LOGARITHM = 1.2
"""Of stiffness over the configured one, either way; sigma points lie five standard deviations out."""


class UnscentedEstimator(WrenchFilter[SigmaPoints]):
    """Tip and stiffness by sigma points."""

    def __init__(self, configuration: SoftRobotConfiguration) -> None:
        super().__init__(configuration)
        self._unscented = Unscented(_STATE)
        settings = configuration.filter
        walk = np.zeros(_SIZE)
        walk[kernels.RATES : kernels.RELAXED] = self.rate_walk
        walk[kernels.PAYLOAD], walk[_STIFFNESS] = settings.payload_walk_kg_sqrt_s, settings.stiffness_walk_sqrt_s
        walk[_OFFSETS] = self.offset_walk
        self._walk, self._moment_time_s = walk, settings.moment_time_s

    def begun(self, rows: Vector, stddev: Vector, stiffness: float, stiffness_stddev: float) -> SigmaPoints:
        """Moments as they are given; nothing correlated."""
        mean, deviations = np.zeros(_SIZE), np.zeros(_SIZE)
        mean[: kernels.ROW], deviations[: kernels.ROW] = rows, stddev
        mean[_STIFFNESS], deviations[_STIFFNESS] = math.log(stiffness / self.grey_box.stiffness), stiffness_stddev
        mean[_OFFSETS], deviations[_OFFSETS] = self.offset_start, self.offset_stddev
        return self._unscented.start(mean, np.diag(np.maximum(deviations, _LEAST_STDDEV) ** 2))

    def moved(self, filtered: SigmaPoints, pending: Pending, chambers_pa: Vector) -> SigmaPoints:
        """All sigma points through the grey box."""
        mean_pa, step_s, moment_stddev_n_m = pending
        noise = math.sqrt(step_s) * self._walk
        noise[_MOMENTS] = moment_stddev_n_m * math.sqrt(-math.expm1(-2.0 * step_s / self._moment_time_s))
        moved = self.grey_box.propagate(filtered.points, self._stiffness(filtered.points), mean_pa, step_s)
        return self._unscented.predict(filtered, lambda _: moved, np.diag(noise))

    def eased(self, filtered: SigmaPoints, share: float) -> SigmaPoints:
        """Rows of the covariance's root, and the mean."""
        root, mean = self._unscented.root(filtered).copy(), filtered.mean
        mean[_MOMENTS] *= share
        root[_MOMENTS] *= share
        return self._unscented.start(mean, root @ root.T)

    def placed(self, filtered: SigmaPoints, row: Vector, stddev: Vector) -> SigmaPoints:
        """Correlated with nothing else any more."""
        mean, covariance, pose = filtered.mean, self._unscented.covariance(filtered), slice(0, kernels.PAYLOAD)
        mean[pose] = row[pose]
        covariance[pose], covariance[:, pose] = 0.0, 0.0
        covariance[pose, pose] = np.diag(np.maximum(stddev[pose], _LEAST_STDDEV) ** 2)
        return self._unscented.start(mean, covariance)

    def corrected(
        self, filtered: SigmaPoints, state: FilterState[SigmaPoints], wrench: Vector
    ) -> tuple[SigmaPoints, Innovation, int, tuple[Notice, ...]]:
        """By all outputs that are known, at once; where the gate lets it recover, with a wider covariance."""
        if state.pending is not None:
            filtered = self.moved(filtered, state.pending, state.chambers_pa)
        known = np.flatnonzero(np.isfinite(wrench))

        def measured(points: Matrix) -> Matrix:
            loads = self.grey_box.loads(points, self._stiffness(points), state.chambers_pa) + points[:, _OFFSETS]
            return np.ascontiguousarray(loads[:, known])

        noise = np.diag(self.wrench_stddev[known])
        return *self._unscented.update(filtered, measured, wrench[known], noise, _GATE, state.rejected_in_a_row), ()

    def published(self, filtered: SigmaPoints, chambers_pa: Vector) -> tuple[Vector, Matrix]:
        """Moments of the tips that the sigma points have."""
        tips = self.grey_box.tips(filtered.points, self._stiffness(filtered.points), chambers_pa)[1:]
        return moments(np.full(len(tips), 1.0 / len(tips)), tips)

    def _stiffness(self, points: Matrix) -> Vector:
        logarithms = np.minimum(np.maximum(points[:, _STIFFNESS], -_LARGEST_LOGARITHM), _LARGEST_LOGARITHM)
        stiffness: Vector = self.grey_box.stiffness * np.exp(logarithms)
        return stiffness
