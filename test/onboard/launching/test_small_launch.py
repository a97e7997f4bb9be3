"""The small launcher, here or in a process of its own where it gets signals, with real processes below it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from evaluation_samples import command
from live_graph import die_with_this, wait_until

from onboard_estimation.cli import main
from onboard_estimation.commands.launch import planned, project_launch_files
from onboard_estimation.launching import entities, running
from onboard_estimation.launching.entities import LaunchContext, Process
from onboard_estimation.launching.running import words_of
from onboard_estimation.launching.stand_in import served

REPOSITORY = Path(__file__).resolve().parents[3]
HEADER = """
import os
import sys
from typing import List
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, GroupAction, IncludeLaunchDescription, LogInfo
from launch.actions import OpaqueFunction, SetEnvironmentVariable, Shutdown
from launch.conditions import IfCondition, UnlessCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration as L, PathJoinSubstitution
from launch_ros.actions import Node, PushRosNamespace
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue
from launch_ros.substitutions import FindPackageShare

FOLDER = os.path.dirname(os.path.abspath(__file__))
OWN = os.path.join(FOLDER, "own.yaml")


def python(code, *arguments, **options):
    command = [sys.executable, "-u", "-c", code, *arguments]
    return ExecuteProcess(cmd=command, **{"output": "screen", "name": "p", **options})


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
open("ready", "w").close()
while True:
    time.sleep(0.05)
"""
AWAITED = """
import pathlib, time
while not pathlib.Path("ready").exists():
    time.sleep(0.01)
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


class Launches:
    """Launches of launch files written by a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        (folder / "tmp").mkdir()

    def write(self, entities: str) -> Path:
        path = self.folder / "t.launch.py"
        path.write_text(HEADER + textwrap.indent(textwrap.dedent(entities).strip(), " " * 8) + "\n    )\n")
        return path

    def start(self, *words: str | Path) -> Any:
        """`launch` in a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "onboard_estimation", "launch", *map(str, words)],
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_this,
        )
        self.started.append(process)
        return process

    def run(self, *words: str | Path) -> tuple[int, str]:
        """`launch` in this process: its exit code and all that it says."""
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            outcome = command("launch", *words)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return outcome.code, outcome.out + outcome.error

    def launch(self, entities: str) -> tuple[int, str]:
        return self.run(self.write(entities))

    def interrupted(self, process: Any, out: str = "", number: int = signal.SIGINT) -> tuple[int, str]:
        """The exit code of a launch that gets a signal, and all that it has said."""
        process.send_signal(number)
        out += process.communicate()[0]
        return process.returncode, out

    def left(self) -> list[str]:
        return [path.name for path in (self.folder / "tmp").iterdir() if not path.name.endswith(".lock")]


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launches]:
    made = Launches(tmp_path)
    for name in ("launch", "test", "launch_ros"):  # which are not taken for packages
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY), prepend=os.pathsep)
    for name in [one for one in os.environ if one.startswith(("ROS_", "AMENT_"))]:
        monkeypatch.delenv(name)
    yield made
    for process in made.started:
        process.kill()  # what it has started goes with it
        process.wait()


def read_until(process: Any, text: str) -> str:
    """Output of a launch up to the line that holds a text."""
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


def pids(output: str) -> list[int]:
    return [int(line.split()[-1]) for line in output.splitlines() if "] ready " in line]


# Here.


def test_lines_of_processes_and_their_ends_are_shown_as_ros2_launch_shows_them(launches: Launches) -> None:
    code, out = launches.launch(
        r"""[
        python("import sys; print('one'); print('two', file=sys.stderr); sys.stdout.buffer.write(b'\\xff\\xfe\\n')"),
        python("import sys; sys.stdout.write('no end of line'); sys.exit(3)", name="q"),
        python("print('x' * 300000)", name="long"),
        ExecuteProcess(cmd=["not-a-program"]),
        ]"""
    )
    assert code == 1  # not-a-program
    for line in ("[p-1] one", "[p-1] two", "[p-1] \ufffd\ufffd", "[q-2] no end of line"):
        assert f"{line}\n" in out
    assert out.count("x") > 300000
    assert "[INFO] [p-1]: process started with pid [" in out
    assert "[INFO] [p-1]: process has finished cleanly" in out
    died = next(line for line in out.splitlines() if "[ERROR] [q-2]: process has died [pid " in line)
    assert ", exit code 3, cmd '" in died
    assert "[ERROR] [not-a-program-4]: process could not be started: [Errno 2]" in out
    assert launches.left() == []


