"""HEBI's driver with imitation groups of HEBI's library: its threads, buffers and refusals, without a module."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launched import Launch, recorded
from live_graph import wait_until
from node_here import NodeHere, nodes_here

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("hebi") is None,
        reason="hebi-py is not installed (pip install --no-deps hebi-py)",
    ),
    pytest.mark.usefixtures("ros_domain"),
]

NAMES = ["names:=[a, b, c]", "imu_names:=[link_1, link_2, link_3]"]


@pytest.fixture
def running() -> Iterator[Callable[..., NodeHere]]:
    def make() -> Any:
        from drivers.hebi.node import HebiNode

        return HebiNode()

    with nodes_here(make) as here:
        yield lambda *words: here("source:=imitation", *NAMES, *words)


def imitated(one: NodeHere) -> Any:
    """The imitation behind the node."""
    return one.node.feed


def test_every_feedback_of_the_library_comes_out_and_is_handed_on(running: Callable[..., NodeHere]) -> None:
    from sensor_msgs.msg import Imu, JointState

    one = running("feedback_frequency_hz:=500.0", "gyro_variance:=4.0e-6")
    heard = [one.listen(Imu, f"imu/link_{number}/data_raw") for number in (1, 2, 3)]
    joints = one.listen(JointState, "joint_states")
    taken: list[Any] = []
    written: list[np.ndarray] = []

    feed = imitated(one)
    write = feed.write

    def write_more(feedback: Any) -> None:
        """Numbers that no two feedbacks share."""
        write(feedback)
        feedback.gyro[:] = 0.001 * len(written) + np.arange(9).reshape(3, 3)
        feedback.orientation[1] = [1.0, 0.0, 0.0, 0.0]
        written.append(feedback.gyro.astype(np.float64))

    feed.write = write_more
    one.node.hand_to(lambda readings: taken.extend(readings) or 0.0, ["imu/link_1/data_raw", "imu/link_3/data_raw"])
    counts = [publisher.get_subscription_count for publisher in one.node.outputs.values()]
    counts += [subscription.get_publisher_count for subscription in one.listener.subscriptions]
    while not all(count() for count in counts):  # each side finds the other by itself
        time.sleep(0.01)
    one.until(lambda: all(len(messages) >= 600 for messages in heard) and len(taken) >= 1200)
    assert feed.counts["overflow"] == 0
    for place in (0, 1, 2):
        rates = [message.angular_velocity.x for message in heard[place][:600]]
        assert rates == [one[place, 0] for one in written[:600]]
        stamps = [message.header.stamp.sec * 10**9 + message.header.stamp.nanosec for message in heard[place]]
        assert (np.diff(stamps) > 0).all()
        assert abs(stamps[-1] - time.time_ns()) < 60e9
    assert heard[0][-1].orientation_covariance[0] == -1.0
    assert heard[1][-1].orientation_covariance[0] == 0.0
    assert (heard[1][-1].orientation.w, heard[1][-1].orientation.x) == (1.0, 0.0)
    assert heard[0][-1].angular_velocity_covariance.tolist() == [4e-6, 0.0, 0.0, 0.0, 4e-6, 0.0, 0.0, 0.0, 4e-6]
    assert {reading.sensor for reading in taken} == {"imu/link_1", "imu/link_3"}
    handed_on = [reading.value[0] for reading in taken if reading.sensor == "imu/link_1"]
    assert handed_on[:600] == [one[0, 0] for one in written[:600]]
    assert list(joints[-1].name) == ["link_1", "link_2", "link_3"]


def test_a_module_that_vanishes_and_returns_and_reports_that_fail_are_told_of(
    running: Callable[..., NodeHere], capfd: Any
) -> None:
    from sensor_msgs.msg import Imu

    one = running("silent_s:=0.5", "diagnostics_period_s:=0.2")
    said: list[str] = []

    def until_told(words: str) -> None:
        def is_told() -> bool:
            said.append("".join(capfd.readouterr()))
            return words in "".join(said)

        one.until(is_told)

    one.until(lambda: one.state("b").level == b"\x00")
    imitated(one).silent.add(1)
    one.until(lambda: one.state("b").level == b"\x03")
    imitated(one).silent.clear()
    until_told("module b answers again")
    assert "module b has been silent for 0." in "".join(said)
    # What stands beside the readings ends alone.
    one.node.destroy_publisher(one.node._diagnostics)
    until_told("publishing /diagnostics has ended: ")
    readings = one.listen(Imu, "imu/link_1/data_raw")
    one.until(lambda: len(readings) > 20)


def test_commands_reach_the_modules_and_faulty_ones_are_counted(running: Callable[..., NodeHere]) -> None:
    from sensor_msgs.msg import JointState

    one = running()
    states = one.listen(JointState, "joint_states")
    output = one.listener.create_publisher(JointState, "actuators/command", 10)
    right = JointState(name=["link_3", "link_1", "link_2"], velocity=[3.0, 1.0, 2.0])
    wrong = JointState(name=["link_3", "link_1"], velocity=[9.0, 9.0])
    counts = one.node.feed.counts
    assert imitated(one).group.command_lifetime == 250

    def send(message: Any, done: Callable[[], object]) -> None:
        def again() -> object:
            output.publish(message)
            return done()

        one.until(again)

    send(right, lambda: states and list(states[-1].velocity) == [1.0, 2.0, 3.0])
    send(wrong, lambda: counts["commands_refused"] >= 3)
    assert list(states[-1].velocity) == [1.0, 2.0, 3.0]
    assert counts["commands_unsent"] == 0


def test_what_cannot_start_says_so(running: Callable[..., NodeHere]) -> None:
    for words, said in (
        (["source:=network", "lookup_timeout_s:=0.3"], "modules not found within 0.3 s: HEBI/a, HEBI/b"),
        (["robot:=salp", "imu_names:=[left, right, link_3]"], "has no imu/left, imu/right"),
    ):
        with pytest.raises(UserError, match=said):
            running(*words)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_kernels")
def test_the_launched_imitation_moves_and_is_estimated(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    words = ("source:=hebi_imitation", "composed:=true", f"record:={bag}", "markers:=false")
    with Launch("salp.launch.py", *words, log=tmp_path / "launch.log") as launch:
        launch.wait_for("started from the ground truth")
        wait_until(lambda: recorded(bag, "/salp/odometry") > 200 and recorded(bag, "/salp/actuators/command") > 20)
        assert launch.interrupt() == 0, launch.output
    assert "without messages between, from hebi" in launch.output
    with open_bag(bag) as opened:
        assert opened.custom_data["source"] == "simulated"
        assert opened.topics["/salp/imu/link_2/data_raw"].count > 100
        assert opened.topics["/salp/actuators/state"].count > 100
        assert opened.topics["/salp/ground_truth/link_3/pose"].count > 100
