"""Waiting for the graph: until it has stood still for a moment, rather than for a fixed time.

DDS finds what is there bit by bit: first participants, then their endpoints, then the names of their nodes. A command
that looks too early shows a part of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from onboard_estimation.errors import UserError
from onboard_estimation.live.session import place

STILL_S = 0.5
"""The graph is complete when it has not changed for this long: endpoints come 0.1 to 0.3 s after their node."""

AT_MOST_S = 3.0
"""A graph in which nodes come and go never stands still."""

NAMED_S = 2.0
"""How long a topic or node that was named is waited for."""

EMPTY_S = 1.5
"""How long an empty graph is waited for."""

_POLL_S = 0.03
_NAMES_SHOWN = 12
_UNKNOWN_NODES = ("_NODE_NAME_UNKNOWN_", "_CREATED_BY_BARE_DDS_APP_")


def settle(node: Any, still_s: float = STILL_S, at_most_s: float = AT_MOST_S) -> None:
    """Return when the graph has stood still; an empty one is waited for a little longer."""
    started = changed = time.monotonic()
    last = None
    while True:
        now = time.monotonic()
        seen = _snapshot(node)
        if seen != last:
            last, changed = seen, now
        patience = still_s if _has_others(node, seen) else EMPTY_S
        if now - changed >= patience or now - started >= at_most_s:
            return
        time.sleep(_POLL_S)


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


def nodes(node: Any, include_hidden: bool = False) -> list[str]:
    """Full names of all nodes but this one, sorted; a name that several nodes have comes several times."""
    names = [full_name(name, namespace) for name, namespace in node.get_node_names_and_namespaces()]
    own = node.get_fully_qualified_name()
    if own in names:
        names.remove(own)
    return sorted(name for name in names if include_hidden or not is_hidden(name))


def find_topic(node: Any, topic: str) -> list[str]:
    """The types of a topic, once the graph stands still.

    Raises
    ------
    UserError
        It is not there (says which topics are).
    """
    name = absolute(topic)
    wait_until(lambda: bool(others_endpoints(node, name)), NAMED_S)
    settle(node)
    there = topics(node, include_hidden=True)
    if name in there:
        return there[name]
    raise UserError(f"no topic {name} in {place()}; {_offer('topics', [one for one in there if not is_hidden(one)])}")


def find_node(node: Any, name: str) -> str:
    """The full name of a node, as soon as it is there.

    Raises
    ------
    UserError
        It is not there (says which nodes are).
    """
    wanted = absolute(name)
    if wait_until(lambda: wanted in nodes(node, include_hidden=True), NAMED_S):
        return wanted
    there = nodes(node, include_hidden=True)
    raise UserError(f"no node {wanted} in {place()}; {_offer('nodes', [one for one in there if not is_hidden(one)])}")


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


def _has_others(node: Any, seen: tuple[Any, ...]) -> bool:
    """Whether there is another node; endpoints whose node is not known yet are no complete graph."""
    names, found, counts = seen
    if len(names) <= 1:
        return False
    return not any(
        endpoint.node_name in _UNKNOWN_NODES
        for (name, _), (writers, readers) in zip(found, counts, strict=True)
        if writers + readers
        for endpoint in node.get_publishers_info_by_topic(name) + node.get_subscriptions_info_by_topic(name)
    )


def _offer(what: str, names: list[str]) -> str:
    if not names:
        return f"no {what} there at all: is a node running, with the same ROS_DOMAIN_ID?"
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{what} there: {', '.join(names[:_NAMES_SHOWN])}{more}"
