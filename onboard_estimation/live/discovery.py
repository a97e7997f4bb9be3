"""Waiting for the graph: until it has stood still for a moment, rather than for a fixed time.

DDS finds what is there bit by bit: first participants, then their endpoints, then the names of their nodes. A command
that looks too early shows a part of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from onboard_estimation.base.errors import UserError

STILL_S = 0.5
"""The graph is complete when it has not changed for this long: endpoints come 0.1 to 0.3 s after their node."""

FOUND_S = 3.3
"""Fast DDS finds about half of the others at once, the rest when they announce themselves anew, which is every 3 s."""

AT_MOST_S = 6.0
"""A graph in which nodes come and go never stands still."""

NAMED_S = 5.0
"""How long a topic or service that was named is waited for."""

_POLL_S = 0.03


def settle(node: Any, still_s: float = STILL_S, at_least_s: float = FOUND_S) -> None:
    """Return when the graph has stood still, and others have had time to show themselves."""
    started = changed = now = time.monotonic()
    last = None
    while now - started < AT_MOST_S and (now - started < at_least_s or now - changed < still_s):
        time.sleep(_POLL_S)
        now, seen = time.monotonic(), _snapshot(node)
        if seen != last:
            last, changed = seen, now


def wait_until(condition: Callable[[], bool], at_most_s: float) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + at_most_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def topics(node: Any, include_hidden: bool = False) -> dict[str, list[str]]:
    """Types of every topic that another node has; sorted by name."""
    return {
        name: list(types)
        for name, types in sorted(node.get_topic_names_and_types())
        if (include_hidden or not is_hidden(name)) and others_endpoints(node, name)
    }


def others_endpoints(node: Any, topic: str) -> list[Any]:
    """Publishers and subscriptions of a topic that are not the node's own."""
    return publishers(node, topic) + subscriptions(node, topic)


def publishers(node: Any, topic: str) -> list[Any]:
    """Endpoint information of all publishers of a topic but the node's own."""
    return [one for one in node.get_publishers_info_by_topic(topic) if not _is_own(node, one)]


def subscriptions(node: Any, topic: str) -> list[Any]:
    """Endpoint information of all subscriptions of a topic but the node's own."""
    return [one for one in node.get_subscriptions_info_by_topic(topic) if not _is_own(node, one)]


def absolute(name: str) -> str:
    """`/name`; UserError where the name is none."""
    bare = name[1:] if name.startswith("/") else name
    if not bare or not all(part.isidentifier() and part.isascii() for part in bare.split("/")):
        raise UserError(f"{name[:80]!r} is no name of a topic or node (letters, digits, _ and / between them)")
    return f"/{bare}"


def is_hidden(name: str) -> bool:
    """Whether ROS hides the name: a part of it starts with an underscore."""
    return any(part.startswith("_") for part in name.split("/"))


def full_name(name: str, namespace: str) -> str:
    """`/salp/odometry` of a name and its namespace."""
    return f"{namespace.rstrip('/')}/{name}"


def _is_own(node: Any, endpoint: Any) -> bool:
    return bool(endpoint.node_name == node.get_name() and endpoint.node_namespace == node.get_namespace())


def _snapshot(node: Any) -> tuple[Any, ...]:
    names = tuple(sorted(node.get_node_names_and_namespaces()))
    found = tuple((name, tuple(types)) for name, types in sorted(node.get_topic_names_and_types()))
    counts = tuple((node.count_publishers(name), node.count_subscribers(name)) for name, _ in found)
    return names, found, counts
