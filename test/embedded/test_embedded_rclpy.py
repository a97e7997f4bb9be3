"""rclpy's behaviour: the same tests run on the embedded runtime and, where ROS 2 is sourced, on the real rclpy."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import embedded_ros

RUNTIME = embedded_ros.install()
EMBEDDED = RUNTIME is embedded_ros.Runtime.EMBEDDED
embedded_only = pytest.mark.skipif(not EMBEDDED, reason="what only the embedded runtime does")

import rclpy  # noqa: E402
from builtin_interfaces.msg import Time as TimeMessage  # noqa: E402
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup  # noqa: E402
from rclpy.clock import Clock, ROSClock  # noqa: E402
from rclpy.clock_type import ClockType  # noqa: E402
from rclpy.duration import Duration, Infinite  # noqa: E402
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks  # noqa: E402
from rclpy.exceptions import (  # noqa: E402
    InvalidHandle,
    InvalidNamespaceException,
    InvalidNodeNameException,
    InvalidServiceNameException,
    InvalidTopicNameException,
    NotInitializedException,
)
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor  # noqa: E402
from rclpy.expand_topic_name import expand_topic_name  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from rclpy.qos import (  # noqa: E402
    DurabilityPolicy,
    HistoryPolicy,
    InvalidQoSProfileException,
    QoSPolicyKind,
    QoSPresetProfiles,
    QoSProfile,
    ReliabilityPolicy,
    qos_profile_sensor_data,
)
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from rclpy.task import Future  # noqa: E402
from rclpy.time import Time  # noqa: E402
from rosgraph_msgs.msg import Clock as ClockMessage  # noqa: E402
from sensor_msgs.msg import Imu  # noqa: E402
from std_msgs.msg import Int64, String  # noqa: E402
from std_srvs.srv import SetBool, Trigger  # noqa: E402

LONG_S = 60.0
LATCHED = QoSProfile(depth=5, durability=DurabilityPolicy.TRANSIENT_LOCAL)
ALL = QoSProfile(history=HistoryPolicy.KEEP_ALL)
nanoseconds = st.integers(min_value=0, max_value=2**62)


@pytest.fixture
def node(ros_domain: int) -> Iterator[Node]:
    rclpy.init(args=[], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    made = Node("tested", namespace="/salp")
    try:
        yield made
    finally:
        made.destroy_node()
        rclpy.try_shutdown()


def spin_until(node: Node, condition: Callable[[], bool], timeout_s: float = LONG_S) -> bool:
    end_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < end_s:
        rclpy.spin_once(node, timeout_sec=0.05)
    return condition()


def matched(node: Node, publisher: Any, count: int = 1) -> None:
    assert spin_until(node, lambda: publisher.get_subscription_count() >= count), "no subscription was found"


# Times


@given(nanoseconds, nanoseconds)
def test_times_and_durations_add_up(start_ns: int, length_ns: int) -> None:
    start, length = Time(nanoseconds=start_ns), Duration(nanoseconds=length_ns)
    if start_ns + length_ns < 2**63:
        end = start + length
        assert end.nanoseconds == start_ns + length_ns
        assert (end - start) == length
        assert (end - length) == start
        assert end >= start
        assert not end < start
        assert Time.from_msg(end.to_msg(), ClockType.SYSTEM_TIME) == end if end.nanoseconds < 2**31 * 10**9 else True
    else:
        with pytest.raises(OverflowError):
            start + length


@given(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62))
def test_durations_order_as_their_nanoseconds(a: int, b: int) -> None:
    first, second = Duration(nanoseconds=a), Duration(nanoseconds=b)
    assert (first < second, first <= second, first == second) == (a < b, a <= b, a == b)
    assert (first > second, first >= second, first != second) == (a > b, a >= b, a != b)


def test_times_of_different_clocks_do_not_mix() -> None:
    ros, system = Time(seconds=1, clock_type=ClockType.ROS_TIME), Time(seconds=1)
    for mix in (lambda: ros == system, lambda: ros != system, lambda: ros < system, lambda: ros - system):
        with pytest.raises(TypeError, match="different clock types"):
            mix()
    with pytest.raises(TypeError):
        ros + system
    assert Time.from_msg(TimeMessage(sec=3, nanosec=4)).clock_type == ClockType.ROS_TIME


def test_times_and_durations_refuse_what_they_cannot_hold() -> None:
    with pytest.raises(ValueError, match="negative"):
        Time(seconds=-1)
    with pytest.raises(ValueError, match="negative"):
        Time(seconds=1) - Duration(seconds=2)
    with pytest.raises(OverflowError):
        Time(nanoseconds=2**63)
    with pytest.raises(OverflowError):
        Duration(nanoseconds=2**63)
    with pytest.raises(TypeError):
        Time(clock_type="ROS_TIME")
    with pytest.raises(TypeError):
        Time.from_msg(Int64())
    assert str(Infinite) == "Infinite"
    assert repr(Time(seconds=1.5)) == "Time(nanoseconds=1500000000, clock_type=SYSTEM_TIME)"
    assert Time(seconds=12, nanoseconds=34).seconds_nanoseconds() == (12, 34)
    assert Duration.from_msg(Duration(seconds=-1.25).to_msg()) == Duration(seconds=-1.25)


def test_a_clock_of_ros_time_shows_what_it_is_told(node: Node) -> None:
    clock = Clock(clock_type=ClockType.ROS_TIME)
    assert isinstance(clock, ROSClock)
    assert not clock.ros_time_is_active

    def at(seconds: float) -> Time:
        return Time(seconds=seconds, clock_type=ClockType.ROS_TIME)

    clock.set_ros_time_override(at(10))
    assert clock.now() > at(1e9)  # still wall time
    clock._set_ros_time_is_active(True)
    assert clock.now() == at(10)
    for wake, slept in (
        (lambda: clock.set_ros_time_override(at(20)), True),
        (lambda: clock._set_ros_time_is_active(False), False),  # of another epoch than the time to wait for
    ):
        clock.set_ros_time_override(at(10))
        with ThreadPoolExecutor() as pool:
            sleeping = pool.submit(clock.sleep_until, at(20))
            clock.set_ros_time_override(at(15))
            with pytest.raises(NotYet):
                sleeping.result(timeout=0.2)
            wake()
            assert sleeping.result(timeout=LONG_S) is slept


# Names and arguments


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("imu", "/salp/imu"),
        ("link_1/imu", "/salp/link_1/imu"),
        ("/imu", "/imu"),
        ("~/imu", "/salp/tested/imu"),
        ("~", "/salp/tested"),
        ("{node}/imu", "/salp/tested/imu"),
    ],
)
def test_names_are_expanded(name: str, full: str) -> None:
    assert expand_topic_name(name, "tested", "/salp") == full


@pytest.mark.parametrize("name", ["", "imu/", "a//b", "1imu", "a/1b", "imu?", "a~b", "~imu", "a b"])
def test_topic_names_are_validated(node: Node, name: str) -> None:
    with pytest.raises(InvalidTopicNameException):
        node.create_publisher(String, name, 1)
    with pytest.raises(InvalidTopicNameException):
        node.create_subscription(String, name, lambda _: None, 1)
    with pytest.raises(InvalidServiceNameException):
        node.create_client(Trigger, name)


def test_node_names_are_validated(node: Node) -> None:
    for name in ("", "a b", "1a", "a/b", "a-b"):
        with pytest.raises(InvalidNodeNameException):
            Node(name)
    for namespace in ("/a b", "//", "/1a", "/a/"):
        with pytest.raises(InvalidNamespaceException):
            Node("fine", namespace=namespace)


@pytest.mark.parametrize(
    ("arguments", "full_name", "imu"),
    [
        ([], "/salp/given", "/salp/imu"),
        (["-r", "imu:=gyro"], "/salp/given", "/salp/gyro"),
        (["-r", "imu:=/gyro"], "/salp/given", "/gyro"),
        (["--remap", "/salp/imu:=other/gyro"], "/salp/given", "/salp/other/gyro"),
        (["-r", "__ns:=/eel"], "/eel/given", "/eel/imu"),
        (["-r", "__node:=renamed"], "/salp/renamed", "/salp/imu"),
        (["-r", "__name:=renamed", "-r", "__ns:=/eel"], "/eel/renamed", "/eel/imu"),
        (["-r", "given:__node:=renamed", "-r", "other:__ns:=/eel"], "/salp/renamed", "/salp/imu"),
        (["-r", "given:imu:=mine", "-r", "imu:=everybodys"], "/salp/given", "/salp/mine"),
        (["-r", "other:imu:=theirs"], "/salp/given", "/salp/imu"),
        (["-r", "imu:=first", "-r", "imu:=second"], "/salp/given", "/salp/first"),
        (["-r", "rosservice://imu:=service_only"], "/salp/given", "/salp/imu"),
        (["-e", "/enclave", "--log-level", "given:=warn", "--disable-rosout-logs"], "/salp/given", "/salp/imu"),
    ],
)
def test_the_command_line_renames(node: Node, arguments: list[str], full_name: str, imu: str) -> None:
    made = Node("given", namespace="/salp", cli_args=["--ros-args", *arguments])
    assert made.get_fully_qualified_name() == full_name
    assert made.resolve_topic_name("imu") == imu
    assert made.create_publisher(Imu, "imu", 1).topic_name == imu
    assert made.resolve_topic_name("imu", only_expand=True) == f"{made.get_namespace()}/imu"
    made.destroy_node()


def test_arguments_of_ros_are_told_from_others() -> None:
    line = ["program", "--own", "--ros-args", "-r", "a:=b", "--", "more", "--ros-args", "-p", "x:=1"]
    assert rclpy.utilities.remove_ros_args(line) == ["program", "--own", "more"]


def test_arguments_that_make_no_sense_are_refused(ros_domain: int) -> None:
    for arguments in (["--unknown"], ["-r", "no_rule"], ["-p"], ["--log-level", "loud"], ["-p", "no_value"]):
        with pytest.raises(RuntimeError):
            rclpy.init(args=["x", "--ros-args", *arguments], context=rclpy.context.Context())


def test_nothing_is_made_before_init_or_after_shutdown(ros_domain: int) -> None:
    with pytest.raises(NotInitializedException):
        Node("early")
    assert not rclpy.ok()
    context = rclpy.context.Context()
    rclpy.init(args=[], context=context)
    assert context.ok()
    with pytest.raises(RuntimeError):
        rclpy.init(args=[], context=context)
    rclpy.shutdown(context=context)
    assert not context.ok()
    with pytest.raises(RuntimeError):
        rclpy.shutdown(context=context)
    rclpy.try_shutdown(context=context)


# Topics


def test_messages_pass_with_their_times(node: Node) -> None:
    received: list[tuple[Imu, dict[str, Any]]] = []
    raw: list[bytes] = []
    node.create_subscription(Imu, "imu", lambda message, info: received.append((message, info)), 10)
    node.create_subscription(Imu, "imu", raw.append, qos_profile_sensor_data, raw=True)
    publisher = node.create_publisher(Imu, "imu", 10)
    matched(node, publisher, 2)
    sent = Imu(linear_acceleration_covariance=[0.5] * 9)
    sent.header.frame_id, sent.angular_velocity.z = "link_1", -1.25
    before_ns = time.time_ns()
    publisher.publish(sent)
    publisher.publish(serialize_message(sent))
    assert spin_until(node, lambda: len(received) == 2 and len(raw) == 2)
    assert [message for message, _ in received] == [sent, sent]
    assert deserialize_message(raw[0], Imu) == sent
    for _, info in received:
        assert before_ns <= info["source_timestamp"] <= info["received_timestamp"] <= time.time_ns()
    with pytest.raises(TypeError):
        publisher.publish(String())
    assert node.destroy_publisher(publisher)
    assert not node.destroy_publisher(publisher)
    with pytest.raises(InvalidHandle):
        publisher.publish(sent)


def test_messages_of_one_publisher_keep_their_order(node: Node) -> None:
    received: list[int] = []
    node.create_subscription(Int64, "count", lambda message: received.append(message.data), ALL)
    publisher = node.create_publisher(Int64, "count", ALL)
    matched(node, publisher)
    for number in range(1000):
        publisher.publish(Int64(data=number))
    assert spin_until(node, lambda: len(received) == 1000)
    assert received == list(range(1000))


@embedded_only
def test_messages_of_several_topics_are_dispatched_as_they_were_sent(node: Node) -> None:
    received: list[int] = []
    publishers = []
    for name in ("a", "b", "c"):
        # The other way round than the publishers, so that the order of creation cannot be what is seen.
        node.create_subscription(Int64, name, lambda message: received.append(message.data), ALL)
        publishers.insert(0, node.create_publisher(Int64, name, ALL))
    for publisher in publishers:
        matched(node, publisher)
    order = [0] * 3 + [1] * 100 + [2] * 90 + [0, 1, 2] * 50 + [0] * 100  # more than a batch of one topic at a time
    for number, index in enumerate(order):
        publishers[index].publish(Int64(data=number))
    time.sleep(0.2)  # all have arrived before the first is dispatched
    assert spin_until(node, lambda: len(received) == len(order))
    assert received == list(range(len(order)))


def test_a_late_subscription_gets_what_is_latched(node: Node) -> None:
    publisher = node.create_publisher(String, "phase", LATCHED)
    for number in range(8):
        publisher.publish(String(data=str(number)))
    received: list[str] = []
    node.create_subscription(String, "phase", lambda message: received.append(message.data), LATCHED)
    assert spin_until(node, lambda: len(received) == 5)
    assert received == ["3", "4", "5", "6", "7"]


def test_a_subscription_keeps_the_latest_only(node: Node) -> None:
    received: list[int] = []
    node.create_subscription(Int64, "count", lambda message: received.append(message.data), 3)
    publisher = node.create_publisher(Int64, "count", 3)
    while publisher.get_subscription_count() == 0:
        time.sleep(0.01)
    for number in range(50):
        publisher.publish(Int64(data=number))
    assert publisher.wait_for_all_acked(Duration(seconds=5))
    assert spin_until(node, lambda: 49 in received)
    assert received == [47, 48, 49]


@embedded_only
def test_a_malformed_message_is_reported_and_left_out(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    received: list[str] = []
    node.create_subscription(String, "text", lambda message: received.append(message.data), 10)
    publisher = node.create_publisher(String, "text", 10)
    matched(node, publisher)
    publisher.publish(serialize_message(String(data="long")) + bytes(16))
    publisher.publish(String(data="fine"))
    assert spin_until(node, lambda: "fine" in received)
    assert received == ["fine"]
    assert "/salp/text is left out: malformed std_msgs/msg/String" in capfd.readouterr().err


def test_a_callback_takes_one_or_two_arguments(node: Node) -> None:
    with pytest.raises(RuntimeError, match="callback"):
        node.create_subscription(String, "text", lambda: None, 1)


# QoS


def test_profiles_have_rclpys_values_and_rules() -> None:
    sensor = QoSPresetProfiles.SENSOR_DATA.value
    assert sensor is qos_profile_sensor_data
    assert (sensor.depth, sensor.reliability) == (5, ReliabilityPolicy.BEST_EFFORT)
    assert QoSProfile(depth=7) == QoSProfile(depth=7, history=HistoryPolicy.KEEP_LAST)
    assert QoSProfile(depth=7) != QoSProfile(depth=8)
    with pytest.raises(InvalidQoSProfileException):
        QoSProfile()
    with pytest.raises(InvalidQoSProfileException):
        QoSProfile(history=HistoryPolicy.KEEP_LAST)
    with pytest.raises(AssertionError):
        QoSProfile(depth=1, reliability="reliable")
    with pytest.raises(AssertionError):
        QoSProfile(depth=1, reliable=True)
    with pytest.warns(UserWarning, match="SYSTEM_DEFAULT"):
        QoSProfile(depth=0)


def test_incompatible_qos_is_an_event_on_both_sides(node: Node) -> None:
    heard: dict[str, Any] = {}
    node.create_publisher(
        String,
        "uneven",
        qos_profile_sensor_data,
        event_callbacks=PublisherEventCallbacks(incompatible_qos=lambda event: heard.update(publisher=event)),
    )
    node.create_subscription(
        String,
        "uneven",
        lambda _: None,
        QoSProfile(depth=1),
        event_callbacks=SubscriptionEventCallbacks(incompatible_qos=lambda event: heard.update(subscription=event)),
    )
    assert spin_until(node, lambda: len(heard) == 2)
    for event in heard.values():
        assert event.total_count == 1
        assert int(event.last_policy_kind) == QoSPolicyKind.RELIABILITY


# Timers and simulated time


def test_timers_fire_until_they_are_cancelled(node: Node) -> None:
    ticks: list[int] = []
    timer = node.create_timer(0.005, lambda: ticks.append(timer.time_since_last_call()))
    assert timer.timer_period_ns == 5_000_000
    assert spin_until(node, lambda: len(ticks) >= 5)
    timer.cancel()
    assert timer.is_canceled()
    count = len(ticks)
    assert not spin_until(node, lambda: len(ticks) > count, timeout_s=0.1)
    timer.reset()
    assert spin_until(node, lambda: len(ticks) > count)
    assert node.destroy_timer(timer)
    idle = node.create_timer(0.001, lambda: ticks.append(-1), autostart=False)
    assert idle.is_canceled()
    assert not spin_until(node, lambda: -1 in ticks, timeout_s=0.05)


def test_neither_messages_nor_timers_starve_the_other(node: Node) -> None:
    seen: list[str] = []
    node.create_subscription(Int64, "count", lambda _: seen.append("message"), ALL)
    publisher = node.create_publisher(Int64, "count", ALL)
    matched(node, publisher)
    for number in range(300):
        publisher.publish(Int64(data=number))

    def slow() -> None:
        seen.append("timer")
        time.sleep(0.002)  # longer than its period: it is always due

    timer = node.create_timer(0.001, slow)
    assert spin_until(node, lambda: seen.count("message") == 300)
    timer.cancel()
    last_message = len(seen) - seen[::-1].index("message")
    assert seen[:last_message].count("timer") > 10


def test_simulated_time_drives_clock_and_timers(ros_domain: int) -> None:
    rclpy.init(args=[], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    try:
        simulated = Node("simulated", parameter_overrides=[Parameter("use_sim_time", value=True)])
        clock = simulated.get_clock()
        assert clock.ros_time_is_active
        assert clock.now().nanoseconds == 0
        ticks: list[int] = []
        simulated.create_timer(0.1, lambda: ticks.append(clock.now().nanoseconds // 1_000_000))
        publisher = simulated.create_publisher(ClockMessage, "/clock", 10)
        matched(simulated, publisher)

        def advance(milliseconds: int) -> None:
            seconds, rest = divmod(milliseconds, 1000)
            publisher.publish(ClockMessage(clock=TimeMessage(sec=seconds, nanosec=rest * 1_000_000)))
            assert spin_until(simulated, lambda: clock.now().nanoseconds == milliseconds * 1_000_000)
            for _ in range(3):
                rclpy.spin_once(simulated, timeout_sec=0.02)

        for milliseconds in (50, 99, 100, 150, 200, 650, 660):
            advance(milliseconds)
        assert ticks == [100, 200, 650]
        advance(700)
        assert ticks[-1] == 700
        advance(10)  # a bag that begins again: the next tick is one period later
        advance(60)
        assert ticks[-1] == 700
        advance(110)
        assert ticks[-1] == 110
        simulated.set_parameters([Parameter("use_sim_time", value=False)])
        assert not clock.ros_time_is_active
        before_ns = time.time_ns()
        assert before_ns <= clock.now().nanoseconds <= time.time_ns()
    finally:
        rclpy.try_shutdown()


def test_a_rate_sleeps_in_its_own_thread(node: Node) -> None:
    rate = node.create_rate(100.0)
    slept: list[int] = []

    def work() -> None:
        for number in range(3):
            rate.sleep()
            slept.append(number)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert spin_until(node, lambda: slept == [0, 1, 2])
    thread.join(LONG_S)
    assert node.destroy_rate(rate)
    with pytest.raises(ValueError, match="frequency"):
        node.create_rate(0.0)


# Services, executors, tasks


def _trigger(_: Any, response: Any) -> Any:
    response.success, response.message = True, "done"
    return response


def test_a_service_answers_every_request(node: Node) -> None:
    def enable(request: Any, response: Any) -> Any:
        response.success, response.message = request.data, f"data was {request.data}"
        return response

    node.create_service(SetBool, "enable", enable)
    client = node.create_client(SetBool, "enable")
    assert client.wait_for_service(LONG_S)
    futures = [client.call_async(SetBool.Request(data=bool(number % 2))) for number in range(8)]
    # One callback at a time: what was taken with one call must not get lost before the next.
    assert spin_until(node, lambda: all(future.done() for future in futures))
    assert [future.result().message for future in futures] == [f"data was {bool(n % 2)}" for n in range(8)]
    with pytest.raises(TypeError):
        client.call_async(Trigger.Request())
    assert spin_until(node, lambda: client.service_is_ready())


def test_a_service_that_is_not_there_is_waited_for_in_vain(node: Node) -> None:
    client = node.create_client(Trigger, "nobody")
    assert not client.wait_for_service(0.1)
    assert not client.service_is_ready()
    future = client.call_async(Trigger.Request())
    rclpy.spin_until_future_complete(node, future, timeout_sec=0.1)
    assert not future.done()
    assert future.result() is None


def test_coroutines_wait_for_services(node: Node) -> None:
    group = ReentrantCallbackGroup()
    node.create_service(Trigger, "inner", _trigger, callback_group=group)
    client = node.create_client(Trigger, "inner", callback_group=group)

    async def outer(_: Any, response: Any) -> Any:
        response.message = f"inner says {(await client.call_async(Trigger.Request())).message}"
        return response

    node.create_service(Trigger, "outer", outer, callback_group=group)
    asking = node.create_client(Trigger, "outer", callback_group=group)
    assert asking.wait_for_service(LONG_S)
    assert client.wait_for_service(LONG_S)
    future = asking.call_async(Trigger.Request())
    rclpy.spin_until_future_complete(node, future, timeout_sec=LONG_S)
    assert future.result().message == "inner says done"


def test_a_thread_calls_while_another_spins(node: Node) -> None:
    node.create_service(Trigger, "trigger", _trigger)
    client = node.create_client(Trigger, "trigger")
    executor = MultiThreadedExecutor(2)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    try:
        assert client.wait_for_service(LONG_S)
        for _ in range(5):
            assert client.call(Trigger.Request(), timeout_sec=LONG_S).message == "done"
    finally:
        executor.shutdown()
        thread.join(LONG_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("reentrant", [False, True])
def test_callback_groups_decide_what_runs_at_once(node: Node, reentrant: bool) -> None:
    group = ReentrantCallbackGroup() if reentrant else MutuallyExclusiveCallbackGroup()
    running: set[str] = set()
    most = 0
    calls = 0
    lock = threading.Lock()

    def work(name: str) -> None:
        nonlocal most, calls
        with lock:
            running.add(name)
            most = max(most, len(running))
            calls += 1
        time.sleep(0.02)
        with lock:
            running.discard(name)

    for name in ("a", "b"):
        node.create_timer(0.001, lambda name=name: work(name), callback_group=group)
    executor = MultiThreadedExecutor(2)
    executor.add_node(node)
    expected = 2 if reentrant else 1
    end_s = time.monotonic() + LONG_S
    while (calls < 8 or most < expected) and time.monotonic() < end_s:
        executor.spin_once(timeout_sec=0.1)
    for timer in list(node.timers):
        timer.cancel()
    executor.shutdown()
    assert calls >= 8
    assert most == expected


def test_every_message_arrives_in_a_multithreaded_executor(node: Node) -> None:
    received: list[int] = []
    node.create_subscription(Int64, "count", lambda message: received.append(message.data), ALL)
    publisher = node.create_publisher(Int64, "count", ALL)
    matched(node, publisher)
    executor = MultiThreadedExecutor(3)
    executor.add_node(node)
    for number in range(200):
        publisher.publish(Int64(data=number))
    end_s = time.monotonic() + LONG_S
    while len(received) < 200 and time.monotonic() < end_s:
        executor.spin_once(timeout_sec=0.1)
    executor.shutdown()
    assert received == list(range(200))


def test_an_exception_in_a_callback_ends_spinning(node: Node) -> None:
    def fail() -> None:
        raise ArithmeticError("of the callback")

    timer = node.create_timer(0.001, fail)
    for executor in (SingleThreadedExecutor(), MultiThreadedExecutor(2)):
        executor.add_node(node)
        with pytest.raises(ArithmeticError, match="of the callback"):
            executor.spin()
        executor.remove_node(node)
        executor.shutdown()
    timer.cancel()


def test_tasks_and_futures(node: Node) -> None:
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    gate: Future = Future()
    order: list[str] = []

    async def waiting() -> int:
        order.append("begun")
        value = await gate
        order.append("resumed")
        return value + 1

    task = executor.create_task(waiting)
    task.add_done_callback(lambda done: order.append(f"called back with {done.result()}"))
    executor.create_task(lambda: gate.set_result(41))
    executor.spin_until_future_complete(task, timeout_sec=LONG_S)
    end_s = time.monotonic() + LONG_S
    while len(order) < 3 and time.monotonic() < end_s:
        executor.spin_once(timeout_sec=0.02)
    assert task.result() == 42
    assert order == ["begun", "resumed", "called back with 42"]
    executor.shutdown()


def test_shutdown_in_a_callback_ends_spinning(ros_domain: int) -> None:
    rclpy.init(args=[], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    ending = Node("ending")
    ending.create_timer(0.01, rclpy.shutdown)
    with contextlib.suppress(ExternalShutdownException):
        rclpy.spin(ending)
    assert not rclpy.ok()


# Graph


def test_the_graph_shows_nodes_topics_and_services(node: Node) -> None:
    node.create_publisher(Imu, "imu", qos_profile_sensor_data)
    node.create_service(Trigger, "reset", _trigger)
    other = Node("other", namespace="/salp")
    other.create_subscription(Imu, "imu", lambda _: None, qos_profile_sensor_data)
    assert spin_until(node, lambda: node.count_subscribers("imu") == 1 and node.count_publishers("imu") == 1)
    assert spin_until(node, lambda: ("other", "/salp") in node.get_node_names_and_namespaces())
    assert "/salp/tested" in node.get_fully_qualified_node_names()
    imu, reset = ("/salp/imu", ["sensor_msgs/msg/Imu"]), ("/salp/reset", ["std_srvs/srv/Trigger"])
    assert spin_until(node, lambda: imu in node.get_topic_names_and_types())
    assert spin_until(node, lambda: reset in node.get_service_names_and_types())
    assert spin_until(node, lambda: imu in node.get_subscriber_names_and_types_by_node("other", "/salp"))
    assert spin_until(node, lambda: reset in node.get_service_names_and_types_by_node("tested", "/salp"))
    assert spin_until(node, lambda: imu in node.get_publisher_names_and_types_by_node("tested", "/salp"))
    (info,) = node.get_publishers_info_by_topic("imu")
    assert (info.node_name, info.node_namespace, info.topic_type) == ("tested", "/salp", "sensor_msgs/msg/Imu")
    assert info.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
    assert str(info.topic_type_hash).startswith("RIHS01_7d9a00ff131080897a5ec7e26e315954")
    (subscribed,) = node.get_subscriptions_info_by_topic("/salp/imu")
    assert subscribed.node_name == "other"
    other.destroy_node()
    assert spin_until(node, lambda: ("other", "/salp") not in node.get_node_names_and_namespaces())
    with pytest.raises(rclpy.node.NodeNameNonExistentError):
        node.get_publisher_names_and_types_by_node("other", "/salp")


# Processes: signals and logging

# It says "waiting" from another thread once the main thread waits for work, with none to come: after a callback that a
# signal interrupts, spinning may end otherwise.
PROGRAM = """
import json, sys, threading, time
import embedded_ros
embedded_ros.install()
import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
rclpy.init()
node = rclpy.create_node("program")
executor = MultiThreadedExecutor(2) if sys.argv[1] == "multi" else None
ended = "returned"
main = threading.get_ident()

