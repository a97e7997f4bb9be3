"""Drivers of motion capture with emulated servers: losses, errors of the stamps and share of a core, twenty bodies.

A process is the server, and keeps the instant that each frame is of, with a clock 60 ppm fast; the driver's node maps
it; another process listens and keeps what stamp each frame got. A body's x is the number of its frame.
`python -m benchmarks.motion_capture serve|listen|drive` are the processes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live_processes import await_rest, result, row, settle, start
from onboard_estimation.live.machine_facts import cpu_s

BODIES = 20
SECONDS, QUICK_S = 60.0, 10.0
LARGEST_SHARE, MEDIAN_S, P99_S = 0.15, 50e-6, 300e-6
_SKEW_PPM = 60.0
_SETTLING_S = 6.0
"""Server and driver find each other, and who listens is looked at."""


@dataclass(frozen=True)
class System:
    """A system of motion capture.

    Attributes
    ----------
    rate_hz
        Of its frames.
    target
        Node of its driver.
    parameters
        Of that node.
    server
        Makes its emulated server, of those names.
    """

    rate_hz: int
    target: str
    parameters: tuple[str, ...]
    server: Callable[[tuple[str, ...]], Any]


def _natnet(names: tuple[str, ...]) -> Any:
    from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration

    ports = {"command_port": 15101, "data_port": 15111}
    return NatNetServer(names, NatNetServerConfiguration(clock_skew_ppm=_SKEW_PPM, **ports))


SYSTEMS = {
    "NatNet": System(
        240, "drivers.motion_capture.node:OptitrackNode", ("command_port:=15101", "data_port:=15111"), _natnet
    ),
}


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows for each system; one body is listened to, then all."""
    seconds = QUICK_S if quick else SECONDS
    return [one for name in SYSTEMS for heard in (1, BODIES) for one in _case(name, seconds, heard)]


def _case(name: str, seconds: float, heard: int) -> list[dict[str, Any]]:
    system = SYSTEMS[name]
    with tempfile.TemporaryDirectory() as folder:
        sent, came = (str(Path(folder) / one) for one in ("sent.npy", "came.npy"))
        listener = start(["benchmarks.motion_capture", "listen", came, str(heard)])
        words = [word for one in system.parameters for word in ("-p", one)]
        arguments = ["--ros-args", "-r", "__ns:=/lab", "--log-level", "warn", *words]
        node = start(["benchmarks.motion_capture", "drive", name, *arguments])
        await_rest(node)
        server = start(["benchmarks.motion_capture", "serve", name, sent, str(seconds + _SETTLING_S)])
        time.sleep(_SETTLING_S)
        before_s, begin_s = cpu_s(node.pid), time.monotonic()
        time.sleep(seconds - 2.0)
        share = (cpu_s(node.pid) - before_s) / (time.monotonic() - begin_s)
        result(server, seconds + 60.0)
        result(listener, 60.0)
        node.terminate()
        node.wait(20.0)
        sent_ns, (number, stamp_ns) = np.load(sent), np.load(came)
    settle()
    expected = len(sent_ns) - int(number.min())
    lost = expected - len(np.unique(number))
    errors_s = 1e-9 * np.abs(stamp_ns - sent_ns[number])
    median_s, p99_s = np.percentile(errors_s, [50.0, 99.0])
    case = f"{name} at {system.rate_hz} Hz, {BODIES} bodies, {heard} heard, {seconds:.0f} s"
    return [
        row(f"{case}: frames lost", f"{lost} of {expected:,}", "0", lost == 0),
        row(
            f"{case}: core used by the node",
            f"{100.0 * share:.1f} %",
            f"<= {100.0 * LARGEST_SHARE:g} %",
            bool(share <= LARGEST_SHARE),
        ),
        row(
            f"{case}: error of stamps",
            f"median {1e6 * median_s:.0f} us, 99 % {1e6 * p99_s:.0f} us, worst {1e6 * errors_s.max():.0f} us",
            f"<= {1e6 * MEDIAN_S:.0f} us, {1e6 * P99_S:.0f} us",
            bool(median_s <= MEDIAN_S and p99_s <= P99_S),
        ),
    ]


def _serve(name: str, kept: str, seconds: str) -> None:
    from drivers.motion_capture.bodies import BodyPoses
    from onboard_estimation.live.budget import sleep_until

    system, names = SYSTEMS[name], tuple(f"body_{number}" for number in range(BODIES))
    server = system.server(names)
    time.sleep(3.0)  # the driver finds it
    count, period_ns = round(float(seconds) * system.rate_hz), round(1e9 / system.rate_hz)
    sent_ns = np.zeros(count, dtype=np.int64)
    quaternions = np.tile([0.0, 0.0, 0.0, 1.0], (BODIES, 1))
    tracked, start_ns = np.ones(BODIES, dtype=np.bool_), time.monotonic_ns()
    for number in range(count):
        sleep_until(start_ns + number * period_ns)
        sent_ns[number] = time.time_ns()
        positions = np.full((BODIES, 3), float(number))
        server.submit(BodyPoses(int(sent_ns[number]), names, positions, quaternions, tracked))
    time.sleep(1.0)
    server.close()
    np.save(kept, sent_ns)
    print(f'{{"sent": {count}}}')


def _listen(kept: str, heard: str) -> None:
    from onboard_estimation import ros2

    ros2.require()
    import rclpy
    from geometry_msgs.msg import PoseStamped
    from rclpy.qos import QoSProfile, ReliabilityPolicy

    rclpy.init(args=[])
    node = rclpy.create_node("benchmark_listen", namespace="/lab")
    came: list[tuple[int, int]] = []
    # Its queues fill and are not looked at: to take 4800 messages a second would need a core for the listener.
    silent = rclpy.create_node("benchmark_hear", namespace="/lab")
    last_s = [time.monotonic() + 90.0]

    def take(message: Any) -> None:
        stamp = message.header.stamp
        came.append((round(message.pose.position.x), stamp.sec * 1_000_000_000 + stamp.nanosec))
        last_s[0] = time.monotonic()

    qos = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
    few = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    node.create_subscription(PoseStamped, "ground_truth/body_0/pose", take, qos)
    for number in range(1, int(heard)):
        silent.create_subscription(PoseStamped, f"ground_truth/body_{number}/pose", lambda _: None, few, raw=True)
    while time.monotonic() - last_s[0] < 5.0:
        rclpy.spin_once(node, timeout_sec=0.5)
    np.save(kept, np.array(came, dtype=np.int64).T)
    for one in (node, silent):
        one.destroy_node()
    rclpy.shutdown()
    print(f'{{"received": {len(came)}}}')


def _main() -> None:
    what, *words = sys.argv[1:]
    if what == "serve":
        _serve(*words)
    elif what == "listen":
        _listen(*words)
    else:
        from onboard_estimation.nodes.run import run as run_node

        run_node(lambda: [SYSTEMS[words[0]].target], words[1:])


if __name__ == "__main__":
    _main()
