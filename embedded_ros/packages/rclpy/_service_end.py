"""What the two ends of a service share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedded_ros.absent import AbsentMethod
from rclpy.qos import QoSProfile

if TYPE_CHECKING:
    from embedded_ros.left_out import LeftOut
    from embedded_ros.messages import ServiceSupport
    from embedded_ros.wire import ServiceClient, ServiceServer


class ServiceEnd:
    """Base of clients and services."""

    def __init__(
        self,
        wire: ServiceClient | ServiceServer,
        support: ServiceSupport,
        srv_type: Any,
        names: tuple[str, str],
        qos_profile: QoSProfile,
        callback_group: Any,
        left_out: LeftOut,
    ) -> None:
        self._wire: Any = wire
        self._request = support.request
        self._response = support.response
        self.srv_type = srv_type
        self.srv_name, self._full_name = names
        self.qos_profile = qos_profile
        self.callback_group = callback_group
        self._left_out = left_out
        # What an executor took and did not come to, for the next one.
        self._left: list[Any] = []
        self._destroyed = False

    def _take(self, limit: int) -> list[Any]:
        if self._left:
            left, self._left = self._left, []
            return left
        taken: list[Any] = self._wire.take(limit)
        return taken

    configure_introspection = AbsentMethod()

    @property
    def handle(self) -> Any:
        """The client or service itself."""
        return self

    @property
    def service_name(self) -> str:
        """Full name."""
        return self._full_name

    def destroy(self) -> None:
        """Ask or answer no more."""
        self._destroyed = True
        self._wire.close()
