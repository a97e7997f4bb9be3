"""Messages as bytes (CDR) and back."""

from __future__ import annotations

from typing import Any


def serialize_message(message: Any) -> bytes:
    """CDR of a message, with its header of four bytes."""
    from embedded_ros import messages

    return messages.support(type(message)).serialize(message)


def deserialize_message(serialized_message: bytes, message_type: Any) -> Any:
    """Message of a type from its CDR; ValueError if it is malformed."""
    from embedded_ros import messages

    return messages.support(message_type).deserialize(serialized_message)
