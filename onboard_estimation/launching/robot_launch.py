"""Launch descriptions of any robot: live, and the replay of a bag through the live estimator.

A launch file describes its robot in a few lines:

    from onboard_estimation.launching.robot_launch import RobotLaunch

    def generate_launch_description():
        return RobotLaunch(__file__, "crawler", package="crawler_estimation").live()

It runs under `ros2 launch` and under `onboard-estimation launch`. No robot is imported here: nodes have environments of
their own, and `ros2 launch` may run in one without NumPy.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, Shutdown
from launch.launch_context import LaunchContext
from launch.launch_description import LaunchDescription
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from onboard_estimation.base.parameter_file import PARAMETERS_KEY, for_nodes, sections_of_others, to_yaml
from onboard_estimation.nodes.for_launch import REASON_VARIABLE, GivesUp, name_in, published_topics

PACKAGE = "onboard_estimation"
_MOTION_CAPTURE = ("optitrack", "vicon")
_EMULATED_PORTS = {"vicon": {"port": 8801}}
"""In the place of the real system's, which only root may serve."""
_EMULATED_TRUTH = "emulated_truth"
"""Where a simulated robot's truth is published for an emulated motion capture, which publishes what it has seen."""
_ON_OFF = ("true", "false")


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
    knows_robot: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    package: str = ""

    @property
    def takes_robot(self) -> bool:
        """Whether it gets the robot's parameter file: others refuse what they do not know."""
        return self.simulates or self.knows_robot


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
    port, port_parameter
        Which port drivers take, in words, and their parameter for it; a launch argument. Empty: there is none.
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
    port_parameter: str = "port"

    def live(self) -> LaunchDescription:
        """The robot itself, simulated, or as a bag plays it; Ctrl-C ends it."""
        others = [name for name in self._drivers() if name not in ("simulated", "hardware")]
        sources = [*(["simulated"] if self.scenarios else []), "hardware", *others, "bag"]
        arguments = [
            _declared("source", sources[0], "where the measurements come from", sources),
            _declared("bag", "", "bag to play, with source:=bag"),
            _declared("rate", "1.0", "times real time, of the bag"),
            *self._common(),
        ]
        if self._drivers():
            arguments.append(_declared("composed", "false", "driver and estimator in one process: less work", _ON_OFF))
        if self.drivers.get("hardware"):
            arguments.append(_declared("drivers", "true", "hardware: start its drivers; false: yours run", _ON_OFF))
        if self.port:
            arguments.append(_declared("port", "", f"hardware: {self.port}; empty: as in nodes"))
        simulated = ("simulated", *(f"{one}_emulator" for one in _MOTION_CAPTURE)) if self.scenarios else ()
        truths = ("none", *simulated, *_MOTION_CAPTURE)
        meaning = "motion capture; an emulator's sees the simulated robot" if self.scenarios else "motion capture"
        arguments.append(_declared("ground_truth", "simulated" if self.scenarios else "none", meaning, truths))
        as_is = "empty: as in nodes"
        if self.scenarios:
            arguments += [
                _declared("scenario", "", f"simulated: {self.scenarios}; {as_is}"),
                *([_declared(self.variant, "", f"simulated: {self.variants}; {as_is}")] if self.variants else []),
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
        values = _values_of(arguments, context)
        source, bag, control, truth = values["source"], values["bag"], values.get("control"), values["ground_truth"]
        # Better now than from one of the nodes, when the others run and a robot moves.
        drivers = () if values.get("drivers") == "false" else self._drivers().get(source, ())
        if source == "bag" and not bag:
            raise RuntimeError("source:=bag needs bag:=<bag to play>")
        if source == "bag" and not Path(bag).exists():
            raise RuntimeError(f"{bag} does not exist")
        simulates = any(one.simulates for one in drivers)
        if control == "estimate" and not simulates:
            raise RuntimeError(
                f"control:=estimate is for a simulated robot: with source:={source} the robot has its own"
            )
        emulates_truth = truth.endswith("_emulator")
        if emulates_truth and not simulates:
            raise RuntimeError(f"ground_truth:={truth} sees a simulated robot: with source:={source} there is none")
        if source == "bag" and truth in _MOTION_CAPTURE:
            raise RuntimeError(f"ground_truth:={truth}: with source:=bag the truth is the bag's")
        simulated_truth = simulates and (truth == "simulated" or emulates_truth)
        if values.get("initial_from_truth") == "auto":
            values["initial_from_truth"] = "true" if simulated_truth else "false"
        host: dict[str, Any] = {
            "use_sim_time": source == "bag",
            # Of a bag nothing is to be missing; a controller is to go by the newest estimate.
            **({"output_rate_hz": 0.0} if source == "bag" or control == "estimate" else {}),
        }
        # A robot must not be left without its state: an estimator that dies starts again, at its initial state.
        kept: dict[str, Any] = {"respawn": True, "respawn_delay": 1.0}
        composed = values.get("composed") == "true"
        inside = [one for one in drivers if composed and one.measures]
        if composed and not inside:
            raise RuntimeError(f"composed:=true: with source:={source} there is no driver to run with the estimator")
        own = {one.executable: self._parameters(one, values, simulated_truth) for one in drivers}
        within = [(one, own[one.executable]) for one in inside]
        found = self._nodes(values, host, {**kept, **GivesUp().options}, within)
        for one in [*drivers, *_truth_nodes(truth)]:
            if one not in inside:
                files = _files_of(values, *(() if one.takes_robot else ("nodes",))) + self._own_files([one])
                # A sensor that was lost is looked for again, as by the driver itself.
                options = {**({} if one.simulates else kept), **GivesUp().options}
                if one.moved:
                    options["remappings"] = list(one.moved.items())
                parameters = [*files, own.get(one.executable, dict(one.parameters))]
                found.append(_node(values, one.package or self.package, one.executable, parameters, **options))
        found += [*self._beside_it(values, host["use_sim_time"]), *self._for_nobody(values)]
        if source == "bag":
            found.append(_node(values, PACKAGE, "bag_player", [self._played(values)], namespace=None))
        elif not drivers:
            words = "source:=hardware: start the drivers; the estimator says which topics it waits for"
            found.append(LogInfo(msg=words))
        return found

    def _drivers(self) -> dict[str, Sequence[Driver]]:
        """By source."""
        simulated = {"simulated": (Driver(f"{self.robot}_simulator", simulates=True),)} if self.scenarios else {}
        return {**simulated, **self.drivers}

    def _parameters(self, driver: Driver, values: dict[str, str], truth: bool) -> dict[str, Any]:
        """Parameters of a driver, beside those of its files."""
        if not driver.simulates:
            port = {self.port_parameter: values["port"]} if values.get("port") and driver.measures else {}
            return {**driver.parameters, **port}
        chosen = {"scenario": "scenario", "variant": self.variant}
        simulated = {
            "seed": _number(values, "seed", int),
            "imu_rate_hz": _number(values, "imu_rate_hz"),
            "duration_s": _number(values, "duration_s"),
            "publish_truth": truth,
            **({"truth_topics": _EMULATED_TRUTH} if values["ground_truth"].endswith("_emulator") else {}),
            **({"control": values["control"]} if "control" in values else {}),
            **{parameter: values[name] for parameter, name in chosen.items() if values.get(name)},
        }
        taken = {name: one for name, one in simulated.items() if driver.takes is None or name in driver.takes}
        return {**driver.parameters, **taken}

    def _own_files(self, drivers: Sequence[Driver]) -> list[str]:
        return [self._beside(one.file) for one in drivers if one.file]

    def _replay(self, arguments: list[DeclareLaunchArgument], context: LaunchContext) -> list[Any]:
        values = _values_of(arguments, context)
        if not values["bag"] or not Path(values["bag"]).exists():
            raise RuntimeError(f"bag:={values['bag']} does not exist")
        host = {"use_sim_time": True, "reliable_sensors": True, "output_rate_hz": 0.0}
        found = self._nodes(values, host, {"on_exit": Shutdown(reason="the estimator has ended")})
        played = {**self._played(values), "start_offset": _number(values, "start_offset")}
        ends = Shutdown(reason="the bag has ended")
        player = _node(values, PACKAGE, "bag_player", [played], namespace=None, on_exit=ends)
        # The robot's own file has sections for what only its other launch starts.
        named = values | {"nodes": values["nodes"].removeprefix(self._beside(f"{self.robot}_nodes.yaml"))}
        return [*found, *self._beside_it(values, use_sim_time=True), *self._for_nobody(named), player]

    def _nodes(
        self,
        values: dict[str, str],
        host: dict[str, Any],
        options: dict[str, Any],
        inside: Sequence[tuple[Driver, dict[str, Any]]] = (),
    ) -> list[Any]:
        """Estimator and markers; `inside` are drivers, with their parameters, that run in the estimator's process."""
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
        name, files = f"{self.robot}_estimator", _files_of(values)
        if inside:  # in one process, each a node under its own name with parameters of its own
            nodes = [*inside, (Driver(name, simulates=True), estimating)]
            # A launch hands parameters to a process for all of its nodes; which is whose only files can say.
            folder = Path(tempfile.mkdtemp(prefix="onboard_estimation-composed-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            named = [one.executable for one, _ in nodes if one.takes_robot]
            own = enumerate(files + self._own_files([one for one, _ in inside]))
            restricted = [_restricted(Path(file), named, folder / f"{number}.yaml") for number, file in own]
            sections = {f"/**/{one.executable}": {PARAMETERS_KEY: given} for one, given in nodes}
            last = folder / "last.yaml"
            last.write_text(to_yaml(sections), encoding="utf-8")
            words = [f"{one.package or self.package}/{one.executable}" for one, _ in nodes]
            parameters = [*restricted, str(last)]
            found = [_node(values, PACKAGE, "composed", parameters, name=None, arguments=words, **options)]
        else:
            found = [_node(values, self.package, name, [*files, estimating], **options)]
        if values["markers"] == "true":
            found.append(_node(values, PACKAGE, "markers", [*files, {**filtering, "robot": self.robot}]))
        return found

    def _beside_it(self, values: dict[str, str], use_sim_time: bool) -> list[Node]:
        """Recorder and RViz, outside of the robot's namespace."""
        found = []
        if record := values["record"]:
            source = _source_of(values, self._drivers().get(values.get("source", ""), ()))
            recorded = {"output": record, "all": True, **({"source": source} if source else {})}
            found.append(_node(values, PACKAGE, "recorder", [recorded], namespace=None))
        if values.get("rviz") == "true":
            arguments, clock = ["-d", self._beside(f"{self.robot}.rviz")], [{"use_sim_time": use_sim_time}]
            rviz = {"package": "rviz2", "executable": "rviz2", "name": "rviz", "output": "log"}
            found.append(Node(arguments=arguments, parameters=clock, **rviz))
        return found

    def _for_nobody(self, values: dict[str, str]) -> list[LogInfo]:
        """Says which sections of parameter files are for no node that this launch file could start."""
        own = [one.executable for drivers in self._drivers().values() for one in drivers]
        own += [f"{self.robot}_estimator", "markers", *_MOTION_CAPTURE, *(f"{one}_emulator" for one in _MOTION_CAPTURE)]
        nodes = [name_in(values["namespace"], one) for one in own]
        return [
            LogInfo(msg=f"warning: {file} has parameters for {', '.join(others)}; no node of this launch is called so")
            for file in _files_of(values)
            if (others := sections_of_others(Path(file), nodes))
        ]

    def _played(self, values: dict[str, str]) -> dict[str, Any]:
        """Parameters of the player: it waits for its listeners, and leaves out what the nodes publish themselves."""
        namespace = values["namespace"]
        listeners = [name_in(namespace, f"{self.robot}_estimator")]
        return {
            "bag": values["bag"],
            "rate": _number(values, "rate"),
            "clock": 100.0,
            "exclude_topics": published_topics(namespace),
            "wait_for_nodes": [*listeners, *(["/recorder"] if values["record"] else [])],
        }


def _declared(name: str, default: str, description: str, choices: Sequence[str] = ()) -> DeclareLaunchArgument:
    """An argument of a launch."""
    limits = {"choices": list(choices)} if choices else {}
    return DeclareLaunchArgument(name, default_value=default, description=description, **limits)


def _values_of(arguments: list[DeclareLaunchArgument], context: LaunchContext) -> dict[str, str]:
    """Of this launch's own arguments: one that includes it may have others, under names that mean something else."""
    return {one.name: LaunchConfiguration(one.name).perform(context) for one in arguments}


def _number(values: Mapping[str, str], name: str, kind: Callable[[str], float] = float) -> float:
    """The value of an argument that is one."""
    try:
        return kind(values[name])
    except ValueError as error:
        raise RuntimeError(f"argument {name}: {error}") from None


def _files_of(values: dict[str, str], *names: str) -> list[str]:
    """Parameter files among the arguments' values, as far as there are such."""
    return [values[name] for name in names or ("config", "nodes") if values[name]]


def _source_of(values: dict[str, str], drivers: Sequence[Driver]) -> str:
    """What a recording of this is a recording of: a simulated robot stays simulated when its bag is played again."""
    if values.get("bag") and values.get("source", "bag") == "bag":
        from onboard_estimation.bags.bag import Bag  # only where a bag is there

        with Bag(Path(values["bag"])) as bag:
            return bag.custom_data.get("source", "")
    return "simulated" if any(one.simulates for one in drivers) else ""


def _restricted(file: Path, nodes: Sequence[str], copy: Path) -> str:
    """A parameter file whose parameters for all nodes are for these: others refuse what they do not know."""
    text = for_nodes(file, nodes)
    if text is None:
        return str(file)  # the node says what is wrong with it
    copy.write_text(text, encoding="utf-8")
    return str(copy)


def _node(values: Mapping[str, str], package: str, executable: str, parameters: list[Any], **options: Any) -> Node:
    """An executable under its own name, in the robot's namespace."""
    level = ["--log-level", values["log_level"]]
    usual: dict[str, Any] = {
        "name": executable,
        "namespace": values["namespace"],
        "output": "screen",
        "ros_arguments": level,
    }
    usual |= {"additional_env": {REASON_VARIABLE: ""}}  # a node in a launch leaves what only that knows to it
    return Node(package=package, executable=executable, parameters=parameters, **{**usual, **options})


def _truth_nodes(truth: str) -> list[Driver]:
    """What the ground truth of that name needs."""
    system = truth.removesuffix("_emulator")
    if system not in _MOTION_CAPTURE:
        return []
    names = [system] if system == truth else [truth, system]
    parameters = {} if system == truth else _EMULATED_PORTS.get(system, {})
    return [Driver(one, parameters, measures=False, package=PACKAGE) for one in names]
