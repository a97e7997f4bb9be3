"""Filters on moments, linear and on manifolds, against FilterPy, exact posteriors and sampled rotations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from filterpy.kalman import ExtendedKalmanFilter
from filterpy.kalman import KalmanFilter as FilterPyKalmanFilter
from scipy.spatial.transform import Rotation

from onboard_estimation.filtering.gating import Gate
from onboard_estimation.filtering.moments import Moments, correct, innovate, predict, update
from onboard_estimation.filtering.square_root import NotPositiveDefinite, covariance_root, triangularise
from onboard_estimation.filtering.state_space import StateSpace, angles, so3, vector


def plain(size: int) -> StateSpace:
    return StateSpace(vector("x", tuple(map(str, range(size))), ""))


def predict_linear(moments: Moments, transition: np.ndarray, noise: np.ndarray, offset: np.ndarray) -> Moments:
    return predict(moments, transition @ moments.mean + offset, transition, noise)


def random_covariance(rng: np.random.Generator, size: int, scale: float = 1.0) -> np.ndarray:
    root = scale * rng.normal(size=(size, size))
    return root @ root.T + 0.1 * scale**2 * np.eye(size)


def random_system(seed: int, steps: int = 60, n: int = 4, m: int = 2) -> list[tuple[np.ndarray, ...]]:
    """F, b, Q, H, R, z of every step; each step has its own."""
    rng = np.random.default_rng(seed)
    return [
        (
            np.eye(n) + 0.2 * rng.normal(size=(n, n)) - 0.1 * np.eye(n),
            rng.normal(size=n),
            random_covariance(rng, n, 0.3),
            rng.normal(size=(m, n)),
            random_covariance(rng, m, 0.5),
            3.0 * rng.normal(size=m),
        )
        for _ in range(steps)
    ]


def test_linear_filter_gives_the_numbers_of_filterpy() -> None:
    rng = np.random.default_rng(0)
    mean, covariance = rng.normal(size=4), random_covariance(rng, 4)
    ours = Moments(mean, covariance)
    theirs = FilterPyKalmanFilter(dim_x=4, dim_z=2)
    theirs.x, theirs.P = mean.reshape(-1, 1), covariance.copy()
    for transition, offset, process_noise, observation, noise, measured in random_system(1):
        ours = predict_linear(ours, transition, process_noise, offset)
        theirs.predict(u=offset.reshape(-1, 1), B=np.eye(4), F=transition, Q=process_noise)
        ours, seen, rejected = update(plain(4), ours, measured - observation @ ours.mean, observation, noise)
        theirs.update(measured.reshape(-1, 1), R=noise, H=observation)
        np.testing.assert_allclose(ours.mean, theirs.x.ravel(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(ours.covariance, theirs.P, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(seen.value, theirs.y.ravel(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(seen.covariance, theirs.S, rtol=1e-10, atol=1e-10)
        assert seen.nis == pytest.approx(theirs.mahalanobis**2, rel=1e-9)
        assert seen.accepted
        assert rejected == 0
        np.testing.assert_array_equal(ours.covariance, ours.covariance.T)


def test_linear_filter_gives_the_least_squares_estimate_of_the_whole_past() -> None:
    """All states at once: weighted least squares on prior, motions and measurements; no recursion."""
    rng = np.random.default_rng(2)
    n, system = 3, random_system(3, steps=12, n=3)
    mean, covariance = rng.normal(size=n), random_covariance(rng, n)
    filtered = Moments(mean, covariance)
    count = len(system) + 1
    rows, targets = [], []

    def add(blocks: dict[int, np.ndarray], target: np.ndarray, noise: np.ndarray) -> None:
        whiten = np.linalg.inv(np.linalg.cholesky(noise))
        row = np.zeros((len(target), n * count))
        for k, block in blocks.items():
            row[:, n * k : n * (k + 1)] = block
        rows.append(whiten @ row)
        targets.append(whiten @ target)

    add({0: np.eye(n)}, mean, covariance)
    for k, (transition, offset, process_noise, observation, noise, measured) in enumerate(system):
        filtered = predict_linear(filtered, transition, process_noise, offset)
        seen = innovate(filtered, measured - observation @ filtered.mean, observation, noise)
        filtered = correct(plain(n), filtered, seen, observation, noise)
        add({k: -transition, k + 1: np.eye(n)}, offset, process_noise)
        add({k + 1: observation}, measured, noise)
    design, target = np.vstack(rows), np.hstack(targets)
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    posterior = np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(filtered.mean, solution[-n:], rtol=1e-9)
    np.testing.assert_allclose(filtered.covariance, posterior[-n:, -n:], rtol=1e-9)


def test_extended_filter_gives_the_numbers_of_filterpy() -> None:
    """Range and bearing to a beacon, constant velocity; bearings stay away from half a turn."""
    space = StateSpace(vector("position", ("x", "y"), "m"), vector("velocity", ("x", "y"), "m/s"))
    step, beacon = 0.5, np.array([30.0, -5.0])
    transition = np.eye(4) + step * np.eye(4, k=2)
    process_noise, noise = np.diag([1e-3, 1e-3, 1e-2, 1e-2]), np.diag([0.1, 1e-4])

    def measure(x: np.ndarray) -> np.ndarray:
        dx, dy = beacon - x.ravel()[:2]
        return np.array([np.hypot(dx, dy), np.arctan2(dy, dx)])

    def jacobian(x: np.ndarray) -> np.ndarray:
        dx, dy = beacon - x.ravel()[:2]
        square = dx * dx + dy * dy
        return np.array([[-dx, -dy, 0.0, 0.0], [dy * square**-0.5, -dx * square**-0.5, 0.0, 0.0]]) / [
            [square**0.5],
            [square**0.5],
        ]

    rng = np.random.default_rng(6)
    ours = Moments(np.array([0.0, 0.0, 0.5, 0.1]), np.eye(4))
    theirs = ExtendedKalmanFilter(dim_x=4, dim_z=2)
    theirs.x, theirs.P = ours.mean.copy(), ours.covariance.copy()
    theirs.F, theirs.Q, theirs.R = transition, process_noise, noise
    for k in range(40):
        ours = predict(ours, transition @ ours.mean, transition, process_noise)
        theirs.predict()
        measured = measure(np.array([0.4 * step * k, 0.1 * k])) + rng.normal(size=2) * [0.3, 0.01]
        ours, _, _ = update(space, ours, measured - measure(ours.mean), jacobian(ours.mean), noise)
        theirs.update(measured, HJacobian=jacobian, Hx=measure)
        np.testing.assert_allclose(ours.mean, theirs.x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(ours.covariance, theirs.P, rtol=1e-9, atol=1e-12)


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

    filtered = Moments(np.zeros(2), float(prior) * np.eye(2))
    h, noise = np.array(observation, dtype=float), float(variance) * np.eye(2)
    gain = filtered.covariance @ h.T @ np.linalg.inv(h @ filtered.covariance @ h.T + noise)
    textbook = (np.eye(2) - gain @ h) @ filtered.covariance
    filtered, _, _ = update(plain(2), filtered, np.zeros(2), h, noise)
    np.testing.assert_allclose(np.linalg.eigvalsh(filtered.covariance), np.linalg.eigvalsh(exact), rtol=1e-3)
    assert np.linalg.eigvalsh(0.5 * (textbook + textbook.T))[0] < 0.0


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
    drawn = before * Rotation.from_rotvec(step + rng.normal(size=(400_000, 3)) * np.sqrt(posterior))
    centre = before * Rotation.from_rotvec(step)
    assert (Rotation.from_quat(filtered.mean).inv() * centre).magnitude() < 1e-12
    errors = (centre.inv() * drawn).as_rotvec()
    scale = np.sqrt(np.diag(filtered.covariance))
    sampled = errors.T @ errors / len(errors)
    expected = filtered.covariance / np.outer(scale, scale)
    np.testing.assert_allclose(sampled / np.outer(scale, scale), expected, atol=0.01)


def test_angles_wrap_and_the_filter_does_not_mind() -> None:
    """The same heading seen from a world turned by a quarter: crossing half a turn or not, the errors are equal."""
    space = StateSpace(angles("heading", ("heading",)), vector("rate", ("rate",), "rad/s"))
    transition, process_noise = np.array([[1.0, 0.1], [0.0, 1.0]]), np.diag([1e-5, 1e-4])
    rng = np.random.default_rng(8)
    noise = rng.normal(scale=0.05, size=80)
    runs = []
    for offset in (0.0, 0.5 * np.pi):
        filtered = Moments(space.plus([offset, 0.0], [2.5, 0.3]), 0.1 * np.eye(2))
        errors = []
        for k in range(80):
            truth = offset + 2.4 + 0.05 * k
            moved = space.plus(filtered.mean, [0.1 * filtered.mean[1], 0.0])
            filtered = predict(filtered, moved, transition, process_noise)
            measured = space.plus([0.0, 0.0], [truth + noise[k], 0.0])
            missing = space.minus(measured, filtered.mean)[:1]
            filtered, _, _ = update(space, filtered, missing, np.array([[1.0, 0.0]]), np.array([[0.05**2]]))
            errors.append(space.minus(filtered.mean, space.plus([0.0, 0.5], [truth, 0.0])))
        runs.append(np.array(errors))
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-12)
    assert np.abs(runs[0][20:]).max() < 0.1


def test_gated_measurement_leaves_the_state_alone() -> None:
    before, gate = Moments(np.zeros(1), np.eye(1)), Gate(0.95)
    # S = 1 + 3 = 4: two standard deviations are 4.0, the gate 1.96 of them.
    assert update(plain(1), before, np.array([3.9]), np.eye(1), 3.0 * np.eye(1), gate)[1].accepted
    after, seen, rejected = update(plain(1), before, np.array([3.95]), np.eye(1), 3.0 * np.eye(1), gate, 4)
    assert not seen.accepted
    assert rejected == 5
    assert seen.nis == pytest.approx(3.95**2 / 4.0)
    assert after is before
    np.testing.assert_array_equal(after.mean, [0.0])
    np.testing.assert_array_equal(after.covariance, [[1.0]])


def test_filter_gone_astray_comes_back_after_so_many_rejections() -> None:
    filtered, gate, rejected = Moments(np.zeros(2), 1e-4 * np.eye(2)), Gate(0.95, recover_after=3), 0
    observation, noise, measured = np.array([[1.0, 0.0]]), np.array([[1e-8]]), np.array([5.0])
    for count in (1, 2):
        filtered, seen, rejected = update(plain(2), filtered, measured, observation, noise, gate, rejected)
        assert not seen.accepted
        assert rejected == count
    confirmed, seen, counted = update(plain(2), filtered, measured, observation, noise, gate, rejected, False)
    assert confirmed is filtered
    assert (seen.accepted, counted) == (False, 3)
    filtered, seen, rejected = update(plain(2), filtered, measured, observation, noise, gate, rejected)
    assert seen.accepted
    assert rejected == 0
    inflation = 5.0**2 / (1e-4 + 1e-8) / 3.841459
    assert seen.inflation == pytest.approx(inflation, rel=1e-6)
    assert seen.nis == pytest.approx(3.841459, rel=1e-3)
    prior = 1e-4 * inflation
    assert filtered.mean[0] == pytest.approx(5.0 * prior / (prior + 1e-8))
    np.testing.assert_allclose(filtered.covariance, np.diag([prior * 1e-8 / (prior + 1e-8), prior]), rtol=1e-6)


def test_moments_are_values() -> None:
    """What was handed in stays as it is: a filter that is rolled back goes on from it, to the same numbers."""
    rng = np.random.default_rng(9)
    transition, before = rng.normal(size=(3, 3)), Moments(rng.normal(size=3), random_covariance(rng, 3))
    kept, results = (before.mean.tobytes(), before.covariance.tobytes()), []
    for _ in range(2):
        moved = predict_linear(before, transition, np.eye(3), np.zeros(3))
        after, seen, _ = update(plain(3), moved, np.array([50.0]), np.ones((1, 3)), np.eye(1), Gate(0.9, 1))
        assert seen.inflation > 1.0
        results.append((after.mean.tobytes(), after.covariance.tobytes()))
    assert results[0] == results[1] != kept
    assert (before.mean.tobytes(), before.covariance.tobytes()) == kept


def test_covariance_with_a_negative_eigenvalue_has_no_root() -> None:
    with pytest.raises(NotPositiveDefinite, match=r"smallest eigenvalue -1$") as caught:
        covariance_root(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert caught.value.worst_eigenvalue == pytest.approx(-1.0)
    for broken in (np.nan, np.inf):
        with pytest.raises(NotPositiveDefinite):
            covariance_root(np.diag([1.0, broken]))


@pytest.mark.parametrize(
    ("mean", "covariance"), [(np.zeros(3), np.eye(2)), (np.zeros(2), np.eye(3)), (np.zeros((1, 2)), np.eye(2))]
)
def test_initial_state_of_a_wrong_shape_is_refused(mean: np.ndarray, covariance: np.ndarray) -> None:
    with pytest.raises(ValueError, match="shape"):
        StateSpace(angles("a", ("a", "b"))).moments(mean, covariance)


@pytest.mark.parametrize(
    "shapes", [((3,), (2, 2), (2, 2)), ((2,), (2, 3), (2, 2)), ((2,), (2, 2), (1, 1)), ((2,), (1, 2), (1, 1))]
)
def test_measurement_of_a_wrong_shape_is_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    innovation, observation, noise = (np.ones(shape) for shape in shapes)
    with pytest.raises(ValueError, match="shape"):
        update(plain(2), Moments(np.zeros(2), np.eye(2)), innovation, observation, noise + np.eye(len(noise)))


@pytest.mark.parametrize("shape", [(3, 3), (3, 7), (4, 2), (1, 5)])
def test_triangular_factor_has_the_same_square(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(10)
    factor = rng.normal(size=shape)
    factor[0] = 0.0
    lower = triangularise(factor)
    np.testing.assert_allclose(lower @ lower.T, factor @ factor.T, atol=1e-13)
    np.testing.assert_array_equal(lower, np.tril(lower))
    assert (np.diag(lower) >= 0.0).all()


def test_root_keeps_the_digits_of_small_variances_beside_large_ones() -> None:
    scale = np.array([1e6, 1.0, 1e-7])
    correlation = np.array([[1.0, 0.9, -0.5], [0.9, 1.0, -0.3], [-0.5, -0.3, 1.0]])
    root = covariance_root(np.outer(scale, scale) * correlation)
    np.testing.assert_allclose(root @ root.T / np.outer(scale, scale), correlation, rtol=1e-12)
    np.testing.assert_allclose(covariance_root(np.diag([0.0, 4.0])), np.diag([0.0, 2.0]))
    exact = np.array([[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(covariance_root(exact) @ covariance_root(exact).T, exact, atol=1e-12)
    with pytest.raises(NotPositiveDefinite):
        covariance_root(np.diag([1e12, -1e-6]))
    with pytest.raises(NotPositiveDefinite):
        covariance_root(np.array([[0.0, 1.0], [1.0, 5.0]]))
