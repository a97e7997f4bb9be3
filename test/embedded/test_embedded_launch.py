"""The embedded launch: launch files in processes of their own, with real processes below them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST_WAIT_S = 90.0
HEADER = """
import sys
from launch import LaunchDescription
from launch.actions import *
from launch.conditions import *
from launch.event_handlers import *
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import *
from launch_ros.actions import *
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue
from launch_ros.substitutions import FindPackageShare

PYTHON = sys.executable
L = LaunchConfiguration


def python(code, *arguments, **options):
    return ExecuteProcess(cmd=[PYTHON, "-u", "-c", code, *arguments], **{"output": "screen", "name": "p", **options})


def generate_launch_description():
    return LaunchDescription(
"""
# A program that says when it is ready and which signals it gets, and ends at the signals it is told to.
# Each line in one call: several of them write to one pipe, and a signal may come while a line is being written.
LISTENER = """
import os, signal, sys, time
then = globals().get("then")
ends = [getattr(signal, name) for name in sys.argv[1:]]
def say(text):
    os.write(1, (text + chr(10)).encode())
def heard(number, frame):
    say("heard " + signal.Signals(number).name)
    if then and number == signal.SIGINT:
        then()
    if number in ends:
        os._exit(0)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, heard)
say("ready " + str(os.getpid()))
while True:
    time.sleep(0.05)
"""
# A LISTENER with another one below it, which ends only when the other has heard SIGINT too.
PARENT = f"""
import os, subprocess, sys
LISTENER = {LISTENER!r}
told, tell = os.pipe()
code = f"import os\\nthen = lambda: os.write({{tell}}, b'.')\\n" + LISTENER
subprocess.Popen([sys.executable, "-c", code, "SIGTERM"], pass_fds=[tell])
then = lambda: os.read(told, 1)
exec(LISTENER)
"""
RECORDER = """#!/bin/sh
exec {python} -c 'import json, os, sys
files = [open(path).read() for path in sys.argv[1:] if "launch_params" in path]
open(os.environ["RECORDED"], "a").write(json.dumps([sys.argv[1:], files]) + chr(10))' "$@"
"""


class Launches:
    """Launches of launch files written by a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ROS_", "AMENT_"))},
            "ONBOARD_ESTIMATION_RUNTIME": "embedded",
            "ROS_LOG_DIR": str(folder / "log"),
            "TMPDIR": str(folder / "tmp"),
            "RECORDED": str(folder / "recorded"),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        }
        (folder / "tmp").mkdir()

    def write(self, entities: str, name: str = "t.launch.py") -> Path:
        path = self.folder / name
        path.write_text(HEADER + textwrap.indent(textwrap.dedent(entities).strip(), " " * 8) + "\n    )\n")
        return path

    def recorder(self) -> Path:
        path = self.folder / "recorder.sh"
        path.write_text(RECORDER.format(python=sys.executable))
        path.chmod(0o755)
        return path

    def recorded(self) -> list[Any]:
        return sorted(json.loads(line) for line in (self.folder / "recorded").read_text().splitlines())

    def start(self, *words: str | Path, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "onboard_estimation", *map(str, words)]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.environment, **environment},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, *words: str | Path, **environment: str) -> tuple[int, str]:
        process = self.start(*words, **environment)
        out, _ = process.communicate(timeout=LONGEST_WAIT_S)
        return process.returncode, out

    def launch(self, entities: str, *arguments: str) -> tuple[int, str]:
        return self.run("launch", self.write(entities), *arguments)


@pytest.fixture
def launches(tmp_path: Path) -> Iterator[Launches]:
    made = Launches(tmp_path)
    yield made
    for process in made.started:
        for _ in range(3):  # in order, hurried, killed
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(0.2)
        process.kill()
        process.wait()


def until(condition: Callable[[], Any], seconds: float = LONGEST_WAIT_S) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return found


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Output of a launch up to the line that holds a text."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"{text!r} is not in:\n{seen}")


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def pids(output: str, mark: str = "ready") -> list[int]:
    return [int(line.split()[-1]) for line in output.splitlines() if f"] {mark} " in line]


