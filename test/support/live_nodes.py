"""Nodes in processes of their own for tests of the live graph, and programs run beside them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_WAIT_S = 180.0
PREAMBLE = """
import rclpy
from rclpy.node import Node
from rclpy.qos import *
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from sensor_msgs.msg import Imu
from std_msgs.msg import String
"""

TALKER = """
rclpy.init()
node = Node("talker", namespace="/salp")
node.declare_parameter(
    "gate_probability",
    0.997,
    ParameterDescriptor(
        description="of gating", floating_point_range=[FloatingPointRange(from_value=0.5, to_value=1.0)]
    ),
)
node.declare_parameter("fixed", "x", ParameterDescriptor(read_only=True))
node.declare_parameter("chain.names", ["a", "b"])
node.declare_parameter("count", 3)
imu = node.create_publisher(Imu, "imu/link_1/data_raw", qos_profile_sensor_data)
hidden = node.create_publisher(String, "_internal", 10)
latched = node.create_publisher(String, "phase", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
latched.publish(String(data="flight"))
message = Imu()
message.header.frame_id = "imu"
message.linear_acceleration.z = 9.81

def tick():
    message.header.stamp.sec += 1
    imu.publish(message)
    hidden.publish(String(data="tick"))

node.create_subscription(String, "commands", lambda heard: None, 10)
node.create_timer(0.02, tick)
"""

COUNTER = """
import json, time
rclpy.init()
node = Node("counter")
heard = []

def note(topic):
    def callback(message):
        heard.append((topic, message.header.stamp.sec))
        time.sleep(DELAY)
    return callback

for number in range(3):
    node.create_subscription(Imu, f"/imu_{number}", note(number), QoSProfile(depth=5))
"""

SPIN = """
try:
    print("ready", flush=True)  # whoever reads it may interrupt at once
    rclpy.spin(node)
except (KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
    pass
"""

REPORT = """
print(json.dumps(heard), flush=True)
"""


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process, once it has printed `ready`; stopped with SIGINT at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", f"{line}{process.communicate()[1]}"
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[str, str]:
    """Standard output and standard error of a process that is asked to end."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        return process.communicate(timeout=LONGEST_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()
    except ValueError:  # read already
        return "", ""


def heard_by(process: subprocess.Popen[str]) -> list[list[int]]:
    """What a COUNTER reports when it is asked to end: (topic, stamp) in the order of arrival."""
    out, errors = stop(process)
    assert out, errors
    return list(json.loads(out.splitlines()[-1]))


def start(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "onboard_estimation", *map(str, words)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
