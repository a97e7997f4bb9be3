"""Messages that differ in their stamp and numbers only: serialised once, then the numbers are written over.

One by one, the names in a covariance of a hundred elements cost more than the filter that made it. Nodes write one
message at a time, bags many at once by NumPy. Estimates and measurements are, to the last bit, those of
`EstimateMessages` and `to_message`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Estimate, Vector
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.sensor_messages import New, to_message

_STAMP = struct.Struct("<iI")
_MOST_TEMPLATES = 8
"""By which elements are there."""
_STAMP_MARK_NS = 1_234_567_890_987_654_321  # which no other field looks like

Writer = Callable[[int, Vector], bytes]
"""Message of a stamp, ns since the epoch, and a value (d,) as of `Channel`; NaN where it was not measured."""


class MessageTemplate:
    """Writes messages of one type, in CDR.

    Parameters
    ----------
    make
        A message from its stamp, which may stand in it more than once, and its m numbers, each of which stands once, as
        float64, in what it serialises to.
    serialize
        Bytes of a message: CDR, little-endian.
    measured
        (m,) whether a number is there at all; `make` gets NaN for the others. None: all are.

    Raises
    ------
    ValueError
        A number is not in the message, or is in it more than once; the stamp is not in it.
    """

    def __init__(
        self,
        make: Callable[[int, Vector], Any],
        serialize: Callable[[Any], bytes],
        size: int,
        measured: NDArray[np.bool_] | None = None,
    ) -> None:
        # Numbers that no header or name looks like, to find where they stand.
        marks: Vector = 1e100 * (1.0 + np.arange(size, dtype=np.float64))
        if measured is not None:
            marks[~measured] = np.nan
        self._template = serialize(make(_STAMP_MARK_NS, marks))
        self._runs = _runs(self._template, marks)
        mark = _STAMP.pack(*divmod(_STAMP_MARK_NS, NANOSECONDS_PER_SECOND))
        self._stamps = [found.start() for found in re.finditer(re.escape(mark), self._template)]
        if not self._stamps:
            raise ValueError("the stamp is not in the message")

    def message(self, stamp_ns: int, values: Vector) -> bytes:
        """One message of numbers (m,)."""
        data = bytearray(self._template)
        stamp = _STAMP.pack(*divmod(stamp_ns, NANOSECONDS_PER_SECOND))
        for place in self._stamps:
            data[place : place + _STAMP.size] = stamp
        numbers = np.ascontiguousarray(values, dtype="<f8").tobytes()
        for place, first, last in self._runs:
            data[place : place + 8 * (last - first)] = numbers[8 * first : 8 * last]
        return bytes(data)

    def messages(self, stamps_ns: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.uint8]:
        """(K, bytes) of K messages at stamps (K,), with numbers (K, m)."""
        rows = np.empty((len(values), len(self._template)), dtype=np.uint8)
        rows[:] = np.frombuffer(self._template, dtype=np.uint8)
        seconds, nanoseconds = np.divmod(stamps_ns, NANOSECONDS_PER_SECOND)
        stamps = np.column_stack([seconds, nanoseconds]).astype("<u4")
        for place in self._stamps:
            rows[:, place : place + _STAMP.size] = stamps.view(np.uint8)
        for place, first, last in self._runs:
            numbers = np.ascontiguousarray(values[:, first:last], dtype="<f8").view(np.uint8)
            rows[:, place : place + 8 * (last - first)] = numbers
        return rows


def _runs(template: bytes, marks: Vector) -> list[tuple[int, int, int]]:
    """Numbers that stand in one row: (place of the first in the message, its column, the column after the last)."""
    asked = np.flatnonzero(np.isfinite(marks))
    found = [np.empty((0, 2), dtype=np.int64)]
    for offset in range(8 if len(asked) else 0):
        numbers = np.frombuffer(template, "<f8", (len(template) - offset) // 8, offset)
        nearest = asked[np.minimum(np.searchsorted(marks[asked], numbers), len(asked) - 1)]
        (at,) = np.nonzero(marks[nearest] == numbers)
        found.append(np.column_stack([nearest[at], offset + 8 * at]))
    columns, places = (rows := np.concatenate(found))[np.argsort(rows[:, 0], kind="stable")].T
    if not np.array_equal(columns, asked):
        raise ValueError(f"numbers are not in the message once each: {len(asked)} were asked for, {len(columns)} found")
    starts = np.flatnonzero((np.diff(columns, prepend=-2) != 1) | (np.diff(places, prepend=-8) != 8))
    lengths = np.diff(starts, append=len(columns))
    return [(int(places[k]), int(columns[k]), int(columns[k] + n)) for k, n in zip(starts, lengths, strict=True)]


class SerializedEstimates:
    """Writes the messages of estimates; each topic's first one is made as a message object, the others over it.

    Parameters
    ----------
    serialize
        Bytes of a message: CDR, little-endian.
    """

    def __init__(self, messages: EstimateMessages, serialize: Callable[[Any], bytes]) -> None:
        self._messages, self._serialize = messages, serialize
        self._templates: dict[str, MessageTemplate] = {}

    def __call__(self, estimate: Estimate, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Topic and message of each of the topics `wanted`."""
        if not wanted:
            return
        for topic, _, values in self._messages.numbers(estimate.mean[None], estimate.covariance[None], wanted):
            template = self._templates.get(topic)
            if template is None:
                make = partial(self._messages.message, topic)
                template = self._templates[topic] = MessageTemplate(make, self._serialize, values.shape[1])
            yield topic, template.message(estimate.stamp_ns, values[0])


def sensor_writer(
    channel: Channel,
    new: New,
    serialize: Callable[[Any], bytes],
    frame_prefix: str = "",
    complete: Callable[[Any], object] = lambda message: None,
) -> Writer:
    """Writes the messages of one channel, for what publishes them: a simulator, a driver.

    Parameters
    ----------
    new, frame_prefix
        As for `to_message`.
    serialize
        Bytes of a message: CDR, little-endian.
    complete
        Writes what a measurement does not say into a message: covariances.
    """

    def make(stamp_ns: int, value: Vector) -> Any:
        message = to_message(new, channel, stamp_ns, value, frame_prefix)
        complete(message)
        return message

    return writer(make, serialize)


def writer(make: Callable[[int, Vector], Any], serialize: Callable[[Any], bytes]) -> Writer:
    """Writes what `make` makes, as `MessageTemplate` does, of values some elements of which may not be there (NaN)."""

    @lru_cache(_MOST_TEMPLATES)
    def template(measured: bytes) -> MessageTemplate:
        return MessageTemplate(make, serialize, len(measured), np.frombuffer(measured, dtype=np.bool_))

    return lambda stamp_ns, value: template((~np.isnan(value)).tobytes()).message(stamp_ns, value)
