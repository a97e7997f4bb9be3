"""RViz's and PlotJuggler's files: they name what exists there, and show topics that the nodes publish."""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rviz_files import MESSAGE_OF_DISPLAY, faults, flattened, read_rviz

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate, Measurement, PhaseEvent, neutral_value
from onboard_estimation.base.series import SET_POSE, truth_channel
from onboard_estimation.contract.robot import all_robots
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros import markers, phases
from onboard_estimation.ros.diagnostics import HealthReport
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.markers import Scene
from onboard_estimation.ros.sensor_messages import to_message

ROBOTS = {robot.name: robot for robot in all_robots()}
CONFIG = Path(__file__).parents[3] / "config"
FILES = sorted(CONFIG.glob("*.rviz"))
DRAWN = {"hopper", "salp", "softrobot", "strapdown", "thruster_chain"}
"""Robots whose state says where they are."""


def test_every_robot_that_is_drawn_has_a_file() -> None:
    assert {file.stem for file in FILES} == DRAWN


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rviz_knows_every_class_and_property_and_the_view_has_most_of_the_window(file: Path) -> None:
    content = read_rviz(file)
    assert list(faults(content)) == []
    window = content["Window Geometry"]
    # QMainWindowLayout::saveState: after the dock areas the size of what is between them, then the four corners.
    state = bytes.fromhex(window["QMainWindow State"])
    found = re.search(rb"(.{8})\0\0\0\x04\0\0\0\x04\0\0\0\x08\0\0\0\x08\xfc", state, re.DOTALL)
    assert found is not None
    width, height = struct.unpack(">2i", found[1])
    assert 0.7 * window["Width"] < width < window["Width"]
    assert 0.7 * window["Height"] < height < window["Height"]
    for panel in content["Panels"]:
        assert panel["Name"].encode("utf-16-be") in state


def test_what_rviz_does_not_know_is_found() -> None:
    content = read_rviz(FILES[0])
    content["Visualization Manager"]["Views"]["Current"]["Field of View"] = 0.785
    content["Visualization Manager"]["Displays"][0]["Plane"] = "YX"
    content["Panels"][0]["Class"] = "rviz/Displays"
    assert set(faults(content)) == {
        "Field of View of rviz_default_plugins/Orbit",
        "'YX' as Plane of rviz_default_plugins/Grid",
        "class rviz/Displays",
    }


@pytest.mark.parametrize("name", ROBOTS)
def test_every_text_has_a_height_and_spaces_that_fit(name: str) -> None:
    *parts, estimate = parts_of(name)
    scene = Scene(new, *parts)
    drawn = [*scene.estimate(estimate), *scene.text(estimate), *scene.legend(estimate)]
    texts = [marker for marker in drawn if marker.type == markers.TEXT]
    assert len(texts) == 3 or (not texts and name not in DRAWN)
    for marker in texts:
        assert marker.scale.z > 0.0
        # RViz takes the width of a space from x; where that is 0, it is half a metre.
        assert marker.scale.x == pytest.approx(0.3 * marker.scale.z)


# Those of robots whose files show most.

SHOWN = {
    "salp": {*(f"ground_truth/link_{i}/pose" for i in (1, 2, 3)), "markers", "odometry", "path"},
    "hopper": {"ground_truth/body/pose", "markers", "odometry", "apex"},
}
"""Topics in RViz."""


def parts_of(name: str) -> tuple[Any, Any, Any, Estimate]:
    """A robot, its configuration, its space, and an estimate."""
    robot = ROBOTS[name]
    configuration = robot.configuration_type()
    space = robot.estimator(configuration, robot.estimators[0]).space
    return robot, configuration, space, Estimate(1, space.origin(), 1e-4 * np.eye(space.dimension))


def messages(name: str) -> dict[str, Any]:
    """One of each topic of the nodes, and of what they take as input."""
    robot, configuration, space, estimate = parts_of(name)
    channels = [one for one in robot.channels(configuration) if name == "salp" or one.topic != SET_POSE]
    channels += [truth_channel(body) for body in robot.truth_specification(configuration).bodies]
    found = {one.topic: to_message(new, one, 1, neutral_value(one)) for one in channels}
    events = phases.event_messages(new, PhaseEvent("apex", 1, 2, 0.01, 0, 1.3)) if name == "hopper" else ()
    found |= {output.topic: output.message for output in (*EstimateMessages(space, new)(estimate), *events)}
    found |= {"path": new("nav_msgs/msg/Path"), "markers": new("visualization_msgs/msg/MarkerArray")}
    # The same statuses as a filter that has taken a few measurements gives.
    pipeline = Pipeline(robot.estimator(configuration, robot.estimators[0]), robot.channels(configuration))
    for channel in robot.channels(configuration):
        for step in range(1, 4) if channel.required else ():
            pipeline.process(Measurement(step * 10_000_000, channel.sensor, 0.0 * neutral_value(channel)))
    report = HealthReport(new, f"{name}/{name}_estimator")(pipeline, robot.channels(configuration), 1, 1)
    return {f"/{name}/{topic}": message for topic, message in found.items()} | {"/diagnostics": report}


