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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numba import njit

from onboard_estimation.filtering import manifold_kernels as manifold
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.manifold_kernels import Layout, Rows
from onboard_estimation.filtering.square_root import (
    covariance_root,
    downdate,
    solve_lower,
    solve_lower_transposed,
    triangularise,
)
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

    def packed(self) -> Vector:
        """(4,) the attributes in their order, for the kernels."""
        return np.array([self.spread, self.centre_mean, self.centre_covariance, self.outer])


@njit(cache=True)
def sigma_points(mean: Rows, root: Rows, spread: float, layout: Layout) -> Rows:
    """(2n + 1, a) points: the mean, then mean plus and minus spread times each column of the root."""
    n = root.shape[0]
    points = np.empty((2 * n + 1, mean.shape[0]))
    points[0] = mean
    step = np.empty((2, n))
    for column in range(n):
        for i in range(n):
            step[0, i] = spread * root[i, column]
            step[1, i] = -step[0, i]
        manifold.plus_row(points, 0, step, 0, layout, points, 1 + column)
        manifold.plus_row(points, 0, step, 1, layout, points, 1 + n + column)
    return points


@njit(cache=True)
def _deviations(points: Rows, centre: Rows, layout: Layout, dimension: int) -> Rows:
    """(k, n) tangent vectors from the centre (a,) to the points (k, a)."""
    out = np.empty((points.shape[0], dimension))
    centres = centre.reshape(1, -1)
    for row in range(points.shape[0]):
        manifold.minus_row(points, row, centres, 0, layout, out, row)
    return out


@njit(cache=True)
def _mean(points: Rows, weights: Rows, layout: Layout, dimension: int) -> Rows:
    """(a,) mean of the points with the packed weights."""
    mean_weights = np.full(points.shape[0], weights[3])
    mean_weights[0] = weights[1]
    return manifold.mean(points, mean_weights, layout, dimension)


@njit(cache=True)
def _factor(deviations: Rows, weights: Rows, noise_root: Rows) -> Rows:
    """Lower root of sum_i w_i d_i d_i^T + N N^T; a negative weight of the centre is taken off at the end.

    Where that leaves no positive matrix, the centre's (negative) share is left out: a larger covariance, still safe.
    """
    k, n = deviations.shape
    m = noise_root.shape[1]
    stacked = np.empty((n, k + m))
    outer = np.sqrt(weights[3])
    centre = np.sqrt(max(weights[2], 0.0))
    for i in range(n):
        stacked[i, 0] = centre * deviations[0, i]
        for row in range(1, k):
            stacked[i, row] = outer * deviations[row, i]
        for column in range(m):
            stacked[i, k + column] = noise_root[i, column]
    lower = triangularise(stacked)
    if weights[2] < 0.0:
        reduced = lower.copy()
        if downdate(reduced, np.sqrt(-weights[2]) * deviations[0]):
            return reduced
    return lower


@njit(cache=True)
def _cross_covariance(first: Rows, second: Rows, weights: Rows) -> Rows:
    """(n, m) weighted sum of products of the deviations (k, n) and (k, m)."""
    n, m = first.shape[1], second.shape[1]
    cross = np.zeros((n, m))
    for row in range(first.shape[0]):
        weight = weights[2] if row == 0 else weights[3]
        for i in range(n):
            scaled = weight * first[row, i]
            for j in range(m):
                cross[i, j] += scaled * second[row, j]
    return cross


@njit(cache=True)
def predict_moments(
    before: Rows, after: Rows, noise_root: Rows, weights: Rows, layout: Layout
) -> tuple[Rows, Rows, Rows, Rows]:
    """Sigma points before and after the motion (k, a) to the predicted state.

    Returns its mean (a,), root (n, n), new sigma points (k, a), and the cross-covariance (n, n) between the state
    before (rows) and after (columns).
    """
    n = noise_root.shape[0]
    mean = _mean(after, weights, layout, n)
    deviations = _deviations(after, mean, layout, n)
    cross = _cross_covariance(_deviations(before, before[0], layout, n), deviations, weights)
    root = _factor(deviations, weights, noise_root)
    return mean, root, sigma_points(mean, root, weights[0], layout), cross


