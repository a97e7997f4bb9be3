"""Estimators and messages live, on ROS 2: latency, losses, share of a core and memory, as `budget` measures them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live import end, memory_of, node, result, role, shares_of, start
from benchmarks.measuring import Row, row
from hopper_estimation.model.configuration import LOW_G, HopperConfiguration
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.campaigns.training import read_training_bag
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.replay import replay
from onboard_estimation.nodes.run import EXECUTOR_VARIABLE
from onboard_estimation.realtime.budget import Job, measure
from onboard_estimation.realtime.verdict import Figures

RUNS_UNASKED = ("live_graph",)
EXECUTORS = ("events", "ordinary")
"""What an estimator is spun with."""
HOUR_S = 3600.0
_SETTLES_S = 8.0
_FLAT_MB = 2.0
"""What allocators may still shift."""


def live_graph(quick: bool) -> list[Row]:
    """The live graph between processes of one machine: IMU messages at 1 kHz and flat out, the estimator, its start."""
    seconds = 5.0 if quick else 60.0
    rows = [*_at_1_khz(seconds), _flat_out(40_000 if quick else 300_000)]
    for executor in EXECUTORS[: 1 if quick else None]:
        name = f"{executor} executor: salp, three gyros at 200 Hz"
        rows += _rows(name, _measured("salp", executor, seconds, rate=10.0), share=0.14, memory_mb=120.0)
        rows.append(_start(executor, 1 if quick else 7))
    return rows


def live_hour(quick: bool) -> list[Row]:
    """An hour of the live graph: IMU messages at 1 kHz, and LandSalp's estimator, gyros at 50 Hz, beside them.

    Reliable sensors, with a queue of 2000 messages on both sides, and another program that is busy on one of the cores.
    """
    seconds, reliable = (60.0 if quick else HOUR_S), {"depth": 2000, "reliable": True}
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    listener = role("listen", topic="imu", kind="sensor_msgs/msg/Imu", **reliable)
    sender = role("publish", rate_hz=1000.0, seconds=seconds, **reliable)
    with memory_of("salp_estimator", seconds / 60.0) as memory_mb:
        figures = _measured("salp", "events", seconds, rate=2.5, reliable_sensors=True)
    sent, got = result(sender, 300.0), result(listener, 300.0)
    busy.kill()
    busy.wait()
    name = f"{seconds / 60.0:.0f} min"
    return [
        *_heard_rows(f"IMU at 1 kHz, {name}", sent, got),
        _flat(f"receiver's memory over {name}", got["memory_mb_by_minute"] or [0.0]),
        *_rows(f"salp estimator, {name}", figures),
        _flat(f"estimator's memory over {name}", memory_mb),
    ]


def hopper_live(quick: bool) -> list[Row]:
    """The hopper's live estimator with both accelerometers at 840 Hz: latency, losses, phases against those offline.

    Then with the simulator in the same process, and a recorder of all topics or none.
    """
    rows = []
    for executor in EXECUTORS[: 1 if quick else None]:
        name = f"{executor} executor: hopper, two accelerometers at 840 Hz"
        rows += _rows(name, _measured("hopper", executor, 10.0 if quick else 60.0), share=0.20, memory_mb=120.0)
        for recorded in (False, True):
            rows += _composed(executor, 8.0 if quick else 30.0, recorded)
    return rows


def softrobot_live(quick: bool) -> list[Row]:
    """Ten minutes of the soft robot's particle filter, live: pressures and wrench at 125 Hz, 500 particles that learn.

    A deadline is the next wrench: estimates may be late by one period at most. Memory must stay flat.
    """
    rows = []
    for name in ("marginalized_pf", "ukf"):
        seconds = 20.0 if quick else 600.0 if name == "marginalized_pf" else 60.0
        with memory_of("softrobot_estimator", seconds / 60.0) as memory_mb:
            figures = _measured("softrobot", "events", seconds, name, output_rate_hz=0.0)
        period_ms = 1e3 / find_robot("softrobot").configuration_type().wrench.rate_hz
        asked = {"worst_ms": 2.0 * period_ms} if name == "marginalized_pf" else {}
        rows += _rows(f"{name}, {seconds / 60.0:.0f} min at {1e3 / period_ms:.0f} Hz", figures, **asked)
        rows.append(_flat(f"{name}: estimator's memory", memory_mb))
    return rows


def _measured(
    robot: str, executor: str, seconds: float, estimator: str = "", rate: float = 1.0, **host: Any
) -> Figures:
    """As `budget` measures it, sensors so many times faster than the scenario's."""
    found = find_robot(robot)
    os.environ[EXECUTOR_VARIABLE] = executor
    job = Job(found, estimator or found.estimators[0], found.configuration_type(), host, seconds, rate)
    return measure(job, lambda said: print(f"{robot}: {said}", flush=True))


