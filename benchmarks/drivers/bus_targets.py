"""Fuzzed readers of an EtherCAT bus: frames, registers and mailbox of a slave, SDOs, descriptions of sensors."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.fuzzing import Target
from drivers.emulators import ethercat_slave as emulated
from drivers.emulators.ethercat_segment import (
    DATAGRAM,
    ETHERNET_BYTES,
    ETHERTYPE,
    HEADER,
    LARGEST_FRAME,
    LENGTH_MASK,
    MORE,
    PDU_TYPE,
    FrameError,
    Segment,
    places,
)
from drivers.emulators.ethercat_slave import Slave, State
from drivers.ethercat.description import WRENCH, SdoObject, SensorDescription, find
from drivers.ethercat.description import parse as parse_description
from drivers.ethercat.device import conversion_of, dtype_of
from onboard_estimation.base.configuration import ConfigurationError
from onboard_estimation.base.errors import UserError

_CIRCULATING = 0x4000
_RETURNED = 0x02


@dataclass(frozen=True)
class Datagram:
    """One datagram.

    Attributes
    ----------
    command
        See `Command`; others are reserved.
    index
        The master's own number for it.
    address
        Logical address; of a command that is not logical, position or station in the lower 16 bits, offset above.
    working_counter
        Counted up by each slave that does what is asked.
    interrupt
        Events of all slaves, or-ed.
    circulating
        It has been around a broken ring.
    """

    command: int
    index: int
    address: int
    data: bytes
    working_counter: int = 0
    interrupt: int = 0
    circulating: bool = False

    @property
    def station(self) -> int:
        """Position or station; of logical commands without meaning."""
        return self.address & 0xFFFF

    @property
    def offset(self) -> int:
        """In a slave's memory; of logical commands without meaning."""
        return self.address >> 16


def parse(frame: bytes) -> tuple[Datagram, ...]:
    """The datagrams of an Ethernet frame.

    Raises
    ------
    FrameError
        See `places`.
    """
    datagrams = []
    for place in places(frame):
        command, index, address, told, interrupt = DATAGRAM.unpack_from(frame, place.start)
        (counter,) = HEADER.unpack_from(frame, place.counter)
        data = bytes(frame[place.data : place.counter])
        datagrams.append(Datagram(command, index, address, data, counter, interrupt, bool(told & _CIRCULATING)))
    return tuple(datagrams)


def encode(datagrams: Sequence[Datagram], source: bytes = b"\x02\x00\x00\x00\x00\x01") -> bytes:
    """An Ethernet frame for all slaves, padded to 60 bytes.

    Raises
    ------
    FrameError
        There is nothing to send, or it does not fit into one frame.
    """
    if not datagrams:
        raise FrameError("a frame without datagrams")
    body = bytearray()
    for place, one in enumerate(datagrams):
        more = MORE if place + 1 < len(datagrams) else 0
        told = len(one.data) & LENGTH_MASK | (_CIRCULATING if one.circulating else 0) | more
        body += DATAGRAM.pack(one.command, one.index, one.address, told, one.interrupt)
        body += one.data + HEADER.pack(one.working_counter)
    size = ETHERNET_BYTES + 2 + len(body)
    if size > LARGEST_FRAME:
        raise FrameError(f"{size} bytes, more than the {LARGEST_FRAME} of an Ethernet frame")
    ethernet = b"\xff" * 6 + source + ETHERTYPE.to_bytes(2, "big")
    return (ethernet + HEADER.pack(len(body) | PDU_TYPE << 12) + body).ljust(60, b"\x00")


def is_returned(frame: bytes) -> bool:
    """Whether the first slave has seen the frame: it marks the source address as given locally."""
    return len(frame) > 6 and bool(frame[6] & _RETURNED)


_FRAME, _DATAGRAMS, _SDO, _READINGS = range(4)
_STEP = struct.Struct("<BIHB")
_LONGEST_DATA = 1024
_MOST_STEPS = 24
_LONGEST_REASON = 400
_SLAVE = Slave(find("ati_axia80"), lambda _: (1.0, -2.0, 3.0, 0.1, -0.2, 0.3))
_SEGMENT = Segment([_SLAVE])
_SENSORS = tuple(find(name) for name in ("ati_axia80", "me_gsv8"))


