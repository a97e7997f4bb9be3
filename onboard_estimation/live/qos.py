"""Quality of service: what suits the publishers of a topic, and rosbag2's form of it in a bag.

rosbag2 notes for each topic what its publishers offered (`offered_qos_profiles`), as YAML: with policies as numbers up
to version 8 of its metadata, as words from version 9 (Jazzy) on. A player then offers the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcap.reader import make_reader
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from onboard_estimation.evaluation.bag_blocks import is_regular
from onboard_estimation.evaluation.bag_metadata import METADATA, bag_information, bounded_yaml

INFINITE_NS = 2**63 - 1
DEPTH = 10
RECORDING_DEPTH = 2000
"""Messages that a recorder's subscription holds: two seconds of a topic at 1 kHz while Python is busy elsewhere."""

_MAX_YAML_CHARACTERS = 2**18
_LATCHED = frozenset({"/tf_static", "/robot_description"})


@dataclass(frozen=True)
class Offer:
    """What a publisher offers, as far as it decides who can listen.

    Attributes
    ----------
    deadline_ns, lifespan_ns, lease_ns
        Nanoseconds; 0: not set.
    """

    reliable: bool = True
    transient_local: bool = False
    depth: int = DEPTH
    deadline_ns: int = 0
    lifespan_ns: int = 0
    lease_ns: int = 0
    automatic_liveliness: bool = True

    def compatible_with(self, other: Offer) -> bool:
        """Whether both reach the same subscriptions; history and lifespan do not matter for that."""
        ours, theirs = (replace(one, depth=0, lifespan_ns=0) for one in (self, other))
        return ours == theirs


def offer_of(endpoint: Any) -> Offer:
    """What a publisher offers, from its endpoint information."""
    profile = endpoint.qos_profile
    return Offer(
        profile.reliability.name != "BEST_EFFORT",
        profile.durability.name == "TRANSIENT_LOCAL",
        profile.depth or DEPTH,
        _finite(profile.deadline.nanoseconds),
        _finite(profile.lifespan.nanoseconds),
        _finite(profile.liveliness_lease_duration.nanoseconds),
        profile.liveliness.name != "MANUAL_BY_TOPIC",
    )


def matching(endpoints: Sequence[Any], depth: int = DEPTH) -> Any:
    """QoS profile of a subscription that hears all of these publishers: reliable and with the past if all offer it."""
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

    offers = [offer_of(endpoint) for endpoint in endpoints]
    reliable = bool(offers) and all(offer.reliable for offer in offers)  # best effort hears whoever comes
    past = bool(offers) and all(offer.transient_local for offer in offers)
    return QoSProfile(
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if past else DurabilityPolicy.VOLATILE,
    )


def publisher_profile(offer: Offer, depth: int) -> Any:
    """QoS profile of a publisher that makes this offer."""
    from rclpy.duration import Duration
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

    durations = {"deadline": offer.deadline_ns, "lifespan": offer.lifespan_ns}
    given = {name: Duration(nanoseconds=value) for name, value in durations.items() if value}
    return QoSProfile(
        depth=max(depth, offer.depth) if not offer.transient_local else offer.depth,
        reliability=ReliabilityPolicy.RELIABLE if offer.reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if offer.transient_local else DurabilityPolicy.VOLATILE,
        **given,
    )


def to_rosbags(offer: Offer) -> Qos:
    """The offer in the form in which `rosbags` writes it."""
    return Qos(
        QosHistory.KEEP_LAST,
        offer.depth,
        QosReliability.RELIABLE if offer.reliable else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if offer.transient_local else QosDurability.VOLATILE,
        _time(offer.deadline_ns),
        _time(offer.lifespan_ns),
        QosLiveliness.AUTOMATIC if offer.automatic_liveliness else QosLiveliness.MANUAL_BY_TOPIC,
        _time(offer.lease_ns),
        avoid_ros_namespace_conventions=False,
    )


def parse_offers(recorded: Any) -> list[Offer]:
    """The offers of a topic as a bag notes them, as YAML or what YAML was made of; what is damaged is left out."""
    if isinstance(recorded, str):
        try:
            recorded = bounded_yaml(recorded) if len(recorded) <= _MAX_YAML_CHARACTERS else None
        except ValueError:
            return []
    if not isinstance(recorded, list):
        return []
    return [offer for entry in recorded if (offer := _parse(entry)) is not None]


