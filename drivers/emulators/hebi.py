"""Modules imitated by HEBI's own library, with the IMU readings of a simulated robot written into their feedback.

The library's imitation loops commands back as feedback and calls its handlers on a thread of its own, as with modules.
It has no IMUs and tells no times: both are written into the feedback before the driver's handler sees it. All that the
driver does from there on is what it does with modules. The robot swims its gait whatever it is told: commands come back
in the joints' velocity only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from drivers.hebi.feeds import Feed, HebiConfiguration
from drivers.hebi.library import hebi_library
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Vector
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2, imu_channel, in_time_order, with_truth_topics
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.simulated import SimulatedLive, chosen_scenario

_AHEAD_NS = NANOSECONDS_PER_SECOND // 5
_LATENCY_US = 300
"""From a module's stamp to the arrival, of a quick network."""
_SKEWS = (40e-6, -25e-6, 90e-6)
"""Of the modules' clocks, in turn."""
_STARTED_US = (5_000_000, 7_300_000, 6_100_000)
"""How long they have been on, in turn."""


class ImitatedFeed(Feed):
    """An imitated group; readings and times are written into its feedback.

    Parameters
    ----------
    robot
        Whose IMUs the modules have; None: they lie still.
    robot_configuration
        Of that robot.

    Attributes
    ----------
    silent
        Numbers of modules that do not answer, for tests.

    Raises
    ------
    UserError
        The simulated robot has no such IMU.
    """

    def __init__(self, configuration: HebiConfiguration, robot: Robot[Any] | None, robot_configuration: Any) -> None:
        hebi, count = hebi_library(), len(configuration.names)
        from hebi._internal.ffi._message_enums import FeedbackUInt64Field as field

        self._times = (field.TransmitTime, field.ReceiveTime, field.HardwareReceiveTime, field.HardwareTransmitTime)
        self.silent: set[int] = set()
        self._now: list[Vector] = [np.array([0.0, 0.0, 0.0, 0.0, 0.0, STANDARD_GRAVITY_M_S2])] * count
        self._next: list[deque[tuple[int, Vector]]] = [deque() for _ in range(count)]
        self._others: deque[tuple[int, Channel, Vector]] = deque()
        self._sensors = [imu_channel(name).sensor for name in configuration.imus]
        self._with_truth, self._truth_topics = configuration.publish_truth, configuration.truth_topics
        self._simulated_ns = self._epoch_ns = 0
        super().__init__(configuration, hebi.util.create_imitation_group(count))
        self._simulation: Any = None
        if robot is not None:
            simulated = SimulatedLive[Any].of(robot)
            scenario, variant = chosen_scenario(simulated, configuration.scenario, configuration.variant or None)
            rng = np.random.default_rng(configuration.seed)
            rate_hz = configuration.feedback_frequency_hz
            self._simulation = simulated.simulation(robot_configuration, scenario, variant, rng, rate_hz)
            self._simulate()  # compiles kernels, before the clock starts

    def start(self) -> None:
        """See `Feed`; the simulated time starts now."""
        self._epoch_ns = time.time_ns()
        self.group.add_feedback_handler(self.write)
        super().start()

    def beside(self) -> Sequence[tuple[int, Channel, Vector]]:
        """See `Feed`: commands and ground truth. Simulates on."""
        if self._simulation is None:
            return ()
        now_ns = time.time_ns() - self._epoch_ns
        while self._simulated_ns < now_ns + _AHEAD_NS // 2:
            self._simulate()
        found = []
        while self._others and self._others[0][0] <= now_ns:
            stamp_ns, channel, value = self._others.popleft()
            found.append((self._epoch_ns + stamp_ns, channel, value))
        return found

    def write(self, feedback: Any) -> None:
        """A handler, to be called before the driver's; runs in the library's thread."""
        now_us = time.time_ns() // 1000
        for module, waiting in enumerate(self._next):
            while waiting and self._epoch_ns + waiting[0][0] <= 1000 * now_us:
                self._now[module] = waiting.popleft()[1]
        values = np.array(self._now)
        feedback.gyro[:], feedback.accelerometer[:] = values[:, :3], values[:, 3:]
        sent_us = now_us - _LATENCY_US
        for module in range(len(values)):
            kind = module % len(_SKEWS)
            passed_us = sent_us - self._epoch_ns // 1000
            hardware_us = _STARTED_US[kind] + round(passed_us * (1.0 + _SKEWS[kind]))  # of the module's own clock
            times = (sent_us, now_us, hardware_us, hardware_us)
            # The library has no way to set them, for nobody but a module does.
            fields = feedback._refs[module].uint64_fields_
            for field, microseconds in zip(self._times, times, strict=True):
                fields[field.value] = 0 if module in self.silent else microseconds

    def _simulate(self) -> None:
        self._simulated_ns += _AHEAD_NS
        recording = with_truth_topics(self._simulation.advance(self._simulated_ns), self._truth_topics)
        there = {series.channel.sensor: series for series in recording.sensors}
        if missing := [sensor for sensor in self._sensors if sensor not in there]:
            raise UserError(f"imu_names: the simulated robot has no {', '.join(missing)}; it has {', '.join(there)}")
        for waiting, sensor in zip(self._next, self._sensors, strict=False):
            waiting.extend(zip(there[sensor].stamps_ns.tolist(), there[sensor].values, strict=True))
        others = [series for series in recording.sensors if series.channel.command]
        others += recording.truth if self._with_truth else ()
        self.channels.update((series.channel.topic, series.channel) for series in others)
        self._others.extend(in_time_order(others))
