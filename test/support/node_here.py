"""A node and a listener in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from live_graph import LONGEST_WAIT_S


class NodeHere:
    """Both are spun by `until`.

    Parameters
    ----------
    make
        The node, once rclpy is there.
    words
        ROS 2 parameters: `name:=value`.
    """

    def __init__(self, make: Callable[[], Any], *words: str) -> None:
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray

        rclpy.init(args=["--ros-args", *(word for one in words for word in ("-p", one))])
        try:
            self.node = make()
        except BaseException:
            rclpy.try_shutdown()  # a node that is refused must not leave its context to the tests that follow
            raise
        self.listener = rclpy.create_node("listener")
        self.executor = rclpy.executors.SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.executor.add_node(self.listener)
        self._reports = self.listen(DiagnosticArray, "/diagnostics")

    def listen(self, kind: Any, topic: str) -> list[Any]:
        heard: list[Any] = []
        self.listener.create_subscription(kind, topic, heard.append, 5000)
        return heard

    def until(self, true: Callable[[], object]) -> None:
        stop_s = time.monotonic() + LONGEST_WAIT_S
        while not true():
            assert time.monotonic() < stop_s, [one.message for one in self._reports[-1].status]
            self.executor.spin_once(timeout_sec=0.05)

    def until_said(self, words: str, part: str) -> None:
        """By the last report on that part."""
        self.until(lambda: words in self.state(part).message)

    def state(self, part: str) -> Any:
        status = self._reports[-1].status if self._reports else []
        return next((one for one in status if one.hardware_id == part), SimpleNamespace(message="", level=b""))

    def call(self, name: str) -> Any:
        from std_srvs.srv import Trigger

        client = self.listener.create_client(Trigger, name)
        self.until(client.service_is_ready)
        future = client.call_async(Trigger.Request())
        self.until(future.done)
        return future.result()

    def close(self) -> None:
        import rclpy

        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown()


@contextmanager
def nodes_here(make: Callable[[], Any]) -> Iterator[Callable[..., NodeHere]]:
    """Makes them, and ends them."""
    made: list[NodeHere] = []

    def running(*words: str) -> NodeHere:
        made.append(NodeHere(make, *words))
        return made[-1]

    yield running
    for one in made:
        one.close()
