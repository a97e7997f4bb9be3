"""A hidden rclpy node for a command, from start to end, and where in the world of DDS domains it stands."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from onboard_estimation.base import ros2
from onboard_estimation.base.errors import EXIT_BAD_INPUT, UserError
from onboard_estimation.live.signals import StopRequest, stop_on_signal

_JOIN_S = 2.0


@contextmanager
def graph_node(name: str, **options: Any) -> Iterator[Any]:
    """A node of this process, spun in a thread of its own until the block is left. Ctrl-C stays KeyboardInterrupt.

    Parameters
    ----------
    name
        Of the node; hidden (`_name_<process id>`), as the commands of `ros2` name theirs.

    Raises
    ------
    UserError
        ROS 2 is not here, or the domain cannot be joined.
    """
    hidden = {"start_parameter_services": False, "enable_rosout": False, **options}
    with spun_node(f"_{name}_{os.getpid()}", None, **hidden) as node:
        yield node


@contextmanager
def spun_node(name: str, arguments: list[str] | None, **options: Any) -> Iterator[Any]:
    """One that is not hidden, with arguments of a command line: `--ros-args ...`. Raises as `graph_node` does."""
    with ros_context(arguments):
        from onboard_estimation.live.read_out import QuietNode

        node = QuietNode(name, **options)
        with spin_beside(node):
            yield node


@contextmanager
def spin_beside(node: Any) -> Iterator[None]:
    """Spin a node in a thread of its own until the block is left, then destroy it.

    A callback that fails ends the block as Ctrl-C does, and then with a UserError.
    """
    from rclpy.executors import SingleThreadedExecutor

    executor, failures = SingleThreadedExecutor(), list[Exception]()
    executor.add_node(node)
    thread = threading.Thread(target=_spin, args=(executor, failures), name="executor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        executor.shutdown(timeout_sec=_JOIN_S)
        thread.join(_JOIN_S)
        node.destroy_node()
        for error in failures:
            raise UserError(f"a callback failed, which ended this: {error!r}") from error


@contextmanager
def ros_context(arguments: list[str] | None = None) -> Iterator[None]:
    """rclpy, initialised and shut down again; signals stay Python's. Raises as `graph_node` does."""
    ros2.require()
    import rclpy

    domain = domain_id()
    try:
        initialise(arguments or [])
    except Exception as error:  # each RMW has errors of its own
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(f"cannot join domain {domain}: {reason}") from error
    try:
        yield
    finally:
        rclpy.try_shutdown()


def initialise(arguments: list[str] | None) -> None:
    """rclpy, with no handlers of signals: its own take the context away amid a callback, which then fails in many ways.

    A log file that cannot be written is done without, which is said. Arguments None are those of the process.
    """
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    words = list(sys.argv if arguments is None else arguments)
    home = os.environ.get("ROS_HOME") or "~/.ros"
    folder = Path(os.environ.get("ROS_LOG_DIR") or f"{home}/log").expanduser()  # as rcl_logging has it
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        print(f"no log file in {folder}: {error.strerror}; all else goes on", file=sys.stderr)
        words += ["--ros-args", "--disable-external-lib-logs"]
    rclpy.init(args=words, signal_handler_options=SignalHandlerOptions.NO)


def domain_id() -> int:
    """From ROS_DOMAIN_ID, 0 where it is not set.

    Raises
    ------
    UserError
        It is no number from 0 to 232.
    """
    text = os.environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not (text.isascii() and text.isdigit() and int(text) <= 232):
        raise UserError(f"ROS_DOMAIN_ID={text[:40]}: must be a whole number from 0 to 232 (101 at most on Linux)")
    return int(text)


def discovery_range() -> str:
    """LOCALHOST, SUBNET or OFF; where nothing is set, nodes of this project take LOCALHOST."""
    ros2.stay_on_this_machine()
    text = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "").strip().upper()
    if os.environ.get("ROS_LOCALHOST_ONLY", "").strip() == "1":
        return "LOCALHOST"
    return text or "SUBNET"


def place() -> str:
    """`domain 0, this machine only`: where a search looked, for messages that say that nothing was found."""
    reach = {
        "LOCALHOST": "this machine only",
        "SUBNET": "this machine and its subnet",
        "OFF": "discovery is off",
    }.get(discovery_range(), discovery_range())
    peers = os.environ.get("ROS_STATIC_PEERS", "").strip()
    return f"domain {domain_id()}, {reach}" + (f", and peers {peers}" if peers else "")


def run_node(name: str, work: Callable[[Any, StopRequest], None], arguments: list[str] | None) -> None:
    """Make a node from the command line (`--ros-args ...`) and do the work until it is done or a stop is requested.

    Exits with 2 and one line where the input is bad; SIGINT and SIGTERM request a stop.
    """
    try:
        with stop_on_signal() as stop, spun_node(name, sys.argv[1:] if arguments is None else arguments) as node:
            work(node, stop)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


def parameter(node: Any, name: str, default: Any) -> Any:
    """A parameter of a node, declared: of the type of its default; of texts, those that are not empty."""
    if isinstance(default, tuple):
        return tuple(one for one in node.declare_parameter(name, list(default) or [""]).value if one)
    return type(default)(node.declare_parameter(name, default).value)


def port_is_free(port: int) -> bool:
    """Whether nobody on this machine listens to a UDP port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def _spin(executor: Any, failures: list[Exception]) -> None:
    from rclpy.exceptions import InvalidHandle
    from rclpy.executors import ExternalShutdownException

    try:
        while True:
            with suppress(InvalidHandle):  # of what another thread has destroyed before it was waited for
                executor.spin()
                return
    except ExternalShutdownException:
        pass
    except Exception as error:
        failures.append(error)
        os.kill(os.getpid(), signal.SIGINT)
        raise