def test_lines_of_processes_and_their_ends_are_shown_as_ros2_launch_shows_them(launches: Launches) -> None:
    code, out = launches.launch(
        """[
        python("import sys; print('one'); print('two', file=sys.stderr)"),
        python("import sys; sys.stdout.write('no end of line'); sys.exit(3)", name="q"),
        python("print('only in the log')", output="log"),
        ]"""
    )
    assert code == 0
    assert "[p-1] one\n" in out
    assert "[p-1] two\n" in out
    assert "[q-2] no end of line\n" in out
    assert "[INFO] [p-1]: process started with pid [" in out
    assert "[INFO] [p-1]: process has finished cleanly [pid " in out
    died = next(line for line in out.splitlines() if "[ERROR] [q-2]: process has died [pid " in line)
    assert ", exit code 3, cmd '" in died
    assert "only in the log" not in out
    (log,) = (launches.folder / "log").glob("2*/launch.log")
    assert "[p-3] only in the log" in log.read_text()
    assert (launches.folder / "log" / "latest").resolve() == log.parent


@pytest.mark.slow
def test_arguments_have_defaults_choices_and_descriptions(launches: Launches) -> None:
    path = launches.write(
        """[
        DeclareLaunchArgument("source", default_value="simulated", choices=["simulated", "bag"],
            description="where from"),
        DeclareLaunchArgument("rate", default_value=["2.", L("source")], condition=IfCondition("false")),
        DeclareLaunchArgument("needed"),
        LogInfo(msg=["source is ", L("source"), ", needed is ", L("needed")]),
        ]"""
    )
    code, out = launches.run("launch", path, "needed:=a:=b c")
    assert (code, "[INFO] [launch.user]: source is simulated, needed is a:=b c\n" in out) == (0, True)

    code, out = launches.run("launch", path, "needed:=x", "source:=nix")
    assert code == 1
    assert "Argument \"source\" provided value \"nix\" is not valid. Valid options are: ['simulated', 'bag']" in out

    code, out = launches.run("launch", path)
    assert (code, "missing required argument 'needed'" in out) == (1, True)

    code, out = launches.run("launch", path, "needed:=x", "sorce:=bag", "sigterm_timeout:=1")
    assert code == 0
    assert "warning: t.launch.py declares no argument 'sorce'; did you mean source?" in out
    assert "sigterm_timeout" not in out

    code, out = launches.run("launch", path, "source=bag")
    assert (code, "malformed launch argument 'source=bag'" in out) == (2, True)

    code, out = launches.run("launch", path, "--show-args")
    assert code == 0
    assert out == textwrap.dedent("""\
        Arguments (pass arguments as '<name>:=<value>'):

            'source':
                where from. Valid choices are: ['simulated', 'bag']
                (default: 'simulated')

            'rate':*
                no description given
                (default: '2.' + LaunchConfig('source'))

            'needed':
                no description given

        * argument(s) which are only used if specific conditions occur
        """)


def test_conditions_and_substitutions(launches: Launches) -> None:
    code, out = launches.launch(
        """[
        SetEnvironmentVariable("COLOUR", "blue"),
        *[
            LogInfo(msg=[f"{number}: ", value])
            for number, value in enumerate([
                EqualsSubstitution("1.0", 1), EqualsSubstitution("True", "1"),
                NotEqualsSubstitution(L("x", default="a"), "a"),
                EnvironmentVariable("COLOUR"), EnvironmentVariable("NOT_THERE", default_value="none"),
                PathJoinSubstitution(["/a", "b", L("x", default="c")]), ThisLaunchFileDir(),
                L("y", default=3), TextSubstitution(text="text"),
            ])
        ],
        LogInfo(msg="if", condition=IfCondition(" TRUE ")),
        LogInfo(msg="if not", condition=IfCondition("0")),
        LogInfo(msg="unless", condition=UnlessCondition("false")),
        SetLaunchConfiguration("z", "1"),
        LogInfo(msg="equals", condition=IfCondition(EqualsSubstitution(L("z"), "1"))),
        LogInfo(msg="equals not", condition=IfCondition(NotEqualsSubstitution(L("z"), "1"))),
        LogInfo(msg="no answer", condition=IfCondition("perhaps")),
        ]"""
    )
    said = [line.partition("[launch.user]: ")[2] for line in out.splitlines() if "[launch.user]" in line]
    expected = ["true", "true", "false", "blue", "none", "/a/b/c"]
    expected += [str(launches.folder), "3", "text"]
    assert said == [*(f"{number}: {one}" for number, one in enumerate(expected)), "if", "unless", "equals"]
    assert (code, "invalid condition expression: 'perhaps' is 'perhaps'" in out) == (1, True)


