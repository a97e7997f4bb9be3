"""Start of every executable: makes its node or nodes and spins them until Ctrl-C."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from onboard_estimation.base import ros2
from onboard_estimation.base.bounded_file import read_bounded
from onboard_estimation.base.errors import EXIT_BAD_INPUT, UserError
from onboard_estimation.base.kernel_cache import compilations
from onboard_estimation.base.parameter_file import sections_of_others
from onboard_estimation.live.session import initialise
from onboard_estimation.live.signals import Interrupts, heed_interrupts
from onboard_estimation.nodes.for_launch import REASON_VARIABLE, leave_reason

EXECUTOR_VARIABLE = "ONBOARD_ESTIMATION_EXECUTOR"
"""`ordinary`: rclpy's single-threaded executor, where its events executor gives trouble or is to be compared with."""

_LOOK_S = 0.5
_MIXED_LIST = re.compile(r": '(.*)'\. Error: Sequence should be of same type.* line_num (\d+)")
_DO_NOT_NEED = 4  # MADV_DONTNEED, in Linux on every processor but Alpha
_READ_ONLY = ("r--p", "r-xp")
_CHANGED = ("Anonymous", "Private_Dirty", "Shared_Dirty", "Swap")


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
    from rclpy.task import Future

    from onboard_estimation.nodes.pacing import connect

    nodes: list[Any] = []
    for word, file in pairwise(arguments or sys.argv):
        if word == "--params-file":
            read_bounded(Path(file), f"parameter file {file}")  # ROS itself waits for ever at a pipe
    try:
        initialise(arguments)
    except RCLError as error:  # a parameter file that is none, an unknown log level
        raise UserError(_in_words(str(error).strip().splitlines()[0])) from error
    except KeyboardInterrupt:
        return
    try:
        executor = new_executor()
        # What a reading leaves behind goes without the collector, which need not look hundreds of times a second; nor
        # does it find anything while kernels are compiled.
        gc.set_threshold(20_000, 50, 100)
        listening = compilations(_announcing(get_logger("onboard_estimation").info))
        listening.__enter__()  # until this returns
        for target in targets:
            module, _, name = target.partition(":")
            nodes.append(_node_class(module, name)())
        _tell_of_other_sections(sys.argv if arguments is None else arguments, nodes)
        connect(nodes)
        # What start-up made stays: the collector would look through it again and again, and stop the node meanwhile.
        gc.collect()
        gc.freeze()
        release_libraries()
        for node in nodes:
            executor.add_node(node)
        asked_to_end = Future()
        interrupts.ask = partial(asked_to_end.set_result, None)
        # Without a timeout the wheels' events executor waits for the end of time, which overflows: it takes all of a
        # core and lets no message in.
        while rclpy.ok() and not interrupts.arrivals_s:
            executor.spin_until_future_complete(asked_to_end, _LOOK_S)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        # While a node is made, an interrupt amid C code comes out as any error.
        if not interrupts.arrivals_s:
            raise
    finally:
        # A second Ctrl-C (a shell's, and that of `ros2 launch` on top) must not break the orderly end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()


def _in_words(error: str) -> str:
    """What rcl says, and in words of ours where it does not say what is to be done: of a list of several kinds."""
    mixed = _MIXED_LIST.search(error)
    if mixed is None:
        return error
    return (
        f"{mixed[1]}, line {mixed[2]}: ROS 2 takes lists of one kind: put each text in quotes (y, n, on, off, yes and "
        "no are truth values without), and write each number with a point"
    )


def _tell_of_other_sections(arguments: Sequence[str], nodes: Sequence[Any]) -> None:
    """Say whom parameter files are for beside these nodes; in a launch, which knows all nodes, the launch does."""
    own = [node.get_fully_qualified_name() for node in nodes]
    for word, file in [] if REASON_VARIABLE in os.environ else pairwise(arguments):
        if word == "--params-file" and (others := sections_of_others(Path(file), own)):
            nodes[0].get_logger().warning(f"{file} has parameters for {', '.join(others)}; here runs {', '.join(own)}")


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


def _announcing(tell: Callable[[str], object]) -> Callable[[str], None]:
    """Say so when a first kernel is compiled: until all are, for about a minute, nothing else is to be seen.

    Whether the cache's folder is empty does not tell: a start that was broken off leaves some kernels there.
    """
    kernels: list[str] = []

    def compiling(kernel: str) -> None:
        if not kernels:
            tell("compiling kernels, once, about a minute; `onboard-estimation warmup` does it beforehand")
        kernels.append(kernel)

    return compiling


def release_libraries() -> None:
    """Give the pages of libraries back to the system, which reads them from their files where they are needed again.

    Half of what a node holds resident it needs to start and not to run: LLVM links the kernels when a node starts, and
    is not called again; of Fast DDS, NumPy and Python much is used once too. Those pages, 110 MB that were read from
    the libraries' files by then, would be counted as the node's as long as it runs, and be the last that the system
    drops when memory is short. Given back, they are parts of files that were read: they go first, and what is called
    again, 7 MB, comes back at once.

    Only what is mapped read-only and is as in the file: what the loader or a debugger has changed stays. Does nothing
    where the system is not Linux or does not tell.
    """
    if sys.platform != "linux":
        return
    try:
        with Path("/proc/self/smaps").open(encoding="utf-8", errors="replace") as lines:
            ranges = list(unchanged_ranges(lines))
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError, ValueError):
        return
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, length in ranges:
        advise(start, length, _DO_NOT_NEED)


def unchanged_ranges(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Address and length of what is mapped read-only from files and not changed, by lines of `smaps`."""
    current: tuple[int, int] | None = None
    known: set[str] = set()
    for line in lines:
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):  # a new mapping: range, rights, offset, device, inode, file
            if current is not None and known.issuperset(_CHANGED):
                yield current
            current, known = None, set()
            if len(rest) == 5 and rest[0] in _READ_ONLY and rest[4].startswith("/"):
                start, end = (int(word, 16) for word in first.split("-"))
                current = (start, end - start)
        elif current is not None and first[:-1] in _CHANGED:
            known.add(first[:-1])
            if rest[0] != "0":
                current = None
    if current is not None and known.issuperset(_CHANGED):
        yield current
