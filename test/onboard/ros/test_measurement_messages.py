"""Every type of message that has a value: written and read again by another library, and as described."""

from __future__ import annotations

import numpy as np
import pytest
from bag_samples import JAZZY, RANGE, START_NS, distance

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import (
    COMPONENTS,
    Channel,
    component_names,
    components,
    neutral_value,
    value_size,
)
from onboard_estimation.ros.measurements import MessageFault, to_measurement, value_types
from onboard_estimation.ros.sensor_messages import to_message

JOINTS = "sensor_msgs/msg/JointState"


def channel_of(message_type: str) -> Channel:
    return Channel("a/b", message_type, "a/b", names=("one", "two") if message_type == JOINTS else ())


@pytest.mark.parametrize("message_type", value_types())
def test_a_value_is_found_again_in_the_message_made_of_it(message_type: str) -> None:
    channel = channel_of(message_type)
    value = neutral_value(channel) + np.arange(1.0, 1.0 + (value_size(channel) or 0)) / 64.0  # exact in float32, too
    message = to_message(new, channel, START_NS + 7, value)
    read = JAZZY.deserialize_cdr(JAZZY.serialize_cdr(message, message_type), message_type)
    found = to_measurement(channel, read)
    assert (found.stamp_ns, found.sensor) == (START_NS + 7, "a/b")
    np.testing.assert_array_equal(found.value, value)


def test_all_types_have_names_and_units() -> None:
    assert {*COMPONENTS, JOINTS} == set(value_types())
    for message_type in value_types():
        channel = channel_of(message_type)
        names = component_names(channel)
        assert len(set(names)) == len(names) == value_size(channel)
    attitude = Channel("imu", "sensor_msgs/msg/Imu", "attitude", field="orientation")
    assert components(attitude) == (("qx", ""), ("qy", ""), ("qz", ""), ("qw", ""))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.25, 0.25), (1.5, 1.5), (4.0, 4.0), (0.125, np.nan), (4.5, np.nan)]
    + [(one, np.nan) for one in (np.inf, -np.inf, np.nan)],
)
def test_a_range_counts_within_its_own_limits(value: float, expected: float) -> None:
    """REP 117; the pipeline refuses NaN and counts it."""
    found = to_measurement(channel_of(RANGE), distance(START_NS, value))
    np.testing.assert_array_equal(found.value, [expected])


def test_odometry_with_too_few_covariances_is_refused() -> None:
    message = new("nav_msgs/msg/Odometry")
    message.pose.covariance = np.zeros(35)
    with pytest.raises(MessageFault, match="has 35 covariances, not 36"):
        to_measurement(channel_of("nav_msgs/msg/Odometry"), message)