def test_groups_and_includes_keep_to_themselves(launches: Launches) -> None:
    launches.write(
        """[
        DeclareLaunchArgument("port"),
        LogInfo(msg=["included ", L("port"), " ", L("outer"), " ", ThisLaunchFileDir()]),
        SetLaunchConfiguration("left", "by the included file"),
        ]""",
        "inner.launch.py",
    )
    (launches.folder / "below").mkdir()
    launches.write(
        """[
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource([ThisLaunchFileDir(), "/../inner.launch.py"]),
            launch_arguments=[("port", "7")]
        ),
        ]""",
        "below/middle.launch.py",
    )
    code, out = launches.launch(
        """[
        SetLaunchConfiguration("outer", "o"),
        SetEnvironmentVariable("COLOUR", "blue"),
        IncludeLaunchDescription(PythonLaunchDescriptionSource([ThisLaunchFileDir(), "/below/middle.launch.py"])),
        LogInfo(msg=["back ", ThisLaunchFileDir(), " ", L("left")]),
        GroupAction([
            SetLaunchConfiguration("outer", "inside"), SetEnvironmentVariable("COLOUR", "red"),
            LogInfo(msg=[L("outer"), " ", L("given"), " ", EnvironmentVariable("COLOUR")]),
        ], launch_configurations={"given": "g"}),
        LogInfo(msg=[L("outer"), " ", EnvironmentVariable("COLOUR"), " ", L("given", default="gone")]),
        GroupAction([SetLaunchConfiguration("outer", "leaks")], scoped=False),
        LogInfo(msg=L("outer")),
        ]"""
    )
    said = [line.partition("[launch.user]: ")[2] for line in out.splitlines() if "[launch.user]" in line]
    folder = launches.folder
    assert (code, said) == (
        0,
        [
            f"included 7 o {folder / 'below' / '..'}",
            f"back {folder} by the included file",
            "inside g red",
            "o blue gone",
            "leaks",
        ],
    ), out


PARAMETERS = """[
    DeclareLaunchArgument("n", default_value="5"),
    Node(executable=RECORDER),
    Node(
        executable=RECORDER, name="x",
        parameters=[
            {
                "a": 1, "b": {"c": 2.5, "d": [1, 2]}, "text": "5", "number": L("n"),
                "as_text": ParameterValue(L("n"), value_type=str),
                "list": ["a", "b"], "floats": [1, 2.5], "joined": ["x", L("n")], (L("n"), "k"): True,
                "float": ParameterValue(L("n"), value_type=float),
            },
            FILE, ParameterFile(FILE),
        ],
        remappings=[("a", "b"), (["a", L("n")], "c")],
    ),
    GroupAction([
        PushRosNamespace("salp"), SetParameter("use_sim_time", True),
        Node(
            executable=RECORDER, name="y", namespace="sub", arguments=["--foo", L("n")],
            ros_arguments=["--log-level", "debug"],
            parameters=[{"k": 3}], remappings=[("g", "h")],
        ),
        Node(executable=RECORDER, name="z", namespace="/abs"),
        Node(executable=RECORDER, exec_name="other"),
        PushRosNamespace("deeper"),
        Node(executable=RECORDER, name="v"),
    ]),
    Node(executable=RECORDER, name="w", namespace="q"),
    ]"""


def parameters_file(launches: Launches) -> str:
    path = launches.folder / "own.yaml"
    path.write_text("/**: {ros__parameters: {q: 1}}\n")
    return PARAMETERS.replace("RECORDER", repr(str(launches.recorder()))).replace("FILE", repr(str(path)))


