"""Where the embedded runtime let through what ROS 2 refuses, or the other way round; run on real rclpy as well."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import embedded_ros

EMBEDDED = embedded_ros.install() is embedded_ros.Runtime.EMBEDDED
embedded_only = pytest.mark.skipif(not EMBEDDED, reason="what only the embedded runtime does")

import rclpy  # noqa: E402
from builtin_interfaces.msg import Time as Stamp  # noqa: E402
from geometry_msgs.msg import TransformStamped  # noqa: E402
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from tf2_ros import Buffer  # noqa: E402

LONG_S = 60.0


@pytest.fixture
def context(ros_domain: int) -> Iterator[None]:
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    yield
    rclpy.try_shutdown()


@pytest.fixture
def node(context: None) -> Iterator[Node]:
    made = Node("tested", namespace="/salp")
    yield made
    made.destroy_node()


def wait_until(condition: Any) -> None:
    end_s = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


# Executors


@embedded_only  # real rclpy does not wait at all, whatever its documentation says
@pytest.mark.parametrize("kind", [SingleThreadedExecutor, MultiThreadedExecutor])
def test_a_shutdown_from_another_thread_waits_for_the_callback_that_runs(node: Node, kind: Any) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def callback() -> None:
        begun.set()
        assert go_on.wait(LONG_S)
        ended.set()

    node.create_timer(0.001, callback)
    executor = kind()
    executor.add_node(node)
    spinning = threading.Thread(target=executor.spin, daemon=True)
    spinning.start()
    assert begun.wait(LONG_S)
    assert not executor.shutdown(timeout_sec=0.05), "the callback still ran"
    answers: list[tuple[bool, bool]] = []
    waiting = threading.Thread(target=lambda: answers.append((executor.shutdown(), ended.is_set())), daemon=True)
    waiting.start()
    go_on.set()
    waiting.join(LONG_S)
    assert answers == [(True, True)]
    spinning.join(LONG_S)
    assert not spinning.is_alive()


@embedded_only
def test_a_message_that_a_shutdown_kept_from_its_callback_is_for_the_next_executor(node: Node) -> None:
    received: list[str] = []
    node.create_subscription(String, "text", lambda message: received.append(message.data), 10)
    publisher = node.create_publisher(String, "text", 10)
    wait_until(publisher.get_subscription_count)
    first = SingleThreadedExecutor()
    first.add_node(node)
    publisher.publish(String(data="kept"))
    chosen = first._next_work

    def shut_down_in_between(*arguments: Any) -> Any:
        work = chosen(*arguments)
        first._is_shutdown = True
        return work

    first._next_work = shut_down_in_between  # the instant that no test can hit otherwise
    first.spin_once(timeout_sec=LONG_S)
    assert received == []
    assert first.shutdown()
    second = SingleThreadedExecutor()
    second.add_node(node)
    second.spin_once(timeout_sec=LONG_S)
    assert received == ["kept"]


def test_executors_are_there_after_a_node_was_imported() -> None:
    code = (
        "import embedded_ros; embedded_ros.install(); "
        "import rclpy; from rclpy.node import Node; "
        "print(rclpy.executors.SingleThreadedExecutor.__name__, rclpy.qos.QoSProfile.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "SingleThreadedExecutor QoSProfile\n", done.stderr


# Nodes of one name


@embedded_only  # what a real rmw answers about one of two nodes of a name is its own affair
def test_two_nodes_of_one_name_stay_two(context: None) -> None:
    watcher, first, second = Node("watcher"), Node("same"), Node("same")
    first.create_publisher(String, "of_first", 1)
    second.create_publisher(String, "of_second", 1)

    def seen() -> tuple[int, set[str]]:
        names = watcher.get_node_names().count("same")
        if not names:
            return 0, set()
        topics = {topic for topic, _ in watcher.get_publisher_names_and_types_by_node("same", "/")}
        return names, topics & {"/of_first", "/of_second"}

    wait_until(lambda: seen() == (2, {"/of_first", "/of_second"}))
    second.destroy_node()
    wait_until(lambda: seen() == (1, {"/of_first"}))
    first.destroy_node()
    wait_until(lambda: seen() == (0, set()))


@embedded_only  # real rclpy takes the log of both away with the first that goes
def test_the_log_of_the_other_node_of_one_name_goes_on(context: None) -> None:
    from rcl_interfaces.msg import Log

    first, second, heard = Node("same"), Node("same"), []
    listener = Node("listener", enable_rosout=False)
    listener.create_subscription(Log, "/rosout", lambda message: heard.append((message.name, message.msg)), 10)
    first.destroy_node()

    def has_arrived() -> bool:
        second.get_logger().info("still here")
        rclpy.spin_once(listener, timeout_sec=0.05)
        return ("same", "still here") in heard

    wait_until(has_arrived)


# Logs


def test_once_with_skip_first_logs_the_second_call(node: Node) -> None:
    logger = node.get_logger()
    assert [logger.info("text", once=True, skip_first=True) for _ in range(4)] == [False, True, False, False]


@pytest.mark.parametrize("text", [5, 1.5, ["text"], ValueError("text")])
def test_a_log_message_that_is_no_text_is_refused(node: Node, text: Any) -> None:
    with pytest.raises(TypeError):
        node.get_logger().info(text)


# Transforms


def test_a_transform_is_looked_up_at_a_messages_stamp(context: None) -> None:
    buffer = Buffer()
    for second, x in ((1, 0.0), (2, 1.0)):
        one = TransformStamped(child_frame_id="base_link")
        one.header.frame_id, one.header.stamp.sec, one.transform.translation.x = "map", second, x
        one.transform.rotation.w = 1.0
        buffer.set_transform(one, "test")
    stamp = Stamp(sec=1, nanosec=250_000_000)
    assert buffer.can_transform("map", "base_link", stamp)
    found = buffer.lookup_transform("map", "base_link", stamp)
    assert (found.header.stamp, found.transform.translation.x) == (stamp, pytest.approx(0.25))
    assert buffer.lookup_transform("map", "base_link", Stamp()).transform.translation.x == 1.0
    with pytest.raises((TypeError, SystemError)):
        buffer.lookup_transform("map", "base_link", 1.25)


# Names that are not here


@embedded_only
@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("rclpy.action", "", "rclpy.action: use services and topics"),
        ("rclpy.action", "ActionClient", "rclpy.action: use services"),
        ("rclpy.action.client", "", "rclpy.action: use services"),
        ("rclpy.lifecycle", "LifecycleNode", "use rclpy.node.Node"),
        ("rclpy.clock", "JumpThreshold", "rclpy.clock.JumpThreshold: compare"),
        ("rclpy.qos_overriding_options", "QoSOverridingOptions", "profile from parameters"),
        ("rclpy.wait_for_message", "wait_for_message", "subscribe, and spin"),
        ("launch.actions", "AppendEnvironmentVariable", "launch.actions.AppendEnvironmentVariable"),
        ("rclpy.experimental", "EventsExecutor", "use rclpy.executors.SingleThreadedExecutor"),
        ("rclpy.callback_groups", "Other", "rclpy.callback_groups.Other: ROS 2 may have it"),
        ("rclpy.qos", "QoSProfil", "similar: QoSProfile"),
        ("launch.actions.group_action", "GroupAction", "import what it holds from launch.actions"),
        ("launch.conditions.if_condition", "IfCondition", "import what it holds from launch.conditions"),
        ("launch_ros.actions", "LifecycleNode", "launch_ros.actions.LifecycleNode"),
        ("launch_ros.substitutions.find_package", "FindPackageShare", "from launch_ros.substitutions"),
        ("launch_xml", "", "written in Python"),
        ("tf2_ros", "BufferClient", "tf2_ros.BufferClient"),
        ("tf2_ros.buffer_interface", "BufferInterface", "apply it"),
        ("tf2_geometry_msgs", "", "apply it"),
        ("nav2_msgs.msg", "", "its messages are .*sensor_msgs"),
        ("sensor_msgs.action", "", "sensor_msgs.action"),
        ("sensor_msgs.msg", "Imuu", "similar: Imu"),
        ("cv_bridge", "", "NumPy array"),
    ],
)
def test_what_is_not_here_says_so_where_it_is_imported(module: str, name: str, said: str) -> None:
    for kind in (NotImplementedError, ImportError):
        with pytest.raises(kind, match=f"the embedded runtime has no .*{said}"):
            __import__(module, fromlist=[name] if name else [])


@embedded_only
def test_asking_whether_something_is_here_is_no_error() -> None:
    for name in ("nav2_msgs", "rclpy.experimental", "cv_bridge", "tf2_geometry_msgs", "launch_xml"):
        assert importlib.util.find_spec(name) is None
    assert importlib.util.find_spec("rclpy.node") is not None
    assert not hasattr(rclpy, "action")
    assert getattr(rclpy.qos, "nothing", 3) == 3
    with pytest.raises(NotImplementedError, match=r"no rclpy\.qos\.QoSProfil \(similar: QoSProfile"):
        _ = rclpy.qos.QoSProfil


@embedded_only
def test_a_package_that_is_installed_is_not_said_to_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lab_of_tests_msgs", "cv_bridge"):
        (tmp_path / f"{name}.py").write_text("there = True\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("lab_of_tests_msgs").there
    assert importlib.import_module("cv_bridge").there
    monkeypatch.delitem(sys.modules, "cv_bridge")
