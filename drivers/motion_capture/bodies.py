"""Bodies of one instant, as motion capture streams them, and what they are called on topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Matrix

MOST_BODIES = 256
"""More of one stream are not published: a server that makes up names must not fill the graph."""
_LONGEST_NAME = 80
_LARGEST_NORM_ERROR = 0.05
_FARTHEST_M = 1e5
_TOPIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", re.ASCII)


@dataclass(frozen=True)
class BodyPoses:
    """Poses of B bodies at one instant, in the order of `names`.

    Attributes
    ----------
    stamp_ns
        When the cameras exposed, ns since the epoch by this host's clock.
    names
        (B,) as the stream has them.
    positions_m
        (B, 3) in the world, z up.
    quaternions_xyzw
        (B, 4) from the body to the world.
    tracked
        (B,) whether the body was seen; where not, its pose is of no use.
    """

    stamp_ns: int
    names: tuple[str, ...]
    positions_m: Matrix
    quaternions_xyzw: Matrix
    tracked: NDArray[np.bool_]


def plausible(positions_m: Matrix, quaternions_xyzw: Matrix) -> NDArray[np.bool_]:
    """(B,) which of the poses can be some: finite, within 100 km, a quaternion of length one."""
    with np.errstate(all="ignore"):  # whatever a stream holds
        length = np.sqrt(np.einsum("ij,ij->i", quaternions_xyzw, quaternions_xyzw))
        found: NDArray[np.bool_] = (np.abs(length - 1.0) < _LARGEST_NORM_ERROR) & (
            np.abs(positions_m) < _FARTHEST_M
        ).all(axis=1)
    return found


def topic_name(name: str) -> str:
    """A stream's name as part of a topic's: letters, digits and single underscores, a letter first."""
    words = re.findall(r"[A-Za-z0-9]+", name[:_LONGEST_NAME], re.ASCII)
    joined = "_".join(words)
    return joined if joined[:1].isalpha() else f"body_{joined}".rstrip("_")


def parsed_names(bodies: Iterable[str]) -> dict[str, str]:
    """Topic's name by the stream's, of a parameter such as `["RigidBody1=link_1", "base"]`.

    Raises
    ------
    ValueError
        With what is wrong: a name twice, one that can be no part of a topic's name.
    """
    found: dict[str, str] = {}
    for entry in bodies:
        stream, separator, topic = entry.rpartition("=")
        if not separator:
            stream, topic = entry, topic_name(entry)
        if not stream or not _TOPIC_NAME.fullmatch(topic):
            raise ValueError(f"{entry!r}, allowed: STREAM_NAME=topic_name, of letters, digits and single underscores")
        if stream in found or topic in found.values():
            raise ValueError(f"{entry!r}, allowed: each body and each topic once")
        found[stream] = topic
    return found


def chosen_names(chosen: Mapping[str, str], streamed: Sequence[str]) -> dict[str, str]:
    """Topic's name of each streamed body that is to be published: those chosen, or all under names of their own."""
    if chosen:
        return {name: chosen[name] for name in streamed if name in chosen}
    found: dict[str, str] = {}
    for name in dict.fromkeys(streamed[:MOST_BODIES]):
        topic = own = topic_name(name)
        number = 2
        while topic in found.values():
            topic = f"{own}_{number}"
            number += 1
        found[name] = topic
    return found
