"""What a robot's estimator node takes of this computer, measured: the real node, fed in real time by another process.

    sender  --sensor topics-->  <robot>_estimator  --odometry or state, /diagnostics-->  listener

All three are processes of their own in a ROS domain that nobody else uses, bound to this machine. The node is the one
that a launch file starts, with the parameters that it would have; what it takes is read from the kernel's counters.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from onboard_estimation.capabilities.simulated import Simulated
from onboard_estimation.configuration import to_parameter_file
from onboard_estimation.errors import UserError
from onboard_estimation.executables import command, executables
from onboard_estimation.installed import package_of
from onboard_estimation.live.budget_verdict import Figures, Remedy, state
from onboard_estimation.live.process_use import busy_s, cpu_s, resident_mb
from onboard_estimation.live.signals import StopRequest
from onboard_estimation.resources import resource
from onboard_estimation.robots import GROUP, Robot, find_robot, robot_names

_ROLES = "onboard_estimation.live.budget_roles"
_START_S = 900.0
"""A computer that has compiled nothing yet may need many minutes."""
_SLACK_S = 60.0
_COMPARE_S = 300.0
_END_S = 5.0
_POLL_S = 0.1
_DOMAINS = range(1, 101)  # those above have ports that Linux gives to others
_PLACES = 12
"""Of a domain that must be free: of its first participants."""
_REPORTS_S = 1.0
_OWN = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
_NOT_INHERITED = ("ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS", "ROS_NAMESPACE")

Progress = Callable[[str], None]
_Events = queue.Queue[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Job:
    """What is to be measured.

    Attributes
    ----------
    configuration
        The robot's.
    host
        Parameters of the node itself, beside those of the robot's `<robot>_nodes.yaml`.
    rate
        Sensors so many times faster; the motion with them, so that the estimates mean nothing then.
    """

    robot: Robot[Any]
    estimator: str
    configuration: Any
    host: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 10.0
    rate: float = 1.0


def measurable() -> list[str]:
    """Robots that have a live estimator and a simulator."""
    found = []
    for name in robot_names():
        try:
            _executable(name)
            Simulated[Any].of(find_robot(name))
        except UserError:
            continue
        found.append(name)
    return found


def checked(name: str) -> Robot[Any]:
    """The robot, where it can be measured; UserError that says which can."""
    robot = find_robot(name)
    try:
        _executable(name)
        return Simulated[Any].of(robot)
    except UserError as error:
        raise UserError(f"{name} cannot be measured: {error}. These can: {', '.join(measurable())}") from None


def measure(job: Job, stop: StopRequest, progress: Progress) -> Figures:
    """The figures of one robot.

    Raises
    ------
    KeyboardInterrupt
        It was asked to stop; no process is left.
    UserError
        A process failed, with what it said; or nothing came in time.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="budget-")))
        events: _Events = queue.Queue()
        environment = _environment()
        start = _Start(stack, folder, environment, events)
        parameters = _parameter_files(job, folder)
        node = start("estimator", [*_executable(job.robot.name), *_ros_arguments(job.robot.name, parameters)])
        listener = start("listener", _role("listen", job, folder, "--keep", str(folder / "came.npz")))
        words = ["--seconds", str(job.seconds), "--rate", str(job.rate), "--keep", str(folder / "sent.npz")]
        sender = start("sender", _role("send", job, folder, *words))
        watch = _Watch(events, {one.name: one for one in (node, listener, sender)}, stop)

        progress("simulating, and starting the node; kernels that are not compiled yet take a minute or more")
        watch.until("sender", "ready", _START_S)
        watch.until("listener", "ready", _START_S)
        progress("warming up")
        sender.go()
        watch.until("sender", "measuring", _SLACK_S)
        before = _taken(node, sender, listener)
        progress(f"measuring for {job.seconds:g} s")
        watch.until("sender", "measured", 3.0 * job.seconds + _SLACK_S)
        after = _taken(node, sender, listener)
        memory_mb = resident_mb(node.pid)
        sent = watch.until("sender", "sent", _SLACK_S)
        progress("taking what is still on its way")
        listener.go()
        heard = watch.until("listener", "done", _SLACK_S)
        with np.load(folder / "sent.npz") as stamps:
            sent_ns = [stamps[str(place)] for place in range(len(sent["sensors"]))]
        with np.load(folder / "came.npz") as arrays:
            came_ns = arrays["came_ns"]
    return _figures(job, sent, sent_ns, heard, came_ns, after - before, memory_mb)


