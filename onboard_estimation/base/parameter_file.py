"""YAML as this project reads and writes it, and ROS 2's parameter files, with every fault of their form collected.

What ROS 2 takes for a number is taken for one everywhere (`1e-3`, which plain PyYAML reads as text), and what only YAML
1.1 takes for one is not (`12:30`). So a value means the same to a node, an offline command and on the command line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from onboard_estimation.base.bounded_file import read_bounded_text
from onboard_estimation.base.errors import UserError

MOST_BYTES = 2 * 2**20
"""Of a file: each takes some hundred bytes of memory."""
PARAMETERS_KEY = "ros__parameters"
_SMALLEST_NORMAL = 2.0**-1022


class _Loader(yaml.SafeLoader):
    """Safe loader with the scalars of rcl_yaml_param_parser; notes names that occur twice."""

    # Not those of PyYAML, which make a number of 1:30 and a date of 2017-11-22.
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  as its base class declares it
    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012

    def __init__(self, text: str, most_nodes: float) -> None:
        super().__init__(text)
        self.faults: list[str] = []
        self._nodes, self._most_nodes = 0, most_nodes

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._nodes += 1
        if self.check_event(yaml.AliasEvent) and (isinstance(self, _ParameterLoader) or self._most_nodes < math.inf):
            raise yaml.composer.ComposerError(None, None, "ROS 2 reads no aliases", self.get_event().start_mark)
        if self._nodes > self._most_nodes:
            raise yaml.composer.ComposerError(None, None, "too many values", self.get_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[str, int] = {}
        mapping: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(f"line {line}: a name is a text, not a {key_node.id}")
                continue
            name = key_node.value  # as text: a parameter called `y` or `on` is no bool
            if name in lines:
                self.faults.append(f"{name}: given twice, in lines {lines[name]} and {line}")
            lines[name] = line
            mapping[name] = self.construct_object(value_node, deep=True)
        return mapping


class _ParameterLoader(_Loader):
    """With two truth values more, as in ROS 2's own files: elsewhere `y` is an axis and `N` are newtons."""


class _Dumper(yaml.SafeDumper):
    """Puts texts in quotes that PyYAML, ROS 2 or this reader would take for anything else; has no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Line breaks of other alphabets are lost without escapes.
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=None if data.isprintable() else '"')

    def represent_float(self, data: float) -> yaml.ScalarNode:
        if 0.0 < abs(data) < _SMALLEST_NORMAL:  # rounded as usual, ROS 2 takes it for a text
            return self.represent_scalar("tag:yaml.org,2002:float", str(Decimal(data)))
        return super().represent_float(data)


for _tag, _pattern, _first in (
    ("bool", r"^(?:yes|Yes|YES|true|True|TRUE|on|On|ON|no|No|NO|false|False|FALSE|off|Off|OFF)$", "yYtToOnNfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+)$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|[-+]?(?i:inf|infinity|nan))$", "-+.iInN"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
):
    for _one in (_Loader, _Dumper):
        _one.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))
for _one in (_ParameterLoader, _Dumper):
    _one.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))
# What begins as a number and is none to YAML may be one to strtod, which ROS 2 calls.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\.?[0-9]"), list("-+.0123456789"))
_Dumper.add_representer(str, _Dumper.represent_str)
_Dumper.add_representer(float, _Dumper.represent_float)
# NumPy's scalars and arrays, and `array.array`.
_Dumper.add_multi_representer(object, lambda dumper, data: dumper.represent_data(getattr(data, "tolist")()))  # noqa: B009


def read_yaml(text: str, of_ros: bool = False, most_nodes: float = math.inf) -> tuple[Any, list[str]]:
    """Content of a YAML text, names as texts, and the faults of its form that do not hinder reading.

    Parameters
    ----------
    of_ros
        It is a ROS 2 parameter file, where `y` and `n` are truth values, and aliases are none.
    most_nodes
        Refuse more values than these, and aliases, which make many of few.

    Raises
    ------
    UserError
        It is no YAML: where, and why.
    """
    try:
        loader = (_ParameterLoader if of_ros else _Loader)(text, most_nodes)
        return loader.get_single_data(), loader.faults
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UserError(place + ", ".join(filter(None, (error.context, error.problem)))) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(" ".join(str(error).split())) from error


def yaml_value(text: str) -> Any:
    """The value of a YAML text. UserError where it is none, or has a name twice."""
    value, faults = read_yaml(text)
    if faults:
        raise UserError("; ".join(faults))
    return value


def to_yaml(value: Any, **style: Any) -> str:
    """YAML text that ROS 2, PyYAML and `read_yaml` read alike; style as of `yaml.dump`."""
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, width=math.inf, sort_keys=False, **style)
    return text.removesuffix("...\n")


def read_yaml_file(path: Path, what: str, of_ros: bool = False) -> tuple[Any, list[str]]:
    """As `read_yaml`, of a file. UserError where it cannot be read, or is not what it should be, in words."""
    text = read_bounded_text(path, str(path), MOST_BYTES)
    try:
        return read_yaml(text, of_ros)
    except UserError as error:
        raise UserError(f"{path}: is no valid {what}: {error}") from error


def read_parameter_file(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Content of a ROS 2 parameter file and the faults of its form. Raises as `read_yaml_file`."""
    content, faults = read_yaml_file(path, "parameter file", of_ros=True)
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise UserError(f"{path}: is no parameter file: it holds a {type(content).__name__}, not `name: value` lines")
    return content, faults


