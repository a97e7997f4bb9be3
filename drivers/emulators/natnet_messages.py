"""What a NatNet server sends, as bytes: information, model definitions, frames, of each version from 2.5 to 4.2.

Written apart from the client's parsers, which it is to check: from the samples of OptiTrack's SDK, as those are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drivers.motion_capture.bodies import BodyPoses
from drivers.optitrack.protocol import Kind, ServerInfo, Version, message

_MARKERS_M = ((0.05, 0.0, 0.0), (0.0, 0.05, 0.0), (0.0, 0.0, 0.05), (-0.04, -0.03, 0.0))
_SIZE_M = 0.014


@dataclass(frozen=True)
class Times:
    """Of a frame: seconds of the server's software, and ticks of its clock."""

    software_s: float
    exposure_ticks: int
    received_ticks: int
    transmitted_ticks: int


def server_info(info: ServerInfo) -> bytes:
    """Message 1."""
    body = info.application.encode()[:255].ljust(256, b"\0")
    body += bytes([*info.application_version, *info.version, 0, 0])
    if info.version >= (3, 0):
        group = bytes(int(part) for part in (info.group or "0.0.0.0").split("."))
        body += struct.pack("<QHB", info.clock_hz or 0, info.data_port or 0, bool(info.is_multicast)) + group
    return message(Kind.SERVER_INFO, body)


def models(names: Sequence[str], version: Version, with_others: bool = False) -> bytes:
    """Message 5: of each body its marker set and itself, numbered from 1.

    Parameters
    ----------
    with_others
        Also a skeleton, a force plate, a device, a camera and an asset, where the version has them.
    """
    parts = [(0, _text("all") + _i32(0))]
    for number, name in enumerate(names, 1):
        labels = b"".join(_text(f"Marker{place}") for place in range(len(_MARKERS_M)))
        parts.append((0, _text(name) + _i32(len(_MARKERS_M)) + labels))
        parts.append((1, _body_model(name, number, version)))
    if with_others:
        bones = b"".join(_body_model(f"bone {number}", number, version) for number in (1, 2))
        parts.append((2, _text("skeleton") + _i32(7, 2) + bones))
        parts.append((5, _text("camera") + struct.pack("<7f", *range(7))))
        if version >= (3, 0):
            channels = _i32(2) + _text("Fx") + _text("Fy")
            plate = _i32(1) + _text("serial") + struct.pack("<161f", *range(161)) + _i32(0, 0) + channels
            parts.append((3, plate))
            parts.append((4, _i32(1) + _text("device") + _text("serial") + _i32(0, 0) + channels))
        if version >= (4, 1):
            marker = _text("m") + struct.pack("<i4fH", 1, 0.0, 0.0, 0.0, _SIZE_M, 0)
            asset = _text("asset") + _i32(1, 3, 1) + _body_model("part", 1, version) + _i32(1) + marker
            parts.append((6, asset))
    body = _i32(len(parts))
    for kind, part in parts:
        body += _i32(kind) + (_i32(len(part)) if version >= (4, 1) else b"") + part
    return message(Kind.MODELS, body)


def _body_model(name: str, number: int, version: Version) -> bytes:
    data = _text(name) + _i32(number, -1) + struct.pack("<3f", 0.0, 0.0, 0.0)
    if version >= (4, 2):
        data += struct.pack("<4f", 0.0, 0.0, 0.0, 1.0)
    if version >= (3, 0):
        count = len(_MARKERS_M)
        data += _i32(count) + struct.pack(f"<{3 * count}f", *sum(_MARKERS_M, ())) + _i32(*[0] * count)
        if version >= (4, 0):
            data += b"".join(_text(f"Marker{place}") for place in range(count))
    return data


def frame(
    number: int, poses: BodyPoses, times: Times, version: Version, changed: bool = False, with_others: bool = False
) -> bytes:
    """Message 7, of poses in the stream's axes; `with_others` as for `models`."""
    markers = (poses.positions_m[:, None] + np.array(_MARKERS_M)).astype("<f4")
    count = len(poses.names)
    sets = b"".join(
        _text(name) + _i32(len(_MARKERS_M)) + points.tobytes()
        for name, points in zip(poses.names, markers, strict=True)
    )
    data = _i32(number) + _section(count, sets, version)
    data += _section(2, struct.pack("<6f", *range(6)), version)
    rows = zip(poses.positions_m.tolist(), poses.quaternions_xyzw.tolist(), poses.tracked.tolist(), strict=True)
    bodies = b"".join(
        _body(place, position, quaternion, tracked, version)
        for place, (position, quaternion, tracked) in enumerate(rows, 1)
    )
    data += _section(count, bodies, version)
    bone = _body(1, (0.0,) * 3, (0.0, 0.0, 0.0, 1.0), True, version)
    data += _section(1, _i32(7, 2) + 2 * bone, version) if with_others else _section(0, b"", version)
    if version >= (4, 1):
        part = struct.pack("<i8fH", 1, *range(8), 1)
        marker = struct.pack("<i4fHf", 1, *range(4), 0, 0.0)
        asset = _i32(1, 1) + part + _i32(1) + marker
        data += _section(1, asset, version) if with_others else _section(0, b"", version)
    labelled = b"".join(
        _labelled(65536 * (place + 1) + marker + 1, point, version)
        for place in range(count)
        for marker, point in enumerate(markers[place])
    )
    data += _section(count * len(_MARKERS_M), labelled, version)
    channels = _i32(1, 2) + 2 * (_i32(3) + struct.pack("<3f", *range(3)))
    for since in ((2, 9), (2, 11)):
        if version >= since:
            data += _section(1, channels, version) if with_others else _section(0, b"", version)
    flags = struct.pack("<H", 2 * changed) if version >= (2, 6) else b""
    return message(Kind.FRAME, data + _times(times, version) + flags + _i32(0))


def _times(times: Times, version: Version) -> bytes:
    data = b"" if version >= (3, 0) else struct.pack("<f", 0.004)
    data += _i32(0, 0)
    if version >= (2, 6):
        data += struct.pack("<d" if version >= (2, 7) else "<f", times.software_s)
    if version >= (3, 0):
        data += struct.pack("<3Q", times.exposure_ticks, times.received_ticks, times.transmitted_ticks)
    return data + (_i32(0, 0) if version >= (4, 1) else b"")


def _body(
    number: int, position: Sequence[float], quaternion: Sequence[float], tracked: bool, version: Version
) -> bytes:
    if not tracked and version < (2, 6):  # which have no flag
        position, quaternion = (0.0,) * 3, (0.0,) * 4
    data = struct.pack("<i7f", number, *position, *quaternion)
    if version < (3, 0):
        count = len(_MARKERS_M)
        data += _i32(count) + struct.pack(f"<{3 * count}f", *sum(_MARKERS_M, ()))
        data += _i32(*range(1, count + 1)) + struct.pack(f"<{count}f", *[_SIZE_M] * count)
    data += struct.pack("<f", 0.0003)
    return data + (struct.pack("<H", tracked) if version >= (2, 6) else b"")


def _labelled(number: int, point: Sequence[float], version: Version) -> bytes:
    data = struct.pack("<i4f", number, *point, _SIZE_M)
    if version >= (2, 6):
        data += struct.pack("<H", 10)
    return data + (struct.pack("<f", 0.0002) if version >= (3, 0) else b"")


def _section(count: int, content: bytes, version: Version) -> bytes:
    return _i32(count) + (_i32(len(content)) if version >= (4, 1) else b"") + content


def _i32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def _text(text: str) -> bytes:
    return text.encode() + b"\0"