def remedies(job: Job, figures: Figures, stop: StopRequest, progress: Progress) -> list[Remedy]:
    """What other estimators and fewer particles would take, where this does not fit: the filter alone, offline."""
    if state(figures) == "fits" or figures.share <= 0.0:
        return []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="budget-")))
        events: _Events = queue.Queue()
        start = _Start(stack, folder, _environment(), events)
        _parameter_files(job, folder)
        watch = _Watch(events, {"comparison": start("comparison", _role("compare", job, folder))}, stop)
        progress("trying what takes less, offline")
        shares = watch.until("comparison", "done", _COMPARE_S)["shares"]
    now = shares.pop("") * job.rate
    overhead = max(0.0, figures.share - now)
    return [Remedy(change, share * job.rate + overhead) for change, share in shares.items()]


class _Child:
    """A process of a measurement; what it prints as JSON becomes events, what it says else is kept."""

    def __init__(self, name: str, words: list[str], folder: Path, environment: Mapping[str, str], events: _Events):
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,  # Ctrl-C is ours to hand on
            )
        self.pid = self._process.pid
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    def go(self) -> None:
        """Answer its question."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def ended(self) -> bool:
        """Whether it is gone, with a fault or without."""
        return self._process.poll() is not None

    def end(self) -> None:
        """Ask it to end, then make it."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def last_words(self) -> str:
        """Of what it said of faults."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("error: ") if lines else "it said nothing"

    def _read(self, events: _Events) -> None:
        for line in self._process.stdout or ():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:  # a node's log, where the runtime writes it there
                continue
            if isinstance(event, dict) and "state" in event:
                events.put((self.name, event))


@dataclass(frozen=True)
class _Start:
    """Starts processes that end with the block."""

    stack: ExitStack
    folder: Path
    environment: Mapping[str, str]
    events: _Events

    def __call__(self, name: str, words: list[str]) -> _Child:
        child = _Child(name, words, self.folder, self.environment, self.events)
        self.stack.callback(child.end)
        return child


@dataclass(frozen=True)
class _Watch:
    """Waits for what processes tell, as long as all of them run."""

    events: _Events
    children: Mapping[str, _Child]
    stop: StopRequest
    _told: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def until(self, name: str, what: str, timeout_s: float) -> dict[str, Any]:
        """The event of that state; events of others may come before it."""
        end_s = time.monotonic() + timeout_s
        while (name, what) not in self._told:
            gone = [child for child in self.children.values() if child.ended()]
            try:
                told, event = self.events.get(timeout=_POLL_S)
                self._told[told, event["state"]] = event
                continue
            except queue.Empty:
                pass
            if self.stop:
                raise KeyboardInterrupt
            for child in gone:
                raise UserError(f"the {child.name} ended before its time: {child.last_words()}")
            if time.monotonic() > end_s:
                raise UserError(f"the {name} was not {what} within {timeout_s:g} s: {self.children[name].last_words()}")
        return self._told[name, what]


@dataclass(frozen=True)
class _Taken:
    """Time on cores so far, by what took it, and the time of day that passed, s."""

    at: float
    node: float
    sender: float
    listener: float
    ourselves: float
    everything: float

    def __sub__(self, before: _Taken) -> _Taken:
        return _Taken(*(getattr(self, name) - getattr(before, name) for name in self.__dataclass_fields__))


def _taken(node: _Child, sender: _Child, listener: _Child) -> _Taken:
    at, ourselves = time.monotonic(), time.process_time()
    return _Taken(at, cpu_s(node.pid), cpu_s(sender.pid), cpu_s(listener.pid), ourselves, busy_s())


def _figures(
    job: Job,
    sent: dict[str, Any],
    sent_ns: list[Any],
    heard: dict[str, Any],
    came_ns: Any,
    taken: _Taken,
    memory_mb: float,
) -> Figures:
    begin_ns, end_ns = sent["begin_ns"], sent["end_ns"]
    seconds = 1e-9 * (end_ns - begin_ns)

    def within(stamps_ns: Any) -> Any:
        return (stamps_ns >= begin_ns) & (stamps_ns < end_ns)

    latency_ms = 1e-6 * (came_ns[:, 1] - came_ns[:, 0])[within(came_ns[:, 0])]
    outputs = int(within(came_ns[:, 1]).sum())
    sensors = [one["sensor"] for one in sent["sensors"]]
    counted = [place for place, one in enumerate(sent["sensors"]) if one["required"] and not one["command"]]
    # The newest of a sensor may still wait for one of another.
    common_ns = min(int(sent_ns[place][-1]) for place in counted)
    received = heard["reports"][-1]["received"]
    total = [int((sent_ns[place] <= common_ns).sum()) for place in counted]
    lost = [max(0, many - int(received.get(sensors[place], 0))) for place, many in zip(counted, total, strict=True)]
    others = taken.everything - taken.node - taken.sender - taken.listener - taken.ourselves
    return Figures(
        robot=job.robot.name,
        estimator=job.estimator,
        seconds=seconds,
        sensors_hz={sensor: float(within(one).sum()) / seconds for sensor, one in zip(sensors, sent_ns, strict=True)},
        share=taken.node / taken.at,
        sender_share=taken.sender / taken.at,
        listener_share=taken.listener / taken.at,
        others_share=max(0.0, others / taken.at),
        estimates_per_s=_estimates_per_s(heard["reports"], begin_ns, end_ns),
        topic=heard["topic"],
        outputs_per_s=outputs / seconds,
        latency_ms=tuple(np.percentile(latency_ms, [50.0, 99.0, 100.0]).tolist()) if len(latency_ms) else None,
        sent=sum(total),
        lost=sum(lost),
        memory_mb=memory_mb,
        sender_late_ms=sent["late_p99_ms"],
    )


def _estimates_per_s(reports: list[dict[str, Any]], begin_ns: int, end_ns: int) -> float | None:
    """Between the last report before the measured seconds and the last one in them."""
    before = [one for one in reports if one["stamp_ns"] <= begin_ns]
    until = [one for one in reports if one["stamp_ns"] <= end_ns]
    if not before or len(until) == len(before):
        return None
    apart_s = 1e-9 * (until[-1]["stamp_ns"] - before[-1]["stamp_ns"])
    return float(until[-1]["estimates"] - before[-1]["estimates"]) / apart_s


def _executable(robot: str) -> list[str]:
    name, package = f"{robot}_estimator", package_of(GROUP, robot)
    if name not in executables(package):
        raise UserError(f"there is no live estimator {name} of it")
    return command(name, package)


def _role(role: str, job: Job, folder: Path, *words: str) -> list[str]:
    file = folder / "robot.yaml"
    start = [sys.executable, "-m", _ROLES, role, job.robot.name]
    return [*start, "--estimator", job.estimator, "--config", str(file), *words]


def _ros_arguments(robot: str, files: list[Path]) -> list[str]:
    words = ["--ros-args", "-r", f"__ns:=/{robot}", "-r", f"__node:={robot}_estimator"]
    return [*words, *(word for file in files for word in ("--params-file", str(file)))]


def _parameter_files(job: Job, folder: Path) -> list[Path]:
    """As a launch file gives them: the robot's, the nodes', and what was asked for."""
    node = f"/**/{job.robot.name}_estimator"
    files = [folder / "robot.yaml", folder / "host.yaml"]
    files[0].write_text(to_parameter_file(job.configuration), encoding="utf-8")
    host = {**job.host, "estimator": job.estimator, "diagnostics_period_s": _REPORTS_S}
    files[1].write_text(yaml.safe_dump({node: {"ros__parameters": host}}), encoding="utf-8")
    try:
        nodes = resource(f"config/{job.robot.name}_nodes.yaml")
    except UserError:
        return files
    return [files[0], nodes, files[1]]


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**inherited, **_OWN, "ROS_DOMAIN_ID": str(_free_domain())}


def _free_domain() -> int:
    """A domain in which nobody on this machine is; each process looks first at another one."""
    own = os.environ.get("ROS_DOMAIN_ID", "").strip()
    for number in range(len(_DOMAINS)):
        domain = _DOMAINS[(os.getpid() * 7 + number) % len(_DOMAINS)]
        if str(domain) != own and all(_is_free(7410 + 250 * domain + 2 * place) for place in range(_PLACES)):
            return domain
    raise UserError(f"all ROS domains from {_DOMAINS[0]} to {_DOMAINS[-1]} are in use on this machine")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
