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
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.parameter_file import (
    PARAMETERS_KEY,
    file_and_node,
    flatten,
    is_sectioned,
    parameters_of,
    read_parameter_file,
    to_yaml,
)

C = TypeVar("C")
Number: TypeAlias = "int | float"
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1
"""Of ROS 2's parameters."""
_METADATA_KEY = "onboard_estimation.parameter"
# Parameters that every ROS 2 node has; a file may set them beside ours.
_ROS_OWN = ("use_sim_time", "start_type_description_service", "qos_overrides")
_NOUNS = {
    float: ("float", "a number", "numbers"),
    int: ("int", "an integer", "integers"),
    bool: ("bool", "true or false", "true or false"),
    str: ("string", "a text", "texts"),
}
"""Of the types that ROS 2's parameters have: the name, and what is allowed in words, of one and of many."""
_LONGEST_SHOWN = 60
_TOPIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


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


class _Refused(Exception):
    """A value that is not allowed."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a configuration, for checks, documents, help texts and ROS parameter descriptors.

    Attributes
    ----------
    name
        Dotted name, as in the parameter file.
    scalar, is_list, length
        Its type, or that of the elements of a list; the length of a list, None: any.
    default
        None for a parameter that has to be given, which `is_required` tells.
    unit, doc
        As declared; unit "" for a pure number or text.
    minimum, maximum, minimum_excluded, maximum_excluded
        Bounds, of each element of a list; None where there is none.
    choices
        The only values allowed; empty: all of the type.
    """

    doc: str
    unit: str
    minimum: Number | None
    maximum: Number | None
    minimum_excluded: bool
    maximum_excluded: bool
    choices: tuple[Any, ...]
    name: str = ""
    scalar: type = float
    is_list: bool = False
    length: int | None = None
    default: Any = None
    is_required: bool = False

    @property
    def type_name(self) -> str:
        """`float`, `int`, `bool`, `string`, and for lists `float[3]` or `float[]`."""
        name = _NOUNS[self.scalar][0]
        return f"{name}[{'' if self.length is None else self.length}]" if self.is_list else name

    @property
    def allowed(self) -> str:
        """What is allowed, in words, e.g. `a number > 0`."""
        _, one, many = _NOUNS[self.scalar]
        if not self.is_list:
            return self.limits if self.choices else f"{one} {self.limits}".rstrip()
        count = "" if self.length is None else f"{self.length} "
        return ", ".join(filter(None, (f"a list of {count}{many}", self.limits)))

    @property
    def limits(self) -> str:
        """`> 0`, `each one of x, y`; "" where there are none."""
        if self.choices:
            found = f"one of {', '.join(map(str, self.choices))}"
        else:
            above, below = ">" if self.minimum_excluded else ">=", "<" if self.maximum_excluded else "<="
            bounds = ((above, self.minimum), (below, self.maximum))
            found = " and ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)
        return f"each {found}" if found and self.is_list else found

    def convert(self, value: Any) -> Any:
        """The value in this type: integers become floats where those are asked for, lists and arrays tuples.

        Raises
        ------
        _Refused
            It is not of this type, not finite or outside the limits.
        """
        value = _plain(value)
        if not self.is_list:
            return self._element(value)
        if not isinstance(value, (list, tuple)) or self.length not in (None, len(value)):
            raise _Refused
        return tuple(self._element(_plain(element)) for element in value)

    def _element(self, value: Any) -> Any:
        if self.scalar is float and type(value) is int:
            try:
                value = float(value)
            except OverflowError as error:
                raise _Refused from error
        if (
            type(value) is not self.scalar  # not isinstance: a bool is no number
            or (isinstance(value, float) and not math.isfinite(value))
            or (isinstance(value, int) and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER)
            or not self._permits(value)
        ):
            raise _Refused
        return value

    def _permits(self, value: Any) -> bool:
        low, high = self.minimum, self.maximum
        return (
            (low is None or value > low or (value == low and not self.minimum_excluded))
            and (high is None or value < high or (value == high and not self.maximum_excluded))
            and (not self.choices or value in self.choices)
        )


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
    meaning = Parameter(
        doc=" ".join(doc.split()),
        unit=unit,
        minimum=minimum if exclusive_minimum is None else exclusive_minimum,
        maximum=maximum if exclusive_maximum is None else exclusive_maximum,
        minimum_excluded=exclusive_minimum is not None,
        maximum_excluded=exclusive_maximum is not None,
        choices=tuple(choices),
    )
    return dataclasses.field(default=default, metadata={_METADATA_KEY: meaning})


