"""HEBI's driver with an imitation group: what is lost between the library's handler and the topics, and at what cost.

    python -m benchmarks.hebi_imitation [SECONDS] [FREQUENCY_HZ]

By itself, since hebi-py is not among the development tools. The node runs in this process, a listener in another one;
counting starts once they have found each other, and stops when the group is asked no more.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from onboard_estimation import ros2
from onboard_estimation.nodes.run import new_executor

_LISTENER = """
from onboard_estimation import ros2; ros2.require()
import rclpy, sys
from sensor_msgs.msg import Imu
from rclpy.qos import QoSProfile
rclpy.init()
node, heard = rclpy.create_node("listener"), [0, 0, 0]
def count(place):
    def take(_):
        heard[place] += 1
    return take
kept = [node.create_subscription(Imu, f"/imu/link_{n + 1}/data_raw", count(n), QoSProfile(depth=5000), raw=True)
        for n in range(3)]
print("there", flush=True)
try:
    rclpy.spin(node)
except BaseException:
    pass
print(*heard, flush=True)
"""


def main() -> None:
    """Print the figures."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    frequency_hz = float(sys.argv[2]) if len(sys.argv) > 2 else 500.0
    ros2.require()
    import rclpy

    from drivers.hebi.node import HebiNode

    parameters = Path(__file__).parent.parent / "config" / "salp_hebi.yaml"
    own = ["source:=imitation", "robot:=salp", f"feedback_frequency_hz:={frequency_hz}"]
    rclpy.init(args=["--ros-args", "--params-file", str(parameters), *(word for one in own for word in ("-p", one))])
    node = HebiNode()
    listener = subprocess.Popen([sys.executable, "-c", _LISTENER], stdout=subprocess.PIPE, text=True)
    assert listener.stdout is not None
    listener.stdout.readline()
    while not all(publisher.get_subscription_count() for publisher in node.outputs.values()):
        time.sleep(0.1)
    time.sleep(1.0)
    executor = new_executor()
    executor.add_node(node)
    started_s, started_cpu_s = time.monotonic(), time.process_time()
    while time.monotonic() < started_s + seconds:
        executor.spin_once(timeout_sec=0.1)
    passed_s, cpu_s = time.monotonic() - started_s, time.process_time() - started_cpu_s
    node.feed.close()
    time.sleep(0.1)
    for _ in range(20):
        executor.spin_once(timeout_sec=0.01)
    time.sleep(1.0)
    listener.send_signal(2)
    heard = [int(word) for word in listener.stdout.readline().split()]
    copied, overflow, faults = node.feed.queue.copied, node.feed.queue.overflow, node.feed.queue.faults
    print(
        f"asked {frequency_hz:g} Hz for {passed_s:.1f} s: {copied} feedbacks ({copied / passed_s:.1f} Hz), overflow "
        f"{overflow}, copy faults {faults}; of each module heard {heard}, lost {[copied - one for one in heard]}; "
        f"{100.0 * cpu_s / passed_s:.1f} % of a core"
    )
    node.destroy_node()
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
