"""An hour of the live graph: IMU messages at 1 kHz, and LandSalp's estimator with three gyros at 50 Hz beside them.

Reliable sensors, with a queue of 2000 messages on both sides, and another program that is busy on one of the cores all
the time. Memory must stay flat and nothing may be lost. Takes more than an hour, in which the machine may have other
work: the latencies say so.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.live_processes import estimator, result, role, row
from onboard_estimation.live.machine_facts import resident_mb

HOUR_S = 3600.0
_FLAT_MB = 2.0
"""What allocators may still shift after the first tenth of the time."""


def run(quick: bool) -> list[dict[str, Any]]:
    """The whole hour; a minute with `--quick`."""
    seconds = 60.0 if quick else HOUR_S
    reliable = ["--reliable", "--depth", "2000"]
    with _busy(), estimator("events", "salp", "reliable_sensors:=true") as node:
        watcher, listener = role(["watch"]), role(["subscribe", *reliable])
        driver = role(["drive", "--rate", "50", "--seconds", str(seconds)])
        sender = role(["publish", "--rate", "1000", "--seconds", str(seconds), *reliable])
        memory_mb = []
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            time.sleep(min(60.0, seconds / 10.0))
            memory_mb.append(resident_mb(node.pid))
        sent, driven = result(sender, 120.0), result(driver, 120.0)
        got, estimated = result(listener, 120.0), result(watcher, 120.0)
    minutes = f"{seconds / 60.0:.0f} min"
    lost = sent["sent"] - got["received"]
    missing = driven["sent"] - sum(count for name, count in estimated["taken"].items() if name.startswith("imu/"))
    return [
        row(f"IMU at 1 kHz, {minutes}: lost", f"{lost} of {sent['sent']:,}", "0", lost == 0),
        row(
            f"IMU at 1 kHz, {minutes}: one way",
            f"median {got['latency_median_us']:.0f} us, 99 % {got['latency_p99_us']:.0f} us, "
            f"worst {got['latency_worst_us'] / 1e3:.1f} ms",
        ),
        _memory(f"receiver's memory over {minutes}", got["memory_mb_by_minute"]),
        row(
            f"salp estimator, {minutes}: gyro messages that it did not get",
            f"{missing} of {driven['sent']:,}",
            "0",
            missing == 0,
        ),
        row(
            f"salp estimator, {minutes}: IMU in to estimate out",
            f"median {estimated['latency_median_us'] / 1e3:.2f} ms, 99 % {estimated['latency_p99_us'] / 1e3:.2f} ms",
        ),
        _memory(f"estimator's memory over {minutes}", memory_mb),
    ]


@contextmanager
def _busy() -> Iterator[None]:
    """Another program that takes all of a core."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def _memory(name: str, by_time_mb: list[float]) -> dict[str, Any]:
    settled = by_time_mb[len(by_time_mb) // 10 :]
    grown = settled[-1] - settled[0]
    return row(
        name,
        f"{settled[0]:.1f} MB after a tenth, {settled[-1]:.1f} MB at the end",
        f"<= {_FLAT_MB:g} MB more",
        grown <= _FLAT_MB,
        memory_mb=by_time_mb,
    )
