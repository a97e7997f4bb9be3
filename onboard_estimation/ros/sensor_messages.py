"""Measurements as messages, the inverse of `ros.measurements`: what a simulator publishes live or writes into a bag.

Imports no ROS: `new` makes a message from its type's name and fields, so that these functions serve rclpy's messages
and those of a bag alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import IMU_PARTS, NANOSECONDS_PER_SECOND, Channel

New = Callable[..., Any]

JOINT_ARRAYS = ("position", "velocity", "effort")
"""Of a `sensor_msgs/JointState`, in the order of its arrays."""
_not_measured = partial(np.array, [-1.0, *8 * [0.0]])
"""Covariance of what a `sensor_msgs/Imu` does not hold."""


def to_message(new: New, channel: Channel, stamp_ns: int, value: NDArray[np.float64], frame_prefix: str = "") -> Any:
    """The message whose measurement has that value; `frame_prefix` goes before the frames of sensors."""
    frame = _FRAMES.get(channel.message_type, "{prefix}" + channel.sensor.replace("/", "_"))
    stamped = header(new, stamp_ns, frame.replace("{prefix}", frame_prefix))
    return new(channel.message_type, header=stamped, **_FIELDS[channel.message_type](new, channel, value.tolist()))


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


def vectors(new: New, kind: str, **parts: Sequence[float]) -> Any:
    """A `Twist`, `Wrench` or the like of geometry_msgs from the x, y, z of its parts."""
    return new(f"geometry_msgs/msg/{kind}", **{name: axes(new, "Vector3", part) for name, part in parts.items()})


Fields = dict[str, Any]


def _imu(new: New, channel: Channel, value: list[float]) -> Fields:
    absent = {f"{part}_covariance": _not_measured() for part in IMU_PARTS}
    if channel.field == "orientation":
        return {"orientation": axes(new, "Quaternion", value), **absent}
    fields: Fields = {"orientation_covariance": _not_measured()}
    for name, elements in IMU_PARTS.items():
        if np.isnan(value[elements]).all():  # absent, as `ros.measurements` reads it
            fields[f"{name}_covariance"] = _not_measured()
        else:
            fields[name] = axes(new, "Vector3", value[elements])
    return fields


def _pose_with_covariance(new: New, _: Channel, value: list[float]) -> Fields:
    """Also of odometry, whose velocities are not part of the value."""
    covariance = np.array(value[7:])
    return {"pose": new("geometry_msgs/msg/PoseWithCovariance", pose=pose(new, value), covariance=covariance)}


def _joint_state(_: New, channel: Channel, value: list[float]) -> Fields:
    """The field of the channel, for N joints; of 3 N numbers position, velocity and effort."""
    all_three = len(value) == 3 * len(channel.names)
    arrays = zip(JOINT_ARRAYS, np.reshape(value, (3, -1)), strict=True) if all_three else [(channel.field, value)]
    return {"name": list(channel.names), **{name: np.array(array) for name, array in arrays}}


def _range(new: New, channel: Channel, value: list[float]) -> Fields:
    """Limits that the channel knows, else none."""
    largest = min((limit.largest for limit in channel.limits), default=np.inf)
    return {"min_range": 0.0, "max_range": largest, "range": value[0]}


_FIELDS: Mapping[str, Callable[[New, Channel, list[float]], Fields]] = {
    "sensor_msgs/msg/Imu": _imu,
    "sensor_msgs/msg/JointState": _joint_state,
    "geometry_msgs/msg/PoseStamped": lambda new, _, value: {"pose": pose(new, value)},
    "geometry_msgs/msg/TransformStamped": lambda new, _, value: {
        "transform": new(
            "geometry_msgs/msg/Transform",
            translation=axes(new, "Vector3", value[:3]),
            rotation=axes(new, "Quaternion", value[3:]),
        )
    },
    "geometry_msgs/msg/PoseWithCovarianceStamped": _pose_with_covariance,
    "geometry_msgs/msg/PointStamped": lambda new, _, value: {"point": axes(new, "Point", value)},
    "geometry_msgs/msg/WrenchStamped": lambda new, _, value: {
        "wrench": vectors(new, "Wrench", force=value[:3], torque=value[3:])
    },
    "geometry_msgs/msg/TwistStamped": lambda new, _, value: {
        "twist": vectors(new, "Twist", linear=value[:3], angular=value[3:])
    },
    "nav_msgs/msg/Odometry": _pose_with_covariance,
    "sensor_msgs/msg/FluidPressure": lambda _, of, value: {"fluid_pressure": value[0]},
    "sensor_msgs/msg/MagneticField": lambda new, _, value: {"magnetic_field": axes(new, "Vector3", value)},
    "sensor_msgs/msg/Range": _range,
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
