"""How the hopper looks: solids, poses, URDF and markers agree; the files for RViz and PlotJuggler name what exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from hopper_samples_for_tests import CONFIGURATION, ROBOT, STANDING_M
from numpy.typing import NDArray
from rviz_files import MESSAGE_OF_DISPLAY, flattened

from hopper_estimation.estimators.estimator import SPACE
from hopper_estimation.model.description import JOINT, hopper_body_poses, hopper_shapes, hopper_urdf
from hopper_estimation.model.phases import PHASES
from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate, PhaseEvent, neutral_value
from onboard_estimation.base.series import truth_channel
from onboard_estimation.contract.description import Shape
from onboard_estimation.ros import markers, phases
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.sensor_messages import to_message

ESTIMATE = Estimate(1, np.array([1.4, 0.0]), np.diag([0.05**2, 0.01]))


def ends(shape: Shape, pose: NDArray[np.float64]) -> tuple[float, float]:
    """Lowest and highest point of an upright solid."""
    middle, half = pose[2] + shape.position_m[2], 0.5 * shape.size_m[2]
    return middle - half, middle + half


@pytest.mark.parametrize(("height_m", "foot_m"), [(2.0, 2.0 - STANDING_M), (0.18, 0.0)])
def test_the_leg_reaches_from_the_body_to_the_foot(height_m: float, foot_m: float) -> None:
    poses = {name: rows[0] for name, rows in hopper_body_poses(SPACE, np.array([[height_m, 0.0]]), STANDING_M).items()}
    np.testing.assert_allclose(poses["body"], [0.0, 0.0, height_m, 0.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(poses["leg"], [0.0, 0.0, foot_m, 0.0, 0.0, 0.0, 1.0], atol=1e-12)
    (leg, foot), (trunk, *_) = hopper_shapes(STANDING_M)["leg"], hopper_shapes(STANDING_M)["body"]
    assert ends(leg, poses["leg"]) == pytest.approx((foot_m, foot_m + STANDING_M))
    assert ends(foot, poses["leg"])[0] == pytest.approx(foot_m)
    low, high = ends(trunk, poses["body"])
    assert low < height_m < high
    assert ends(leg, poses["leg"])[1] >= low, "joined"


def test_the_urdf_has_a_leg_that_slides() -> None:
    root = ElementTree.fromstring(hopper_urdf(STANDING_M))
    solids = {link.attrib["name"]: len(link.findall("visual")) for link in root.findall("link")}
    assert solids == {name: len(shapes) for name, shapes in hopper_shapes(STANDING_M).items()}
    (joint,) = root.findall("joint")
    (limit,), (parent,), (child,) = (joint.findall(name) for name in ("limit", "parent", "child"))
    assert (joint.attrib["name"], joint.attrib["type"]) == (JOINT, "prismatic")
    assert (parent.attrib["link"], child.attrib["link"]) == ("body", "leg")
    # The foot in the body's frame, with the leg extended and squat, as the poses have it.
    for height_m, end in ((1.0, "lower"), (0.0, "upper")):
        poses = hopper_body_poses(SPACE, np.array([[height_m, 0.0]]), STANDING_M)
        assert float(limit.attrib[end]) == pytest.approx(poses["leg"][0, 2] - poses["body"][0, 2])


@pytest.fixture(scope="module")
def rviz(repository: Path) -> dict[str, Any]:
    manager = yaml.safe_load((repository / "config" / "hopper.rviz").read_text(encoding="utf-8"))
    return dict(manager["Visualization Manager"])


def test_markers_show_height_and_error_and_each_namespace_can_be_switched(rviz: dict[str, Any]) -> None:
    scene = markers.Scene(new, ROBOT, CONFIGURATION, SPACE)
    pose = np.array([0.0, 0.0, 1.35, 0.0, 0.0, 0.0, 1.0])
    made = [*scene.estimate(ESTIMATE), *scene.truth(1, {CONFIGURATION.truth_body: pose})]
    made += [*scene.text(ESTIMATE, {"height": pose[2:3]}), *scene.legend(ESTIMATE)]
    drawn = {name: [one for one in made if one.ns == name] for name in {one.ns for one in made}}
    assert next(one for one in drawn["estimate"] if one.type == markers.CUBE).pose.position.z == pytest.approx(1.4)
    # The bar holds the height with 95 %: 1.96 standard deviations of 5 cm.
    heights = sorted({point.z for point in drawn["height_95"][0].points})
    assert heights == pytest.approx([1.4 - 1.959964 * 0.05, 1.4 + 1.959964 * 0.05], abs=1e-6)
    assert "z: +5.00 cm  (sigma 5.00 cm)" in drawn["error"][0].text.splitlines()
    (display,) = (one for one in rviz["Displays"] if one["Class"].endswith("/MarkerArray"))
    assert set(drawn) == set(display["Namespaces"])


def messages() -> dict[str, Any]:
    """One of each topic that the nodes publish or listen to, but for pictures and reports."""
    channels = [*ROBOT.channels(CONFIGURATION)]
    channels += [truth_channel(body) for body in ROBOT.truth_specification(CONFIGURATION).bodies]
    found = {one.topic: to_message(new, one, 1, neutral_value(one)) for one in channels if one.topic != "set_pose"}
    events = phases.event_messages(new, PhaseEvent("apex", 1, 2, 0.01, 0, 1.3))
    found |= {output.topic: output.message for output in (*EstimateMessages(SPACE, new)(ESTIMATE), *events)}
    return {f"/hopper/{topic}": message for topic, message in found.items()}


def test_every_display_is_one_of_rviz_and_shows_a_topic_that_is_published(rviz: dict[str, Any]) -> None:
    """What is not estimated is not drawn as uncertain: an ellipsoid of 1 km would hide the rest."""
    known = {topic: message.__msgtype__ for topic, message in messages().items()}
    known["/hopper/markers"] = "visualization_msgs/msg/MarkerArray"
    shown = set()
    for display in rviz["Displays"]:
        kind = display["Class"].partition("/")[2]
        if kind in MESSAGE_OF_DISPLAY:
            assert known[display["Topic"]["Value"]] == MESSAGE_OF_DISPLAY[kind]
            shown.add(display["Topic"]["Value"])
        assert kind != "Odometry" or display["Covariance"]["Value"] is False
    assert shown == {f"/hopper/{name}" for name in ("ground_truth/body/pose", "markers", "odometry", "apex")}
    assert not any(tool["Class"].endswith("/SetInitialPose") for tool in rviz["Tools"]), "it would set height zero"


def test_every_curve_is_one_that_the_nodes_topics_give(repository: Path) -> None:
    layout = ElementTree.parse(repository / "config" / "hopper_plotjuggler.xml").getroot()
    known = {name for topic, message in messages().items() for name in flattened(topic, message)}
    computed = {snippet.attrib["name"] for snippet in layout.iterfind("customMathEquations/snippet")}
    used = {curve.attrib["name"] for curve in layout.iter("curve")}
    assert computed <= used <= known | computed, used - known - computed
    sources = [one.text for one in layout.iterfind("customMathEquations/snippet/linked_source")]
    sources += [one.text for more in layout.iterfind("customMathEquations/snippet/additional_sources") for one in more]
    assert set(sources) <= known
    (selected,) = layout.iterfind("Plugins/plugin/selected_topics")
    topics = selected.attrib["value"].split(";")
    assert set(topics) <= set(messages())
    drawn = [name for name in (*used, *sources) if name and name.startswith("/")]
    assert all(any(name.startswith(f"{topic}/") for topic in topics) for name in drawn)
    (title,) = (one.attrib["name"] for one in layout.iter("DockArea") if one.attrib["name"].startswith("phase"))
    listed = ", ".join(f"{number} {name.replace('_', ' ')}" for number, name in enumerate(PHASES))
    assert f"({listed})" in title
