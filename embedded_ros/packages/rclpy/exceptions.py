"""Exceptions of rclpy."""

from __future__ import annotations

from typing import Any


class NotInitializedException(Exception):
    """`rclpy.init()` has not been called, or the context is shut down."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__("rclpy.init() has not been called" + (f": {message}" if message else ""))


class NoTypeSupportImportedException(Exception):
    """A class is no message or service."""

    def __init__(self) -> None:
        super().__init__("no type support: this is no message or service class")


class InvalidHandle(Exception):
    """A destroyed entity was used."""


class NameValidationException(Exception):
    """A name breaks the rules of ROS 2; the message points at the place."""

    def __init__(self, name_type: str, name: str, error_msg: str, invalid_index: int) -> None:
        super().__init__(f"Invalid {name_type}: {error_msg}:\n  '{name}'\n   {' ' * invalid_index}^")


class InvalidNamespaceException(NameValidationException):
    """A namespace breaks the rules."""

    def __init__(self, name: str, error_msg: str, invalid_index: int) -> None:
        super().__init__("namespace", name, error_msg, invalid_index)


class InvalidNodeNameException(NameValidationException):
    """A node's name breaks the rules."""

    def __init__(self, name: str, error_msg: str, invalid_index: int) -> None:
        super().__init__("node name", name, error_msg, invalid_index)


class InvalidTopicNameException(NameValidationException):
    """A topic's name breaks the rules."""

    def __init__(self, name: str, error_msg: str, invalid_index: int) -> None:
        super().__init__("topic name", name, error_msg, invalid_index)


class InvalidServiceNameException(NameValidationException):
    """A service's name breaks the rules."""

    def __init__(self, name: str, error_msg: str, invalid_index: int) -> None:
        super().__init__("service name", name, error_msg, invalid_index)


class ParameterException(Exception):
    """Base of what goes wrong with parameters."""

    def __init__(self, error_msg: str, parameters: str | list[str]) -> None:
        super().__init__(f"{error_msg}: {parameters}")


class ParameterNotDeclaredException(ParameterException):
    """A parameter is not declared, and undeclared ones are not allowed."""

    def __init__(self, parameters: str | list[str]) -> None:
        super().__init__("Invalid access to undeclared parameter(s)", parameters)


class ParameterAlreadyDeclaredException(ParameterException):
    """A parameter is declared a second time."""

    def __init__(self, parameters: str | list[str]) -> None:
        super().__init__("Parameter(s) already declared", parameters)


class InvalidParameterException(ParameterException):
    """A parameter's name is not allowed."""

    def __init__(self, parameter_name: str) -> None:
        super().__init__("Invalid parameter name", parameter_name)


class InvalidParameterTypeException(ParameterException):
    """A value has another type than its parameter."""

    def __init__(self, desired_parameter: Any, expected_type: str) -> None:
        super().__init__(
            f"Trying to set parameter '{desired_parameter.name}' to '{desired_parameter.value}' "
            f"of type '{desired_parameter.type_.name}', expecting type '{expected_type}'",
            desired_parameter.name,
        )


class InvalidParameterValueException(ParameterException):
    """A callback or a descriptor refused a value."""

    def __init__(self, parameter: str, value: Any, reason: str) -> None:
        super().__init__(f"Invalid parameter value ({value}) for parameter. Reason: {reason}", parameter)


class ParameterImmutableException(ParameterException):
    """A read-only parameter cannot be undeclared."""

    def __init__(self, parameter_name: str) -> None:
        super().__init__("Attempted to modify read-only parameter", parameter_name)


class ParameterUninitializedException(ParameterException):
    """A declared parameter has no value yet."""

    def __init__(self, parameter_name: str) -> None:
        super().__init__(f"The parameter '{parameter_name}' is not initialized", parameter_name)


class ROSInterruptException(Exception):
    """Something was waiting when rclpy was shut down."""

    def __init__(self) -> None:
        super().__init__("rclpy.shutdown() has been called")
