"""Quality of service: what suits the publishers of a topic, and rosbag2's form of it in a bag.

rosbag2 notes for each topic what its publishers offered (`offered_qos_profiles`), as YAML: with policies as numbers up
to version 8 of its metadata, as words from version 9 (Jazzy) on. A player then offers the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rosbags.interfaces import Qos, QosDurability, QosLiveliness, QosReliability, QosTime

from onboard_estimation.bags.files import DEPTH, LATCHED_TOPICS, MOST_NODES, NEVER, offer
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.parameter_file import read_yaml

_INFINITE_NS = 2**63 - 1
_FOXY_INFINITE_NS = (2**31 - 1) * 1_000_000_000
RECORDING_DEPTH = 2000
"""Messages that a recorder's subscription holds: two seconds of a topic at 1 kHz while Python is busy elsewhere."""

_MAX_YAML_CHARACTERS = 2**18


def offer_of(endpoint: Any) -> Qos:
    """What a publisher offers, from its endpoint information."""
    profile = endpoint.qos_profile
    return offer(
        profile.reliability.name != "BEST_EFFORT",
        profile.durability.name == "TRANSIENT_LOCAL",
        profile.depth or DEPTH,
        _time(profile.deadline.nanoseconds),
        _time(profile.lifespan.nanoseconds),
        _time(profile.liveliness_lease_duration.nanoseconds),
        profile.liveliness.name != "MANUAL_BY_TOPIC",
    )


def matching(endpoints: Sequence[Any], depth: int = DEPTH) -> Any:
    """QoS profile of a subscription that hears all of these publishers: reliable and with the past if all offer it."""
    offers = [offer_of(endpoint) for endpoint in endpoints]
    # Best effort hears whoever comes.
    reliable = bool(offers) and all(one.reliability == QosReliability.RELIABLE for one in offers)
    past = bool(offers) and all(one.durability == QosDurability.TRANSIENT_LOCAL for one in offers)
    return _profile(depth, reliable, past)


def publisher_profile(offered: Qos, depth: int) -> Any:
    """QoS profile of a publisher that makes this offer."""
    from rclpy.duration import Duration

    durations = {"deadline": offered.deadline, "lifespan": offered.lifespan}
    given = {
        name: Duration(seconds=value.sec, nanoseconds=value.nsec) for name, value in durations.items() if value != NEVER
    }
    past = offered.durability == QosDurability.TRANSIENT_LOCAL
    many = offered.depth if past else max(depth, offered.depth)
    return _profile(many, offered.reliability == QosReliability.RELIABLE, past, **given)


def _profile(depth: int, reliable: bool, past: bool, **durations: Any) -> Any:
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

    return QoSProfile(
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if past else DurabilityPolicy.VOLATILE,
        **durations,
    )


def parse_offers(text: str) -> list[Qos]:
    """The offers of a topic's publishers as a bag notes them (`Bag.offers`); what is damaged is left out."""
    try:
        recorded = read_yaml(text, most_nodes=MOST_NODES)[0] if len(text) <= _MAX_YAML_CHARACTERS else None
    except UserError:
        return []
    if not isinstance(recorded, list):
        return []
    return [one for entry in recorded if (one := _parse(entry)) is not None]


def offer_for_topic(topic: str, offers: Sequence[Qos]) -> tuple[Qos, bool]:
    """What a player offers on a topic, and whether the recorded publishers agreed; without a record, the usual.

    They agree where they reach the same subscriptions; history and lifespan do not matter for that.
    """
    if not offers:
        return offer(transient_local=topic in LATCHED_TOPICS), True
    reach = {
        (one.reliability, one.durability, one.deadline, one.liveliness_lease_duration, one.liveliness) for one in offers
    }
    return (offers[0], True) if len(reach) == 1 else (offer(), False)


def type_hash(endpoint: Any) -> str | None:
    """`RIHS01_...`; None where the endpoint tells none (ROS 2 Humble, other DDS programs)."""
    text = str(getattr(endpoint, "topic_type_hash", "") or "")
    return text if text.startswith("RIHS01_") and text[7:].strip("0") else None


def _parse(entry: Any) -> Qos | None:
    try:
        depth = int(entry["depth"])
        return offer(
            not _is(entry["reliability"], QosReliability.BEST_EFFORT),
            _is(entry["durability"], QosDurability.TRANSIENT_LOCAL),
            depth if 0 < depth <= 100_000 else DEPTH,
            _recorded_time(entry.get("deadline")),
            _recorded_time(entry.get("lifespan")),
            _recorded_time(entry.get("liveliness_lease_duration")),
            not _is(entry.get("liveliness"), QosLiveliness.MANUAL_BY_TOPIC),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _is(noted: Any, policy: QosReliability | QosDurability | QosLiveliness) -> bool:
    return bool(noted in (policy.name.lower(), policy.value))


def _recorded_time(entry: Any) -> QosTime:
    """Of `{sec: 0, nsec: 0}`; each RMW had an infinity of its own in ROS 2 Foxy, all beyond 68 years."""
    value_ns = int(entry["sec"]) * 1_000_000_000 + int(entry["nsec"]) if entry else 0
    return _time(value_ns if value_ns < _FOXY_INFINITE_NS else 0)


def _time(value_ns: int) -> QosTime:
    """Infinite where it is not set, as rosbag2 writes it."""
    return QosTime(*divmod(value_ns, 1_000_000_000)) if 0 < value_ns < _INFINITE_NS else NEVER
