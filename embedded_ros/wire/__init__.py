"""DDS without rclpy: participants, writers, readers, services, waiting, and the graph."""

from __future__ import annotations

from embedded_ros.wire.dds import DdsError
from embedded_ros.wire.endpoints import Reader, Sample, Writer
from embedded_ros.wire.graph import EndpointInfo, Graph
from embedded_ros.wire.participant import Participant
from embedded_ros.wire.qos import Qos
from embedded_ros.wire.services import RequestId, ServiceClient, ServiceServer
from embedded_ros.wire.waitset import WaitSet

__all__ = [
    "DdsError",
    "EndpointInfo",
    "Graph",
    "Participant",
    "Qos",
    "Reader",
    "RequestId",
    "Sample",
    "ServiceClient",
    "ServiceServer",
    "WaitSet",
    "Writer",
]
