"""Algebra of the unscented filter for many states, against the textbook's weighted sums and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.filtering import large_unscented as large


@pytest.mark.parametrize(("alpha", "beta", "kappa"), [(1.0, 1.0, 0.0), (0.3, 2.0, 1.0), (1e-2, 2.0, 0.0)])
def test_moments_of_moved_points_are_van_der_merwe_s_weighted_sums(alpha: float, beta: float, kappa: float) -> None:
    n, rng = 5, np.random.default_rng(0)
    mean, root = rng.normal(size=n), np.tril(rng.normal(size=(n, n)))
    spread = alpha * np.sqrt(n + kappa)
    points = np.full((n + 2, 2 * n + 1), np.nan)
    rows = np.array([0, 2, 3, 5, 6])  # what the others are is not its business
    large.draw(mean, root, spread, rows, points)
    expected = np.column_stack([mean, mean[:, None] + spread * root, mean[:, None] - spread * root])
    np.testing.assert_allclose(points[rows], expected, atol=1e-15)
    assert np.isnan(points[[1, 4]]).all()

    moved = np.array([np.sin(points[0]) * points[2], points[3] ** 2, points[5] + 2.0 * points[6]])
    odd, even, shift = np.empty((2, n)), np.empty((2, n)), np.empty(2)
    large.deviations(moved, np.array([0, 2]), n, spread, odd, even, shift)
    covariance = (beta - alpha**2) * np.outer(shift, shift)
    large.add_square(1.0, odd, covariance)
    large.add_square(1.0, even, covariance)

    scaling = alpha**2 * (n + kappa)
    weights = np.full(2 * n + 1, 0.5 / scaling)
    weights[0] = 1.0 - n / scaling
    textbook = moved[[0, 2]] @ weights
    apart = moved[[0, 2]] - textbook[:, None]
    weights[0] += 1.0 - alpha**2 + beta
    tolerance = 1e-11 / alpha**2  # the textbook's weights are that large
    np.testing.assert_allclose(moved[[0, 2], 0] + shift, textbook, rtol=tolerance)
    np.testing.assert_allclose(np.tril(covariance), np.tril((apart * weights) @ apart.T), rtol=tolerance)
    before = expected - mean[:, None]
    weights[0] = 0.0
    np.testing.assert_allclose(root @ odd.T, (before * weights) @ apart.T, rtol=tolerance, atol=tolerance)
    # What is linear in the state does not bend.
    assert np.abs(even[1]).max() < 1e-13 / alpha


@pytest.mark.parametrize("size", [1, 7, 95, 200])
def test_triangular_algebra_is_numpy_s(size: int) -> None:
    """Sizes below, at the edge of and above the blocks."""
    rng = np.random.default_rng(size)
    factor, start = rng.normal(size=(size, 30)), rng.normal(size=(size, size))
    found = start.copy()
    large.add_square(-1.0, factor, found)
    np.testing.assert_allclose(np.tril(found), np.tril(start - factor @ factor.T), atol=1e-12)
    large.mirror(found)
    np.testing.assert_array_equal(found, found.T)
    root, right = np.tril(start) + 20.0 * np.eye(size), rng.normal(size=(size, 11))
    solved = right.copy()
    large.solve_lower(root, solved)
    np.testing.assert_allclose(root @ solved, right, atol=1e-11)
    product, left = np.empty((11, size)), np.ascontiguousarray(right.T)
    large.times_transposed_root(left, root, product)
    np.testing.assert_allclose(product, left @ root.T, atol=1e-11)
