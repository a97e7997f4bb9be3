"""The hopper's files for RViz and PlotJuggler: they name what exists there, and topics that its nodes publish."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from rviz_files import DISPLAYS, MESSAGE_OF_DISPLAY, flattened

from hopper_estimation.estimators.estimator import SPACE
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import PHASES
from hopper_estimation.robot import ROBOT
from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate, PhaseEvent, neutral_value
from onboard_estimation.base.series import truth_channel
from onboard_estimation.ros import phases
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.markers import Scene
from onboard_estimation.ros.sensor_messages import to_message

NAMESPACE = "/hopper"
CONFIGURATION = HopperConfiguration()
ESTIMATE = Estimate(1, np.array([1.0, 0.0]), 1e-4 * np.eye(2))
APEX = PhaseEvent("apex", 1, 2, 0.01, 0, 1.3)


def messages() -> dict[str, Any]:
    """One of each topic that the nodes publish or listen to, but for pictures and reports."""
    channels = [*ROBOT.channels(CONFIGURATION)]
    channels += [truth_channel(body) for body in ROBOT.truth_specification(CONFIGURATION).bodies]
    found = {one.topic: to_message(new, one, 1, neutral_value(one)) for one in channels if one.topic != "set_pose"}
    outputs = [*EstimateMessages(SPACE, new)(ESTIMATE), *phases.event_messages(new, APEX)]
    found |= {output.topic: output.message for output in outputs}
    return {f"{NAMESPACE}/{topic}": message for topic, message in found.items()}


@pytest.fixture(scope="module")
def rviz(repository: Path) -> dict[str, Any]:
    manager = yaml.safe_load((repository / "config" / "hopper.rviz").read_text(encoding="utf-8"))
    return dict(manager["Visualization Manager"])


def test_every_display_is_one_of_rviz_and_shows_a_topic_that_is_published(rviz: dict[str, Any]) -> None:
    known = {topic: message.__msgtype__ for topic, message in messages().items()}
    known[f"{NAMESPACE}/markers"] = "visualization_msgs/msg/MarkerArray"
    shown = set()
    for display in rviz["Displays"]:
        plugin, _, kind = display["Class"].partition("/")
        assert plugin == "rviz_default_plugins"
        assert kind in DISPLAYS
        assert display["Enabled"] == display["Value"]
        if kind in MESSAGE_OF_DISPLAY:
            topic = display["Topic"]["Value"]
            assert known[topic] == MESSAGE_OF_DISPLAY[kind]
            shown.add(topic)
    names = [display["Name"] for display in rviz["Displays"]]
    assert len(set(names)) == len(names)
    assert shown == {f"{NAMESPACE}/{name}" for name in ("ground_truth/body/pose", "markers", "odometry", "apex")}


def test_it_is_seen_from_the_side_in_a_frame_that_stands_still(rviz: dict[str, Any]) -> None:
    assert rviz["Global Options"]["Fixed Frame"] == "hopper/map"
    view = rviz["Views"]["Current"]
    assert view["Target Frame"] == "hopper/map"
    assert abs(view["Pitch"]) < 0.2
    # Hops of 4 m fit in: from top to bottom the camera sees 45 deg.
    reach_m = view["Distance"] * np.tan(np.deg2rad(22.5))
    assert view["Focal Point"]["Z"] - reach_m < 0.0
    assert view["Focal Point"]["Z"] + reach_m > 4.0 + CONFIGURATION.robot.standing_height_m
    (height,) = (one for one in rviz["Displays"] if one["Name"] == "Height")
    assert height["Plane"] == "XZ"
    half_m = 0.5 * height["Cell Size"] * height["Plane Cell Count"]
    assert height["Offset"]["Z"] == pytest.approx(half_m)  # it stands on the ground


def test_what_is_not_estimated_is_not_drawn_as_uncertain(rviz: dict[str, Any]) -> None:
    """An ellipsoid of 1 km would hide the rest, and a tool that sets x and y would set the height to zero."""
    (odometry,) = (one for one in rviz["Displays"] if one["Class"].endswith("/Odometry"))
    assert odometry["Covariance"]["Value"] is False
    assert not any(tool["Class"].endswith("/SetInitialPose") for tool in rviz["Tools"])


def test_every_namespace_of_the_markers_can_be_switched(rviz: dict[str, Any]) -> None:
    scene = Scene(new, ROBOT, CONFIGURATION, SPACE)
    pose = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    markers = [*scene.estimate(ESTIMATE), *scene.truth(1, {CONFIGURATION.truth_body: pose})]
    markers += [*scene.text(ESTIMATE), *scene.legend(ESTIMATE)]
    (display,) = (one for one in rviz["Displays"] if one["Class"].endswith("/MarkerArray"))
    assert {marker.ns for marker in markers} == set(display["Namespaces"])


@pytest.fixture(scope="module")
def layout(repository: Path) -> ElementTree.Element:
    return ElementTree.parse(repository / "config" / "hopper_plotjuggler.xml").getroot()


def test_every_curve_is_one_that_the_nodes_topics_give(layout: ElementTree.Element) -> None:
    known = {name for topic, message in messages().items() for name in flattened(topic, message)}
    computed = {snippet.attrib["name"] for snippet in layout.iterfind("customMathEquations/snippet")}
    used = {curve.attrib["name"] for curve in layout.iter("curve")}
    assert used <= known | computed, used - known - computed
    assert computed <= used
    sources = [one.text for one in layout.iterfind("customMathEquations/snippet/linked_source")]
    sources += [one.text for more in layout.iterfind("customMathEquations/snippet/additional_sources") for one in more]
    assert set(sources) <= known
    (plugin,) = layout.iterfind("Plugins/plugin")
    selected = plugin.find("selected_topics")
    assert selected is not None
    topics = selected.attrib["value"].split(";")
    assert set(topics) <= set(messages())
    drawn = [name for name in (*used, *sources) if name and name.startswith("/")]
    assert all(any(name.startswith(f"{topic}/") for topic in topics) for name in drawn)


def test_the_layout_is_whole_and_names_the_phases(layout: ElementTree.Element) -> None:
    for splitter in layout.iter("DockSplitter"):
        sizes = [float(size) for size in splitter.attrib["sizes"].split(";")]
        assert len(sizes) == int(splitter.attrib["count"]) == len(splitter)
        assert sum(sizes) == pytest.approx(1.0, abs=1e-3)
        assert all(a == b for a, b in pairwise(sizes))
    (title,) = (one.attrib["name"] for one in layout.iter("DockArea") if one.attrib["name"].startswith("phase"))
    listed = ", ".join(f"{number} {name.replace('_', ' ')}" for number, name in enumerate(PHASES))
    assert f"({listed})" in title
