"""Measurements as serialised messages: those of `to_message`, to the last bit, without a message object for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Channel, Vector
from onboard_estimation.ros.estimates import New
from onboard_estimation.ros.message_templates import MessageTemplate
from onboard_estimation.ros.sensor_messages import to_message

_MOST_TEMPLATES = 8


class SerializedSensor:
    """Writes the messages of one channel, for what publishes them: a simulator, a driver.

    Parameters
    ----------
    new, frame_prefix
        As for `to_message`.
    serialize
        Bytes of a message: CDR, little-endian.
    complete
        Writes what a measurement does not say into a message: covariances.
    """

    def __init__(
        self,
        channel: Channel,
        new: New,
        serialize: Callable[[Any], bytes],
        frame_prefix: str = "",
        complete: Callable[[Any], object] = lambda message: None,
    ) -> None:
        self._channel, self._new, self._serialize, self._prefix = channel, new, serialize, frame_prefix
        self._complete = complete
        self._templates: dict[bytes, MessageTemplate] = {}  # by which elements are there

    def __call__(self, stamp_ns: int, value: Vector) -> bytes:
        """A message.

        Parameters
        ----------
        stamp_ns
            Nanoseconds since the epoch.
        value
            (d,) as `Channel` describes it; NaN where it was not measured.
        """
        measured = ~np.isnan(value)
        key = measured.tobytes()
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) == _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = self._template(measured)
        return template.message(stamp_ns, value)

    def _template(self, measured: NDArray[np.bool_]) -> MessageTemplate:
        def make(stamp_ns: int, value: Vector) -> Any:
            message = to_message(self._new, self._channel, stamp_ns, value, self._prefix)
            self._complete(message)
            return message

        return MessageTemplate(make, self._serialize, len(measured), measured)
