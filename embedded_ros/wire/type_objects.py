"""CycloneDDS's description of a ROS message type: type objects of DDS-XTypes 1.3, made of the message's fields.

Only `ddspy_topic_create` and discovery use it; CycloneDDS checks with it what comes in. `cyclonedds.idl` makes the same
descriptions, bit by bit (the tests compare them), but needs tens of milliseconds for each message, and a node has
fifteen before its own first topic.

ROS's types are final structures without optional members or keys, so few of the kinds of XTypes are needed. Encoded as
XCDR2, little-endian: alignment to four bytes at most; extensible structures and sequences of structures start with
their length in bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from embedded_ros.messages.definitions import definitions
from embedded_ros.messages.fields import Field

# Names and numbers of DDS-XTypes 1.3, annex B.
_EK_MINIMAL, _EK_COMPLETE, _EK_BOTH = 0xF1, 0xF2, 0xF3
_TK_STRUCTURE = 0x51
_TI_STRING_SMALL, _TI_STRING_LARGE = 0x70, 0x71
_TI_SEQUENCE_SMALL, _TI_SEQUENCE_LARGE = 0x80, 0x81
_TI_ARRAY_SMALL, _TI_ARRAY_LARGE = 0x90, 0x91
_IS_FINAL = 1
_TRY_CONSTRUCT_DISCARD = 1
_MINIMAL_MEMBER, _COMPLETE_MEMBER = 0x1001, 0x1002
_LENGTH_FOLLOWS = 4 << 28
_PRIMITIVES = {
    "bool": 0x01, "byte": 0x02, "int16": 0x03, "int32": 0x04, "int64": 0x05, "uint16": 0x06, "uint32": 0x07,
    "uint64": 0x08, "float32": 0x09, "float64": 0x0A, "int8": 0x0C, "uint8": 0x0D,
}  # fmt: skip
# Encodings that the data may have: bits of XCDR1 and XCDR2.
_ENCODINGS = 1 << 0 | 1 << 2

Prefix = tuple[tuple[str, str], ...]


class _Buffer:
    """XCDR2 that grows; alignment counts from its start."""

    def __init__(self) -> None:
        self.data = bytearray()

    def pack(self, letter: str, value: int) -> None:
        """One number, aligned."""
        size = struct.calcsize(letter)
        self.data += bytes(-len(self.data) % size) + value.to_bytes(size, "little")

    def string(self, text: str) -> None:
        """Length and characters with a zero."""
        data = text.encode() + b"\0"
        self.pack("I", len(data))
        self.data += data

    def block(self, content: _Buffer | bytes) -> None:
        """Length in bytes and content, which starts aligned to four."""
        data = content.data if isinstance(content, _Buffer) else content
        self.pack("I", len(data))
        self.data += data


class Identified(NamedTuple):
    """Type object of one structure, with the identifier that is its hash."""

    identifier: bytes
    serialized: bytes


class _Described(NamedTuple):
    """A structure's type objects, and the names of the structures it is made of, without itself."""

    objects: tuple[Identified, Identified]  # minimal, complete
    dependencies: tuple[str, ...]


def _identifier(field: Field, kind: int) -> bytes:
    """Identifier of a field's type; it follows a two-byte number and starts even, which is all its alignment needs."""
    inner, equivalence = _inner_identifier(field, kind)
    if field.is_single:
        return inner
    out = _Buffer()
    length = field.size if field.size is not None else field.capacity or 0
    small = length < 256
    # Where it starts in the stream counts for the alignment inside: always two bytes past a multiple of four.
    out.data += b"\0\0"
    if field.size is not None:
        out.pack("B", _TI_ARRAY_SMALL if small else _TI_ARRAY_LARGE)
    else:
        out.pack("B", _TI_SEQUENCE_SMALL if small else _TI_SEQUENCE_LARGE)
    out.pack("B", equivalence)
    out.pack("H", _TRY_CONSTRUCT_DISCARD)
    if field.size is not None:
        out.pack("I", 1)  # one dimension
    out.pack("B" if small else "I", length)
    # A string with a large bound has a number of four bytes inside.
    if inner[0] == _TI_STRING_LARGE:
        out.pack("B", _TI_STRING_LARGE)
        out.pack("I", field.bound)
    else:
        out.data += inner
    return bytes(out.data[2:])


def _inner_identifier(field: Field, kind: int) -> tuple[bytes, int]:
    """(identifier of a single value or an element, which kind of type objects it is the same in)."""
    if field.nested:
        described = _described(field.nested)
        return described.objects[kind == _EK_COMPLETE].identifier, kind
    if field.kind == "string":
        if field.bound < 256:
            return bytes([_TI_STRING_SMALL, field.bound]), _EK_BOTH
        return bytes([_TI_STRING_LARGE, 0]) + struct.pack("<I", field.bound), _EK_BOTH
    return bytes([_PRIMITIVES[field.kind]]), _EK_BOTH


