"""Service servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rclpy.exceptions import InvalidHandle
from rclpy.qos import QoSProfile

if TYPE_CHECKING:
    from embedded_ros.messages import MessageSupport
    from embedded_ros.wire import ServiceServer
    from rclpy._node_core import LeftOut


class Service:
    """Answers requests; made by `Node.create_service`."""

    def __init__(self, server: ServiceServer, request: MessageSupport, response: MessageSupport, srv_type: Any,
                 srv_name: str, full_name: str, callback: Callable[..., Any], callback_group: Any,
                 qos_profile: QoSProfile, left_out: LeftOut) -> None:  # fmt: skip
        self._server = server
        self._request = request
        self._response = response
        self.srv_type = srv_type
        self.srv_name = srv_name
        self._full_name = full_name
        self.callback = callback
        self.callback_group = callback_group
        self.qos_profile = qos_profile
        self._left_out = left_out
        # What an executor took and did not come to, for the next one.
        self._left: list[Any] = []
        self._destroyed = False

    def _take(self, limit: int) -> list[Any]:
        if self._left:
            left, self._left = self._left, []
            return left
        return self._server.take(limit)

    def _run(self, taken: tuple[Any, bytes]) -> Any:
        """Answer one request; a coroutine where the callback is one."""
        request_id, payload = taken
        try:
            request = self._request.deserialize(payload)
        except ValueError as error:
            self._left_out(error)
            return None
        response = self.callback(request, self.srv_type.Response())
        if hasattr(response, "__await__"):
            return self._answer_later(response, request_id)
        self.send_response(response, request_id)
        return None

    async def _answer_later(self, response: Any, request_id: Any) -> None:
        self.send_response(await response, request_id)

    def send_response(self, response: Any, header: Any) -> None:
        """Answer the request that `header` stands for; TypeError if it is no response of this service."""
        if not isinstance(response, self.srv_type.Response):
            raise TypeError(f"{self._full_name} has to answer with {self.srv_type.Response}, not {type(response)}")
        if self._destroyed:
            raise InvalidHandle(f"the service {self._full_name} is destroyed")
        self._server.reply(header, self._response.serialize(response))

    def configure_introspection(self, *args: Any, **kwargs: Any) -> None:
        """Not supported."""
        raise NotImplementedError("rclpy.service.Service.configure_introspection()")

    @property
    def handle(self) -> Service:
        """The service itself."""
        return self

    @property
    def service_name(self) -> str:
        """Full name."""
        return self._full_name

    def destroy(self) -> None:
        """Answer no more."""
        self._destroyed = True
        self._server.close()