ticked = threading.Event()

def tell():
    ticked.wait()
    while "wait" not in sys._current_frames()[main].f_code.co_name:
        time.sleep(0.01)
    print("waiting", flush=True)

def tick():
    timer.cancel()
    ticked.set()

threading.Thread(target=tell, daemon=True).start()
timer = node.create_timer(0.01, tick)
try:
    rclpy.spin(node, executor)
except (KeyboardInterrupt, ExternalShutdownException) as error:
    ended = type(error).__name__
print(json.dumps([ended, rclpy.ok()]), flush=True)
node.destroy_node()
rclpy.try_shutdown()
"""


def _program(text: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    repository = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (repository, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("number", "executor", "ended"),
    [
        (signal.SIGINT, "single", "KeyboardInterrupt"),
        (signal.SIGTERM, "single", "ExternalShutdownException"),
        (signal.SIGTERM, "multi", "returned"),
    ],
)
def test_signals_end_a_program_cleanly(ros_domain: int, number: int, executor: str, ended: str) -> None:
    process = _program(PROGRAM, executor)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        output, errors = process.communicate(timeout=LONG_S)
    finally:
        process.kill()
        process.wait()
    # With a real rclpy it is chance which of the two comes first after SIGINT.
    either = {ended} if EMBEDDED or number != signal.SIGINT else {ended, "ExternalShutdownException"}
    how, still_ok = json.loads(output.splitlines()[-1])
    assert how in either
    assert not still_ok
    assert process.returncode == 0
    assert "Traceback" not in errors


LOGGING = """
import embedded_ros
embedded_ros.install()
import rclpy
from rclpy.logging import LoggingSeverity
rclpy.init()
node = rclpy.create_node("logging", namespace="/salp")
logger = node.get_logger()
for number in range(3):
    logger.debug(f"debug {number}")
    logger.info(f"info {number}", once=True)
    logger.warning(f"warning {number}", skip_first=True)
    logger.error(f"error {number}", throttle_duration_sec=60.0)
