"""Fuzzing of what reads bytes that nobody vouches for: kept inputs, changed, against properties of readers.

The inputs that `test/fuzz_corpus` keeps, a line of hexadecimal digits each, were found under the guidance of coverage
(atheris): what is changed here begins where that ended. Readers of NatNet, DataStream and EtherCAT are held to their
properties, and to kept inputs, in `test/drivers`.
"""

from __future__ import annotations

import binascii
import math
import pickle
import struct
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from cobs import cobs  # type: ignore[import-untyped]

from benchmarks.fuzzing import PLACES, Draw, Session, Target, add_part, fuzz, kept_rows, reason, tally_row
from benchmarks.measuring import Row
from drivers.at_rest import HIGH_G, LOW_G
from drivers.serial_imu.frames import FrameReader, Sample, encode_sample, encode_settings
from drivers.serial_imu.readings import SerialReadings
from hopper_estimation import serial_log
from onboard_estimation.bags.message_types import decoded, jazzy_types
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Measurement
from onboard_estimation.contract.converters import Converted
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.message_layouts import SerializedReader

Check = Callable[[bytes], str]
Mend = Callable[[bytes, Random], bytes]

_PART_S = 60.0
SAMPLE_BYTES, SETTINGS_BYTES = 28, 25
_STEPS_US = (0, 1, 1000, 1000, 1000, 16_000, 300_000, 1_000_000, 5_000_000, 59_000_000, 61_000_000, 2**31, 2**32 - 1000)


def pieces(stream: bytes, lengths: bytes) -> Iterator[bytes]:
    """The stream cut into pieces of these lengths, which may be zero, and what is left."""
    place = 0
    for length in lengths:
        yield stream[place : place + length]
        place += length
    yield stream[place:]


def is_frame(stretch: bytes) -> bool:
    """Whether what stands between two zero bytes is a frame, as the format's description says; nothing of ours reads.

    A frame is shorter than 254 bytes, so that every block of COBS ends with a zero byte.
    """
    content, place = b"", 0
    while place < len(stretch):
        block = stretch[place + 1 : place + stretch[place]]
        if len(block) != stretch[place] - 1:
            return False
        content, place = content + block + b"\0", place + stretch[place]
    payload, crc = content[:-5], content[-5:-1]
    if crc != binascii.crc32(payload).to_bytes(4, "little"):
        return False
    if payload[:1] == b"\1" and len(payload) == SAMPLE_BYTES:
        return payload[-2] < 4 and not payload[-1]
    if payload[:1] == b"\2" and len(payload) == SETTINGS_BYTES:
        low, gyro, high, low_pass = payload[6:10]
        known = low < 4 and gyro < 4 and high in (0, 1, 3) and low_pass < 8 and any(payload[10:12])
        return known
    return False


def mended(stream: bytes, random: Random, begin_us: int | None = None) -> bytes:
    """Most stretches made frames again: framing, CRC; often also length, codes, and a time that can follow."""
    time_us, found = random.choice((0, 2**32 - 50_000, random.getrandbits(32))), []
    time_us = time_us if begin_us is None else begin_us
    for stretch in stream.split(b"\0"):
        if stretch and random.random() < 0.8:
            usual = begin_us is not None and random.random() < 0.9
            time_us = (time_us + (1000 if usual else random.choice(_STEPS_US))) % 2**32
            stretch = _frame(stretch, time_us, random)
        found.append(stretch)
    return b"\0".join(found)


def _frame(stretch: bytes, time_us: int, random: Random) -> bytes:
    try:
        payload = bytearray(cobs.decode(stretch)[:-4])
    except cobs.DecodeError:
        payload = bytearray(stretch[:32])
    wish = random.randrange(8)
    if wish < 3:
        payload = bytearray(b"\1" + payload[1:SAMPLE_BYTES].ljust(SAMPLE_BYTES - 1, b"\0"))
        if wish:
            payload[-2:] = bytes([payload[-2] & 3, 0])
    elif wish < 6:
        payload = bytearray(b"\2" + payload[1:SETTINGS_BYTES].ljust(SETTINGS_BYTES - 1, b"\0"))
        if wish > 3:
            payload[6:10] = bytes([payload[6] & 3, payload[7] & 3, (0, 1, 3)[payload[8] % 3], payload[9] & 7])
            payload[10] |= 1
    if len(payload) > 6 and random.random() < 0.7:
        payload[2:6] = struct.pack("<I", time_us)
    if random.random() < 0.15:  # the right checksum of a wrong length
        payload = payload[:-1] if random.random() < 0.5 else payload + b"\0"
    return _sealed(bytes(payload))


