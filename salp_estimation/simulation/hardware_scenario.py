"""Magnitudes of the scenario `hardware`: a LandSalp on a real floor, with real actuators, gyros and motion capture.

They were fixed, with the reasons that `config/salp_hardware.yaml` gives beside each, before any filter or residual
model was tuned. What differs from one robot, or one day, to the next is drawn anew for each seed: see
`hardware_simulator`. Names end in units (`_share`, `_spread`: shares), `stddev` and `spread` are standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from onboard_estimation.contract.signals import magnitude, magnitudes

FILE = "config/salp_hardware.yaml"


@dataclass(frozen=True)
class FloorScenario:
    """Forces between wheels and floor that are not viscous.

    Attributes
    ----------
    friction_along_n, friction_across_n, friction_turning_n_m, friction_spread
        Mean Coulomb friction of a wheel along and across its driven direction and against turning on the spot; of each
        from seed to seed.
    slip_speed_m_s, slip_rate_rad_s
        Speed and turning rate at which it has reached 76 % of its size.
    drag_spread
        Of each drag coefficient from seed to seed.
    unevenness_n, unevenness_n_m, unevenness_time_s
        Standard deviations of force, each axis, and torque of an uneven floor on a wheel; correlation time of these on
        a moving robot.
    """

    friction_along_n: float = magnitude()
    friction_across_n: float = magnitude()
    friction_turning_n_m: float = magnitude()
    friction_spread: float = magnitude(most=0.3)
    slip_speed_m_s: float = magnitude(above_zero=True)
    slip_rate_rad_s: float = magnitude(above_zero=True)
    drag_spread: float = magnitude(most=0.3)
    unevenness_n: float = magnitude()
    unevenness_n_m: float = magnitude()
    unevenness_time_s: float = magnitude(above_zero=True)


@dataclass(frozen=True)
class HarnessScenario:
    """Cables along the chain: a spring at each joint.

    Attributes
    ----------
    stiffness_n_m_rad, stiffness_spread
        Mean, and from seed to seed.
    rest_angle_stddev_deg
        Of the angle at which a joint is without torque, from seed to seed.
    joint_friction_n_m, slip_rate_rad_s
        Coulomb friction of a joint, and the joint rate at which it has reached 76 % of its size.
    """

    stiffness_n_m_rad: float = magnitude()
    stiffness_spread: float = magnitude(most=0.3)
    rest_angle_stddev_deg: float = magnitude()
    joint_friction_n_m: float = magnitude()
    slip_rate_rad_s: float = magnitude(above_zero=True)


@dataclass(frozen=True)
class ActuatorScenario:
    """From a commanded to an actual rim speed.

    Attributes
    ----------
    lag_s, delay_s, delay_spread_s
        Time constant of the first-order lag; mean transport delay, and its standard deviation (s) from seed to seed and
        wheel to wheel.
    gain_spread
        Of the thrust per command from seed to seed and wheel to wheel.
    wheel_angle_stddev_deg
        Of the mounting angle of a wheel from seed to seed.
    """

    command_rate_hz: float = magnitude(above_zero=True)
    lag_s: float = magnitude(above_zero=True)
    delay_s: float = magnitude()
    delay_spread_s: float = magnitude()
    gain_spread: float = magnitude()
    wheel_angle_stddev_deg: float = magnitude()


@dataclass(frozen=True)
class GyroScenario:
    """IMU of a link.

    Attributes
    ----------
    noise_stddev_rad_s, accelerometer_noise_m_s2
        White noise of a sample.
    bias_stddev_rad_s, scale_stddev, tilt_stddev_deg
        Of bias at the start, scale factor's error and the mounting's tilt about each axis, from seed to seed.
    vibration_rad_s, vibration_of_others, rollers
        Amplitude of the vibration by the own wheel's rollers at 0.1 m/s, share of the other wheels' that a link feels,
        and rollers of a wheel: impacts per turn.
    jitter_stddev_s, lost_share
        Of the sampling instants; share of samples that are lost.
    """

    rate_hz: float = magnitude(above_zero=True)
    noise_stddev_rad_s: float = magnitude()
    bias_stddev_rad_s: float = magnitude()
    bias_walk_rad_s_sqrt_s: float = magnitude()
    scale_stddev: float = magnitude()
    tilt_stddev_deg: float = magnitude()
    vibration_rad_s: float = magnitude()
    vibration_of_others: float = magnitude()
    rollers: int = magnitude(above_zero=True)
    jitter_stddev_s: float = magnitude()
    lost_share: float = magnitude(most=0.99)
    accelerometer_noise_m_s2: float = magnitude()


@dataclass(frozen=True)
class CaptureScenario:
    """Motion capture of the links.

    Attributes
    ----------
    position_stddev_m, heading_stddev_deg
        White noise of a link's x and y, and of its heading.
    mounting_stddev_deg
        Of the marker frame's heading on its link, from seed to seed.
    latency_s, latency_spread_s
        Mean latency that the stamps do not account for, and its standard deviation (s) from seed to seed.
    lost_share
        Share of the frames that are lost.
    """

    rate_hz: float = magnitude(above_zero=True)
    position_stddev_m: float = magnitude()
    heading_stddev_deg: float = magnitude()
    mounting_stddev_deg: float = magnitude()
    latency_s: float = magnitude()
    latency_spread_s: float = magnitude()
    lost_share: float = magnitude(most=0.99)


@dataclass(frozen=True)
class HardwareScenario:
    """All magnitudes; the robot stands still for `rest_s` before the gait starts."""

    floor: FloorScenario
    harness: HarnessScenario
    actuator: ActuatorScenario
    gyro: GyroScenario
    capture: CaptureScenario
    rest_s: float = magnitude()


hardware_scenario = cache(partial(magnitudes, HardwareScenario, FILE))
"""The magnitudes in the scenario file; UserError where it is not as it should be."""
