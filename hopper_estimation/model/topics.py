"""Topics of the hopping robot."""

from __future__ import annotations

from dataclasses import replace

from hopper_estimation.model.configuration import HopperConfiguration
from onboard_estimation.base.measurement import Channel, Limit
from onboard_estimation.base.series import imu_channel, set_pose_channel
from onboard_estimation.pipeline.reading_limits import imu_limits

LOW_G = imu_channel("low_g")
HIGH_G = replace(imu_channel("high_g"), required=False, needs=("linear_acceleration",))
ATTITUDE = Channel("imu/attitude/data", "sensor_msgs/msg/Imu", "imu/attitude", field="orientation", required=False)
MOTOR_COUNT = 4
MOTORS = Channel(
    "motors/command",
    "sensor_msgs/msg/JointState",
    "motors/command",
    "position",
    tuple(f"motor_{i + 1}" for i in range(MOTOR_COUNT)),
    required=False,
    command=True,
)
COMMANDED_HEIGHT = Channel(
    "commanded_height", "geometry_msgs/msg/PointStamped", "commanded_height", required=False, command=True
)
LEG = Channel("leg/state", "sensor_msgs/msg/JointState", "leg/state", "position", ("leg",), required=False)
"""Compression of the leg: only the baselines that need an encoder listen to it."""


def limited_channels(configuration: HopperConfiguration) -> tuple[Channel, ...]:
    """All topics, known heights (`set_pose`) included, with the limits of what they tell."""
    robot, sensors = configuration.robot, configuration.sensors
    low = imu_limits(
        gyro=(sensors.gyro_range_rad_s, "sensors.gyro_range_rad_s"),
        accelerometer=(sensors.low_range_m_s2, "sensors.low_range_m_s2"),
    )
    high = imu_limits(gyro=None, accelerometer=(sensors.high_range_m_s2, "sensors.high_range_m_s2"))
    height = (Limit("height", 2, 1, robot.largest_height_m, "m", "robot.largest_height_m"),)
    compression = Limit("compression", 0, 1, robot.standing_height_m, "m", "robot.standing_height_m")
    return (
        replace(COMMANDED_HEIGHT, limits=height),
        replace(MOTORS, limits=(Limit("duty cycle", 0, MOTOR_COUNT, 1.0, ""),)),
        replace(set_pose_channel(), limits=height),
        replace(ATTITUDE, limits=(Limit("element of a unit quaternion", 0, 4, 1.0, ""),)),
        replace(LEG, limits=(compression,)),
        replace(HIGH_G, limits=high),
        replace(LOW_G, limits=low),
    )
