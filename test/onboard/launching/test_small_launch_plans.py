"""What each launch file makes of its arguments, and that ROS 2's own launch makes the same of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import launch_plans
import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PACKAGES = "ONBOARD_ESTIMATION_LAUNCH_PACKAGES"
LAUNCHES = {
    "": ["", "source:=bag bag:=BAG rate:=2.5 ground_truth:=vicon", "bag:=BAG rate:=0 start_offset:=3", "source:=sun"],
    "hopper.launch.py": [
        "namespace:=laboratory/first record:=new_recording hops:=2m seed:=7 control:=estimate",
        "source:=hardware port:=/dev/ttyUSB0 composed:=true config:=own.yaml",
    ],
    "salp.launch.py": ["source:=hebi_imitation composed:=true gait:=left ground_truth:=vicon_emulator model:=own.yaml"],
    "softrobot.launch.py": ["source:=ethercat_emulator composed:=true scenario:=payload estimator:=marginalized_pf"],
}
"""Arguments of launches, of all files and of these."""
OURS = sorted((REPOSITORY / "launch").glob("*.launch.py"))
THIRD = sorted((REPOSITORY / "test" / "third_robot" / "launch").glob("*.launch.py"))
EVERYTHING = """
import os
from typing import List
import launch
from launch import LaunchContext, LaunchDescription
from launch.actions import (
    DeclareLaunchArgument, ExecuteProcess, GroupAction, IncludeLaunchDescription, LogInfo, OpaqueFunction,
    SetEnvironmentVariable, Shutdown,
)
from launch.conditions import IfCondition, UnlessCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration as L, PathJoinSubstitution, TextSubstitution
from launch_ros.actions import Node, PushRosNamespace
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue

FOLDER = os.path.dirname(os.path.abspath(__file__))
OWN = os.path.join(FOLDER, "own.yaml")


def more(context: LaunchContext, word, *, other):
    value = L("n").perform(context) + L("m", default=[word, L("n")]).perform(context)
    return [LogInfo(msg=[value, other]), Node(package="p", executable="opaque")] if value != "9" else None


def ended(event, context):
    return [Shutdown(reason="x")]


