"""Readings out of serialised messages: equal to those of the messages as `rosbags` decodes them, whatever comes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from bag_samples import CHANNELS as ALL
from bag_samples import IMU, JAZZY, JOINTS, START_NS, imu, joints, walk
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed import malformed

from onboard_estimation.bags import message_types as bag_types
from onboard_estimation.base.measurement import Channel, Measurement
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.message_layouts import SerializedReader

CHANNELS = ALL | {"/imu/link_2/data_raw": Channel("imu/link_2/data_raw", IMU, "attitude", field="orientation")}


def decoded(channel: Channel) -> Callable[[bytes], Any]:
    """As bags are read: by `rosbags`, which fails in any way."""

    def decode(data: bytes) -> Any:
        try:
            return bag_types.decoded(JAZZY, channel.message_type, data)[0]
        except Exception as error:
            raise ValueError(str(error)) from error

    return decode


def decoded_by_ros2(channel: Channel) -> Callable[[bytes], Any]:
    """As a live node decodes it."""
    from rclpy.serialization import deserialize_message

    from onboard_estimation.live.messages import interface_class

    return partial(deserialize_message, message_type=interface_class(channel.message_type))


def forbidden(data: bytes) -> Any:
    pytest.fail("a message of a known layout was made an object")


def assert_equal(found: Measurement, expected: Measurement) -> None:
    assert (found.stamp_ns, found.sensor) == (expected.stamp_ns, expected.sensor)
    assert found.value.dtype == np.float64
    np.testing.assert_array_equal(found.value, expected.value)


def cdr(message: Any, message_type: str, little_endian: bool = True) -> bytes:
    return bytes(JAZZY.serialize_cdr(message, message_type, little_endian=little_endian))


@pytest.mark.parametrize("topic", CHANNELS)
def test_readings_are_those_of_the_messages_and_make_no_object(topic: str) -> None:
    channel = CHANNELS[topic]
    read, some = SerializedReader(channel, forbidden), [one for one in walk(30) if one.topic == topic]
    assert len(some) >= 10
    for sample in some:
        assert_equal(read(cdr(sample.message, sample.message_type)), to_measurement(channel, sample.message))
    # Another byte order goes the ordinary way.
    read = SerializedReader(channel, lambda data: JAZZY.deserialize_cdr(data, channel.message_type))
    assert_equal(read(cdr(sample.message, sample.message_type, False)), to_measurement(channel, sample.message))


def test_layouts_may_change_and_come_back() -> None:
    channel = CHANNELS["/actuators/state"]
    read = SerializedReader(channel, forbidden)
    for names in (["rear", "r\u00e4d"], ["r\u00e4d", "rear"], ["x", "r\u00e4d", "rear"], ["rear", "r\u00e4d"]) * 3:
        message = joints(START_NS, names, velocity=np.arange(len(names)) + 1.0)
        assert_equal(read(cdr(message, JOINTS)), to_measurement(channel, message))
    for frame in ("a", "bb", "ccc", "dddddddd", "e" * 200, "a"):
        message = imu(START_NS + 5, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), frame)
        imus = CHANNELS["/imu/link_1/data_raw"]
        assert_equal(SerializedReader(imus, forbidden)(cdr(message, IMU)), to_measurement(imus, message))


def test_an_attitude_that_is_none_is_refused_as_ever() -> None:
    channel = CHANNELS["/imu/link_2/data_raw"]
    read = SerializedReader(channel, decoded(channel))
    read(cdr(imu(START_NS, (0.0,) * 3, (0.0,) * 3), IMU))
    for w, variance in ((0.9, 0.1), (1.0, -1.0)):  # no unit, and told to be none
        message = imu(START_NS, (0.0,) * 3, (0.0,) * 3)
        message.orientation.w, message.orientation_covariance = w, np.full(9, variance)
        with pytest.raises(MessageFault) as as_message:
            to_measurement(channel, message)
        with pytest.raises(MessageFault, match=r"^has ") as as_bytes:
            read(cdr(message, IMU))
        assert str(as_bytes.value) == str(as_message.value)


@pytest.mark.parametrize("decoding", [decoded, pytest.param(decoded_by_ros2, marks=pytest.mark.live)])
@pytest.mark.parametrize("topic", CHANNELS)
def test_malformed_bytes_are_refused_or_read_as_their_object_would_be(
    topic: str, decoding: Callable[[Channel], Callable[[bytes], Any]]
) -> None:
    channel = CHANNELS[topic]
    sample = next(one for one in walk(3) if one.topic == topic)
    valid, decode = cdr(sample.message, sample.message_type), decoding(channel)
    refused = 0
    for data in (*malformed(valid, 1), b"", b"\0", b"\0\1\0\0"):
        read = SerializedReader(channel, decode)
        read(valid)
        try:
            expected = to_measurement(channel, decode(data))
        except (ValueError, RuntimeError, MessageFault):
            with pytest.raises(MessageFault):
                read(data)
            refused += 1
        else:
            assert_equal(read(data), expected)
    assert refused >= 10


@settings(max_examples=40)
@given(topic=st.sampled_from(sorted(CHANNELS)), tail=st.binary(max_size=40), cut=st.integers(1, 40))
def test_bytes_behind_the_end_mean_nothing_and_missing_ones_all(topic: str, tail: bytes, cut: int) -> None:
    channel = CHANNELS[topic]
    sample = next(one for one in walk(3) if one.topic == topic)
    valid, expected = cdr(sample.message, sample.message_type), to_measurement(channel, sample.message)
    read = SerializedReader(channel, forbidden)
    for data in (valid + tail, valid, valid + tail):
        assert_equal(read(data), expected)
    read = SerializedReader(channel, decoded(channel))
    for refused in (valid[:-cut], valid + bytes(len(valid) + 1)):
        with pytest.raises(MessageFault):
            read(refused)
