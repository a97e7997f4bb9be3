"""What drivers of motion capture share: axes, poses of bodies, what they are called on topics, how a stream fares."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import parameter
from onboard_estimation.base.measurement import Matrix
from onboard_estimation.pipeline.device_clock import DeviceClock
from onboard_estimation.ros.diagnostics import ERROR, OK, STALE, WARN
from onboard_estimation.ros.transforms import AUTOMATIC

# From the axes of a stream to the suite's world, z up.
#
# A stream with y up is turned by a quarter about x: (x, y, z) becomes (x, -z, y). The bodies' own axes turn along, so
# that a body which is not turned in the one world is not in the other. It is what the servers themselves do where they
# are set to stream with z up, so poses do not depend on that setting, if `up_axis` says what it is.

UP_AXES = ("y", "z")
_LARGEST_ERROR = 0.02
_IDENTITY = np.eye(4).ravel()


class Axes:
    """Turns poses of a stream with that one of `UP_AXES` up."""

    def __init__(self, up_axis: str) -> None:
        self._is_turned = up_axis == "y"

    def to_world(self, positions_m: Matrix, quaternions_xyzw: Matrix) -> tuple[Matrix, Matrix]:
        """Positions (B, 3) and quaternions (B, 4) of the stream in the world; only places and signs change."""
        return self._turned(positions_m, quaternions_xyzw, 1.0)

    def to_stream(self, positions_m: Matrix, quaternions_xyzw: Matrix) -> tuple[Matrix, Matrix]:
        """The inverse, for emulators."""
        return self._turned(positions_m, quaternions_xyzw, -1.0)

    def _turned(self, positions_m: Matrix, quaternions_xyzw: Matrix, sign: float) -> tuple[Matrix, Matrix]:
        if not self._is_turned:
            return positions_m, quaternions_xyzw
        x, y, z = positions_m.T
        qx, qy, qz, qw = quaternions_xyzw.T
        return np.column_stack([x, -sign * z, sign * y]), np.column_stack([qx, -sign * qz, sign * qy, qw])


def quaternions_of(matrices: NDArray[np.float64]) -> Matrix:
    """(B, 4) unit quaternions xyzw, w not negative, of rotations (B, 3, 3); NaN where a matrix is none.

    Four times the outer product of the quaternion with itself is linear in the matrix. Of its rows, all of them the
    quaternion but for their lengths, that with the largest diagonal is taken, which is never near zero (Shepperd,
    1978). A matrix that is mirrored or no rotation has another such product than the quaternion that it leads to.
    """
    with np.errstate(all="ignore"):  # whatever a stream holds
        outer = matrices.reshape(-1, 9) @ _OUTER + _IDENTITY
        largest = outer[:, ::5].argmax(axis=1)
        found: Matrix = outer.reshape(-1, 4, 4)[np.arange(len(outer)), largest]
        found /= np.copysign(np.sqrt(np.einsum("bi,bi->b", found, found)), found[:, 3])[:, None]
        outer -= np.einsum("bi,bj->bij", 4.0 * found, found).reshape(-1, 16)
        is_rotation = np.abs(outer, out=outer).max(axis=1) < _LARGEST_ERROR
    if not is_rotation.all():
        found[~is_rotation] = np.nan
    return found


def _outer_map() -> NDArray[np.float64]:
    """(9, 16) from a rotation to four times the outer product of its quaternion, less the identity."""
    found = np.zeros((3, 3, 4, 4))
    for axis in range(3):
        np.fill_diagonal(found[axis, axis], -1.0)
        found[axis, axis, axis, axis] = found[axis, axis, 3, 3] = 1.0
        one, other = (axis + 1) % 3, (axis + 2) % 3
        for row, column, sign in ((one, other, -1.0), (other, one, 1.0)):
            found[row, column, one, other] = found[row, column, other, one] = 1.0
            found[row, column, axis, 3] = found[row, column, 3, axis] = sign
    return found.reshape(9, 16)


_OUTER = _outer_map()


# Bodies of one instant, as motion capture streams them, and what they are called on topics.

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


def placed(
    stamp_ns: int,
    names: tuple[str, ...],
    places: NDArray[np.intp],
    positions_m: Matrix,
    quaternions_xyzw: Matrix,
    tracked: NDArray[np.bool_],
) -> BodyPoses:
    """Poses of K rows as those of the bodies whose `places` (K,) among the names are told, beyond them: of none."""
    count = len(names)
    if np.array_equal(places, np.arange(count)):
        return BodyPoses(stamp_ns, names, positions_m, quaternions_xyzw, tracked)
    found = BodyPoses(stamp_ns, names, np.zeros((count, 3)), np.zeros((count, 4)), np.zeros(count, dtype=np.bool_))
    kept = tracked & (places < count)
    at = places[kept]
    found.positions_m[at], found.quaternions_xyzw[at] = positions_m[kept], quaternions_xyzw[kept]
    found.tracked[at] = True
    return found


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


# Parameters that all nodes of motion capture have.


@dataclass(frozen=True)
class TruthConfiguration:
    """What becomes of the bodies of a stream; a driver's own configuration derives from it."""

    up_axis: str = parameter("z", "of the stream, as its server is set", choices=UP_AXES)
    bodies: tuple[str, ...] = parameter(
        (), 'those to publish, "STREAM_NAME=topic_name"; empty: all, under names of their own'
    )
    publish_tf: bool = parameter(False, "publish world -> truth/<body>; the node markers does so too")
    frame_prefix: str = parameter(AUTOMATIC, 'before the frames of tf; "auto": the node\'s namespace')

    def faults(self) -> Iterable[str]:
        """Names that do not go together."""
        try:
            parsed_names(self.bodies)
        except ValueError as error:
            yield f"bodies: {error}"


