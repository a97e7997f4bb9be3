"""Where feedback comes from, and where commands go: a group of modules, real or imitated, or a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from drivers.hebi.configuration import HebiConfiguration
from drivers.hebi.feedback import Feedback, FeedbackQueue, find_group, hebi_library
from drivers.hebi.log import coverage, read_feedback
from onboard_estimation.measurement import Channel, Vector
from onboard_estimation.robots import Robot

_QUEUE = 1000
"""Feedbacks that may wait for the node: a second at the largest frequency."""
_IMITATION = "drivers.emulators.hebi"


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
    is_over
        Whether no more will come.
    """

    is_over = False

    def __init__(self, summary: str) -> None:
        self.summary = summary
        self.queue = FeedbackQueue(_QUEUE)
        self.commands: CommandForwarding | None = None
        self.channels: dict[str, Channel] = {}

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

    def __init__(self, configuration: HebiConfiguration, group: Any) -> None:
        super().__init__(f"{configuration.source}, asked {configuration.feedback_frequency_hz:g} times a second")
        self.group, self._frequency_hz = group, configuration.feedback_frequency_hz
        self.commands = CommandForwarding(group, configuration.joints, configuration.largest_velocity_rad_s)
        group.feedback_frequency = 0.0  # until the node is there
        group.command_lifetime = configuration.command_lifetime_ms
        group.add_feedback_handler(self.queue)

    def start(self) -> None:
        """See `Feed`."""
        self.group.feedback_frequency = self._frequency_hz

    def close(self) -> None:
        """See `Feed`."""
        self.group.feedback_frequency = 0.0
        self.group.clear_feedback_handlers()


class LogFeed(Feed):
    """A recorded log in real time, as if its modules were there now."""

    def __init__(self, path: Path, modules: int) -> None:
        super().__init__(str(path))
        self._log = read_feedback(path, modules)
        self._received_us: list[int] = []
        self._later_us = 0
        self._go_on()

    def _go_on(self) -> None:
        self._next = next(self._log, None)
        self.is_over = self._next is None

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
            self._go_on()
        if self.is_over:
            self.summary = f"the log has ended: {coverage(self._received_us)}"
        return found


def feed_of(configuration: HebiConfiguration, robot: Robot[Any] | None, robot_configuration: Any) -> Feed:
    """That which the configuration asks for; UserError where it is not to be had."""
    if configuration.source == "log":
        return LogFeed(Path(configuration.log), len(configuration.names))
    if configuration.source == "network":
        return GroupFeed(configuration, find_group(configuration))
    # By its name: a driver knows no emulator, and who asks for an imitation gets it.
    imitated: Feed = import_module(_IMITATION).ImitatedFeed(configuration, robot, robot_configuration)
    return imitated


class CommandForwarding:
    """Sends velocity commands to a group; what is no command for just its joints moves nothing.

    Each acts for the group's lifetime at most, which the modules see to themselves.

    Attributes
    ----------
    counts
        How many there were: forwarded, refused, and those that the library did not take.
    """

    def __init__(self, group: Any, joints: Sequence[str], largest_rad_s: float) -> None:
        self._group, self._joints, self._largest_rad_s = group, joints, largest_rad_s
        self._command = hebi_library().GroupCommand(len(joints))
        self.counts = {"commands_forwarded": 0, "commands_refused": 0, "commands_unsent": 0}

    def take(self, message: Any) -> str:
        """Why it was refused; empty where it was sent."""
        found, what, why = commanded_velocities(message, self._joints, self._largest_rad_s), "forwarded", ""
        if isinstance(found, str):
            what, why = "refused", found
        else:
            self._command.velocity = found
            if not self._group.send_command(self._command):
                what, why = "unsent", "the library did not send it"
        self.counts[f"commands_{what}"] += 1
        return why


def commanded_velocities(message: Any, joints: Sequence[str], largest_rad_s: float) -> Vector | str:
    """(N,) rad/s in the order of the joints, or why the message is refused.

    Parameters
    ----------
    message
        `sensor_msgs/JointState`: names and velocities, in any order.
    """
    names, velocities = list(message.name), np.array(message.velocity, dtype=np.float64)
    if sorted(names) != sorted(joints):
        return f"it is for the joints {', '.join(names) or 'none'}, not for {', '.join(joints)}"
    if len(velocities) != len(names):
        return f"it has {len(velocities)} velocities for {len(names)} joints"
    ordered = velocities[[names.index(joint) for joint in joints]]
    if not np.isfinite(ordered).all():
        return f"a velocity is not finite: {ordered.tolist()}"
    if np.abs(ordered).max() > largest_rad_s:
        return f"a velocity is beyond {largest_rad_s:g} rad/s: {ordered.tolist()}"
    return ordered
