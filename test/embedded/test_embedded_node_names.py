"""Whose names are whose: of rclpy's `Node`, of the embedded one, of our nodes, and of a laboratory's."""

from __future__ import annotations

import ast
import inspect
import runpy
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import embedded_ros

EMBEDDED = embedded_ros.install() is embedded_ros.Runtime.EMBEDDED
embedded_only = pytest.mark.skipif(not EMBEDDED, reason="what only the embedded runtime does")

import rclpy  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.serialization import serialize_message  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

PACKAGES = Path(embedded_ros.__file__).resolve().parent / "packages"
# Of rclpy's Node in Humble, Jazzy and Rolling together.
_PUBLIC = """
PARAM_REL_TOL add_on_set_parameters_callback add_post_set_parameters_callback add_pre_set_parameters_callback
add_waitable clients context count_clients count_publishers count_services count_subscribers create_client
create_guard_condition create_publisher create_rate create_service create_subscription create_timer declare_parameter
declare_parameters default_callback_group describe_parameter describe_parameters destroy_client
destroy_guard_condition destroy_node destroy_publisher destroy_rate destroy_service destroy_subscription destroy_timer
executor get_client_names_and_types_by_node get_clock get_fully_qualified_name get_fully_qualified_node_names
get_logger get_name get_namespace get_node_names get_node_names_and_namespaces
get_node_names_and_namespaces_with_enclaves get_parameter get_parameter_or get_parameter_type get_parameter_types
get_parameters get_parameters_by_prefix get_publisher_names_and_types_by_node get_publishers_info_by_topic
get_service_names_and_types get_service_names_and_types_by_node get_subscriber_names_and_types_by_node
get_subscriptions_info_by_topic get_topic_names_and_types guards handle has_parameter list_parameters publishers
remove_on_set_parameters_callback remove_post_set_parameters_callback remove_pre_set_parameters_callback
remove_waitable resolve_service_name resolve_topic_name services set_descriptor set_parameters
set_parameters_atomically subscriptions timers undeclare_parameter wait_for_node waitables
"""
PUBLIC = frozenset(_PUBLIC.split())


def taken_names() -> frozenset[str]:
    """The list of the embedded runtime, also where a real rclpy is in use."""
    names: frozenset[str] = runpy.run_path(str(PACKAGES / "rclpy" / "_taken_names.py"))["NAMES"]
    return names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


@pytest.fixture
def context(ros_domain: int) -> Iterator[None]:
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    yield
    rclpy.try_shutdown()


def own_names(cls: type) -> set[str]:
    """All names that a class gives to its methods and class attributes, and to attributes of `self`."""
    found = set(vars(cls))
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls)))):
        is_stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if is_stored and isinstance(node.value, ast.Name) and node.value.id == "self":
            found.add(node.attr)
    mangled = {name for name in found if name.startswith("__") and not name.endswith("__")}
    return found - mangled | {f"_{cls.__name__.lstrip('_')}{name}" for name in mangled}


def shipped_node_classes() -> list[type]:
    """Every class of ours that derives from rclpy's Node, found in the sources."""
    root = Path(embedded_ros.__file__).resolve().parents[1]
    for folder in sorted(root.glob("*/nodes")):
        for path in sorted(folder.glob("*.py")):
            import_module(".".join(path.relative_to(root).with_suffix("").parts))

    def below(cls: type) -> list[type]:
        return [one for direct in cls.__subclasses__() for one in (direct, *below(direct))]

    return [
        cls for cls in below(Node) if cls.__module__.partition(".")[0] in {p.parent.name for p in root.glob("*/nodes")}
    ]


def test_no_node_of_ours_takes_a_name_of_rclpys_node() -> None:
    classes = shipped_node_classes()
    assert {cls.__name__ for cls in classes} >= {
        "EstimatorNode", "SalpPoseShapeNode", "HopperEstimatorNode", "MarkerNode", "SimulatorNode",
    }  # fmt: skip
    theirs = taken_names() | PUBLIC | {name for name in dir(Node) if not name.endswith("__")} | {"_embedded_core"}
    for cls in classes:
        assert own_names(cls) & theirs == set(), cls


