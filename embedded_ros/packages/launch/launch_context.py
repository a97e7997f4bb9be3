"""What a launch knows while it runs: configurations, environment, event handlers, the events to come."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launch.event import Event
    from launch.event_handler import BaseEventHandler
    from launch.substitution import Substitution


class LaunchContext:
    """State that entities of a launch description read and change when they are visited.

    Attributes
    ----------
    launch_configurations
        Arguments and what was set beside them, by name.
    environment
        This process's own environment, which children inherit.
    """

    def __init__(self) -> None:
        self.launch_configurations: dict[str, Any] = {}
        self.is_shutdown = False
        self.events: deque[Event] = deque()
        self.event_handlers: deque[BaseEventHandler] = deque()
        self.service: Any = None
        self._process_count = 0
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._locals: dict[str, Any] = {}
        self._globals: dict[str, Any] = {}
        self._locals_stack: list[dict[str, Any]] = []
        self._configurations_stack: list[dict[str, Any]] = []
        self._environment_stack: list[dict[str, str]] = []
        self._environment_at_start = dict(os.environ)

    @property
    def environment(self) -> MutableMapping[str, str]:
        """Environment of this process and of the processes to come."""
        return os.environ

    def get_locals_as_dict(self) -> dict[str, Any]:
        """Values of the moment: `event`, `current_launch_file_path`, `current_launch_file_directory`."""
        return {**self._globals, **self._locals}

    def extend_locals(self, extensions: dict[str, Any]) -> None:
        """Set values until the event at hand is done."""
        self._locals.update(extensions)

    def extend_globals(self, extensions: dict[str, Any]) -> None:
        """Set values for good; locals of the same name come first."""
        self._globals.update(extensions)

    def push_locals(self) -> None:
        """Remember the locals of now."""
        self._locals_stack.append(dict(self._locals))

    def pop_locals(self) -> None:
        """Back to the locals remembered last."""
        self._locals = self._locals_stack.pop()

    def push_launch_configurations(self) -> None:
        """Remember the launch configurations of now; lists in them too, since parameters for all nodes are lists."""
        self._configurations_stack.append(_copied(self.launch_configurations))

    def pop_launch_configurations(self) -> None:
        """Back to the launch configurations remembered last."""
        self.launch_configurations = self._configurations_stack.pop()

    def push_environment(self) -> None:
        """Remember the environment of now."""
        self._environment_stack.append(dict(os.environ))

    def pop_environment(self) -> None:
        """Back to the environment remembered last."""
        _set_environment(self._environment_stack.pop())

    def reset_environment(self) -> None:
        """Back to the environment at the start."""
        _set_environment(self._environment_at_start)

    def write_temporary(self, prefix: str, text: str) -> Path:
        """Path of a new file with that text, which is there until the launch ends."""
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="launch_")
        number, path = tempfile.mkstemp(prefix=prefix, suffix=".yaml", dir=self._temporary.name, text=True)
        with open(number, "w", encoding="utf-8") as file:  # noqa: PTH123  (a descriptor)
            file.write(text)
        return Path(path)

    def restore(self) -> None:
        """Leave environment and temporary folder as they were, also where a fault kept a group from ending."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
        self._environment_stack.clear()
        self.reset_environment()

    def register_event_handler(self, event_handler: BaseEventHandler, append: bool = False) -> None:
        """Add a handler before all others, or after them."""
        if append:
            self.event_handlers.append(event_handler)
        else:
            self.event_handlers.appendleft(event_handler)

    def unregister_event_handler(self, event_handler: BaseEventHandler) -> None:
        """Take a handler away; ValueError where it is not registered."""
        self.event_handlers.remove(event_handler)

    def process_name(self, label: str) -> str:
        """Name of the next process: its label and a number that no other process of the launch has."""
        self._process_count += 1
        return f"{label}-{self._process_count}"

    def emit_event_sync(self, event: Event) -> None:
        """Put an event at the end of those to come."""
        self.events.append(event)

    def perform_substitution(self, substitution: Substitution) -> str:
        """Text of a substitution."""
        return substitution.perform(self)


def _copied(configurations: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value for name, value in configurations.items()}


def _set_environment(values: dict[str, str]) -> None:
    values = dict(values)
    os.environ.clear()
    os.environ.update(values)
