"""Launch descriptions of any robot: live, and the replay of a bag through the live estimator.

A launch file describes its robot in a few lines:

    from onboard_estimation.robot_launch import RobotLaunch

    def generate_launch_description():
        return RobotLaunch(__file__, "crawler", package="crawler_estimation").live()

It runs under `ros2 launch` and under `onboard-estimation launch`. No robot is imported here: nodes have environments of
their own, and `ros2 launch` may run in one without NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from launch.actions import DeclareLaunchArgument, GroupAction, LogInfo, OpaqueFunction, Shutdown
from launch.launch_context import LaunchContext
from launch.launch_description import LaunchDescription
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node, PushRosNamespace

from onboard_estimation.launched_nodes import (
    PACKAGE,
    Driver,
    argument,
    declared,
    files_of,
    in_one_process,
    node,
    source_of,
    values_of,
)
from onboard_estimation.nodes.giving_up import GivesUp
from onboard_estimation.nodes.outputs import name_in, published_topics

__all__ = ["PACKAGE", "Driver", "RobotLaunch"]

_MOTION_CAPTURE = ("optitrack", "vicon")
_EMULATED_PORTS = {"vicon": {"port": 8801}}
"""In the place of the real system's, which only root may serve."""
_EMULATED_TRUTH = "emulated_truth"
"""Where a simulated robot's truth is published for an emulated motion capture, which publishes what it has seen."""
_ON_OFF = ("true", "false")


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
        By source of measurements (`hardware`, ...), the nodes that it starts. `simulated` and `bag` go without saying.
    port
        What the serial port that drivers take is of, in words; a launch argument. Empty: there is none.
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
    drivers: Mapping[str, Sequence[Driver]] = field(default_factory=dict)
    port: str = ""

    def live(self) -> LaunchDescription:
        """The robot itself, simulated, or as a bag plays it; Ctrl-C ends it."""
        others = [name for name in self._drivers() if name not in ("simulated", "hardware")]
        sources = [*(["simulated"] if self.scenarios else []), "hardware", *others, "bag"]
        playing = ["bag", *(name for name in others if any(one.plays for one in self.drivers[name]))]
        arguments = [
            declared("source", sources[0], "where the measurements come from", sources),
            declared("bag", "", f"bag to play, with {' or '.join(f'source:={name}' for name in playing)}"),
            declared("rate", "1.0", "times real time, of the bag"),
            *self._common(),
        ]
        if self._drivers():
            arguments.append(declared("composed", "false", "driver and estimator in one process: less work", _ON_OFF))
        if self.drivers.get("hardware"):
            arguments.append(declared("drivers", "true", "hardware: start its drivers; false: yours run", _ON_OFF))
        if self.port:
            arguments.append(declared("port", "", f"hardware: serial port of {self.port}; empty: as in nodes"))
        simulated = ("simulated", *(f"{one}_emulator" for one in _MOTION_CAPTURE)) if self.scenarios else ()
        truths = ("none", *simulated, *_MOTION_CAPTURE)
        meaning = "motion capture; an emulator's sees the simulated robot" if self.scenarios else "motion capture"
        arguments.append(declared("ground_truth", "simulated" if self.scenarios else "none", meaning, truths))
        if self.scenarios:
            arguments += [
                declared("scenario", "", f"simulated: {self.scenarios}; empty: as in nodes"),
                *self._variants(),
                declared("seed", "0", "simulated: of all noise"),
                declared("imu_rate_hz", "0.0", "simulated; 0: as the scenario says"),
                declared("duration_s", "0.0", "simulated; 0: without an end"),
            ]
        if self.controlled:
            arguments.append(
                declared("control", "truth", "simulated: what its controller goes by", ("truth", "estimate"))
            )
        if self.truth_starts:
            meaning = "start the filter where the ground truth has the robot; auto: where it is simulated"
            arguments.append(declared("initial_from_truth", "auto", meaning, ("auto", *_ON_OFF)))
        return LaunchDescription([*arguments, OpaqueFunction(function=partial(self._live, arguments))])

    def replay(self) -> LaunchDescription:
        """A bag through the live estimator, in simulated time, losing nothing; it ends with the bag."""
        arguments = [
            DeclareLaunchArgument("bag", description="bag to play"),
            declared("rate", "1.0", "times real time; 0: as fast as messages are taken"),
            declared("start_offset", "0.0", "seconds of the bag to leave out"),
            *self._common(),
        ]
        if self.truth_starts:
            arguments.append(declared("initial_from_truth", "false", "start from the bag's ground truth", _ON_OFF))
        return LaunchDescription([*arguments, OpaqueFunction(function=partial(self._replay, arguments))])

    def _variants(self) -> list[DeclareLaunchArgument]:
        """The argument for variants, of a robot that has any."""
        meaning = f"simulated: {self.variants}; empty: as in nodes"
        return [declared(self.variant, "", meaning)] if self.variants else []

    def _common(self) -> list[DeclareLaunchArgument]:
        arguments = [
            declared("markers", "true", "draw estimate and truth", _ON_OFF),
            declared("record", "", "bag to record all topics into"),
            declared("namespace", self.robot, "of all nodes and topics"),
            declared("config", self._beside(f"{self.robot}.yaml"), "parameter file of the robot"),
            declared("nodes", self._beside(f"{self.robot}_nodes.yaml"), "parameter file of the nodes: frames, ..."),
            declared("log_level", "info", "least that the nodes say", ("debug", "info", "warn", "error", "fatal")),
        ]
        if self._beside(f"{self.robot}.rviz"):
            arguments.append(declared("rviz", "false", "start RViz", _ON_OFF))
        if self.estimators:
            arguments.append(declared("estimator", "", f"{self.estimators}; empty: as in nodes"))
        if self.model:
            arguments.append(declared("model", "", f"file of {self.models} made by `train`"))
        return arguments

    def _beside(self, name: str) -> str:
        """Path of a file of the robot; empty where it has none of that name."""
        path = Path(self.file).absolute().parent.parent / "config" / name
        return str(path) if path.is_file() else ""

    def _live(self, arguments: list[DeclareLaunchArgument], context: LaunchContext) -> list[Any]:
        """What the arguments ask for."""
        values = values_of(arguments, context)
        source, bag, control = values["source"], values["bag"], values.get("control")
        # Better now than from one of the nodes, when the others run and a robot moves.
        drivers = () if values.get("drivers") == "false" else self._drivers().get(source, ())
        if source == "bag" and not bag:
            raise RuntimeError("source:=bag needs bag:=<bag to play>")
        if (source == "bag" or any(one.plays for one in drivers)) and bag and not Path(bag).exists():
            raise RuntimeError(f"{bag} does not exist")
        simulates = any(one.simulates for one in drivers)
        if control == "estimate" and not simulates:
            raise RuntimeError(
                f"control:=estimate is for a simulated robot: with source:={source} the robot has its own"
            )
        truth = values["ground_truth"]
        emulates_truth = truth.endswith("_emulator")
        if emulates_truth and not simulates:
            raise RuntimeError(f"ground_truth:={truth} sees a simulated robot: with source:={source} there is none")
        if source == "bag" and truth in _MOTION_CAPTURE:
            raise RuntimeError(f"ground_truth:={truth}: with source:=bag the truth is the bag's")
        simulated_truth = simulates and (truth == "simulated" or emulates_truth)
        if values.get("initial_from_truth") == "auto":
            values["initial_from_truth"] = "true" if simulated_truth else "false"
        host = {
            "use_sim_time": source == "bag",
            # Simulated sensors offer to send reliably; drivers often do not, and a node may rest while they go on.
            **({"reliable_sensors": True} if source == "simulated" else {}),
            # Of a bag nothing is to be missing; a controller is to go by the newest estimate.
            **({"output_rate_hz": 0.0} if source == "bag" or control == "estimate" else {}),
        }
        # A robot must not be left without its state: an estimator that dies starts again, at its initial state.
        kept: dict[str, Any] = {"respawn": True, "respawn_delay": 1.0, **GivesUp().options}
        composed = values.get("composed") == "true"
        inside = [one for one in drivers if composed and one.measures]
        if composed and not inside:
            raise RuntimeError(f"composed:=true: with source:={source} there is no driver to run with the estimator")
        own = {one.executable: self._parameters(one, values, simulated_truth) for one in drivers}
        seeing = _truth_nodes(truth)
        own |= {one.executable: dict(one.parameters) for one in seeing}
        in_namespace, beside = self._nodes(values, host, kept, [(one, own[one.executable]) for one in inside], context)
        for one in [*drivers, *seeing]:
            if one not in inside:
                files = [*files_of(values, *(() if one.takes_robot else ("nodes",))), *self._own_files([one])]
                # A sensor that was lost is looked for again, as by the driver itself.
                options = GivesUp().options if one.simulates else {**kept, **GivesUp().options}
                parameters = [*files, own[one.executable]]
                if one.moved:
                    options["remappings"] = list(one.moved.items())
                in_namespace.append(node(one.package or self.package, one.executable, parameters, **options))
        if source == "bag":
            beside.append(node(PACKAGE, "bag_player", [self._played(values)]))
        elif not drivers:
            words = "source:=hardware: start the drivers; the estimator says which topics it waits for"
            beside.append(LogInfo(msg=words))
        return [GroupAction(in_namespace), *beside]

    def _drivers(self) -> dict[str, Sequence[Driver]]:
        """By source."""
        simulated = {"simulated": (Driver(f"{self.robot}_simulator", simulates=True),)} if self.scenarios else {}
        return {**simulated, **self.drivers}

    def _parameters(self, driver: Driver, values: dict[str, str], truth: bool) -> dict[str, Any]:
        """Parameters of a driver, beside those of its files."""
        if not driver.simulates:
            port = {"port": argument("port", str)} if values.get("port") and driver.measures else {}
            return {**driver.parameters, **port}
        chosen = {"scenario": "scenario", "variant": self.variant}
        simulated = {
            "seed": argument("seed", int),
            "imu_rate_hz": argument("imu_rate_hz", float),
            "duration_s": argument("duration_s", float),
            "publish_truth": truth,
            **({"truth_topics": _EMULATED_TRUTH} if values["ground_truth"].endswith("_emulator") else {}),
            **({"control": values["control"]} if "control" in values else {}),
            **{parameter: argument(name, str) for parameter, name in chosen.items() if values.get(name)},
        }
        taken = (
            simulated if driver.takes is None else {name: simulated[name] for name in driver.takes if name in simulated}
        )
        played = {"bag": argument("bag", str)} if driver.plays and values["bag"] else {}
        return {**driver.parameters, **taken, **played}

    def _own_files(self, drivers: Sequence[Driver]) -> list[str]:
        return [self._beside(one.file) for one in drivers if one.file]

    def _replay(self, arguments: list[DeclareLaunchArgument], context: LaunchContext) -> list[Any]:
        values = values_of(arguments, context)
        if not values["bag"] or not Path(values["bag"]).exists():
            raise RuntimeError(f"bag:={values['bag']} does not exist")
        host = {"use_sim_time": True, "reliable_sensors": True, "output_rate_hz": 0.0}
        ends = {"on_exit": Shutdown(reason="the estimator has ended")}
        in_namespace, beside = self._nodes(values, host, ends)
        played = {**self._played(values), "start_offset": argument("start_offset", float)}
        beside.append(node(PACKAGE, "bag_player", [played], on_exit=Shutdown(reason="the bag has ended")))
        return [GroupAction(in_namespace), *beside]

    def _nodes(
        self,
        values: dict[str, str],
        host: dict[str, Any],
        options: dict[str, Any],
        inside: Sequence[tuple[Driver, dict[str, Any]]] = (),
        context: LaunchContext | None = None,
    ) -> tuple[list[Any], list[Any]]:
        """Estimator and markers, in the robot's namespace, and what runs beside it: recorder, RViz.

        `inside` are drivers, with their parameters, that run in the estimator's process.
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
        if inside:
            together = [*inside, (Driver(name, simulates=True), estimating)]
            files = [*files_of(values), *self._own_files([one for one, _ in inside])]
            estimator = in_one_process(self.package, together, files, context, **options)
        else:
            estimator = node(self.package, name, [*files_of(values), estimating], **options)
        in_namespace = [PushRosNamespace(LaunchConfiguration("namespace")), estimator]
        if values["markers"] == "true":
            drawing = {**filtering, "robot": self.robot}
            in_namespace.append(node(PACKAGE, "markers", [*files_of(values), drawing]))
        beside = []
        if record:
            drivers = self._drivers().get(values.get("source", ""), ())
            source = source_of(values, any(one.simulates for one in drivers), any(one.plays for one in drivers))
            labelled = {"source": source} if source else {}
            beside.append(node(PACKAGE, "recorder", [{"output": argument("record", str), "all": True, **labelled}]))
        if values.get("rviz") == "true":
            arguments = ["-d", self._beside(f"{self.robot}.rviz")]
            clock = [{"use_sim_time": host["use_sim_time"]}]
            beside.append(
                Node(
                    package="rviz2",
                    executable="rviz2",
                    name="rviz",
                    arguments=arguments,
                    parameters=clock,
                    output="log",
                )
            )
        return in_namespace, beside

    def _played(self, values: dict[str, str]) -> dict[str, Any]:
        """Parameters of the player: it waits for its listeners, and leaves out what the nodes publish themselves."""
        namespace = values["namespace"]
        listeners = [name_in(namespace, f"{self.robot}_estimator")]
        return {
            "bag": argument("bag", str),
            "rate": argument("rate", float),
            "clock": 100.0,
            "exclude_topics": published_topics(namespace),
            "wait_for_nodes": [*listeners, *(["/recorder"] if values["record"] else [])],
        }


def _truth_nodes(truth: str) -> list[Driver]:
    """What the ground truth of that name needs."""
    system = truth.removesuffix("_emulator")
    if system not in _MOTION_CAPTURE:
        return []
    names = [system] if system == truth else [truth, system]
    parameters = {} if system == truth else _EMULATED_PORTS.get(system, {})
    return [Driver(one, parameters, measures=False, package=PACKAGE) for one in names]
