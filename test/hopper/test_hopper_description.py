"""How the hopper looks: solids, poses and URDF agree, and markers show it from the side."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from bouncer import Bouncer, BouncerRobot
from numpy.typing import NDArray

from hopper_estimation.model.description import JOINT, hopper_body_poses, hopper_shapes, hopper_urdf
from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate
from onboard_estimation.contract.description import Shape, Shapes
from onboard_estimation.contract.reported import Drawn
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.ros import markers as m
from onboard_estimation.ros.transforms import between_bodies, estimate_transforms

STANDING_M = 0.27
SPACE = StateSpace(
    vector("vertical_velocity", ("vz",), "m/s"),
    vector("accelerometer_bias", ("b",), "m/s^2"),
    vector("height", ("z",), "m"),
)
STAMP_NS = 1_700_000_000_000_000_000


class Hopper(BouncerRobot, Drawn[Bouncer]):
    """What the robot does with the description, without its filters."""

    def body_shapes(self, configuration: Any) -> Shapes:
        return hopper_shapes(STANDING_M)

    def body_poses(
        self, configuration: Any, space: StateSpace, means: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        return hopper_body_poses(space, means, STANDING_M)

    def urdf(self, configuration: Any) -> str:
        return hopper_urdf(STANDING_M, "hopper")


def states(*heights_m: float) -> NDArray[np.float64]:
    out = np.zeros((len(heights_m), 3))
    out[:, 0], out[:, 2] = 1.0, heights_m
    return out


def ends(shape: Shape, pose: NDArray[np.float64]) -> tuple[float, float]:
    """Lowest and highest point of an upright solid."""
    middle, half = pose[2] + shape.position_m[2], 0.5 * shape.size_m[2]
    return middle - half, middle + half


@pytest.mark.parametrize(("height_m", "foot_m"), [(2.0, 2.0 - STANDING_M), (STANDING_M, 0.0), (0.18, 0.0)])
def test_the_leg_reaches_from_the_body_to_the_foot(height_m: float, foot_m: float) -> None:
    poses = {name: rows[0] for name, rows in hopper_body_poses(SPACE, states(height_m), STANDING_M).items()}
    assert list(poses) == ["body", "leg"]  # in the order of their frames
    np.testing.assert_allclose(poses["body"], [0.0, 0.0, height_m, 0.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(poses["leg"], [0.0, 0.0, foot_m, 0.0, 0.0, 0.0, 1.0])
    shapes = hopper_shapes(STANDING_M)
    leg, foot = shapes["leg"]
    assert ends(leg, poses["leg"]) == pytest.approx((foot_m, foot_m + STANDING_M))
    assert ends(foot, poses["leg"])[0] == pytest.approx(foot_m)
    low, high = ends(shapes["body"][0], poses["body"])
    assert low < height_m < high
    assert ends(leg, poses["leg"])[1] >= low  # joined
    # Four rotors above the body, that do not meet.
    rotors = [shape for shape in shapes["body"] if shape.part == "wheel"]
    centres = np.array([rotor.position_m for rotor in rotors])
    assert len({tuple(centre) for centre in centres}) == 4
    assert np.ptp(centres[:, 0]) > rotors[0].size_m[0]
    assert min(ends(rotor, poses["body"])[0] for rotor in rotors) > high


def test_the_urdf_has_the_same_solids_and_a_leg_that_slides() -> None:
    root = ElementTree.fromstring(hopper_urdf(STANDING_M))
    assert root.attrib["name"] == "hopper"
    assert [link.attrib["name"] for link in root.findall("link")] == ["body", "leg"]
    materials = {one.attrib["name"] for one in root.findall("material")}
    for link in root.findall("link"):
        shapes = hopper_shapes(STANDING_M)[link.attrib["name"]]
        visuals = link.findall("visual")
        assert len(visuals) == len(shapes)
        for visual, shape in zip(visuals, shapes, strict=True):
            origin, box, cylinder = visual.find("origin"), visual.find("geometry/box"), visual.find("geometry/cylinder")
            material = visual.find("material")
            assert origin is not None
            assert material is not None
            np.testing.assert_allclose([float(word) for word in origin.attrib["xyz"].split()], shape.position_m)
            assert material.attrib["name"] in materials
            if shape.kind == "box":
                assert box is not None
                np.testing.assert_allclose([float(word) for word in box.attrib["size"].split()], shape.size_m)
            else:
                assert cylinder is not None
                assert 2.0 * float(cylinder.attrib["radius"]) == pytest.approx(shape.size_m[0])
                assert float(cylinder.attrib["length"]) == pytest.approx(shape.size_m[2])
    (joint,) = root.findall("joint")
    limit, parent, child = joint.find("limit"), joint.find("parent"), joint.find("child")
    assert limit is not None
    assert parent is not None
    assert child is not None
    assert (joint.attrib["name"], joint.attrib["type"]) == (JOINT, "prismatic")
    assert (parent.attrib["link"], child.attrib["link"]) == ("body", "leg")
    # The foot in the body's frame, with the leg extended and squat, as the poses have it.
    for height_m, end in ((1.0, "lower"), (0.0, "upper")):
        poses = hopper_body_poses(SPACE, states(height_m), STANDING_M)
        assert float(limit.attrib[end]) == pytest.approx(poses["leg"][0, 2] - poses["body"][0, 2])


def test_markers_show_it_from_the_side() -> None:
    scene = m.Scene(new, Hopper(), Bouncer(), SPACE, prefix="hopper/")
    covariance = np.diag([0.04, 0.01, 0.0025])
    estimate = Estimate(STAMP_NS, states(1.4)[0], covariance)
    drawn: dict[str, list[Any]] = {}
    truth = {"height": np.array([1.35])}
    pose = np.array([0.0, 0.0, 1.35, 0.0, 0.0, 0.0, 1.0])
    markers = [
        *scene.estimate(estimate),
        *scene.truth(STAMP_NS, {"body": pose}),
        *scene.text(estimate, truth),
        *scene.legend(estimate),
    ]
    for marker in markers:
        drawn.setdefault(marker.ns, []).append(marker)
        assert marker.header.frame_id == ("world" if marker.ns == "truth" else "hopper/odom")
    assert len({(one.ns, one.id) for one in markers}) == len(markers)
    assert set(drawn) == {"estimate", "height_95", "truth", "error", "legend"}
    assert len(drawn["estimate"]) == sum(map(len, hopper_shapes(STANDING_M).values()))
    body = next(one for one in drawn["estimate"] if one.type == m.CUBE)
    assert body.pose.position.z == pytest.approx(1.4)
    # The bar holds the height with 95 %: 1.96 standard deviations of 5 cm.
    (bar,) = drawn["height_95"]
    assert bar.type == m.LINE_LIST
    assert len(bar.points) % 2 == 0
    heights = {round(point.z, 6) for point in bar.points}
    assert heights == {round(1.4 - 1.959964 * 0.05, 6), round(1.4 + 1.959964 * 0.05, 6)}
    assert {point.y for point in bar.points} == {0.0}
    (text,) = drawn["error"]
    assert "z: +5.00 cm  (sigma 5.00 cm)" in text.text.splitlines()
    assert text.pose.position.z > 1.4
    legend = drawn["legend"]
    assert [one.text for one in legend] == ["estimate, 95 % bar", "truth"]
    assert 0.0 < legend[1].pose.position.z < legend[0].pose.position.z
    assert legend[0].pose.position.x < 0.0  # it stays in front of the ground, wherever the robot is


def test_the_base_is_the_body_and_the_leg_hangs_on_it() -> None:
    estimate = Estimate(STAMP_NS, states(1.4)[0], np.eye(3))
    bodies = hopper_body_poses(SPACE, estimate.mean[None], STANDING_M)
    poses = estimate_transforms(SPACE, estimate.mean, np.zeros(3), bodies, "hopper/")
    (leg,) = between_bodies(new, STAMP_NS, bodies, "hopper/")
    assert (leg.header.frame_id, leg.child_frame_id) == ("hopper/body", "hopper/leg")
    assert poses["hopper/base_link", "hopper/body"][2] == pytest.approx(0.0)
    assert leg.transform.translation.z == pytest.approx(-STANDING_M)
