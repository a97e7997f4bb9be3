"""Weights of particles: normalised, judged, turned into descendants; and what their outputs say of a reading."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


def normalised(log_weights: Array) -> tuple[Array, float]:
    """Weights (N,) of sum 1, and the logarithm of the sum before; -inf weighs nothing.

    Raises
    ------
    ArithmeticError
        No particle weighs anything.
    """
    highest = float(log_weights.max())
    if not np.isfinite(highest):
        raise ArithmeticError(f"none of {len(log_weights)} particles has a weight: their outputs are no numbers")
    weights = np.exp(log_weights - highest)
    total = float(weights.sum())
    return weights / total, highest + math.log(total)


def effective_sample_size(weights: Array) -> float:
    """1 / sum w^2: N for equal weights of sum 1, 1 where one particle has all."""
    return 1.0 / float(weights @ weights)


def systematic(weights: Array, uniform: float) -> Indices:
    """Ancestors (N,) in rising order: particle i has N w_i descendants on average, and less than one more or less.

    `uniform` in [0, 1) places one comb of N equal teeth on the weights (Kitagawa, 1996).
    """
    edges = np.cumsum(weights)
    teeth = uniform * float(weights.sum()) / len(weights) + np.arange(len(weights)) * (edges[-1] / len(weights))
    # Rounding may put the last tooth on the last edge.
    return np.minimum(np.searchsorted(edges, teeth, side="right"), np.flatnonzero(weights)[-1])


def moments(weights: Array, rows: Array) -> tuple[Array, Array]:
    """Mean (d,) and covariance (d, d) of weighted rows (N, d)."""
    mean = weights @ rows
    deviations = rows - mean
    return mean, (weights[:, None] * deviations).T @ deviations


def factorised(covariance: Array) -> tuple[Array, Array]:
    """Lower root (m, m) of a positive covariance, and its inverse."""
    root, inverse = np.zeros_like(covariance), np.zeros_like(covariance)
    _factorise(covariance, root, inverse)
    return root, inverse


def log_constant(root: Array) -> float:
    """Logarithm of a normal density at its mean, from a root (m, m) of its covariance."""
    return -sum(map(math.log, root.diagonal().tolist())) - 0.5 * len(root) * math.log(2.0 * math.pi)


@njit(cache=True, error_model="numpy")
def _factorise(covariance: Array, root: Array, inverse: Array) -> None:
    """Into the zeros of `root` its Cholesky factor, of `inverse` that one's inverse. LAPACK takes longer to call."""
    for i in range(covariance.shape[0]):
        for j in range(i + 1):
            total = covariance[i, j]
            for k in range(j):
                total -= root[i, k] * root[j, k]
            root[i, j] = math.sqrt(total) if i == j else total / root[j, j]
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for k in range(j, i):
                total -= root[i, k] * inverse[k, j]
            inverse[i, j] = total / root[i, i]


@njit(cache=True, error_model="numpy")
def log_densities(errors: Array, heard: Indices, whitening: Array, constant: float, out: Array) -> None:
    """Into `out` (N,) log densities of the elements `heard` (h,) of `errors` (N, m); -inf where they are no numbers.

    `whitening` (h, h) is the inverse of the lower root of their covariance.
    """
    for i in range(errors.shape[0]):
        total = 0.0
        for row in range(heard.size):
            value = 0.0
            for column in range(row + 1):
                value += whitening[row, column] * errors[i, heard[column]]
            total += value * value
        out[i] = constant - 0.5 * total if total < np.inf else -np.inf


@njit(cache=True, error_model="numpy")
def scatter(weights: Array, densities: Array, rows: Array, mean: Array, covariance: Array) -> None:
    """Into `mean` (m,) and `covariance` (m, m) those of weighted `rows` (N, m), without those of log density -inf.

    Of no rows they are zero.
    """
    m, total = mean.size, 0.0
    mean[:] = 0.0
    covariance[:] = 0.0
    for i in range(rows.shape[0]):
        if densities[i] > -np.inf:
            total += weights[i]
            for j in range(m):
                mean[j] += weights[i] * rows[i, j]
    if not total > 0.0:
        return
    for j in range(m):
        mean[j] /= total
    for i in range(rows.shape[0]):
        if densities[i] > -np.inf:
            weight = weights[i] / total
            for j in range(m):
                for k in range(m):
                    covariance[j, k] += weight * (rows[i, j] - mean[j]) * (rows[i, k] - mean[k])


# Random numbers of a filter that can be rolled back: they are part of its state, not of a generator's.


class Draws(NamedTuple):
    """The random numbers to come.

    Attributes
    ----------
    key
        Seed, not negative, less than 2**128: other keys give independent numbers.
    taken
        How many generators were taken, less than 2**64.
    """

    key: int
    taken: int = 0

    def generator(self) -> tuple[np.random.Generator, Draws]:
        """A generator for one step, and the numbers after it.

        It may give 2**192 blocks before it comes to those of the next.
        """
        return np.random.Generator(np.random.Philox(key=self.key, counter=self.taken << 192)), Draws(
            self.key, self.taken + 1
        )
