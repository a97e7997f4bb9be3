"""Frames and servers for tests of OptiTrack's driver."""

from __future__ import annotations

import socket

import numpy as np

from drivers.motion_capture.bodies import BodyPoses
from drivers.motion_capture.optitrack_protocol import Frame

LOOPBACK = "127.0.0.1"
NAMES = ("base", "link 1", "link 2")
TIME_S, TICKS = 12.5, (2**40 + 1, 2**40 + 2, 2**40 + 3)


def poses(count: int = len(NAMES), stamp_ns: int = 0, seed: int = 1) -> BodyPoses:
    """Of bodies, with numbers that float32 has."""
    rng = np.random.default_rng(seed)
    quaternions = rng.normal(size=(count, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    names = tuple(NAMES[place] if place < len(NAMES) else f"body_{place}" for place in range(count))
    positions = rng.normal(size=(count, 3)).astype(np.float32).astype(np.float64)
    quaternions = quaternions.astype(np.float32).astype(np.float64)
    return BodyPoses(stamp_ns, names, np.hstack([positions, quaternions]), np.ones(count, dtype=np.bool_))


def frame_of(poses: BodyPoses, number: int = 1) -> Frame:
    """With models that have changed."""
    ids = np.arange(1, len(poses.names) + 1, dtype=np.int32)
    return Frame(number, ids, poses.poses, poses.tracked, TIME_S, TICKS, models_changed=True)


def free_ports() -> tuple[int, int]:
    """Two UDP ports that nobody has at the moment."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second,
    ):
        first.bind((LOOPBACK, 0))
        second.bind((LOOPBACK, 0))
        return first.getsockname()[1], second.getsockname()[1]