def _sealed(payload: bytes) -> bytes:
    """With its CRC, and without zeros."""
    return bytes(cobs.encode(payload + binascii.crc32(payload).to_bytes(4, "little")))


_CUTS = 8
_MOST_UNFINISHED, _MOST_KEPT = 40, 1000


def check_frames(data: bytes) -> str:
    """Frames, counts and what is kept."""
    stream = data[_CUTS:]
    at_once, reader = FrameReader(), FrameReader()
    expected, frames = at_once.feed(stream), []
    for piece in pieces(stream, data[:_CUTS]):
        frames += reader.feed(piece)
        assert reader.unfinished <= _MOST_UNFINISHED
    assert frames == expected
    assert vars(reader) == vars(at_once)
    assert len(pickle.dumps(reader)) <= _MOST_KEPT  # everything it holds
    stretches = [stretch for stretch in stream.split(b"\0")[:-1] if stretch]
    valid = [stretch + b"\0" for stretch in stretches if is_frame(stretch)]
    assert [encode_sample(one) if isinstance(one, Sample) else encode_settings(one) for one in frames] == valid
    assert sum(reader.faults.values()) + reader.partial == len(stretches) - len(valid)
    return "frames" if frames else "refused"


def mended_frames(data: bytes, random: Random) -> bytes:
    """A stream of frames behind what cuts it, mended."""
    return data[:_CUTS] + mended(data[_CUTS:], random)


_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz_serial_log_")
_PIECE_BYTES = serial_log._PIECE_BYTES


def check_log(data: bytes) -> str:
    """Series, counts, and that blocks do not matter."""
    path, stream = Path(_FOLDER.name) / "log.bin", data[1:]
    path.write_bytes(stream)
    whole, in_pieces = _read_log(path, _PIECE_BYTES), _read_log(path, data[0] if data and data[0] else 1)
    samples = sum(is_frame(one) and len(one) == 33 for one in stream.split(b"\0")[:-1])
    if isinstance(whole, str) or isinstance(in_pieces, str):
        assert whole == in_pieces
        assert isinstance(whole, str)
        assert f"{samples} valid samples" in whole
        return f"refused: {reason(whole)}"
    assert (whole.counts, whole.notes) == (in_pieces.counts, in_pieces.notes)
    counts = whole.counts
    assert counts["samples"] == samples
    told = counts["used"] + counts["before_ranges"]
    # A restart is seen at its second frame; the first one is left out.
    assert told <= samples <= told + counts["repeated"] + counts["implausible_time"] + counts["restarts"]
    assert min(counts.values()) >= 0
    for one, other in zip(whole.recording.sensors, in_pieces.recording.sensors, strict=True):
        np.testing.assert_array_equal(one.stamps_ns, other.stamps_ns)
        np.testing.assert_array_equal(one.values, other.values)
        assert one.values.shape == (len(one.stamps_ns), 6)
        assert len(one.stamps_ns) <= counts["used"]
        assert (np.diff(one.stamps_ns) > 0).all()
        assert (np.abs(one.values[:, 3:]) <= _LARGEST_M_S2).all()
    return "read"


def _read_log(path: Path, piece_bytes: int) -> Converted | str:
    serial_log._PIECE_BYTES = piece_bytes
    try:
        return serial_log.read_serial_log(path)
    except UserError as error:
        return str(error)
    finally:
        serial_log._PIECE_BYTES = _PIECE_BYTES


def mended_log(data: bytes, random: Random) -> bytes:
    """A log of frames behind what cuts it, mended."""
    return data[:1] + mended(data[1:], random)


_EPOCH_NS, _LAST_NS, _SECOND_NS = 1_800_000_000 * 10**9, 2**62, 10**9
_LATER_NS = (
    0, 1, 1_000_000, 1_000_000, 16_000_000, 499_000_000, _SECOND_NS, 5 * _SECOND_NS, 61 * _SECOND_NS,
    4_294_967_296_000, -1, -1_000_000, -900_000_000, -1_100_000_000, -3600 * _SECOND_NS,
)  # fmt: skip
_HEAD = 3
_MOST_READINGS_KEPT = 8000
_LARGEST_M_S2, _LARGEST_RAD_S = 401.0 * 9.80665, math.radians(2001.0)
_FASTEST_HZ = 65_536
"""That a device can tell."""


