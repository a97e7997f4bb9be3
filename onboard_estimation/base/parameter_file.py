"""ROS 2 parameter files, read as ROS 2 reads them, with every fault of their form collected.

What ROS 2 takes for a number is taken for one here (`1e-3`, which plain PyYAML reads as text), and what it refuses is
refused here too (anchors), so that a file means the same to a node and to an offline command.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from onboard_estimation.base.errors import UserError

PARAMETERS_KEY = "ros__parameters"


class ParameterLoader(yaml.SafeLoader):
    """Safe loader with the scalars of rcl_yaml_param_parser; notes keys that occur twice."""

    # Not those of PyYAML, which make a number of 1:30 and a date of 2017-11-22.
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  as its base class declares it

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.faults: list[str] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.get_event().start_mark
            raise yaml.composer.ComposerError(None, None, "ROS 2 reads no aliases", mark)
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


for _tag, _pattern, _first in (
    ("bool", r"^(?:y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON|n|N|no|No|NO|false|False|FALSE|off|Off|OFF)$", "yYtToOnNfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+)$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+."),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
):
    ParameterLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))
# PyYAML knows no `y` and `n`.
ParameterLoader.bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


def read_parameter_file(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Content of a ROS 2 parameter file and the faults of its form.

    Raises
    ------
    UserError
        The file cannot be read, or is no YAML.
    """
    try:
        loader = ParameterLoader(path.read_text(encoding="utf-8"))
        content = loader.get_single_data()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is no UTF-8 text (byte {error.start})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = ", ".join(filter(None, (error.context, error.problem)))
        raise UserError(f"{path}: is no valid parameter file{place}: {problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is no valid parameter file: {' '.join(str(error).split())}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise UserError(f"{path}: is no parameter file: it holds a {type(content).__name__}, not `name: value` lines")
    return content, loader.faults


def is_sectioned(content: Mapping[str, Any]) -> bool:
    """Whether the content has ROS 2's form, `node: ros__parameters: ...`, rather than that of bare parameters."""
    return PARAMETERS_KEY in content or any(True for _ in _sections(content))


def parameters_of(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Parameters that the content holds for the one node that it is for, as `{dotted name: value}`, and faults.

    Parameters
    ----------
    content
        `{node name: {"ros__parameters": {...}}}`; names may have a namespace and the wildcards `*` and `**`.

    Of two sections that hold for the node, the later one in the file prevails, as in ROS 2.
    """
    if PARAMETERS_KEY in content:
        return {}, [f"{PARAMETERS_KEY} stands at the top: write a node's name above it, or /** for every node"]
    sections = list(_sections(content))
    if not sections:
        return {}, [
            f"no {PARAMETERS_KEY}: a ROS 2 parameter file has `/**:`, below it `{PARAMETERS_KEY}:`, then values"
        ]
    names = [name for name, _ in sections if name.rpartition("/")[2] not in ("*", "**")]
    if len(set(names)) > 1:
        return {}, [f"parameters for several nodes ({', '.join(names)}): say for which one"]
    parameters: dict[str, Any] = {}
    faults: list[str] = []
    for name, values in sections:
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
    for name, value in _leaves(nested, ""):
        if name in flat:
            faults.append(f"{name}: given twice, once as a dotted name")
        flat[name] = value
    return flat, faults


def _leaves(nested: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _sections(content: Mapping[str, Any], namespace: str = "") -> Iterator[tuple[str, Any]]:
    """(name of the node with its namespace, what is below `ros__parameters`) in the order of the file."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            full_name = f"{namespace}/{str(name).strip('/')}"
            if PARAMETERS_KEY in value:
                yield full_name, value[PARAMETERS_KEY]
            yield from _sections({key: below for key, below in value.items() if key != PARAMETERS_KEY}, full_name)
