"""What the graph tells of a publisher or subscription."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from rclpy.qos import QoSProfile, qos_profile_unknown


class TopicEndpointTypeEnum(IntEnum):
    """Kind of an endpoint."""

    INVALID = 0
    PUBLISHER = 1
    SUBSCRIPTION = 2


@dataclass
class TopicEndpointInfo:
    """One endpoint of a topic: node, type, gid, QoS."""

    node_name: str = ""
    node_namespace: str = ""
    topic_type: str = ""
    topic_type_hash: str = ""
    endpoint_type: TopicEndpointTypeEnum = TopicEndpointTypeEnum.INVALID
    endpoint_gid: list[int] = field(default_factory=list)
    qos_profile: QoSProfile = field(default_factory=lambda: qos_profile_unknown)
