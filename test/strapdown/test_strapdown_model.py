"""Mechanisation against closed forms and differences; contact detector, alignment at rest, and levels of ground."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from onboard_estimation.filtering.moments import Moments
from strapdown_estimation.estimators.alignment import align_at_rest, level
from strapdown_estimation.estimators.contact import (
    ORIGIN,
    UNSEEN,
    Claim,
    ContactState,
    GroundState,
    Level,
    Levels,
    detected,
    match,
    stand_on,
)
from strapdown_estimation.model.configuration import Contact, Ground, Strapdown
from strapdown_estimation.model.state import (
    ATTITUDE,
    DIMENSION,
    POSITION,
    SPACE,
    VELOCITY,
    contact_velocity,
    move,
    process_noise,
)

GRAVITY = 9.81
POSITIONS, VELOCITIES, QUATERNIONS = (SPACE.coordinates(name) for name in ("position", "velocity", "attitude"))


def state(**blocks: object) -> np.ndarray:
    out = SPACE.origin()
    for name, value in blocks.items():
        out[SPACE.coordinates(name)] = value
    return out


def reading(gyro: object, accelerometer: object) -> np.ndarray:
    return np.concatenate([np.asarray(gyro, dtype=float), np.asarray(accelerometer, dtype=float)])


def random_state(rng: np.random.Generator) -> np.ndarray:
    return SPACE.plus(SPACE.origin(), rng.normal(0.0, 1.0, DIMENSION) * np.repeat([1.0, 1.0, 1.0, 0.3, 0.1, 0.1], 3))


def derivative(function, mean: np.ndarray, minus) -> np.ndarray:
    """By central differences along the tangent space."""
    ends = ([function(SPACE.plus(mean, sign * 1e-6 * one)) for sign in (1.0, -1.0)] for one in np.eye(DIMENSION))
    return np.column_stack([minus(*pair) / 2e-6 for pair in ends])


def test_free_fall_is_a_parabola() -> None:
    start = state(
        position=[1.0, 2.0, 3.0], velocity=[0.5, -0.2, 4.0], attitude=Rotation.random(random_state=1).as_quat()
    )
    falling, end = reading([0.3, -0.2, 0.9], [0, 0, 0]), start
    for _ in range(200):
        end, _ = move(end, falling, falling, 0.005, GRAVITY)
    np.testing.assert_allclose(end[POSITIONS], [1.5, 1.8, 3.0 + 4.0 - 0.5 * GRAVITY], atol=1e-10)
    np.testing.assert_allclose(end[VELOCITIES], [0.5, -0.2, 4.0 - GRAVITY], atol=1e-11)


def test_circle_comes_back() -> None:
    """Tangential x axis, constant turn: a circle of radius v / w, with the trapezoidal rule's error in h^2."""
    speed, rate = 2.0, 1.5
    turning = reading([0, 0, rate], [0, speed * rate, GRAVITY])
    errors = []
    for count in (500, 1000):
        end = state(velocity=[speed, 0.0, 0.0])
        farthest = 0.0
        for _ in range(count):
            end, _ = move(end, turning, turning, 2.0 * np.pi / rate / count, GRAVITY)
            farthest = max(farthest, float(end[1]))
        assert farthest == pytest.approx(2.0 * speed / rate, rel=1e-4)
        errors.append(np.linalg.norm(end[POSITIONS]) + np.linalg.norm(end[VELOCITIES] - [speed, 0.0, 0.0]))
    assert errors[0] < 1e-3
    assert errors[1] < 0.3 * errors[0]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-4, 0.005, 0.05]))
