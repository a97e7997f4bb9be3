"""A client of NatNet: connects, learns the models, keeps the server's clock, and hears when the server is another."""

from __future__ import annotations

import ipaddress
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from drivers.lines import ANCILLARY_BYTES, arrival_ns, keep_arrivals
from drivers.motion_capture import optitrack_protocol as protocol
from drivers.motion_capture.bodies import UP_AXES, BodyPoses, TruthConfiguration, to_world
from drivers.motion_capture.optitrack_answers import HOLDS_S, Answers
from drivers.motion_capture.optitrack_protocol import (
    LONGEST_MESSAGE,
    Frame,
    Kind,
    NatNetFault,
    RigidBody,
    ServerInfo,
    shown,
)
from drivers.motion_capture.stream import Places, StreamHealth, places_of
from onboard_estimation.base.configuration import bounded, parameter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.pipeline.device_clock import DeviceClock, epoch_offset_ns

# Parameters of the OptiTrack node.


@dataclass(frozen=True)
class OptitrackConfiguration(TruthConfiguration):
    """The server, the way to it, and what becomes of its bodies."""

    server: str = parameter("127.0.0.1", "IPv4 address of the computer that runs Motive")
    interface: str = parameter("127.0.0.1", "IPv4 address of this host towards it; no other is listened at")
    transport: str = parameter(
        "multicast", "how Motive streams: Streaming Settings, Transmission Type", choices=("multicast", "unicast")
    )
    multicast_group: str = parameter(protocol.MULTICAST_GROUP, "Multicast Interface of Motive's settings")
    command_port: int = bounded(protocol.COMMAND_PORT, 1, 65535, "Command Port of Motive's settings")
    data_port: int = bounded(protocol.DATA_PORT, 1, 65535, "Data Port of Motive's settings")
    up_axis: str = parameter("y", "Up Axis of Motive's settings", choices=UP_AXES)
    silent_s: float = bounded(2.0, 0.05, 60.0, "a server that sends nothing for so long is said to be silent", "s")
    latency_s: float = bounded(
        0.0, 0.0, 1.0, "from exposure to arrival at least; of use before NatNet 3.0, which does not tell it", "s"
    )

    @property
    def group(self) -> str | None:
        """Multicast group of the frames; None: the server sends them to the socket that asked."""
        return self.multicast_group if self.transport == "multicast" else None

    def faults(self) -> Iterable[str]:
        """Addresses that are none, names that do not go together."""
        addresses = {}
        for name in ("server", "interface", "multicast_group"):
            value = getattr(self, name)
            try:
                address = addresses[name] = ipaddress.IPv4Address(value)
            except ValueError:
                yield f"{name}: {value!r}, allowed: IPv4 address such as 192.168.1.5"
                continue
            if address.is_multicast != (name == "multicast_group"):
                yield f"{name}: {value}, allowed: {'a' if name == 'multicast_group' else 'no'} multicast address"
        if len(addresses) == 3 and addresses["interface"].is_loopback and not addresses["server"].is_loopback:
            yield f"interface: {self.interface} does not lead to {self.server}, allowed: this host's address towards it"
        yield from super().faults()


# UDP sockets of a NatNet client, on the configured interface alone, with the kernel's times of arrival.

_IP_MULTICAST_ALL = 49
_BUFFER_BYTES = 4 << 20
_MOST_AT_ONCE = 64
"""Of a flood, before whoever asked has its turn again."""


