"""Parameters of nodes: values, dictionaries of them, files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import yaml
from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)
from launch.utilities.typed_values import coerce

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

__all__ = ["ParameterFile", "ParameterValue", "evaluate", "flattened", "yaml_text"]

_SCALARS = (bool, int, float, str)
_AS_TEXT = "a parameter that is meant as text: ParameterValue(value, value_type=str)"


class ParameterValue:
    """A value whose type is told: bool, int, float, str or a list of one of them; None: as YAML reads the text."""

    def __init__(self, value: Any, *, value_type: Any = None) -> None:
        self.value = value
        self.value_type = value_type

    def evaluate(self, context: LaunchContext) -> Any:
        """The value. ValueError where the text is not of that type."""
        kind = self.value_type
        if not _is_substitution(self.value):
            value = evaluate(context, self.value, "value")
            return value if kind is None else _checked(value, kind)
        text = perform_substitutions(context, normalize_to_list_of_substitutions(self.value))
        if kind is None:
            return _from_yaml(text, "value")
        return _from_list(text, get_args(kind)[0]) if get_origin(kind) is list else coerce(text, kind)


class ParameterFile:
    """A file with parameters; substitutions in its text are not supported."""

    def __init__(self, param_file: SomeSubstitutionsType | os.PathLike[str], *, allow_substs: Any = False) -> None:
        if allow_substs is not False:
            raise NotImplementedError("ParameterFile(allow_substs=...) is not supported without ROS 2")
        path = os.fspath(param_file) if isinstance(param_file, os.PathLike) else param_file
        self.param_file = normalize_to_list_of_substitutions(path)

    def evaluate(self, context: LaunchContext) -> Path:
        """Its path."""
        return Path(perform_substitutions(context, self.param_file))


def flattened(
    parameters: Mapping[Any, Any], prefix: Sequence[Substitution] = ()
) -> list[tuple[list[Substitution], Any]]:
    """Names and values of a dictionary; names of dictionaries within it are joined by dots."""
    out: list[tuple[list[Substitution], Any]] = []
    for name, value in parameters.items():
        parts = [
            *prefix,
            *normalize_to_list_of_substitutions("." if prefix else ""),
            *normalize_to_list_of_substitutions(name),
        ]
        out += flattened(value, parts) if isinstance(value, Mapping) else [(parts, value)]
    return out


def evaluate(context: LaunchContext, value: Any, name: str) -> Any:
    """What a node gets for a value of a launch file.

    Text stays text. What holds a substitution becomes what YAML makes of the text. Lists are of one type; whole numbers
    among others become floats.

    Raises
    ------
    TypeError, ValueError
        No value that a parameter can have; the message names the parameter.
    """
    if isinstance(value, ParameterValue):
        return value.evaluate(context)
    if _is_substitution(value):
        return _from_yaml(perform_substitutions(context, normalize_to_list_of_substitutions(value)), name)
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return _uniform([evaluate(context, one, name) for one in value], name)
    raise TypeError(f"parameter '{name}' is {value!r} of type '{type(value).__name__}', which no parameter can have")


def yaml_text(value: Any) -> str:
    """A value as it is written in `name:=value`."""
    if isinstance(value, str):
        try:
            plain = yaml.safe_load(value) == value
        except yaml.YAMLError:
            plain = False
        return value if plain else yaml.safe_dump(value, default_style='"', width=float("inf")).strip()
    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()


def _is_substitution(value: Any) -> bool:
    if isinstance(value, Substitution):
        return True
    several = isinstance(value, (list, tuple)) and all(isinstance(one, (str, Substitution)) for one in value)
    return several and any(isinstance(one, Substitution) for one in value)


def _from_yaml(text: str, name: str) -> Any:
    try:
        value = yaml.safe_load(text) if text else ""
    except yaml.YAMLError:
        raise TypeError(f"parameter '{name}': {text!r} is no YAML; {_AS_TEXT}") from None
    if isinstance(value, list):
        return _uniform(value, name)
    if not isinstance(value, _SCALARS):
        raise TypeError(f"parameter '{name}': {text!r} is no value that a parameter can have; {_AS_TEXT}")
    return value


def _uniform(values: list[Any], name: str) -> list[Any]:
    kinds = {type(one) for one in values}
    if kinds == {int, float}:
        return [float(one) for one in values]
    if len(kinds) != 1 or not kinds <= set(_SCALARS):
        raise TypeError(
            f"parameter '{name}' is {values!r}: a list must not be empty, and hold bool, int, float or str only"
        )
    return values


def _from_list(text: str, kind: type) -> list[Any]:
    values = _from_yaml(text, "value")
    return [_checked(one, kind) for one in (values if isinstance(values, list) else [values])]


def _checked(value: Any, kind: Any) -> Any:
    if get_origin(kind) is list:
        return [_checked(one, get_args(kind)[0]) for one in value]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not an instance of '{kind.__name__}'")
    return value
