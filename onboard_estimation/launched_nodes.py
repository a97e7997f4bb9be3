"""Nodes of a launch: drivers, executables in processes of their own or in one, and the launch's arguments."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from launch.actions import DeclareLaunchArgument
from launch.launch_context import LaunchContext
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

PACKAGE = "onboard_estimation"
_FOR_ALL = re.compile(r"^['\"]?/\*\*['\"]?:", re.MULTILINE)
"""The line of a parameter file that begins what is for all nodes."""


@dataclass(frozen=True)
class Driver:
    """A node that a source of measurements needs.

    Attributes
    ----------
    executable
        Its name, and that of the node.
    parameters
        Beside those of its section in the nodes' parameter file.
    measures
        It publishes the measurements, and can do so in the estimator's process (`composed:=true`).
    simulates
        What it gives is simulated: it takes the launch arguments of a simulation, those of `takes`, and the robot's
        parameter file.
    takes
        Which of `seed`, `imu_rate_hz`, `duration_s`, `publish_truth`, `truth_topics`, `control`, `scenario`, `variant`;
        None: all.
    plays
        In the place of a simulation it can play a bag: the launch argument `bag`, its parameter of that name.
    knows_robot
        It takes the robot's parameter file though it does not simulate.
    moved
        Topics that it publishes elsewhere: for an emulated sensor, which publishes what it has measured.
    file
        A parameter file of its own in `config` beside the launch file's folder; empty: none.
    package
        That has the executable; empty: the robot's.
    """

    executable: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    measures: bool = True
    simulates: bool = False
    takes: tuple[str, ...] | None = None
    plays: bool = False
    knows_robot: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    package: str = ""

    @property
    def takes_robot(self) -> bool:
        """Whether it gets the robot's parameter file: others refuse what they do not know."""
        return self.simulates or self.knows_robot


def declared(name: str, default: str, description: str, choices: Sequence[str] = ()) -> DeclareLaunchArgument:
    """An argument of a launch."""
    limits = {"choices": list(choices)} if choices else {}
    return DeclareLaunchArgument(name, default_value=default, description=description, **limits)


def values_of(arguments: list[DeclareLaunchArgument], context: LaunchContext) -> dict[str, str]:
    """Of this launch's own arguments: one that includes it may have others, under names that mean something else."""
    return {one.name: LaunchConfiguration(one.name).perform(context) for one in arguments}


def source_of(values: dict[str, str], simulated: bool, plays: bool) -> str:
    """What a recording of this is a recording of: a simulated robot stays simulated when its bag is played again."""
    if values.get("bag") and (plays or values.get("source", "bag") == "bag"):
        from onboard_estimation.evaluation.bags import Bag  # only where a bag is there

        with Bag(Path(values["bag"])) as bag:
            return bag.custom_data.get("source", "")
    return "simulated" if simulated else ""


def files_of(values: dict[str, str], *names: str) -> list[str]:
    """Parameter files among the arguments' values, as far as there are such."""
    return [values[name] for name in names or ("config", "nodes") if values[name]]


def argument(name: str, value_type: type) -> ParameterValue:
    """A launch argument as a parameter of that type."""
    return ParameterValue(LaunchConfiguration(name), value_type=value_type)


def in_one_process(
    package: str,
    nodes: Sequence[tuple[Driver, dict[str, Any]]],
    files: Sequence[str],
    context: LaunchContext | None,
    **options: Any,
) -> Node:
    """Executables in one process, each a node under its own name with parameters of its own."""
    # A launch hands parameters to a process for all of its nodes; which is whose only files can say.
    folder = Path(tempfile.mkdtemp(prefix="onboard_estimation-composed-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    named = [one.executable for one, _ in nodes if one.takes_robot]
    restricted = [_restricted(Path(file), named, folder / f"{number}.yaml") for number, file in enumerate(files)]
    sections = {f"/**/{one.executable}": {"ros__parameters": _evaluated(own, context)} for one, own in nodes}
    last = folder / "last.yaml"
    last.write_text(yaml.safe_dump(sections, sort_keys=False), encoding="utf-8")
    return Node(
        package=PACKAGE,
        executable="composed",
        arguments=[f"{one.package or package}/{one.executable}" for one, _ in nodes],
        parameters=[*restricted, str(last)],
        output="screen",
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        **options,
    )


def _restricted(file: Path, nodes: Sequence[str], copy: Path) -> str:
    """A parameter file whose parameters for all nodes are for these: others refuse what they do not know."""
    try:
        first, *parts = _FOR_ALL.split(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return str(file)  # the node says what is wrong with it
    if not parts:
        return str(file)
    text = first + "".join(f"/**/{node}:{part}" for part in parts for node in nodes)
    copy.write_text(text, encoding="utf-8")
    return str(copy)


def _evaluated(parameters: Mapping[str, Any], context: LaunchContext | None) -> dict[str, Any]:
    """With the arguments' values."""
    return {
        name: value.evaluate(context) if isinstance(value, ParameterValue) else value
        for name, value in parameters.items()
    }


def node(package: str, executable: str, parameters: list[Any], **options: Any) -> Node:
    """An executable under its own name."""
    level = ["--log-level", LaunchConfiguration("log_level")]
    return Node(
        package=package,
        executable=executable,
        name=executable,
        parameters=parameters,
        output="screen",
        ros_arguments=level,
        **options,
    )
