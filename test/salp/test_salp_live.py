"""LandSalp's nodes as real processes over real DDS."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from functools import partial
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
    set_parameter,
    spin_until,
)
from numpy.typing import NDArray

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base import kernel_cache
from onboard_estimation.base.installed import resource
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT

pytestmark = [
    pytest.mark.usefixtures("compiled_kernels", "ros_domain"),
    pytest.mark.timeout(400),
    pytest.mark.live,
]

JOINTS = "sensor_msgs/msg/JointState"
FAST = ("-p", "rate:=5.0", "-p", "publish_clock:=true", "-p", "seed:=3")
NODE = "/salp/salp_estimator"


def angles(message: Any) -> NDArray[np.float64]:
    return np.array(message.position)


def stamp_s(message: Any) -> float:
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


@pytest.mark.slow
def test_simulated_robot_and_estimator_agree(tmp_path: Path) -> None:
    ideal = ("--params-file", str(resource("config/salp_ideal.yaml")), "-p", "use_sim_time:=true")
    with (
        running("salp_estimator", tmp_path, *ideal, "-p", "reliable_sensors:=true") as estimator,
        listening_node() as node,
    ):
        estimator.wait_for("estimator ukf")
        states = collect(node, JOINTS, "joint_states")
        stddevs = collect(node, JOINTS, "joint_states_stddev")
        odometry = collect(node, "nav_msgs/msg/Odometry", "odometry")
        path = collect(node, "nav_msgs/msg/Path", "path")
        diagnostics = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        truth = {k: collect(node, "geometry_msgs/msg/PoseStamped", f"ground_truth/link_{k}/pose") for k in (1, 2, 3)}
        await_being_heard(node, NODE)

        def heard_until(span_s: float) -> bool:
            series = (states, stddevs, *truth.values())
            return all(series) and min(stamp_s(one[-1]) for one in series) > stamp_s(states[0]) + span_s

        # Without an end: how long the nodes need to find each other is nobody's to say. Reliable, or the estimator
        # would lose seconds of measurements when it gets no processor for a while, and be wrong after that.
        with running("salp_simulator", tmp_path, *FAST) as simulator:
            errors: list[Any] = []
            span_s = 12.0
            while len(errors) <= 100:  # looked at once a second: a look takes longer than a message may
                spin_until(node, partial(heard_until, span_s))
                errors = errors_in_deviations(states, stddevs, truth)
                span_s += 1.0
            spin_until(node, lambda: len(diagnostics) > 0 and bool(path))
            assert simulator.stop() == 0

    # The motion capture's 0.02 deg are about half of the filter's deviation.
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) < 2.5
    assert max(np.degrees(angles(stddevs[-1]))) < 0.3
    assert odometry[-1].header.frame_id == "salp/odom"
    assert odometry[-1].child_frame_id == "salp/base_link"
    assert path[-1].poses
    statuses = {status.hardware_id: status for status in diagnostics[-1].status}
    assert set(statuses) == {"filter", "actuators/command", "imu/link_1", "imu/link_2", "imu/link_3"}


def errors_in_deviations(states: list[Any], stddevs: list[Any], truth: dict[int, list[Any]]) -> list[Any]:
    """Of both joint angles, where estimate, deviation and truth have one stamp; without the first 6 s."""
    heading = {
        k: {stamp_s(m): 2.0 * np.arctan2(m.pose.orientation.z, m.pose.orientation.w) for m in truth[k]} for k in truth
    }
    errors = []
    deviations = {stamp_s(m): m for m in stddevs}  # of the last of the three gyros of an instant
    for at_s, state in {stamp_s(m): m for m in states}.items():
        stddev = deviations.get(at_s)
        if at_s - stamp_s(states[0]) > 6.0 and stddev is not None and all(at_s in heading[k] for k in heading):
            true = np.array([heading[2][at_s] - heading[1][at_s], heading[3][at_s] - heading[2][at_s]])
            errors.append((angles(state) - true) / angles(stddev))
    return errors


def test_a_simulation_ends_after_its_duration(tmp_path: Path) -> None:
    with running("salp_simulator", tmp_path, *FAST, "-p", "duration_s:=0.5") as simulator:
        assert simulator.popen.wait(LONGEST_WAIT_S) == 0
        assert "simulated 0.5 s, done" in simulator.output


@pytest.mark.slow
def test_replay_through_the_node_gives_the_offline_estimates_bit_for_bit(tmp_path: Path) -> None:
    from onboard_estimation.judging.simulated_bags import simulate_to_bag

    bag = tmp_path / "bag"
    simulate_to_bag(ROBOT, SalpConfiguration(), "ideal", "forward", 8.0, 5, bag)
    offline = evaluated(bag, tmp_path / "run")
    everything = ("-p", "reliable_sensors:=true", "-p", "output_rate_hz:=0.0")
    with running("salp_estimator", tmp_path, *everything) as estimator, listening_node() as node:
        estimator.wait_for("estimator ukf")
        live = {topic: collect(node, JOINTS, topic, 10_000) for topic in ("state", "state_covariance", "joint_states")}
        live["odometry"] = collect(node, "nav_msgs/msg/Odometry", "odometry", 10_000)
        await_being_heard(node, NODE)
        words = ["play", str(bag), "--rate", "0", "--wait-for-subscribers", str(LONGEST_WAIT_S)]
        player = subprocess.Popen([sys.executable, "-m", "onboard_estimation", *words])
        try:
            spin_until(node, lambda: player.poll() is not None)
        finally:
            player.kill()
            player.wait()
        assert player.returncode == 0
        # Three gyros at the bag's last instant give three estimates: wait for the last of them, not for the first.
        with contextlib.suppress(AssertionError):
            spin_until(node, lambda: all(live[topic] and same(live[topic][-1], offline[topic][-1]) for topic in live))
    for topic, messages in live.items():
        assert len(messages) > 400
        for got, wanted in zip(last_of(messages), offline[topic], strict=True):
            assert same(got, wanted), (topic, stamp_s(got), numbers(got), stamp_s(wanted), numbers(wanted))


def same(got: Any, wanted: Any) -> bool:
    return stamp_s(got) == stamp_s(wanted) and np.array_equal(numbers(got), numbers(wanted))


def last_of(messages: list[Any]) -> list[Any]:
    """The last message of each instant, which `evaluate` writes: three gyros at once give three estimates live."""
    return list({stamp_s(message): message for message in messages}.values())


def numbers(message: Any) -> NDArray[np.float64]:
    if not hasattr(message, "pose"):
        return angles(message)
    pose = message.pose.pose
    place, turn = pose.position, pose.orientation
    return np.array([place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w, *message.pose.covariance])


def evaluated(bag: Path, output: Path) -> dict[str, list[Any]]:
    """By topic, the messages that `evaluate` writes for a bag without its ground truth."""
    drops = [word for link in (1, 2, 3) for word in ("--drop", f"ground_truth/link_{link}")]
    command = [sys.executable, "-m", "onboard_estimation", "evaluate", str(bag), *drops, "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True, timeout=200.0)
    messages: dict[str, list[Any]] = {}
    with open_bag(output / "estimates") as opened:
        for raw in opened.messages():
            messages.setdefault(raw.topic.rpartition("/")[2], []).append(opened.deserialize(raw))
    return messages


@pytest.mark.slow
def test_what_may_change_changes_and_what_may_not_says_why(tmp_path: Path) -> None:
    with running("salp_estimator", tmp_path) as estimator, listening_node() as node:
        estimator.wait_for("estimator ukf")
        assert set_parameter(node, NODE, "gate_probability", 0.99).successful
        assert set_parameter(node, NODE, "process.wheel_speed_noise_m_s_sqrt_hz", 2e-5).successful
        refused = set_parameter(node, NODE, "chain.wheel_radius_m", 0.05)
        assert not refused.successful
        assert "chain.wheel_radius_m: fixed while the node runs" in refused.reason
        refused = set_parameter(node, NODE, "gate_probability", 1.5)
        assert not refused.successful
        assert "gate_probability" in refused.reason
        refused = set_parameter(node, NODE, "gate_probability", "wide")
        assert not refused.successful
        assert "gate_probability: 'wide' is not allowed" in refused.reason
        answer = call(node, "std_srvs/srv/SetBool", "imu/link_2/enable", data=False)
        assert answer.success
        assert answer.message == "imu/link_2 left out from now on"
        answer = call(node, "std_srvs/srv/Trigger", "reset")
        assert answer.success
        assert answer.message


def test_all_faults_are_listed_before_anything_starts(tmp_path: Path) -> None:
    faults = ("-p", "gate_probability:=1.5", "-p", "gyro.axes:=z", "-p", "waiting_period_s:=0.0")
    with running("salp_estimator", tmp_path, *faults) as estimator:
        assert estimator.popen.wait(LONGEST_WAIT_S) == 2
        said = estimator.output
    assert "3 faults" in said
    assert "gate_probability: 1.5 is not allowed" in said
    assert "gyro.axes: unknown parameter; did you mean gyro.axis?" in said
    assert "waiting_period_s" in said
    assert "Traceback" not in said


def test_arguments_of_ros_that_are_none_are_said_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    for words, named in ((("--log-level", "loud"), "loud"), (("--params-file", str(broken)), "broken.yaml")):
        with running("salp_estimator", tmp_path, *words) as estimator:
            assert estimator.popen.wait(LONGEST_WAIT_S) == 2
            assert named in estimator.output
            assert "Traceback" not in estimator.output


@pytest.mark.slow
def test_the_estimator_says_what_it_waits_for(tmp_path: Path) -> None:
    with running("salp_estimator", tmp_path, "-p", "waiting_period_s:=0.5") as estimator:
        estimator.wait_for("waiting for /salp/actuators/command: 0 messages, /salp/imu/link_1/data_raw: 0 messages")


@pytest.mark.slow
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


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow
def test_an_estimator_that_starts_again_goes_on(tmp_path: Path, how: int) -> None:
    with listening_node() as node, running("salp_simulator", tmp_path):
        odometry = collect(node, "nav_msgs/msg/Odometry", "odometry")
        with running("salp_estimator", tmp_path) as estimator:
            spin_until(node, lambda: len(odometry) > 10)
            assert estimator.stop(how) == (-signal.SIGKILL if how == signal.SIGKILL else 0)
        with running("salp_estimator", tmp_path):
            seen = len(odometry)
            spin_until(node, lambda: len(odometry) > seen + 20)


@pytest.mark.slow
def test_start_from_the_ground_truth(tmp_path: Path) -> None:
    with (
        running("salp_estimator", tmp_path, "-p", "initial_from_truth:=true") as estimator,
        listening_node() as node,
    ):
        estimator.wait_for("estimator ukf")
        odometry = collect(node, "nav_msgs/msg/Odometry", "odometry")
        with running("salp_simulator", tmp_path):
            estimator.wait_for("started from the ground truth at")
            spin_until(node, lambda: len(odometry) > 5)
            assert call(node, "std_srvs/srv/Trigger", "reset").success
            spin_until(node, lambda: estimator.output.count("started from the ground truth at") == 2)


@pytest.mark.slow
def test_markers_show_estimate_truth_and_errors(tmp_path: Path) -> None:
    with (
        running("salp_estimator", tmp_path),
        running("markers", tmp_path),
        running("salp_simulator", tmp_path),
        listening_node() as node,
    ):
        arrays = collect(node, "visualization_msgs/msg/MarkerArray", "markers")
        transforms = collect_transforms(node)

        def complete() -> bool:
            found = {marker.ns for array in arrays for marker in array.markers}
            return {"estimate", "truth", "position_95", "error"} <= found

        spin_until(node, complete)
        wanted = {
            ("salp/map", "salp/odom"),
            ("salp/odom", "salp/base_link"),
            ("salp/base_link", "salp/link_1"),
            ("salp/link_1", "salp/link_2"),
            ("world", "salp/truth/link_1"),
        }

        def frames() -> set[tuple[str, str]]:
            return {(t.header.frame_id, t.child_frame_id) for m in transforms for t in m.transforms}

        spin_until(node, lambda: not TF_IS_HERE or frames() >= wanted)
        pairs = frames()
        text = next(m.text for array in reversed(arrays) for m in array.markers if m.ns == "error")
    assert "cm" in text
    assert len({child for _, child in pairs}) == len(pairs), "a frame has two parents"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_cold_nodes_start_together_and_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("ONBOARD_ESTIMATION_CACHE_DIR", str(tmp_path / "cache"))
    broken_off = tmp_path / "cache" / f"{kernel_cache.FOLDER_PREFIX}{kernel_cache.fingerprint()}" / "some"
    broken_off.mkdir(parents=True)  # by a start that was interrupted: the rest is compiled now, and that is said
    with running("salp_estimator", tmp_path) as estimator, running("salp_simulator", tmp_path) as simulator:
        # Neither a home nor any other place for the cache that could be written, as in a read-only installation.
        monkeypatch.delenv("ONBOARD_ESTIMATION_CACHE_DIR")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", "/proc/nobody")
        with running("salp_simulator", tmp_path, namespace="/homeless") as homeless:
            estimator.wait_for("estimator ukf", 500.0)
            for process in (simulator, homeless):
                process.wait_for("simulated salp", 500.0)
    for process in (estimator, simulator, homeless):
        assert "Traceback" not in process.output
        warnings = [line for line in process.output.splitlines() if "arning" in line and "waiting for" not in line]
        assert len(warnings) <= 1, warnings
    assert "compiling kernels, once" in estimator.output
    assert "compiled kernels are not kept" in homeless.output
