"""Which ROS 2 nodes run on: a sourced one before wheels; how far they look: this machine, unless the user opens it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from live_graph import wait_until
from live_nodes import start, stop

from onboard_estimation.base import ros2

_RANGES = ("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS")
needs_wheels = pytest.mark.skipif(not ros2.from_wheels(), reason="ROS 2 is not of wheels here")


@needs_wheels
def test_a_sourced_ros2_wins_over_wheels(tmp_path: Path) -> None:
    """Its libraries too, in their order: the wheels' bootstrap makes one path of both by way of a set."""
    workspaces = [tmp_path / "overlay", tmp_path / "ros"]
    for workspace in workspaces:
        (workspace / "lib").mkdir(parents=True)
    package = tmp_path / "ros" / "python" / "rclpy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    libraries = os.pathsep.join(str(workspace / "lib") for workspace in workspaces)
    code = (
        "import os, sys\nfrom onboard_estimation.base import ros2\nros2.require()\n"
        "print(ros2.rclpy_folder(), ros2.name(), os.environ['LD_LIBRARY_PATH'], *sys.argv[1:], sep='\\n')"
    )
    environment = {
        **{name: value for name, value in os.environ.items() if name != "_ROS_WHEELS_BOOTSTRAP_COMPLETE"},
        "PYTHONPATH": os.pathsep.join([str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "LD_LIBRARY_PATH": libraries,
        "AMENT_PREFIX_PATH": os.pathsep.join(map(str, workspaces)),
        "ROS_DISTRO": "lyrical",
        "PYTHONHASHSEED": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, "a b", ""], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n") == [str(package), "ROS 2 lyrical", libraries, "a b", "", ""]


@pytest.mark.parametrize("home", [None, "/proc"])
def test_without_a_home_to_write_to_the_log_goes_elsewhere(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROS_LOG_DIR", "ROS_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home:
        monkeypatch.setenv("HOME", home)
    ros2.choose_log_folder()
    assert Path(os.environ["ROS_LOG_DIR"]).name == f"ros-log-{os.getuid()}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": ""}, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}),
        ({"ROS_DISTRO": "humble"}, {"ROS_LOCALHOST_ONLY": "1"}),
        *(({name: value}, {name: value}) for name, value in zip(_RANGES, ("SUBNET", "0", "192.0.2.7"), strict=True)),
    ],
)
def test_what_the_user_has_set_is_left_alone(
    given: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*_RANGES, "ROS_DISTRO"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    ros2.stay_on_this_machine()
    assert {name: os.environ[name] for name in _RANGES if os.environ.get(name)} == expected


def udp_ports(process: subprocess.Popen[str]) -> set[int]:
    """At which a process listens."""
    sockets = set()
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            sockets.add(str(descriptor.readlink()).removeprefix("socket:[").rstrip("]"))
        except OSError:
            continue  # closed meanwhile
    lines = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if line[9] in sockets}


@pytest.mark.live
@needs_wheels
@pytest.mark.parametrize(("given", "joined"), [("", False), ("SUBNET", True)])
def test_a_node_joins_the_group_of_the_subnet_only_where_it_is_asked_to(
    ros_domain: int, monkeypatch: pytest.MonkeyPatch, given: str, joined: bool
) -> None:
    """DDS announces participants to a group of hosts, and hears of others, at one port for each domain."""
    for name in _RANGES:
        monkeypatch.delenv(name, raising=False)
    first = 7400 + 250 * ros_domain
    node = start("run", "markers", "--ros-args", "-r", "__ns:=/salp", ROS_AUTOMATIC_DISCOVERY_RANGE=given)
    try:
        wait_until(lambda: bool(udp_ports(node) & set(range(first + 10, first + 250))) or node.poll() is not None)
        assert node.poll() is None
        wait_until(lambda: (first in udp_ports(node)) or not joined)
        assert (first in udp_ports(node)) == joined
    finally:
        stop(node)
