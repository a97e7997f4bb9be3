"""An ordinary rclpy program, one side of a conversation: run by an installed ROS 2's interpreter or by ours.

    python ros2_peer.py ROLE [--ros-args ...]

Each role says what it sees as lines of JSON, and ends on SIGINT with exit code 0.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

import rclpy
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_profile_sensor_data,
)
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Empty, String

LATCHED = QoSProfile(
    depth=3,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
RELIABLE = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
TOPICS: dict[str, tuple[Any, QoSProfile]] = {
    "imu": (Imu, qos_profile_sensor_data),
    "joint_states": (JointState, RELIABLE),
    "odometry": (Odometry, RELIABLE),
    "transform": (TransformStamped, RELIABLE),
    "empty": (Empty, RELIABLE),
    "latched": (String, LATCHED),
}


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def message(topic: str, number: int) -> Any:
    """The message of this number, the same on both sides."""
    stamp = Time(sec=1000 + number, nanosec=number * 1000)
    if topic == "imu":
        imu = Imu(angular_velocity_covariance=[float(number)] * 9)
        imu.header.stamp, imu.header.frame_id = stamp, f"link_{number}"
        imu.angular_velocity.z = number / 3.0
        imu.orientation_covariance[0] = -1.0
        return imu
    if topic == "joint_states":
        names = [f"joint_{index}" for index in range(number % 4)]
        joints = JointState(name=names, position=[number / 7.0 + index for index in range(len(names))])
        joints.header.stamp = stamp
        return joints
    if topic == "odometry":
        odometry = Odometry(child_frame_id="base_link")
        odometry.header.stamp, odometry.header.frame_id = stamp, "odom"
        odometry.pose.covariance[35] = number / 11.0
        odometry.twist.twist.linear.x = -number / 13.0
        return odometry
    if topic == "transform":
        transform = TransformStamped(child_frame_id=f"child_{number % 3}")
        transform.header.stamp, transform.header.frame_id = stamp, "parent ä"
        transform.transform.translation.y = number / 17.0
        return transform
    return Empty() if topic == "empty" else String(data=f"latched {number}")


def digest(received: Any) -> str:
    return hashlib.sha256(repr(received).encode()).hexdigest()[:16]


class Publish(Node):
    """Publishes numbered messages on every topic, and five latched ones at once, of which three are kept."""

    def __init__(self) -> None:
        super().__init__("publishing")
        self._made = {topic: self.create_publisher(kind, topic, qos) for topic, (kind, qos) in TOPICS.items()}
        self._number = 0
        for number in range(5):
            self._made["latched"].publish(message("latched", number))
        self.create_timer(0.02, self._tick)
        say(ready=True)

    def _tick(self) -> None:
        for topic, publisher in self._made.items():
            if topic != "latched":
                sent = message(topic, self._number)
                publisher.publish(sent)
                say(topic=topic, digest=digest(sent))
        self._number += 1


class Subscribe(Node):
    """Says of every message which one it is: its topic and the digest of its text."""

    def __init__(self) -> None:
        super().__init__("subscribing")
        for topic, (kind, qos) in TOPICS.items():
            self.create_subscription(kind, topic, self._receiver(topic), qos)
        say(ready=True)

    def _receiver(self, topic: str) -> Callable[[Any], None]:
        return lambda received: say(topic=topic, digest=digest(received))


NODES: dict[str, Callable[[], Node]] = {"publish": Publish, "subscribe": Subscribe}


def main() -> None:
    rclpy.init(args=sys.argv)
    _, role = remove_ros_args(sys.argv)
    try:
        rclpy.spin(NODES[role]())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
