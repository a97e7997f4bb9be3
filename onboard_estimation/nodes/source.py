"""Nodes that measure, and estimators in the same process: readings go from the one to the other without a message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from onboard_estimation.base.measurement import Measurement

Take = Callable[[Sequence[Measurement]], float]
"""Takes readings in the order in which they came; how long the next may wait, s, so that several come together."""


@runtime_checkable
class Source(Protocol):
    """A node that measures: a driver, a simulated robot. What it measures it publishes too, where somebody listens."""

    @property
    def measured_topics(self) -> frozenset[str]:
        """Topics of its readings, relative to its namespace."""

    def hand_to(self, take: Take, topics: Collection[str]) -> None:
        """Hand the readings of these topics to `take`, in a callback of the node."""


@runtime_checkable
class Taker(Protocol):
    """A node that takes readings: an estimator."""

    def take(self, readings: Sequence[Measurement]) -> float:
        """See `Take`."""

    def leave_to_source(self, topics: Collection[str]) -> Collection[str]:
        """Listen to these topics no longer; those that it listened to."""


def connect(nodes: Iterable[Any]) -> None:
    """Let each estimator take from the sources of its namespace what they measure; all else comes as messages.

    Two estimators in one namespace are one too many: the first is served, the other goes on by messages.
    """
    nodes = list(nodes)
    takers: dict[str, Any] = {one.get_namespace(): one for one in reversed(nodes) if isinstance(one, Taker)}  # type: ignore[attr-defined]
    for source in nodes:
        namespace, name, is_source = source.get_namespace(), source.get_name(), isinstance(source, Source)
        if is_source and namespace in takers:
            taker = takers[namespace]
            topics = taker.leave_to_source(source.measured_topics)
            source.hand_to(taker.take, topics)
            taker.get_logger().info(f"without messages between, from {name}: {', '.join(sorted(topics))}")
