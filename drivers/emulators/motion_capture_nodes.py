"""Emulated servers of motion capture as rclpy nodes: truth of topics, as Motive and Vicon would stream it."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration
from drivers.emulators.vicon import DataStreamServer, ViconEmulatorConfiguration
from drivers.motion_capture.bodies import BodyPoses, TruthEmulatorConfiguration
from drivers.node import NoRobot
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.series import truth_channel
from onboard_estimation.nodes.parameters import NodeParameters, SteadyNode
from onboard_estimation.ros.measurements import MessageFault, message_value, stamp_ns

# Truth for emulated motion capture: poses of several bodies, of topics, as frames of one instant each.

_INPUT = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
_SEEN = "emulated_truth/"
_SUFFIX = "/pose"
_SETTLED_S = 1.0
_LARGEST_FALL_NS = 1_000_000_000
_TICK_S = 0.001


class TopicFeed:
    """From `emulated_truth/<body>/pose` (PoseStamped), remapped from a simulator's `ground_truth/...`.

    Poses of equal stamp make one frame. It is whole with the last of the bodies, or with the first pose of a later
    stamp: bodies that are missing then were not seen.
    """

    def __init__(self, node: Node, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._found: deque[BodyPoses] = deque(maxlen=1000)
        self._stamp_ns: int | None = None
        self._poses: dict[int, Vector] = {}  # of that stamp, by the place of their body
        for place, name in enumerate(self.names):
            add = partial(self._add, place, truth_channel(name))
            node.create_subscription(PoseStamped, f"{_SEEN}{name}{_SUFFIX}", add, _INPUT)

    def _add(self, place: int, channel: Any, message: Any) -> None:
        try:
            at_ns, pose = stamp_ns(message), message_value(channel, message)
        except MessageFault:
            return
        late_ns = self._stamp_ns - at_ns if self._stamp_ns is not None else 0
        if not np.isfinite(pose).all() or 0 < late_ns < _LARGEST_FALL_NS:
            return  # its frame is gone
        if at_ns != self._stamp_ns:
            self._complete()
            self._stamp_ns = at_ns
        self._poses[place] = pose
        if len(self._poses) == len(self.names):
            self._complete()

    def _complete(self) -> None:
        if self._stamp_ns is not None and self._poses:
            rows, places = np.zeros((len(self.names), 7)), list(self._poses)
            rows[places] = list(self._poses.values())
            tracked = np.isin(np.arange(len(self.names)), places)
            self._found.append(BodyPoses(self._stamp_ns, self.names, rows, tracked))
            self._poses = {}

    def take(self) -> list[BodyPoses]:
        """Frames that are due, stamped in this host's time."""
        return [self._found.popleft() for _ in range(len(self._found))]


_MOST_WAITING = 10_000

C = TypeVar("C", bound=TruthEmulatorConfiguration)
S = TypeVar("S", NatNetServer, DataStreamServer)


class TruthEmulatorNode(SteadyNode, Generic[C, S]):
    """Serves truth as a system of motion capture would; subscribes to `emulated_truth/<body>/pose` (PoseStamped).

    The stamp of a pose is that of its exposure. Topics of a simulator that compiles come late, and one by one: they
    count once none was added for a second.

    Attributes
    ----------
    chosen
        Its parameters.
    server
        None before it is known of what.
    rng
        Of its noise and faults.
    waiting
        Frames that are not due yet.
    """

    def __init__(self, name: str, configuration_type: type[C]) -> None:
        self.server: S | None = None
        super().__init__(name)
        parameters: NodeParameters[NoRobot, C] = NodeParameters(self, NoRobot, configuration_type)
        self.chosen = parameters.host
        self.rng = np.random.default_rng(self.chosen.seed)
        self.waiting: deque[BodyPoses] = deque(maxlen=_MOST_WAITING)
        self._feed: TopicFeed | None = None
        self._seen: tuple[str, ...] = ()
        self._since_s = time.monotonic()
        self.every(_TICK_S, self._tick)

    def destroy_node(self) -> None:
        """Stop serving."""
        if self.server is not None:
            self.server.close()
        super().destroy_node()

    @abstractmethod
    def begin(self, names: tuple[str, ...]) -> S | None:
        """A server of these bodies; None: not yet, more frames have to wait first."""

    @abstractmethod
    def send(self, server: S, poses: BodyPoses) -> None:
        """Have a frame go out, which is due."""

    def look_after(self, server: S) -> None:
        """Do what else is due."""

    def say_serving(self, what: str, names: Sequence[str]) -> None:
        """That it has begun."""
        self.get_logger().info(f"{what}; bodies: {', '.join(names)}, from {_SEEN}<body>{_SUFFIX}")

    def _tick(self) -> None:
        self._feed = self._feed or self._found()
        if self._feed is None:
            self.get_logger().info(f"waiting for {_SEEN}<body>{_SUFFIX} of any body", throttle_duration_sec=30.0)
            return
        for one in self._feed.take():
            poses = replace(one, poses=one.poses.copy())  # as cameras see them
            poses.poses[:, :3] += self.chosen.noise_m * self.rng.standard_normal((len(poses.names), 3))
            self.waiting.append(poses)
        if self.server is None:
            self.server = self.begin(self._feed.names)
            return
        self.look_after(self.server)
        latency_ns = round(NANOSECONDS_PER_SECOND * self.chosen.latency_s)
        while self.waiting and self.waiting[0].stamp_ns + latency_ns <= time.time_ns():
            self.send(self.server, self.waiting.popleft())

    def _found(self) -> TopicFeed | None:
        """Of the bodies that are named, or those that are on topics; None: there are no bodies yet."""
        names = self.chosen.bodies
        if names:
            return TopicFeed(self, names)
        first = f"{self.get_namespace().rstrip('/')}/{_SEEN}"
        found = (re.fullmatch(f"{first}([^/]+){_SUFFIX}", name) for name, _ in self.get_topic_names_and_types())
        seen = tuple(sorted(one[1] for one in found if one))
        if seen != self._seen:
            self._seen, self._since_s = seen, time.monotonic()
        return TopicFeed(self, seen) if seen and time.monotonic() - self._since_s > _SETTLED_S else None


