"""HEBI modules, what they say and how they fare; where feedback comes from: a group, real or imitated, or a log."""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import bounded, non_negative, parameter, topic_name_faults
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Vector
from onboard_estimation.base.series import TRUTH_TOPICS
from onboard_estimation.contract.robot import Robot
from onboard_estimation.pipeline.device_clock import DeviceClock
from onboard_estimation.ros.transforms import AUTOMATIC

# Parameters of the HEBI node.

LARGEST_FREQUENCY_HZ = 1000.0
"""Beyond it the library asks modules without a pause, and its thread takes a core."""


@dataclass(frozen=True)
class HebiConfiguration:
    """Modules, what they are called on topics, rates, and what is imitated where there are none."""

    source: str = parameter(
        "network",
        "modules on the network, an imitation of them by HEBI's library, or a recorded .hebilog",
        choices=("network", "imitation", "log"),
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
    log: str = parameter("", "file of source: log, or of nothing else")
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
        if self.source == "log" and not self.log:
            yield "log: '', but source is log: name a .hebilog"
        for name, given in (("imu_names", self.imus), ("joint_names", self.joints)):
            if len(given) != count:
                yield f"{name}: {len(given)} for {count} modules"
            yield from topic_name_faults(name, given)
        if len(set(self.modules)) < count:
            yield f"names: {', '.join(self.names)}, allowed: each module once"
        if any(not name for name in (*self.names, *self.families)):
            yield "names, families: one of them is empty"


# The library `hebi-py`, which is optional (whoever has no HEBI modules needs none), and modules that it finds.


def read_feedback(path: Path, modules: int | None = None) -> Iterator[Feedback]:
    """What a log holds, in its order. The library itself leaves out the first feedback of each log.

    Raises
    ------
    UserError
        No such file, none that the library can read, or one of another number of modules.
    """
    try:
        # Loaded at once it would be held in memory as a whole, each feedback with all of its hundred fields.
        log = hebi_library().util.load_log(str(path), load=False)
        if modules is not None and log.number_of_modules != modules:
            raise UserError(f"{path}: of {log.number_of_modules} modules, but {modules} are named")
        for feedback in log.feedback_iterate:
            yield copied(feedback)
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path}: {error}") from error


def coverage(received_us: Sequence[int]) -> str:
    """How much of the time from first to last a log has feedback of: the library reads a log that is cut off silently.

    By the median of the distances between feedbacks that arrived at these times. One that was cut off at its end covers
    its time all the same.
    """
    steps_us, count = np.diff(received_us), len(received_us)
    expected, duration_us = count, 0
    if len(steps_us) and np.median(steps_us) > 0:
        duration_us = received_us[-1] - received_us[0]
        expected = round(duration_us / float(np.median(steps_us))) + 1
    share = 100.0 * count / expected if expected else 0.0
    return f"{count} of {expected} expected in {1e-6 * duration_us:.2f} s ({share:.1f} %)"


def hebi_library() -> Any:
    """The module `hebi`, with `hebi.util`; UserError with the way to get it where it is not installed."""
    try:
        # It prints that optional packages for drawing and keyboards are not there, which is nobody's concern here.
        with contextlib.redirect_stdout(io.StringIO()):
            import_module("hebi.util")
            return import_module("hebi")
    except (ImportError, OSError) as error:  # OSError: its binary is for another machine
        raise UserError(
            f"hebi-py cannot be loaded ({error}): pip install 'onboard_estimation[hebi]'; beside NumPy 2, which it "
            "works with though it asks for numpy<2: pip install --no-deps hebi-py"
        ) from error


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


Array = NDArray[np.float64]


# Feedback of a group of modules, from the library's thread to the node's.


class Feedback(NamedTuple):
    """What N modules said at one time; NaN where a module has no such sensor.

    Attributes
    ----------
    received_us
        (N,) when it arrived at this host, us since the epoch; 0 or the same as before: that module did not answer.
    hardware_us
        (N,) when the module sent it, us of its own clock; 0: it did not tell.
    gyro, accelerometer
        (N, 3) rad/s and m/s^2 in the frame of the module's IMU.
    orientation_xyzw
        (N, 4) from the IMU's frame to the world, as the module estimates it.
    joints
        (3, N): position (rad), velocity (rad/s), effort (N m).
    """

    received_us: NDArray[np.int64]
    hardware_us: NDArray[np.int64]
    gyro: Array
    accelerometer: Array
    orientation_xyzw: Array
    joints: Array


_W_LAST = [1, 2, 3, 0]
_LARGEST_NORM_ERROR = 0.1


def checked_imu(feedback: Feedback, place: int) -> Array:
    """(10,) gyro (rad/s), accelerometer (m/s^2), attitude xyzw of a module; NaN for a part that is no measurement."""
    value = np.concatenate([feedback.gyro[place], feedback.accelerometer[place], feedback.orientation_xyzw[place]])
    for part in (slice(0, 3), slice(3, 6), slice(6, 10)):
        if not np.isfinite(value[part]).all():
            value[part] = np.nan
    if not abs(np.linalg.norm(value[6:]) - 1.0) < _LARGEST_NORM_ERROR:
        value[6:] = np.nan
    return value


