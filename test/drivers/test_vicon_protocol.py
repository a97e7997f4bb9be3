"""Vicon's DataStream: what an emulated server sends is read to the last bit, and nothing that lies is believed."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from benchmarks.drivers.fuzz import kept
from drivers.emulators.vicon import encode_named_numbers, encode_subject, subjects_of
from drivers.motion_capture.vicon_protocol import (
    CONTENTS,
    FRAME_INFO,
    GLOBAL_SEGMENTS,
    HARDWARE_FRAME,
    LARGEST_PACKET,
    LATENCY_INFO,
    OBJECT_ENUMS,
    PACKET,
    REQUEST_FRAME,
    SEGMENTS,
    STREAM_INFO,
    SUBJECT_INFO,
    WANTED,
    Packets,
    Session,
    StreamError,
    block,
    blocks,
    encode_uints,
)
from drivers.motion_capture.vicon_receiver import FrameClock

SUBJECTS = subjects_of(["box", "arm/upper", "arm/lower"])
OFFER = block(PACKET, block(OBJECT_ENUMS, encode_uints([*WANTED, 8, 13, 42])))


def read(packet: bytes) -> Session:
    """After one packet."""
    session = Session()
    list(session.feed(block(PACKET, packet)))
    return session


def segments(subject_id: int, *poses: tuple[int, Any, Any]) -> bytes:
    records = np.array([(number, position, rotation) for number, position, rotation in poses], dtype=SEGMENTS)
    return struct.pack("<II", subject_id, len(poses)) + records.tobytes()


def contents(counts: dict[int, int], unchanged: tuple[int, ...] = ()) -> bytes:
    table = struct.pack("<I", len(counts)) + b"".join(struct.pack("<II", *entry) for entry in counts.items())
    return table + encode_uints(unchanged)


def frame(number: int, *more: bytes) -> bytes:
    return block(PACKET, block(FRAME_INFO, struct.pack("<I", number)) + b"".join(more))


def test_a_packet_is_read_to_the_last_bit() -> None:
    position_mm, rotation = np.array([1.1, -2.2, 1e4 / 3.0]), Rotation.from_rotvec([0.3, 0.4, -0.5]).as_matrix()
    packet = b"".join(
        [
            block(STREAM_INFO, struct.pack("<q", 225_000)),
            *(block(SUBJECT_INFO, encode_subject(subject)) for subject in SUBJECTS),
            block(FRAME_INFO, struct.pack("<I", 77)),
            block(HARDWARE_FRAME, struct.pack("<I", 1077)),
            block(LATENCY_INFO, encode_named_numbers({"cameras": 0.002, "labelling": 0.0015})),
            block(39, encode_named_numbers({"Cameras": 200.0})),
            block(GLOBAL_SEGMENTS, segments(1, (1, position_mm, rotation))),
            block(GLOBAL_SEGMENTS, segments(2, (2, position_mm, rotation))),  # the upper arm is occluded
        ]
    )
    found = Session()
    assert list(found.feed(block(PACKET, packet))) == [(77, 1077)]
    assert found.rates_hz == (600.0, 200.0)
    assert found.latency_s == pytest.approx(0.0035, abs=1e-15)
    assert found.subjects == SUBJECTS
    assert found.poses.ids == [(1, 1), (2, 2)]
    assert np.array_equal(found.poses.values["position_mm"], [position_mm, position_mm])
    assert np.array_equal(found.poses.values["rotation"], [rotation, rotation])


def test_the_client_asks_for_what_it_wants_of_what_there_is() -> None:
    session = Session()
    assert list(session.feed(OFFER)) == []
    asked = [list(blocks(packet)) for packet in Packets().feed(session.answer)]
    assert asked == [[(OBJECT_ENUMS, encode_uints(WANTED))], [(REQUEST_FRAME, b"\x01")]]


def test_what_is_unchanged_is_that_of_the_packet_before() -> None:
    session = Session()
    poses = block(GLOBAL_SEGMENTS, segments(1, (1, np.ones(3), np.eye(3))))
    latency = block(LATENCY_INFO, encode_named_numbers({"all": 0.004}))
    told = block(CONTENTS, contents({GLOBAL_SEGMENTS: 0}, (GLOBAL_SEGMENTS, LATENCY_INFO, SUBJECT_INFO)))
    subjects = b"".join(block(SUBJECT_INFO, encode_subject(subject)) for subject in SUBJECTS)
    frames = session.feed(frame(1, subjects, poses, latency) + frame(2, told) + frame(3))
    found = [(session.poses.ids, session.latency_s) for _ in frames]
    # In the third not told as unchanged, and not there: all are occluded.
    assert found == [([(1, 1)], 0.004), ([(1, 1)], 0.004), ([], None)]
    assert session.subjects == SUBJECTS


def test_a_stream_in_pieces_is_the_same_stream() -> None:
    data = OFFER + frame(1, block(12345, b"unknown kind")) + frame(2)
    session, found = Session(), []
    for at in range(len(data)):
        found += list(session.feed(data[at : at + 1]))
    assert found == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("packet", "words"),
    [
        (block(FRAME_INFO, b"\x01"), "4 bytes are told of, and the block has 1 left"),
        (struct.pack("<II", FRAME_INFO, 0xFFFFFFFF), "4294967295 bytes are told of, and the packet has 0 left"),
        (struct.pack("<II", 4711, 5) + b"1234", "5 bytes are told of, and the packet has 4 left"),
        (b"\x01\x02\x03", "8 bytes are told of, and the packet has 3 left"),
        (block(GLOBAL_SEGMENTS, struct.pack("<II", 1, 0xFFFFFFFF)), "429496729500 bytes are told of"),
        (block(SUBJECT_INFO, struct.pack("<II", 1, 0x7FFFFFFF) + b"name"), "and the block has 4 left"),
        (block(LATENCY_INFO, encode_named_numbers({"stage": float("nan")})), "stage is nan"),
        (block(CONTENTS, struct.pack("<II", 0, 0x40000000)), "and the block has 0 left"),
    ],
)
def test_lengths_and_counts_that_lie(packet: bytes, words: str) -> None:
    with pytest.raises(StreamError, match=words):
        read(packet)


def test_a_packet_that_is_none_or_too_long() -> None:
    with pytest.raises(StreamError, match="is it another service"):
        Packets().feed(b"HTTP/1.1 400 Bad Request\r\n")
    with pytest.raises(StreamError, match=f"a packet of {LARGEST_PACKET + 1} bytes"):
        Packets().feed(struct.pack("<II", PACKET, LARGEST_PACKET + 1))


def _known() -> st.SearchStrategy[bytes]:
    kinds = st.sampled_from([1, 2, 5, 9, 26, 36, 39, OBJECT_ENUMS, CONTENTS, 77])
    counts = st.integers(0, 0xFFFFFFFF).map(lambda value: struct.pack("<I", value))
    content = st.lists(st.one_of(st.binary(max_size=40), counts, st.just(b"\x01\0\0\0")), max_size=6).map(b"".join)
    return st.lists(st.builds(block, kinds, content), max_size=5).map(b"".join)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300) | _known())
def test_whatever_comes_is_read_or_refused(packet: bytes) -> None:
    with suppress(StreamError):
        found = read(packet)
        assert len(found.poses.ids) == len(found.poses.values) <= len(packet)


def test_what_a_fuzzer_kept_is_read_or_refused() -> None:
    """Inputs that take other ways through the reader: where a byte is changed, by what, and the packet."""
    for data in kept("vicon"):
        test_whatever_comes_is_read_or_refused.hypothesis.inner_test(data[3:])


def test_a_name_that_fills_the_log_is_refused_and_one_that_hides_in_it_is_shown() -> None:
    with pytest.raises(StreamError, match="a name of 256 bytes"):
        read(block(SUBJECT_INFO, encode_subject(subjects_of(["a" * 256])[0])))
    found = read(block(SUBJECT_INFO, encode_subject(subjects_of(["a\n\x1b[2J"])[0])))
    assert found.subjects[0].name == "a\ufffd\ufffd[2J"


RATE_HZ, LATENCY_S = 600.0, 0.004


def _stamps(
    clock: FrameClock, first: int, count: int, began_ns: int, seed: int = 0, rate_hz: float = RATE_HZ
) -> tuple[Any, Any]:
    """Of frames that arrive with the told latency and an untold jitter; and their exposures, both ns."""
    rng = np.random.default_rng(seed)
    exposed = began_ns + np.round(np.arange(count) * 1e9 / rate_hz * (1.0 + 40e-6)).astype(np.int64)
    late_s = LATENCY_S + rng.uniform(0.0, 0.001, count)
    arrivals = exposed + np.round(1e9 * (late_s + rng.exponential(200e-6, count))).astype(np.int64)
    arrivals = np.maximum.accumulate(arrivals)
    stamps = [
        clock.stamp_ns(first + k, late, arrival)
        for k, (late, arrival) in enumerate(zip(late_s.tolist(), arrivals.tolist(), strict=True))
    ]
    return stamps, exposed


def test_jitter_of_arrivals_and_of_the_told_latency_goes() -> None:
    said: list[str] = []
    clock = FrameClock(0.0, lambda sentence, _: said.append(sentence))
    clock.tell_rates((RATE_HZ,))
    stamps, exposed = _stamps(clock, 1000, 12_000, 10**18)
    errors_us = 1e-3 * np.abs(np.array(stamps) - exposed)
    assert np.median(errors_us) < 20.0
    assert np.percentile(errors_us, 99) < 100.0
    assert (np.diff(stamps) > 0).all()
    assert clock.device_clock is not None
    assert clock.device_clock.stddev_s < 20e-6
    assert clock.device_clock.skew_ppm == pytest.approx(40.0, abs=3.0)
    assert said == []


def test_numbers_that_fall_are_a_restart() -> None:
    clock = FrameClock(0.0, lambda *_: None)
    clock.tell_rates((RATE_HZ,))
    before, _ = _stamps(clock, 50_000, 6000, 10**18)
    after, exposed = _stamps(clock, 3, 6000, 10**18 + 13 * 10**9)
    known = [stamp is not None for stamp in after]
    assert known.index(True) == 4  # a fifth confirms the jump
    assert all(known[4:])
    assert clock.device_clock is not None
    assert clock.device_clock.jumps == 1
    assert np.abs(np.array(after[600:]) - exposed[600:]).max() < 300_000
    assert after[4] > before[-1]


@pytest.mark.parametrize(("told_hz", "words"), [((100.0, RATE_HZ), "600 Hz is taken"), ((250.0,), "less the latency")])
def test_of_rates_told_one_that_fits_the_numbers_is_taken_or_arrivals_less_the_latency(
    told_hz: tuple[float, ...], words: str
) -> None:
    said: list[str] = []
    clock = FrameClock(0.0, lambda sentence, _: said.append(sentence))
    clock.tell_rates(told_hz)
    stamps, exposed = _stamps(clock, 0, 9000, 10**18)
    assert len(said) == 1
    assert words in said[0]
    late = np.array(stamps[-3000:]) - exposed[-3000:]
    assert np.median(np.abs(late)) < 300_000
    if RATE_HZ in told_hz:
        assert clock.rate_hz == RATE_HZ
        assert np.abs(late).max() < 300_000
    else:
        assert np.isnan(clock.rate_hz)
        assert (late >= -1).all()


def test_a_latency_that_cannot_be_is_not_believed() -> None:
    clock = FrameClock(0.0, lambda *_: None)
    assert clock.stamp_ns(1, 0.004, 10**18) == 10**18 - 4_000_000
    for latency_s in (-1.0, 1e300, float("inf"), float("nan")):
        assert (clock.stamp_ns(2, latency_s, 10**18 + 10**7) or 0) >= 10**18 - 4_000_000
    assert clock.implausible_latencies == 4
