"""Frames of a server with host times, names and metres, whatever becomes of the connection meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from drivers.motion_capture.axes import Axes, quaternions_of
from drivers.motion_capture.bodies import MOST_BODIES, BodyPoses, plausible
from drivers.motion_capture.health import StreamHealth
from drivers.vicon.configuration import ViconConfiguration
from drivers.vicon.connection import Connection
from drivers.vicon.frame_clock import FrameClock
from drivers.vicon.protocol import StreamError, Subject
from drivers.vicon.session import Frame, Session, body_names
from onboard_estimation.timing.device_clock import DeviceClock

_ANSWERS_WITHIN_S = 5.0


class Receiver:
    """Reads a DataStream server; one that lies is left, and tried again later.

    Parameters
    ----------
    chosen
        The server, and what is known of its stream.
    tell, warn
        Take a sentence where something changes, and where the stream is not as the server tells.

    Attributes
    ----------
    connection, clock
        To the server; that its frames are mapped by.
    health
        Counts.
    repeated
        Frames that came once more.
    invalid
        Poses that were none: not finite, too far, or no rotation.
    names
        Of the bodies that the server knows now: `subject/segment`, or `subject` where that has one segment.
    last_s
        When the last frame came, by the monotonic clock; NaN: none did.
    """

    def __init__(
        self, chosen: ViconConfiguration, tell: Callable[[str], object], warn: Callable[[str], object]
    ) -> None:
        self.connection = Connection(chosen.host, chosen.port, chosen.interface, tell)
        self.clock = FrameClock(chosen.latency_s, warn)
        self._axes, self._tell = Axes(chosen.up_axis), tell
        self.health = StreamHealth()
        self._session = Session()
        self._connections = 0
        self._subjects: tuple[Subject, ...] = ()
        self._places: dict[tuple[int, int], int] = {}
        self._ids: list[tuple[int, int]] | None = None  # of the frame before, and their places
        self._ids_places = np.zeros(0, dtype=np.intp)
        self._are_all = False  # and in the order of the names
        self._last: int | None = None
        self._step = 0
        self.repeated = self.invalid = 0
        self.names: tuple[str, ...] = ()
        self.last_s = math.nan

    @property
    def trouble(self) -> str:
        """Why there is no connection; empty where there is one."""
        return self.connection.trouble

    @property
    def device_clock(self) -> DeviceClock | None:
        """That frames are mapped by now; None: they are not."""
        return self.clock.device_clock

    def figures(self) -> dict[str, float]:
        """For `/diagnostics`, beside its health."""
        return {
            "repeated": self.repeated,
            "invalid_poses": self.invalid,
            "implausible_latencies": self.clock.implausible_latencies,
            "frame_rate_hz": self.clock.rate_hz,
            "clock_jumps": self.clock.jumps,
        }

    def close(self) -> None:
        """Leave the server."""
        self.connection.close()

    def read(self, timeout_s: float) -> list[BodyPoses]:
        """What came, as soon as there is anything; empty after the timeout."""
        data = self.connection.read(timeout_s)
        if self.connection.connections != self._connections:
            self._begin()
        if not data:
            if self.connection.is_open and not self._session.is_answered and self.connection.age_s > _ANSWERS_WITHIN_S:
                self._leave("silent server", f"it says nothing for {_ANSWERS_WITHIN_S:g} s: is it a DataStream server?")
            return []
        found: list[BodyPoses] = []
        try:
            for frame in self._session.feed(data):
                if self._session.subjects is not self._subjects:
                    self._new_subjects()
                self.clock.tell_rates(self._session.rates_hz)
                taken = self._take(frame, self.connection.arrived_ns)
                if taken is not None:
                    found.append(taken)
        except StreamError as error:
            self._leave("no DataStream", f"what comes is no DataStream: {error}")
        if answer := self._session.answer:
            self._session.answer = b""
            self.connection.send(answer)
        return found

    def _begin(self) -> None:
        self._connections = self.connection.connections
        self.health.reconnections = self._connections - 1
        self._session = Session()
        self._subjects = self._session.subjects
        self.clock.reconnected()

    def _leave(self, kind: str, reason: str) -> None:
        self.health.refuse(kind)
        self.connection.lose(reason)

    def _new_subjects(self) -> None:
        self._subjects, self._ids = self._session.subjects, None
        names = body_names(self._session.subjects)
        listed = tuple(dict.fromkeys(names.values()))[:MOST_BODIES]
        by_name = {name: place for place, name in enumerate(listed)}
        self._places = {ids: by_name[name] for ids, name in names.items() if name in by_name}
        if listed != self.names:
            self.health.model_changes += bool(self.names)
            self.names = listed
            self._tell(f"the server knows {', '.join(listed) or 'no subjects'}")

    def _take(self, frame: Frame, received_ns: int) -> BodyPoses | None:
        if self._last == frame.number:
            self.repeated += 1
            return None
        self._count(frame.number)
        self.last_s = time.monotonic()
        stamp_ns = self.clock.stamp_ns(frame.clock_number, frame.latency_s, received_ns)
        if stamp_ns is None:
            self.health.unstamped += 1
            return None
        poses = self._bodies(stamp_ns, frame)
        self.health.take(poses, 1e-9 * (received_ns - stamp_ns))
        return poses

    def _count(self, number: int) -> None:
        """A server that sends every second frame counts by two: the least step is the usual one."""
        self.health.frames += 1
        step = number - self._last if self._last is not None else 0
        if step > 0:
            self._step = min(self._step or step, step)
            self.health.lost += step // self._step - 1
        else:
            self._step = 0
        self._last = number

    def _bodies(self, stamp_ns: int, frame: Frame) -> BodyPoses:
        """Of all bodies, in the order of the names; what is not in the frame is not tracked."""
        ids, values = frame.poses
        count = len(self.names)
        if ids is not self._ids:
            self._ids = ids
            self._ids_places = np.array([self._places.get(one, count) for one in ids], dtype=np.intp)
            self._are_all = np.array_equal(self._ids_places, np.arange(count))
        poses = self._axes.to_world(1e-3 * values["position_mm"], quaternions_of(values["rotation"]))
        good = plausible(*poses)
        invalid = len(good) - int(np.count_nonzero(good))
        if self._are_all and not invalid:
            return BodyPoses(stamp_ns, self.names, *poses, good)
        self.invalid += invalid
        good &= self._ids_places < count
        places = self._ids_places[good]
        found = BodyPoses(stamp_ns, self.names, np.zeros((count, 3)), np.zeros((count, 4)), np.zeros(count, dtype=bool))
        found.positions_m[places], found.quaternions_xyzw[places] = poses[0][good], poses[1][good]
        found.tracked[places] = True
        return found
