"""What a soft robot's node publishes: odometry of the tip in the base's frame, tf of its bodies; RViz; live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launched import Launch, nothing_is_left, recorded
from live_graph import wait_until
from rviz_files import read_rviz

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.bags.message_types import new
from onboard_estimation.base.configuration import load, to_parameter_file
from onboard_estimation.base.measurement import Channel, Estimate
from onboard_estimation.contract.reported import poses_of_bodies
from onboard_estimation.learning.reduced_rank import LearnedFunction
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.markers import Scene
from onboard_estimation.ros.transforms import base_pose, estimate_transforms
from softrobot_estimation.estimators.particle_estimator import stiffness_prior
from softrobot_estimation.model.configuration import SPACE, SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip
from softrobot_estimation.model.description import BASE, CELLS, TIP, StiffnessSurface
from softrobot_estimation.model.grey_box import GreyBox
from softrobot_estimation.robot import ROBOT

CONFIGURATION = SoftRobotConfiguration()
NAMESPACE = "/softrobot"


def estimate() -> Estimate:
    mean = np.array([0.02, -0.01, 0.13, 0.1, 0.2, -0.3, 0.15])
    covariance = np.diag([1e-6, 2e-6, 3e-6, 1e-4, 2e-4, 3e-4, 1e-4])
    covariance[0, 2] = covariance[2, 0] = 5e-7
    covariance[3, 5] = covariance[5, 3] = -1e-5
    return Estimate(5_000_000_000, mean, covariance)


def test_odometry_is_that_of_the_tip_in_space_and_the_first_body_is_where_the_base_is() -> None:
    tip = estimate()
    odometry = {output.topic: output.message for output in EstimateMessages(SPACE, new)(tip)}["odometry"]
    pose, twist = odometry.pose, odometry.twist
    place, linear = pose.pose.position, twist.twist.linear
    assert (place.x, place.y, place.z, pose.pose.orientation.w) == (0.02, -0.01, 0.13, 1.0)
    assert (linear.x, linear.y, linear.z) == (0.1, 0.2, -0.3)
    for message, name in ((pose, "position"), (twist, "velocity")):
        matrix, rows = np.reshape(message.covariance, (6, 6)), SPACE.tangent(name)
        np.testing.assert_array_equal(matrix[:3, :3], tip.covariance[rows, rows])
        np.testing.assert_array_equal(matrix[3:, 3:], 1e6 * np.eye(3))  # nothing is known of how it is turned
        assert not matrix[:3, 3:].any()
    np.testing.assert_array_equal(base_pose(SPACE, tip.mean), [0.02, -0.01, 0.13, 0.0, 0.0, 0.0, 1.0])
    bodies = poses_of_bodies(ROBOT, CONFIGURATION, SPACE, tip.mean[None])
    poses = estimate_transforms(SPACE, tip.mean, np.zeros(3), bodies, "softrobot/")
    np.testing.assert_allclose(poses["softrobot/base_link", "softrobot/base"][:3], [-0.02, 0.01, -0.13])


@pytest.fixture(scope="module")
def displays(repository: Path) -> list[dict[str, Any]]:
    content = read_rviz(repository / "config" / "softrobot.rviz")["Visualization Manager"]
    assert content["Global Options"]["Fixed Frame"] == "world"
    assert not any(tool["Class"].endswith("/SetInitialPose") for tool in content["Tools"])
    found: list[dict[str, Any]] = content["Displays"]
    return found


def test_markers_are_where_the_tip_is_and_can_be_switched(displays: list[dict[str, Any]]) -> None:
    scene, path = Scene(new, ROBOT, CONFIGURATION, SPACE), np.zeros((2, 2))
    truth = dict.fromkeys((TIP, BASE), np.array([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]))
    markers = [*scene.estimate(estimate()), *scene.truth(1, truth), *scene.text(estimate()), *scene.legend(estimate())]
    markers += [*scene.path(1, path), *scene.path(1, path, truth=True)]
    (display,) = (one for one in displays if one["Class"].endswith("/MarkerArray"))
    assert {marker.ns for marker in markers} == set(display["Namespaces"])
    (ellipse,) = (marker for marker in markers if marker.ns == "position_95")
    assert {round(point.z, 6) for point in ellipse.points} == {0.13 + 0.05 * 0.2}  # clear of the tip by a little
    heights = {round(point.z, 6) for marker in markers if marker.ns == "bodies_95" for point in marker.points}
    assert len(heights) == len(ROBOT.body_shapes(CONFIGURATION))


def test_the_stiffness_map_is_where_the_tip_can_be_and_fades_where_nothing_was_learned() -> None:
    basis, count = stiffness_prior(CONFIGURATION).basis, CONFIGURATION.learning.functions
    # Known where it is bent by half a radian towards x, and stiffer there than the configuration has it.
    phi = basis.functions(np.array([[0.5, 0.0, 0.01]]))[0][0]
    weights = 0.03 * phi / (phi @ phi)
    covariance = 1e-4 * (np.eye(count) - np.outer(phi, phi) / (phi @ phi))
    learned = LearnedFunction(basis, np.array([0.15]), weights[None], covariance[None], np.zeros(1))
    marker = StiffnessSurface(new, CONFIGURATION, "softrobot/map").marker(learned, estimate())
    assert (marker.header.frame_id, marker.header.stamp.sec) == ("softrobot/map", 5)
    places = np.array([[point.x, point.y, point.z] for point in marker.points])
    colours = np.array([[colour.r, colour.g, colour.b, colour.a] for colour in marker.colors])
    assert len(places) == len(colours) == 6 * CELLS**2
    # Corners lie on a grid of bendings, at the elongation of the estimate.
    segment, beyond_m = GreyBox(CONFIGURATION).segment, CONFIGURATION.segment.tip_plate_thickness_m
    shapes = coordinates_of_tip(segment, places, beyond_m)
    tip = coordinates_of_tip(segment, estimate().mean[None, :3], beyond_m)[0]
    np.testing.assert_allclose(shapes[:, 2], tip[2], atol=1e-9)
    reach = 0.7 * CONFIGURATION.learning.half_width_rad
    np.testing.assert_allclose(np.unique(shapes[:, 0].round(6)), np.linspace(-reach, reach, CELLS + 1), atol=1e-6)
    surest, yellow = shapes[colours[:, 3].argmax()], shapes[colours[:, 0].argmax()]
    assert np.hypot(*(surest[:2] - [0.5, 0.0])) < 0.2
    assert np.hypot(*(yellow[:2] - [0.5, 0.0])) < 0.3
    assert colours[:, 3].min() == 0.0
    assert colours[:, 1].max() > colours[:, 1].min() + 0.1


@pytest.mark.usefixtures("compiled_kernels", "ros_domain")
@pytest.mark.slow
@pytest.mark.live
def test_a_simulated_robot_is_estimated_drawn_and_recorded_live(tmp_path: Path) -> None:
    bag, few = tmp_path / "bag", tmp_path / "few.yaml"
    few.write_text(to_parameter_file(load(SoftRobotConfiguration, {"learning.particles": 60})))  # on a busy machine
    words = ("softrobot.launch.py", f"record:={bag}", "seed:=3", "estimator:=marginalized_pf", f"config:={few}")
    launch = Launch(*words, log=tmp_path / "launch.log")
    try:
        topics = ("odometry", "state", "state_covariance", "ground_truth/tip/pose", "ground_truth/stiffness", "markers")
        topics += ("wrench", "pressure/chamber_3", "pressure/chamber_3/command")
        wait_until(lambda: all(recorded(bag, f"{NAMESPACE}/{topic}") > 20 for topic in topics))
        wait_until(lambda: recorded(bag, f"{NAMESPACE}/stiffness_map") > 1)
        assert launch.interrupt() == 0, launch.output
    finally:
        launch.kill()
    nothing_is_left()
    assert "Traceback" not in launch.output
    with open_bag(bag) as opened:
        assert opened.damage is None
        topic = f"{NAMESPACE}/state"
        channel = Channel(topic, "sensor_msgs/msg/JointState", "state", "position", tuple(SPACE.names))
        states = read_channels(opened, {topic: channel})[topic].values
    assert np.isfinite(states).all()
    np.testing.assert_allclose(states[:, 2], 0.135, atol=0.02)
