"""Drivers whose node runs in this process: EtherCAT on a virtual cable, and HEBI's with an imitation group.

`python -m benchmarks.drivers.bus_drivers INTERFACE` is the emulated Axia80 at the far end of the cable.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.live import GRAPH, heard, result, role, start
from benchmarks.measuring import Row, row
from onboard_estimation.base import ros2
from onboard_estimation.base.installed import resource
from onboard_estimation.nodes.run import new_executor

RATE_HZ = 1000
_DEAD_S, _LOSSES, _AFTER_S = 2.0, 5, 3.0
_PRIORITY, _DEVICE_PRIORITY = 50, 20
"""Of the cycle's thread, the driver's default, which needs a right; a device of hardware waits for no program."""
_MODULES = 3
_STAT = Path("/proc/stat")


def ethercat_wrench(quick: bool) -> list[Row]:
    """The EtherCAT driver on a virtual cable: missed working counters, jitter, share of a core, a device dead for 2 s.

    With real-time priority and without. Needs pysoem and the right to make a veth pair.
    """
    seconds, losses = (10.0, 2) if quick else (60.0, _LOSSES)
    return [*_ethercat(_PRIORITY, seconds, losses), *_ethercat(0, seconds, 0)]


def hebi_imitation(quick: bool) -> list[Row]:
    """HEBI's driver with an imitation group: what is lost between the library's handler and the topics, at what cost.

    Needs hebi-py, which is not among the development tools.
    """
    return [_hebi(frequency_hz, 10.0 if quick else 60.0) for frequency_hz in (500.0, 1000.0)]


@contextmanager
def _spinning(node_type: Callable[[], Any], words: list[str]) -> Iterator[tuple[Any, Callable[[float], float]]]:
    """A node here, and what lets it work for so long and says which share of a core that took."""
    os.environ.update(GRAPH)
    ros2.require()
    import rclpy

    rclpy.init(args=["--ros-args", "--log-level", "error", *words])
    made, executor = node_type(), new_executor()
    executor.add_node(made)
    gc.collect()  # as `onboard_estimation.nodes.run` does for every node
    gc.freeze()

    def spin(duration_s: float) -> float:
        used_s, began_s = time.process_time(), time.monotonic()
        while time.monotonic() < began_s + duration_s:
            executor.spin_once(timeout_sec=0.05)
        return (time.process_time() - used_s) / (time.monotonic() - began_s)

    try:
        yield made, spin
    finally:
        executor.shutdown()
        made.destroy_node()
        rclpy.try_shutdown()


def _ethercat(priority: int, seconds: float, losses: int) -> list[Row]:
    """One run on a cable of its own."""
    from drivers.ethercat.node import EthercatWrenchNode

    near, far = f"ecb{os.getpid()}n", f"ecb{os.getpid()}f"
    own = [f"bus.interface:={near}", "diagnostics_period_s:=3600.0", f"bus.realtime_priority:={priority}"]
    with _cable(near, far), tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "came.npz"
        device = start(["benchmarks.drivers.bus_drivers", far], stdin=subprocess.PIPE)
        kind = "geometry_msgs/msg/WrenchStamped"
        listener = role("listen", topic="/wrench", kind=kind, keep=str(kept), reliable=True)
        try:
            assert device.stdout is not None
            device.stdout.readline()
            with _spinning(EthercatWrenchNode, [word for one in own for word in ("-p", one)]) as (made, spin):
                spin(5.0)
                cycle = made._cycle
                cycle.figures()
                spent = _spent_s()
                used = spin(seconds)
                busy_s, stolen_s = _spent_s() - spent
                figures, times = cycle.figures(), []
                for _ in range(losses):
                    off_ns = _ask(device, "off")
                    spin(_DEAD_S)
                    times.append((off_ns, _ask(device, "on")))
                    spin(_AFTER_S)
            reports = result(listener, 60.0)["reports"]
        finally:
            for one in (device, listener):
                one.kill()
                one.wait(10.0)
        wrench_ns = heard(kept)["came_ns"]
    name = f"{RATE_HZ} Hz for {seconds:.0f} s" + ("" if priority else ", without real-time priority")
    missed = f"{figures['missed']} of {figures['cycles']:,}; {figures['overruns']} instants left out"
    machine = (
        f"{100.0 * busy_s / seconds / (os.cpu_count() or 1):.0f} % busy, {1e3 * stolen_s:.0f} ms stolen by its host"
    )
    late_us = figures["jitter_p99_us"]
    jitter = f"99 % {late_us:.0f} us, worst {1e-3 * figures['jitter_worst_us']:.1f} ms"
    bad_ns = np.array([at_ns for at_ns, said in reports if said.get("bus", [0])[0] in (2, "\x02")])
    return [
        row(f"{name}: missed working counters", missed, "0", figures["missed"] == 0),
        row(f"{name}: a cycle after its instant", jitter, "99 % <= 300 us", late_us <= 300.0),
        row(f"{name}: core used by the node, a listener there", f"{100.0 * used:.1f} %", "<= 15 %", used <= 0.15),
        row(f"{name}: all cores meanwhile", machine),
        *(_lost(bad_ns, wrench_ns, times) if times else ()),
    ]


def _spent_s() -> NDArray[np.float64]:
    """(2,) Of all cores since the start: by programs and the kernel, and by the host of a virtual machine; proc(5)."""
    user, nice, system, _, _, interrupts, soft_interrupts, stolen = map(int, _STAT.read_text().split()[1:9])
    busy = user + nice + system + interrupts + soft_interrupts
    return np.array([busy, stolen]) / os.sysconf("SC_CLK_TCK")


def _lost(bad_ns: Any, wrench_ns: Any, times: list[tuple[int, int]]) -> list[Row]:
    """Rows of the losses."""
    stated_ms = [1e-6 * float(bad_ns[bad_ns > off_ns][0] - off_ns) for off_ns, _ in times]
    back_s = [1e-9 * float(wrench_ns[wrench_ns > on_ns][0] - on_ns) for _, on_ns in times]
    told = f"median {np.median(stated_ms):.0f} ms, worst {max(stated_ms):.0f} ms of {len(times)}"
    again = f"median {np.median(back_s):.2f} s, worst {max(back_s):.2f} s of {len(times)}"
    return [
        row(f"dead for {_DEAD_S:.0f} s: until /diagnostics says so", told, "<= 50 ms", max(stated_ms) <= 50.0),
        row(f"dead for {_DEAD_S:.0f} s: from its return to wrenches", again, "<= 1 s", max(back_s) <= 1.0),
    ]


def _ask(device: subprocess.Popen[str], word: str) -> int:
    assert device.stdin is not None
    assert device.stdout is not None
    device.stdin.write(word + "\n")
    device.stdin.flush()
    return int(device.stdout.readline())


@contextmanager
def _cable(near: str, far: str) -> Iterator[None]:
    def ip(*words: str) -> None:
        subprocess.run(["ip", "link", *words], check=True, timeout=20.0)

    ip("add", near, "type", "veth", "peer", "name", far)
    try:
        ip("set", near, "up")
        ip("set", far, "up")
        yield
    finally:
        ip("del", near)


def _far(interface: str) -> None:
    """The device; on `off` it is without power and answers no frame, on `on` it starts anew."""
    from drivers.emulators.ethercat_segment import Segment, Wire
    from drivers.emulators.ethercat_slave import Slave
    from drivers.ethercat.description import find

    slave = Slave(find("ati_axia80"), lambda _: (1.0, 2.0, 3.0, 0.1, 0.2, 0.3))
    segment, wire = Segment([slave]), Wire(interface)

    def obey() -> None:
        for line in sys.stdin:
            if line.strip() == "off":
                segment.connect(0)
            else:
                slave.power_up()
                segment.connect(1)
            print(time.time_ns(), flush=True)

    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_DEVICE_PRIORITY))
    threading.Thread(target=obey, daemon=True).start()
    print("there", flush=True)
    wire.serve(segment.process, lambda: True)


def _hebi(frequency_hz: float, seconds: float) -> Row:
    from drivers.hebi.node import HebiNode

    own = ["source:=imitation", "robot:=salp", f"feedback_frequency_hz:={frequency_hz}"]
    words = ["--params-file", str(resource("config/salp_hebi.yaml")), *(word for one in own for word in ("-p", one))]
    imu = {"kind": "sensor_msgs/msg/Imu", "depth": 5000, "reliable": True}
    listeners = [role("listen", topic=f"/imu/link_{number + 1}/data_raw", **imu) for number in range(_MODULES)]
    with _spinning(HebiNode, words) as (made, spin):
        while not all(made.outputs[one.sensor].get_subscription_count() for one in made.measured):
            time.sleep(0.1)
        used = spin(seconds)
        made.feed.close()
        spin(0.3)
        came, overflow = made.feed.counts["feedbacks"], made.feed.counts["overflow"]
    lost = [came - result(one, 60.0)["received"] for one in listeners]
    figure = f"{came / seconds:.0f} Hz came, overflow {overflow}; lost of "
    figure += f"each module {lost} of {came:,}; {100.0 * used:.1f} % of a core"
    return row(f"imitation, {frequency_hz:g} Hz asked for {seconds:.0f} s", figure)


if __name__ == "__main__":
    _far(sys.argv[1])