def is_sectioned(content: Mapping[str, Any]) -> bool:
    """Whether the content has ROS 2's form, `node: ros__parameters: ...`, rather than that of bare parameters."""
    return PARAMETERS_KEY in content or any(True for _ in _sections(content))


def file_and_node(path: Path) -> tuple[Path, str]:
    """A file, and the node that `:NODE` behind its name says; empty: none is said."""
    file, _, node = str(path).rpartition(":")
    return (Path(file), node) if node and not path.exists() and Path(file).is_file() else (path, "")


def is_for(section: str, node: str) -> bool:
    """Whether a section is for a node, by ROS 2's rules; by its last word, where the node's namespace is not known."""
    if "/" not in node:
        return section.rpartition("/")[2] in (node, "*", "**")
    pattern = re.escape(section).replace(r"/\*\*", "(/[^/]+)*").replace(r"/\*", "/[^/]+")
    return re.fullmatch(pattern, node) is not None


def sections_of_others(path: Path, nodes: Sequence[str]) -> list[str]:
    """Sections of a parameter file that are for none of these nodes; none where it is no file, or `FILE:NODE`."""
    with suppress(UserError):
        content, _ = read_parameter_file(path)
        return [name for name, _ in _sections(content) if not any(is_for(name, node) for node in nodes)]
    return []


def for_nodes(path: Path, nodes: Sequence[str]) -> str | None:
    """Text of a parameter file whose section for all nodes is for these alone; None where it has a fault."""
    found: dict[str, dict[str, Any]] = {}
    with suppress(UserError):
        content, faults = read_parameter_file(path)
        for section, values in _sections(content):
            if not isinstance(values or {}, Mapping):
                return None
            for name in [f"/**/{node}" for node in nodes] if section == "/**" else [section]:
                own, more_faults = flatten(values or {})
                faults += more_faults
                found.setdefault(name, {PARAMETERS_KEY: {}})[PARAMETERS_KEY] |= own
        return None if faults else to_yaml(found)
    return None


def parameters_of(content: Mapping[str, Any], node: str = "") -> tuple[dict[str, Any], list[str]]:
    """Parameters that the content holds for a node, as `{dotted name: value}`, and faults.

    Parameters
    ----------
    content
        `{node name: {"ros__parameters": {...}}}`; names may have a namespace and the wildcards `*` and `**`.
    node
        With its namespace, or without, whatever that is; empty: the only one that the content is for.

    Of two sections that hold for the node, the later one in the file prevails, as in ROS 2.
    """
    if PARAMETERS_KEY in content:
        return {}, [f"{PARAMETERS_KEY} stands at the top: write a node's name above it, or /** for every node"]
    sections = list(_sections(content))
    if not sections:
        return {}, [
            f"no {PARAMETERS_KEY}: a ROS 2 parameter file has `/**:`, below it `{PARAMETERS_KEY}:`, then values"
        ]
    names = [name for name, _ in sections]
    mine = [name for name in names if not node or is_for(name, node)]
    if not mine:
        section = f"/**/{node.rpartition('/')[2]}"
        there = f"parameters for {', '.join(names)}, none for {node}"
        return {}, [f"{there}: call the section {section}, or choose one, FILE:{names[0]}"]
    # Of a node's name in any namespace and in one, both hold for it; in two, one of them does.
    rivals = dict.fromkeys(one for one in mine if "*" not in (one if node else one.rpartition("/")[2]))
    if len(rivals) > 1 and "/" not in node:
        return {}, [f"parameters for several nodes ({', '.join(rivals)}): choose one, FILE:{[*rivals][-1]}"]
    parameters: dict[str, Any] = {}
    faults: list[str] = []
    for name, values in sections:
        if name not in mine:
            continue
        if values is not None and not isinstance(values, Mapping):
            faults.append(f"{name}: {PARAMETERS_KEY} holds {values!r}, not `name: value` lines")
            continue
        flat, flat_faults = flatten(values or {})
        parameters.update(flat)
        faults.extend(flat_faults)
    return parameters, faults


def flatten(nested: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """`{"gyro": {"noise": 1.0}}` and `{"gyro.noise": 1.0}` alike as `{"gyro.noise": 1.0}`, and names given twice."""
    flat: dict[str, Any] = {}
    faults: list[str] = []
    for path, value in leaves(nested):
        name = ".".join(path)
        if name in flat:
            faults.append(f"{name}: given twice, once as a dotted name")
        flat[name] = value
    return flat, faults


def leaves(nested: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Leaves of nested mappings with the keys that lead there, in the order of the mapping."""
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key)), value


def _sections(content: Mapping[str, Any], namespace: str = "") -> Iterator[tuple[str, Any]]:
    """(name of the node with its namespace, what is below `ros__parameters`) in the order of the file."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            full_name = f"{namespace}/{str(name).strip('/')}"
            if PARAMETERS_KEY in value:
                yield full_name, value[PARAMETERS_KEY]
            yield from _sections({key: below for key, below in value.items() if key != PARAMETERS_KEY}, full_name)
