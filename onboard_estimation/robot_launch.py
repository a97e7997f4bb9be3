"""Launch descriptions of any robot: live, and the replay of a bag through the live estimator.

A launch file describes its robot in a few lines:

    from onboard_estimation.robot_launch import RobotLaunch

    def generate_launch_description():
        return RobotLaunch(__file__, "crawler", package="crawler_estimation").live()

It runs under `ros2 launch` and under `onboard-estimation launch`. No robot is imported here: nodes have environments of
their own, and `ros2 launch` may run in one without NumPy.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from launch.actions import DeclareLaunchArgument, GroupAction, LogInfo, OpaqueFunction, Shutdown
from launch.launch_context import LaunchContext
from launch.launch_description import LaunchDescription
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node, PushRosNamespace
from launch_ros.parameter_descriptions import ParameterValue

from onboard_estimation.nodes.giving_up import GivesUp
from onboard_estimation.nodes.outputs import name_in, published_topics

PACKAGE = "onboard_estimation"
_ON_OFF = ("true", "false")


@dataclass(frozen=True)
class Driver:
    """A node that measures on a robot, real or imitated; it gets the robot's parameter files, as all nodes do.

    Attributes
    ----------
    executable
        Of the node, which has its name.
    package
        That has the executable.
    file
        Parameter file beside the robot's, in `config`, before `parameters`; empty: none.
    parameters
        Of the node.
    simulated
        There is no robot: what is recorded is of a simulated one, and some of the simulator's arguments count.
    takes
        Which of the simulator's parameters it takes: `scenario`, `variant`, `seed`, `imu_rate_hz`, `duration_s`,
        `publish_truth`. With the last, an estimator can start from the truth that it publishes.
    """

    executable: str
    package: str = PACKAGE
    file: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    takes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RobotLaunch:
    """What a launch file says of its robot.

    Attributes
    ----------
    file
        The launch file. In `config` beside its folder stand `<robot>.yaml`, the robot's parameters,
        `<robot>_nodes.yaml`, those of the nodes, and `<robot>.rviz`, as far as there are such.
    robot
        Its name: of the namespace, and of the executables `<robot>_estimator` and `<robot>_simulator`.
    package
        That has these executables.
    scenarios, variants
        Which there are, in words, for a robot with a live simulator; empty: it has none, or its scenarios have none.
    variant
        What the robot calls its variants; a launch argument.
    estimators
        Which there are, in words; empty: one, and no argument.
    model
        Parameter that takes the file of a trained model; empty: there is none.
    models
        What such a file holds, in words.
    truth_starts
        The estimator can start from the ground truth.
    controlled
        The simulated robot has a controller, which can go by the live estimate.
    drivers
        Nodes that measure, by the `source` that starts them.
    """

    file: str
    robot: str
    package: str = PACKAGE
    scenarios: str = ""
    variants: str = ""
    variant: str = "variant"
    estimators: str = ""
    model: str = ""
    models: str = "a model"
    truth_starts: bool = False
    controlled: bool = False
    drivers: Mapping[str, Driver] = field(default_factory=dict)

    def live(self) -> LaunchDescription:
        """The robot itself, simulated, or as a bag plays it; Ctrl-C ends it."""
        sources = (*(("simulated",) if self.scenarios else ()), "hardware", "bag", *self.drivers)
        arguments = [
            _declared("source", sources[0], "where the measurements come from", sources),
            _declared("bag", "", "bag to play, with source:=bag"),
            _declared("rate", "1.0", "times real time, of the bag"),
            *self._common(),
        ]
        if self.scenarios or self.drivers:
            arguments.append(
                _declared("composed", "false", "source and estimator in one process, which saves half", _ON_OFF)
            )
        if self.scenarios:
            arguments += [
                _declared(
                    "ground_truth",
                    "simulated",
                    "motion capture of the simulated robot; hardware's has a node of its own",
                    ("none", "simulated"),
                ),
                _declared("scenario", "", f"simulated: {self.scenarios}; empty: as in nodes"),
                *self._variants(),
                _declared("seed", "0", "simulated: of all noise"),
                _declared("imu_rate_hz", "0.0", "simulated; 0: as the scenario says"),
                _declared("duration_s", "0.0", "simulated; 0: without an end"),
            ]
        if self.controlled:
            arguments.append(
                _declared("control", "truth", "simulated: what its controller goes by", ("truth", "estimate"))
            )
        if self.truth_starts:
            meaning = "start the filter where the ground truth has the robot; auto: where it is simulated"
            arguments.append(_declared("initial_from_truth", "auto", meaning, ("auto", *_ON_OFF)))
        return LaunchDescription([*arguments, OpaqueFunction(function=partial(self._live, arguments))])

    def replay(self) -> LaunchDescription:
        """A bag through the live estimator, in simulated time, losing nothing; it ends with the bag."""
        arguments = [
            DeclareLaunchArgument("bag", description="bag to play"),
            _declared("rate", "1.0", "times real time; 0: as fast as messages are taken"),
            _declared("start_offset", "0.0", "seconds of the bag to leave out"),
            *self._common(),
        ]
        if self.truth_starts:
            arguments.append(_declared("initial_from_truth", "false", "start from the bag's ground truth", _ON_OFF))
        return LaunchDescription([*arguments, OpaqueFunction(function=partial(self._replay, arguments))])

    def _variants(self) -> list[DeclareLaunchArgument]:
        """The argument for variants, of a robot that has any."""
        meaning = f"simulated: {self.variants}; empty: as in nodes"
        return [_declared(self.variant, "", meaning)] if self.variants else []

    def _common(self) -> list[DeclareLaunchArgument]:
        arguments = [
            _declared("markers", "true", "draw estimate and truth", _ON_OFF),
            _declared("record", "", "bag to record all topics into"),
            _declared("namespace", self.robot, "of all nodes and topics"),
            _declared("config", self._beside(f"{self.robot}.yaml"), "parameter file of the robot"),
            _declared("nodes", self._beside(f"{self.robot}_nodes.yaml"), "parameter file of the nodes: frames, ..."),
            _declared("log_level", "info", "least that the nodes say", ("debug", "info", "warn", "error", "fatal")),
        ]
        if self._beside(f"{self.robot}.rviz"):
            arguments.append(_declared("rviz", "false", "start RViz", _ON_OFF))
        if self.estimators:
            arguments.append(_declared("estimator", "", f"{self.estimators}; empty: as in nodes"))
        if self.model:
            arguments.append(_declared("model", "", f"file of {self.models} made by `train`"))
        return arguments

    def _beside(self, name: str) -> str:
        """Path of a file of the robot; empty where it has none of that name."""
        path = Path(self.file).absolute().parent.parent / "config" / name
        return str(path) if path.is_file() else ""

    def _live(self, arguments: list[DeclareLaunchArgument], context: LaunchContext) -> list[Any]:
        """What the arguments ask for."""
        values = _values(arguments, context)
        source, bag, control = values["source"], values["bag"], values.get("control")
        # Better now than from one of the nodes, when the others run and a robot moves.
        if source == "bag" and not (bag and Path(bag).exists()):
            raise RuntimeError(f"{bag} does not exist" if bag else "source:=bag needs bag:=<bag to play>")
        if control == "estimate" and source != "simulated":
            raise RuntimeError(
                f"control:=estimate is for source:=simulated: with source:={source} the robot has its own"
            )
        driver = self.drivers.get(source)
        may_have_truth = source == "simulated" or (driver is not None and "publish_truth" in driver.takes)
        simulated_truth = may_have_truth and values.get("ground_truth") == "simulated"
        if values.get("initial_from_truth") == "auto":
            values["initial_from_truth"] = "true" if simulated_truth else "false"
        host = {
            "use_sim_time": source == "bag",
            # Simulated sensors offer to send reliably; drivers often do not.
            **({"reliable_sensors": True} if source == "simulated" else {}),
            # Of a bag nothing is to be missing; a controller is to go by the newest estimate.
            **({"output_rate_hz": 0.0} if source == "bag" or control == "estimate" else {}),
        }
        # A robot must not be left without its state: an estimator that dies starts again, at its initial state.
        kept: dict[str, Any] = {"respawn": True, "respawn_delay": 1.0, **GivesUp().options}
        composed = values.get("composed") == "true"
        measuring = self._measuring(source, values, simulated_truth)
        if composed and not measuring:
            there = ", ".join([*(("simulated",) if self.scenarios else ()), *self.drivers])
            raise RuntimeError(f"composed:=true is for source:={there}: with source:={source} there is no driver")
        files = _files(values)
        if driver is not None and driver.file:
            files.append(self._beside(driver.file))
        in_namespace, beside = self._nodes(
            values, host, kept, _evaluated(measuring, context) if composed else {}, files
        )
        if not composed:
            for name, parameters in measuring.items():
                package, executable = name.split("/")
                options = kept if driver is not None else GivesUp().options
                in_namespace.append(_node(package, executable, [*files, parameters], **options))
        if source == "bag":
            beside.append(_node(PACKAGE, "bag_player", [self._played(values)]))
        elif source == "hardware":
            words = "source:=hardware: start the drivers; the estimator says which topics it waits for"
            beside.append(LogInfo(msg=words))
        return [GroupAction(in_namespace), *beside]

    def _measuring(self, source: str, values: dict[str, str], truth: bool) -> dict[str, dict[str, Any]]:
        """Parameters of the node that measures, by its `package/executable`; empty: none is started."""
        if source == "simulated":
            return {f"{self.package}/{self.robot}_simulator": self._simulated(values, truth)}
        driver = self.drivers.get(source)
        if driver is None:
            return {}
        simulated = self._simulated(values, truth) if driver.takes else {}
        taken = {name: value for name, value in simulated.items() if name in driver.takes}
        return {f"{driver.package}/{driver.executable}": {**driver.parameters, **taken}}

    def _simulated(self, values: dict[str, str], truth: bool) -> dict[str, Any]:
        """Parameters of the simulator."""
        chosen = {"scenario": "scenario", "variant": self.variant}
        return {
            "seed": _argument("seed", int),
            "imu_rate_hz": _argument("imu_rate_hz", float),
            "duration_s": _argument("duration_s", float),
            "publish_truth": truth,
            **({"control": values["control"]} if "control" in values else {}),
            **{parameter: _argument(name, str) for parameter, name in chosen.items() if values.get(name)},
        }

    def _replay(self, arguments: list[DeclareLaunchArgument], context: LaunchContext) -> list[Any]:
        values = _values(arguments, context)
        if not values["bag"] or not Path(values["bag"]).exists():
            raise RuntimeError(f"bag:={values['bag']} does not exist")
        host = {"use_sim_time": True, "reliable_sensors": True, "output_rate_hz": 0.0}
        ends = {"on_exit": Shutdown(reason="the estimator has ended")}
        in_namespace, beside = self._nodes(values, host, ends)
        played = {**self._played(values), "start_offset": _argument("start_offset", float)}
        beside.append(_node(PACKAGE, "bag_player", [played], on_exit=Shutdown(reason="the bag has ended")))
        return [GroupAction(in_namespace), *beside]

    def _nodes(
        self,
        values: dict[str, str],
        host: dict[str, Any],
        options: dict[str, Any],
        sources: Mapping[str, dict[str, Any]] = MappingProxyType({}),
        files: Sequence[str] = (),
    ) -> tuple[list[Any], list[Any]]:
        """Estimator and markers, in the robot's namespace, and what runs beside it: recorder, RViz.

        `sources` are executables (`package/executable`), with the parameters of their nodes, that run in the
        estimator's process, whose parameter files are `files` then.
        """
        model, record, start = values.get("model"), values["record"], values.get("initial_from_truth")
        if record and Path(record).exists():
            raise RuntimeError(
                f"record:={record} exists already and is not overwritten; name another path, or remove it"
            )
        if model and not Path(model).is_file():
            command = f"onboard-estimation train {self.robot} BAG... --output"
            raise RuntimeError(f"model:={model} is no file; `{command}` makes one")
        chosen = {"estimator": values.get("estimator"), self.model: str(Path(model).absolute()) if model else ""}
        filtering = {"use_sim_time": host["use_sim_time"], **{name: one for name, one in chosen.items() if one}}
        estimating = {**filtering, **host, **({"initial_from_truth": start == "true"} if start else {})}
        name = f"{self.robot}_estimator"
        if sources:
            estimator = _together({**sources, f"{self.package}/{name}": estimating}, files, **options)
        else:
            estimator = _node(self.package, name, [*_files(values), estimating], **options)
        in_namespace = [PushRosNamespace(LaunchConfiguration("namespace")), estimator]
        if values["markers"] == "true":
            drawing = {**filtering, "robot": self.robot}
            in_namespace.append(_node(PACKAGE, "markers", [*_files(values), drawing]))
        beside = []
        if record:
            source = _source_of(values, ["simulated", *(name for name, one in self.drivers.items() if one.simulated)])
            labelled = {"source": source} if source else {}
            beside.append(_node(PACKAGE, "recorder", [{"output": _argument("record", str), "all": True, **labelled}]))
        if values.get("rviz") == "true":
            picture = self._beside(f"{self.robot}.rviz")
            beside.append(
                Node(package="rviz2", executable="rviz2", name="rviz", arguments=["-d", picture], output="log")
            )
        return in_namespace, beside

    def _played(self, values: dict[str, str]) -> dict[str, Any]:
        """Parameters of the player: it waits for its listeners, and leaves out what the nodes publish themselves."""
        namespace = values["namespace"]
        listeners = [name_in(namespace, f"{self.robot}_estimator")]
        return {
            "bag": _argument("bag", str),
            "rate": _argument("rate", float),
            "clock": 100.0,
            "exclude_topics": published_topics(namespace),
            "wait_for_nodes": [*listeners, *(["/recorder"] if values["record"] else [])],
        }


def _declared(name: str, default: str, description: str, choices: Sequence[str] = ()) -> DeclareLaunchArgument:
    limits = {"choices": list(choices)} if choices else {}
    return DeclareLaunchArgument(name, default_value=default, description=description, **limits)


def _values(arguments: list[DeclareLaunchArgument], context: LaunchContext) -> dict[str, str]:
    """Of this launch's own arguments: one that includes it may have others, under names that mean something else."""
    return {one.name: LaunchConfiguration(one.name).perform(context) for one in arguments}


