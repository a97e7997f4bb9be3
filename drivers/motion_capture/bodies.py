"""What drivers of motion capture share: axes, poses of bodies, what they are called on topics, parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import bounded, non_negative, parameter
from onboard_estimation.base.measurement import Matrix

# From the axes of a stream to the suite's world, z up.
#
# A stream with y up is turned by a quarter about x: (x, y, z) becomes (x, -z, y). The bodies' own axes turn along, so
# that a body which is not turned in the one world is not in the other. It is what the servers themselves do where they
# are set to stream with z up, so poses do not depend on that setting, if `up_axis` says what it is.

UP_AXES = ("y", "z")
_Y_AND_Z_SWAPPED = np.array([0, 2, 1, 3, 5, 4, 6])
_SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0])
_LARGEST_ERROR = 0.02
_IDENTITY = np.eye(4).ravel()


def to_world(poses: Matrix, up_axis: str) -> Matrix:
    """Poses (B, 7) of a stream with that one of `UP_AXES` up in the world; only places and signs change."""
    return poses if up_axis == "z" else poses.take(_Y_AND_Z_SWAPPED, axis=1) * _SIGNS


def to_stream(poses: Matrix, up_axis: str) -> Matrix:
    """The inverse, for emulators."""
    return poses if up_axis == "z" else (poses * _SIGNS).take(_Y_AND_Z_SWAPPED, axis=1)


@np.errstate(all="ignore")  # whatever a stream holds
def quaternions_of(matrices: NDArray[np.float64]) -> Matrix:
    """(B, 4) unit quaternions xyzw, w not negative, of rotations (B, 3, 3); NaN where a matrix is none.

    Four times the outer product of the quaternion with itself is linear in the matrix. Of its rows, all of them the
    quaternion but for their lengths, that with the largest diagonal is taken, which is never near zero (Shepperd,
    1978). A matrix that is mirrored or no rotation has another such product than the quaternion that it leads to.
    """
    outer = matrices.reshape(-1, 9) @ _OUTER + _IDENTITY
    largest = outer[:, ::5].argmax(axis=1)
    found: Matrix = outer.reshape(-1, 4).take(np.arange(0, 4 * len(outer), 4) + largest, axis=0)
    found /= np.copysign(np.sqrt(np.einsum("bi,bi->b", found, found)), found[:, 3])[:, None]
    outer -= (4.0 * found[:, :, None] @ found[:, None, :]).reshape(-1, 16)
    if not np.vdot(outer, outer) < _LARGEST_ERROR**2:
        found[~(np.abs(outer).max(axis=1) < _LARGEST_ERROR)] = np.nan
    return found


def _outer_map() -> NDArray[np.float64]:
    """(9, 16) from a rotation to four times the outer product of its quaternion, less the identity."""
    each, found = np.eye(9).reshape(9, 3, 3), np.zeros((9, 4, 4))
    turned, trace = each.transpose(0, 2, 1), np.trace(each, axis1=1, axis2=2)
    found[:, :3, :3] = each + turned - trace[:, None, None] * np.eye(3)
    found[:, :3, 3] = found[:, 3, :3] = (each - turned)[:, [2, 0, 1], [1, 2, 0]]
    found[:, 3, 3] = trace
    return found.reshape(9, 16)


_OUTER = _outer_map()


# Bodies of one instant, as motion capture streams them, and what they are called on topics.

MOST_BODIES = 256
"""More of one stream are not published: a server that makes up names must not fill the graph."""
_LONGEST_NAME = 80
_LARGEST_NORM_ERROR = 0.05
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
    poses
        (B, 7): position in the world, z up, m; quaternion xyzw from the body to the world.
    tracked
        (B,) whether the body was seen; where not, its pose is of no use.
    """

    stamp_ns: int
    names: tuple[str, ...]
    poses: Matrix
    tracked: NDArray[np.bool_]


@np.errstate(all="ignore")  # whatever a stream holds
def plausible(poses: Matrix, farthest_m: float) -> NDArray[np.bool_]:
    """(B,) which of poses (B, 7) can be some: finite, no farther from the origin, a quaternion of length one."""
    distance2_m2, length2 = np.add.reduceat(poses * poses, (0, 3), axis=1).T
    return (np.abs(np.sqrt(length2) - 1.0) < _LARGEST_NORM_ERROR) & (distance2_m2 <= farthest_m**2)


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


# Parameters that all nodes of motion capture have.


@dataclass(frozen=True)
class TruthConfiguration:
    """What becomes of the bodies of a stream; a driver's own configuration derives from it."""

    up_axis: str = parameter("z", "of the stream, as its server is set", choices=UP_AXES)
    bodies: tuple[str, ...] = parameter(
        (), 'those to publish, "STREAM_NAME=topic_name"; empty: all, under names of their own'
    )
    largest_distance_m: float = bounded(100.0, 0.1, 1e5, "from the stream's origin; a pose beyond is none", "m")
    silent_s: float = bounded(1.0, 0.05, 60.0, "a server without frames for so long is said to be silent", "s")

    def faults(self) -> Iterable[str]:
        """Names that do not go together."""
        try:
            parsed_names(self.bodies)
        except ValueError as error:
            yield f"bodies: {error}"


# Parameters that both emulators of motion capture have.


@dataclass(frozen=True)
class TruthEmulatorConfiguration:
    """Where the truth is from, how it is streamed, and what goes wrong; nothing by default."""

    bodies: tuple[str, ...] = parameter((), "names of the bodies; empty: all that there are")
    noise_m: float = non_negative(
        1e-5, "standard deviation of a position; without, a body at rest is one that the driver takes for frozen", "m"
    )
    seed: int = parameter(0, "of noise and faults", minimum=0)
    up_axis: str = parameter("z", "of the stream", choices=UP_AXES)
    latency_s: float = bounded(0.005, 0.0, 1.0, "from the middle of the exposure to the sending", "s")
    drop_rate: float = bounded(0.0, 0.0, 1.0, "share of the frames that are not sent")
    occlusion_rate: float = bounded(0.0, 0.0, 1.0, "share of the poses that are not seen")
    restart_every_s: float = non_negative(
        0.0, "the server restarts so often: its clock, or numbers, begin anew; 0: never", "s"
    )

    def seen(self, poses: BodyPoses, chance: np.random.Generator) -> BodyPoses | None:
        """Poses as they are streamed, without those that are occluded; None: the frame is not sent."""
        tracked = poses.tracked & (chance.random(len(poses.names)) >= self.occlusion_rate)
        if chance.random() < self.drop_rate:
            return None
        return replace(poses, poses=to_stream(poses.poses, self.up_axis), tracked=tracked)

    def faults(self) -> Iterable[str]:
        """Names that cannot be."""
        if len(set(self.bodies)) < len(self.bodies) or "" in self.bodies:
            yield f"bodies: {', '.join(self.bodies)}, allowed: each once, none empty"
