"""What a robot's estimator node takes of this computer, measured: the real node, fed in real time by this process.

    this process  --sensor topics-->  <robot>_estimator  --odometry or state, /diagnostics-->  this process

The node is a process of its own in a ROS domain that nobody else uses, bound to this machine. It is the one that a
launch file starts, with the parameters that it would have; what it takes is read from the kernel's counters.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import to_parameter_file
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import command, executables, package_of, resource
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.parameter_file import PARAMETERS_KEY, to_yaml
from onboard_estimation.base.series import Series
from onboard_estimation.contract.robot import GROUP, Robot, all_robots, find_robot
from onboard_estimation.contract.simulated import Simulated, chosen_scenario
from onboard_estimation.live.discovery import wait_until
from onboard_estimation.live.messages import interface_class, new, serialized
from onboard_estimation.live.session import graph_node, port_is_free
from onboard_estimation.pipeline.aside import Aside
from onboard_estimation.realtime.machine_facts import busy_s, cpu_s, resident_mb
from onboard_estimation.realtime.verdict import Figures
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.measurements import stamp_ns
from onboard_estimation.ros.message_templates import sensor_writer

WARM_UP_S = 2.0
_START_S = 900.0
"""A computer that has compiled nothing yet may need many minutes."""
_END_S = 5.0
_AFTER_S = 3.0
"""The last report of the diagnostics may come so late, and what a filter that is too slow still has to say."""
_DEPTH, _SENT_DEPTH = 2000, 100
_SEEN_S = 0.5
"""The other side may see us later than we see it."""
_DOMAINS = range(1, 101)  # those above have ports that Linux gives to others
_PLACES = 12
"""Of a domain that must be free: of its first participants."""
_REPORTS_S = 1.0
_SWITCH_S = 2e-4
"""Of Python's threads: what listens must not wait for what sends."""
_OWN = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "OPENBLAS_NUM_THREADS": "1"}
_NOT_INHERITED = ("ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS", "ROS_NAMESPACE")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What is to be measured.

    Attributes
    ----------
    configuration
        The robot's.
    host
        Parameters of the node itself, beside those of the robot's `<robot>_nodes.yaml`.
    """

    robot: Robot[Any]
    estimator: str
    configuration: Any
    host: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 10.0


def measurable(names: Sequence[str] = ()) -> list[Robot[Any]]:
    """The robots named, or all that have a live estimator and a simulator; UserError where a named one has not."""
    found: list[Robot[Any]] = []
    for robot in map(find_robot, names) if names else all_robots():
        try:
            _executable(robot.name)
            found.append(Simulated[Any].of(robot))
        except UserError as error:
            if names:
                these = ", ".join(one.name for one in measurable())
                raise UserError(f"{robot.name} cannot be measured: {error}. These can: {these}") from None
    return found


def measure(job: Job, progress: Progress) -> Figures:
    """The figures of one robot; this process is in a ROS domain of its own from then on.

    Raises
    ------
    UserError
        The node failed, with what it said; or nothing came in time.
    """
    _enter_own_domain()
    progress("simulating, and starting the node; kernels that are not compiled yet take a minute or more")
    with _estimator_node(job) as node, graph_node("budget", namespace=f"/{job.robot.name}") as ourselves:
        series = _readings(job.robot, job.configuration, job.estimator, WARM_UP_S + job.seconds)
        sender, heard = PacedSender(ourselves, series), _Heard(ourselves, job)
        sender.await_listeners(_START_S, node.refuse_its_end)
        if not node.comes_to(heard.is_ready, _START_S):
            raise UserError(f"the estimator was not ready within {_START_S:g} s: {node.last_words()}")
        progress("warming up")
        sys.setswitchinterval(_SWITCH_S)
        gc.collect()
        gc.freeze()
        started: list[tuple[int, Vector]] = []

        def before(due_ns: int) -> None:
            if not started and due_ns >= WARM_UP_S * NANOSECONDS_PER_SECOND:
                progress(f"measuring for {job.seconds:g} s")
                started.append((time.time_ns(), _taken_s(node.process.pid)))

        sent_ns, late_ns = sender.send(before)
        end_ns, after_s = time.time_ns(), _taken_s(node.process.pid)
        gc.unfreeze()
        progress("taking what is still on its way")
        memory_mb = resident_mb(node.process.pid)
        node.comes_to(lambda: heard.reports[-1]["stamp_ns"] > end_ns, _AFTER_S)
    begin_ns, before_s = started[0]
    late_ms = 1e-6 * float(np.percentile(late_ns, 99))
    return _figures(job, series, sent_ns, heard, (begin_ns, end_ns), after_s - before_s, memory_mb, late_ms)


class _EstimatorNode(NamedTuple):
    """The node under measurement, and where it writes what it has to say."""

    process: subprocess.Popen[bytes]
    log: Path

    def refuse_its_end(self) -> None:
        """Raise UserError with its last words where it is gone."""
        if self.process.poll() is not None:
            raise UserError(f"the estimator ended before its time: {self.last_words()}")

    def comes_to(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether the condition comes true in time, as long as the node runs."""

        def holds() -> bool:
            self.refuse_its_end()
            return condition()

        return condition() or wait_until(holds, timeout_s)

    def last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("error: ") if lines else "it said nothing"


