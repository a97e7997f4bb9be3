"""Names of ROS 2 in DDS: prefixes of topics, types of services, and which names are valid."""

from __future__ import annotations

import re

_VALID = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
_PREFIXES = {"rt": "topic", "rq": "request", "rr": "reply"}


def checked_name(name: str, what: str) -> str:
    """A full ROS name ("/salp/odometry"). Raises ValueError where ROS 2 would refuse it; `what` is "topic" or so."""
    if not _VALID.fullmatch(name) or "__" in name:
        raise ValueError(
            f"invalid {what} name {name!r}: a full name starts with / and has parts of letters, digits and single "
            "underscores that do not begin with a digit"
        )
    if len(name) > 245:
        raise ValueError(f"invalid {what} name: {len(name)} characters, more than 245")
    return name


def topic_in_dds(topic: str) -> str:
    """DDS's name of a topic."""
    return "rt" + checked_name(topic, "topic")


def request_in_dds(service: str) -> str:
    """DDS topic of a service's requests."""
    return "rq" + checked_name(service, "service") + "Request"


def reply_in_dds(service: str) -> str:
    """DDS topic of a service's replies."""
    return "rr" + checked_name(service, "service") + "Reply"


def from_dds(name: str) -> tuple[str, str]:
    """(kind, ROS name) of a DDS topic: kind is "topic", "request", "reply", or "" for what is not ROS's."""
    kind = _PREFIXES.get(name[:2], "")
    if not kind or name[2:3] != "/":
        return "", name
    suffix = {"topic": "", "request": "Request", "reply": "Reply"}[kind]
    if not name.endswith(suffix):
        return "", name
    return kind, name[2 : len(name) - len(suffix)]


def type_from_dds(name: str) -> str:
    """ROS's name of a type: "sensor_msgs::msg::dds_::Imu_" is "sensor_msgs/msg/Imu"; others as they are."""
    parts = name.split("::")
    if len(parts) == 4 and parts[2] == "dds_" and parts[3].endswith("_"):
        return f"{parts[0]}/{parts[1]}/{parts[3][:-1]}"
    return name


def service_type(message_type: str) -> str:
    """Type of the service that a request or response belongs to."""
    return re.sub(r"_(Request|Response)$", "", message_type)