def type_object(name: str, fields: Iterable[Field], kind: int) -> Identified:
    """Minimal (kind 0xF1) or complete (0xF2) type object of a structure."""
    header, members = _Buffer(), _Buffer()
    header.pack("B", 0)  # no base type
    if kind == _EK_COMPLETE:
        header.data += b"\0\0"  # no annotations
        package, part, short = name.split("/")
        header.string(f"{package}::{part}::dds_::{short}_")
    fields = tuple(fields)
    members.pack("I", len(fields))
    for index, field in enumerate(fields):
        member = _Buffer()
        member.pack("I", index)
        member.pack("H", _TRY_CONSTRUCT_DISCARD)
        member.data += _identifier(field, kind)
        if kind == _EK_MINIMAL:
            member.data += hashlib.md5(field.name.encode(), usedforsecurity=False).digest()[:4]
        else:
            member.string(field.name)
            member.data += b"\0\0"  # no annotations
        members.block(member)
    body = _Buffer()
    body.pack("B", kind)
    body.pack("B", _TK_STRUCTURE)
    body.pack("H", _IS_FINAL)
    body.block(header)
    body.block(members)
    whole = _Buffer()
    whole.block(body)
    serialized = bytes(whole.data)
    digest = hashlib.md5(serialized, usedforsecurity=False).digest()[:14]
    return Identified(bytes([kind]) + digest, serialized)


@cache
def _described(name: str, prefix: Prefix = ()) -> _Described:
    fields = (*(Field(field, kind) for field, kind in prefix), *definitions().fields(name))
    dependencies: dict[str, None] = {}
    for field in fields:
        if field.nested:
            dependencies[field.nested] = None
            dependencies.update(dict.fromkeys(_described(field.nested).dependencies))
    objects = type_object(name, fields, _EK_MINIMAL), type_object(name, fields, _EK_COMPLETE)
    return _Described(objects, tuple(dependencies))


def _with_size(identified: Identified) -> _Buffer:
    out = _Buffer()
    out.data += identified.identifier
    out.pack("I", len(identified.serialized))
    return out


def _information(described: _Described) -> bytes:
    """TypeInformation: identifiers and sizes of the type and of those that it is made of."""
    whole = _Buffer()
    parts = [_described(name) for name in described.dependencies]
    for member, select in ((_MINIMAL_MEMBER, 0), (_COMPLETE_MEMBER, 1)):
        dependencies = _Buffer()
        distinct = dict.fromkeys(part.objects[select] for part in parts)
        dependencies.pack("I", len(distinct))
        for identified in distinct:
            dependencies.block(_with_size(identified))
        one = _Buffer()
        one.block(_with_size(described.objects[select]))
        one.pack("I", len(distinct))
        one.block(dependencies)
        content = _Buffer()
        content.block(one)
        whole.pack("I", _LENGTH_FOLLOWS | member)
        whole.block(content)
    out = _Buffer()
    out.block(whole)
    return bytes(out.data)


def _mapping(described: _Described) -> bytes:
    """TypeMapping: the type objects themselves, and which minimal one belongs to which complete one."""
    all_described = [described, *(_described(name) for name in described.dependencies)]
    out = _Buffer()
    for select in (0, 1):
        pairs = _Buffer()
        pairs.pack("I", len(all_described))
        for each in all_described:
            identified = each.objects[select]
            pairs.data += identified.identifier
            pairs.block(identified.serialized[4:])
        out.block(pairs)
    pairs = _Buffer()
    pairs.pack("I", len(all_described))
    for each in all_described:
        minimal, complete = each.objects
        pairs.data += complete.identifier + minimal.identifier
    out.block(pairs)
    return bytes(out.data)


class TopicType:
    """A message type as `ddspy_topic_create` takes it: what it reads of a class of `cyclonedds.idl`."""

    def __init__(self, name: str, prefix: Prefix) -> None:
        package, part, short = name.split("/")
        described = _described(name, prefix)
        self.idl_transformed_typename = f"{package}::{part}::dds_::{short}_"
        self.data_type_props = 0  # no key
        self.supported_versions = _ENCODINGS
        self._xt_bytedata = (_information(described), _mapping(described))
        self.__idl__ = self


@cache
def topic_type(name: str, prefix: Prefix = ()) -> Any:
    """Type of a topic; `prefix` holds (name, primitive type) of fields that stand before the message's own.

    The same object for the same type: CycloneDDS compares them.
    """
    return TopicType(name, prefix)
