"""What the wire needs of a type: its DDS name, its hash, its bytes."""

from __future__ import annotations

import struct
import sys
from functools import cache, cached_property
from typing import Any

from embedded_ros.messages.classes import Message, Service, fields_of, message_class, type_name
from embedded_ros.messages.codec import HEADER_SIZE, Codec, Order
from embedded_ros.messages.definitions import definitions

_NATIVE: Order = "<" if sys.byteorder == "little" else ">"
# XCDR1 in this machine's byte order; the last two bits count the padding at the end.
_HEADERS = tuple(bytes([0, sys.byteorder == "little", 0, padding]) for padding in range(4))
_PADDING = tuple(bytes(padding) for padding in range(4))
_ORDERS: dict[bytes, Order] = {b"\0\0": ">", b"\0\1": "<"}


class MessageSupport:
    """Name, hash and CDR of one message type."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cls = message_class(name)
        self.dds_name = dds_name(name)
        self._write = codec(name, _NATIVE).write
        self._read_native = codec(name, _NATIVE).read
        self._native_header = _HEADERS[0][:2]

    @cached_property
    def type_hash(self) -> str:
        """Hash of the definition, "RIHS01_..."; empty in distributions without type hashes."""
        return definitions().type_hash(self.name)

    def serialize(self, message: Message) -> bytes:
        """CDR of a message: four bytes of header, then the data padded to a multiple of four.

        Raises TypeError, naming the field, where a value does not fit its field.
        """
        parts: list[Any] = [b""]
        try:
            position = self._write(message, parts, HEADER_SIZE)
            padding = -position & 3
            parts[0] = _HEADERS[padding]
            if padding:
                parts.append(_PADDING[padding])
            return b"".join(parts)
        except Exception as error:
            raise self._explained(message, error) from error

    def deserialize(self, buffer: bytes) -> Any:
        """Message of CDR with its header, in either byte order. Raises ValueError if the data is malformed."""
        try:
            if buffer[:2] == self._native_header:
                message, position = self._read_native(buffer, HEADER_SIZE)
            else:
                message, position = self._read_other(buffer)
        except (struct.error, IndexError) as error:
            raise ValueError(f"{len(buffer)} bytes are too short for {self.name}: {error}") from error
        except ValueError as error:
            raise ValueError(f"malformed {self.name}: {error}") from error
        if len(buffer) - position > 3:
            raise ValueError(f"malformed {self.name}: {len(buffer) - position} bytes after the end of the message")
        return message

    def _read_other(self, buffer: Any) -> tuple[Any, int]:
        data = bytes(buffer)
        order = _ORDERS.get(data[:2])
        if order is None or len(data) < HEADER_SIZE:
            raise ValueError(f"encoding {data[:2].hex() or '(empty)'} is not supported, only XCDR1")
        return codec(self.name, order).read(data, HEADER_SIZE)

    def _explained(self, message: Any, error: Exception) -> Exception:
        """The fault of a message that cannot be written, naming the field."""
        if not isinstance(message, Message) or type_name(message) != self.name:
            return TypeError(f"expected a {self.name}, not {type(message).__name__}: {error}")
        fault = _fault(message)
        return TypeError(f"{self.name}: {fault}") if fault else ValueError(f"{self.name}: {error}")


class ServiceSupport:
    """Names and hash of one service type, and the support of its request and response."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.request = MessageSupport(f"{name}_Request")
        self.response = MessageSupport(f"{name}_Response")

    @cached_property
    def type_hash(self) -> str:
        """Hash of the service's definition; empty in distributions without type hashes."""
        return definitions().type_hash(self.name)


def dds_name(name: str) -> str:
    """ROS's name of a type in DDS: "sensor_msgs/msg/Imu" is "sensor_msgs::msg::dds_::Imu_"."""
    package, kind, short = name.split("/")
    return f"{package}::{kind}::dds_::{short}_"


@cache
def codec(name: str, order: Order) -> Codec:
    """Codec of a type in one byte order ("<" or ">")."""
    return Codec(message_class(name), order, lambda nested: codec(nested, order))


@cache
def _message_support(name: str) -> MessageSupport:
    return MessageSupport(name)


@cache
def _service_support(name: str) -> ServiceSupport:
    return ServiceSupport(name)


def support(cls: Any) -> Any:
    """Support of a message class (MessageSupport) or of a service class (ServiceSupport).

    Raises TypeError for anything else.
    """
    if isinstance(cls, type) and issubclass(cls, Message):
        return _message_support(type_name(cls))
    if isinstance(cls, type) and issubclass(cls, Service):
        return _service_support(type_name(cls))
    raise TypeError(f"not a message or service class: {cls!r}")


def _fault(message: Message, prefix: str = "") -> str:
    """The first value of a message that does not fit its field."""
    for field in fields_of(message):
        if field.name not in message.get_fields_and_field_types():
            continue
        value = getattr(message, field.name)
        nested = message_class(field.nested) if field.nested else None
        path = prefix + field.name
        if nested is not None and field.is_single and isinstance(value, Message):
            if type_name(value) != field.nested:
                return f"The '{path}' field must be a sub message of type '{field.nested}'"
            if deeper := _fault(value, path + "."):
                return deeper
        elif fault := field.fault(value, nested):
            return fault.replace(f"'{field.name}'", f"'{path}'", 1)
    return ""
