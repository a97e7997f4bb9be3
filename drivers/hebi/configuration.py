"""Parameters of the HEBI node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onboard_estimation.configuration import parameter
from onboard_estimation.ros.frames import AUTOMATIC
from onboard_estimation.simulation import TRUTH_TOPICS

LARGEST_FREQUENCY_HZ = 1000.0
"""Beyond it the library asks modules without a pause, and its thread takes a core."""
_TOPIC_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


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
    feedback_frequency_hz: float = parameter(
        200.0, "how often modules are asked", unit="Hz", minimum=1.0, maximum=LARGEST_FREQUENCY_HZ
    )
    command_lifetime_ms: int = parameter(
        250, "a command acts no longer without the next one: the module stops", unit="ms", minimum=1, maximum=10_000
    )
    command_topic: str = parameter("actuators/command", 'velocities to be forwarded (JointState); "": none')
    largest_velocity_rad_s: float = parameter(
        50.0, "commands beyond it are refused", unit="rad/s", exclusive_minimum=0.0, maximum=1000.0
    )
    joint_states_topic: str = parameter("joint_states", 'position, velocity and effort of all modules; "": none')
    lookup_timeout_s: float = parameter(
        5.0, "for so long modules are looked for at start", unit="s", minimum=0.1, maximum=60.0
    )
    silent_s: float = parameter(
        0.5, "a module without fresh feedback for so long is said to be silent", unit="s", minimum=0.05, maximum=60.0
    )
    latency_s: float = parameter(
        0.0,
        "least time from a module's stamp to the arrival; one way does not tell",
        unit="s",
        minimum=0.0,
        maximum=0.1,
    )
    gyro_variance: float = parameter(0.0, "of each axis; 0: not known", unit="rad^2/s^2", minimum=0.0)
    accelerometer_variance: float = parameter(0.0, "of each axis; 0: not known", unit="m^2/s^4", minimum=0.0)
    orientation_variance: float = parameter(0.0, "about each axis; 0: not known", unit="rad^2", minimum=0.0)
    frame_prefix: str = parameter(AUTOMATIC, 'before the frames of sensors; "auto": the node\'s namespace')
    diagnostics_period_s: float = parameter(
        1.0, "time between two reports on /diagnostics", unit="s", minimum=0.1, maximum=60.0
    )
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

    def faults(self) -> Iterable[str]:
        """What does not fit together."""
        count = len(self.names)
        if not count:  # with which the library would end the process
            yield "names: [], allowed: at least one module"
        if len(self.families) not in (1, count):
            yield f"families: {len(self.families)} for {count} modules, allowed: one for all, or one for each"
        if self.source == "log" and not self.log:
            yield "log: '', but source is log: name a .hebilog"
        yield from self._names("imu_names", self.imus, count)
        yield from self._names("joint_names", self.joints, count)
        if len(set(zip(self.families * (count if len(self.families) == 1 else 1), self.names, strict=False))) < count:
            yield f"names: {', '.join(self.names)}, allowed: each module once"
        if any(not name for name in (*self.names, *self.families)):
            yield "names, families: one of them is empty"

    @staticmethod
    def _names(parameter_name: str, names: tuple[str, ...], count: int) -> Iterator[str]:
        if len(names) != count:
            yield f"{parameter_name}: {len(names)} for {count} modules"
        if len(set(names)) < len(names):
            yield f"{parameter_name}: {', '.join(names)}, allowed: each once"
        for name in names:
            if not _TOPIC_NAME.fullmatch(name):
                yield f"{parameter_name}: {name!r} can be no part of a topic's name: letters, digits, _"
