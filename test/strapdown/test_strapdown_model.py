"""Mechanisation against closed forms, SciPy and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

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


def test_at_rest_nothing_moves() -> None:
    attitude = Rotation.from_euler("ZYX", [0.7, -0.4, 2.9])
    start = state(attitude=attitude.as_quat())
    still = reading([0, 0, 0], attitude.inv().apply([0, 0, GRAVITY]))
    end, _ = move(start, still, still, 0.1, GRAVITY)
    np.testing.assert_allclose(end, start, atol=1e-15)


def test_free_fall_is_a_parabola() -> None:
    start = state(
        position=[1.0, 2.0, 3.0], velocity=[0.5, -0.2, 4.0], attitude=Rotation.random(random_state=1).as_quat()
    )
    falling, end = reading([0.3, -0.2, 0.9], [0, 0, 0]), start
    for _ in range(200):
        end, _ = move(end, falling, falling, 0.005, GRAVITY)
    np.testing.assert_allclose(end[POSITIONS], [1.5, 1.8, 3.0 + 4.0 - 0.5 * GRAVITY], atol=1e-10)
    np.testing.assert_allclose(end[VELOCITIES], [0.5, -0.2, 4.0 - GRAVITY], atol=1e-11)


def test_steady_rotation_is_scipys() -> None:
    start, rate = Rotation.random(random_state=2), np.array([0.4, -1.1, 2.3])
    moving, end = reading(rate, [0, 0, 0]), state(attitude=start.as_quat())
    for _ in range(100):
        end, _ = move(end, moving, moving, 0.01, GRAVITY)
    expected = start * Rotation.from_rotvec(rate)
    assert (Rotation.from_quat(end[QUATERNIONS]) * expected.inv()).magnitude() < 1e-12


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


def test_biases_are_taken_off() -> None:
    attitude = Rotation.random(random_state=3)
    force, rate = np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, -0.3])
    bias_a, bias_g = np.array([0.2, -0.3, 0.1]), np.array([0.01, -0.02, 0.03])
    clean = state(attitude=attitude.as_quat())
    biased = state(attitude=attitude.as_quat(), accelerometer_bias=bias_a, gyro_bias=bias_g)
    one, _ = move(clean, reading(rate, force), reading(rate, force), 0.01, GRAVITY)
    other = reading(rate + bias_g, force + bias_a)
    two, _ = move(biased, other, other, 0.01, GRAVITY)
    np.testing.assert_allclose(one[:10], two[:10], atol=1e-14)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-4, 0.005, 0.05]))
def test_transition_is_the_derivative(seed: int, dt: float) -> None:
    rng = np.random.default_rng(seed)
    mean = random_state(rng)
    before, after = (rng.normal(0.0, [3, 3, 3, 20, 20, 20]) for _ in range(2))
    _, transition = move(mean, before, after, dt, GRAVITY)
    numeric = np.empty_like(transition)
    for i in range(DIMENSION):
        step = np.zeros(DIMENSION)
        step[i] = 1e-6
        ends = [move(SPACE.plus(mean, sign * step), before, after, dt, GRAVITY)[0] for sign in (1.0, -1.0)]
        numeric[:, i] = SPACE.minus(ends[0], ends[1]) / 2e-6
    np.testing.assert_allclose(transition, numeric, atol=2e-8 * max(1.0, np.abs(transition).max()))


@given(st.integers(0, 2**32 - 1))
def test_contact_jacobian_is_the_derivative(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean, one = random_state(rng), rng.normal(0.0, 2.0, 6)
    velocity, jacobian = contact_velocity(mean, one)
    attitude = Rotation.from_quat(mean[QUATERNIONS])
    rate = one[:3] - mean[SPACE.coordinates("gyro_bias")]
    expected = attitude.inv().apply(mean[VELOCITIES]) - np.cross(rate, mean[SPACE.coordinates("lever_arm")])
    np.testing.assert_allclose(velocity, expected, atol=1e-12)
    for i in range(DIMENSION):
        step = np.zeros(DIMENSION)
        step[i] = 1e-6
        ends = [contact_velocity(SPACE.plus(mean, sign * step), one)[0] for sign in (1.0, -1.0)]
        np.testing.assert_allclose(
            jacobian[:, i], (ends[0] - ends[1]) / 2e-6, atol=2e-9 * (1.0 + np.abs(velocity).max())
        )


def test_rolling_foot_has_a_point_at_rest() -> None:
    """A rigid body that turns about a fixed point: the velocity there is zero whatever the turn."""
    rng = np.random.default_rng(4)
    attitude, arm, rate = Rotation.random(random_state=5), rng.normal(size=3), rng.normal(size=3)
    rolling = state(attitude=attitude.as_quat(), velocity=attitude.apply(np.cross(rate, arm)), lever_arm=arm)
    velocity, _ = contact_velocity(rolling, reading(rate, [0, 0, 0]))
    np.testing.assert_allclose(velocity, 0.0, atol=1e-15)


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
