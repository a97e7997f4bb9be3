"""Model definitions of NatNet (message 5): the rigid bodies by name and number; all else is passed over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from drivers.optitrack.protocol import NatNetFault, Reader, Version


class Model(IntEnum):
    """Kind of a description."""

    MARKER_SET = 0
    RIGID_BODY = 1
    SKELETON = 2
    FORCE_PLATE = 3
    DEVICE = 4
    CAMERA = 5
    ASSET = 6


@dataclass(frozen=True)
class RigidBody:
    """A body of the stream.

    Attributes
    ----------
    number
        That its frames name it by.
    parent
        Number of the body that it hangs on; none: -1 or 0.
    """

    name: str
    number: int
    parent: int = -1


def parse(data: bytes, version: Version) -> tuple[RigidBody, ...]:
    """The rigid bodies, without those of skeletons and assets, of a message of kind 5.

    Raises
    ------
    NatNetFault
        Its lengths or counts are not of this version; before 4.1 also a kind of model that is not known.
    """
    reader = Reader(data)
    found: list[RigidBody] = []
    for _ in range(reader.count(8)):
        kind = reader.i32()
        end = reader.section() if version >= (4, 1) else None
        if kind == Model.RIGID_BODY:
            found.append(_rigid_body(reader, version))
        elif end is None:
            _pass(reader, kind, version)
        if end is not None:
            if reader.place > end:
                raise NatNetFault("model beyond its section")
            reader.place = end
    return tuple(found)


def _rigid_body(reader: Reader, version: Version) -> RigidBody:
    name = reader.text()
    number, parent = reader.i32(), reader.i32()
    reader.skip(12 + (16 if version >= (4, 2) else 0))  # offset from the parent, turn
    if version >= (3, 0):
        markers = reader.count(16)
        reader.skip(16 * markers)  # positions, labels
        for _ in range(markers if version >= (4, 0) else 0):
            reader.text()
    return RigidBody(name, number, parent)


def _pass(reader: Reader, kind: int, version: Version) -> None:
    """Pass a model before 4.1."""
    if kind == Model.MARKER_SET:
        reader.text()
        _pass_texts(reader)
    elif kind == Model.SKELETON:
        reader.text()
        reader.skip(4)
        for _ in range(reader.count(21)):
            _rigid_body(reader, version)
    elif kind == Model.FORCE_PLATE and version >= (3, 0):
        reader.skip(4)
        reader.text()
        reader.skip(20 + 4 * 144 + 4 * 12 + 8)  # sizes and place, calibration, four corners, kinds
        _pass_texts(reader)
    elif kind == Model.DEVICE and version >= (3, 0):
        reader.skip(4)
        reader.text()
        reader.text()
        reader.skip(8)
        _pass_texts(reader)
    elif kind == Model.CAMERA:
        reader.text()
        reader.skip(28)
    else:
        raise NatNetFault("model of an unknown kind")


def _pass_texts(reader: Reader) -> None:
    for _ in range(reader.count(1)):
        reader.text()
