"""ROS arguments of a command line: remapping rules, parameters, log levels.

program --own --ros-args -r imu:=gyro -r __ns:=/salp -p rate:=200.0 --params-file salp.yaml --log-level debug -- more
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rclpy._names import expanded
from rclpy._rclpy_pybind11 import RCLInvalidROSArgsError
from rclpy.impl.logging_severity import LoggingSeverity

_NODE_PREFIX = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_]*):(?!=))?(.+)", re.DOTALL)
_SWITCHES = ("rosout-logs", "stdout-logs", "external-lib-logs")


@dataclass(frozen=True)
class RemapRule:
    """`[node:]match:=replacement`; kind `node`, `namespace`, `topic`, `service`, or `name` for topics and services."""

    node: str | None
    kind: str
    match: str
    replacement: str


@dataclass
class RosArguments:
    """What a command line says to ROS, in its order, and what it says to others.

    Attributes
    ----------
    parameters
        `(pattern of full node names, {dotted name: value})`; the later prevails.
    log_levels
        `(name of a logger or None for all, severity)`.
    unknown
        ROS arguments that nobody knows.
    other
        Arguments that are not ROS's.
    """

    remap_rules: list[RemapRule] = field(default_factory=list)
    parameters: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    log_levels: list[tuple[str | None, LoggingSeverity]] = field(default_factory=list)
    enclave: str = "/"
    rosout_logs: bool = True
    stdout_logs: bool = True
    unknown: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


def parse(arguments: Sequence[str], *, ros_scope: bool = False) -> RosArguments:
    """Read a command line.

    Parameters
    ----------
    ros_scope
        Whether it begins as if `--ros-args` stood before it (arguments of a node).

    Raises
    ------
    RCLInvalidROSArgsError
        Something that cannot be read, named.
    """
    parsed = RosArguments()
    in_scope = ros_scope
    words = iter(arguments)
    for word in words:
        if word == "--ros-args":
            in_scope = True
        elif not in_scope:
            parsed.other.append(word)
        elif word == "--":
            in_scope = False
        else:
            _read(parsed, word, words)
    return parsed


def other_arguments(arguments: Sequence[str]) -> list[str]:
    """The command line without what belongs to ROS."""
    kept = []
    in_scope = False
    for word in arguments:
        if word == "--ros-args":
            in_scope = True
        elif in_scope:
            in_scope = word != "--"
        else:
            kept.append(word)
    return kept


def _read(parsed: RosArguments, word: str, words: Iterable[str]) -> None:
    def following(what: str) -> str:
        for value in words:
            return value
        raise RCLInvalidROSArgsError(f"Couldn't parse ROS arguments: {word} needs {what} behind it")

    if word in ("-r", "--remap"):
        parsed.remap_rules.append(remap_rule(following("a rule `from:=to`")))
    elif word in ("-p", "--param"):
        parsed.parameters.append(_parameter(following("`name:=value`")))
    elif word == "--params-file":
        parsed.parameters.extend(_parameter_file(Path(following("a file"))))
    elif word == "--log-level":
        parsed.log_levels.append(_log_level(following("a level")))
    elif word in ("-e", "--enclave"):
        parsed.enclave = following("a name")
    elif word in ("--log-config-file", "--log-file-name"):
        following("a file")  # nothing is logged into files
    elif word.startswith(("--enable-", "--disable-")) and word.split("-", 3)[3] in _SWITCHES:
        switch = word.split("-", 3)[3].replace("-", "_")
        setattr(parsed, switch, word.startswith("--enable-"))
    elif ":=" in word and not word.startswith("-"):
        parsed.remap_rules.append(remap_rule(word))
    else:
        parsed.unknown.append(word)


def remap_rule(text: str) -> RemapRule:
    """Rule of `[node:]from:=to`, `from` and `to` names or `__node` or `__ns`."""
    match, separator, replacement = text.partition(":=")
    kind = "name"
    for scheme, scheme_kind in (("rostopic://", "topic"), ("rosservice://", "service")):
        if scheme in match:
            match, kind = match.replace(scheme, "", 1), scheme_kind
    found = _NODE_PREFIX.fullmatch(match)
    if not separator or found is None or not replacement:
        raise RCLInvalidROSArgsError(f"Couldn't parse remap rule: '{text}': a rule is `[node:]from:=to`")
    node, name = found.groups()
    kind = {"__node": "node", "__name": "node", "__ns": "namespace"}.get(name, kind)
    return RemapRule(node, kind, name, replacement)


def _parameter(text: str) -> tuple[str, dict[str, Any]]:
    import yaml

    # Scalars of ROS 2, not those of PyYAML: `1e-3` is a number and 1:30 a text.
    from embedded_ros.parameter_file import ParameterLoader

    name, separator, value_text = text.partition(":=")
    found = _NODE_PREFIX.fullmatch(name)
    if not separator or found is None:
        raise RCLInvalidROSArgsError(f"Couldn't parse parameter override rule: '{text}': it is `[node:]name:=value`")
    try:
        value = ParameterLoader(value_text).get_single_data()
    except (yaml.YAMLError, ValueError) as error:
        raise RCLInvalidROSArgsError(f"Couldn't parse the value of the parameter rule '{text}': {error}") from error
    node, name = found.groups()
    if isinstance(value, dict):
        from embedded_ros.parameter_file import flatten

        return f"/{node}" if node else "/**", flatten({name: value})[0]
    return f"/{node}" if node else "/**", {name: "" if value is None else value}


def _parameter_file(path: Path) -> list[tuple[str, dict[str, Any]]]:
    from embedded_ros.errors import UserError
    from embedded_ros.parameter_file import PARAMETERS_KEY, flatten, read_parameter_file

    try:
        content, faults = read_parameter_file(path)
    except UserError as error:
        raise RCLInvalidROSArgsError(f"Couldn't parse params file: {error}") from error
    if faults:
        raise RCLInvalidROSArgsError(f"Couldn't parse params file: {path}: {'; '.join(faults)}")

    def sections(below: dict[str, Any], namespace: str) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = []
        for name, value in below.items():
            if not isinstance(value, dict):
                raise RCLInvalidROSArgsError(
                    f"Couldn't parse params file: {path}: {name} holds a value outside of {PARAMETERS_KEY}"
                )
            full = f"{namespace}/{name.strip('/')}"
            own = value.get(PARAMETERS_KEY)
            if own is not None and not isinstance(own, dict):
                raise RCLInvalidROSArgsError(
                    f"Couldn't parse params file: {path}: {PARAMETERS_KEY} of {full} holds no `name: value` lines"
                )
            if own:
                found.append((full, flatten(own)[0]))
            found += sections({key: inner for key, inner in value.items() if key != PARAMETERS_KEY}, full)
        return found

    return sections(content, "")


def _log_level(text: str) -> tuple[str | None, LoggingSeverity]:
    logger, _, level = text.rpartition(":=")
    try:
        return logger or None, LoggingSeverity[level.upper()]
    except KeyError:
        known = ", ".join(severity.name.lower() for severity in LoggingSeverity)
        raise RCLInvalidROSArgsError(f"Couldn't parse log level '{text}': there are {known}") from None


def remapped_node_name(rules: Iterable[RemapRule], name: str) -> str:
    """Name of a node after the first rule that holds for it."""
    for rule in rules:
        if rule.kind == "node" and rule.node in (None, name):
            return rule.replacement
    return name


def remapped_namespace(rules: Iterable[RemapRule], name: str, namespace: str) -> str:
    """Namespace of the node `name` after the first rule that holds for it."""
    for rule in rules:
        if rule.kind == "namespace" and rule.node in (None, name):
            return rule.replacement
    return namespace


def remapped_topic(
    rules: Iterable[RemapRule], full_name: str, node: str, namespace: str, *, is_service: bool = False
) -> str:
    """Full name of a topic or service after the first rule that holds for it."""
    kinds = ("name", "service" if is_service else "topic")
    for rule in rules:
        if rule.kind in kinds and rule.node in (None, node) and expanded(rule.match, node, namespace) == full_name:
            return expanded(rule.replacement, node, namespace)
    return full_name


def parameters_of(parsed: RosArguments, full_node_name: str) -> dict[str, Any]:
    """Values that hold for a node; in patterns `/*` stands for one part of its name and `/**` for any number."""
    values: dict[str, Any] = {}
    for pattern, given in parsed.parameters:
        if _pattern(pattern).fullmatch(full_node_name):
            values.update(given)
    return values


def _pattern(pattern: str) -> re.Pattern[str]:
    parts = []
    for part in pattern.strip("/").split("/"):
        if part == "**":
            parts.append(r"(?:/\w+)*")
        elif part == "*":
            parts.append(r"/\w+")
        else:
            parts.append(f"/{re.escape(part)}")
    return re.compile("".join(parts))
