"""The serial driver on a pseudo-terminal: losses, latency and share of a core, alone and with the hopper's estimator.

Ten minutes at 1 kHz: a process sends a numbered sample when it is due and keeps when; another counts the messages
and keeps when each came. Then driver and estimator in one process, the simulated hopper at 840 Hz on the wire.
A peer that only reads the line and publishes a ready-made message at each waking says how much of that is what any
such program costs here. `python -m benchmarks.serial_imu send|listen|bare` are the processes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live_processes import await_rest, result, role, row, settle, start
from drivers.serial_frames import FrameReader, Sample, encode_sample
from onboard_estimation.live.machine_facts import cpu_s

RATE_HZ = 1000
SECONDS, QUICK_S, COMPOSED_S = 600.0, 20.0, 30.0
ERROR_RATES = {1e-4: 0.996, 1e-3: 0.96, 5e-3: 0.83}
"""Share of damaged bytes, and of the frames that have to be read all the same."""
_BATCH = 20_000
_STARTS_S = 10.0
_NUMBERS = 30_000
"""Samples are numbered by the counts of the low-g sensor's x axis, which this many fit into."""


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows."""
    seconds = QUICK_S if quick else SECONDS
    rows = [_damaged(rate, least, 200_000 if quick else 10_000_000 // 3) for rate, least in ERROR_RATES.items()]
    return [*rows, *_alone(seconds), _composed(min(seconds, COMPOSED_S))]


def _damaged(rate: float, least: float, count: int) -> dict[str, Any]:
    """Random frames with random bytes in the place of some of theirs."""
    rng, read, wrong = np.random.default_rng(round(1e4 * rate)), 0, 0
    batches = -(-count // _BATCH)
    for _ in range(batches):
        counts = rng.integers(-32768, 32768, (_BATCH, 10)).tolist()
        sent = {
            Sample(k % 256, 1000 * k, tuple(row[:3]), tuple(row[3:6]), row[6], tuple(row[7:]), 0)
            for k, row in enumerate(counts)
        }
        data = np.frombuffer(b"".join(encode_sample(one) for one in sent), dtype=np.uint8).copy()
        hit = rng.random(len(data)) < rate
        data[hit] ^= rng.integers(1, 256, np.count_nonzero(hit)).astype(np.uint8)
        found = FrameReader().feed(data.tobytes())
        read += len(found)
        wrong += len(set(found) - sent)
    total = batches * _BATCH
    share = read / total
    name = f"bytes damaged at {rate:g}, {total:,} frames"
    figure = f"{100.0 * share:.2f} % read; {wrong} accepted that were not sent"
    return row(name, figure, f">= {100.0 * least:g} %, 0", share >= least and not wrong)


def _bare(seconds: float) -> float:
    """Share of a core of the peer."""
    with tempfile.TemporaryDirectory() as folder:
        port, sent, came = (str(Path(folder) / name) for name in ("port", "sent.npy", "came.npy"))
        listener = start(["benchmarks.serial_imu", "listen", came])
        sender = start(["benchmarks.serial_imu", "send", port, sent, str(seconds)])
        peer = start(["benchmarks.serial_imu", "bare", port])
        used = _share(peer, seconds)
        result(sender, seconds + 60.0)
        peer.terminate()
        peer.wait(20.0)
        listener.kill()
        listener.wait(20.0)
    settle()
    return used


def _share(process: Any, seconds: float) -> float:
    """Of a core, once it has started."""
    time.sleep(_STARTS_S)
    before_s, begin_s = cpu_s(process.pid), time.monotonic()
    time.sleep(0.8 * seconds - _STARTS_S)
    return (cpu_s(process.pid) - before_s) / (time.monotonic() - begin_s)


def _alone(seconds: float) -> list[dict[str, Any]]:
    bare = _bare(min(seconds, 60.0))
    with tempfile.TemporaryDirectory() as folder:
        port, sent, came = (Path(folder) / name for name in ("port", "sent.npy", "came.npy"))
        listener = start(["benchmarks.serial_imu", "listen", str(came)])
        arguments = ["--ros-args", "-r", "__ns:=/hopper", "--log-level", "warn", "-p", f"port:={port}"]
        node = start(["benchmarks.serial_imu", "drive", *arguments])
        await_rest(node)
        sender = start(["benchmarks.serial_imu", "send", str(port), str(sent), str(seconds)])
        used = _share(node, seconds)
        result(sender, seconds + 60.0)
        result(listener, 60.0)
        node.terminate()
        node.wait(20.0)
        sent_ns, (number, came_ns) = np.load(sent), np.load(came)
    settle()
    # Numbers start again; messages come in order, and one is never as late as a whole round.
    whole = np.unwrap(number.astype(np.float64), period=_NUMBERS).astype(np.int64)
    latency_ms = 1e-6 * (came_ns - sent_ns[whole])
    # The first second tells the ranges, and who listens is not known before.
    expected = len(sent_ns) - int(whole[0])
    lost = expected - len(np.unique(whole))
    name = f"serial IMU at {RATE_HZ} Hz for {seconds:.0f} s"
    median_ms, p99_ms = np.percentile(latency_ms, [50.0, 99.0])
    return [
        row(f"{name}: samples that did not become messages", f"{lost} of {expected:,}", "0", lost == 0),
        row(
            f"{name}: sent to message received",
            f"median {median_ms:.2f} ms, 99 % {p99_ms:.2f} ms, worst {latency_ms.max():.1f} ms",
            "median <= 0.5 ms",
            bool(median_ms <= 0.5),
        ),
        row(f"{name}: core used by the node", f"{100.0 * used:.1f} %", "<= 6 %", used <= 0.06),
        row("core used by the bare peer", f"{100.0 * bare:.1f} %; the node takes {used / bare:.2f} times it"),
    ]


def _composed(seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        port, parameters = Path(folder) / "port", Path(folder) / "parameters.yaml"
        parameters.write_text(
            f"/**/serial_imu:\n  ros__parameters:\n    port: {port}\n"
            f"/**/serial_imu_emulator:\n  ros__parameters:\n    link: {port}\n"
        )
        arguments = ["--ros-args", "-r", "__ns:=/hopper", "--log-level", "warn", "--params-file", str(parameters)]
        listener = role(["watch", "--robot", "hopper"])
        device = start(["benchmarks.serial_imu", "emulate", *arguments])
        node = start(["benchmarks.serial_imu", "composed", *arguments])
        used = _share(node, (seconds + _STARTS_S) / 0.8)
        for one in (node, device):
            one.terminate()
            one.wait(20.0)
        got = result(listener, 90.0)
    settle()
    name = "serial driver and hopper's estimator in one process, 840 Hz: core used"
    figure = f"{100.0 * used:.1f} %; odometry at {got['per_second']:.0f} Hz, {len(got['events'])} phase events"
    return row(name, figure, "<= 10 %", used <= 0.10)


def _send(port: str, kept: str, seconds: str) -> None:
    from drivers.emulators.serial_imu import Reading, SerialDevice, SerialFaults
    from drivers.serial_frames import Settings
    from onboard_estimation.live.budget import sleep_until
    from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

    count = round(float(seconds) * RATE_HZ)
    told = Settings(0, 0, low_g_range=3, gyro_range=3, high_g_range=1, low_pass=0, rate_hz=RATE_HZ)
    device = SerialDevice(Path(port), told, SerialFaults())
    time.sleep(3.0)  # the driver finds it
    sent_ns = np.zeros(count, dtype=np.int64)
    value = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.8])
    start_ns, period_ns = time.monotonic_ns(), 1_000_000_000 // RATE_HZ
    for number in range(count):
        sleep_until(start_ns + number * period_ns)
        value[3] = number % _NUMBERS / 2048.0 * STANDARD_GRAVITY_M_S2
        sent_ns[number] = time.time_ns()
        device.send([Reading(number * period_ns, value, value)])
    time.sleep(1.0)
    np.save(kept, sent_ns)
    device.close()
    print(f'{{"sent": {count}, "unsent": {device.unsent}}}')


def _listen(kept: str) -> None:
    from onboard_estimation import ros2

    ros2.require()
    import rclpy
    from rclpy.qos import QoSProfile
    from sensor_msgs.msg import Imu

    from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

    rclpy.init(args=[])
    node = rclpy.create_node("benchmark_listen", namespace="/hopper")
    came: list[tuple[float, int]] = []
    last_s = [time.monotonic() + 60.0]

    def take(message: Any) -> None:
        came.append((message.linear_acceleration.x, time.time_ns()))
        last_s[0] = time.monotonic()

    node.create_subscription(Imu, "imu/low_g/data_raw", take, QoSProfile(depth=2000))
    while time.monotonic() - last_s[0] < 5.0:
        rclpy.spin_once(node, timeout_sec=0.5)
    x, came_ns = zip(*came, strict=True)
    numbers = np.round(np.array(x) / STANDARD_GRAVITY_M_S2 * 2048.0).astype(np.int64)
    np.save(kept, np.array([numbers, came_ns]))
    node.destroy_node()
    rclpy.shutdown()
    print(f'{{"received": {len(came)}}}')


def _publish_ready_made(port: str) -> None:
    """No frames, no clock, no numbers: what is left of a driver then."""
    import os
    import select

    from onboard_estimation import ros2

    ros2.require()
    import rclpy
    from rclpy.qos import QoSProfile
    from rclpy.serialization import serialize_message
    from sensor_msgs.msg import Imu

    rclpy.init(args=[])
    node = rclpy.create_node("benchmark_bare", namespace="/hopper")
    publisher, message = (
        node.create_publisher(Imu, "imu/low_g/data_raw", QoSProfile(depth=500)),
        serialize_message(Imu()),
    )
    while not Path(port).exists():
        time.sleep(0.1)
    line, poll = os.open(port, os.O_RDONLY | os.O_NOCTTY), select.poll()
    poll.register(line, select.POLLIN)
    while rclpy.ok():
        if poll.poll(10.0):
            os.read(line, 4096)
            publisher.publish(message)


def _main() -> None:
    what, *words = sys.argv[1:]
    processes: dict[str, Callable[..., None]] = {"send": _send, "listen": _listen, "bare": _publish_ready_made}
    if what in processes:
        processes[what](*words)
        return
    from drivers.main import serial_imu
    from hopper_estimation.nodes.main import estimator, serial_emulator
    from onboard_estimation.nodes.run import run as run_nodes

    nodes = {"drive": [serial_imu], "emulate": [serial_emulator], "composed": [serial_imu, estimator]}[what]
    run_nodes(lambda: [one.target for one in nodes], words)


if __name__ == "__main__":
    _main()
