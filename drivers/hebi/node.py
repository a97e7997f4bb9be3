"""HEBI actuators as an rclpy node: their IMUs and joints on topics, velocity commands from a topic to them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Imu, JointState

from drivers.hebi.feeds import Feed, Feedback, HebiConfiguration, Module, checked_imu, feed_of
from drivers.hebi.start_check import StartCheck
from drivers.node import STREAM, MeasuringNode, NoRobot
from onboard_estimation.base.measurement import Measurement, Vector
from onboard_estimation.base.series import imu_channel
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.live.messages import interface_class, new, serialized
from onboard_estimation.nodes.pacing import stay
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.ros.diagnostics import ERROR, OK, STALE, WARN
from onboard_estimation.ros.message_templates import MessageTemplate, SerializedSensor
from onboard_estimation.ros.sensor_messages import header
from onboard_estimation.ros.transforms import resolved_prefix

_STAMP = attrgetter("stamp_ns")
_TICK_S = 0.002
_LOOK_S = 0.25
_NOT_MEASURED = np.diag([-1.0, 0.0, 0.0]).ravel()
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
        hebi-py is not there; parameters at fault, all of them listed; modules that are not on the network, by name; a
        log that cannot be read.
    """

    def __init__(self) -> None:
        super().__init__("hebi")
        self.feed = Feed("none yet")  # a node that does not come to be is destroyed all the same
        named = str(self.get_parameter("robot").value) if self.has_parameter("robot") else ""
        robot = find_robot(named) if named else None
        robot_type = robot.configuration_type if robot is not None else NoRobot
        parameters: NodeParameters[Any, HebiConfiguration] = NodeParameters(self, robot_type, HebiConfiguration)
        self._configuration = configuration = parameters.host
        self.feed = feed_of(configuration, robot, parameters.configuration)
        self._modules = [Module(name, configuration.silent_s, configuration.latency_s) for name in configuration.names]
        self._start_check: StartCheck | None = StartCheck(configuration)
        self._offer(resolved_prefix(configuration.frame_prefix, self.get_namespace()))
        self._timer = self.every(_TICK_S, self._tick)
        self.every(configuration.silent_s / 4.0, self._tell_changes)
        self.every(_LOOK_S, self._check_start)
        self.every(configuration.diagnostics_period_s, self._report)
        listed = ", ".join(
            f"{name} as {imu}" for name, imu in zip(configuration.names, configuration.imus, strict=True)
        )
        self.get_logger().info(f"HEBI modules {listed}: {self.feed.summary}")
        self._started = False

    def _offer(self, prefix: str) -> None:
        """Publishers and subscription."""
        chosen = self._configuration
        variances = (chosen.gyro_variance, chosen.accelerometer_variance, chosen.orientation_variance)
        for channel in map(imu_channel, chosen.imus):
            self.offer_readings(channel, Imu)
            self.messages[channel.sensor] = ImuMessages(prefix + channel.sensor.replace("/", "_"), variances)
        self._joints: Any = None
        if chosen.joint_states_topic:
            self._joints = self.create_publisher(JointState, chosen.joint_states_topic, STREAM)
            self._joint_messages = joint_messages(chosen.joints)
        self._beside = {
            topic: (
                self.create_publisher(interface_class(channel.message_type), topic, STREAM),
                SerializedSensor(channel, new, serialized, prefix),
            )
            for topic, channel in self.feed.channels.items()
        }
        if chosen.command_topic and self.feed.commands is not None:
            # Only the newest: what an executor that was held up has missed is no command for now.
            self.create_subscription(JointState, chosen.command_topic, self._command, _NEWEST)

    def destroy_node(self) -> None:
        """Modules are asked no longer; a last command ends by its lifetime."""
        self.feed.close()
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
        joints_heard = self._joints is not None and bool(self._joints.get_subscription_count())
        for one in self.feed.taken():
            stamps = self._hand_on(one, now_s, readings)
            if stamps and joints_heard:
                self._joints.publish(self._joint_messages.message(max(stamps), one.joints.ravel()))
        for stamp_ns, channel, value in self.feed.beside():
            publisher, message = self._beside[channel.topic]
            if publisher.get_subscription_count():
                publisher.publish(message(stamp_ns, value))
        readings.sort(key=_STAMP)  # each module's are by its own clock
        rest_s = self.hand_over(readings)
        if self.feed.is_over:
            self.get_logger().info(self.feed.summary)
            self._timer.cancel()  # the other nodes of the process go on
            if self._take is None:
                self.context.try_shutdown()
        return rest_s

    def _hand_on(self, one: Feedback, now_s: float, readings: list[Measurement]) -> list[int]:
        """Publish the IMUs of one feedback and add their readings; stamps of the modules that answered, ns."""
        stamps = []
        times = zip(one.received_us.tolist(), one.hardware_us.tolist(), strict=True)
        for place, (received_us, hardware_us) in enumerate(times):
            stamp_ns = self._modules[place].stamp_ns(received_us, hardware_us, now_s)
            if stamp_ns is None:
                continue
            stamps.append(stamp_ns)
            value = checked_imu(one, place)
            if self._start_check is not None:
                self._start_check.add(place, value)
            sensor = self.measured[place].sensor
            self.publish(sensor, stamp_ns, value)
            if sensor in self._taken:
                readings.append(Measurement(stamp_ns, sensor, value[:6]))
        return stamps

    def _command(self, message: Any) -> None:
        assert self.feed.commands is not None
        fault = self.feed.commands.take(message)
        if fault:
            self.get_logger().warning(f"command refused: {fault}", throttle_duration_sec=1.0)

    def _tell_changes(self) -> None:
        now_s = time.monotonic()
        for module in self._modules if self._started else ():
            sentence = module.change(now_s)
            if sentence and module.is_silent:
                self.get_logger().warning(sentence)
            elif sentence:
                self.get_logger().info(sentence)
        fault = self.feed.queue.new_fault()
        if fault is not None:
            self.get_logger().error(f"feedback could not be copied, {self.feed.queue.faults} times so far: {fault!r}")

    def _check_start(self) -> None:
        """Once, when all modules have answered for a moment."""
        verdict = self._start_check.verdict(time.monotonic()) if self._start_check is not None else None
        if verdict is None:
            return
        self._start_check = None
        faults, told = verdict
        for sentence in faults:
            self.get_logger().warning(sentence)
        self.get_logger().info(told)

    def _report(self) -> None:
        """One status for each module and one for their group; counts since the start, rates since the last report."""
        now_s, feed, statuses = time.monotonic(), self.feed, []
        for module in self._modules:
            well, words, values = module.report(now_s)
            level = STALE if module.is_silent else OK if well else WARN
            statuses.append(self.status(module.name, level, words, values))
        counts = {"overflow": feed.queue.overflow, "copy_faults": feed.queue.faults}
        counts |= feed.commands.counts if feed.commands is not None else {}
        troubles = [f"{count} {name}" for name, count in counts.items() if count and name != "commands_forwarded"]
        level = ERROR if feed.queue.faults else WARN if troubles else OK
        self.report([*statuses, self.status("group", level, ", ".join(troubles) or "running", counts)])


