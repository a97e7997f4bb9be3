"""Unscented filter against FilterPy, exact Kalman filters, importance sampling and turned worlds.

Which variant: FilterPy 2.0 draws its sigma points anew from the predicted mean and covariance at the end of `predict`
(`self.sigmas_f = self.points_fn.sigma_points(self.x, self.P)`), FilterPy 1.4.5 does not: it takes the points that the
model moved into `update`, so that its predicted measurement leaves out the process noise. Ours draws anew, as 2.0 does.
The comparison below draws them anew itself, which changes nothing for 2.0 and makes it hold for 1.4.5 as well.
"""

from __future__ import annotations

import numpy as np
import pytest
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter
from scipy.spatial.transform import Rotation
from smoothing import sigma_cross_covariance

from onboard_estimation.filtering.gating import OPEN, Gate
from onboard_estimation.filtering.square_root import NotPositiveDefinite
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, so3, vector
from onboard_estimation.filtering.unscented import SigmaPoints, Unscented

VEHICLE = StateSpace(vector("x", ("x", "y", "speed", "course", "rate"), ""))
STEP_S = 0.2
BEACONS = np.array([[60.0, 40.0], [-30.0, 80.0]])


def drive(points: np.ndarray) -> np.ndarray:
    """Coordinated turn of sigma points (k, 5), Euler's method."""
    x, y, speed, course, rate = points.T
    along = STEP_S * speed
    return np.column_stack(
        [x + along * np.cos(course), y + along * np.sin(course), speed, course + STEP_S * rate, rate]
    )


def ranges(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None, :2] - BEACONS, axis=2)


