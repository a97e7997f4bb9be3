"""Phases of a robot's motion and the events between them as ROS messages.

| topic | message |
|---|---|
| `phase_events` | `sensor_msgs/TimeReference`: its stamp: when it happened; `time_ref`: when seen; `source`: its name |
| `phase_state` | `sensor_msgs/JointState`, the same stamp: `phase` (number), `event_time_stddev` (s, NaN: unknown) |
| `apex` | `geometry_msgs/PointStamped` in `odom` at an apex, with its stamp: z is its height (m) |

Beside them goes `phase` (`std_msgs/String`): the name of the current phase, for people. `new` makes a message from its
type's name and fields, as for `EstimateMessages`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import numpy as np

from onboard_estimation.base.measurement import PhaseEvent
from onboard_estimation.ros.estimates import Output
from onboard_estimation.ros.sensor_messages import New, header

TYPES = {
    "phase_events": "sensor_msgs/msg/TimeReference",
    "phase_state": "sensor_msgs/msg/JointState",
    "apex": "geometry_msgs/msg/PointStamped",
}
"""Type of message by topic."""
STATE_NAMES = ("phase", "event_time_stddev")
APEX = "apex"

_SAME_NS = 10_000_000
_REMEMBERED = 64


def event_messages(new: New, event: PhaseEvent, frame_id: str = "odom") -> list[Output]:
    """The messages of one event; `apex` only of an apex whose height is known."""
    numbers = [float(event.phase), event.stddev_s]
    messages = {
        "phase_events": new(
            TYPES["phase_events"],
            header=header(new, event.stamp_ns),
            time_ref=header(new, event.seen_ns).stamp,
            source=event.name,
        ),
        "phase_state": new(
            TYPES["phase_state"], header=header(new, event.stamp_ns), name=list(STATE_NAMES), position=np.array(numbers)
        ),
    }
    if event.name == APEX and math.isfinite(event.height_m):
        point = new("geometry_msgs/msg/Point", x=0.0, y=0.0, z=event.height_m)
        messages[APEX] = new(TYPES[APEX], header=header(new, event.stamp_ns, frame_id), point=point)
    return [Output(topic, TYPES[topic], message) for topic, message in messages.items()]


class NewEvents:
    """Lets each event through once.

    A measurement that comes late rolls the filter back, and what follows is filtered, and its events are seen, once
    more: perhaps a millisecond earlier or later, perhaps not any more. What was published stays published: an event is
    told when it is first seen, and never again while its stamp stays within 10 ms. Who wants events without those that
    were taken back takes them from `evaluate`.
    """

    def __init__(self) -> None:
        self._published: deque[tuple[str, int]] = deque(maxlen=_REMEMBERED)

    def __call__(self, events: Iterable[PhaseEvent]) -> list[PhaseEvent]:
        """Those that were not told before."""
        fresh = []
        for event in events:
            if any(event.name == name and abs(event.stamp_ns - at_ns) <= _SAME_NS for name, at_ns in self._published):
                continue
            self._published.append((event.name, event.stamp_ns))
            fresh.append(event)
        return fresh

    def forget(self) -> None:
        """After a reset, or when a bag starts again: the same events are to be told again."""
        self._published.clear()
