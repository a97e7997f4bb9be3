"""Serialised messages of one topic as measurements, without a message object in between.

A message object costs ten times what its numbers do. A topic's messages hardly ever change their layout: each is held
against those that were seen before, and only one of a new layout is walked through (`message_layouts`). What has none,
or is malformed, goes the ordinary way, which gives the same numbers or says what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel, Measurement, Vector
from onboard_estimation.ros.measurements import NOT_MEASURED, UNIT_TOLERANCE, MessageFault, to_measurement
from onboard_estimation.ros.message_layouts import Layout, NoLayout, layout_of

_MOST_LAYOUTS = 4
_LEAST_BYTES = 16  # encapsulation, stamp, length of the frame's name
_STAMP = struct.Struct("<iI")
_NUMBER = struct.Struct("<d")
_ATTITUDE = struct.Struct("<5d")  # and element 0 of its covariance


class SerializedReader:
    """Reads messages of a channel's type and topic.

    Parameters
    ----------
    deserialize
        Makes a message of its bytes, for those of no layout; ValueError or RuntimeError for what is malformed.
    """

    def __init__(self, channel: Channel, deserialize: Callable[[bytes], Any]) -> None:
        self._channel, self._deserialize = channel, deserialize
        self._layouts: list[_OneMessage] = []

    def __call__(self, data: bytes) -> Measurement:
        """The measurement, equal to that of `to_measurement`; MessageFault as from there, and for malformed bytes."""
        for layout in self._layouts:
            value = layout.value(data)
            if value is not None:
                return Measurement(layout.stamp_ns(data), self._channel.sensor, value)
        try:
            layout = _OneMessage(layout_of(self._channel, "cdr", data))
        except NoLayout:
            return self._by_its_object(data)
        self._layouts = [layout, *self._layouts][:_MOST_LAYOUTS]
        return self(data)

    def _by_its_object(self, data: bytes) -> Measurement:
        if len(data) < _LEAST_BYTES:  # of which rclpy would make an empty message
            raise MessageFault(f"has {len(data)} bytes, fewer than its header")
        try:
            message = self._deserialize(data)
        except (ValueError, RuntimeError) as error:  # the latter from rclpy
            raise MessageFault(f"cannot be read as a {self._channel.message_type}: {error}") from error
        return to_measurement(self._channel, message)


class _OneMessage:
    """A layout, for one message at a time."""

    def __init__(self, layout: Layout) -> None:
        self._length, self._stamp = layout.length, layout.stamp
        self._fixed = [(slice(place, place + len(content)), content) for place, content in layout.fixed if content]
        self._runs = [(struct.Struct(f"<{count}d"), place) for place, count in layout.runs]
        numbers = sum(count for _, count in layout.runs)
        self._columns = None if layout.columns == tuple(range(numbers)) else list(layout.columns)
        self._covariances, self._orientation = layout.covariances, layout.orientation

    def value(self, data: bytes) -> Vector | None:
        """(d,) float64; None where the message has another layout."""
        if len(data) != self._length or any(data[span] != content for span, content in self._fixed):
            return None
        value = np.array(list(chain.from_iterable(run.unpack_from(data, place) for run, place in self._runs)))
        if self._columns is not None:
            value = value[self._columns]
        for place, elements in self._covariances:
            if _NUMBER.unpack_from(data, place)[0] == NOT_MEASURED:
                value[elements] = np.nan
        if self._orientation is not None:
            x, y, z, w, first = _ATTITUDE.unpack_from(data, self._orientation)
            if first == NOT_MEASURED or abs(x * x + y * y + z * z + w * w - 1.0) > UNIT_TOLERANCE:
                return None
        return value

    def stamp_ns(self, data: bytes) -> int:
        """`header.stamp`, nanoseconds since the epoch."""
        seconds, nanoseconds = _STAMP.unpack_from(data, self._stamp)
        return int(seconds * NANOSECONDS_PER_SECOND + nanoseconds)