# How a stream of motion capture fares, for `/diagnostics`.


class StreamHealth:
    """Counts of one stream since the start, and its report.

    Attributes
    ----------
    frames, lost, late
        Frames that came; missing by their numbers; whose number was before that of one that had come.
    reconnections, model_changes
        How often the server, or its set of bodies, was another than before.
    unstamped
        Frames whose time could not be mapped: left out, or stamped by their arrival, as the driver says.
    unreadable
        Messages left out, by reason.
    number
        Of the newest frame; None: the next one's follows none, the server is another or was asked anew.
    """

    def __init__(self) -> None:
        self.frames = self.lost = self.late = self.reconnections = self.model_changes = self.unstamped = 0
        self.unreadable: dict[str, int] = {}
        self.number: int | None = None
        self._names: tuple[str, ...] = ()
        self._occluded = np.zeros(0, dtype=np.int64)
        self._since = self._occluded
        self._latency_s, self._largest_latency_s = math.nan, math.nan
        self._before: dict[str, float] = {}
        self._reported_s = time.monotonic()

    def refuse(self, reason: str) -> None:
        """Count a message that could not be read; `reason` is one of a few words of the program's own."""
        self.unreadable[reason] = self.unreadable.get(reason, 0) + 1

    def count(self, number: int) -> bool:
        """Count a frame by its number; whether it is newer than those before."""
        self.frames += 1
        if self.number is not None:
            if number <= self.number:
                self.late += 1
                return False
            self.lost += number - self.number - 1
        self.number = number
        return True

    def take(self, poses: BodyPoses, latency_s: float) -> None:
        """A frame that goes out; the latency is from exposure to here."""
        if poses.names != self._names:
            self._names = poses.names
            self._occluded = np.zeros(len(poses.names), dtype=np.int64)
            self._since = self._occluded.copy()
        self._occluded += ~poses.tracked
        self._latency_s = latency_s
        self._largest_latency_s = max(latency_s, self._largest_latency_s) if self._frames_since() else latency_s

    def statuses(
        self, status: Callable[..., Any], trouble: str, clock: DeviceClock | None, more: Mapping[str, float]
    ) -> list[Any]:
        """Since the last call: one for the stream, one for each of its bodies.

        Parameters
        ----------
        status
            Makes one, see `DriverNode.status`.
        trouble
            Empty where the stream runs.
        """
        now_s = time.monotonic()
        frames, period_s = self._frames_since(), max(now_s - self._reported_s, 1e-3)
        values = self._values(frames / period_s, clock) | dict(more)
        level, text = self._state(trouble, values, frames)
        statuses = [status("stream", level, text, values)]
        for body, count, before in zip(self._names, self._occluded.tolist(), self._since.tolist(), strict=True):
            missed = count - before
            well = OK if not missed else STALE if missed >= frames else WARN
            words = f"not seen in {missed} of {max(frames, missed)} frames" if missed else "tracked"
            statuses.append(status(body, well, words, {"occluded": count}))
        self._before, self._since, self._reported_s = values, self._occluded.copy(), now_s
        return statuses

    def _frames_since(self) -> int:
        return self.frames - int(self._before.get("frames", 0))

    def _values(self, rate_hz: float, clock: DeviceClock | None) -> dict[str, float]:
        counts = ("frames", "lost", "late", "unstamped", "reconnections", "model_changes")
        values: dict[str, float] = {name: getattr(self, name) for name in counts}
        latencies = {"latency_ms": 1e3 * self._latency_s, "largest_latency_ms": 1e3 * self._largest_latency_s}
        values |= {"rate_hz": rate_hz, **latencies}
        if clock is not None:
            values |= {"clock_skew_ppm": clock.skew_ppm, "clock_stddev_us": 1e6 * clock.stddev_s}
            values |= {"clock_jumps": clock.jumps}
        return values | {f"unreadable_{reason.replace(' ', '_')}": n for reason, n in self.unreadable.items()}

    def _state(self, trouble: str, now: Mapping[str, float], frames: int) -> tuple[bytes, str]:
        if trouble:
            return ERROR, trouble
        if not frames:
            return STALE, "no frame since the last report"
        told = {
            key: count - self._before.get(key, 0.0)
            for key, count in now.items()
            if key in ("lost", "late", "unstamped", "reconnections") or key.startswith("unreadable")
        }
        wrong = ", ".join(f"{count:.0f} {key}" for key, count in told.items() if count)
        text = f"{now['rate_hz']:.1f} frames a second, {len(self._names)} bodies"
        return (WARN, f"{text}; {wrong}") if wrong else (OK, text)


# Parameters that both emulators of motion capture have.


@dataclass(frozen=True)
class TruthEmulatorConfiguration:
    """Where the truth is from."""

    bodies: tuple[str, ...] = parameter((), "names of the bodies; empty: all that there are")
    bag: str = parameter("", 'recording whose ground_truth/<body>/pose is streamed; "": emulated_truth/<body>/pose is')

    def faults(self) -> Iterable[str]:
        """Names that cannot be."""
        if len(set(self.bodies)) < len(self.bodies) or "" in self.bodies:
            yield f"bodies: {', '.join(self.bodies)}, allowed: each once, none empty"
