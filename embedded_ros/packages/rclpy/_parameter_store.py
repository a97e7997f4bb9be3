"""Parameters of one node as they are stored: values, descriptors, overrides, callbacks, events."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, ParameterEvent, ParameterValue, SetParametersResult

from rclpy._names import validate_parameter_name
from rclpy._parameter_rules import refusal
from rclpy.exceptions import ParameterNotDeclaredException
from rclpy.parameter import Parameter, parameter_value_to_python

_NOT_SET = Parameter.Type.NOT_SET
_NAME_ONLY = (
    "when declaring parameter named '{}', declaring a parameter only providing its name is deprecated: give a default "
    "value, a type, or a descriptor with dynamic_typing=True"
)


class ParameterStore:
    """What `rclpy.node.Node` knows of its parameters; `overrides` are those of command line, files and program."""

    def __init__(self, node_name: str, clock: Any) -> None:
        self._node_name = node_name
        self._clock = clock
        self.values: dict[str, Parameter] = {}
        self.descriptors: dict[str, ParameterDescriptor] = {}
        self.overrides: dict[str, Parameter] = {}
        self.allow_undeclared = False
        self.on_set: list[Callable[[list[Parameter]], SetParametersResult]] = []
        self.on_set_internally: Callable[[list[Parameter]], None] = lambda _: None
        self.event_publisher: Any = None

    def declaration(
        self, namespace: str, index: int, given: tuple[Any, ...], ignore_override: bool
    ) -> tuple[Parameter, ParameterDescriptor]:
        """Parameter and descriptor that a declaration `(name[, value or type[, descriptor]])` comes to."""
        if not 1 <= len(given) <= 3:
            raise TypeError(
                f"parameter {index} has {len(given)} parts {given}, it takes 1 to 3: name, value, descriptor"
            )
        name, value, descriptor = [*given, None, None][:3]
        if not isinstance(name, str):
            raise TypeError(f"the name of parameter {index} is not a str: {name!r}")
        if descriptor is None:
            descriptor = ParameterDescriptor()
        if not isinstance(descriptor, ParameterDescriptor):
            raise TypeError(f"the third part of parameter {index} is not a ParameterDescriptor: {descriptor!r}")
        name = f"{namespace}.{name}" if namespace else name
        validate_parameter_name(name)
        if len(given) == 1:
            warnings.warn(_NAME_ONLY.format(name), stacklevel=4)
            descriptor.dynamic_typing = True
        if isinstance(value, Parameter.Type):
            if value is _NOT_SET:
                raise ValueError(f"parameter {name} cannot be of the static type NOT_SET")
            if descriptor.dynamic_typing:
                raise ValueError(f"parameter {name} is given a type, so dynamic_typing=True is not allowed")
            descriptor.type = value.value
            value = None
        elif not descriptor.dynamic_typing:
            value = parameter_value_to_python(value) if isinstance(value, ParameterValue) else value
            descriptor.type = Parameter.Type.from_parameter_value(value).value
            if descriptor.type == _NOT_SET.value:
                raise ValueError(f"parameter {name} is statically typed and needs a default value or a type")
        elif isinstance(value, ParameterValue):
            value = parameter_value_to_python(value)
        if not ignore_override and name in self.overrides:
            value = self.overrides[name].value
        if isinstance(value, (list, tuple)) and not value and descriptor.type:
            # An empty list is of any type of array.
            return Parameter(name, Parameter.Type(descriptor.type), value), descriptor
        return Parameter(name, value=value), descriptor

    def get_or(self, name: str, alternative: Parameter | None = None) -> Parameter:
        """A parameter, or the alternative (None: one that is not set) where it has no value."""
        parameter = self.values.get(name)
        if parameter is None or parameter.type_ is _NOT_SET:
            return Parameter(name, _NOT_SET) if alternative is None else alternative
        return parameter

    def set_all(self, parameters: list[Parameter]) -> SetParametersResult:
        """Set all or none; ParameterNotDeclaredException if one is not declared and undeclared ones are not allowed."""
        if not all(isinstance(parameter, Parameter) for parameter in parameters):
            raise TypeError(f"parameter must be instance of type '{Parameter!r}'")
        undeclared = [parameter.name for parameter in parameters if parameter.name not in self.values]
        if undeclared and not self.allow_undeclared:
            raise ParameterNotDeclaredException(undeclared)
        return self.store(parameters, None, allow_not_set=False)

    def store(
        self, parameters: list[Parameter], descriptors: dict[str, ParameterDescriptor] | None, *, allow_not_set: bool
    ) -> SetParametersResult:
        """Check, store, tell; new descriptors where parameters are declared."""
        for parameter in parameters:
            descriptor = (self.descriptors if descriptors is None else descriptors).get(parameter.name)
            if descriptor is not None:
                reason = refusal(
                    parameter,
                    descriptor,
                    declared=parameter.name in self.values,
                    check_read_only=descriptors is None,
                )
                if reason:
                    return SetParametersResult(successful=False, reason=reason)
        for callback in self.on_set:
            result = callback(parameters)
            if not result.successful:
                return result
        event = ParameterEvent(node=self._node_name, stamp=self._clock.now().to_msg())
        for parameter in parameters:
            self._store_one(parameter, descriptors, event, allow_not_set)
        if self.event_publisher is not None:
            self.event_publisher.publish(event)
        self.on_set_internally(parameters)
        return SetParametersResult(successful=True)

    def _store_one(
        self,
        parameter: Parameter,
        descriptors: dict[str, ParameterDescriptor] | None,
        event: ParameterEvent,
        allow_not_set: bool,
    ) -> None:
        name = parameter.name
        if parameter.type_ is _NOT_SET and not allow_not_set:
            event.deleted_parameters.append(parameter.to_parameter_msg())
            self.values.pop(name, None)
            self.descriptors.pop(name, None)
            return
        if descriptors is not None:
            self.descriptors[name] = descriptors[name]
        elif name not in self.descriptors:
            self.descriptors[name] = ParameterDescriptor(name=name, type=parameter.type_.value, dynamic_typing=True)
        is_new = self.get_or(name).type_ is _NOT_SET
        (event.new_parameters if is_new else event.changed_parameters).append(parameter.to_parameter_msg())
        self.values[name] = parameter
