"""Ten minutes of the soft robot's particle filter, live: pressures and wrench at 125 Hz, 500 particles that learn.

A simulated run (scenario `laboratory`, by a chain that is no arc) is sent in real time, each reading with the stamp of
its sending. A deadline is the next wrench: estimates may be late by one period at most. Memory must stay flat.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.live_processes import await_rest, estimator, result, role, row, settle
from onboard_estimation.live.machine_facts import cpu_s, resident_mb
from softrobot_estimation.configuration import SoftRobotConfiguration

_LONG_S, _SHORT_S = 600.0, 20.0
_FLAT_MB = 2.0
"""What allocators may still shift."""
_OVERHEAD_S = 180.0
"""To simulate the run before it is sent, and to end."""


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows for each filter; the targets are the particle filter's."""
    seconds = _SHORT_S if quick else _LONG_S
    return [one for name in ("marginalized_pf", "ukf") for one in _live(name, seconds)]


def _live(filter_name: str, seconds: float) -> list[dict[str, Any]]:
    seconds = seconds if filter_name == "marginalized_pf" else min(seconds, 60.0)
    with estimator("events", "softrobot", f"estimator:={filter_name}", "output_rate_hz:=0.0") as node:
        await_rest(node)
        sender = role(["drive", "--robot", "softrobot", "--seconds", str(seconds)])
        listener = role(["watch", "--robot", "softrobot"])
        before_s, memory_mb = cpu_s(node.pid), []
        while sender.poll() is None:
            time.sleep(min(10.0, seconds / 20.0))
            memory_mb.append(resident_mb(node.pid))
        sent, got = result(sender, _OVERHEAD_S), result(listener, _OVERHEAD_S)
        used = (cpu_s(node.pid) - before_s) / sent["seconds"]
    settle()
    particles = SoftRobotConfiguration().learning.particles
    period_ms = 1e3 / SoftRobotConfiguration().wrench.rate_hz
    what = f"{filter_name}, {particles} particles" if filter_name == "marginalized_pf" else filter_name
    name = f"{what}, {seconds / 60.0:.0f} min at {1e3 / period_ms:.0f} Hz"
    lost, worst_ms = sent["sent"] - got["received"], got["latency_worst_us"] / 1e3
    asked = filter_name == "marginalized_pf"
    # What particles share comes and goes by some MB: a quarter of the run against another one.
    quarter = max(1, len(memory_mb) // 4)
    early_mb, late_mb = (float(np.median(part)) for part in (memory_mb[quarter : 2 * quarter], memory_mb[-quarter:]))
    grown_mb = late_mb - early_mb
    return [
        row(
            f"{name}: wrench in to odometry out",
            f"median {got['latency_median_us'] / 1e3:.2f} ms, 99 % {got['latency_p99_us'] / 1e3:.2f} ms, "
            f"99.9 % {got['latency_p999_us'] / 1e3:.2f} ms, worst {worst_ms:.1f} ms",
            f"worst <= {2.0 * period_ms:.0f} ms" if asked else "",
            worst_ms <= 2.0 * period_ms if asked else None,
        ),
        row(
            f"{name}: wrenches without an estimate",
            f"{lost} of {sent['sent']:,}",
            "0" if asked else "",
            lost == 0 if asked else None,
        ),
        row(
            f"{name}: estimator's memory",
            f"{late_mb:.0f} MB in the last quarter ({grown_mb:+.1f} since the second), at most {max(memory_mb):.0f}",
            f"flat to {_FLAT_MB:g} MB" if asked else "",
            grown_mb <= _FLAT_MB if asked else None,
        ),
        row(f"{name}: core used by the estimator", f"{100.0 * used:.0f} %"),
    ]
