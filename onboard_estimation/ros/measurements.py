"""Messages as measurements: the same numbers from a message of rclpy and from one of `rosbags`.

Imports no ROS: a message is anything that has the fields of its type. What the elements of a measurement's value are
is in the table at `onboard_estimation.base.measurement.Channel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.errors import UserError, first_of
from onboard_estimation.base.measurement import (
    COMPONENTS,
    IMU_PARTS,
    NANOSECONDS_PER_SECOND,
    Channel,
    Measurement,
    Vector,
)

NOT_MEASURED = -1.0
"""Element 0 of a covariance of `sensor_msgs/Imu` whose quantity is not measured."""
_TRANSFORM = Channel("transform", "geometry_msgs/msg/TransformStamped", "transform")
_NAMES_SHOWN = 8
UNIT_TOLERANCE = 0.01
"""Of a quaternion's squared length, as tf2 has it."""


def _named(*fields: str) -> tuple[str, ...]:
    """Numbers by the names of their fields: `point.xyz` stands for x, y and z of the point."""
    parts = [field.rpartition(".") for field in fields]
    return tuple(f"{whole}.{letter}" for whole, _, letters in parts for letter in letters)


NUMBERS: Mapping[str, tuple[str, ...]] = {
    "geometry_msgs/msg/PoseStamped": _named("pose.position.xyz", "pose.orientation.xyzw"),
    "geometry_msgs/msg/TransformStamped": _named("transform.translation.xyz", "transform.rotation.xyzw"),
    "geometry_msgs/msg/PoseWithCovarianceStamped": _named("pose.pose.position.xyz", "pose.pose.orientation.xyzw"),
    "nav_msgs/msg/Odometry": _named("pose.pose.position.xyz", "pose.pose.orientation.xyzw"),
    "geometry_msgs/msg/PointStamped": _named("point.xyz"),
    "geometry_msgs/msg/WrenchStamped": _named("wrench.force.xyz", "wrench.torque.xyz"),
    "geometry_msgs/msg/TwistStamped": _named("twist.linear.xyz", "twist.angular.xyz"),
    "sensor_msgs/msg/FluidPressure": ("fluid_pressure",),
    "sensor_msgs/msg/MagneticField": _named("magnetic_field.xyz"),
}
"""Where a value's numbers are in a message, in their order; covariances of a pose come behind them."""


class MessageFault(UserError):
    """A message that cannot be a measurement: a joint missing, an array of the wrong length, bytes that do not decode.

    The message's own fault, not the recording's: a reader counts it and goes on.
    """


def to_measurement(channel: Channel, message: Any) -> Measurement:
    """The message as numbers. NaN and infinities pass; the pipeline refuses and counts them.

    A part of an IMU's message that was not measured is NaN, see `Channel.needs`.

    Raises
    ------
    MessageFault
        A joint state lacks one of the channel's names, or its arrays do not fit its names. An orientation is not
        measured, or no unit quaternion (its squared length within 1 % of one; it is not normalised).
    UserError
        The channel's message type is none that has a value.
    """
    return Measurement(stamp_ns(message), channel.sensor, message_value(channel, message))


def stamp_ns(message: Any) -> int:
    """The message's `header.stamp`, nanoseconds since the epoch; MessageFault where it has none."""
    try:
        stamp = message.header.stamp
        return int(stamp.sec) * NANOSECONDS_PER_SECOND + int(stamp.nanosec)
    except (AttributeError, TypeError, ValueError) as error:
        raise MessageFault(f"has no header with a stamp ({error})") from error


def message_value(channel: Channel, message: Any) -> Vector:
    """(d,) float64: the value of a measurement, see `Channel`. Raises as `to_measurement` does."""
    try:
        value = _VALUES[channel.message_type]
    except KeyError:
        raise UserError(
            f"messages of type {channel.message_type!r} (topic {channel.topic!r}) cannot be measurements; "
            f"these can: {', '.join(_VALUES)}"
        ) from None
    try:
        return value(channel, message)
    except (AttributeError, TypeError, ValueError) as error:
        raise MessageFault(f"lacks what a {channel.message_type} has ({error})") from error


def transforms(message: Any) -> Iterator[tuple[str, str, int, Vector]]:
    """Parent, child, stamp in ns and pose (7,) of each in a message of tf; ROS 1 has a slash before names of frames.

    Raises
    ------
    MessageFault
        It is no such message.
    """
    try:
        for one in message.transforms:
            names = one.header.frame_id.lstrip("/"), one.child_frame_id.lstrip("/")
            yield *names, stamp_ns(one), message_value(_TRANSFORM, one)
    except (AttributeError, TypeError) as error:
        raise MessageFault(f"holds no transforms ({error})") from error


