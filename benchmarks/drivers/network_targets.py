"""Fuzzed readers of networks: NatNet, DataStream, ROS messages."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np

from benchmarks.fuzzing import Target
from drivers.emulators import natnet_messages
from drivers.emulators.natnet_messages import SIZE_M, Times, i32, rigid_body, rigid_body_model, text
from drivers.emulators.vicon import DataStreamServer
from drivers.motion_capture.axes import quaternions_of
from drivers.motion_capture.bodies import BodyPoses, plausible
from drivers.optitrack import descriptions, frames, protocol
from drivers.optitrack.protocol import VERSIONS, Kind, NatNetFault, ServerInfo, Version
from drivers.vicon.protocol import (
    CONTENTS,
    GLOBAL_SEGMENTS,
    LONGEST_NAME,
    NEEDED,
    OBJECT_ENUMS,
    PACKET,
    SEGMENTS,
    STREAM_INFO,
    WANTED,
    Content,
    StreamError,
    block,
    encode_uints,
    layout_of,
)
from drivers.vicon.session import Session, body_names
from onboard_estimation.evaluation.bag_types import decoded, jazzy_types
from onboard_estimation.evaluation.message_factory import new
from onboard_estimation.measurement import Channel, Measurement
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.serialized_readings import SerializedReader


def other_models(names: Sequence[str], version: Version) -> bytes:
    """Message 5, with those that the version has."""
    bones = b"".join(rigid_body_model(f"bone {number}", number, version) for number in (1, 2))
    parts = [(2, text("skeleton") + i32(7, 2) + bones), (5, text("camera") + struct.pack("<7f", *range(7)))]
    if version >= (3, 0):
        channels = i32(2) + text("Fx") + text("Fy")
        plate = i32(1) + text("serial") + struct.pack("<161f", *range(161)) + i32(0, 0) + channels
        parts.append((3, plate))
        parts.append((4, i32(1) + text("device") + text("serial") + i32(0, 0) + channels))
    if version >= (4, 1):
        marker = text("m") + struct.pack("<i4fH", 1, 0.0, 0.0, 0.0, SIZE_M, 0)
        parts.append((6, text("asset") + i32(1, 3, 1) + rigid_body_model("part", 1, version) + i32(1) + marker))
    return natnet_messages.models(names, version, parts)


def other_frame(number: int, poses: BodyPoses, times: Times, version: Version, changed: bool = False) -> bytes:
    """Message 7, one of each."""
    bone = rigid_body(1, (0.0,) * 3, (0.0, 0.0, 0.0, 1.0), True, version)
    part = struct.pack("<i8fH", 1, *range(8), 1)
    marker = struct.pack("<i4fHf", 1, *range(4), 0, 0.0)
    channels = i32(1, 2) + 2 * (i32(3) + struct.pack("<3f", *range(3)))
    others = {
        "skeletons": i32(7, 2) + 2 * bone,
        "assets": i32(1, 1) + part + i32(1) + marker,
        "force plates": channels,
        "devices": channels,
    }
    return natnet_messages.frame(number, poses, times, version, changed, others)


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
        models = descriptions.parse(content, version)
        assert len(models) * _LEAST_MODEL_BYTES <= len(content)
        assert all(len(model.name) < _LONGEST_NAME for model in models)
    elif kind == Kind.FRAME:
        frame = frames.parse(content, version)
        bodies = len(frame.ids)
        assert bodies * _LEAST_BODY_BYTES <= len(content)
        assert frame.number >= 0
        assert frame.positions_m.shape == (bodies, 3)
        assert frame.quaternions_xyzw.shape == (bodies, 4)
        assert frame.tracked.shape == plausible(frame.positions_m, frame.quaternions_xyzw).shape == (bodies,)
        assert (frame.exposure_ticks is None) == (version < (3, 0))


def _mended_natnet(data: bytes, random: Random) -> bytes:
    """A kind that is read, and a length that is true."""
    content = data[5:]
    kind = random.choice((Kind.FRAME, Kind.FRAME, Kind.MODELS, Kind.MODELS, Kind.SERVER_INFO, Kind.ECHO))
    return data[:1].ljust(1, b"\0") + struct.pack("<HH", kind, len(content)) + content


def _natnet_seeds() -> list[bytes]:
    names, poses = ("a",), BodyPoses(1, ("a",), np.zeros((1, 3)), np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([True]))
    found = []
    for place, version in enumerate(VERSIONS):
        info = ServerInfo("", (0, 0, 0, 0), version, 10_000_000, 1511, True, "239.255.42.99")
        echo = protocol.message(Kind.ECHO, bytes(16))
        frame = other_frame(1, poses, Times(1.0, 2, 3, 4), version)
        models = other_models(names, version)
        found += [bytes([place]) + one for one in (natnet_messages.server_info(info), echo, frame, models)]
    return found


NATNET = Target(check_natnet, _natnet_seeds, _mended_natnet, longest=1536)


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


def _mended_vicon(data: bytes, random: Random) -> bytes:
    """Blocks of kinds that are read, of lengths that are true, and segments of a true count."""
    rest, mended = data[_CHOICE.size :], data[: _CHOICE.size].ljust(_CHOICE.size, b"\0")
    while rest:
        size = random.randrange(1, len(rest) + 1)
        content, rest = rest[:size], rest[size:]
        kind = random.choice((*sorted(WANTED), OBJECT_ENUMS, GLOBAL_SEGMENTS))
        if kind == GLOBAL_SEGMENTS:
            content = struct.pack("<II", random.randrange(3), len(content) // SEGMENTS.itemsize) + content
        mended += block(kind, content)
    return mended


def _vicon_seeds() -> list[bytes]:
    names = ["box", "arm/upper", "arm/lower"]
    server = DataStreamServer("127.0.0.1", 0, names, 600.0)
    pose = np.ones(3), np.eye(3)
    found = [block(OBJECT_ENUMS, encode_uints(WANTED))]
    for wanted in (WANTED, WANTED - {CONTENTS}, WANTED - {STREAM_INFO}, NEEDED):
        for seen in (names, names[1:2], []):
            packet = server.packet(wanted, WANTED - wanted, 7, 8, dict.fromkeys(seen, pose), {"cameras": 0.004})
            found.append(packet[8:])
    server.close()
    return [_CHOICE.pack(place, 1) + packet for place, packet in enumerate(found)]


VICON = Target(check_vicon, _vicon_seeds, _mended_vicon, longest=1024)


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


def _mended_serialized(data: bytes, random: Random) -> bytes:
    """An encoding that is read, and a frame's name that ends."""
    changed = bytearray(data.ljust(_HEAD + 17, b"\0"))
    changed[_HEAD : _HEAD + 2] = b"\0\1"
    length = 1 + random.randrange(6)
    changed[_HEAD + 12 : _HEAD + 17] = length.to_bytes(4, "little") + changed[_HEAD + 16 : _HEAD + 17]
    if len(changed) >= _HEAD + 16 + length:
        changed[_HEAD + 15 + length] = 0
    return bytes(changed)


def _serialized_seeds() -> list[bytes]:
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


SERIALIZED = Target(check_serialized, _serialized_seeds, _mended_serialized, longest=768)
