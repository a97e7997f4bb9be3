"""EtherCAT frames: captures of real buses against scapy, datagram by datagram; lengths that lie; any bytes at all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.drivers.bus_targets import Datagram, encode, is_returned, parse
from drivers.emulators.ethercat.controller import LARGEST_FRAME, Command, FrameError, places

datagrams = st.builds(
    Datagram,
    command=st.integers(0, 255),
    index=st.integers(0, 255),
    address=st.integers(0, 2**32 - 1),
    data=st.binary(max_size=200),
    working_counter=st.integers(0, 0xFFFF),
    interrupt=st.integers(0, 0xFFFF),
    circulating=st.booleans(),
)


# Captures of real buses

CAPTURES = {  # frames there and back, datagrams of both ways
    "replay-dc": (1802, 5676),
    "replay-ek1100-el2828-el2889": (1789, 4124),
    "replay-ek1914-el3004-configure": (552, 1104),
}


def captured(folder: Path, name: str) -> list[bytes]:
    """Its frames, in order."""
    utils = pytest.importorskip("scapy.utils", reason="needs scapy, `pip install scapy`, to read captures")
    with utils.RawPcapNgReader(str(folder / "ethercat" / f"{name}.pcapng")) as reader:
        return [data for data, _ in reader]


@pytest.mark.data
@pytest.mark.parametrize("name", CAPTURES)
def test_captures_of_real_buses_decode_with_their_working_counters(name: str, shared_data: Path) -> None:
    """Each frame goes out with counters of 0, and comes back with the same datagrams, counted up."""
    waiting: list[tuple[Datagram, ...]] = []
    count, counters = Counter[bool](), Counter[tuple[str, int]]()
    for frame in captured(shared_data, name):
        found = parse(frame)
        count[is_returned(frame)] += 1
        count["datagrams"] += len(found)  # type: ignore[index]
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
    frames, all_datagrams = CAPTURES[name]
    assert count[False] == count[True] == frames
    assert count["datagrams"] == all_datagrams  # type: ignore[index]
    # So many slaves: all of them count a broadcast.
    slaves = 2 if "el3004" in name else 3
    assert counters["BRD", slaves] == 2
    assert counters["APWR", 1] == slaves
    process_data = {"replay-dc": (4, 257), "replay-ek1100-el2828-el2889": (2, 263)}
    if name in process_data:
        counter, exchanges = process_data[name]
        assert counters["LRW", counter] == exchanges == sum(n for (one, _), n in counters.items() if one == "LRW")


@pytest.mark.data
@pytest.mark.parametrize("name", CAPTURES)
def test_scapy_reads_the_same_in_the_captures(name: str, shared_data: Path) -> None:
    # Scapy 2.8 takes datagrams of 128 bytes and more, of mailboxes, for something else.
    frames = [frame for frame in captured(shared_data, name) if max(len(one.data) for one in parse(frame)) < 100]
    assert len(frames) > 400
    for frame in frames[:: max(1, len(frames) // 300)]:
        assert [scapy_fields(one) for one in by_scapy(frame)] == [our_fields(one) for one in parse(frame)]


@pytest.mark.data
def test_an_eeprom_in_a_capture_names_the_terminal_that_our_file_describes(shared_data: Path) -> None:
    from drivers.ethercat.description import find

    described = find("beckhoff_el3004")
    asked: dict[int, int] = {}
    words: dict[tuple[int, int], bytes] = {}
    for frame in captured(shared_data, "replay-ek1914-el3004-configure"):
        for one in parse(frame):
            if one.command == Command.FPWR and one.offset == 0x0502 and not is_returned(frame):
                asked[one.station] = int.from_bytes(one.data[2:6], "little")
            elif one.command == Command.FPRD and one.offset == 0x0508 and is_returned(frame):
                words[one.station, asked[one.station]] = one.data
    vendors = {station: int.from_bytes(data[:4], "little") for (station, word), data in words.items() if word == 8}
    products = {station: int.from_bytes(data[4:8], "little") for (station, word), data in words.items() if word == 8}
    assert set(vendors.values()) == {described.vendor_id}
    assert described.product_ids[0] in products.values()


def by_scapy(frame: bytes) -> list[Any]:
    ethercat = pytest.importorskip("scapy.contrib.ethercat", reason="needs scapy, `pip install scapy`")
    layer, found = ethercat.Ether(frame)[ethercat.EtherCat].payload, []
    while isinstance(layer, ethercat.EtherCatType12DLPDU):
        found.append(layer)
        layer = layer.payload
    return found


def scapy_fields(one: Any) -> tuple[int, int, int, bytes, int, int]:
    # Its own fields: an attribute that it has not is looked for in the next datagram.
    told = one.fields
    address = told["adr"] if "adr" in told else told["adp"] | told["ado"] << 16
    return told["_cmd"], told["idx"], address, bytes(told["data"]), told["wkc"], told["irq"]


def our_fields(one: Datagram) -> tuple[int, int, int, bytes, int, int]:
    return one.command, one.index, one.address, one.data, one.working_counter, one.interrupt


# Frames of our own


@given(st.lists(datagrams, min_size=1, max_size=6))
def test_what_is_encoded_is_decoded(sent: list[Datagram]) -> None:
    assert parse(encode(sent)) == tuple(sent)


def test_scapy_reads_a_frame_of_ours() -> None:
    sent = [
        Datagram(Command.FPRD, 3, 0x0130_1001, bytes(2)),
        Datagram(Command.LRW, 4, 0x0001_0000, bytes(range(40)), working_counter=3, interrupt=5),
    ]
    assert [scapy_fields(one) for one in by_scapy(encode(sent))] == [our_fields(one) for one in sent]


@settings(max_examples=500)
@given(st.binary(max_size=1600))
def test_no_bytes_do_harm(data: bytes) -> None:
    for frame in (data, bytes(12) + b"\x88\xa4" + data, encode([Datagram(1, 2, 3, b"ab")])[:14] + data):
        try:
            found = parse(frame)
        except FrameError:
            continue
        assert sum(len(one.data) + 12 for one in found) <= len(frame) - 16


@settings(max_examples=300)
@given(st.lists(datagrams, min_size=1, max_size=3), st.data())
def test_a_frame_with_a_changed_byte_is_refused_or_stays_within_its_bytes(sent: list[Datagram], data: Any) -> None:
    frame = bytearray(encode(sent))
    frame[data.draw(st.integers(14, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = places(frame)
    except FrameError:
        return
    assert all(one.data <= one.counter <= len(frame) - 2 for one in found)


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


def test_too_much_for_a_frame_is_refused() -> None:
    with pytest.raises(FrameError, match="more than the 1514"):
        encode([Datagram(Command.LRW, 0, 0, bytes(1487))])
    assert len(encode([Datagram(Command.LRW, 0, 0, bytes(1486))])) == LARGEST_FRAME
    with pytest.raises(FrameError, match="without datagrams"):
        encode([])
