"""Topics of the hopping robot."""

from __future__ import annotations

from onboard_estimation.measurement import Channel
from onboard_estimation.simulation import imu_channel

LOW_G = imu_channel("low_g")
HIGH_G = Channel("imu/high_g/data_raw", "sensor_msgs/msg/Imu", "imu/high_g", required=False)
ATTITUDE = Channel("imu/attitude/data", "sensor_msgs/msg/Imu", "imu/attitude", field="orientation", required=False)
MOTOR_COUNT = 4
MOTORS = Channel(
    "motors/command",
    "sensor_msgs/msg/JointState",
    "motors/command",
    "position",
    tuple(f"motor_{i + 1}" for i in range(MOTOR_COUNT)),
    required=False,
)
COMMANDED_HEIGHT = Channel("commanded_height", "geometry_msgs/msg/PointStamped", "commanded_height", required=False)
LEG = Channel("leg/state", "sensor_msgs/msg/JointState", "leg/state", "position", ("leg",), required=False)
"""Compression of the leg: only the baselines that need an encoder listen to it."""
