"""The processes beside an estimator that is measured: `python -m onboard_estimation.live.budget_roles`.

    send ROBOT ...      simulates the robot, then sends what its sensors read, in real time
    listen ROBOT ...    keeps when each estimate came, and what the estimator's diagnostics count
    compare ROBOT ...   time that the filter itself takes offline, with other estimators and with fewer particles

Each line that they print is JSON with a `state`; the last is `done`. `send` waits for a line on its standard input
before it sends, `listen` ends at one; both end where that is closed.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onboard_estimation.capabilities.simulated import Simulated, chosen_scenario
from onboard_estimation.configuration import describe, load
from onboard_estimation.errors import UserError
from onboard_estimation.live.messages import new
from onboard_estimation.live.paced_sending import PacedSender
from onboard_estimation.live.session import graph_node
from onboard_estimation.live.types import interface_class
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.pipeline import Pipeline
from onboard_estimation.robots import Robot, find_robot
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.measurements import stamp_ns
from onboard_estimation.series import Series

PARTICLES = "particles"
"""Last part of the name of a parameter that says how many; what a filter takes grows with it."""
WARM_UP_S = 2.0
_LONGEST_WAIT_S = 900.0
_AFTER_S = 3.0
"""The last report of the diagnostics may come so late, and what a filter that is too slow still has to say."""
_COMPARED_S = 3.0
_COMPARISON_S = 10.0
_FRACTIONS = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01)
_DEPTH = 2000


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m onboard_estimation.live.budget_roles")
    parser.add_argument("role", choices=("send", "listen", "compare"))
    parser.add_argument("robot")
    parser.add_argument("--estimator", required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=1.0, help="times real time")
    parser.add_argument("--keep", type=Path, help="npz file for stamps")
    options = parser.parse_args()
    robot = find_robot(options.robot)
    configuration = load(robot.configuration_type, options.config, {})
    try:
        {"send": _send, "listen": _listen, "compare": _compare}[options.role](robot, configuration, options)
    except UserError as error:
        sys.exit(f"error: {error}")


def _send(robot: Robot[Any], configuration: Any, options: Any) -> None:
    warm_up_s = WARM_UP_S * options.rate  # of the recording
    series = _readings(robot, configuration, options.estimator, warm_up_s + options.seconds * options.rate)
    _tell("simulated")
    with _node(robot, "sender") as node:
        sender = PacedSender(node, series)
        sender.await_listeners(_LONGEST_WAIT_S)
        _tell("ready")
        if not sys.stdin.readline():
            return
        gc.collect()
        gc.freeze()
        begin_ns = 0

        def before(due_ns: int) -> None:
            nonlocal begin_ns
            if not begin_ns and due_ns >= warm_up_s * NANOSECONDS_PER_SECOND:
                begin_ns = time.time_ns()
                _tell("measuring")

        sent_ns, late_ns = sender.send(options.rate, before)
        end_ns = time.time_ns()
        _tell("measured")
        stamps: dict[str, Any] = {str(place): one for place, one in enumerate(sent_ns)}
        np.savez(options.keep, **stamps)
        sensors = [
            {"sensor": one.channel.sensor, "required": one.channel.required, "command": one.channel.command}
            for one in series
        ]
        late_ms = 1e-6 * float(np.percentile(late_ns, 99))
        _tell("sent", begin_ns=begin_ns, end_ns=end_ns, sensors=sensors, late_p99_ms=late_ms)
        sys.stdin.readline()  # what is still on its way is taken from here
        _tell("done")


def _listen(robot: Robot[Any], configuration: Any, options: Any) -> None:
    topics = EstimateMessages(robot.estimator(configuration, options.estimator).space, new).types()
    topic = "odometry" if "odometry" in topics else "state"
    came_ns: list[tuple[int, int]] = []
    reports: list[dict[str, Any]] = []

    def take(message: Any) -> None:
        came_ns.append((stamp_ns(message), time.time_ns()))

    def report(message: Any) -> None:
        parts = {one.hardware_id: {pair.key: float(pair.value) for pair in one.values} for one in message.status}
        received = {sensor: values["received"] for sensor, values in parts.items() if "received" in values}
        estimates = parts.get("filter", {}).get("estimates", 0.0)
        reports.append({"stamp_ns": stamp_ns(message), "estimates": estimates, "received": received})

    with _node(robot, "listener") as node:
        estimates = node.create_subscription(interface_class(topics[topic]), topic, take, _DEPTH)
        kind = interface_class("diagnostic_msgs/msg/DiagnosticArray")
        node.create_subscription(kind, "/diagnostics", report, 10)
        _await(lambda: node.count_publishers(estimates.topic_name) > 0 and bool(reports))
        _tell("ready")
        if not sys.stdin.readline():
            return
        asked_ns, end_s = time.time_ns(), time.monotonic() + _AFTER_S
        while not reports[-1]["stamp_ns"] > asked_ns and time.monotonic() < end_s:
            time.sleep(0.05)
    np.savez(options.keep, came_ns=np.array(came_ns, dtype=np.int64).reshape(-1, 2))
    _tell("done", topic=topic, reports=reports)


def _compare(robot: Robot[Any], configuration: Any, options: Any) -> None:
    """Shares of a core that the filter alone takes: as it is, with each other estimator, with fewer particles."""
    now = _filter_share(robot, configuration, options.estimator)
    shares = {"": now}
    for name in robot.estimators:
        if name != options.estimator:
            _tell("comparing", what=name)
            shares[f"estimator:={name}"] = _filter_share(robot, configuration, name)
    for row in describe(robot.configuration_type):
        if row.type_name == "int" and row.name.rpartition(".")[2] == PARTICLES:
            value = _value(configuration, row.name)
            for fraction in _FRACTIONS:
                fewer = max(round(value * fraction), int(row.minimum or 1))
                _tell("comparing", what=f"{row.name} {fewer}")
                changed = load(robot.configuration_type, options.config, {row.name: fewer})
                shares[f"{row.name}:={fewer}"] = _filter_share(robot, changed, options.estimator)
    _tell("done", shares=shares)


def _filter_share(robot: Robot[Any], configuration: Any, estimator: str) -> float:
    """Time on a core for a second of readings, s; kernels are compiled before."""
    robot.exercise(configuration, estimator)
    series = _readings(robot, configuration, estimator, _COMPARED_S)
    readings = sorted(
        (
            Measurement(int(stamp), one.channel.sensor, value)
            for one in series
            for stamp, value in zip(one.stamps_ns, one.values, strict=True)
        ),
        key=lambda reading: reading.stamp_ns,
    )
    pipeline = Pipeline(robot.estimator(configuration, estimator), robot.listened_channels(configuration, estimator))
    started_s = time.process_time()
    last_ns = readings[0].stamp_ns
    for reading in readings:
        pipeline.process(reading)
        last_ns = reading.stamp_ns
        if time.process_time() - started_s > _COMPARISON_S:
            break
    return (time.process_time() - started_s) * NANOSECONDS_PER_SECOND / max(1, last_ns - readings[0].stamp_ns)


def _readings(robot: Robot[Any], configuration: Any, estimator: str, seconds: float) -> list[Series]:
    """What the estimator listens to of the robot's first scenario; one seed, so that figures can be compared."""
    simulated = Simulated[Any].of(robot)
    scenario, variant = chosen_scenario(simulated, None, None)
    with np.errstate(all="ignore"):
        recording = simulated.simulate(configuration, scenario, variant, seconds, np.random.default_rng(0))
    listened = {channel.sensor for channel in robot.listened_channels(configuration, estimator)}
    end_ns = round(seconds * NANOSECONDS_PER_SECOND)
    cut = [
        one.rows(np.flatnonzero(one.stamps_ns <= end_ns)) for one in recording.sensors if one.channel.sensor in listened
    ]
    return [one for one in cut if len(one.stamps_ns)]


def _value(configuration: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        configuration = getattr(configuration, name)
    return configuration


def _node(robot: Robot[Any], name: str) -> Any:
    return graph_node(f"budget_{name}", namespace=f"/{robot.name}")


def _await(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + _LONGEST_WAIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise UserError(f"the estimator was not there after {_LONGEST_WAIT_S:g} s")
        time.sleep(0.02)


def _tell(state: str, **more: Any) -> None:
    print(json.dumps({"state": state, **more}), flush=True)


if __name__ == "__main__":
    main()
