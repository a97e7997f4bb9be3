"""The serial line's frames and its logs: what is sent comes back, what is damaged is counted, nothing is trusted."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serial_lines import SETTINGS, line, sample, saved

from drivers.serial_imu.frames import Fault, Sample, Settings, decode, encode_sample, encode_settings
from hopper_estimation.serial_log import LogClock, read_serial_log
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError
from onboard_estimation.cli import main


def stuffed(payload: bytes) -> bytes:
    """COBS as Cheshire and Baker describe it (1999), written down anew: the test's own."""
    out = b""
    for block in (payload + b"\0").split(b"\0")[:-1]:
        while len(block) >= 254:
            out, block = out + b"\xff" + block[:254], block[254:]
        out += bytes([len(block) + 1]) + block
    return out


def frame(payload: bytes) -> bytes:
    """With its CRC, as it stands between two zero bytes."""
    return stuffed(payload + struct.pack("<I", zlib.crc32(payload)))


def test_the_bytes_are_those_of_the_description() -> None:
    """Against `struct`, `zlib` and COBS of the test's own: what firmware in another language has to send."""
    payload = struct.pack("<BBI10hH", 1, 7, 123456789, 1, 2, 3, -4, -5, -6, 700, 16, -32, 48, 1)
    expected = Sample(7, 123456789, (1, 2, 3), (-4, -5, -6), 700, (16, -32, 48), 1)
    assert decode(frame(payload)) == expected
    assert encode_sample(expected) == frame(payload) + b"\0"
    told = struct.pack("<BBI4BH2B3B8s", 2, 8, 99, 3, 2, 1, 4, 1000, 0x68, 0x32, 1, 2, 3, b"12345678")
    assert decode(frame(told)) == Settings(8, 99, 3, 2, 1, 4, 1000, 0x68, 0x32, (1, 2, 3), b"12345678")


@pytest.mark.parametrize(
    ("stretch", "fault"),
    [
        (b"\x05ab", Fault.COBS),
        (b"\x01", Fault.LENGTH),
        (b"x" * 500, Fault.LENGTH),
        (frame(b"\x03" + bytes(27)), Fault.TYPE),
        (frame(b"\x01" + bytes(28)), Fault.LENGTH),
        (stuffed(b"\x01" + bytes(31)), Fault.CRC),
        (frame(b"\x01" + bytes(25) + b"\x04\x00"), Fault.CODE),
        (encode_settings(Settings(0, 0, 4, 3, 0, 1, 840))[:-1], Fault.CODE),
        (encode_settings(Settings(0, 0, 3, 3, 2, 1, 840))[:-1], Fault.CODE),
        (encode_settings(Settings(0, 0, 3, 3, 0, 1, 0))[:-1], Fault.CODE),
    ],
)
def test_what_is_no_frame_is_named(stretch: bytes, fault: Fault) -> None:
    assert decode(stretch) is fault


def test_counts_become_si_units(tmp_path: Path) -> None:
    log = read_serial_log(saved(tmp_path, *line(10)))
    low_g, high_g = log.recording.sensors
    assert len(low_g.stamps_ns) == len(high_g.stamps_ns) == 10
    gravity, degree = 9.80665, np.pi / 180
    np.testing.assert_allclose(low_g.values[2], [10 * degree, 0, -10 * degree, 3 / 2048 * gravity, -gravity, gravity])
    np.testing.assert_allclose(high_g.values[2], [np.nan, np.nan, np.nan, 0.49 * gravity, -0.49 * gravity, 0])
    np.testing.assert_array_equal(np.diff(low_g.stamps_ns)[:2], [1_191_000, 1_190_000])
    assert "16 g and 2000 deg/s, high-g 100 g, 840 Hz" in log.notes[0]
    assert "1.2.3" in log.notes[0]


@pytest.mark.parametrize(("code", "per_digit_g"), [(1, 0.098), (3, 0.195)])
def test_negative_high_g_counts_keep_their_sign(tmp_path: Path, code: int, per_digit_g: float) -> None:
    """Twelve bits, left-justified: -16 is -1 digit and -32768 is -2048."""
    told = Settings(**{**vars(SETTINGS), "high_g_range": code})
    reading = sample(1)._replace(high_g=(-16, -32768, 32752))
    log = read_serial_log(saved(tmp_path, encode_settings(told), encode_sample(reading)))
    _, high_g = log.recording.sensors
    np.testing.assert_allclose(high_g.values[0, 3:], np.array([-1, -2048, 2047]) * per_digit_g * 9.80665)
    assert any("high_g accelerometer: 1 of 1" in note for note in log.notes)