@contextmanager
def _estimator_node(job: Job) -> Iterator[_EstimatorNode]:
    """The robot's estimator as a launch file starts it; it ends with the block."""
    name = f"{job.robot.name}_estimator"
    host = {**job.host, "estimator": job.estimator, "diagnostics_period_s": _REPORTS_S}
    with tempfile.TemporaryDirectory(prefix="budget-") as place:
        log, files = Path(place) / "log", [Path(place) / "robot.yaml", Path(place) / "host.yaml"]
        files[0].write_text(to_parameter_file(job.configuration), encoding="utf-8")
        files[1].write_text(to_yaml({f"/**/{name}": {PARAMETERS_KEY: host}}), encoding="utf-8")
        with suppress(UserError):
            files.insert(1, resource(f"config/{job.robot.name}_nodes.yaml"))
        words = [*_executable(job.robot.name), "--ros-args", "-r", f"__ns:=/{job.robot.name}", "-r", f"__node:={name}"]
        words += [word for file in files for word in ("--params-file", str(file))]
        nothing = subprocess.DEVNULL
        with log.open("wb") as said, subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=said) as process:
            try:
                yield _EstimatorNode(process, log)
            finally:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_END_S)
                process.kill()


def _executable(robot: str) -> list[str]:
    name, package = f"{robot}_estimator", package_of(GROUP, robot)
    if name not in executables(package):
        raise UserError(f"there is no live estimator {name} of it")
    return command(name, package)


class _Heard:
    """When each estimate came, (stamp, time of arrival) ns, and what the estimator's diagnostics counted."""

    def __init__(self, node: Any, job: Job) -> None:
        topics = EstimateMessages(job.robot.estimator(job.configuration, job.estimator).space, new).types()
        self.topic = "odometry" if "odometry" in topics else "state"
        self.came_ns: list[tuple[int, int]] = []
        self.reports: list[dict[str, Any]] = []
        self._node = node
        self._aside = Aside("what the diagnostics say", node.get_logger().error)
        kind = interface_class(topics[self.topic])
        self._estimates = node.create_subscription(kind, self.topic, self._take, _DEPTH)
        diagnostics = interface_class("diagnostic_msgs/msg/DiagnosticArray")
        node.create_subscription(diagnostics, "/diagnostics", lambda message: self._aside(self._report, message), 10)

    def is_ready(self) -> bool:
        """Somebody publishes estimates, and tells of them; UserError where that is not understood."""
        if self._aside.trouble:
            raise UserError(self._aside.trouble)
        return self._node.count_publishers(self._estimates.topic_name) > 0 and bool(self.reports)

    def _take(self, message: Any) -> None:
        self.came_ns.append((stamp_ns(message), time.time_ns()))

    def _report(self, message: Any) -> None:
        parts = {one.hardware_id: {pair.key: float(pair.value) for pair in one.values} for one in message.status}
        received = {sensor: values["received"] for sensor, values in parts.items() if "received" in values}
        estimates = parts.get("filter", {}).get("estimates", 0.0)
        self.reports.append({"stamp_ns": stamp_ns(message), "estimates": estimates, "received": received})


