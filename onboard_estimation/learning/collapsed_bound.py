"""The collapsed variational bound of sparse Gaussian processes with inducing points, and its gradient.

Titsias, "Variational learning of inducing variables in sparse Gaussian processes", AISTATS 2009, eq. (9): for an output
with signal variance s^2 and noise variance r = `noise`,

    F = log N(y | 0, r I + Q) - trace(K - Q) / (2 r),    Q = K_nu K_uu^-1 K_un.

Outputs that share length scales and inducing points share the unit covariance C (K = s^2 C), and with it all that
costs: with C_uu = L L^T, V = L^-1 C_un and H = V V^T = U diag(h) U^T, each output needs sums over the M eigenvalues h.
With the ratio q = s^2 / r and w = (U^T V y)^2,

    F = -n/2 log(2 pi r) - 1/2 sum log(1 + q h) - (y^T y - sum q w / (1 + q h)) / (2 r) - q/2 (n - sum h),

and the best r for given q follows in closed form from its third term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from onboard_estimation.learning.sparse_kernels import cross_covariance
from onboard_estimation.learning.training_data import NOISE_VARIANCE_BOUNDS

Array = NDArray[np.float64]

JITTER = 1e-7
"""Added to the unit covariance of the inducing points, which is all but singular where length scales are long."""


@dataclass(frozen=True)
class Factors:
    """What follows from inducing points and length scales alone: L (M, M) lower, V (M, n), h (M,) and U (M, M)."""

    lower: Array
    whitened: Array
    eigenvalues: Array
    eigenvectors: Array

    @classmethod
    def of(cls, inputs: Array, inducing: Array, length_scales: Array) -> Factors:
        """For inputs (n, d), inducing points (M, d) and length scales (d,)."""
        scaled_inducing = np.ascontiguousarray((inducing / length_scales).T)
        scaled_inputs = np.ascontiguousarray((inputs / length_scales).T)
        return cls._of(*_covariances(scaled_inducing, scaled_inputs))

    @classmethod
    def _of(cls, among: Array, cross: Array) -> Factors:
        lower = cholesky(among, lower=True, check_finite=False)
        whitened = solve_triangular(lower, cross, lower=True, check_finite=False)
        eigenvalues, eigenvectors = eigh(whitened @ whitened.T, driver="evd", check_finite=False)
        return cls(lower, whitened, np.maximum(eigenvalues, 0.0), eigenvectors)


def noise_variances(factors: Factors, targets: Array, ratios: Array) -> Array:
    """The noise variances (m,) that maximise the bound, within NOISE_VARIANCE_BOUNDS, for q = `ratios` (m,)."""
    rotated = factors.eigenvectors.T @ (factors.whitened @ targets)
    return _noise(factors.eigenvalues, rotated, targets, ratios)


def collapsed_bound(
    inputs: Array, targets: Array, inducing: Array, length_scales: Array, ratios: Array
) -> tuple[float, Array, Array]:
    """The bound at its best noise variances, summed over outputs that share length scales and inducing points.

    Parameters
    ----------
    inputs, targets, inducing
        (n, d), (n, m) and (M, d).
    length_scales, ratios
        (d,) and (m,); a ratio is of the signal's variance to the noise's.

    Returns
    -------
    The bound, and its derivatives with respect to log length scales (d,) and log ratios (m,).
    """
    x, z = inputs / length_scales, inducing / length_scales
    among, cross = _covariances(np.ascontiguousarray(z.T), np.ascontiguousarray(x.T))
    factors = Factors._of(among, cross)
    h, y, n = factors.eigenvalues, targets, len(x)
    rotated = factors.eigenvectors.T @ (factors.whitened @ y)  # (M, m)
    noise = _noise(h, rotated, y, ratios)
    spread = 1.0 + h[:, None] * ratios
    unexplained = np.sum(y * y, axis=0) - np.sum(ratios * rotated**2 / spread, axis=0)
    missing = n - h.sum()
    value = -0.5 * (n * np.log(2.0 * np.pi * noise) + np.log(spread).sum(axis=0) + unexplained / noise)
    value -= 0.5 * ratios * missing
    by_ratio = np.sum(rotated**2 / spread**2, axis=0) / noise - np.sum(h[:, None] / spread, axis=0) - missing

    # With the weights a of the mean, c_u^T a, b = (y - C_nu a) / r and W = L^-T U, sums over outputs:
    # dF/dC_un = sum a b^T + W diag(sum q^2 h / (1 + q h)) U^T V,
    # dF/dC_uu = -1/2 sum a a^T / s^2 - 1/2 W diag(sum q^2 h^2 / (1 + q h)) W^T.
    back = solve_triangular(factors.lower, factors.eigenvectors, trans=1, lower=True, check_finite=False)
    weights = back @ (ratios * rotated / spread)
    errors = (y - cross.T @ weights) / noise
    share = np.sum(ratios**2 * h[:, None] / spread, axis=1)
    by_cross = weights @ errors.T + (back * share) @ (factors.eigenvectors.T @ factors.whitened)
    by_among = -0.5 * ((weights / (ratios * noise)) @ weights.T + (back * (share * h)) @ back.T)

    # dC_jk / dlog l_i = C_jk (z_ij - x_ik)^2, in scaled coordinates.
    by_cross *= cross
    by_among *= among
    rows, columns, among_rows = by_cross.sum(axis=1), by_cross.sum(axis=0), by_among.sum(axis=1)
    by_length = rows @ z**2 + columns @ x**2 - 2.0 * np.sum(z * (by_cross @ x), axis=0)
    by_length += 2.0 * (among_rows @ z**2 - np.sum(z * (by_among @ z), axis=0))
    return float(value.sum()), by_length, 0.5 * ratios * by_ratio


def _covariances(inducing: Array, inputs: Array) -> tuple[Array, Array]:
    """C_uu (M, M) with JITTER, and C_un (M, n), for scaled and transposed points."""
    among = cross_covariance(inducing, inducing)
    among[np.diag_indices_from(among)] += JITTER
    return among, cross_covariance(inducing, inputs)


def _noise(eigenvalues: Array, rotated: Array, targets: Array, ratios: Array) -> Array:
    explained = np.sum(ratios * rotated**2 / (1.0 + eigenvalues[:, None] * ratios), axis=0)
    return np.clip((np.sum(targets**2, axis=0) - explained) / len(targets), *NOISE_VARIANCE_BOUNDS)