def test_a_change_of_range_counts_from_then_on_and_samples_before_any_are_left_out(tmp_path: Path) -> None:
    other = encode_settings(Settings(4, 4000, 0, 0, 1, 1, 840))
    log = read_serial_log(saved(tmp_path, *line(3), other, encode_sample(sample(5))))
    low_g, _ = log.recording.sensors
    assert log.counts["changes_of_range"] == 1
    assert low_g.values[2, 4] == pytest.approx(-9.80665)
    assert low_g.values[3, 4] == pytest.approx(-9.80665 / 8)
    before = [encode_sample(sample(number)) for number in range(1, 5)]
    log = read_serial_log(saved(tmp_path, before[0][20:], *before[1:], *line(6, first=6)))
    assert (log.counts["samples"], log.counts["used"], log.counts["before_ranges"]) == (9, 6, 3)
    assert log.counts["corrupted"] == 0  # the first was heard from its middle on


def test_damage_is_counted_and_said(tmp_path: Path) -> None:
    frames = line(300)
    damaged = bytearray(frames[20])
    damaged[5] ^= 0x10
    frames[20] = bytes(damaged)
    del frames[40:45]
    frames[100] = frames[100] * 2
    log = read_serial_log(saved(tmp_path, b"ets Jun  8 2016 rst:0x1\r\n\0", *frames, b"\x05ab"))
    counts = log.counts
    assert (counts["corrupted"], counts["lost"], counts["repeated"]) == (1, 6, 1)
    assert (counts["used"], counts["bytes_unfinished"]) == (294, 3)
    text = " ".join(log.notes)
    assert "1 corrupted frames left out: 1 wrong CRC" in text
    assert "6 frames are missing by their numbers and times" in text


@settings(max_examples=30)
@given(st.lists(st.integers(1, 59_999_999), min_size=1, max_size=50), st.integers(0, 2**32 - 1))
def test_device_time_is_unwrapped(steps: list[int], start: int) -> None:
    clock = LogClock()
    assert clock.stamp_ns(start) == 20_000_000
    for elapsed in np.cumsum(steps).tolist():
        assert clock.stamp_ns((start + elapsed) % 2**32) == 20_000_000 + 1000 * elapsed
    assert (clock.jumps, clock.implausible, clock.repeated) == (0, 0, 0)


def test_one_wrong_time_is_dropped_and_a_restart_is_followed() -> None:
    clock = LogClock()
    times = [5_000_000, 5_001_000, 900_000_000, 5_002_000, 10_000, 11_000, 12_000]
    found_ms = [stamp and stamp / 1e6 - 20 for stamp in map(clock.stamp_ns, times)]
    assert found_ms == [0, 1, None, 2, None, 1002, 1003]
    assert (clock.jumps, clock.implausible) == (1, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 valid samples, no frame tells the ranges; 0 corrupted"),
        (b"".join(line(3)[1:]), "3 valid samples, no frame tells the ranges"),
        (line(1)[0], "0 valid samples, none follows a frame that tells"),
    ],
)
def test_logs_without_readings_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_serial_log(saved(tmp_path, content))


def test_the_command_writes_a_bag_and_says_what_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = line(50)
    frames[7] = frames[7][:10] + b"\0"
    path = saved(tmp_path, *frames)
    main(["convert", "serial_log", str(path), "--output", str(tmp_path / "bag")])
    assert "1 corrupted frames left out" in capsys.readouterr().out
    messages: dict[str, list] = {}
    with open_bag(tmp_path / "bag") as bag:
        for raw in bag.messages():
            messages.setdefault(raw.topic, []).append(bag.deserialize(raw))
    low_g, high_g = messages["/imu/low_g/data_raw"], messages["/imu/high_g/data_raw"]
    apart_ns = [high.header.stamp.nanosec - low.header.stamp.nanosec for low, high in zip(low_g, high_g, strict=True)]
    assert set(apart_ns) == {1_795_955}  # the filters: 2.0 ms of the low-g sensor, 0.2 ms of the other
    assert len(low_g) == 49
    assert (low_g[0].header.frame_id, high_g[0].header.frame_id) == ("imu_low_g", "imu_high_g")
    assert (low_g[0].angular_velocity_covariance[0], high_g[0].angular_velocity_covariance[0]) == (0.0, -1.0)
    assert high_g[5].linear_acceleration.x == pytest.approx(0.49 * 9.80665)
    assert low_g[5].linear_acceleration.x == pytest.approx(6 / 2048 * 9.80665)
    with pytest.raises(SystemExit, match="2"):
        main(["convert", "serial_log", str(path), "--output", str(tmp_path / "two"), "--as-recorded"])
    assert not (tmp_path / "two").exists()
