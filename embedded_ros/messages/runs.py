"""Values of fixed size that follow each other in CDR, packed and unpacked by one precompiled `struct.Struct`.

The padding inside such a run depends on where it starts, modulo 8 bytes, so a run has up to eight `Struct`s. Positions
count from the start of the buffer, whose first four bytes are the header; alignment counts from the byte after it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

HEADER_SIZE = 4

Order = Literal["<", ">"]  # little-endian or big-endian
Write = Callable[[Any, "list[Any]", int], int]  # (values, parts, position) -> position after
Read = Callable[[Any, int, "list[Any]"], int]  # (buffer, position, values) -> position after


class Run:
    """Values of fixed size one after another; `items` are (letters of `struct`, bytes, alignment)."""

    def __init__(self, order: Order) -> None:
        self.order: Order = order
        self.items: list[tuple[str, int, int]] = []
        self.arrays: list[tuple[int, int, np.dtype[Any]]] = []  # (index in the run, bytes, dtype of the wire)
        self.count = 0
        self._structs: list[struct.Struct | None] = [None] * 8

    def add(self, letters: str, size: int, alignment: int, holds_value: bool = True) -> None:
        """Append a value of `size` bytes."""
        self.items.append((letters, size, alignment))
        self.count += holds_value

    def add_array(self, size: int, dtype: np.dtype[Any]) -> None:
        """Append a fixed array of `size` numbers, which is packed as bytes."""
        nbytes = size * dtype.itemsize
        self.arrays.append((self.count, nbytes, dtype.newbyteorder(self.order)))
        self.add(f"{nbytes}s", nbytes, dtype.itemsize)

    def struct_at(self, position: int) -> struct.Struct:
        """Struct of the run where it starts at this position of the buffer."""
        found = self._structs[position & 7]
        if found is None:
            at = start = (position - HEADER_SIZE) & 7
            letters: list[str] = [self.order]
            for letter, size, alignment in self.items:
                gap = -at % alignment
                letters.append(f"{gap}x{letter}" if gap else letter)
                at += gap + size
            found = self._structs[start ^ 4] = struct.Struct("".join(letters))
        return found

    def stride(self) -> int:
        """Bytes of one element where such runs follow each other without gaps of varying size; 0 if they do not."""
        alignment = max(alignment for _, _, alignment in self.items)
        size = self.struct_at(HEADER_SIZE).size
        return 0 if self.arrays or self.items[0][2] != alignment or size % alignment else size

    @property
    def minimum(self) -> int:
        """Bytes without any padding."""
        return sum(size for _, size, _ in self.items)

    def writer(self, first: int) -> Write:
        """Packs the run's values, the first of which has this index among all values."""
        structs, struct_at, last = self._structs, self.struct_at, first + self.count

        def write(values: Any, parts: list[Any], position: int) -> int:
            packed = (structs[position & 7] or struct_at(position)).pack(*values[first:last])
            parts.append(packed)
            return position + len(packed)

        arrays = tuple((index, nbytes) for index, nbytes, _ in self.arrays)

        def write_with_arrays(values: Any, parts: list[Any], position: int) -> int:
            row = list(values[first:last])
            for index, nbytes in arrays:
                data = row[index].tobytes()
                if len(data) != nbytes:
                    raise ValueError(f"a fixed array has {len(data)} bytes instead of {nbytes}")
                row[index] = data
            packed = (structs[position & 7] or struct_at(position)).pack(*row)
            parts.append(packed)
            return position + len(packed)

        return write_with_arrays if arrays else write

    def reader(self) -> Read:
        """Unpacks the run's values."""
        structs, struct_at = self._structs, self.struct_at

        def read(buffer: Any, position: int, values: list[Any]) -> int:
            layout = structs[position & 7] or struct_at(position)
            values += layout.unpack_from(buffer, position)
            return position + layout.size

        arrays = tuple(
            (index, dtype, None if dtype.isnative else dtype.newbyteorder("=")) for index, _, dtype in self.arrays
        )
        frombuffer = np.frombuffer

        def read_with_arrays(buffer: Any, position: int, values: list[Any]) -> int:
            layout = structs[position & 7] or struct_at(position)
            row = list(layout.unpack_from(buffer, position))
            for index, dtype, native in arrays:
                # Copies, so that arrays are aligned, writable and in native byte order.
                copied = frombuffer(bytearray(row[index]), dtype)
                row[index] = copied if native is None else copied.astype(native)
            values += row
            return position + layout.size

        return read_with_arrays if arrays else read
