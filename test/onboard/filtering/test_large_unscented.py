"""Algebra of the unscented filter for many states, against the textbook's weighted sums and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from onboard_estimation.filtering import large_unscented as large


@pytest.mark.parametrize(("alpha", "kappa"), [(1.0, 0.0), (0.3, 1.0), (1e-2, 0.0)])
def test_moments_of_moved_points_are_van_der_merwe_s_weighted_sums(alpha: float, kappa: float) -> None:
    """Two states of five move; then three outputs are read, of which the last is a state as it is."""
    n, rng = 5, np.random.default_rng(0)
    mean, root = rng.normal(size=n), np.tril(rng.normal(size=(n, n))) + 2.0 * np.eye(n)
    spread, scaling = alpha * np.sqrt(n + kappa), alpha**2 * (n + kappa)
    points = np.full((n, 2 * n + 1), np.nan)
    large.draw(mean, root, spread, points)
    drawn = np.column_stack([mean, mean[:, None] + spread * root, mean[:, None] - spread * root])
    np.testing.assert_allclose(points, drawn, atol=1e-15)
    weights = np.full(2 * n + 1, 0.5 / scaling)
    weights[0] = 1.0 - n / scaling
    squares, tolerance = weights.copy(), 1e-11 / alpha**2  # the textbook's weights are that large
    squares[0] += 1.0  # 1 - alpha^2 + beta, with beta = alpha^2

    def textbook(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = values @ weights
        return found, ((values - found[:, None]) * squares) @ (values - found[:, None]).T

    moved = np.vstack([points[:3], np.sin(points[3]) * points[0], points[4] ** 2 + points[1]])
    after, covariance = large.predicted(mean, root @ root.T, root, moved[3:].copy(), spread)
    expected = textbook(moved)
    np.testing.assert_allclose(after, expected[0], rtol=tolerance)
    np.testing.assert_allclose(np.tril(covariance), np.tril(expected[1]), rtol=tolerance, atol=tolerance)

    outputs, place = np.vstack([points[0] * points[1], 2.0 * points[2] - points[4]]), np.array([3])
    found = large.expected(mean, root @ root.T, outputs, place, spread, root, mean, False)
    joint = textbook(np.vstack([points, outputs, points[3]]))
    np.testing.assert_allclose(found[0], joint[0][n:], rtol=tolerance)
    np.testing.assert_allclose(np.tril(found[1]), np.tril(joint[1][n:, n:]), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[2], joint[1][n:, :n], rtol=tolerance, atol=tolerance)
    # What is linear in the state does not bend.
    assert np.abs(found[3][1]).max() < 1e-13 / alpha < found[3][0, 0]


def test_correction_is_kalman_s_also_by_points_from_elsewhere_where_a_model_is_linear() -> None:
    n, rng = 4, np.random.default_rng(2)
    mean, root, slope = rng.normal(size=n), np.tril(rng.normal(size=(n, n))) + 2.0 * np.eye(n), rng.normal(size=(2, n))
    covariance, noise, value = root @ root.T, np.diag([0.3, 0.2, 0.1]), rng.normal(size=3)
    whole = np.vstack([slope, np.eye(n)[1]])
    gain = covariance @ whole.T @ np.linalg.inv(whole @ covariance @ whole.T + noise)
    for at, of, elsewhere in ((mean, root, False), (mean + 1.0, 0.5 * np.eye(n), True)):
        points = np.empty((n, 2 * n + 1))
        large.draw(at, of, 1.7, points)
        given = slope @ points, np.array([1]), 1.7, of, at, elsewhere
        expected, total, cross, _ = large.expected(mean, covariance, *given)
        after, left = large.corrected(mean, covariance, value - expected, total + noise, cross)
        np.testing.assert_allclose(after, mean + gain @ (value - whole @ mean), rtol=1e-10)
        np.testing.assert_allclose(left, covariance - gain @ whole @ covariance, rtol=1e-9, atol=1e-10)


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
