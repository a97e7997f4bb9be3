"""Frames of NatNet (message 7): number, rigid bodies, times and flags; all else is passed over.

From 4.1 each section says its length, so that those not needed here are passed without a look. Before, each marker set,
skeleton and device has to be walked through.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drivers.optitrack.protocol import NatNetFault, Reader, Version

_MODELS_CHANGED = 2
_TRACKED = 1
_POINT_BYTES = 12

_BODY = np.dtype([("id", "<i4"), ("position", "<f4", 3), ("quaternion", "<f4", 4), ("error", "<f4"), ("flags", "<u2")])
"""Of 3.0 and later, without padding."""
_BODY_HEAD = np.dtype([("id", "<i4"), ("position", "<f4", 3), ("quaternion", "<f4", 4)])
_TICKS = struct.Struct("<QQQ")
_FLAGS = struct.Struct("<H")
_F64, _F32 = struct.Struct("<d"), struct.Struct("<f")


@dataclass(frozen=True)
class Frame:
    """A frame of B rigid bodies, in the stream's axes.

    Attributes
    ----------
    number
        Of the frame.
    ids
        (B,) int32, of the bodies.
    positions_m, quaternions_xyzw
        (B, 3) and (B, 4) float64, of what were float32.
    tracked
        (B,) as the server says. 2.5 does not: true, and a body that is not seen has no quaternion.
    time_s
        Of the server's software; NaN where there is none, in 2.5.
    exposure_ticks, received_ticks, transmitted_ticks
        Of its clock: in the middle of the cameras' exposure, when the data came, when they went; None before 3.0.
    models_changed
        Whether the models are others than before.
    """

    number: int
    ids: NDArray[np.int32]
    positions_m: NDArray[np.float64]
    quaternions_xyzw: NDArray[np.float64]
    tracked: NDArray[np.bool_]
    time_s: float
    exposure_ticks: int | None
    received_ticks: int | None
    transmitted_ticks: int | None
    models_changed: bool


def parse(data: bytes, version: Version) -> Frame:
    """The frame that a message of kind 7 holds.

    Raises
    ------
    NatNetFault
        Its lengths or counts are not of this version.
    """
    reader = Reader(data)
    number = reader.i32()
    if number < 0:
        raise NatNetFault("number below zero")
    sized = version >= (4, 1)
    _pass(reader, sized, _pass_marker_set, 5)
    _pass(reader, sized, _pass_point, _POINT_BYTES)  # other markers
    ids, positions, quaternions, tracked = _bodies(reader, version)
    _pass(reader, sized, lambda inner: _pass_skeleton(inner, version), 8)
    if sized:
        _pass(reader, sized, _pass_point, 0)  # assets, by their length
    marker = 20 + (2 if version >= (2, 6) else 0) + (4 if version >= (3, 0) else 0)
    _pass(reader, sized, lambda inner: inner.skip(marker), marker)
    if version >= (2, 9):
        _pass(reader, sized, _pass_channels, 8)  # force plates
    if version >= (2, 11):
        _pass(reader, sized, _pass_channels, 8)  # devices
    if version < (3, 0):
        reader.skip(4)  # what the software took
    reader.skip(8)  # time code
    if version < (2, 6) and reader.left < _F32.size + _FLAGS.size:  # Motive 1.5 sends neither time nor flags
        return Frame(number, ids, positions, quaternions, tracked, math.nan, None, None, None, False)
    (time_s,) = reader.take(_F64 if version >= (2, 7) else _F32)
    exposure, received, transmitted = reader.take(_TICKS) if version >= (3, 0) else (None, None, None)
    if sized:
        reader.skip(8)  # time by a PTP clock
    (flags,) = reader.take(_FLAGS)
    changed = bool(flags & _MODELS_CHANGED)
    return Frame(number, ids, positions, quaternions, tracked, time_s, exposure, received, transmitted, changed)


def _bodies(
    reader: Reader, version: Version
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Ids, positions, quaternions, whether tracked."""
    if version < (3, 0):
        return _bodies_with_markers(reader, version)
    count = reader.count(_BODY.itemsize)
    end = reader.section() if version >= (4, 1) else reader.place + count * _BODY.itemsize
    if count * _BODY.itemsize > end - reader.place:
        raise NatNetFault("count beyond its section")
    rows = np.frombuffer(reader.data, _BODY, count, reader.place)
    reader.place = end
    tracked: NDArray[np.bool_] = (rows["flags"] & _TRACKED) != 0
    return rows["id"], rows["position"].astype(np.float64), rows["quaternion"].astype(np.float64), tracked


def _bodies_with_markers(
    reader: Reader, version: Version
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Before 3.0 the markers of each body stand behind it."""
    count = reader.count(_BODY_HEAD.itemsize + 8)
    rows = np.empty(count, _BODY_HEAD)
    tracked = np.ones(count, dtype=np.bool_)
    for place in range(count):
        if reader.left < _BODY_HEAD.itemsize:
            raise NatNetFault("too short")
        rows[place] = np.frombuffer(reader.data, _BODY_HEAD, 1, reader.place)[0]
        flags = _pass_body(reader, version)
        tracked[place] = bool(flags & _TRACKED)
    return rows["id"], rows["position"].astype(np.float64), rows["quaternion"].astype(np.float64), tracked


def _pass_body(reader: Reader, version: Version) -> int:
    """Pass a rigid body; gives its flags."""
    reader.skip(_BODY_HEAD.itemsize)
    if version < (3, 0):
        reader.skip(reader.count(_POINT_BYTES + 8) * (_POINT_BYTES + 8))  # markers: positions, ids, sizes
    reader.skip(4)  # mean error
    return int(reader.take(_FLAGS)[0]) if version >= (2, 6) else _TRACKED


def _pass(reader: Reader, sized: bool, pass_one: Callable[[Reader], object], least_bytes: int) -> None:
    """Pass a section."""
    if sized:
        reader.skip(4)  # the count: what counts is the length
        reader.place = reader.section()
        return
    for _ in range(reader.count(least_bytes)):
        pass_one(reader)


def _pass_marker_set(reader: Reader) -> None:
    reader.text()
    reader.skip(reader.count(_POINT_BYTES) * _POINT_BYTES)


def _pass_point(reader: Reader) -> None:
    reader.skip(_POINT_BYTES)


def _pass_skeleton(reader: Reader, version: Version) -> None:
    reader.skip(4)
    for _ in range(reader.count(_BODY_HEAD.itemsize)):
        _pass_body(reader, version)


def _pass_channels(reader: Reader) -> None:
    """Force plate or device: of each channel the values since the last frame."""
    reader.skip(4)
    for _ in range(reader.count(4)):
        reader.skip(4 * reader.count(4))
