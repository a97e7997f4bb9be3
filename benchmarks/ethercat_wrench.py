"""The EtherCAT driver on a virtual cable: missed working counters, jitter, share of a core, and a device dead for 2 s.

The node runs here, an emulated Axia80 at the far end in another process, a listener in a third. Needs pysoem and the
right to make a veth pair; `python -m benchmarks.ethercat_wrench far|listen` are the other processes.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live_processes import row, start
from onboard_estimation.nodes.run import new_executor

RATE_HZ = 1000
SECONDS, QUICK_S = 60.0, 10.0
_DEAD_S, _LOSSES = 2.0, 5
_AFTER_S = 3.0
_PRIORITY = 50
"""Of the cycle's thread, the driver's default; it needs a right."""
_DEVICE_PRIORITY = 20
"""A device of hardware is not kept waiting by other programs."""


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows of the undisturbed minute with real-time priority and without, and of the losses."""
    seconds, losses = (QUICK_S, 2) if quick else (SECONDS, _LOSSES)
    return [*_measured(_PRIORITY, seconds, losses), *_measured(0, seconds, 0)]


def _measured(priority: int, seconds: float, losses: int) -> list[dict[str, Any]]:
    """One run on a cable of its own."""
    near, far = f"ecb{os.getpid()}n", f"ecb{os.getpid()}f"
    with _cable(near, far), tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "came.npz"
        slaves = start(["benchmarks.ethercat_wrench", "far", far], stdin=subprocess.PIPE)
        listener = start(["benchmarks.ethercat_wrench", "listen", str(kept)])
        try:
            figures, used, cycles = _node(near, priority, slaves, seconds, losses)
            listener.wait(60.0)
            came = dict(np.load(kept))
        finally:
            for one in (slaves, listener):
                one.kill()
                one.wait(10.0)
    name = f"{RATE_HZ} Hz for {seconds:.0f} s" + ("" if priority else ", without real-time priority")
    missed = f"{figures['missed']} of {figures['cycles']:,}; {figures['overruns']} instants left out"
    jitter = f"99 % {figures['jitter_p99_us']:.0f} us, worst {1e-3 * figures['jitter_worst_us']:.1f} ms"
    is_held = bool(figures["jitter_p99_us"] <= 300.0)
    rows = [
        row(f"{name}: missed working counters", missed, "0", figures["missed"] == 0),
        row(f"{name}: a cycle after its instant", jitter, "99 % <= 300 us", is_held),
        row(f"{name}: core used by the node, a listener there", f"{100.0 * used:.1f} %", "<= 15 %", used <= 0.15),
    ]
    return rows + (_lost(came, cycles) if cycles else [])


