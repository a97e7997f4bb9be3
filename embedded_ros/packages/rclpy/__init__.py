"""rclpy's API, as of ROS 2 Jazzy, over CycloneDDS: for machines without ROS 2.

A subset. What it leaves out (actions, lifecycle nodes, own waitables, service introspection, log files) says so with a
NotImplementedError; for names and modules that are imported it is an ImportError as well. Beyond rclpy, messages of
several subscriptions that are ready at once are dispatched in the order in which they were sent; see
`rclpy.executors`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rclpy.context import Context
from rclpy.signals import SignalHandlerOptions, install_signal_handlers, uninstall_signal_handlers
from rclpy.utilities import get_default_context, get_rmw_implementation_identifier, ok
from rclpy.utilities import shutdown as _shutdown
from rclpy.utilities import try_shutdown as _try_shutdown

if TYPE_CHECKING:
    from rclpy.executors import Executor
    from rclpy.node import Node
    from rclpy.task import Future

__all__ = [
    "Context",
    "SignalHandlerOptions",
    "create_node",
    "get_default_context",
    "get_global_executor",
    "get_rmw_implementation_identifier",
    "init",
    "ok",
    "shutdown",
    "spin",
    "spin_once",
    "spin_until_future_complete",
    "try_shutdown",
]


def init(
    *,
    args: list[str] | None = None,
    context: Context | None = None,
    domain_id: int | None = None,
    signal_handler_options: SignalHandlerOptions | None = None,
) -> None:
    """Begin: read the arguments (None: those of the process), take care of signals (None: for the default context).

    Raises
    ------
    RuntimeError
        The context is initialised already, or an argument cannot be read or is unknown.
    """
    default = get_default_context()
    context = default if context is None else context
    if signal_handler_options is None:
        signal_handler_options = SignalHandlerOptions.ALL if context is default else SignalHandlerOptions.NO
    context.init(args, domain_id=domain_id)
    install_signal_handlers(signal_handler_options)


def shutdown(*, context: Context | None = None, uninstall_handlers: bool | None = None) -> None:
    """End the context and its nodes; RuntimeError if it is not running."""
    uninstall = _has_signals(context) if uninstall_handlers is None else uninstall_handlers
    _shutdown(context=context)
    if uninstall:
        uninstall_signal_handlers()


def try_shutdown(*, context: Context | None = None) -> None:
    """End the context and its nodes if it is running."""
    uninstall = _has_signals(context)
    _try_shutdown(context=context)
    if uninstall:
        uninstall_signal_handlers()


def _has_signals(context: Context | None) -> bool:
    return context is None or context is get_default_context()


def __getattr__(name: str) -> Any:
    # Not imported above: they need messages, and a program may want to look at its arguments only.
    if name == "Parameter":
        from rclpy.parameter import Parameter

        return Parameter
    if name == "Future":
        from rclpy.task import Future

        return Future
    # Nor these: with ROS 2 a first node has brought them all.
    if not name.startswith("_") and find_spec(f"rclpy.{name}") is not None:
        return import_module(f"rclpy.{name}")
    raise AttributeError(f"module 'rclpy' has no attribute '{name}'")


_global_executor: Executor | None = None


def get_global_executor() -> Executor:
    """Executor of the functions below where none is given."""
    global _global_executor
    if _global_executor is None:
        from rclpy.executors import SingleThreadedExecutor

        executor = _global_executor = SingleThreadedExecutor()

        def forget() -> None:
            global _global_executor
            executor.shutdown(timeout_sec=0.0)
            _global_executor = None

        get_default_context().on_shutdown(forget)
    return _global_executor


def create_node(node_name: str, **options: Any) -> Node:
    """A node; options as those of `rclpy.node.Node`."""
    from rclpy.node import Node

    return Node(node_name, **options)


def spin_once(node: Node, *, executor: Executor | None = None, timeout_sec: float | None = None) -> None:
    """Run one callback, or wait for one until the timeout; None or negative: for ever."""
    executor = get_global_executor() if executor is None else executor
    try:
        executor.add_node(node)
        executor.spin_once(timeout_sec=timeout_sec)
    finally:
        executor.remove_node(node)


def spin(node: Node, executor: Executor | None = None) -> None:
    """Run callbacks until the context is shut down.

    Raises
    ------
    ExternalShutdownException
        It was shut down by SIGTERM or from another thread.
    """
    executor = get_global_executor() if executor is None else executor
    try:
        executor.add_node(node)
        while executor.context.ok():
            executor.spin_once()
    finally:
        executor.remove_node(node)


def spin_until_future_complete(
    node: Node, future: Future, executor: Executor | None = None, timeout_sec: float | None = None
) -> None:
    """Run callbacks until the future is done, the timeout (None or negative: none) or shutdown."""
    executor = get_global_executor() if executor is None else executor
    added = False
    try:
        added = executor.add_node(node)
        executor.spin_until_future_complete(future, timeout_sec)
    finally:
        if added:
            executor.remove_node(node)
