"""Commands of ROS 2 on nodes without it, and our commands on nodes of ROS 2: both show the same graph."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from ros2_support import ROOT, Peer, embedded, real_ros2, under_cyclonedds

pytestmark = pytest.mark.ros2

PROGRAM = ROOT / "test" / "support" / "ros2_peer.py"
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
OFFERED_BY_ROS2_ONLY = ("get_type_description", "start_type_description_service")


@dataclass(frozen=True)
class Commands:
    """Both command lines in one domain, with the same words."""

    ros2: Peer
    ours: Peer
    environment: dict[str, str]

    def of_ros2(self, *words: str) -> tuple[int, list[str]]:
        # Without the daemon, which would outlive the test.
        done = self.ros2.command("ros2", *words, "--no-daemon", "--spin-time", "1", **self.environment)
        return done.returncode, lines(done.stdout + done.stderr)

    def of_ours(self, *words: str) -> tuple[int, list[str]]:
        done = self.ours.run("-m", "onboard_estimation", *words, **self.environment)
        return done.returncode, lines(done.stdout + done.stderr)


def lines(text: str) -> list[str]:
    """Lines with something in them, without what only one of the two offers."""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()]
    # Fast DDS does not read the history of others.
    left_out = OFFERED_BY_ROS2_ONLY if under_cyclonedds() else (*OFFERED_BY_ROS2_ONLY, "History (Depth)")
    return [line for line in kept if not any(word in line for word in left_out)]


@pytest.fixture
def commands(ros_domain: int) -> Iterator[Commands]:
    """Nodes of both runtimes: /a of a real ROS 2, /b of ours."""
    made = Commands(
        real_ros2(),
        embedded(),
        {"ROS_DOMAIN_ID": str(ros_domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"},
    )
    with contextlib.ExitStack() as stack:
        for peer, namespace in ((made.ros2, "/a"), (made.ours, "/b")):
            for role in ("publish", "parameters"):
                started = peer.start(PROGRAM, role, "--ros-args", "-r", f"__ns:={namespace}", **made.environment)
                stack.enter_context(started).wait_ready()
        yield made


def test_nodes_topics_and_endpoints_are_the_same_to_both(commands: Commands) -> None:
    for words in (("topic", "info", "-v", "/b/latched"), ("node", "list"), ("topic", "list", "-t")):
        if "list" in words and not under_cyclonedds():
            pytest.skip("Fast DDS shows itself to CycloneDDS, ROS 2's as well, every 3 s only: lists may lack nodes")
        ours = commands.of_ours(*words)
        assert ours == commands.of_ros2(*words), words
        assert ours[0] == 0
        assert any("/b" in line or "Publisher count: 1" in line for line in ours[1])


def test_parameters_of_the_other_side_are_read_set_and_refused(commands: Commands) -> None:
    """The nodes /a/parameters of ROS 2 and /b/parameters of ours run the same program."""
    if not under_cyclonedds():
        pytest.skip("services of CycloneDDS and Fast DDS do not understand each other, under ROS 2 itself as well")
    across = {"/a/parameters": commands.of_ours, "/b/parameters": commands.of_ros2}
    told = {}
    for node, command in across.items():
        told[node] = [
            command("param", "list", node),
            command("param", "get", node, "weights"),
            command("param", "set", node, "gain", "0.75"),
            command("param", "set", node, "gain", "1.75")[1],  # exit codes of ros2 and ours differ: 0 and 1
            command("param", "get", node, "gain"),
        ]
    assert told["/a/parameters"] == told["/b/parameters"]
    listed, weights, accepted, refused, gain = told["/b/parameters"]
    assert "  nested.deep.value" in listed[1]
    assert weights == (0, ["Double values are: [1.0, 2.5]"])
    assert accepted == (0, ["Set parameter successful"])
    assert refused[0].startswith("Setting parameter failed: Parameter gain out of range")
    assert gain == (0, ["Double value is: 0.75"])


def test_messages_and_rates_are_shown_across(commands: Commands) -> None:
    environment = commands.environment
    words = ("topic", "echo", "--once")
    typed = ("--no-daemon", "/b/odometry", "nav_msgs/msg/Odometry")
    shown = commands.ros2.command("ros2", *words, *typed, **environment)
    ours = commands.ours.run("-m", "onboard_estimation", *words, "/a/odometry", **environment)
    assert shown.returncode == ours.returncode == 0, shown.stderr + ours.stderr
    # The numbers are those of different messages.
    assert [_NUMBER.sub("N", line) for line in shown.stdout.splitlines()] == [
        _NUMBER.sub("N", line) for line in ours.stdout.splitlines()
    ]
    assert "child_frame_id: base_link" in ours.stdout.splitlines()
    with (
        commands.ros2.start_command("ros2", "topic", "hz", "/b/imu", **environment) as theirs,
        commands.ours.start("-m", "onboard_estimation", "topic", "hz", "/a/imu", **environment) as own,
    ):
        for process in (theirs, own):
            process.wait_for_line("average rate:")