def _taken_s(pid: int) -> Vector:
    """(5,) time that passed, and on cores that of the node, of this thread, of this process, of everything.

    This thread sends; what listens is the rest of this process.
    """
    return np.array([time.monotonic(), cpu_s(pid), time.thread_time(), time.process_time(), busy_s()])


def _figures(
    job: Job,
    series: list[Series],
    sent_ns: list[Any],
    heard: _Heard,
    span_ns: tuple[int, int],
    taken_s: Vector,
    memory_mb: float,
    late_ms: float,
) -> Figures:
    begin_ns, end_ns = span_ns
    node, sender, ourselves, everything = (taken_s[1:] / taken_s[0]).tolist()
    seconds = 1e-9 * (end_ns - begin_ns)
    came_ns = np.array(heard.came_ns, dtype=np.int64).reshape(-1, 2)

    def within(stamps_ns: Any) -> Any:
        return (stamps_ns >= begin_ns) & (stamps_ns < end_ns)

    latency_ms = 1e-6 * (came_ns[:, 1] - came_ns[:, 0])[within(came_ns[:, 0])]
    sensors = [one.channel.sensor for one in series]
    counted = [place for place, one in enumerate(series) if one.channel.required and not one.channel.command]
    # The newest of a sensor may still wait for one of another.
    common_ns = min(int(sent_ns[place][-1]) for place in counted)
    received = heard.reports[-1]["received"]
    total = [int((sent_ns[place] <= common_ns).sum()) for place in counted]
    lost = [max(0, many - int(received.get(sensors[place], 0))) for place, many in zip(counted, total, strict=True)]
    return Figures(
        robot=job.robot.name,
        estimator=job.estimator,
        seconds=seconds,
        sensors_hz={sensor: float(within(one).sum()) / seconds for sensor, one in zip(sensors, sent_ns, strict=True)},
        share=node,
        sender_share=sender,
        listener_share=ourselves - sender,
        others_share=max(0.0, everything - node - ourselves),
        estimates_per_s=_estimates_per_s(heard.reports, begin_ns, end_ns),
        topic=heard.topic,
        outputs_per_s=int(within(came_ns[:, 1]).sum()) / seconds,
        latency_ms=tuple(np.percentile(latency_ms, [50.0, 99.0, 100.0]).tolist()) if len(latency_ms) else None,
        sent=sum(total),
        lost=sum(lost),
        memory_mb=memory_mb,
        sender_late_ms=late_ms,
    )


def _estimates_per_s(reports: list[dict[str, Any]], begin_ns: int, end_ns: int) -> float | None:
    """Between the last report before the measured seconds and the last one in them."""
    before = [one for one in reports if one["stamp_ns"] <= begin_ns]
    until = [one for one in reports if one["stamp_ns"] <= end_ns]
    if not before or len(until) == len(before):
        return None
    apart_s = 1e-9 * (until[-1]["stamp_ns"] - before[-1]["stamp_ns"])
    return float(until[-1]["estimates"] - before[-1]["estimates"]) / apart_s