def test_same_numbers_as_filterpy() -> None:
    """Five states, sixty steps, mean, covariance, innovation; correlated process noise."""
    rng = np.random.default_rng(0)
    process_root = 0.02 * rng.normal(size=(5, 5))
    noise = np.array([[0.04, 0.01], [0.01, 0.09]])
    mean, covariance = np.array([0.0, 0.0, 5.0, 0.3, 0.1]), np.diag([1.0, 1.0, 0.25, 0.01, 0.0025])

    ours = Unscented(VEHICLE)
    state = ours.start(mean, covariance)
    theirs = UnscentedKalmanFilter(
        dim_x=5,
        dim_z=2,
        dt=STEP_S,
        fx=lambda x, dt: drive(x[None])[0],
        hx=lambda x: ranges(x[None])[0],
        points=MerweScaledSigmaPoints(5, alpha=1.0, beta=0.0, kappa=0.0),
    )
    theirs.x, theirs.P = mean.copy(), covariance.copy()
    theirs.Q, theirs.R = process_root @ process_root.T, noise
    noise_root = np.linalg.cholesky(noise)
    truth = np.array([[0.5, -0.5, 5.3, 0.25, 0.12]])
    tolerance = 1e-9
    for _ in range(60):
        truth = drive(truth)
        measured = ranges(truth)[0] + noise_root @ rng.normal(size=2)
        state = ours.predict(state, drive, process_root)
        theirs.predict()
        np.testing.assert_allclose(state.mean, theirs.x, rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(ours.covariance(state), theirs.P, rtol=0.0, atol=tolerance)
        theirs.sigmas_f = theirs.points_fn.sigma_points(theirs.x, theirs.P)
        state, seen, rejected = ours.update(state, ranges, measured, noise_root)
        theirs.update(measured)
        np.testing.assert_allclose(state.mean, theirs.x, rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(ours.covariance(state), theirs.P, rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(seen.value, theirs.y, rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(seen.covariance, theirs.S, rtol=0.0, atol=tolerance)
        assert seen.nis == pytest.approx(theirs.mahalanobis**2, abs=1e3 * tolerance)
        assert seen.accepted
        assert rejected == 0
    assert np.linalg.norm(state.mean[:2] - truth[0, :2]) < 1.0


def test_linear_models_give_the_exact_kalman_filter() -> None:
    rng = np.random.default_rng(1)
    transition = np.eye(5) + 0.1 * rng.normal(size=(5, 5))
    transition /= np.abs(np.linalg.eigvals(transition)).max()
    observation = rng.normal(size=(2, 5))
    process_root, noise_root = 0.1 * rng.normal(size=(5, 3)), np.array([[0.3, 0.0], [0.1, 0.2]])
    noise = noise_root @ noise_root.T
    mean, covariance = rng.normal(size=5), np.diag([1.0, 0.5, 2.0, 1.0, 0.1])
    filter_ = Unscented(VEHICLE)
    state = filter_.start(mean, covariance)
    tolerance = 1e-9
    for _ in range(60):
        measured = rng.normal(size=2)
        cross = sigma_cross_covariance(VEHICLE, state, state.points @ transition.T)
        np.testing.assert_allclose(cross, covariance @ transition.T, atol=tolerance)
        state = filter_.predict(state, lambda points: points @ transition.T, process_root)
        mean, covariance = transition @ mean, transition @ covariance @ transition.T + process_root @ process_root.T
        innovation_covariance = observation @ covariance @ observation.T + noise
        gain = covariance @ observation.T @ np.linalg.inv(innovation_covariance)
        innovation = measured - observation @ mean
        nis = innovation @ np.linalg.solve(innovation_covariance, innovation)
        mean, covariance = mean + gain @ innovation, covariance - gain @ innovation_covariance @ gain.T
        state, seen, _ = filter_.update(state, lambda points: points @ observation.T, measured, noise_root)
        np.testing.assert_allclose(state.mean, mean, rtol=0.0, atol=tolerance)
        np.testing.assert_allclose(filter_.covariance(state), covariance, rtol=0.0, atol=tolerance)
        assert seen.nis == pytest.approx(nis, rel=1e3 * tolerance)


def test_default_points_integrate_cubic_polynomials_exactly() -> None:
    """The spherical cubature rule; the mean of the chi-square with n degrees of freedom is n."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    mean, covariance = np.array([1.0, -2.0, 0.5]), root @ root.T
    space = StateSpace(vector("x", ("a", "b", "c"), ""))
    filter_ = Unscented(space)

    def cubic(points: np.ndarray) -> np.ndarray:
        a, b, c = points.T
        return np.column_stack([a**3, a * b * c, b**2])

    state = filter_.predict(filter_.start(mean, covariance), cubic, np.zeros((3, 1)))
    (a, b, c), p = mean, covariance
    expected = [
        a**3 + 3.0 * a * p[0, 0],
        a * b * c + a * p[1, 2] + b * p[0, 2] + c * p[0, 1],
        b**2 + p[1, 1],
    ]
    np.testing.assert_allclose(state.mean, expected, rtol=1e-12)


ROBOT = StateSpace(se2("pose"), angles("mast", ("angle",)))
LANDMARKS = np.array([[4.0, 1.0], [-3.0, 5.0], [-2.0, -4.0]])
BEARING = StateSpace(angles("bearing", ("bearing",)))


def _bearing(landmark: np.ndarray):
    """Bearing of a landmark from the mast that turns on the robot."""

    def measure(points: np.ndarray) -> np.ndarray:
        dx, dy = landmark[0] - points[:, 0], landmark[1] - points[:, 1]
        return np.arctan2(dy, dx)[:, None] - points[:, 2:3] - points[:, 3:4]

    return measure


def test_filter_does_not_see_how_the_world_is_turned() -> None:
    """Heading, mast and bearings cross half a turn, at other instants in a world turned by a quarter; the estimate
    relative to the truth and the covariance, which are in the body frame, have to stay as they are."""
    rng = np.random.default_rng(3)
    motions = np.column_stack([np.full(120, 0.08), 0.02 * rng.normal(size=120), np.full(120, 0.06), np.full(120, 0.05)])
    bearing_noise = 0.05 * rng.normal(size=(120, 3))
    process_root = np.diag([0.01, 0.01, 0.02, 0.01])
    runs = []
    for turn in (0.0, 0.5 * np.pi, 2.0):
        world = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        truth = ROBOT.plus([0.0, 0.0, 0.0, 2.5], [0.0, 0.0, turn, 0.0])
        start = ROBOT.plus(truth, [0.2, -0.1, 0.15, 0.1])
        filter_ = Unscented(ROBOT)
        state = filter_.start(start, np.diag([0.04, 0.04, 0.02, 0.01]))
        errors, covariances, headings = [], [], []
        for motion, noises in zip(motions, bearing_noise, strict=True):
            truth = ROBOT.plus(truth, motion)
            state = filter_.predict(state, lambda points, motion=motion: ROBOT.plus(points, motion), process_root)
            for landmark, noise in zip(LANDMARKS @ world.T, noises, strict=True):
                measured = BEARING.plus(_bearing(landmark)(truth[None])[0], [noise])
                state, _, _ = filter_.update(state, _bearing(landmark), measured, np.array([[0.05]]), space=BEARING)
            errors.append(ROBOT.minus(state.mean, truth))
            covariances.append(filter_.covariance(state))
            headings.append(truth[2])
        assert np.abs(np.diff(headings)).max() > 6.0  # it did cross
        runs.append((np.array(errors), np.array(covariances)))
    for errors, covariances in runs[1:]:
        np.testing.assert_allclose(errors, runs[0][0], atol=1e-9)
        np.testing.assert_allclose(covariances, runs[0][1], atol=1e-11)
    assert np.abs(runs[0][0][40:]).max() < 0.2


@pytest.mark.slow
def test_pose_measurement_agrees_with_importance_sampling() -> None:
    """A pose (SE(2)) measured as a whole, near half a turn; posterior by weighting samples of the prior."""
    space = StateSpace(se2("pose"))
    mean = np.array([3.0, -2.0, np.pi - 0.05])
    covariance = 0.25 * np.array([[0.04, 0.01, 0.004], [0.01, 0.09, -0.006], [0.004, -0.006, 0.01]])
    noise = 0.25 * np.diag([0.02, 0.03, 0.008])
    measured = space.plus(mean, [0.12, -0.15, 0.06])
    filter_, noise_root = Unscented(space), np.linalg.cholesky(noise)
    state = filter_.start(mean, covariance)
    state, seen, _ = filter_.update(state, lambda points: points, measured, noise_root, space=space)
    assert measured[2] < 0.0  # on the other side of half a turn

    rng = np.random.default_rng(4)
    drawn = space.plus(mean, rng.multivariate_normal(np.zeros(3), covariance, size=300_000))
    deviation = space.minus(measured, drawn)
    weights = np.exp(-0.5 * np.sum(deviation**2 / np.diag(noise), axis=1))
    weights /= weights.sum()
    errors, found = space.minus(drawn, state.mean), filter_.covariance(state)
    stddevs = np.sqrt(np.diag(found))
    np.testing.assert_allclose(weights @ errors / stddevs, 0.0, atol=0.02)
    sampled = np.einsum("k,ki,kj->ij", weights, errors, errors)
    # To first order in the innovation only: the filter takes the noise at the predicted pose, it acts at the true one.
    np.testing.assert_allclose(sampled / np.outer(stddevs, stddevs), found / np.outer(stddevs, stddevs), atol=0.04)
    expected_nis = seen.value @ np.linalg.solve(covariance + noise, seen.value)
    assert seen.nis == pytest.approx(expected_nis, rel=0.03)


def test_attitude_covariance_after_a_large_correction_is_that_of_the_sampled_rotations() -> None:
    """With a prior that is vague against the measurement the posterior is the measurement's noise, seen from there."""
    space = StateSpace(so3("attitude"))
    prior = Rotation.from_rotvec([0.1, 0.7, -0.4])
    noise = np.array([1e-2, 3e-2, 2e-3]) ** 2
    filter_ = Unscented(space)
    offset = np.array([0.6, -0.4, 0.5])

    def measure(points: np.ndarray) -> np.ndarray:
        return space.minus(points, prior.as_quat())

    state = filter_.start(prior.as_quat(), 0.3 * np.eye(3))
    state, _, _ = filter_.update(state, measure, offset, np.diag(np.sqrt(noise)))
    rng = np.random.default_rng(5)
    step, posterior = offset * 0.3 / (0.3 + noise), 0.3 * noise / (0.3 + noise)
    centre = prior * Rotation.from_rotvec(step)
    errors = (
        centre.inv() * prior * Rotation.from_rotvec(step + np.sqrt(posterior) * rng.normal(size=(300_000, 3)))
    ).as_rotvec()
    assert (Rotation.from_quat(state.mean).inv() * centre).magnitude() < 1e-9
    found = filter_.covariance(state)
    scale = np.sqrt(np.diag(found))
    sampled = errors.T @ errors / len(errors)
    np.testing.assert_allclose(sampled / np.outer(scale, scale), found / np.outer(scale, scale), atol=0.01)


def test_gated_measurement_leaves_the_state_alone_and_many_bring_it_back() -> None:
    space = StateSpace(se2("pose"))
    filter_, gate, rejected = Unscented(space), Gate(0.95, recover_after=3), 0
    state = filter_.start(np.zeros(3), 1e-6 * np.eye(3))
    measured, noise_root = np.array([0.3, -0.2, 0.1]), 1e-5 * np.eye(3)

    def measure(points: np.ndarray) -> np.ndarray:
        return points

    def update(state: SigmaPoints, rejected: int, may_recover: bool = True):
        return filter_.update(state, measure, measured, noise_root, gate, rejected, may_recover, space)

    before = state.packed.tobytes()
    for count in (1, 2):
        state, seen, rejected = update(state, rejected)
        assert not seen.accepted
        assert seen.inflation == 1.0
        assert rejected == count
        assert state.packed.tobytes() == before
    confirmed, seen, counted = update(state, rejected, may_recover=False)
    assert confirmed is state
    assert (seen.accepted, seen.inflation, counted) == (False, 1.0, 3)
    recovered, seen, rejected = update(state, rejected)
    assert state.packed.tobytes() == before
    assert seen.accepted
    assert rejected == 0
    innovation = space.minus(measured, np.zeros(3))
    assert seen.inflation == pytest.approx(innovation @ innovation / (1e-6 + 1e-10) / 7.8147, rel=1e-4)
    assert seen.nis == pytest.approx(7.8147, rel=1e-3)
    np.testing.assert_allclose(recovered.mean, measured, atol=1e-6)
    assert update(recovered, rejected)[1].accepted


def test_update_without_a_gate_accepts_what_a_gate_refuses() -> None:
    filter_, far = Unscented(VEHICLE), np.array([1e3])
    state = filter_.start(np.zeros(5), np.eye(5))
    refused, seen, _ = filter_.update(state, lambda points: points[:, :1].copy(), far, np.eye(1), Gate(0.99))
    assert refused is state
    assert not seen.accepted
    state, seen, _ = filter_.update(state, lambda points: points[:, :1].copy(), far, np.eye(1))
    assert seen.accepted
    assert state.mean[0] == pytest.approx(500.0)


def test_states_are_values() -> None:
    """What was handed in stays as it is: a filter that is rolled back goes on from it, to the same numbers."""
    filter_ = Unscented(VEHICLE)
    before = filter_.start(np.array([0.0, 0.0, 5.0, 0.0, 0.1]), np.eye(5))
    kept, results = before.packed.tobytes(), []
    for _ in range(2):
        state = filter_.predict(before, drive, 0.1 * np.eye(5))
        state, seen, _ = filter_.update(state, ranges, np.array([80.0, 95.0]), np.eye(2), Gate(0.9, 1))
        assert seen.inflation > 1.0
        state.mean[:] = np.nan  # a copy
        results.append(state.packed.tobytes())
    assert results[0] == results[1] != kept
    assert before.packed.tobytes() == kept


def test_covariance_stays_positive_over_a_hundred_thousand_badly_scaled_steps() -> None:
    """Standard deviations from 1e-6 to 1e6, measured to a billionth of that: the textbook update P - K S K^T
    turns negative, ours ends in the steady state of each scalar filter, solved by hand."""
    sizes = np.array([1e6, 1.0, 1e-3, 1e-6])
    process_root, noise_root = np.diag(1e-3 * sizes), np.diag(1e-9 * sizes)
    mixing = np.array([[1.0, 0.0, 0.0, 0.0], [1e-6, 1.0, 0.0, 0.0], [0.0, 1e-3, 1.0, 0.0], [0.0, 0.0, 1e-3, 1.0]])
    space = StateSpace(vector("x", ("a", "b", "c", "d"), ""))
    filter_ = Unscented(space)
    state = filter_.start(np.zeros(4), np.diag(sizes**2))
    # Measured: the mixed states, so that the covariance is full; in them the filters are independent.
    inverse = np.linalg.inv(mixing)
    process_root = inverse @ process_root

    def measure(points: np.ndarray) -> np.ndarray:
        return points @ mixing.T

    textbook, textbook_worst = np.diag(sizes**2), np.inf
    scales = np.outer(sizes, sizes)
    smallest = np.inf
    for step in range(100_000):
        state = filter_.predict(state, lambda points: points, process_root)
        state, _, _ = filter_.update(state, measure, np.zeros(4), noise_root)
        if step < 50:
            textbook = textbook + process_root @ process_root.T
            s = mixing @ textbook @ mixing.T + noise_root @ noise_root.T
            gain = textbook @ mixing.T @ np.linalg.inv(s)
            textbook = textbook - gain @ s @ gain.T
            textbook_worst = min(textbook_worst, np.linalg.eigvalsh(0.5 * (textbook + textbook.T) / scales)[0])
        if step % 100 == 0:
            smallest = min(smallest, np.diag(filter_.root(state)).min())
    assert textbook_worst < 0.0
    assert smallest > 0.0
    # Riccati: p = posterior variance with 1/p = 1/(p + q) + 1/r.
    q, r = (1e-3 * sizes) ** 2, (1e-9 * sizes) ** 2
    posterior = r * (1.0 - r / q)  # to second order in r / q = 1e-12
    mixed = mixing @ filter_.covariance(state) @ mixing.T
    np.testing.assert_allclose(mixed / np.sqrt(np.outer(posterior, posterior)), np.eye(4), atol=1e-6)


@pytest.mark.parametrize("gate", [OPEN, Gate()])
def test_model_that_gives_no_number_leaves_the_state_alone(gate: Gate) -> None:
    filter_ = Unscented(VEHICLE)
    state = filter_.start(np.zeros(5), np.eye(5))
    before = state.packed.tobytes()
    with pytest.raises(ArithmeticError):
        filter_.update(state, lambda points: np.full((11, 1), np.nan), np.zeros(1), np.eye(1), gate)
    assert state.packed.tobytes() == before


def test_initial_state_is_checked() -> None:
    with pytest.raises(NotPositiveDefinite, match="smallest eigenvalue"):
        Unscented(VEHICLE).start(np.zeros(5), np.diag([1.0, 1.0, -1.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"\(4,\) and \(5, 5\)"):
        Unscented(VEHICLE).start(np.zeros(4), np.eye(5))
    with pytest.raises(ValueError, match=r"\(5,\) and \(4, 4\)"):
        Unscented(VEHICLE).start(np.zeros(5), np.eye(4))


@pytest.mark.parametrize(
    ("predicted", "measured", "noise"),
    [
        ((11, 1), (2,), (2, 2)),
        ((10, 2), (2,), (2, 2)),
        ((11, 2), (1,), (2, 2)),
        ((11, 2), (2,), (2, 1)),
        ((11,), (2,), (2, 2)),
    ],
)
def test_models_of_wrong_shapes_are_refused(
    predicted: tuple[int, ...], measured: tuple[int, ...], noise: tuple[int, ...]
) -> None:
    filter_ = Unscented(VEHICLE)
    state = filter_.start(np.zeros(5), np.eye(5))
    with pytest.raises(ValueError, match="shapes do not fit"):
        filter_.update(state, lambda points: np.zeros(predicted), np.zeros(measured), np.ones(noise))
    with pytest.raises(ValueError, match="shapes do not fit"):
        filter_.predict(state, lambda points: points[:, :4], np.eye(5))
    with pytest.raises(ValueError, match="shapes do not fit"):
        filter_.predict(state, lambda points: points, np.eye(4))
