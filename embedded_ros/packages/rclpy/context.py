"""What one `rclpy.init` begins and one `rclpy.shutdown` ends."""

from __future__ import annotations

import atexit
import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rclpy import _arguments, _log_output
from rclpy._arguments import RosArguments
from rclpy._rclpy_pybind11 import UnknownROSArgsError

if TYPE_CHECKING:
    from embedded_ros.wire import Participant
    from rclpy.node import Node

# For signal handlers and the end of the process.
contexts: weakref.WeakSet[Context] = weakref.WeakSet()


class Context:
    """Arguments, nodes and the DDS participant that share one `init`; not to be used again after `shutdown`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._callbacks: list[Any] = []
        self._nodes: list[weakref.ReferenceType[Node]] = []
        self._executors: weakref.WeakSet[Any] = weakref.WeakSet()
        self._arguments: RosArguments | None = None
        self._domain_id: int | None = None
        self._participant: Participant | None = None
        self._valid = False
        self._cleaned = False

    @property
    def handle(self) -> Any:
        """Something once the context is initialised, None before."""
        return None if self._arguments is None else self

    def init(
        self, args: list[str] | None = None, *, initialize_logging: bool = True, domain_id: int | None = None
    ) -> None:
        """Read the arguments (None: those of the process).

        Raises
        ------
        RuntimeError
            The second call, a negative domain, or (its subclasses) arguments that cannot be read or are unknown.
        """
        with self._lock:
            if domain_id is not None and domain_id < 0:
                raise RuntimeError(f"Domain id ({domain_id}) should not be lower than zero.")
            if self._arguments is not None:
                raise RuntimeError("Context.init() must only be called once")
            arguments = _arguments.parse(sys.argv if args is None else args)
            if arguments.unknown:
                raise UnknownROSArgsError(f"Found unknown ROS arguments: {arguments.unknown}")
            self._arguments = arguments
            self._domain_id = domain_id
            if initialize_logging:
                _log_output.console = arguments.stdout_logs
                for name, level in arguments.log_levels:
                    _log_output.set_level(name or "", level)
            self._valid = True
            contexts.add(self)

    @property
    def arguments(self) -> RosArguments:
        """ROS arguments of the process or of `init`."""
        assert self._arguments is not None
        return self._arguments

    @property
    def participant(self) -> Participant:
        """The DDS participant, made when the first node needs it."""
        with self._lock:
            if self._participant is None:
                from embedded_ros.wire import Participant

                self._participant = Participant(self._domain_id)
            return self._participant

    def track_node(self, node: Node) -> None:
        """Have the node destroyed at shutdown."""
        with self._lock:
            self._nodes.append(weakref.ref(node))

    def untrack_node(self, node: Node) -> None:
        """The node is destroyed."""
        with self._lock:
            self._nodes = [reference for reference in self._nodes if reference() not in (node, None)]

    def ok(self) -> bool:
        """Whether it is initialised and not shut down."""
        return self._valid

    def _interrupt(self) -> None:
        """A signal came: no longer valid, executors wake; nodes are destroyed by those who made them."""
        self._valid = False
        for executor in list(self._executors):
            executor.wake()

    def _cleanup(self) -> None:
        self._valid = False
        self._cleaned = True
        for reference in list(self._nodes):
            node = reference()
            if node is not None:
                node.destroy_node()
        for executor in list(self._executors):
            executor.wake()
        callbacks, self._callbacks = self._callbacks, []
        for reference in callbacks:
            callback = reference() if isinstance(reference, weakref.WeakMethod) else reference
            if callback is not None:
                callback()
        self._close()

    def _close(self) -> None:
        for executor in list(self._executors):
            executor._release_waitset()
        participant, self._participant = self._participant, None
        if participant is not None:
            participant.close()

    def shutdown(self) -> None:
        """End it; RuntimeError if it never began or has ended before."""
        if self._arguments is None:
            raise RuntimeError("Context must be initialized before it can be shutdown")
        with self._lock:
            if self._cleaned or not self._valid:
                self._cleanup_once()
                raise RuntimeError("failed to shutdown: the context is already shut down")
            self._cleanup()

    def try_shutdown(self) -> None:
        """End it unless it never began or has ended before."""
        with self._lock:
            if self._arguments is not None:
                self._cleanup_once()

    def _cleanup_once(self) -> None:
        if not self._cleaned:
            self._cleanup()

    def on_shutdown(self, callback: Callable[[], None]) -> None:
        """Call back at shutdown; methods are held weakly."""
        if not callable(callback):
            raise TypeError(f"callback should be a callable, got {type(callback)}")
        with self._lock:
            if self._cleaned:
                callback()
            elif inspect.ismethod(callback):
                self._callbacks.append(weakref.WeakMethod(callback, self._forget_callback))
            else:
                self._callbacks.append(callback)

    def _forget_callback(self, reference: Any) -> None:
        if reference in self._callbacks:
            self._callbacks.remove(reference)


@atexit.register
def _leave_graph() -> None:
    """Tell the others at once that this process has gone, even if nobody called shutdown."""
    for context in list(contexts):
        context._valid = False
        context._close()
