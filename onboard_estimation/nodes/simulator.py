"""The simulator of any robot as an rclpy node: sensors, commands and truth in real time or faster, without an end."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock as ClockMessage
from std_msgs.msg import String

from onboard_estimation.base.configuration import bounded, non_negative, parameter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Measurement, Vector
from onboard_estimation.base.series import (
    TRUTH_TOPICS,
    ControlledByEstimate,
    Series,
    in_time_order,
    with_truth_topics,
)
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.simulated import SimulatedLive, Simulation, chosen_scenario
from onboard_estimation.live.losses import KEPT
from onboard_estimation.live.messages import interface_class, new, serialized
from onboard_estimation.nodes.pacing import Take, longest_stay_s, stay
from onboard_estimation.nodes.parameters import NodeParameters, SteadyNode
from onboard_estimation.ros.measurements import stamp_ns
from onboard_estimation.ros.message_templates import Writer, sensor_writer
from onboard_estimation.ros.sensor_messages import header
from onboard_estimation.ros.transforms import AUTOMATIC, resolved_prefix

_AHEAD_S = 0.1
"""What is simulated at a time."""
_AHEAD_IN_LOOP_S = 0.005
"""The same where an estimate closes the loop: so much later does it act, at most."""
_LONGEST_LAG_NS = NANOSECONDS_PER_SECOND // 20
_GIVEN_UP_S = 1.0
"""The robot stands still while the estimate is behind by more, but not for one that has not been heard for so long."""
_TICK_S = 0.002
_TOO_LATE_NS = NANOSECONDS_PER_SECOND
_CLOCK_PERIOD_NS = NANOSECONDS_PER_SECOND // 100
# Reliable: a subscriber that asks for less gets it all the same.
_STREAM = QoSProfile(depth=KEPT)


@dataclass(frozen=True)
class SimulatorHost:
    """What the node itself wants to know, beside the robot's configuration."""

    scenario: str = parameter("", 'situation to simulate; "" for the robot\'s first')
    variant: str = parameter("", 'gait, or whatever the robot calls its variants; "" for the first')
    seed: int = parameter(0, "of all noise; the same seed gives the same measurements", minimum=0)
    rate: float = parameter(1.0, "times real time", exclusive_minimum=0.0, maximum=1000.0)
    duration_s: float = non_negative(0.0, "ends after this much simulated time; 0: never", "s")
    imu_rate_hz: float = bounded(0.0, 0.0, 1000.0, "rate of the IMUs; 0: the scenario's", "Hz")
    fault: str = parameter("", "what goes wrong on the way, as `simulate --fault` has it; several with `;` between")
    control: str = parameter(
        "truth",
        "what the robot's controller goes by: its true motion, or the estimate on odometry",
        choices=("truth", "estimate"),
    )
    publish_truth: bool = parameter(True, "publish ground_truth/<body>/pose")
    truth_topics: str = parameter(
        TRUTH_TOPICS, "in the place of ground_truth: for an emulated motion capture, which publishes what it has seen"
    )
    publish_clock: bool = parameter(False, "publish the simulated time on /clock, for nodes with use_sim_time")
    frame_prefix: str = parameter(AUTOMATIC, 'before the frames of sensors; "auto": the node\'s namespace')


