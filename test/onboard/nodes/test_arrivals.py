"""What wakes a node, and that one waking takes all that has arrived, in order."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from live_graph import listening_node, spin_until

from hopper_estimation.topics import HIGH_G, LOW_G
from onboard_estimation.live.messages import new
from onboard_estimation.live.types import interface_class
from onboard_estimation.measurement import Measurement
from onboard_estimation.ros.sensor_messages import to_message

pytestmark = [
    pytest.mark.usefixtures("ros_domain"),
    pytest.mark.timeout(100),
    pytest.mark.live,
]
CHANNELS = (HIGH_G, LOW_G)


@pytest.mark.parametrize("events", [True, False], ids=["events executor", "waiting executor"])
def test_the_others_wait_for_the_pace_and_wake_the_node_once_it_is_silent(events: bool) -> None:
    from onboard_estimation.nodes.arrivals import Arrivals, ArrivalsNode

    wakings: list[list[Measurement]] = []
    with listening_node("arrivals", "/hopper", events, ArrivalsNode) as node:

        def take(readings: list[Measurement]) -> float:
            wakings.append(readings)
            return 0.0

        Arrivals(node, CHANNELS, False, [LOW_G.sensor], take)
        outputs = [node.create_publisher(interface_class(one.message_type), one.topic, 100) for one in CHANNELS]
        spin_until(node, lambda: all(one.get_subscription_count() for one in outputs))

        def publish(place: int, stamp_ns: int) -> None:
            outputs[place].publish(to_message(new, CHANNELS[place], stamp_ns, np.zeros(6)))

        def spin_for(seconds: float) -> None:
            end_s = time.monotonic() + seconds
            spin_until(node, lambda: time.monotonic() > end_s)

        # While the low-g sensor is heard, the high-g one is read with it, before it where its stamp is earlier.
        for number in range(60):
            publish(1, 10 * number + 5)
            spin_for(0.01)
        wakings.clear()
        for stamp_ns in (1001, 1004):
            publish(0, stamp_ns)
        spin_for(0.03)
        assert wakings == []
        publish(1, 1003)
        spin_until(node, lambda: bool(wakings))
        assert stamps(wakings) == [1001, 1003, 1004]
        # Silence: the others are heard all the same, without it.
        wakings.clear()
        publish(0, 2001)
        spin_until(node, lambda: bool(wakings), 5.0)
        assert stamps(wakings) == [2001]
        publish(0, 2002)
        spin_until(node, lambda: stamps(wakings) == [2001, 2002], 5.0)


def stamps(wakings: list[list[Any]]) -> list[int]:
    return [one.stamp_ns for readings in wakings for one in readings]


def test_what_a_source_measures_is_no_longer_listened_to_and_the_rest_still_is() -> None:
    from onboard_estimation.nodes.arrivals import Arrivals, ArrivalsNode

    wakings: list[list[Measurement]] = []
    with listening_node("arrivals", "/hopper", make=ArrivalsNode) as node:

        def take(readings: list[Measurement]) -> float:
            wakings.append(readings)
            return 60.0  # which would hold up the source

        arrivals = Arrivals(node, CHANNELS, False, [LOW_G.sensor], take)
        outputs = [node.create_publisher(interface_class(one.message_type), one.topic, 100) for one in CHANNELS]
        spin_until(node, lambda: all(one.get_subscription_count() for one in outputs))
        assert arrivals.leave({LOW_G.topic, "elsewhere"}) == [LOW_G.topic]
        assert arrivals.leave({LOW_G.topic}) == []
        spin_until(node, lambda: not outputs[1].get_subscription_count())
        began_s = time.monotonic()
        for stamp_ns in (1, 2):
            for output, channel in zip(outputs, CHANNELS, strict=True):
                output.publish(to_message(new, channel, stamp_ns, np.zeros(6)))
            spin_until(node, lambda stamp_ns=stamp_ns: stamps(wakings) == list(range(1, stamp_ns + 1)), 5.0)
        assert time.monotonic() - began_s < 60.0, "it rested"
        assert {one.sensor for readings in wakings for one in readings} == {HIGH_G.sensor}
        assert arrivals.unreadable() == {HIGH_G.sensor: 0, LOW_G.sensor: 0}
