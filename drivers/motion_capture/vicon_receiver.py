"""Frames of a server with host times, names and metres, whatever becomes of the connection meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from drivers.lines import Connection
from drivers.motion_capture.bodies import MOST_BODIES, BodyPoses, TruthConfiguration, quaternions_of, to_world
from drivers.motion_capture.stream import StreamHealth, places_of
from drivers.motion_capture.vicon_protocol import PORT, Session, StreamError, Subject, body_names
from onboard_estimation.base.configuration import bounded, parameter
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.pipeline.device_clock import DeviceClock, epoch_offset_ns

# Parameters of the node `vicon`.


@dataclass(frozen=True)
class ViconConfiguration(TruthConfiguration):
    """The server, and what becomes of its bodies."""

    host: str = parameter("127.0.0.1", "address or name of the DataStream server: Tracker, Nexus, Shogun, emulator")
    port: int = bounded(PORT, 1, 65535, "of the server")
    interface: str = parameter("", "address of this machine to reach it from; empty: the system chooses")
    latency_s: float = bounded(0.0, 0.0, 1.0, "least time on the network, which one way does not tell", "s")

    def faults(self) -> Iterable[str]:
        """Of names, and a server without an address."""
        yield from super().faults()
        if not self.host.strip():
            yield "host: '', allowed: an address or a name"


# Host times of frames, from their numbers.
#
# A frame arrives after the exposure by the latency that the server tells, and by what the network adds, which jitters.
# Its number counts exposures, which are evenly spaced: it is the reading of a clock that ticks once a frame. That clock
# is mapped to the host's by the arrivals less the latency told (`onboard_estimation.pipeline.device_clock`), and what
# jitters falls out.
#
# What the least time on the network is cannot be seen one way: `latency_s`.

_WRAP = 1 << 32
_CHECKED_OVER_S = 2.0
_MUCH = 0.05
"""Share by which numbers may rise faster or slower than their rate says, over that time: arrivals jitter."""
_LONGEST_LATENCY_S = 10.0


class FrameClock:
    """Maps the frames of one server, across connections.

    Parameters
    ----------
    latency_s
        Least time on the network.
    say
        Takes a sentence where the rate is not the one that was told, and that it is bad.

    Attributes
    ----------
    rate_hz
        That the numbers count by; NaN: unknown, stamps are arrivals less the latency told.
    device_clock
        That frames are mapped by now; None: they are not.
    implausible_latencies
        How often a latency was told that cannot be: then the last one counts.
    """

    def __init__(self, latency_s: float, say: Callable[[str, bool], object]) -> None:
        self._latency_s, self._say = latency_s, say
        self._told: tuple[float, ...] = ()
        self.device_clock: DeviceClock | None = None
        self._since: tuple[int, int] | None = None  # number and arrival that the rate is checked from
        self._contrary_hz = math.nan  # that they rose at in the piece before, against what was told
        self._told_latency_s = 0.0
        self._last_ns = 0
        self.rate_hz = math.nan
        self.implausible_latencies = 0

    def tell_rates(self, rates_hz: tuple[float, ...]) -> None:
        """What the server says; the first counts, until the numbers speak against it."""
        if rates_hz and rates_hz != self._told:
            self._told = rates_hz
            self._begin(rates_hz[0])

    def stamp_ns(self, number: int, latency_s: float | None, received_ns: int) -> int | None:
        """Host time of a frame's exposure, ns since the epoch; None: not known yet, the numbers jumped.

        Stamps rise, but where the host's clock was set back by a second or more.
        """
        if latency_s is not None and 0.0 <= latency_s <= _LONGEST_LATENCY_S:
            self._told_latency_s = latency_s
        elif latency_s is not None:
            self.implausible_latencies += 1
        exposed_ns = received_ns - round(NANOSECONDS_PER_SECOND * self._told_latency_s)
        self._check(number, received_ns)
        stamp_ns: int | None = exposed_ns - round(NANOSECONDS_PER_SECOND * self._latency_s)
        if self.device_clock is not None:
            stamp_ns = self.device_clock.stamp_ns(number, exposed_ns)
        if stamp_ns is None:
            return None
        rises = not 0 <= self._last_ns - stamp_ns < NANOSECONDS_PER_SECOND
        self._last_ns = stamp_ns if rises else self._last_ns + 1
        return self._last_ns

    def reconnected(self) -> None:
        """What was between is no measure of the rate."""
        self._since, self._contrary_hz = None, math.nan

    def _begin(self, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        self.reconnected()
        self.device_clock = None
        if math.isfinite(rate_hz):
            self.device_clock = DeviceClock(1.0 / rate_hz, _WRAP, self._latency_s, epoch_offset_ns)

    def _check(self, number: int, received_ns: int) -> None:
        """Whether the numbers rise as the rate says."""
        if self._since is None or number < self._since[0]:
            self._since = (number, received_ns)
            return
        passed_s = (received_ns - self._since[1]) / NANOSECONDS_PER_SECOND
        if passed_s < _CHECKED_OVER_S:
            return
        risen_hz = (number - self._since[0]) / passed_s
        self._since = (number, received_ns)
        before_hz, self._contrary_hz = self._contrary_hz, math.nan
        if not self._told or _agree(self.rate_hz, risen_hz):
            return
        if not _agree(before_hz, risen_hz):  # a stall of the host makes one piece longer and the next one shorter
            self._contrary_hz = risen_hz
            return
        fitting = [told_hz for told_hz in self._told if _agree(told_hz, risen_hz)]
        if fitting or math.isfinite(self.rate_hz):
            said = ", ".join(f"{told_hz:g}" for told_hz in self._told)
            taken = f"{fitting[0]:g} Hz is taken" if fitting else "stamps are arrivals less the latency told"
            self._say(f"frame numbers rise at {risen_hz:.1f} Hz, and the server tells {said} Hz: {taken}", True)
            self._begin(fitting[0] if fitting else math.nan)


def _agree(one_hz: float, risen_hz: float) -> bool:
    return abs(one_hz - risen_hz) <= _MUCH * risen_hz


_ANSWERS_WITHIN_S = 5.0


class Receiver:
    """Reads a DataStream server; one that lies is left, and tried again later.

    Parameters
    ----------
    chosen
        The server, and what is known of its stream.
    say
        Takes a sentence where something changes, and whether that is bad.

    Attributes
    ----------
    connection, clock
        To the server; that its frames are mapped by.
    health
        Counts.
    names
        Of the bodies that the server knows now: `subject/segment`, or `subject` where that has one segment.
    """

    def __init__(self, chosen: ViconConfiguration, say: Callable[[str, bool], object]) -> None:
        self.connection = Connection(chosen.host, chosen.port, chosen.interface, say)
        self.clock = FrameClock(chosen.latency_s, say)
        self._chosen, self._say = chosen, say
        self.health = StreamHealth(chosen.largest_distance_m, say)
        self._session = Session()
        self._connections = 0
        self._subjects: tuple[Subject, ...] = ()
        self._places: dict[tuple[int, int], int] = {}
        self.names: tuple[str, ...] = ()

    @property
    def trouble(self) -> str:
        """Why there is no connection; empty where there is one."""
        return self.connection.trouble

    @property
    def device_clock(self) -> DeviceClock | None:
        """That frames are mapped by now; None: they are not."""
        return self.clock.device_clock

    def waits_for(self, now_s: float) -> str:
        """What keeps poses from going out, beside a trouble; empty where nothing does. Time: of the monotonic clock."""
        return self.health.silence(now_s - self.connection.age_s, now_s, self._chosen.silent_s)

    def figures(self) -> dict[str, float]:
        """For `/diagnostics`, beside its health."""
        return {"implausible_latencies": self.clock.implausible_latencies, "frame_rate_hz": self.clock.rate_hz}

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
            for numbers in self._session.feed(data):
                if self._session.subjects is not self._subjects:
                    self._new_subjects()
                self.clock.tell_rates(self._session.rates_hz)
                if (taken := self._take(*numbers, self.connection.arrived_ns)) is not None:
                    found.append(taken)
        except StreamError as error:
            self._leave("no DataStream", f"what comes is no DataStream: {error}")
        if answer := self._session.answer:
            self._session.answer = b""
            self.connection.send(answer)
        return found

    def _begin(self) -> None:
        self._connections = self.connection.connections
        self.health.counts["reconnections"] = self._connections - 1
        self._session = Session()
        self._subjects = self._session.subjects
        self.clock.reconnected()

    def _leave(self, kind: str, reason: str) -> None:
        self.health.refuse(kind)
        self.connection.lose(reason)

    def _new_subjects(self) -> None:
        self._subjects = self._session.subjects
        names = body_names(self._session.subjects)
        listed = tuple(dict.fromkeys(names.values()))[:MOST_BODIES]
        by_name = {name: place for place, name in enumerate(listed)}
        self._places = {ids: by_name[name] for ids, name in names.items() if name in by_name}
        if listed != self.names:
            self.health.counts["model_changes"] += bool(self.names)
            self.names = listed
            self._say(f"the server knows {', '.join(listed) or 'no subjects'}", False)

    def _take(self, number: int, clock_number: int, received_ns: int) -> BodyPoses | None:
        if not self.health.follows(number, clock_number, received_ns):
            return None
        stamp_ns = self.clock.stamp_ns(clock_number, self._session.latency_s, received_ns)
        if stamp_ns is None:
            self.health.counts["unstamped"] += 1
            return None
        ids, values = self._session.poses
        poses = np.concatenate((1e-3 * values["position_mm"], quaternions_of(values["rotation"])), axis=1)
        poses = to_world(poses, self._chosen.up_axis)
        places = places_of(ids, self._places, len(self.names))
        return self.health.placed(stamp_ns, received_ns, self.names, places, poses, True)
