"""Topics of a soft robot: absolute pressure of each chamber, set point of each, wrench at the base."""

from __future__ import annotations

from onboard_estimation.measurement import Channel

WRENCH = Channel("wrench", "geometry_msgs/msg/WrenchStamped", "wrench")


def pressure_channel(chamber: str) -> Channel:
    """Absolute pressure at a chamber's regulator, Pa."""
    return Channel(f"pressure/{chamber}", "sensor_msgs/msg/FluidPressure", f"pressure/{chamber}")


def pressure_command_channel(chamber: str) -> Channel:
    """Set point of a chamber's regulator as absolute pressure, Pa; an estimator can do without."""
    topic = f"pressure/{chamber}/command"
    return Channel(topic, "sensor_msgs/msg/FluidPressure", topic, required=False, command=True)
