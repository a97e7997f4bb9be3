"""Rules for names of nodes, namespaces, topics, services and parameters, and how relative names become full ones."""

from __future__ import annotations

import re

from rclpy.exceptions import (
    InvalidNamespaceException,
    InvalidNodeNameException,
    InvalidParameterException,
    InvalidServiceNameException,
    InvalidTopicNameException,
)

_WORD = re.compile(r"[A-Za-z0-9_]")
_SUBSTITUTION = re.compile(r"\{([^{}]*)\}")
_LONGEST = 255


def validate_node_name(node_name: str) -> bool:
    """True, or InvalidNodeNameException."""
    fault = _node_name_fault(node_name)
    if fault:
        raise InvalidNodeNameException(node_name, *fault)
    return True


def validate_namespace(namespace: str) -> bool:
    """True, or InvalidNamespaceException."""
    fault = None if namespace == "/" else _full_name_fault(namespace, "namespace")
    if fault:
        raise InvalidNamespaceException(namespace, *fault)
    return True


def validate_topic_name(name: str, *, is_service: bool = False) -> bool:
    """True for a relative, private or full name, else InvalidTopicNameException or InvalidServiceNameException."""
    return _checked(name, _topic_name_fault(name), is_service)


def validate_full_topic_name(name: str, *, is_service: bool = False) -> bool:
    """True for a full name, else InvalidTopicNameException or InvalidServiceNameException."""
    return _checked(name, _full_name_fault(name, "topic name"), is_service)


def validate_parameter_name(name: str) -> bool:
    """True, or InvalidParameterException."""
    if not name:
        raise InvalidParameterException(name)
    return True


def expand_topic_name(topic_name: str, node_name: str, node_namespace: str) -> str:
    """Full name of a relative (`imu`), private (`~/imu`) or full name; ValueError if one of them is invalid."""
    for fault in (
        _topic_name_fault(topic_name),
        _node_name_fault(node_name),
        None if node_namespace == "/" else _full_name_fault(node_namespace, "namespace"),
    ):
        if fault:
            raise ValueError(f"'{topic_name}' cannot be expanded: {fault[0]}")
    return expanded(topic_name, node_name, node_namespace)


def expanded(name: str, node_name: str, namespace: str) -> str:
    """`expand_topic_name` without its checks."""
    base = namespace.rstrip("/")
    name = _SUBSTITUTION.sub(
        lambda found: (
            {"node": node_name, "ns": namespace, "namespace": namespace}[found[1]].strip("/")
            if found.start()
            else {"node": node_name, "ns": namespace, "namespace": namespace}[found[1]]
        ),
        name,
    )
    if name == "~" or name.startswith("~/"):
        return f"{base}/{node_name}{name[1:]}"
    if name.startswith("/"):
        return name
    return f"{base}/{name}"


def _checked(name: str, fault: tuple[str, int] | None, is_service: bool) -> bool:
    if fault:
        raise (InvalidServiceNameException if is_service else InvalidTopicNameException)(name, *fault)
    return True


def _node_name_fault(name: str) -> tuple[str, int] | None:
    if not name:
        return "node name must not be empty", 0
    for index, character in enumerate(name):
        if not _WORD.fullmatch(character):
            return "node name must not contain characters other than alphanumerics or '_'", index
    if name[0].isdigit():
        return "node name must not start with a number", 0
    if len(name) > _LONGEST:
        return f"node name must not be longer than {_LONGEST} characters", _LONGEST
    return None


def _full_name_fault(name: str, what: str) -> tuple[str, int] | None:
    if not name:
        return f"{what} must not be empty", 0
    if not name.startswith("/"):
        return f"{what} must be absolute, it must lead with a '/'", 0
    return _path_fault(name, what)


def _path_fault(name: str, what: str, allowed: str = "/") -> tuple[str, int] | None:
    if name.endswith("/"):
        return f"{what} must not end with a '/'", len(name) - 1
    for index, character in enumerate(name):
        if not _WORD.fullmatch(character) and character not in allowed:
            return f"{what} must not contain characters other than alphanumerics, '_' or '/'", index
    if "//" in name:
        return f"{what} must not contain repeated '/'", name.index("//") + 1
    digit = re.search(r"(?:^|/)([0-9])", name)
    if digit:
        return f"{what} token must not start with a number", digit.start(1)
    if len(name) > _LONGEST:
        return f"{what} must not be longer than {_LONGEST} characters", _LONGEST
    return None


def _topic_name_fault(name: str) -> tuple[str, int] | None:
    if not name:
        return "topic name must not be empty", 0
    for found in _SUBSTITUTION.finditer(name):
        if found[1] not in ("node", "ns", "namespace"):
            return f"unknown substitution '{found[0]}', there are {{node}}, {{ns}} and {{namespace}}", found.start()
    plain = _SUBSTITUTION.sub(lambda found: "_" * len(found[0]), name)
    if "{" in plain or "}" in plain:
        return "topic name must not have unbalanced curly braces '{}'", min(
            plain.index(brace) for brace in "{}" if brace in plain
        )
    if "~" in plain[1:]:
        return "tilde (~) must be the first character", plain.index("~", 1)
    if plain == "~":
        return None
    if plain.startswith("~") and not plain.startswith("~/"):
        return "tilde (~) must be followed by a '/'", 1
    return _path_fault(plain, "topic name", "/~")