logger.get_child("child").fatal("fatal")
logger.set_level(LoggingSeverity.ERROR)
logger.warn("not seen")
logger.get_child("child").warn("not seen")
assert not logger.is_enabled_for(LoggingSeverity.WARN)
rclpy.shutdown()
"""


def _logged(*arguments: str, **environment: str) -> list[str]:
    process = _program(LOGGING, *arguments, **environment)
    output, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 0, errors
    assert output == ""
    return errors.splitlines()


def test_log_lines_have_rcls_form(ros_domain: int) -> None:
    line = re.compile(r"\[(\w+)\] \[\d+\.\d{9}\] \[([\w.]+)\]: (.*)")
    found = [line.fullmatch(text) for text in _logged(RCUTILS_COLORIZED_OUTPUT="0")]
    assert [match.groups() for match in found if match] == [
        ("INFO", "salp.logging", "info 0"),
        ("ERROR", "salp.logging", "error 0"),
        ("WARN", "salp.logging", "warning 1"),
        ("WARN", "salp.logging", "warning 2"),
        ("FATAL", "salp.logging.child", "fatal"),
    ]
    assert all(found)


def test_levels_and_form_of_log_lines_can_be_chosen(ros_domain: int) -> None:
    lines = _logged(
        "--ros-args",
        "--log-level",
        "salp.logging:=debug",
        "--log-level",
        "error",
        RCUTILS_COLORIZED_OUTPUT="0",
        RCUTILS_CONSOLE_OUTPUT_FORMAT="{name}|{severity}|{message}",
    )
    assert "salp.logging|DEBUG|debug 2" in lines
    assert len(lines) == 8
    coloured = _logged(RCUTILS_COLORIZED_OUTPUT="1")
    assert coloured[1].startswith("\033[31m[ERROR]")
    assert coloured[1].endswith("\033[0m")


def test_log_messages_reach_rosout(node: Node) -> None:
    from rcl_interfaces.msg import Log

    received: list[Any] = []
    qos = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    node.create_subscription(Log, "/rosout", received.append, qos)
    node.get_logger().warning("seen by all")
    assert spin_until(node, lambda: any(log.msg == "seen by all" for log in received))
    (log,) = (log for log in received if log.msg == "seen by all")
    assert (log.name, log.level) == ("salp.tested", 30)
    assert log.file.endswith("test_embedded_rclpy.py")
    assert log.function == "test_log_messages_reach_rosout"


def test_a_logger_refuses_what_it_does_not_know(node: Node) -> None:
    logger = node.get_logger()
    with pytest.raises(TypeError, match="not one of the recognized"):
        logger.info("text", sometimes=True)
    severities = iter((20, 30))

    def log() -> None:
        logger.log("text", next(severities))

    log()
    with pytest.raises(ValueError, match="severity"):
        log()
    with pytest.raises(ValueError, match="empty"):
        rclpy.logging.get_logger("")


@embedded_only
def test_what_is_left_out_says_so(node: Node) -> None:
    with pytest.raises(NotImplementedError, match=r"rclpy\.action"):
        from rclpy.action import ActionServer  # noqa: F401
    with pytest.raises(NotImplementedError, match="lifecycle"):
        from rclpy.lifecycle import LifecycleNode  # noqa: F401
    with pytest.raises(NotImplementedError, match="enable_logger_service"):
        Node("named", enable_logger_service=True)
    for name in ("add_waitable", "create_guard_condition", "add_pre_set_parameters_callback", "count_clients"):
        with pytest.raises(NotImplementedError, match=rf"the embedded runtime has no rclpy\..*\.{name}\(\): "):
            getattr(node, name)(object())
    with pytest.raises(NotImplementedError, match="guards"):
        list(node.guards)
    with pytest.raises(NotImplementedError, match="qos_overriding_options"):
        node.create_publisher(String, "text", 1, qos_overriding_options=object())
    with pytest.raises(NotImplementedError, match="deadline"):
        SubscriptionEventCallbacks(deadline=print)