def non_negative(default: Any, doc: str, unit: str = "") -> Any:
    """A `parameter` of 0 or more."""
    return parameter(default, doc, unit=unit, minimum=0.0)


def positive(default: Any, doc: str, unit: str = "") -> Any:
    """A `parameter` above 0."""
    return parameter(default, doc, unit=unit, exclusive_minimum=0.0)


def bounded(default: Any, least: Number, most: Number, doc: str, unit: str = "") -> Any:
    """A `parameter` from `least` to `most`, both included."""
    return parameter(default, doc, unit=unit, minimum=least, maximum=most)


def topic_name_faults(parameter_name: str, names: Sequence[str]) -> Iterator[str]:
    """What is wrong with names that become parts of topics' names, for `faults` of a configuration."""
    if len(set(names)) < len(names):
        yield f"{parameter_name}: {', '.join(names)}, allowed: each once"
    for name in names:
        if not _TOPIC_NAME.fullmatch(name):
            yield f"{parameter_name}: {name!r} can be no part of a topic's name: letters, digits, _"


def load(
    configuration_type: type[C],
    source: Path | str | Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    node: str = "",
    beside: type | None = None,
) -> C:
    """Configuration from its defaults, a parameter file and overrides, the later before the earlier.

    Parameters
    ----------
    source
        ROS 2 parameter file, `FILE:NODE` for a node's section of it, or a mapping of its content or of bare parameters,
        nested or with dotted names.
    overrides
        Nested or with dotted names; arrays as lists, tuples, `array.array` or NumPy arrays.
    node
        Whose parameters a file is to give, see `parameters_of`.
    beside
        Dataclass of other parameters that the node has: a file may set them.

    Raises
    ------
    ConfigurationError
        With all faults: unknown names, wrong types, values out of range, names given twice, broken rules.
    UserError
        The file cannot be read at all.
    """
    content: Mapping[str, Any]
    if isinstance(source, (str, Path)):
        path, asked = file_and_node(Path(source))
        node, source_name, (content, faults) = asked or node, str(source), read_parameter_file(path)
    else:
        source_name, content, faults = "configuration", source or {}, []
    sectioned = (isinstance(source, (str, Path)) and bool(content)) or is_sectioned(content)
    values, more_faults = parameters_of(content, node) if sectioned else flatten(content)
    overriding, override_faults = flatten(overrides or {})
    faults += [*more_faults, *override_faults]
    known = list(_below(configuration_type))
    unknown = dict.fromkeys(_unknown(values, [*known, *(_below(beside) if beside else ())]))
    unknown |= dict.fromkeys(_unknown(overriding, known))
    values.update(overriding)

    configuration = _build(configuration_type, "", MISSING, values, faults)
    faults += unknown
    if faults:
        raise ConfigurationError(f"{source_name}, with what was set besides" if overrides else source_name, faults)
    return typing.cast(C, configuration)


def describe(configuration_type: type) -> list[Parameter]:
    """Every parameter of a configuration, in the order of declaration."""
    return [one for one in _below(configuration_type) if isinstance(one, Parameter)]


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


def to_parameter_file(configuration: Any) -> str:
    """ROS 2 parameter file with the meaning, unit and allowed values at the end of each line; `load` reads it back."""
    return "\n".join(["/**:", f"  {PARAMETERS_KEY}:", *_file_lines(configuration, "    ")]) + "\n"


def _file_lines(configuration: Any, indent: str) -> Iterator[str]:
    for name, member in _members(type(configuration), instance=configuration):
        if isinstance(member, _Section):
            lines = list(_file_lines(member.default, indent + "  "))
            if lines:
                yield f"{indent}{name}:{_section_remark(member.type)}"
                yield from lines
        else:
            unit = f" [{member.unit}]" if member.unit else ""
            limits = f", {member.limits}" if member.limits else ""
            yield f"{indent}{name}: {_yaml_value(member.default)}  # {member.doc}{unit}{limits}"


def _section_remark(section_type: type) -> str:
    first_line = (section_type.__doc__ or "").strip().partition("\n")[0]
    return "" if not first_line or first_line.startswith(f"{section_type.__name__}(") else f"  # {first_line}"


def _yaml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_yaml_value(element) for element in value)}]"
    return to_yaml(value, **({"default_style": '"'} if isinstance(value, str) else {})).strip()


class _Section(NamedTuple):
    """A field that is a dataclass of parameters; `name` is dotted."""

    name: str
    type: type
    default: Any