class SerialLine(Session):
    """One device, as the node hears it: readings, their stamps, counts and what is kept.

    Of an input the first byte says when it arrives, the next two where it is cut.
    """

    longest = 1024

    def __init__(self, number: int) -> None:
        self._live, self._now_ns, self._longest_s = SerialReadings(), _EPOCH_NS, 0.0
        self._last_ns = dict.fromkeys((LOW_G, HIGH_G), -(2**63))
        self._falls = dict.fromkeys(self._last_ns, 0)
        codes = number % 4, number // 4 % 4, (0, 1, 3)[number % 3], number % 8
        start_ms = number % 4_000_000
        settings = _sealed(_SETTINGS.pack(2, 0, 1000 * start_ms, *codes, 1000, 0x68, 0x32, 0, 0, 0, bytes(8))) + b"\0"
        counts = (100, -200, 8192), (1, -2, 3), 2500, (160, -320, 32_752), 0
        samples = [encode_sample(Sample(one, 1000 * (start_ms + one), *counts)) for one in range(1, 6)]
        self.seeds = [_LINE + one for one in (settings, samples[0], b"".join(samples[:3]), settings + samples[0])]
        self.seeds += [_LINE + one[16:] for one in kept("serial_readings")]
        for one in (b"\0" + settings, *samples):
            self.take(_LINE + one)

    def mended(self, data: bytes, draw: Draw) -> bytes:
        """Behind the last time of the device, mostly, and arrived a little later."""
        last = getattr(self._live.clock, "_last") if draw[1] % 8 else None  # noqa: B009
        head = _LINE if draw[1] % 32 else data[:_HEAD]
        return head + mended(data[_HEAD:], Random(draw[0]), last and last[0])

    def take(self, data: bytes) -> str:
        """Of no falling time but where the host's falls."""
        live, found = self._live, 0
        code = data[0] if data else 0
        self._now_ns = self._now_ns + 1_000_000 * data.count(0) if code == _LINE[0] else _arrival(self._now_ns, code)
        for piece in pieces(data[_HEAD:], data[1:_HEAD]):
            for one in live.feed(piece, self._now_ns):
                _check_reading(one)
                if one.stamp_ns <= self._last_ns[one.sensor]:
                    self._falls[one.sensor] += 1
                    assert self._last_ns[one.sensor] - one.stamp_ns >= 0.9 * _SECOND_NS  # only if the host was set back
                self._last_ns[one.sensor] = one.stamp_ns
                found += 1
            assert max(self._falls.values()) <= live.clock.jumps
            assert live.frames.unfinished <= _MOST_UNFINISHED
        assert min(live.counts["lost"], live.clock.implausible, live.clock.jumps) >= 0
        passed_s = max(self._now_ns - _EPOCH_NS, 0) / _SECOND_NS + 2**32 / 1e6
        self._longest_s = max(self._longest_s, passed_s)
        assert live.counts["lost"] <= _FASTEST_HZ * self._longest_s
        assert len(pickle.dumps(live)) <= _MOST_READINGS_KEPT
        return "readings" if found else "refused: no readings"


_LINE = bytes([2, 7, 255])
_SETTINGS = struct.Struct("<BBI4BH2B3B8s")


def _arrival(last_ns: int, code: int) -> int:
    """Also the first and the last time that there is."""
    if code >= 254:
        return 0 if code == 254 else _LAST_NS
    return min(max(last_ns + _LATER_NS[code % len(_LATER_NS)], 0), _LAST_NS)


def _check_reading(one: Measurement) -> None:
    assert isinstance(one.stamp_ns, int)
    assert -(2**63) <= one.stamp_ns < 2**63
    assert one.value.shape == (6,)
    gyro, force = one.value[:3].tolist(), one.value[3:].tolist()
    assert all(map(math.isnan, gyro)) if one.sensor == HIGH_G else max(map(abs, gyro)) <= _LARGEST_RAD_S
    assert max(map(abs, force)) <= _LARGEST_M_S2


CORPUS = Path(__file__).parents[2] / "test" / "fuzz_corpus"