def normalised(recorded: list[Any]) -> list[str]:
    """Without the names of temporary files; parameters as the YAML reader of a node has them."""
    import yaml

    out = []
    for arguments, files in recorded:
        # ROS 2 writes lists as Python tuples, a tag that nodes pass over, and truth values as Python does.
        read = [yaml.safe_load(text.replace("!!python/tuple", "")) for text in files]
        out.append(
            [["TEMPORARY" if "launch_params" in one else one.replace("=True", "=true") for one in arguments], read]
        )
    return in_order(out)


def in_order(recorded: list[Any]) -> list[str]:
    """As texts, since 1 and 1.0 are equal otherwise."""
    return sorted(json.dumps(one, sort_keys=True) for one in recorded)


def test_nodes_get_names_parameters_and_remappings_as_ros_arguments(launches: Launches) -> None:
    code, out = launches.launch(parameters_file(launches))
    assert code == 0, out
    own = str(launches.folder / "own.yaml")
    common = ["-p", "use_sim_time:=true"]
    first = {"a": 1, "b.c": 2.5, "b.d": [1, 2], "text": "5", "number": 5, "as_text": "5", "list": ["a", "b"]}
    first |= {"floats": [1.0, 2.5], "joined": "x5", "5k": True, "float": 5.0}
    x = ["-r", "__node:=x", "--params-file", "TEMPORARY", "--params-file", own, "--params-file", own]
    y = ["--foo", "5", "--ros-args", "--log-level", "debug", "--ros-args", "-r", "__node:=y", "-r", "__ns:=/salp/sub"]
    expected = [
        [["--ros-args"], []],
        [["--ros-args", *x, "-r", "a:=b", "-r", "a5:=c"], [{"/**": {"ros__parameters": first}}]],
        [
            [*y, *common, "--params-file", "TEMPORARY", "-r", "g:=h"],
            [{"/salp/sub/y": {"ros__parameters": {"k": 3}}}],
        ],
        [["--ros-args", "-r", "__node:=z", "-r", "__ns:=/abs", *common], []],
        [["--ros-args", "-r", "__ns:=/salp", *common], []],
        [["--ros-args", "-r", "__node:=v", "-r", "__ns:=/salp/deeper", *common], []],
        [["--ros-args", "-r", "__node:=w", "-r", "__ns:=/q"], []],
    ]
    assert normalised(launches.recorded()) == in_order(expected)
    assert list((launches.folder / "tmp").iterdir()) == []  # nothing temporary is left


@pytest.mark.ros2
def test_real_launch_passes_the_same_arguments(launches: Launches) -> None:
    if PathFinder.find_spec("launch_ros") is None:  # other tests of this process may serve the embedded one
        pytest.skip("no ROS 2 is sourced")
    path = launches.write(parameters_file(launches))
    assert launches.run("launch", path)[0] == 0
    ours = normalised(launches.recorded())
    (launches.folder / "recorded").unlink()
    code, out = launches.run("launch", path, ONBOARD_ESTIMATION_RUNTIME="ros2")
    assert (code, "with ROS 2" in out) == (0, True)
    assert normalised(launches.recorded()) == ours


