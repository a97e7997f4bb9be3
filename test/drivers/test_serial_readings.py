"""The serial line's bytes live: the very readings of the log's converter, faults counted, nothing corrupted let by."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from drivers.at_rest import faults
from drivers.emulators.serial_imu import Reading, SerialDevice, SerialFaults
from drivers.serial_imu.frames import HIGH_G, LOW_G, Sample, SerialReadings, Settings, encode_sample, encode_settings
from drivers.serial_imu.node import axes_matrix
from hopper_estimation.serial_log import read_serial_log
from onboard_estimation.base.errors import UserError

EPOCH_NS = 1_800_000_000 * 10**9
TOLD = Settings(0, 0, low_g_range=2, gyro_range=1, high_g_range=3, low_pass=2, rate_hz=1000)


def samples(count: int, seed: int, first_us: int = 0) -> list[Sample]:
    """Random counts at 1 kHz; the first frame is the settings', number 0."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(-32768, 32768, (count, 10)).tolist()
    return [
        Sample(
            (k + 1) % 256, (first_us + 1000 * (k + 1)) % (1 << 32), tuple(row[:3]), tuple(row[3:6]), row[6],
            tuple(row[7:]), int(rng.choice([0, 0, 0, 1, 2, 3])),
        )
        for k, row in enumerate(counts)
    ]  # fmt: skip


def wire(count: int, seed: int) -> bytes:
    return encode_settings(TOLD) + b"".join(encode_sample(one) for one in samples(count, seed))


def test_live_readings_are_those_of_the_converter_to_the_last_bit(tmp_path: Path) -> None:
    data, piece = wire(400, 1), 7
    log = tmp_path / "log.bin"
    log.write_bytes(data)
    expected = {one.channel.sensor: one for one in read_serial_log(log).recording.sensors}
    live, found = SerialReadings(), []
    for first in range(0, len(data), piece):
        found += live.feed(data[first : first + piece], EPOCH_NS + 30_000 * (first + piece))
    for sensor in (LOW_G, HIGH_G):
        mine = np.array([one.value for one in found if one.sensor == sensor])
        np.testing.assert_array_equal(mine, expected[sensor].values)
    assert (live.samples, live.lost, live.before_ranges) == (400, 0, 0)
    assert sum(live.unread.values()) == 800 - len(found)


def test_what_comes_before_the_ranges_is_left_out_and_what_is_missing_counted() -> None:
    frames = [encode_sample(one) for one in samples(300, 2)]
    live = SerialReadings()
    live.feed(b"".join(frames[:10]), EPOCH_NS)
    assert (live.before_ranges, live.scales) == (10, None)
    settings = Settings(11, 11_000, 0, 0, 0, 0, 1000)
    live.feed(encode_settings(settings), EPOCH_NS + 10_000_000)
    live.feed(b"".join([*frames[11:20], *frames[25:60]]), EPOCH_NS + 60_000_000)
    assert live.lost == 5
    assert live.scales is not None


# Mounting and the check at the start


def test_axes_turn_readings_to_the_body_and_others_are_refused() -> None:
    for text, words in (("x y", "three different axes"), ("x y q", "'q' is no axis"), ("y x z", "left-handed")):
        with pytest.raises(UserError, match=words):
            axes_matrix(text)
    np.testing.assert_array_equal(axes_matrix("-y x z") @ [1.0, 2.0, 3.0], [-2.0, 1.0, 3.0])
    np.testing.assert_array_equal(axes_matrix("x, y, z"), np.eye(3))


def at_rest(count: int = 800, **changes: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    values = rng.normal([0.02, -0.01, 0.005, 0.1, -0.1, 9.8], 0.01, (count, 6))
    for name, value in changes.items():
        values[:, int(name[1:])] += value
    return values


def test_what_cannot_be_right_at_the_start_is_said_and_nothing_else() -> None:
    high = at_rest()
    high[:, :3] = np.nan
    assert not list(faults(at_rest(), high, 1.0, 840.0))
    swapped = at_rest()[:, [0, 1, 2, 5, 3, 4]]
    for low, other, words in (
        (at_rest(20), high, "imu/low_g: 20 readings in 1.0 s; is it wired"),
        (at_rest(400), high, "400 readings a second, the device tells 840"),
        (np.full((800, 6), 9.8), high, "its chip hangs"),
        (at_rest(_5=3.0), high, "not gravity"),
        (swapped, swapped, "gravity along x"),
        (at_rest(_5=-19.6), high, "gravity along -z"),
        (at_rest(_2=0.4), high, "z 23.2 deg/s, or its gyro is at fault"),
        (at_rest(), high + 20.0, "set high_g_axes"),
        (at_rest(), high[:0], "imu/high_g: 0 readings"),
    ):
        assert any(words in sentence for sentence in faults(low, other, 1.0, 840.0)), words


# The emulated device


@contextmanager
def opened(faults: SerialFaults) -> Iterator[tuple[SerialDevice, int]]:
    device = SerialDevice(None, TOLD, faults)
    port = os.open(device.port, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        yield device, port
    finally:
        os.close(port)
        device.close()


def test_a_restarted_device_begins_anew() -> None:
    live, stamps = SerialReadings(), []
    with opened(SerialFaults(restart_every_s=0.8, first_time_us=4_294_800_000)) as (device, port):
        for k in range(2000):
            device.send([Reading(1_000_000 * k, np.zeros(6), np.zeros(6))])
            found = live.feed(os.read(port, 4096), EPOCH_NS + 1_000_000 * k + 200_000)
            stamps += [one.stamp_ns - EPOCH_NS - 1_000_000 * k for one in found if one.sensor == LOW_G]
    assert live.clock.jumps == 2
    assert live.lost == 0  # it counts from anew
    assert len(stamps) >= 2000 - 20
    assert np.abs(stamps[-200:]).max() < 400_000


def test_a_link_that_is_there_is_not_taken_and_one_left_behind_is(tmp_path: Path) -> None:
    link = tmp_path / "port"
    first = SerialDevice(link, TOLD, SerialFaults())
    with pytest.raises(UserError, match="is there already"):
        SerialDevice(link, TOLD, SerialFaults())
    assert link.exists()
    first.close()
    assert not link.is_symlink()
    link.symlink_to(tmp_path / "gone")
    again = SerialDevice(link, TOLD, SerialFaults())
    assert link.exists()
    again.close()