def test_nothing_that_a_short_program_says_is_lost(launches: Launches) -> None:
    """By the time the last is started, the first have ended, and nobody has read what they wrote."""
    code, out = launches.launch("[*[ExecuteProcess(cmd=['/bin/echo', '-n', f'end {i}']) for i in range(30)]]")
    assert code == 0
    for number in range(1, 31):
        said = out.index(f"[echo-{number}] end {number - 1}\n")
        assert said < out.index(f"[echo-{number}]: process has finished")


def test_arguments_have_defaults_choices_and_descriptions(launches: Launches) -> None:
    path = launches.write(
        """[
        DeclareLaunchArgument("source", default_value="simulated", choices=["simulated", "bag"],
            description="where from"),
        DeclareLaunchArgument("mode", default_value="a", choices=["a", "b"]),
        DeclareLaunchArgument("needed"),
        DeclareLaunchArgument("hidden", condition=IfCondition("false")),
        LogInfo(msg=["source is ", L("source"), ", needed is ", L("needed")]),
        OpaqueFunction(function=lambda context: {"simulated": [], "bag": []}[L("source").perform(context)]),
        ]"""
    )
    code, out = launches.run(path, "needed:=a:=b c")
    assert (code, "[INFO] [launch.user]: source is simulated, needed is a:=b c\n" in out) == (0, True)

    code, out = launches.run(path, "source:=nix", "mode:=c", "sorce:=bag")
    assert code == 2
    assert 'argument source:="nix" is none of simulated, bag; argument mode:="c" is none of a, b; ' in out
    assert "argument needed:=... is missing" in out
    assert "warning: t.launch.py declares no argument 'sorce'; did you mean source?" in out
    assert "launch.user" not in out

    code, out = launches.run(path, "source=bag")
    assert (code, "malformed launch argument 'source=bag'" in out) == (2, True)

    code, out = launches.run(path, "--show-args")
    assert code == 0
    first, second, third = out.split("\n\n")[1:]
    assert "'source':\n        where from. Valid choices are: ['simulated', 'bag']" in first
    assert "(default: 'simulated')" in first
    assert "'mode':\n        no description given. Valid choices are: ['a', 'b']" in second
    assert third == "    'needed':\n        no description given\n"


NEEDS = "it needs `ros2 launch`, for "
FAULTS = [
    ("[Node(executable='true', parameters={'a': 1})]", "parameter file a: cannot be read: No such file"),
    ("[Node(executable='true', parameters=[{'a': {'b': None}}])]", "parameter 'a.b': None is not bool"),
    ("[Node(executable='true', parameters=[{'a': [1, 'b']}])]", "parameter 'a': [1, 'b'] is not bool"),
    ("[Node(executable='true', parameters=[{'a': ParameterValue(L('x', default='x'), value_type=int)}])]", "'a': inv"),
    ("[Node(executable='true', name='a/b')]", "invalid node name 'a/b'"),
    ("[PushRosNamespace('1st')]", "invalid namespace '1st'"),
    ("[Node(package='onboard_estimation', executable='nix')]", "no executable 'nix' in package 'onboard_estimation'"),
    ("[Node(package='rviz2', executable='rviz2')]", "rviz2 needs an installed ROS 2"),
    ("[LogInfo(msg=FindPackageShare('nix'))]", "nix not found"),
    ("[LogInfo(msg=L('nix'))]", "launch configuration 'nix' does not exist"),
    ("[LogInfo(msg='no answer', condition=IfCondition('perhaps'))]", "'perhaps' is neither true nor false"),
    ("[python('', shell=True)]", f"{NEEDS}ExecuteProcess(shell=...)"),
    ("[__import__('launch').substitutions.PythonExpression('1')]", f"{NEEDS}launch.substitutions.PythonExpression"),
    ("[__import__('launch.event_handlers')]", f"{NEEDS}launch.event_handlers"),
    ("['a']", "'a' is nothing that can be launched"),
    ("[1 / 0]", "line 26: ZeroDivisionError: division by zero"),
]


