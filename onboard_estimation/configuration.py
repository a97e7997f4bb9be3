"""Typed configuration: plain dataclasses, checked as a whole against a ROS 2 parameter file.

    @dataclass(frozen=True)
    class Gyro:
        noise_rad_s: float = parameter(0.005, "standard deviation of a sample", unit="rad/s", exclusive_minimum=0.0)

    @dataclass(frozen=True)
    class Salp:
        gyro: Gyro = Gyro()
        joint_limits_rad: tuple[float, ...] = parameter((1.5, 1.5), "largest angle of each joint", unit="rad")

    configuration = load(Salp, Path("salp.yaml"), {"gyro.noise_rad_s": 0.01})

A parameter's type is one that ROS 2 can hold: `float`, `int`, `bool`, `str`, `Literal`, or a tuple of one of them, of
fixed (`tuple[float, float]`) or free (`tuple[float, ...]`) length. Rules across parameters go into a method
`faults(self) -> Iterable[str]` of the dataclass; it is called once each of its parameters is right by itself.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from onboard_estimation.errors import UserError
from onboard_estimation.parameter_file import PARAMETERS_KEY, flatten, is_sectioned, parameters_of, read_parameter_file
from onboard_estimation.parameter_type import Limits, Number, ParameterType, Refused, shown

C = TypeVar("C")
_METADATA_KEY = "onboard_estimation.parameter"
# Parameters that every ROS 2 node has; a file may set them beside ours.
_ROS_OWN = ("use_sim_time", "start_type_description_service", "qos_overrides")


class ConfigurationError(UserError):
    """All faults of a configuration at once.

    Attributes
    ----------
    faults
        One line for each: the parameter's dotted name, the value, what is allowed.
    """

    def __init__(self, source: str, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        if len(faults) == 1:
            super().__init__(f"{source}: {faults[0]}")
        else:
            super().__init__(f"{source}: {len(faults)} faults", faults)


@dataclass(frozen=True)
class _Meaning:
    """What `parameter` says of a field beside its type and default."""

    doc: str
    unit: str
    limits: Limits


@dataclass(frozen=True)
class Parameter:
    """One parameter of a configuration, for documents, help texts and ROS parameter descriptors.

    Attributes
    ----------
    name
        Dotted name, as in the parameter file.
    type_name
        `float`, `int`, `bool`, `string`; for lists with the length behind: `float[3]`, `float[]`.
    default
        None for a parameter that has to be given.
    unit, doc
        As declared; unit "" for a pure number or text.
    allowed
        What is allowed in words, e.g. `number > 0`.
    minimum, maximum
        Bounds, inclusive or not (`allowed` says which); None where there is none.
    choices
        The only values allowed; empty: all of the type.
    """

    name: str
    type_name: str
    default: Any
    unit: str
    doc: str
    allowed: str
    minimum: Number | None
    maximum: Number | None
    choices: tuple[Any, ...]


def parameter(
    default: Any,
    doc: str,
    *,
    unit: str = "",
    minimum: Number | None = None,
    maximum: Number | None = None,
    exclusive_minimum: Number | None = None,
    exclusive_maximum: Number | None = None,
    choices: Iterable[Any] = (),
) -> Any:
    """A dataclass field that is a parameter; bounds and choices hold for each element of a tuple.

    Parameters
    ----------
    default
        `dataclasses.MISSING` for a parameter that has to be given.
    doc
        Meaning in one line.
    unit
        SI unit as text, e.g. `rad/s`.
    """
    limits = Limits(minimum, maximum, exclusive_minimum, exclusive_maximum, tuple(choices))
    meaning = _Meaning(" ".join(doc.split()), unit, limits)
    return dataclasses.field(default=default, metadata={_METADATA_KEY: meaning})


def load(
    configuration_type: type[C],
    source: Path | str | Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    node: str | None = None,
) -> C:
    """Configuration from its defaults, a parameter file and overrides, the later before the earlier.

    Parameters
    ----------
    source
        ROS 2 parameter file, or a mapping of its content or of bare parameters, nested or with dotted names.
    overrides
        Nested or with dotted names; arrays as lists, tuples, `array.array` or NumPy arrays.
    node
        Name of the node that a file for several nodes is read for.

    Raises
    ------
    ConfigurationError
        With all faults: unknown names, wrong types, values out of range, names given twice, broken rules.
    UserError
        The file cannot be read at all.
    """
    content: Mapping[str, Any]
    if isinstance(source, (str, Path)):
        source_name, (content, faults) = str(source), read_parameter_file(Path(source))
    else:
        source_name, content, faults = "configuration", source or {}, []
    of_file = isinstance(source, (str, Path)) and bool(content)
    values, more_faults = parameters_of(content, node) if of_file or is_sectioned(content) else flatten(content)
    overriding, override_faults = flatten(overrides or {})
    faults += [*more_faults, *override_faults]
    values.update(overriding)

    configuration = _build(configuration_type, "", MISSING, values, faults)
    known = {leaf.name for leaf in _leaves(configuration_type, "", MISSING)}
    faults += _unknown(values, known, set(_section_names(configuration_type, "")))
    if faults:
        raise ConfigurationError(f"{source_name}, with what was set besides" if overrides else source_name, faults)
    return typing.cast(C, configuration)


def describe(configuration_type: type) -> list[Parameter]:
    """Every parameter of a configuration, in the order of declaration."""
    rows = []
    for leaf in _leaves(configuration_type, "", MISSING):
        limits = leaf.type.limits
        rows.append(
            Parameter(
                name=leaf.name,
                type_name=leaf.type.name,
                default=None if leaf.default is MISSING else leaf.default,
                unit=leaf.unit,
                doc=leaf.doc,
                allowed=leaf.type.allowed,
                minimum=limits.minimum if limits.exclusive_minimum is None else limits.exclusive_minimum,
                maximum=limits.maximum if limits.exclusive_maximum is None else limits.exclusive_maximum,
                choices=limits.choices,
            )
        )
    return rows


def to_mapping(configuration: Any) -> dict[str, Any]:
    """Nested plain dictionary, tuples as lists: what `load` takes and JSON and YAML can hold."""
    mapping: dict[str, Any] = {}
    for name, _ in _members(type(configuration)):
        value = getattr(configuration, name)
        if dataclasses.is_dataclass(value):
            mapping[name] = to_mapping(value)
        else:
            mapping[name] = list(value) if isinstance(value, tuple) else value
    return mapping


def to_parameter_file(configuration: Any, node: str = "/**") -> str:
    """ROS 2 parameter file with the meaning, unit and allowed values at the end of each line; `load` reads it back."""
    lines = [f"{node}:", f"  {PARAMETERS_KEY}:", *_file_lines(configuration, "    ")]
    return "\n".join(lines) + "\n"


def _file_lines(configuration: Any, indent: str) -> Iterator[str]:
    for name, member in _members(type(configuration)):
        value = getattr(configuration, name)
        if isinstance(member, _Section):
            lines = list(_file_lines(value, indent + "  "))
            if lines:
                yield f"{indent}{name}:{_section_remark(member.type)}"
                yield from lines
        else:
            unit = f" [{member.unit}]" if member.unit else ""
            limits = f", {member.type.limits_in_words}" if member.type.limits_in_words else ""
            yield f"{indent}{name}: {_yaml_value(value)}  # {member.doc}{unit}{limits}"


def _section_remark(section_type: type) -> str:
    first_line = (section_type.__doc__ or "").strip().partition("\n")[0]
    return "" if not first_line or first_line.startswith(f"{section_type.__name__}(") else f"  # {first_line}"


def _yaml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_yaml_value(element) for element in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")  # 1e-06 is text to plain PyYAML
    if isinstance(value, int):
        return str(value)
    return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=math.inf).strip()


@dataclass(frozen=True)
class _Leaf:
    """A field that is a parameter; `name` is dotted and `default` that of the enclosing section where there is one."""

    name: str
    type: ParameterType
    doc: str
    unit: str
    default: Any


@dataclass(frozen=True)
class _Section:
    """A field that is a dataclass of parameters."""

    name: str
    type: type
    default: Any


def _members(
    configuration_type: type, prefix: str = "", instance: Any = MISSING
) -> Iterator[tuple[str, _Leaf | _Section]]:
    """(field name, what it is) of the fields of a dataclass, defaults taken from the instance where there is one."""
    hints = typing.get_type_hints(configuration_type)
    for field in dataclasses.fields(configuration_type):
        if not field.init:
            continue
        name, hint = prefix + field.name, hints[field.name]
        default = _default(field) if instance is MISSING else getattr(instance, field.name)
        meaning: _Meaning | None = field.metadata.get(_METADATA_KEY)
        if dataclasses.is_dataclass(hint):
            yield field.name, _Section(name, typing.cast(type, hint), default)
        elif meaning is None:
            raise TypeError(f"{configuration_type.__name__}.{field.name}: declare it with parameter(default, doc)")
        else:
            kind = ParameterType.of(hint, meaning.limits, f"{configuration_type.__name__}.{field.name}")
            yield field.name, _Leaf(name, kind, meaning.doc, meaning.unit, default)


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _leaves(configuration_type: type, prefix: str, instance: Any) -> Iterator[_Leaf]:
    for _, member in _members(configuration_type, prefix, instance):
        if isinstance(member, _Section):
            yield from _leaves(member.type, f"{member.name}.", member.default)
        else:
            yield member


def _section_names(configuration_type: type, prefix: str) -> Iterator[str]:
    for _, member in _members(configuration_type, prefix):
        if isinstance(member, _Section):
            yield member.name
            yield from _section_names(member.type, f"{member.name}.")


def _build(configuration_type: type, prefix: str, instance: Any, values: Mapping[str, Any], faults: list[str]) -> Any:
    """The dataclass from the values; None, and its faults added to the list, where that cannot be."""
    arguments: dict[str, Any] = {}
    faults_before = len(faults)
    for field_name, member in _members(configuration_type, prefix, instance):
        if isinstance(member, _Section):
            arguments[field_name] = _build(member.type, f"{member.name}.", member.default, values, faults)
        elif member.name not in values and member.default is MISSING:
            faults.append(f"{member.name}: not given; has to be {_allowed(member)}")
        else:
            value = values.get(member.name, member.default)
            try:
                arguments[field_name] = member.type.convert(value)
            except Refused:
                fault = f"{member.name}: {shown(value)} is not allowed; has to be {_allowed(member)}"
                unquoted = member.type.scalar is str and isinstance(value, (bool, int, float))
                faults.append(fault + (" in quotes" if unquoted else ""))  # ROS 2 takes y, on, 5 for no text
    if len(faults) > faults_before:
        return None
    built = configuration_type(**arguments)
    if hasattr(built, "faults"):
        faults.extend(prefix.removesuffix(".") + (": " if prefix else "") + fault for fault in built.faults())
    return built


def _allowed(leaf: _Leaf) -> str:
    return leaf.type.allowed + (f" ({leaf.unit})" if leaf.unit else "")


def _unknown(values: Mapping[str, Any], known: set[str], sections: set[str]) -> Iterator[str]:
    for name, value in values.items():
        if name in known or name.partition(".")[0] in _ROS_OWN:
            continue
        if name in sections:
            if value is not None:  # None: every line of the section is commented out
                below = ", ".join(sorted(each for each in known if each.startswith(f"{name}.")))
                yield f"{name}: {shown(value)} is not allowed; it holds {below}"
            continue
        similar = difflib.get_close_matches(name, sorted(known), n=1)
        yield f"{name}: unknown parameter" + (f"; did you mean {similar[0]}?" if similar else "")
