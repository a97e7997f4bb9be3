"""What a NatNet server sends, as bytes: information, model definitions, frames, of each version from 2.5 to 4.2.

Written apart from the client's parsers, which it is to check: from the samples of OptiTrack's SDK, as those are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drivers.motion_capture.bodies import BodyPoses
from drivers.optitrack.protocol import Kind, ServerInfo, Version, message

_MARKERS_M = ((0.05, 0.0, 0.0), (0.0, 0.05, 0.0), (0.0, 0.0, 0.05), (-0.04, -0.03, 0.0))
SIZE_M = 0.014


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


def models(names: Sequence[str], version: Version, others: Sequence[tuple[int, bytes]] = ()) -> bytes:
    """Message 5: of each body its marker set and itself, numbered from 1.

    Parameters
    ----------
    others
        Further models: kind and content.
    """
    parts = [(0, text("all") + i32(0))]
    for number, name in enumerate(names, 1):
        labels = b"".join(text(f"Marker{place}") for place in range(len(_MARKERS_M)))
        parts.append((0, text(name) + i32(len(_MARKERS_M)) + labels))
        parts.append((1, rigid_body_model(name, number, version)))
    parts += others
    body = i32(len(parts))
    for kind, part in parts:
        body += i32(kind) + (i32(len(part)) if version >= (4, 1) else b"") + part
    return message(Kind.MODELS, body)


def rigid_body_model(name: str, number: int, version: Version) -> bytes:
    """What is told of one of them."""
    data = text(name) + i32(number, -1) + struct.pack("<3f", 0.0, 0.0, 0.0)
    if version >= (4, 2):
        data += struct.pack("<4f", 0.0, 0.0, 0.0, 1.0)
    if version >= (3, 0):
        count = len(_MARKERS_M)
        data += i32(count) + struct.pack(f"<{3 * count}f", *sum(_MARKERS_M, ())) + i32(*[0] * count)
        if version >= (4, 0):
            data += b"".join(text(f"Marker{place}") for place in range(count))
    return data


def frame(
    number: int,
    poses: BodyPoses,
    times: Times,
    version: Version,
    changed: bool = False,
    others: Mapping[str, bytes] | None = None,
) -> bytes:
    """Message 7, of poses in the stream's axes.

    Parameters
    ----------
    others
        One thing each of the sections `skeletons`, `assets`, `force plates` and `devices`, which are empty otherwise.
    """
    markers = (poses.positions_m[:, None] + np.array(_MARKERS_M)).astype("<f4")
    count = len(poses.names)
    sets = b"".join(
        text(name) + i32(len(_MARKERS_M)) + points.tobytes() for name, points in zip(poses.names, markers, strict=True)
    )
    data = i32(number) + _section(count, sets, version)
    data += _section(2, struct.pack("<6f", *range(6)), version)
    rows = zip(poses.positions_m.tolist(), poses.quaternions_xyzw.tolist(), poses.tracked.tolist(), strict=True)
    bodies = b"".join(
        rigid_body(place, position, quaternion, tracked, version)
        for place, (position, quaternion, tracked) in enumerate(rows, 1)
    )
    data += _section(count, bodies, version)

    def other(name: str) -> bytes:
        content = (others or {}).get(name, b"")
        return _section(int(bool(content)), content, version)

    data += other("skeletons")
    if version >= (4, 1):
        data += other("assets")
    labelled = b"".join(
        _labelled(65536 * (place + 1) + marker + 1, point, version)
        for place in range(count)
        for marker, point in enumerate(markers[place])
    )
    data += _section(count * len(_MARKERS_M), labelled, version)
    for name, since in (("force plates", (2, 9)), ("devices", (2, 11))):
        if version >= since:
            data += other(name)
    flags = struct.pack("<H", 2 * changed) if version >= (2, 6) else b""
    return message(Kind.FRAME, data + _times(times, version) + flags + i32(0))


def _times(times: Times, version: Version) -> bytes:
    data = b"" if version >= (3, 0) else struct.pack("<f", 0.004)
    data += i32(0, 0)
    if version >= (2, 6):
        data += struct.pack("<d" if version >= (2, 7) else "<f", times.software_s)
    if version >= (3, 0):
        data += struct.pack("<3Q", times.exposure_ticks, times.received_ticks, times.transmitted_ticks)
    return data + (i32(0, 0) if version >= (4, 1) else b"")


def rigid_body(
    number: int, position: Sequence[float], quaternion: Sequence[float], tracked: bool, version: Version
) -> bytes:
    """Its part of a frame."""
    if not tracked and version < (2, 6):  # which have no flag
        position, quaternion = (0.0,) * 3, (0.0,) * 4
    data = struct.pack("<i7f", number, *position, *quaternion)
    if version < (3, 0):
        count = len(_MARKERS_M)
        data += i32(count) + struct.pack(f"<{3 * count}f", *sum(_MARKERS_M, ()))
        data += i32(*range(1, count + 1)) + struct.pack(f"<{count}f", *[SIZE_M] * count)
    data += struct.pack("<f", 0.0003)
    return data + (struct.pack("<H", tracked) if version >= (2, 6) else b"")


def _labelled(number: int, point: Sequence[float], version: Version) -> bytes:
    data = struct.pack("<i4f", number, *point, SIZE_M)
    if version >= (2, 6):
        data += struct.pack("<H", 10)
    return data + (struct.pack("<f", 0.0002) if version >= (3, 0) else b"")


def _section(count: int, content: bytes, version: Version) -> bytes:
    return i32(count) + (i32(len(content)) if version >= (4, 1) else b"") + content


def i32(*values: int) -> bytes:
    """One behind the other."""
    return struct.pack(f"<{len(values)}i", *values)


def text(value: str) -> bytes:
    """With the zero at its end."""
    return value.encode() + b"\0"
