"""Where the numbers of a serialised message lie, so that many messages of one layout are read at once by NumPy.

CDR (ROS 2) and ROS 1's serialisation have no fixed places: what stands before a field and varies in length (a frame's
name, joint names, counts) moves it. Within a recording these hardly ever change. A `Layout` is taken from one message:
its length, the bytes that place the numbers, and the places. Messages of the same length with the same such bytes
have the same layout; all others are for the general decoder.

`SerializedReader` reads the messages of one topic as they come, without a message object in between, which costs ten
times what its numbers do. What has no layout, or is malformed, goes the ordinary way, which gives the same numbers or
says what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import IMU_PARTS, NANOSECONDS_PER_SECOND, Channel, Matrix, Measurement, Vector
from onboard_estimation.ros.measurements import (
    NOT_MEASURED,
    NUMBERS,
    UNIT_TOLERANCE,
    MessageFault,
    is_no_rotation,
    is_not_measured,
    joint_columns,
    to_measurement,
)

Bytes = NDArray[np.uint8]

_U32 = struct.Struct("<I")
_CDR_LITTLE_ENDIAN = b"\x00\x01"
_CDR_HEADER_BYTES = 4
_MAX_STRINGS = 10_000
_MOST_LAYOUTS = 4
_LEAST_BYTES = 16  # encapsulation, stamp, length of the frame's name


class NoLayout(Exception):
    """A message whose layout is not known here; the general decoder may still read it."""


@dataclass(frozen=True)
class Layout:
    """Places in a serialised message, bytes from its start.

    Attributes
    ----------
    length
        Of the whole message.
    fixed
        (place, content) of the bytes that all messages of this layout share.
    stamp
        Place of `header.stamp`: seconds (int32) and nanoseconds (uint32).
    runs
        (place, count) of consecutive float64 numbers; in this order they are the row that `columns` picks from.
    columns
        Which of those numbers are a measurement's value, in its order.
    covariances
        Of each part of the value that may be absent: place of element 0 of its covariance, and its elements.
    orientation
        For an attitude: place of the quaternion, which the covariance follows. Messages without one do not fit.
    tail
        Bytes behind the message's end, see `is_tail`.
    """

    length: int
    fixed: tuple[tuple[int, bytes], ...]
    stamp: int
    runs: tuple[tuple[int, int], ...]
    columns: tuple[int, ...]
    covariances: tuple[tuple[int, slice], ...] = ()
    orientation: int | None = None
    tail: int = 0

    def fits(self, messages: Bytes) -> NDArray[np.bool_]:
        """(M,) which of the messages (M, length) have this layout."""
        fits = np.ones(len(messages), dtype=np.bool_)
        for place, content in self.fixed:
            fits &= (messages[:, place : place + len(content)] == np.frombuffer(content, dtype=np.uint8)).all(axis=1)
        if self.orientation is not None:
            numbers = np.ascontiguousarray(messages[:, self.orientation : self.orientation + 40]).view("<f8")
            fits &= ~(is_not_measured(numbers[:, 4]) | is_no_rotation(*numbers[:, :4].T))
        return fits

    def stamps_ns(self, messages: Bytes) -> NDArray[np.int64]:
        """(M,) `header.stamp` of messages (M, length) that have this layout, nanoseconds."""
        return stamps_at(messages, self.stamp)

    def values(self, messages: Bytes) -> Matrix:
        """(M, d) values of measurements from messages (M, length) that have this layout."""
        parts = [
            np.ascontiguousarray(messages[:, place : place + 8 * count]).view("<f8").reshape(len(messages), count)
            for place, count in self.runs
        ]
        row = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if self.columns != tuple(range(row.shape[1])):
            row = row[:, self.columns]
        row = row.astype(np.float64, copy=False)
        for place, elements in self.covariances:
            absent = is_not_measured(np.ascontiguousarray(messages[:, place : place + 8]).view("<f8")[:, 0])
            if absent.any():
                row[absent, elements] = np.nan
        return row


def layout_of(channel: Channel, encoding: str, message: bytes) -> Layout:
    """The layout that this message has, and others like it.

    Raises
    ------
    NoLayout
        The message is of another byte order, too short, or otherwise not as its type says; an attitude's message holds
        none.
    """
    try:
        walk = _WALKS.get(channel.message_type, _numbers)
        cursor = _Cursor(message, encoding)
        stamp = cursor.header()
        found = walk(cursor, channel)
    except (KeyError, struct.error, UnicodeDecodeError, MessageFault) as error:
        raise NoLayout from error
    tail = len(message) - cursor.position
    if not is_tail(tail, cursor.position - _CDR_HEADER_BYTES if cursor.cdr else 0):
        raise NoLayout
    orientation = found.runs[0][0] if channel.field == "orientation" else None
    layout = Layout(len(message), tuple(cursor.fixed), stamp, *found, orientation, tail)
    if orientation is not None and not layout.fits(np.frombuffer(message, dtype=np.uint8)[None])[0]:
        raise NoLayout
    return layout


def is_tail(tail: int, end: int) -> bool:
    """Whether so many bytes behind a message's end are passed over, as RMWs do with any number.

    DDS fills the last four bytes up, and rmw_fastrtps' `serialize_message` leaves some bytes for each empty array. What
    is longer than the message is none of these: another type's message, or zeros that a crash has left in a file.
    """
    return 0 <= tail <= end


def stamps_at(messages: Bytes, place: int, byte_order: str = "<") -> NDArray[np.int64]:
    """(M,) int64 nanoseconds: the stamps (int32 seconds, uint32 nanoseconds) at `place` in messages (M, length)."""
    raw = np.ascontiguousarray(messages[:, place : place + 8])
    seconds = raw.view(f"{byte_order}i4")[:, 0].astype(np.int64)
    return seconds * NANOSECONDS_PER_SECOND + raw.view(f"{byte_order}u4")[:, 1].astype(np.int64)


class _Cursor:
    """Walks a serialised message and notes the bytes that place its numbers."""

    def __init__(self, message: bytes, encoding: str) -> None:
        self.message = message
        self.cdr = encoding == "cdr"
        self.fixed: list[tuple[int, bytes]] = []
        self.position = 0
        if self.cdr:
            if message[:2] != _CDR_LITTLE_ENDIAN:
                raise NoLayout
            self.fixed.append((0, _CDR_LITTLE_ENDIAN))
            self.position = _CDR_HEADER_BYTES
        elif encoding != "ros1":
            raise NoLayout

    def header(self) -> int:
        """Pass a `std_msgs/Header`; gives the place of its stamp."""
        if not self.cdr:
            self.position += 4  # ROS 1 counts headers: `seq`
        stamp = self.position
        self.position += 8
        self.string()
        return stamp

    def string(self) -> str:
        length = self._peek_count()
        start = self.position
        content = self.message[start + _U32.size : start + _U32.size + length]
        if len(content) != length or (self.cdr and content[-1:] != b"\0"):
            raise NoLayout
        self._fix(_U32.size + length)
        return (content[:-1] if self.cdr else content).decode()

    def count(self) -> int:
        count = self._peek_count()
        self._fix(_U32.size)
        return count

    def numbers(self, count: int) -> tuple[int, int]:
        """Pass `count` float64 numbers; gives their run."""
        if not count:
            return self.position, 0
        self._align(8)
        run = (self.position, count)
        self.position += 8 * count
        if self.position > len(self.message):
            raise NoLayout
        return run

    def _peek_count(self) -> int:
        self._align(4)
        return int(_U32.unpack_from(self.message, self.position)[0])

    def _fix(self, length: int) -> None:
        self.fixed.append((self.position, self.message[self.position : self.position + length]))
        self.position += length

    def _align(self, size: int) -> None:
        if self.cdr:
            self.position += -(self.position - _CDR_HEADER_BYTES) % size


class _Numbers(NamedTuple):
    """What a `Layout` says of a value's numbers."""

    runs: tuple[tuple[int, int], ...]
    columns: tuple[int, ...]
    covariances: tuple[tuple[int, slice], ...] = ()


