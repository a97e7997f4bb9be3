"""Estimates as serialised messages: those of `EstimateMessages`, to the last bit, without a message object for each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from onboard_estimation.measurement import Estimate
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.message_templates import MessageTemplate


class SerializedEstimates:
    """Writes the messages of estimates; each topic's first one is made as a message object, the others over it.

    Parameters
    ----------
    serialize
        Bytes of a message: CDR, little-endian.
    """

    def __init__(self, messages: EstimateMessages, serialize: Callable[[Any], bytes]) -> None:
        self._messages, self._serialize = messages, serialize
        self._templates: dict[str, MessageTemplate] = {}

    def __call__(self, estimate: Estimate, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Topic and message of each of the topics `wanted`."""
        if not wanted:
            return
        for topic, _, values in self._messages.numbers(estimate.mean[None], estimate.covariance[None], wanted):
            template = self._templates.get(topic)
            if template is None:
                make = partial(self._messages.message, topic)
                template = self._templates[topic] = MessageTemplate(make, self._serialize, values.shape[1])
            yield topic, template.message(estimate.stamp_ns, values[0])
