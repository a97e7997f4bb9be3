"""HEBI actuators as an rclpy node: their IMUs and joints on topics, velocity commands from a topic to them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Imu, JointState

from drivers.at_rest import lies_still, rate_fault, resting_faults
from drivers.hebi.feeds import Feed, HebiConfiguration, find_group
from drivers.hebi.library import Feedback
from drivers.hebi.log import JOINTS
from drivers.hebi.modules import Module, joint_values
from drivers.node import STREAM, MeasuringNode, NoRobot, set_variances
from onboard_estimation.base.measurement import IMU, Channel, Matrix, Measurement, Vector
from onboard_estimation.base.series import imu_channel
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.live.messages import interface_class, new, serialized
from onboard_estimation.nodes.pacing import stay
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.pipeline.device_clock import epoch_offset_ns
from onboard_estimation.ros.diagnostics import OK, STALE, WARN
from onboard_estimation.ros.message_templates import Writer, sensor_writer, writer
from onboard_estimation.ros.sensor_messages import axes, to_message
from onboard_estimation.ros.transforms import resolved_prefix

_IMITATION = "drivers.emulators.hebi"
_JOINT_STATES = "joint states"
"""Their place among the outputs; no topic."""
_WELL = ("feedbacks", "commands_forwarded")
"""Counts of what is no trouble."""
_TICK_S = 0.002
_LOOK_S = 0.25
_NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class HebiNode(MeasuringNode):
    """Publishes IMUs and joints of HEBI modules, and forwards velocity commands to them; a `Source` of IMU readings.

    Publishes `imu/<name>/data_raw` (Imu; a part that a module has not is marked absent), `joint_states` (JointState)
    and `/diagnostics`; subscribes to `actuators/command` (JointState, velocity). What nobody listens to is not
    published. Stamps are those of the modules' own clocks, as times of this host. Parameters: `HebiConfiguration`, and
    those of the robot that `robot` names.

    Attributes
    ----------
    feed
        Where feedback comes from.

    Raises
    ------
    UserError
        hebi-py is not there; parameters at fault, all of them listed; modules that are not on the network, by name.
    """

    def __init__(self) -> None:
        self._closing: list[Feed] = []  # a node that does not come to be is destroyed all the same
        super().__init__("hebi")
        named = str(self.get_parameter("robot").value) if self.has_parameter("robot") else ""
        robot = find_robot(named) if named else None
        robot_type = robot.configuration_type if robot is not None else NoRobot
        parameters: NodeParameters[Any, HebiConfiguration] = NodeParameters(self, robot_type, HebiConfiguration)
        self._configuration = configuration = parameters.host
        if configuration.source == "network":
            self.feed = Feed(configuration, find_group(configuration))
        else:  # by its name: a driver knows no emulator, and who asks for an imitation gets it
            self.feed = import_module(_IMITATION).ImitatedFeed(configuration, robot, parameters.configuration)
        self._closing.append(self.feed)
        has_noise = configuration.source != "imitation"
        times = configuration.silent_s, configuration.latency_s, epoch_offset_ns
        self._modules = [Module(name, *times, has_noise) for name in configuration.names]
        self._at_start: list[deque[Vector]] | None = [deque(maxlen=_MOST_READINGS) for _ in configuration.names]
        self._check_at_s = math.inf
        self._offer(resolved_prefix(configuration.frame_prefix, self.get_namespace()))
        self.every(_TICK_S, self._tick)
        self.every(configuration.silent_s / 4.0, self._tell_changes)
        self.every(_LOOK_S, partial(self.aside("the check at the start"), self._check_start))
        self.every(configuration.diagnostics_period_s, self._report)
        listed = ", ".join(
            f"{name} as {imu}" for name, imu in zip(configuration.names, configuration.imus, strict=True)
        )
        asked = f"asked {configuration.feedback_frequency_hz:g} times a second"
        self.get_logger().info(f"HEBI modules {listed}: {configuration.source}, {asked}")
        self._started = False

    def _offer(self, prefix: str) -> None:
        """Publishers and subscription."""
        chosen = self._configuration
        for channel in map(imu_channel, chosen.imus):
            self.offer_readings(channel, Imu)
            self.messages[channel.sensor] = imu_messages(
                channel,
                prefix,
                angular_velocity=chosen.gyro_variance,
                linear_acceleration=chosen.accelerometer_variance,
                orientation=chosen.orientation_variance,
            )
        self._publishing_joints = self.aside("publishing joint states")
        joints = Channel(chosen.joint_states_topic, JOINTS, _JOINT_STATES, names=chosen.joints)
        others = {_JOINT_STATES: joints} if chosen.joint_states_topic else {}
        for key, channel in {**others, **self.feed.channels}.items():
            kind = interface_class(channel.message_type)
            self.outputs[key] = self.create_publisher(kind, channel.topic, STREAM)
            self.messages[key] = sensor_writer(channel, new, serialized, prefix)
        if chosen.command_topic:
            # Only the newest: what an executor that was held up has missed is no command for now.
            self.create_subscription(JointState, chosen.command_topic, self._command, _NEWEST)

    def destroy_node(self) -> None:
        """Modules are asked no longer; a last command ends by its lifetime."""
        for feed in self._closing:
            feed.close()
        super().destroy_node()

    def _tick(self) -> None:
        """Publish and hand on what has come."""
        if not self._started:
            # Only now: other nodes of the process may have taken long to be made.
            self._started = True
            for module in self._modules:
                module.begin(time.monotonic())
            self.feed.start()
        stay(self._advance, self.context.ok)

    def _advance(self) -> float:
        """Publish what has come, and hand it on; for how long the next may wait, s."""
        now_s = time.monotonic()
        readings: list[Measurement] = []
        self.look_who_listens()
        for one in self.feed.taken():
            joints = self._hand_on(one, now_s, readings)
            if joints is not None:
                self._publishing_joints(self.publish, _JOINT_STATES, *joints)
        for stamp_ns, channel, value in self.feed.beside():
            self.publish(channel.topic, stamp_ns, value)
        return self.hand_over(readings)

    def _hand_on(self, one: Feedback, now_s: float, taken: list[Measurement]) -> tuple[int, Vector] | None:
        """Publish the IMUs of one feedback and add their readings; stamp (ns) and values of the joints, see there."""
        readings = [module.reading(one, place, now_s) for place, module in enumerate(self._modules)]
        for place, reading in enumerate(readings):
            if reading is None:
                continue
            if self._at_start is not None:
                self._at_start[place].append(reading.imu[:6])
            if reading.stamp_ns is None or not reading.is_new:
                continue
            sensor = self.measured[place].sensor
            self.publish(sensor, reading.stamp_ns, reading.imu)
            if sensor in self._taken:
                taken.append(Measurement(reading.stamp_ns, sensor, reading.imu[:6]))
        return joint_values(one, readings)

    def _command(self, message: Any) -> None:
        if fault := self.feed.command(message):
            self.get_logger().warning(f"command refused: {fault}", throttle_duration_sec=1.0)

    def _tell_changes(self) -> None:
        now_s = time.monotonic()
        for imu, module in zip(self._configuration.imus, self._modules, strict=True) if self._started else ():
            self.tell(imu, *module.state(now_s))

    def _check_start(self) -> None:
        """Once, of two seconds from when all modules have answered."""
        now_s, rows = time.monotonic(), self._at_start
        if rows is None:
            return
        if math.isinf(self._check_at_s) and all(rows):
            self._check_at_s = now_s + _LOOKS_S
            for one in rows:
                one.clear()
        if now_s < self._check_at_s:
            return
        self._at_start = None
        values = [np.array(one).reshape(-1, 6) for one in rows]
        faults, told = judged(self._configuration, values, now_s - self._check_at_s + _LOOKS_S)
        for sentence in faults:
            self.get_logger().warning(sentence)
        self.get_logger().info(told)

    def _report(self) -> None:
        """One status for each module and one for their group; counts since the start, rates since the last report."""
        now_s, feed, statuses = time.monotonic(), self.feed, []
        for module in self._modules:
            well, words, values = module.report(now_s)
            level = STALE if module.trouble == "silent" else OK if well else WARN
            statuses.append(self.status(module.name, level, words, values))
        troubles = [f"{count} {name}" for name, count in feed.counts.items() if count and name not in _WELL]
        group = self.status("group", WARN if troubles else OK, ", ".join(troubles) or "running", feed.counts)
        self.report([*statuses, group])


def imu_messages(channel: Channel, prefix: str, **variances: float) -> Writer:
    """`sensor_msgs/Imu` of one module, of values as `checked_imu` gives them.

    Parameters
    ----------
    variances
        Of gyro (rad^2/s^2), accelerometer (m^2/s^4), orientation (rad^2), on each axis; 0: not known.
    """

    def make(stamp_ns: int, value: Vector) -> Any:
        message = to_message(new, channel, stamp_ns, value[:6], prefix)
        if not np.isnan(value[6]):
            message.orientation = axes(new, "Quaternion", value[6:].tolist())
            message.orientation_covariance = np.zeros(9)
        set_variances(message, **variances)
        return message

    return writer(make, serialized)


# Whether modules that have just started can be right: their rate, and, where they lie still, gravity and gyros.

_LOOKS_S = 2.0
_LEAST_READINGS, _MOST_READINGS = 20, 4000


def judged(configuration: HebiConfiguration, values: Sequence[Matrix], seconds: float) -> tuple[list[str], str]:
    """What cannot be right, a sentence each, and a sentence on the whole.

    Parameters
    ----------
    values
        Of each module (K, 6): gyro rad/s, accelerometer m/s^2; NaN: it has none.
    seconds
        That they are from.
    """
    found: list[str] = []
    of_each = list(zip(configuration.names, values, strict=True))
    for number, (name, rows) in enumerate(of_each, start=1):
        found += filter(None, _module_faults(configuration, f"module {number} ({name})", rows, seconds))
    unseen = [name for name, rows in of_each if not _may_be_judged(rows)]
    rates_hz = [round(len(rows) / seconds) for rows in values]
    slowest_hz, fastest_hz = min(rates_hz), max(rates_hz)
    told = f"{len(values)} {'imitated ' if configuration.source == 'imitation' else ''}modules answer"
    told += f" {slowest_hz if slowest_hz == fastest_hz else f'{slowest_hz} to {fastest_hz}'} times a second"
    told += f", asked {configuration.feedback_frequency_hz:g} times"
    if unseen:
        told += f"; gyros and gravity are not judged of {', '.join(unseen)}, which had to lie still for it"
    elif not found:
        told += "; at rest their gyros and gravity are plausible"
    return found, told


def _module_faults(configuration: HebiConfiguration, name: str, values: Matrix, seconds: float) -> Iterator[str]:
    """Of one module; empty where there is none."""
    if not len(values):
        yield f"{name}: no reading in {seconds:.1f} s"
        return
    if configuration.source == "network":  # an imitation gives what it can
        asked_hz = configuration.feedback_frequency_hz
        remedy = f"asked {asked_hz:g} times: is the network too slow, or this computer?"
        yield rate_fault(name, len(values), seconds, asked_hz, remedy)
    for part, where in (("gyro", IMU.angular_velocity), ("accelerometer", IMU.linear_acceleration)):
        there = values[np.isfinite(values[:, where]).all(axis=1), where]
        if not len(there):
            yield f"{name}: its {part} tells nothing"
        elif configuration.source != "imitation" and len(there) > 1 and not np.ptp(there, axis=0).any():
            # Noise makes the readings of a sensor that lives differ; an imitation may have none.
            yield f"{name}: its {part} reads the same all the time: its chip hangs; power it off and on"
    if _may_be_judged(values):  # a robot's estimator goes by the rate about z
        upright = "where it has to be along z of a link that lies flat; mount the module so"
        gravity = "is it being moved evenly, or is its accelerometer at fault?"
        yield from resting_faults(name, values, gravity, upright if configuration.robot else "")


def _may_be_judged(values: Matrix) -> bool:
    """Whether there are readings (K, 6) enough, at rest."""
    return len(values) >= _LEAST_READINGS and lies_still(values)
