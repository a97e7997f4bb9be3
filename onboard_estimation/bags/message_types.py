"""Types of messages without ROS: the standard ones, or those that a bag defines itself; new messages, and hashes.

    new("sensor_msgs/msg/Imu", angular_velocity=new("geometry_msgs/msg/Vector3", z=0.1))

`rosbags` turns a definition into Python code. A definition that comes in a bag is therefore looked at before: the
names in it must be names, and its arrays of a size that the generated code can bear.

What ROS does and `rosbags` does not is mended here: fields left out take ROS's default (a quaternion's w is 1), numbers
in a row become arrays of the right type, a `byte` may be given as `bytes`, as rclpy shows it, and `char` enters a
type's hash as the `uint8` that ROS 2 makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.base import normalize_fieldname
from rosbags.typesys.store import Typestore

from onboard_estimation.bags.blocks import Connection
from onboard_estimation.base.errors import UserError
from onboard_estimation.ros.message_layouts import is_tail

MAX_MESSAGE_BYTES = 16 * 2**20
"""A longer message is not decoded: none of those that estimators use comes near, and its objects would fill memory."""

_MAX_DEFINITION_CHARACTERS = 2**18
_MAX_UNROLLED_ELEMENTS = 1000
_TYPE_NAME = re.compile(r"[A-Za-z]\w*/(msg|srv|action)/[A-Za-z]\w*", re.ASCII)
_FIELD_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_IDL_SEPARATOR = "=" * 80 + "\nIDL: "
_BYTE_ORDERS = (b"\0\0", b"\0\1")
_CDR_HEADER_BYTES = 4

Definitions = dict[str, Any]


@cache
def jazzy_types() -> Typestore:
    """The standard types of ROS 2 Jazzy; those of Humble are the same where both have them."""
    return get_typestore(Stores.ROS2_JAZZY)


@cache
def noetic_types() -> Typestore:
    """The standard types of ROS 1 Noetic."""
    return get_typestore(Stores.ROS1_NOETIC)


def type_store(connection: Connection) -> Typestore:
    """The types to decode this connection's messages with: the bag's own where they differ from the standard ones.

    Raises
    ------
    UserError
        The encoding is unknown, or the type is neither a standard one nor one that the bag defines well.
    """
    standard = {"cdr": jazzy_types, "ros1": noetic_types}.get(connection.encoding)
    if standard is None:
        raise UserError(f"{_named(connection)} is encoded as {connection.encoding!r}; cdr and ros1 can be decoded")
    known = standard().fielddefs
    try:
        definitions = _definitions(connection)
        if connection.message_type not in definitions:
            raise UserError(f"{_named(connection)} is no standard type, and the bag does not define it")
        if all(name in known and _same(fields, known[name]) for name, fields in definitions.items()):
            return standard()
        return _own_store(connection, definitions)
    except UserError:
        if connection.message_type in known:
            return standard()
        raise


def _own_store(connection: Connection, definitions: Definitions) -> Typestore:
    store = get_typestore(Stores.EMPTY)
    try:
        store.register(definitions)
        store.get_msgdef(connection.message_type)
    except Exception as error:  # the code that rosbags makes of a definition can fail in any way
        raise UserError(f"the definition of {_named(connection)} in the bag cannot be used") from error
    return store


def decoded(store: Typestore, message_type: str, data: bytes) -> tuple[Any, int]:
    """A message of its CDR, and how many bytes stand behind its end, which rosbags would refuse it for.

    Raises
    ------
    Exception
        Of any kind: the bytes are no message of the type.
    """
    if data[:2] not in _BYTE_ORDERS:
        raise ValueError("no plain CDR")
    definition = store.get_msgdef(message_type)
    decode = definition.deserialize_cdr_le if data[1] else definition.deserialize_cdr_be
    message, end = decode(data[_CDR_HEADER_BYTES:], 0, definition.cls, store)
    tail = len(data) - _CDR_HEADER_BYTES - end
    if not is_tail(tail, end):
        raise ValueError(f"{len(data)} bytes where {len(data) - tail} are read")
    return message, tail


def check_standard(message_type: str) -> None:
    """ValueError where a type is no standard one of ROS 2."""
    if message_type not in jazzy_types().fielddefs:
        raise ValueError(f"{message_type!r} is no standard type of ROS 2 Jazzy")


def is_standard(store: object) -> bool:
    """Whether these are the standard types of ROS 2 or ROS 1."""
    return store is jazzy_types() or store is noetic_types()


def has_header(store: Typestore, message_type: str) -> bool:
    """Whether messages of the type start with a `std_msgs/msg/Header`."""
    _, fields = store.fielddefs.get(message_type, ([], []))
    return bool(fields) and fields[0][0] == "header" and fields[0][1] == (Nodetype.NAME, "std_msgs/msg/Header")


def _named(connection: Connection) -> str:
    return f"{connection.message_type[:100] or 'an unnamed type'!r} on topic {connection.topic[:100]!r}"


def _definitions(connection: Connection) -> Definitions:
    """The bag's own definition of the type and of all that it contains; empty where the bag has none."""
    text = connection.definition
    if not text.strip() or not connection.definition_format:
        return {}
    if len(text) > _MAX_DEFINITION_CHARACTERS or not _TYPE_NAME.fullmatch(connection.message_type):
        raise UserError(f"the definition of {_named(connection)} in the bag is damaged")
    try:
        found: Definitions = {}
        if connection.definition_format in {"ros2msg", "ros1msg"}:
            found.update(get_types_from_msg(text, connection.message_type))
        elif connection.definition_format in {"ros2idl", "omgidl"}:
            parts = text.split(_IDL_SEPARATOR)
            for part in [parts[0], *(part.split("\n", 1)[-1] for part in parts[1:])]:
                if part.strip():
                    found.update(get_types_from_idl(part))
    except Exception as error:  # whatever the parser makes of a text that is none
        raise UserError(f"the definition of {_named(connection)} in the bag is damaged") from error
    if not all(_sound(name, fields) for name, fields in found.items()):
        raise UserError(f"the definition of {_named(connection)} in the bag is damaged")
    return found


