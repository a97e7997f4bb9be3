"""Start and end of the executables `bag_player` and `recorder`: work in the main thread, the node spun beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from onboard_estimation.errors import EXIT_BAD_INPUT, UserError
from onboard_estimation.live.session import ros_context, spin_beside
from onboard_estimation.live.signals import StopRequest, stop_on_signal


def run_node(name: str, work: Callable[[Any, StopRequest], None], arguments: list[str] | None) -> None:
    """Make a node from the command line (`--ros-args ...`) and do the work until it is done or a stop is requested.

    Exits with 2 and one line where the input is bad; SIGINT and SIGTERM request a stop.
    """
    try:
        with stop_on_signal() as stop, ros_context(list(sys.argv[1:] if arguments is None else arguments)):
            from rclpy.node import Node

            node = Node(name)
            with spin_beside(node):
                work(node, stop)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
