"""Messages written over a template: field by field those that the ordinary way makes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from bag_samples import JAZZY
from numpy.typing import NDArray

from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.robot import ROBOT as HOPPER
from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Channel, Estimate, value_size
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.message_templates import MessageTemplate, SerializedEstimates, sensor_writer
from onboard_estimation.ros.sensor_messages import to_message
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT as SALP
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.robot import ROBOT as SOFT_ROBOT

STAMPS_NS = (0, 1_700_000_000_999_999_999, 2_000_000_001)
ROBOTS = {
    "salp": (SALP, SalpConfiguration()),
    "hopper": (HOPPER, HopperConfiguration()),
    "softrobot": (SOFT_ROBOT, SoftRobotConfiguration()),
}


def serialized(message: Any) -> bytes:
    return bytes(JAZZY.serialize_cdr(message, message.__msgtype__))


def drawn(dimension: int, coordinates: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], ...]:
    root = rng.normal(size=(dimension, dimension))
    return rng.normal(size=coordinates), root @ root.T


@pytest.mark.parametrize("name", ROBOTS)
def test_estimates_are_those_of_the_ordinary_way(name: str) -> None:
    robot, configuration = ROBOTS[name]
    space = robot.estimator(configuration, robot.estimators[0]).space  # type: ignore[arg-type]  # its own
    messages, rng = EstimateMessages(space, new, "a/odom", "a/base_link"), np.random.default_rng(3)
    write = SerializedEstimates(messages, serialized)
    for stamp_ns in STAMPS_NS:
        mean, covariance = drawn(space.dimension, space.coordinate_count, rng)
        estimate = Estimate(stamp_ns, mean, covariance)
        ordinary = {output.topic: output for output in messages(estimate)}
        assert ordinary.keys() == messages.types().keys()
        written = dict(write(estimate, messages.types().keys()))
        assert written.keys() == ordinary.keys()
        for topic, message_type, values in messages.numbers(mean[None], covariance[None]):
            assert written[topic] == serialized(ordinary[topic].message)
            template = MessageTemplate(partial(messages.message, topic), serialized, values.shape[1])
            assert template.messages(np.array([stamp_ns]), values)[0].tobytes() == written[topic]
            back = JAZZY.deserialize_cdr(written[topic], message_type)
            assert serialized(back) == written[topic]
        assert dict(write(estimate, {"state"})).keys() == {"state"}
        assert not dict(write(estimate, set()))


SENT = [
    *(channel for robot, configuration in ROBOTS.values() for channel in robot.channels(configuration)),  # type: ignore[attr-defined]
    Channel("ground_truth/body/pose", "geometry_msgs/msg/PoseStamped", "ground_truth/body"),
]


@pytest.mark.parametrize("channel", SENT, ids=lambda channel: channel.topic)
def test_what_a_source_publishes_is_what_the_ordinary_way_makes(channel: Channel) -> None:
    write, rng = sensor_writer(channel, new, serialized, "a/"), np.random.default_rng(7)
    for stamp_ns in STAMPS_NS:
        value = rng.normal(size=value_size(channel))
        for absent in (slice(0, 0), slice(0, 3), slice(3, 6)):
            given = value.copy()
            if channel.message_type == "sensor_msgs/msg/Imu" and channel.field != "orientation":
                given[absent] = np.nan
            assert write(stamp_ns, given) == serialized(to_message(new, channel, stamp_ns, given, "a/"))
