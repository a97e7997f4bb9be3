"""The hopper, live: phase and height from its accelerometers, with pictures and recording.

    ros2 launch onboard_estimation hopper.launch.py                      with ROS 2
    onboard-estimation launch hopper.launch.py                           without it
    ... source:=simulated hops:=2m record:=my_bag rviz:=true
    ... control:=estimate                                                the simulated robot goes by the live estimate
    ... source:=bag bag:=recordings/run_7

With `source:=hardware` nothing is started for the sensors: the drivers run elsewhere, the estimator waits for their
topics and says for which.
"""

from __future__ import annotations

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, LogInfo, OpaqueFunction
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushRosNamespace
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from onboard_estimation.nodes.giving_up import GivesUp
from onboard_estimation.nodes.outputs import name_in, published_topics

PACKAGE = "onboard_estimation"


def generate_launch_description() -> LaunchDescription:
    config = [FindPackageShare(PACKAGE), "config"]
    on_off = {"choices": ["true", "false"]}
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "source",
                default_value="simulated",
                choices=["simulated", "hardware", "bag"],
                description="where the measurements come from",
            ),
            DeclareLaunchArgument(
                "ground_truth",
                default_value="simulated",
                choices=["none", "simulated"],
                description="motion capture of the simulated robot; hardware's has a node of its own",
            ),
            DeclareLaunchArgument(
                "control",
                default_value="truth",
                choices=["truth", "estimate"],
                description="simulated: what the height controller goes by",
            ),
            DeclareLaunchArgument("estimator", default_value="", description="kf1, kf2, ...; empty: as in nodes"),
            DeclareLaunchArgument("rviz", default_value="false", description="start RViz", **on_off),
            DeclareLaunchArgument("markers", default_value="true", description="draw estimate and truth", **on_off),
            DeclareLaunchArgument("record", default_value="", description="bag to record all topics into"),
            DeclareLaunchArgument("bag", default_value="", description="bag to play, with source:=bag"),
            DeclareLaunchArgument("rate", default_value="1.0", description="times real time, of the bag"),
            DeclareLaunchArgument("scenario", default_value="", description="simulated; empty: as in nodes"),
            DeclareLaunchArgument(
                "hops", default_value="", description="simulated: mixed, 1m, 2m, 3m or 4m; empty: as in nodes"
            ),
            DeclareLaunchArgument("seed", default_value="0", description="simulated: of all noise"),
            DeclareLaunchArgument("imu_rate_hz", default_value="0.0", description="simulated; 0: as the scenario says"),
            DeclareLaunchArgument("duration_s", default_value="0.0", description="simulated; 0: without an end"),
            DeclareLaunchArgument("model", default_value="", description="file of filter parameters made by `train`"),
            DeclareLaunchArgument("namespace", default_value="hopper", description="of all nodes and topics"),
            DeclareLaunchArgument(
                "config",
                default_value=PathJoinSubstitution([*config, "hopper.yaml"]),
                description="parameter file of the robot",
            ),
            DeclareLaunchArgument(
                "nodes",
                default_value=PathJoinSubstitution([*config, "hopper_nodes.yaml"]),
                description="parameter file of the nodes: frames, diagnostics, simulation",
            ),
            DeclareLaunchArgument(
                "log_level",
                default_value="info",
                choices=["debug", "info", "warn", "error", "fatal"],
                description="least that the nodes say",
            ),
            OpaqueFunction(function=chosen_nodes),
        ]
    )


def chosen_nodes(context: LaunchContext) -> list[object]:
    """What the arguments ask for."""
    names = ("source", "record", "markers", "rviz", "ground_truth", "control", "estimator")
    source, record, markers, rviz, truth, control, estimator = (
        LaunchConfiguration(name).perform(context) for name in names
    )
    bag = LaunchConfiguration("bag").perform(context)
    # Better now than from one of the nodes, when the others run and a robot moves.
    if record and Path(record).exists():
        raise RuntimeError(f"record:={record} exists already and is not overwritten; name another path, or remove it")
    if source == "bag" and not (bag and Path(bag).exists()):
        raise RuntimeError(f"{bag} does not exist" if bag else "source:=bag needs bag:=<bag to play>")
    if control == "estimate" and source != "simulated":
        raise RuntimeError(f"control:=estimate is for source:=simulated: with source:={source} the robot has its own")
    common = {"output": "screen", "ros_arguments": ["--log-level", LaunchConfiguration("log_level")]}
    files = [LaunchConfiguration("config"), LaunchConfiguration("nodes"), {"use_sim_time": source == "bag"}]
    model = LaunchConfiguration("model").perform(context)
    if model and not Path(model).is_file():
        raise RuntimeError(f"model:={model} is no file; `onboard-estimation train hopper BAG... --output` makes one")
    chosen = {"estimator": estimator, "filter_model": str(Path(model).absolute()) if model else ""}
    filtering: list[object] = [*files, *({name: value} for name, value in chosen.items() if value)]
    # Simulated sensors offer to send reliably; drivers often do not.
    reliable = [{"reliable_sensors": True}] if source == "simulated" else []
    in_namespace = [
        PushRosNamespace(LaunchConfiguration("namespace")),
        Node(
            package=PACKAGE,
            executable="hopper_estimator",
            name="hopper_estimator",
            parameters=[*filtering, *reliable],
            # A robot must not be left without its state: an estimator that dies starts again, at its initial state.
            respawn=True,
            respawn_delay=1.0,
            **GivesUp().options,
            **common,
        ),
    ]
    if markers == "true":
        in_namespace.append(Node(package=PACKAGE, executable="markers", name="markers", parameters=filtering, **common))
    beside = []
    if source == "simulated":
        simulated = {
            "control": control,
            "seed": argument("seed", int),
            "imu_rate_hz": argument("imu_rate_hz", float),
            "duration_s": argument("duration_s", float),
            "publish_truth": truth == "simulated",
        }
        for parameter, name in (("scenario", "scenario"), ("variant", "hops")):
            if LaunchConfiguration(name).perform(context):
                simulated[parameter] = argument(name, str)
        in_namespace.append(
            Node(
                package=PACKAGE,
                executable="hopper_simulator",
                name="hopper_simulator",
                parameters=[*files, simulated],
                **GivesUp().options,
                **common,
            )
        )
    elif source == "bag":
        played = {"bag": argument("bag", str), "rate": argument("rate", float), "clock": 100.0}
        namespace = LaunchConfiguration("namespace").perform(context)
        played["exclude_topics"] = published_topics(namespace)
        played["wait_for_nodes"] = [name_in(namespace, "hopper_estimator"), *(["/recorder"] if record else [])]
        beside.append(Node(package=PACKAGE, executable="bag_player", name="bag_player", parameters=[played], **common))
    else:
        beside.append(LogInfo(msg="source:=hardware: start the drivers; the estimator says which topics it waits for"))
    if record:
        recorded = {"output": argument("record", str), "all": True}
        beside.append(Node(package=PACKAGE, executable="recorder", name="recorder", parameters=[recorded], **common))
    if rviz == "true":
        picture = PathJoinSubstitution([FindPackageShare(PACKAGE), "config", "hopper.rviz"])
        beside.append(Node(package="rviz2", executable="rviz2", name="rviz", arguments=["-d", picture], output="log"))
    return [GroupAction(in_namespace), *beside]


def argument(name: str, value_type: type) -> ParameterValue:
    """A launch argument as a parameter of that type."""
    return ParameterValue(LaunchConfiguration(name), value_type=value_type)