FAULTS = [
    ("[Node(executable='true', parameters={'a': 1})]", "Node(parameters=...) expected a list"),
    ("[Node(executable='true', parameters=[{'a': []}])]", "parameter 'a' is []"),
    ("[Node(executable='true', parameters=[{'a': {'b': None}}])]", "parameter 'a.b' is None"),
    ("[Node(executable='true', parameters=['/not/there.yaml'])]", "parameter file /not/there.yaml does not exist"),
    ("[Node(executable='true', name='a/b')]", "invalid node name 'a/b'"),
    ("[PushRosNamespace('1st')]", "invalid namespace '/1st'"),
    (
        "[Node(package='onboard_estimation', executable='nix')]",
        "no executable 'nix' in package 'onboard_estimation'",
    ),
    (
        "[Node(package='nix', executable='nix')]",
        "package 'nix' not found, searching: []; installed without ROS 2: ",
    ),
    ("[Node(package='rviz2', executable='rviz2')]", "onboard-estimation view"),
    ("[LogInfo(msg=FindPackageShare('nix'))]", "package 'nix' not found"),
    ("[LogInfo(msg=L('nix'))]", "launch configuration 'nix' does not exist"),
    ("[python('', shell=True)]", "ExecuteProcess(shell=...) is not supported without ROS 2"),
    ("[python('', prefix='gdb')]", "ExecuteProcess(prefix=...) is not supported without ROS 2"),
    ("[__import__('launch').substitutions.PythonExpression('1')]", "launch.substitutions.PythonExpression"),
    ("[__import__('launch_ros').actions.LifecycleNode()]", "launch_ros.actions.LifecycleNode"),
    ("[__import__('launch_ros').actions.SetRemap('a', 'b')]", "launch_ros.actions.SetRemap: give each Node its own"),
    ("[__import__('launch').substitutions.AndSubstitution('1', '1')]", "AndSubstitution: decide in Python"),
    ("[python('', output='own_log')]", "ExecuteProcess(output=own_log) is not supported without ROS 2; use 'screen'"),
    ("[GroupAction([], forwarding=False)]", "GroupAction(forwarding=...) is not supported without ROS 2"),
    ("[1 / 0]", "ZeroDivisionError: division by zero"),
]
# All in one process, since starting it is most of the time.
RUN_EACH = """
import sys
import embedded_ros
embedded_ros.install()
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
for path in sys.argv[1:]:
    service = LaunchService()
    service.include_launch_description(LaunchDescription([IncludeLaunchDescription(path)]))
    print("code", service.run(), flush=True)
"""


def test_faults_are_told_in_one_line_and_start_nothing(launches: Launches) -> None:
    paths = [
        launches.write(f"[python('print(1)'), *{entities}]", f"{number}.launch.py")
        for number, (entities, _) in enumerate(FAULTS)
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN_EACH, *map(str, paths)],
        env=launches.environment,
        text=True,
        capture_output=True,
        timeout=LONGEST_WAIT_S,
        check=True,
    )
    assert done.stderr == ""
    *told, rest = done.stdout.split("code 1\n")
    assert rest == ""
    assert len(told) == len(FAULTS)
    for out, (_, sentence) in zip(told, FAULTS, strict=True):
        assert "[ERROR] [launch]: Caught exception in launch" in out
        assert sentence in out
        assert "process started" not in out


def test_a_launch_file_that_cannot_be_read_is_bad_input(launches: Launches) -> None:
    code, out = launches.launch("[1 / 0]")
    assert (code, "ZeroDivisionError: division by zero (--debug shows where)" in out, "Traceback" in out) == (
        2,
        True,
        False,
    )


@pytest.mark.slow
def test_launch_files_are_found_by_path_name_and_package(launches: Launches) -> None:
    for words in (["salp.launch.py"], ["salp"], ["onboard_estimation", "salp.launch.py"]):
        code, out = launches.run("launch", *words, "--show-args")
        assert (code, "'source':" in out) == (0, True)
    code, out = launches.run("launch", "slp.launch.py")
    assert (code, "did you mean salp.launch.py?" in out, "salp_replay.launch.py" in out) == (2, True, True)
    code, out = launches.run("launch", "onboard_estimation", "nix.launch.py")
    assert (code, "salp_replay.launch.py" in out) == (2, True)
    code, out = launches.run("launch", "nix", "nix.launch.py")
    assert (code, "package 'nix' not found" in out) == (2, True)


def test_a_package_of_another_distribution_brings_nodes_and_files(launches: Launches) -> None:
    site = launches.folder / "site"
    information = site / "crawler_estimation-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: crawler-estimation\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[console_scripts]\ncrawler = crawler_nodes:Main.run\n")
    (site / "crawler_nodes.py").write_text(
        "import sys, rclpy\nclass Main:\n    def run():\n        print(rclpy.__file__, sys.argv)\n        return 7\n"
    )
    (site / "package.xml").write_text("<package><name>crawler_estimation</name></package>")
    launches.environment["PYTHONPATH"] += os.pathsep + str(site)
    code, out = launches.launch(
        """[
        LogInfo(msg=FindPackageShare("crawler_estimation")),
        Node(package="crawler_estimation", executable="crawler", name="c", output="screen"),
        ]"""
    )
    embedded = REPOSITORY / "embedded_ros" / "packages" / "rclpy" / "__init__.py"
    assert f"[crawler-1] {embedded} ['run', '--ros-args', '-r', '__node:=c']\n" in out
    assert (code, ", exit code 7, cmd '" in out, f"[launch.user]: {site}\n" in out) == (0, True, True)
    code, out = launches.run("run", "crawler_estimation", "crawler", "-x", "--", "y")
    assert (code, out) == (7, f"{embedded} ['run', '-x', '--', 'y']\n")


