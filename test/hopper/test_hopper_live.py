"""The hopper's nodes and launch files as real processes over real DDS."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import command
from launched import Launch, recorded
from live_graph import LONGEST_WAIT_S, await_being_heard, collect, listening_node, running, spin_until, wait_until

from hopper_estimation.model.phases import EVENTS, PHASE_AFTER, PHASES
from onboard_estimation.bags.bag import open_bag

pytestmark = [pytest.mark.timeout(600), pytest.mark.live]
in_a_graph = pytest.mark.usefixtures("compiled_kernels", "ros_domain")
TYPES = {
    "state": "sensor_msgs/msg/JointState",
    "state_covariance": "sensor_msgs/msg/JointState",
    "phase_events": "sensor_msgs/msg/TimeReference",
    "phase_state": "sensor_msgs/msg/JointState",
    "apex": "geometry_msgs/msg/PointStamped",
}
MODULE = [sys.executable, "-m", "onboard_estimation"]


def stamp_ns(stamp: Any) -> int:
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def at_ns(message: Any) -> int:
    return stamp_ns(message.header.stamp)


def content(message: Any) -> tuple[Any, ...]:
    """All that a message of one of the types says."""
    if hasattr(message, "time_ref"):
        return at_ns(message), message.source, stamp_ns(message.time_ref)
    return at_ns(message), *([message.point.z] if hasattr(message, "point") else message.position)


def read(bag: Path, *topics: str) -> dict[str, list[Any]]:
    """Messages by the last part of their topic."""
    found: dict[str, list[Any]] = {topic: [] for topic in topics}
    with open_bag(bag) as opened:
        for raw in opened.messages():
            name = raw.topic.removeprefix("/hopper/")
            if name in found:
                found[name].append(opened.deserialize(raw))
    return found


def in_order(events: list[Any]) -> bool:
    """Whether each event is one that follows the one before it: no doubles, nothing that cannot be."""
    names = [event.source for event in events]
    return all(EVENTS.index(b) == (EVENTS.index(a) + 1) % len(EVENTS) for a, b in pairwise(names))


def play(node: Any, bag: Path) -> None:
    """The bag as fast as it goes, while the node listens."""
    words = ["play", str(bag), "--rate", "0", "--wait-for-subscribers", str(LONGEST_WAIT_S)]
    player = subprocess.Popen([*MODULE, *words])
    try:
        spin_until(node, lambda: player.poll() is not None, 600.0)
    finally:
        player.kill()
        player.wait()
    assert player.returncode == 0


@in_a_graph
@pytest.mark.slow
def test_replay_through_the_node_gives_the_offline_estimates_and_events_bit_for_bit(tmp_path: Path) -> None:
    bag, run = tmp_path / "bag", tmp_path / "run"
    for words in (
        ("simulate", "hopper", "--variant", "1m", "--duration", "8", "--seed", "5", "--output", str(bag)),
        ("evaluate", str(bag), "--drop", "ground_truth/body", "--output", str(run)),
    ):
        assert command(*words).code == 0
    offline = read(run / "estimates", *TYPES)
    assert {event.source for event in offline["phase_events"]} == set(EVENTS)
    everything = ("-p", "reliable_sensors:=true", "-p", "output_rate_hz:=0.0")
    with (
        running("hopper_estimator", tmp_path, *everything, namespace="/hopper") as estimator,
        listening_node(namespace="/hopper") as node,
    ):
        estimator.wait_for("hopper, estimator bounce")
        live = {topic: collect(node, kind, topic) for topic, kind in TYPES.items()}
        phases = collect(node, "std_msgs/msg/String", "phase")
        await_being_heard(node, "/hopper/hopper_estimator")
        play(node, bag)
        with contextlib.suppress(AssertionError):
            spin_until(node, lambda: all(len(live[topic]) >= len(offline[topic]) for topic in TYPES))
        assert "height set to" in estimator.output
    for topic, messages in live.items():
        assert [content(one) for one in messages] == [content(one) for one in offline[topic]], topic
    # The phases for people are those that the events begin.
    names = [message.data for message in phases]
    begun = [PHASES[PHASE_AFTER[EVENTS.index(event.source)]] for event in live["phase_events"]]
    assert names[:2] == ["startup", "drop"]
    assert names[2:] == begun


@in_a_graph
@pytest.mark.slow
def test_a_simulated_robot_hops_by_the_live_estimate(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    arguments = ("control:=estimate", "hops:=1m", "seed:=3", f"record:={bag}")
    with Launch("hopper.launch.py", *arguments, log=tmp_path / "launch.log") as launch:
        launch.wait_for("controlled by the estimate")
        launch.wait_for("height set to")
        wait_until(lambda: recorded(bag, "/hopper/apex") >= 2)
        assert launch.interrupt() == 0, launch.output
    found = read(bag, "phase_events", "apex", "odometry", "ground_truth/body/pose", "markers", "set_pose")
    (dropped_ns,) = (at_ns(one) for one in found["set_pose"])
    markers = {marker.ns for array in found["markers"] for marker in array.markers}
    assert markers == {"estimate", "truth", "height_95", "error", "legend"}
    # A computer too busy for the node, which says so, owes no accuracy; nor does the recording of it.
    kept_up = not any(words in launch.output for words in ("too busy for the node", "LOST before"))
    hops = [event for event in found["phase_events"] if at_ns(event) > dropped_ns]
    assert not kept_up or (in_order(hops) and len(hops) >= len(EVENTS))
    true_ns, true_m = np.array([(at_ns(one), one.pose.position.z) for one in found["ground_truth/body/pose"]]).T
    odometry = [(at_ns(one), one.pose.pose.position.z) for one in found["odometry"] if at_ns(one) > dropped_ns]
    estimated_ns, estimated_m = np.array(odometry).T
    assert not kept_up or np.median(np.abs(estimated_m - np.interp(estimated_ns, true_ns, true_m))) < 0.1
    # It hops: from the ground to about what is commanded.
    hopping = true_m[true_ns > dropped_ns + 10**9]
    assert hopping.min() < 0.27
    assert hopping.max() > 0.6
    assert not kept_up or hopping.max() < 2.5


def test_what_cannot_be_launched_is_said_in_one_line(tmp_path: Path) -> None:
    for words, sentence in (
        (("hopper.launch.py", "control:=estimate", "source:=hardware"), "is for a simulated robot"),
        (("hopper.launch.py", "source:=bag", f"bag:={tmp_path / 'none'}"), "none does not exist"),
        (("hopper_replay.launch.py", f"bag:={tmp_path}", f"model:={tmp_path / 'none'}"), "none is no file"),
    ):
        outcome = command("launch", *words)
        assert outcome.code in (1, 2)
        assert sentence in outcome.error
        assert outcome.error.count("\n") == 1
