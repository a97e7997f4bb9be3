"""What is published raw, on the real rclpy: the bytes of `rosbags`, and what an ordinary `publish` delivers.

rclpy's own serialisation leaves up to 12 bytes behind the end of a message.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from bag_samples import JAZZY
from live_graph import listening_node, spin_until

from onboard_estimation.bags.message_types import decoded
from onboard_estimation.base.errors import UserError
from onboard_estimation.live.messages import interface_class, serialized

rclpy: Any = pytest.importorskip("rclpy", reason="needs ROS 2")
if not hasattr(rclpy, "get_rmw_implementation_identifier"):
    pytest.skip("needs ROS 2", allow_module_level=True)
serialization: Any = pytest.importorskip("rclpy.serialization")

JOINTS = "sensor_msgs/msg/JointState"
WANTED = {
    "builtin_interfaces": "Time",
    "diagnostic_msgs": "DiagnosticArray",
    "geometry_msgs": "PointStamped PoseStamped PoseWithCovarianceStamped TransformStamped TwistStamped WrenchStamped",
    "nav_msgs": "Odometry Path",
    "rosgraph_msgs": "Clock",
    "sensor_msgs": "FluidPressure Imu JointState MagneticField PointCloud2 Range Temperature TimeReference",
    "std_msgs": "Float64MultiArray String",
    "tf2_msgs": "TFMessage",
    "visualization_msgs": "Marker MarkerArray",
}


def types() -> Iterator[str]:
    """Those that are installed, and are no stand-ins."""
    for package, names in WANTED.items():
        for name in names.split():
            with suppress(UserError):
                if hasattr(interface_class(f"{package}/msg/{name}"), "_fields_and_field_types"):
                    yield f"{package}/msg/{name}"


TYPES = list(types())
assert len(TYPES) >= 20


def filled(message: Any, random: Random) -> Any:
    """The message with anything in it."""
    for name, kind in message.get_fields_and_field_types().items():
        setattr(message, name, value(kind, getattr(message, name), random))
    return message


def value(kind: str, now: Any, random: Random) -> Any:
    """Of a field's type; `now` is what the field has in a new message."""
    if kind.startswith("sequence<"):
        element, length = kind[9:-1], random.randrange(5)
        if "/" in element:
            return [filled(interface_class(element.replace("/", "/msg/"))(), random) for _ in range(length)]
        found = [value(element, None, random) for _ in range(length)]
        return array(now.typecode, found) if isinstance(now, array) else found
    if isinstance(now, np.ndarray):
        return np.array([value(kind.partition("[")[0], None, random) for _ in now], dtype=now.dtype)
    if "/" in kind:
        return filled(now, random)
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "octet":
        return random.randbytes(1)
    if kind == "string":
        return "".join(random.choices("a\u00e9\u2603\U0001f600 \n'\"\\", k=random.randrange(10)))
    if kind in ("double", "float"):
        return random.choice([0.0, 1.0, -1.5, 2.0**-20, 2.0**100 if kind == "float" else 1e300])
    bits = int(kind.lstrip("uint"))
    return random.choice(
        [0, random.getrandbits(bits - 1), 2 ** (bits - 1) - 1, -(2 ** (bits - 1)) if kind[0] == "i" else 2**bits - 1]
    )


def joint_states() -> Iterator[Any]:
    """With and without each array, names of all lengths modulo eight."""
    kind = interface_class(JOINTS)
    for chosen in itertools.product((False, True), repeat=3):
        given = {name: [1.0, 2.0] for name in itertools.compress(("position", "velocity", "effort"), chosen)}
        for length in range(8):
            yield kind(name=["n" * length, "m"], **given)


def exchanged(node: Any, kind: Any, topic: str, messages: list[Any]) -> list[bytes]:
    """What comes of each message: published as it is, and serialised."""
    came: list[bytes] = []
    publisher = node.create_publisher(kind, topic, 1000)
    subscription = node.create_subscription(kind, topic, lambda data: came.append(bytes(data)), 1000, raw=True)
    spin_until(node, publisher.get_subscription_count)
    for message in messages:
        publisher.publish(message)
        publisher.publish(serialized(message))
    spin_until(node, lambda: len(came) == 2 * len(messages))
    node.destroy_publisher(publisher)
    node.destroy_subscription(subscription)
    return came


@pytest.mark.usefixtures("ros_domain")
def test_delivered_is_what_an_ordinary_publish_delivers() -> None:
    with listening_node("exact_bytes", "/", events=False) as node:
        for message_type in TYPES:
            are_delivered_alike(node, message_type)


def are_delivered_alike(node: Any, message_type: str) -> None:
    kind, random = interface_class(message_type), Random(message_type)
    messages = [kind(), *(filled(kind(), random) for _ in range(10))]
    messages += joint_states() if message_type == JOINTS else ()
    came = exchanged(node, kind, f"exact/{message_type}", messages)
    for message, ordinary, raw in zip(messages, came[::2], came[1::2], strict=True):
        written = serialized(message)
        assert raw[: len(written)] == written
        assert len(raw) == len(ordinary)
        assert len(raw) - len(written) in (0, -len(written) % 4)  # DDS fills up what leaves the process
        for one in (ordinary, raw):
            assert serialization.deserialize_message(one, kind) == message
            back, _ = decoded(JAZZY, message_type, one)
            assert bytes(JAZZY.serialize_cdr(back, message_type, little_endian=True)) == written
