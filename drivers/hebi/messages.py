"""Messages of modules, serialised: IMUs with covariances, joints with position, velocity and effort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onboard_estimation.measurement import Vector
from onboard_estimation.ros.estimates import New
from onboard_estimation.ros.message_templates import MessageTemplate
from onboard_estimation.ros.sensor_messages import header

Serialize = Callable[[Any], bytes]

_NOT_MEASURED = np.diag([-1.0, 0.0, 0.0]).ravel()


class ImuMessages:
    """`sensor_msgs/Imu` of one module, with constant variances; a part that is not measured is marked as ROS does.

    Parameters
    ----------
    variances
        Of gyro (rad^2/s^2), accelerometer (m^2/s^4), orientation (rad^2), on each axis; 0: not known.
    """

    def __init__(self, new: New, serialize: Serialize, frame: str, variances: tuple[float, float, float]) -> None:
        self._new, self._serialize, self._frame = new, serialize, frame
        self._variances = variances
        self._templates: dict[bytes, MessageTemplate] = {}  # by which parts are there: eight at most

    def __call__(self, stamp_ns: int, value: Vector) -> bytes:
        """Of a value as `checked_imu` gives it."""
        measured = ~np.isnan(value)
        key = measured.tobytes()
        if key not in self._templates:
            self._templates[key] = MessageTemplate(self._make, self._serialize, len(value), measured)
        return self._templates[key].message(stamp_ns, value)

    def _make(self, stamp_ns: int, value: Vector) -> Any:
        fields: dict[str, Any] = {}
        parts = (("angular_velocity", 0, 3), ("linear_acceleration", 3, 6), ("orientation", 6, 10))
        for (name, first, last), variance in zip(parts, self._variances, strict=True):
            there = not np.isnan(value[first])
            fields[f"{name}_covariance"] = np.diag([variance] * 3).ravel() if there else _NOT_MEASURED
            if there:
                kind = "Quaternion" if name == "orientation" else "Vector3"
                numbers = dict(zip("xyzw", value[first:last].tolist(), strict=False))
                fields[name] = self._new(f"geometry_msgs/msg/{kind}", **numbers)
        return self._new("sensor_msgs/msg/Imu", header=header(self._new, stamp_ns, self._frame), **fields)


def joint_messages(new: New, serialize: Serialize, names: Sequence[str]) -> MessageTemplate:
    """`sensor_msgs/JointState` of N modules, from 3 N numbers: position (rad), velocity (rad/s), effort (N m) of each.

    NaN where a module did not tell.
    """

    def make(stamp_ns: int, value: Vector) -> Any:
        told = dict(zip(("position", "velocity", "effort"), value.reshape(3, -1), strict=True))
        return new("sensor_msgs/msg/JointState", header=header(new, stamp_ns), name=list(names), **told)

    return MessageTemplate(make, serialize, 3 * len(names))
