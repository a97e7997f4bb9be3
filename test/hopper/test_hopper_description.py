"""How the hopper looks: solids, poses, URDF and markers agree; the files for RViz and PlotJuggler name what exists."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hopper_samples_for_tests import CONFIGURATION, ROBOT, STANDING_M
from numpy.typing import NDArray

from hopper_estimation.estimators.estimator import SPACE
from hopper_estimation.model.description import JOINT, hopper_body_poses, hopper_shapes, hopper_urdf
from hopper_estimation.model.phases import PHASES
from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate
from onboard_estimation.contract.description import Shape
from onboard_estimation.ros import markers

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


def test_markers_show_height_and_error() -> None:
    scene = markers.Scene(new, ROBOT, CONFIGURATION, SPACE)
    pose = np.array([0.0, 0.0, 1.35, 0.0, 0.0, 0.0, 1.0])
    made = [*scene.estimate(ESTIMATE), *scene.truth(1, {CONFIGURATION.truth_body: pose})]
    made += scene.text(ESTIMATE, {"height": pose[2:3]})
    drawn = {name: [one for one in made if one.ns == name] for name in {one.ns for one in made}}
    assert next(one for one in drawn["estimate"] if one.type == markers.CUBE).pose.position.z == pytest.approx(1.4)
    # The bar holds the height with 95 %: 1.96 standard deviations of 5 cm.
    heights = sorted({point.z for point in drawn["height_95"][0].points})
    assert heights == pytest.approx([1.4 - 1.959964 * 0.05, 1.4 + 1.959964 * 0.05], abs=1e-6)
    assert "z: +5.00 cm  (sigma 5.00 cm)" in drawn["error"][0].text.splitlines()


def test_the_plot_of_phases_says_their_numbers(repository: Path) -> None:
    layout = ElementTree.parse(repository / "config" / "hopper_plotjuggler.xml").getroot()
    (title,) = (one.attrib["name"] for one in layout.iter("DockArea") if one.attrib["name"].startswith("phase"))
    listed = ", ".join(f"{number} {name.replace('_', ' ')}" for number, name in enumerate(PHASES))
    assert f"({listed})" in title
