"""Magnitudes of the scenarios `hardware` and `load`: a thruster chain on a real air table, with real fans and IMUs.

They were fixed, with the reasons that `config/thruster_chain_hardware.yaml` gives beside each, before any filter was
tuned. What differs from one robot, or one day, to the next is drawn anew for each seed: see `robot_build`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from onboard_estimation.base.configuration import load, parameter
from onboard_estimation.base.installed import resource

FILE = "config/thruster_chain_hardware.yaml"


@dataclass(frozen=True)
class BodyScenario:
    """Links as they were built."""

    length_stddev_m: float = parameter(2e-4, "of a link's length", unit="m", minimum=0.0)
    mass_spread: float = parameter(0.12, "of a link's mass, as a share", minimum=0.0, maximum=0.3)
    inertia_spread: float = parameter(0.12, "of a link's inertia, as a share", minimum=0.0, maximum=0.3)
    centre_along_stddev_m: float = parameter(5e-3, "of a centre of mass, along the link", unit="m", minimum=0.0)
    centre_across_stddev_m: float = parameter(2.5e-3, "of a centre of mass, across the link", unit="m", minimum=0.0)


@dataclass(frozen=True)
class ThrusterScenario:
    """From a command to a force."""

    command_rate_hz: float = parameter(50.0, "rate of the commands", unit="Hz", exclusive_minimum=0.0)
    place_stddev_m: float = parameter(8e-4, "of a thruster's place, each axis", unit="m", minimum=0.0)
    angle_stddev_deg: float = parameter(0.8, "of a thruster's direction", unit="deg", minimum=0.0)
    gain_spread: float = parameter(0.04, "of thrust by command, as a share", minimum=0.0, maximum=0.3)
    reverse_gain: float = parameter(0.93, "thrust in reverse against forward", exclusive_minimum=0.0)
    reverse_gain_spread: float = parameter(0.03, "of that", minimum=0.0, maximum=0.3)
    time_constant_least_s: float = parameter(0.02, "of the first-order lag", unit="s", exclusive_minimum=0.0)
    time_constant_largest_s: float = parameter(0.06, "of the first-order lag", unit="s", exclusive_minimum=0.0)
    dead_band_least_n: float = parameter(0.02, "commands below do not start a fan", unit="N", minimum=0.0)
    dead_band_largest_n: float = parameter(0.06, "commands below do not start a fan", unit="N", minimum=0.0)
    vibration_m_s2: float = parameter(
        0.05, "of an accelerometer's sample, each axis, at 1 N of its link's thruster", unit="m/s^2", minimum=0.0
    )


@dataclass(frozen=True)
class TableScenario:
    """Air table and room."""

    film_drag_n_s_m: float = parameter(0.0045, "viscous drag of a link's air film", unit="N s/m", minimum=0.0)
    film_drag_spread: float = parameter(0.25, "of that, as a share", minimum=0.0, maximum=0.3)
    air_drag_n_s2_m2: float = parameter(0.008, "quadratic drag of a link", unit="N s^2/m^2", minimum=0.0)
    tilt_stddev_deg: float = parameter(0.04, "of the table, each axis", unit="deg", minimum=0.0)
    draught_n: float = parameter(0.003, "standard deviation of a draught's force on a link", unit="N", minimum=0.0)
    draught_time_s: float = parameter(1.0, "correlation time of that force", unit="s", exclusive_minimum=0.0)


@dataclass(frozen=True)
class JointScenario:
    """Pins, cable and end stops."""

    friction_n_m: float = parameter(4e-4, "mean Coulomb friction of a pin", unit="N m", minimum=0.0)
    friction_spread: float = parameter(0.3, "of that, as a share", minimum=0.0, maximum=0.3)
    slip_rate_rad_s: float = parameter(
        0.05, "joint rate at which it has reached 76 % of its size", unit="rad/s", exclusive_minimum=0.0
    )
    damping_n_m_s: float = parameter(1e-4, "viscous friction of a pin", unit="N m s", minimum=0.0)
    cable_n_m_rad: float = parameter(0.002, "stiffness of the cable at a joint", unit="N m/rad", minimum=0.0)
    cable_rest_stddev_deg: float = parameter(15.0, "of the angle where it has no torque", unit="deg", minimum=0.0)
    travel_deg: float = parameter(110.0, "where the end stops begin, either way", unit="deg", exclusive_minimum=0.0)
    stop_n_m_rad: float = parameter(2.0, "stiffness of an end stop", unit="N m/rad", minimum=0.0)
    stop_n_m_s_rad: float = parameter(0.02, "damping of an end stop", unit="N m s/rad", minimum=0.0)


@dataclass(frozen=True)
class ImuScenario:
    """IMU of a link; stands for all that its samples have in common or not."""

    rate_hz: float = parameter(200.0, "rate", unit="Hz", exclusive_minimum=0.0)
    place_stddev_m: float = parameter(1.2e-3, "of its place, each axis", unit="m", minimum=0.0)
    mounting_stddev_deg: float = parameter(0.8, "of its axes against the link's, each axis", unit="deg", minimum=0.0)
    gyro_noise_rad_s_sqrt_hz: float = parameter(8.7e-5, "white noise", unit="rad/s/sqrt(Hz)", minimum=0.0)
    gyro_bias_stddev_rad_s: float = parameter(0.0175, "bias at switch-on, each axis", unit="rad/s", minimum=0.0)
    gyro_warming_stddev_rad_s: float = parameter(9e-4, "change of the bias while warming up", unit="rad/s", minimum=0.0)
    accelerometer_noise_m_s2_sqrt_hz: float = parameter(3.9e-3, "white noise", unit="m/s^2/sqrt(Hz)", minimum=0.0)
    accelerometer_bias_stddev_m_s2: float = parameter(0.16, "bias at switch-on, each axis", unit="m/s^2", minimum=0.0)
    accelerometer_warming_stddev_m_s2: float = parameter(
        0.004, "change of the bias while warming up", unit="m/s^2", minimum=0.0
    )
    warming_time_s: float = parameter(20.0, "time constant of warming up", unit="s", exclusive_minimum=0.0)
    scale_stddev: float = parameter(0.004, "of the scale, each axis", minimum=0.0, maximum=0.1)
    low_pass_s: float = parameter(0.0017, "time constant of the low-pass", unit="s", minimum=0.0)
    gyro_step_rad_s: float = parameter(5.32e-4, "of the digits", unit="rad/s", exclusive_minimum=0.0)
    accelerometer_step_m_s2: float = parameter(1.2e-3, "of the digits", unit="m/s^2", exclusive_minimum=0.0)
    gyro_range_rad_s: float = parameter(17.453, "largest reading", unit="rad/s", exclusive_minimum=0.0)
    accelerometer_range_m_s2: float = parameter(39.24, "largest reading", unit="m/s^2", exclusive_minimum=0.0)
    clock_offset_stddev_s: float = parameter(0.004, "of its clock against the commands'", unit="s", minimum=0.0)
    clock_drift_stddev: float = parameter(2e-5, "of its clock's rate", minimum=0.0)
    jitter_stddev_s: float = parameter(2e-4, "of the sampling instants", unit="s", minimum=0.0)
    lost_share: float = parameter(0.005, "share of the samples that are lost", minimum=0.0, exclusive_maximum=1.0)


@dataclass(frozen=True)
class CaptureScenario:
    """Motion capture of the links, which judges."""

    rate_hz: float = parameter(100.0, "rate", unit="Hz", exclusive_minimum=0.0)
    position_stddev_m: float = parameter(1e-4, "white noise of a link's x and y", unit="m", minimum=0.0)
    heading_stddev_deg: float = parameter(0.02, "white noise of a link's heading", unit="deg", minimum=0.0)
    covered_share: float = parameter(
        0.02, "share of the time in which a link's markers are covered", minimum=0.0, exclusive_maximum=1.0
    )
    covered_time_s: float = parameter(0.05, "how long they are, each time", unit="s", exclusive_minimum=0.0)


@dataclass(frozen=True)
class LoadScenario:
    """A load that one link takes up in the middle of a run of the scenario `load`."""

    at_s: float = parameter(15.0, "when", unit="s", minimum=0.0)
    mass_share: float = parameter(0.4, "its mass, as a share of the link's by design", minimum=0.0)
    inertia_share: float = parameter(0.3, "what it adds to the inertia, as a share of the link's", minimum=0.0)


@dataclass(frozen=True)
class HardwareScenario:
    """All magnitudes of the scenarios `hardware` and `load`."""

    rest_s: float = parameter(1.5, "the robot stands still, the air off, so long", unit="s", minimum=0.0)
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
