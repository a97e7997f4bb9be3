"""A chain against the paper's dense equations, conservation laws, MuJoCo and SciPy; many states side by side."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from thruster_chains import RandomChain, accelerated, drawn_links, in_mujoco, read

from benchmarks.thruster_chain import steps as paper_equations
from thruster_chain_estimation.model.dynamics import propagate, rods


def drawn_states(count: int, points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`given` (3N, P) and `motion` (2N + 4, P)."""
    rng = np.random.default_rng(seed)
    reciprocal = np.vstack([rng.uniform(1.0, 4.0, (count, points)), rng.uniform(100.0, 500.0, (count, points))])
    motion = rng.normal(size=(2 * count + 4, points))
    return np.vstack([reciprocal, np.repeat(rng.normal(size=(count, 1)), points, axis=1)]), motion


@pytest.mark.parametrize("count", [1, 7])
def test_accelerations_and_readings_are_mujoco_s(count: int) -> None:
    """Centres of mass off the line, IMUs anywhere."""
    pytest.importorskip("mujoco")
    chain, imu_places = RandomChain.drawn(count, 1), np.random.default_rng(1).normal(0.0, 0.1, (count, 2))
    pushed = chain.pushed(imu_places)
    angular, linear = accelerated(*pushed)
    ours_of_all = angular[:, 0], linear[..., 0], read(True, *pushed).reshape(-1, 3)
    for ours, theirs in zip(ours_of_all, in_mujoco(chain, imu_places), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-10 * np.abs(theirs).max())


@pytest.mark.parametrize(("count", "physical"), [(1, False), (3, True)])
def test_many_states_read_as_one_by_one(count: int, physical: bool) -> None:
    """Sigma points in numbers that fill no whole vectors of the processor."""
    links = drawn_links(count, 3)
    for points in (1, 17):
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
        angular, linear = accelerated(links, given[:, point : point + 1].copy(), y[:, None].copy())
        mass = 1.0 / given[:n, point]
        return np.concatenate([y[n : 2 * n], angular[:, 0], y[2 * n + 2 :], mass @ linear[..., 0] / mass.sum()])

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