def copied(feedback: Any) -> Feedback:
    """A `hebi.GroupFeedback`, whose arrays are views of a buffer that the library writes over."""
    return Feedback(
        feedback.receive_time_us.astype(np.int64),
        feedback.hardware_transmit_time_us.astype(np.int64),
        feedback.gyro.astype(np.float64),
        feedback.accelerometer.astype(np.float64),
        feedback.orientation.astype(np.float64)[:, _W_LAST],
        np.array([feedback.position, feedback.velocity, feedback.effort], dtype=np.float64),
    )


class FeedbackQueue:
    """The library's handler: copies, and nothing else, for it holds up the library's thread.

    Attributes
    ----------
    copied
        How many came.
    overflow
        How many of the oldest were dropped since nobody took them.
    faults
        How often a feedback could not be copied; of an exception the library only prints a line.
    """

    def __init__(self, length: int) -> None:
        self._waiting: deque[Feedback] = deque(maxlen=length)
        self.copied = self.overflow = self.faults = 0
        self._fault: Exception | None = None

    def __call__(self, feedback: Any) -> None:
        """Keep a copy; runs in the library's thread."""
        try:
            one = copied(feedback)
        except Exception as error:
            self.faults += 1
            self._fault = error
            return
        self.copied += 1
        self.overflow += len(self._waiting) == self._waiting.maxlen
        self._waiting.append(one)

    def taken(self) -> list[Feedback]:
        """All that waits, the oldest first."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def new_fault(self) -> Exception | None:
        """The newest exception since the last call."""
        fault, self._fault = self._fault, None
        return fault


# One module: times of its own clock as host time, whether it answers, and how it fares.

_TICK_S = 1e-6
_END_US = 2**31 * 1_000_000
"""Of what a stamp can hold."""


class Module:
    """What is known of a module from its feedback.

    Attributes
    ----------
    received, missed, refused
        How many readings came; how many feedbacks of the group came without one of it; how many readings had a time
        that cannot follow those before.
    is_silent
        Whether it has not answered for a while.
    """

    def __init__(
        self, name: str, silent_s: float, latency_s: float, offset_ns: Callable[[], int] | None = None
    ) -> None:
        self.name = name
        self.received = self.missed = self.refused = 0
        self.is_silent = False
        self.clock = DeviceClock(_TICK_S, None, latency_s, offset_ns)
        self._silent_s = silent_s
        self._received_us = 0
        self._reported: tuple[float, dict[str, int]] = (0.0, {})
        self.begin(0.0)

    def begin(self, now_s: float) -> None:
        """It may answer from now on."""
        self._heard_s = self._silent_since_s = now_s
        self._reported = (now_s, self._reported[1])

    def stamp_ns(self, received_us: int, hardware_us: int, now_s: float) -> int | None:
        """When the reading was sent, ns since the epoch of the host; None: it is none, or an old one again."""
        if not 0 < received_us < _END_US or received_us == self._received_us:
            self.missed += 1
            return None
        self._received_us, self._heard_s = received_us, now_s
        self.received += 1
        # Without a time of its own there is none better than that of its arrival.
        stamp_ns = 1000 * received_us
        mapped_ns = self.clock.stamp_ns(hardware_us, stamp_ns) if hardware_us > 0 else stamp_ns
        self.refused += mapped_ns is None
        return mapped_ns

    def change(self, now_s: float) -> str:
        """A sentence where it fell silent or came back since the last call; else empty."""
        quiet_s = now_s - self._heard_s
        silent = quiet_s > self._silent_s
        if silent == self.is_silent:
            return ""
        self.is_silent = silent
        if not silent:
            return f"module {self.name} answers again, after {self._heard_s - self._silent_since_s:.1f} s"
        self._silent_since_s = self._heard_s
        return f"module {self.name} has been silent for {quiet_s:.1f} s, after {self.received} readings"

    def report(self, now_s: float) -> tuple[bool, str, dict[str, float]]:
        """Since the last report: whether all is well, in words, figures for /diagnostics."""
        clock, (before_s, before) = self.clock, self._reported
        counts = {"received": self.received, "lost": self.missed, "refused": self.refused, "clock_jumps": clock.jumps}
        self._reported = now_s, counts
        received, missed, refused, jumps = (count - before.get(name, 0) for name, count in counts.items())
        rate_hz = received / (now_s - before_s) if now_s > before_s else math.nan
        words = [f"{rate_hz:.1f} Hz"]
        words += [f"{missed} lost"] if missed else []
        words += [f"{refused} refused"] if refused else []
        words += [f"its clock started anew {jumps} times"] if jumps else []
        figures = {"clock_skew_ppm": clock.skew_ppm, "clock_stddev_us": 1e6 * clock.stddev_s}
        values = {"rate_hz": rate_hz, **counts, **figures, "clock_implausible": clock.implausible}
        return len(words) == 1 and received > 0, ", ".join(words), values


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