class NatNetSockets:
    """One socket to ask by, and one for the frames of a group.

    Attributes
    ----------
    foreign
        Datagrams of other senders than the server, which are left out.

    Raises
    ------
    UserError
        The interface is none of this host, the port is taken.
    """

    def __init__(self, chosen: OptitrackConfiguration) -> None:
        self._server = chosen.server, chosen.command_port
        self._sockets: dict[int, socket.socket] = {}  # by their number
        self._poll = select.poll()
        self.foreign = 0
        try:
            self._commands = self._add(chosen.interface, 0)
            if chosen.group is not None:
                data = self._add(chosen.group, chosen.data_port)
                membership = socket.inet_aton(chosen.group) + socket.inet_aton(chosen.interface)
                data.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        except OSError as error:
            self.close()
            raise UserError(
                f"interface {chosen.interface}, group {chosen.group}, port {chosen.data_port}: "
                f"{error.strerror or error}; interface has to be an address of this host (`ip address` lists them)"
            ) from error

    def _add(self, address: str, port: int) -> socket.socket:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sockets[one.fileno()] = one
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # other clients on this host
        one.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)  # not what others have joined, elsewhere
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        keep_arrivals(one)
        one.bind((address, port))
        one.setblocking(False)
        self._poll.register(one, select.POLLIN)
        return one

    def send(self, data: bytes) -> None:
        """Send a command; lost where there is no way to the server."""
        with suppress(OSError):
            self._commands.sendto(data, self._server)

    def receive(self, timeout_s: float) -> Iterator[tuple[bytes, int]]:
        """Datagrams of the server and when each arrived, ns since the epoch; none after the timeout."""
        for number, _ in self._poll.poll(1e3 * timeout_s):
            for _ in range(_MOST_AT_ONCE):
                try:
                    data, ancillary, _, sender = self._sockets[number].recvmsg(LONGEST_MESSAGE, ANCILLARY_BYTES)
                except BlockingIOError:
                    break
                except OSError:  # a port that is closed at the other end: the server is not there
                    continue
                if sender[0] != self._server[0]:
                    self.foreign += 1
                    continue
                yield data, arrival_ns(ancillary)

    def close(self) -> None:
        """Give the ports back."""
        for one in self._sockets.values():
            one.close()
        self._sockets.clear()


# When the cameras exposed a frame, as time of this host.
#
# From 3.0 a frame has the tick of the server's clock in the middle of the exposure. Echoes map it: the server is asked
# for its clock, of each second the quickest answer counts, and its tick is held to be of the middle between question
# and answer. Half of that round trip is the largest error.
#
# Before 3.0 there is neither. From 2.7 a frame has a time of the server's software, mapped one way: arrivals less the
# known least latency. Before 2.7 that time has too few digits, and each frame is stamped by its arrival less that
# latency, as uncertain as arrivals vary, which nobody tells.

_SOFTWARE_TICK_S = 1e-6
_LONGEST_SOFTWARE_TIME_S = 1e9
_LONGEST_AGO_NS, _LATEST_NS = 2 * NANOSECONDS_PER_SECOND, NANOSECONDS_PER_SECOND // 20
"""A frame's exposure is before its arrival, and not long; later only by the error of the mapping."""
_LONGEST_ROUND_NS = NANOSECONDS_PER_SECOND // 2
_LONGEST_WITHOUT_ECHO_NS = 3 * NANOSECONDS_PER_SECOND
_MOST_OPEN = 32


