"""Quality of service of one endpoint, as ROS 2 has it, to and from CycloneDDS."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from embedded_ros.wire import dds

# `ddspy_write` holds the interpreter lock: a writer whose readers are slow must not stop all threads for long.
MAX_BLOCKING_NS = 100_000_000

POLICIES = {
    2: "DURABILITY",
    4: "DEADLINE",
    8: "LIVELINESS",
    11: "RELIABILITY",
    12: "DESTINATION_ORDER",
    13: "HISTORY",
    21: "LIFESPAN",
    23: "DATA_REPRESENTATION",
    24: "TYPE_CONSISTENCY_ENFORCEMENT",
}


@dataclass(frozen=True)
class Qos:
    """Times in nanoseconds, None for none."""

    reliable: bool = True
    transient_local: bool = False
    depth: int = 10  # newest samples kept; 0: all
    deadline_ns: int | None = None
    lifespan_ns: int | None = None
    liveliness_automatic: bool = True  # else the publisher asserts it by topic
    lease_ns: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.depth < 2**31:
            raise ValueError(f"a history depth of {self.depth} is not between 0 and {2**31 - 1}")


# Services: rmw's default profile.
SERVICES = Qos()


@contextmanager
def participant_qos(user_data: str) -> Iterator[int]:
    """CycloneDDS's object for a participant: its user data, and the configured lease after which others forget it."""
    made = dds.create_qos()
    try:
        data = user_data.encode()
        dds.qset_userdata(made, data, len(data))
        yield made
    finally:
        dds.delete_qos(made)


@contextmanager
def dds_qos(qos: Qos, user_data: str) -> Iterator[int]:
    """CycloneDDS's object for a profile and its user data; gone at the end of the block."""
    made = dds.create_qos()
    try:
        keep_all = qos.depth == 0
        depth = -1 if keep_all else qos.depth
        dds.qset_history(made, int(keep_all), depth)
        dds.qset_reliability(made, int(qos.reliable), MAX_BLOCKING_NS if qos.reliable else 0)
        dds.qset_durability(made, int(qos.transient_local))
        if qos.transient_local:
            # What late readers get is set by the durability service, not by the history.
            dds.qset_durability_service(made, 0, int(keep_all), depth, -1, -1, -1)
        if qos.deadline_ns is not None:
            dds.qset_deadline(made, qos.deadline_ns)
        if qos.lifespan_ns is not None:
            dds.qset_lifespan(made, qos.lifespan_ns)
        lease = dds.INFINITE if qos.lease_ns is None else qos.lease_ns
        dds.qset_liveliness(made, 0 if qos.liveliness_automatic else 2, lease)
        dds.qset_writer_data_lifecycle(made, False)
        xcdr1 = (ct.c_int16 * 1)(0)
        dds.qset_data_representation(made, 1, xcdr1)
        data = user_data.encode()
        dds.qset_userdata(made, data, len(data))
        yield made
    finally:
        dds.delete_qos(made)


def read_qos(pointer: int) -> tuple[Qos, bytes]:
    """(profile, user data) of an endpoint that was discovered. Policies that it does not tell have their defaults."""
    kind, time_ns, depth = ct.c_int(), ct.c_int64(), ct.c_int32(0)

    def duration(get: object) -> int | None:
        found = get(pointer, ct.byref(time_ns)) and 0 <= time_ns.value < dds.INFINITE  # type: ignore[operator]
        return time_ns.value if found else None

    reliable = bool(dds.qget_reliability(pointer, ct.byref(kind), ct.byref(time_ns)) and kind.value == 1)
    transient = bool(dds.qget_durability(pointer, ct.byref(kind)) and kind.value >= 1)
    known = dds.qget_history(pointer, ct.byref(kind), ct.byref(depth))
    kept = depth.value if known and kind.value == 0 and depth.value > 0 else 0
    automatic, lease = True, None
    if dds.qget_liveliness(pointer, ct.byref(kind), ct.byref(time_ns)):
        automatic = kind.value == 0
        lease = time_ns.value if 0 <= time_ns.value < dds.INFINITE else None
    qos = Qos(reliable, transient, kept, duration(dds.qget_deadline), duration(dds.qget_lifespan), automatic, lease)
    return qos, user_data(pointer)


def user_data(pointer: int) -> bytes:
    """User data of a discovered entity."""
    data, size = ct.c_void_p(), ct.c_size_t()
    if not dds.qget_userdata(pointer, ct.byref(data), ct.byref(size)) or not data.value:
        return b""
    try:
        return ct.string_at(data.value, size.value)
    finally:
        dds.free(data)


def user_data_value(data: bytes, key: str) -> str:
    """Value of one `key=value;` in user data; empty if it is not there."""
    for part in data.decode("ascii", "replace").split(";"):
        name, equals, value = part.partition("=")
        if equals and name == key:
            return value
    return ""
