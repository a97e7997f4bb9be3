"""The firmware of the inertial sensors: what the emulated chips hold arrives, under CPython and as it ships."""

from __future__ import annotations

import importlib
import json
import os
import pty
import runpy
import shutil
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drivers.serial_imu.frames import FrameReader, Sample, Settings, decode
from drivers.serial_imu.mounting import Expected, SerialImu
from drivers.serial_imu.readings import Scales
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.serial_emulator import RANGES
from hopper_estimation.serial_log import LogClock, read_serial_log
from hopper_estimation.simulation.scenario import hopper_scenario
from onboard_estimation.base.configuration import load
from onboard_estimation.base.installed import resource

REPOSITORY = Path(__file__).resolve().parents[2]
FIRMWARE = REPOSITORY / "firmware"
BOARD = REPOSITORY / "test" / "support" / "emulated_board.py"
RUNNER = REPOSITORY / "test" / "support" / "run_firmware.mjs"
TICKS = 1 << 30
"""Where `ticks_us` wraps, on the ESP32 as under WebAssembly."""
Modules = Callable[[str], ModuleType]
TIME = st.integers(0, (1 << 32) - 1)

NODE = shutil.which("node")
as_it_ships = pytest.mark.skipif(
    NODE is None or not (FIRMWARE / "node_modules").is_dir(),
    reason="needs node, and MicroPython for it: npm install --prefix firmware --no-package-lock",
)


