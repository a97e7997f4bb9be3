"""LandSalp's nodes as real processes over real DDS."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_graph import (
    LONGEST_WAIT_S,
    TF_IS_HERE,
    await_being_heard,
    call,
    collect,
    collect_transforms,
    listening_node,
    running,
    spin_until,
)

pytestmark = [
    pytest.mark.usefixtures("ros_domain"),
    pytest.mark.timeout(400),
    pytest.mark.live,
]

JOINTS = "sensor_msgs/msg/JointState"
FAST = ("-p", "rate:=5.0", "-p", "publish_clock:=true", "-p", "seed:=3")
NODE = "/salp/salp_estimator"


def stamp_s(message: Any) -> float:
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def test_a_simulation_ends_after_its_duration(tmp_path: Path) -> None:
    with running("salp_simulator", tmp_path, *FAST, "-p", "duration_s:=0.5") as simulator:
        assert simulator.popen.wait(LONGEST_WAIT_S) == 0
        assert "simulated 0.5 s, done" in simulator.output


def test_arguments_of_ros_that_are_none_are_said_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    for words, named in ((("--log-level", "loud"), "loud"), (("--params-file", str(broken)), "broken.yaml")):
        with running("salp_estimator", tmp_path, *words) as estimator:
            assert estimator.popen.wait(LONGEST_WAIT_S) == 2
            assert named in estimator.output
            assert "Traceback" not in estimator.output


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
def test_a_pose_from_outside_moves_the_map_and_not_the_odometry(tmp_path: Path) -> None:
    with running("salp_estimator", tmp_path) as estimator, listening_node() as node:
        estimator.wait_for("estimator ukf")
        states = collect(node, JOINTS, "state")
        odometry = collect(node, "nav_msgs/msg/Odometry", "odometry")
        transforms = collect_transforms(node)

        def map_to_odom() -> list[Any]:
            return [t.transform for m in transforms for t in m.transforms if t.child_frame_id == "salp/odom"]

        from geometry_msgs.msg import PoseWithCovarianceStamped

        publisher = node.create_publisher(PoseWithCovarianceStamped, "set_pose", 10)
        spin_until(node, lambda: publisher.get_subscription_count() > 0)
        await_being_heard(node, NODE)
        with running("salp_simulator", tmp_path):
            spin_until(node, lambda: len(odometry) > 60)
            given = PoseWithCovarianceStamped()
            given.header.frame_id = "salp/map"
            given.pose.pose.position.x = np.nan
            publisher.publish(given)
            spin_until(node, lambda: "pose refused: it holds numbers that are not finite" in estimator.output)
            given.pose.pose.position.x, given.pose.pose.position.y = 3.0, -2.0
            given.pose.pose.orientation.z = given.pose.pose.orientation.w = np.sqrt(0.5)
            given.pose.covariance[0] = given.pose.covariance[7] = 0.04
            given.pose.covariance[35] = 0.01
            before = len(odometry)
            publisher.publish(given)
            spin_until(node, lambda: any(m.position[0] > 2.5 for m in states))
            spin_until(node, lambda: len(odometry) > before + 60)
            spin_until(node, lambda: not TF_IS_HERE or map_to_odom()[-1].translation.x > 1.0)
    jumped = next(m for m in states if m.position[0] > 2.5)
    assert np.allclose(jumped.position[:3], [3.0, -2.0, np.pi / 2], atol=0.02)
    places = np.array([[m.pose.pose.position.x, m.pose.pose.position.y] for m in odometry])
    # The robot creeps; measurements can be missing where a process got no processor for a while.
    passed_s = np.diff([stamp_s(m) for m in odometry])[:, None]
    assert (np.abs(np.diff(places, axis=0)) < 0.005 + 0.1 * passed_s).all()
    if TF_IS_HERE:
        assert map_to_odom()[0].translation.x == 0.0
        assert abs(map_to_odom()[-1].translation.x - 3.0) < 0.2
    # The pose's covariance is what was given: 0.2 m along both axes, far more than what the filter had.
    after = odometry[-1].pose.covariance
    assert 0.03 < after[0] < 0.06


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
def test_an_estimator_that_was_killed_starts_again_from_the_ground_truth_and_goes_on(tmp_path: Path) -> None:
    truth = ("-p", "initial_from_truth:=true")
    with listening_node() as node, running("salp_simulator", tmp_path):
        odometry = collect(node, "nav_msgs/msg/Odometry", "odometry")
        with running("salp_estimator", tmp_path) as estimator:
            spin_until(node, lambda: len(odometry) > 10)
            assert estimator.stop(signal.SIGKILL) == -signal.SIGKILL
        with running("salp_estimator", tmp_path, *truth) as estimator:
            seen = len(odometry)
            estimator.wait_for("started from the ground truth at")
            spin_until(node, lambda: len(odometry) > seen + 20)
            assert call(node, "std_srvs/srv/Trigger", "reset").success
            spin_until(node, lambda: estimator.output.count("started from the ground truth at") == 2)
