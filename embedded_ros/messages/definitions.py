"""Definitions of one ROS distribution: fields with their defaults, constants and hashes of messages and services."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from typing import Any

from embedded_ros.messages.fields import Constant, Field
from embedded_ros.messages.interface_table import Definition, InterfaceTable, Types

DEFAULT_DISTRIBUTION = "jazzy"

# Field defaults of the interface files, which neither tables nor type stores have.
_DEFAULTS: dict[tuple[str, str], Any] = {
    ("geometry_msgs/msg/Quaternion", "x"): 0.0,
    ("geometry_msgs/msg/Quaternion", "y"): 0.0,
    ("geometry_msgs/msg/Quaternion", "z"): 0.0,
    ("geometry_msgs/msg/Quaternion", "w"): 1.0,
    ("rcl_interfaces/msg/ParameterDescriptor", "read_only"): False,
    ("rcl_interfaces/msg/ParameterDescriptor", "dynamic_typing"): False,
    ("type_description_interfaces/msg/FieldType", "type_id"): 0,
    ("type_description_interfaces/srv/GetTypeDescription_Request", "include_type_sources"): True,
}
_DEFAULTS_SINCE_IRON: dict[tuple[str, str], Any] = {("sensor_msgs/msg/NavSatStatus", "status"): -2}
_WITHOUT_TYPE_HASH = ("dashing", "eloquent", "foxy", "galactic", "humble")


def distribution() -> str:
    """Name of the ROS distribution whose messages and wire format are used: ROS_DISTRO, else jazzy."""
    return os.environ.get("ROS_DISTRO", "").strip().lower() or DEFAULT_DISTRIBUTION


def has_type_hashes(name: str | None = None) -> bool:
    """Whether the distribution announces type hashes (from Iron on); its GIDs have 16 bytes then, 24 before."""
    return (name or distribution()) not in _WITHOUT_TYPE_HASH


class Definitions:
    """Fields and constants of every type of one distribution, by full name ("sensor_msgs/msg/Imu").

    Services appear as their three messages `X_Request`, `X_Response` and, where hashes exist, `X_Event`.
    """

    def __init__(self, name: str) -> None:
        self.distribution = name
        self._types = _types(name)
        self._names = self._types.names()
        self._defaults = dict(_DEFAULTS)
        if has_type_hashes(name):
            self._defaults.update(_DEFAULTS_SINCE_IRON)
        self.services = self._types.services

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def packages(self) -> set[str]:
        """Names of all packages that hold messages or services."""
        return {name.partition("/")[0] for name in self._names}

    def names(self, package: str, kind: str) -> list[str]:
        """Short names of the types of a package; `kind` is "msg" or "srv"."""
        among = self.services if kind == "srv" else self._names
        prefix = f"{package}/{kind}/"
        return sorted(name.removeprefix(prefix) for name in among if name.startswith(prefix))

    def fields(self, name: str) -> tuple[Field, ...]:
        """Fields of a message as they are on the wire; an empty message has its one hidden member.

        Raises LookupError, naming similar types, if there is no such type; NotImplementedError for a field of a type
        that is not supported (wide strings).
        """
        fields = self._definition(name)[1]
        for field in fields:
            if field.kind and field.kind != "string" and field.primitive is None:
                raise NotImplementedError(f"fields of type {field.kind} are not supported ({name}.{field.name})")
        defaults = self._defaults
        return tuple(
            replace(field, default=defaults[name, field.name]) if (name, field.name) in defaults else field
            for field in fields
        )

    def constants(self, name: str) -> tuple[Constant, ...]:
        """Constants of a message."""
        return self._definition(name)[0]

    def type_hash(self, name: str) -> str:
        """Hash of a message's or a service's definition ("RIHS01_...", REP-2016); empty without hashes."""
        if name not in self._names:
            raise self.unknown(name)
        return self._types.type_hash(name)

    def unknown(self, name: str) -> LookupError:
        """The error for a type that does not exist, with the nearest names."""
        import difflib

        known = sorted(known for known in self._names if "/msg/" in known) + sorted(self.services)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"; similar: {', '.join(near)}" if near else ""
        return LookupError(f"no type {name!r} in the interfaces of ROS 2 {self.distribution}{hint}")

    def _definition(self, name: str) -> Definition:
        if name not in self._names:
            raise self.unknown(name)
        return self._types.definition(name)


@lru_cache(maxsize=1)
def definitions() -> Definitions:
    """Definitions of the distribution in use, read once per process."""
    return Definitions(distribution())


def _types(name: str) -> Types:
    try:
        return InterfaceTable(name)
    except FileNotFoundError:
        from embedded_ros.messages.type_store import TypeStore

        return TypeStore(name, has_type_hashes(name))