def test_faults_are_told_in_one_line_and_start_nothing(launches: Launches) -> None:
    for content, sentence in FAULTS:
        code, out = launches.launch(f"[python('print(1)'), *{content}]")
        (line,) = out.splitlines()
        assert code == 1, sentence
        assert line.startswith(f"error: launch file {launches.folder / 't.launch.py'}")
        assert sentence in line
    (launches.folder / "a.launch.xml").write_text("<launch/>")
    code, out = launches.run("a.launch.xml")
    assert (code, f"{NEEDS}a launch file that is not in Python" in out, out.count("\n")) == (1, True, 1)


def test_where_ros2_is_it_does_the_launch(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("launch", "launch_ros"):
        (launches.folder / "site" / name).mkdir(parents=True)
        (launches.folder / "site" / name / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(launches.folder / "site")
    program = launches.folder / "ros2"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    def asked(*words: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(os, "execvp", lambda program, words: sys.exit(" ".join(words)))
            with pytest.raises(SystemExit) as end:
                main(["launch", *words])
        return str(end.value)

    path = str(launches.write("[LogInfo(msg='small')]"))
    assert asked(path, "a:=b", "--show-args") == f"ros2 launch {path} a:=b --show-args"
    assert asked("demo_nodes", "x.launch.py") == "ros2 launch demo_nodes x.launch.py"
    # This package is not known to it, and so none of its nodes would be found.
    code, out = launches.run("salp", "--show-args")
    assert (code, "ROS 2 does not know onboard_estimation" in out, "'source':" in out) == (0, True, True)
    index = launches.folder / "share" / "ament_index" / "resource_index" / "packages"
    index.mkdir(parents=True)
    (index / "onboard_estimation").touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(launches.folder))
    assert asked("salp", "source:=bag") == "ros2 launch onboard_estimation salp.launch.py source:=bag"


def test_launch_files_are_found_by_name_and_package(launches: Launches) -> None:
    for words in (["salp.launch.py"], ["salp"], ["onboard_estimation", "salp.launch.py"]):
        code, out = launches.run(*words, "--show-args")
        assert (code, "'source':" in out) == (0, True)
    for words, said in (
        (["slp.launch.py"], "did you mean salp.launch.py?"),
        (["onboard_estimation", "nix.launch.py"], "salp_replay.launch.py"),
        (["nix", "nix.launch.py"], "nix not found"),
    ):
        code, out = launches.run(*words)
        assert (code, said in out) == (2, True)


def test_packages_of_other_distributions_and_workspaces_bring_nodes(
    launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is started stays on this machine."""
    site = launches.folder / "site"
    information = site / "crawler_estimation-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: crawler-estimation\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[console_scripts]\ncrawler = crawler_nodes:Main.run\n")
    (site / "crawler_nodes.py").write_text(
        "import os, sys\nclass Main:\n    def run():\n"
        "        print(sys.argv, os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'])\n        return 7\n"
    )
    (site / "package.xml").write_text("<package><name>crawler_estimation</name></package>")
    (site / "crawler_estimation").mkdir()
    (site / "crawler_estimation" / "__init__.py").touch()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    program = launches.folder / "prefix" / "lib" / "rviz2" / "rviz2"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho drawn "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(launches.folder / "prefix"))
    code, out = launches.launch(
        """[
        LogInfo(msg=FindPackageShare("crawler_estimation")),
        Node(package="crawler_estimation", executable="crawler", name="c", output="screen"),
        Node(package="rviz2", executable="rviz2", arguments=["-d", "x.rviz"], output="log"),
        ]"""
    )
    assert "[crawler-1] ['run', '--ros-args', '-r', '__node:=c'] LOCALHOST\n" in out
    assert "[rviz2-2] drawn -d x.rviz --ros-args\n" in out
    assert (code, ", exit code 7, cmd '" in out, f"[launch.user]: {site}\n" in out) == (1, True, True)
    assert "[ERROR] [launch]: crawler-1 has failed (exit code 7)" in out
    assert "rviz2-2 has failed" not in out


def test_values_reach_a_node_as_they_are(tmp_path: Path) -> None:
    """Also those that a reader of YAML may take for something else."""
    values = {"exponent": "1e3", "yes": "yes", "null": "null", "time": "12:30:45", "float": 1e-05, "whole": 2.0}
    values |= {"umlaut": "\u00fc\u2603", "quotes": "'\"\\", "lines": "a\nb: [", "list": ["1", "on"], "flag": True}
    process = Process("n-1", ["n"], {}, parameters=[values, "own.yaml"], parameters_for="/a/n", remappings=[("b", "c")])
    words = words_of(process, tmp_path)
    assert [*words[:2], *words[3:]] == ["n", "--params-file", "--params-file", "own.yaml", "-r", "b:=c"]
    text = Path(words[2]).read_text(encoding="utf-8")
    assert yaml.safe_load(text) == {"/a/n": {"ros__parameters": values}}
    assert "exponent: '1e3'" in text  # rcl's reader goes by the quotes


EVERYTHING = """[
    DeclareLaunchArgument("n", default_value="5"),
    SetEnvironmentVariable("COLOUR", ["blue", L("n")]),
    Node(
        executable="x", name="x", cwd="/", respawn=L("yes", default="true"), respawn_delay=2.0, emulate_tty=True,
        parameters=[
            {"a": 1, "b": {"c": 2.5, "d": [1, 2], "e": {"f": "x"}}, "text": "5", "number": L("n"), (L("n"), "k"): True,
             "as_text": ParameterValue(L("n"), value_type=str), "null_text": "null", "floats": [1, 2.5],
             "joined": ["x", L("n")], "float": ParameterValue(L("n"), value_type=float),
             "flag": ParameterValue(["1", L("other", default="")], value_type=bool),
             "read": ParameterValue(["[1, ", L("n"), "]"], value_type=List[int]), "parts": [["a", L("n")], ["b"]],
             "empty": L("m", default=""), "half": ["0.", L("n")]},
            OWN, ParameterFile(OWN), {"last": PathJoinSubstitution(["/a", L("n"), "c"])},
        ],
        remappings=[("a", "b"), (["a", L("n")], "/c")],
    ),
    GroupAction([
        PushRosNamespace("outer"),
        SetEnvironmentVariable("COLOUR", "red"),
        Node(executable="y", name="y", namespace="sub", arguments=["--foo", L("n")],
             ros_arguments=["--log-level", "debug"], additional_env={"OWN": ["o", L("n")]}),
        Node(executable="z", name="z", namespace="/abs/"),
        GroupAction([PushRosNamespace("/root"), Node(executable="r", name=["r", L("n")])]),
        PushRosNamespace(["deeper", L("n")]),
        Node(executable="v", exec_name="other"),
    ]),
    Node(executable="w", name="w", namespace="q", condition=UnlessCondition("false")),
    OpaqueFunction(function=lambda context, word, *, other: [LogInfo(msg=[word, L("n"), other])], args=["w"],
                   kwargs={"other": "o"}),
    GroupAction(scoped=False, actions=[PushRosNamespace("leaks")]),
    Node(executable="last"),
    *([] if "inner" in __file__ else [GroupAction([IncludeLaunchDescription(
        PythonLaunchDescriptionSource([FOLDER, "/inner.launch.py"]), launch_arguments={"n": "7", "m": L("n")}.items(),
    )])]),
    LogInfo(msg=["n is ", L("n")]),
]"""


def test_groups_includes_namespaces_and_parameters_mean_what_they_mean_to_ros2(launches: Launches) -> None:
    """Its launch made the same of them when both were last compared."""
    (launches.folder / "own.yaml").touch()
    path = launches.write(EVERYTHING)
    (launches.folder / "inner.launch.py").write_text(path.read_text())
    with served():
        outer = entities.plan(entities.read(path), entities.LaunchContext({}, {}))
    inner = outer[8:-1]
    for steps, n, root in ((outer, "5", ""), (inner, "7", "/leaks")):
        x, y, z, r, v, w, said, last = steps[:8]
        assert [one.command[-1] for one in (y, z, r, v, w, last)] == [
            f"__ns:={root}/outer/sub", "__ns:=/abs", "__ns:=/root", f"__ns:={root}/outer/deeper{n}", f"__ns:={root}/q",
            f"__ns:={root}/leaks",
        ]  # fmt: skip
        assert y.command[:6] == ["y", "--foo", n, "--ros-args", "--log-level", "debug"]
        assert [one.environment.get("COLOUR") for one in (x, y, z, r, v, w)] == [f"blue{n}", *4 * ["red"], f"blue{n}"]
        assert y.environment["OWN"] == f"o{n}"
        assert v.name.startswith("other-")
        assert (x.cwd, x.respawn, x.respawn_delay_s) == ("/", True, 2.0)
        assert x.remappings == [("a", "b"), (f"a{n}", "/c")]
        values, *files, last_values = x.parameters
        number = int(n)
        assert values == {
            "a": 1, "b.c": 2.5, "b.d": [1, 2], "b.e.f": "x", "text": "5", "number": number, f"{n}k": True, "as_text": n,
            "null_text": "null", "floats": [1.0, 2.5], "joined": f"x{n}", "float": float(n), "flag": True,
            "read": [1, number], "parts": [f"a{n}", "b"], "empty": "" if n == "5" else 7, "half": float(f"0.{n}"),
        }  # fmt: skip
        assert [type(one) for one in values["floats"]] == [float, float]
        assert files == 2 * [str(launches.folder / "own.yaml")]
        assert last_values == {"last": f"/a/{n}/c"}
        assert said.msg == f"w{n}o"
    assert [outer[-1].msg, outer[-2].msg] == ["n is 5", "n is 7"]


def test_what_a_process_leaves_behind_goes_with_it(launches: Launches) -> None:
    """Also where it heeds no SIGTERM; the launch goes on meanwhile."""
    parent = f"import subprocess, sys\nc = subprocess.Popen([sys.executable, '-c', {LISTENER!r}])\n{AWAITED}"
    code, out = launches.launch(f"[python({parent!r}, name='left')]")
    (pid,) = pids(out)
    assert code == 0
    assert "[left-1] heard SIGTERM" in out
    assert not is_alive(pid)


@pytest.mark.parametrize("code", [0, 4])
def test_a_required_process_ends_the_launch_and_says_whether_it_failed(code: int, launches: Launches) -> None:
    ended, out = launches.launch(
        f"""[
        python({LISTENER!r}, "SIGINT"),
        python("import sys; sys.exit({code})", name="required", on_exit=Shutdown(reason="it was required")),
        ]"""
    )
    assert ended == (1 if code else 0)
    assert "[WARNING] [launch]: it was required: SIGINT to all processes" in out
    assert "[p-1]: process has" in out


def test_processes_that_heed_no_signal_are_killed(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_PATIENCE_S", 0.3)
    code, out = launches.launch(f"[python({LISTENER!r}), python({AWAITED!r}, on_exit=Shutdown(reason='enough'))]")
    assert code == 0, out
    assert "[p-1] heard SIGINT" in out
    assert "some have not ended after SIGINT: SIGTERM to all processes" in out
    assert "some have not ended after SIGTERM: SIGKILL to all processes" in out
    assert ", exit code -9, cmd" in out
    assert not any(is_alive(pid) for pid in pids(out))


def test_what_follows_an_end_runs(launches: Launches) -> None:
    """Programs that end well are started again too."""
    code, out = launches.launch(
        """[
        python("import sys; sys.exit(5)", on_exit=lambda event, context: [
            LogInfo(msg=f"{event.process_name} ended with {event.returncode}"), python("print('next')"),
        ]),
        python("", name="q", on_exit=[LogInfo(msg="so has q")]),
        (lambda ends: python("", name="r", respawn=True, respawn_delay=0.05, on_exit=lambda event, context: [
            *([] if ends.append(event) or len(ends) < 3 else [Shutdown(reason="enough")]),
        ]))([]),
        ]"""
    )
    assert code == 0
    assert "[launch.user]: p-1 ended with 5\n" in out
    assert "[launch.user]: so has q\n" in out
    assert "[p-4] next\n" in out
    assert out.count("[r-3]: process has finished cleanly") == 3
    code, out = launches.launch(f"[python({LISTENER!r}, 'SIGINT'), python('', on_exit=lambda event, context: 1 / 0)]")
    assert (code, "on_exit of p-2: ZeroDivisionError" in out, "Traceback" in out) == (1, True, False)


GIVES_UP = """[
    (lambda options: python("import sys; sys.exit({})", respawn=True, respawn_delay=0.05, **options))(
        __import__("onboard_estimation.nodes.for_launch", fromlist=["GivesUp"]).GivesUp().options
    ),
    ]"""


@pytest.mark.parametrize(("code", "starts", "words"), [(2, 1, "cannot start"), (77, 4, "died 4 times within seconds")])
def test_a_node_that_cannot_start_is_given_up_and_the_launch_has_failed(
    code: int, starts: int, words: str, launches: Launches
) -> None:
    process = launches.start(launches.write(GIVES_UP.format(code)))
    out, _ = process.communicate()
    assert (process.returncode, out.count("[p-1]: process started")) == (1, starts), out
    *_, last = out.splitlines()
    assert last.startswith("error: p-1 ")
    assert words in last
    assert launches.left() == []


def test_deaths_that_are_far_apart_are_left_to_the_restart() -> None:
    from onboard_estimation.nodes.for_launch import GivesUp

    now_s = [0.0]
    said: list[str] = []
    gives_up = GivesUp(lambda: now_s[0], said.append)
    going_on = SimpleNamespace(is_shutdown=False)

    def acts(code: int, context: SimpleNamespace = going_on) -> bool:
        with served():
            return bool(gives_up(SimpleNamespace(returncode=code, process_name="a"), context))

    for _ in range(20):
        now_s[0] += 11.0
        assert not acts(-11)
    assert not acts(0)
    assert [acts(-11) for _ in range(3)] == [False, False, True]
    (sentence,) = said
    assert sentence.startswith("error: a has died 4 times within seconds (SIGSEGV) and is not started again")
    assert not acts(2, SimpleNamespace(is_shutdown=True))


# In a process of its own.


def test_an_interrupt_while_a_node_is_imported_leaves_no_traceback(
    launches: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes a while on a busy machine."""
    (launches.folder / "sitecustomize.py").write_text(
        "import sys\n"
        "class Slow:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'onboard_estimation.base.kernel_cache' and '-c' in sys.orig_argv:\n"
        "            print('slow', flush=True); import time; time.sleep(1000)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(launches.folder), prepend=os.pathsep)
    process = launches.start("strapdown", "markers:=false")
    code, out = launches.interrupted(process, read_until(process, "[strapdown_estimator-1] slow"))
    assert (code, "Traceback" in out, "finished cleanly" in out) == (0, False, True), out


def test_one_interrupt_ends_everything(launches: Launches) -> None:
    """Each process hears SIGINT once, what it started goes too, and nobody waits for a timer."""
    listener = repr(LISTENER)
    path = launches.write(
        f"""[
        python({listener}, "SIGINT"), python({PARENT!r}, "SIGINT", name="q"),
        python({listener}, "SIGINT", respawn=True, respawn_delay=1000.0, name="r"),
        ]"""
    )
    process = launches.start(path)
    out = "".join(read_until(process, "ready") for _ in range(4))
    found = pids(out)
    os.kill(next(pid for line in out.splitlines() if "[r-3] ready" in line for pid in pids(line)), signal.SIGKILL)
    out += read_until(process, "[ERROR] [r-3]: process has died")
    code, out = launches.interrupted(process, out)
    assert code == 0, out
    assert len(found) == 4
    assert not any(is_alive(pid) for pid in found)
    assert [out.count(f"[{name}] heard SIGINT") for name in ("p-1", "q-2")] == [1, 2]
    assert "[WARNING] [launch]: user interrupted with SIGINT" in out
    assert "Traceback" not in out
    assert launches.left() == []


def test_termination_ends_everything_in_order_and_is_no_success(launches: Launches) -> None:
    process = launches.start(launches.write(f"[python({LISTENER!r}, 'SIGINT')]"))
    code, out = launches.interrupted(process, read_until(process, "ready"), signal.SIGTERM)
    assert (code, "[p-1] heard SIGINT" in out, "finished cleanly" in out) == (1, True, True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_launch_that_is_killed_leaves_no_process(launches: Launches) -> None:
    process = launches.start(launches.write(f"[python({LISTENER!r}, 'SIGTERM')]"))
    (pid,) = pids(read_until(process, "ready"))
    process.kill()
    wait_until(lambda: not is_alive(pid))


def test_output_that_nobody_reads_ends_the_launch(launches: Launches) -> None:
    process = launches.start(launches.write("[python('import time\\nwhile True: print(1); time.sleep(0.01)')]"))
    pid = int(read_until(process, "process started with pid").rpartition("[")[2].rstrip("]\n"))
    process.stdout.close()
    wait_until(lambda: process.poll() is not None)
    assert process.returncode == 1
    assert not is_alive(pid)


def test_a_full_disk_under_the_output_of_a_launch_ends_nothing(launches: Launches) -> None:
    path = launches.write(
        '[python(\'import time; print(1); time.sleep(0.5); print(2); open("ready", "w"); time.sleep(9)\')]'
    )
    words = [sys.executable, "-m", "onboard_estimation", "launch", str(path)]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(words, stdout=full, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_this)
    launches.started.append(process)
    wait_until((launches.folder / "ready").exists)
    process.send_signal(signal.SIGINT)
    errors = process.communicate()[1]
    assert (process.returncode, errors.splitlines()[-1][:26]) == (0, "no more output of the laun"), errors


@pytest.mark.parametrize("robot", ["hopper", "salp", "softrobot", "thruster_chain"])
def test_a_simulated_launch_has_the_parameters_of_a_real_one(robot: str) -> None:
    """So that resting, queues and losses are those of the robot."""
    found = []
    for source in ("simulated", "hardware"):
        context = LaunchContext({"source": source, "initial_from_truth": "false"}, os.environ)
        with served():
            steps = planned(project_launch_files()[f"{robot}.launch.py"], context)
        (parameters,) = (one.parameters for one in steps if getattr(one, "name", "").startswith(f"{robot}_estimator"))
        found.append(parameters)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", sorted(project_launch_files()))
def test_a_section_for_no_node_of_a_launch_is_said(tmp_path: Path, name: str) -> None:
    file, bag = tmp_path / "nodes.yaml", {"bag": str(tmp_path)} if "replay" in name else {}
    robot = name.removesuffix(".launch.py").removesuffix("_replay")
    file.write_text(
        "".join(f"{node}: {{ros__parameters: {{}}}}\n" for node in ("/**", f"/**/{robot}_estimater", "/x/markers"))
    )
    said = f"{file} has parameters for /**/{robot}_estimater, /x/markers; no node of this launch is called so"
    for given, expected in (({}, []), ({"nodes": str(file)}, [f"warning: {said}"])):
        with served():
            steps = planned(project_launch_files()[name], LaunchContext({**bag, **given}, os.environ))
        assert [one.msg for one in steps if isinstance(one, entities.LogInfo) and "parameters" in one.msg] == expected
