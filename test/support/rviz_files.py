"""RViz files as data, and what RViz knows: names of classes and properties in the sources of Jazzy (14.1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

MESSAGE_OF_DISPLAY = {
    "Marker": "visualization_msgs/msg/Marker",
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "Odometry": "nav_msgs/msg/Odometry",
    "Path": "nav_msgs/msg/Path",
    "PointStamped": "geometry_msgs/msg/PointStamped",
    "Pose": "geometry_msgs/msg/PoseStamped",
}


_KNOWN = yaml.safe_load(Path(__file__).with_name("rviz_properties.yaml").read_text())


def _names(listed: str) -> Iterator[str]:
    for name in listed.split(", "):
        yield from _names(_KNOWN["groups"][name[1:]]) if name.startswith("$") else [name]


PROPERTIES = {name: frozenset(_names(listed)) for name, listed in _KNOWN["properties"].items()}
CHOICES = {name: frozenset(_names(listed)) for name, listed in _KNOWN["choices"].items()}


def read_rviz(file: Path) -> dict[str, Any]:
    """The whole of a file."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def faults(content: dict[str, Any]) -> Iterator[str]:
    """Keys and values of a file that RViz would pass over."""
    manager = content["Visualization Manager"]
    views = [manager["Views"]["Current"], *(manager["Views"]["Saved"] or ())]
    yield from (f"{key} of the window" for key in content if key not in PROPERTIES["window"])
    rest = {**manager, "Displays": None, "Tools": None, "Views": dict.fromkeys(manager["Views"])}
    yield from _faults("manager", rest)
    yield from _faults("geometry", content["Window Geometry"])
    for part in (*content["Panels"], *manager["Displays"], *manager["Tools"], *views):
        yield from _faults(part["Class"], part)


def _faults(name: str, part: dict[str, Any]) -> Iterator[str]:
    known = PROPERTIES.get(name)
    if known is None:
        yield f"class {name}"
        return
    for path, value in _leaves(part):
        parent, _, key = path.rpartition("/")
        if path not in known and f"{parent}/*" not in known:
            yield f"{path} of {name}"
        chosen = parent.rpartition("/")[2] if key == "Value" else key
        if chosen in CHOICES and isinstance(value, str) and value not in CHOICES[chosen]:
            yield f"{value!r} as {path} of {name}"


def _leaves(part: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Paths of all keys, and their values."""
    for key, value in part.items():
        path = f"{above}{key}"
        yield path, value
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}/")


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
