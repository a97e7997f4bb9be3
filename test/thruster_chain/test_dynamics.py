"""Accelerations of a chain against the paper's dense equations, conservation laws and MuJoCo."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from thruster_chains import RandomChain, Surroundings, in_mujoco

from benchmarks import paper_equations
from salp_estimation.thruster_chain.chain_model import ChainModel
from salp_estimation.thruster_chain.forces import accelerate_under_forces
from salp_estimation.thruster_chain.imu import imu_readings


@pytest.mark.parametrize("count", [1, 2, 3, 4, 10, 30])
def test_joint_forces_give_the_accelerations_of_the_paper_s_equation(count: int) -> None:
    for seed in range(5):
        chain = RandomChain.drawn(count, seed, rods=True)
        angular, linear, joint = chain.accelerations()
        dense = paper_equations.angular_accelerations(
            chain.half_length, chain.heading, chain.rate, chain.mass, chain.inertia, chain.force
        )
        np.testing.assert_allclose(angular, dense, rtol=0.0, atol=1e-12 * np.abs(dense).max())
        centre = paper_equations.centre_acceleration(chain.mass, chain.force)
        np.testing.assert_allclose(
            chain.mass @ linear / chain.mass.sum(), centre, rtol=0.0, atol=1e-12 * np.abs(linear).max()
        )
        assert (joint[[0, -1]] == 0.0).all()


def test_links_accelerate_as_their_places_follow_from_the_headings() -> None:
    """Second derivative of equations (15) and (16) against the accelerations that joint forces give."""
    chain = RandomChain.drawn(5, 1, rods=True)
    angular, linear, _ = chain.accelerations()
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


@pytest.mark.parametrize("pivoted", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_accelerations_and_readings_are_mujoco_s(count: int, pivoted: bool) -> None:
    """Centres of mass off the line, IMUs anywhere, gravity in the plane, friction of joints; free and on a pivot."""
    pytest.importorskip("mujoco")
    for seed in range(3):
        chain, around = RandomChain.drawn(count, seed), Surroundings.drawn(count, seed)
        # All forces and torques by thrusters: one on each link can give any force and a torque.
        thrust = np.hypot(*chain.force.T)
        cosine, sine = np.cos(chain.heading), np.sin(chain.heading)
        along = cosine * chain.force[:, 0] + sine * chain.force[:, 1]
        across = cosine * chain.force[:, 1] - sine * chain.force[:, 0]
        model = ChainModel.build(
            chain.behind,
            chain.ahead,
            thruster_angles=np.arctan2(across, along),
            thruster_places=np.column_stack([across, -along]) * (chain.torque / thrust**2)[:, None],
            joint_friction=around.friction,
            imu_places=around.imu_places,
            imu_angles=around.imu_angles,
            gravity=tuple(around.gravity),
            pivoted=pivoted,
        )
        angular, linear, force = np.empty(count), np.empty((count, 2)), np.empty((count, 2))
        readings, still = np.empty((count, 3)), np.zeros(2)
        state = model.links, model.gravity, pivoted, chain.heading, chain.rate, still, chain.mass, chain.inertia, thrust
        accelerate_under_forces(*state, angular, linear, force)
        imu_readings(True, *state, readings)
        for ours, theirs in zip((angular, linear, readings), in_mujoco(chain, pivoted, around), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-10 * np.abs(theirs).max())


def test_energy_and_momenta_stay_without_forces() -> None:
    """Four links for a second, centres of mass off the line, integrated to 1e-12."""
    chain = RandomChain.drawn(4, 5)
    chain = chain._replace(force=np.zeros((4, 2)), torque=np.zeros(4))
    count = len(chain.mass)

    def derivative(_: float, y: np.ndarray) -> np.ndarray:
        heading, rate, _, velocity = np.split(y, [count, 2 * count, 4 * count])
        angular, linear, _ = chain._replace(heading=heading, rate=rate).accelerations()
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
