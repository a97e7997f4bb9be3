"""The estimator of any robot as an rclpy node: messages go into the pipeline, its estimates come out as messages."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Path as PathMessage
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import Marker

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Measurement
from onboard_estimation.base.series import SET_POSE
from onboard_estimation.contract.robot import Robot, estimator_name
from onboard_estimation.live.messages import interface_class, new, serialized
from onboard_estimation.nodes.arrivals import Arrivals
from onboard_estimation.nodes.pacing import Instant, PacedIntake
from onboard_estimation.nodes.parameters import NodeParameters, SteadyNode
from onboard_estimation.nodes.transforms import EstimateTransforms
from onboard_estimation.nodes.truth_start import TruthStart
from onboard_estimation.pipeline.aside import Aside
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import HealthReport, LossReport, waiting_sentence
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.estimator_host import EstimatorHost
from onboard_estimation.ros.measurements import to_measurement
from onboard_estimation.ros.message_templates import SerializedEstimates
from onboard_estimation.ros.phases import TYPES, NewEvents, event_messages
from onboard_estimation.ros.sensor_messages import New
from onboard_estimation.ros.thinning import Thinning, Trail
from onboard_estimation.ros.transforms import MapToOdom, resolved_prefix

_STREAM = QoSProfile(depth=500)
_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
ODOMETRY = frozenset({"odometry"})
"""What is given in `odom`; all else in `map`."""
_MARKER_PERIOD_S = 1.0
_RECENT_NS = NANOSECONDS_PER_SECOND
_LONGEST_REST_S = 0.02
"""Services wait for as long; resting longer would save no more."""
_ASKS_S = 0.1
"""Who comes to listen gets estimates after as long, where not every one goes out."""
_LATE_S = 0.0003
"""So long after the reading that something goes out with is due the node looks: those of one instant come together."""


class EstimatorNode(SteadyNode):
    """Runs one of a robot's estimators.

    Subscribes to the robot's channels (`onboard-estimation robots` lists them), `ground_truth/<body>/pose` only with
    `initial_from_truth`. Publishes `odometry`, `path`, `joint_states`, `joint_states_stddev`, `inertial_parameters`,
    `inertial_parameters_stddev`, `state` and `state_covariance` as far as the robot's state has them, tf, and
    `/diagnostics`; of a robot with phases `phase_events`, `phase_state`, `apex` and `phase` as well. Services: `reset`
    (std_srvs/Trigger) and `<sensor>/enable` (std_srvs/SetBool). Parameters: the robot's configuration and
    `EstimatorHost`.

    An estimate's message is made only for a topic that somebody listens to, and at most `output_rate_hz` times a second
    by the stamps. An event is published once, when it is first seen; late measurements may show that it was none, which
    is not taken back (see `NewEvents`).

    Attributes
    ----------
    paced_by
        Sensor whose measurements the estimates come with: the others wait for it, see `PacedIntake`. None: commands,
        and what is not required, wait for the required sensors.
    estimator_name
        Which of the robot's estimators runs.
    latest
        The newest estimate; None: there is none yet.

    Raises
    ------
    UserError
        Parameters at fault, all of them listed.
    """

    paced_by: str | None = None

    def __init__(self, robot: Robot, name: str) -> None:
        super().__init__(name)
        self.robot = robot
        self._settings: NodeParameters[Any, EstimatorHost] = NodeParameters(
            self, robot.configuration_type, EstimatorHost, robot.run_time_parameters, self._reconfigure
        )
        configuration, host = self._settings.configuration, self._settings.host
        self.estimator_name = estimator_name(robot, host.estimator or None)
        # Before anything arrives: a kernel that compiles at the first message holds it up.
        robot.exercise(configuration, self.estimator_name)
        self.channels = robot.listened_channels(configuration, self.estimator_name)
        self.pipeline = self._new_pipeline(configuration, None)
        self._start = TruthStart(robot, configuration) if host.initial_from_truth else None
        required = [channel.sensor for channel in self.channels if channel.required and not channel.command]
        self._pace = [self.paced_by] if self.paced_by else required
        self._due: list[Measurement] = []  # to be filtered
        self._intake = PacedIntake(self._due.append, self._pace)
        self._publishes_all = host.output_rate_hz == 0.0
        self._thinning = Thinning(host.output_rate_hz, repeats=True)
        self._instant = Instant(self._pace)
        self._rests = host.rests_between_outputs and not self._publishes_all
        self._longest_rest_s = host.longest_event_delay_s if self.pipeline.estimator.phases else _LONGEST_REST_S
        self._newest_ns = 0  # of the estimates
        self._heard_ns = 0  # of the last measurement
        self._estimates = 0
        self._heard: set[str] = set()  # topics that somebody listens to
        self._asked_s = -math.inf
        self.latest: Estimate | None = None
        self._prefix = resolved_prefix(host.frame_prefix, self.get_namespace())
        self._to_odom = MapToOdom(self.pipeline.space)
        self._trail = Trail(new)
        self._transforms: EstimateTransforms | None = None
        if host.publish_tf:
            self._transforms = EstimateTransforms(
                self, robot, configuration, self.pipeline.space, self._prefix, host.world_to_map_m_rad
            )
        self._offer(host)
        self._listen(host)
        self.get_logger().info(
            f"{robot.name}, estimator {self.estimator_name}: {', '.join(self._topics[c.topic] for c in self.channels)}"
        )

    @property
    def configuration(self) -> Any:
        """Of the robot, as it is now."""
        return self._settings.configuration

    @property
    def map_frame(self) -> str:
        """Name of the frame of the estimates."""
        return f"{self._prefix}map"

    def offer_marker(self, topic: str, maker: Callable[[New], Callable[[], Any]]) -> None:
        """Publish a `visualization_msgs/msg/Marker`, once a second as long as somebody listens.

        `maker` is given what makes messages, and gives what makes the marker, or None where there is none yet.
        """
        make, output = maker(new), self.create_publisher(Marker, topic, 1)

        def publish() -> None:
            if output.get_subscription_count():
                marker = make()
                if marker is not None:
                    output.publish(marker)

        self.every(_MARKER_PERIOD_S, partial(self._aside(topic), publish))

    def _aside(self, name: str) -> Aside:
        """What is told beside the estimates, some of it by estimators that others wrote."""
        return Aside(name, self.get_logger().error)

    def _new_pipeline(self, configuration: Any, initial: Estimate | None) -> Pipeline:
        estimator = self.robot.estimator(configuration, self.estimator_name)
        lag_s = getattr(configuration, "lag_s", 0.2)
        return Pipeline(estimator, self.channels, initial, lag_s, tell=self.get_logger().warning)

    def _offer(self, host: EstimatorHost) -> None:
        """Publishers, services and timers."""
        odom, base = f"{self._prefix}odom", f"{self._prefix}base_link"
        self._messages = EstimateMessages(self.pipeline.space, new, odom, base)
        origin = self._messages.types()
        self._serialized = SerializedEstimates(self._messages, serialized)
        self._outputs = {
            topic: self.create_publisher(interface_class(kind), topic, _STREAM) for topic, kind in origin.items()
        }
        self._path = self.create_publisher(PathMessage, "path", _LATCHED) if "odometry" in origin else None
        self._phases = PhaseOutputs(self, odom) if self.pipeline.estimator.phases else None
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._health = HealthReport(new, self.get_fully_qualified_name().strip("/"))
        self._losses = LossReport()
        self._several: Collection[str] = ()  # sensors of which it is said that several nodes publish them
        self.create_service(Trigger, "reset", self._reset)
        for channel in self.channels:
            if channel.required and channel.sensor != channel.topic:
                self.create_service(SetBool, f"{channel.sensor}/enable", partial(self._enable, channel.sensor))
        self.every(host.diagnostics_period_s, partial(self._aside("/diagnostics"), self._report))
        self.every(host.waiting_period_s, partial(self._aside("the report on readings in the log"), self._say_waiting))
        self._tf = self._aside("tf")

    def _listen(self, host: EstimatorHost) -> None:
        """Subscriptions."""
        self._topics = {channel.topic: self.resolve_topic_name(channel.topic) for channel in self.channels}
        for channel in self.channels:
            if channel.sensor == SET_POSE:
                self.create_subscription(interface_class(channel.message_type), channel.topic, self._set_pose, 10)
        sensors = [channel for channel in self.channels if channel.sensor != SET_POSE]
        self._arrivals = Arrivals(self, sensors, host.reliable_sensors, self._pace, self._take)
        if self._start is not None:
            self._start.subscribe(self, self._begin)

    def leave_to_source(self, topics: Collection[str]) -> Collection[str]:
        """What a source in the same process measures comes to `take`; see `connect`."""
        return self._arrivals.leave(topics)

    def take(self, readings: Sequence[Measurement]) -> float:
        """Filter what a source in this process has measured, with the messages that are there by now; see `connect`."""
        return self._take(self._arrivals.joined(readings))

    def _take(self, readings: Sequence[Measurement]) -> float:
        """Filter what has arrived, and publish what came of it: of one instant the last estimate.

        How long the next readings may wait, s: until something is to go out.
        """
        for measurement in readings:
            self._heard_ns = measurement.stamp_ns
            self._instant.see(measurement)
            if self._start is None:
                self._intake.add(measurement)
        self._filter()
        left_ns = self._thinning.time_left_ns(self._newest_ns)
        # Nothing gathers where the next reading comes only when something is to go out.
        if not self._rests or not self._instant.is_complete or self._instant.period_ns >= left_ns:
            return 0.0
        return min(left_ns / NANOSECONDS_PER_SECOND + _LATE_S, self._longest_rest_s)

    def _filter(self) -> None:
        """Filter what is due."""
        due = self._due.copy()
        self._due.clear()
        estimates = self.pipeline.process_all(due)
        for estimate, following in zip_longest(estimates, estimates[1:]):
            is_last = following is None or following.stamp_ns != estimate.stamp_ns
            if self._publishes_all or (is_last and self._thinning.passes(estimate.stamp_ns)):
                self._publish(estimate)
        if estimates:
            self._estimates += len(estimates)
            self.latest = estimates[-1]
            self._newest_ns = self.latest.stamp_ns  # which falls back when a bag starts again
        if self._phases is not None:
            self._phases.publish(self.pipeline)

    def _publish(self, estimate: Estimate) -> None:
        in_odom = self._to_odom(estimate)
        wanted = self._wanted()
        for given, topics in ((in_odom, wanted & ODOMETRY), (estimate, wanted - ODOMETRY)):
            for topic, data in self._serialized(given, topics):
                self._outputs[topic].publish(data)
        if self._path is not None and self._trail.is_due(estimate.stamp_ns):
            (odometry,) = self._messages(in_odom, ODOMETRY)
            self._path.publish(self._trail.add(odometry.message))
        if self._transforms is not None:
            self._tf(self._transforms.publish, in_odom, self._to_odom.pose)

    def _wanted(self) -> set[str]:
        """Topics that somebody listens to. To ask for each estimate would take a twentieth of the node's time."""
        now_s = time.monotonic()
        if self._publishes_all or now_s - self._asked_s >= _ASKS_S:
            self._asked_s = now_s
            self._heard = {topic for topic, one in self._outputs.items() if one.get_subscription_count() > 0}
        return self._heard

    def _begin(self, initial: Estimate) -> None:
        """Start from the truth, which is there now."""
        self.pipeline = self._new_pipeline(self._settings.configuration, initial)
        self._start = None
        self.get_logger().info(f"started from the ground truth at {initial.stamp_ns / NANOSECONDS_PER_SECOND:.3f} s")

    def _set_pose(self, message: Any) -> None:
        """A pose of the base in `map`; one without a stamp, or far from the sensors' clock, is taken as of now.

        Of a robot with a place in the plane it moves `map`, which is done from the newest estimate on. One of which
        only the height is estimated may start from it, and it counts from its stamp on.
        """
        channel = next(channel for channel in self.channels if channel.sensor == SET_POSE)
        frame = message.header.frame_id
        if frame and frame not in (f"{self._prefix}map", "map"):
            self.get_logger().warning(
                f"pose in frame {frame!r} refused: it has to be in {self._prefix}map (RViz: Fixed Frame)"
            )
            return
        moves_map = self._to_odom.can_move
        if self._start is not None or (moves_map and not self._newest_ns):
            self.get_logger().warning("pose refused: there is no estimate yet that it could replace")
            return
        measurement = to_measurement(channel, message)
        if not np.isfinite(measurement.value).all():
            self.get_logger().warning("pose refused: it holds numbers that are not finite")
            return
        now_ns = self._newest_ns or self._heard_ns or measurement.stamp_ns
        if abs(measurement.stamp_ns - now_ns) > _RECENT_NS or (moves_map and measurement.stamp_ns < now_ns):
            measurement = Measurement(now_ns, measurement.sensor, measurement.value)
        if self.latest is not None:
            self._to_odom(self.latest)  # where the base is now, not where it was when an estimate last went out
        self._to_odom.take_up_next()
        # The next estimate is taken to be that of the pose: no reading may come in between.
        self._thinning.clear()
        (self._due.append if moves_map else self._intake.add)(measurement)
        self._filter()
        x, y, z = measurement.value[:3]
        place = f"pose set to x {x:.3f} m, y {y:.3f} m" if moves_map else f"height set to {z:.3f} m"
        self.get_logger().info(f"{place} in {self._prefix}map")

    def _reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.pipeline.reset()
        self._intake.clear()
        self._thinning.clear()
        self._to_odom.reset()
        self._trail.clear()
        if self._phases is not None:
            self._phases.forget()
        response.success, response.message = True, "filter back at its initial state"
        if self._settings.host.initial_from_truth and self._start is None:
            self._start = TruthStart(self.robot, self._settings.configuration)
            self._start.subscribe(self, self._begin)
            response.message = "filter starts again from the ground truth"
        self.get_logger().info(response.message)
        return response

    def _enable(self, sensor: str, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        try:
            self.pipeline.set_enabled(sensor, request.data)
        except ValueError as error:
            response.success, response.message = False, str(error)
        else:
            response.success, response.message = True, f"{sensor} {'used' if request.data else 'left out'} from now on"
            self.get_logger().info(response.message)
        return response

    def _reconfigure(self, configuration: Any) -> None:
        self.pipeline.estimator = self.robot.estimator(configuration, self.estimator_name)

    def _report(self) -> None:
        stamp_ns = self.get_clock().now().nanoseconds
        self._instant.forget()
        several = self._arrivals.several()
        for sensor in several.keys() - self._several:
            self.get_logger().warning(several[sensor])
        self._several = several.keys()
        counters = self._arrivals.counters()
        report = self._health(self.pipeline, self.channels, stamp_ns, self._estimates, counters, several)
        self._diagnostics.publish(report)

    def _say_waiting(self) -> None:
        sentence = (
            self._start.waiting_sentence()
            if self._start is not None
            else waiting_sentence(self.pipeline, self.channels, self._topics)
        )
        for said in (sentence, *self._losses(self.pipeline, self._arrivals.counters())):
            if said:
                self.get_logger().warning(said)


class PhaseOutputs:
    """Publishes `phase_events`, `phase_state`, `apex` and `phase`, see `onboard_estimation.ros.phases`.

    Parameters
    ----------
    frame_id
        Of the apex, and of the odometry.
    """

    def __init__(self, node: Node, frame_id: str) -> None:
        self._frame_id = frame_id
        self._outputs: dict[str, Any] = {
            topic: node.create_publisher(interface_class(kind), topic, 100) for topic, kind in TYPES.items()
        }
        self._phase_output = node.create_publisher(String, "phase", _LATCHED)
        self._phase: str | None = None
        self._new_events = NewEvents()
        self._clock_jumps = 0

    def publish(self, pipeline: Pipeline) -> None:
        """Publish what the last measurement brought."""
        if pipeline.clock_jumps != self._clock_jumps:  # a bag starts again
            self._clock_jumps = pipeline.clock_jumps
            self._new_events.forget()
        for event in self._new_events(pipeline.take_events()):
            for output in event_messages(new, event, self._frame_id):
                self._outputs[output.topic].publish(output.message)
        phase = pipeline.phase
        if phase is not None and phase != self._phase:
            self._phase = phase
            self._phase_output.publish(String(data=phase))

    def forget(self) -> None:
        """After a reset: events may come again."""
        self._new_events.forget()
