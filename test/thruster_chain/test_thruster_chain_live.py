"""The thruster chain's launch file, as a user starts and ends it: simulated robot, estimator, recorder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launched import Launch, nothing_is_left, recorded
from live_graph import LONGEST_WAIT_S, wait_until

from onboard_estimation.bags.bag import Bag, open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.base.measurement import Channel
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.space import parameter_names

pytestmark = [
    pytest.mark.usefixtures("ros_domain"),
    pytest.mark.timeout(600),
    pytest.mark.live,
]

NAMESPACE = "/thruster_chain"


def column(bag: Bag, name: str, names: tuple[str, ...]) -> np.ndarray:
    topic = f"{NAMESPACE}/{name}"
    channel = Channel(topic, "sensor_msgs/msg/JointState", name, "position", names)
    return read_channels(bag, {topic: channel})[topic].values


def test_a_bag_of_another_namespace_than_the_nodes_is_said(tmp_path: Path) -> None:
    """Converted recordings have none."""
    bag = tmp_path / "bag"
    words = ("simulate", "thruster_chain", "--duration", "1", "--output", str(bag))
    subprocess.run([sys.executable, "-m", "onboard_estimation", *words], check=True, timeout=LONGEST_WAIT_S)
    words = ("thruster_chain_replay.launch.py", f"bag:={bag}", "markers:=false", "namespace:=/elsewhere")
    launch = Launch(*words, log=tmp_path / "launch.log")
    try:
        launch.wait_for("whose topics are in the namespace /thruster_chain: the launch argument is namespace:=/thrus")
        assert launch.interrupt() == 0, launch.output
    finally:
        launch.kill()
    nothing_is_left()


def test_a_simulated_chain_tells_its_joints_and_inertial_parameters(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    words = ("thruster_chain.launch.py", f"record:={bag}", "markers:=false", "seed:=3")
    launch = Launch(*words, log=tmp_path / "launch.log")
    try:
        launch.wait_for("started from the ground truth")
        topics = ("odometry", "inertial_parameters_stddev", "joint_states", "ground_truth/inertial_parameters")
        topics += ("observability", "observability_forecast")
        wait_until(lambda: all(recorded(bag, f"{NAMESPACE}/{topic}") > 1 for topic in topics))
        assert launch.interrupt() == 0, launch.output
    finally:
        launch.kill()
    nothing_is_left()
    assert "Traceback" not in launch.output
    names = parameter_names(("link_1", "link_2", "link_3"))
    with open_bag(bag) as opened:
        assert opened.damage is None
        masses = column(opened, "inertial_parameters", names)
        stddevs = column(opened, "inertial_parameters_stddev", names)
        truth = column(opened, "ground_truth/inertial_parameters", names)
        joints = column(opened, "joint_states", ("joint_1", "joint_2"))
        seen = column(opened, "observability", ("normal_n.link_1", "net_n.link_3", "rank", "states", "smallest"))
        forecasts = [message.data for message in opened.messages([f"{NAMESPACE}/observability_forecast"])]
    # The true masses are drawn around the design, which is where the estimate starts.
    np.testing.assert_array_less(np.abs(masses[0] - truth[0]), 4.0 * stddevs[0])
    assert np.abs(truth[0][:3] - ThrusterChainConfiguration().chain.masses).max() > 0.01
    assert (np.abs(joints) < np.pi).all()
    # The heading of the whole is hidden, and with unknown gains so is the common scale of all masses.
    assert ((seen[:, 2] < seen[:, 3]) & (seen[:, 4] > 0.0)).all()
    assert all(b"push thruster" in data or b"known to" in data or b"no single push" in data for data in forecasts)
    assert any(b"the common heading" in data for data in forecasts)
