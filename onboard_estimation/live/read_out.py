"""Subscriptions that do not wake their node, and are read out when it is awake: to be woken costs most of a message."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from rclpy.node import Node
from rclpy.subscription import Subscription


class QuietNode(Node):
    """A node that some of its subscriptions do not wake, whatever executor spins it.

    Attributes
    ----------
    silent
        Those.
    """

    silent: Container[Subscription] = ()

    @property
    def subscriptions(self) -> Iterator[Subscription]:
        """What an executor looks at: those that wake the node."""
        return (one for one in super().subscriptions if one not in self.silent)


class Raw:
    """All subscriptions whose messages stay serialised."""

    def __contains__(self, subscription: Any) -> bool:
        return bool(subscription.raw)


def read_out(subscription: Subscription, most: int) -> Iterator[tuple[bytes, Mapping[str, Any]]]:
    """Messages that have arrived, serialised, each with what rclpy knows of it; so many at most."""
    # As rclpy's executors do it; several of them may take from one subscription.
    handle, kind = subscription.handle, subscription.msg_type
    with handle:
        for _ in range(most):
            taken = handle.take_message(kind, True)
            if taken is None:
                return
            yield taken
