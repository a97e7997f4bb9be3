"""Definitions from rosbags' type stores and from `service_definitions`, for any distribution.

Loading a store takes a tenth of a second, since it also makes classes of all types of all distributions before it. The
distribution that most will use therefore has a table (`interface_table`).
"""

from __future__ import annotations

from typing import Any

from embedded_ros.messages.fields import EMPTY_MEMBER, Constant, Field
from embedded_ros.messages.interface_table import Definition
from embedded_ros.messages.service_definitions import SERVICES


class TypeStore:
    """All types of one distribution; services as their three messages and, for the hash, as a structure of these."""

    def __init__(self, distribution: str, has_type_hashes: bool) -> None:
        from rosbags.typesys import Stores, get_typestore

        try:
            store = get_typestore(Stores(f"ros2_{distribution}"))
        except ValueError:
            store = get_typestore(Stores.LATEST)
        self._store = store
        self._fielddefs: Any = store.fielddefs
        self._has_type_hashes = has_type_hashes
        for name, (constants, fields) in list(self._fielddefs.items()):
            if any("char" in repr(description) for _, description in fields):
                self._fielddefs[name] = (constants, [(field, _mended(description)) for field, description in fields])
        self.services = frozenset(name for name, halves in SERVICES.items() if self._add_service(name, *halves))

    def names(self) -> frozenset[str]:
        """Full names of all messages and services, and of the messages of services."""
        return frozenset(self._fielddefs) | self.services

    def definition(self, name: str) -> Definition:
        """Constants and fields of a message. Raises KeyError."""
        constants, fields = self._fielddefs[name]
        return (
            tuple(Constant(*constant) for constant in constants),
            tuple(_field(field, description) for field, description in fields),
        )

    def type_hash(self, name: str) -> str:
        """Hash of a message's or a service's definition; empty in distributions without. Raises KeyError."""
        return self._store.hash_rihs01(name) if self._has_type_hashes else ""

    def _add_service(self, name: str, request: tuple[str, ...], response: tuple[str, ...]) -> bool:
        """Whether the distribution has the messages that the service is made of; then it is known from now on."""
        from rosbags.interfaces import Nodetype

        definitions = self._fielddefs
        halves = [[_parsed(line, name.partition("/")[0]) for line in half] for half in (request, response)]
        nested = [item.nested for half in halves for item in half if isinstance(item, Field) and item.nested]
        if any(other not in definitions for other in nested):
            return False
        for suffix, half in zip(("_Request", "_Response"), halves, strict=True):
            fields = [_store_form(item) for item in half if isinstance(item, Field)]
            constants = [(item.name, item.kind, item.value) for item in half if isinstance(item, Constant)]
            definitions[name + suffix] = (constants, fields or [(EMPTY_MEMBER, (Nodetype.BASE, ("uint8", 0)))])
        if self._has_type_hashes:
            definitions[f"{name}_Event"] = (
                [],
                [
                    ("info", (Nodetype.NAME, "service_msgs/msg/ServiceEventInfo")),
                    ("request", (Nodetype.SEQUENCE, ((Nodetype.NAME, f"{name}_Request"), 1))),
                    ("response", (Nodetype.SEQUENCE, ((Nodetype.NAME, f"{name}_Response"), 1))),
                ],
            )
            parts = (("request_message", "Request"), ("response_message", "Response"), ("event_message", "Event"))
            definitions[name] = ([], [(field, (Nodetype.NAME, f"{name}_{part}")) for field, part in parts])
        return True


def _mended(description: Any) -> Any:
    """Type of a field with `char` as the uint8 that ROS 2 makes of it."""
    from rosbags.interfaces import Nodetype

    node, rest = description
    if node == Nodetype.BASE:
        return (node, ("uint8", 0)) if rest[0] == "char" else description
    return description if node == Nodetype.NAME else (node, (_mended(rest[0]), rest[1]))


def _parsed(line: str, package: str) -> Field | Constant:
    """Field or constant of one line of an interface file: "uint8[] types", "string<=8 name", "int8 OK=0"."""
    kind, name = line.split()
    if "=" in name:
        name, value = name.split("=")
        return Constant(name, kind, int(value))
    return Field.parse(name, kind, package)


def _field(name: str, description: Any) -> Field:
    from rosbags.interfaces import Nodetype

    node, rest = description
    size = capacity = None
    if node == Nodetype.ARRAY:
        (node, rest), size = rest
    elif node == Nodetype.SEQUENCE:
        (node, rest), capacity = rest
    if node == Nodetype.NAME:
        return Field(name, "", rest, size, capacity)
    kind, bound = rest
    return Field(name, kind, "", size, capacity, bound or 0)


def _store_form(field: Field) -> tuple[str, Any]:
    from rosbags.interfaces import Nodetype

    inner: Any = (Nodetype.NAME, field.nested) if field.nested else (Nodetype.BASE, (field.kind, field.bound))
    if field.size is not None:
        return field.name, (Nodetype.ARRAY, (inner, field.size))
    if field.capacity is not None:
        return field.name, (Nodetype.SEQUENCE, (inner, field.capacity))
    return field.name, inner
