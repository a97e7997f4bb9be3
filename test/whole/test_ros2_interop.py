"""One node under a real ROS 2 and one without it: topics, services, quality of service, transforms, the graph."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ros2_support import ROOT, Peer, Running, embedded, real_ros2, under_cyclonedds

pytestmark = pytest.mark.ros2

PROGRAM = ROOT / "test" / "support" / "ros2_peer.py"
SERVICES_APART = "services of CycloneDDS and Fast DDS do not understand each other, under ROS 2 itself as well"
NUMBERED = ("imu", "joint_states", "odometry", "tf_like", "empty")


@dataclass(frozen=True)
class Sides:
    """The two runtimes in one domain, started as roles of the peer program."""

    first: Peer
    second: Peer
    environment: dict[str, str]

    def start_first(self, *arguments: str | Path) -> Running:
        return self.first.start(PROGRAM, *arguments, **self.environment)

    def start_second(self, *arguments: str | Path) -> Running:
        return self.second.start(PROGRAM, *arguments, **self.environment)


@pytest.fixture(params=["from ROS 2 to ours", "from ours to ROS 2"])
def sides(request: pytest.FixtureRequest, ros_domain: int) -> Sides:
    ros2, ours = real_ros2(), embedded()
    first, second = (ros2, ours) if request.param == "from ROS 2 to ours" else (ours, ros2)
    environment = {
        "ROS_DOMAIN_ID": str(ros_domain),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "ROS_PYTHON_CHECK_FIELDS": "1",
    }
    return Sides(first, second, environment)


def of_topic(told: list[dict[str, Any]], topic: str) -> list[str]:
    return [line["digest"] for line in told if line.get("topic") == topic]


def all_topics(count: int) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda told: all(len(of_topic(told, topic)) >= count for topic in NUMBERED)


def test_messages_arrive_as_they_were_sent_and_latched_ones_late(sides: Sides) -> None:
    with sides.start_first("publish") as publishing:
        publishing.wait_until(all_topics(5))  # the subscriber comes late
        with sides.start_second("subscribe") as subscribing:
            subscribing.wait_until(lambda told: all_topics(40)(told) and len(of_topic(told, "latched")) >= 3)
            received = subscribing.told
        sent = publishing.told
        assert publishing.stop() == 0
    for topic in NUMBERED:
        digests, all_sent = of_topic(received, topic), of_topic(sent, topic)
        start = all_sent.index(digests[0])
        if topic not in ("imu", "empty"):  # reliable: nothing is missing in between
            assert digests == all_sent[start : start + len(digests)], topic
        assert set(digests) <= set(all_sent), topic
    assert len(of_topic(received, "latched")) == 3


def test_services_answer_one_by_one_and_many_at_once(sides: Sides) -> None:
    if not under_cyclonedds():
        pytest.skip(SERVICES_APART)
    with sides.start_first("serve") as serving, sides.start_second("call") as calling:
        assert calling.wait(40.0) == 0
        told = calling.told
        assert [line["available"] for line in told if "available" in line] == [True, True]
        assert [line["trigger"] for line in told if "trigger" in line] == [[True, f"call {n} ä"] for n in (1, 2, 3)]
        expected = [[not index % 2, f"data was {bool(index % 2)}"] for index in range(6)]
        assert [line["enable"] for line in told if "enable" in line] == [expected]
        assert serving.stop() == 0


def test_incompatible_quality_of_service_is_told_on_both_sides(sides: Sides) -> None:
    with sides.start_first("incompatible", "offering") as offering:
        offering.wait_ready()
        with sides.start_second("incompatible", "requesting") as requesting:
            for process in (requesting, offering):
                told = process.wait_until(lambda told: [line for line in told if "total_count" in line])
                assert [(line["total_count"], line["last_policy_kind"]) for line in told] == [(1, "16")]  # reliability
            assert not any("received" in line for line in requesting.told)


def test_transforms_are_looked_up_on_the_other_side(sides: Sides) -> None:
    with sides.start_first("broadcast") as broadcasting:
        broadcasting.wait_ready()
        with sides.start_second("lookup") as looking:
            found = looking.wait_until(lambda told: [line for line in told if "x" in line])
    assert found[0] == {"x": 1.25, "frames": ["odom", "sensor"]}


def test_a_killed_publisher_comes_back(sides: Sides) -> None:
    with sides.start_second("subscribe") as subscribing:
        with sides.start_first("publish") as publishing:
            subscribing.wait_until(all_topics(5))
            publishing.stop(signal.SIGKILL)
        before = len(subscribing.told)
        with sides.start_first("publish"):
            subscribing.wait_until(lambda told: all_topics(5)(told[before:]))
        assert subscribing.stop() == 0


def test_a_killed_subscriber_comes_back(sides: Sides) -> None:
    with sides.start_first("publish"):
        for number in (signal.SIGKILL, signal.SIGINT):
            with sides.start_second("subscribe") as subscribing:
                subscribing.wait_until(all_topics(5))
                subscribing.stop(number)


def test_a_killed_server_comes_back(sides: Sides) -> None:
    if not under_cyclonedds():
        pytest.skip(SERVICES_APART)

    def answered(told: list[dict[str, Any]]) -> bool:
        return sum(line.get("trigger") == "call 2 ä" for line in told) > 0

    with sides.start_second("call_again") as calling:
        for number in (signal.SIGKILL, signal.SIGINT):
            before = len(calling.told)
            with sides.start_first("serve") as serving:
                calling.wait_until(lambda told, since=before: answered(told[since:]))
                serving.stop(number)
        assert calling.stop() == 0


def test_both_see_the_same_graph(sides: Sides) -> None:
    with (
        sides.start_first("publish", "--ros-args", "-r", "__ns:=/a", "-r", "imu:=inertial/data"),
        sides.start_second("serve", "--ros-args", "-r", "__ns:=/b", "-r", "__node:=answering"),
    ):
        topics = ("/a/inertial/data", "/a/latched", "/a/odometry")
        one = sides.start_first("graph", *topics, "--ros-args", "-r", "__node:=one", "-r", "__ns:=/watch")
        two = sides.start_second("graph", *topics, "--ros-args", "-r", "__node:=two", "-r", "__ns:=/watch")
        with one, two:
            for looking in (one, two):
                looking.wait_until(lambda told: [line for line in told if complete(line)])
            # Discovery of endpoints comes in pieces: what counts is what both see in the end.
            with contextlib.suppress(AssertionError):
                two.wait_until(lambda told: comparable(told[-1]) == comparable(one.told[-1]), timeout_s=5.0)
            seen, also_seen = comparable(one.told[-1]), comparable(two.told[-1])
    for key, value in seen.items():
        assert value == also_seen[key], key
    assert seen["nodes"] == [["answering", "/b"], ["one", "/watch"], ["publishing", "/a"], ["two", "/watch"]]
    assert [entry["reliability"] for entry in seen["publishers"]["/a/inertial/data"]] == ["BEST_EFFORT"]
    assert [entry["durability"] for entry in seen["publishers"]["/a/latched"]] == ["TRANSIENT_LOCAL"]


def complete(seen: dict[str, Any]) -> bool:
    """Whether all four nodes are there with their endpoints."""
    return len(seen["nodes"]) == 4 and all(isinstance(told, dict) for told in seen["per_node"].values())


def comparable(seen: dict[str, Any]) -> dict[str, Any]:
    """What is seen without the service that tells types, which only a real ROS 2 offers."""
    return {
        **seen,
        "publishers": without_depths(seen["publishers"]),
        "subscriptions": without_depths(seen["subscriptions"]),
        "services": without_types(seen["services"]),
        "per_node": {
            node: {**told, "serves": without_types(told["serves"])} for node, told in seen["per_node"].items()
        },
    }


def without_types(services: list[list[Any]]) -> list[list[Any]]:
    return [entry for entry in services if not entry[0].endswith("/get_type_description")]


def without_depths(endpoints: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Fast DDS does not read the history of others; under CycloneDDS it is compared."""
    if under_cyclonedds():
        return endpoints
    return {topic: [{**entry, "depth": None} for entry in entries] for topic, entries in endpoints.items()}
