"""A thruster chain as it was really built: what is drawn once a seed, around its design.

In the scenario `thrusters` only masses and inertias differ from the design, by the paper's Table III; in `hardware`
everything does that a laboratory's drawing cannot tell.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.simulation.hardware_scenario import HardwareScenario, LoadScenario
from thruster_chain_estimation.simulation.simulation_kernels import Physics

Rows = NDArray[np.float64]
Vector = NDArray[np.float64]

_LONGEST_SPREAD = 2.5  # draws are cut off at so many standard deviations: no mass below zero
_NO_JOINT_FORCES = np.array([1.0, 0.0, 0.0, np.inf, 0.0, 0.0])


class Build(NamedTuple):
    """A robot as it is.

    Attributes
    ----------
    physics
        What moves it.
    lengths, middles
        (N,) m; (N, 2) from the centres of mass to the links' middles, in their frames, m.
    imu, mounting
        (N, 2) from the centres of mass to the IMUs, m; (N, 3, 3) rotations from the links' axes to the IMUs'.
    gyro_bias, accelerometer_bias, gyro_warming, accelerometer_warming
        (N, 3) at switch-on, and what warming up adds in the end; rad/s and m/s^2.
    gyro_scale, accelerometer_scale
        (N, 3) reading by quantity.
    clock_offset_s, clock_drift
        (N,) what the IMUs' stamps are ahead at the start, and their rates' errors.
    """

    physics: Physics
    lengths: Vector
    middles: Rows
    imu: Rows
    mounting: Rows
    gyro_bias: Rows
    accelerometer_bias: Rows
    gyro_warming: Rows
    accelerometer_warming: Rows
    gyro_scale: Rows
    accelerometer_scale: Rows
    clock_offset_s: Vector
    clock_drift: Vector


def _spread(rng: np.random.Generator, stddev: float, *shape: int) -> Rows:
    """Draws from a normal distribution that is cut off."""
    return stddev * np.clip(rng.normal(size=shape), -_LONGEST_SPREAD, _LONGEST_SPREAD)


def papers_build(configuration: ThrusterChainConfiguration, rng: np.random.Generator) -> Build:
    """As designed, but for masses and inertias, which lie around their design as Table III has it."""
    chain, paper, spread = configuration.chain, configuration.paper, partial(_spread, rng)
    n = chain.count
    mass = np.maximum(chain.masses + spread(paper.mass_stddev_kg, n), 0.1 * chain.masses)
    inertia = np.maximum(chain.inertias + spread(paper.inertia_stddev_kg_m2, n), 0.1 * chain.inertias)
    along = np.column_stack([0.5 * chain.lengths, np.zeros(n)])
    nothing, ones, none, right = np.zeros(n), np.ones(n), np.zeros((n, 3)), np.ones((n, 3))
    thrusters = chain.thruster_places, chain.thruster_angles, ones, ones, nothing, nothing
    joints = np.zeros(n - 1), np.zeros(n - 1), _NO_JOINT_FORCES
    physics = Physics(mass, inertia, -along, along, *thrusters, nothing, nothing, nothing, np.zeros(2), *joints)
    imus = chain.imu_places, np.tile(np.eye(3), (n, 1, 1)), none, none, none, none, right, right, nothing, nothing
    return Build(physics, chain.lengths, np.zeros((n, 2)), *imus)


def hardware_build(
    configuration: ThrusterChainConfiguration, scenario: HardwareScenario, rng: np.random.Generator
) -> Build:
    """A robot of that design on that day."""
    chain, spread = configuration.chain, partial(_spread, rng)
    body, thruster, table, pins, imu = scenario.body, scenario.thruster, scenario.table, scenario.joint, scenario.imu
    n = chain.count
    lengths = chain.lengths + spread(body.length_stddev_m, n)
    centre = np.column_stack([spread(body.centre_along_stddev_m, n), spread(body.centre_across_stddev_m, n)])
    along = np.column_stack([0.5 * lengths, np.zeros(n)])
    gain = 1.0 + spread(thruster.gain_spread, n)
    film = table.film_drag_n_s_m * (1.0 + spread(table.film_drag_spread, n))
    physics = Physics(
        chain.masses * (1.0 + spread(body.mass_spread, n)),
        chain.inertias * (1.0 + spread(body.inertia_spread, n)),
        -along - centre,
        along - centre,
        chain.thruster_places + spread(thruster.place_stddev_m, n, 2) - centre,
        chain.thruster_angles + np.deg2rad(spread(thruster.angle_stddev_deg, n)),
        gain,
        gain * (thruster.reverse_gain + spread(thruster.reverse_gain_spread, n)),
        rng.uniform(thruster.time_constant_least_s, thruster.time_constant_largest_s, n),
        rng.uniform(thruster.dead_band_least_n, thruster.dead_band_largest_n, n),
        film,
        film * lengths**2 / 12.0,  # the film lies under the whole link
        np.full(n, table.air_drag_n_s2_m2),
        configuration.gravity_m_s2 * np.deg2rad(spread(table.tilt_stddev_deg, 2)),
        pins.friction_n_m * (1.0 + spread(pins.friction_spread, n - 1)),
        np.deg2rad(spread(pins.cable_rest_stddev_deg, n - 1)),
        np.array(
            [
                pins.slip_rate_rad_s,
                pins.damping_n_m_s,
                pins.cable_n_m_rad,
                np.deg2rad(pins.travel_deg),
                pins.stop_n_m_rad,
                pins.stop_n_m_s_rad,
            ]
        ),
    )
    return Build(
        physics,
        lengths,
        -centre,
        chain.imu_places + spread(imu.place_stddev_m, n, 2) - centre,
        _small_rotations(np.deg2rad(spread(imu.mounting_stddev_deg, n, 3))),
        spread(imu.gyro_bias_stddev_rad_s, n, 3),
        spread(imu.accelerometer_bias_stddev_m_s2, n, 3),
        spread(imu.gyro_warming_stddev_rad_s, n, 3),
        spread(imu.accelerometer_warming_stddev_m_s2, n, 3),
        1.0 + spread(imu.scale_stddev, n, 3),
        1.0 + spread(imu.scale_stddev, n, 3),
        spread(imu.clock_offset_stddev_s, n),
        spread(imu.clock_drift_stddev, n),
    )


def loaded(physics: Physics, configuration: ThrusterChainConfiguration, load: LoadScenario, link: int) -> Physics:
    """The chain once a link has taken up a load at its centre of mass."""
    mass, inertia = physics.mass.copy(), physics.inertia.copy()
    mass[link] += load.mass_share * configuration.chain.masses[link]
    inertia[link] += load.inertia_share * configuration.chain.inertias[link]
    return physics._replace(mass=mass, inertia=inertia)


def _small_rotations(vectors: Rows) -> Rows:
    """(N, 3, 3) that take a vector of the link to the axes of an IMU turned by rotation vectors (N, 3)."""
    from scipy.spatial.transform import Rotation  # nodes that estimate do without

    turned: Rows = Rotation.from_rotvec(vectors).as_matrix().transpose(0, 2, 1)
    return turned
