"""Where the parts of a message stand in a measurement's value, by the names that ROS gives them.

rate = measurement.value[IMU.angular_velocity][2]
"""

from __future__ import annotations

from collections.abc import Mapping


class IMU:
    """`sensor_msgs/msg/Imu`: rates in rad/s, specific forces in m/s^2, both x y z in the sensor's frame."""

    angular_velocity = slice(0, 3)
    linear_acceleration = slice(3, 6)


class ATTITUDE:
    """`sensor_msgs/msg/Imu` of a channel whose field is `orientation`: quaternion x y z w, sensor to world."""

    orientation = slice(0, 4)


class POSE:
    """`geometry_msgs/msg/PoseStamped`, and with `covariance` `PoseWithCovarianceStamped`.

    Position in m, quaternion x y z w, 36 covariances along the fixed axes, row by row.
    """

    position = slice(0, 3)
    orientation = slice(3, 7)
    covariance = slice(7, 43)


class POINT:
    """`geometry_msgs/msg/PointStamped`, m."""

    point = slice(0, 3)


class WRENCH:
    """`geometry_msgs/msg/WrenchStamped`: N and N m."""

    force = slice(0, 3)
    torque = slice(3, 6)


class TWIST:
    """`geometry_msgs/msg/TwistStamped`: m/s and rad/s, both x y z."""

    linear = slice(0, 3)
    angular = slice(3, 6)


IMU_PARTS: Mapping[str, slice] = {
    "angular_velocity": IMU.angular_velocity,
    "linear_acceleration": IMU.linear_acceleration,
}
"""Parts that a message of an IMU may say it lacks: element 0 of their covariance is -1."""
