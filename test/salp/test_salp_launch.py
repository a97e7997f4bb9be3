"""LandSalp's launch files, as a user starts and ends them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from launched import Launch, nothing_is_left, recorded
from live_graph import LONGEST_WAIT_S, wait_until

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.installed import resource
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.sources import choose_robot, load_recording
from onboard_estimation.pipeline.pipeline import Pipeline

pytestmark = [
    pytest.mark.usefixtures("compiled_kernels", "ros_domain"),
    pytest.mark.timeout(400),
    pytest.mark.live,
]


def estimates_of(bag: Path) -> list[int]:
    """Stamps, ns, of what the estimator makes of a bag without any ROS, one message after the other."""
    options = EvaluateOptions(config=resource("config/salp.yaml"))
    with open_bag(bag) as opened:
        kinds = {name: topic.message_type for name, topic in opened.topics.items()}
        robot, configuration, match = choose_robot(options, kinds)
        recording = load_recording(opened, robot, match, options)
    pipeline = Pipeline(robot.estimator(configuration, robot.estimators[0]), lag_s=configuration.lag_s)
    estimates = [pipeline.process(measurement) for measurement in recording.measurements()]
    return [estimate.stamp_ns for estimate in estimates if estimate is not None]


def stamps_ns(bag: Path, topic: str) -> list[int]:
    """Of the headers of a topic's messages."""
    with open_bag(bag) as opened:
        stamps = [struct.unpack_from("<iI", message.data, 4) for message in opened.messages([topic])]
    return [seconds * 10**9 + nanoseconds for seconds, nanoseconds in stamps]


@pytest.mark.slow
def test_simulated_robot_is_recorded_until_ctrl_c_and_replayed(tmp_path: Path) -> None:
    bag, replayed = tmp_path / "bag", tmp_path / "replayed"
    launch = Launch("salp.launch.py", f"record:={bag}", "markers:=false", "imu_rate_hz:=50.0", log=tmp_path / "one.log")
    try:
        launch.wait_for("started from the ground truth")
        wait_until(lambda: recorded(bag, "/salp/odometry") > 100 and recorded(bag, "/salp/imu/link_1/data_raw") > 50)
        assert launch.interrupt() == 0, launch.output
    finally:
        launch.kill()
    nothing_is_left()
    assert "Traceback" not in launch.output
    with open_bag(bag) as opened:
        assert opened.damage is None
        assert opened.topics["/salp/odometry"].count > 100
        assert opened.topics["/salp/imu/link_1/data_raw"].count > 50
        assert opened.custom_data["source"] == "simulated"
        gyros = sum(opened.topics[f"/salp/imu/link_{link}/data_raw"].count for link in (1, 2, 3))

    words = ("salp_replay.launch.py", f"bag:={bag}", "rate:=0", f"record:={replayed}", "markers:=false")
    replay = Launch(*words, log=tmp_path / "two.log")
    try:
        assert replay.process.wait(2 * LONGEST_WAIT_S) == 0, replay.output  # two starts, and a bag of any length
    finally:
        replay.kill()
    nothing_is_left()
    assert "topics played" in replay.output
    # Each estimate that comes of the messages in their order, and none that the bag holds from its own run. A bag of
    # a busy machine holds some out of order: late ones are filtered, but no estimate is published for them.
    expected = estimates_of(bag)
    assert 0 < len(expected) <= gyros
    assert stamps_ns(replayed, "/salp/state") == expected
    with open_bag(replayed) as opened:
        assert opened.custom_data["source"] == "simulated"


@pytest.mark.slow
def test_a_node_that_refuses_its_parameters_ends_the_launch(tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.yaml"
    faulty.write_text("/**:\n  ros__parameters:\n    gate_probability: 1.5\n")
    launch = Launch("salp.launch.py", f"config:={faulty}", "markers:=false", log=tmp_path / "launch.log")
    try:
        launch.process.wait(LONGEST_WAIT_S)
    finally:
        launch.kill()
    *_, last = launch.output.splitlines()
    assert last.startswith("error: salp_"), launch.output  # estimator or simulator, whichever comes first
    assert "gate_probability: 1.5 is not allowed" in launch.output
    assert "process started with pid" in launch.output
    nothing_is_left()
