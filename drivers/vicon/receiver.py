"""Frames of a server with host times, names and metres, whatever becomes of the connection meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivers.vicon.connection import Connection
from drivers.vicon.frame_clock import FrameClock
from drivers.vicon.protocol import StreamError
from drivers.vicon.session import Frame, Session, body_names

_ANSWERS_WITHIN_S = 5.0
_MUCH_SKEWED = 1e-3
"""Of the product of a rotation matrix and its transpose, from unity."""


class SeenBodies(NamedTuple):
    """Those of a frame that are seen, K of them.

    Attributes
    ----------
    stamp_ns
        Of the exposure, host time.
    names
        `subject/segment`, or `subject` where that has one segment.
    positions_m, rotations
        (K, 3) and (K, 3, 3), in the server's axes.
    """

    stamp_ns: int
    names: list[str]
    positions_m: NDArray[np.float64]
    rotations: NDArray[np.float64]


class Receiver:
    """Reads a DataStream server; one that lies is left, and tried again later.

    Parameters
    ----------
    connection
        To the server.
    clock
        That frames are mapped by.
    tell
        Takes a sentence where something changes.

    Attributes
    ----------
    frames, repeated, lost
        That came, that came once more, and that the server's numbers say did not come.
    lies
        Connections given up because of what came on them.
    invalid
        Poses that were none: not finite, or no rotation.
    names
        Of the bodies that the server knows now.
    latency_s
        As told last, NaN: it was not.
    last_s
        When the last frame came, by the monotonic clock; NaN: none did.
    """

    def __init__(self, connection: Connection, clock: FrameClock, tell: Callable[[str], object]) -> None:
        self.connection, self.clock, self._tell = connection, clock, tell
        self._session = Session()
        self._connections = self._told = 0
        self._names: dict[tuple[int, int], str] = {}
        self._last: int | None = None
        self._step = 0
        self.frames = self.repeated = self.lost = self.lies = self.invalid = 0
        self.names: tuple[str, ...] = ()
        self.latency_s = self.last_s = math.nan

    def read(self, timeout_s: float) -> list[SeenBodies]:
        """What came, as soon as there is anything; empty after the timeout."""
        data = self.connection.read(timeout_s)
        received_ns = time.time_ns()
        if self.connection.connections != self._connections:
            self._begin()
        if not data:
            if self.connection.is_open and not self._session.is_answered and self.connection.age_s > _ANSWERS_WITHIN_S:
                self._leave(f"it says nothing for {_ANSWERS_WITHIN_S:g} s: is it a DataStream server?")
            return []
        try:
            frames = self._session.feed(data)
        except StreamError as error:
            self._leave(f"what comes is no DataStream: {error}")
            return []
        answer = self._session.take_answer()
        if answer:
            self.connection.send(answer)
        if self._session.subjects_told != self._told:
            self._new_subjects()
        self.clock.tell_rates(self._session.rates_hz)
        found = [self._take(frame, received_ns) for frame in frames]
        return [one for one in found if one is not None]

    def _begin(self) -> None:
        self._connections = self.connection.connections
        self._session, self._told = Session(), 0
        self.clock.reconnected()

    def _leave(self, reason: str) -> None:
        self.lies += 1
        self.connection.lose(reason)

    def _new_subjects(self) -> None:
        self._told = self._session.subjects_told
        self._names = body_names(self._session.subjects)
        names = tuple(self._names.values())
        if names != self.names:
            self.names = names
            self._tell(f"the server knows {', '.join(names)}")

    def _take(self, frame: Frame, received_ns: int) -> SeenBodies | None:
        if self._last == frame.number:
            self.repeated += 1
            return None
        self._count(frame.number)
        self.latency_s = math.nan if frame.latency_s is None else frame.latency_s
        self.last_s = time.monotonic()
        stamp_ns = self.clock.stamp_ns(frame.clock_number, frame.latency_s, received_ns)
        return None if stamp_ns is None else self._bodies(stamp_ns, frame)

    def _count(self, number: int) -> None:
        """A server that sends every second frame counts by two: the least step is the usual one."""
        self.frames += 1
        step = number - self._last if self._last is not None else 0
        if step > 0:
            self._step = min(self._step or step, step)
            self.lost += step // self._step - 1
        else:
            self._step = 0
        self._last = number

    def _bodies(self, stamp_ns: int, frame: Frame) -> SeenBodies:
        ids, values = frame.poses
        rotations = values["rotation"]
        products = rotations @ rotations.transpose(0, 2, 1)
        good = (np.abs(products - np.eye(3)) < _MUCH_SKEWED).all((1, 2)) & np.isfinite(values["position_mm"]).all(1)
        names = [self._names.get(one, "") for one in ids]
        if not good.all() or "" in names:
            good &= np.array([bool(name) for name in names], dtype=bool)
            self.invalid += int(len(good) - np.count_nonzero(good))
            values, rotations = values[good], rotations[good]
            names = [name for name, is_good in zip(names, good.tolist(), strict=True) if is_good]
        return SeenBodies(stamp_ns, names, 1e-3 * values["position_mm"], rotations)
