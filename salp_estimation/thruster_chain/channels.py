"""Topics of a thruster chain: commands to its thrusters, an IMU on each link, true inertial parameters."""

from __future__ import annotations

from onboard_estimation.measurement import Channel, Limit
from onboard_estimation.reading_limits import imu_limits
from onboard_estimation.simulation import imu_channel
from salp_estimation.thruster_chain.configuration import ThrusterChainConfiguration

COMMAND = "thrusters/command"
TRUE_PARAMETERS = "inertial_parameters"


def command_channel(link_names: tuple[str, ...], limit_n: float | None = None) -> Channel:
    """Commanded thrusts, N, named after the links that the thrusters sit on; negative: reverse."""
    limits: tuple[Limit, ...] = ()
    if limit_n is not None:
        limits = (Limit("thrust", 0, len(link_names), limit_n, "N", "thruster.limit_n"),)
    return Channel(COMMAND, "sensor_msgs/msg/JointState", COMMAND, "effort", link_names, limits=limits, command=True)


def parameter_names(link_names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the 2N inertial parameters: masses, then inertias."""
    return tuple(f"{block}.{link}" for block in ("masses", "inertias") for link in link_names)


def true_parameters_channel(link_names: tuple[str, ...]) -> Channel:
    """Weighed masses (kg) and inertias about the links' centres of mass (kg m^2); they hold until the next message."""
    return Channel(
        f"ground_truth/{TRUE_PARAMETERS}",
        "sensor_msgs/msg/JointState",
        TRUE_PARAMETERS,
        "position",
        parameter_names(link_names),
        required=False,
    )


def channels(configuration: ThrusterChainConfiguration) -> tuple[Channel, ...]:
    """All that the estimators listen to."""
    names = configuration.chain.link_names
    ranges = imu_limits(
        gyro=(configuration.gyro.range_rad_s, "gyro.range_rad_s"),
        accelerometer=(configuration.accelerometer.range_m_s2, "accelerometer.range_m_s2"),
    )
    imus = (imu_channel(name, ranges) for name in names)
    return (command_channel(names, configuration.thruster.limit_n), *imus)
