"""Sessions of the drivers' clients with a server or device that lies: NatNet, Vicon's DataStream, EtherCAT.

Whole clients, from the bytes that arrive to the poses, wrenches and pressures that are published; in place of sockets
and of the bus stands what gives the bytes, and the time of each is made up.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from benchmarks.drivers.fuzz import kept
from benchmarks.fuzzing import Draw, Session, Target, reason
from drivers.emulators import natnet, vicon
from drivers.emulators.ethercat_slave import Abort, Dictionary, Sensor
from drivers.ethercat.configuration import EthercatConfiguration
from drivers.ethercat.description import SensorDescription, find, shipped
from drivers.ethercat.device import Device
from drivers.ethercat.stream import Stream, Wrench, pressure_readout
from drivers.motion_capture import optitrack_client, optitrack_protocol, vicon_protocol
from drivers.motion_capture.bodies import BodyPoses
from drivers.motion_capture.optitrack_client import NatNetClient, OptitrackConfiguration
from drivers.motion_capture.optitrack_protocol import VERSIONS, Frame, Kind, ServerInfo, Version
from drivers.motion_capture.stream import StreamHealth
from drivers.motion_capture.vicon_receiver import Receiver, ViconConfiguration
from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError

_EPOCH_NS, _SECOND_NS = 1_800_000_000 * 10**9, 10**9
_FRAME_NS = 4_000_000
_FARTHEST_M = 100.0
_MOST_LOST = 1_000_000
"""Frames, by the numbers of one that is made up: hours."""
_MOST_COUNTS = 50
_LATEST_NS, _LONGEST_AGO_NS = _SECOND_NS, 20 * _SECOND_NS


def check_poses(poses: BodyPoses, arrived_ns: int) -> None:
    """What goes out."""
    positions_m, quaternions = np.split(poses.poses[poses.tracked], [3], axis=1)
    assert poses.poses.shape == (len(poses.names), 7)
    assert not positions_m.size or np.abs(positions_m).max() <= _FARTHEST_M
    assert not quaternions.size or np.abs(np.linalg.norm(quaternions, axis=1) - 1.0).max() < 0.1
    assert -_LATEST_NS <= arrived_ns - poses.stamp_ns <= _LONGEST_AGO_NS, "a stamp far from its arrival"


def outcome(health: StreamHealth, before: dict[str, int], otherwise: str) -> str:
    """Why a message was left out; a finding where a count cannot be."""
    counts = health.counts
    assert counts["lost"] <= _MOST_LOST, "frames lost that never were"
    assert min(counts.values()) >= 0
    assert len(counts) < _MOST_COUNTS, "counts of names that others make up"
    usual = ("frames", "lost")
    more = [name for name, count in counts.items() if count > before.get(name, 0) and name not in usual]
    return f"refused: {more[0]}" if more and otherwise != "poses" else otherwise


def _silent(*_: object) -> None: ...


@cache
def loaded(kind: Any, name: str, value: str) -> Any:
    """A configuration that is so in one thing."""
    return load(kind, None, {name: value})


class _Server:
    """In place of the client's sockets and of its clock: it answers what it is asked, at the next time."""

    foreign = 0
    now_ns = _EPOCH_NS

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self.asked: list[tuple[int, bytes]] = []

    def send(self, data: bytes) -> None:
        kind, content = optitrack_protocol.payload(data)
        if kind in _ANSWERED_BY:
            self.asked.append((_ANSWERED_BY[Kind(kind)], content))

    def receive(self, _: float) -> Iterator[tuple[bytes, int]]:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            yield one, self.now_ns

    def close(self) -> None: ...

    @property
    def ticks(self) -> int:
        return (self.now_ns - _EPOCH_NS) // 100 + 8_000_000_000

    @staticmethod
    def monotonic() -> float:
        return (_Server.now_ns - _EPOCH_NS) / _SECOND_NS

    @staticmethod
    def time_ns() -> int:
        return _Server.now_ns


_ANSWERED_BY = {Kind.CONNECT: Kind.SERVER_INFO, Kind.MODELS_REQUEST: Kind.MODELS, Kind.ECHO_REQUEST: Kind.ECHO}
_CLOCK_HZ = 10_000_000
_MOST_OPENING = 50