_FIRST_NUMBER = 1000
_FRAMES_FOR_RATE = 100


class OptitrackEmulatorNode(TruthEmulatorNode[NatNetServerConfiguration, NatNetServer]):
    """Streams truth as a NatNet server would, see `TruthEmulatorNode`. Parameters: `NatNetServerConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, a port that is taken.
    """

    def __init__(self) -> None:
        super().__init__("optitrack_emulator", NatNetServerConfiguration)

    def begin(self, names: tuple[str, ...]) -> NatNetServer:
        """See `TruthEmulatorNode`."""
        chosen, server = self.chosen, NatNetServer(names, self.chosen)
        where = f"{chosen.interface}:{chosen.command_port}, {chosen.transport}"
        self.say_serving(f"NatNet {chosen.version} at {where}", names)
        return server

    def send(self, server: NatNetServer, poses: BodyPoses) -> None:
        """See `TruthEmulatorNode`."""
        server.send(poses)


class ViconEmulatorNode(TruthEmulatorNode[ViconEmulatorConfiguration, DataStreamServer]):
    """Streams truth as a DataStream server would, see `TruthEmulatorNode`. Parameters: `ViconEmulatorConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, a port that is taken.
    """

    def __init__(self) -> None:
        super().__init__("vicon_emulator", ViconEmulatorConfiguration)
        self._rate_hz = self.chosen.rate_hz
        self._first_ns = 0
        self._number = -1
        self._began_s = time.monotonic()

    def begin(self, names: tuple[str, ...]) -> DataStreamServer | None:
        """See `TruthEmulatorNode`; once it is known how often the bodies are seen."""
        if not self._rate_hz and len(self.waiting) >= _FRAMES_FOR_RATE:
            # The median: frames that are missing make some of the intervals longer.
            stamps_ns = np.array([one.stamp_ns for one in self.waiting])
            rate_hz = NANOSECONDS_PER_SECOND / max(float(np.median(np.diff(stamps_ns))), 1.0)
            # Cameras run at whole rates, or nearly so; a rate that is a thousandth off cannot be mapped.
            self._rate_hz = float(round(rate_hz)) if abs(rate_hz - round(rate_hz)) < 0.01 * rate_hz else rate_hz
        if not self._rate_hz:
            return None
        server = DataStreamServer(self.chosen.host, self.chosen.port, names, self._rate_hz)
        self.say_serving(f"DataStream at {self.chosen.host}:{server.port}, {self._rate_hz:.1f} Hz", names)
        return server

    def look_after(self, server: DataStreamServer) -> None:
        """Take clients, and go wrong as asked."""
        server.serve()
        now_s, chosen = time.monotonic(), self.chosen
        gone_s = now_s - self._began_s - chosen.restart_every_s if chosen.restart_every_s else 0.0
        if gone_s > chosen.restart_takes_s:
            self._began_s, self._first_ns, self._number = now_s, 0, -1
            server.listen()
        elif gone_s > 0.0:
            server.close()

    def send(self, server: DataStreamServer, poses: BodyPoses) -> None:
        """Numbers count exposures at the rate, so that a frame which is not there leaves a gap in them."""
        self._first_ns = self._first_ns or poses.stamp_ns
        number = round((poses.stamp_ns - self._first_ns) / NANOSECONDS_PER_SECOND * self._rate_hz)
        if number <= self._number:
            return
        self._number = number
        if (seen := self.chosen.seen(poses, self.rng)) is None:
            return
        server.send(
            _FIRST_NUMBER + number,
            seen,
            lambda: {"emulated": (time.time_ns() - poses.stamp_ns) / NANOSECONDS_PER_SECOND},
        )
