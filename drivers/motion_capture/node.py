"""Bodies of a motion capture system as ground truth: what the rclpy nodes of OptiTrack and Vicon have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar

from drivers.motion_capture.bodies import BodyPoses, parsed_names
from drivers.motion_capture.configuration import TruthConfiguration
from drivers.motion_capture.health import StreamHealth
from drivers.motion_capture.outputs import TruthOutputs
from drivers.node import DriverNode, NoRobot
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.ros.frames import resolved_prefix
from onboard_estimation.timing.device_clock import DeviceClock


class Client(Protocol):
    """Reads a server.

    Attributes
    ----------
    health
        Counts.
    """

    health: StreamHealth

    @property
    def trouble(self) -> str:
        """Why nothing comes; empty where all is well."""

    @property
    def device_clock(self) -> DeviceClock | None:
        """That frames are mapped by; None: they are not, or not yet."""

    def read(self, timeout_s: float) -> Iterable[BodyPoses]:
        """Frames that have come, as soon as there are any; the names are the same object while they stay the same."""

    def figures(self) -> Mapping[str, float]:
        """What else is to be reported."""

    def close(self) -> None:
        """Leave the server."""


C = TypeVar("C", bound=TruthConfiguration)
R = TypeVar("R", bound=Client)


class TruthNode(DriverNode, Generic[C, R]):
    """Publishes `ground_truth/<name>/pose` of bodies that are tracked and listened to, `/tf` by choice, `/diagnostics`.

    Attributes
    ----------
    chosen, client
        Its parameters, and what `connect` made.
    """

    def __init__(self, name: str, configuration_type: type[C]) -> None:
        self.client: R | None = None
        super().__init__(name)
        parameters: NodeParameters[NoRobot, C] = NodeParameters(self, NoRobot, configuration_type)
        self.chosen = chosen = parameters.host
        prefix = resolved_prefix(chosen.frame_prefix, self.get_namespace())
        self._truth = TruthOutputs(self, parsed_names(chosen.bodies), chosen.publish_tf, prefix)
        self._names: tuple[str, ...] = ()
        self.client = client = self.connect(chosen)
        self.keep_reading(partial(self._read, client), partial(self._report, client))

    @abstractmethod
    def connect(self, chosen: C) -> R:
        """The client for these parameters."""

    def watch(self, client: R) -> None:
        """Say once a second what has changed."""

    def destroy_node(self) -> None:
        """Leave the server."""
        if self.client is not None:
            self.client.close()
        super().destroy_node()

    def _read(self, client: R, timeout_s: float) -> None:
        """Publish what arrives."""
        for poses in client.read(timeout_s):
            if poses.names is not self._names:
                self._new_bodies(poses.names)
            self._truth.publish(poses)

    def _new_bodies(self, names: tuple[str, ...]) -> None:
        self._names = names
        topics, missing = self._truth.set_bodies(names)
        self.get_logger().info(f"{len(names)} bodies in the stream; published: {', '.join(topics) or 'none'}")
        if missing:
            there = ", ".join(names) or "none"
            self.get_logger().warning(f"not in the stream: {', '.join(missing)}; bodies in it: {there}")

    def _report(self, client: R) -> None:
        self._truth.look()
        self.watch(client)
        self.report(client.health.statuses(self.status, client.trouble, client.device_clock, client.figures()))