def _rows(name: str, figures: Figures, share: float = 0.0, memory_mb: float = 0.0, worst_ms: float = 0.0) -> list[Row]:
    """Of an estimator; targets where they are given, those of latency for all."""
    assert figures.latency_ms is not None
    median_ms, late_ms, worst = figures.latency_ms
    late = f"median {median_ms:.2f} ms, 99 % {late_ms:.2f} ms, worst {worst:.1f} ms"
    limit: tuple[str, bool] = "<= 2, 5 ms", median_ms <= 2 and late_ms <= 5
    if worst_ms:
        limit = f"worst <= {worst_ms:.0f} ms", worst <= worst_ms
    used = f"{100.0 * figures.share:.0f} %; sending takes {100.0 * figures.sender_share:.0f} %, "
    used += f"receiving {100.0 * figures.listener_share:.0f} %; {figures.outputs_per_s:.0f} estimates/s out"
    taken = (f"<= {100.0 * share:.0f} %", figures.share <= share) if share else ()
    kept = (f"<= {memory_mb:.0f} MB", figures.memory_mb <= memory_mb) if memory_mb else ()
    return [
        row(f"{name}: reading in to estimate out", late, *limit),
        row(f"{name}: readings that it did not get", f"{figures.lost} of {figures.sent:,}", "0", figures.lost == 0),
        row(f"{name}: core used by the estimator", used, *taken),
        row(f"{name}: resident memory of the estimator", f"{figures.memory_mb:.0f} MB", *kept),
    ]


