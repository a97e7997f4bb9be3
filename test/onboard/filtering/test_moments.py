"""Filters on moments, linear and on manifolds, against FilterPy, exact posteriors and sampled rotations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from scipy.spatial.transform import Rotation

from onboard_estimation.filtering.gating import Gate
from onboard_estimation.filtering.moments import Moments, predict, update
from onboard_estimation.filtering.square_root import NotPositiveDefinite, covariance_root
from onboard_estimation.filtering.state_space import StateSpace, so3, vector


def plain(size: int) -> StateSpace:
    return StateSpace(vector("x", tuple(map(str, range(size))), ""))


def random_covariance(rng: np.random.Generator, size: int, scale: float = 1.0) -> np.ndarray:
    root = scale * rng.normal(size=(size, size))
    return root @ root.T + 0.1 * scale**2 * np.eye(size)


def test_linear_filter_gives_the_numbers_of_filterpy() -> None:
    rng = np.random.default_rng(0)
    ours = Moments(rng.normal(size=4), random_covariance(rng, 4))
    theirs = KalmanFilter(dim_x=4, dim_z=2)
    theirs.x, theirs.P = ours.mean.reshape(-1, 1), ours.covariance.copy()
    for _ in range(60):
        transition, observation = np.eye(4) + 0.2 * rng.normal(size=(4, 4)) - 0.1 * np.eye(4), rng.normal(size=(2, 4))
        process_noise, noise = random_covariance(rng, 4, 0.3), random_covariance(rng, 2, 0.5)
        offset, measured = rng.normal(size=4), 3.0 * rng.normal(size=2)
        ours = predict(ours, transition @ ours.mean + offset, transition, process_noise)
        theirs.predict(u=offset.reshape(-1, 1), B=np.eye(4), F=transition, Q=process_noise)
        ours, seen, rejected = update(plain(4), ours, measured - observation @ ours.mean, observation, noise)
        theirs.update(measured.reshape(-1, 1), R=noise, H=observation)
        np.testing.assert_allclose(ours.mean, theirs.x.ravel(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(ours.covariance, theirs.P, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(seen.value, theirs.y.ravel(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(seen.covariance, theirs.S, rtol=1e-10, atol=1e-10)
        assert seen.nis == pytest.approx(theirs.mahalanobis**2, rel=1e-9)
        assert (seen.accepted, rejected) == (True, 0)
        np.testing.assert_array_equal(ours.covariance, ours.covariance.T)


def test_covariance_survives_measurements_far_more_precise_than_the_prior() -> None:
    """Two nearly equal directions measured to a millionth of the prior's scale. The exact answer comes from rational
    arithmetic; the textbook form (I - K H) P loses it, and its sign."""
    observation = [[Fraction(1), Fraction(1)], [Fraction(1), 1 + Fraction(1, 2**10)]]
    variance, prior = Fraction(1, 2**24), Fraction(2**20)
    a, b, c = 1 / prior, Fraction(0), 1 / prior
    for first, second in observation:
        a, b, c = a + first**2 / variance, b + first * second / variance, c + second**2 / variance
    determinant = a * c - b * b
    exact = np.array([[c / determinant, -b / determinant], [-b / determinant, a / determinant]], dtype=float)
    before, h, noise = Moments(np.zeros(2), 2.0**20 * np.eye(2)), np.array(observation, float), 2.0**-24 * np.eye(2)
    after, _, _ = update(plain(2), before, np.zeros(2), h, noise)
    np.testing.assert_allclose(np.linalg.eigvalsh(after.covariance), np.linalg.eigvalsh(exact), rtol=1e-3)


def test_covariance_after_a_large_correction_is_that_of_the_sampled_rotations() -> None:
    """Errors drawn in the old tangent space, turned into rotations and looked at from the corrected one."""
    rng = np.random.default_rng(7)
    space = StateSpace(so3("attitude"))
    noise = np.diag([1e-4, 9e-4, 4e-6])
    filtered = Moments(Rotation.from_rotvec([0.3, -0.2, 2.0]).as_quat(), np.eye(3))
    before = Rotation.from_quat(filtered.mean)
    filtered, _, _ = update(space, filtered, np.array([0.9, -0.6, 0.8]), np.eye(3), noise)
    # With H = I the posterior in the old tangent space is known in closed form.
    step, posterior = np.array([0.9, -0.6, 0.8]) / (1.0 + np.diag(noise)), np.diag(noise) / (1.0 + np.diag(noise))
    drawn = before * Rotation.from_rotvec(step + rng.normal(size=(200_000, 3)) * np.sqrt(posterior))
    centre = before * Rotation.from_rotvec(step)
    assert (Rotation.from_quat(filtered.mean).inv() * centre).magnitude() < 1e-12
    errors = (centre.inv() * drawn).as_rotvec()
    scale = np.sqrt(np.diag(filtered.covariance))
    sampled = errors.T @ errors / len(errors)
    expected = filtered.covariance / np.outer(scale, scale)
    np.testing.assert_allclose(sampled / np.outer(scale, scale), expected, atol=0.01)


def test_a_gated_measurement_leaves_the_state_alone_and_many_bring_it_back() -> None:
    gate, observation, noise, rejected = Gate(0.95, recover_after=3), np.array([[1.0, 0.0]]), np.array([[3.0]]), 0
    before = Moments(np.zeros(2), np.eye(2))
    # S = 1 + 3 = 4: the gate is 1.96 times two.
    assert update(plain(2), before, np.array([3.9]), observation, noise, gate)[1].accepted
    for count in (1, 2):
        after, seen, rejected = update(plain(2), before, np.array([5.0]), observation, noise, gate, rejected)
        assert after is before
        assert (seen.accepted, rejected) == (False, count)
        assert seen.nis == pytest.approx(25.0 / 4.0)
    after, seen, counted = update(plain(2), before, np.array([5.0]), observation, noise, gate, rejected, False)
    assert after is before, "other sensors confirm the state"
    assert (seen.accepted, counted) == (False, 3)
    after, seen, rejected = update(plain(2), before, np.array([5.0]), observation, noise, gate, rejected)
    assert (seen.accepted, rejected) == (True, 0)
    inflation = 25.0 / 4.0 / 3.841459
    assert seen.inflation == pytest.approx(inflation, rel=1e-6)
    assert seen.nis == pytest.approx(25.0 / (inflation + 3.0))
    assert after.mean[0] == pytest.approx(5.0 * inflation / (inflation + 3.0))
    np.testing.assert_allclose(after.covariance, np.diag([inflation * 3.0 / (inflation + 3.0), inflation]), rtol=1e-6)


def test_covariance_with_a_negative_eigenvalue_has_no_root() -> None:
    with pytest.raises(NotPositiveDefinite, match=r"smallest eigenvalue -1$"):
        covariance_root(np.array([[1.0, 2.0], [2.0, 1.0]]))
    for broken in (np.diag([1.0, np.nan]), np.diag([1.0, np.inf]), np.diag([1e12, -1e-6]), [[0.0, 1.0], [1.0, 5.0]]):
        with pytest.raises(NotPositiveDefinite):
            covariance_root(np.array(broken))


def test_root_keeps_the_digits_of_small_variances_beside_large_ones() -> None:
    scale = np.array([1e6, 1.0, 1e-7])
    correlation = np.array([[1.0, 0.9, -0.5], [0.9, 1.0, -0.3], [-0.5, -0.3, 1.0]])
    root = covariance_root(np.outer(scale, scale) * correlation)
    np.testing.assert_allclose(root @ root.T / np.outer(scale, scale), correlation, rtol=1e-12)
    np.testing.assert_allclose(covariance_root(np.diag([0.0, 4.0])), np.diag([0.0, 2.0]))
    np.testing.assert_allclose(covariance_root(np.ones((2, 2))) @ covariance_root(np.ones((2, 2))).T, 1.0, atol=1e-12)