class FrameStamps:
    """Of the frames of one server, from one start of it to the next.

    Parameters
    ----------
    latency_s
        Least time from exposure to arrival, where the server's version does not tell it.
    health
        Where frames are counted that are left out for a time that cannot be, or, where the server has none, stamped by
        their arrival.

    Attributes
    ----------
    clock
        Of the server.
    echoes
        Answers that counted.
    """

    def __init__(self, info: ServerInfo, latency_s: float, health: StreamHealth) -> None:
        self._health = health
        self._latency_ns = round(latency_s * NANOSECONDS_PER_SECOND)
        self.is_echoed = info.clock_hz is not None
        self._has_software_time = info.version >= (2, 7)
        tick_s, least_s = (1.0 / info.clock_hz, 0.0) if info.clock_hz else (_SOFTWARE_TICK_S, latency_s)
        self.clock = DeviceClock(tick_s, None, least_s, epoch_offset_ns)
        self.echoes = 0
        self._open: deque[int] = deque(maxlen=_MOST_OPEN)
        self._first_ns = 0

    def ask(self) -> int:
        """Number to send with an echo request, now."""
        self._open.append(time.time_ns())
        return self._open[-1]

    def answer(self, asked_ns: int, ticks: int, arrived_ns: int) -> None:
        """Take an echo, if something was asked like that, and not too long ago."""
        if asked_ns not in self._open or not 0 <= arrived_ns - asked_ns <= _LONGEST_ROUND_NS:
            self._health.refuse("echo not asked for")
            return
        self._open.remove(asked_ns)
        self.echoes += 1
        self.clock.echo(asked_ns, ticks, arrived_ns)

    def __call__(self, frame: Frame, arrived_ns: int) -> int | None:
        """Stamp of a frame, ns since the epoch; None where its time cannot be, or the clock is not known yet.

        A server that plays a take has no exposures, and one whose echoes never come no clock: then it is by arrival.
        """
        by_arrival_ns, stamp_ns = arrived_ns - self._latency_ns, None
        if self.is_echoed:
            self._first_ns = self._first_ns or arrived_ns
            if not frame.exposure or (not self.echoes and arrived_ns - self._first_ns > _LONGEST_WITHOUT_ECHO_NS):
                self._health.counts["unstamped"] += 1
                return by_arrival_ns
            stamp_ns = self.clock.at(frame.exposure)
        elif not self._has_software_time:
            return by_arrival_ns
        elif 0.0 <= frame.time_s < _LONGEST_SOFTWARE_TIME_S:
            stamp_ns = self.clock.stamp_ns(round(frame.time_s / _SOFTWARE_TICK_S), arrived_ns)
        if stamp_ns is not None and -_LATEST_NS <= arrived_ns - stamp_ns <= _LONGEST_AGO_NS:
            return stamp_ns
        self._health.counts["unstamped"] += 1
        return None


_PRESENT_S, _MODELS_S = 1.0, 2.0
"""How often a server is called, to hear that it is another and that it goes on, and asked for its models."""
_ECHO_S, _FIRST_ECHO_S, _FIRST_ECHOES = 0.1, 0.02, 25
_MOST_SETS = 32


