"""Processes that live benchmarks start: `python -m benchmarks.live ROLE JSON`, a role with its arguments.

A role prints one line of JSON at its end. What is heard is kept as arrays: when a message came, its stamp, and the
number that it carries.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.realtime.machine_facts import cpu_s, resident_mb

REPOSITORY = Path(__file__).parents[1]
DOMAIN = str(60 + os.getpid() % 40)
"""Of its own for each run: two at once must not meet."""
GRAPH = {"ROS_DOMAIN_ID": DOMAIN, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
SILENCE_S, LONGEST_WAIT_S = 3.0, 180.0
_START_S = 60.0


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """`python -m ...` in a process of its own, in this run's domain."""
    command = [sys.executable, "-m", *words]
    return subprocess.Popen(
        command, cwd=REPOSITORY, env={**os.environ, **GRAPH}, stdout=subprocess.PIPE, text=True, **options
    )


def role(name: str, **arguments: Any) -> subprocess.Popen[str]:
    """One of this module's."""
    return start(["benchmarks.live", name, json.dumps(arguments)])


def node(words: Sequence[str], *parameters: str, namespace: str = "/lab", files: Sequence[Path] = ()) -> Any:
    """`onboard-estimation run`: executables of this package, with parameters as `name:=value`."""
    arguments = ["--ros-args", "-r", f"__ns:={namespace}", "--log-level", "warn"]
    arguments += [word for one in parameters for word in ("-p", one)]
    arguments += [word for one in files for word in ("--params-file", str(one))]
    return start(["onboard_estimation", "run", *words, *arguments])


def result(process: subprocess.Popen[str], timeout_s: float) -> dict[str, Any]:
    """What a role printed; RuntimeError where it failed."""
    try:
        text, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if process.returncode != 0 or not text.strip():
        raise RuntimeError(f"a role ended with exit code {process.returncode}: {text!r}")
    return dict(json.loads(text.strip().splitlines()[-1]))


def end(*processes: subprocess.Popen[str]) -> None:
    """Ask them to end, then make them, and let the graph of the run go."""
    for one in processes:
        one.terminate()
    for one in processes:
        try:
            one.wait(20.0)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
    time.sleep(1.0)


def await_rest(process: subprocess.Popen[str]) -> None:
    """Until a node has started: then it takes hardly any time on a core."""
    end_s, used_s = time.monotonic() + _START_S, cpu_s(process.pid)
    while time.monotonic() < end_s:
        time.sleep(1.0)
        before_s, used_s = used_s, cpu_s(process.pid)
        if used_s > 0.5 and used_s - before_s < 0.1:
            return
    raise RuntimeError(f"the node was not ready within {_START_S:g} s")


def shares_of(processes: Sequence[subprocess.Popen[str]], seconds: float) -> list[float]:
    """Of a core, over so long, of each."""
    before_s, begin_s = [cpu_s(one.pid) for one in processes], time.monotonic()
    time.sleep(seconds)
    return [(cpu_s(one.pid) - s) / (time.monotonic() - begin_s) for one, s in zip(processes, before_s, strict=True)]


@contextmanager
def memory_of(word: str, every_s: float) -> Iterator[list[float]]:
    """Resident memory, MB, of our child whose command has that word, as long as the block lasts."""
    import psutil

    found: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(every_s):
            for child in psutil.Process().children():
                if any(word in part for part in child.cmdline()):
                    found.append(resident_mb(child.pid))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def publish(rate_hz: float, seconds: float, messages: int = 0, depth: int = 1000, reliable: bool = False) -> Any:
    """Imu messages on a schedule, numbered; `messages`: so many as fast as it goes, losing nothing."""
    from sensor_msgs.msg import Imu

    from onboard_estimation.realtime.budget import sleep_until

    with _ros("publish", "/lab") as ourselves:
        publisher = ourselves.create_publisher(Imu, "imu", _quality(depth, reliable or bool(messages), bool(messages)))
        end_s = time.monotonic() + LONGEST_WAIT_S
        while not publisher.get_subscription_count():
            if time.monotonic() > end_s:
                sys.exit("nobody listens")
            time.sleep(0.02)
        time.sleep(0.5)  # the other side may not have seen us yet
        message, count = Imu(), messages or round(rate_hz * seconds)
        used_s, start_ns = time.process_time(), time.monotonic_ns()
        for number in range(count):
            if not messages:
                sleep_until(start_ns + round(1e9 * number / rate_hz))
            message.linear_acceleration.x = float(number)
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 1_000_000_000)
            _published(publisher, message)
        taken_s = 1e-9 * (time.monotonic_ns() - start_ns)
        used_s = time.process_time() - used_s
        time.sleep(SILENCE_S)  # what is still on its way must arrive
    return {"sent": count, "cpu": used_s / taken_s}