@settings(max_examples=20)
def test_transition_is_the_derivative(seed: int, dt: float) -> None:
    rng = np.random.default_rng(seed)
    mean = random_state(rng)
    before, after = (rng.normal(0.0, [3, 3, 3, 20, 20, 20]) for _ in range(2))
    _, transition = move(mean, before, after, dt, GRAVITY)
    numeric = derivative(lambda state: move(state, before, after, dt, GRAVITY)[0], mean, SPACE.minus)
    np.testing.assert_allclose(transition, numeric, atol=2e-8 * max(1.0, np.abs(transition).max()))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_contact_jacobian_is_the_derivative(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean, one = random_state(rng), rng.normal(0.0, 2.0, 6)
    velocity, jacobian = contact_velocity(mean, one)
    attitude = Rotation.from_quat(mean[QUATERNIONS])
    rate = one[:3] - mean[SPACE.coordinates("gyro_bias")]
    expected = attitude.inv().apply(mean[VELOCITIES]) - np.cross(rate, mean[SPACE.coordinates("lever_arm")])
    np.testing.assert_allclose(velocity, expected, atol=1e-12)
    numeric = derivative(lambda state: contact_velocity(state, one)[0], mean, np.subtract)
    np.testing.assert_allclose(jacobian, numeric, atol=2e-9 * (1.0 + np.abs(velocity).max()))


def test_process_noise_is_that_of_integrated_white_noise() -> None:
    """In many small steps it grows as in one: the noise of position and velocity is that of an integrator."""
    noise = np.array([0.3, 0.02, 0.0, 0.0, 1e-3, 1e-4, 0.01])
    still, mean = reading([0, 0, 0], [0, 0, GRAVITY]), SPACE.origin()
    one = process_noise(still, still, mean, 0.0, 1.0, noise)
    covariance = np.zeros((DIMENSION, DIMENSION))
    transition = np.eye(DIMENSION)
    transition[POSITION : POSITION + 3, VELOCITY : VELOCITY + 3] = 0.01 * np.eye(3)
    for _ in range(100):
        covariance = transition @ covariance @ transition.T + process_noise(still, still, mean, 0.0, 0.01, noise)
    np.testing.assert_allclose(covariance, one, atol=1e-12)


def test_noise_grows_with_the_motion() -> None:
    noise = np.array([0.1, 0.01, 0.02, 0.03, 0.0, 0.0, 0.0])
    moving = reading([0.0, 2.0, 0.0], [0, 0, 0])
    out = process_noise(moving, moving, SPACE.origin(), 5.0, 1.0, noise)
    assert out[VELOCITY, VELOCITY] == pytest.approx(0.1**2 + (0.02 * 5.0) ** 2)
    assert out[ATTITUDE, ATTITUDE] == pytest.approx(0.01**2 + (0.03 * 2.0) ** 2)


# -------------------------------------------------------------------------------------------------------------- contact

STEP_NS = 5_000_000


def still(rng: np.random.Generator, count: int) -> np.ndarray:
    """(count, 6) readings of a level IMU at rest, noise as in the recorded walks."""
    return np.hstack([rng.normal(0.0, 0.008, (count, 3)), rng.normal([0.0, 0.0, 9.81], 0.02, (count, 3))])


def offset(gyro: object = (0, 0, 0), force: object = (0, 0, 0)) -> np.ndarray:
    return np.concatenate([np.asarray(gyro, dtype=float), np.asarray(force, dtype=float)])


def run(readings: np.ndarray, state: ContactState = UNSEEN, start: int = 0) -> tuple[list[Claim], ContactState]:
    claims = []
    for k, one in enumerate(readings):
        state = detected(Contact(), state, (start + k) * STEP_NS, one)
        claims.append(state.claim)
    return claims, state


def test_rest_needs_its_duration() -> None:
    claims, _ = run(still(np.random.default_rng(2), 100))
    first = next(k for k, claim in enumerate(claims) if claim.at_rest)
    assert 0.3 - 0.055 - 1e-9 <= first * 0.005 <= 0.3
    assert all(claim.at_rest for claim in claims[first:])
    assert not any(claim.in_contact for claim in claims[:2])
    assert all(claim.in_contact for claim in claims[2:])


def test_threshold_follows_the_motion() -> None:
    """What is no contact after a slow motion is one after a quick one, until that is forgotten."""
    rng = np.random.default_rng(3)
    for swing, contact in ((1.0, False), (8.0, True)):
        moving = still(rng, 40) + offset(gyro=[0, swing, 0])
        rolling = still(rng, 30) + offset(gyro=[0, 0.3, 0])
        claims, _ = run(np.vstack([moving, rolling]), UNSEEN.calibrated(np.zeros(3), 9.81))
        assert not claims[39].in_contact
        assert claims[-1].in_contact is contact
        wanted = max(Contact().rest_energy_rad_s, 0.2 * (swing * np.exp(-30 * 0.005) - 0.5))
        assert claims[-1].threshold == pytest.approx(wanted, rel=0.03)


def test_a_slow_lift_is_no_contact() -> None:
    """A steady lift that trembles as a hand does: a fixed threshold that finds fast stances would take it."""
    rng = np.random.default_rng(4)
    tremble = rng.normal(0.0, [0.25, 0.25, 0.25, 0.5, 0.5, 0.5], (200, 6))
    readings = np.vstack([still(rng, 100), still(rng, 200) + tremble, still(rng, 100)])
    claims, _ = run(readings, UNSEEN.calibrated(np.zeros(3), 9.81))
    assert all(claim.in_contact for claim in claims[2:100])
    assert not any(claim.in_contact for claim in claims[115:300])
    assert all(claim.in_contact for claim in claims[312:])


@given(st.integers(0, 2**32 - 1))
def test_level_is_level_with_heading_zero(seed: int) -> None:
    force = np.random.default_rng(seed).normal(size=3)
    attitude = level(force)
    np.testing.assert_allclose(attitude.apply(force), [0, 0, np.linalg.norm(force)], atol=1e-12)
    assert np.linalg.det(attitude.as_matrix()) == pytest.approx(1.0)
    forward, left = attitude.apply([1.0, 0, 0]), attitude.apply([0, 1.0, 0])
    if abs(forward[2]) < np.cos(np.deg2rad(15.0)):
        assert forward[0] > 0.0
        assert abs(forward[1]) < 1e-12
    else:
        assert left[1] > 0.0
        assert abs(left[0]) < 1e-12


def test_alignment_is_as_sure_as_it_should_be() -> None:
    """Errors of many drawn starts against the stated covariance: tilt, biases, and how they hang together."""
    configuration = Strapdown()
    rng = np.random.default_rng(6)
    errors, covariances = [], []
    for _ in range(400):
        true = Rotation.random(random_state=rng)
        bias_a = rng.normal(0.0, configuration.imu.accelerometer_bias_stddev_m_s2, 3)
        bias_g = rng.normal(0.0, configuration.imu.gyro_bias_stddev_rad_s, 3)
        gravity = rng.normal(configuration.start.gravity_m_s2, configuration.start.gravity_stddev_m_s2)
        gyro = bias_g + rng.normal(0.0, 0.008, (60, 3))
        force = true.inv().apply([0, 0, gravity]) + bias_a + rng.normal(0.0, 0.02, (60, 3))
        mean, covariance = align_at_rest(gyro, force, 0.3, configuration)
        # Heading is zero by definition: turn the truth about the vertical until it has the estimate's.
        estimate = Rotation.from_quat(mean[SPACE.coordinates("attitude")])
        heading = (estimate * true.inv()).as_rotvec()[2]
        truth = SPACE.origin()
        truth[SPACE.coordinates("attitude")] = (Rotation.from_euler("Z", heading) * true).as_quat()
        truth[SPACE.coordinates("accelerometer_bias")] = bias_a
        truth[SPACE.coordinates("gyro_bias")] = bias_g
        errors.append(SPACE.minus(truth, mean)[6:15])
        covariances.append(covariance[6:15, 6:15])
    nees = [e @ np.linalg.pinv(p, rcond=1e-7) @ e for e, p in zip(errors, covariances, strict=True)]
    # Nine dimensions less the heading; swaying is allowed for and not drawn, so the gyro bias is better than stated.
    assert 4.0 < np.mean(nees) < 8.5
    tilts = [e[:6] @ np.linalg.pinv(p[:6, :6], rcond=1e-7) @ e[:6] for e, p in zip(errors, covariances, strict=True)]
    assert np.mean(tilts) == pytest.approx(5.0, abs=0.6)


def stood(levels: Levels, on: Level, largest_count: int = 32) -> Levels:
    """Levels after a settled contact there; on a known one the variance comes down to its bound, and no further."""
    mean, covariance = SPACE.origin(), np.zeros((SPACE.dimension, SPACE.dimension))
    mean[2], covariance[2, 2] = on
    ground = Ground(largest_count=largest_count)
    state, moments = stand_on(ground, 0.1, GroundState(levels), Moments(mean, covariance), 0, 0.0)
    bound = state.levels[-1].variance + ground.unevenness_m**2 if state.stance.level == "known" else on.variance
    assert moments.covariance[2, 2] == pytest.approx(min(on.variance, bound))
    return state.levels


def test_levels_are_found_again_and_new_ground_is_new() -> None:
    assert match(ORIGIN, 0.02, 0.01**2, 0.01, 0.95) == 0
    assert match(ORIGIN, 0.17, 0.02**2, 0.01, 0.95) is None
    levels = stood(ORIGIN, Level(0.17, 0.02**2))
    assert match(levels, 0.16, 0.02**2, 0.01, 0.95) == 1
    assert stood(levels, Level(0.16, 0.03**2)) == levels
    assert stood(levels, Level(0.01, 0.0)) == (Level(0.17, 0.02**2), Level(0.0, 0.0))
    for k in range(1, 5):  # the oldest is forgotten
        levels = stood(levels, Level(float(k), 0.0), 3)
    assert [one.height for one in levels] == [2.0, 3.0, 4.0]