def _lost(came: dict[str, Any], cycles: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Rows of the losses."""
    stated_ms, back_s = [], []
    for off_ns, on_ns in cycles:
        bad = came["report_ns"][(came["report_ns"] > off_ns) & (came["level"] == 2)]
        stated_ms.append(1e-6 * float(bad[0] - off_ns))
        back_s.append(1e-9 * float(came["wrench_ns"][came["wrench_ns"] > on_ns][0] - on_ns))
    told = f"median {np.median(stated_ms):.0f} ms, worst {max(stated_ms):.0f} ms of {len(stated_ms)}"
    again = f"median {np.median(back_s):.2f} s, worst {max(back_s):.2f} s of {len(back_s)}"
    return [
        row(f"dead for {_DEAD_S:.0f} s: until /diagnostics says so", told, "<= 50 ms", max(stated_ms) <= 50.0),
        row(f"dead for {_DEAD_S:.0f} s: from its return to wrenches", again, "<= 1 s", max(back_s) <= 1.0),
    ]


def _node(
    interface: str, priority: int, slaves: subprocess.Popen[str], seconds: float, losses: int
) -> tuple[Any, float, list[tuple[int, int]]]:
    """Figures of the undisturbed cycles, share of a core meanwhile, times of losses and returns."""
    os.environ.update(_graph())
    from onboard_estimation import ros2

    ros2.require()
    import rclpy

    from drivers.ethercat.node import EthercatWrenchNode

    assert slaves.stdin is not None
    assert slaves.stdout is not None
    slaves.stdout.readline()
    own = [f"bus.interface:={interface}", "diagnostics_period_s:=3600.0", f"bus.realtime_priority:={priority}"]
    rclpy.init(args=["--ros-args", "--log-level", "error", *(word for one in own for word in ("-p", one))])
    node = EthercatWrenchNode()
    executor = new_executor()
    executor.add_node(node)

    def spin(duration_s: float) -> None:
        until_s = time.monotonic() + duration_s
        while time.monotonic() < until_s:
            executor.spin_once(timeout_sec=0.05)

    try:
        spin(5.0)
        gc.collect()  # as `onboard_estimation.nodes.run` does for every node
        gc.freeze()
        gc.set_threshold(20_000, 50, 100)
        cycle = node._cycle
        assert cycle is not None
        cycle.figures()
        used_s, began_s = time.process_time(), time.monotonic()
        spin(seconds)
        used = (time.process_time() - used_s) / (time.monotonic() - began_s)
        figures = cycle.figures()
        times = []
        for _ in range(losses):
            off_ns = _ask(slaves, "off")
            spin(_DEAD_S)
            times.append((off_ns, _ask(slaves, "on")))
            spin(_AFTER_S)
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()
    return figures, used, times


def _ask(slaves: subprocess.Popen[str], word: str) -> int:
    assert slaves.stdin is not None
    assert slaves.stdout is not None
    slaves.stdin.write(word + "\n")
    slaves.stdin.flush()
    return int(slaves.stdout.readline())


def _graph() -> dict[str, str]:
    from benchmarks.live_processes import DOMAIN

    return {"ROS_DOMAIN_ID": DOMAIN, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


@contextmanager
def _cable(near: str, far: str) -> Iterator[None]:
    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=20.0)

    ip("link", "add", near, "type", "veth", "peer", "name", far)
    try:
        ip("link", "set", near, "up")
        ip("link", "set", far, "up")
        yield
    finally:
        ip("link", "del", near)


def _far(interface: str) -> None:
    """The device; on `off` it is without power and answers no frame, on `on` it starts anew."""
    from drivers.emulators.ethercat.segment import Segment, Wire
    from drivers.emulators.ethercat.slave import Slave
    from drivers.ethercat.description import find

    slave = Slave(find("ati_axia80"), lambda _: (1.0, 2.0, 3.0, 0.1, 0.2, 0.3))
    segment, wire = Segment([slave]), Wire(interface)

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "off":
                segment.connect(0)
            else:
                slave.power_up()
                segment.connect(1)
            print(time.time_ns(), flush=True)

    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_DEVICE_PRIORITY))
    threading.Thread(target=listen, daemon=True).start()
    print("there", flush=True)
    wire.serve(segment.process, lambda: True)


def _listen(kept: str) -> None:
    """When wrenches and reports came, and what the reports said of the bus, until nothing comes."""
    from onboard_estimation import ros2

    ros2.require()
    import rclpy
    from diagnostic_msgs.msg import DiagnosticArray
    from geometry_msgs.msg import WrenchStamped
    from rclpy.qos import QoSProfile

    rclpy.init(args=[])
    node = rclpy.create_node("benchmark_listen")
    wrench_ns: list[int] = []
    reports: list[tuple[int, int]] = []
    last_s = [time.monotonic() + 60.0]

    def take(_: Any) -> None:
        wrench_ns.append(time.time_ns())
        last_s[0] = time.monotonic()

    def take_report(message: Any) -> None:
        level = next((one.level[0] for one in message.status if one.hardware_id == "bus"), 0)
        reports.append((time.time_ns(), level))

    node.create_subscription(WrenchStamped, "wrench", take, QoSProfile(depth=2000), raw=True)
    node.create_subscription(DiagnosticArray, "/diagnostics", take_report, QoSProfile(depth=100))
    while time.monotonic() - last_s[0] < 5.0:
        rclpy.spin_once(node, timeout_sec=0.5)
    report_ns, level = np.array(reports, dtype=np.int64).reshape(-1, 2).T
    np.savez(kept, wrench_ns=np.array(wrench_ns, dtype=np.int64), report_ns=report_ns, level=level)
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    {"far": _far, "listen": _listen}[sys.argv[1]](sys.argv[2])
