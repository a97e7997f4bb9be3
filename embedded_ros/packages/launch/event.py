"""Base of events."""

from __future__ import annotations


class Event:
    """Something that happens while a launch runs."""

    name = "launch.Event"
