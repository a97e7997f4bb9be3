"""Magnitudes of the scenario `hardware`: a LandSalp on a real floor, with real actuators, gyros and motion capture.

They were fixed, with the reasons that `config/salp_hardware.yaml` gives beside each, before any filter or residual
model was tuned. What differs from one robot, or one day, to the next is drawn anew for each seed: see
`hardware_simulator`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from onboard_estimation.base.configuration import non_negative, parameter, positive
from onboard_estimation.contract.signals import magnitudes

FILE = "config/salp_hardware.yaml"


@dataclass(frozen=True)
class FloorConfiguration:
    """Forces between wheels and floor that are not viscous."""

    friction_along_n: float = non_negative(0.45, "mean Coulomb friction of a wheel along its driven direction", "N")
    friction_across_n: float = non_negative(0.60, "mean Coulomb friction of a wheel across its driven direction", "N")
    friction_turning_n_m: float = non_negative(
        0.010, "mean Coulomb friction of a wheel against turning on the spot", "N m"
    )
    friction_spread: float = parameter(
        0.15, "standard deviation of each of these from seed to seed, as a share", minimum=0.0, maximum=0.3
    )
    slip_speed_m_s: float = positive(0.003, "speed at which Coulomb friction has reached 76 % of its size", "m/s")
    slip_rate_rad_s: float = positive(0.03, "turning rate at which it has reached 76 % of its size", "rad/s")
    drag_spread: float = parameter(
        0.03, "standard deviation of each drag coefficient from seed to seed, as a share", minimum=0.0, maximum=0.3
    )
    unevenness_n: float = non_negative(
        0.08, "standard deviation of the force of an uneven floor on a wheel, each axis", "N"
    )
    unevenness_n_m: float = non_negative(0.004, "standard deviation of the torque of an uneven floor on a wheel", "N m")
    unevenness_time_s: float = positive(0.7, "correlation time of that force on a moving robot", "s")


@dataclass(frozen=True)
class HarnessConfiguration:
    """Cables along the chain: a spring at each joint."""

    stiffness_n_m_rad: float = non_negative(0.20, "mean stiffness", "N m/rad")
    stiffness_spread: float = parameter(
        0.15, "standard deviation of the stiffness from seed to seed, as a share", minimum=0.0, maximum=0.3
    )
    rest_angle_stddev_deg: float = non_negative(
        1.5, "standard deviation of the angle at which a joint is without torque, from seed to seed", "deg"
    )
    joint_friction_n_m: float = non_negative(0.010, "Coulomb friction of a joint", "N m")
    slip_rate_rad_s: float = positive(0.02, "joint rate at which it has reached 76 % of its size", "rad/s")


@dataclass(frozen=True)
class ActuatorConfiguration:
    """From a commanded to an actual rim speed."""

    command_rate_hz: float = positive(200.0, "rate of the commands", "Hz")
    lag_s: float = positive(0.060, "time constant of the first-order lag", "s")
    delay_s: float = non_negative(0.015, "mean transport delay", "s")
    delay_spread_s: float = non_negative(
        0.004, "standard deviation of the delay from seed to seed and wheel to wheel", "s"
    )
    gain_spread: float = non_negative(
        0.02, "standard deviation of the thrust per command from seed to seed and wheel to wheel, as a share"
    )
    wheel_angle_stddev_deg: float = non_negative(
        0.5, "standard deviation of the mounting angle of a wheel from seed to seed", "deg"
    )


@dataclass(frozen=True)
class GyroScenario:
    """IMU of a link."""

    rate_hz: float = positive(200.0, "rate", "Hz")
    noise_stddev_rad_s: float = non_negative(0.0024, "standard deviation of the white noise of a sample", "rad/s")
    bias_stddev_rad_s: float = non_negative(
        0.006, "standard deviation of the bias at the start, from seed to seed", "rad/s"
    )
    bias_walk_rad_s_sqrt_s: float = non_negative(3e-5, "random walk of the bias", "rad/s/sqrt(s)")
    scale_stddev: float = non_negative(0.005, "standard deviation of the scale factor's error from seed to seed")
    tilt_stddev_deg: float = non_negative(1.5, "standard deviation of the mounting's tilt, each axis", "deg")
    vibration_rad_s: float = non_negative(
        0.008, "amplitude of the vibration by the own wheel's rollers at 0.1 m/s", "rad/s"
    )
    vibration_of_others: float = non_negative(0.3, "share of the other wheels' vibration that a link feels")
    rollers: int = parameter(12, "rollers of a wheel: impacts per turn", minimum=1)
    jitter_stddev_s: float = non_negative(0.0004, "standard deviation of the sampling instants", "s")
    lost_share: float = parameter(0.002, "share of the samples that are lost", minimum=0.0, exclusive_maximum=1.0)
    accelerometer_noise_m_s2: float = non_negative(0.05, "white noise of the accelerometer", "m/s^2")


@dataclass(frozen=True)
class CaptureScenario:
    """Motion capture of the links."""

    rate_hz: float = positive(240.0, "rate", "Hz")
    position_stddev_m: float = non_negative(0.00015, "white noise of a link's x and y", "m")
    heading_stddev_deg: float = non_negative(0.04, "white noise of a link's heading", "deg")
    mounting_stddev_deg: float = non_negative(
        0.1, "standard deviation of the marker frame's heading on its link, from seed to seed", "deg"
    )
    latency_s: float = non_negative(0.008, "mean latency that the stamps do not account for", "s")
    latency_spread_s: float = non_negative(0.002, "standard deviation of the latency from seed to seed", "s")
    lost_share: float = parameter(0.001, "share of the frames that are lost", minimum=0.0, exclusive_maximum=1.0)


@dataclass(frozen=True)
class HardwareScenario:
    """All magnitudes of the scenario `hardware`."""

    rest_s: float = non_negative(2.0, "the robot stands still so long before the gait starts", "s")
    floor: FloorConfiguration = FloorConfiguration()
    harness: HarnessConfiguration = HarnessConfiguration()
    actuator: ActuatorConfiguration = ActuatorConfiguration()
    gyro: GyroScenario = GyroScenario()
    capture: CaptureScenario = CaptureScenario()


hardware_scenario = cache(partial(magnitudes, HardwareScenario, FILE))
"""The magnitudes in the scenario file; UserError where it is not as it should be."""
