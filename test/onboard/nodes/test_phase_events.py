"""Phases and their events as messages and in a live node, and a simulated robot that goes by the live estimate."""

from __future__ import annotations

import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bouncer import HEIGHT, PHASES, ROBOT, Bouncer, BouncerEstimator
from live_graph import collect, spin_until, spun

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Measurement, PhaseEvent
from onboard_estimation.nodes.for_launch import published_topics
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import HealthReport
from onboard_estimation.ros.phases import TYPES, NewEvents, event_messages

START_NS = 1_700_000_000_000_000_000
APEX = PhaseEvent("apex", START_NS + 123_456_789, START_NS + 150_000_000, 0.004, 1, 2.5)

NAMESPACE = ("-r", "__ns:=/ball")
live = [pytest.mark.usefixtures("ros_domain"), pytest.mark.live]


def ns_of(stamp: Any) -> int:
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def test_an_event_says_when_it_happened_and_when_it_was_seen() -> None:
    messages = {output.topic: output.message for output in event_messages(new, APEX, "hopper/odom")}
    assert set(messages) == set(TYPES)
    told, state, point = (messages[topic] for topic in ("phase_events", "phase_state", "apex"))
    assert (told.source, ns_of(told.time_ref)) == ("apex", APEX.seen_ns)
    assert {ns_of(message.header.stamp) for message in messages.values()} == {APEX.stamp_ns}
    assert dict(zip(state.name, state.position, strict=True)) == {"phase": 1.0, "event_time_stddev": 0.004}
    assert (point.point.x, point.point.y, point.point.z) == (0.0, 0.0, 2.5)
    assert point.header.frame_id == "hopper/odom"
    for other in (APEX._replace(name="touchdown"), APEX._replace(height_m=math.nan)):
        assert {output.topic for output in event_messages(new, other)} == {"phase_events", "phase_state"}


def test_an_event_is_told_once_though_a_roll_back_sees_it_again() -> None:
    fresh = NewEvents()
    assert fresh([APEX]) == [APEX]
    assert fresh([APEX._replace(stamp_ns=APEX.stamp_ns + 9_000_000), APEX]) == []
    assert fresh([APEX._replace(stamp_ns=APEX.stamp_ns - 9_000_000)]) == []
    others = [APEX._replace(stamp_ns=APEX.stamp_ns + 30_000_000), APEX._replace(name="touchdown")]
    assert fresh(others) == others
    fresh.forget()
    assert fresh([APEX]) == [APEX]


def test_the_phase_is_among_the_diagnostics() -> None:
    pipeline, report = Pipeline(BouncerEstimator(Bouncer())), HealthReport(new, "bouncer")
    channels = ROBOT.channels(Bouncer())

    def phase() -> Any:
        statuses = {status.name: status for status in report(pipeline, channels, START_NS, 1).status}
        return statuses["bouncer: phase"]

    assert phase().message == "no phase yet"
    for step in range(3):
        pipeline.process(Measurement(START_NS + step * 10_000_000, HEIGHT.sensor, np.array([0.0, 0.0, step])))
    assert phase().message == "rising"
    assert [(pair.key, pair.value) for pair in phase().values] == [("phase", "1")]


def estimator_node() -> Any:
    from onboard_estimation.nodes.estimator import EstimatorNode

    return EstimatorNode(ROBOT, "bouncer_estimator")


def simulator_node() -> Any:
    from onboard_estimation.nodes.simulator import SimulatorNode

    class BouncerSimulator(SimulatorNode):
        phases = PHASES

    return BouncerSimulator(ROBOT, "bouncer_simulator")


def listener() -> Any:
    from rclpy.node import Node

    return Node("listener")


def heard(node: Any, message_type: str, topic: str, transient: bool = False) -> list[Any]:
    from rclpy.qos import DurabilityPolicy, QoSProfile

    latched = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    return collect(node, message_type, topic, latched if transient else 1000)


