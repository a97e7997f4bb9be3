"""Readers of `drivers.vicon`: packets of a DataStream, their layouts, and a connection's session.

The first three bytes of an input choose a byte of the packet, and what it is changed by; the rest is the packet.
"""

from __future__ import annotations

import struct
from random import Random

import numpy as np

from benchmarks.fuzz.target import Target
from drivers.emulators.vicon import DataStreamServer
from drivers.motion_capture.bodies import plausible, quaternions_of
from drivers.vicon.protocol import (
    CONTENTS,
    GLOBAL_SEGMENTS,
    LONGEST_NAME,
    NEEDED,
    OBJECT_ENUMS,
    PACKET,
    SEGMENTS,
    STREAM_INFO,
    WANTED,
    Content,
    Session,
    StreamError,
    block,
    body_names,
    encode_uints,
    layout_of,
)

_CHOICE = struct.Struct("<HB")
_OFFER = block(PACKET, block(OBJECT_ENUMS, encode_uints(NEEDED)))
_LEAST_SUBJECT_BYTES = 20
_LONGEST_REASON = LONGEST_NAME + 100


def check(data: bytes) -> None:
    """What is read is no more than there are bytes for, by any layout the same; what cannot be is refused briefly."""
    if len(data) < _CHOICE.size:
        return
    (place, change), packet = _CHOICE.unpack_from(data), data[_CHOICE.size :]
    other = bytearray(packet)
    if other:
        other[place % len(other)] ^= change
    try:
        layout = layout_of(packet)
        assert layout.fits(packet)
        _check_content(layout.read(packet), len(packet))
        if layout.fits(bytes(other)):
            own = layout_of(bytes(other)).read(bytes(other))
            assert _bits(layout.read(bytes(other))) == _bits(own)
    except StreamError as error:
        _check_reason(error)
    _check_session(packet, bytes(other))


def _check_reason(error: StreamError) -> None:
    assert len(str(error)) < _LONGEST_REASON
    assert str(error).isprintable()


def _check_content(found: Content, size: int) -> None:
    subjects = found.subjects or ()
    assert len(subjects) * _LEAST_SUBJECT_BYTES <= size
    assert all(len(name) <= 2 * LONGEST_NAME + 1 and name.isprintable() for name in body_names(subjects).values())
    if found.poses is not None:
        assert len(found.poses.ids) == len(found.poses.values) <= size // SEGMENTS.itemsize
        quaternions = quaternions_of(found.poses.values["rotation"])
        lengths = np.sqrt((quaternions**2).sum(axis=1))
        assert (np.isnan(lengths) | (np.abs(lengths - 1.0) < 1e-9)).all()
        good = plausible(found.poses.values["position_mm"], quaternions)
        assert np.isfinite(quaternions[good]).all()


def _check_session(packet: bytes, other: bytes) -> None:
    """However the bytes are cut, the same frames, until what is refused."""
    stream = _OFFER + block(PACKET, packet) + block(PACKET, other)
    assert _frames([stream]) == _frames([stream[:50], stream[50:]])


def _frames(pieces: list[bytes]) -> list[object]:
    session = Session()
    found: list[object] = []
    try:
        for piece in pieces:
            for frame in session.feed(piece):
                found.append((repr(frame[:3]), frame.poses.ids, frame.poses.values.tobytes(), session.subjects))
    except StreamError as error:
        found.append(str(error))
    return found


def _bits(found: Content) -> object:
    values = (found.poses.ids, found.poses.values.tobytes()) if found.poses is not None else None
    return repr(found._replace(poses=None)), values


def _mended(data: bytes, random: Random) -> bytes:
    """Blocks of kinds that are read, of lengths that are true, and segments of a true count."""
    rest, mended = data[_CHOICE.size :], data[: _CHOICE.size].ljust(_CHOICE.size, b"\0")
    while rest:
        size = random.randrange(1, len(rest) + 1)
        content, rest = rest[:size], rest[size:]
        kind = random.choice((*sorted(WANTED), OBJECT_ENUMS, GLOBAL_SEGMENTS))
        if kind == GLOBAL_SEGMENTS:
            content = struct.pack("<II", random.randrange(3), len(content) // SEGMENTS.itemsize) + content
        mended += block(kind, content)
    return mended


def _seeds() -> list[bytes]:
    names = ["box", "arm/upper", "arm/lower"]
    server = DataStreamServer("127.0.0.1", 0, names, 600.0)
    pose = np.ones(3), np.eye(3)
    found = [block(OBJECT_ENUMS, encode_uints(WANTED))]
    for wanted in (WANTED, WANTED - {CONTENTS}, WANTED - {STREAM_INFO}, NEEDED):
        for seen in (names, names[1:2], []):
            packet = server.packet(wanted, WANTED - wanted, 7, dict.fromkeys(seen, pose), {"cameras": 0.004})
            found.append(packet[8:])
    server.close()
    return [_CHOICE.pack(place, 1) + packet for place, packet in enumerate(found)]


TARGET = Target(check, _seeds, _mended, longest=1024)
