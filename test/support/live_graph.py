"""Real processes and a listening node for tests of the live graph, on the ROS 2 that this Python has."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LONGEST_WAIT_S = 180.0
"""For what takes a second on an idle machine; the fixture `compiled_kernels` has the kernels compiled before."""

TF_IS_HERE = find_spec("tf2_msgs") is not None

die_with_this: Any = partial(ctypes.CDLL(None).prctl, 1, signal.SIGTERM) if sys.platform == "linux" else None
"""As `preexec_fn`: SIGTERM when this process dies without a chance to end it (PR_SET_PDEATHSIG)."""

EXECUTABLES = {
    "salp_estimator": "salp_estimation.main:estimator",
    "salp_simulator": "salp_estimation.main:simulator",
    "hopper_estimator": "hopper_estimation.main:estimator",
    "hopper_simulator": "hopper_estimation.main:simulator",
    "optitrack": "drivers.main:optitrack",
    "optitrack_emulator": "drivers.main:optitrack_emulator",
    "serial_imu": "drivers.main:serial_imu",
    "serial_imu_emulator": "hopper_estimation.main:serial_emulator",
    "vicon": "drivers.main:vicon",
    "vicon_emulator": "drivers.main:vicon_emulator",
    "ethercat_wrench": "drivers.main:ethercat_wrench",
    "ethercat_wrench_emulator": "drivers.main:ethercat_wrench_emulator",
    "markers": "onboard_estimation.nodes.main:markers",
}


class Process:
    """A node in a process of its own, whose output is kept."""

    def __init__(self, executable: str, arguments: list[str], folder: Path) -> None:
        module, _, function = EXECUTABLES[executable].partition(":")
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"{executable}_{time.monotonic_ns()}.log"
        code = f"from {module} import {function}; {function}()"
        with self._log.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_this,
            )

    @property
    def output(self) -> str:
        """All that it wrote so far."""
        return self._log.read_text(errors="replace")

    def wait_for(self, words: str, timeout_s: float = LONGEST_WAIT_S) -> None:
        """Until its output holds the words."""
        wait_until(lambda: words in self.output or self.popen.poll() is not None, timeout_s)
        assert words in self.output, f"not said: {words!r}; said was:\n{self.output}"

    def stop(self, with_signal: int = signal.SIGINT) -> int:
        """End it; its exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(with_signal)
        try:
            return self.popen.wait(LONGEST_WAIT_S)
        finally:
            kill_group(self.popen)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a group, and all that it may have left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def running(executable: str, folder: Path, *ros_arguments: str, namespace: str = "/salp") -> Iterator[Process]:
    """A node, from start to end."""
    arguments = ["--ros-args", "-r", f"__ns:={namespace}", *ros_arguments]
    process = Process(executable, arguments, folder)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def spun(*makers: Callable[[], Any], arguments: Sequence[str] = (), events: bool = False) -> Iterator[list[Any]]:
    """Nodes of this process; `spin_until` with any of them spins all.

    The events executor, where rclpy has it, takes ten times the messages in the same time.
    """
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    kind: Any = SingleThreadedExecutor
    if events:
        with suppress(ImportError):
            from rclpy.experimental import EventsExecutor as kind
    rclpy.init(args=["--ros-args", *arguments], signal_handler_options=SignalHandlerOptions.NO)
    nodes: list[Any] = []
    executor = kind()
    try:
        for make in makers:
            nodes.append(make())
            executor.add_node(nodes[-1])
        yield nodes
    finally:
        executor.shutdown()
        for node in nodes:
            node.destroy_node()
        rclpy.shutdown()


@contextmanager
def listening_node(
    name: str = "listener", namespace: str = "/salp", events: bool = True, make: Callable[..., Any] | None = None
) -> Iterator[Any]:
    """A node of this process, an ordinary one or what `make` makes; spin it with `spin_until`."""

    def made() -> Any:
        from rclpy.node import Node

        return (make or Node)(name, namespace=namespace)

    with spun(made, events=events) as (node,):
        yield node


def collect(node: Any, message_type: str, topic: str, qos: Any = 100_000) -> list[Any]:
    """A list that fills with the messages of a topic while the node is spun; a node that falls behind loses none."""
    from onboard_estimation.live.messages import interface_class

    messages: list[Any] = []
    node.create_subscription(interface_class(message_type), topic, messages.append, qos)
    return messages


def collect_transforms(node: Any) -> list[Any]:
    """Messages of `/tf`, as `collect`; none where ROS 2 has no tf, as wheels have not, and the nodes say so."""
    return collect(node, "tf2_msgs/msg/TFMessage", "/tf") if TF_IS_HERE else []


def spin_until(node: Any, condition: Callable[[], bool], timeout_s: float = LONGEST_WAIT_S) -> None:
    """Spin until the condition holds; fails after the timeout."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {timeout_s:g} s"
        node.executor.spin_once(timeout_sec=0.05)


def spin_while_it_comes(node: Any, messages: list[Any]) -> None:
    """Until nothing has come for a second: the last of them are in a queue when whoever sent them has ended."""
    count = -1
    while count != len(messages):
        count, end_s = len(messages), time.monotonic() + 1.0
        spin_until(node, lambda end_s=end_s: time.monotonic() > end_s)


def call(node: Any, service_type: str, service: str, **request: Any) -> Any:
    """Call a service; its response."""
    from onboard_estimation.live.messages import interface_class

    kind = interface_class(service_type)
    client = node.create_client(kind, service)
    spin_until(node, lambda: bool(client.service_is_ready()))
    future = client.call_async(kind.Request(**request))
    spin_until(node, future.done)
    node.destroy_client(client)
    return future.result()


def await_being_heard(node: Any, *owners: str) -> None:
    """Return once other nodes have found all subscriptions and publishers that this node has made.

    Until then a message is lost, whatever this side of the graph shows. Announcements come in their order, and those
    of the client that asks here are the last: a node that answers has found the others too.
    """
    for owner in owners:
        call(node, "rcl_interfaces/srv/GetParameters", f"{owner}/get_parameters")


def set_parameter(node: Any, owner: str, name: str, value: Any) -> Any:
    """Set a parameter of another node; the result."""
    from rclpy.parameter import Parameter

    message = Parameter(name, value=value).to_parameter_msg()
    response = call(node, "rcl_interfaces/srv/SetParameters", f"{owner}/set_parameters", parameters=[message])
    return response.results[0]


def wait_until(condition: Callable[[], bool], timeout_s: float = LONGEST_WAIT_S) -> None:
    """Sleep until the condition holds; fails after the timeout."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {timeout_s:g} s"
        time.sleep(0.02)
