"""Unscented Kalman filter on a product state space, in square-root form, all sigma points as one array.

Sigma points and weights are the scaled ones of van der Merwe, "Sigma-point Kalman filters for probabilistic inference
in dynamic state-space models", 2004, chapter 3. With the default (alpha 1, beta 0, kappa 0) all weights are positive
and equal and the centre has none: the spherical cubature rule.

The models are functions of a whole array of sigma points, so that they can be compiled loops. Covariances are lower
triangular factors; the update uses the sigma-point form of Joseph's update,

    P+ = sum_i w_i (X_i - K Y_i)(X_i - K Y_i)^T + K R K^T,

which is a sum of squares: no subtraction that could make it lose its sign. Sigma points are drawn anew after each
prediction, so that the predicted measurement's covariance contains the process noise.

A step crosses from Python to compiled code four times (propagate, moments, measure, correct); each crossing costs about
as much as the algebra of a small filter, hence few kernels with all their work inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numba import TypingError

from onboard_estimation.filtering import unscented_kernels as kernels
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.square_root import covariance_root
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.measurement import Matrix, Vector

BatchModel = Callable[[Matrix], Matrix]
"""Maps sigma points (k, a) to successors (k, a) or predicted measurements (k, m)."""


@dataclass(frozen=True)
class Weights:
    """Spread and weights of the 2n + 1 sigma points.

    Attributes
    ----------
    spread
        Factor on the columns of the covariance's root: sqrt(n + lambda).
    centre_mean, centre_covariance
        Weights of the first point, the centre.
    outer
        Weight of every other point.

    The default points lie sqrt(n) standard deviations out. An angle whose deviation is so large that they reach pi
    wraps round, and its covariance comes out too small: start such a filter elsewhere, or with a smaller alpha.
    """

    spread: float
    centre_mean: float
    centre_covariance: float
    outer: float

    @classmethod
    def scaled(cls, dimension: int, alpha: float = 1.0, beta: float = 0.0, kappa: float = 0.0) -> Weights:
        """Van der Merwe's scaled weights for a state of that dimension; ValueError unless n + lambda > 0."""
        scaling = alpha**2 * (dimension + kappa)
        if scaling <= 0.0:
            raise ValueError(f"alpha^2 (n + kappa) must be positive, got {scaling} with alpha {alpha}, kappa {kappa}")
        centre = 1.0 - dimension / scaling
        return cls(float(np.sqrt(scaling)), centre, centre + 1.0 - alpha**2 + beta, 0.5 / scaling)

    def packed(self, dimension: int) -> Vector:
        """(2n + 4,) the weights as the kernels take them."""
        outer = np.full(2 * dimension, self.outer)
        return np.concatenate([[self.spread, self.centre_covariance, self.outer, self.centre_mean], outer])


