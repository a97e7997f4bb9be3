"""Every RViz file against RViz's classes and properties (what it does not know, it passes over), and every text."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from rviz_files import faults, read_rviz

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate
from onboard_estimation.contract.robot import all_robots
from onboard_estimation.ros import markers
from onboard_estimation.ros.markers import Scene

ROBOTS = {robot.name: robot for robot in all_robots()}
FILES = sorted((Path(__file__).parents[3] / "config").glob("*.rviz"))


DRAWN = {"hopper", "salp", "softrobot", "strapdown", "thruster_chain"}
"""Robots whose state says where they are."""


def test_every_robot_that_is_drawn_has_a_file() -> None:
    assert {file.stem for file in FILES} == DRAWN


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rviz_knows_every_class_and_property(file: Path) -> None:
    assert list(faults(read_rviz(file))) == []


def test_what_rviz_does_not_know_is_found() -> None:
    content = read_rviz(FILES[0])
    content["Visualization Manager"]["Views"]["Current"]["Field of View"] = 0.785
    content["Visualization Manager"]["Displays"][0]["Plane"] = "YX"
    content["Visualization Manager"]["Tools"][0]["Class"] = "rviz/MoveCamera"
    content["Panels"][0]["Class"] = "rviz/Displays"
    assert set(faults(content)) == {
        "Field of View of rviz_default_plugins/Orbit",
        "'YX' as Plane of rviz_default_plugins/Grid",
        "class rviz/MoveCamera",
        "class rviz/Displays",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_view_has_most_of_the_window(file: Path) -> None:
    content = read_rviz(file)
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


@pytest.mark.parametrize("name", ROBOTS)
def test_every_text_has_a_height_and_spaces_that_fit(name: str) -> None:
    robot = ROBOTS[name]
    configuration = robot.configuration_type()
    space = robot.estimator(configuration, robot.estimators[0]).space
    estimate = Estimate(1, space.origin(), np.eye(space.dimension))
    scene = Scene(new, robot, configuration, space)
    drawn = [*scene.estimate(estimate), *scene.text(estimate), *scene.legend(estimate)]
    texts = [marker for marker in drawn if marker.type == markers.TEXT]
    assert len(texts) == 3 or (not texts and name not in DRAWN)
    for marker in texts:
        assert marker.scale.z > 0.0
        # RViz takes the width of a space from x; where that is 0, it is half a metre.
        assert marker.scale.x == pytest.approx(0.3 * marker.scale.z)
