"""Service clients."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from rclpy.exceptions import InvalidHandle
from rclpy.qos import QoSProfile
from rclpy.task import Future

if TYPE_CHECKING:
    from embedded_ros.messages import MessageSupport
    from embedded_ros.wire import ServiceClient
    from rclpy._node_core import LeftOut

_LOOK_AGAIN_S = 0.02


class Client:
    """Asks a service; made by `Node.create_client`."""

    def __init__(self, context: Any, client: ServiceClient, request: MessageSupport, response: MessageSupport,
                 srv_type: Any, srv_name: str, full_name: str, qos_profile: QoSProfile, callback_group: Any,
                 left_out: LeftOut) -> None:  # fmt: skip
        self.context = context
        self._client = client
        self._request = request
        self._response = response
        self.srv_type = srv_type
        self.srv_name = srv_name
        self._full_name = full_name
        self.qos_profile = qos_profile
        self.callback_group = callback_group
        self._left_out = left_out
        self._node: Any = None  # set by the node
        self._pending_requests: dict[int, Future] = {}
        self._lock = threading.Lock()
        # What an executor took and did not come to, for the next one.
        self._left: list[Any] = []
        self._destroyed = False

    def call_async(self, request: Any) -> Future:
        """Ask; the future is done when the answer is there. TypeError if it is no request of this service."""
        if not isinstance(request, self.srv_type.Request):
            raise TypeError(f"{self._full_name} takes {self.srv_type.Request}, not {type(request)}")
        if self._destroyed:
            raise InvalidHandle(f"the client of {self._full_name} is destroyed")
        future = Future()
        # Under the lock, so that the answer finds its future however quickly it comes.
        with self._lock:
            self._pending_requests[self._client.call(self._request.serialize(request))] = future
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

    def get_pending_request(self, sequence_number: int) -> Future:
        """Future of a request without an answer; KeyError if there is none."""
        with self._lock:
            return self._pending_requests[sequence_number]

    def remove_pending_request(self, future: Future) -> None:
        """No longer wait for an answer."""
        with self._lock:
            for sequence, pending in self._pending_requests.items():
                if pending is future:
                    del self._pending_requests[sequence]
                    break

    def _take(self, limit: int) -> list[Any]:
        if self._left:
            left, self._left = self._left, []
            return left
        return self._client.take(limit)

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
        return self._client.is_ready()

    def wait_for_service(self, timeout_sec: float | None = None) -> bool:
        """Wait for a server; False if there is none after the timeout, or at shutdown."""
        end_s = math.inf if timeout_sec is None else time.monotonic() + timeout_sec
        while not self.service_is_ready():
            left_s = end_s - time.monotonic()
            if left_s <= 0.0 or not self.context.ok():
                return False
            time.sleep(min(left_s, _LOOK_AGAIN_S))
        return True

    def configure_introspection(self, *args: Any, **kwargs: Any) -> None:
        """Not supported."""
        raise NotImplementedError("rclpy.client.Client.configure_introspection()")

    @property
    def handle(self) -> Client:
        """The client itself."""
        return self

    @property
    def service_name(self) -> str:
        """Full name."""
        return self._full_name

    def destroy(self) -> None:
        """Ask no more."""
        self._destroyed = True
        self._client.close()