@njit(cache=True)
def correct_moments(
    points: Rows,
    predicted: Rows,
    measured: Rows,
    noise_root: Rows,
    weights: Rows,
    layout: Layout,
    measured_layout: Layout,
    threshold: float,
) -> tuple[Rows, Rows, Rows, Rows, Rows, float]:
    """Update by a measurement (m,), unless its NIS is above the threshold.

    Takes the sigma points (k, a) and their predicted measurements (k, .). Returns mean (a,), root (n, n) and new sigma
    points (k, a), which mean nothing where the measurement was refused, then the innovation (m,), its root (m, m), and
    the NIS.
    """
    n, m = (points.shape[0] - 1) // 2, noise_root.shape[0]
    centre = _mean(predicted, weights, measured_layout, m)
    innovation = np.empty((1, m))
    manifold.minus_row(measured.reshape(1, -1), 0, centre.reshape(1, -1), 0, measured_layout, innovation, 0)
    measured_deviations = _deviations(predicted, centre, measured_layout, m)
    innovation_root = _factor(measured_deviations, weights, noise_root)
    nis = np.sum(solve_lower(innovation_root, innovation.T) ** 2)
    if not nis <= threshold:
        return points[0], innovation_root, points, innovation[0], innovation_root, nis

    deviations = _deviations(points, points[0], layout, n)
    cross = _cross_covariance(measured_deviations, deviations, weights)
    gain = solve_lower_transposed(innovation_root, solve_lower(innovation_root, cross))  # (m, n): K transposed
    step = np.zeros((1, n))
    noise = np.zeros((n, m))
    for j in range(n):
        for i in range(m):
            step[0, j] += gain[i, j] * innovation[0, i]
            for row in range(deviations.shape[0]):
                deviations[row, j] -= gain[i, j] * measured_deviations[row, i]
            for column in range(m):
                noise[j, column] += gain[i, j] * noise_root[i, column]
    root = _factor(deviations, weights, noise)
    mean = np.empty((1, points.shape[1]))
    manifold.plus_row(points, 0, step, 0, layout, mean, 0)
    if manifold.is_curved(layout):
        root = triangularise(manifold.right_jacobian(step[0], layout) @ root)
    return mean[0], root, sigma_points(mean[0], root, weights[0], layout), innovation[0], innovation_root, nis


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
        self._weights = (weights or Weights.scaled(space.dimension)).packed()
        self.cross_covariance: Matrix = np.zeros((space.dimension, space.dimension))
        self.set_state(mean, covariance)

    def set_state(self, mean: Vector, covariance: Matrix) -> None:
        """Start anew from a mean (a,) and covariance (n, n)."""
        mean, covariance = self.space.moments(mean, covariance)
        self._restart(mean, covariance_root(covariance))

    def _restart(self, mean: Vector, root: Matrix) -> None:
        self.mean = mean
        self.root = root
        self.points = sigma_points(mean, root, self._weights[0], self.space.layout)

    @property
    def covariance(self) -> Matrix:
        """(n, n) covariance of the error in the tangent space at the mean."""
        covariance: Matrix = self.root @ self.root.T
        return covariance

    def snapshot(self) -> tuple[Vector, Matrix, Matrix]:
        """All of its state. Arrays are replaced, never written, by the filter: no copy is needed."""
        return self.mean, self.root, self.points

    def restore(self, snapshot: tuple[Vector, Matrix, Matrix]) -> None:
        """Return to a snapshot."""
        self.mean, self.root, self.points = snapshot

    def predict(self, propagate: BatchModel, noise_root: Matrix) -> None:
        """Move the state by `propagate`, which maps sigma points (2n + 1, a) to their successors.

        Parameters
        ----------
        noise_root
            (n, q) any factor G of the process noise's covariance Q = G G^T, in the tangent space.
        """
        moved = propagate(self.points)
        if moved.shape != self.points.shape or len(noise_root) != self.space.dimension:
            raise ValueError(
                f"shapes do not fit: points {self.points.shape}, moved {moved.shape}, noise root {noise_root.shape}"
            )
        self.mean, self.root, self.points, self.cross_covariance = predict_moments(
            self.points, moved, noise_root, self._weights, self.space.layout
        )

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
        threshold = np.inf if gate is None else gate.threshold(space.dimension)
        seen = self._correct(measure, measured, noise_root, space, threshold)
        if gate is not None and gate.count(seen.accepted):
            inflation = gate.inflation(seen)
            self._restart(self.mean, self.root * np.sqrt(inflation))
            seen = replace(self._correct(measure, measured, noise_root, space, np.inf), inflation=inflation)
        return seen

    def _correct(
        self, measure: BatchModel, measured: Vector, noise_root: Matrix, space: StateSpace, threshold: float
    ) -> Innovation:
        points = self.points
        predicted = measure(points)
        coordinates, size = space.coordinate_count, space.dimension
        if (
            predicted.shape != (len(points), coordinates)
            or measured.shape != (coordinates,)
            or noise_root.shape != (size, size)
        ):
            raise ValueError(
                f"shapes do not fit a measurement of {coordinates} coordinates for {len(points)} sigma points: "
                f"predicted {predicted.shape}, measured {measured.shape}, noise root {noise_root.shape}"
            )
        mean, root, new_points, innovation, innovation_root, nis = correct_moments(
            points, predicted, measured, noise_root, self._weights, self.space.layout, space.layout, threshold
        )
        accepted = nis <= threshold
        if accepted:
            self.mean, self.root, self.points = mean, root, new_points
        return Innovation(innovation, innovation_root, nis, accepted)


@lru_cache(maxsize=64)
def _vector_space(size: int) -> StateSpace:
    return StateSpace(vector("z", tuple(map(str, range(size))), ""))