def _flat(name: str, by_time_mb: list[float]) -> Row:
    """What comes and goes is left out: a quarter of the run against the last one."""
    quarter = max(1, len(by_time_mb) // 4)
    early, late = (float(np.median(part)) for part in (by_time_mb[quarter : 2 * quarter], by_time_mb[-quarter:]))
    figure = f"{late:.0f} MB in the last quarter ({late - early:+.1f} since the second), at most {max(by_time_mb):.0f}"
    return row(name, figure, f"flat to {_FLAT_MB:g} MB", late - early <= _FLAT_MB, memory_mb=by_time_mb)


def _at_1_khz(seconds: float) -> list[Row]:
    listener = role("listen", topic="imu", kind="sensor_msgs/msg/Imu", depth=5)
    sent = result(role("publish", rate_hz=1000.0, seconds=seconds), seconds + 90.0)
    return _heard_rows(f"IMU at 1 kHz for {seconds:.0f} s, sensor-data QoS", sent, result(listener, 90.0))


def _heard_rows(name: str, sent: dict[str, Any], got: dict[str, Any]) -> list[Row]:
    lost, (median_us, p99_us, _, worst_us) = sent["sent"] - got["received"], got["latency_us"]
    late = f"{p99_us:.0f} us, worst {1e-3 * worst_us:.1f} ms"
    return [
        row(f"{name}: lost", f"{lost} of {sent['sent']:,}", "0", lost == 0),
        row(f"{name}: one way, median", f"{median_us:.0f} us", "<= 300 us", median_us <= 300.0),
        row(f"{name}: one way, 99 %", late, "<= 1.5 ms", p99_us <= 1500.0),
        row(f"{name}: core used, sending and receiving", f"{100.0 * sent['cpu']:.1f} % and {100.0 * got['cpu']:.1f} %"),
    ]


def _flat_out(count: int) -> Row:
    listener = role("listen", topic="imu", kind="sensor_msgs/msg/Imu", depth=1000, reliable=True, keep_all=True)
    sent = result(role("publish", rate_hz=0.0, seconds=0.0, messages=count), 180.0)
    got = result(listener, 90.0)
    lost = sent["sent"] - got["received"]
    figure = f"{got['per_second']:,.0f} messages/s, {lost} of {sent['sent']} lost"
    return row("IMU flat out, reliable", figure, "none lost", lost == 0)


def _start(executor: str, repetitions: int) -> Row:
    """From exec to the first estimate, while sensors send."""
    os.environ[EXECUTOR_VARIABLE] = executor
    source, taken_s = node(["salp_simulator"], namespace="/salp"), []
    time.sleep(_SETTLES_S)
    for _ in range(repetitions):
        listener = role("listen", topic="odometry", kind="nav_msgs/msg/Odometry", namespace="/salp", reliable=True)
        time.sleep(3.0)  # it is there before the estimator is
        started_ns = time.time_ns()
        estimator = node(["salp_estimator"], namespace="/salp")
        time.sleep(12.0)
        end(estimator)
        taken_s.append(1e-9 * (result(listener, 90.0)["first_ns"] - started_ns))
    end(source)
    middle, worst = float(np.median(taken_s)), max(taken_s)
    name = f"{executor} executor: start of the estimator to its first estimate, kernels compiled before"
    return row(name, f"median {middle:.2f} s, worst of {repetitions} {worst:.2f} s", "<= 2 s", middle <= 2.0)


def _composed(executor: str, seconds: float, recorded: bool) -> list[Row]:
    """Simulator and estimator in one process; what was recorded of it is filtered again."""
    os.environ[EXECUTOR_VARIABLE] = executor
    name = f"{executor} executor: hopper, simulator and estimator in one process"
    allowed, what = (0.25, "and a recorder of all topics beside it") if recorded else (0.08, "no recorder")
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        words = ["onboard_estimation", "record", "--all", "-o", str(bag), "--duration", str(seconds + _SETTLES_S)]
        recorder = start(words) if recorded else None
        listener = role("listen", topic="odometry", kind="nav_msgs/msg/Odometry", namespace="/hopper", reliable=True)
        process = node(["composed", "hopper_simulator", "hopper_estimator"], namespace="/hopper")
        time.sleep(_SETTLES_S)
        shares = shares_of([process] if recorder is None else [process, recorder], seconds)
        used = sum(shares)
        if recorder is not None:
            recorder.communicate(timeout=60.0)
        end(process)
        got = result(listener, 90.0)
        figure = f"{' + '.join(f'{100.0 * one:.1f} %' for one in shares)}; odometry at {got['per_second']:.0f} Hz"
        rows = []
        if recorded:
            with open_bag(bag) as opened:
                raws = [raw for raw in opened.messages() if raw.topic.startswith("/hopper/")]
                low_ns = [raw.log_time_ns for raw in raws if raw.topic == f"/hopper/{LOW_G.topic}"]
                told = [opened.deserialize(raw) for raw in raws if raw.topic == "/hopper/phase_events"]
            rate_hz = (len(low_ns) - 1) / (1e-9 * (low_ns[-1] - low_ns[0]))
            figure += f"; {len(low_ns):,} low-g readings in the bag, {rate_hz:.0f} a second"
            rows = [_phases(name, bag, {(one.source, _ns(one.header.stamp), _ns(one.time_ref)) for one in told})]
    return [row(f"{name}, {what}: core used", figure, f"<= {100.0 * allowed:.0f} %", used <= allowed), *rows]


def _phases(name: str, bag: Path, live: set[tuple[str, int, int]]) -> Row:
    """Events that were told, against those of the offline filter on the same readings; the first are left out."""
    robot, configuration = find_robot("hopper"), HopperConfiguration()
    recording = read_training_bag(robot, configuration, bag, EvaluateOptions())
    found = replay(robot, configuration, robot.estimators[0], recording, None, configuration.lag_s)
    offline = {(one.name, one.stamp_ns, one.seen_ns) for one in found.events}
    begin_ns = sorted(seen for _, _, seen in live)[len(live) // 4] if live else 0
    live, offline = ({one for one in some if one[2] >= begin_ns} for some in (live, offline))
    figure = f"{len(live)} live, {len(offline)} offline, {len(live & offline)} the same to the nanosecond"
    return row(f"{name}: phase events live and offline", figure, "the same", bool(live) and live == offline)


def _ns(stamp: Any) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
