"""A real terminal's EEPROM in a capture; frames that lie; faults that the emulated devices have on request."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from ethercat_datagrams import Datagram, encode, is_returned, parse

from drivers.emulators.ethercat_segment import EthercatFaults, FrameError, Segment
from drivers.emulators.ethercat_slave import Command, Slave, State, answer
from drivers.ethercat.description import find

SENSORS = (("ati_axia80", 6), ("beckhoff_el3004", 4))


def captured(folder: Path, name: str) -> list[bytes]:
    """Its frames, in order."""
    utils = pytest.importorskip("scapy.utils", reason="needs scapy, `pip install scapy`, to read captures")
    with utils.RawPcapNgReader(str(folder / "ethercat" / f"{name}.pcapng")) as reader:
        return [data for data, _ in reader]


@pytest.mark.data
def test_an_eeprom_in_a_capture_names_the_terminal_that_our_file_describes(shared_data: Path) -> None:
    described = find("beckhoff_el3004")
    asked: dict[int, int] = {}
    words: dict[tuple[int, int], bytes] = {}
    for frame in captured(shared_data, "replay-ek1914-el3004-configure"):
        for one in parse(frame):
            if one.command == Command.FPWR and one.offset == 0x0502 and not is_returned(frame):
                asked[one.station] = int.from_bytes(one.data[2:6], "little")
            elif one.command == Command.FPRD and one.offset == 0x0508 and is_returned(frame):
                words[one.station, asked[one.station]] = one.data
    told = [data for (_, word), data in words.items() if word == 8]
    assert {int.from_bytes(data[:4], "little") for data in told} == {described.vendor_id}
    assert described.product_ids[0] in {int.from_bytes(data[4:8], "little") for data in told}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda frame: frame[:15], "15 bytes, less than the 16"),
        (lambda frame: frame[:14] + b"\x10\x40" + frame[16:], "type 4"),
        (lambda frame: frame[:14] + b"\xff\x17" + frame[16:], "2047 bytes of datagrams announced, 44 there"),
        (lambda frame: frame[:22] + b"\x40\x00" + frame[24:], "datagram 0: its 64 bytes of data do not fit"),
    ],
)
def test_lengths_that_lie_are_refused_with_their_numbers(change: Any, sentence: str) -> None:
    with pytest.raises(FrameError, match=sentence):
        parse(change(encode([Datagram(Command.BRD, 0, 0, b"ab")])))


def test_faults_come_when_asked_for_and_go_again() -> None:
    first, second = (Slave(find(name), lambda _, count=count: (1.0,) * count) for name, count in SENSORS)
    bus, frame = Segment([first, second], EthercatFaults()), encode([Datagram(Command.BRD, 0, 0, bytes(1))])

    def reached(**faults: Any) -> int:
        """By how many slaves, with these faults; -1: the frame does not come back."""
        bus.change(EthercatFaults(**faults))
        asked = bytearray(frame)
        return parse(bytes(asked))[0].working_counter if bus.process(asked) else -1

    def abort_code() -> int:
        sdo = struct.pack("<HHBBHBHB4x", 10, 0, 0, 3, 2 << 12, 0x40, 0x2021, 0x37)
        reply = answer(sdo, first.dictionary, 1) or b""
        return int.from_bytes(reply[12:16], "little") if reply[8] == 0x80 else 0

    def status() -> int:
        return int.from_bytes(first.sensor.inputs(0)[24:28], "little")

    first.enter(State.OP)
    assert reached(overload=True, sdo_aborts=("0x2021:37",), refused_state="op") == 2
    assert (status(), abort_code(), first.refused) == (0x4000_0000, 0x0800_0000, State.OP)
    assert reached(leaves_op=True) == 2
    assert (status(), abort_code(), first.refused) == (0, 0, None)
    assert (first.state, first.error) == (State.SAFEOP, 1)
    # The second loses its power: the first becomes the last, and stays.
    second.enter(State.OP)
    assert reached(power_off_s=60.0, slave=1) == 1
    assert reached() == 2
    assert (first.state, second.state) == (State.SAFEOP, State.INIT)
    assert [
        reached(**silent) for silent in ({"unplugged_s": 60.0}, {"frame_loss_rate": 1.0}, {"power_off_s": 60.0})
    ] == [-1] * 3
    assert reached() == 2
    assert first.state is State.INIT
