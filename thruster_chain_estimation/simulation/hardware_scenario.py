"""Magnitudes of the scenarios `hardware` and `load`: a thruster chain on a real air table, with real fans and IMUs.

They were fixed, with the reasons that `config/thruster_chain_hardware.yaml` gives beside each, before any filter was
tuned. What differs from one robot, or one day, to the next is drawn anew for each seed: see `robot_build`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from onboard_estimation.base.configuration import load, non_negative, parameter, positive
from onboard_estimation.base.installed import resource

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


@cache
def hardware_scenario() -> HardwareScenario:
    """The magnitudes in the scenario file; UserError where it is not as it should be."""
    scenario: HardwareScenario = load(HardwareScenario, resource(FILE))
    return scenario