class UnscentedFilter:
    """Unscented Kalman filter with additive noise.

    Parameters
    ----------
    space
        State space of dimension n.
    mean, covariance
        (a,) and (n, n): the initial state. NotPositiveDefinite where the covariance has a negative eigenvalue.
    weights
        Sigma points' spread and weights; the cubature rule by default.
    """

    def __init__(self, space: StateSpace, mean: Vector, covariance: Matrix, weights: Weights | None = None) -> None:
        self.space = space
        self._weights = (weights or Weights.scaled(space.dimension)).packed(space.dimension)
        self._point_count = 2 * space.dimension + 1
        self._shape = self._point_count + space.dimension, space.coordinate_count
        self._before_and_moved: tuple[Matrix, Matrix] | None = None
        self.set_state(mean, covariance)

    def set_state(self, mean: Vector, covariance: Matrix) -> None:
        """Start anew from a mean (a,) and covariance (n, n)."""
        mean, covariance = self.space.moments(mean, covariance)
        self._restart(mean, covariance_root(covariance))

    def _restart(self, mean: Vector, root: Matrix) -> None:
        state = np.zeros(self._shape)
        state[0] = mean
        state[self._point_count :, : self.space.dimension] = root
        kernels.draw(self._weights, self.space.layout, state)
        self.restore((state, state[: self._point_count]))

    @property
    def mean(self) -> Vector:
        """(a,) mean; a copy, because the state's array is several times as large."""
        return self.points[0].copy()

    @property
    def root(self) -> Matrix:
        """(n, n) lower root of the covariance."""
        return self._state[self._point_count :, : self.space.dimension].copy()

    @property
    def covariance(self) -> Matrix:
        """(n, n) covariance of the error in the tangent space at the mean."""
        root = self._state[self._point_count :, : self.space.dimension]
        covariance: Matrix = root @ root.T
        return covariance

    @property
    def cross_covariance(self) -> Matrix:
        """(n, n) covariance of the errors before (rows) and after (columns) the last prediction; zero without one."""
        if self._before_and_moved is None:
            return np.zeros((self.space.dimension, self.space.dimension))
        return kernels.cross_covariance(*self._before_and_moved, self._weights, self.space.layout)

    def snapshot(self) -> tuple[Matrix, Matrix]:
        """All of its state. Arrays are replaced, never written, by the filter: no copy is needed."""
        return self._state, self.points

    def restore(self, snapshot: tuple[Matrix, Matrix]) -> None:
        """Return to a snapshot."""
        self._state, self.points = snapshot

    def predict(self, propagate: BatchModel, noise_root: Matrix) -> None:
        """Move the state by `propagate`, which maps sigma points (2n + 1, a) to their successors, a new array.

        Parameters
        ----------
        noise_root
            (n, q) any factor G of the process noise's covariance Q = G G^T, in the tangent space.
        """
        before, state = self._state, np.empty(self._shape)
        moved = propagate(self.points)
        try:
            fits = kernels.predict_moments(moved, noise_root, self._weights, self.space.layout, state)
        except TypingError:  # one of the arrays has more or fewer axes
            fits = False
        if not fits:
            raise ValueError(
                f"shapes do not fit: points {self.points.shape}, moved {moved.shape}, noise root {noise_root.shape}"
            )
        self._before_and_moved = before, moved
        self._state, self.points = state, state[: self._point_count]

    def update(
        self,
        measure: BatchModel,
        measured: Vector,
        noise_root: Matrix,
        gate: Gate | None = None,
        space: StateSpace | None = None,
    ) -> Innovation:
        """Correct the state by a measurement (m,).

        Parameters
        ----------
        measure
            Maps sigma points (2n + 1, a) to predicted measurements (2n + 1, m).
        noise_root
            (m, m) any factor of the measurement noise's covariance, in the tangent space at the predicted measurement.
        gate
            Refuses improbable measurements; without one all are accepted.
        space
            State space of the measurement where it is not a plain vector (a pose, an angle).

        Returns
        -------
        The innovation, its covariance, its NIS and whether it was accepted. ValueError for shapes that do not fit.
        """
        space = _vector_space(len(noise_root)) if space is None else space
        size = space.dimension
        threshold = math.inf if gate is None else gate.threshold(size)
        predicted = measure(self.points)
        state, innovation, root = np.empty(self._shape), np.empty(size), np.empty((size, size))
        try:
            nis = kernels.correct_moments(
                self._state,
                predicted,
                measured,
                noise_root,
                self._weights,
                self.space.layout,
                space.layout,
                threshold,
                state,
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
        accepted = nis <= threshold
        if accepted:
            self._state, self.points = state, state[: self._point_count]
        seen = Innovation(innovation, root, nis, accepted)
        if gate is not None and gate.count(accepted):
            inflation = gate.inflation(seen)
            self._restart(self.mean, self.root * np.sqrt(inflation))
            return replace(self.update(measure, measured, noise_root, None, space), inflation=inflation)
        return seen


@lru_cache(maxsize=64)
def _vector_space(size: int) -> StateSpace:
    return StateSpace(vector("z", tuple(map(str, range(size))), ""))
