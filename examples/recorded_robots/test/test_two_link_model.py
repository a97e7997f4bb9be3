"""Derivatives of the two-link model by differences, its polynomials and its way to a hinge's axes by other means."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.interpolate import lagrange
from scipy.spatial.transform import Rotation

from recorded_robots.two_link import model
from recorded_robots.two_link.hinge import Shown
from recorded_robots.two_link.readings import Readings, polynomial_weights

Array = NDArray[np.float64]


def some_state(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    mean = model.HINGE.plus(model.HINGE.origin(), rng.normal(0.0, 0.5, model.HINGE.dimension))
    for name in ("proximal_axis", "distal_axis"):
        axis = rng.normal(size=3)
        mean[model.HINGE.coordinates(name)] = axis / np.linalg.norm(axis)
    return mean


def some_motion(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return np.stack([rng.normal(0.0, 3.0, 3), rng.normal(0.0, 10.0, 3), rng.normal(0.0, 20.0, 3)])


def by_differences(function: object, mean: Array, step: float = 1e-6) -> Array:
    columns = []
    for k in range(model.HINGE.dimension):
        tangent = np.zeros(model.HINGE.dimension)
        tangent[k] = step
        high, low = (function(model.HINGE.plus(mean, sign * tangent)) for sign in (1.0, -1.0))  # type: ignore[operator]
        columns.append((high - low) / (2.0 * step))
    return np.column_stack(columns)


@pytest.mark.parametrize("seed", range(4))
def test_a_step_turns_the_one_frame_against_the_other(seed: int) -> None:
    mean, turns = some_state(seed), np.random.default_rng(seed).normal(0.0, 0.1, (2, 3))
    moved, _ = model.move(mean, turns, np.ones(2), 0.02, 0.9)
    bias = mean[4:7], mean[7:10]
    first, second = (Rotation.from_rotvec(turn - 0.02 * one) for turn, one in zip(turns, bias, strict=True))
    expected = first.inv() * Rotation.from_quat(mean[:4]) * second
    np.testing.assert_allclose((Rotation.from_quat(moved[:4]).inv() * expected).magnitude(), 0.0, atol=1e-12)
    np.testing.assert_allclose(moved[10:16], 0.9 * mean[10:16], atol=1e-15)
    np.testing.assert_array_equal(moved[4:10], mean[4:10])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("seen", [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_transition_is_the_steps_derivative(seed: int, seen: tuple[float, float]) -> None:
    """To first order in the turn of a step, here of a milliradian."""
    mean, turns, shown = some_state(seed), np.random.default_rng(seed).normal(0.0, 1e-3, (2, 3)), np.array(seen)
    mean[4:10] *= 1e-3
    moved, transition = model.move(mean, turns, shown, 0.02, 0.9)
    found = by_differences(lambda one: model.HINGE.minus(model.move(one, turns, shown, 0.02, 0.9)[0], moved), mean)
    np.testing.assert_allclose(transition, found, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_observations_are_derivatives_of_what_they_predict(seed: int) -> None:
    mean, proximal, distal = some_state(seed), some_motion(seed), some_motion(seed + 10)
    _, observation = model.joint_difference(mean, proximal, distal)
    found = by_differences(lambda one: -model.joint_difference(one, proximal, distal)[0], mean)
    np.testing.assert_allclose(observation, found, rtol=1e-6, atol=1e-5)
    # About a hinge that fits: what is predicted is a difference of axes across the first of them.
    first = mean[model.HINGE.coordinates("proximal_axis")]
    mean[model.HINGE.coordinates("distal_axis")] = model.rotation(mean).T @ first
    difference, observation = model.hinge_difference(mean)
    np.testing.assert_allclose(difference, 0.0, atol=1e-12)
    found = by_differences(lambda one: -model.hinge_difference(one)[0], mean)
    np.testing.assert_allclose(observation, found, atol=1e-5)


def test_both_links_see_one_acceleration_of_the_joint() -> None:
    """Of two rigid bodies that turn about a point which accelerates: by differences of their positions."""
    rng, h = np.random.default_rng(3), 1e-4
    spins, curls, arms = rng.normal(0.0, 2.0, (2, 3)), rng.normal(0.0, 9.0, (2, 3)), rng.normal(0.0, 0.2, (2, 3))
    start = Rotation.random(2, random_state=3)
    acceleration = rng.normal(0.0, 5.0, 3)
    mean = model.FREE.origin()
    mean[:4] = (start[0].inv() * start[1]).as_quat()
    motions = []
    for link in range(2):
        mean[model.FREE.coordinates(("proximal_lever_arm", "distal_lever_arm")[link])] = arms[link]

        def place(time_s: float, link: int = link) -> Array:
            turn = Rotation.from_rotvec(spins[link] * time_s + 0.5 * curls[link] * time_s**2)
            return 0.5 * acceleration * time_s**2 - (start[link] * turn).apply(arms[link])

        felt = start[link].inv().apply((place(h) - 2.0 * place(0.0) + place(-h)) / h**2)
        # At time zero the rate is the spin; its derivative in the body's frame is the curl.
        motions.append(np.stack([spins[link], felt, curls[link]]))
    difference, _ = model.joint_difference(mean, motions[0], motions[1])
    np.testing.assert_allclose(difference, 0.0, atol=1e-5)
    np.testing.assert_allclose(start[0].apply(model.joint_acceleration(mean, 0, motions[0])), acceleration, atol=1e-5)


def test_weights_are_those_of_the_polynomial_through_the_readings() -> None:
    times, values = np.array([-1.0, -0.4, 0.1, 0.5, 0.9]), np.array([2.0, -1.0, 0.5, 3.0, 1.0])
    polynomial = lagrange(times, values)
    value, slope = polynomial_weights(times, 4) @ values
    np.testing.assert_allclose([value, slope], [polynomial(0.0), polynomial.deriv()(0.0)], rtol=1e-9)
    even = np.arange(-2.0, 3.0)
    np.testing.assert_allclose(polynomial_weights(even, 4)[1], np.array([1, -8, 0, 8, -1]) / 12, atol=1e-12)
    # Savitzky and Golay's.
    np.testing.assert_allclose(polynomial_weights(even, 2)[0], np.array([-3, 12, 17, 12, -3]) / 35, atol=1e-12)
    np.testing.assert_allclose(polynomial_weights(even, 2)[1], np.array([-2, -1, 0, 1, 2]) / 10, atol=1e-12)


def followed(rates: Array, period_ns: int = 20_000_000) -> Readings:
    readings = Readings()
    for k, rate in enumerate(rates):
        readings = readings.followed(k * period_ns, np.concatenate([rate, np.zeros(3)]), -(10**18))
    return readings


def test_noise_is_not_taken_for_angular_acceleration() -> None:
    """What is left of pure noise is nothing, nearly always; a clear acceleration stays as it is."""
    rng = np.random.default_rng(5)
    noise = followed(rng.normal(0.0, 0.005, (400, 3)))
    found = [noise.motion(k * 20_000_000, 45_000_000, 0.005) for k in range(5, 395)]
    left = [one.expected[2].any() for one in found if one is not None]
    assert len(left) == 390
    assert np.mean(left) < 0.02
    times = 0.02 * np.arange(400)
    turning = followed(np.column_stack([3.0 * np.sin(9.0 * times), np.zeros(400), np.zeros(400)]))
    motion = turning.motion(200 * 20_000_000, 45_000_000, 0.005)
    assert motion is not None
    np.testing.assert_allclose(motion.expected[2, 0], 27.0 * np.cos(9.0 * 4.0), rtol=0.03)


def test_what_was_not_read_of_a_turn() -> None:
    rates = np.zeros((6, 3))
    rates[3:, 0] = 1.0
    readings = followed(rates)
    longest = 100_000_000
    turns = readings.turns(np.array([20, 40, 60, 100, 110]) * 1_000_000, longest)
    np.testing.assert_allclose(turns.turn[:, 0], [0.0, 0.01, 0.04, 0.01])  # held at the end
    np.testing.assert_array_equal(turns.unseen_s, 0.0)
    np.testing.assert_array_equal(turns.stddev_rad, 0.0)  # nor did it change before the end
    silent = readings.turns(np.array([150, 300]) * 1_000_000, longest)
    np.testing.assert_allclose(silent.unseen_s, np.sqrt(0.2**2 - 0.05**2))
    np.testing.assert_array_equal(silent.turn, 0.0)
    lost = Readings(np.delete(readings.stamps_ns, 2), np.delete(readings.values, 2, axis=0))
    across = lost.turns(np.array([20, 60]) * 1_000_000, longest)
    np.testing.assert_allclose(across.stddev_rad, 0.5 * 1.0 * 0.04)
    np.testing.assert_allclose(across.turn[0, 0], 0.5 * 1.0 * 0.04)
    np.testing.assert_array_equal(Readings().turns(np.array([0, 10]) * 1_000_000, longest).unseen_s, 0.0)
    np.testing.assert_allclose(Readings().turns(np.array([0, 200]) * 1_000_000, longest).unseen_s, 0.2)


def test_turns_are_those_of_a_coning_motion() -> None:
    """Forty steps of a tenth of a radian about an axis that turns itself, against steps a thousand times finer.

    Rates that are linear in time leave 4 mrad; taken one after the other, as if they kept their axis, 8.
    """

    def rate(time_s: NDArray[np.floating]) -> Array:
        return np.asarray(
            5.0 * np.column_stack([np.cos(8.0 * time_s), np.sin(8.0 * time_s), np.full(len(time_s), 0.3)])
        )

    instants = 20_000_000 * np.arange(41)
    turns = followed(rate(instants * 1e-9)).turns(instants, 100_000_000).turn
    found = expected = Rotation.identity()
    for turn in turns:
        found = found * Rotation.from_rotvec(turn)
    for one in Rotation.from_rotvec(2e-5 * rate(2e-5 * (np.arange(40_000) + 0.5))):
        expected = expected * one
    assert (found.inv() * expected).magnitude() < 6e-3


def shown_by(proximal: Array, distal: Array) -> Shown:
    shown = Shown()
    for first, second in zip(proximal, distal, strict=True):
        shown = shown.followed(first, second, 0.02)
    return shown


@pytest.mark.parametrize("seed", range(5))
def test_axes_of_a_hinge_come_from_rates_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = rng.normal(size=3)
    first /= np.linalg.norm(first)
    mount = Rotation.random(random_state=seed)
    rates, bends = rng.normal(0.0, 1.0, (1000, 3)), np.cumsum(rng.normal(0.0, 0.1, 1000))
    speeds = np.gradient(bends, 0.02)
    turns = Rotation.from_rotvec(bends[:, None] * first) * mount
    distal = turns.inv().apply(rates + speeds[:, None] * first)
    noisy = (one + rng.normal(0.0, 0.02, one.shape) for one in (rates, distal))
    axes = shown_by(*noisy).axes(mount.as_matrix())
    assert axes is not None
    np.testing.assert_allclose(axes[0] * np.sign(axes[0] @ first), first, atol=0.01)
    np.testing.assert_allclose(mount.apply(axes[1]), axes[0], atol=0.01)


def test_a_ball_joint_has_no_axes() -> None:
    rng = np.random.default_rng(1)
    assert shown_by(rng.normal(size=(1000, 3)), rng.normal(size=(1000, 3))).axes(np.eye(3)) is None
    assert shown_by(np.zeros((1000, 3)), np.zeros((1000, 3))).axes(np.eye(3)) is None