def _source_of(values: dict[str, str], simulated: Sequence[str]) -> str:
    """What a recording of this is a recording of: a simulated robot stays simulated when its bag is played again."""
    if values.get("bag") and values.get("source", "bag") == "bag":
        from onboard_estimation.evaluation.bags import Bag  # only where a bag is there

        with Bag(Path(values["bag"])) as bag:
            return bag.custom_data.get("source", "")
    return "simulated" if values.get("source") in simulated else ""


def _files(values: dict[str, str]) -> list[str]:
    return [values[name] for name in ("config", "nodes") if values[name]]


def _evaluated(parameters: Mapping[str, dict[str, Any]], context: LaunchContext) -> dict[str, dict[str, Any]]:
    """Parameters by node, with the arguments' values."""
    return {
        node: {
            name: value.evaluate(context) if isinstance(value, ParameterValue) else value for name, value in one.items()
        }
        for node, one in parameters.items()
    }


def _argument(name: str, value_type: type) -> ParameterValue:
    """A launch argument as a parameter of that type."""
    return ParameterValue(LaunchConfiguration(name), value_type=value_type)


def _together(nodes: Mapping[str, dict[str, Any]], files: Sequence[str], **options: Any) -> Node:
    """Executables (`package/executable`) in one process, each a node under its own name with parameters of its own."""
    # A launch hands parameters to a process for all of its nodes; which is whose only a file can say.
    sections = {f"/**/{name.split('/')[1]}": {"ros__parameters": own} for name, own in nodes.items()}
    folder = Path(tempfile.mkdtemp(prefix="onboard_estimation-composed-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    own = folder / "parameters.yaml"
    own.write_text(yaml.safe_dump(sections, sort_keys=False), encoding="utf-8")
    return Node(
        package=PACKAGE,
        executable="composed",
        arguments=list(nodes),
        parameters=[*files, str(own)],
        output="screen",
        ros_arguments=["--log-level", LaunchConfiguration("log_level")],
        **options,
    )


def _node(package: str, executable: str, parameters: list[Any], **options: Any) -> Node:
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