def _readings(robot: Robot[Any], configuration: Any, estimator: str, seconds: float) -> list[Series]:
    """What the estimator listens to, at the real robot's rates; one seed, so that figures can be compared."""
    simulated = Simulated[Any].of(robot)
    scenario, variant = chosen_scenario(simulated, simulated.real_rates, None)
    with np.errstate(all="ignore"):
        recording = simulated.simulate(configuration, scenario, variant, seconds, np.random.default_rng(0))
    listened = {channel.sensor for channel in robot.listened_channels(configuration, estimator)}
    end_ns = round(seconds * NANOSECONDS_PER_SECOND)
    cut = [
        one.rows(np.flatnonzero(one.stamps_ns <= end_ns)) for one in recording.sensors if one.channel.sensor in listened
    ]
    return [one for one in cut if len(one.stamps_ns)]


def _enter_own_domain() -> None:
    """A ROS domain in which nobody on this machine is; each process looks first at another one."""
    own = os.environ.get("ROS_DOMAIN_ID", "").strip()
    for number in range(len(_DOMAINS)):
        domain = _DOMAINS[(os.getpid() * 7 + number) % len(_DOMAINS)]
        if str(domain) != own and all(port_is_free(7410 + 250 * domain + 2 * place) for place in range(_PLACES)):
            break
    else:
        raise UserError(f"all ROS domains from {_DOMAINS[0]} to {_DOMAINS[-1]} are in use on this machine")
    for name in _NOT_INHERITED:
        os.environ.pop(name, None)
    os.environ.update(_OWN, ROS_DOMAIN_ID=str(domain))


class PacedSender:
    """Publishers of a recording's topics, and what they sent.

    Parameters
    ----------
    node
        Of rclpy; topics are relative to its namespace.
    series
        What is sent. Of one instant in this order: a filter gives its estimate with the last.
    """

    def __init__(self, node: Any, series: Sequence[Series]) -> None:
        from rclpy.qos import QoSProfile

        self._series, channels = series, [one.channel for one in series]
        self._writers = [sensor_writer(channel, new, serialized) for channel in channels]
        self._publishers = [
            node.create_publisher(interface_class(channel.message_type), channel.topic, QoSProfile(depth=_SENT_DEPTH))
            for channel in channels
        ]

    def await_listeners(self, timeout_s: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Until somebody listens to each topic; UserError that names the others after the time, or of `meanwhile`."""

        def waiting() -> list[str]:
            meanwhile()
            return [one.topic_name for one in self._publishers if one.get_subscription_count() == 0]

        if not wait_until(lambda: not waiting(), timeout_s):
            raise UserError(f"nobody listens to {', '.join(waiting())} after {timeout_s:g} s")
        time.sleep(_SEEN_S)

    def send(self, before: Callable[[int], None]) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """Send all of it; stamps sent of each topic (K,), and by how much each instant was late (I,), ns.

        Parameters
        ----------
        before
            Called before each instant, with its time in the recording, ns; what it takes must be little.
        """
        due = sorted(
            (stamp, place, row)
            for place, one in enumerate(self._series)
            for row, stamp in enumerate(one.stamps_ns.tolist())
        )
        sent_ns = [np.zeros(len(one.stamps_ns), dtype=np.int64) for one in self._series]
        late_ns = []
        start_ns = time.monotonic_ns() - due[0][0] if due else 0
        for at_ns, instant in groupby(due, key=lambda one: one[0]):
            before(at_ns)
            due_ns = start_ns + at_ns
            sleep_until(due_ns)
            late_ns.append(time.monotonic_ns() - due_ns)
            now_ns = time.time_ns()
            for _, place, row in instant:
                self._publishers[place].publish(self._writers[place](now_ns, self._series[place].values[row]))
                sent_ns[place][row] = now_ns
        return sent_ns, np.array(late_ns, dtype=np.int64)


def sleep_until(at_ns: int) -> None:
    """Until that time of the monotonic clock."""
    ahead_ns = at_ns - time.monotonic_ns()
    if ahead_ns > 0:
        time.sleep(1e-9 * ahead_ns)
