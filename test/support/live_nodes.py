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

from live_graph import LONGEST_WAIT_S, die_with_this, kill_group

PREAMBLE = """
import rclpy
from rclpy.node import Node
from rclpy.qos import *
from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor
from sensor_msgs.msg import Imu
from std_msgs.msg import String
"""

TALKER = """
import time
from geometry_msgs.msg import PoseWithCovarianceStamped
from std_srvs.srv import SetBool, Trigger

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
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
latched = node.create_publisher(String, "phase", LATCHED)
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

def reset(request, response):
    response.success, response.message = True, "started anew"
    return response

def enable(request, response):
    response.success, response.message = request.data, f"{request.data}"
    return response

def sleep(request, response):
    time.sleep(1.5)
    return response

node.create_service(Trigger, "reset", reset)
node.create_service(SetBool, "imu/link_2/enable", enable)
node.create_service(Trigger, "sleep", sleep)
poses = node.create_publisher(PoseWithCovarianceStamped, "pose", LATCHED)
node.create_subscription(PoseWithCovarianceStamped, "set_pose", poses.publish, 10)
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
    process = _process([sys.executable, "-c", PREAMBLE + code])
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
    except ValueError:  # read already
        return "", ""
    finally:
        kill_group(process)


def heard_by(process: subprocess.Popen[str]) -> list[list[int]]:
    """What a COUNTER reports when it is asked to end: (topic, stamp) in the order of arrival."""
    out, errors = stop(process)
    assert out, errors
    return list(json.loads(out.splitlines()[-1]))


def start(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    return _process([sys.executable, "-m", "onboard_estimation", *map(str, words)], **environment)


def _process(line: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        line,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=die_with_this,
    )