def generate_launch_description():
    out = LaunchDescription([
        DeclareLaunchArgument("n", default_value="5"),
        DeclareLaunchArgument("yes", default_value=["tr", "ue"], choices=["true", "false", "1"], description="yes"),
        SetEnvironmentVariable("COLOUR", ["blue", L("n")]),
        Node(package="p", executable="plain"),
        Node(executable="/bin/true", respawn=L("yes"), respawn_delay=2.0, on_exit=ended),
        Node(
            package="p", executable="x", name="x", output="screen", emulate_tty=True, cwd=FOLDER,
            parameters=[
                {
                    "a": 1, "b": {"c": 2.5, "d": [1, 2], "e": {"f": "x"}}, "text": "5", "number": L("n"),
                    "as_text": ParameterValue(L("n"), value_type=str), "null_text": "null", "exponent": "1e3",
                    "list": ["a", "b"], "floats": [1, 2.5], "joined": ["x", L("n")], (L("n"), "k"): True,
                    "float": ParameterValue(L("n"), value_type=float), "free": ParameterValue(L("n")),
                    "flag": ParameterValue(L("yes"), value_type=bool),
                    "one": ParameterValue(["1", L("other", default="")], value_type=bool),
                    "given": ParameterValue([1.5, 2.0], value_type=List[float]), "bools": [True, False],
                    "read": ParameterValue(["[1, ", L("n"), "]"], value_type=List[int]), "empty": L("m", default=""),
                    "parts": [["a", L("n")], ["b"]], "tuple": (1, 2), "umlaut": "\\u00fc \\u2603 'q' \\"d\\" # : [",
                    "words": "  a\\nb", "half": ["0.", L("n")], "long": "word " * 60,
                },
                OWN, ParameterFile(OWN), {"last": PathJoinSubstitution(["/a", L("n"), "c"])},
            ],
            remappings=[("a", "b"), (["a", L("n")], "/c")],
        ),
        GroupAction([
            PushRosNamespace("outer"),
            SetEnvironmentVariable("COLOUR", "red"),
            Node(
                package="p", executable="y", name="y", namespace="sub", arguments=["--foo", L("n")],
                ros_arguments=["--log-level", "debug"], parameters=[{"k": 3}], remappings=[("g", "h")],
                additional_env={"OWN": ["o", L("n")], "COLOUR": "own"}, on_exit=Shutdown(reason="it was needed"),
            ),
            Node(package="p", executable="z", name="z", namespace="/abs/"),
            Node(package="p", executable="q", exec_name="other"),
            GroupAction([PushRosNamespace("/root"), Node(package="p", executable="r", name=["r", L("n")])]),
            PushRosNamespace(["deeper", L("n")]),
            Node(package="p", executable="v", name="v", parameters=[{"deep": {}}]),
        ]),
        Node(package="p", executable="w", name="w", namespace="q"),
        ExecuteProcess(cmd=["echo", ["a", L("n")], TextSubstitution(text="b")], output="screen", name="e"),
        ExecuteProcess(cmd=["/bin/echo"], condition=IfCondition(L("yes"))),
        LogInfo(msg="unless", condition=UnlessCondition(L("yes"))),
        OpaqueFunction(function=more, args=["w"], kwargs={"other": "o"}),
        launch.actions.LogInfo(msg="by its full name"),
        GroupAction(scoped=False, actions=[PushRosNamespace("leaks")]),
        Node(package="p", executable="last"),
        *([] if os.path.basename(__file__) == "inner.launch.py" else [
            GroupAction([IncludeLaunchDescription(
                PythonLaunchDescriptionSource([FOLDER, "/inner.launch.py"]),
                launch_arguments={"n": "7", "m": L("n")}.items(),
            )]),
        ]),
    ])
    out.add_action(LogInfo(msg=["added ", L("n")]))
    return out
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Not where temporary files are, whose names differ from run to run.
    made = tmp_path_factory.mktemp("launch_files")
    (made / "own.yaml").write_text("/**: {ros__parameters: {q: 1}}\n")
    (made / "BAG").mkdir()
    for name in ("everything.launch.py", "inner.launch.py"):
        (made / name).write_text(EVERYTHING)
    return made


def cases(folder: Path) -> list[launch_plans.Case]:
    own = ["", "n:=9 yes:=false", "n:=1e3 m:=x", "n:=[1,2]", "yes:=no", "n:={a:1}"]
    asked = [(folder / "everything.launch.py", line) for line in own]
    asked += [(file, line) for file in [*OURS, *THIRD] for line in LAUNCHES[""] + LAUNCHES.get(file.name, [])]
    paths = {name: str(folder / name) for name in ("own.yaml", "BAG", "new_recording")}
    given = [(str(file), dict(one.split(":=", 1) for one in line.split())) for file, line in asked]
    return [(file, {name: paths.get(value, value) for name, value in one.items()}) for file, one in given]


def small(case: launch_plans.Case) -> Any:
    return json.loads(json.dumps(launch_plans.small(*case)))


@pytest.mark.ros2
def test_real_launch_makes_the_same_of_every_launch_file(folder: Path) -> None:
    """Processes, parameters, remappings, environment, what happens at their ends, and faults."""
    if PACKAGES not in os.environ and PathFinder.find_spec("launch_ros") is None:
        pytest.skip(f"no launch_ros is here, and {PACKAGES} names no folder that holds it")
    asked = cases(folder)
    words = [sys.executable, launch_plans.__file__]
    told = json.dumps(asked)
    done = subprocess.run(words, input=told, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    assert len(theirs) == len(asked)
    for case, plan in zip(asked, theirs, strict=True):
        assert small(case) == plan, case
    assert all(plan[0] != "fault" for plan in theirs[:2])
    started = [plan for plan in theirs if plan[0] != "fault"]
    assert len(started) > 20
    assert len(theirs) - len(started) > 5