def value_types() -> tuple[str, ...]:
    """The message types that have a value."""
    return tuple(_VALUES)


def joint_columns(names: tuple[str, ...], found: tuple[str, ...]) -> list[int]:
    """Where the `names` are among the joints `found` in a message; all in their order where no names are given.

    Raises
    ------
    MessageFault
        A name is missing (says which), or stands there twice.
    """
    if not names:
        return list(range(len(found)))
    missing = [name for name in names if name not in found]
    if missing:
        there = first_of([repr(name[:50]) for name in found], _NAMES_SHOWN) or "no names"
        raise MessageFault(f"lacks {', '.join(map(repr, missing))} (it has: {there})")
    doubled = [name for name in names if found.count(name) > 1]
    if doubled:
        raise MessageFault(f"has {', '.join(map(repr, doubled))} more than once")
    return [found.index(name) for name in names]


def is_not_measured(first_covariance: ArrayLike) -> NDArray[np.bool_]:
    """Where element 0 of a covariance of `sensor_msgs/Imu` says that its quantity is not measured: it is -1 there."""
    return np.equal(first_covariance, NOT_MEASURED)


def is_no_rotation(x: ArrayLike, y: ArrayLike, z: ArrayLike, w: ArrayLike) -> NDArray[np.bool_]:
    """Where quaternions are not of unit length; NaN passes, see `to_measurement`."""
    with np.errstate(over="ignore"):  # whoever sent such numbers gets the refusal, not a warning besides
        squares = [np.square(np.asarray(part, dtype=np.float64)) for part in (x, y, z, w)]
    return np.greater(np.abs(squares[0] + squares[1] + squares[2] + squares[3] - 1.0), UNIT_TOLERANCE)


def _read(names: tuple[str, ...]) -> Callable[[Channel, Any], Vector]:
    numbers = attrgetter(*names)
    return lambda _, message: np.array(numbers(message), dtype=np.float64, ndmin=1)


_xyz = attrgetter("x", "y", "z")
_orientation = _read(_named("orientation.xyzw"))
_pose = _read(NUMBERS["nav_msgs/msg/Odometry"])


def _imu(channel: Channel, message: Any) -> Vector:
    if channel.field == "orientation":
        return _attitude(channel, message)
    value = np.full(len(COMPONENTS[channel.message_type]), np.nan)
    for part, elements in IMU_PARTS.items():
        if not is_not_measured(float(getattr(message, f"{part}_covariance")[0])):
            value[elements] = _xyz(getattr(message, part))
    return value


def _attitude(channel: Channel, message: Any) -> Vector:
    if is_not_measured(float(message.orientation_covariance[0])):
        raise MessageFault("has no orientation: element 0 of its covariance is -1, which means not measured")
    value = _orientation(channel, message)
    if is_no_rotation(*value):
        raise MessageFault("has an orientation that is no unit quaternion (its squared length is not one within 1 %)")
    return value


def _joint_state(channel: Channel, message: Any) -> Vector:
    names = tuple(message.name)
    values = np.asarray(getattr(message, channel.field), dtype=np.float64)
    columns = joint_columns(channel.names, names)
    if len(values) != len(names):
        raise MessageFault(f"has {len(values)} elements in {channel.field!r} for {len(names)} names")
    return np.array(values[columns], dtype=np.float64)


def _pose_with_covariance(channel: Channel, message: Any) -> Vector:
    covariance = np.asarray(message.pose.covariance, dtype=np.float64)
    if covariance.shape != (36,):
        raise MessageFault(f"has {covariance.size} covariances, not 36")
    return np.concatenate([_pose(channel, message), covariance])


def _range(_: Channel, message: Any) -> Vector:
    # REP 117: minus infinity is too close, infinity nothing there; others count within the limits only.
    distance = float(message.range)
    return np.array([distance if message.min_range <= distance <= message.max_range else np.nan])


_VALUES: Mapping[str, Callable[[Channel, Any], Vector]] = {
    "sensor_msgs/msg/Imu": _imu,
    "sensor_msgs/msg/JointState": _joint_state,
    **{message_type: _read(names) for message_type, names in NUMBERS.items()},
    "geometry_msgs/msg/PoseWithCovarianceStamped": _pose_with_covariance,
    "nav_msgs/msg/Odometry": _pose_with_covariance,
    "sensor_msgs/msg/Range": _range,
}
