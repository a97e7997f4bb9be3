"""`onboard_estimation.ros.message_layouts`: what it takes from bytes is what the message's object gives.

The first byte of an input chooses the channel, the second and third which byte of the message is another one the second
time, when the layout is known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np

from benchmarks.fuzz.target import Target
from onboard_estimation.evaluation.bag_types import decoded, jazzy_types, new
from onboard_estimation.measurement import Channel, Measurement
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.message_layouts import SerializedReader

_IMU, _JOINTS = "sensor_msgs/msg/Imu", "sensor_msgs/msg/JointState"
_CHANNELS = (
    Channel("imu", _IMU, "imu"),
    Channel("imu", _IMU, "attitude", field="orientation"),
    Channel("joints", _JOINTS, "wheels", names=("a", "b")),
    Channel("pose", "geometry_msgs/msg/PoseStamped", "body"),
    Channel("pose", "geometry_msgs/msg/PoseWithCovarianceStamped", "body"),
    Channel("point", "geometry_msgs/msg/PointStamped", "point"),
    Channel("wrench", "geometry_msgs/msg/WrenchStamped", "wrench"),
    Channel("pressure", "sensor_msgs/msg/FluidPressure", "pressure"),
    Channel("velocity", "geometry_msgs/msg/TwistStamped", "velocity"),
    Channel("compass", "sensor_msgs/msg/MagneticField", "compass"),
    Channel("odometry", "nav_msgs/msg/Odometry", "odometry"),
)
_HEAD = 3


def check(data: bytes) -> None:
    """The message, itself again, and with a byte changed."""
    head, message = data[:_HEAD].ljust(_HEAD, b"\0"), data[_HEAD:]
    channel = _CHANNELS[head[0] % len(_CHANNELS)]
    decode = partial(_decoded, channel.message_type)
    read = SerializedReader(channel, decode)
    changed = bytearray(message)
    if message:
        changed[(head[1] | head[2] << 8) % len(message)] ^= 1 + head[0] // len(_CHANNELS)
    for one in (message, message, bytes(changed), message):
        _assert_equal(_by_its_object(channel, decode, one), _by_its_bytes(read, one))
    assert len(read._layouts) <= 2


def _decoded(message_type: str, data: bytes) -> Any:
    try:
        return decoded(jazzy_types(), message_type, data)[0]
    except Exception as error:  # as for a bag
        raise ValueError from error


def _by_its_object(channel: Channel, decode: Callable[[bytes], Any], data: bytes) -> Measurement | None:
    try:
        return to_measurement(channel, decode(data))
    except (ValueError, MessageFault):
        return None


def _by_its_bytes(read: SerializedReader, data: bytes) -> Measurement | None:
    try:
        return read(data)
    except MessageFault:
        return None


def _assert_equal(expected: Measurement | None, found: Measurement | None) -> None:
    if expected is None or found is None:
        assert expected is found
        return
    assert (found.stamp_ns, found.sensor) == (expected.stamp_ns, expected.sensor)
    np.testing.assert_array_equal(found.value, expected.value)


def _mended(data: bytes, random: Random) -> bytes:
    """An encoding that is read, and a frame's name that ends."""
    changed = bytearray(data.ljust(_HEAD + 17, b"\0"))
    changed[_HEAD : _HEAD + 2] = b"\0\1"
    length = 1 + random.randrange(6)
    changed[_HEAD + 12 : _HEAD + 17] = length.to_bytes(4, "little") + changed[_HEAD + 16 : _HEAD + 17]
    if len(changed) >= _HEAD + 16 + length:
        changed[_HEAD + 15 + length] = 0
    return bytes(changed)


def _seeds() -> list[bytes]:
    found = []
    for number, channel in enumerate(_CHANNELS):
        for covariance in (0.0, -1.0):
            fields = {"name": ["b", "x", "a"], "velocity": [1.0, 2.0, 3.0], "position": [4.0, 5.0, 6.0]}
            message = new(channel.message_type, **(fields if channel.message_type == _JOINTS else {}))
            message.header.frame_id = "link"
            if channel.message_type == _IMU:
                message.angular_velocity_covariance[0] = covariance
            found.append(bytes([number, 60, 0]) + bytes(jazzy_types().serialize_cdr(message, channel.message_type)))
    return found


TARGET = Target(check, _seeds, _mended, longest=768)
