"""With an installed ROS 2: graphs as both show them, and the package built by colcon. Bags: `test_record_play`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from ros2_support import ROOT, Peer, Running, ours, real_ros2, sourced

pytestmark = pytest.mark.ros2

PROGRAM = ROOT / "test" / "support" / "ros2_peer.py"
OURS = ("-m", "onboard_estimation")
LONGEST_S = 400.0  # kernels may have to be compiled first
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


@pytest.fixture
def environment(ros_domain: int) -> dict[str, str]:
    return {"ROS_DOMAIN_ID": str(ros_domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


# Graphs


@pytest.fixture
def graph(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """With nodes of both in it: /a of the installed ROS 2, /b of ours."""
    words = (PROGRAM, "--ros-args", "-r")
    with real_ros2().start(*words, "__ns:=/a", **environment) as theirs, ours().start(*words, "__ns:=/b") as own:
        for process in (theirs, own):
            process.wait_ready()
        yield environment


def shape(text: str) -> list[str]:
    """Without the numbers, which are those of different messages."""
    return [_NUMBER.sub("N", line.rstrip()) for line in text.splitlines() if line.strip()]


def test_topics_are_the_same_to_both(graph: dict[str, str]) -> None:
    # Without the daemon, which would outlive the test.
    listed = real_ros2().command("ros2", "topic", "list", "-t", "--no-daemon", "--spin-time", "2", **graph)
    own = ours().run(*OURS, "topic", "list", "-t", **graph)
    assert own.returncode == listed.returncode == 0, own.stderr + listed.stderr
    assert own.stdout.split("\n") == listed.stdout.split("\n")
    assert "/b/odometry [nav_msgs/msg/Odometry]" in own.stdout


def test_messages_and_rates_are_shown_across(graph: dict[str, str]) -> None:
    words = ("topic", "echo", "--once")
    typed = ("--no-daemon", "/b/odometry", "nav_msgs/msg/Odometry")
    shown = real_ros2().command("ros2", *words, *typed, **graph)
    own = ours().run(*OURS, *words, "/a/odometry", **graph)
    assert shown.returncode == own.returncode == 0, shown.stderr + own.stderr
    assert shape(shown.stdout) == shape(own.stdout)
    assert "child_frame_id: base_link" in own.stdout.splitlines()
    with (
        real_ros2().start_command("ros2", "topic", "hz", "/b/imu", **graph) as theirs,
        ours().start(*OURS, "topic", "hz", "/a/imu", **graph) as ours_too,
    ):
        for process in (theirs, ours_too):
            process.wait_for_line("average rate:")


# The package built by colcon


ALSO = {
    "thruster_chain": ("inertial_parameters", "inertial_parameters_stddev", "observability_forecast"),
    "softrobot": ("stiffness_map",),
}
"""Topics that only this robot has."""
PARTICLES = {"softrobot": "marginalized_pf"}
"""Of those that start from what their sensors say."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    """ROS 2 with this package built and sourced."""
    ros2 = real_ros2()
    if shutil.which("colcon", path=ros2.environment["PATH"]) is None:
        pytest.skip("no colcon")
    modules = ros2.run("-c", "import numba, scipy, numpy; print('all there')")
    if "all there" not in modules.stdout:
        pytest.skip(f"{ros2.python} lacks what the nodes need: {modules.stderr.splitlines()[-1]}")
    folder = tmp_path_factory.mktemp("workspace")
    unneeded = shutil.ignore_patterns(
        ".*", "__pycache__", "*.egg-info", "build", "install", "log", "benchmarks", "test"
    )
    shutil.copytree(ROOT, folder / "src" / "onboard_estimation", ignore=unneeded)
    places = ("--base-paths", folder / "src", "--build-base", folder / "build", "--install-base", folder / "install")
    built = ros2.command("colcon", "--log-base", folder / "log", "build", *places, timeout_s=300.0)
    assert built.returncode == 0, built.stdout + built.stderr
    return sourced(folder / "install" / "local_setup.bash", ros2.environment)


def assert_quiet_end(process: Running) -> None:
    assert process.stop(timeout_s=20.0) == 0, "\n".join(process.lines[-30:])
    assert process.left() == []
    assert not [line for line in process.lines if "Traceback" in line or "has died" in line], "\n".join(process.lines)


def test_ros2_finds_the_executables(installed: Peer) -> None:
    listed = installed.command("ros2", "pkg", "executables", "onboard_estimation")
    assert "onboard_estimation salp_estimator" in listed.stdout.splitlines()
    helped = installed.command("ros2", "run", "onboard_estimation", "onboard-estimation", "--help")
    assert helped.returncode == 0, helped.stderr
    for robot in ("salp", "hopper", "strapdown", "thruster_chain", "softrobot"):
        for file, argument in ((f"{robot}.launch.py", "source"), (f"{robot}_replay.launch.py", "start_offset")):
            shown = installed.command("ros2", "launch", "onboard_estimation", file, "--show-args")
            assert shown.returncode == 0, shown.stderr
            assert f"'{argument}'" in shown.stdout
            assert f"/config/{robot}.yaml" in shown.stdout


@pytest.mark.parametrize("robot", ["salp", "thruster_chain", "softrobot"])
def test_ros2_launch_runs_the_simulated_robot_and_ends_with_ctrl_c(
    robot: str, installed: Peer, environment: dict[str, str], tmp_path: Path
) -> None:
    words, started = [f"{robot}.launch.py", "source:=simulated", f"record:={tmp_path / 'run'}"], "from the ground truth"
    if robot in PARTICLES:
        words, started = [*words, f"estimator:={PARTICLES[robot]}"], f"{robot}, estimator {PARTICLES[robot]}"
    with installed.start_command("ros2", "launch", "onboard_estimation", *words, **environment) as launched:
        launched.wait_for_line(started, LONGEST_S)
        topics = [f"/{robot}/odometry", f"/{robot}/markers", *(f"/{robot}/{name}" for name in ALSO.get(robot, ()))]
        for topic in topics:
            words = ("ros2", "topic", "echo", "--once", "--no-daemon", topic)
            shown = installed.command(*words, timeout_s=LONGEST_S, **environment)
            assert shown.returncode == 0, shown.stderr
        wanted = {f"/{robot}/{robot}_estimator", f"/{robot}/{robot}_simulator", f"/{robot}/markers", "/recorder"}
        listed = installed.command("ros2", "node", "list", "--no-daemon", "--spin-time", "3", **environment)
        assert wanted <= set(listed.stdout.split())
        assert_quiet_end(launched)
        assert sum("has finished cleanly" in line for line in launched.lines) == 4
    info = installed.command("ros2", "bag", "info", tmp_path / "run")
    for topic in topics:
        assert topic in info.stdout, info.stderr


def test_what_is_wrong_ends_as_with_ros2_launch(installed: Peer, environment: dict[str, str], tmp_path: Path) -> None:
    files = {
        "choice": 'DeclareLaunchArgument("mode", default_value="a", choices=["a", "b"], description="which")',
        "missing": 'DeclareLaunchArgument("name", description="without a default")',
        "raises": "OpaqueFunction(function=lambda context: 1 / 0)",
        "died": 'ExecuteProcess(cmd=["bash", "-c", "exit 3"])',
        "shutdown": 'ExecuteProcess(cmd=["bash", "-c", "exit 3"], on_exit=Shutdown(reason="it ended"))',
    }
    for name, action in files.items():
        path = tmp_path / f"{name}.launch.py"
        path.write_text(
            "from launch import LaunchDescription\n"
            "from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown\n"
            f"def generate_launch_description():\n    return LaunchDescription([{action}])\n"
        )
        theirs = installed.command("ros2", "launch", path, "mode:=c", **environment)
        own = ours().run(*OURS, "launch", path, "mode:=c", **environment)
        assert own.returncode == theirs.returncode, name
        died = ["process has died" in done.stdout + done.stderr for done in (own, theirs)]
        assert died[0] == died[1], name
