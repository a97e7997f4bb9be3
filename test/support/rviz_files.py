"""RViz files as data, and what RViz knows: names of classes and properties in the sources of Jazzy (14.1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

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


def _within(parent: str, names: str) -> str:
    """The properties that a property has below it."""
    return f", {parent}, " + ", ".join(f"{parent}/{name}" for name in names.split(", "))


_TOPIC = _within("Topic", "Value, Depth, History Policy, Reliability Policy, Durability Policy")
_FILTERED = _TOPIC + _within("Topic", "Filter size")
_XYZ = "X, Y, Z"
_COVARIANCE = (
    _within("Covariance", "Value, Position, Orientation")
    + _within("Covariance/Position", "Value, Color, Alpha, Scale")
    + _within("Covariance/Orientation", "Value, Frame, Color Style, Color, Alpha, Offset, Scale")
)
_ARROW = "Shaft Length, Shaft Radius, Head Length, Head Radius"
_DISPLAY = "Class, Name, Enabled, Value, "
_STEREO = _within("Enable Stereo Rendering", "Value, Stereo Eye Separation, Stereo Focal Distance, Swap Stereo Eyes")
_VIEW = "Class, Name, Value, Near Clip Distance, Invert Z Axis, Target Frame" + _STEREO
_ORBIT = ", Distance, Focal Shape Size, Focal Shape Fixed Size, Yaw, Pitch" + _within("Focal Point", _XYZ)
_PANEL = "Class, Name"
_TREE = _within("Property Tree Widget", "Expanded, Splitter Ratio") + ", Tree Height, Help Height"

PROPERTIES = {
    name: frozenset(properties.split(", "))
    for name, properties in {
        "rviz_default_plugins/Axes": _DISPLAY + "Reference Frame, Length, Radius",
        "rviz_default_plugins/Grid": _DISPLAY
        + "Reference Frame, Plane Cell Count, Normal Cell Count, Cell Size, Color, Alpha, Plane"
        + _within("Line Style", "Value, Line Width")
        + _within("Offset", _XYZ),
        "rviz_default_plugins/Marker": _DISPLAY + "Namespaces, Namespaces/*" + _FILTERED,
        "rviz_default_plugins/MarkerArray": _DISPLAY + "Namespaces, Namespaces/*" + _TOPIC,
        "rviz_default_plugins/Odometry": _DISPLAY
        + "Position Tolerance, Angle Tolerance, Keep"
        + _within("Shape", f"Value, Color, Alpha, Axes Length, Axes Radius, {_ARROW}")
        + _COVARIANCE
        + _FILTERED,
        "rviz_default_plugins/Path": _DISPLAY
        + "Line Style, Line Width, Color, Alpha, Buffer Length, Pose Style, Length, Radius, Pose Color, "
        + "Shaft Length, Head Length, Shaft Diameter, Head Diameter"
        + _within("Offset", _XYZ)
        + _FILTERED,
        "rviz_default_plugins/PointStamped": _DISPLAY + "Color, Alpha, Radius, History Length" + _FILTERED,
        "rviz_default_plugins/Pose": _DISPLAY + f"Shape, Color, Alpha, Axes Length, Axes Radius, {_ARROW}" + _FILTERED,
        "rviz_default_plugins/RobotModel": _DISPLAY
        + "Visual Enabled, Collision Enabled, Update Interval, Alpha, Description Source, Description File, TF Prefix"
        + _within("Mass Properties", "Mass, Inertia")
        + _within("Description Topic", "Value, Depth, History Policy, Reliability Policy, Durability Policy"),
        "rviz_default_plugins/TF": _DISPLAY
        + "Show Names, Show Axes, Show Arrows, Marker Scale, Update Interval, Frame Timeout, Filter (whitelist), "
        + "Filter (blacklist), Frames, Frames/All Enabled",
        "rviz_default_plugins/MoveCamera": "Class",
        "rviz_default_plugins/Select": "Class",
        "rviz_default_plugins/FocusCamera": "Class",
        "rviz_default_plugins/Measure": "Class, Line color",
        "rviz_default_plugins/SetInitialPose": "Class, Covariance x, Covariance y, Covariance yaw" + _TOPIC,
        "rviz_default_plugins/Orbit": _VIEW + _ORBIT,
        "rviz_default_plugins/XYOrbit": _VIEW + _ORBIT,
        "rviz_default_plugins/TopDownOrtho": _VIEW + ", Scale, Angle, X, Y",
        "rviz_common/Displays": _PANEL + _TREE,
        "rviz_common/Views": _PANEL,
        "rviz_common/Tool Properties": _PANEL,
        "rviz_common/Time": _PANEL + ", SyncMode, SyncSource, Experimental",
        "rviz_common/Selection": _PANEL,
        "window": "Panels, Visualization Manager, Window Geometry",
        "manager": "Class, Name, Enabled, Value, Displays, Tools, Views, Views/Current, Views/Saved"
        + _within("Transformation", "Current, Current/Class")
        + _within("Global Options", "Fixed Frame, Background Color, Frame Rate"),
        "geometry": "X, Y, Width, Height, QMainWindow State, Hide Left Dock, Hide Right Dock, Displays, "
        + "Displays/collapsed, Views, Views/collapsed, Time, Time/collapsed, Tool Properties, "
        + "Tool Properties/collapsed",
    }.items()
}
"""Of a class, or a part of the file: the keys that RViz reads; `/` goes down, `*` stands for any name."""

CHOICES = {
    "History Policy": {"System Default", "Keep Last", "Keep All"},
    "Reliability Policy": {"System Default", "Reliable", "Best Effort"},
    "Durability Policy": {"System Default", "Volatile", "Transient Local"},
    "Plane": {"XY", "XZ", "YZ"},
    "Pose Style": {"None", "Axes", "Arrows"},
    "Shape": {"Arrow", "Axes"},
    "Color Style": {"Unique", "RGB"},
    "Frame": {"Local", "Fixed"},
    "Line Style": {"Lines", "Billboards"},
    "Description Source": {"Topic", "File"},
}
"""Of properties with few values, all of them. Another value is read as the default, without a word."""


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
