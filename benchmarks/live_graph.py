"""The live graph between processes of one machine: IMU messages at 1 kHz and flat out, the estimator, its start."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.live_processes import EXECUTORS, await_rest, estimator, result, role, row, settle, warm_up
from onboard_estimation.live.machine_facts import cpu_s, resident_mb

_SHARE = 0.14
"""Of a core that the estimator may take."""


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows; the estimator's with each executor."""
    seconds = 5.0 if quick else 60.0
    rows = [*_at_1_khz(seconds), *_flat_out(quick)]
    warm_up("salp")
    for executor in EXECUTORS:
        rows += [*_estimator(executor, seconds), *_start(executor, 2 if quick else 7)]
    return rows


def _at_1_khz(seconds: float) -> list[dict[str, Any]]:
    listener = role(["subscribe"])
    sender = role(["publish", "--rate", "1000", "--seconds", str(seconds)])
    sent, got = result(sender, seconds + 90.0), result(listener, 90.0)
    settle()
    lost = sent["sent"] - got["received"]
    name = f"IMU at 1 kHz for {seconds:.0f} s, sensor-data QoS"
    median_us, p99_us = got["latency_median_us"], got["latency_p99_us"]
    late = f"{p99_us:.0f} us, worst {got['latency_worst_us'] / 1e3:.1f} ms"
    used = f"{100.0 * sent['cpu']:.1f} % and {100.0 * got['cpu']:.1f} %"
    return [
        row(f"{name}: lost", f"{lost} of {sent['sent']}", "0", lost == 0),
        row(f"{name}: one way, median", f"{median_us:.0f} us", "<= 300 us", median_us <= 300.0),
        row(f"{name}: one way, 99 %", late, "<= 1.5 ms", p99_us <= 1500.0),
        row(f"{name}: core used, sending and receiving", used),
    ]


def _flat_out(quick: bool) -> list[dict[str, Any]]:
    count = 40_000 if quick else 300_000
    listener = role(["subscribe", "--rate", "0"])
    sender = role(["publish", "--rate", "0", "--messages", str(count)])
    sent, got = result(sender, 180.0), result(listener, 90.0)
    settle()
    lost = sent["sent"] - got["received"]
    figure = f"{got['per_second']:,.0f} messages/s, {lost} of {sent['sent']} lost"
    return [row("IMU flat out, reliable", figure, "none lost", lost == 0)]


def _estimator(executor: str, seconds: float) -> list[dict[str, Any]]:
    with estimator(executor) as node:
        listener = role(["watch"])
        await_rest(node)
        before_s = cpu_s(node.pid)
        sender = role(["drive", "--rate", "200", "--seconds", str(seconds)])
        sent = result(sender, seconds + 120.0)
        used = (cpu_s(node.pid) - before_s) / sent["seconds"]
        got, memory_mb = result(listener, 90.0), resident_mb(node.pid)
    settle()
    name = f"{executor} executor: salp, three gyros at 200 Hz"
    median_us, p99_us = got["latency_median_us"], got["latency_p99_us"]
    late = (
        f"{p99_us / 1e3:.2f} ms; {_taken(got)} of {sent['sent']} gyro messages taken, {got['received']} estimates out"
    )
    share = f"{100.0 * used:.0f} %; sending takes {100.0 * sent['cpu']:.0f} %, receiving {100.0 * got['cpu']:.0f} %"
    return [
        row(f"{name}, IMU in to estimate out, median", f"{median_us / 1e3:.2f} ms", "<= 2 ms", median_us <= 2000.0),
        row(f"{name}, IMU in to estimate out, 99 %", late, "<= 5 ms", p99_us <= 5000.0),
        row(f"{name}, core used by the estimator", share, f"<= {100.0 * _SHARE:.0f} %", used <= _SHARE),
        row(f"{name}, resident memory of the estimator", f"{memory_mb:.0f} MB", "<= 120 MB", memory_mb <= 120.0),
    ]


def _taken(got: dict[str, Any]) -> int:
    return sum(count for sensor, count in got["taken"].items() if sensor.startswith("imu/"))


def _start(executor: str, repetitions: int) -> list[dict[str, Any]]:
    """From exec to the first estimate, while sensors send."""
    taken_s = []
    sender = role(["drive", "--rate", "200", "--seconds", str(12.0 * repetitions)])
    for _ in range(repetitions):
        listener = role(["watch"])
        time.sleep(3.0)  # it is there before the estimator is
        started_ns = time.time_ns()
        with estimator(executor):
            time.sleep(6.0)
        got = result(listener, 90.0)
        if not got["received"]:
            raise RuntimeError("no estimate came within the time")
        taken_s.append(1e-9 * (got["first_received_ns"] - started_ns))
    sender.kill()
    sender.wait()
    settle()
    middle, worst = float(np.median(taken_s)), max(taken_s)
    name = f"{executor} executor: start of the estimator to its first estimate, kernels compiled before"
    return [row(name, f"median {middle:.2f} s, worst of {repetitions} {worst:.2f} s", "<= 2 s", middle <= 2.0)]
