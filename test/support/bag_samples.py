"""Small recordings in every format that is read, written by `rosbags` and `mcap`, not by our own writer."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mcap.writer
import numpy as np
from rosbags.rosbag1 import Writer as Ros1Writer
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from onboard_estimation.base.measurement import Channel

JAZZY = get_typestore(Stores.ROS2_JAZZY)
NOETIC = get_typestore(Stores.ROS1_NOETIC)
START_NS = 1_700_000_000_000_000_000

IMU = "sensor_msgs/msg/Imu"
JOINTS = "sensor_msgs/msg/JointState"
POSE = "geometry_msgs/msg/PoseStamped"
POINT = "geometry_msgs/msg/PointStamped"
WRENCH = "geometry_msgs/msg/WrenchStamped"
PRESSURE = "sensor_msgs/msg/FluidPressure"
TWIST = "geometry_msgs/msg/TwistStamped"
FIELD = "sensor_msgs/msg/MagneticField"
ODOMETRY = "nav_msgs/msg/Odometry"
RANGE = "sensor_msgs/msg/Range"

CHANNELS = {
    "/imu/link_1/data_raw": Channel("imu/link_1/data_raw", IMU, "imu/link_1"),
    "/imu/link_2/data_raw": Channel("imu/link_2/data_raw", IMU, "imu/link_2"),
    "/actuators/state": Channel("actuators/state", JOINTS, "wheels", names=("rear", "r\u00e4d")),
    "/ground_truth/body/pose": Channel("ground_truth/body/pose", POSE, "body"),
    "/commanded_height": Channel("commanded_height", POINT, "commanded_height"),
    "/wrench": Channel("wrench", WRENCH, "wrench"),
    "/pressure/left": Channel("pressure/left", PRESSURE, "pressure"),
    "/velocity": Channel("velocity", TWIST, "velocity"),
    "/compass": Channel("compass", FIELD, "compass"),
    "/odometry": Channel("odometry", ODOMETRY, "odometry"),
}
"""Of the topics of `walk`."""


class Sample(NamedTuple):
    """One message to record."""

    topic: str
    message_type: str
    log_time_ns: int
    message: Any


def type_of(name: str) -> Any:
    return JAZZY.types[name]


def header(stamp_ns: int, frame: str) -> Any:
    return type_of("std_msgs/msg/Header")(type_of("builtin_interfaces/msg/Time")(*divmod(stamp_ns, 10**9)), frame)


def vector(x: float, y: float, z: float) -> Any:
    return type_of("geometry_msgs/msg/Vector3")(x, y, z)


def imu(stamp_ns: int, gyro: Sequence[float], acceleration: Sequence[float], frame: str = "imu_link") -> Any:
    rotation = type_of("geometry_msgs/msg/Quaternion")(0.0, 0.0, 0.0, 1.0)
    covariance = np.arange(9.0)
    return type_of(IMU)(
        header(stamp_ns, frame), rotation, -covariance, vector(*gyro), covariance, vector(*acceleration), covariance
    )


def pose(
    stamp_ns: int, position: Sequence[float], rotation: Sequence[float] = (0, 0, 0, 1), frame: str = "world"
) -> Any:
    return type_of(POSE)(
        header(stamp_ns, frame),
        type_of("geometry_msgs/msg/Pose")(
            type_of("geometry_msgs/msg/Point")(*position), type_of("geometry_msgs/msg/Quaternion")(*rotation)
        ),
    )


def point(stamp_ns: int, position: Sequence[float], frame: str = "world") -> Any:
    return type_of(POINT)(header(stamp_ns, frame), type_of("geometry_msgs/msg/Point")(*position))


def wrench(stamp_ns: int, force: Sequence[float], torque: Sequence[float]) -> Any:
    return type_of(WRENCH)(
        header(stamp_ns, "base"), type_of("geometry_msgs/msg/Wrench")(vector(*force), vector(*torque))
    )


def pressure(stamp_ns: int, value: float) -> Any:
    return type_of(PRESSURE)(header(stamp_ns, "chamber"), value, 0.25)


def twist(stamp_ns: int, linear: Sequence[float], angular: Sequence[float]) -> Any:
    return type_of(TWIST)(
        header(stamp_ns, "base"), type_of("geometry_msgs/msg/Twist")(vector(*linear), vector(*angular))
    )


def field(stamp_ns: int, value: Sequence[float]) -> Any:
    return type_of(FIELD)(header(stamp_ns, "compass"), vector(*value), np.arange(9.0))


def odometry(stamp_ns: int, position: Sequence[float], rotation: Sequence[float]) -> Any:
    moving = twist(stamp_ns, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)).twist
    return type_of(ODOMETRY)(
        header(stamp_ns, "odom"),
        "base",
        type_of("geometry_msgs/msg/PoseWithCovariance")(pose(stamp_ns, position, rotation).pose, np.arange(36.0)),
        type_of("geometry_msgs/msg/TwistWithCovariance")(moving, -np.arange(36.0)),
    )


def distance(stamp_ns: int, value: float, smallest: float = 0.25, largest: float = 4.0) -> Any:
    return type_of(RANGE)(header(stamp_ns, "sonar"), 0, 0.5, smallest, largest, value, 0.0)


def joints(
    stamp_ns: int,
    names: Sequence[str],
    position: Sequence[float] = (),
    velocity: Sequence[float] = (),
    effort: Sequence[float] = (),
) -> Any:
    arrays = (np.array(values, dtype=np.float64) for values in (position, velocity, effort))
    return type_of(JOINTS)(header(stamp_ns, ""), list(names), *arrays)


def walk(count: int = 300, seed: int = 1) -> list[Sample]:
    """Every message type that has a value, interleaved; log times rise and differ from the stamps."""
    rng = np.random.default_rng(seed)
    samples = []
    for step in range(count):
        stamp = START_NS + step * 10_000_000
        values = rng.normal(size=12).tolist()
        messages: list[tuple[str, str, Any]] = [
            ("/imu/link_1/data_raw", IMU, imu(stamp, values[:3], values[3:6])),
            ("/imu/link_2/data_raw", IMU, imu(stamp + 1, values[6:9], values[9:12], "imu_link_two")),
            ("/actuators/state", JOINTS, joints(stamp, ["left", "r\u00e4d", "rear"], values[:3], values[3:6])),
        ]
        if step % 3 == 0:
            rotation = rng.normal(size=4)
            rotation /= np.linalg.norm(rotation)
            messages += [
                ("/ground_truth/body/pose", POSE, pose(stamp, values[:3], rotation.tolist())),
                ("/commanded_height", POINT, point(stamp, values[3:6])),
                ("/wrench", WRENCH, wrench(stamp, values[:3], values[3:6])),
                ("/pressure/left", PRESSURE, pressure(stamp, values[0])),
                ("/velocity", TWIST, twist(stamp, values[:3], values[3:6])),
                ("/compass", FIELD, field(stamp, values[6:9])),
                ("/odometry", ODOMETRY, odometry(stamp, values[:3], rotation.tolist())),
            ]
        for place, (topic, message_type, message) in enumerate(messages):
            samples.append(Sample(topic, message_type, stamp + 2_000_000 + place * 1_000, message))
    return samples


def serialised(samples: Sequence[Sample], little_endian: bool = True) -> list[tuple[str, int, bytes]]:
    return [
        (
            sample.topic,
            sample.log_time_ns,
            bytes(JAZZY.serialize_cdr(sample.message, sample.message_type, little_endian=little_endian)),
        )
        for sample in samples
    ]


def write_rosbag2(
    path: Path,
    samples: Sequence[Sample],
    storage: str = "mcap",
    compression: str = "none",
    version: int = 9,
    little_endian: bool = True,
) -> Path:
    """A folder of rosbag2; `compression` is `none`, `storage` (MCAP chunks), `file` or `message`."""
    writer = Writer(path, version=version, storage_plugin=StoragePlugin[storage.upper()])  # type: ignore[arg-type]
    writer.set_compression(CompressionMode[compression.upper()], CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for sample, (topic, time, data) in zip(samples, serialised(samples, little_endian), strict=True):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, sample.message_type, typestore=JAZZY)
            writer.write(connections[topic], time, data)
    return path


def write_mcap(
    path: Path,
    samples: Sequence[Sample],
    compression: str = "lz4",
    chunks: bool = True,
    crc: bool = True,
    chunk_size: int = 20_000,
) -> Path:
    """A lone .mcap file by the `mcap` package; `compression` is `none`, `lz4` or `zstd`."""
    with path.open("wb") as file:
        writer = mcap.writer.Writer(
            file,
            chunk_size=chunk_size,
            compression=mcap.writer.CompressionType[compression.upper()],
            use_chunking=chunks,
            enable_crcs=crc,
        )
        writer.start(profile="ros2", library="test")
        schemas: dict[str, int] = {}
        channels: dict[str, int] = {}
        for sample, (topic, time, data) in zip(samples, serialised(samples), strict=True):
            kind = sample.message_type
            if kind not in schemas:
                definition = JAZZY.generate_msgdef(kind, ros_version=2)[0].encode()
                schemas[kind] = writer.register_schema(kind, "ros2msg", definition)
            if topic not in channels:
                channels[topic] = writer.register_channel(topic, "cdr", schemas[kind])
            writer.add_message(channels[topic], log_time=time, data=data, publish_time=time)
        writer.finish()
    return path


def write_ros1(path: Path, samples: Sequence[Sample], compression: str = "none") -> Path:
    """A ROS 1 bag; `compression` is `none`, `bz2` or `lz4`."""
    writer = Ros1Writer(path)
    if compression != "none":
        writer.set_compression(Ros1Writer.CompressionFormat[compression.upper()])
    with writer:
        connections = {}
        for sample in samples:
            if sample.topic not in connections:
                connections[sample.topic] = writer.add_connection(sample.topic, sample.message_type, typestore=NOETIC)
            data = NOETIC.serialize_ros1(to_ros1(sample.message), sample.message_type)
            writer.write(connections[sample.topic], sample.log_time_ns, bytes(data))
    return path


_sequence = itertools.count()


def to_ros1(message: Any) -> Any:
    """The same message with the classes of ROS 1, whose headers have a sequence number."""
    if isinstance(message, list):
        return list(map(to_ros1, message))
    if not dataclasses.is_dataclass(message):
        return message
    kind: str = getattr(message, "__msgtype__")  # noqa: B009
    fields = {field.name: to_ros1(getattr(message, field.name)) for field in dataclasses.fields(message)}
    if kind == "std_msgs/msg/Header":
        fields["seq"] = next(_sequence) % 2**32
    return NOETIC.types[kind](**fields)
