"""An ordinary rclpy program, one side of a conversation: run by an installed ROS 2's interpreter or by ours.

    python ros2_peer.py [--ros-args ...]

Publishes readings and poses fifty times a second, says in a line of JSON that it does, and ends on SIGINT with 0.
"""

from __future__ import annotations

import json
import sys

import rclpy
from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import Imu
from std_msgs.msg import String


class Publish(Node):
    def __init__(self) -> None:
        super().__init__("publishing")
        self._imus = self.create_publisher(Imu, "imu", qos_profile_sensor_data)
        self._poses = self.create_publisher(Odometry, "odometry", 100)
        latched = QoSProfile(depth=3, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._texts = self.create_publisher(String, "latched", latched)
        self._texts.publish(String(data="latched"))
        self._number = 0
        self.create_timer(0.02, self._tick)
        print(json.dumps({"ready": True}), flush=True)

    def _tick(self) -> None:
        self._number += 1
        imu, pose = Imu(), Odometry(child_frame_id="base_link")
        imu.header.stamp = pose.header.stamp = Time(sec=1000 + self._number, nanosec=self._number * 1000)
        imu.header.frame_id, pose.header.frame_id = "link", "odom"
        imu.angular_velocity.z, pose.twist.twist.linear.x = self._number / 3.0, -self._number / 13.0
        self._imus.publish(imu)
        self._poses.publish(pose)


def main() -> None:
    rclpy.init(args=sys.argv)
    try:
        rclpy.spin(Publish())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
