"""LandSalp's launch files, as a user starts and ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from live_graph import LONGEST_WAIT_S, wait_until

from onboard_estimation import embedded_ros
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import open_bag

pytestmark = [
    pytest.mark.usefixtures("compiled_kernels", "ros_domain"),
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        embedded_ros.runtime() is not embedded_ros.Runtime.EMBEDDED,
        reason="with ROS 2, launch files run from a colcon workspace",
    ),
]
LAUNCH = [sys.executable, "-m", "onboard_estimation", "launch"]


class Launch:
    """A running launch with its output."""

    def __init__(self, *words: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen([*LAUNCH, *words], stdout=file, stderr=file, start_new_session=True)

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.output or self.process.poll() is not None, LONGEST_WAIT_S)
        assert words in self.output, self.output

    def interrupt(self) -> int:
        """Ctrl-C in a terminal: everything in the foreground gets it; the launch's exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(LONGEST_WAIT_S)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(LONGEST_WAIT_S)


def children_in_domain() -> list[str]:
    """Command lines of all processes that have this test's domain in their environment, but for this one."""
    wanted = f"ROS_DOMAIN_ID={os.environ['ROS_DOMAIN_ID']}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended meanwhile
    return found


def nothing_is_left() -> None:
    try:
        wait_until(lambda: not children_in_domain())
    except AssertionError:
        raise AssertionError(f"left: {children_in_domain()}") from None


def recorded(bag: Path, topic: str) -> int:
    """Messages of a topic that a recording under way has on the disk."""
    try:
        with open_bag(bag) as opened:
            return opened.topics[topic].count if topic in opened.topics else 0
    except (UserError, OSError):
        return 0


@pytest.mark.parametrize("name", ["salp.launch.py", "salp_replay.launch.py"])
def test_arguments_are_shown(name: str) -> None:
    shown = subprocess.run([*LAUNCH, name, "--show-args"], capture_output=True, text=True, timeout=LONGEST_WAIT_S)
    assert shown.returncode == 0
    assert "'namespace':" in shown.stdout
    assert "bag to record all topics into" in shown.stdout


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
        gyros = sum(opened.topics[f"/salp/imu/link_{link}/data_raw"].count for link in (1, 2, 3))

    words = ("salp_replay.launch.py", f"bag:={bag}", "rate:=0", f"record:={replayed}", "markers:=false")
    replay = Launch(*words, log=tmp_path / "two.log")
    try:
        assert replay.process.wait(LONGEST_WAIT_S) == 0, replay.output
    finally:
        replay.kill()
    nothing_is_left()
    assert "topics played" in replay.output
    with open_bag(replayed) as opened:
        # One for each measurement of a gyro after the first command, and none that the bag holds from its own run.
        assert 0.9 * gyros < opened.topics["/salp/state"].count <= gyros


def test_an_estimator_that_is_killed_is_started_again(tmp_path: Path) -> None:
    launch = Launch("salp.launch.py", "markers:=false", log=tmp_path / "launch.log")
    try:
        launch.wait_for("started from the ground truth")
        first = next(line for line in launch.output.splitlines() if "salp_estimator" in line and "pid" in line)
        os.kill(int(first.rpartition("[")[2].rstrip("]")), signal.SIGKILL)
        wait_until(lambda: launch.output.count("started from the ground truth") == 2, LONGEST_WAIT_S)
        assert launch.interrupt() == 0, launch.output
    finally:
        launch.kill()
    assert "process has died" in launch.output
    nothing_is_left()


def test_a_node_that_refuses_its_parameters_ends_the_launch(tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.yaml"
    faulty.write_text("/**:\n  ros__parameters:\n    gate_probability: 1.5\n")
    launch = Launch("salp.launch.py", f"config:={faulty}", "markers:=false", log=tmp_path / "launch.log")
    try:
        launch.process.wait(LONGEST_WAIT_S)
    finally:
        launch.kill()
    assert "gate_probability: 1.5 is not allowed" in launch.output
    assert "process started with pid" in launch.output
    nothing_is_left()


def test_what_cannot_be_launched_is_said_in_one_line(tmp_path: Path) -> None:
    for words, sentence in (
        (("salp.launch.py", "source:=sun"), '"sun"'),
        (("salp.launch.py", "log_level:=loud"), '"loud"'),
        (("salp.launch.py", "source:=bag"), "bag:=<bag to play>"),
        (("salp.launch.py", "source:=bag", f"bag:={tmp_path / 'none'}"), "none does not exist"),
        (("salp.launch.py", f"record:={tmp_path}"), "exists already"),
        (("salp_replay.launch.py", f"bag:={tmp_path / 'none'}"), "none does not exist"),
        (("salp_replay.launch.py", f"bag:={tmp_path}", f"record:={tmp_path}"), "exists already"),
        (("salmon.launch.py",), "salp.launch.py"),
    ):
        done = subprocess.run([*LAUNCH, *words], capture_output=True, text=True, timeout=LONGEST_WAIT_S)
        assert done.returncode in (1, 2)
        assert sentence in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert "process started" not in done.stdout + done.stderr


def test_parameter_files_say_what_the_nodes_take(repository: Path) -> None:
    """Every line of the nodes' file is a parameter that the node has, with its default."""
    from onboard_estimation.configuration import describe

    embedded_ros.install()
    from onboard_estimation.nodes.estimator import EstimatorHost
    from onboard_estimation.nodes.markers import MarkerHost
    from onboard_estimation.nodes.simulator import SimulatorHost

    content = yaml.safe_load((repository / "config" / "salp_nodes.yaml").read_text())
    hosts = {"salp_estimator": EstimatorHost, "salp_simulator": SimulatorHost, "markers": MarkerHost}
    assert set(content) == {f"/**/{name}" for name in hosts}
    named = {"estimator": "ukf", "scenario": "ideal", "variant": "forward"}  # "" in general, by name for this robot
    for name, host in hosts.items():
        defaults = {
            row.name: list(row.default) if isinstance(row.default, tuple) else row.default for row in describe(host)
        }
        written = content[f"/**/{name}"]["ros__parameters"]
        assert written == {key: named.get(key, value) for key, value in defaults.items()}
