"""Is the filter as sure as it should be? NEES, coverage and their chi-square bounds.

Bar-Shalom, Li and Kirubarajan, "Estimation with applications to tracking and navigation", 2001, section 5.4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import chdtrc, gammaincinv


def nees(errors: NDArray[np.float64], covariances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalised estimation error squared e^T P^-1 e of (..., n) errors with (..., n, n) covariances.

    Chi-square with n degrees of freedom for a consistent filter. NaN where the error or the covariance is.
    """
    errors = np.asarray(errors, dtype=np.float64)
    covariances = np.asarray(covariances, dtype=np.float64)
    dimension = errors.shape[-1]
    flat_errors, flat_covariances = errors.reshape(-1, dimension), covariances.reshape(-1, dimension, dimension)
    out = np.full(len(flat_errors), np.nan)
    known = np.flatnonzero(np.isfinite(flat_errors).all(axis=1) & np.isfinite(flat_covariances).all(axis=(1, 2)))
    # A covariance without an inverse (an exactly known part) has no NEES; it must not take the others along.
    known = known[np.linalg.matrix_rank(flat_covariances[known], tol=0.0, hermitian=True) == dimension]
    if len(known):
        good = flat_errors[known]
        out[known] = np.einsum("ki,ki->k", good, np.linalg.solve(flat_covariances[known], good[..., None])[..., 0])
    return out.reshape(errors.shape[:-1])


def chi_square_band(degrees_of_freedom: int, probability: float = 0.95, runs: int = 1) -> tuple[float, float]:
    """Two-sided band that the mean of `runs` independent NEES (or NIS) values stays in with that probability."""
    tail = 0.5 * (1.0 - probability)
    total = degrees_of_freedom * runs
    low, high = 2.0 * gammaincinv(0.5 * total, [tail, 1.0 - tail]) / runs
    return float(low), float(high)


def coverage(errors: NDArray[np.float64], stddevs: NDArray[np.float64], sigmas: float) -> float:
    """Share of the finite errors within that many standard deviations; NaN where there are none."""
    ratio = np.abs(errors) / stddevs
    ratio = ratio[np.isfinite(ratio)]
    return float(np.mean(ratio <= sigmas)) if ratio.size else float("nan")


def effective_sample_size(normalised: NDArray[np.float64]) -> float:
    """How many independent samples a run's normalised errors (K, n) are worth, K at the most.

    K / (1 + 2 sum of autocorrelations), summed up to the first that is not positive. The autocorrelation is taken about
    zero, the mean that a consistent filter's errors have: a constant error is one sample, however long the run.
    """
    normalised = normalised[np.isfinite(normalised).all(axis=1)]
    count = len(normalised)
    power = float(np.sum(normalised**2))
    if count < 2 or power == 0.0:
        return float(count)
    size = next_fast_len(2 * count - 1, real=True)
    spectra = (rfft(column, size) * rfft(column[::-1], size) for column in normalised.T)
    correlation = sum(irfft(spectrum, size)[count - 1 : 2 * count - 1] for spectrum in spectra) / power
    negative = np.flatnonzero(correlation <= 0.0)
    last = int(negative[0]) if len(negative) else count
    return float(np.clip(count / (1.0 + 2.0 * np.sum(correlation[1:last])), 1.0, count))


def overconfidence_p_value(mean_nees: float, degrees_of_freedom: int, samples: float) -> float:
    """Probability that a consistent filter's mean NEES over so many independent samples is as large as this.

    The NEES is the plain one, with the degrees of freedom as its expectation, not divided by them.
    """
    return float(chdtrc(degrees_of_freedom * samples, mean_nees * samples))
