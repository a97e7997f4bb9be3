"""A chain against the paper's dense equations, conservation laws, MuJoCo and SciPy; many states side by side."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from thruster_chains import RandomChain, accelerated, drawn_links, in_mujoco, read

from benchmarks.thruster_chain import peers as paper_equations
from thruster_chain_estimation.model.dynamics import propagate, rods


def drawn_states(count: int, points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`given` (3N, P) and `motion` (2N + 4, P)."""
    rng = np.random.default_rng(seed)
    reciprocal = np.vstack([rng.uniform(1.0, 4.0, (count, points)), rng.uniform(100.0, 500.0, (count, points))])
    motion = rng.normal(size=(2 * count + 4, points))
    return np.vstack([reciprocal, np.repeat(rng.normal(size=(count, 1)), points, axis=1)]), motion


@pytest.mark.parametrize("count", [1, 2, 3, 4, 10, 30])
def test_joint_forces_give_the_accelerations_of_the_paper_s_equation(count: int) -> None:
    for seed in range(5):
        chain = RandomChain.drawn(count, seed, rods=True)
        angular, linear = chain.accelerations()
        dense = paper_equations.angular_accelerations(
            chain.half_length, chain.heading, chain.rate, chain.mass, chain.inertia, chain.force
        )
        np.testing.assert_allclose(angular, dense, rtol=0.0, atol=1e-12 * np.abs(dense).max())
        centre = paper_equations.centre_acceleration(chain.mass, chain.force)
        np.testing.assert_allclose(
            chain.mass @ linear / chain.mass.sum(), centre, rtol=0.0, atol=1e-12 * np.abs(linear).max()
        )