def test_folders_called_launch_and_test_are_not_taken_for_packages(launches: Launches) -> None:
    for name in ("launch", "test", "rclpy", "launch_ros"):
        (launches.folder / name).mkdir()
    code, out = launches.launch("[LogInfo(msg='runs')]")
    assert (code, "[launch.user]: runs" in out) == (0, True)


def test_one_interrupt_ends_everything(launches: Launches) -> None:
    """Each process hears SIGINT once, what it started goes too, and nobody waits for a timer."""
    listener = repr(LISTENER)
    path = launches.write(
        f"""[
        python({listener}, "SIGINT"), python({PARENT!r}, "SIGINT", name="q"),
        TimerAction(period=1000.0, actions=[LogInfo(msg="too late")]),
        RegisterEventHandler(OnShutdown(on_shutdown=[LogInfo(msg="shutting down")])),
        python({listener}, "SIGINT", respawn=True, respawn_delay=1000.0, name="r"),
        ]"""
    )
    process = launches.start("launch", path, "sigterm_timeout:=1000")
    out = "".join(read_until(process, "ready") for _ in range(4))
    found = pids(out)
    os.kill(next(pid for line in out.splitlines() if "[r-3] ready" in line for pid in pids(line)), signal.SIGKILL)
    out += read_until(process, "[ERROR] [r-3]: process has died")
    process.send_signal(signal.SIGINT)
    out += process.communicate(timeout=LONGEST_WAIT_S)[0]
    assert process.returncode == 0, out
    assert len(found) == 4
    assert not any(is_alive(pid) for pid in found)
    assert [out.count(f"[{name}] heard SIGINT") for name in ("p-1", "q-2")] == [1, 2]
    assert "[WARNING] [launch]: user interrupted with ctrl-c (SIGINT)" in out
    assert "[launch.user]: shutting down" in out
    assert "too late" not in out


def interrupted_when_ready(launches: Launches, entities: str, *arguments: str) -> str:
    """All that a launch with one LISTENER says, which is interrupted once that is ready, and ends well."""
    process = launches.start("launch", launches.write(entities), *arguments)
    out = read_until(process, "ready")
    process.send_signal(signal.SIGINT)
    out += process.communicate(timeout=LONGEST_WAIT_S)[0]
    assert process.returncode == 0, out
    assert not any(is_alive(pid) for pid in pids(out))
    return out


@pytest.mark.slow
def test_processes_that_heed_no_signal_are_killed(launches: Launches) -> None:
    # One after the other: how soon a process answers a signal is nobody's to say.
    timeouts = ("sigterm_timeout:=0.3", "sigkill_timeout:=1000")
    heeding = interrupted_when_ready(launches, f"[python({LISTENER!r}, 'SIGTERM', name='q')]", *timeouts)
    assert "[ERROR] [q-1]: process[q-1] failed to terminate '0.3' seconds after receiving 'SIGINT'" in heeding
    assert "[q-1] heard SIGTERM" in heeding
    assert "[q-1]: process has finished cleanly" in heeding
    timeouts = ("sigterm_timeout:=0.3", "sigkill_timeout:=0.3")
    out = interrupted_when_ready(launches, f"[python({LISTENER!r})]", *timeouts)
    failed = "[ERROR] [p-1]: process[p-1] failed to terminate"
    assert f"{failed} '0.3' seconds after receiving 'SIGINT', escalating to 'SIGTERM'" in out
    assert f"{failed} '0.6' seconds after receiving 'SIGTERM', escalating to 'SIGKILL'" in out
    assert "[p-1]: process has died [pid" in out
    assert ", exit code -9, cmd" in out