def run(quick: bool) -> list[Row]:
    """A part of each; what is kept goes on."""
    names = [name for several in PLACES.values() for name in several]
    if quick:
        return [tally_row(name, fuzz(name, 200)) for name in names]
    for name in names:
        add_part(name, _PART_S)
    return kept_rows()


@cache
def kept(name: str) -> tuple[bytes, ...]:
    """Of a file."""
    return tuple(bytes.fromhex(line) for line in (CORPUS / f"{name}.hex").read_text().splitlines())


class Checked(Session):
    """A reader that is begun anew for each input, against its kept inputs."""

    def __init__(self, corpus: str, check: Check, mend: Mend | None = None, longest: int = 512) -> None:
        self.seeds, self._check, self._mend, self.longest = kept(corpus), check, mend, longest

    def mended(self, data: bytes, draw: Draw) -> bytes:
        """By the target's own rule."""
        return data if self._mend is None else self._mend(data, Random(draw[0]))

    def take(self, data: bytes) -> str:
        """Properties of the reader."""
        return self._check(data)


_IMU, _JOINTS = "sensor_msgs/msg/Imu", "sensor_msgs/msg/JointState"
_CHANNELS = (
    Channel("imu", _IMU, "imu"),
    Channel("imu", _IMU, "attitude", field="orientation"),
    Channel("joints", _JOINTS, "wheels", names=("a", "b")),
    Channel("pose", "geometry_msgs/msg/PoseStamped", "body"),
    Channel("pose", "geometry_msgs/msg/PoseWithCovarianceStamped", "body"),
    Channel("point", "geometry_msgs/msg/PointStamped", "point"),
    Channel("wrench", "geometry_msgs/msg/WrenchStamped", "wrench"),
    Channel("pressure", "sensor_msgs/msg/FluidPressure", "pressure"),
    Channel("velocity", "geometry_msgs/msg/TwistStamped", "velocity"),
    Channel("compass", "sensor_msgs/msg/MagneticField", "compass"),
    Channel("odometry", "nav_msgs/msg/Odometry", "odometry"),
)
_CHOICE_BYTES = 3


def check_serialized(data: bytes) -> str:
    """The message, itself again, and with a byte changed."""
    head, message = data[:_CHOICE_BYTES].ljust(_CHOICE_BYTES, b"\0"), data[_CHOICE_BYTES:]
    channel = _CHANNELS[head[0] % len(_CHANNELS)]
    decode = partial(_decoded, channel.message_type)
    read = SerializedReader(channel, decode)
    changed = bytearray(message)
    if message:
        changed[(head[1] | head[2] << 8) % len(message)] ^= 1 + head[0] // len(_CHANNELS)
    for one in (message, message, bytes(changed), message):
        _assert_equal(_by_its_object(channel, decode, one), _by_its_bytes(read, one))
    assert len(read._layouts) <= 2
    return "compared"


def _decoded(message_type: str, data: bytes) -> Any:
    try:
        return decoded(jazzy_types(), message_type, data)[0]
    except Exception as error:  # as for a bag
        raise ValueError from error


def _by_its_object(channel: Channel, decode: Callable[[bytes], Any], data: bytes) -> Measurement | None:
    try:
        return to_measurement(channel, decode(data))
    except (ValueError, MessageFault):
        return None


def _by_its_bytes(read: SerializedReader, data: bytes) -> Measurement | None:
    try:
        return read(data)
    except MessageFault:
        return None


def _assert_equal(expected: Measurement | None, found: Measurement | None) -> None:
    if expected is None or found is None:
        assert expected is found
        return
    assert (found.stamp_ns, found.sensor) == (expected.stamp_ns, expected.sensor)
    np.testing.assert_array_equal(found.value, expected.value)


_CODE = ("drivers/serial_imu/[fr]*.py", "onboard_estimation/pipeline/device_clock.py")
TARGETS = {
    "serial": Target(SerialLine, _CODE, 10_000_000),
    "serial_frames": Target(lambda _: Checked("serial_frames", check_frames, mended_frames), _CODE[:1]),
    "serial_log": Target(
        lambda _: Checked("serial_log", check_log, mended_log), (*_CODE[:1], "hopper_estimation/serial_log.py")
    ),
    "ros_messages": Target(
        lambda _: Checked("serialized_readings", check_serialized, longest=768),
        ("onboard_estimation/ros/message_layouts.py", "onboard_estimation/ros/measurements.py"),
    ),
}
