"""Readers of `drivers.optitrack`: header, server info, echo, frames and models of every version.

The first byte of an input chooses the version, the rest is a message.
"""

from __future__ import annotations

import struct
from random import Random

import numpy as np

from benchmarks.fuzz import natnet_others
from benchmarks.fuzz.target import Target
from drivers.emulators import natnet
from drivers.emulators.natnet import Times
from drivers.motion_capture.bodies import BodyPoses, plausible
from drivers.optitrack import protocol
from drivers.optitrack.protocol import VERSIONS, Kind, NatNetFault, ServerInfo, Version

_LEAST_BODY_BYTES, _LEAST_MODEL_BYTES = 36, 25
_LONGEST_NAME = 256
_REASONS = 12
_reasons: set[str] = set()


def check(data: bytes) -> None:
    """What is read of a message is no more than it has bytes for; what cannot be is refused in a few words."""
    version, message = VERSIONS[data[0] % len(VERSIONS)] if data else VERSIONS[0], data[1:]
    try:
        kind, content = protocol.payload(message)
        assert len(content) <= len(message)
        _check_content(kind, content, version)
    except NatNetFault as fault:
        _reasons.add(str(fault))
        assert len(_reasons) <= _REASONS


def _check_content(kind: int, content: bytes, version: Version) -> None:
    if kind == Kind.SERVER_INFO:
        info = protocol.server_info(content)
        assert (info.clock_hz is not None) == (info.version >= (3, 0))
    elif kind == Kind.ECHO:
        assert min(protocol.echo(content)) >= 0
    elif kind == Kind.MODELS:
        models = protocol.rigid_bodies(content, version)
        assert len(models) * _LEAST_MODEL_BYTES <= len(content)
        assert all(len(model.name) < _LONGEST_NAME for model in models)
    elif kind == Kind.FRAME:
        frame = protocol.parse_frame(content, version)
        bodies = len(frame.ids)
        assert bodies * _LEAST_BODY_BYTES <= len(content)
        assert frame.number >= 0
        assert frame.positions_m.shape == (bodies, 3)
        assert frame.quaternions_xyzw.shape == (bodies, 4)
        assert frame.tracked.shape == plausible(frame.positions_m, frame.quaternions_xyzw).shape == (bodies,)
        assert (frame.exposure_ticks is None) == (version < (3, 0))


def _mended(data: bytes, random: Random) -> bytes:
    """A kind that is read, and a length that is true."""
    content = data[5:]
    kind = random.choice((Kind.FRAME, Kind.FRAME, Kind.MODELS, Kind.MODELS, Kind.SERVER_INFO, Kind.ECHO))
    return data[:1].ljust(1, b"\0") + struct.pack("<HH", kind, len(content)) + content


def _seeds() -> list[bytes]:
    names, poses = ("a",), BodyPoses(1, ("a",), np.zeros((1, 3)), np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([True]))
    found = []
    for place, version in enumerate(VERSIONS):
        info = ServerInfo("", (0, 0, 0, 0), version, 10_000_000, 1511, True, "239.255.42.99")
        echo = protocol.message(Kind.ECHO, bytes(16))
        frame = natnet_others.frame(1, poses, Times(1.0, 2, 3, 4), version)
        models = natnet_others.models(names, version)
        found += [bytes([place]) + one for one in (natnet.server_info(info), echo, frame, models)]
    return found


TARGET = Target(check, _seeds, _mended, longest=1536)
