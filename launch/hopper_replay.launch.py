"""Replays a bag of the hopper through the live estimator, in simulated time, losing nothing.

    ros2 launch onboard_estimation hopper_replay.launch.py bag:=recordings/run_7
    onboard-estimation launch hopper_replay.launch.py bag:=recordings/run_7 rate:=0 record:=replayed

With `rate:=0` the player goes as fast as the estimator takes the messages; what it then publishes is, to the last bit,
what it would have published live for the same messages in the same order. Estimates that
the bag holds from its own run are not played. The launch ends with the bag.
"""

from __future__ import annotations

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node, PushRosNamespace
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from onboard_estimation.nodes.outputs import name_in, published_topics

PACKAGE = "onboard_estimation"


def generate_launch_description() -> LaunchDescription:
    config = [FindPackageShare(PACKAGE), "config"]
    on_off = {"choices": ["true", "false"]}
    return LaunchDescription(
        [
            DeclareLaunchArgument("bag", description="bag to play"),
            DeclareLaunchArgument(
                "rate", default_value="1.0", description="times real time; 0: as fast as messages are taken"
            ),
            DeclareLaunchArgument("start_offset", default_value="0.0", description="seconds of the bag to leave out"),
            DeclareLaunchArgument("record", default_value="", description="bag to record all topics into"),
            DeclareLaunchArgument("markers", default_value="true", description="draw estimate and truth", **on_off),
            DeclareLaunchArgument("rviz", default_value="false", description="start RViz", **on_off),
            DeclareLaunchArgument("namespace", default_value="hopper", description="of the robot's topics in the bag"),
            DeclareLaunchArgument("estimator", default_value="", description="kf1, kf2, ...; empty: as in nodes"),
            DeclareLaunchArgument("model", default_value="", description="file of filter parameters made by `train`"),
            DeclareLaunchArgument(
                "config",
                default_value=PathJoinSubstitution([*config, "hopper.yaml"]),
                description="parameter file of the robot",
            ),
            DeclareLaunchArgument(
                "nodes",
                default_value=PathJoinSubstitution([*config, "hopper_nodes.yaml"]),
                description="parameter file of the nodes",
            ),
            OpaqueFunction(function=chosen_nodes),
        ]
    )


def chosen_nodes(context: LaunchContext) -> list[object]:
    """What the arguments ask for."""
    record, markers, rviz = (LaunchConfiguration(name).perform(context) for name in ("record", "markers", "rviz"))
    bag, namespace = (LaunchConfiguration(name).perform(context) for name in ("bag", "namespace"))
    if not bag or not Path(bag).exists():
        raise RuntimeError(f"bag:={bag} does not exist")
    if record and Path(record).exists():
        raise RuntimeError(f"record:={record} exists already and is not overwritten; name another path, or remove it")
    files = [LaunchConfiguration("config"), LaunchConfiguration("nodes"), {"use_sim_time": True}]
    model, estimator = (LaunchConfiguration(name).perform(context) for name in ("model", "estimator"))
    if model and not Path(model).is_file():
        raise RuntimeError(f"model:={model} is no file; `onboard-estimation train hopper BAG... --output` makes one")
    chosen = {"estimator": estimator, "filter_model": str(Path(model).absolute()) if model else ""}
    filtering: list[object] = [*files, *({name: value} for name, value in chosen.items() if value)]
    played = {
        "bag": argument("bag", str),
        "rate": argument("rate", float),
        "start_offset": argument("start_offset", float),
        "clock": 100.0,
        "exclude_topics": published_topics(namespace),
        "wait_for_nodes": [name_in(namespace, "hopper_estimator"), *(["/recorder"] if record else [])],
    }
    in_namespace = [
        PushRosNamespace(LaunchConfiguration("namespace")),
        node(
            "hopper_estimator",
            [*filtering, {"reliable_sensors": True}],
            on_exit=Shutdown(reason="the estimator has ended"),
        ),
    ]
    if markers == "true":
        in_namespace.append(node("markers", filtering))
    beside = [node("bag_player", [played], on_exit=Shutdown(reason="the bag has ended"))]
    if record:
        beside.append(node("recorder", [{"output": argument("record", str), "all": True}]))
    if rviz == "true":
        picture = PathJoinSubstitution([FindPackageShare(PACKAGE), "config", "hopper.rviz"])
        beside.append(Node(package="rviz2", executable="rviz2", name="rviz", arguments=["-d", picture], output="log"))
    return [GroupAction(in_namespace), *beside]


def node(executable: str, parameters: list[object], **options: object) -> Node:
    """One of this package's executables, under its own name."""
    return Node(
        package=PACKAGE, executable=executable, name=executable, parameters=parameters, output="screen", **options
    )


def argument(name: str, value_type: type) -> ParameterValue:
    """A launch argument as a parameter of that type."""
    return ParameterValue(LaunchConfiguration(name), value_type=value_type)
