"""Measurements as messages, the inverse of `ros.measurements`: what a simulator publishes live or writes into a bag.

Imports no ROS: `new` makes a message from its type's name and fields, as for `EstimateMessages`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.ros.estimates import New

TRUTH_FRAME = "world"
MAP_FRAME = "map"
"""Of poses given to the filter, with the prefix of the robot's frames."""


def to_message(new: New, channel: Channel, stamp_ns: int, value: NDArray[np.float64], frame_prefix: str = "") -> Any:
    """The message whose measurement has that value; `frame_prefix` goes before the frames of sensors."""
    return _MAKERS[channel.message_type](new, channel, stamp_ns, value.tolist(), frame_prefix)


def header(new: New, stamp_ns: int, frame_id: str = "") -> Any:
    """A `std_msgs/msg/Header`; `stamp_ns` in nanoseconds since the epoch."""
    seconds, nanoseconds = divmod(stamp_ns, NANOSECONDS_PER_SECOND)
    stamp = new("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)
    return new("std_msgs/msg/Header", stamp=stamp, frame_id=frame_id)


def _imu(new: New, channel: Channel, stamp_ns: int, value: list[float], prefix: str) -> Any:
    not_measured = np.zeros(9)
    not_measured[0] = -1.0
    frame = header(new, stamp_ns, _frame(channel, prefix))
    if channel.field == "orientation":
        qx, qy, qz, qw = value
        return new(
            "sensor_msgs/msg/Imu",
            header=frame,
            orientation=new("geometry_msgs/msg/Quaternion", x=qx, y=qy, z=qz, w=qw),
            angular_velocity_covariance=not_measured,
            linear_acceleration_covariance=not_measured,
        )
    fields = {"orientation_covariance": not_measured}
    for name, part in (("angular_velocity", value[:3]), ("linear_acceleration", value[3:])):
        if np.isnan(part).all():  # absent, as `ros.measurements` reads it
            fields[f"{name}_covariance"] = not_measured
        else:
            fields[name] = _xyz(new, "geometry_msgs/msg/Vector3", part)
    return new("sensor_msgs/msg/Imu", header=frame, **fields)


def _joint_state(new: New, channel: Channel, stamp_ns: int, value: list[float], _: str) -> Any:
    fields = {channel.field: np.array(value)}
    return new("sensor_msgs/msg/JointState", header=header(new, stamp_ns), name=list(channel.names), **fields)


def _pose(new: New, channel: Channel, stamp_ns: int, value: list[float], _: str) -> Any:
    pose = _bare_pose(new, value)
    return new("geometry_msgs/msg/PoseStamped", header=header(new, stamp_ns, TRUTH_FRAME), pose=pose)


def _pose_with_covariance(new: New, channel: Channel, stamp_ns: int, value: list[float], prefix: str) -> Any:
    """Also of odometry, whose velocities are not part of the value."""
    covariance = np.array(value[7:])
    pose = new("geometry_msgs/msg/PoseWithCovariance", pose=_bare_pose(new, value[:7]), covariance=covariance)
    return new(channel.message_type, header=header(new, stamp_ns, prefix + MAP_FRAME), pose=pose)


def _bare_pose(new: New, value: list[float]) -> Any:
    qx, qy, qz, qw = value[3:]
    return new(
        "geometry_msgs/msg/Pose",
        position=_xyz(new, "geometry_msgs/msg/Point", value[:3]),
        orientation=new("geometry_msgs/msg/Quaternion", x=qx, y=qy, z=qz, w=qw),
    )


def _point(new: New, channel: Channel, stamp_ns: int, value: list[float], _: str) -> Any:
    point = _xyz(new, "geometry_msgs/msg/Point", value)
    return new("geometry_msgs/msg/PointStamped", header=header(new, stamp_ns, TRUTH_FRAME), point=point)


def _wrench(new: New, channel: Channel, stamp_ns: int, value: list[float], prefix: str) -> Any:
    wrench = new(
        "geometry_msgs/msg/Wrench",
        force=_xyz(new, "geometry_msgs/msg/Vector3", value[:3]),
        torque=_xyz(new, "geometry_msgs/msg/Vector3", value[3:]),
    )
    frame = header(new, stamp_ns, _frame(channel, prefix))
    return new("geometry_msgs/msg/WrenchStamped", header=frame, wrench=wrench)


def _pressure(new: New, channel: Channel, stamp_ns: int, value: list[float], prefix: str) -> Any:
    frame = header(new, stamp_ns, _frame(channel, prefix))
    return new("sensor_msgs/msg/FluidPressure", header=frame, fluid_pressure=value[0])


def _twist(new: New, channel: Channel, stamp_ns: int, value: list[float], prefix: str) -> Any:
    twist = new(
        "geometry_msgs/msg/Twist",
        linear=_xyz(new, "geometry_msgs/msg/Vector3", value[:3]),
        angular=_xyz(new, "geometry_msgs/msg/Vector3", value[3:]),
    )
    return new("geometry_msgs/msg/TwistStamped", header=header(new, stamp_ns, _frame(channel, prefix)), twist=twist)


def _magnetic_field(new: New, channel: Channel, stamp_ns: int, value: list[float], prefix: str) -> Any:
    field = _xyz(new, "geometry_msgs/msg/Vector3", value)
    frame = header(new, stamp_ns, _frame(channel, prefix))
    return new("sensor_msgs/msg/MagneticField", header=frame, magnetic_field=field)


def _range(new: New, channel: Channel, stamp_ns: int, value: list[float], prefix: str) -> Any:
    """Limits that the channel knows, else none."""
    largest = min((limit.largest for limit in channel.limits), default=np.inf)
    frame = header(new, stamp_ns, _frame(channel, prefix))
    return new("sensor_msgs/msg/Range", header=frame, min_range=0.0, max_range=largest, range=value[0])


def _frame(channel: Channel, prefix: str) -> str:
    return prefix + channel.sensor.replace("/", "_")


def _xyz(new: New, message_type: str, value: list[float]) -> Any:
    x, y, z = value
    return new(message_type, x=x, y=y, z=z)


_MAKERS: dict[str, Callable[[New, Channel, int, list[float], str], Any]] = {
    "sensor_msgs/msg/Imu": _imu,
    "sensor_msgs/msg/JointState": _joint_state,
    "geometry_msgs/msg/PoseStamped": _pose,
    "geometry_msgs/msg/PoseWithCovarianceStamped": _pose_with_covariance,
    "geometry_msgs/msg/PointStamped": _point,
    "geometry_msgs/msg/WrenchStamped": _wrench,
    "geometry_msgs/msg/TwistStamped": _twist,
    "nav_msgs/msg/Odometry": _pose_with_covariance,
    "sensor_msgs/msg/FluidPressure": _pressure,
    "sensor_msgs/msg/MagneticField": _magnetic_field,
    "sensor_msgs/msg/Range": _range,
}