def offer_for_topic(topic: str, offers: Sequence[Offer]) -> tuple[Offer, bool]:
    """What a player offers on a topic, and whether the recorded publishers agreed; without a record, the usual."""
    if not offers:
        return Offer(transient_local=topic in _LATCHED, depth=1 if topic in _LATCHED else DEPTH), True
    first = offers[0]
    if all(first.compatible_with(other) for other in offers):
        return first, True
    return Offer(), False


def type_hash(endpoint: Any) -> str | None:
    """`RIHS01_...`; None where the endpoint tells none (ROS 2 Humble, other DDS programs)."""
    text = str(getattr(endpoint, "topic_type_hash", "") or "")
    return text if text.startswith("RIHS01_") and text[7:].strip("0") else None


def _parse(entry: Any) -> Offer | None:
    try:
        depth = int(entry["depth"])
        return Offer(
            not _is(entry["reliability"], "best_effort", QosReliability.BEST_EFFORT),
            _is(entry["durability"], "transient_local", QosDurability.TRANSIENT_LOCAL),
            depth if 0 < depth <= 100_000 else DEPTH,
            _nanoseconds(entry.get("deadline")),
            _nanoseconds(entry.get("lifespan")),
            _nanoseconds(entry.get("liveliness_lease_duration")),
            not _is(entry.get("liveliness"), "manual_by_topic", QosLiveliness.MANUAL_BY_TOPIC),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _is(policy: Any, word: str, number: Any) -> bool:
    return bool(policy == word or policy == number.value)


def _nanoseconds(entry: Any) -> int:
    """Of `{sec: 0, nsec: 0}`; each RMW had an infinity of its own in ROS 2 Foxy, all beyond 68 years."""
    if not entry:
        return 0
    value = int(entry["sec"]) * 1_000_000_000 + int(entry["nsec"])
    return value if 0 < value < 2**31 * 1_000_000_000 - 1_000_000_000 else 0


def _time(value_ns: int) -> QosTime:
    """Infinite where it is not set, as rosbag2 writes it."""
    return QosTime(*divmod(value_ns or INFINITE_NS, 1_000_000_000))


def _finite(value_ns: int) -> int:
    return value_ns if 0 < value_ns < INFINITE_NS else 0


def recorded_offers(path: Path) -> dict[str, list[Offer]]:
    """Offers by topic: from metadata.yaml, else from the bag's files; empty where neither tells, or is damaged."""
    folder = path.parent if path.name == METADATA else path
    files = [path] if is_regular(path) and path.name != METADATA else []
    if not files:
        found = _from_metadata(folder)
        if found:
            return found
        files = sorted(file for file in folder.iterdir() if file.suffix in (".mcap", ".db3") and is_regular(file))
    offers: dict[str, list[Offer]] = {}
    for file in files:
        for topic, more in (_from_mcap(file) if file.suffix == ".mcap" else _from_sqlite(file)).items():
            offers.setdefault(topic, []).extend(more)
    return offers


def _from_metadata(folder: Path) -> dict[str, list[Offer]]:
    found: dict[str, list[Offer]] = {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for entry in bag_information(folder)["topics_with_message_count"]:
            about = entry["topic_metadata"]
            found[str(about["name"])] = parse_offers(about.get("offered_qos_profiles"))
    return found


def _from_mcap(path: Path) -> dict[str, list[Offer]]:
    found: dict[str, list[Offer]] = {}
    # Any record of a damaged index can fail to parse, each in its own way.
    with suppress(Exception), path.open("rb") as file:
        summary = make_reader(file).get_summary()
        for channel in summary.channels.values() if summary else ():
            found.setdefault(channel.topic, []).extend(parse_offers(channel.metadata.get("offered_qos_profiles", "")))
    return found


def _from_sqlite(path: Path) -> dict[str, list[Offer]]:
    found: dict[str, list[Offer]] = {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
        for topic, text in base.execute("SELECT name, offered_qos_profiles FROM topics LIMIT 10000"):
            found.setdefault(str(topic), []).extend(parse_offers(text))
    return found
