"""rclpy's API over CycloneDDS for machines without ROS 2; an installed ROS 2 always wins.

One decision per process: where `rclpy` can be imported, nothing is installed. Elsewhere `install` puts a finder first
into `sys.meta_path`, for exactly the names of `finder.CODE_PACKAGES` and the message packages of the distribution.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import platform
import sys
from enum import Enum
from functools import lru_cache
from pathlib import Path

from embedded_ros import finder
from embedded_ros.errors import UserError

ENVIRONMENT_VARIABLE = "ONBOARD_ESTIMATION_RUNTIME"


class Runtime(Enum):
    """What provides `rclpy`."""

    ROS2 = "ros2"
    EMBEDDED = "embedded"
    NONE = "none"


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """What provides `rclpy` in this process; decided once, without importing it.

    Raises UserError where ONBOARD_ESTIMATION_RUNTIME has no meaning, or where a ROS 2 is there for another Python.
    """
    asked = os.environ.get(ENVIRONMENT_VARIABLE, "").strip().lower()
    if asked not in ("", Runtime.ROS2.value, Runtime.EMBEDDED.value):
        raise UserError(f"{ENVIRONMENT_VARIABLE} is {asked!r}; it must be 'embedded', 'ros2' or not set")
    if finder.is_installed():
        return Runtime.EMBEDDED
    if asked != Runtime.EMBEDDED.value and _has_rclpy():
        return Runtime.ROS2
    if asked != Runtime.ROS2.value and importlib.util.find_spec("cyclonedds") is not None:
        return Runtime.EMBEDDED
    return Runtime.NONE


def install() -> Runtime:
    """Make `import rclpy` work, with ROS 2 or without it, and tell which. Further calls do nothing.

    Raises UserError, naming both ways out, where neither ROS 2 nor CycloneDDS is there.
    """
    found = runtime()
    if found is Runtime.NONE:
        raise UserError(
            "neither ROS 2 nor CycloneDDS is here: source ROS 2 (source /opt/ros/<distribution>/setup.bash) or "
            + how_to_install()
        )
    if found is Runtime.EMBEDDED:
        finder.install()
    return found


def how_to_install(system: str = sys.platform, machine: str | None = None) -> str:
    """What brings CycloneDDS: a wheel from PyPI, where there is one for this system and processor."""
    machine = platform.machine() if machine is None else machine
    if system == "linux" and machine != "x86_64":
        return f"install cyclonedds 0.10.5 built for this processor ({machine}): docs/onboard.md, 'On 64-bit Arm'"
    return "run pip install 'onboard_estimation[live]'"


def _has_rclpy() -> bool:
    """Whether ROS 2's rclpy is on the path and built for this Python."""
    if "rclpy" in sys.modules:
        return True
    try:
        spec = importlib.util.find_spec("rclpy")
    except (ImportError, ValueError):
        return False
    if spec is None or not spec.origin:
        return False
    folder = Path(spec.origin).parent
    extensions = [path.name for path in folder.glob("_rclpy_pybind11*")]
    usable = {f"_rclpy_pybind11{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES}
    if extensions and usable.isdisjoint(extensions):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise UserError(
            f"the ROS 2 in {folder} is built for another Python ({extensions[0]}; this is {version}): run with that "
            f"Python, or set {ENVIRONMENT_VARIABLE}=embedded to do without it"
        )
    return True