def _published(publisher: Any, message: Any) -> None:
    """Once more where the queue of what nobody has taken yet is full for too long."""
    while True:
        try:
            return publisher.publish(message)
        except Exception as error:
            if "cannot publish" not in str(error):
                raise
            time.sleep(1e-3)


def listen(
    topic: str,
    kind: str,
    namespace: str = "/lab",
    number: str = "",
    keep: str = "",
    depth: int = 2000,
    reliable: bool = False,
    keep_all: bool = False,
    unread: Sequence[str] = (),
) -> dict[str, Any]:
    """To a topic until nothing comes.

    Parameters
    ----------
    number
        Field of the messages, `linear_acceleration.x`.
    keep
        File for the arrays `came_ns`, `stamp_ns` and `number`.
    unread
        Further topics, to which somebody listens without looking.
    """
    import rclpy

    from onboard_estimation.live.messages import interface_class
    from onboard_estimation.nodes.run import new_executor

    came: list[tuple[int, int, float]] = []
    reports: list[tuple[int, dict[str, Any]]] = []
    path = number.split(".") if number else []

    def take(message: Any) -> None:
        stamp = message.header.stamp
        value = reduce(getattr, path, message) if path else 0.0
        came.append((time.time_ns(), 1_000_000_000 * stamp.sec + stamp.nanosec, value))

    def report(message: Any) -> None:
        said = {
            one.hardware_id: [one.level[0], {pair.key: pair.value for pair in one.values}] for one in message.status
        }
        reports.append((time.time_ns(), said))

    memory_mb: list[float] = []
    with _ros("listen", namespace) as ourselves:
        deaf = rclpy.create_node("benchmark_hear", namespace=namespace)
        ourselves.create_subscription(interface_class(kind), topic, take, _quality(depth, reliable, keep_all))
        ourselves.create_subscription(
            interface_class("diagnostic_msgs/msg/DiagnosticArray"), "/diagnostics", report, _quality(100, True, False)
        )
        for one in unread:  # their queues fill and are not looked at
            deaf.create_subscription(interface_class(kind), one, lambda _: None, _quality(10, False, False), raw=True)
        executor = new_executor()
        executor.add_node(ourselves)
        began_s, seen, last_s, used_s, took_s = time.monotonic(), 0, 0.0, 0.0, 0.0
        while True:
            until_s = time.monotonic() + 0.5
            while time.monotonic() < until_s:
                executor.spin_once(timeout_sec=0.1)
            now_s = time.monotonic()
            if len(came) > seen:
                used_s, seen, last_s = used_s or time.process_time(), len(came), now_s
                took_s = time.process_time() - used_s
            if seen and len(memory_mb) < (time.time_ns() - came[0][0]) // 60_000_000_000:
                memory_mb.append(resident_mb(os.getpid()) - 120e-6 * len(came))  # less its own record
            if now_s - (last_s or began_s) > (SILENCE_S if seen else LONGEST_WAIT_S):
                break
    arrays = np.array(came, dtype=object).reshape(-1, 3)
    came_ns, stamp_ns = arrays[:, 0].astype(np.int64), arrays[:, 1].astype(np.int64)
    if keep:
        np.savez(keep, came_ns=came_ns, stamp_ns=stamp_ns, number=arrays[:, 2].astype(np.float64))
    seconds = max(1e-9, 1e-9 * float(np.ptp(came_ns))) if seen else 1e-9
    latency_us = 1e-3 * (came_ns - stamp_ns)
    return {
        "received": seen,
        "first_ns": int(came_ns[0]) if seen else 0,
        "per_second": (seen - 1) / seconds,
        "cpu": took_s / seconds,
        "latency_us": np.percentile(latency_us, [50.0, 99.0, 99.9, 100.0]).tolist() if seen else None,
        "memory_mb_by_minute": memory_mb,
        "reports": reports if kind.endswith("WrenchStamped") else reports[-1:],
    }


def heard(keep: Path) -> dict[str, NDArray[Any]]:
    """What `listen` kept."""
    with np.load(keep) as arrays:
        return dict(arrays)


def _quality(depth: int, reliable: bool, keep_all: bool) -> Any:
    from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy

    kind = ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT
    history = HistoryPolicy.KEEP_ALL if keep_all else HistoryPolicy.KEEP_LAST
    return QoSProfile(depth=depth, reliability=kind, history=history)


@contextmanager
def _ros(name: str, namespace: str) -> Iterator[Any]:
    from onboard_estimation.base import ros2

    ros2.require()
    import rclpy

    rclpy.init(args=[])
    gc.disable()  # what is kept here is looked through in vain
    made = rclpy.create_node(f"benchmark_{name}", namespace=namespace)
    try:
        yield made
    finally:
        made.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    print(json.dumps({"publish": publish, "listen": listen}[sys.argv[1]](**json.loads(sys.argv[2]))), flush=True)
