"""CDR of strings, of arrays and of sequences: for each kind what writes and what reads one value.

What is read is not trusted: every length is checked against what is left of the buffer before anything is made.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from embedded_ros.messages.fields import Field, Primitive
from embedded_ros.messages.runs import HEADER_SIZE

if TYPE_CHECKING:
    from embedded_ros.messages.codec import Codec

_PADDING = tuple(bytes(count) for count in range(8))
_OCTETS = tuple(bytes([value]) for value in range(256))


def string(order: str, field: Field) -> tuple[Any, Any, int]:
    """(write, read, fewest bytes) of a string, which ends with a zero; its bound counts characters."""
    length = struct.Struct(order + "I")
    pack, unpack_from, bound = length.pack, length.unpack_from, field.bound

    def write(value: str, parts: list[Any], position: int) -> int:
        data = value.encode()
        if bound and len(value) > bound:
            raise ValueError(f"{field.name!r} has {len(value)} characters, more than {bound}")
        gap = -position & 3
        size = len(data) + 1
        parts.append(_PADDING[gap] + pack(size) + data + b"\0")
        return position + gap + 4 + size

    def read(buffer: Any, position: int) -> tuple[str, int]:
        position = (position + 3) & ~3
        (size,) = unpack_from(buffer, position)
        position += 4
        end = position + size
        if end > len(buffer):
            raise ValueError(f"a string of {size} bytes where {len(buffer) - position} are left")
        if not size:
            return "", position
        if buffer[end - 1]:
            raise ValueError("a string without its closing zero")
        text = buffer[position : end - 1].decode(errors="replace")
        if bound and len(text) > bound:
            raise ValueError(f"a string of {len(text)} characters where {bound} are allowed")
        return text, end

    return write, read, 4


def counted(order: str, field: Field, elements: tuple[Any, Any], smallest: int) -> tuple[Any, Any, int]:
    """An array (without a count) or a sequence (with it) of elements."""
    write_elements, read_elements = elements
    size, capacity = field.size, field.capacity
    if size is not None:

        def write_array(value: Any, parts: list[Any], position: int) -> int:
            if len(value) != size:
                raise ValueError(f"{field.name!r} has {len(value)} elements instead of {size}")
            return write_elements(value, parts, position)

        def read_array(buffer: Any, position: int) -> tuple[Any, int]:
            return read_elements(buffer, position, size)

        return write_array, read_array, size * smallest

    count_of = struct.Struct(order + "I")
    pack, unpack_from = count_of.pack, count_of.unpack_from

    def write_sequence(value: Any, parts: list[Any], position: int) -> int:
        count = len(value)
        if capacity and count > capacity:
            raise ValueError(f"{field.name!r} has {count} elements, more than {capacity}")
        gap = -position & 3
        parts.append(_PADDING[gap] + pack(count))
        position += gap + 4
        return write_elements(value, parts, position) if count else position

    def read_sequence(buffer: Any, position: int) -> tuple[Any, int]:
        position = (position + 3) & ~3
        (count,) = unpack_from(buffer, position)
        position += 4
        if count * smallest > len(buffer) - position:
            raise ValueError(f"{count} elements where {len(buffer) - position} bytes are left")
        if capacity and count > capacity:
            raise ValueError(f"{count} elements where {capacity} are allowed")
        return read_elements(buffer, position, count)

    return write_sequence, read_sequence, 4


def numbers(order: str, primitive: Primitive) -> tuple[Any, Any]:
    """Elements that are numbers in an array.array."""
    typecode, size = primitive.typecode, primitive.size
    foreign = size > 1 and order != ("<" if np.little_endian else ">")

    def write(value: array[Any], parts: list[Any], position: int) -> int:
        gap = -(position - HEADER_SIZE) & (size - 1)
        if gap:
            parts.append(_PADDING[gap])
        parts.append(value)
        return position + gap + len(value) * size

    def read(buffer: Any, position: int, count: int) -> tuple[array[Any], int]:
        value = array(typecode)
        if not count:
            return value, position
        position += -(position - HEADER_SIZE) & (size - 1)
        end = position + count * size
        if end > len(buffer):
            raise ValueError(f"{count} elements where {len(buffer) - position} bytes are left")
        value.frombytes(memoryview(buffer)[position:end])
        if foreign:
            value.byteswap()
        return value, end

    return write, read


def flags(primitive: Primitive) -> tuple[Any, Any]:
    """Elements of one byte in a list: bool or byte."""
    of_bytes = primitive.python is bytes

    def write(value: Any, parts: list[Any], position: int) -> int:
        if not of_bytes and set(map(type, value)) != {bool}:
            raise TypeError("an element that is no bool")
        data = b"".join(value) if of_bytes else bytes(value)
        if len(data) != len(value):
            raise ValueError("an element that is not one byte")
        parts.append(data)
        return position + len(data)

    def read(buffer: Any, position: int, count: int) -> tuple[list[Any], int]:
        end = position + count
        if end > len(buffer):
            raise ValueError(f"{count} elements where {len(buffer) - position} bytes are left")
        data = buffer[position:end]
        return [_OCTETS[value] for value in data] if of_bytes else list(map(bool, data)), end

    return write, read


def repeated(write_one: Any, read_one: Any) -> tuple[Any, Any]:
    """Elements one by one."""

    def write(value: Any, parts: list[Any], position: int) -> int:
        for element in value:
            position = write_one(element, parts, position)
        return position

    def read(buffer: Any, position: int, count: int) -> tuple[list[Any], int]:
        found = []
        for _ in range(count):
            element, position = read_one(buffer, position)
            found.append(element)
        return found, position

    return write, read


def messages(codec: Codec) -> tuple[Any, Any]:
    """Elements that are messages; at one go where all have the same layout (points, colours)."""
    run, cls = codec.single_run, codec.cls

    # A list is changed without its message noticing: what is in it is looked at here.
    def check(value: Any) -> None:
        if set(map(type, value)) != {cls} and not all(isinstance(element, cls) for element in value):
            raise TypeError(f"an element that is no {cls.__name__}")

    stride = run.stride() if run is not None and run.count else 0
    if run is None or not stride:
        write_each, read_each = repeated(codec.write, codec.read)

        def write_checked(value: Any, parts: list[Any], position: int) -> int:
            check(value)
            return write_each(value, parts, position)

        return write_checked, read_each
    alignment = run.items[0][2]
    layout = run.struct_at(HEADER_SIZE)
    pack, get, make = layout.pack, codec.get, codec.make

    def write(value: Any, parts: list[Any], position: int) -> int:
        check(value)
        gap = -(position - HEADER_SIZE) & (alignment - 1)
        if gap:
            parts.append(_PADDING[gap])
        parts.extend([pack(*get(element)) for element in value])
        return position + gap + len(value) * stride

    def read(buffer: Any, position: int, count: int) -> tuple[list[Any], int]:
        if not count:
            return [], position
        position += -(position - HEADER_SIZE) & (alignment - 1)
        end = position + count * stride
        if end > len(buffer):
            raise ValueError(f"{count} elements where {len(buffer) - position} bytes are left")
        rows: Iterator[Any] = layout.iter_unpack(memoryview(buffer)[position:end])
        return [make(row) for row in rows], end

    return write, read
