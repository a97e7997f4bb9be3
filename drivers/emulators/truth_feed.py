"""Truth for emulated motion capture: poses of several bodies, out of topics or a bag, as frames of one instant each."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from drivers.motion_capture.bodies import BodyPoses
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import open_bag
from onboard_estimation.measurement import Vector
from onboard_estimation.ros.measurements import MessageFault, message_value, stamp_ns
from onboard_estimation.simulation import truth_channel

_INPUT = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
_PREFIX, _SUFFIX = "ground_truth/", "/pose"
_LARGEST_FALL_NS = 1_000_000_000


class FrameAssembler:
    """Poses of equal stamp make one frame.

    A frame is whole with the last of the bodies, or with the first pose of a later stamp: bodies that are missing then
    were not seen.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._names = tuple(names)
        self._stamp_ns: int | None = None
        self._poses: dict[str, Vector] = {}

    def add(self, name: str, at_ns: int, pose: Vector) -> list[BodyPoses]:
        """Frames that this pose (7,) completes: position (m), quaternion xyzw, at ns since the epoch."""
        found = []
        if self._stamp_ns is not None and at_ns < self._stamp_ns and self._stamp_ns - at_ns < _LARGEST_FALL_NS:
            return []  # late: its frame is gone
        if at_ns != self._stamp_ns:
            found += self.rest()
            self._stamp_ns = at_ns
        self._poses[name] = pose
        if len(self._poses) == len(self._names):
            found += self.rest()
        return found

    def rest(self) -> list[BodyPoses]:
        """The frame that is not whole, where there is one."""
        if not self._poses or self._stamp_ns is None:
            return []
        rows = np.zeros((len(self._names), 7))
        tracked = np.zeros(len(self._names), dtype=np.bool_)
        for name, pose in self._poses.items():
            rows[self._places[name]] = pose
            tracked[self._places[name]] = True
        self._poses = {}
        return [BodyPoses(self._stamp_ns, self._names, rows[:, :3], rows[:, 3:], tracked)]


class TruthFeed(ABC):
    """Frames of bodies.

    Attributes
    ----------
    names
        Of the bodies.
    is_over
        Whether nothing will come any more.
    """

    names: tuple[str, ...]
    is_over = False

    @abstractmethod
    def take(self) -> list[BodyPoses]:
        """Frames that are due, stamped in this host's time."""


class TopicFeed(TruthFeed):
    """From `emulated_truth/<body>/pose` (PoseStamped), remapped from a simulator's `ground_truth/...`."""

    def __init__(self, node: Node, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._assembler = FrameAssembler(self.names)
        self._found: deque[BodyPoses] = deque(maxlen=1000)
        for name in self.names:
            topic = f"emulated_truth/{name}{_SUFFIX}"
            node.create_subscription(PoseStamped, topic, partial(self._add, name, truth_channel(name)), _INPUT)

    def _add(self, name: str, channel: Any, message: Any) -> None:
        try:
            at_ns, pose = stamp_ns(message), message_value(channel, message)
        except MessageFault:
            return
        if np.isfinite(pose).all():
            self._found.extend(self._assembler.add(name, at_ns, pose))

    def take(self) -> list[BodyPoses]:
        """See `TruthFeed`."""
        return [self._found.popleft() for _ in range(len(self._found))]


class BagFeed(TruthFeed):
    """From `ground_truth/<body>/pose` of a bag, in real time, as if it were now.

    Raises
    ------
    UserError
        The bag cannot be read, or has no such topic.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        with open_bag(path) as bag:
            there = {
                topic.rpartition(_PREFIX)[2].removesuffix(_SUFFIX): topic
                for topic in bag.topics
                if _PREFIX in topic and topic.endswith(_SUFFIX)
            }
            self.names = tuple(names) or tuple(there)
            missing = [name for name in self.names if name not in there]
            if missing or not there:
                raise UserError(
                    f"{path}: no {_PREFIX}{(missing or ['<body>'])[0]}{_SUFFIX}; bodies in it: "
                    f"{', '.join(there) or 'none'}"
                )
            body = {there[name]: name for name in self.names}
            poses = []
            for raw in bag.messages(set(body)):
                message, name = bag.deserialize(raw), body[raw.topic]
                try:
                    poses.append((stamp_ns(message), name, message_value(truth_channel(name), message)))
                except MessageFault:
                    continue
        poses.sort(key=lambda row: row[:2])
        assembler = FrameAssembler(self.names)
        frames = [frame for at_ns, name, pose in poses for frame in assembler.add(name, at_ns, pose)]
        self._frames = deque([*frames, *assembler.rest()])
        self._shift_ns: int | None = None
        self.is_over = not self._frames

    def take(self) -> list[BodyPoses]:
        """See `TruthFeed`."""
        now_ns, found = time.time_ns(), []
        if self._shift_ns is None and self._frames:
            self._shift_ns = now_ns - self._frames[0].stamp_ns
        while self._frames and self._frames[0].stamp_ns + (self._shift_ns or 0) <= now_ns:
            one = self._frames.popleft()
            at_ns = one.stamp_ns + (self._shift_ns or 0)
            found.append(BodyPoses(at_ns, one.names, one.positions_m, one.quaternions_xyzw, one.tracked))
        self.is_over = not self._frames
        return found


def feed_of(node: Node, names: Sequence[str], bag: str) -> TruthFeed:
    """Of a bag, where one is named, else of topics.

    Raises
    ------
    UserError
        As for `BagFeed`; no bodies are named for topics.
    """
    if bag:
        return BagFeed(Path(bag), names)
    if not names:
        raise UserError("bodies: none; name those whose emulated_truth/<body>/pose is streamed, or a bag with them")
    return TopicFeed(node, names)
