"""Magnitudes of the scenario `hardware`: a LandSalp on a real floor, with real actuators, gyros and motion capture.

They were fixed, with the reasons that `config/salp_hardware.yaml` gives beside each, before any filter or residual
model was tuned. What differs from one robot, or one day, to the next is drawn anew for each seed: see
`hardware_simulator`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from onboard_estimation.base.configuration import load, parameter
from onboard_estimation.base.installed import resource

FILE = "config/salp_hardware.yaml"


@dataclass(frozen=True)
class FloorConfiguration:
    """Forces between wheels and floor that are not viscous."""

    friction_along_n: float = parameter(
        0.45, "mean Coulomb friction of a wheel along its driven direction", unit="N", minimum=0.0
    )
    friction_across_n: float = parameter(
        0.60, "mean Coulomb friction of a wheel across its driven direction", unit="N", minimum=0.0
    )
    friction_turning_n_m: float = parameter(
        0.010, "mean Coulomb friction of a wheel against turning on the spot", unit="N m", minimum=0.0
    )
    friction_spread: float = parameter(
        0.15, "standard deviation of each of these from seed to seed, as a share", minimum=0.0, maximum=0.3
    )
    slip_speed_m_s: float = parameter(
        0.003, "speed at which Coulomb friction has reached 76 % of its size", unit="m/s", exclusive_minimum=0.0
    )
    slip_rate_rad_s: float = parameter(
        0.03, "turning rate at which it has reached 76 % of its size", unit="rad/s", exclusive_minimum=0.0
    )
    drag_spread: float = parameter(
        0.03, "standard deviation of each drag coefficient from seed to seed, as a share", minimum=0.0, maximum=0.3
    )
    unevenness_n: float = parameter(
        0.08, "standard deviation of the force of an uneven floor on a wheel, each axis", unit="N", minimum=0.0
    )
    unevenness_n_m: float = parameter(
        0.004, "standard deviation of the torque of an uneven floor on a wheel", unit="N m", minimum=0.0
    )
    unevenness_time_s: float = parameter(
        0.7, "correlation time of that force on a moving robot", unit="s", exclusive_minimum=0.0
    )


@dataclass(frozen=True)
class HarnessConfiguration:
    """Cables along the chain: a spring at each joint."""

    stiffness_n_m_rad: float = parameter(0.20, "mean stiffness", unit="N m/rad", minimum=0.0)
    stiffness_spread: float = parameter(
        0.15, "standard deviation of the stiffness from seed to seed, as a share", minimum=0.0, maximum=0.3
    )
    rest_angle_stddev_deg: float = parameter(
        1.5,
        "standard deviation of the angle at which a joint is without torque, from seed to seed",
        unit="deg",
        minimum=0.0,
    )
    joint_friction_n_m: float = parameter(0.010, "Coulomb friction of a joint", unit="N m", minimum=0.0)
    slip_rate_rad_s: float = parameter(
        0.02, "joint rate at which it has reached 76 % of its size", unit="rad/s", exclusive_minimum=0.0
    )


@dataclass(frozen=True)
class ActuatorConfiguration:
    """From a commanded to an actual rim speed."""

    command_rate_hz: float = parameter(200.0, "rate of the commands", unit="Hz", exclusive_minimum=0.0)
    lag_s: float = parameter(0.060, "time constant of the first-order lag", unit="s", exclusive_minimum=0.0)
    delay_s: float = parameter(0.015, "mean transport delay", unit="s", minimum=0.0)
    delay_spread_s: float = parameter(
        0.004, "standard deviation of the delay from seed to seed and wheel to wheel", unit="s", minimum=0.0
    )
    gain_spread: float = parameter(
        0.02,
        "standard deviation of the thrust per command from seed to seed and wheel to wheel, as a share",
        minimum=0.0,
    )
    wheel_angle_stddev_deg: float = parameter(
        0.5, "standard deviation of the mounting angle of a wheel from seed to seed", unit="deg", minimum=0.0
    )


@dataclass(frozen=True)
class GyroScenario:
    """IMU of a link."""

    rate_hz: float = parameter(200.0, "rate", unit="Hz", exclusive_minimum=0.0)
    noise_stddev_rad_s: float = parameter(
        0.0024, "standard deviation of the white noise of a sample", unit="rad/s", minimum=0.0
    )
    bias_stddev_rad_s: float = parameter(
        0.006, "standard deviation of the bias at the start, from seed to seed", unit="rad/s", minimum=0.0
    )
    bias_walk_rad_s_sqrt_s: float = parameter(3e-5, "random walk of the bias", unit="rad/s/sqrt(s)", minimum=0.0)
    scale_stddev: float = parameter(
        0.005, "standard deviation of the scale factor's error from seed to seed", minimum=0.0
    )
    tilt_stddev_deg: float = parameter(
        1.5, "standard deviation of the mounting's tilt, each axis", unit="deg", minimum=0.0
    )
    vibration_rad_s: float = parameter(
        0.008, "amplitude of the vibration by the own wheel's rollers at 0.1 m/s", unit="rad/s", minimum=0.0
    )
    vibration_of_others: float = parameter(0.3, "share of the other wheels' vibration that a link feels", minimum=0.0)
    rollers: int = parameter(12, "rollers of a wheel: impacts per turn", minimum=1)
    jitter_stddev_s: float = parameter(0.0004, "standard deviation of the sampling instants", unit="s", minimum=0.0)
    lost_share: float = parameter(0.002, "share of the samples that are lost", minimum=0.0, exclusive_maximum=1.0)
    accelerometer_noise_m_s2: float = parameter(0.05, "white noise of the accelerometer", unit="m/s^2", minimum=0.0)


@dataclass(frozen=True)
class CaptureScenario:
    """Motion capture of the links."""

    rate_hz: float = parameter(240.0, "rate", unit="Hz", exclusive_minimum=0.0)
    position_stddev_m: float = parameter(0.00015, "white noise of a link's x and y", unit="m", minimum=0.0)
    heading_stddev_deg: float = parameter(0.04, "white noise of a link's heading", unit="deg", minimum=0.0)
    mounting_stddev_deg: float = parameter(
        0.1, "standard deviation of the marker frame's heading on its link, from seed to seed", unit="deg", minimum=0.0
    )
    latency_s: float = parameter(0.008, "mean latency that the stamps do not account for", unit="s", minimum=0.0)
    latency_spread_s: float = parameter(
        0.002, "standard deviation of the latency from seed to seed", unit="s", minimum=0.0
    )
    lost_share: float = parameter(0.001, "share of the frames that are lost", minimum=0.0, exclusive_maximum=1.0)


@dataclass(frozen=True)
class HardwareScenario:
    """All magnitudes of the scenario `hardware`."""

    rest_s: float = parameter(2.0, "the robot stands still so long before the gait starts", unit="s", minimum=0.0)
    floor: FloorConfiguration = FloorConfiguration()
    harness: HarnessConfiguration = HarnessConfiguration()
    actuator: ActuatorConfiguration = ActuatorConfiguration()
    gyro: GyroScenario = GyroScenario()
    capture: CaptureScenario = CaptureScenario()


@cache
def hardware_scenario() -> HardwareScenario:
    """The magnitudes in the scenario file; UserError where it is not as it should be."""
    scenario: HardwareScenario = load(HardwareScenario, resource(FILE))
    return scenario
