"""Definitions of all types of one distribution in one text file, read type by type.

A block for each type: its full name and its hash, then its lines as in an interface file, with full names of types. A
service's own block has no lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from embedded_ros.messages.fields import Constant, Field

Definition = tuple[tuple[Constant, ...], tuple[Field, ...]]
HEADING = "# Made by test/support/interface_table_writer.py; not to be edited.\n\n"


class Types(Protocol):
    """Types of one distribution, from a table or from a type store."""

    @property
    def services(self) -> frozenset[str]:
        """Full names of the services."""

    def names(self) -> frozenset[str]:
        """Full names of all messages and services, and of the messages of services."""

    def definition(self, name: str) -> Definition:
        """Constants and fields of a message. Raises KeyError."""

    def type_hash(self, name: str) -> str:
        """Hash of a message's or a service's definition. Raises KeyError."""


class InterfaceTable:
    """The table of a distribution. Raises FileNotFoundError where it has none."""

    def __init__(self, distribution: str) -> None:
        text = path_of(distribution).read_text("utf-8").removeprefix(HEADING)
        self._blocks: dict[str, tuple[str, list[str]]] = {}
        for block in text.split("\n\n"):
            first, *lines = block.splitlines()
            name, type_hash = first.split(" ")
            self._blocks[name] = (type_hash, lines)
        parts = ("_Request", "_Response", "_Event")
        self.services = frozenset(name for name in self._blocks if "/srv/" in name and not name.endswith(parts))

    def names(self) -> frozenset[str]:
        """See Types."""
        return frozenset(self._blocks)

    def definition(self, name: str) -> Definition:
        """See Types."""
        constants, fields = [], []
        for line in self._blocks[name][1]:
            kind, _, rest = line.partition(" ")
            field, equals, value = rest.partition("=")
            if equals:
                constants.append(Constant(field, kind, int(value)))
            else:
                fields.append(Field.parse(field, kind, ""))
        return tuple(constants), tuple(fields)

    def type_hash(self, name: str) -> str:
        """See Types."""
        return self._blocks[name][0]


def path_of(distribution: str) -> Path:
    """Where the table of a distribution is, if it has one."""
    return Path(__file__).with_name(f"{distribution}.interfaces")
