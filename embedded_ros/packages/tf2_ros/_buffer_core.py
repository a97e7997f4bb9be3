"""The tree of frames over time."""

from __future__ import annotations

import bisect
import math
import threading
from dataclasses import dataclass, field

from tf2_ros._rotation import IDENTITY, Rigid, composed, interpolated, inverted, normalized
from tf2_ros.exceptions import (
    ConnectivityException,
    ExtrapolationException,
    InvalidArgumentException,
    LookupException,
)

_LONGEST_PATH = 1000


@dataclass
class _Frame:
    """Transforms from a frame to its parents: `stamps` in ns, sorted; a static frame has one, for all times."""

    static: bool
    stamps: list[int] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    transforms: list[Rigid] = field(default_factory=list)


class BufferCore:
    """Remembers transforms for a time and answers for any pair of frames.

    Parameters
    ----------
    cache_time_ns
        How long back from the latest transform of a frame others are kept, ns.
    """

    def __init__(self, cache_time_ns: int) -> None:
        self._cache_time_ns = cache_time_ns
        self._frames: dict[str, _Frame] = {}
        self._known: dict[str, None] = {}
        self._lock = threading.RLock()

    def clear(self) -> None:
        """Forget everything that is not static."""
        with self._lock:
            self._frames = {name: frame for name, frame in self._frames.items() if frame.static}

    def insert(self, parent: str, child: str, stamp_ns: int, transform: Rigid, *, static: bool) -> str:
        """Remember a transform; returns why it was left out, or ""."""
        parent, child = parent.removeprefix("/"), child.removeprefix("/")
        if not parent or not child or parent == child:
            return f"a transform from '{parent}' to '{child}': two different names are needed"
        translation, quaternion = transform
        if not all(map(math.isfinite, (*translation, *quaternion))):
            return f"the transform from {parent} to {child} holds numbers that are not finite"
        if not any(quaternion):
            return f"the quaternion from {parent} to {child} is zero"
        transform = translation, normalized(quaternion)
        with self._lock:
            self._known.setdefault(parent)
            self._known.setdefault(child)
            frame = self._frames.get(child)
            if frame is None or frame.static != static:
                frame = self._frames[child] = _Frame(static)
            if static:
                frame.stamps, frame.parents, frame.transforms = [stamp_ns], [parent], [transform]
                return ""
            return self._insert_moving(frame, parent, child, stamp_ns, transform)

    def _insert_moving(self, frame: _Frame, parent: str, child: str, stamp_ns: int, transform: Rigid) -> str:
        if frame.stamps and stamp_ns + self._cache_time_ns < frame.stamps[-1]:
            late_s = (frame.stamps[-1] - stamp_ns) * 1e-9
            return f"the transform from {parent} to {child} is {late_s:.3f} s older than the latest"
        index = bisect.bisect_left(frame.stamps, stamp_ns)
        if index < len(frame.stamps) and frame.stamps[index] == stamp_ns:
            return f"the transform from {parent} to {child} at {stamp_ns * 1e-9:.9f} s is given twice"
        frame.stamps.insert(index, stamp_ns)
        frame.parents.insert(index, parent)
        frame.transforms.insert(index, transform)
        outdated = bisect.bisect_left(frame.stamps, frame.stamps[-1] - self._cache_time_ns)
        if outdated:
            del frame.stamps[:outdated], frame.parents[:outdated], frame.transforms[:outdated]
        return ""

    def lookup(self, target: str, source: str, stamp_ns: int) -> tuple[Rigid, int]:
        """Transform of coordinates in `source` into `target`, and its stamp; stamp 0 asks for the latest common one.

        Raises
        ------
        InvalidArgumentException, LookupException, ConnectivityException, ExtrapolationException
        """
        with self._lock:
            self._check(target, "target_frame")
            self._check(source, "source_frame")
            if target == source:
                return IDENTITY, stamp_ns or self._latest(source)
            if stamp_ns == 0:
                stamp_ns = self._latest_common(target, source)
            up_source = self._path(source, stamp_ns, until=target)
            if target in up_source:
                return up_source[target], stamp_ns
            up_target = self._path(target, stamp_ns, until=source)
            for frame, source_to_frame in up_source.items():
                if frame in up_target:
                    return composed(inverted(up_target[frame]), source_to_frame), stamp_ns
            raise self._unconnected(target, source, stamp_ns)

    def _unconnected(self, target: str, source: str, stamp_ns: int) -> Exception:
        """Why two paths do not meet: one ended for want of data at that time, or the frames are not of one tree."""
        for frame in (source, target):
            self._path(frame, stamp_ns, strict=True)
        return ConnectivityException(
            f"Could not find a connection between '{target}' and '{source}' because they are not part of the same tree."
        )

    def _check(self, name: str, argument: str) -> None:
        if not name:
            raise InvalidArgumentException(f"{argument} is empty")
        if name.startswith("/"):
            raise InvalidArgumentException(f"{argument} '{name}' must not begin with '/'")
        if name not in self._known:
            raise LookupException(f'"{name}" passed to lookupTransform argument {argument} does not exist.')

    def _latest(self, name: str) -> int:
        frame = self._frames.get(name)
        return frame.stamps[-1] if frame is not None and not frame.static else 0

    def _latest_common(self, target: str, source: str) -> int:
        """Latest stamp at which the whole path is known; 0 if all of it is static."""
        ways = []
        for start in (source, target):
            way = {start: 2**63}
            name, oldest = start, 2**63
            while (frame := self._frames.get(name)) is not None and len(way) < _LONGEST_PATH:
                if not frame.static:
                    oldest = min(oldest, frame.stamps[-1])
                name = frame.parents[-1]
                if name in way:
                    break
                way[name] = oldest
            ways.append(way)
        for name, oldest in ways[0].items():
            if name in ways[1]:
                latest = min(oldest, ways[1][name])
                return 0 if latest == 2**63 else latest
        raise ConnectivityException(
            f"Could not find a connection between '{target}' and '{source}' because they are not part of the same tree."
        )

    def _path(self, start: str, stamp_ns: int, until: str = "", *, strict: bool = False) -> dict[str, Rigid]:
        """Transforms of `start` into each of its ancestors at a time, itself first.

        Where the time is not known on the way the path ends; `strict` raises ExtrapolationException instead.
        """
        path = {start: IDENTITY}
        name, transform = start, IDENTITY
        while name != until and (frame := self._frames.get(name)) is not None:
            try:
                parent, step = self._at(name, frame, stamp_ns)
            except ExtrapolationException:
                if strict:
                    raise
                break
            if parent in path or len(path) > _LONGEST_PATH:
                raise LookupException(f"the tree of frames has a loop through '{parent}'")
            name, transform = parent, composed(step, transform)
            path[name] = transform
        return path

    def _at(self, name: str, frame: _Frame, stamp_ns: int) -> tuple[str, Rigid]:
        if frame.static:
            return frame.parents[0], frame.transforms[0]
        index = bisect.bisect_left(frame.stamps, stamp_ns)
        if index < len(frame.stamps) and frame.stamps[index] == stamp_ns:
            return frame.parents[index], frame.transforms[index]
        if 0 < index < len(frame.stamps):
            before = index - 1
            if frame.parents[before] != frame.parents[index]:
                # The frame changed its parent in between: nothing is known of the way, so the earlier one holds.
                return frame.parents[before], frame.transforms[before]
            span_ns = frame.stamps[index] - frame.stamps[before]
            fraction = (stamp_ns - frame.stamps[before]) / span_ns
            return frame.parents[index], interpolated(frame.transforms[before], frame.transforms[index], fraction)
        what = "past" if index == 0 else "future"
        edge = frame.stamps[0 if index == 0 else -1]
        raise ExtrapolationException(
            f"Lookup would require extrapolation into the {what}.  Requested time {stamp_ns * 1e-9:.6f} but the "
            f"{'earliest' if index == 0 else 'latest'} data is at time {edge * 1e-9:.6f}, when looking up frame "
            f"[{name}] with parent [{frame.parents[0 if index == 0 else -1]}]"
        )
