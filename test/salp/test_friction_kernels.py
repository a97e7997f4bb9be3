"""Rates with dry friction and harness against an independent dense balance; their derivatives against differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize, root
from test_chain import DenseChain, random_chain

from salp_estimation.model import friction_kernels as kernels

Array = NDArray[np.float64]
SLIP = np.array([0.004, 0.005, 0.04, 0.03])


def a_chain(n: int) -> DenseChain:
    """Drag along the wheels' own axes alone, as the kernels have it."""
    dense, rng = random_chain(n, n), np.random.default_rng(n)
    drag = np.column_stack([rng.uniform(40.0, 80.0, n), rng.uniform(20.0, 90.0, n), rng.uniform(0.2, 0.8, n)])
    return replace(dense, wheel_drag=drag[:, :, None] * np.eye(3), joint_drag=rng.uniform(0.005, 0.02, n - 1))


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
            rng.normal(scale=0.1, size=(n, 2)),
        ]
    )
    joints = np.column_stack(
        [rng.normal(scale=0.01, size=n - 1), rng.uniform(0.1, 0.3, n - 1), rng.uniform(0.005, 0.02, n - 1)]
    )
    return np.concatenate([wheels.ravel(), joints.ravel()])


def a_case(n: int, seed: int) -> tuple[DenseChain, Array, float, Array, Array, Array]:
    """A chain, joint angles, heading, controls, their slopes and parameters."""
    rng = np.random.default_rng(100 * n + seed)
    angles, controls = rng.uniform(-0.8, 0.8, n - 1), rng.uniform(-0.1, 0.1, n)
    slopes = rng.normal(scale=0.1, size=n)
    return a_chain(n), angles, 0.7 * seed - 2.0, controls, slopes, some_parameters(n, rng)


def dense_rates(
    dense: DenseChain, joint_angles: Array, heading: float, controls: Array, slopes: Array, parameters: Array
) -> Array:
    """Rates at which all forces balance, by scipy: Jacobians by differences, one long sum of forces."""
    n = len(controls)
    own, joint = parameters[: 11 * n].reshape(n, 11), parameters[11 * n :].reshape(n - 1, 3)
    wheel_angles = dense.wheel_angles + own[:, 8]
    jacobians, _ = replace(dense, wheel_angles=wheel_angles).jacobians(joint_angles)
    # Of each wheel's axes in the room, in which the base has the mean heading of the links.
    relative = np.concatenate([[0.0], np.cumsum(joint_angles)])
    turned = heading + relative - relative.mean() + wheel_angles
    pull = own[:, 9] + 1j * own[:, 10]
    along, across = (pull * np.exp(-1j * turned)).real, (pull * np.exp(-1j * turned)).imag
    drag = np.diagonal(dense.wheel_drag, axis1=1, axis2=2)
    thrust = drag[:, 0] * (1.0 + own[:, 6]) * (controls - own[:, 7] * slopes)
    joint_drag = dense.joint_drag

    def forces(q: Array) -> Array:
        speed = jacobians @ q
        force = drag * own[:, 3:6] * speed + own[:, :3] * speed / np.sqrt(speed**2 + SLIP[:3] ** 2)
        force[:, 0] -= thrust + along
        force[:, 1] -= across
        torque = joint_drag * q[3:] + joint[:, 2] * q[3:] / np.sqrt(q[3:] ** 2 + SLIP[3] ** 2)
        torque += joint[:, 1] * joint_angles - joint[:, 0]
        total: Array = np.einsum("iac,ia->c", jacobians, force)
        total[3:] += torque
        return total

    def potential(q: Array) -> float:
        speed = jacobians @ q
        value = 0.5 * np.sum(drag * own[:, 3:6] * speed**2) + np.sum(own[:, :3] * np.sqrt(speed**2 + SLIP[:3] ** 2))
        value += 0.5 * np.sum(joint_drag * q[3:] ** 2) + np.sum(joint[:, 2] * np.sqrt(q[3:] ** 2 + SLIP[3] ** 2))
        value -= (thrust + along) @ speed[:, 0] + across @ speed[:, 1]
        return float(value + (joint[:, 1] * joint_angles - joint[:, 0]) @ q[3:])

    near = minimize(potential, np.zeros(n + 2), jac=forces, method="BFGS", options={"gtol": 1e-6, "maxiter": 2000})
    found = root(forces, near.x, method="hybr", tol=1e-13)
    assert np.abs(forces(found.x)).max() < 1e-9
    result: Array = found.x
    return result


def rates(case: tuple[DenseChain, Array, float, Array, Array, Array], start: Array, sensitivities: Array) -> Array:
    dense, *place = case
    found: Array = kernels.rates(kernels.Place(dense.build().links, *place, SLIP), start, sensitivities)
    return found


@pytest.mark.parametrize("n", [2, 10])
def test_rates_balance_all_forces(n: int) -> None:
    case = a_case(n, 0)
    for start in (np.zeros(n + 2), np.random.default_rng(n).normal(size=n + 2)):
        found = rates(case, start, np.empty((n + 2, 0)))
        np.testing.assert_allclose(found, dense_rates(*case), rtol=1e-6, atol=1e-8)


def test_sensitivities_are_derivatives() -> None:
    n, size = 5, 1e-5
    *case, parameters = a_case(n, 2)
    count = kernels.parameter_count(n)
    assert count == len(parameters)
    found = np.empty((n + 2, count))
    start = rates((*case, parameters), np.zeros(n + 2), found)

    def moved(by: Array) -> Array:
        return rates((*case, parameters + by), start, np.empty((n + 2, 0)))

    expected = np.column_stack([(moved(one) - moved(-one)) / (2.0 * size) for one in size * np.eye(count)])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