def test_links_accelerate_as_their_places_follow_from_the_headings() -> None:
    """Second derivative of equations (15) and (16) against the accelerations that joint forces give."""
    chain = RandomChain.drawn(5, 1, rods=True)
    angular, linear = chain.accelerations()
    centre = paper_equations.centre_acceleration(chain.mass, chain.force)

    def velocities(after_s: float) -> np.ndarray:
        return paper_equations.link_velocities(
            chain.half_length,
            chain.heading + after_s * chain.rate,
            chain.rate + after_s * angular,
            chain.mass,
            after_s * centre,
        )

    np.testing.assert_allclose((velocities(1e-5) - velocities(-1e-5)) / 2e-5, linear, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_accelerations_and_readings_are_mujoco_s(count: int) -> None:
    """Centres of mass off the line, IMUs anywhere."""
    pytest.importorskip("mujoco")
    for seed in range(3):
        chain, imu_places = RandomChain.drawn(count, seed), np.random.default_rng(seed).normal(0.0, 0.1, (count, 2))
        pushed = chain.pushed(imu_places)
        angular, linear, _, _ = accelerated(*pushed)
        ours_of_all = angular[:, 0], linear[..., 0], read(True, *pushed).reshape(-1, 3)
        for ours, theirs in zip(ours_of_all, in_mujoco(chain, imu_places), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-10 * np.abs(theirs).max())


def test_energy_and_momenta_stay_without_forces() -> None:
    """Four links for a second, centres of mass off the line, integrated to 1e-12."""
    chain = RandomChain.drawn(4, 5)
    chain = chain._replace(force=np.zeros((4, 2)), torque=np.zeros(4))
    count = len(chain.mass)

    def derivative(_: float, y: np.ndarray) -> np.ndarray:
        heading, rate, _, velocity = np.split(y, [count, 2 * count, 4 * count])
        angular, linear = chain._replace(heading=heading, rate=rate).accelerations()
        return np.concatenate([rate, angular, velocity, linear.ravel()])

    # Places and velocities from pin to pin.
    cosine, sine = np.cos(chain.heading), np.sin(chain.heading)
    turn = np.moveaxis(np.array([[cosine, -sine], [sine, cosine]]), 2, 0)
    behind, ahead = (np.einsum("nij,nj->ni", turn, pins) for pins in (chain.behind, chain.ahead))
    across = np.array([[0.0, 1.0], [-1.0, 0.0]])
    place, velocity = np.zeros((count, 2)), np.tile([0.3, -0.2], (count, 1))
    for i in range(1, count):
        place[i] = place[i - 1] + ahead[i - 1] - behind[i]
        velocity[i] = velocity[i - 1] + (chain.rate[i - 1] * ahead[i - 1] - chain.rate[i] * behind[i]) @ across
    start = np.concatenate([chain.heading, chain.rate, place.ravel(), velocity.ravel()])
    run = solve_ivp(derivative, (0.0, 1.0), start, method="DOP853", rtol=1e-12, atol=1e-13)

    def kept(y: np.ndarray) -> np.ndarray:
        _, rate, place, velocity = np.split(y, [count, 2 * count, 4 * count])
        place, velocity = place.reshape(-1, 2), velocity.reshape(-1, 2)
        energy = 0.5 * (chain.mass @ (velocity**2).sum(axis=1) + chain.inertia @ rate**2)
        spin = chain.mass @ (place[:, 0] * velocity[:, 1] - place[:, 1] * velocity[:, 0]) + chain.inertia @ rate
        return np.array([energy, *(chain.mass @ velocity), spin])

    np.testing.assert_allclose(kept(run.y[:, -1]), kept(start), rtol=1e-10, atol=1e-10)
    # It moved: the sum is no trivial one.
    assert np.abs(run.y[:count, -1] - chain.heading).max() > 1.0


@pytest.mark.parametrize("physical", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_many_states_read_as_one_by_one(count: int, physical: bool) -> None:
    """Sigma points in numbers that fill no whole vectors of the processor."""
    links = drawn_links(count, 3)
    for points in (1, 8, 17, 43):
        given, motion = drawn_states(count, points, points)
        found, moved = read(physical, links, given, motion), motion.copy()
        propagate(links, given, moved, 0.02, 0.01)
        for point in range(points):
            one = given[:, point : point + 1].copy(), motion[:, point : point + 1].copy()
            np.testing.assert_array_equal(found[:, point], read(physical, links, *one)[:, 0])
            propagate(links, *one, 0.02, 0.01)
            np.testing.assert_array_equal(moved[:, point], one[1][:, 0])


def test_motion_is_that_of_an_accurate_integrator() -> None:
    links, n = drawn_links(4, 8), 4
    given, motion = drawn_states(n, 3, 9)

    def derivative(_: float, y: np.ndarray, point: int) -> np.ndarray:
        angular, _, _, whole = accelerated(links, given[:, point : point + 1].copy(), y[:, None].copy())
        return np.concatenate([y[n : 2 * n], angular[:, 0], y[2 * n + 2 :], whole[:, 0]])

    exact = np.column_stack(
        [
            solve_ivp(derivative, (0.0, 0.1), motion[:, k], args=(k,), rtol=1e-12, atol=1e-13, method="DOP853").y[:, -1]
            for k in range(3)
        ]
    )
    errors = []
    for longest in (0.01, 0.005):
        found = motion.copy()
        propagate(links, given, found, 0.1, longest)
        errors.append(np.abs(found - exact).max())
    assert errors[0] < 1e-4
    assert errors[1] < errors[0] / 12.0  # of the fourth order: 16


def test_the_paper_s_accelerometer_reads_external_forces_by_mass_in_the_room_s_frame() -> None:
    """Equations (21) and (33) with the IMUs in the centres of mass; (20) elsewhere."""
    rng = np.random.default_rng(0)
    heading, rate, thrust = rng.normal(size=3), rng.normal(size=3), rng.normal(size=3)
    mass, inertia, psi = rng.uniform(0.3, 1.0, 3), np.full(3, 2.6e-3), np.array([0.8, 2.1, -1.6])
    centred = rods(np.full(3, 0.25), psi)
    state = np.concatenate([1.0 / mass, 1.0 / inertia, thrust])[:, None], np.concatenate([heading, rate])[:, None]
    readings = read(False, centred, *state).reshape(3, 3)
    angle = heading + psi
    expected = np.column_stack([thrust / mass * np.cos(angle), thrust / mass * np.sin(angle), rate])
    np.testing.assert_allclose(readings, expected, atol=1e-14)

    force = thrust[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    angular = paper_equations.angular_accelerations(np.full(3, 0.125), heading, rate, mass, inertia, force)
    place = 0.1 * np.column_stack([np.cos(heading), np.sin(heading)])
    expected[:, :2] += -(rate**2)[:, None] * place + angular[:, None] * np.column_stack([-place[:, 1], place[:, 0]])
    elsewhere = rods(np.full(3, 0.25), psi, imu_places=(0.1, 0.0))
    readings = read(False, elsewhere, *state).reshape(3, 3)
    np.testing.assert_allclose(readings, expected, atol=1e-12)


def test_a_floating_chain_s_readings_do_not_tell_its_heading() -> None:
    """All headings and the velocity turned alike: physical readings stay, the paper's turn."""
    links, turned_by = rods([0.2, 0.3, 0.25], [0.5, 2.0, -1.5]), 0.7
    given, motion = drawn_states(3, 1, 4)
    found = np.empty((2, 2, 9, 1))
    for turned in (0, 1):
        motion[:3] += turned * turned_by
        for physical in (0, 1):
            found[turned, physical] = read(bool(physical), links, given, motion[:6].copy())
    np.testing.assert_allclose(found[1, 1], found[0, 1], rtol=1e-12)
    assert np.abs(found[1, 0] - found[0, 0]).max() > 0.1


def test_complex_states_give_exact_derivatives() -> None:
    """By the mass of link 2, against central differences."""
    links = drawn_links(3, 6)
    given, motion = drawn_states(3, 1, 7)

    def found(step: complex) -> np.ndarray:
        aside = given + 0.0 * step
        aside[1] = 1.0 / (1.0 / given[1] + step)
        return read(True, links, aside, motion + 0.0 * step)

    exact = found(1e-30j).imag / 1e-30
    np.testing.assert_allclose(exact, (found(1e-6) - found(-1e-6)) / 2e-6, rtol=1e-6, atol=1e-6)
