"""What `ros2` shows of a graph, our commands of the same words show as well."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from ros2_support import ROOT, ours, real_ros2

pytestmark = pytest.mark.ros2

PROGRAM = ROOT / "test" / "support" / "ros2_peer.py"
OURS = ("-m", "onboard_estimation")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


@pytest.fixture
def environment(ros_domain: int) -> Iterator[dict[str, str]]:
    """With nodes of both in it: /a of the installed ROS 2, /b of ours."""
    environment = {"ROS_DOMAIN_ID": str(ros_domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    words = (PROGRAM, "publish", "--ros-args", "-r")
    with real_ros2().start(*words, "__ns:=/a", **environment) as theirs, ours().start(*words, "__ns:=/b") as own:
        for process in (theirs, own):
            process.wait_ready()
        yield environment


def shape(text: str) -> list[str]:
    """Without the numbers, which are those of different messages."""
    return [_NUMBER.sub("N", line.rstrip()) for line in text.splitlines() if line.strip()]


def test_topics_are_the_same_to_both(environment: dict[str, str]) -> None:
    # Without the daemon, which would outlive the test.
    listed = real_ros2().command("ros2", "topic", "list", "-t", "--no-daemon", "--spin-time", "2", **environment)
    own = ours().run(*OURS, "topic", "list", "-t", **environment)
    assert own.returncode == listed.returncode == 0, own.stderr + listed.stderr
    assert own.stdout.split("\n") == listed.stdout.split("\n")
    assert "/b/odometry [nav_msgs/msg/Odometry]" in own.stdout


def test_messages_and_rates_are_shown_across(environment: dict[str, str]) -> None:
    words = ("topic", "echo", "--once")
    typed = ("--no-daemon", "/b/odometry", "nav_msgs/msg/Odometry")
    shown = real_ros2().command("ros2", *words, *typed, **environment)
    own = ours().run(*OURS, *words, "/a/odometry", **environment)
    assert shown.returncode == own.returncode == 0, shown.stderr + own.stderr
    assert shape(shown.stdout) == shape(own.stdout)
    assert "child_frame_id: base_link" in own.stdout.splitlines()
    with (
        real_ros2().start_command("ros2", "topic", "hz", "/b/imu", **environment) as theirs,
        ours().start(*OURS, "topic", "hz", "/a/imu", **environment) as ours_too,
    ):
        for process in (theirs, ours_too):
            process.wait_for_line("average rate:")
