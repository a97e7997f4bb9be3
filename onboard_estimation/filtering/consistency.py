"""Is the filter as sure as it should be? NEES, coverage and their chi-square bounds.

Bar-Shalom, Li and Kirubarajan, "Estimation with applications to tracking and navigation", 2001, section 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2


def nees(errors: NDArray[np.float64], covariances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalised estimation error squared e^T P^-1 e of (..., n) errors with (..., n, n) covariances.

    Chi-square with n degrees of freedom for a consistent filter. NaN where the error or the covariance is.
    """
    errors = np.asarray(errors, dtype=np.float64)
    covariances = np.asarray(covariances, dtype=np.float64)
    out = np.full(errors.shape[:-1], np.nan)
    valid = np.isfinite(errors).all(axis=-1) & np.isfinite(covariances).all(axis=(-2, -1))
    if valid.any():
        good = errors[valid]
        out[valid] = np.einsum("ki,ki->k", good, np.linalg.solve(covariances[valid], good[..., None])[..., 0])
    return out


def chi_square_band(degrees_of_freedom: int, probability: float = 0.95, runs: int = 1) -> tuple[float, float]:
    """Two-sided band that the mean of `runs` independent NEES (or NIS) values stays in with that probability."""
    tail = 0.5 * (1.0 - probability)
    total = degrees_of_freedom * runs
    return float(chi2.ppf(tail, total) / runs), float(chi2.ppf(1.0 - tail, total) / runs)


@dataclass(frozen=True)
class Consistency:
    """NEES over several runs, and coverage.

    Attributes
    ----------
    mean_nees
        Mean over runs and time, divided by the degrees of freedom: 1 for a consistent filter, above: overconfident.
    share_in_band
        Share of the instants at which the NEES averaged over the runs lies in its band.
    band
        The band, for the NEES averaged over the runs.
    coverage_1_sigma, coverage_3_sigma
        Share of single errors within one and three standard deviations (0.683 and 0.997 for Gaussian errors).
    """

    runs: int
    degrees_of_freedom: int
    mean_nees: float
    share_in_band: float
    band: tuple[float, float]
    coverage_1_sigma: float
    coverage_3_sigma: float


def judge_consistency(
    nees_values: NDArray[np.float64],
    errors: NDArray[np.float64],
    stddevs: NDArray[np.float64],
    probability: float = 0.95,
) -> Consistency:
    """Consistency of S runs of K instants: NEES (S, K), errors and standard deviations (S, K, n).

    Judged across runs, instant by instant, because the errors of one run are correlated in time: even an exactly
    consistent filter leaves the band of the time-averaged NEES in most runs.
    """
    runs, _, dimension = errors.shape
    band = chi_square_band(dimension, probability, runs)
    averaged = np.nanmean(nees_values, axis=0)
    averaged = averaged[np.isfinite(averaged)]
    return Consistency(
        runs=runs,
        degrees_of_freedom=dimension,
        mean_nees=float(np.nanmean(nees_values) / dimension),
        share_in_band=float(np.mean((averaged >= band[0]) & (averaged <= band[1]))),
        band=band,
        coverage_1_sigma=coverage(errors, stddevs, 1.0),
        coverage_3_sigma=coverage(errors, stddevs, 3.0),
    )


def coverage(errors: NDArray[np.float64], stddevs: NDArray[np.float64], sigmas: float) -> float:
    """Share of the finite errors within that many standard deviations; NaN where there are none."""
    ratio = np.abs(errors) / stddevs
    ratio = ratio[np.isfinite(ratio)]
    return float(np.mean(ratio <= sigmas)) if ratio.size else float("nan")
