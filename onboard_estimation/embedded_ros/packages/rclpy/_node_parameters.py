"""Parameters of a node: declaring, reading, setting, callbacks, events."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from rcl_interfaces.msg import (
    ListParametersResult,
    ParameterDescriptor,
    ParameterEvent,
    ParameterValue,
    SetParametersResult,
)

from rclpy._names import validate_parameter_name
from rclpy._parameter_rules import refusal
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterAlreadyDeclaredException,
    ParameterImmutableException,
    ParameterNotDeclaredException,
    ParameterUninitializedException,
)
from rclpy.parameter import PARAMETER_SEPARATOR_STRING, Parameter, parameter_value_to_python

_NOT_SET = Parameter.Type.NOT_SET
_NAME_ONLY = (
    "when declaring parameter named '{}', declaring a parameter only providing its name is deprecated: give a default "
    "value, a type, or a descriptor with dynamic_typing=True"
)


class NodeParameters:
    """Part of `rclpy.node.Node`."""

    _clock: Any
    _full_name: str
    _parameter_event_publisher: Any

    def _start_parameters(self, overrides: dict[str, Parameter], allow_undeclared: bool) -> None:
        self._parameters: dict[str, Parameter] = {}
        self._descriptors: dict[str, ParameterDescriptor] = {}
        self._parameter_overrides = overrides
        self._allow_undeclared_parameters = allow_undeclared
        self._pre_set_parameters_callbacks: list[Callable[[list[Parameter]], list[Parameter]]] = []
        self._on_set_parameters_callbacks: list[Callable[[list[Parameter]], SetParametersResult]] = []
        self._post_set_parameters_callbacks: list[Callable[[list[Parameter]], None]] = []
        self._on_parameters_set_internally: Callable[[list[Parameter]], None] = lambda _: None

    # Declaring

    def declare_parameter(
        self, name: str, value: Any = None, descriptor: ParameterDescriptor | None = None, ignore_override: bool = False
    ) -> Parameter:
        """Declare a parameter with a default value or a `Parameter.Type`; command line and files prevail.

        Raises
        ------
        ParameterAlreadyDeclaredException, InvalidParameterException
            The name.
        InvalidParameterTypeException, InvalidParameterValueException
            The value does not fit the type, the descriptor, or was refused by a callback.
        """
        if value is None and descriptor is None:
            return self.declare_parameters("", [(name,)], ignore_override)[0]
        return self.declare_parameters("", [(name, value, descriptor or ParameterDescriptor())], ignore_override)[0]

    def declare_parameters(
        self, namespace: str, parameters: Sequence[tuple[Any, ...]], ignore_override: bool = False
    ) -> list[Parameter]:
        """Declare parameters given as `(name[, value or type[, descriptor]])`; see `declare_parameter`."""
        declared: list[tuple[Parameter, ParameterDescriptor]] = []
        for index, given in enumerate(parameters):
            declared.append(self._declaration(namespace, index, given, ignore_override))
        twice = [parameter.name for parameter, _ in declared if parameter.name in self._parameters]
        if twice:
            raise ParameterAlreadyDeclaredException(twice)
        for parameter, descriptor in declared:
            result = self._store([parameter], {parameter.name: descriptor}, allow_not_set=True)
            if not result.successful:
                if result.reason.startswith("Wrong parameter type"):
                    raise InvalidParameterTypeException(parameter, Parameter.Type(descriptor.type).name)
                raise InvalidParameterValueException(parameter.name, parameter.value, result.reason)
        return [self._parameters[parameter.name] for parameter, _ in declared]

    def _declaration(
        self, namespace: str, index: int, given: tuple[Any, ...], ignore_override: bool
    ) -> tuple[Parameter, ParameterDescriptor]:
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
        if not ignore_override and name in self._parameter_overrides:
            value = self._parameter_overrides[name].value
        if isinstance(value, (list, tuple)) and not value and descriptor.type:
            # An empty list is of any type of array.
            return Parameter(name, Parameter.Type(descriptor.type), value), descriptor
        return Parameter(name, value=value), descriptor

    def _declare_overrides(self) -> None:
        self.declare_parameters(
            "",
            [
                (name, parameter.value, ParameterDescriptor())
                for name, parameter in self._parameter_overrides.items()
                if name not in self._parameters
            ],
            ignore_override=True,
        )

    def undeclare_parameter(self, name: str) -> None:
        """Take a declaration back.

        Raises
        ------
        ParameterNotDeclaredException, ParameterImmutableException
        """
        if name not in self._parameters:
            raise ParameterNotDeclaredException(name)
        if self._descriptors[name].read_only:
            raise ParameterImmutableException(name)
        del self._parameters[name]
        del self._descriptors[name]

    # Reading

    def has_parameter(self, name: str) -> bool:
        """Whether a parameter is declared."""
        return name in self._parameters

    def get_parameter(self, name: str) -> Parameter:
        """A parameter.

        Raises
        ------
        ParameterNotDeclaredException
            It is not declared, and undeclared ones are not allowed.
        ParameterUninitializedException
            It was declared with a type only and has no value yet.
        """
        parameter = self._parameters.get(name)
        if parameter is None:
            if self._allow_undeclared_parameters:
                return Parameter(name, _NOT_SET, None)
            raise ParameterNotDeclaredException(name)
        if parameter.type_ is _NOT_SET and not self._descriptors[name].dynamic_typing:
            raise ParameterUninitializedException(name)
        return parameter

    def get_parameters(self, names: list[str]) -> list[Parameter]:
        """Several parameters; see `get_parameter`."""
        _check_names(names)
        return [self.get_parameter(name) for name in names]

    def get_parameter_or(self, name: str, alternative_value: Parameter | None = None) -> Parameter:
        """A parameter, or the alternative (None: one that is not set) where it has no value."""
        parameter = self._parameters.get(name)
        if parameter is None or parameter.type_ is _NOT_SET:
            return Parameter(name, _NOT_SET) if alternative_value is None else alternative_value
        return parameter

    def get_parameters_by_prefix(self, prefix: str) -> dict[str, Parameter]:
        """Parameters below a prefix, by the rest of their names."""
        start = prefix + PARAMETER_SEPARATOR_STRING if prefix else ""
        return {
            name.removeprefix(start): parameter
            for name, parameter in self._parameters.items()
            if name.startswith(start)
        }

    def get_parameter_type(self, name: str) -> Any:
        """Number of a parameter's type; for an undeclared one `Type.NOT_SET` (as in rclpy) or an exception."""
        if name in self._parameters:
            return self._parameters[name].type_.value
        if self._allow_undeclared_parameters:
            return _NOT_SET
        raise ParameterNotDeclaredException(name)

    def get_parameter_types(self, names: list[str]) -> list[Any]:
        """Types of several parameters."""
        _check_names(names)
        return [self.get_parameter_type(name) for name in names]

    def describe_parameter(self, name: str) -> ParameterDescriptor:
        """Descriptor of a parameter, ParameterNotDeclaredException as for `get_parameter`."""
        if name in self._descriptors:
            return self._descriptors[name]
        if self._allow_undeclared_parameters:
            return ParameterDescriptor()
        raise ParameterNotDeclaredException(name)

    def describe_parameters(self, names: list[str]) -> list[ParameterDescriptor]:
        """Descriptors of several parameters."""
        return [self.describe_parameter(name) for name in names]

    def list_parameters(self, prefixes: list[str], depth: int) -> ListParametersResult:
        """Names of parameters, below prefixes if there are any, and the prefixes they have.

        Parameters
        ----------
        depth
            How many parts of a name may follow its prefix; 0 for any number.
        """
        if not isinstance(prefixes, list) or not all(isinstance(prefix, str) for prefix in prefixes):
            raise TypeError("The prefixes argument must be a list of str")
        if not isinstance(depth, int):
            raise TypeError("The depth must be instance of type int")
        if depth < 0:
            raise ValueError("The depth must be greater than or equal to zero")

        def listed(name: str) -> bool:
            if not prefixes:
                return depth == 0 or name.count(PARAMETER_SEPARATOR_STRING) < depth
            for prefix in prefixes:
                rest = name.removeprefix(prefix + PARAMETER_SEPARATOR_STRING)
                if name == prefix or (rest != name and (depth == 0 or rest.count(PARAMETER_SEPARATOR_STRING) < depth)):
                    return True
            return False

        names = [name for name in self._parameters if listed(name)]
        found = dict.fromkeys(name.rpartition(PARAMETER_SEPARATOR_STRING)[0] for name in names)
        return ListParametersResult(names=names, prefixes=[prefix for prefix in found if prefix])

    # Setting

    def set_parameters(self, parameter_list: list[Parameter]) -> list[SetParametersResult]:
        """Set one after the other; ParameterNotDeclaredException at the first that is not declared."""
        return [self.set_parameters_atomically([parameter]) for parameter in parameter_list]

    def set_parameters_atomically(self, parameter_list: list[Parameter]) -> SetParametersResult:
        """Set all or none; ParameterNotDeclaredException if one is not declared and undeclared ones are not allowed."""
        if self._pre_set_parameters_callbacks:
            changed: list[Parameter] = []
            for callback in self._pre_set_parameters_callbacks:
                changed.extend(callback(parameter_list))
            parameter_list = changed
            if not parameter_list:
                reason = "parameter list cannot be empty: a pre_set_parameters_callback returned none"
                return SetParametersResult(successful=False, reason=reason)
        if not all(isinstance(parameter, Parameter) for parameter in parameter_list):
            raise TypeError(f"parameter must be instance of type '{Parameter!r}'")
        undeclared = [parameter.name for parameter in parameter_list if parameter.name not in self._parameters]
        if undeclared and not self._allow_undeclared_parameters:
            raise ParameterNotDeclaredException(undeclared)
        return self._store(parameter_list, None, allow_not_set=False)

    def _store(
        self, parameters: list[Parameter], descriptors: dict[str, ParameterDescriptor] | None, *, allow_not_set: bool
    ) -> SetParametersResult:
        """Check, store, tell; new descriptors where parameters are declared."""
        for parameter in parameters:
            descriptor = (self._descriptors if descriptors is None else descriptors).get(parameter.name)
            if descriptor is not None:
                reason = refusal(
                    parameter,
                    descriptor,
                    declared=parameter.name in self._parameters,
                    check_read_only=descriptors is None,
                )
                if reason:
                    return SetParametersResult(successful=False, reason=reason)
        for callback in self._on_set_parameters_callbacks:
            result = callback(parameters)
            if not result.successful:
                return result
        event = ParameterEvent(node=self._full_name, stamp=self._clock.now().to_msg())
        for parameter in parameters:
            self._store_one(parameter, descriptors, event, allow_not_set)
        if self._parameter_event_publisher is not None:
            self._parameter_event_publisher.publish(event)
        self._on_parameters_set_internally(parameters)
        for after in self._post_set_parameters_callbacks:
            after(parameters)
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
            self._parameters.pop(name, None)
            self._descriptors.pop(name, None)
            return
        if descriptors is not None:
            self._descriptors[name] = descriptors[name]
        elif name not in self._descriptors:
            self._descriptors[name] = ParameterDescriptor(name=name, type=parameter.type_.value, dynamic_typing=True)
        is_new = self.get_parameter_or(name).type_ is _NOT_SET
        (event.new_parameters if is_new else event.changed_parameters).append(parameter.to_parameter_msg())
        self._parameters[name] = parameter

    def set_descriptor(
        self, name: str, descriptor: ParameterDescriptor, alternative_value: ParameterValue | None = None
    ) -> ParameterValue:
        """Another descriptor for a parameter, which gets the alternative value if there is one; the value it has then.

        Raises
        ------
        ParameterNotDeclaredException, ParameterImmutableException, InvalidParameterValueException
        """
        current_descriptor = self.describe_parameter(name)
        if current_descriptor.read_only:
            raise ParameterImmutableException(name)
        current = self.get_parameter(name)
        value = current.value if alternative_value is None else parameter_value_to_python(alternative_value)
        parameter = Parameter(name, value=value)
        if not descriptor.dynamic_typing:
            descriptor.type = parameter.type_.value
        reason = refusal(parameter, descriptor, declared=True, check_read_only=False)
        if reason:
            raise InvalidParameterValueException(name, value, reason)
        self._descriptors[name] = descriptor
        self._parameters[name] = parameter
        return parameter.get_parameter_value()

    # Callbacks, the latest first as in rclpy

    def add_pre_set_parameters_callback(self, callback: Callable[[list[Parameter]], list[Parameter]]) -> None:
        """Call before parameters are checked; what the callback returns is set instead."""
        self._pre_set_parameters_callbacks.insert(0, callback)

    def add_on_set_parameters_callback(self, callback: Callable[[list[Parameter]], SetParametersResult]) -> None:
        """Call before parameters are set or declared; the callback may refuse."""
        self._on_set_parameters_callbacks.insert(0, callback)

    def add_post_set_parameters_callback(self, callback: Callable[[list[Parameter]], None]) -> None:
        """Call after parameters were set or declared."""
        self._post_set_parameters_callbacks.insert(0, callback)

    def remove_pre_set_parameters_callback(self, callback: Callable[[list[Parameter]], list[Parameter]]) -> None:
        """No longer call; ValueError if it was not added."""
        self._pre_set_parameters_callbacks.remove(callback)

    def remove_on_set_parameters_callback(self, callback: Callable[[list[Parameter]], SetParametersResult]) -> None:
        """No longer call; ValueError if it was not added."""
        self._on_set_parameters_callbacks.remove(callback)

    def remove_post_set_parameters_callback(self, callback: Callable[[list[Parameter]], None]) -> None:
        """No longer call; ValueError if it was not added."""
        self._post_set_parameters_callbacks.remove(callback)


def _check_names(names: list[str]) -> None:
    if not all(isinstance(name, str) for name in names):
        raise TypeError("All names must be instances of type str")
