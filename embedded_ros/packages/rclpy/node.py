"""Nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rcl_interfaces.msg import ParameterDescriptor, ParameterEvent

from rclpy import _arguments
from rclpy._node_core import NodeCore
from rclpy._node_entities import NodeEntities
from rclpy._node_graph import NodeGraph
from rclpy._node_parameters import NodeParameters
from rclpy._parameter_rules import REL_TOL
from rclpy._rclpy_pybind11 import NodeNameNonExistentError, UnknownROSArgsError
from rclpy._rosout import Rosout
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.clock import ROSClock
from rclpy.exceptions import NotInitializedException
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
        context = get_default_context() if context is None else context
        if not context.ok():
            raise NotInitializedException("cannot create node")
        if enable_logger_service:
            raise NotImplementedError("rclpy.node.Node(enable_logger_service=True)")
        arguments = [_arguments.parse(list(cli_args or ()), ros_scope=True)]
        if arguments[0].unknown:
            raise UnknownROSArgsError(f"Found unknown ROS arguments: {arguments[0].unknown}")
        if use_global_arguments:
            arguments.append(context.arguments)
        rules = [rule for parsed in arguments for rule in parsed.remap_rules]
        self._embedded_core = core = NodeCore(self, node_name, namespace or "", context, rules)
        for parsed in reversed(arguments):
            for name, value in _arguments.parameters_of(parsed, core.full_name).items():
                core.parameters.overrides[name] = Parameter(name, value=value)
        core.parameters.overrides.update({parameter.name: parameter for parameter in parameter_overrides or ()})
        core.parameters.allow_undeclared = allow_undeclared_parameters
        with core.participant.announcing_once():
            core.membership = core.participant.add_node(core.namespace, core.name)
            context.track_node(self)
            if enable_rosout and all(parsed.rosout_logs for parsed in arguments):
                core.rosout = Rosout(self, core.logger.name)
            core.parameters.event_publisher = self.create_publisher(
                ParameterEvent, "/parameter_events", qos_profile_parameter_events
            )
            if automatically_declare_parameters_from_overrides:
                given = [(name, one.value, ParameterDescriptor()) for name, one in core.parameters.overrides.items()]
                self.declare_parameters("", given, ignore_override=True)
            core.time_source = TimeSource(node=self)
            core.time_source.attach_clock(core.clock)
            if start_parameter_services:
                core.parameter_service = ParameterService(self)

    @property
    def context(self) -> Any:
        """The node's context."""
        return self._embedded_core.context

    @property
    def handle(self) -> Node:
        """The node itself."""
        return self

    @property
    def default_callback_group(self) -> CallbackGroup:
        """Group of everything that was made without one."""
        return self._embedded_core.default_group

    @property
    def executor(self) -> Any:
        """Executor that runs the node, or None."""
        return self._embedded_core.current_executor()

    @executor.setter
    def executor(self, new_executor: Any) -> None:
        current = self.executor
        if current is new_executor:
            return
        if current is not None:
            current.remove_node(self)
        self._embedded_core.executor = None
        if new_executor is not None:
            self._embedded_core.joined(new_executor)
            new_executor.add_node(self)

    def get_name(self) -> str:
        """Name without namespace."""
        return self._embedded_core.name

    def get_namespace(self) -> str:
        """Namespace, `/` for none."""
        return self._embedded_core.namespace

    def get_fully_qualified_name(self) -> str:
        """Namespace and name."""
        return self._embedded_core.full_name

    def get_clock(self) -> ROSClock:
        """Wall time, or simulated time with `use_sim_time`."""
        return self._embedded_core.clock

    def get_logger(self) -> RcutilsLogger:
        """The node's logger."""
        return self._embedded_core.logger

    def destroy_node(self) -> None:
        """Destroy everything that the node made, and leave the graph; nothing happens the second time."""
        core = self._embedded_core
        if core.destroyed:
            return
        core.destroyed = True
        core.context.untrack_node(self)
        core.parameters.event_publisher = None
        core.time_source.detach_node()
        if core.rosout is not None:
            core.rosout.stop()
        # First, so that the graph is told once, and not of each endpoint that goes.
        core.participant.remove_node(core.membership)
        core.remove_all()
        executor = self.executor
        if executor is not None:
            executor.remove_node(self)