class TestLive:
    pytestmark = live

    def test_the_node_publishes_phases_and_events_once(self) -> None:
        # And so a bag that holds them is not played beside the node.
        assert {f"/hopper/{topic}" for topic in (*TYPES, "phase")} <= set(published_topics("hopper"))
        reliable = ("-p", "reliable_sensors:=true")
        with spun(estimator_node, listener, arguments=[*NAMESPACE, *reliable]) as (estimator, node):
            from geometry_msgs.msg import PointStamped

            messages = {topic: heard(node, kind, topic) for topic, kind in TYPES.items()}
            publisher = node.create_publisher(PointStamped, "height", 100)
            outputs = [estimator.get_publishers_info_by_topic(f"/ball/{topic}") for topic in TYPES]
            assert all(len(one) == 1 for one in outputs)
            spin_until(node, lambda: publisher.get_subscription_count() > 0)
            spin_until(node, lambda: all(estimator.count_subscribers(f"/ball/{topic}") > 0 for topic in TYPES))

            def publish(step: int, height_m: float) -> None:
                message = PointStamped()
                message.header.stamp.sec, message.header.stamp.nanosec = divmod(START_NS + step * 10_000_000, 10**9)
                message.point.z = height_m
                publisher.publish(message)

            heights = [0.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0]
            for step in (0, 1, 3, 4, 5, 6, 7, 8, 2, 9, 10):
                publish(step, heights[step])
            spin_until(node, lambda: len(messages["phase_events"]) >= 3 and len(messages["apex"]) >= 2)
            # A latched topic: who comes now gets what it is now.
            phase = heard(node, "std_msgs/msg/String", "phase", transient=True)
            spin_until(node, lambda: bool(phase))
            # The bag starts again: everything is told again.
            for step in range(5):
                publish(step - 100_000, heights[step])
            spin_until(node, lambda: len(messages["phase_events"]) >= 4)

        steps = [(m.source, round((ns_of(m.header.stamp) - START_NS) / 1e7)) for m in messages["phase_events"]]
        assert steps == [("apex", 3), ("bottom", 6), ("apex", 9), ("apex", 3 - 100_000)]
        seen = [round((ns_of(m.time_ref) - START_NS) / 1e7) for m in messages["phase_events"]]
        assert seen == [4, 7, 10, 4 - 100_000]
        assert [m.point.z for m in messages["apex"]][:2] == [3.0, 3.0]
        assert messages["apex"][0].header.frame_id == "ball/odom"
        assert [list(m.position) for m in messages["phase_state"]][:2] == [[0.0, 0.01], [1.0, 0.01]]
        assert [m.data for m in phase][:1] == ["falling"]

    def test_an_estimator_whose_own_report_fails_goes_on_estimating(self, capfd: pytest.CaptureFixture[str]) -> None:
        class Faulty(BouncerEstimator):
            def health(self, state: Any) -> Any:
                raise ZeroDivisionError("in a stranger's code")

        class FaultyRobot(type(ROBOT)):  # type: ignore[misc]
            def estimator(self, configuration: Bouncer, name: str) -> Faulty:
                return Faulty(configuration)

        def make() -> Any:
            from onboard_estimation.nodes.estimator import EstimatorNode

            return EstimatorNode(FaultyRobot(), "bouncer_estimator")

        with spun(simulator_node, make, listener, arguments=NAMESPACE) as (_, _, node):
            odometry = heard(node, "nav_msgs/msg/Odometry", "odometry")
            said: list[str] = []
            spin_until(node, lambda: bool(said.append(capfd.readouterr().err)) or "has ended" in "".join(said))
            many = len(odometry)
            spin_until(node, lambda: len(odometry) > many + 50)
        sentence = "/diagnostics has ended: ZeroDivisionError: in a stranger's code; all else goes on"
        assert ("".join(said) + capfd.readouterr().err).count(sentence) == 1

    def test_a_simulated_robot_goes_by_the_estimate(self, tmp_path: Path) -> None:
        (tmp_path / "nodes.yaml").write_text("/**/bouncer_simulator: {ros__parameters: {control: estimate}}\n")
        arguments = ("--params-file", str(tmp_path / "nodes.yaml"))
        with spun(simulator_node, estimator_node, listener, arguments=[*NAMESPACE, *arguments]) as (_, _, node):
            measurements = heard(node, HEIGHT.message_type, "height")
            odometry = heard(node, "nav_msgs/msg/Odometry", "odometry")
            poses = heard(node, "geometry_msgs/msg/PoseWithCovarianceStamped", "set_pose")

            def controlled() -> list[Any]:
                return [m.point for m in measurements if m.point.y != 0.0]

            spin_until(node, lambda: len({m.x for m in controlled()}) >= 2 and len(controlled()) > 100 and bool(poses))
        assert odometry
        assert {m.x for m in controlled()} >= {0.0, 1.0}  # numbers of both phases
        # What the controller has is a height that was measured, not long before: a piece and a message's way.
        stamps_ns = np.array([ns_of(m.header.stamp) for m in measurements])
        heights, taken = (np.array([getattr(m.point, axis) for m in measurements]) for axis in "zy")
        ages_s = []
        for place in np.flatnonzero(taken):
            same = np.flatnonzero(heights[:place] == taken[place])
            if len(same):
                ages_s.append(1e-9 * (stamps_ns[place] - stamps_ns[same[-1]]))
        assert len(ages_s) > 0.5 * np.count_nonzero(taken)  # others are poses that were set, or from before it listened
        assert min(ages_s) > 0.0
        assert np.median(ages_s) < 0.1
        assert poses[0].header.frame_id == "ball/map"

    def test_a_simulated_robot_waits_for_an_estimate_that_is_behind_but_not_for_ever(self) -> None:
        with spun(simulator_node, listener, arguments=[*NAMESPACE, "-p", "control:=estimate"]) as (_, node):
            from nav_msgs.msg import Odometry

            measurements = heard(node, HEIGHT.message_type, "height")
            publisher = node.create_publisher(Odometry, "odometry", 10)
            spin_until(node, lambda: publisher.get_subscription_count() > 0 and len(measurements) > 2)
            estimate = Odometry(header=measurements[-1].header)

            def is_stuck() -> bool:
                """While an estimator says the same again and again for 0.4 s."""
                behind, end_s = len(measurements), time.monotonic() + 0.4
                spin_until(node, lambda: publisher.publish(estimate) or time.monotonic() > end_s)
                return len(measurements) <= behind + 2

            spin_until(node, is_stuck)
            behind, at_ns = len(measurements), ns_of(measurements[-1].header.stamp)
            # Nobody says anything any more.
            spin_until(node, lambda: len(measurements) > behind + 50)
            assert ns_of(measurements[-1].header.stamp) - at_ns > 0.4 * 1e9

    def test_a_robot_without_a_controller_refuses_to_go_by_an_estimate(self) -> None:
        from onboard_estimation.base.errors import UserError
        from onboard_estimation.nodes.simulator import SimulatorNode

        class Uncontrolled(type(ROBOT)):  # type: ignore[misc]
            def simulation(self, *_: Any) -> Any:
                return SimpleNamespace(advance=lambda stop_ns: None)

        with (
            pytest.raises(UserError, match="simulated bouncer has no controller that goes by an estimate"),
            spun(lambda: SimulatorNode(Uncontrolled(), "simulator"), arguments=("-p", "control:=estimate")),
        ):
            pass
