"""Markers and transforms: bodies where the state has them, ellipses that hold what they claim, one frame a thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import Estimate
from onboard_estimation.filtering.planar import planar_poses
from onboard_estimation.ros import markers as m
from onboard_estimation.ros import transforms as tf
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT as SALP
from strapdown_estimation.robot import ROBOT as STRAPDOWN

CONFIGURATION = SalpConfiguration()
CHAIN = CONFIGURATION.chain.build()
SPACE = CHAIN.space()
STAMP_NS = 1_700_000_000_123_456_789
SAMPLES = 20_000


def covariance_of(rng: np.random.Generator, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    root = rng.normal(size=(len(scale), len(scale)))
    return scale[:, None] * (root @ root.T + np.eye(len(scale))) * scale / len(scale)


@pytest.fixture
def estimate() -> Estimate:
    rng = np.random.default_rng(3)
    scale = np.array([0.02, 0.01, 0.05, 0.03, 0.06])
    return Estimate(STAMP_NS, np.array([0.4, -0.2, 0.7, 0.5, -0.9]), covariance_of(rng, scale))


@pytest.fixture
def scene() -> m.Scene:
    return m.Scene(new, SALP, CONFIGURATION, SPACE, prefix="salp/")


def numbers(message: Any) -> NDArray[np.float64]:
    return np.array([getattr(message, axis) for axis in "xyzw" if hasattr(message, axis)])


def points(marker: Any) -> NDArray[np.float64]:
    return np.array([numbers(point) for point in marker.points])


def turn_of(marker: Any) -> Rotation:
    return Rotation.from_quat(numbers(marker.pose.orientation))


def spaces_of(markers: list[Any]) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for marker in markers:
        out.setdefault(marker.ns, []).append(marker)
    return out


def inside(sample: NDArray[np.float64], outline: NDArray[np.float64]) -> float:
    """Share of the sample inside a closed convex outline."""
    edges = np.diff(outline, axis=0)
    away = sample[:, None] - outline[None, :-1]
    cross = edges[:, 0] * away[..., 1] - edges[:, 1] * away[..., 0]
    return float(np.mean((cross > 0.0).all(axis=1) | (cross < 0.0).all(axis=1)))


def drawn_states(estimate: Estimate) -> NDArray[np.float64]:
    rng = np.random.default_rng(4)
    return SPACE.plus(estimate.mean, rng.multivariate_normal(np.zeros(5), estimate.covariance, SAMPLES))


def test_boxes_stand_on_the_links_and_wheels_and_joints_where_the_model_has_them(
    scene: m.Scene, estimate: Estimate
) -> None:
    drawn = spaces_of(scene.estimate(estimate))["estimate"]
    boxes = [one for one in drawn if one.type == m.CUBE]
    links = CHAIN.link_poses(estimate.mean)[0]
    found = [[*numbers(one.pose.position)[:2], turn_of(one).as_euler("zyx")[0]] for one in boxes]
    np.testing.assert_allclose(found, links, atol=1e-12)
    cylinders = [one for one in drawn if one.type == m.CYLINDER]
    wheels = [one for one in cylinders if abs(turn_of(one).apply([0, 0, 1])[2]) < 0.5]
    # The base frame lies at the mean of the wheels; a wheel's axle is across its driven direction.
    centres = np.array([numbers(one.pose.position)[:2] for one in wheels])
    np.testing.assert_allclose(centres.mean(axis=0), estimate.mean[:2], atol=1e-12)
    for wheel, heading, angle in zip(wheels, links[:, 2], CONFIGURATION.chain.wheel_angles_deg, strict=True):
        axle = turn_of(wheel).apply([0.0, 0.0, 1.0])
        driven = heading + np.deg2rad(angle)
        assert abs(axle[:2] @ [np.cos(driven), np.sin(driven)]) < 1e-9
        assert wheel.scale.x == pytest.approx(2.0 * CONFIGURATION.chain.wheel_radius_m)
    pins = np.array([numbers(one.pose.position)[:2] for one in cylinders if one not in wheels])
    np.testing.assert_allclose(pins, CHAIN.outline(estimate.mean)[0, 1:-1], atol=1e-12)


def test_ellipses_and_wedge_hold_95_percent(scene: m.Scene, estimate: Estimate) -> None:
    states = drawn_states(estimate)
    drawn = spaces_of(scene.estimate(estimate))
    (ellipse,) = drawn["position_95"]
    # The outline is that of a Gaussian: exact to first order in the heading's error.
    assert inside(states[:, :2], points(ellipse)[:, :2]) == pytest.approx(0.95, abs=0.006)
    links = CHAIN.link_poses(states)
    (bodies,) = drawn["bodies_95"]
    outlines = points(bodies)[:, :2].reshape(3, -1, 2)
    for index, segments in enumerate(outlines):
        outline = np.vstack([segments[::2], segments[-1:]])
        assert inside(links[:, index, :2], outline) == pytest.approx(0.95, abs=0.012)
    (wedge,) = drawn["heading_95"]
    arc = points(wedge)[:, :2].reshape(-1, 3, 2)
    bearing = np.arctan2(*(arc[:, 1:] - arc[:, :1]).reshape(-1, 2).T[::-1])
    share = np.mean((states[:, 2] > bearing.min()) & (states[:, 2] < bearing.max()))
    assert share == pytest.approx(0.95, abs=0.006)


def test_frames_stamps_and_ids(scene: m.Scene, estimate: Estimate) -> None:
    places = np.eye(3)
    poses = planar_poses(places[:, :2], places[:, 2])
    truth = dict(zip(CONFIGURATION.chain.link_names, poses, strict=True))
    path = np.array([[0.0, 0.0], [0.1, 0.2]])
    markers = [*scene.estimate(estimate), *scene.truth(STAMP_NS, truth), *scene.text(estimate), *scene.legend(estimate)]
    markers += [*scene.path(STAMP_NS, path), *scene.path(STAMP_NS, path, truth=True)]
    array = scene.array(markers)
    assert len({(one.ns, one.id) for one in array.markers}) == len(markers)
    for marker in array.markers:
        assert marker.header.frame_id == ("world" if marker.ns.startswith("truth") else "salp/odom")
        stamp = marker.header.stamp
        assert stamp.sec * 1_000_000_000 + stamp.nanosec == STAMP_NS
        assert marker.action == m.ADD
        assert all(0.0 <= value <= 1.0 for value in (marker.color.r, marker.color.g, marker.color.b))
        # RViz warns of markers without a size, and of lists of triangles that are not whole.
        assert max(numbers(marker.scale)) > 0.0
        assert marker.type != m.TRIANGLE_LIST or len(marker.points) % 3 == 0
    # The next picture replaces this one.
    later = scene.estimate(replace(estimate, mean=estimate.mean + 0.1))
    assert {(one.ns, one.id) for one in later} == {(one.ns, one.id) for one in scene.estimate(estimate)}
    assert scene.path(STAMP_NS, path[:1]) == []
    assert scene.clear(STAMP_NS)[0].action == m.DELETE_ALL


def test_the_text_says_error_and_sigma(scene: m.Scene, estimate: Estimate) -> None:
    # In the body frame 3 cm forward and 4 cm left, 2 deg, joint angles 1 and -1.5 deg off.
    error = np.array([0.03, 0.04, *np.deg2rad([2.0, 1.0, -1.5])])
    true = SPACE.plus(estimate.mean, np.zeros(5))
    truth = {"pose": true[:3], "joint_angles": true[3:]}
    shifted = replace(estimate, mean=SPACE.plus(true, error))
    (marker,) = scene.text(shifted, truth)
    sigma = np.rad2deg(np.sqrt(np.diag(estimate.covariance)))
    lines = marker.text.splitlines()
    assert lines[0].startswith("position: 5.00 cm")
    assert f"sigma {100.0 * np.sqrt(np.trace(estimate.covariance[:2, :2])):.2f} cm" in lines[0]
    assert lines[1] == f"heading: +2.00 deg  (sigma {sigma[2]:.2f} deg)"
    assert lines[2] == f"alpha_1: +1.00 deg  (sigma {sigma[3]:.2f} deg)"
    assert lines[3] == f"alpha_2: -1.50 deg  (sigma {sigma[4]:.2f} deg)"
    (alone,) = scene.text(estimate)
    assert alone.text.splitlines()[0].startswith("position: sigma ")
    (unknown,) = scene.text(estimate, {"pose": np.full(3, np.nan)})
    assert unknown.text == alone.text


def test_a_robot_without_bodies_is_a_point_with_its_ellipse_and_heading() -> None:
    configuration = load(STRAPDOWN.configuration_type, None, {})
    space = STRAPDOWN.estimator(configuration, STRAPDOWN.estimators[0]).space
    rng = np.random.default_rng(5)
    mean = space.plus(space.origin(), rng.normal(size=space.dimension) * 0.3)
    estimate = Estimate(STAMP_NS, mean, covariance_of(rng, np.full(space.dimension, 0.01)))
    drawn = spaces_of(m.Scene(new, STRAPDOWN, configuration, space).estimate(estimate))
    assert [one.type for one in drawn["estimate"]] == [m.SPHERE]
    assert drawn["estimate"][0].header.frame_id == "odom"
    assert set(drawn) == {"estimate", "position_95", "heading_95"}


def chain_of(transforms: list[Any], root: str, leaf: str) -> NDArray[np.float64]:
    """The leaf's matrix (4, 4) in the root, by tf's rule: every frame has one parent."""
    parents = {one.child_frame_id: one for one in transforms}
    assert len(parents) == len(transforms)
    total, frame = np.eye(4), leaf
    while frame != root:
        one = parents[frame]
        matrix = np.eye(4)
        matrix[:3, :3] = Rotation.from_quat(numbers(one.transform.rotation)).as_matrix()
        matrix[:3, 3] = numbers(one.transform.translation)
        total, frame = matrix @ total, one.header.frame_id
    return total


def test_tf_leads_from_the_world_to_every_link(estimate: Estimate) -> None:
    bodies = SALP.body_poses(CONFIGURATION, SPACE, estimate.mean[None])
    placed = [1.0, 2.0, 0.0, 0.0, 0.0, 0.5]
    moved = np.array([-0.3, 0.1, 0.2])
    estimated = tf.estimate_transforms(SPACE, estimate.mean, moved, bodies, "salp/")
    transforms = [
        tf.world_to_map(new, STAMP_NS, placed, "salp/"),
        *(tf.transform(new, STAMP_NS, *frames, pose) for frames, pose in estimated.items()),
        *tf.between_bodies(new, STAMP_NS, bodies, "salp/"),
    ]
    order = ["world", "salp/map", "salp/odom", "salp/base_link", "salp/link_1", "salp/link_2", "salp/link_3"]
    assert [one.header.frame_id for one in transforms] == order[:-1]
    assert [one.child_frame_id for one in transforms] == order[1:]
    links = CHAIN.link_poses(estimate.mean)[0]

    def matrix(pose: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.eye(4)
        out[:3, :3] = Rotation.from_rotvec([0.0, 0.0, pose[2]]).as_matrix()
        out[:2, 3] = pose[:2]
        return out

    above = matrix(np.array([1.0, 2.0, 0.5])) @ matrix(moved)
    for name, pose in zip(CONFIGURATION.chain.link_names, links, strict=True):
        np.testing.assert_allclose(chain_of(transforms, "world", f"salp/{name}"), above @ matrix(pose), atol=1e-12)
