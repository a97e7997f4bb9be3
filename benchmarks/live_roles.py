"""The processes that the live benchmarks start: `python -m benchmarks.live_roles`.

    publish --rate 1000 --seconds 60       Imu messages on a schedule; rate 0: as fast as it goes, losing nothing
    subscribe                              counts them, with the latency of each, until none comes for two seconds
    drive --rate 200 --seconds 60          LandSalp's commands and gyros, stamped when they are sent
    watch                                  latency of the odometry against its stamps, as `subscribe`

With `--robot hopper` or `softrobot`, `drive` replays a simulated run at its own rates in real time and keeps what it
sent in a file (`--keep`); `watch` lists the hopper's phase events as well.

Each prints one line of JSON. A message's number is in `linear_acceleration.x`, its time of sending in its stamp.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation import ros2
from onboard_estimation.live.budget import PacedSender, sleep_until, stamp_with

SILENCE_S = 2.0
LONGEST_WAIT_S = 180.0
RECEIVED_AT_MOST = 4_000_000


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_roles")
    parser.add_argument("role", choices=("publish", "subscribe", "drive", "watch"))
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--subscribers", type=int, default=1)
    parser.add_argument("--depth", type=int, default=0, help="of the subscription's queue; 0: the profile's own, 5")
    parser.add_argument("--reliable", action="store_true", help="publish and subscribe: nothing may be lost")
    parser.add_argument("--robot", choices=("salp", "hopper", "softrobot"), default="salp", help="of drive and watch")
    parser.add_argument("--keep", type=Path, help="npz file for what drive sends")
    options = parser.parse_args()
    ros2.require()
    import rclpy

    rclpy.init(args=[])
    node = rclpy.create_node(f"benchmark_{options.role}", namespace=f"/{options.robot}")
    gc.collect()
    gc.freeze()
    drive = _drive if options.robot == "salp" else _drive_simulated
    result = {"publish": _publish, "subscribe": _subscribe, "drive": drive, "watch": _watch}[options.role](
        node, options
    )
    print(json.dumps({"role": options.role, "rss_mb": _memory_mb(), **result}), flush=True)
    node.destroy_node()
    rclpy.shutdown()


def _publish(node: Any, options: Any) -> dict[str, Any]:
    from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
    from sensor_msgs.msg import Imu

    flat_out = options.rate == 0.0
    lossless = QoSProfile(depth=1000, history=HistoryPolicy.KEEP_ALL, reliability=ReliabilityPolicy.RELIABLE)
    paced = QoSProfile(depth=options.depth or 1000) if options.reliable else qos_profile_sensor_data
    publisher = node.create_publisher(Imu, "imu", lossless if flat_out else paced)
    _wait(lambda: publisher.get_subscription_count() >= options.subscribers)
    time.sleep(0.5)  # the other side may not have seen us yet
    message = Imu()
    message.header.frame_id = "imu_link_1"
    count = options.messages if flat_out else round(options.rate * options.seconds)
    period_ns = 0 if flat_out else round(1e9 / options.rate)
    cpu_s, start_ns = _cpu_s(), time.monotonic_ns()
    for number in range(count):
        if period_ns:
            sleep_until(start_ns + number * period_ns)
        message.linear_acceleration.x = float(number)
        stamp_with(message, time.time_ns())
        publisher.publish(message)
    seconds = 1e-9 * (time.monotonic_ns() - start_ns)
    used_s = _cpu_s() - cpu_s
    time.sleep(SILENCE_S)  # what is still on its way must arrive
    return {"sent": count, "seconds": seconds, "cpu": used_s / seconds}


def _subscribe(node: Any, options: Any) -> dict[str, Any]:
    from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
    from sensor_msgs.msg import Imu

    lossless = QoSProfile(depth=1000, history=HistoryPolicy.KEEP_ALL, reliability=ReliabilityPolicy.RELIABLE)
    sensor_data = qos_profile_sensor_data
    if options.depth:
        kind = ReliabilityPolicy.RELIABLE if options.reliable else ReliabilityPolicy.BEST_EFFORT
        sensor_data = QoSProfile(depth=options.depth, reliability=kind)
    return _receive(node, Imu, "imu", lossless if options.rate == 0.0 else sensor_data)


def _watch(node: Any, options: Any) -> dict[str, Any]:
    from diagnostic_msgs.msg import DiagnosticArray
    from nav_msgs.msg import Odometry
    from rclpy.qos import QoSProfile

    taken: dict[str, int] = {}  # by sensor, what the node says that it received

    def count(report: Any) -> None:
        for status in report.status:
            taken.update((status.hardware_id, int(one.value)) for one in status.values if one.key == "received")

    node.create_subscription(DiagnosticArray, "/diagnostics", count, QoSProfile(depth=10))
    if options.robot != "hopper":
        return {**_receive(node, Odometry, "odometry", QoSProfile(depth=1000)), "taken": taken}
    from sensor_msgs.msg import TimeReference

    events: list[tuple[str, int, int, int]] = []  # name, when it happened, when seen, when received

    def note(event: Any) -> None:
        now_ns = time.time_ns()
        events.append((event.source, _ns(event.header.stamp), _ns(event.time_ref), now_ns))

    node.create_subscription(TimeReference, "phase_events", note, QoSProfile(depth=1000))
    return {**_receive(node, Odometry, "odometry", QoSProfile(depth=1000)), "events": events, "taken": taken}


def _receive(node: Any, message_type: Any, topic: str, qos: Any) -> dict[str, Any]:
    """Latencies of all messages until there is silence."""
    from rclpy.executors import SingleThreadedExecutor

    latencies_ns = np.zeros(RECEIVED_AT_MOST, dtype=np.int64)
    received = 0
    first_ns = last_ns = 0
    first_cpu_s = last_cpu_s = 0.0
    memory_mb: list[float] = []

    def take(message: Any) -> None:
        nonlocal received, first_ns, last_ns, first_cpu_s
        now_ns = time.time_ns()
        latencies_ns[received] = now_ns - _ns(message.header.stamp)
        if received == 0:
            first_ns, first_cpu_s = now_ns, _cpu_s()
        received += 1
        last_ns = now_ns

    node.create_subscription(message_type, topic, take, qos)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    started_ns = time.time_ns()

    def look() -> None:
        """Every half second: memory once a minute, the end after silence."""
        nonlocal last_cpu_s
        if received and len(memory_mb) <= (time.time_ns() - first_ns) // 60_000_000_000:
            memory_mb.append(_memory_mb() - 1e-6 * latencies_ns[:received].nbytes)  # less its own record
        last_cpu_s = last_cpu_s if received and time.time_ns() - last_ns > 1e9 * SILENCE_S / 2 else _cpu_s()
        waited_s = 1e-9 * (time.time_ns() - (last_ns or started_ns))
        if waited_s > (SILENCE_S if received else LONGEST_WAIT_S):
            raise SystemExit

    node.create_timer(0.5, look)
    with suppress(SystemExit):
        executor.spin()
    seconds = max(1e-9, 1e-9 * (last_ns - first_ns))
    taken_us = 1e-3 * latencies_ns[:received]
    quantiles = np.percentile(taken_us, [50, 99, 99.9]).tolist() if received else [None] * 3
    return {
        "received": received,
        "first_received_ns": first_ns,
        "seconds": seconds,
        "per_second": (received - 1) / seconds,
        "cpu": (last_cpu_s - first_cpu_s) / seconds,
        "latency_median_us": quantiles[0],
        "latency_p99_us": quantiles[1],
        "latency_p999_us": quantiles[2],
        "latency_worst_us": float(taken_us.max()) if received else None,
        "memory_mb_by_minute": memory_mb,
    }


def _drive(node: Any, options: Any) -> dict[str, Any]:
    """Gyros a third of a period apart, so that each has an estimate of its own; commands before the first of them."""
    from rclpy.qos import QoSProfile

    from onboard_estimation.live.messages import interface_class, new
    from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
    from onboard_estimation.ros.sensor_messages import to_message
    from salp_estimation.configuration import SalpConfiguration
    from salp_estimation.robot import ROBOT

    configuration = SalpConfiguration()
    simulation = ROBOT.simulation(configuration, "ideal", "forward", np.random.default_rng(0), options.rate)
    recording = simulation.advance(round(min(options.seconds, 60.0) * NANOSECONDS_PER_SECOND))
    commands, *gyros = recording.sensors
    publishers = [
        node.create_publisher(interface_class(one.channel.message_type), one.channel.topic, QoSProfile(depth=100))
        for one in (commands, *gyros)
    ]
    _wait(lambda: all(publisher.get_subscription_count() > 0 for publisher in publishers))
    time.sleep(0.5)
    period_ns = round(1e9 / options.rate)
    sent = 0
    cpu_s, start_ns = _cpu_s(), time.monotonic_ns()
    for number in range(round(options.rate * options.seconds)):
        row = number % len(gyros[0].values)
        command = commands.values[min(row * len(commands.values) // len(gyros[0].values), len(commands.values) - 1)]
        for place, (publisher, one) in enumerate(zip(publishers, (commands, *gyros), strict=True)):
            value = command if one is commands else one.values[row]
            sleep_until(start_ns + number * period_ns + max(0, place - 1) * period_ns // 3)
            publisher.publish(to_message(new, one.channel, time.time_ns(), value))
            sent += one is not commands
    seconds = 1e-9 * (time.monotonic_ns() - start_ns)
    used_s = _cpu_s() - cpu_s
    time.sleep(SILENCE_S)
    return {"sent": sent, "seconds": seconds, "cpu": used_s / seconds}


def _drive_simulated(node: Any, options: Any) -> dict[str, Any]:
    """What the filter listens to, at the times of a simulated run; what was read at one instant has one stamp, now."""
    from hopper_estimation.robot import ROBOT as HOPPER
    from hopper_estimation.topics import LOW_G
    from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
    from softrobot_estimation.channels import WRENCH
    from softrobot_estimation.robot import ROBOT as SOFT_ROBOT

    driven: Any
    driven, scenario, pattern, estimator, last = {
        "hopper": (HOPPER, "hardware", "mixed", HOPPER.estimators[0], LOW_G.sensor),
        "softrobot": (SOFT_ROBOT, "laboratory", "", "marginalized_pf", WRENCH.sensor),
    }[options.robot]
    configuration = driven.configuration_type()
    simulation = driven.simulation(configuration, scenario, pattern, np.random.default_rng(0))
    recording = simulation.advance(round(options.seconds * NANOSECONDS_PER_SECOND))
    listened = {channel.sensor for channel in driven.listened_channels(configuration, estimator)}
    # In the recording's order, which has that sensor last with which estimates come.
    series = [one for one in recording.sensors if one.channel.sensor in listened]
    sender = PacedSender(node, series)
    sender.await_listeners(LONGEST_WAIT_S)
    cpu_s, start_ns = _cpu_s(), time.monotonic_ns()
    sent_ns, _ = sender.send()
    seconds = 1e-9 * (time.monotonic_ns() - start_ns)
    used_s = _cpu_s() - cpu_s
    if options.keep is not None:
        arrays: dict[str, Any] = {}
        for one, stamps_ns in zip(series, sent_ns, strict=True):
            name = one.channel.sensor.replace("/", ".")
            arrays |= {f"{name}.stamps_ns": stamps_ns, f"{name}.due_ns": one.stamps_ns, f"{name}.values": one.values}
        np.savez(options.keep, **arrays)
    time.sleep(SILENCE_S)
    (asked,) = (one for one in series if one.channel.sensor == last)
    return {
        "sent": len(asked.stamps_ns),
        "messages": sum(len(one.stamps_ns) for one in series),
        "seconds": seconds,
        "cpu": used_s / seconds,
    }


def _ns(stamp: Any) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def _wait(condition: Any) -> None:
    end_s = time.monotonic() + LONGEST_WAIT_S
    while not condition():
        if time.monotonic() > end_s:
            sys.exit(f"nobody there after {LONGEST_WAIT_S:g} s")
        time.sleep(0.02)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _memory_mb() -> float:
    """Resident memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main()