def _held() -> tuple[object, ...]:
    """What datagrams and SDOs change of the slave."""
    return _SLAVE.state, _SLAVE.error, tuple(_SLAVE.dictionary.objects.values()), bytes(_SLAVE.memory)


_FRESH = _held()


def check_ethercat(data: bytes) -> None:
    """Frames come back as long as they went, replies fit their mailbox, and what is no frame is refused."""
    kind, content = (data[0] % 4 if data else 0), data[1:]
    if kind == _READINGS:
        _check_readings(content)
        return
    if _held() != _FRESH:  # each input finds the slave as the first one did
        _SLAVE.power_up()
    if kind == _FRAME:
        _check_frame(content)
    elif kind == _DATAGRAMS:
        _check_datagrams(content)
    else:
        _check_sdo(content)


def _check_frame(content: bytes) -> None:
    frame = bytearray(content)
    try:
        datagrams = parse(content)
    except FrameError as error:
        _check_reason(error)
        try:
            _SEGMENT.process(frame)
        except FrameError:
            return
        raise AssertionError("the slave takes what is no frame") from error
    assert sum(len(one.data) for one in datagrams) < len(content)
    assert _SEGMENT.process(frame)
    assert [len(one.data) for one in parse(bytes(frame))] == [len(one.data) for one in datagrams]


def _check_reason(error: Exception) -> None:
    assert len(str(error)) < _LONGEST_REASON


def _check_datagrams(content: bytes) -> None:
    at = 0
    for _ in range(_MOST_STEPS):
        if at + _STEP.size > len(content):
            return
        command, address, length, given = _STEP.unpack_from(content, at)
        at += _STEP.size
        data = content[at : at + given].ljust(min(length, _LONGEST_DATA), b"\0")
        at += given
        frame = bytearray(encode([Datagram(command, 0, address, data)]))
        assert _SEGMENT.process(frame)
        (answer,) = parse(bytes(frame))
        assert len(answer.data) == len(data)
        assert 0 <= answer.working_counter <= 3
        assert _SLAVE.state in State


def _check_sdo(content: bytes) -> None:
    reply = emulated.answer(content, _SLAVE.dictionary, 1)
    if reply is not None:
        assert 6 <= len(reply) <= emulated.MAILBOX_BYTES
        assert int.from_bytes(reply[:2], "little") == len(reply) - 6


def _check_readings(content: bytes) -> None:
    """Whatever a device's objects hold, its process data become as many numbers, or it is refused."""
    sensor = _SENSORS[content[0] % len(_SENSORS) if content else 0]
    wanted: dict[SdoObject, float] = {}
    conversion_of(sensor, WRENCH, lambda one: wanted.setdefault(one, 1.0))
    told = content[1 : 1 + 8 * len(wanted)].ljust(8 * len(wanted), b"\0")
    try:
        values = dict(zip(wanted, np.frombuffer(told, dtype="<f8").tolist(), strict=True))
        conversion = conversion_of(sensor, WRENCH, values.__getitem__)
    except UserError as error:
        _check_reason(error)
        return
    record = dtype_of(sensor.input_entries)
    rest = content[1 + len(told) :]
    records = np.frombuffer(rest[: len(rest) // record.itemsize * record.itemsize], dtype=record)
    with np.errstate(over="ignore", invalid="ignore"):  # a factor of 1e300; what is not finite is left out
        assert conversion(records).shape == (len(records), len(WRENCH))


ETHERCAT = Target(check_ethercat, longest=768)


_LARGEST_RECORD = 4096
_FAULT_BYTES = 400


def check_description(data: bytes) -> None:
    """A description that is taken has a layout; what is wrong with another is said in so many words for each fault."""
    try:
        found = parse_description(data)
    except ConfigurationError as error:
        _check_faults(error, len(data))
        return
    assert isinstance(found, SensorDescription)
    assert dtype_of(found.input_entries).itemsize <= _LARGEST_RECORD


def _check_faults(error: ConfigurationError, size: int) -> None:
    assert len(str(error)) < _FAULT_BYTES * (size + 10)


DESCRIPTION = Target(check_description)
