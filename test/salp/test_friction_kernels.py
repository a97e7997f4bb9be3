"""Rates with dry friction and harness against an independent dense balance; their derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize, root

from salp_estimation.model import chain_kernels
from salp_estimation.model import friction_kernels as kernels
from salp_estimation.model.chain import Chain

Array = NDArray[np.float64]
SLIP = np.array([0.004, 0.005, 0.04, 0.03])


def a_chain(n: int) -> Chain:
    rng = np.random.default_rng(n)
    drag = np.column_stack([rng.uniform(40.0, 80.0, n), rng.uniform(20.0, 90.0, n), rng.uniform(0.2, 0.8, n)])
    offsets, angles = rng.normal(scale=0.01, size=(n, 2)), rng.uniform(-np.pi, np.pi, n)
    return Chain.build(rng.uniform(0.2, 0.3, n), offsets, angles, drag, rng.uniform(0.005, 0.02, n - 1))


def some_parameters(n: int, rng: np.random.Generator) -> Array:
    wheels = np.column_stack(
        [
            rng.uniform(0.2, 0.8, n),
            rng.uniform(0.2, 0.8, n),
            rng.uniform(0.005, 0.02, n),
            rng.uniform(0.9, 1.1, (n, 3)),
            rng.normal(scale=0.05, size=n),
            rng.uniform(0.0, 0.1, n),
            rng.normal(scale=0.05, size=n),
        ]
    )
    joints = np.column_stack(
        [rng.normal(scale=0.01, size=n - 1), rng.uniform(0.1, 0.3, n - 1), rng.uniform(0.005, 0.02, n - 1)]
    )
    return np.concatenate([wheels.ravel(), joints.ravel()])


def a_case(n: int, seed: int) -> tuple[Array, Array, Array, Array, Array]:
    """Links, joint angles, controls, their slopes and parameters."""
    rng = np.random.default_rng(100 * n + seed)
    angles, controls = rng.uniform(-0.8, 0.8, n - 1), rng.uniform(-0.1, 0.1, n)
    return a_chain(n).links, angles, controls, rng.normal(scale=0.1, size=n), some_parameters(n, rng)


def wheel_poses(links: Array, configuration: Array) -> Array:
    """(N, 3) of the wheels in the world, from the pose of the base (mean of wheels and headings) and joint angles."""
    relative = np.concatenate([[0.0], np.cumsum(configuration[3:])])
    headings = configuration[2] + relative - relative.mean()
    rear, centres = np.zeros(2), []
    for row, heading in zip(links, headings, strict=True):
        ahead = row[chain_kernels.LENGTH] * np.array([np.cos(heading), np.sin(heading)])
        turn = np.array([[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]])
        wheel = np.array([row[chain_kernels.WHEEL_X], row[chain_kernels.WHEEL_Y]])
        centres.append(rear + 0.5 * ahead + turn @ wheel)
        rear = rear + ahead
    places = np.array(centres) - np.mean(centres, axis=0) + configuration[:2]
    return np.column_stack([places, headings + links[:, chain_kernels.WHEEL_ANGLE]])


def dense_rates(links: Array, joint_angles: Array, controls: Array, slopes: Array, parameters: Array) -> Array:
    """Rates at which all forces balance, by scipy: Jacobians by differences, one long sum of forces."""
    n = len(links)
    at = np.concatenate([np.zeros(3), joint_angles])
    step = 1e-5 * np.eye(n + 2)
    world = np.array([(wheel_poses(links, at + one) - wheel_poses(links, at - one)) / 2e-5 for one in step])
    own, joint = parameters[: 9 * n].reshape(n, 9), parameters[9 * n :].reshape(n - 1, 3)
    axis = wheel_poses(links, at)[:, 2] + own[:, 8]
    jacobians = np.empty((n, 3, n + 2))
    for i in range(n):
        c, s = np.cos(axis[i]), np.sin(axis[i])
        jacobians[i] = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) @ world[:, i].T
    drag = np.array([np.diag(row[chain_kernels.DRAG : chain_kernels.DRAG + 9].reshape(3, 3)) for row in links])
    thrust = drag[:, 0] * (1.0 + own[:, 6]) * (controls - own[:, 7] * slopes)
    joint_drag = links[: n - 1, chain_kernels.JOINT_DRAG]

    def forces(q: Array) -> Array:
        speed = jacobians @ q
        force = drag * own[:, 3:6] * speed + own[:, :3] * speed / np.sqrt(speed**2 + SLIP[:3] ** 2)
        force[:, 0] -= thrust
        torque = joint_drag * q[3:] + joint[:, 2] * q[3:] / np.sqrt(q[3:] ** 2 + SLIP[3] ** 2)
        torque += joint[:, 1] * joint_angles - joint[:, 0]
        total: Array = np.einsum("iac,ia->c", jacobians, force)
        total[3:] += torque
        return total

    def potential(q: Array) -> float:
        speed = jacobians @ q
        value = 0.5 * np.sum(drag * own[:, 3:6] * speed**2) + np.sum(own[:, :3] * np.sqrt(speed**2 + SLIP[:3] ** 2))
        value += 0.5 * np.sum(joint_drag * q[3:] ** 2) + np.sum(joint[:, 2] * np.sqrt(q[3:] ** 2 + SLIP[3] ** 2))
        return float(value - thrust @ speed[:, 0] + (joint[:, 1] * joint_angles - joint[:, 0]) @ q[3:])

    near = minimize(potential, np.zeros(n + 2), jac=forces, method="BFGS", options={"gtol": 1e-6, "maxiter": 2000})
    found = root(forces, near.x, method="hybr", tol=1e-13)
    assert np.abs(forces(found.x)).max() < 1e-9
    result: Array = found.x
    return result


@pytest.mark.parametrize(("n", "seed"), [(2, 0), (3, 1), (10, 2)])
def test_rates_balance_all_forces(n: int, seed: int) -> None:
    links, angles, controls, slopes, parameters = a_case(n, seed)
    for start in (np.zeros(n + 2), np.random.default_rng(seed).normal(size=n + 2)):
        found = kernels.rates(
            kernels.Place(links, angles, controls, slopes, parameters, SLIP), start, np.empty((n + 2, 0))
        )
        np.testing.assert_allclose(
            found, dense_rates(links, angles, controls, slopes, parameters), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("n", [2, 5])
def test_sensitivities_are_derivatives(n: int) -> None:
    links, angles, controls, slopes, parameters = a_case(n, 2)
    count = kernels.parameter_count(n)
    assert count == len(parameters)
    found = np.empty((n + 2, count))
    rates = kernels.rates(kernels.Place(links, angles, controls, slopes, parameters, SLIP), np.zeros(n + 2), found)

    def moved(by: Array) -> Array:
        return kernels.rates(
            kernels.Place(links, angles, controls, slopes, parameters + by, SLIP), rates, np.empty((n + 2, 0))
        )

    size = 1e-5
    expected = np.column_stack([(moved(one) - moved(-one)) / (2.0 * size) for one in size * np.eye(count)])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