class ImuMessages:
    """`sensor_msgs/Imu` of one module, with constant variances; a part that is not measured is marked as ROS does.

    Parameters
    ----------
    variances
        Of gyro (rad^2/s^2), accelerometer (m^2/s^4), orientation (rad^2), on each axis; 0: not known.
    """

    def __init__(self, frame: str, variances: tuple[float, float, float]) -> None:
        self._frame, self._variances = frame, variances
        self._templates: dict[bytes, MessageTemplate] = {}  # by which parts are there: eight at most

    def __call__(self, stamp_ns: int, value: Vector) -> bytes:
        """Of a value as `checked_imu` gives it."""
        measured = ~np.isnan(value)
        key = measured.tobytes()
        if key not in self._templates:
            self._templates[key] = MessageTemplate(self._make, serialized, len(value), measured)
        return self._templates[key].message(stamp_ns, value)

    def _make(self, stamp_ns: int, value: Vector) -> Any:
        fields: dict[str, Any] = {}
        parts = (("angular_velocity", 0, 3), ("linear_acceleration", 3, 6), ("orientation", 6, 10))
        for (name, first, last), variance in zip(parts, self._variances, strict=True):
            there = not np.isnan(value[first])
            fields[f"{name}_covariance"] = np.diag([variance] * 3).ravel() if there else _NOT_MEASURED
            if there:
                kind = "Quaternion" if name == "orientation" else "Vector3"
                numbers = dict(zip("xyzw", value[first:last].tolist(), strict=False))
                fields[name] = new(f"geometry_msgs/msg/{kind}", **numbers)
        return new("sensor_msgs/msg/Imu", header=header(new, stamp_ns, self._frame), **fields)


def joint_messages(names: Sequence[str]) -> MessageTemplate:
    """`sensor_msgs/JointState` of N modules, from 3 N numbers: position (rad), velocity (rad/s), effort (N m) of each.

    NaN where a module did not tell.
    """

    def make(stamp_ns: int, value: Vector) -> Any:
        told = dict(zip(("position", "velocity", "effort"), value.reshape(3, -1), strict=True))
        return new("sensor_msgs/msg/JointState", header=header(new, stamp_ns), name=list(names), **told)

    return MessageTemplate(make, serialized, 3 * len(names))
