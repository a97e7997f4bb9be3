"""Start of every executable: makes its node or nodes and spins them until Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from onboard_estimation import ros2
from onboard_estimation.errors import EXIT_BAD_INPUT, UserError
from onboard_estimation.live.signals import Interrupts, heed_interrupts
from onboard_estimation.nodes.giving_up import leave_reason
from onboard_estimation.nodes.memory import release_libraries

EXECUTOR_VARIABLE = "ONBOARD_ESTIMATION_EXECUTOR"
"""`ordinary`: rclpy's single-threaded executor, where its events executor gives trouble or is to be compared with."""

_LOOK_S = 0.5


@dataclass(frozen=True)
class NodeExecutable:
    """An executable that runs one node: what a console script names. `composed` runs several of them in one process.

    Attributes
    ----------
    target
        `module:Class` of an rclpy node without arguments; imported when it starts.
    """

    target: str

    def __call__(self, arguments: list[str] | None = None) -> None:
        """Run the node; arguments as for `run`."""
        run(lambda: [self.target], arguments)


def run(targets: Callable[[], Sequence[str]], arguments: list[str] | None = None) -> None:
    """Make nodes and spin them; exits with 0 after Ctrl-C and 2, with one line, on bad input.

    Parameters
    ----------
    targets
        Gives those of `NodeExecutable`. What a source among the nodes measures reaches its estimator directly.
    arguments
        Of the command line, `--ros-args ...`; those of the process by default.
    """
    # The filters' matrices are small: threads of BLAS would only take cores from other nodes.
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    interrupts = heed_interrupts()
    signal.signal(signal.SIGTERM, interrupts)
    try:
        _spin(targets(), arguments, interrupts)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        leave_reason(str(error))
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:  # before there is a node
        pass


def _spin(targets: Sequence[str], arguments: list[str] | None, interrupts: Interrupts) -> None:
    ros2.require()
    import rclpy
    from rclpy._rclpy_pybind11 import RCLError
    from rclpy.executors import ExternalShutdownException
    from rclpy.logging import get_logger
    from rclpy.signals import SignalHandlerOptions
    from rclpy.task import Future

    from onboard_estimation.nodes.source import connect

    nodes: list[Any] = []
    try:
        # Its own handlers take the context away amid a callback, which then fails in many ways.
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except RCLError as error:  # a parameter file that is none, an unknown log level
        raise UserError(str(error).strip().splitlines()[0]) from error
    except KeyboardInterrupt:
        return
    try:
        executor = new_executor()
        _tell_of_compilation(get_logger("onboard_estimation").info)
        for target in targets:
            module, _, name = target.partition(":")
            nodes.append(_node_class(module, name)())
        connect(nodes)
        # What start-up made stays: the collector would look through it again and again, and stop the node meanwhile.
        # What a reading leaves behind goes without the collector, which need not look hundreds of times a second.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 50, 100)
        release_libraries()
        for node in nodes:
            executor.add_node(node)
        asked_to_end = Future()
        interrupts.ask = partial(asked_to_end.set_result, None)
        # Without a timeout the wheels' events executor waits for the end of time, which overflows: it takes all of a
        # core and lets no message in.
        while rclpy.ok() and not interrupts.came:
            executor.spin_until_future_complete(asked_to_end, _LOOK_S)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        # While a node is made, an interrupt amid C code comes out as any error.
        if not interrupts.came:
            raise
    finally:
        # A second Ctrl-C (a shell's, and that of `ros2 launch` on top) must not break the orderly end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


def new_executor() -> Any:
    """rclpy's events executor: to be woken costs half of what it does with the ordinary one."""
    from rclpy.executors import SingleThreadedExecutor

    if os.environ.get(EXECUTOR_VARIABLE) != "ordinary":
        with suppress(ImportError):  # Humble has none
            from rclpy.experimental import EventsExecutor

            return EventsExecutor()
    return SingleThreadedExecutor()


def _node_class(module: str, name: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise UserError(
            f"{name} cannot be imported: {error} ({place.filename}, line {place.lineno}); install what is missing into "
            f"this Python, {sys.executable}, or with ROS 2 as the package ros-<distribution>-<name>"
        ) from error


def _tell_of_compilation(tell: Callable[[str], object]) -> None:
    """Say so when a first kernel is compiled: until all are, for about a minute, nothing else is to be seen.

    Whether the cache's folder is empty does not tell: a start that was broken off leaves some kernels there.
    """
    from numba.core import event

    class Listener(event.Listener):
        announced = False

        def on_start(self, event: Any) -> None:
            if not self.announced:
                self.announced = True
                tell("compiling kernels, once, about a minute; `onboard-estimation warmup` does it beforehand")

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Listener())