class SimulatorNode(SteadyNode):
    """Publishes what a simulated robot's sensors, commands and motion capture would send.

    Each message goes out when its stamp is due, reliably, where somebody listens; a `Source`: an estimator in the same
    process gets the readings without messages. Stamps start at the time of day; with another `rate` than 1
    they run ahead of it, and other nodes need `use_sim_time` and this node's `publish_clock`. Parameters: the robot's
    configuration and `SimulatorHost`.

    With `control` set to `estimate` it subscribes to `odometry` and `phase`, and the simulated controller goes by their
    height, vertical velocity and phase, as that of a real robot must. Until the first of them it goes by the truth. On
    a computer that is too busy for an estimator that keeps up, the simulated time goes slower, so that the robot does
    not go by what was a while ago.

    Attributes
    ----------
    phases
        Names of the robot's phases, by number, as its estimators have them.
    host_type
        Of the node's own parameters.

    Raises
    ------
    UserError
        Parameters at fault, a scenario or variant that the robot has not, control by an estimate of a robot that has
        no controller.
    """

    phases: tuple[str, ...] = ()
    host_type: type[SimulatorHost] = SimulatorHost

    def __init__(self, robot: Robot, name: str) -> None:
        super().__init__(name)
        parameters = NodeParameters(self, robot.configuration_type, self.host_type)
        self._host = host = parameters.host
        self._ahead_s = _AHEAD_S
        self._spoil: Callable[[Sequence[Series]], Sequence[Series]] = tuple
        self._simulation, what = self._begin(robot, parameters.configuration)
        self._phase = -1
        self._estimate_ns = 0  # of the newest estimate, on the simulation's clock
        self._heard_s = -math.inf
        if host.control == "estimate":
            self._close_the_loop(robot)
        self._prefix = resolved_prefix(host.frame_prefix, self.get_namespace())
        self._end_ns = round(host.duration_s * NANOSECONDS_PER_SECOND) or None
        self._simulated_ns = 0
        self._due: deque[tuple[int, Channel, Vector]] = deque()
        self._channels: dict[str, Channel] = {}
        self._outputs: dict[str, tuple[Any, Writer]] = {}
        self._refill()  # compiles kernels, before the clock starts
        for topic, channel in self._channels.items():
            output = self.create_publisher(interface_class(channel.message_type), topic, _STREAM)
            self._outputs[topic] = output, sensor_writer(channel, new, serialized, self._prefix)
        self._take: Take | None = None
        self._taken: frozenset[str] = frozenset()
        self._clock_output: Any = None
        if host.publish_clock:
            self._clock_output = self.create_publisher(ClockMessage, "/clock", 10)
        self._clock_ns = -_CLOCK_PERIOD_NS
        self._start_clock()
        self._timer = self.every(_TICK_S, self._tick)
        pace = "" if host.rate == 1.0 else f", {host.rate:g} times real time"
        loop = ", controlled by the estimate" if host.control == "estimate" else ""
        self.get_logger().info(f"{what}{pace}{loop}")

    def _begin(self, robot: Robot, configuration: Any) -> tuple[Simulation, str]:
        """What is published, and what that is, in words."""
        host, simulated = self._host, SimulatedLive[Any].of(robot)
        scenario, variant = chosen_scenario(simulated, host.scenario, host.variant or None)
        rng = np.random.default_rng(host.seed)
        simulation = simulated.simulation(configuration, scenario, variant, rng, host.imu_rate_hz)
        if host.fault:
            from onboard_estimation.judging.options import parse_faults  # nodes without faults do without
            from onboard_estimation.judging.what_if import spoiling

            self._spoil = spoiling(simulation, parse_faults(host.fault), host.seed, robot.channels(configuration))
        return simulation, f"simulated {robot.name}: scenario {scenario}, {variant or 'no variants'}"

    def _close_the_loop(self, robot: Robot) -> None:
        simulation: Any = self._simulation
        if not isinstance(simulation, ControlledByEstimate):
            raise UserError(f"control: estimate: the simulated {robot.name} has no controller that goes by an estimate")
        self._ahead_s = _AHEAD_IN_LOOP_S
        take = partial(self._take_estimate, simulation)
        self.create_subscription(Odometry, "odometry", take, 100)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, "phase", self._take_phase, latched)

    def _take_estimate(self, simulation: ControlledByEstimate, message: Any) -> None:
        at_ns = stamp_ns(message) - self._epoch_ns
        height_m, velocity_m_s = message.pose.pose.position.z, message.twist.twist.linear.z
        # One of an estimator that runs on from an earlier simulation belongs to another motion.
        if 0 <= at_ns <= self._simulated_ns and math.isfinite(height_m) and math.isfinite(velocity_m_s):
            simulation.take_estimate(height_m, velocity_m_s, self._phase)
            self._estimate_ns, self._heard_s = at_ns, time.monotonic()

    def _take_phase(self, message: Any) -> None:
        self._phase = self.phases.index(message.data) if message.data in self.phases else -1

    def _start_clock(self) -> None:
        self._epoch_ns, self._started_ns = time.time_ns(), time.monotonic_ns()

    @property
    def measured_topics(self) -> frozenset[str]:
        """Of all that the simulated robot's sensors and commands give."""
        return frozenset(self._channels)

    def hand_to(self, take: Take, topics: Collection[str]) -> None:
        """See `Source`. Time starts now: what was made since may have taken long."""
        self._take, self._taken = take, frozenset(topics)
        self._start_clock()

    def _refill(self) -> None:
        stop_ns = self._simulated_ns + round(self._ahead_s * NANOSECONDS_PER_SECOND)
        if self._end_ns is not None:
            stop_ns = min(stop_ns, self._end_ns + 1)
        recording = with_truth_topics(self._simulation.advance(stop_ns), self._host.truth_topics)
        series = [*self._spoil(recording.sensors), *(recording.truth if self._host.publish_truth else ())]
        self._channels.update((one.channel.topic, one.channel) for one in series)
        self._simulated_ns = stop_ns
        self._due.extend(in_time_order(series))  # at one stamp commands first
        self._heard = {topic for topic, (output, _) in self._outputs.items() if output.get_subscription_count()}

    def _tick(self) -> None:
        """Emulators put it off until somebody is there."""
        stay(self._advance, self.context.ok, longest_stay_s(self, 1 if self._take is None else 2))

    def withhold(self, topics: Collection[str]) -> None:
        """Publish these no more: what is measured there takes another way."""
        for topic in topics:
            if topic in self._outputs:
                self.destroy_publisher(self._outputs.pop(topic)[0])

    def _advance(self) -> float:
        """Publish all that is due, and hand it on; for how long the next may wait, s."""
        now_ns = round((time.monotonic_ns() - self._started_ns) * self._host.rate)
        behind_ns = now_ns - (self._due[0][0] if self._due else now_ns)
        if behind_ns > _TOO_LATE_NS * self._host.rate:
            self.get_logger().warning(
                f"cannot keep up with {self._host.rate:g} times real time: "
                f"{behind_ns / NANOSECONDS_PER_SECOND:.1f} s behind, going on from here",
                throttle_duration_sec=5.0,
            )
            self._started_ns += round(behind_ns / self._host.rate)
            now_ns -= behind_ns
        latest_ns = self._estimate_ns + _LONGEST_LAG_NS
        if now_ns > latest_ns and time.monotonic() - self._heard_s < _GIVEN_UP_S:
            self._started_ns += round((now_ns - latest_ns) / self._host.rate)
            now_ns = latest_ns
        readings: list[Measurement] = []
        while True:
            while self._due and self._due[0][0] <= now_ns:
                stamp_ns, channel, value = self._due.popleft()
                self._tell_time(stamp_ns)
                if channel.topic in self._taken:
                    readings.append(Measurement(self._epoch_ns + stamp_ns, channel.sensor, value))
                if channel.topic in self._heard:
                    output, message = self._outputs[channel.topic]
                    output.publish(message(self._epoch_ns + stamp_ns, value))
            if self._due or self._simulated_ns > now_ns or self._is_over():
                break
            self._refill()
        self._tell_time(now_ns)
        rest_s = self._take(readings) if self._take is not None and readings else 0.0
        if not self._due and self._is_over():
            self._say_over()
            self._timer.cancel()  # the other nodes of the process go on
            if self._take is None:
                self.context.try_shutdown()
        return rest_s

    def _is_over(self) -> bool:
        return self._end_ns is not None and self._simulated_ns > self._end_ns

    def _say_over(self) -> None:
        self.get_logger().info(f"simulated {self._host.duration_s:g} s, done")

    def _tell_time(self, at_ns: int) -> None:
        if self._clock_output is not None and at_ns - self._clock_ns >= _CLOCK_PERIOD_NS:
            self._clock_ns = at_ns
            self._clock_output.publish(ClockMessage(clock=header(new, self._epoch_ns + at_ns).stamp))
