"""What an emulated motion capture system sees: poses of bodies from the graph or a bag, put together to frames."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rclpy.clock
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile

from drivers.motion_capture.bodies import MOST_BODIES, BodyPoses
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import Bag
from onboard_estimation.live.types import interface_class
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.ros.measurements import MessageFault, message_value, stamp_ns
from onboard_estimation.simulation import TRUTH_TOPICS, truth_channel

SEEN_TOPICS = "emulated_truth"
"""In the place of `ground_truth`: what is published there the system publishes once it has seen it."""
_POSE = truth_channel("").message_type
_LOOK_S = 0.5
_TICK_S = 0.001


class FrameAssembler:
    """Poses of one stamp make a frame: once all bodies known so far are there, or a later stamp comes.

    A body that is missing then is one that is not tracked.
    """

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._poses: dict[str, Vector] = {}
        self._stamp_ns = 0
        self._given_ns = 0

    def add(self, body: str, at_ns: int, pose: Vector) -> Iterator[BodyPoses]:
        """Frames, in order, that are complete with this pose: position (m), quaternion xyzw."""
        if at_ns <= self._given_ns:
            return  # of a frame that is gone: a body that was new then is in the next one
        if self._poses and at_ns != self._stamp_ns:
            yield self._frame()
        if len(self._names) < MOST_BODIES:
            self._names.setdefault(body)
        self._stamp_ns = at_ns
        self._poses[body] = pose
        if len(self._poses) == len(self._names):
            yield self._frame()

    def _frame(self) -> BodyPoses:
        names = tuple(self._names)
        tracked = np.array([name in self._poses for name in names])
        poses = np.array([self._poses.get(name, np.full(7, np.nan)) for name in names])
        self._given_ns = self._stamp_ns
        self._poses = {}
        return BodyPoses(self._stamp_ns, names, poses[:, :3], poses[:, 3:], tracked)


class TruthFeed:
    """Gives frames of what is published on `emulated_truth/<body>/pose`, or of what a bag has of `ground_truth`.

    Parameters
    ----------
    take
        Takes frames, z up, as they come; their stamps are of this host's clock, those of a bag set to when it is
        played.
    bag
        To play, in real time, once; empty: the graph.

    Attributes
    ----------
    is_over
        Whether the bag has been played.

    Raises
    ------
    UserError
        The bag has no ground truth, and what it has instead.
    """

    def __init__(self, node: Node, take: Callable[[BodyPoses], object], bag: str = "") -> None:
        self._node, self._take = node, take
        self._frames = FrameAssembler()
        self._subscriptions: dict[str, Any] = {}
        self.is_over = False
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        if not bag:
            node.create_timer(_LOOK_S, self._look, clock=steady)
            return
        self._played = _poses_of(Path(bag))
        self._next = next(self._played, None)
        if self._next is None:
            raise UserError(f"{bag}: no pose of its ground truth can be read")
        self._bag_ns, self._begun_ns = self._next[1], time.time_ns() + NANOSECONDS_PER_SECOND
        self._timer = node.create_timer(_TICK_S, self._play, clock=steady)

    def _look(self) -> None:
        """Listen to bodies that are new."""
        space = self._node.get_namespace().rstrip("/")
        for name, types in self._node.get_topic_names_and_types():
            first, *rest = name.removeprefix(space + "/").split("/")
            if first == SEEN_TOPICS and len(rest) == 2 and rest[1] == "pose" and _POSE in types:
                body = rest[0]
                if body not in self._subscriptions and len(self._subscriptions) < MOST_BODIES:
                    self._node.get_logger().info(f"sees {body}")
                    self._subscriptions[body] = self._node.create_subscription(
                        interface_class(_POSE), name, partial(self._see, body), QoSProfile(depth=100)
                    )

    def _see(self, body: str, message: Any) -> None:
        try:
            at_ns, pose = stamp_ns(message), message_value(truth_channel(body), message)
        except MessageFault as error:
            self._node.get_logger().warning(f"{body}: {error}", throttle_duration_sec=5.0)
            return
        for frame in self._frames.add(body, at_ns, pose):
            self._take(frame)

    def _play(self) -> None:
        shift_ns = self._begun_ns - self._bag_ns
        while self._next is not None and self._next[1] + shift_ns <= time.time_ns():
            body, at_ns, pose = self._next
            for frame in self._frames.add(body, at_ns + shift_ns, pose):
                self._take(frame)
            self._next = next(self._played, None)
        if self._next is None:
            self._timer.cancel()
            self.is_over = True
            self._node.get_logger().info("the bag has been played")


def _poses_of(path: Path) -> Iterator[tuple[str, int, Vector]]:
    """Body, stamp, pose of a bag's ground truth, in the order of the recording."""
    with Bag(path) as bag:
        bodies = {
            topic: parts[-2]
            for topic, kind in bag.topics.items()
            if kind.message_type == _POSE
            and len(parts := ("/" + topic).split("/")) >= 3
            and parts[-3:-2] == [TRUTH_TOPICS]
            and parts[-1] == "pose"
        }
        if not bodies:
            there = ", ".join(topic for topic, kind in bag.topics.items() if kind.message_type == _POSE) or "none"
            raise UserError(f"{path} has no {TRUTH_TOPICS}/<body>/pose of type {_POSE}; topics of that type: {there}")
        for raw in bag.messages(list(bodies)):
            body = bodies[raw.topic]
            try:
                message = bag.deserialize(raw)
                yield body, stamp_ns(message), message_value(truth_channel(body), message)
            except MessageFault:
                continue
