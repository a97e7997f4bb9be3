"""Nodes."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rclpy import _arguments
from rclpy._names import validate_namespace, validate_node_name
from rclpy._node_entities import NodeEntities
from rclpy._node_graph import NodeGraph
from rclpy._node_parameters import NodeParameters
from rclpy._parameter_rules import REL_TOL
from rclpy._rclpy_pybind11 import NodeNameNonExistentError, UnknownROSArgsError
from rclpy._rosout import Rosout
from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.clock import ROSClock
from rclpy.exceptions import NotInitializedException
from rclpy.guard_condition import GuardCondition
from rclpy.logging import get_logger
from rclpy.parameter import Parameter
from rclpy.parameter_service import ParameterService
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, qos_profile_parameter_events
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.time_source import TimeSource
from rclpy.timer import Rate, Timer
from rclpy.utilities import get_default_context

if TYPE_CHECKING:
    from rclpy.impl.rcutils_logger import RcutilsLogger

__all__ = [
    "HIDDEN_NODE_PREFIX",
    "Client",
    "GuardCondition",
    "Node",
    "NodeNameNonExistentError",
    "Parameter",
    "Publisher",
    "QoSProfile",
    "Rate",
    "Service",
    "Subscription",
    "Timer",
]

HIDDEN_NODE_PREFIX = "_"


class Node(NodeEntities, NodeParameters, NodeGraph):
    """A node of the ROS graph.

    Parameters
    ----------
    node_name, namespace
        As in rclpy; the command line may change both (`-r __node:=...`, `-r __ns:=...`).
    context
        None: the default context.
    cli_args
        ROS arguments for this node only, before those of the process.
    use_global_arguments
        Whether those of the process count.
    enable_rosout
        Whether log messages go to `/rosout`.
    start_parameter_services
        Whether others can read and set parameters.
    parameter_overrides
        Values that prevail over those of command line and files.
    allow_undeclared_parameters, automatically_declare_parameters_from_overrides
        As in rclpy.
    enable_logger_service
        Not supported: NotImplementedError.

    Raises
    ------
    NotInitializedException
        Before `rclpy.init()` or after shutdown.
    InvalidNodeNameException, InvalidNamespaceException
        Names that break the rules.
    """

    PARAM_REL_TOL = REL_TOL

    def __init__(
        self,
        node_name: str,
        *,
        context: Any = None,
        cli_args: Sequence[str] | None = None,
        namespace: str | None = None,
        use_global_arguments: bool = True,
        enable_rosout: bool = True,
        start_parameter_services: bool = True,
        parameter_overrides: list[Parameter] | None = None,
        allow_undeclared_parameters: bool = False,
        automatically_declare_parameters_from_overrides: bool = False,
        enable_logger_service: bool = False,
    ) -> None:
        self._context = get_default_context() if context is None else context
        if not self._context.ok():
            raise NotInitializedException("cannot create node")
        if enable_logger_service:
            raise NotImplementedError("rclpy.node.Node(enable_logger_service=True)")
        arguments = [_arguments.parse(list(cli_args or ()), ros_scope=True)]
        if arguments[0].unknown:
            raise UnknownROSArgsError(f"Found unknown ROS arguments: {arguments[0].unknown}")
        if use_global_arguments:
            arguments.append(self._context.arguments)
        self._remap_rules = [rule for parsed in arguments for rule in parsed.remap_rules]
        self._set_names(node_name, namespace or "")
        self._default_callback_group = MutuallyExclusiveCallbackGroup()
        self._rate_group = ReentrantCallbackGroup()
        self._executor: weakref.ReferenceType[Any] | None = None
        self._participant = self._context.participant
        self._destroyed = False
        overrides = {
            name: Parameter(name, value=value)
            for parsed in reversed(arguments)
            for name, value in _arguments.parameters_of(parsed, self._full_name).items()
        }
        overrides.update({parameter.name: parameter for parameter in parameter_overrides or ()})
        with self._participant.announcing_once():
            self._participant.add_node(self._namespace, self._name)
            self._context.track_node(self)
            self._start_entities()
            self._logger = get_logger(self._full_name.strip("/").replace("/", "."))
            self._rosout = None
            if enable_rosout and all(parsed.rosout_logs for parsed in arguments):
                self._rosout = Rosout(self, self._logger.name)
            self._clock = ROSClock()
            self._start_parameters(overrides, allow_undeclared_parameters)
            self._parameter_event_publisher = self._create_event_publisher()
            if automatically_declare_parameters_from_overrides:
                self._declare_overrides()
            self._time_source = TimeSource(node=self)
            self._time_source.attach_clock(self._clock)
            if start_parameter_services:
                self._parameter_service = ParameterService(self)

    def _set_names(self, name: str, namespace: str) -> None:
        validate_node_name(name)
        namespace = namespace if namespace.startswith("/") else f"/{namespace}"
        validate_namespace(namespace)
        self._name = _arguments.remapped_node_name(self._remap_rules, name)
        self._namespace = _arguments.remapped_namespace(self._remap_rules, self._name, namespace)
        if not self._namespace.startswith("/"):
            self._namespace = f"/{self._namespace}"
        validate_node_name(self._name)
        validate_namespace(self._namespace)
        self._full_name = f"{self._namespace.rstrip('/')}/{self._name}"

    def _create_event_publisher(self) -> Any:
        from rcl_interfaces.msg import ParameterEvent

        return self.create_publisher(ParameterEvent, "/parameter_events", qos_profile_parameter_events)

    @property
    def context(self) -> Any:
        """The node's context."""
        return self._context

    @property
    def handle(self) -> Node:
        """The node itself."""
        return self

    @property
    def default_callback_group(self) -> CallbackGroup:
        """Group of everything that was made without one."""
        return self._default_callback_group

    @property
    def executor(self) -> Any:
        """Executor that runs the node, or None."""
        return None if self._executor is None else self._executor()

    @executor.setter
    def executor(self, new_executor: Any) -> None:
        current = self.executor
        if current is new_executor:
            return
        if current is not None:
            current.remove_node(self)
        self._executor = None
        if new_executor is not None:
            self._executor = weakref.ref(new_executor)
            new_executor.add_node(self)

    def _executor_left(self, executor: Any) -> None:
        if self.executor is executor:
            self._executor = None

    def _wake_executor(self) -> None:
        executor = self.executor
        if executor is not None:
            executor.wake()

    def get_name(self) -> str:
        """Name without namespace."""
        return self._name

    def get_namespace(self) -> str:
        """Namespace, `/` for none."""
        return self._namespace

    def get_fully_qualified_name(self) -> str:
        """Namespace and name."""
        return self._full_name

    def get_clock(self) -> ROSClock:
        """Wall time, or simulated time with `use_sim_time`."""
        return self._clock

    def get_logger(self) -> RcutilsLogger:
        """The node's logger."""
        return self._logger

    def wait_for_node(self, fully_qualified_node_name: str, timeout: float) -> bool:
        """Whether the node is in the graph within the timeout, s."""
        name = fully_qualified_node_name
        name = name if name.startswith("/") else f"/{name}"
        end_s = time.monotonic() + timeout
        while name not in self.get_fully_qualified_node_names():
            if time.monotonic() >= end_s or not self._context.ok():
                return False
            time.sleep(0.05)
        return True

    def destroy_node(self) -> None:
        """Destroy everything that the node made, and leave the graph; nothing happens the second time."""
        if self._destroyed:
            return
        self._destroyed = True
        self._context.untrack_node(self)
        self._parameter_event_publisher = None
        self._time_source.detach_node()
        if self._rosout is not None:
            self._rosout.stop()
        # First, so that the graph is told once, and not of each endpoint that goes.
        self._participant.remove_node(self._namespace, self._name)
        self._destroy_entities()
        executor = self.executor
        if executor is not None:
            executor.remove_node(self)