Walk = Callable[[_Cursor, Channel], _Numbers]


def _imu(cursor: _Cursor, channel: Channel) -> _Numbers:
    orientation, _ = cursor.numbers(4), cursor.numbers(9)
    if channel.field == "orientation":
        cursor.numbers(2 * (3 + 9))
        return _Numbers((orientation,), tuple(range(4)))
    parts = [(cursor.numbers(3), cursor.numbers(9), elements) for elements in IMU_PARTS.values()]
    runs, covariances, elements = zip(*parts, strict=True)
    places = (place for place, _ in covariances)
    return _Numbers(runs, tuple(range(6)), tuple(zip(places, elements, strict=True)))


def _joint_state(cursor: _Cursor, channel: Channel) -> _Numbers:
    count = cursor.count()
    if count > _MAX_STRINGS:
        raise NoLayout
    names = tuple(cursor.string() for _ in range(count))
    runs = {field: cursor.numbers(cursor.count()) for field in ("position", "velocity", "effort")}
    run = runs[channel.field]
    if run[1] != len(names):
        raise NoLayout
    return _Numbers((run,), tuple(joint_columns(channel.names, names)))


def _numbers(cursor: _Cursor, channel: Channel) -> _Numbers:
    """The first of those behind the header and the name of a child's frame."""
    count = len(NUMBERS[channel.message_type]) + _COVARIANCES.get(channel.message_type, 0)
    if channel.message_type in _OF_CHILD:
        cursor.string()
    run = cursor.numbers(count + _UNREAD.get(channel.message_type, 0))
    return _Numbers((run,), tuple(range(count)))


