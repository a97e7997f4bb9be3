"""The serial line's bytes live: the very readings of the log's converter, faults counted, nothing corrupted let by."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from scipy.signal import lfilter

from drivers.at_rest import faults
from drivers.emulators.serial_imu import Reading, SerialDevice, SerialFaults
from drivers.repeats import CountedRepeats
from drivers.serial_imu.frames import HIGH_G, LOW_G, Sample, Settings, encode_sample, encode_settings
from drivers.serial_imu.mounting import Expected, Mounted, Mounting, axes_matrix
from drivers.serial_imu.readings import Scales, SerialReadings
from hopper_estimation.serial_log import LogClock, read_serial_log
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Measurement

EPOCH_NS = 1_800_000_000 * 10**9
G = 9.80665
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
    assert [live.counts[name] for name in ("samples", "lost", "before_ranges")] == [400, 0, 0]
    assert live.counts["unread_low_g"] + live.counts["unread_high_g"] == 800 - len(found)


@pytest.mark.parametrize("rate_hz", [1000, 840])
def test_what_is_missing_is_counted_by_the_device_s_time_where_the_numbers_go_round(rate_hz: int) -> None:
    """A device that tells 1000 Hz, and may read at 840."""
    live, number, lost = SerialReadings(LogClock()), 0, 0
    for missing in (0, 1, 255, 256, 257, 1024):
        times = [(k, round(k * 1e6 / rate_hz)) for k in range(number, number + 2000)]
        number = times[-1][0] + 1 + missing
        frames = [Sample(k % 256, us, (0, 0, 2048), (k, 0, 0), 0, (0, 0, 0), 0) for k, us in times]
        head = b"" if lost else encode_settings(replace(TOLD, sequence=255, time_us=2**32 - 1000))
        live.feed(head + b"".join(map(encode_sample, frames)), 0)
        assert live.counts["lost"] == lost
        lost += missing


def test_stamps_are_earlier_by_the_filters_delay_and_rise_where_it_changes() -> None:
    for code, delay_ms in enumerate((0.0, 2.0, 3.0, 4.9, 8.5, 13.8, 19.0, 0.0)):
        live = SerialReadings()
        live.feed(encode_settings(replace(TOLD, low_pass=code)), EPOCH_NS)
        high, low = live.feed(encode_sample(samples(1, 1)[0]._replace(status=0)), EPOCH_NS + 1_000_000)
        assert (EPOCH_NS + 1_000_000 - low.stamp_ns) / 1e6 == pytest.approx(delay_ms)
        assert (EPOCH_NS + 1_000_000 - high.stamp_ns) / 1e6 == pytest.approx(1e3 / (2 * np.pi * 780), abs=1e-3)
        live.feed(encode_settings(replace(TOLD, low_pass=6, sequence=2, time_us=1500)), EPOCH_NS + 1_500_000)
        again = live.feed(encode_sample(samples(2, 1)[1]._replace(status=0)), EPOCH_NS + 2_000_000)
        assert again[1].stamp_ns > low.stamp_ns


@pytest.mark.parametrize(
    ("low", "high"), [(0x70, 0x32), (0x72, 0x32), (0x98, 0x32), (0x68, 0x33), (0x98, 0x33), (0, 0)]
)
def test_another_chip_s_readings_are_left_out_and_the_other_s_are_not(low: int, high: int) -> None:
    data = encode_settings(replace(TOLD, low_g_identity=low, high_g_identity=high))
    data += b"".join(encode_sample(one._replace(status=0)) for one in samples(5, 1))
    for accepts in (False, True):
        live = SerialReadings(accepts_clones=accepts)
        counts = Counter(one.sensor for one in live.feed(data, EPOCH_NS))
        assert counts[LOW_G] == 5 * (accepts or low in (0, 0x68))
        assert counts[HIGH_G] == 5 * (accepts or high in (0, 0x32))
        assert live.counts["unknown_chip_low_g"] + live.counts["unknown_chip_high_g"] == 10 - sum(counts.values())


def test_a_clipped_axis_reads_the_end_of_the_range_that_estimators_are_told() -> None:
    """Of a device at 100 g whose estimators expect 200 g, mounted a quarter turn round."""
    scales, mounted = Scales(replace(TOLD, high_g_range=0)), Mounted(Mounting(high_g_axes="-y x z"), Expected())
    mounted.tell(scales)
    value = np.array([np.nan] * 3 + [10.0, 2047 * 0.049 * G, -9.8])
    mounted(Measurement(0, HIGH_G, value))
    np.testing.assert_allclose(value[3:], [-1961.0, 10.0, -9.8])
    low = np.array([0.1, -scales.ends[LOW_G][0], 0.2, 1.0, scales.ends[LOW_G][3], 9.8])
    mounted(Measurement(0, LOW_G, low))
    np.testing.assert_allclose(low, [0.1, -34.9, 0.2, 1.0, 156.9, 9.8])
    assert "its HIGH_G_RANGE is 983.6, and expected.high_g_m_s2 1961" in Expected().difference(scales)
    assert not Expected(0.0, 0.0, 0.0, 0.0, 0.0).difference(scales)


@pytest.mark.parametrize("low_pass", range(8))
def test_noise_of_the_chips_repeats_less_often_than_what_is_taken_for_frozen(low_pass: int) -> None:
    rng, scales = default_rng(0), Scales(replace(TOLD, low_g_range=3, gyro_range=3, low_pass=low_pass))
    pole = np.exp(-2.0 * np.pi * scales.low_bandwidth_hz / scales.rate_hz)  # of its filter
    variances, steps = tuple(scales.variances[LOW_G].values()), (np.deg2rad(scales.gyro_deg_s), scales.low_g * G)
    noise = rng.normal(size=(20_000, 6)) * np.sqrt(np.repeat(variances, 3) * (1.0 - pole**2)) / 2.0
    low = np.round(lfilter([1.0], [1.0, -pole], noise, axis=0) / np.repeat(steps, 3))
    high = np.round(
        rng.normal(size=(20_000, 3))
        * np.sqrt(scales.variances[HIGH_G]["linear_acceleration"])
        / 2.0
        / (scales.high_g * G)
    )
    for name, values in ((LOW_G, low), (HIGH_G, high)):
        repeats = CountedRepeats(scales.equal_by_chance[name])
        assert repeats.fresh(values).all()
        assert not repeats.fresh(np.repeat(values[-1:], 1000, axis=0))[-1]


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
    assert not list(faults({LOW_G: at_rest(), HIGH_G: high}, 1.0, 840.0))
    assert not list(faults({LOW_G: at_rest()}, 1.0, 840.0))  # the other is left out, and that is said
    swapped = at_rest()[:, [0, 1, 2, 5, 3, 4]]
    for low, other, words in (
        (at_rest(20), high, "imu/low_g: 20 readings in 1.0 s; is it wired"),
        (at_rest(400), high, "400 readings a second, the device tells 840"),
        (at_rest(_5=3.0), high, "not gravity"),
        (swapped, swapped, "gravity along x"),
        (at_rest(_5=-19.6), high, "gravity along -z"),
        (at_rest(_2=0.4), high, "z 23.2 deg/s, or its gyro is at fault"),
        (at_rest(), high + 20.0, "set high_g_axes"),
        (at_rest(), high[:0], "imu/high_g: 0 readings"),
    ):
        assert any(words in sentence for sentence in faults({LOW_G: low, HIGH_G: other}, 1.0, 840.0)), words


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
    assert live.counts["lost"] == 0  # it counts from anew
    assert len(stamps) >= 2000 - 20
    assert np.abs(np.array(stamps[-200:]) + 3_000_000).max() < 400_000  # by its filter's delay earlier


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
