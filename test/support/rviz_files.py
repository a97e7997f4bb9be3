"""RViz files as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

DISPLAYS = {
    "AccelStamped",
    "Axes",
    "Camera",
    "DepthCloud",
    "Effort",
    "Grid",
    "GridCells",
    "FluidPressure",
    "Illuminance",
    "Image",
    "InteractiveMarkers",
    "LaserScan",
    "Map",
    "Marker",
    "MarkerArray",
    "Odometry",
    "Path",
    "PointCloud",
    "PointCloud2",
    "PointStamped",
    "Polygon",
    "Pose",
    "PoseArray",
    "PoseWithCovariance",
    "Range",
    "RelativeHumidity",
    "RobotModel",
    "Temperature",
    "TF",
    "TwistStamped",
    "Wrench",
}
MESSAGE_OF_DISPLAY = {
    "Marker": "visualization_msgs/msg/Marker",
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "Odometry": "nav_msgs/msg/Odometry",
    "Path": "nav_msgs/msg/Path",
    "PointStamped": "geometry_msgs/msg/PointStamped",
    "Pose": "geometry_msgs/msg/PoseStamped",
}


def flattened(topic: str, message: Any) -> Iterator[str]:
    """Names that PlotJuggler 3 gives to the numbers of a message (ros_parser.cpp)."""
    kind = message.__msgtype__
    if kind == "sensor_msgs/msg/JointState":
        for field in ("position", "velocity", "effort"):
            yield from (
                f"{topic}/{name}/{field}" for name, _ in zip(message.name, getattr(message, field), strict=False)
            )
    elif kind == "diagnostic_msgs/msg/DiagnosticArray":
        for status in message.status:
            yield from (f"{topic}/{status.hardware_id}/{status.name}/{pair.key}" for pair in status.values)
    elif kind == "nav_msgs/msg/Odometry":
        yield from pose_names(f"{topic}/pose/pose")
        yield from (f"{topic}/twist/twist/{part}/{axis}" for part in ("linear", "angular") for axis in "xyz")
        yield from (
            f"{topic}/{part}/covariance/[{i};{j}]" for part in ("pose", "twist") for i in range(6) for j in range(i, 6)
        )
    elif kind == "geometry_msgs/msg/PoseStamped":
        yield from pose_names(f"{topic}/pose")
    elif kind == "sensor_msgs/msg/Imu":
        yield from (f"{topic}/{part}/{axis}" for part in ("angular_velocity", "linear_acceleration") for axis in "xyz")
    elif kind == "geometry_msgs/msg/PointStamped":
        yield from (f"{topic}/point/{axis}" for axis in "xyz")


def pose_names(prefix: str) -> Iterator[str]:
    yield from (f"{prefix}/position/{axis}" for axis in "xyz")
    yield from (f"{prefix}/orientation/{part}" for part in ("x", "y", "z", "w", "roll", "pitch", "yaw"))