class NatNet(Session):
    """A client and one version of the stream, whose server answers as it should; frames with one of everything.

    An input that is an answer comes in place of the server's own, where that was asked for.
    """

    def __init__(self, number: int) -> None:
        optitrack_client.time = _Server  # type: ignore[assignment,attr-defined]
        _Server.now_ns = _EPOCH_NS
        self._version = VERSIONS[number % len(VERSIONS)]
        chosen = loaded(OptitrackConfiguration, "up_axis", "yz"[number // len(VERSIONS) % 2])
        self._client, self._server = NatNetClient(chosen, _silent), _Server()
        self._client._sockets.close()
        self._client._sockets = self._server  # type: ignore[assignment]
        self._number = 1
        self._answers, self.seeds = natnet_messages(self._version)
        for _ in range(_MOST_OPENING):
            if self.take(self.mended(self.seeds[-2], (1,) * 4)) == "poses":
                break

    def mended(self, data: bytes, draw: Draw) -> bytes:
        """The length; of a frame a number that rises, ticks, and a place that is another; of an echo the question."""
        if len(data) < 8:
            return data
        kind, body, ticks = data[0], bytearray(data[4:]), self._server.ticks
        if kind == Kind.FRAME and draw[0] % 16:
            self._number += 1
            body[:4] = struct.pack("<I", self._number)
            if (place := body.find(_X_M[1:])) > 0:
                body[place - 1] = draw[2] & 255
            if self._version >= (3, 0) and draw[1] % 8 and (at := bytes(body).find(_TICKS)) >= 0:
                body[at : at + 24] = struct.pack("<3Q", ticks - 30_000, ticks - 20_000, ticks - 10_000)
        elif kind == Kind.ECHO and draw[0] % 4:
            body[:8] = next((content for asked, content in self._server.asked if asked == Kind.ECHO), bytes(8))
            if draw[1] % 4:
                body[8:16] = struct.pack("<Q", ticks + _FRAME_NS // 200)
        return data[:2] + struct.pack("<H", len(body) & 0xFFFF) + bytes(body)

    def take(self, data: bytes) -> str:
        """A datagram; a client that ends begins anew, as the node is started again."""
        client, server = self._client, self._server
        _Server.now_ns += _FRAME_NS
        asked, server.asked = server.asked, []
        server.waiting = [self._answered(*one) for one in asked if not data or one[0] != data[0]] + [data]
        before = dict(client.health.counts)
        try:
            found = list(client.read(0.0))
        except UserError as error:
            self.__init__(VERSIONS.index(self._version))  # type: ignore[misc]
            return f"refused: {reason(error)}"
        for poses in found:
            check_poses(poses, server.now_ns)
        return outcome(client.health, before, "taken" if not found else "poses")

    def _answered(self, kind: int, content: bytes) -> bytes:
        if kind == Kind.ECHO:
            return optitrack_protocol.message(
                Kind.ECHO, content + struct.pack("<Q", self._server.ticks - _FRAME_NS // 200)
            )
        return self._answers[kind == Kind.MODELS]


_X_M = struct.pack("<f", 0.1)
_TICKS = b"\x11ticks!!\x12ticks!!\x13ticks!!"


@cache
def natnet_messages(version: tuple[int, int]) -> tuple[tuple[bytes, bytes], list[bytes]]:
    """Server's information, models, and frames, an echo and odd messages that a fuzzer kept."""
    names = ["RigidBody1", "arm/upper"]
    group = ("239.255.42.99", 1511, True)
    info = ServerInfo(
        "Motive", (3, 0, 1, 0), version, *((_CLOCK_HZ, group[1], group[2], group[0]) if version >= (3, 0) else ())
    )
    positions = np.array([[0.1, 1.2, -0.3], [2.0, 0.5, 1.5]])
    poses = np.hstack([positions, Rotation.from_rotvec([[0.1, 0.2, 0.3], [1.0, -1.0, 0.5]]).as_quat()])
    ids, tracked = np.array([1, 2], dtype=np.int32), np.array([True, True])
    frames = []
    for changed in (False, True):
        sent = Frame(1, ids, poses, tracked, 12.25, struct.unpack("<3Q", _TICKS), changed)
        frames += [natnet.frame(sent, version), natnet_frame(sent, version)]
    echo = optitrack_protocol.message(Kind.ECHO, bytes(16))
    odd = [one[1:] for one in kept("natnet") if len(one) > 30]
    answers = natnet.server_info(info), natnet.models(names, version)
    return answers, [*answers, natnet_models(names, version), echo, *odd[::15], *frames[2:], *frames[:2] * 9]


def natnet_models(names: Sequence[str], version: Version) -> bytes:
    """Bodies, and one of each other kind that the version has; an emulated server has none of these."""
    text, i32, f32 = natnet.text, natnet.i32, natnet.f32
    bones = b"".join(natnet.rigid_body_model(f"bone {number}", number, version, markers=3) for number in (1, 2))
    parts = [(0, text("set") + i32(2) + 2 * text("Marker"))]
    parts += [(2, text("skeleton") + i32(7, 2) + bones), (5, text("camera") + f32(*range(7)))]
    if version >= (3, 0):
        channels = i32(2) + text("Fx") + text("Fy")
        parts.append((3, i32(1) + text("serial") + f32(*range(161)) + i32(0, 0) + channels))
        parts.append((4, i32(1) + text("device") + text("serial") + i32(0, 0) + channels))
    if version >= (4, 1):
        marker = text("m") + struct.pack("<i4fH", 1, 0.0, 0.0, 0.0, 0.01, 0)
        part = natnet.rigid_body_model("part", 1, version)
        parts.append((6, text("asset") + i32(1, 3, 1) + part + i32(1) + marker))
    return natnet.models(names, version, parts)


def natnet_frame(sent: Frame, version: Version) -> bytes:
    """Bodies, and one of each other thing that a frame may hold."""
    i32, f32 = natnet.i32, natnet.f32
    bone = natnet.rigid_body(version, 1, (*6 * (0.0,), 1.0), True, markers=2)
    part, marker = struct.pack("<i8fH", 1, *range(8), 1), struct.pack("<i4fHf", 1, *range(4), 0, 0.0)
    channels = i32(1, 2) + 2 * (i32(3) + f32(*range(3)))
    others = {
        "marker sets": natnet.text("set") + i32(2) + f32(*range(6)),
        "other markers": f32(*range(3)),
        "skeletons": i32(7, 2) + 2 * bone,
        "assets": i32(1, 1) + part + i32(1) + marker,
        "labelled markers": marker[: 20 + (2 if version >= (2, 6) else 0) + (4 if version >= (3, 0) else 0)],
        "force plates": channels,
        "devices": channels,
    }
    return natnet.frame(sent, version, others)


class _Connection:
    """In place of the receiver's connection."""

    trouble, is_open, age_s = "", True, 1.0

    def __init__(self) -> None:
        self.connections, self.arrived_ns, self.waiting = 1, _EPOCH_NS, b""

    def read(self, _: float) -> bytes:
        waiting, self.waiting = self.waiting, b""
        return waiting

    def send(self, data: bytes) -> None:
        assert len(data) < 1000

    def lose(self, _: str) -> None:
        self.connections += 1
        self.waiting = b""

    def close(self) -> None: ...


class Vicon(Session):
    """A receiver; a server that is left is connected to again, and begins as a real one does.

    The last byte of an input says where it is cut.
    """

    def __init__(self, number: int) -> None:
        chosen = loaded(ViconConfiguration, "up_axis", "zy"[number % 2])
        self._receiver, self._line = (
            Receiver(chosen, _silent),
            _Connection(),
        )
        self._receiver.connection = self._line  # type: ignore[assignment]
        self._opening, self.seeds = vicon_packets()
        self.take(b"".join(self._opening) + b"\0")

    def mended(self, data: bytes, draw: Draw) -> bytes:
        """The packet's length, and numbers that rise."""
        changed = bytearray(data)
        number = 100 + (self._line.arrived_ns - _EPOCH_NS) // _VICON_NS
        for head in (_FRAME_HEAD, _HARDWARE_HEAD):
            if draw[0] % 16 and (at := changed.find(head)) >= 0 and at + 12 < len(changed):
                changed[at + 8 : at + 12] = struct.pack("<I", number)
        if (at := changed.find(_X_MM[1:])) > 0:
            changed[at - 1] = number & 255  # no place is the one before
        changed[:8] = vicon_protocol.HEADER.pack(vicon_protocol.PACKET, max(len(changed) - 9, 0))
        return bytes(changed)

    def take(self, data: bytes) -> str:
        """A packet or several, in two pieces."""
        receiver, line = self._receiver, self._line
        before, poses = dict(receiver.health.counts), 0
        cut = len(data) * data[-1] // 256 if data else 0
        line.arrived_ns += _VICON_NS
        for piece in (data[:cut], data[cut:-1]):
            connections, line.waiting = line.connections, piece
            found = receiver.read(0.0)
            for one in found:
                check_poses(one, line.arrived_ns)
            poses += len(found)
            assert len(receiver._session._packets._data) <= vicon_protocol.LARGEST_PACKET + 8
            if line.connections > connections:
                for again in self._opening:
                    line.waiting = self.mended(again + b"\0", (1, 1))[:-1]
                    receiver.read(0.0)
                break
        if len(receiver._session._packets._data) > _MOST_UNFINISHED:  # the rest of a packet that never ends
            receiver._session._packets._data.clear()
        came = receiver.health.counts["frames"] > before["frames"]
        return outcome(receiver.health, before, "poses" if poses else "frames" if came else "refused: no frame")


_VICON_NS = 5_000_000
_MOST_UNFINISHED = 2000
_X_MM = struct.pack("<d", 100.3)
_FRAME_HEAD = vicon_protocol.HEADER.pack(vicon_protocol.FRAME_INFO, 4)
_HARDWARE_HEAD = vicon_protocol.HEADER.pack(vicon_protocol.HARDWARE_FRAME, 4)


@cache
def vicon_packets() -> tuple[list[bytes], list[bytes]]:
    """What a server begins with; the same, frames, and odd packets that a fuzzer kept, with where they are cut."""
    server = vicon.DataStreamServer("127.0.0.1", 0, ["box", "arm/upper", "arm/lower"], 200.0)
    offer = vicon_protocol.encode_uints([*vicon_protocol.WANTED, 8, 13, 42])
    offered = vicon_protocol.block(vicon_protocol.PACKET, vicon_protocol.block(vicon_protocol.OBJECT_ENUMS, offer))
    turns = Rotation.from_rotvec([[0.1, 0.2, 0.3], [1.0, -1.0, 0.5], [0.0, 0.0, 3.0]]).as_quat()
    rows = np.hstack([np.tile([0.1003, -0.2, 0.3], (3, 1)), turns])
    poses = BodyPoses(0, ("box", "arm/upper", "arm/lower"), rows, np.ones(3, dtype=np.bool_))
    box = replace(poses, tracked=np.arange(3) == 0)

    def told() -> dict[str, float]:
        return {"cameras": 0.004, "processing": 0.001}

    static = frozenset({vicon_protocol.STREAM_INFO, vicon_protocol.SUBJECT_INFO, vicon_protocol.FRAME_RATE})
    first = server.packet(vicon_protocol.WANTED, frozenset(), 1, poses, told)
    usual = server.packet(vicon_protocol.WANTED - static, static, 2, poses, told)
    fewer = server.packet(vicon_protocol.WANTED - static, static, 3, box, told)
    server.close()
    odd = [vicon_protocol.block(vicon_protocol.PACKET, one[3:]) for one in kept("vicon") if len(one) > 10]
    sent = [offered, first, first, fewer, usual + usual, *[usual] * 8]
    return [offered, first], [one + bytes([ends]) for one in (*sent, *sent, *odd[::8]) for ends in (0, 100)]


class _SdoError(Exception):
    abort_code, desc = 0x06020000, "by the fuzzer"


class _MailboxError(Exception):
    desc = "by the fuzzer"


_LIBRARY = SimpleNamespace(
    SdoError=_SdoError, MailboxError=_MailboxError, PacketError=_MailboxError, WkcError=_MailboxError,
    OP_STATE=8, SAFEOP_STATE=4,
)  # fmt: skip
_MOST_NEWTONS, _MOST_PASCALS = 1e6, 1e8
_READS_EVERY, _CYCLE_HZ = 32, 1000.0


class Ethercat(Session):
    """One device: its objects at its start, then process data.

    Of an input the first byte says which it is, the second one, of objects, which of them is read as what follows.
    """

    def __init__(self, number: int) -> None:
        names = list(shipped())
        self._description = description = cached_description(names[number % len(names)])
        self._size = max(sum(entry.size for entry in description.input_entries), 1)
        self._objects = Dictionary(description, (0, 0, 0, 0))
        self._lie: tuple[int, bytes] = (-1, b"")
        self._asked = 0
        slave = SimpleNamespace(sdo_read=self._read, sdo_write=self._write, input=bytes(self._size))
        self._device = Device(description, 0, slave, 0, _LIBRARY)
        self._device.start(0)
        assert self._device.fault is None
        self._start = self._device.conversion
        self._now_ns = _EPOCH_NS
        self._stream = stream_of(description, 1 + 3 * (number // len(names) % 2))
        record = Sensor(description, lambda _: _SIGNAL[: len(description.fields)]).inputs(0)
        self.seeds = [b"\1\0" + one for one in (*[record, record * 2, record * 4] * 100, bytes(self._size))]
        self.seeds += [bytes([0, place]) + one for place in range(0, 40, 8) for one in _ANSWERS]

    def _read(self, index: int, subindex: int) -> bytes:
        self._asked += 1
        if self._asked == self._lie[0]:
            if len(self._lie[1]) == 9:
                raise (_SdoError, _MailboxError)[self._lie[1][0] % 2]
            return self._lie[1]
        try:
            return self._objects.read(index, subindex)
        except Abort:
            raise _SdoError from None

    def _write(self, index: int, subindex: int, value: bytes) -> None: ...

    def mended(self, data: bytes, draw: Draw) -> bytes:
        """As many bytes as are mapped."""
        if not data or not data[0] % _READS_EVERY:
            return data
        body = data[2:]
        return data[:2] + body.ljust(-(-max(len(body), 1) // self._size) * self._size, b"\0")

    def take(self, data: bytes) -> str:
        """Of process data of any length the whole records count, as the master maps no others."""
        if data and not data[0] % _READS_EVERY:
            return self._begin(data)
        body = data[2:]
        count = len(body) // self._size
        if not count:
            return "refused: no record"
        stamps = [self._now_ns + 1_000_000 * one for one in range(count)]
        self._now_ns += 1_000_000 * count
        found = self._stream(self._device, stamps, body[: count * self._size])
        self._stream.said.clear()
        most = _MOST_NEWTONS if self._description.has_wrench else _MOST_PASCALS
        for one in found.values():
            assert len(one.values) == len(one.stamps_ns)
            assert not one.values.size or np.abs(one.values).max() <= most, "a value beyond what a sensor can read"
            assert all(at_ns <= self._now_ns for at_ns in one.stamps_ns)
        return "values" if any(one.stamps_ns for one in found.values()) else "refused: by status or value"

    def _begin(self, data: bytes) -> str:
        """A device that lies about one object is refused, or its factors are finite."""
        self._asked, self._lie = 0, ((data[1] if len(data) > 1 else 0) % 64 + 1, data[2:][:64])
        self._device.start(0)
        fault, conversion = self._device.fault, self._device.conversion
        self._lie, self._device.conversion = (-1, b""), self._start
        if fault is not None:
            assert "Error(" not in str(fault), f"not foreseen: {reason(str(fault), 80)}"
            return f"refused: {reason(str(fault).partition(': ')[2], 30)}"
        assert conversion is not None
        assert np.isfinite([*conversion.gain, *conversion.offset]).all()
        return "started"


cached_description = cache(find)
_SIGNAL = (1.0, -2.0, 3.0, 0.1, -0.2, 0.3)
_ANSWERS = (b"\0\0\0\0", b"\1", b"\xff\xff\xff\xff", bytes(8), bytes(9), struct.pack("<d", float("nan")))


@cache
def _configuration(decimation: int) -> Any:
    chosen = {"wrench.decimation": decimation, "pressure.decimation": decimation, "wrench.tare_s": 0.05}
    return load(EthercatConfiguration, None, chosen)


def stream_of(description: SensorDescription, decimation: int) -> Stream:
    """As the node makes it."""
    chosen = _configuration(decimation)
    if description.has_wrench:
        readouts = {"wrench": Wrench(chosen.wrench, _CYCLE_HZ).readout(description)}
    else:
        readouts = {
            field: pressure_readout(description, field, chosen.pressure, 0.0, _CYCLE_HZ)
            for field in description.voltages
        }
    return Stream(description, readouts, _CYCLE_HZ)


_CAPTURE = ("drivers/motion_capture/[bs]*.py", "onboard_estimation/pipeline/device_clock.py")
TARGETS = {
    "natnet": Target(NatNet, ("drivers/motion_capture/optitrack_*.py", *_CAPTURE), 10_000_000),
    "vicon": Target(Vicon, ("drivers/motion_capture/vicon_*.py", *_CAPTURE), 10_000_000),
    "ethercat": Target(Ethercat, ("drivers/ethercat/device.py", "drivers/ethercat/stream.py"), 10_000_000),
}
