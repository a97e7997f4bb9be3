"""Velocity commands from a topic to the modules: what is no command for just these joints moves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drivers.hebi.library import hebi_library
from onboard_estimation.measurement import Vector


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


class CommandForwarding:
    """Sends commands to a group; each acts for the group's lifetime at most, which the modules see to themselves.

    Attributes
    ----------
    forwarded, refused, unsent
        How many there were; unsent ones the library did not take.
    """

    def __init__(self, group: Any, joints: Sequence[str], largest_rad_s: float) -> None:
        self._group, self._joints, self._largest_rad_s = group, joints, largest_rad_s
        self._command = hebi_library().GroupCommand(len(joints))
        self.forwarded = self.refused = self.unsent = 0

    def take(self, message: Any) -> str:
        """Why it was refused; empty where it was sent."""
        found = commanded_velocities(message, self._joints, self._largest_rad_s)
        if isinstance(found, str):
            self.refused += 1
            return found
        self._command.velocity = found
        if not self._group.send_command(self._command):
            self.unsent += 1
            return "the library did not send it"
        self.forwarded += 1
        return ""
