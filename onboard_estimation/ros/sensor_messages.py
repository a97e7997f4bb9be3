"""Measurements as messages, the inverse of `ros.measurements`: what a simulator publishes live or writes into a bag.

Imports no ROS: `new` makes a message from its type's name and fields, so that these functions serve rclpy's messages
and those of a bag alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import IMU_PARTS, NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.ros.measurements import NOT_MEASURED, NUMBERS

New = Callable[..., Any]

JOINT_ARRAYS = ("position", "velocity", "effort")
"""Of a `sensor_msgs/JointState`, in the order of its arrays."""


def to_message(new: New, channel: Channel, stamp_ns: int, value: NDArray[np.float64], frame_prefix: str = "") -> Any:
    """The message whose measurement has that value; `frame_prefix` goes before the frames of sensors."""
    frame = _FRAMES.get(channel.message_type, "{prefix}" + channel.sensor.replace("/", "_"))
    stamped = header(new, stamp_ns, frame.replace("{prefix}", frame_prefix))
    message = new(channel.message_type, header=stamped)
    _WRITERS.get(channel.message_type, _write_numbers)(message, channel, value.tolist())
    return message


def header(new: New, stamp_ns: int, frame_id: str = "") -> Any:
    """A `std_msgs/msg/Header`; `stamp_ns` in nanoseconds since the epoch."""
    seconds, nanoseconds = divmod(stamp_ns, NANOSECONDS_PER_SECOND)
    stamp = new("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)
    return new("std_msgs/msg/Header", stamp=stamp, frame_id=frame_id)


def axes(new: New, kind: str, values: Sequence[float]) -> Any:
    """A `Point`, `Vector3` or `Quaternion` of geometry_msgs from x, y, z and maybe w."""
    return new(f"geometry_msgs/msg/{kind}", **dict(zip("xyzw", values, strict=False)))


def pose(new: New, values: Sequence[float]) -> Any:
    """A `geometry_msgs/msg/Pose` from position (m) and quaternion x, y, z, w."""
    position, orientation = axes(new, "Point", values[:3]), axes(new, "Quaternion", values[3:7])
    return new("geometry_msgs/msg/Pose", position=position, orientation=orientation)


def _set(message: Any, names: Iterable[str], numbers: Iterable[float]) -> None:
    """Fields by their dotted names, as far as there are numbers."""
    for name, number in zip(names, numbers, strict=False):
        whole, _, field = name.rpartition(".")
        setattr(attrgetter(whole)(message) if whole else message, field, number)


def _write_numbers(message: Any, channel: Channel, value: list[float]) -> None:
    _set(message, NUMBERS[channel.message_type], value)


def _write_imu(message: Any, channel: Channel, value: list[float]) -> None:
    """What is not there is NaN, as `ros.measurements` reads it."""
    parts = {"orientation": slice(4)} if channel.field == "orientation" else IMU_PARTS
    for part in ("orientation", *IMU_PARTS):
        if part not in parts or np.isnan(value[parts[part]]).all():
            setattr(message, f"{part}_covariance", np.array([NOT_MEASURED, *8 * [0.0]]))
        else:
            _set(getattr(message, part), "xyzw", value[parts[part]])


def _write_pose(message: Any, channel: Channel, value: list[float]) -> None:
    """Also of odometry, whose velocities are not part of the value."""
    _write_numbers(message, channel, value)
    message.pose.covariance = np.array(value[7:])


def _write_joints(message: Any, channel: Channel, value: list[float]) -> None:
    """The field of the channel, for N joints; of 3 N numbers position, velocity and effort."""
    fields = JOINT_ARRAYS if len(value) == 3 * len(channel.names) else (channel.field,)
    message.name = list(channel.names)
    for field, numbers in zip(fields, np.reshape(value, (len(fields), -1)), strict=True):
        setattr(message, field, numbers)


def _write_range(message: Any, channel: Channel, value: list[float]) -> None:
    """Limits that the channel knows, else none."""
    message.min_range, message.range = 0.0, value[0]
    message.max_range = min((limit.largest for limit in channel.limits), default=np.inf)


_WRITERS: Mapping[str, Callable[[Any, Channel, list[float]], None]] = {
    "sensor_msgs/msg/Imu": _write_imu,
    "sensor_msgs/msg/JointState": _write_joints,
    "geometry_msgs/msg/PoseWithCovarianceStamped": _write_pose,
    "nav_msgs/msg/Odometry": _write_pose,
    "sensor_msgs/msg/Range": _write_range,
}
_FRAMES = {
    "sensor_msgs/msg/JointState": "",
    "geometry_msgs/msg/PoseStamped": "world",
    "geometry_msgs/msg/TransformStamped": "world",
    "geometry_msgs/msg/PointStamped": "world",
    "geometry_msgs/msg/PoseWithCovarianceStamped": "{prefix}map",
    "nav_msgs/msg/Odometry": "{prefix}map",
}
"""Of the truth, and of poses given to the filter; the frame of others is named for their sensor."""
