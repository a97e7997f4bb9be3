"""Which names tools do not show by default."""

from __future__ import annotations


def topic_or_service_is_hidden(name: str) -> bool:
    """Whether a part of the name begins with an underscore."""
    return any(part.startswith("_") for part in name.split("/") if part)
