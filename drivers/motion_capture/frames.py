"""Frames of bodies, as a motion capture system streams them, in the world's axes: z up, right-handed, metres."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

UP_AXES = ("z", "y")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)


class CaptureFrame(NamedTuple):
    """All bodies at one instant.

    Attributes
    ----------
    number
        By which the system counts its frames.
    stamp_ns
        Of the exposure's middle, by this host's clock, ns since the epoch.
    names
        Of the B bodies, as the system has them.
    poses
        (B, 7) position (m) and quaternion xyzw, body to world, in the system's axes.
    tracked
        (B,) whether the system saw the body; what stands in `poses` elsewhere means nothing.
    """

    number: int
    stamp_ns: int
    names: tuple[str, ...]
    poses: NDArray[np.float64]
    tracked: NDArray[np.bool_]


def z_up(poses: NDArray[np.float64], up_axis: str) -> NDArray[np.float64]:
    """(B, 7) poses with z up, of those with `up_axis` up.

    With y up, world and bodies alike are turned by 90 degrees about x: what lies along the world's axes in the one does
    so in the other.
    """
    if up_axis == "z":
        return poses
    x, y, z, qx, qy, qz, qw = poses.T
    return np.column_stack([x, -z, y, qx, -qz, qy, qw])


def y_up(poses: NDArray[np.float64]) -> NDArray[np.float64]:
    """(B, 7) poses with y up, of those with z up; for an emulated system."""
    x, y, z, qx, qy, qz, qw = poses.T
    return np.column_stack([x, z, -y, qx, qz, -qy, qw])


def is_pose(poses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(B,) whether (B, 7) are finite, with quaternions of length one to 1 %."""
    lengths = np.linalg.norm(poses[:, 3:], axis=1)
    good: NDArray[np.bool_] = np.isfinite(poses).all(axis=1) & (np.abs(lengths - 1.0) < 0.01)
    return good


def topic_name(name: str) -> str:
    """A body's name as part of a topic's: letters, digits, underscores, no digit first."""
    found = _NOT_IN_NAMES.sub("_", name).strip("_") or "body"
    return f"_{found}" if found[0].isdigit() else found


def named_faults(pairs: Sequence[str]) -> list[str]:
    """What is wrong with `name=topic` pairs, a sentence each."""
    faults, topics = [], set()
    for pair in pairs:
        name, equals, topic = pair.rpartition("=")
        if not (equals and name):
            faults.append(f"bodies: {pair!r} has to be <name in the stream>=<name on topics>, as in 'Robot 1=link_1'")
        elif topic != topic_name(topic):
            faults.append(f"bodies: {topic!r} cannot be part of a topic's name; {topic_name(topic)!r} could")
        elif topic in topics:
            faults.append(f"bodies: two are called {topic!r}")
        topics.add(topic)
    return faults