class NatNetClient:
    """Reads one server.

    Parameters
    ----------
    chosen
        Addresses of server and interface, and what is known of the stream.
    say
        Takes a sentence where something about the server is new, and whether that is bad.

    Attributes
    ----------
    health
        Counts.
    info
        Of the server; None before it has answered.
    stamps
        Times of its frames; None before.
    trouble
        Why nothing comes; empty where all is well.

    Raises
    ------
    UserError
        The interface is none of this host. `read` raises it where the server's version is not understood from the
        start.
    """

    def __init__(self, chosen: OptitrackConfiguration, say: Callable[[str, bool], object]) -> None:
        self._chosen, self._say = chosen, say
        self._sockets = NatNetSockets(chosen)
        self.health = StreamHealth(chosen.largest_distance_m, say)
        self.info: ServerInfo | None = None
        self.stamps: FrameStamps | None = None
        self.trouble = (
            f"no answer from a NatNet server at {chosen.server}:{chosen.command_port} so far: are server and interface "
            "right, does Motive stream (Broadcast Frame Data), does a firewall keep that port?"
        )
        self._infos: Answers[ServerInfo] = Answers(_PRESENT_S)
        self._models: Answers[tuple[RigidBody, ...]] = Answers(_MODELS_S)
        self._bodies: tuple[RigidBody, ...] | None = None  # those whose names and ids follow
        self._names: tuple[str, ...] = ()
        self._sets: dict[bytes, Places] = {}  # by the ids of frames, as the models were confirmed with
        self._was_changed = False
        self._next_echo_s = 0.0
        self._heard_s = self._began_s = -1.0
        self._refused: ServerInfo | None = None
        way = f"{chosen.transport}, at {chosen.interface}"
        say(f"looking for a NatNet server at {chosen.server}:{chosen.command_port} ({way})", False)

    def close(self) -> None:
        """Say goodbye, and give the ports back."""
        if self.info is not None:
            self._sockets.send(protocol.message(Kind.DISCONNECT))
        self._sockets.close()

    @property
    def device_clock(self) -> DeviceClock | None:
        """Of the server; None before it has answered."""
        return self.stamps.clock if self.stamps is not None else None

    def waits_for(self, now_s: float) -> str:
        """What keeps poses from going out, beside a trouble; empty where nothing does. Time: of the monotonic clock."""
        if now_s - max(self._models.confirmed_s, self._began_s) > HOLDS_S and not self._models.is_certain(now_s):
            return (
                f"the server at {self._chosen.server} does not say for certain which bodies its frames are of: "
                f"{self.health.counts['unconfirmed']} are left out so far; do datagrams to port "
                f"{self._chosen.command_port} get through?"
            )
        return self.health.silence(self._began_s, now_s, self._chosen.silent_s)

    def figures(self) -> dict[str, float]:
        """For `/diagnostics`, beside its health."""
        echoes = {"echoes": self.stamps.echoes} if self.stamps is not None else {}
        return {**echoes, "of_other_senders": self._sockets.foreign}

    def read(self, timeout_s: float) -> Iterator[BodyPoses]:
        """Frames that have come, as soon as there are any, and do what is due."""
        self._do_what_is_due(time.monotonic())
        for data, arrived_ns in self._sockets.receive(timeout_s):
            try:
                poses = self._take(data, arrived_ns)
            except NatNetFault as fault:
                self.health.refuse(str(fault))
                continue
            if poses is not None:
                yield poses

    def _do_what_is_due(self, now_s: float) -> None:
        if self.info is not None and now_s - self._heard_s > self._chosen.silent_s and not self.trouble:
            self.trouble = f"the server at {self._chosen.server} has fallen silent"
            self._say(self.trouble, True)
        if self._infos.is_due(now_s):
            self._sockets.send(protocol.connect())
            if self.info is not None:
                self._sockets.send(protocol.message(Kind.KEEP_ALIVE))
        if self.info is None:
            return
        if self._models.is_due(now_s):
            self._sockets.send(protocol.message(Kind.MODELS_REQUEST))
        stamps = self.stamps
        if stamps is not None and stamps.is_echoed and now_s >= self._next_echo_s:
            self._next_echo_s = now_s + (_FIRST_ECHO_S if stamps.echoes < _FIRST_ECHOES else _ECHO_S)
            self._sockets.send(protocol.echo_request(stamps.ask()))

    def _take(self, data: bytes, arrived_ns: int) -> BodyPoses | None:
        kind, payload = protocol.payload(data)
        now_s = time.monotonic()
        if kind == Kind.FRAME:
            self._heard_s = now_s
            return self._take_frame(payload, arrived_ns, now_s)
        if kind == Kind.ECHO and self.stamps is not None:
            self.stamps.answer(*protocol.echo(payload), arrived_ns)
        elif kind == Kind.SERVER_INFO:
            self._take_info(protocol.server_info(payload), now_s)
        elif kind == Kind.MODELS and self.info is not None:
            self._take_models(protocol.rigid_bodies(payload, self.info.version), now_s)
        else:
            return None
        self._heard_s = now_s
        return None

    def _take_info(self, info: ServerInfo, now_s: float) -> None:
        if not self._infos.take(info, now_s):
            raise NatNetFault("answer not asked for")
        is_understood = info.version in protocol.VERSIONS
        if self._infos.is_certain(now_s) and is_understood and (info != self.info or self.trouble):
            self._meet(info)
        elif self._infos.is_certain(now_s) and not is_understood and info != self._refused:
            self._refuse(info)
        if not is_understood:
            raise NatNetFault("server of another version")

    def _refuse(self, info: ServerInfo) -> None:
        """A server whose stream is not understood: it may have been another program all along, or is now."""
        found = (
            f"the server {info.application[:40]!r} at {self._chosen.server} streams NatNet {shown(info.version)}; "
            f"understood are {', '.join(map(shown, protocol.VERSIONS))}: choose one of them in its streaming settings, "
            "or update this package"
        )
        if self.info is None:
            raise UserError(found)
        self._refused = info
        self.trouble = self.trouble and found
        self._say(found, True)

    def _meet(self, info: ServerInfo) -> None:
        """A server that is new, or back."""
        self.health.counts["reconnections"] += self.info is not None
        self._begin_anew(info)
        version = ".".join(map(str, info.application_version))
        self._say(f"{info.application} {version} at {self._chosen.server}: NatNet {shown(info.version)}", False)
        if info.is_multicast is not None and info.is_multicast != (self._chosen.group is not None):
            to = "multicast" if info.is_multicast else "unicast"
            self._say(f"the server streams by {to}, and this node listens otherwise: set transport:={to}", True)
        elif info.is_multicast and (info.group, info.data_port) != (self._chosen.group, self._chosen.data_port):
            to = f"{info.group}, port {info.data_port}"
            self._say(f"the server streams to {to}: set multicast_group and data_port", True)
        if not self.stamps or not self.stamps.is_echoed:
            self._say(
                f"NatNet {shown(info.version)} does not tell when the cameras exposed: stamps are arrivals less "
                f"latency_s ({1e3 * self._chosen.latency_s:g} ms)",
                False,
            )

    def _begin_anew(self, info: ServerInfo) -> None:
        """Clock, numbers and models are unknown again."""
        self.trouble, self._refused = "", None
        self._began_s = time.monotonic()
        self.info = info
        self.stamps = FrameStamps(info, self._chosen.latency_s, self.health)
        self.health.forget_numbers()
        self._models.doubt(self._began_s)
        self._next_echo_s = 0.0

    def _take_models(self, bodies: tuple[RigidBody, ...], now_s: float) -> None:
        if not self._models.take(bodies, now_s):
            raise NatNetFault("answer not asked for")
        if bodies == self._bodies or not self._models.is_certain(now_s):
            return
        self.health.counts["model_changes"] += self._bodies is not None
        self._bodies = bodies
        self._names = tuple(body.name for body in bodies)
        self._sets = {np.array([body.number for body in bodies], dtype=np.int32).tobytes(): None}

    def _take_frame(self, payload: bytes, arrived_ns: int, now_s: float) -> BodyPoses | None:
        if self.info is None or self.stamps is None:
            return None
        if self.trouble:  # after a silence the server may be another: it is asked first
            if self._infos.is_certain(now_s):
                self._infos.doubt(now_s)
            return None
        frame = protocol.parse_frame(payload, self.info.version)
        if not self.health.follows(frame.number, frame.exposure, arrived_ns):
            return None
        if self.health.began_anew:
            # Its answer to the next greeting is no other return.
            self.health.counts["reconnections"] += 1
            self._begin_anew(self.info)
            return None
        places = self._places(frame, now_s)
        stamp_ns = self.stamps(frame, arrived_ns)
        if stamp_ns is None:
            return None
        if not self._models.is_certain(now_s):
            self.health.counts["unconfirmed"] += 1
            return None
        poses = to_world(frame.poses, self._chosen.up_axis)
        return self.health.placed(stamp_ns, arrived_ns, self._names, places, poses, frame.tracked)

    def _places(self, frame: Frame, now_s: float) -> Places:
        """Of its bodies; models are doubted where it says that they are others, or is of another set than before."""
        ids = frame.ids.tobytes()
        if (frame.models_changed and not self._was_changed) or ids not in self._sets:
            self._models.doubt(now_s)
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            place_of = {body.number: place for place, body in enumerate(self._bodies or ())}
            self._sets[ids] = places_of(frame.ids.tolist(), place_of, len(self._names))
        self._was_changed = frame.models_changed
        return self._sets[ids]