@pytest.fixture(scope="module")
def firmware() -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of the firmware; nothing of it stays behind."""
    before = set(sys.modules)
    sys.path.insert(0, str(FIRMWARE))
    yield importlib.import_module
    sys.path.remove(str(FIRMWARE))
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(FIRMWARE):
            del sys.modules[name]


@pytest.fixture
def board() -> ModuleType:
    """A new one, unplugged from any other."""
    return new_board()


def new_board() -> ModuleType:
    sys.modules.pop("emulated_board", None)
    return importlib.import_module("emulated_board")


def frames_at(firmware: Modules, us: int) -> Any:
    frames = firmware("frames").Frames()
    for _ in range(us // TICKS):
        frames.at(TICKS - 1)
        frames.at(0)
    frames.at(us % TICKS)
    return frames


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([0, 1, 3]), st.integers(0, 7)),
    st.integers(1, 65535),
    st.tuples(*[st.integers(0, 255)] * 3),
    st.binary(min_size=6, max_size=8),
    TIME,
)
@example((0, 0, 0, 1), 1000, (1, 0, 0), bytes(8), (1 << 32) - 1)
def test_settings_frames_are_those_of_the_decoder_and_samples_follow_them(
    firmware: Modules, ranges: Any, rate: int, version: Any, device: bytes, us: int
) -> None:
    frames = frames_at(firmware, us)
    found = decode(bytes(frames.settings(ranges, rate, (0x68, 0x32), version, device))[:-1])
    told_us = (us + 1) % (1 << 32)  # by 1 us after that of its sample
    assert found == Settings(0, told_us, *ranges, rate, 0x68, 0x32, version, device.ljust(8, b"\0"))
    frames.drop()
    found = decode(bytes(frames.sample(0))[:-1])
    assert isinstance(found, Sample)
    assert (found.sequence, found.time_us) == (2, us)


class Clock:
    """MicroPython's ticks: each look costs 5 us, each byte on the bus 22.5 us, each frame `cycle_us`."""

    def __init__(self, board: ModuleType, start: int, cycle_us: int) -> None:
        self.board, self.start, self.cycle_us, self.looks = board, start, cycle_us, 0

    def ticks_us(self) -> int:
        self.looks += 1
        bus = round(self.board.I2C.bytes * 9 / 0.4)
        return (self.start + 5 * self.looks + bus + self.cycle_us * self.board.UART.sent) % TICKS

    def ticks_add(self, ticks: int, step: int) -> int:
        return (ticks + step) % TICKS

    def ticks_diff(self, later: int, earlier: int) -> int:
        return (later - earlier + TICKS // 2) % TICKS - TICKS // 2


@pytest.fixture
def run(
    firmware: Modules, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., bytes]:
    """main.py on the emulated board with time as the bus takes it."""

    def run(start: int = 0, cycle_us: int = 100, **plan: Any) -> bytes:
        board = new_board()
        board.PLAN.update(plan)
        clock = Clock(board, start, cycle_us)
        monkeypatch.setitem(sys.modules, "machine", board)
        for name in ("ticks_us", "ticks_add", "ticks_diff"):
            monkeypatch.setattr(time, name, getattr(clock, name), raising=False)
        monkeypatch.setattr(time, "sleep_ms", lambda milliseconds: None, raising=False)
        with pytest.raises(SystemExit):
            runpy.run_path(str(FIRMWARE / "main.py"), run_name="__main__")
        sys.stdout.flush()
        return capfdbinary.readouterr().out

    return run


def frames_of(wire: bytes) -> list[Sample | Settings]:
    """All of it is frames."""
    reader = FrameReader()
    frames = reader.feed(wire)
    assert (reader.faults, reader.partial, reader.unfinished) == ({}, 0, 0)
    return frames


def samples_of(frames: list[Sample | Settings]) -> list[Sample]:
    return [frame for frame in frames if isinstance(frame, Sample)]


def read(samples: list[Sample]) -> list[tuple[int, ...]]:
    return [(*one.low_g, *one.gyro, one.temperature, *one.high_g) for one in samples]


def held(board: ModuleType, count: int) -> list[tuple[int, ...]]:
    """By the chips from their second reading on."""
    return [(*board.low_g_held(number), *board.high_g_held(number)) for number in range(1, count + 1)]


def lost(frames: list[Sample | Settings]) -> int:
    return sum((b.sequence - a.sequence - 1) % 256 for a, b in pairwise(frames))


def test_840_a_second_without_drift_over_a_turn_of_the_clock(run: Callable[..., bytes], board: ModuleType) -> None:
    """A settings frame a second, whose time is 1 us after that of its sample."""
    frames = frames_of(run(start=TICKS - 1_500_000, frames=2524))
    samples = samples_of(frames)
    assert read(samples) == held(board, 2521)
    times = [one.time_us for one in samples]
    steps = [b - a for a, b in pairwise(times)]
    assert 1185 <= min(steps) <= max(steps) <= 1195
    assert abs(times[-1] - times[0] - 2520 * 1190) <= 5
    told = [place for place, one in enumerate(frames) if isinstance(one, Settings)]
    assert told == [0, 842, 1683]
    assert lost(frames) == 0


def test_a_board_that_is_too_slow_reads_as_fast_as_it_can_and_frames_without_room_are_counted_as_lost(
    run: Callable[..., bytes],
) -> None:
    """1.39 ms a cycle: 720 Hz. No frame is lost, for none was made; no two have the same time."""
    frames = frames_of(run(cycle_us=800, frames=1001))
    times = [one.time_us for one in samples_of(frames)]
    steps = [b - a for a, b in pairwise(times)]
    assert min(steps) >= 1190
    assert 715 < 1e6 / (sum(steps) / len(steps)) < 725
    assert lost(frames) == 0
    frames = frames_of(run(busy_every=10, frames=900))
    assert (lost(frames), len(frames)) == (89, 811)


def test_a_sensor_that_fails_and_returns(run: Callable[..., bytes], tmp_path: Path) -> None:
    log = tmp_path / "device.log"
    log.write_bytes(run(low_g=(200, 450), high_g=(600, 700), frames=1000))
    samples = samples_of(frames_of(log.read_bytes()))
    without_low = [place for place, one in enumerate(samples) if one.status == 1]
    without_high = [place for place, one in enumerate(samples) if one.status == 2]
    assert 250 <= len(without_low) <= 352
    assert 100 <= len(without_high) <= 202
    assert all(samples[place].low_g == (0, 0, 0) for place in without_low)
    assert len(without_low) + len(without_high) + sum(one.status == 0 for one in samples) == len(samples)
    converted = read_serial_log(log)
    assert converted.counts["used"] == len(samples)
    assert len(converted.recording.sensors[0].stamps_ns) == len(samples) - len(without_low)
    # One that comes after the start only: the settings have no identity of it, the other's samples are scaled.
    frames = FrameReader().feed(run(high_g=(0, 500), frames=1500))
    assert [one.high_g_identity for one in frames if isinstance(one, Settings)] == [0, 0x32]
    assert [one.status for one in samples_of(frames)[:400]] == [2] * 400
    assert samples_of(frames)[-1].status == 0


def test_a_clone_is_read_and_its_identity_told(run: Callable[..., bytes]) -> None:
    frames = frames_of(run(identity=0x98, frames=300))
    assert {one.low_g_identity for one in frames if isinstance(one, Settings)} == {0x98}
    assert {one.status for one in samples_of(frames)} == {0}


def test_firmware_emulator_and_configurations_are_one_robot(firmware: Modules) -> None:
    board, robot = firmware("settings"), HopperConfiguration().sensors
    told = (board.LOW_G_RANGE, board.GYRO_RANGE, board.HIGH_G_RANGE, board.LOW_PASS, board.RATE_HZ)
    assert told == (*RANGES.ranges, RANGES.low_pass, RANGES.rate_hz)
    assert Expected().difference(Scales(RANGES)) == ""
    expected = load(SerialImu, resource("config/hopper_nodes.yaml"), node="serial_imu").expected
    assert expected == Expected(robot.low_range_m_s2, robot.gyro_range_rad_s, robot.high_range_m_s2) == Expected()
    scenario = hopper_scenario()
    assert (scenario.low_g.range_m_s2, scenario.high_g.range_m_s2) == (expected.low_g_m_s2, expected.high_g_m_s2)
    assert (scenario.imu_rate_hz, scenario.low_g.bandwidth_hz) == (expected.rate_hz, expected.low_g_bandwidth_hz)


def test_sensors_that_lost_their_power_unnoticed_are_found_within_a_second(run: Callable[..., bytes]) -> None:
    samples = samples_of(frames_of(run(power_lost=200, frames=1200)))
    for reading in ([one.low_g for one in samples], [one.high_g for one in samples]):
        zeros = [place for place, counts in enumerate(reading) if counts == (0, 0, 0)]
        assert zeros == list(range(199, 841))


def shipped(plan: dict[str, Any]) -> bytes:
    """What the firmware under MicroPython sends into a pseudo-terminal."""
    device, host = pty.openpty()[::-1]
    tty.setraw(device)
    command = [str(NODE), str(RUNNER), str(FIRMWARE), str(BOARD), json.dumps(plan)]
    with subprocess.Popen(command, stdout=device, stderr=subprocess.PIPE) as process:
        os.close(device)
        pieces = []
        try:
            while piece := os.read(host, 4096):
                pieces.append(piece)
        except OSError:  # the other end is closed
            pass
        os.close(host)
        assert process.stderr is not None
        error = process.stderr.read().decode()
    assert process.returncode == 0, error
    return b"".join(pieces)


@as_it_ships
def test_under_micropython_every_frame_arrives_with_the_counts_that_the_chips_held(board: ModuleType) -> None:
    frames = frames_of(shipped({"frames": 2000}))
    assert len(frames) == 2000
    assert lost(frames) == 0
    samples = samples_of(frames)
    assert read(samples) == held(board, len(samples))
    told = next(one for one in frames if isinstance(one, Settings))
    assert (told.low_g_range, told.gyro_range, told.high_g_range, told.low_pass, told.rate_hz) == (3, 3, 1, 0, 840)
    assert (told.firmware, told.device_id) == ((1, 1, 0), bytes.fromhex("240ac40001020000"))
    clock = LogClock()
    assert all(clock.stamp_ns(one.time_us) is not None for one in frames)