@pytest.mark.parametrize("name", SHOWN)
def test_rviz_shows_topics_that_are_published_in_frames_of_the_nodes(name: str) -> None:
    rviz = read_rviz(CONFIG / f"{name}.rviz")["Visualization Manager"]
    known, shown = messages(name), set()
    displays = {display["Class"].partition("/")[2]: display for display in rviz["Displays"]}
    for display in rviz["Displays"]:
        kind = display["Class"].partition("/")[2]
        assert display["Enabled"] == display["Value"]
        if kind in MESSAGE_OF_DISPLAY:
            topic = display["Topic"]["Value"]
            assert known[topic].__msgtype__ == MESSAGE_OF_DISPLAY[kind]
            shown.add(topic)
    assert len({display["Name"] for display in rviz["Displays"]}) == len(rviz["Displays"])
    assert shown == {f"/{name}/{topic}" for topic in SHOWN[name]}
    assert rviz["Global Options"]["Fixed Frame"] == f"{name}/map"
    assert displays["RobotModel"]["TF Prefix"] == name
    assert displays["RobotModel"]["Enabled"] is False  # robot_state_publisher is not one of ours
    tools = [tool for tool in rviz["Tools"] if tool["Class"] == "rviz_default_plugins/SetInitialPose"]
    if name == "salp":
        assert rviz["Views"]["Current"]["Target Frame"] == "salp/base_link"
        assert [tool["Topic"]["Value"] for tool in tools] == [f"/salp/{SET_POSE}"]
    else:  # it would set height zero; and what is not estimated would be an ellipsoid of 1 km
        assert not tools
        assert displays["Odometry"]["Covariance"]["Value"] is False
    # Every namespace of the markers can be switched.
    robot, configuration, space, estimate = parts_of(name)
    scene, path = Scene(new, robot, configuration, space), np.zeros((2, 2))
    bodies = dict.fromkeys(robot.truth_specification(configuration).bodies, np.eye(7)[6])
    drawn = [*scene.estimate(estimate), *scene.truth(1, bodies), *scene.text(estimate), *scene.legend(estimate)]
    if name == "salp":
        drawn += [*scene.path(1, path), *scene.path(1, path, truth=True)]
    assert {marker.ns for marker in drawn} == set(displays["MarkerArray"]["Namespaces"])


@pytest.mark.parametrize("name", SHOWN)
def test_plotjugglers_curves_are_of_the_nodes_topics_which_it_subscribes_to(name: str) -> None:
    layout = ElementTree.parse(CONFIG / f"{name}_plotjuggler.xml").getroot()
    known = {curve for topic, message in messages(name).items() for curve in flattened(topic, message)}
    snippets = layout.findall("customMathEquations/snippet")
    computed = {snippet.attrib["name"] for snippet in snippets}
    used = {curve.attrib["name"] for curve in layout.iter("curve")}
    linked = {one.text or "" for snippet in snippets for one in snippet.iter("linked_source")}
    additional = {
        one.text for more in layout.iterfind("customMathEquations/snippet/additional_sources") for one in more
    }
    assert computed <= used <= known | computed
    assert linked | additional <= known
    plugin, streamer = layout.find("Plugins/plugin"), layout.find("previouslyLoaded_Streamer")
    assert plugin is not None
    assert streamer is not None
    assert plugin.attrib["ID"] == streamer.attrib["name"] == "ROS2 Topic Subscriber"
    selected = plugin.find("selected_topics")
    assert selected is not None
    topics = selected.attrib["value"].split(";")
    assert set(topics) <= set(messages(name))
    for curve in used | linked | additional:
        assert not curve.startswith("/") or any(curve.startswith(f"{topic}/") for topic in topics), curve
    # Splitters say how many children they have.
    assert len(layout.findall("tabbed_widget/Tab")) >= 3
    for splitter in layout.iter("DockSplitter"):
        sizes = [float(size) for size in splitter.attrib["sizes"].split(";")]
        assert len(sizes) == int(splitter.attrib["count"]) == len(splitter)
        assert sum(sizes) == pytest.approx(1.0, abs=1e-3)
        assert all(a == b for a, b in pairwise(sizes))
