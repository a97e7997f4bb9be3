"""Consistency measures: drawn errors of known covariance must be judged as what they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import chi2, kstest

from onboard_estimation.filtering.consistency import (
    chi_square_band,
    coverage,
    effective_sample_size,
    nees,
)

RUNS, INSTANTS, DIMENSION = 50, 400, 3


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Errors (S, K, n), independent, and the covariances (S, K, n, n) that they were drawn from."""
    rng = np.random.default_rng(4)
    roots = rng.normal(size=(RUNS, INSTANTS, DIMENSION, DIMENSION)) * np.array([1e-3, 1.0, 50.0])[:, None]
    errors = np.einsum("skij,skj->ski", roots, rng.normal(size=(RUNS, INSTANTS, DIMENSION)))
    return errors, roots @ roots.swapaxes(-1, -2)


def test_nees_is_the_quadratic_form_and_nan_where_something_is_unknown() -> None:
    correlated = np.array([[2.0, 1.0], [1.0, 2.0]])  # inverse: [[2, -1], [-1, 2]] / 3
    covariances = np.array([correlated, correlated, [[2.0, np.inf], [0.0, 2.0]]])
    nothing = np.full((2, 3), np.nan)
    assert np.isnan(coverage(nothing, nothing, 3.0))
    found = nees(np.array([[1.0, -1.0], [np.nan, 1.0], [1.0, 1.0]]), covariances)
    np.testing.assert_allclose(found, [2.0, np.nan, np.nan])
    assert coverage(np.array([0.5, -2.0, np.nan, 1.0]), np.array([1.0, 1.0, 1.0, np.nan]), 1.0) == 0.5


def test_nees_of_drawn_errors_is_chi_square(drawn) -> None:
    errors, covariances = drawn
    assert kstest(nees(errors, covariances).ravel(), chi2(DIMENSION).cdf).pvalue > 0.05
    assert kstest(nees(errors, 1.1 * covariances).ravel(), chi2(DIMENSION).cdf).pvalue < 1e-3


def test_band_agrees_with_the_printed_table() -> None:
    # Bar-Shalom et al., section 5.4.2: 50 runs, two degrees of freedom, [1.5, 2.6] for the mean.
    assert chi_square_band(2, 0.95, 50) == pytest.approx((74.2 / 50.0, 129.6 / 50.0), abs=2e-3)


@pytest.mark.parametrize(
    ("claimed", "one_sigma", "three_sigma"),
    [(1.0, 0.6827, 0.9973), (0.5, 0.3829, 0.8664), (2.0, 0.9545, 1.0)],
    ids=["consistent", "overconfident", "timid"],
)
def test_filters_are_found_to_be_what_they_are(drawn, claimed: float, one_sigma: float, three_sigma: float) -> None:
    """Standard deviations are claimed that factor too large: shares of the normal distribution's table."""
    errors, covariances = drawn
    values = nees(errors, claimed**2 * covariances)
    assert np.mean(values) / DIMENSION == pytest.approx(claimed**-2, rel=0.02)
    stddevs = claimed * np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    assert coverage(errors, stddevs, 1.0) == pytest.approx(one_sigma, abs=0.01)
    assert coverage(errors, stddevs, 3.0) == pytest.approx(three_sigma, abs=0.01 if claimed < 1.0 else 0.001)


def test_effective_sample_size_of_drawn_errors() -> None:
    """First-order autoregressive errors of correlation r: K (1 - r) / (1 + r)."""
    white = np.random.default_rng(6).normal(size=(20_000, 2))
    coloured = lfilter([np.sqrt(1.0 - 0.9**2)], [1.0, -0.9], white, axis=0)
    assert effective_sample_size(white) == pytest.approx(20_000, rel=0.1)
    assert effective_sample_size(coloured) == pytest.approx(20_000 * 0.1 / 1.9, rel=0.15)
    assert effective_sample_size(np.full((1000, 2), 0.3)) == 1.0
    coloured[::7] = np.nan
    assert np.isfinite(effective_sample_size(coloured))
