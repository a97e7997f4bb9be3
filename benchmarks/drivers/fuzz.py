"""Fuzzing of what reads bytes that nobody vouches for: kept inputs, changed, against properties of readers.

The inputs that `test/fuzz_corpus` keeps, a line of hexadecimal digits each, were found under the guidance of coverage
(atheris): what is changed here begins where that ended. Readers of NatNet, DataStream and EtherCAT are held to their
properties, and to kept inputs, in `test/drivers`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.drivers.serial_targets import FRAMES, LOG, READINGS
from benchmarks.fuzzing import CASES, Fuzzer, Target, change_bytes, tally_row
from benchmarks.fuzzing import fuzz as fuzzed
from benchmarks.measuring import Row
from onboard_estimation.bags.message_types import decoded, jazzy_types
from onboard_estimation.base.measurement import Channel, Measurement
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.message_layouts import SerializedReader

CORPUS = Path(__file__).parents[2] / "test" / "fuzz_corpus"


def run(quick: bool) -> list[Row]:
    """A row a target."""
    table = "Changed inputs, each held against the reader's properties"
    return [tally_row(name, fuzzed(name, 400 if quick else 10 * CASES), table) for name in TARGETS]


@cache
def kept(name: str) -> tuple[bytes, ...]:
    """Of a target."""
    return tuple(bytes.fromhex(line) for line in (CORPUS / f"{name}.hex").read_text().splitlines())


def fuzzer(name: str) -> Fuzzer:
    """Of a target: whether its properties hold for a changed input."""
    target, inputs = TARGETS[name], kept(name)

    def judged(number: int) -> str:
        rng = Random(f"{name} {number}")
        data = change_bytes(rng.choice(inputs), rng, inputs)
        target.check((target.mend(data, rng) if rng.random() < 0.5 else data)[: target.longest])
        return "held"

    return judged


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
_HEAD = 3


def check_serialized(data: bytes) -> None:
    """The message, itself again, and with a byte changed."""
    head, message = data[:_HEAD].ljust(_HEAD, b"\0"), data[_HEAD:]
    channel = _CHANNELS[head[0] % len(_CHANNELS)]
    decode = partial(_decoded, channel.message_type)
    read = SerializedReader(channel, decode)
    changed = bytearray(message)
    if message:
        changed[(head[1] | head[2] << 8) % len(message)] ^= 1 + head[0] // len(_CHANNELS)
    for one in (message, message, bytes(changed), message):
        _assert_equal(_by_its_object(channel, decode, one), _by_its_bytes(read, one))
    assert len(read._layouts) <= 2


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


TARGETS = {
    "serial_frames": FRAMES,
    "serial_log": LOG,
    "serial_readings": READINGS,
    "serialized_readings": Target(check_serialized, longest=768),
}
