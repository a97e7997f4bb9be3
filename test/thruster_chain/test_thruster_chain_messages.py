"""What a thruster chain's node publishes: odometry of the centre of mass, joints, inertial parameters; RViz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from rviz_files import MESSAGE_OF_DISPLAY

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate
from onboard_estimation.nodes.for_launch import published_topics
from onboard_estimation.ros.estimates import EstimateMessages
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.space import initial_covariance, published_space

CONFIGURATION = ThrusterChainConfiguration()
SPACE = published_space(CONFIGURATION)
NAMESPACE = "/thruster_chain"


def estimate() -> Estimate:
    """Links across the cut of the angles; headings of neighbours that are correlated."""
    mean, covariance = SPACE.origin(), initial_covariance(CONFIGURATION)
    mean[:3], mean[6:9], mean[9:12] = [3.1, -3.1, -2.9], [0.4, 0.5, 0.6], [0.002, 0.003, 0.004]
    mean[12:] = [1.0, 2.0, 0.3, -0.4]
    covariance[0, 1] = covariance[1, 0] = 0.004
    covariance[12, 13] = covariance[13, 12] = 2e-5
    covariance[14:, 14:] = [[4e-4, 1e-4], [1e-4, 9e-4]]
    return Estimate(5_000_000_000, mean, covariance)


def test_messages_are_of_the_centre_of_mass_the_joints_and_the_parameters() -> None:
    found = {output.topic: output.message for output in EstimateMessages(SPACE, new)(estimate())}
    pose, twist = found["odometry"].pose, found["odometry"].twist
    assert (pose.pose.position.x, pose.pose.position.y, pose.pose.orientation.w) == (1.0, 2.0, 1.0)
    assert (twist.twist.linear.x, twist.twist.linear.y) == (0.3, -0.4)
    place, velocity = (np.reshape(one.covariance, (6, 6)) for one in (pose, twist))
    np.testing.assert_allclose(place[:2, :2], [[1e-4, 2e-5], [2e-5, 1e-4]])
    np.testing.assert_allclose(velocity[:2, :2], [[4e-4, 1e-4], [1e-4, 9e-4]])
    for matrix in (place, velocity):
        np.testing.assert_allclose(np.diag(matrix)[2:], [1e-9, 1e-9, 1e-9, 1e6])  # nothing is known of its heading
    assert found["joint_states"].name == ["joint_1", "joint_2"]
    np.testing.assert_allclose(found["joint_states"].position, [2.0 * np.pi - 6.2, 0.2], atol=1e-12)
    np.testing.assert_allclose(found["joint_states_stddev"].position, np.sqrt([0.02 - 0.008, 0.02]))
    names = [f"{block}.link_{link}" for block in ("masses", "inertias") for link in (1, 2, 3)]
    assert found["inertial_parameters"].name == found["inertial_parameters_stddev"].name == names
    np.testing.assert_allclose(found["inertial_parameters"].position, [0.4, 0.5, 0.6, 0.002, 0.003, 0.004])
    expected = np.repeat([0.5, 0.0026], 3) * 0.3 / np.sqrt(3.0)
    np.testing.assert_allclose(found["inertial_parameters_stddev"].position, expected)


def test_rviz_shows_what_is_published(repository: Path) -> None:
    file = repository / "config" / "thruster_chain.rviz"
    rviz = yaml.safe_load(file.read_text(encoding="utf-8"))["Visualization Manager"]
    known = {f"{NAMESPACE}/{topic}": kind for topic, kind in EstimateMessages(SPACE, new).types().items()}
    assert known.keys() <= set(published_topics("thruster_chain"))  # which a player leaves out
    known |= {f"{NAMESPACE}/ground_truth/link_{i}/pose": "geometry_msgs/msg/PoseStamped" for i in (1, 2, 3)}
    known |= {f"{NAMESPACE}/path": "nav_msgs/msg/Path", f"{NAMESPACE}/markers": "visualization_msgs/msg/MarkerArray"}
    displays = {display["Class"].partition("/")[2]: display for display in rviz["Displays"]}
    for display in rviz["Displays"]:
        kind = MESSAGE_OF_DISPLAY.get(display["Class"].partition("/")[2])
        assert kind is None or known[display["Topic"]["Value"]] == kind
    assert displays["Odometry"]["Covariance"]["Value"] is False  # it drifts: the view goes along with the truth
