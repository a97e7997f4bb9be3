"""Where feedback comes from: a group of modules, real or imitated, or a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drivers.hebi.commands import CommandForwarding
from drivers.hebi.configuration import HebiConfiguration
from drivers.hebi.feedback import Feedback, FeedbackQueue
from drivers.hebi.imitation import ImitatedModules
from drivers.hebi.log import coverage, read_feedback
from drivers.hebi.network import find_group
from onboard_estimation.measurement import Channel, Vector
from onboard_estimation.robots import Robot

_QUEUE = 1000
"""Feedbacks that may wait for the node: a second at the largest frequency."""


class Feed:
    """Gives feedback to the node.

    Attributes
    ----------
    queue
        What the library's thread left for the node.
    commands
        Takes commands; None: nobody does.
    channels
        What comes beside the feedback, by topic.
    summary
        A sentence on it.
    """

    def __init__(self, summary: str) -> None:
        self.summary = summary
        self.queue = FeedbackQueue(_QUEUE)
        self.commands: CommandForwarding | None = None
        self.channels: dict[str, Channel] = {}

    @property
    def is_over(self) -> bool:
        """Whether no more will come."""
        return False

    def start(self) -> None:
        """Feedback may come from now on."""

    def taken(self) -> list[Feedback]:
        """What has come since the last call."""
        return self.queue.taken()

    def beside(self) -> Sequence[tuple[int, Channel, Vector]]:
        """What else is due: stamp (ns since the epoch), channel, value."""
        return ()

    def close(self) -> None:
        """Nothing comes any more."""


class GroupFeed(Feed):
    """A group of HEBI's library: modules on the network, or imitated ones."""

    def __init__(self, configuration: HebiConfiguration, group: Any, imitated: ImitatedModules | None) -> None:
        super().__init__(f"{configuration.source}, asked {configuration.feedback_frequency_hz:g} times a second")
        self._group, self._frequency_hz, self._imitated = group, configuration.feedback_frequency_hz, imitated
        self.channels = imitated.channels if imitated is not None else {}
        self.commands = CommandForwarding(group, configuration.joints, configuration.largest_velocity_rad_s)
        group.feedback_frequency = 0.0  # until the node is there
        group.command_lifetime = configuration.command_lifetime_ms
        group.add_feedback_handler(self.queue)

    def start(self) -> None:
        """See `Feed`."""
        if self._imitated is not None:
            self._imitated.start()
        self._group.feedback_frequency = self._frequency_hz

    def beside(self) -> Sequence[tuple[int, Channel, Vector]]:
        """See `Feed`."""
        return self._imitated.due() if self._imitated is not None else ()

    def close(self) -> None:
        """See `Feed`."""
        self._group.feedback_frequency = 0.0
        self._group.clear_feedback_handlers()


class LogFeed(Feed):
    """A recorded log in real time, as if its modules were there now."""

    def __init__(self, path: Path, modules: int) -> None:
        super().__init__(str(path))
        self._log = read_feedback(path, modules)
        self._next = next(self._log, None)
        self._received_us: list[int] = []
        self._later_us = 0

    @property
    def is_over(self) -> bool:
        """See `Feed`."""
        return self._next is None

    def start(self) -> None:
        """See `Feed`."""
        if self._next is not None:
            self._later_us = time.time_ns() // 1000 - int(self._next.received_us.max())

    def taken(self) -> list[Feedback]:
        """See `Feed`."""
        now_us, found = time.time_ns() // 1000, []
        while self._next is not None and self._next.received_us.max() + self._later_us <= now_us:
            answered = self._next.received_us > 0
            found.append(self._next._replace(received_us=self._next.received_us + self._later_us * answered))
            self._received_us.append(int(self._next.received_us.max()))
            self._next = next(self._log, None)
        if self._next is None:
            self.summary = f"the log has ended: {coverage(self._received_us)}"
        return found


def feed_of(configuration: HebiConfiguration, robot: Robot[Any] | None, robot_configuration: Any) -> Feed:
    """That which the configuration asks for; UserError where it is not to be had."""
    if configuration.source == "log":
        return LogFeed(Path(configuration.log), len(configuration.names))
    if configuration.source == "network":
        return GroupFeed(configuration, find_group(configuration), None)
    imitated = ImitatedModules(configuration, robot, robot_configuration)
    return GroupFeed(configuration, imitated.group, imitated)
