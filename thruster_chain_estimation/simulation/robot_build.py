"""A thruster chain as it was really built, and its day: magnitudes, and what is drawn once a seed around the design.

In the scenario `thrusters` only masses and inertias differ from the design, by the paper's Table III; in `hardware` and
`load` everything does that a laboratory's drawing cannot tell, on a real air table, with real fans and IMUs. Magnitudes
of these were fixed, with the reasons that `config/thruster_chain_hardware.yaml` gives beside each, before any filter
was tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from onboard_estimation.base.configuration import non_negative, parameter, positive
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.series import Fault
from onboard_estimation.contract.signals import magnitudes, spread
from onboard_estimation.contract.simulated import Place
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.simulation.simulation_kernels import Physics

FILE = "config/thruster_chain_hardware.yaml"


@dataclass(frozen=True)
class BodyScenario:
    """Links as they were built."""

    length_stddev_m: float = non_negative(2e-4, "of a link's length", "m")
    mass_spread: float = parameter(0.12, "of a link's mass, as a share", minimum=0.0, maximum=0.3)
    inertia_spread: float = parameter(0.12, "of a link's inertia, as a share", minimum=0.0, maximum=0.3)
    centre_along_stddev_m: float = non_negative(5e-3, "of a centre of mass, along the link", "m")
    centre_across_stddev_m: float = non_negative(2.5e-3, "of a centre of mass, across the link", "m")


@dataclass(frozen=True)
class ThrusterScenario:
    """From a command to a force."""

    command_rate_hz: float = positive(50.0, "rate of the commands", "Hz")
    place_stddev_m: float = non_negative(8e-4, "of a thruster's place, each axis", "m")
    angle_stddev_deg: float = non_negative(0.8, "of a thruster's direction", "deg")
    gain_spread: float = parameter(0.04, "of thrust by command, as a share", minimum=0.0, maximum=0.3)
    reverse_gain: float = positive(0.93, "thrust in reverse against forward")
    reverse_gain_spread: float = parameter(0.03, "of that", minimum=0.0, maximum=0.3)
    time_constant_least_s: float = positive(0.02, "of the first-order lag", "s")
    time_constant_largest_s: float = positive(0.06, "of the first-order lag", "s")
    dead_band_least_n: float = non_negative(0.02, "commands below do not start a fan", "N")
    dead_band_largest_n: float = non_negative(0.06, "commands below do not start a fan", "N")
    vibration_m_s2: float = non_negative(
        0.05, "of an accelerometer's sample, each axis, at 1 N of its link's thruster", "m/s^2"
    )


@dataclass(frozen=True)
class TableScenario:
    """Air table and room."""

    film_drag_n_s_m: float = non_negative(0.0045, "viscous drag of a link's air film", "N s/m")
    film_drag_spread: float = parameter(0.25, "of that, as a share", minimum=0.0, maximum=0.3)
    air_drag_n_s2_m2: float = non_negative(0.008, "quadratic drag of a link", "N s^2/m^2")
    tilt_stddev_deg: float = non_negative(0.04, "of the table, each axis", "deg")
    draught_n: float = non_negative(0.003, "standard deviation of a draught's force on a link", "N")
    draught_time_s: float = positive(1.0, "correlation time of that force", "s")


@dataclass(frozen=True)
class JointScenario:
    """Pins, cable and end stops."""

    friction_n_m: float = non_negative(4e-4, "mean Coulomb friction of a pin", "N m")
    friction_spread: float = parameter(0.3, "of that, as a share", minimum=0.0, maximum=0.3)
    slip_rate_rad_s: float = positive(0.05, "joint rate at which it has reached 76 % of its size", "rad/s")
    damping_n_m_s: float = non_negative(1e-4, "viscous friction of a pin", "N m s")
    cable_n_m_rad: float = non_negative(0.002, "stiffness of the cable at a joint", "N m/rad")
    cable_rest_stddev_deg: float = non_negative(15.0, "of the angle where it has no torque", "deg")
    travel_deg: float = positive(110.0, "where the end stops begin, either way", "deg")
    stop_n_m_rad: float = non_negative(2.0, "stiffness of an end stop", "N m/rad")
    stop_n_m_s_rad: float = non_negative(0.02, "damping of an end stop", "N m s/rad")


@dataclass(frozen=True)
class ImuScenario:
    """IMU of a link; stands for all that its samples have in common or not."""

    rate_hz: float = positive(200.0, "rate", "Hz")
    place_stddev_m: float = non_negative(1.2e-3, "of its place, each axis", "m")
    mounting_stddev_deg: float = non_negative(0.8, "of its axes against the link's, each axis", "deg")
    gyro_noise_rad_s_sqrt_hz: float = non_negative(8.7e-5, "white noise", "rad/s/sqrt(Hz)")
    gyro_bias_stddev_rad_s: float = non_negative(0.0175, "bias at switch-on, each axis", "rad/s")
    gyro_warming_stddev_rad_s: float = non_negative(9e-4, "change of the bias while warming up", "rad/s")
    accelerometer_noise_m_s2_sqrt_hz: float = non_negative(3.9e-3, "white noise", "m/s^2/sqrt(Hz)")
    accelerometer_bias_stddev_m_s2: float = non_negative(0.16, "bias at switch-on, each axis", "m/s^2")
    accelerometer_warming_stddev_m_s2: float = non_negative(0.004, "change of the bias while warming up", "m/s^2")
    warming_time_s: float = positive(20.0, "time constant of warming up", "s")
    scale_stddev: float = parameter(0.004, "of the scale, each axis", minimum=0.0, maximum=0.1)
    low_pass_s: float = non_negative(0.0017, "time constant of the low-pass", "s")
    gyro_step_rad_s: float = positive(5.32e-4, "of the digits", "rad/s")
    accelerometer_step_m_s2: float = positive(1.2e-3, "of the digits", "m/s^2")
    gyro_range_rad_s: float = positive(17.453, "largest reading", "rad/s")
    accelerometer_range_m_s2: float = positive(39.24, "largest reading", "m/s^2")
    clock_offset_stddev_s: float = non_negative(0.004, "of its clock against the commands'", "s")
    clock_drift_stddev: float = non_negative(2e-5, "of its clock's rate")
    jitter_stddev_s: float = non_negative(2e-4, "of the sampling instants", "s")
    lost_share: float = parameter(0.005, "share of the samples that are lost", minimum=0.0, exclusive_maximum=1.0)


@dataclass(frozen=True)
class CaptureScenario:
    """Motion capture of the links, which judges."""

    rate_hz: float = positive(100.0, "rate", "Hz")
    position_stddev_m: float = non_negative(1e-4, "white noise of a link's x and y", "m")
    heading_stddev_deg: float = non_negative(0.02, "white noise of a link's heading", "deg")
    covered_share: float = parameter(
        0.02, "share of the time in which a link's markers are covered", minimum=0.0, exclusive_maximum=1.0
    )
    covered_time_s: float = positive(0.05, "how long they are, each time", "s")


@dataclass(frozen=True)
class LoadScenario:
    """A load that one link takes up in the middle of a run of the scenario `load`."""

    at_s: float = non_negative(15.0, "when", "s")
    mass_share: float = non_negative(0.4, "its mass, as a share of the link's by design")
    inertia_share: float = non_negative(0.3, "what it adds to the inertia, as a share of the link's")


@dataclass(frozen=True)
class HardwareScenario:
    """All magnitudes of the scenarios `hardware` and `load`."""

    rest_s: float = non_negative(1.5, "the robot stands still, the air off, so long", "s")
    body: BodyScenario = BodyScenario()
    thruster: ThrusterScenario = ThrusterScenario()
    table: TableScenario = TableScenario()
    joint: JointScenario = JointScenario()
    imu: ImuScenario = ImuScenario()
    capture: CaptureScenario = CaptureScenario()
    load: LoadScenario = LoadScenario()


hardware_scenario = cache(partial(magnitudes, HardwareScenario, FILE))
"""The magnitudes in the scenario file; UserError where it is not as it should be."""


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
    middles: Matrix
    imu: Matrix
    mounting: Matrix
    gyro_bias: Matrix
    accelerometer_bias: Matrix
    gyro_warming: Matrix
    accelerometer_warming: Matrix
    gyro_scale: Matrix
    accelerometer_scale: Matrix
    clock_offset_s: Vector
    clock_drift: Vector


def papers_build(configuration: ThrusterChainConfiguration, rng: np.random.Generator) -> Build:
    """As designed, but for masses and inertias, which lie around their design as Table III has it."""
    chain, paper, draw = configuration.chain, configuration.paper, partial(spread, rng)
    n = chain.count
    mass = np.maximum(chain.masses + draw(paper.mass_stddev_kg, n), 0.1 * chain.masses)
    inertia = np.maximum(chain.inertias + draw(paper.inertia_stddev_kg_m2, n), 0.1 * chain.inertias)
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
    chain, draw = configuration.chain, partial(spread, rng)
    body, thruster, table, pins, imu = scenario.body, scenario.thruster, scenario.table, scenario.joint, scenario.imu
    n, stops = chain.count, (pins.stop_n_m_rad, pins.stop_n_m_s_rad)
    lengths = chain.lengths + draw(body.length_stddev_m, n)
    centre = np.column_stack([draw(body.centre_along_stddev_m, n), draw(body.centre_across_stddev_m, n)])
    along = np.column_stack([0.5 * lengths, np.zeros(n)])
    gain = 1.0 + draw(thruster.gain_spread, n)
    film = table.film_drag_n_s_m * (1.0 + draw(table.film_drag_spread, n))
    physics = Physics(
        chain.masses * (1.0 + draw(body.mass_spread, n)),
        chain.inertias * (1.0 + draw(body.inertia_spread, n)),
        -along - centre,
        along - centre,
        chain.thruster_places + draw(thruster.place_stddev_m, n, 2) - centre,
        chain.thruster_angles + np.deg2rad(draw(thruster.angle_stddev_deg, n)),
        gain,
        gain * (thruster.reverse_gain + draw(thruster.reverse_gain_spread, n)),
        rng.uniform(thruster.time_constant_least_s, thruster.time_constant_largest_s, n),
        rng.uniform(thruster.dead_band_least_n, thruster.dead_band_largest_n, n),
        film,
        film * lengths**2 / 12.0,  # the film lies under the whole link
        np.full(n, table.air_drag_n_s2_m2),
        configuration.gravity_m_s2 * np.deg2rad(draw(table.tilt_stddev_deg, 2)),
        pins.friction_n_m * (1.0 + draw(pins.friction_spread, n - 1)),
        np.deg2rad(draw(pins.cable_rest_stddev_deg, n - 1)),
        np.array([pins.slip_rate_rad_s, pins.damping_n_m_s, pins.cable_n_m_rad, np.deg2rad(pins.travel_deg), *stops]),
    )
    return Build(
        physics,
        lengths,
        -centre,
        chain.imu_places + draw(imu.place_stddev_m, n, 2) - centre,
        _small_rotations(np.deg2rad(draw(imu.mounting_stddev_deg, n, 3))),
        draw(imu.gyro_bias_stddev_rad_s, n, 3),
        draw(imu.accelerometer_bias_stddev_m_s2, n, 3),
        draw(imu.gyro_warming_stddev_rad_s, n, 3),
        draw(imu.accelerometer_warming_stddev_m_s2, n, 3),
        1.0 + draw(imu.scale_stddev, n, 3),
        1.0 + draw(imu.scale_stddev, n, 3),
        draw(imu.clock_offset_stddev_s, n),
        draw(imu.clock_drift_stddev, n),
    )


def changeable(count: int) -> dict[str, Place]:
    """What can change of a chain while it moves, and where that is in its `Physics`."""
    fields = {"mass": ("mass",), "inertia": ("inertia",), "thrust": ("gain", "reverse_gain")}
    links = {f"link_{link + 1}.{name}": (those, link) for link in range(count) for name, those in fields.items()}
    return {**links, "draught": ((), None)}


def load_of(configuration: ThrusterChainConfiguration, load: LoadScenario, link: int) -> tuple[Fault, Fault]:
    """A link takes up a load at its centre of mass."""
    mass_kg = load.mass_share * configuration.chain.masses[link]
    inertia_kg_m2 = load.inertia_share * configuration.chain.inertias[link]
    return (
        Fault(f"link_{link + 1}.mass", "offset", mass_kg, load.at_s),
        Fault(f"link_{link + 1}.inertia", "offset", inertia_kg_m2, load.at_s),
    )


def _small_rotations(vectors: Matrix) -> Matrix:
    """(N, 3, 3) that take a vector of the link to the axes of an IMU turned by rotation vectors (N, 3)."""
    from scipy.spatial.transform import Rotation  # nodes that estimate do without

    turned: Matrix = Rotation.from_rotvec(vectors).as_matrix().transpose(0, 2, 1)
    return turned
