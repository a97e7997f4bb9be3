"""Simulated recordings as ROS 2 bags."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_writing import BagWriter, messages
from onboard_estimation.evaluation.message_factory import header
from onboard_estimation.measurement import Channel
from onboard_estimation.robots import Robot, Series

EPOCH_NS = 1_767_225_600 * 1_000_000_000
"""Stamp of a simulation's start (2026-01-01 UTC): fixed, so that a seed gives one bag; zero is no time in ROS."""

TRUTH_FRAME = "world"


def simulate_to_bag(
    robot: Robot,
    configuration: Any,
    scenario: str,
    variant: str,
    duration_s: float,
    seed: int,
    path: Path,
    storage: str = "mcap",
    progress: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Simulate and write a bag; what was written, for a summary.

    The bag says in its metadata that it is simulated, and how (`custom_data`).
    """
    progress("motion and sensors")
    recording = robot.simulate(configuration, scenario, variant, duration_s, np.random.default_rng(seed))
    series = [*recording.sensors, *recording.truth]
    progress("writing")
    description = {
        "source": "simulated",
        "robot": robot.name,
        "scenario": scenario,
        "variant": variant,
        "seed": str(seed),
        "onboard_estimation": version("onboard_estimation"),
    }
    with BagWriter(path, cast(Literal["mcap", "sqlite3"], storage), custom_data=description) as writer:
        write_series(writer, series, f"/{robot.name}")
        count = writer.message_count
    return {**description, "path": str(path), "messages": count, "topics": len(series), "duration_s": duration_s}


def write_series(writer: BagWriter, series: list[Series], namespace: str, epoch_ns: int = EPOCH_NS) -> None:
    """Write all messages in the order of their stamps, each topic under the namespace."""
    stamps = np.concatenate([one.stamps_ns for one in series])
    numbers = np.repeat(np.arange(len(series)), [len(one.stamps_ns) for one in series])
    rows = np.concatenate([np.arange(len(one.stamps_ns)) for one in series])
    for index in np.argsort(stamps, kind="stable"):
        one = series[numbers[index]]
        stamp_ns = int(stamps[index]) + epoch_ns
        message = to_message(one.channel, stamp_ns, one.values[rows[index]])
        writer.write(f"{namespace}/{one.channel.topic}", one.channel.message_type, stamp_ns, message)


def to_message(channel: Channel, stamp_ns: int, value: NDArray[np.float64]) -> Any:
    """The message whose measurement has that value: the inverse of `ros.measurements.to_measurement`."""
    return _MAKERS[channel.message_type](channel, stamp_ns, value.tolist())


def _imu(channel: Channel, stamp_ns: int, value: list[float]) -> Any:
    no_orientation = np.zeros(9)
    no_orientation[0] = -1.0
    return messages("sensor_msgs/msg/Imu")(
        header=header(stamp_ns, channel.sensor.replace("/", "_")),
        orientation_covariance=no_orientation,
        angular_velocity=_vector3(*value[:3]),
        linear_acceleration=_vector3(*value[3:]),
    )


def _joint_state(channel: Channel, stamp_ns: int, value: list[float]) -> Any:
    fields = {channel.field: np.array(value)}
    return messages("sensor_msgs/msg/JointState")(header=header(stamp_ns), name=list(channel.names), **fields)


def _pose(channel: Channel, stamp_ns: int, value: list[float]) -> Any:
    x, y, z, qx, qy, qz, qw = value
    pose = messages("geometry_msgs/msg/Pose")(
        position=messages("geometry_msgs/msg/Point")(x=x, y=y, z=z),
        orientation=messages("geometry_msgs/msg/Quaternion")(x=qx, y=qy, z=qz, w=qw),
    )
    return messages("geometry_msgs/msg/PoseStamped")(header=header(stamp_ns, TRUTH_FRAME), pose=pose)


def _point(channel: Channel, stamp_ns: int, value: list[float]) -> Any:
    x, y, z = value
    point = messages("geometry_msgs/msg/Point")(x=x, y=y, z=z)
    return messages("geometry_msgs/msg/PointStamped")(header=header(stamp_ns, TRUTH_FRAME), point=point)


def _vector3(x: float, y: float, z: float) -> Any:
    return messages("geometry_msgs/msg/Vector3")(x=x, y=y, z=z)


_MAKERS: dict[str, Callable[[Channel, int, list[float]], Any]] = {
    "sensor_msgs/msg/Imu": _imu,
    "sensor_msgs/msg/JointState": _joint_state,
    "geometry_msgs/msg/PoseStamped": _pose,
    "geometry_msgs/msg/PointStamped": _point,
}
