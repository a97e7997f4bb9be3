"""Consistency measures: drawn errors of known covariance must be judged as what they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from onboard_estimation.filtering.consistency import (
    chi_square_band,
    coverage,
    effective_sample_size,
    judge_consistency,
    nees,
    overconfidence_p_value,
)

RUNS, INSTANTS, DIMENSION = 50, 400, 3


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Errors (S, K, n), independent, and the covariances (S, K, n, n) that they were drawn from."""
    rng = np.random.default_rng(4)
    roots = rng.normal(size=(RUNS, INSTANTS, DIMENSION, DIMENSION)) * np.array([1e-3, 1.0, 50.0])[:, None]
    errors = np.einsum("skij,skj->ski", roots, rng.normal(size=(RUNS, INSTANTS, DIMENSION)))
    return errors, roots @ roots.swapaxes(-1, -2)


def judged(errors: np.ndarray, covariances: np.ndarray, **options):
    stddevs = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    return judge_consistency(nees(errors, covariances), errors, stddevs, **options)


def test_nees_is_the_quadratic_form() -> None:
    assert nees(np.array([1.0, 2.0]), np.array([[2.0, 0.0], [0.0, 8.0]])) == pytest.approx(1.0)
    correlated = np.array([[2.0, 1.0], [1.0, 2.0]])  # inverse: [[2, -1], [-1, 2]] / 3
    assert nees(np.array([1.0, -1.0]), correlated) == pytest.approx(2.0)


def test_nees_of_drawn_errors_is_chi_square(drawn) -> None:
    values = nees(*drawn)
    assert values.shape == (RUNS, INSTANTS)
    assert kstest(values.ravel(), chi2(DIMENSION).cdf).pvalue > 0.05
    errors, covariances = drawn
    assert kstest(nees(errors, 1.1 * covariances).ravel(), chi2(DIMENSION).cdf).pvalue < 1e-3


def test_nees_is_nan_where_the_error_or_the_covariance_is_unknown(drawn) -> None:
    errors, covariances = drawn[0][0, :3].copy(), drawn[1][0, :3].copy()
    expected = nees(errors, covariances)
    errors[0, 1] = np.nan
    covariances[1, 0, 2] = np.inf
    np.testing.assert_array_equal(np.isnan(nees(errors, covariances)), [True, True, False])
    assert nees(errors, covariances)[2] == expected[2]


@pytest.mark.parametrize(("degrees", "runs", "probability"), [(3, 1, 0.95), (2, 20, 0.95), (5, 7, 0.8)])
def test_band_holds_the_mean_of_drawn_values_with_its_probability(degrees: int, runs: int, probability: float) -> None:
    lower, upper = chi_square_band(degrees, probability, runs)
    means = np.random.default_rng(5).chisquare(degrees, size=(200_000, runs)).mean(axis=1)
    assert np.mean(means < lower) == pytest.approx(0.5 * (1.0 - probability), abs=0.003)
    assert np.mean(means > upper) == pytest.approx(0.5 * (1.0 - probability), abs=0.003)


def test_band_agrees_with_the_printed_table() -> None:
    # Bar-Shalom et al., section 5.4.2: 50 runs, two degrees of freedom, [1.5, 2.6] for the mean.
    assert chi_square_band(2, 0.95, 50) == pytest.approx((74.2 / 50.0, 129.6 / 50.0), abs=2e-3)


def test_consistent_filter_is_found_consistent(drawn) -> None:
    result = judged(*drawn)
    assert (result.runs, result.degrees_of_freedom) == (RUNS, DIMENSION)
    assert result.band == chi_square_band(DIMENSION, 0.95, RUNS)
    assert result.nees_per_degree_of_freedom == pytest.approx(1.0, abs=0.02)
    assert result.share_in_band == pytest.approx(0.95, abs=0.03)
    assert result.coverage_1_sigma == pytest.approx(0.6827, abs=0.01)
    assert result.coverage_3_sigma == pytest.approx(0.9973, abs=0.001)


def test_overconfident_and_timid_filters_are_found_out(drawn) -> None:
    errors, covariances = drawn
    overconfident = judged(errors, covariances / 2.0**2)
    assert overconfident.nees_per_degree_of_freedom == pytest.approx(4.0, abs=0.1)
    assert overconfident.share_in_band == 0.0
    assert overconfident.coverage_3_sigma == pytest.approx(0.8664, abs=0.01)  # 1.5 sigma
    timid = judged(errors, covariances * 2.0**2)
    assert timid.nees_per_degree_of_freedom == pytest.approx(0.25, abs=0.01)
    assert timid.share_in_band == 0.0
    assert timid.coverage_1_sigma == pytest.approx(0.9545, abs=0.01)  # 2 sigma


def test_share_in_the_band_follows_the_probability_asked_for(drawn) -> None:
    assert judged(*drawn, probability=0.5).share_in_band == pytest.approx(0.5, abs=0.08)


def test_instants_without_truth_count_with_the_runs_that_have_it(drawn) -> None:
    """Truth that covers a part: the mean over the five runs left scatters more, and so must the band."""
    errors, covariances = drawn[0].copy(), drawn[1]
    errors[5:, INSTANTS // 2 :] = np.nan
    errors[:, -10:] = np.nan
    result = judged(errors, covariances)
    assert result.nees_per_degree_of_freedom == pytest.approx(1.0, abs=0.02)
    assert result.share_in_band == pytest.approx(0.95, abs=0.03)
    nothing = judged(np.full_like(errors, np.nan), covariances)
    assert np.isnan([nothing.nees_per_degree_of_freedom, nothing.share_in_band, nothing.coverage_3_sigma]).all()


def test_coverage_leaves_out_what_is_unknown() -> None:
    errors, stddevs = np.array([0.5, -2.0, np.nan, 1.0]), np.array([1.0, 1.0, 1.0, np.nan])
    assert coverage(errors, stddevs, 1.0) == 0.5
    assert np.isnan(coverage(np.array([np.nan]), np.array([1.0]), 1.0))


def test_effective_sample_size_of_drawn_errors() -> None:
    """First-order autoregressive errors of correlation r: K (1 - r) / (1 + r)."""
    rng = np.random.default_rng(6)
    count, correlation = 20_000, 0.9
    white = rng.normal(size=(count, 2))
    coloured = np.empty_like(white)
    coloured[0] = white[0]
    for k in range(1, count):
        coloured[k] = correlation * coloured[k - 1] + np.sqrt(1.0 - correlation**2) * white[k]
    assert effective_sample_size(white) == pytest.approx(count, rel=0.1)
    assert effective_sample_size(coloured) == pytest.approx(count * 0.1 / 1.9, rel=0.15)
    assert effective_sample_size(np.full((1000, 2), 0.3)) == 1.0
    coloured[::7] = np.nan
    assert np.isfinite(effective_sample_size(coloured))


def test_p_value_of_a_mean_nees_is_the_share_of_consistent_filters_beyond_it() -> None:
    means = np.random.default_rng(7).chisquare(3, size=(200_000, 10)).mean(axis=1)
    for mean_nees in (3.0, 4.0, 5.0):
        assert overconfidence_p_value(mean_nees, 3, 10.0) == pytest.approx(np.mean(means >= mean_nees), abs=0.004)
