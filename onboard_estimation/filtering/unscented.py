"""Unscented Kalman filter on a product state space, in square-root form, all sigma points as one array.

Sigma points are those of the spherical cubature rule (Arasaratnam and Haykin, "Cubature Kalman filters", 2009): the
mean, and the mean plus and minus sqrt(n) times each column of the covariance's root. The latter have equal weights, the
centre has none. They lie sqrt(n) standard deviations out: an angle whose deviation is so large that they reach pi wraps
round, and its covariance comes out too small; start such a filter elsewhere.

The models are functions of a whole array of sigma points, so that they can be compiled loops. Covariances are lower
triangular factors; the update uses the sigma-point form of Joseph's update,

    P+ = sum_i w (X_i - K Y_i)(X_i - K Y_i)^T + K R K^T,

which is a sum of squares: no subtraction that could make it lose its sign. Sigma points are drawn anew after each
prediction, so that the predicted measurement's covariance contains the process noise.

A step crosses from Python to compiled code four times (propagate, moments, measure, correct); each crossing costs about
as much as the algebra of a small filter, hence few kernels with all their work inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import TypingError

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering import unscented_kernels as kernels
from onboard_estimation.filtering.gating import OPEN, Gate, Innovation, decide
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.filtering.state_space import StateSpace, vector

BatchModel = Callable[[Matrix], Matrix]
"""Maps sigma points (k, a) to successors (k, a) or predicted measurements (k, m)."""


class SigmaPoints(NamedTuple):
    """A state as sigma points; values, never written.

    Attributes
    ----------
    packed
        (3n + 1, max(a, n)) the points, then the lower root of the covariance.
    points
        (2n + 1, a) the points, the mean first; the kernels have them in `packed`.
    """

    packed: Matrix
    points: Matrix

    @property
    def mean(self) -> Vector:
        """(a,) mean; a copy, because the state's array is several times as large."""
        return self.points[0].copy()


class Unscented:
    """Unscented Kalman filter with additive noise; it has no state but its settings.

    Parameters
    ----------
    space
        State space of dimension n.
    """

    def __init__(self, space: StateSpace) -> None:
        self.space = space
        self._point_count = 2 * space.dimension + 1
        self._shape = self._point_count + space.dimension, space.coordinate_count

    def start(self, mean: Vector, covariance: Matrix) -> SigmaPoints:
        """The state of that mean (a,) and covariance (n, n); NotPositiveDefinite for a negative eigenvalue."""
        mean, covariance = self.space.moments(mean, covariance)
        packed = np.zeros(self._shape)
        packed[0] = mean
        packed[self._point_count :, : self.space.dimension] = covariance_root(covariance)
        kernels.draw(self.space.layout, packed)
        return SigmaPoints(packed, packed[: self._point_count])

    def root(self, state: SigmaPoints) -> Matrix:
        """(n, n) lower root of the covariance."""
        return state.packed[self._point_count :, : self.space.dimension]

    def covariance(self, state: SigmaPoints) -> Matrix:
        """(n, n) covariance of the error in the tangent space at the mean."""
        root = self.root(state)
        return root @ root.T

    def inflated(self, state: SigmaPoints, factor: float) -> SigmaPoints:
        """With so many times the covariance."""
        packed = state.packed.copy()
        kernels.inflate(self.space.layout, packed, factor)
        return SigmaPoints(packed, packed[: self._point_count])

    def predict(self, state: SigmaPoints, propagate: BatchModel, noise_root: Matrix) -> SigmaPoints:
        """The state moved by `propagate`, which maps sigma points (2n + 1, a) to their successors, a new array.

        Parameters
        ----------
        noise_root
            (n, q) any factor G of the process noise's covariance Q = G G^T, in the tangent space.
        """
        moved, after = propagate(state.points), np.empty(self._shape)
        try:
            fits = kernels.predict_moments(moved, noise_root, self.space.layout, after)
        except TypingError:  # one of the arrays has more or fewer axes
            fits = False
        if not fits:
            raise ValueError(
                f"shapes do not fit: points {state.points.shape}, moved {moved.shape}, noise root {noise_root.shape}"
            )
        return SigmaPoints(after, after[: self._point_count])

    def update(
        self,
        state: SigmaPoints,
        measure: BatchModel,
        measured: Vector,
        noise_root: Matrix,
        gate: Gate = OPEN,
        rejected_in_a_row: int = 0,
        may_recover: bool = True,
        space: StateSpace | None = None,
    ) -> tuple[SigmaPoints, Innovation, int]:
        """The state corrected by a measurement (m,), where the gate lets it pass.

        Parameters
        ----------
        measure
            Maps sigma points (2n + 1, a) to predicted measurements (2n + 1, m).
        noise_root
            (m, m) any factor of the measurement noise's covariance, in the tangent space at the predicted measurement.
        rejected_in_a_row, may_recover
            See `decide`.
        space
            State space of the measurement where it is not a plain vector (a pose, an angle).

        Returns
        -------
        State, what the update saw, and rejections in a row, with this one. ValueError for shapes that do not fit.
        """
        space = _vector_space(len(noise_root)) if space is None else space
        size = space.dimension
        threshold = gate.threshold(size)
        predicted = measure(state.points)
        after, innovation, root = np.empty(self._shape), np.empty(size), np.empty((size, size))
        try:
            nis = kernels.correct_moments(
                state.packed,
                predicted,
                measured,
                noise_root,
                self.space.layout,
                space.layout,
                threshold,
                after,
                innovation,
                root,
            )
        except TypingError:
            nis = kernels.MISFIT
        if nis < 0.0:
            raise ValueError(
                f"shapes do not fit a measurement of {space.coordinate_count} coordinates for {self._point_count} "
                f"sigma points: predicted {predicted.shape}, measured {measured.shape}, noise root {noise_root.shape}"
            )
        accepted, inflation, rejected = decide(gate, nis, size, rejected_in_a_row, may_recover)
        if inflation > 1.0:
            wider = self.inflated(state, inflation)
            corrected, seen, _ = self.update(wider, measure, measured, noise_root, space=space)
            return corrected, replace(seen, inflation=inflation), rejected
        seen = Innovation(innovation, root, nis, accepted)
        return (SigmaPoints(after, after[: self._point_count]) if accepted else state), seen, rejected


@lru_cache(maxsize=64)
def _vector_space(size: int) -> StateSpace:
    return StateSpace(vector("z", tuple(map(str, range(size))), ""))
