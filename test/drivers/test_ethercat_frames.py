"""EtherCAT frames: captures of real buses against scapy, datagram by datagram; lengths that lie; any bytes at all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ethercat_datagrams import Datagram, encode, is_returned, parse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.drivers.fuzz import kept
from drivers.emulators.ethercat.controller import LARGEST_FRAME, Command, FrameError, places
from drivers.ethercat.description import find

SENT = [
    Datagram(Command.FPRD, 3, 0x0130_1001, bytes(2)),
    Datagram(Command.LRW, 4, 0x0001_0000, bytes(range(40)), working_counter=3, interrupt=5),
]


def captured(folder: Path, name: str) -> list[bytes]:
    """Its frames, in order."""
    utils = pytest.importorskip("scapy.utils", reason="needs scapy, `pip install scapy`, to read captures")
    with utils.RawPcapNgReader(str(folder / "ethercat" / f"{name}.pcapng")) as reader:
        return [data for data, _ in reader]


def by_scapy(frame: bytes) -> list[Any]:
    ethercat = pytest.importorskip("scapy.contrib.ethercat", reason="needs scapy, `pip install scapy`")
    layer, found = ethercat.Ether(frame)[ethercat.EtherCat].payload, []
    while isinstance(layer, ethercat.EtherCatType12DLPDU):
        told = layer.fields  # its own: an attribute that it has not is looked for in the next datagram
        address = told["adr"] if "adr" in told else told["adp"] | told["ado"] << 16
        found.append((told["_cmd"], told["idx"], address, bytes(told["data"]), told["wkc"], told["irq"]))
        layer = layer.payload
    return found


def by_us(datagrams: Any) -> list[Any]:
    return [(one.command, one.index, one.address, one.data, one.working_counter, one.interrupt) for one in datagrams]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "frames", "datagrams", "slaves"),
    [("replay-dc", 1802, 5676, 3), ("replay-ek1914-el3004-configure", 552, 1104, 2)],
)
def test_captures_of_real_buses_decode_with_their_working_counters_and_as_scapy_reads_them(
    name: str, frames: int, datagrams: int, slaves: int, shared_data: Path
) -> None:
    """Each frame goes out with counters of 0, and comes back with the same datagrams, counted up."""
    waiting: list[tuple[Datagram, ...]] = []
    count, counters = Counter[object](), Counter[tuple[str, int]]()
    for place, frame in enumerate(captured(shared_data, name)):
        found = parse(frame)
        # Scapy 2.8 takes datagrams of 128 bytes and more, of mailboxes, for something else.
        if place % 10 == 0 and max(len(one.data) for one in found) < 100:
            assert by_scapy(frame) == by_us(found)
            count["by scapy"] += 1
        count[is_returned(frame)] += 1
        count["datagrams"] += len(found)
        if not is_returned(frame):
            assert all(one.working_counter == 0 for one in found)
            waiting.append(found)
            continue
        keys = [[(one.index, one.command) for one in sent] for sent in waiting]
        sent = waiting.pop(keys.index([(one.index, one.command) for one in found]))
        for there, back in zip(sent, found, strict=True):
            assert len(there.data) == len(back.data)
            assert there.offset == back.offset or back.command in (Command.LRD, Command.LWR, Command.LRW)
            counters[Command(back.command).name, back.working_counter] += 1
            if back.working_counter == 0:  # nobody did it, so nobody changed it
                assert there.data == back.data
    assert not waiting
    assert (count[False], count[True], count["datagrams"]) == (frames, frames, datagrams)
    assert count["by scapy"] > 50
    assert counters["BRD", slaves] == 2  # all of them count a broadcast
    assert counters["APWR", 1] == slaves


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


def test_scapy_reads_a_frame_of_ours() -> None:
    assert by_scapy(encode(SENT)) == by_us(SENT) == by_us(parse(encode(SENT)))


@settings(max_examples=150)
@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(14, 85), st.integers(0, 255)), max_size=3))
@example(bytes(1600), [])
def test_no_bytes_do_harm(data: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(encode(SENT))
    for place, value in changes:
        changed[place % len(changed)] = value
    for frame in (data, bytes(12) + b"\x88\xa4" + data, encode(SENT)[:14] + data, bytes(changed)):
        try:
            found = places(bytearray(frame))
        except FrameError:
            continue
        assert all(one.data <= one.counter <= len(frame) - 2 for one in found)


def test_kept_frames_do_none_either() -> None:
    for frame in kept("ethercat"):
        test_no_bytes_do_harm.hypothesis.inner_test(frame[1:], [])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda frame: frame[:15], "15 bytes, less than the 16"),
        (lambda frame: frame + bytes(LARGEST_FRAME), "more than the 1514"),
        (lambda frame: frame[:12] + b"\x08\x00" + frame[14:], "EtherType 0x0800, not 0x88A4"),
        (lambda frame: frame[:14] + b"\x10\x40" + frame[16:], "type 4"),
        (lambda frame: frame[:14] + b"\xff\x17" + frame[16:], "2047 bytes of datagrams announced, 44 there"),
        (lambda frame: frame[:14] + b"\x05\x10" + frame[16:], "datagram 0: its header ends 5 bytes behind"),
        (lambda frame: frame[:22] + b"\x40\x00" + frame[24:], "datagram 0: its 64 bytes of data do not fit"),
        (lambda frame: frame[:22] + b"\x02\x80" + frame[24:], "datagram 1: its header ends 10 bytes behind"),
    ],
)
def test_lengths_that_lie_are_refused_with_their_numbers(change: Any, sentence: str) -> None:
    with pytest.raises(FrameError, match=sentence):
        parse(change(encode([Datagram(Command.BRD, 0, 0, b"ab")])))
