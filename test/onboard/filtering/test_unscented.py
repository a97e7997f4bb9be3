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

from onboard_estimation.filtering.gating import OPEN, Gate
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
    for turn in (0.0, 0.5 * np.pi):
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
    np.testing.assert_allclose(runs[1][0], runs[0][0], atol=1e-9)
    np.testing.assert_allclose(runs[1][1], runs[0][1], atol=1e-11)
    assert np.abs(runs[0][0][40:]).max() < 0.2


def test_attitude_covariance_after_a_large_correction_is_that_of_the_sampled_rotations() -> None:
    """With a prior that is vague against the measurement the posterior is the measurement's noise, seen from there."""
    space, prior = StateSpace(so3("attitude")), Rotation.from_rotvec([0.1, 0.7, -0.4])
    filter_, noise, offset = Unscented(space), np.array([1e-2, 3e-2, 2e-3]) ** 2, np.array([0.6, -0.4, 0.5])
    state = filter_.start(prior.as_quat(), 0.3 * np.eye(3))
    state, _, _ = filter_.update(
        state, lambda points: space.minus(points, prior.as_quat()), offset, np.diag(np.sqrt(noise))
    )
    step, posterior = offset * 0.3 / (0.3 + noise), 0.3 * noise / (0.3 + noise)
    centre, drawn = prior * Rotation.from_rotvec(step), np.random.default_rng(5).normal(size=(200_000, 3))
    errors = (centre.inv() * prior * Rotation.from_rotvec(step + np.sqrt(posterior) * drawn)).as_rotvec()
    assert (Rotation.from_quat(state.mean).inv() * centre).magnitude() < 1e-9
    found = filter_.covariance(state)
    scale = np.sqrt(np.diag(found))
    sampled = errors.T @ errors / len(errors)
    np.testing.assert_allclose(sampled / np.outer(scale, scale), found / np.outer(scale, scale), atol=0.01)


def test_gated_measurement_leaves_the_state_alone_and_many_bring_it_back() -> None:
    space = StateSpace(se2("pose"))
    filter_, gate, rejected = Unscented(space), Gate(0.95, recover_after=3), 0
    state = filter_.start(np.zeros(3), 1e-6 * np.eye(3))
    measured, noise_root, before = np.array([0.3, -0.2, 0.1]), 1e-5 * np.eye(3), state.packed.tobytes()

    def update(state: SigmaPoints, rejected: int, may_recover: bool = True, gate: Gate = gate):
        return filter_.update(state, lambda points: points, measured, noise_root, gate, rejected, may_recover, space)

    for count in (1, 2):
        state, seen, rejected = update(state, rejected)
        assert (seen.accepted, seen.inflation, rejected) == (False, 1.0, count)
        assert state.packed.tobytes() == before
    confirmed, seen, counted = update(state, rejected, may_recover=False)
    assert confirmed is state
    assert (seen.accepted, seen.inflation, counted) == (False, 1.0, 3)
    recovered, seen, rejected = update(state, rejected)
    assert state.packed.tobytes() == before
    assert (seen.accepted, rejected) == (True, 0)
    innovation = space.minus(measured, np.zeros(3))
    assert seen.inflation == pytest.approx(innovation @ innovation / (1e-6 + 1e-10) / 7.8147, rel=1e-4)
    assert seen.nis == pytest.approx(7.8147, rel=1e-3)
    np.testing.assert_allclose(recovered.mean, measured, atol=1e-6)
    assert update(recovered, rejected)[1].accepted
    assert update(state, 0, gate=OPEN)[1].accepted


def test_covariance_stays_positive_over_many_badly_scaled_steps() -> None:
    """Standard deviations from 1e-6 to 1e6, measured to a billionth of that, end in the steady state of each scalar
    filter, solved by hand; the textbook update P - K S K^T turns negative within fifty steps."""
    sizes = np.array([1e6, 1.0, 1e-3, 1e-6])
    mixing = np.array([[1.0, 0.0, 0.0, 0.0], [1e-6, 1.0, 0.0, 0.0], [0.0, 1e-3, 1.0, 0.0], [0.0, 0.0, 1e-3, 1.0]])
    # Measured: the mixed states, so that the covariance is full; in them the filters are independent.
    process_root, noise_root = np.linalg.inv(mixing) @ np.diag(1e-3 * sizes), np.diag(1e-9 * sizes)
    filter_ = Unscented(StateSpace(vector("x", ("a", "b", "c", "d"), "")))
    state, smallest = filter_.start(np.zeros(4), np.diag(sizes**2)), np.inf
    for step in range(2000):
        state = filter_.predict(state, lambda points: points, process_root)
        state, _, _ = filter_.update(state, lambda points: points @ mixing.T, np.zeros(4), noise_root)
        if step % 10 == 0:
            smallest = min(smallest, np.diag(filter_.root(state)).min())
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
