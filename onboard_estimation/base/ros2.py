"""ROS 2 itself, from wherever this Python has it: a sourced installation, RoboStack, or the wheels of the extra `ros`.

Nothing is imported here; `require` says what to do where ROS 2 is missing, and keeps discovery on this machine unless
the user has said otherwise.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import platform
import re
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

from onboard_estimation.base.errors import UserError

DISCOVERY_VARIABLE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
_OPENED_BY = (DISCOVERY_VARIABLE, "ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS")
"""A user who has set one of these has decided who may be reached."""
_META_PACKAGE = re.compile(r"ros-\w+-rclpy")
_SOURCE = "source /opt/ros/<distribution>/setup.bash"


def require() -> None:
    """Prepare this process, and those that it starts, for `import rclpy`.

    Raises
    ------
    UserError
        ROS 2 is not here, or is built for another Python; the message names the ways out.
    """
    folder = rclpy_folder()
    if folder is None:
        raise UserError(f"ROS 2 is not here: {how_to_install()}")
    extensions = [path.name for path in folder.glob("_rclpy_pybind11*")]
    usable = {f"_rclpy_pybind11{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES}
    if extensions and usable.isdisjoint(extensions):
        raise UserError(
            f"the ROS 2 in {folder} is built for another Python ({extensions[0]}; this is {platform.python_version()}):"
            " run with that Python, in an environment made with --system-site-packages (docs/live.md)"
        )
    _put_sourced_first()
    choose_log_folder()
    stay_on_this_machine()


def rclpy_folder() -> Path | None:
    """Where `import rclpy` would come from; None: nowhere."""
    try:
        found = importlib.util.find_spec("rclpy")
    except (ImportError, ValueError):
        return None
    return Path(found.origin).parent if found is not None and found.origin else None


def from_wheels() -> bool:
    """Whether rclpy is that of wheels in this Python's environment, and not that of a sourced installation."""
    folder = rclpy_folder()
    return folder is not None and folder.parent == _wheels_folder()


def name() -> str:
    """What this ROS 2 is, for people: `ROS 2 jazzy`, `ROS 2 from wheels (ros-jazzy-rclpy 7.1.6)`."""
    if not from_wheels():
        return f"ROS 2 {os.environ.get('ROS_DISTRO') or '(ROS_DISTRO is not set)'}"
    there = distributions(path=[str(_wheels_folder())])
    found = {f"{one.name} {one.version}" for one in there if _META_PACKAGE.fullmatch(one.name or "")}
    return f"ROS 2 from wheels ({', '.join(sorted(found)) or 'rclpy'})"


def stay_on_this_machine() -> None:
    """Let ROS 2 look for nodes on this machine only, unless the user has set how far it looks."""
    if any(os.environ.get(name) for name in _OPENED_BY):
        return
    if os.environ.get("ROS_DISTRO") == "humble":  # which does not know the range yet
        os.environ["ROS_LOCALHOST_ONLY"] = "1"
    else:
        os.environ[DISCOVERY_VARIABLE] = "LOCALHOST"


def choose_log_folder() -> None:
    """ROS 2 does not start where it cannot write its log: name a folder for it where there is no home to write to."""
    if "ROS_LOG_DIR" in os.environ or "ROS_HOME" in os.environ:
        return
    try:
        (Path(os.environ["HOME"]) / ".ros" / "log").mkdir(parents=True, exist_ok=True)
    except (OSError, KeyError):  # ROS 2 knows of no other home, as a service of systemd has none
        os.environ["ROS_LOG_DIR"] = str(Path(tempfile.gettempdir()) / f"ros-log-{os.getuid()}")


def how_to_install() -> str:
    """What brings ROS 2 to this machine."""
    if wheels_exist():
        return f"pip install 'onboard_estimation[ros]', or {_SOURCE}"
    here = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{_SOURCE}, or use RoboStack; its wheels are for x86-64 Linux and Python 3.10 to 3.13, and this is {here}"


def wheels_exist() -> bool:
    """Whether PyPI has ROS 2 for this system, processor and Python."""
    known = (3, 10) <= sys.version_info[:2] <= (3, 13) and sys.implementation.name == "cpython"
    return sys.platform == "linux" and platform.machine() == "x86_64" and known


def _put_sourced_first() -> None:
    """Start this process anew where a sourced ROS 2 would find libraries of wheels: they are of another distribution.

    The wheels' bootstrap puts its libraries and those of the sourced workspaces into one path, in no order.
    """
    given = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    wheels = _wheels_folder()
    if wheels is None or from_wheels() or "rclpy" in sys.modules:
        return
    prefix = Path(sys.prefix)
    kept = [one for one in given if not {prefix, prefix.resolve()} & set(Path(one).parents)]
    if kept == given:
        return
    # As they were sourced: of the first in AMENT_PREFIX_PATH first.
    workspaces = [Path(one) for one in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)]
    places = {one: [at for at, place in enumerate(workspaces) if place in Path(one).parents] for one in kept}
    kept.sort(key=lambda one: min(places[one], default=len(workspaces)))
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(kept)
    os.execv(sys.executable, sys.orig_argv)


def _wheels_folder() -> Path | None:
    found = importlib.util.find_spec("ros_wheels_bootstrapper")
    return Path(found.origin).parent.parent if found is not None and found.origin else None