def _members(
    configuration_type: type, prefix: str = "", instance: Any = MISSING
) -> Iterator[tuple[str, Parameter | _Section]]:
    """(field name, what it is) of the fields of a dataclass, defaults taken from the instance where there is one."""
    hints = typing.get_type_hints(configuration_type)
    for field in dataclasses.fields(configuration_type):
        if not field.init:
            continue
        name, hint = prefix + field.name, hints[field.name]
        default = _default(field) if instance is MISSING else getattr(instance, field.name)
        meaning: Parameter | None = field.metadata.get(_METADATA_KEY)
        if dataclasses.is_dataclass(hint):
            yield field.name, _Section(name, typing.cast(type, hint), default)
        elif meaning is None:
            raise TypeError(f"{configuration_type.__name__}.{field.name}: declare it with parameter(default, doc)")
        else:
            typed = _typed(meaning, hint, f"{configuration_type.__name__}.{field.name}")
            known = default is not MISSING
            yield field.name, replace(typed, name=name, default=default if known else None, is_required=not known)


def _typed(meaning: Parameter, hint: Any, field: str) -> Parameter:
    """With the type that an annotation stands for; TypeError where ROS 2 has no parameter of this type."""
    if hint in _NOUNS:
        return replace(meaning, scalar=hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal and type(arguments[0]) in _NOUNS and len({type(choice) for choice in arguments}) == 1:
        return replace(meaning, scalar=type(arguments[0]), choices=arguments)
    free = arguments[1:] == (...,)
    if origin is tuple and (free or len(set(arguments)) == 1):
        element = _typed(meaning, arguments[0], field)
        if not element.is_list:
            return replace(element, is_list=True, length=None if free else len(arguments))
    raise TypeError(f"{field}: {hint} is no type of a parameter: float, int, bool, str, Literal or a tuple of one")


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _below(configuration_type: type, prefix: str = "", instance: Any = MISSING) -> Iterator[Parameter | _Section]:
    """All parameters and sections; a default is that of the enclosing section where that has one."""
    for _, member in _members(configuration_type, prefix, instance):
        yield member
        if isinstance(member, _Section):
            yield from _below(member.type, f"{member.name}.", member.default)


def _build(configuration_type: type, prefix: str, instance: Any, values: Mapping[str, Any], faults: list[str]) -> Any:
    """The dataclass from the values; None, and its faults added to the list, where that cannot be."""
    arguments: dict[str, Any] = {}
    faults_before = len(faults)
    for field_name, member in _members(configuration_type, prefix, instance):
        if isinstance(member, _Section):
            arguments[field_name] = _build(member.type, f"{member.name}.", member.default, values, faults)
            continue
        allowed = member.allowed + (f" ({member.unit})" if member.unit else "")
        if member.name not in values and member.is_required:
            faults.append(f"{member.name}: not given; has to be {allowed}")
            continue
        value = values.get(member.name, member.default)
        try:
            arguments[field_name] = member.convert(value)
        except _Refused:
            fault = f"{member.name}: {_shown(value)} is not allowed; has to be {allowed}"
            unquoted = member.scalar is str and isinstance(value, (bool, int, float))
            faults.append(fault + (" in quotes" if unquoted else ""))  # ROS 2 takes y, on, 5 for no text
    if len(faults) > faults_before:
        return None
    built = configuration_type(**arguments)
    if hasattr(built, "faults"):
        faults.extend(prefix.removesuffix(".") + (": " if prefix else "") + fault for fault in built.faults())
    return built


def _unknown(values: Mapping[str, Any], members: Sequence[Parameter | _Section]) -> Iterator[str]:
    known = sorted(one.name for one in members if isinstance(one, Parameter))
    sections = {one.name for one in members if isinstance(one, _Section)}
    for name, value in values.items():
        if name in known or is_ros_own(name):
            continue
        if name in sections:
            if value is not None:  # None: every line of the section is commented out
                below = ", ".join(each for each in known if each.startswith(f"{name}."))
                yield f"{name}: {_shown(value)} is not allowed; it holds {below}"
            continue
        similar = difflib.get_close_matches(name, known, n=1)
        yield f"{name}: unknown parameter" + (f"; did you mean {similar[0]}?" if similar else "")


def is_ros_own(name: str) -> bool:
    """Whether every node of ROS 2 has a parameter of that name."""
    return name.partition(".")[0] in _ROS_OWN


def _plain(value: Any) -> Any:
    """NumPy's scalars and arrays, and `array.array` (rclpy's), as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _shown(value: Any) -> str:
    """A value as it may stand in a message: as in YAML, and not too long."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
