"""QoS profiles as the wire has them, and back."""

from __future__ import annotations

from typing import Any

from rclpy.duration import Duration, Infinite
from rclpy.qos import (
    DeadlineBestAvailable,
    DurabilityPolicy,
    HistoryPolicy,
    LivelinessPolicy,
    QoSProfile,
    ReliabilityPolicy,
)

_DEFAULT_DEPTH = 1


def wire_qos(profile: QoSProfile, participant: Any, topic: str, *, reading: bool = False) -> Any:
    """Policies for an endpoint of the topic.

    BEST_AVAILABLE looks at who is on the topic now: a subscription asks for no more than all publishers offer, a
    publisher offers the most.
    """
    from embedded_ros.wire import Qos

    others = [] if not reading else [info.qos for info in participant.graph.publishers(topic)]
    reliable = profile.reliability != ReliabilityPolicy.BEST_EFFORT
    if profile.reliability == ReliabilityPolicy.BEST_AVAILABLE:
        reliable = all(qos.reliable for qos in others)
    transient_local = profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    if profile.durability == DurabilityPolicy.BEST_AVAILABLE:
        transient_local = all(qos.transient_local for qos in others) and (bool(others) or not reading)
    keep_all = profile.history == HistoryPolicy.KEEP_ALL
    return Qos(
        reliable=reliable,
        transient_local=transient_local,
        depth=0 if keep_all else profile.depth or _DEFAULT_DEPTH,
        deadline_ns=_limit_ns(profile.deadline),
        lifespan_ns=_limit_ns(profile.lifespan),
        liveliness_automatic=profile.liveliness != LivelinessPolicy.MANUAL_BY_TOPIC,
        lease_ns=_limit_ns(profile.liveliness_lease_duration),
    )


def profile_of(qos: Any) -> QoSProfile:
    """Profile of an endpoint in the graph."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST if qos.depth else HistoryPolicy.KEEP_ALL,
        depth=qos.depth,
        reliability=ReliabilityPolicy.RELIABLE if qos.reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if qos.transient_local else DurabilityPolicy.VOLATILE,
        deadline=_duration(qos.deadline_ns),
        lifespan=_duration(qos.lifespan_ns),
        liveliness=LivelinessPolicy.AUTOMATIC if qos.liveliness_automatic else LivelinessPolicy.MANUAL_BY_TOPIC,
        liveliness_lease_duration=_duration(qos.lease_ns),
    )


def _limit_ns(duration: Duration) -> int | None:
    """None for no limit, which a profile says with zero or with Infinite."""
    unlimited = duration.nanoseconds <= 0 or duration in (Infinite, DeadlineBestAvailable)
    return None if unlimited else duration.nanoseconds


def _duration(limit_ns: int | None) -> Duration:
    return Duration(nanoseconds=limit_ns) if limit_ns else Infinite
