"""NatNet messages with what the emulated server never sends: markers, skeleton, force plate, device, camera, asset."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from drivers.emulators import natnet
from drivers.emulators.natnet import i32, rigid_body, rigid_body_model, text
from drivers.motion_capture.optitrack_protocol import Frame, Version


def models(names: Sequence[str], version: Version) -> bytes:
    """Message 5, with those that the version has."""
    bones = b"".join(rigid_body_model(f"bone {number}", number, version, markers=3) for number in (1, 2))
    parts = [(0, text("set") + i32(2) + 2 * text("Marker"))]
    parts += [(2, text("skeleton") + i32(7, 2) + bones), (5, text("camera") + struct.pack("<7f", *range(7)))]
    if version >= (3, 0):
        channels = i32(2) + text("Fx") + text("Fy")
        plate = i32(1) + text("serial") + struct.pack("<161f", *range(161)) + i32(0, 0) + channels
        parts.append((3, plate))
        parts.append((4, i32(1) + text("device") + text("serial") + i32(0, 0) + channels))
    if version >= (4, 1):
        marker = text("m") + struct.pack("<i4fH", 1, 0.0, 0.0, 0.0, 0.01, 0)
        parts.append((6, text("asset") + i32(1, 3, 1) + rigid_body_model("part", 1, version) + i32(1) + marker))
    return natnet.models(names, version, parts)


def frame(sent: Frame, version: Version) -> bytes:
    """Message 7, one of each."""
    bone = rigid_body(version, 1, (*6 * (0.0,), 1.0), True, markers=2)
    part = struct.pack("<i8fH", 1, *range(8), 1)
    marker = struct.pack("<i4fHf", 1, *range(4), 0, 0.0)
    channels = i32(1, 2) + 2 * (i32(3) + struct.pack("<3f", *range(3)))
    others = {
        "marker sets": text("set") + i32(2) + struct.pack("<6f", *range(6)),
        "other markers": struct.pack("<3f", *range(3)),
        "skeletons": i32(7, 2) + 2 * bone,
        "assets": i32(1, 1) + part + i32(1) + marker,
        "labelled markers": marker[: 20 + (2 if version >= (2, 6) else 0) + (4 if version >= (3, 0) else 0)],
        "force plates": channels,
        "devices": channels,
    }
    return natnet.frame(sent, version, others)
