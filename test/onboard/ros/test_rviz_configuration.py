"""RViz's and PlotJuggler's files: they parse, name what exists there, and show topics that the nodes publish."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from rviz_files import DISPLAYS, MESSAGE_OF_DISPLAY, flattened

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Channel, Estimate, Measurement, value_size
from onboard_estimation.base.series import SET_POSE, truth_channel
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import HealthReport
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.markers import Scene
from onboard_estimation.ros.transforms import planar
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT as SALP

NAMESPACE = "/salp"
CONFIGURATION = SalpConfiguration()
SPACE = CONFIGURATION.chain.build().space()
ESTIMATE = Estimate(1, np.zeros(5), 1e-4 * np.eye(5))

"""Display classes of rviz_default_plugins in Humble and in Jazzy."""


def published() -> dict[str, str]:
    """Topics of the nodes and what they take as input, with their types."""
    topics = {f"{NAMESPACE}/{name}": kind for name, kind in EstimateMessages(SPACE, new).types().items()}
    channels = [*SALP.channels(CONFIGURATION)]
    channels += [truth_channel(body) for body in SALP.truth_specification(CONFIGURATION).bodies]
    topics |= {f"{NAMESPACE}/{channel.topic}": channel.message_type for channel in channels}
    return topics | {
        f"{NAMESPACE}/path": "nav_msgs/msg/Path",
        f"{NAMESPACE}/markers": "visualization_msgs/msg/MarkerArray",
        "/diagnostics": "diagnostic_msgs/msg/DiagnosticArray",
    }


@pytest.fixture(scope="module")
def rviz(repository: Path) -> dict[str, Any]:
    manager = yaml.safe_load((repository / "config" / "salp.rviz").read_text(encoding="utf-8"))["Visualization Manager"]
    assert isinstance(manager, dict)
    return manager


def test_every_display_is_one_of_rviz_and_shows_a_topic_that_is_published(rviz: dict[str, Any]) -> None:
    known = published()
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
    truth = {f"{NAMESPACE}/ground_truth/link_{i}/pose" for i in (1, 2, 3)}
    assert shown == truth | {f"{NAMESPACE}/{name}" for name in ("markers", "odometry", "path")}


def test_frames_are_those_of_the_nodes(rviz: dict[str, Any]) -> None:
    prefix = NAMESPACE.strip("/")
    assert rviz["Global Options"]["Fixed Frame"] == f"{prefix}/map"
    assert rviz["Views"]["Current"]["Target Frame"] == f"{prefix}/base_link"
    (model,) = (display for display in rviz["Displays"] if display["Class"].endswith("/RobotModel"))
    assert model["TF Prefix"] == prefix
    assert model["Enabled"] is False  # robot_state_publisher is not one of ours


def test_the_pose_tool_sets_the_filters_pose(rviz: dict[str, Any]) -> None:
    (tool,) = (tool for tool in rviz["Tools"] if tool["Class"] == "rviz_default_plugins/SetInitialPose")
    assert tool["Topic"]["Value"] == f"{NAMESPACE}/{SET_POSE}"


def test_every_namespace_of_the_markers_can_be_switched(rviz: dict[str, Any]) -> None:
    scene = Scene(new, SALP, CONFIGURATION, SPACE)
    path = np.zeros((2, 2))
    truth = dict.fromkeys(CONFIGURATION.chain.link_names, planar([0.0, 0.0, 0.0]))
    markers = [*scene.estimate(ESTIMATE), *scene.truth(1, truth), *scene.text(ESTIMATE), *scene.legend(ESTIMATE)]
    markers += [*scene.path(1, path), *scene.path(1, path, truth=True)]
    (display,) = (one for one in rviz["Displays"] if one["Class"].endswith("/MarkerArray"))
    assert {marker.ns for marker in markers} == set(display["Namespaces"])


@pytest.fixture(scope="module")
def layout(repository: Path) -> ElementTree.Element:
    return ElementTree.parse(repository / "config" / "salp_plotjuggler.xml").getroot()


def curves_there_are() -> set[str]:
    messages = {f"{NAMESPACE}/{output.topic}": output.message for output in EstimateMessages(SPACE, new)(ESTIMATE)}
    for topic, kind in published().items():
        if kind in ("geometry_msgs/msg/PoseStamped", "sensor_msgs/msg/Imu"):
            messages[topic] = new(kind)
    (command,) = (one for one in SALP.channels(CONFIGURATION) if one.topic == "actuators/command")
    fields = {"name": list(command.names), command.field: np.zeros(len(command.names))}
    messages[f"{NAMESPACE}/{command.topic}"] = new(command.message_type, **fields)
    # The same statuses as a filter that has taken a few measurements gives.
    pipeline = Pipeline(SALP.estimator(CONFIGURATION, "ukf"), SALP.channels(CONFIGURATION))
    channels = SALP.channels(CONFIGURATION)
    for channel in channels:
        if channel.required:
            feed(pipeline, channel)
    messages["/diagnostics"] = HealthReport(new, "salp/salp_estimator")(pipeline, channels, 1, 1)
    return {name for topic, message in messages.items() for name in flattened(topic, message)}


def feed(pipeline: Pipeline, channel: Channel) -> None:
    size = value_size(channel) or 0
    for step in range(1, 4):
        pipeline.process(Measurement(step * 10_000_000, channel.sensor, np.zeros(size)))


def test_every_curve_is_one_that_the_nodes_topics_give(layout: ElementTree.Element) -> None:
    known = curves_there_are()
    computed = {snippet.attrib["name"] for snippet in layout.iterfind("customMathEquations/snippet")}
    used = {curve.attrib["name"] for curve in layout.iter("curve")}
    assert used <= known | computed
    sources = [one.text for one in layout.iterfind("customMathEquations/snippet/linked_source")]
    sources += [one.text for more in layout.iterfind("customMathEquations/snippet/additional_sources") for one in more]
    assert set(sources) <= known
    assert computed <= used


def test_the_layout_subscribes_to_what_it_draws(layout: ElementTree.Element) -> None:
    (plugin,) = layout.iterfind("Plugins/plugin")
    streamer = layout.find("previouslyLoaded_Streamer")
    assert streamer is not None
    assert plugin.attrib["ID"] == streamer.attrib["name"] == "ROS2 Topic Subscriber"
    selected = plugin.find("selected_topics")
    assert selected is not None
    topics = selected.attrib["value"].split(";")
    assert set(topics) <= set(published())
    names = [curve.attrib["name"] for curve in layout.iter("curve")]
    names += [one.text or "" for one in layout.iterfind("customMathEquations/snippet/linked_source")]
    for name in names:
        assert not name.startswith("/") or any(name.startswith(f"{topic}/") for topic in topics), name


def test_splitters_say_how_many_children_they_have(layout: ElementTree.Element) -> None:
    tabs = layout.findall("tabbed_widget/Tab")
    assert len(tabs) >= 3
    for splitter in layout.iter("DockSplitter"):
        sizes = [float(size) for size in splitter.attrib["sizes"].split(";")]
        assert len(sizes) == int(splitter.attrib["count"]) == len(splitter)
        assert sum(sizes) == pytest.approx(1.0, abs=1e-3)
        assert all(a == b for a, b in pairwise(sizes))
