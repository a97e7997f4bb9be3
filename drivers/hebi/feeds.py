"""Parameters of the HEBI node, and where feedback comes from: a group of HEBI's library, real or imitated."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drivers.hebi.library import Feedback, copied, hebi_library
from onboard_estimation.base.configuration import bounded, non_negative, parameter, topic_name_faults
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Vector
from onboard_estimation.base.series import TRUTH_TOPICS
from onboard_estimation.ros.transforms import AUTOMATIC

# Parameters of the HEBI node.

LARGEST_FREQUENCY_HZ = 1000.0
"""Beyond it the library asks modules without a pause, and its thread takes a core."""


@dataclass(frozen=True)
class HebiConfiguration:
    """Modules, what they are called on topics, rates, and what is imitated where there are none."""

    source: str = parameter(
        "network",
        "modules on the network, or an imitation of them by HEBI's library",
        choices=("network", "imitation"),
    )
    families: tuple[str, ...] = parameter(("HEBI",), "of the modules: one for all of them, or one for each")
    names: tuple[str, ...] = parameter((), "of the modules, as HEBI Scope shows them, in order")
    imu_names: tuple[str, ...] = parameter(
        (), "theirs on topics, as in imu/<name>/data_raw; empty: those of the modules"
    )
    joint_names: tuple[str, ...] = parameter((), "theirs in joint states and commands; empty: those of the IMUs")
    feedback_frequency_hz: float = bounded(200.0, 1.0, LARGEST_FREQUENCY_HZ, "how often modules are asked", "Hz")
    command_lifetime_ms: int = bounded(
        250, 1, 10_000, "a command acts no longer without the next one: the module stops", "ms"
    )
    command_topic: str = parameter("actuators/command", 'velocities to be forwarded (JointState); "": none')
    largest_velocity_rad_s: float = parameter(
        50.0, "commands beyond it are refused", unit="rad/s", exclusive_minimum=0.0, maximum=1000.0
    )
    joint_states_topic: str = parameter("joint_states", 'position, velocity and effort of all modules; "": none')
    lookup_timeout_s: float = bounded(5.0, 0.1, 60.0, "for so long modules are looked for at start", "s")
    silent_s: float = bounded(0.5, 0.05, 60.0, "a module without fresh feedback for so long is said to be silent", "s")
    latency_s: float = bounded(
        0.0, 0.0, 0.1, "least time from a module's stamp to the arrival; one way does not tell", "s"
    )
    gyro_variance: float = non_negative(0.0, "of each axis; 0: not known", "rad^2/s^2")
    accelerometer_variance: float = non_negative(0.0, "of each axis; 0: not known", "m^2/s^4")
    orientation_variance: float = non_negative(0.0, "about each axis; 0: not known", "rad^2")
    frame_prefix: str = parameter(AUTOMATIC, 'before the frames of sensors; "auto": the node\'s namespace')
    diagnostics_period_s: float = bounded(1.0, 0.1, 60.0, "time between two reports on /diagnostics", "s")
    robot: str = parameter("", 'robot of the suite that is imitated, whose parameters come along; "": modules at rest')
    scenario: str = parameter("", 'imitation: what is simulated; "": the robot\'s first')
    variant: str = parameter("", 'imitation: gait, or whatever the robot calls its variants; "": the first')
    seed: int = parameter(0, "imitation: of all noise", minimum=0)
    publish_truth: bool = parameter(True, "imitation: publish ground_truth/<body>/pose of the simulated robot")
    truth_topics: str = parameter(TRUTH_TOPICS, "imitation: in the place of ground_truth, as of the simulator")

    @property
    def imus(self) -> tuple[str, ...]:
        """Name of each module's IMU."""
        return self.imu_names or self.names

    @property
    def joints(self) -> tuple[str, ...]:
        """Name of each module's joint."""
        return self.joint_names or self.imus

    @property
    def modules(self) -> list[tuple[str, str]]:
        """Family and name of each."""
        families = self.families * len(self.names) if len(self.families) == 1 else self.families
        return list(zip(families, self.names, strict=False))

    def faults(self) -> Iterable[str]:
        """What does not fit together."""
        count = len(self.names)
        if not count:  # with which the library would end the process
            yield "names: [], allowed: at least one module"
        if len(self.families) not in (1, count):
            yield f"families: {len(self.families)} for {count} modules, allowed: one for all, or one for each"
        for name, given in (("imu_names", self.imus), ("joint_names", self.joints)):
            if len(given) != count:
                yield f"{name}: {len(given)} for {count} modules"
            yield from topic_name_faults(name, given)
        if len(set(self.modules)) < count:
            yield f"names: {', '.join(self.names)}, allowed: each module once"
        if any(not name for name in (*self.names, *self.families)):
            yield "names, families: one of them is empty"