@embedded_only
def test_the_embedded_node_has_one_name_that_rclpys_has_not(context: None) -> None:
    node = Node("tested")
    names = set(dir(node)) - set(dir(object))
    own = {name for name in names if is_private(name)}
    assert own == {"_embedded_core"}
    assert {name for name in names if not name.startswith("_")} == PUBLIC
    node.destroy_node()


@pytest.mark.ros2
@pytest.mark.skipif(EMBEDDED, reason="needs a sourced ROS 2 environment")
def test_the_lists_hold_all_names_of_a_real_node(context: None) -> None:
    node = Node("tested")
    names = set(dir(node)) - set(dir(object))
    assert {name for name in names if is_private(name) and not name.startswith("_abc_")} <= taken_names()
    assert {name for name in names if not name.startswith("_")} <= PUBLIC
    node.destroy_node()


class Laboratory(Node):
    """Uses names as a programmer would who has read rclpy's documentation and nothing of this runtime."""

    name = namespace = participant = membership = parameters = logger = clock = "mine"
    _report = _changed = _added = _removed = _resolve = _store = _declaration = _declare_qos = _logger_name = None
    _wire_entities = _destroy_entities = _executor_left = _start_entities = _start_parameters = _set_names = None
    _store_one = _by_node = _count = _full = _create_event_publisher = _declare_overrides = None

    def __init__(self) -> None:
        super().__init__("laboratory")
        self._name = self._namespace = self._full_name = self._participant = self._remap_rules = None
        self._event_handlers = self._entities_version = self._destroyed = self._executor = self._rosout = None
        self._on_parameters_set_internally = self._core = self._node = self._state = None
        self.heard: list[str] = []
        self.declare_parameter("gain", 1.0)
        self.create_subscription(String, "text", lambda message: self.heard.append(message.data), 10)
        self.publisher = self.create_publisher(String, "text", 10)
        self.create_service(Trigger, "ask", lambda request, response: response)
        self.create_timer(0.01, self.tick)

    def tick(self) -> None:
        self.publisher.publish(serialize_message(String(data="torn")) + bytes(16))
        self.publisher.publish(String(data="whole"))


@embedded_only
def test_a_node_may_use_any_name_that_rclpys_has_not(context: None, capfd: pytest.CaptureFixture[str]) -> None:
    node = Laboratory()
    client = node.create_client(Trigger, "ask")
    asked = None
    for _ in range(2000):
        rclpy.spin_once(node, timeout_sec=0.05)
        if asked is None and client.service_is_ready():
            asked = client.call_async(Trigger.Request())
        if asked is not None and asked.done() and node.heard:
            break
    assert asked is not None
    assert asked.done()
    assert set(node.heard) == {"whole"}
    assert node.set_parameters([rclpy.Parameter("gain", value=2.0)])[0].successful
    assert node.get_topic_names_and_types()
    node.destroy_node()
    said = capfd.readouterr().err
    assert "a message on /text is left out" in said
    assert "uses that name" not in said


class Shadowing(Node):
    """Breaks under ROS 2."""

    def __init__(self) -> None:
        super().__init__("shadowing")
        self._logger, self._clock = self.get_logger(), self.get_clock()
        self._timers: list[Any] = []

    def _set_parameters(self) -> None:
        """Of no consequence here."""


@embedded_only
def test_a_node_that_takes_a_name_of_rclpys_is_told_once(context: None, capfd: pytest.CaptureFixture[str]) -> None:
    node = Shadowing()
    for _ in range(2):
        rclpy.spin_once(node, timeout_sec=0.0)
    assert capfd.readouterr().err.count("Shadowing has its own _set_parameters, _timers: rclpy's Node of ROS 2") == 1
    node.destroy_node()
