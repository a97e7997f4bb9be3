"""Messages of the embedded runtime against those of a real ROS 2: definitions, hashes, defaults, bytes, checks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ros2_support import ROOT, Peer, embedded, real_ros2

pytestmark = pytest.mark.ros2

DUMP = ROOT / "test" / "support" / "ros2_messages_dump.py"
# Packages whose types the live graph, its launch files and its commands use.
PACKAGES = {
    "action_msgs", "builtin_interfaces", "diagnostic_msgs", "geometry_msgs", "lifecycle_msgs", "nav_msgs",
    "rcl_interfaces", "rosgraph_msgs", "sensor_msgs", "service_msgs", "shape_msgs", "statistics_msgs", "std_msgs",
    "std_srvs", "stereo_msgs", "tf2_msgs", "trajectory_msgs", "type_description_interfaces", "unique_identifier_msgs",
    "visualization_msgs",
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """What both sides tell of the types that both have."""

    checked: bool
    ros2: dict[str, Any]
    ours: dict[str, Any]
    unknown: set[str]

    def messages(self) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Name and both descriptions of every message, those of services among them."""
        return [
            (part, told, self.ours[name]["messages"][part])
            for name, entry in self.ros2.items()
            if name not in self.unknown
            for part, told in entry["messages"].items()
        ]

    def differences(self, key: str) -> dict[str, tuple[Any, Any]]:
        """What differs in one part of the descriptions: ROS 2's and ours by message."""
        return {name: (told[key], ours[key]) for name, told, ours in self.messages() if told[key] != ours[key]}


def dumped(peer: Peer, *arguments: str | Path, check: str, distribution: str) -> Any:
    output = Path(arguments[1])
    done = peer.run(
        "-W", "ignore", DUMP, *arguments, ROS_PYTHON_CHECK_FIELDS=check, ROS_DISTRO=distribution, timeout_s=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())


@pytest.fixture(scope="module", params=["1", ""], ids=["checked", "unchecked"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    ros2 = real_ros2()
    folder = tmp_path_factory.mktemp("messages")
    distribution = ros2.environment["ROS_DISTRO"]
    told = dumped(ros2, "ros2", folder / "ros2.json", check=request.param, distribution=distribution)
    names = folder / "names.json"
    names.write_text(json.dumps(list(told)))
    ours = dumped(embedded(), "embedded", folder / "ours.json", names, check=request.param, distribution=distribution)
    return Pair(request.param == "1", told, ours, {name for name, entry in ours.items() if entry is None})


def test_no_type_is_missing_from_the_packages_that_are_served(pair: Pair) -> None:
    assert {name.split("/")[0] for name in pair.ros2} >= PACKAGES, "this ROS 2 is too small to compare with"
    assert sorted(name for name in pair.unknown if name.split("/")[0] in PACKAGES) == []


def test_type_hashes_are_equal(pair: Pair) -> None:
    assert {
        name: (told["hashes"], pair.ours[name]["hashes"])
        for name, told in pair.ros2.items()
        if name not in pair.unknown and told["hashes"] != pair.ours[name]["hashes"]
    } == {}


def test_fields_constants_and_kinds_of_values_are_equal(pair: Pair) -> None:
    assert pair.differences("fields") == {}
    assert pair.differences("constants") == {}
    assert pair.differences("kinds") == {}


def test_defaults_are_equal_in_text_and_bytes(pair: Pair) -> None:
    assert pair.differences("default") == {}


def test_filled_messages_are_equal_in_text_and_bytes_and_come_back(pair: Pair) -> None:
    assert pair.differences("filled") == {}
    assert all(ours[which]["equal"] for _, _, ours in pair.messages() for which in ("default", "filled"))


def test_an_assignment_ends_as_in_ros2(pair: Pair) -> None:
    """Ours are checked always, so they may refuse what ROS 2 without its checks only refuses to send, or garbles."""
    wrong = []
    for name, told, ours in pair.messages():
        for field, outcomes in told["faults"].items():
            for candidate, (theirs, own) in enumerate(zip(outcomes, ours["faults"][field], strict=True)):
                # OverflowError: NumPy 2 refuses what NumPy 1 wraps around, and the two sides may have one each.
                refused = own in ("AssertionError", "OverflowError")
                stricter = not pair.checked and refused
                if theirs != own and not stricter:
                    wrong.append((name, field, candidate, theirs, own))
    assert wrong == []


def test_an_unknown_argument_is_refused_wherever_ros2_refuses_it(pair: Pair) -> None:
    for name, told, ours in pair.messages():
        assert ours["unknown_argument"] in ("AssertionError", told["unknown_argument"]), name
        if pair.checked:
            assert told["unknown_argument"] == ours["unknown_argument"] == "AssertionError", name
