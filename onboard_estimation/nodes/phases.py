"""An estimator's phases and events on their topics."""

from __future__ import annotations

from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from onboard_estimation.live.messages import new
from onboard_estimation.live.types import interface_class
from onboard_estimation.pipeline import Pipeline
from onboard_estimation.ros.phases import TYPES, NewEvents, event_messages


class PhaseOutputs:
    """Publishes `phase_events`, `phase_state`, `apex` and `phase`, see `onboard_estimation.ros.phases`.

    Parameters
    ----------
    frame_id
        Of the apex, and of the odometry.
    """

    def __init__(self, node: Node, frame_id: str) -> None:
        self._frame_id = frame_id
        self._outputs: dict[str, Any] = {
            topic: node.create_publisher(interface_class(kind), topic, QoSProfile(depth=100))
            for topic, kind in TYPES.items()
        }
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._phase_output = node.create_publisher(String, "phase", latched)
        self._phase: str | None = None
        self._new_events = NewEvents()
        self._clock_jumps = 0

    def publish(self, pipeline: Pipeline) -> None:
        """Publish what the last measurement brought."""
        if pipeline.clock_jumps != self._clock_jumps:  # a bag starts again
            self._clock_jumps = pipeline.clock_jumps
            self._new_events.forget()
        for event in self._new_events(pipeline.take_events()):
            for output in event_messages(new, event, self._frame_id):
                self._outputs[output.topic].publish(output.message)
        phase = pipeline.phase
        if phase is not None and phase != self._phase:
            self._phase = phase
            self._phase_output.publish(String(data=phase))

    def forget(self) -> None:
        """After a reset: events may come again."""
        self._new_events.forget()
