"""What goes into a soft robot's estimators and what comes out: topics, and the state space of all estimates."""

from __future__ import annotations

from collections.abc import Sequence

from onboard_estimation.base.measurement import Channel
from onboard_estimation.filtering.state_space import StateSpace, vector

WRENCH = Channel("wrench", "geometry_msgs/msg/WrenchStamped", "wrench")
TRUE_STIFFNESS = Channel(
    "ground_truth/stiffness", "sensor_msgs/msg/JointState", "stiffness", "position", ("bending",), required=False
)
"""Of a simulated robot, N m/rad: moment over angle, for the whole length. It holds until the next message."""


SPACE = StateSpace(
    vector("position", ("x", "y", "z"), "m"),
    vector("velocity", ("x", "y", "z"), "m/s"),
    vector("stiffness", ("bending",), "N m/rad"),
)
"""Place and velocity of the tip (the middle of its plate's outer face) in the base's frame, and what moment an angle of
bending over the whole length takes now."""


def pressure_channel(chamber: str) -> Channel:
    """Absolute pressure at a chamber's regulator, Pa."""
    return Channel(f"pressure/{chamber}", "sensor_msgs/msg/FluidPressure", f"pressure/{chamber}")


def pressure_command_channel(chamber: str) -> Channel:
    """Set point of a chamber's regulator as absolute pressure, Pa; an estimator can do without."""
    topic = f"pressure/{chamber}/command"
    return Channel(topic, "sensor_msgs/msg/FluidPressure", topic, required=False, command=True)


def channels(chambers: Sequence[str]) -> tuple[Channel, ...]:
    """All that is recorded: set points, pressures, wrench."""
    pressures = (channel(name) for channel in (pressure_command_channel, pressure_channel) for name in chambers)
    return (*pressures, WRENCH)
