"""CDR (XCDR1) of messages: one codec per type and byte order, put together from few steps.

A message is flattened: all values outside sequences come from one `operator.attrgetter`, and neighbouring values of
fixed size are packed by one `struct.Struct` (`runs`); strings and sequences have steps of their own (`sequences`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from embedded_ros.messages.classes import fields_of, message_class, slot_of
from embedded_ros.messages.fields import EMPTY_MEMBER, Field, Primitive
from embedded_ros.messages.runs import HEADER_SIZE, Order, Read, Run, Write
from embedded_ros.messages.sequences import counted, flags, messages, numbers, repeated, string

__all__ = ["HEADER_SIZE", "Codec", "Order"]
_new = object.__new__


class Codec:
    """Reads one type in one byte order, and writes it if that is this machine's: arrays are written as they lie there.

    `write` and `read` take positions, so codecs nest.
    """

    def __init__(self, cls: type, order: Order, nested: Callable[[str], Codec]) -> None:
        self.cls = cls
        self.order: Order = order
        self._nested = nested
        self._writes: list[Write] = []
        self._reads: list[Read] = []
        self._paths: list[str] = []
        self._run: Run | None = None
        self._runs: list[tuple[Run, int]] = []
        self.minimum = 0  # fewest bytes on the wire
        self._make = self._flatten(cls, "")
        self._finish_run()
        self.write, self.read = self._compile()

    @property
    def single_run(self) -> Run | None:
        """The run that is all of the type, if it has neither strings nor sequences."""
        return self._runs[0][0] if len(self._runs) == 1 == len(self._reads) else None

    # How the type is laid out

    def _flatten(self, cls: Any, prefix: str) -> Callable[[Any], Any]:
        """Add a structure's fields; returns what makes an object of all values."""
        leaves: list[tuple[Any, int]] = []
        children: list[tuple[Any, Callable[[Any], Any]]] = []
        for field in fields_of(cls):
            if field.name == EMPTY_MEMBER:
                self._open_run().add("x", 1, 1, holds_value=False)
                self.minimum += 1
                continue
            descriptor = slot_of(cls, field.name)
            path = prefix + field.name
            if field.nested and field.is_single:
                children.append((descriptor.__set__, self._flatten(message_class(field.nested), path + ".")))
            else:
                leaves.append((descriptor.__set__, len(self._paths)))
                self._paths.append(path)
                self._add_leaf(field)
        return _maker(cls, leaves, children)

    def _open_run(self) -> Run:
        if self._run is None:
            self._run = Run(self.order)
            self._runs.append((self._run, len(self._paths)))
        return self._run

    def _finish_run(self) -> None:
        if self._run is not None:
            self._reads.append(self._run.reader())
            self._writes.append(self._run.writer(self._runs[-1][1]))
            self._run = None

    def _add_leaf(self, field: Field) -> None:
        index = len(self._paths) - 1
        primitive = field.primitive
        if primitive is not None and (field.is_single or field.is_ndarray):
            if self._run is None:
                self._run = Run(self.order)
                self._runs.append((self._run, index))
            if field.size is None:
                self._run.add(primitive.letter, primitive.size, primitive.size)
                self.minimum += primitive.size
            else:
                self._run.add_array(field.size, field.dtype)
                self.minimum += field.size * primitive.size
            return
        self._finish_run()
        if field.is_single:
            write, read, size = string(self.order, field)
        else:
            write, read, size = self._many(field, primitive)
        self.minimum += size

        def write_value(values: Any, parts: list[Any], position: int) -> int:
            return write(values[index], parts, position)

        def read_value(buffer: Any, position: int, values: list[Any]) -> int:
            value, position = read(buffer, position)
            values.append(value)
            return position

        self._writes.append(write_value)
        self._reads.append(read_value)

    def _many(self, field: Field, primitive: Primitive | None) -> tuple[Any, Any, int]:
        """(write, read, fewest bytes) of an array or a sequence."""
        if primitive is not None:
            elements = numbers(self.order, primitive) if primitive.typecode else flags(primitive)
            smallest = primitive.size
        elif field.nested:
            codec = self._nested(field.nested)
            elements = messages(codec)
            smallest = codec.minimum
        else:
            one = string(self.order, field)
            elements = repeated(one[0], one[1])
            smallest = one[2]
        return counted(self.order, field, elements, smallest)

    # Compiled

    def _compile(self) -> tuple[Callable[[Any, list[Any], int], int], Callable[[Any, int], tuple[Any, int]]]:
        writes, reads, make = tuple(self._writes), tuple(self._reads), self._make
        paths = self._paths
        get: Callable[[Any], Any]
        if len(paths) == 1:
            one = attrgetter(paths[0])

            def get(message: Any) -> Any:
                return (one(message),)
        elif paths:
            get = attrgetter(*paths)
        else:

            def get(message: Any) -> Any:
                return ()

        self.get, self.make = get, make

        def write(message: Any, parts: list[Any], position: int) -> int:
            values = get(message)
            for step in writes:
                position = step(values, parts, position)
            return position

        def read(buffer: Any, position: int) -> tuple[Any, int]:
            values: list[Any] = []
            for step in reads:
                position = step(buffer, position, values)
            return make(values), position

        return write, read


def _maker(cls: Any, leaves: list[tuple[Any, int]], children: list[tuple[Any, Any]]) -> Callable[[Any], Any]:
    """A function that makes an object of the flat list of all values; short structures of numbers without a loop."""
    indices = [index for _, index in leaves]
    if not children and indices and indices == list(range(indices[0], indices[0] + len(indices))) and len(indices) < 5:
        first = indices[0]
        setters = [setter for setter, _ in leaves]
        if len(setters) == 2:
            set_a, set_b = setters

            def make_two(values: Any) -> Any:
                made = _new(cls)
                set_a(made, values[first])
                set_b(made, values[first + 1])
                return made

            return make_two
        if len(setters) == 3:
            set_a, set_b, set_c = setters

            def make_three(values: Any) -> Any:
                made = _new(cls)
                set_a(made, values[first])
                set_b(made, values[first + 1])
                set_c(made, values[first + 2])
                return made

            return make_three
        if len(setters) == 4:
            set_a, set_b, set_c, set_d = setters

            def make_four(values: Any) -> Any:
                made = _new(cls)
                set_a(made, values[first])
                set_b(made, values[first + 1])
                set_c(made, values[first + 2])
                set_d(made, values[first + 3])
                return made

            return make_four
    flat, nested = tuple(leaves), tuple(children)

    def make(values: Any) -> Any:
        made = _new(cls)
        for setter, index in flat:
            setter(made, values[index])
        for setter, child in nested:
            setter(made, child(values))
        return made

    return make
