"""The live graph between processes of one machine: IMU messages at 1 kHz and flat out, the estimator, its start.

Beside ours, real rclpy where `ONBOARD_ESTIMATION_ROS2_SETUP` names its `setup.bash`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.live_processes import await_rest, estimator, result, role, row, runtimes, settle, warm_up
from onboard_estimation.live.process_use import cpu_s, resident_mb

_SHARE = {True: 0.12, False: 0.25}
"""Of a core that the estimator may take: ours, and under ROS 2."""


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows for each runtime; targets are of the embedded one."""
    seconds = 5.0 if quick else 60.0
    rows = []
    for runtime in runtimes():
        rows += [*_at_1_khz(runtime, seconds), *_flat_out(runtime, quick), *_estimator(runtime, seconds)]
        rows += _start(runtime, 2 if quick else 7)
    return rows


def _at_1_khz(runtime: str, seconds: float) -> list[dict[str, Any]]:
    listener = role(["subscribe"], runtime)
    sender = role(["publish", "--rate", "1000", "--seconds", str(seconds)], runtime)
    sent, got = result(sender, seconds + 90.0), result(listener, 90.0)
    settle()
    lost = sent["sent"] - got["received"]
    ours = runtime == "embedded"
    name = f"{runtime}: IMU at 1 kHz for {seconds:.0f} s, sensor-data QoS"
    median_us, p99_us = got["latency_median_us"], got["latency_p99_us"]
    return [
        row(f"{name}: lost", f"{lost} of {sent['sent']}", "0" if ours else "", lost == 0 if ours else None),
        row(
            f"{name}: one way, median",
            f"{median_us:.0f} us",
            "<= 150 us" if ours else "",
            median_us <= 150.0 if ours else None,
        ),
        row(
            f"{name}: one way, 99 %",
            f"{p99_us:.0f} us, worst {got['latency_worst_us'] / 1e3:.1f} ms",
            "<= 1.5 ms" if ours else "",
            p99_us <= 1500.0 if ours else None,
        ),
        row(
            f"{name}: core used, sending and receiving",
            f"{100.0 * sent['cpu']:.1f} % and {100.0 * got['cpu']:.1f} %",
            "<= 8 % each" if ours else "",
            max(sent["cpu"], got["cpu"]) <= 0.08 if ours else None,
        ),
    ]


def _flat_out(runtime: str, quick: bool) -> list[dict[str, Any]]:
    count = 40_000 if quick else 300_000
    listener = role(["subscribe", "--rate", "0"], runtime)
    sender = role(["publish", "--rate", "0", "--messages", str(count)], runtime)
    sent, got = result(sender, 180.0), result(listener, 90.0)
    settle()
    ours = runtime == "embedded"
    lost = sent["sent"] - got["received"]
    return [
        row(
            f"{runtime}: IMU flat out, reliable",
            f"{got['per_second']:,.0f} messages/s, {lost} of {sent['sent']} lost",
            ">= 30,000" if ours else "",
            got["per_second"] >= 30_000.0 and lost == 0 if ours else None,
        )
    ]


def _estimator(runtime: str, seconds: float) -> list[dict[str, Any]]:
    warm_up(runtime, "salp")
    with estimator(runtime) as node:
        listener = role(["watch"], runtime)
        await_rest(node)
        before_s = cpu_s(node.pid)
        sender = role(["drive", "--rate", "200", "--seconds", str(seconds)], runtime)
        sent = result(sender, seconds + 120.0)
        used = (cpu_s(node.pid) - before_s) / sent["seconds"]
        got, memory_mb = result(listener, 90.0), resident_mb(node.pid)
    settle()
    ours = runtime == "embedded"
    name = f"{runtime}: salp, three gyros at 200 Hz, IMU in to estimate out"
    median_us, p99_us = got["latency_median_us"], got["latency_p99_us"]
    return [
        row(
            f"{name}, median",
            f"{median_us / 1e3:.2f} ms",
            "<= 2 ms" if ours else "",
            median_us <= 2000.0 if ours else None,
        ),
        row(
            f"{name}, 99 %",
            f"{p99_us / 1e3:.2f} ms; {_taken(got)} of {sent['sent']} gyro messages taken, "
            f"{got['received']} estimates out",
            "<= 5 ms" if ours else "",
            p99_us <= 5000.0 if ours else None,
        ),
        row(
            f"{name}, core used by the estimator",
            f"{100.0 * used:.0f} %; sending takes {100.0 * sent['cpu']:.0f} %, receiving {100.0 * got['cpu']:.0f} %",
            f"<= {100.0 * _SHARE[ours]:.0f} %",
            used <= _SHARE[ours],
        ),
        row(f"{name}, resident memory of the estimator", f"{memory_mb:.0f} MB", "<= 120 MB", memory_mb <= 120.0),
    ]


def _taken(got: dict[str, Any]) -> int:
    return sum(count for sensor, count in got["taken"].items() if sensor.startswith("imu/"))


def _start(runtime: str, repetitions: int) -> list[dict[str, Any]]:
    """From exec to the first estimate, while sensors send."""
    taken_s = []
    sender = role(["drive", "--rate", "200", "--seconds", str(12.0 * repetitions)], runtime)
    for _ in range(repetitions):
        listener = role(["watch"], runtime)
        time.sleep(3.0)  # it is there before the estimator is
        started_ns = time.time_ns()
        with estimator(runtime):
            time.sleep(6.0)
        got = result(listener, 90.0)
        if not got["received"]:
            raise RuntimeError("no estimate came within the time")
        taken_s.append(1e-9 * (got["first_received_ns"] - started_ns))
    sender.kill()
    sender.wait()
    settle()
    middle, worst = float(np.median(taken_s)), max(taken_s)
    ours = runtime == "embedded"
    return [
        row(
            f"{runtime}: start of the estimator to its first estimate, kernels compiled before",
            f"median {middle:.2f} s, worst of {repetitions} {worst:.2f} s",
            "<= 2 s" if ours else "",
            middle <= 2.0 if ours else None,
        )
    ]