# Modules that the library finds.


def find_group(configuration: HebiConfiguration) -> Any:
    """The group of the configured modules on the network.

    Raises
    ------
    UserError
        Some of them do not answer; it names them, and those that are there.
    """
    lookup = hebi_library().Lookup()
    wanted = set(configuration.modules)
    stop_s = time.monotonic() + configuration.lookup_timeout_s
    # The look-up fills in the background: to wait for all is quicker than the fixed wait that HEBI's examples have.
    while not wanted <= (there := _there(lookup)) and time.monotonic() < stop_s:
        time.sleep(0.05)
    if not wanted <= there:
        raise UserError(
            f"modules not found within {configuration.lookup_timeout_s:g} s: {_listed(wanted - there)}; on the network "
            f"there are: {_listed(there) or 'none (power, cable, network; a firewall that lets no UDP through)'}"
        )
    # Never -1, with which the library waits for ever.
    families, names = map(list, zip(*configuration.modules, strict=True))
    group = lookup.get_group_from_names(families, names, max(1, round(1e3 * configuration.lookup_timeout_s)))
    if group is None:
        raise UserError(f"modules {_listed(wanted)} are on the network, but do not answer as a group")
    return group


def _there(lookup: Any) -> set[tuple[str, str]]:
    return {(entry.family, entry.name) for entry in lookup.entrylist if entry is not None}


def _listed(modules: set[tuple[str, str]]) -> str:
    return ", ".join(f"{family}/{name}" for family, name in sorted(modules))


# Feedback of a group of modules, from the library's thread to the node's, and commands to them.

_QUEUE = 1000
"""Feedbacks that may wait for the node: a second at the largest frequency."""
_COUNTS = ("feedbacks", "overflow", "commands_forwarded", "commands_refused", "commands_unsent")


class Feed:
    """A group of HEBI's library: modules on the network, or imitated ones.

    A command that is none for just its joints moves nothing; others act for the group's lifetime at most, which the
    modules see to themselves.

    Attributes
    ----------
    counts
        Feedbacks that came, and of these the oldest that were dropped since nobody took them (`overflow`); commands
        that were forwarded, refused, and not taken by the library.
    channels
        What comes beside the feedback, by topic.
    """

    def __init__(self, configuration: HebiConfiguration, group: Any) -> None:
        self.group, self._configuration = group, configuration
        self._waiting: deque[Feedback] = deque(maxlen=_QUEUE)
        self._command = hebi_library().GroupCommand(len(configuration.joints))
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.channels: dict[str, Channel] = {}
        group.feedback_frequency = 0.0  # until the node is there
        group.command_lifetime = configuration.command_lifetime_ms

    def start(self) -> None:
        """Feedback may come from now on."""
        self.group.add_feedback_handler(self.keep)  # only now: the library, told to ask no longer, may do so once more
        self.group.feedback_frequency = self._configuration.feedback_frequency_hz

    def keep(self, feedback: Any) -> None:
        """Keep a copy, and do nothing else: the library's thread is held up by it."""
        one = copied(feedback)  # raises where it cannot be: of that the library prints a line, and it counts for none
        self.counts["feedbacks"] += 1
        self.counts["overflow"] += len(self._waiting) == _QUEUE
        self._waiting.append(one)

    def taken(self) -> list[Feedback]:
        """All that waits, the oldest first."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def beside(self) -> Sequence[tuple[int, Channel, Vector]]:
        """What else is due: stamp (ns since the epoch), channel, value."""
        return ()

    def command(self, message: Any) -> str:
        """Send velocities; why they were refused, empty where they were sent."""
        chosen, what, why = self._configuration, "forwarded", ""
        found = commanded_velocities(message, chosen.joints, chosen.largest_velocity_rad_s)
        if isinstance(found, str):
            what, why = "refused", found
        else:
            self._command.velocity = found
            if not self.group.send_command(self._command):
                what, why = "unsent", "the library did not send it"
        self.counts[f"commands_{what}"] += 1
        return why

    def close(self) -> None:
        """Nothing comes any more."""
        self.group.feedback_frequency = 0.0
        self.group.clear_feedback_handlers()


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
