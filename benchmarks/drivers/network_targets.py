"""Fuzzed readers of networks: NatNet, DataStream, ROS messages."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.fuzzing import Target
from drivers.motion_capture import optitrack_protocol as protocol
from drivers.motion_capture.bodies import plausible, quaternions_of
from drivers.motion_capture.optitrack_protocol import VERSIONS, Kind, NatNetFault, Version
from drivers.motion_capture.vicon_protocol import (
    LONGEST_NAME,
    NEEDED,
    OBJECT_ENUMS,
    PACKET,
    SEGMENTS,
    Content,
    Session,
    StreamError,
    block,
    body_names,
    encode_uints,
    layout_of,
)
from onboard_estimation.bags.message_types import decoded, jazzy_types
from onboard_estimation.base.measurement import Channel, Measurement
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.message_layouts import SerializedReader

_LEAST_BODY_BYTES, _LEAST_MODEL_BYTES = 36, 25
_LONGEST_NAME = 256
_REASONS = 12
_reasons: set[str] = set()


def check_natnet(data: bytes) -> None:
    """What is read of a message is no more than it has bytes for; what cannot be is refused in a few words."""
    version, message = VERSIONS[data[0] % len(VERSIONS)] if data else VERSIONS[0], data[1:]
    try:
        kind, content = protocol.payload(message)
        assert len(content) <= len(message)
        _check_natnet_content(kind, content, version)
    except NatNetFault as fault:
        _reasons.add(str(fault))
        assert len(_reasons) <= _REASONS


def _check_natnet_content(kind: int, content: bytes, version: Version) -> None:
    if kind == Kind.SERVER_INFO:
        info = protocol.server_info(content)
        assert (info.clock_hz is not None) == (info.version >= (3, 0))
    elif kind == Kind.ECHO:
        assert min(protocol.echo(content)) >= 0
    elif kind == Kind.MODELS:
        models = protocol.rigid_bodies(content, version)
        assert len(models) * _LEAST_MODEL_BYTES <= len(content)
        assert all(len(model.name) < _LONGEST_NAME for model in models)
    elif kind == Kind.FRAME:
        frame = protocol.parse_frame(content, version)
        bodies = len(frame.ids)
        assert bodies * _LEAST_BODY_BYTES <= len(content)
        assert frame.number >= 0
        assert frame.positions_m.shape == (bodies, 3)
        assert frame.quaternions_xyzw.shape == (bodies, 4)
        assert frame.tracked.shape == plausible(frame.positions_m, frame.quaternions_xyzw).shape == (bodies,)
        assert (frame.exposure_ticks is None) == (version < (3, 0))


NATNET = Target(check_natnet, longest=1536)


_CHOICE = struct.Struct("<HB")
_OFFER = block(PACKET, block(OBJECT_ENUMS, encode_uints(NEEDED)))
_LEAST_SUBJECT_BYTES = 20
_LONGEST_REASON = LONGEST_NAME + 100


def check_vicon(data: bytes) -> None:
    """What is read is no more than there are bytes for, by any layout the same; what cannot be is refused briefly."""
    if len(data) < _CHOICE.size:
        return
    (place, change), packet = _CHOICE.unpack_from(data), data[_CHOICE.size :]
    other = bytearray(packet)
    if other:
        other[place % len(other)] ^= change
    try:
        layout = layout_of(packet)
        assert layout.fits(packet)
        _check_content(layout.read(packet), len(packet))
        if layout.fits(bytes(other)):
            own = layout_of(bytes(other)).read(bytes(other))
            assert _bits(layout.read(bytes(other))) == _bits(own)
    except StreamError as error:
        _check_reason(error)
    _check_session(packet, bytes(other))


def _check_reason(error: StreamError) -> None:
    assert len(str(error)) < _LONGEST_REASON
    assert str(error).isprintable()


def _check_content(found: Content, size: int) -> None:
    subjects = found.subjects or ()
    assert len(subjects) * _LEAST_SUBJECT_BYTES <= size
    assert all(len(name) <= 2 * LONGEST_NAME + 1 and name.isprintable() for name in body_names(subjects).values())
    if found.poses is not None:
        assert len(found.poses.ids) == len(found.poses.values) <= size // SEGMENTS.itemsize
        quaternions = quaternions_of(found.poses.values["rotation"])
        lengths = np.sqrt((quaternions**2).sum(axis=1))
        assert (np.isnan(lengths) | (np.abs(lengths - 1.0) < 1e-9)).all()
        good = plausible(found.poses.values["position_mm"], quaternions)
        assert np.isfinite(quaternions[good]).all()


def _check_session(packet: bytes, other: bytes) -> None:
    """However the bytes are cut, the same frames, until what is refused."""
    stream = _OFFER + block(PACKET, packet) + block(PACKET, other)
    assert _frames([stream]) == _frames([stream[:50], stream[50:]])


def _frames(pieces: list[bytes]) -> list[object]:
    session = Session()
    found: list[object] = []
    try:
        for piece in pieces:
            for frame in session.feed(piece):
                found.append((repr(frame[:3]), frame.poses.ids, frame.poses.values.tobytes(), session.subjects))
    except StreamError as error:
        found.append(str(error))
    return found


def _bits(found: Content) -> object:
    values = (found.poses.ids, found.poses.values.tobytes()) if found.poses is not None else None
    return repr(found._replace(poses=None)), values


VICON = Target(check_vicon, longest=1024)


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


def check_serialized(data: bytes) -> None:
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


SERIALIZED = Target(check_serialized, longest=768)