_OF_CHILD = ("geometry_msgs/msg/TransformStamped", "nav_msgs/msg/Odometry")
_COVARIANCES = {"geometry_msgs/msg/PoseWithCovarianceStamped": 36, "nav_msgs/msg/Odometry": 36}
_UNREAD = {"nav_msgs/msg/Odometry": 6 + 36, "sensor_msgs/msg/FluidPressure": 1, "sensor_msgs/msg/MagneticField": 9}
_WALKS: Mapping[str, Walk] = {"sensor_msgs/msg/Imu": _imu, "sensor_msgs/msg/JointState": _joint_state}
"""Of what is not numbers alone. Ranges, which are float32 and count within limits only, are for the general decoder."""


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
            found = layout.read(data)
            if found is not None:
                return Measurement(found[0], self._channel.sensor, found[1])
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
    """A layout, for one message at a time: all its numbers are unpacked by one format."""

    def __init__(self, layout: Layout) -> None:
        self._length = layout.length
        self._fixed = [(slice(place, place + len(content)), content) for place, content in layout.fixed if content]
        wanted = {place + 8 * k for place, count in layout.runs for k in range(count)}
        wanted.update(place for place, _ in layout.covariances)
        if layout.orientation is not None:
            wanted.add(layout.orientation + 32)  # element 0 of its covariance
        numbers: dict[int, int] = {}
        form, position = "<", 0
        for place in sorted([layout.stamp, *wanted]):
            is_stamp = place == layout.stamp
            form += f"{place - position}x" + ("iI" if is_stamp else "d")
            position = place + 8
            numbers[place] = len(numbers) + (1 if len(numbers) and layout.stamp < place else 0)
        self._unpack = struct.Struct(form).unpack_from
        self._stamp = numbers[layout.stamp]
        row = [numbers[place + 8 * k] for place, count in layout.runs for k in range(count)]
        self._pick = [row[column] for column in layout.columns]
        self._covariances = [(numbers[place], elements) for place, elements in layout.covariances]
        self._attitude = None
        if layout.orientation is not None:
            self._attitude = [numbers[layout.orientation + 8 * k] for k in range(5)]

    def read(self, data: bytes) -> tuple[int, Vector] | None:
        """Stamp, nanoseconds since the epoch, and value (d,); None where the message has another layout."""
        if len(data) != self._length:
            return None
        for span, content in self._fixed:
            if data[span] != content:
                return None
        found = self._unpack(data)
        value = np.array([found[place] for place in self._pick])
        for place, elements in self._covariances:
            if found[place] == NOT_MEASURED:
                value[elements] = np.nan
        if self._attitude is not None:
            x, y, z, w, first = (found[place] for place in self._attitude)
            if first == NOT_MEASURED or abs(x * x + y * y + z * z + w * w - 1.0) > UNIT_TOLERANCE:
                return None
        return found[self._stamp] * NANOSECONDS_PER_SECOND + found[self._stamp + 1], value
