"""Service clients."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from rclpy._service_end import ServiceEnd
from rclpy.exceptions import InvalidHandle
from rclpy.task import Future

_LOOK_AGAIN_S = 0.02


class Client(ServiceEnd):
    """Asks a service; made by `Node.create_client`."""

    def __init__(self, context: Any, *shared: Any) -> None:
        super().__init__(*shared)
        self.context = context
        self._node: Any = None  # set by the node
        self._pending_requests: dict[int, Future] = {}
        self._lock = threading.Lock()

    def call_async(self, request: Any) -> Future:
        """Ask; the future is done when the answer is there. TypeError if it is no request of this service."""
        if not isinstance(request, self.srv_type.Request):
            raise TypeError(f"{self._full_name} takes {self.srv_type.Request}, not {type(request)}")
        if self._destroyed:
            raise InvalidHandle(f"the client of {self._full_name} is destroyed")
        future = Future()
        # Under the lock, so that the answer finds its future however quickly it comes.
        with self._lock:
            self._pending_requests[self._wire.call(self._request.serialize(request))] = future
        future.add_done_callback(self.remove_pending_request)
        return future

    def call(self, request: Any, timeout_sec: float | None = None) -> Any:
        """Ask and wait for the answer, None after the timeout; another thread has to spin."""
        future = self.call_async(request)
        answered = threading.Event()
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(timeout_sec):
            self.remove_pending_request(future)
        return future.result()

    def remove_pending_request(self, future: Future) -> None:
        """No longer wait for an answer."""
        with self._lock:
            for sequence, pending in self._pending_requests.items():
                if pending is future:
                    del self._pending_requests[sequence]
                    break

    def _run(self, taken: tuple[int, bytes]) -> None:
        sequence, payload = taken
        with self._lock:
            future = self._pending_requests.get(sequence)
        if future is None:
            return
        future._set_executor(self._node.executor)
        try:
            future.set_result(self._response.deserialize(payload))
        except ValueError as error:
            self._left_out(error)
            future.set_exception(error)

    def service_is_ready(self) -> bool:
        """Whether a server is there."""
        return bool(self._wire.is_ready())

    def wait_for_service(self, timeout_sec: float | None = None) -> bool:
        """Wait for a server; False if there is none after the timeout, or at shutdown."""
        end_s = math.inf if timeout_sec is None else time.monotonic() + timeout_sec
        while not self.service_is_ready():
            left_s = end_s - time.monotonic()
            if left_s <= 0.0 or not self.context.ok():
                return False
            time.sleep(min(left_s, _LOOK_AGAIN_S))
        return True