def _sound(name: str, definition: Any) -> bool:
    """Whether code can be made of a definition: names are names, and no loop over elements grows too long."""
    constants, fields = definition
    if not _TYPE_NAME.fullmatch(name) or not all(_FIELD_NAME.fullmatch(entry[0]) for entry in (*constants, *fields)):
        return False
    for _, (kind, content) in fields:
        if kind == Nodetype.NAME and not _TYPE_NAME.fullmatch(content):
            return False
        if kind in {Nodetype.ARRAY, Nodetype.SEQUENCE}:
            (element, element_type), count = content
            if element == Nodetype.NAME and not _TYPE_NAME.fullmatch(element_type):
                return False
            plain = element == Nodetype.BASE and element_type[0] != "string"
            if kind == Nodetype.ARRAY and not plain and count > _MAX_UNROLLED_ELEMENTS:
                return False
    return True


def _same(definition: Any, known: Any) -> bool:
    ours, theirs = ([(name.lower(), entry) for name, entry in fields] for _, fields in (definition, known))
    return ours == theirs


DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("geometry_msgs/msg/Quaternion", "w"): 1.0,
    ("sensor_msgs/msg/NavSatStatus", "status"): -2,
}
"""Defaults other than zero in the standard messages; `rosbags` drops them when it parses the definitions."""


def new(message_type: str, **given: Any) -> Any:
    """A message of the type; fields that are left out have ROS's defaults.

    Values are taken as they are: what does not fit the field is told by who writes the message.

    Raises
    ------
    ValueError
        No such type or field.
    """
    kind, fields = _fields(message_type)
    if unknown := given.keys() - fields.keys():
        raise ValueError(f"{message_type} has no field {', '.join(sorted(unknown))}; it has: {', '.join(fields)}")
    values = {
        name: _converted(entry, given[name]) if name in given else DEFAULTS.get((message_type, name)) or _default(entry)
        for name, entry in fields.items()
    }
    return kind(**values)


@cache
def _fields(message_type: str) -> tuple[Any, dict[str, Any]]:
    """The class of the type, and what `rosbags` says of each field, by the name that it has in Python."""
    store = jazzy_types()
    check_standard(message_type)
    fields = store.fielddefs[message_type][1]
    return store.types[message_type], {normalize_fieldname(name): entry for name, entry in fields}


@cache
def type_hash(message_type: str) -> str:
    """REP-2016's hash of the type, `RIHS01_...`, as ROS 2 computes it."""
    text = re.sub(
        r"^char\b", "uint8", jazzy_types().generate_msgdef(message_type, ros_version=2)[0], flags=re.MULTILINE
    )
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(text, message_type))
    return str(store.hash_rihs01(message_type))


def _default(entry: Any) -> Any:
    kind, content = entry
    if kind == Nodetype.NAME:
        return new(content)
    if kind == Nodetype.BASE:
        return {"string": "", "bool": False, "float32": 0.0, "float64": 0.0}.get(content[0], 0)
    element, count = content[0], content[1] if kind == Nodetype.ARRAY else 0
    data_type = _data_type(element)
    return [_default(element) for _ in range(count)] if data_type is None else np.zeros(count, dtype=data_type)


def _converted(entry: Any, value: Any) -> Any:
    """Numbers in a row as an array of the field's type, and a byte as a number; all else as it is."""
    kind, content = entry
    if kind in {Nodetype.ARRAY, Nodetype.SEQUENCE} and (data_type := _data_type(content[0])):
        return np.ascontiguousarray(list(value) if isinstance(value, bytes) else value, dtype=data_type).reshape(-1)
    return value[0] if kind == Nodetype.BASE and isinstance(value, bytes) else value


def _data_type(element: Any) -> str | None:
    """Of the elements of an array of numbers; None: they are texts or messages."""
    kind, content = element
    if kind == Nodetype.NAME or content[0] in {"string", "wstring"}:
        return None
    return {"byte": "uint8", "char": "uint8", "octet": "uint8"}.get(content[0], str(content[0]))
