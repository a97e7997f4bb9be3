"""Parameters of a node: declaring, reading, setting, callbacks, events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rcl_interfaces.msg import (
    ListParametersResult,
    ParameterDescriptor,
    ParameterValue,
    SetParametersResult,
)

from embedded_ros.absent import AbsentMethod
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

if TYPE_CHECKING:
    from rclpy._node_core import NodeCore

_NOT_SET = Parameter.Type.NOT_SET
_ON_SET = "use add_on_set_parameters_callback"


class NodeParameters:
    """Part of `rclpy.node.Node`."""

    _embedded_core: NodeCore

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
        store = self._embedded_core.parameters
        declared: list[tuple[Parameter, ParameterDescriptor]] = []
        for index, given in enumerate(parameters):
            declared.append(store.declaration(namespace, index, given, ignore_override))
        twice = [parameter.name for parameter, _ in declared if parameter.name in store.values]
        if twice:
            raise ParameterAlreadyDeclaredException(twice)
        for parameter, descriptor in declared:
            result = store.store([parameter], {parameter.name: descriptor}, allow_not_set=True)
            if not result.successful:
                if result.reason.startswith("Wrong parameter type"):
                    raise InvalidParameterTypeException(parameter, Parameter.Type(descriptor.type).name)
                raise InvalidParameterValueException(parameter.name, parameter.value, result.reason)
        return [store.values[parameter.name] for parameter, _ in declared]

    def undeclare_parameter(self, name: str) -> None:
        """Take a declaration back.

        Raises
        ------
        ParameterNotDeclaredException, ParameterImmutableException
        """
        store = self._embedded_core.parameters
        if name not in store.values:
            raise ParameterNotDeclaredException(name)
        if store.descriptors[name].read_only:
            raise ParameterImmutableException(name)
        del store.values[name]
        del store.descriptors[name]

    # Reading

    def has_parameter(self, name: str) -> bool:
        """Whether a parameter is declared."""
        return name in self._embedded_core.parameters.values

    def get_parameter(self, name: str) -> Parameter:
        """A parameter.

        Raises
        ------
        ParameterNotDeclaredException
            It is not declared, and undeclared ones are not allowed.
        ParameterUninitializedException
            It was declared with a type only and has no value yet.
        """
        store = self._embedded_core.parameters
        parameter = store.values.get(name)
        if parameter is None:
            if store.allow_undeclared:
                return Parameter(name, _NOT_SET, None)
            raise ParameterNotDeclaredException(name)
        if parameter.type_ is _NOT_SET and not store.descriptors[name].dynamic_typing:
            raise ParameterUninitializedException(name)
        return parameter

    def get_parameters(self, names: list[str]) -> list[Parameter]:
        """Several parameters; see `get_parameter`."""
        _check_names(names)
        return [self.get_parameter(name) for name in names]

    def get_parameter_or(self, name: str, alternative_value: Parameter | None = None) -> Parameter:
        """A parameter, or the alternative (None: one that is not set) where it has no value."""
        return self._embedded_core.parameters.get_or(name, alternative_value)

    def get_parameters_by_prefix(self, prefix: str) -> dict[str, Parameter]:
        """Parameters below a prefix, by the rest of their names."""
        start = prefix + PARAMETER_SEPARATOR_STRING if prefix else ""
        return {
            name.removeprefix(start): parameter
            for name, parameter in self._embedded_core.parameters.values.items()
            if name.startswith(start)
        }

    def get_parameter_type(self, name: str) -> Any:
        """Number of a parameter's type; for an undeclared one `Type.NOT_SET` (as in rclpy) or an exception."""
        store = self._embedded_core.parameters
        if name in store.values:
            return store.values[name].type_.value
        if store.allow_undeclared:
            return _NOT_SET
        raise ParameterNotDeclaredException(name)

    def get_parameter_types(self, names: list[str]) -> list[Any]:
        """Types of several parameters."""
        _check_names(names)
        return [self.get_parameter_type(name) for name in names]

    def describe_parameter(self, name: str) -> ParameterDescriptor:
        """Descriptor of a parameter, ParameterNotDeclaredException as for `get_parameter`."""
        store = self._embedded_core.parameters
        if name in store.descriptors:
            return store.descriptors[name]
        if store.allow_undeclared:
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

        names = [name for name in self._embedded_core.parameters.values if listed(name)]
        found = dict.fromkeys(name.rpartition(PARAMETER_SEPARATOR_STRING)[0] for name in names)
        return ListParametersResult(names=names, prefixes=[prefix for prefix in found if prefix])

    # Setting

    def set_parameters(self, parameter_list: list[Parameter]) -> list[SetParametersResult]:
        """Set one after the other; ParameterNotDeclaredException at the first that is not declared."""
        return [self.set_parameters_atomically([parameter]) for parameter in parameter_list]

    def set_parameters_atomically(self, parameter_list: list[Parameter]) -> SetParametersResult:
        """Set all or none; ParameterNotDeclaredException if one is not declared and undeclared ones are not allowed."""
        return self._embedded_core.parameters.set_all(parameter_list)

    def set_descriptor(
        self, name: str, descriptor: ParameterDescriptor, alternative_value: ParameterValue | None = None
    ) -> ParameterValue:
        """Another descriptor for a parameter, which gets the alternative value if there is one; the value it has then.

        Raises
        ------
        ParameterNotDeclaredException, ParameterImmutableException, InvalidParameterValueException
        """
        store = self._embedded_core.parameters
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
        store.descriptors[name] = descriptor
        store.values[name] = parameter
        return parameter.get_parameter_value()

    # Callbacks, the latest first as in rclpy

    add_pre_set_parameters_callback = AbsentMethod(_ON_SET)
    add_post_set_parameters_callback = AbsentMethod(_ON_SET)
    remove_pre_set_parameters_callback = AbsentMethod(_ON_SET)
    remove_post_set_parameters_callback = AbsentMethod(_ON_SET)

    def add_on_set_parameters_callback(self, callback: Callable[[list[Parameter]], SetParametersResult]) -> None:
        """Call before parameters are set or declared; the callback may refuse."""
        self._embedded_core.parameters.on_set.insert(0, callback)

    def remove_on_set_parameters_callback(self, callback: Callable[[list[Parameter]], SetParametersResult]) -> None:
        """No longer call; ValueError if it was not added."""
        self._embedded_core.parameters.on_set.remove(callback)


def _check_names(names: list[str]) -> None:
    if not all(isinstance(name, str) for name in names):
        raise TypeError("All names must be instances of type str")
