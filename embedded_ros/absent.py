"""What ROS 2 has and this runtime has not: asking for it says so, and what to do instead.

A plain ImportError would look like a broken installation, and a plain NotImplementedError would pass by the
`try: import ... except ImportError` of programs that do without; so it is both.
"""

from __future__ import annotations

import difflib
import sys
from typing import NoReturn

_SOURCE = "source /opt/ros/<distribution>/setup.bash"
_ELSEWHERE = f"ROS 2 may have it ({_SOURCE})"
_LOOK_UP = "look the transform up with tf2_ros.Buffer and apply it, for example with SciPy's Rotation"
_PYTHON = "launch files are written in Python here"
_FOR_EACH = "give each Node its own parameters and remappings"
# The nearest name above counts.
_INSTEAD = {
    "cv_bridge": f"make a NumPy array of the image's data, or use ROS 2 ({_SOURCE})",
    "launch.frontend": _PYTHON,
    "launch.substitutions": "decide in Python, in a launch.actions.OpaqueFunction",
    "launch_ros.actions.SetParametersFromFile": _FOR_EACH,
    "launch_ros.actions.SetRemap": _FOR_EACH,
    "launch_testing": f"start `onboard-estimation launch` from a test, or use ROS 2 ({_SOURCE})",
    "launch_xml": _PYTHON,
    "launch_yaml": _PYTHON,
    "rclpy.action": f"use services and topics, or ROS 2 ({_SOURCE})",
    "rclpy.experimental": "use rclpy.executors.SingleThreadedExecutor or MultiThreadedExecutor",
    "rclpy.lifecycle": f"use rclpy.node.Node, or ROS 2 ({_SOURCE})",
    "rclpy.parameter_client": "call the node's parameter services (rcl_interfaces.srv)",
    "rclpy.parameter_event_handler": "subscribe to /parameter_events",
    "rclpy.waitable": "use a timer or a subscription",
    "rclpy.clock": "compare now() with the time before",
    "rclpy.guard_condition": "use the executor's create_task, from any thread",
    "rclpy.qos_overriding_options": "make the profile from parameters of the node's own",
    "rclpy.wait_for_message": "subscribe, and spin until the message is there",
    "rclpy.InitContextManager": "call rclpy.init() and, in `finally`, rclpy.try_shutdown()",
    "rosbag2_py": "bags are read and written with the package rosbags",
    "sensor_msgs_py": f"make a NumPy array of the cloud's data, or use ROS 2 ({_SOURCE})",
    "tf2_geometry_msgs": _LOOK_UP,
    "tf2_kdl": _LOOK_UP,
    "tf2_py": "import the name from tf2_ros",
    "tf2_ros": _LOOK_UP,
    "tf2_ros.buffer_client": "use tf2_ros.Buffer with a tf2_ros.TransformListener",
    "tf2_sensor_msgs": _LOOK_UP,
}
# Packages of ROS 2 that nothing here stands in for; message packages are known by their endings.
PACKAGES = frozenset(name for name in _INSTEAD if "." not in name) - {"tf2_ros"} | {
    "message_filters",
    "rosidl_runtime_py",
    "ros2cli",
    "ros2launch",
}


class AbsentName(ImportError, NotImplementedError):
    """A name of ROS 2 that the embedded runtime lacks."""


class AbsentModule(AbsentName, ModuleNotFoundError):
    """A module or package of ROS 2 that the embedded runtime lacks."""


def absent(name: str, instead: str = "") -> str:
    """The sentence about a name of ROS 2, with its module."""
    module, _, last = name.rpartition(".")
    near = difflib.get_close_matches(last, dir(sys.modules[module]), n=3, cutoff=0.8) if module in sys.modules else []
    similar = f" (similar: {', '.join(near)})" if near else ""
    if not instead and module.count(".") and last == last.lower() and module in sys.modules:
        instead = f"import what it holds from {module}"  # of which ROS 2 has modules of their own
    above = name
    while above and above not in _INSTEAD:
        above = above.rpartition(".")[0]
    return f"the embedded runtime has no {name}{similar}: {instead or _INSTEAD.get(above, _ELSEWHERE)}"


class AbsentAttribute(NotImplementedError, AttributeError):
    """The same where it is asked for as an attribute of its module, so that `hasattr` says no."""


class AbsentMethod:
    """A method of ROS 2 that a class leaves out: calling it says so."""

    def __init__(self, instead: str = "") -> None:
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__module__}.{owner.__qualname__}.{name}()"

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError(absent(self._name, self._instead))

    __iter__ = __call__  # of what rclpy has as a property


def refuse(module: str, name: str) -> NoReturn:
    """A module's `__getattr__`: AbsentAttribute, and for private names no more than AttributeError."""
    if name.startswith("_"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    raise AbsentAttribute(absent(f"{module}.{name}"))
