"""Service servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy._service_end import ServiceEnd
from rclpy.exceptions import InvalidHandle


class Service(ServiceEnd):
    """Answers requests; made by `Node.create_service`."""

    def __init__(self, callback: Callable[..., Any], *shared: Any) -> None:
        super().__init__(*shared)
        self.callback = callback

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
        self._wire.reply(header, self._response.serialize(response))
