"""Bags of the live graph: recorded by `ros2 bag` and played here, recorded here and played by `ros2 bag`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ros2_support import ROOT, ours, real_ros2

pytestmark = pytest.mark.ros2

PROGRAM = ROOT / "test" / "support" / "ros2_peer.py"
TOPICS = ("imu", "joint_states", "odometry", "transform", "empty")
OURS = ("-m", "onboard_estimation")


@pytest.fixture
def environment(ros_domain: int) -> dict[str, str]:
    return {"ROS_DOMAIN_ID": str(ros_domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


def digests(told: list[dict[str, Any]], topic: str) -> list[str]:
    return [line["digest"] for line in told if line.get("topic") == topic]


def has(told: list[dict[str, Any]], count: int) -> bool:
    return all(len(digests(told, topic)) >= count for topic in TOPICS)


def assert_same_messages(played: list[dict[str, Any]], published: list[dict[str, Any]]) -> None:
    """Everything that was played had been published, in this order, and the latched ones are there."""
    for topic in TOPICS[1:4]:  # reliable, and each message differs from the others
        sent, heard = digests(published, topic), digests(played, topic)
        start = sent.index(heard[0])
        assert heard == sent[start : start + len(heard)], topic
    assert set(digests(played, "imu")) <= set(digests(published, "imu"))
    assert len(digests(played, "latched")) == 3


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_ours_records_and_ros2_plays(tmp_path: Path, environment: dict[str, str], storage: str) -> None:
    ros2, own, bag = real_ros2(), ours(), tmp_path / "walk"
    with own.start(*OURS, "record", "--all", "--output", bag, "--storage", storage, **environment) as recording:
        recording.wait_for_line("recording to")  # else the publisher may be through before the recorder is there
        with ros2.start(PROGRAM, "publish", **environment) as publishing:
            publishing.wait_until(lambda told: has(told, 120))
            assert recording.stop() == 0
            published = publishing.told
    info = ros2.command("ros2", "bag", "info", bag)
    assert info.returncode == 0, info.stderr
    assert f"Storage id:        {storage}" in info.stdout
    assert "Topic: /odometry | Type: nav_msgs/msg/Odometry" in info.stdout
    with own.start(PROGRAM, "subscribe", **environment) as subscribing:
        subscribing.wait_ready()
        played = ros2.command(
            "ros2", "bag", "play", bag, "--rate", "3", "--disable-keyboard-controls", "--delay", "2", **environment
        )
        assert played.returncode == 0, played.stderr
        subscribing.wait_until(lambda told: has(told, 20))
        assert_same_messages(subscribing.told, published)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_ros2_records_and_ours_plays(tmp_path: Path, environment: dict[str, str], storage: str) -> None:
    ros2, own, bag = real_ros2(), ours(), tmp_path / "walk"
    with (
        ros2.start_command("ros2", "bag", "record", "--all", "-o", bag, "-s", storage, **environment) as recording,
        own.start(PROGRAM, "publish", **environment) as publishing,
    ):
        publishing.wait_until(lambda told: has(told, 120))
        assert recording.stop() == 0
        published = publishing.told
    with ros2.start(PROGRAM, "subscribe", **environment) as subscribing:
        subscribing.wait_ready()
        played = own.run(*OURS, "play", bag, "--rate", "3", "--delay", "2", **environment)
        assert played.returncode == 0, played.stderr
        subscribing.wait_until(lambda told: has(told, 20))
        assert_same_messages(subscribing.told, published)
