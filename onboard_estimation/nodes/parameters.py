"""Parameters of a node from typed configurations: declared with meaning and limits, checked as a whole, live.

All faults of what the command line and the parameter files set are listed at once, unknown names among them. While the
node runs, the parameters that the robot allows to change are checked again as a whole and handed on; others are refused
with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import rclpy.clock
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.clock import ClockType
from rclpy.node import Node

from onboard_estimation.base.configuration import ConfigurationError, Parameter, describe, is_ros_own, load
from onboard_estimation.base.errors import UserError
from onboard_estimation.live.read_out import QuietNode

C = TypeVar("C")
H = TypeVar("H")


class SteadyNode(QuietNode):
    """A node whose parameters are those of a configuration, and whose timers go by a clock that nobody sets.

    The node's own time may stand still (a paused bag), or run faster.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, automatically_declare_parameters_from_overrides=True, **options)
        self._steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)

    def declare_parameters(self, namespace: str, parameters: Any, ignore_override: bool = False) -> Any:
        """As rclpy does, which has no words for a parameter that is set to an empty list; raises `UserError`."""
        for name, *rest in parameters:
            if rest and rest[0] is None:
                raise UserError(f"{name}: nothing, or an empty list, which ROS 2 hands to no node: leave it out")
        return super().declare_parameters(namespace, parameters, ignore_override)

    def every(self, period_s: float, callback: Callable[[], object]) -> Any:
        """A timer."""
        return self.create_timer(period_s, callback, clock=self._steady)


class NodeParameters(Generic[C, H]):
    """A node's parameters as two configurations: the robot's and the node's own.

    Parameters
    ----------
    node
        A `SteadyNode`, which declares all that was set: so unknown names are seen.
    configuration_type, host_type
        Dataclasses as `onboard_estimation.base.configuration` takes them; their names must differ.
    run_time_parameters
        Names of parameters, or of whole sections, that may change while the node runs.
    on_change
        Takes the new configuration and may refuse it by a ValueError.

    Raises
    ------
    ConfigurationError
        With all faults of what was set.
    """

    def __init__(
        self,
        node: Node,
        configuration_type: type[C],
        host_type: type[H],
        run_time_parameters: Sequence[str] = (),
        on_change: Callable[[C], None] | None = None,
    ) -> None:
        self._node = node
        self._types: tuple[type[C], type[H]] = (configuration_type, host_type)
        self._host_names = {row.name for row in describe(host_type)}
        self._run_time = tuple(run_time_parameters)
        self._on_change = on_change
        given = {name: parameter.value for name, parameter in node.get_parameters_by_prefix("").items()}
        given = {name: value for name, value in given.items() if not is_ros_own(name)}
        self.configuration, self.host = self._load(given)
        self._rows = {row.name: row for row in (*describe(configuration_type), *describe(host_type))}
        for row in self._rows.values():
            descriptor = self._descriptor(row)
            if node.has_parameter(row.name):
                node.set_descriptor(row.name, descriptor)
            else:
                default = list(row.default) if isinstance(row.default, tuple) else row.default
                node.declare_parameter(row.name, default, descriptor)
        node.add_on_set_parameters_callback(self._set)

    def may_change(self, name: str) -> bool:
        """Whether a parameter may change while the node runs."""
        return any(name == allowed or name.startswith(f"{allowed}.") for allowed in self._run_time)

    def _load(self, values: Mapping[str, Any]) -> tuple[C, H]:
        source = f"parameters of {self._node.get_fully_qualified_name()}"
        ours = {name: value for name, value in values.items() if name not in self._host_names}
        hosts = {name: value for name, value in values.items() if name in self._host_names}
        faults: list[str] = []
        loaded: list[Any] = []
        for kind, chosen in zip(self._types, (ours, hosts), strict=True):
            try:
                loaded.append(load(kind, None, chosen))
            except ConfigurationError as error:
                faults += error.faults
        if faults:
            raise ConfigurationError(source, faults)
        return loaded[0], loaded[1]

    def _set(self, changed: Sequence[Any]) -> SetParametersResult:
        """rclpy's callback before parameters are set: all of them or none."""
        changes = {parameter.name: parameter.value for parameter in changed if parameter.name in self._rows}
        fixed = [name for name in changes if not self.may_change(name)]
        if fixed:
            return SetParametersResult(
                successful=False,
                reason=f"{', '.join(fixed)}: fixed while the node runs; start it again with -p {fixed[0]}:=... ",
            )
        if not changes:
            return SetParametersResult(successful=True)
        now = {name: self._node.get_parameter(name).value for name in self._rows}
        try:
            configuration, _ = self._load({**now, **changes})
            if self._on_change is not None:
                self._on_change(configuration)
        except ConfigurationError as error:
            return SetParametersResult(successful=False, reason="; ".join(error.faults))
        except (ValueError, NotImplementedError) as error:
            return SetParametersResult(successful=False, reason=str(error))
        self.configuration = configuration
        return SetParametersResult(successful=True)

    def _descriptor(self, row: Parameter) -> ParameterDescriptor:
        unit = f" [{row.unit}]" if row.unit else ""
        constraints = row.allowed if self.may_change(row.name) else f"{row.allowed}; fixed while the node runs"
        # Any type passes rclpy's own check, so that ours can list all faults at once, and say what is allowed.
        return ParameterDescriptor(
            name=row.name, description=row.doc + unit, additional_constraints=constraints, dynamic_typing=True
        )
