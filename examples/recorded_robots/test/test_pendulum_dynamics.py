"""Motion of a pendulum against MuJoCo and the conservation of energy."""

from __future__ import annotations

import numpy as np
import pytest
from pendulums import GRAVITY, Links, in_mujoco, swung

from recorded_robots.pendulum import dynamics

SMOOTH_RATE = 0.05


def setting(links: Links) -> dynamics.Setting:
    return dynamics.Setting(links.length, GRAVITY, SMOOTH_RATE)


def accelerations(links: Links, angle: np.ndarray, rate: np.ndarray, torque: np.ndarray, **rows: float) -> np.ndarray:
    parameters = links.parameters
    for name, value in rows.items():
        parameters[getattr(dynamics, name)] = value
    return dynamics.joint_accelerations(angle, rate, parameters, torque, setting(links))


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_joints_accelerate_as_in_mujoco(count: int) -> None:
    mujoco = pytest.importorskip("mujoco")
    for seed in range(5):
        links, rng = Links.drawn(count, seed), np.random.default_rng(seed)
        angle, rate, torque = rng.uniform(-3, 3, count), rng.normal(0, 3, count), rng.normal(0, 1, count)
        model, data = in_mujoco(links)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = angle, rate, torque
        mujoco.mj_forward(model, data)
        found = accelerations(links, angle, rate, torque)
        np.testing.assert_allclose(found, data.qacc, rtol=0.0, atol=1e-10 * np.abs(data.qacc).max())


def test_friction_is_a_torque_against_the_rate() -> None:
    """Dry friction takes its torque off, a gear a share of the motor's, both turned round with the rate."""
    links = Links.drawn(2, 1)
    angle, torque = np.array([0.3, -0.5]), np.array([0.4, -0.7])
    for rate in (np.array([2.0, -3.0]), np.array([-2.0, 3.0])):
        lost = (0.02 + 0.1 * np.abs(torque)) * np.sign(rate) * np.cos(np.arctan(SMOOTH_RATE / rate))
        found = accelerations(links, angle, rate, torque, DRY=0.02, GEAR=0.1)
        np.testing.assert_allclose(found, accelerations(links, angle, rate, torque - lost), rtol=1e-12)


def test_a_swing_is_mujoco_s() -> None:
    pytest.importorskip("mujoco")
    links, rng = Links.drawn(3, 2), np.random.default_rng(2)
    angle, torques = rng.uniform(-1, 1, 3), np.repeat(rng.normal(0, 0.3, (100, 3)), 10, axis=0)
    expected = swung(links, angle, torques)
    steps_s = np.full(1000, 1e-3)
    start = np.concatenate([angle, np.zeros(3)])
    found = dynamics.simulate(start, links.parameters, torques, setting(links), steps_s, 1e-3)
    np.testing.assert_allclose(found[:, :3], expected, rtol=0.0, atol=1e-8)


def test_energy_is_kept_without_friction() -> None:
    """And the error falls with the fourth power of the step."""
    links = Links.drawn(3, 3)._replace(friction=np.zeros(3))
    angle = np.array([2.0, -1.0, 0.5])
    errors = []
    for step_s in (2e-3, 1e-3):
        count = round(2.0 / step_s)
        torques, steps_s = np.zeros((count, 3)), np.full(count, step_s)
        start = np.concatenate([angle, np.zeros(3)])
        motion = dynamics.simulate(start, links.parameters, torques, setting(links), steps_s, 1.0)
        energies = energy(links, motion[:, :3], motion[:, 3:])
        errors.append(np.abs(energies - energies[0]).max() / np.ptp(kinetic(links, motion[:, :3], motion[:, 3:])))
    assert errors[1] < 3e-7
    assert 12.0 < errors[0] / errors[1] < 50.0


def test_sigma_points_move_each_with_its_own_parameters() -> None:
    links, rng = Links.drawn(2, 4), np.random.default_rng(4)
    free = np.array([[dynamics.MASS, 1], [dynamics.INERTIA, 0]])
    points = np.column_stack([rng.normal(0, 1, (7, 4)), rng.normal(-1, 0.3, (7, 2))])
    torque, held = np.array([0.1, 0.2]), links.parameters
    moved = dynamics.propagate(points, held, free, torque, setting(links), 0.004)
    for before, after in zip(points, moved, strict=True):
        own = held.copy()
        own[dynamics.MASS, 1], own[dynamics.INERTIA, 0] = np.exp(before[4:])
        expected = dynamics.simulate(before[:4], own, torque[None], setting(links), np.array([0.004]), 1.0)[-1]
        np.testing.assert_allclose(after, [*expected, *before[4:]], rtol=1e-13)


def kinetic(links: Links, angle: np.ndarray, rate: np.ndarray) -> np.ndarray:
    heading, turning = np.cumsum(angle, axis=1), np.cumsum(rate, axis=1)
    total, vx, vy = 0.0, 0.0, 0.0
    for i in range(len(links.mass)):
        along = np.array([-np.sin(heading[:, i]), np.cos(heading[:, i])]) * turning[:, i]
        speed = (vx + links.centre[i] * along[0]) ** 2 + (vy + links.centre[i] * along[1]) ** 2
        total = total + 0.5 * links.mass[i] * speed + 0.5 * links.inertia[i] * turning[:, i] ** 2
        vx, vy = vx + links.length[i] * along[0], vy + links.length[i] * along[1]
    return np.asarray(total)


def energy(links: Links, angle: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Kinetic, and that of the heights."""
    heading, depth, lifted = np.cumsum(angle, axis=1), 0.0, 0.0
    for i in range(len(links.mass)):
        lifted = lifted - GRAVITY * links.mass[i] * (depth + links.centre[i] * np.cos(heading[:, i]))
        depth = depth + links.length[i] * np.cos(heading[:, i])
    return kinetic(links, angle, rate) + lifted