def test_further_interrupts_hurry_and_then_kill(launches: Launches) -> None:
    process = launches.start("launch", launches.write(f"[python({LISTENER!r})]"), "sigterm_timeout:=1000")
    out = read_until(process, "ready")
    for word in ("heard SIGINT", "heard SIGTERM"):
        process.send_signal(signal.SIGINT)
        out += read_until(process, word)
    process.send_signal(signal.SIGINT)
    out += process.communicate(timeout=LONGEST_WAIT_S)[0]
    assert (process.returncode, ", exit code -9, cmd" in out) == (0, True)
    assert not any(is_alive(pid) for pid in pids(out))


def test_termination_ends_everything_in_order_and_is_no_success(launches: Launches) -> None:
    process = launches.start("launch", launches.write(f"[python({LISTENER!r}, 'SIGINT')]"))
    out = read_until(process, "ready")
    process.send_signal(signal.SIGTERM)
    out += process.communicate(timeout=LONGEST_WAIT_S)[0]
    assert (process.returncode, "[p-1] heard SIGINT" in out, "finished cleanly" in out) == (1, True, True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_launch_that_is_killed_leaves_no_process(launches: Launches) -> None:
    process = launches.start("launch", launches.write(f"[python({LISTENER!r}, 'SIGTERM')]"))
    (pid,) = pids(read_until(process, "ready"))
    process.kill()
    until(lambda: not is_alive(pid))


def test_output_that_nobody_reads_ends_the_launch(launches: Launches) -> None:
    path = launches.write("[python('import time\\nwhile True: print(1); time.sleep(0.01)')]")
    process = launches.start("launch", path)
    (pid,) = pids(read_until(process, "process started").replace(" with pid [", "] ready ").replace("]\n", "\n"))
    assert process.stdout is not None
    process.stdout.close()
    until(lambda: process.poll() is not None)
    assert not is_alive(pid)


def test_a_required_process_ends_the_launch(launches: Launches) -> None:
    code, out = launches.launch(
        f"""[
        python({LISTENER!r}, "SIGINT"),
        python("import sys; sys.exit(4)", name="required", on_exit=Shutdown(reason="it was required")),
        ]"""
    )
    assert code == 0
    assert "[INFO] [launch]: process[required-2] was required: shutting down launched system" in out
    assert "[INFO] [p-1]: process has" in out or "[ERROR] [p-1]: process has" in out


def test_handlers_run_at_start_and_end_of_a_process(launches: Launches) -> None:
    code, out = launches.launch(
        """(lambda first: [
        RegisterEventHandler(OnProcessStart(target_action=first, on_start=[LogInfo(msg="it started")])),
        RegisterEventHandler(OnProcessExit(
            target_action=first,
            on_exit=lambda event, context: [LogInfo(msg=f"it ended with {event.returncode}"), python("print('next')")],
        )),
        first,
        python("", name="other"),
        TimerAction(period=0.1, actions=[LogInfo(msg="later")]),
        OpaqueFunction(function=lambda context, text: [LogInfo(msg=text)], args=["opaque"]),
        ExecuteProcess(cmd=["not-a-program"]),
        ])(python("import sys; sys.exit(5)"))"""
    )
    said = [line.partition("[launch.user]: ")[2] for line in out.splitlines() if "[launch.user]" in line]
    assert code == 0
    assert said[:2] == ["opaque", "it started"]
    assert sorted(said[2:]) == ["it ended with 5", "later"]
    assert "] next\n" in out
    assert "[ERROR] [not-a-program-3]: process could not be started: there is no program 'not-a-program'" in out


def test_processes_are_started_again_as_often_as_asked(launches: Launches) -> None:
    code, out = launches.launch("[python('', respawn=True, respawn_delay=0.05, respawn_max_retries=2)]")
    assert (code, out.count("[p-1]: process started")) == (0, 3)


@pytest.mark.slow
def test_run_passes_all_words_on(launches: Launches) -> None:
    code, out = launches.run("run", "onboard-estimation", "inspect", "--help")
    assert (code, "inspect" in out, "BAG" in out) == (0, True, True)
    code, out = launches.run("run", "onboard-estimation", "nix", "--", "--ros-args")
    assert (code, "nix" in out) == (2, True)
    code, out = launches.run("run", "nix", "--ros-args")
    assert (code, "no executable 'nix'" in out, "salp_estimator" in out) == (2, True, True)
