"""Waiting for the graph: until it has stood still for a moment, rather than for a fixed time; and for one topic of it.

DDS finds what is there bit by bit: first participants, then their endpoints, then the names of their nodes. A command
that looks too early shows a part of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from onboard_estimation.base.errors import UserError
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.session import place

STILL_S = 0.5
"""The graph is complete when it has not changed for this long: endpoints come 0.1 to 0.3 s after their node."""

FOUND_S = 3.3
"""Fast DDS finds about half of the others at once, the rest when they announce themselves anew, which is every 3 s."""

AT_MOST_S = 6.0
"""A graph in which nodes come and go never stands still."""

NAMED_S = 5.0
"""How long a topic or service that was named is waited for."""

_POLL_S = 0.03
_ANNOUNCED_S = 4.0
_DEPTH, _RAW_DEPTH = 100, 2000


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


def names_of(endpoints: list[Any]) -> set[str]:
    """Full names of the nodes whose endpoints these are: `/salp/salp_estimator`."""
    return {f"{one.node_namespace.rstrip('/')}/{one.node_name}" for one in endpoints}


def _is_own(node: Any, endpoint: Any) -> bool:
    return bool(endpoint.node_name == node.get_name() and endpoint.node_namespace == node.get_namespace())


def _snapshot(node: Any) -> tuple[Any, ...]:
    names = tuple(sorted(node.get_node_names_and_namespaces()))
    found = tuple((name, tuple(types)) for name, types in sorted(node.get_topic_names_and_types()))
    counts = tuple((node.count_publishers(name), node.count_subscribers(name)) for name, _ in found)
    return names, found, counts


def follow(node: Any, topic: str, timeout_s: float, take: Callable[[Any], None], raw: bool = False) -> str:
    """Subscribe to a topic as it is published, as soon as somebody publishes or subscribes to it; its full name.

    Parameters
    ----------
    take
        Gets each message, in the executor's thread: serialised where it is to be `raw`.

    Raises
    ------
    UserError
        It did not appear in time (0: waits for ever), or it has several types.
    """
    from onboard_estimation.live.qos import matching  # of rosbags, which takes long to import

    name = absolute(topic)
    started, said = time.monotonic(), False
    while True:
        types = dict(node.get_topic_names_and_types()).get(name, [])
        if types and (publishers(node, name) or subscriptions(node, name)):
            break
        waited_s = time.monotonic() - started
        if timeout_s and waited_s >= timeout_s:
            raise UserError(f"no topic {name} within {timeout_s:g} s in {place()}")
        if not said and waited_s >= _ANNOUNCED_S:
            said = True
            warning = f"WARNING: topic [{name}] does not appear to be published yet in {place()}; waiting"
            print(warning, file=sys.stderr, flush=True)
        time.sleep(_POLL_S)
    if len(types) > 1:
        raise UserError(f"{name} has several types: {', '.join(sorted(types))}; only one can be shown")
    settle(node, still_s=0.1, at_least_s=0.0)
    profile = matching(publishers(node, name), _RAW_DEPTH if raw else _DEPTH)
    node.create_subscription(interface_class(types[0]), name, take, profile, raw=raw)
    return name
