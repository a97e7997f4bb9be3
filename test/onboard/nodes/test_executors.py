"""Nodes on rclpy's events executor and on its ordinary one: what they take, and when."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from live_graph import LONGEST_WAIT_S

from hopper_estimation.model.configuration import ATTITUDE, HIGH_G, LOW_G
from onboard_estimation.base.measurement import Measurement, neutral_value
from onboard_estimation.live.losses import KEPT
from onboard_estimation.live.messages import interface_class, new
from onboard_estimation.nodes.run import EXECUTOR_VARIABLE, new_executor
from onboard_estimation.ros.sensor_messages import to_message

pytestmark = [pytest.mark.usefixtures("ros_domain"), pytest.mark.live]
CHANNELS = (ATTITUDE, HIGH_G, LOW_G)


@pytest.fixture(autouse=True, params=["events", "ordinary"])
def executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(EXECUTOR_VARIABLE, request.param)
    return str(request.param)


class Graph:
    """A node with arrivals, spun by `until`, and a node of another context beside it that sends."""

    def __init__(self, reliable: bool = False, rest_s: float = 0.0, parameters: tuple[str, ...] = ()) -> None:
        import rclpy
        from rclpy.context import Context
        from rclpy.node import Node

        from onboard_estimation.nodes.arrivals import Arrivals
        from onboard_estimation.nodes.parameters import SteadyNode

        rclpy.init(args=["--ros-args", *parameters], signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
        self.context = Context()
        rclpy.init(context=self.context, signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
        self.node, self.executor = SteadyNode("listener", namespace="/hopper"), new_executor()
        self.sender = Node("sender", namespace="/hopper", context=self.context, enable_rosout=False)
        self.wakings: list[list[Measurement]] = []

        def take(readings: list[Measurement]) -> float:
            self.wakings.append(readings)
            return rest_s

        self.arrivals = Arrivals(self.node, CHANNELS, reliable, [LOW_G.sensor], take)
        self.outputs = {
            one: self.sender.create_publisher(interface_class(one.message_type), one.topic, 500) for one in CHANNELS
        }
        self.executor.add_node(self.node)
        self.until(lambda: all(one.get_subscription_count() for one in self.outputs.values()))
        self.spin(0.3)  # the other side may not have seen us yet

    def send(self, channel: Any, stamp_ns: int) -> None:
        self.outputs[channel].publish(to_message(new, channel, stamp_ns, neutral_value(channel)))

    def spin(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0.0:
            self.executor.spin_once(timeout_sec=left_s)

    def until(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + LONGEST_WAIT_S
        while not condition():
            assert time.monotonic() < end_s
            self.executor.spin_once(timeout_sec=0.02)

    @contextmanager
    def sender_spun(self) -> Iterator[None]:
        from rclpy.executors import SingleThreadedExecutor

        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(self.sender)
        thread = threading.Thread(target=executor.spin)
        thread.start()
        try:
            yield
        finally:
            executor.shutdown()
            thread.join()

    @property
    def stamps(self) -> list[int]:
        return [one.stamp_ns for readings in self.wakings for one in readings]

    def close(self) -> None:
        import rclpy

        self.executor.shutdown()
        for node in (self.node, self.sender):
            node.destroy_node()
        rclpy.shutdown()
        rclpy.shutdown(context=self.context)


@contextmanager
def graph(**options: Any) -> Iterator[Graph]:
    made = Graph(**options)
    try:
        yield made
    finally:
        made.close()


def test_one_waking_takes_all_that_has_come_from_every_sensor_in_order() -> None:
    with graph(reliable=True) as one:
        for number in range(1, 61):
            for channel, every in ((ATTITUDE, 4), (HIGH_G, 2), (LOW_G, 1)):
                if number % every == 0:
                    one.send(channel, 10 * number)
        assert all(output.wait_for_all_acked() for output in one.outputs.values())
        one.until(lambda: len(one.stamps) == 60 + 30 + 15)
        assert one.stamps == sorted(one.stamps)
        # What the executor still has of messages that were taken with others wakes nobody.
        one.spin(0.3)
        assert len(one.wakings) == 1


def test_the_others_wait_for_the_pace_and_wake_the_node_once_it_is_silent() -> None:
    with graph() as one:
        while True:
            while not one.node.silent:
                one.wakings.clear()
                one.send(LOW_G, 5)
                one.until(lambda: bool(one.wakings))
            one.wakings.clear()
            for stamp_ns in (1001, 1004):
                one.send(HIGH_G, stamp_ns)
            one.spin(0.05)
            early = list(one.wakings)
            one.send(LOW_G, 1003)
            one.until(lambda: len(one.stamps) >= 3)
            if one.node.silent:  # else this machine stood still for so long that the pace counted as silent
                break
        assert early == []
        assert one.stamps == [1001, 1003, 1004]
        one.wakings.clear()
        one.send(HIGH_G, 2001)
        one.until(lambda: one.stamps == [2001])
        one.send(HIGH_G, 2002)
        one.until(lambda: one.stamps == [2001, 2002])


def test_what_a_source_measures_is_no_longer_listened_to_and_the_rest_still_is() -> None:
    with graph(rest_s=3600.0) as one:  # which would hold up the source for ever
        assert one.arrivals.leave({LOW_G.topic, "elsewhere"}) == [LOW_G.topic]
        assert one.arrivals.leave({LOW_G.topic}) == []
        one.until(lambda: not one.outputs[LOW_G].get_subscription_count())
        for stamp_ns in (1, 2):
            for channel in CHANNELS:
                one.send(channel, stamp_ns)
            one.until(lambda stamp_ns=stamp_ns: len(one.stamps) == 2 * stamp_ns)
        assert {reading.sensor for readings in one.wakings for reading in readings} == {HIGH_G.sensor, ATTITUDE.sensor}
        assert one.arrivals.counters()[HIGH_G.sensor] == {"unreadable": 0, "lost": 0}


def test_what_a_full_queue_pushes_out_is_counted() -> None:
    """Which no middleware tells of."""
    with graph(reliable=True) as one:
        one.send(LOW_G, 1)
        one.until(lambda: one.stamps == [1])
        for stamp_ns in range(2, KEPT + 501):
            one.send(LOW_G, stamp_ns)
        one.until(lambda: one.stamps[-1] == KEPT + 500)
        assert one.arrivals.counters()[LOW_G.sensor]["lost"] == KEPT + 500 - len(one.stamps) > 0


def test_a_rest_gathers_readings_and_a_service_has_its_turn_all_the_same() -> None:
    from std_srvs.srv import Trigger

    with graph(rest_s=0.008) as one:
        one.node.create_service(Trigger, "reset", lambda _, response: response)
        client = one.sender.create_client(Trigger, "reset")
        one.until(client.service_is_ready)
        over, sent = threading.Event(), itertools.count(1)

        def stream() -> None:
            while not over.wait(0.001):
                one.send(LOW_G, next(sent))

        thread = threading.Thread(target=stream)
        thread.start()
        try:
            # A busy machine may send less often than the node rests, for a while.
            one.until(lambda: len(one.stamps) > max(100, 2 * len(one.wakings)))
            answered = threading.Event()
            with one.sender_spun():
                client.call_async(Trigger.Request()).add_done_callback(lambda _: answered.set())
                one.until(answered.is_set)
        finally:
            over.set()
            thread.join()
        last = next(sent) - 1
        one.until(lambda: len(one.stamps) >= last)
        assert one.stamps == list(range(1, last + 1))


def test_in_step_each_message_is_taken_before_the_next_is_sent() -> None:
    from onboard_estimation.live.schedule import InStep

    taken_then: list[int] = []
    with graph(reliable=True) as one, one.sender_spun():
        in_step, over = InStep(one.sender), threading.Event()

        def play() -> None:
            in_step.meet([channel.topic for channel in CHANNELS])
            for number in range(300):
                channel = CHANNELS[number % 3]
                one.send(channel, number + 1)
                in_step.taken(channel.topic)
                taken_then.append(len(one.stamps))
            over.set()

        threading.Thread(target=play, daemon=True).start()
        one.until(over.is_set)
        assert in_step.notes == []
        assert taken_then == list(range(1, 301))
        assert one.stamps == list(range(1, 301))


def test_steady_timers_go_on_while_the_clock_of_a_bag_stands_still() -> None:
    from rclpy.clock import Clock, ClockType
    from rosgraph_msgs.msg import Clock as ClockMessage

    ticks = {"steady": 0, "own": 0}

    def tick(name: str) -> None:
        ticks[name] += 1

    with graph(parameters=("-p", "use_sim_time:=true")) as one:
        clock = one.sender.create_publisher(ClockMessage, "/clock", 10)
        one.node.create_timer(0.05, lambda: tick("steady"), clock=Clock(clock_type=ClockType.STEADY_TIME))
        one.node.create_timer(0.05, lambda: tick("own"))
        one.until(lambda: ticks["steady"] >= 5)
        assert ticks["own"] == 0
        one.until(lambda: bool(clock.get_subscription_count()))
        message = ClockMessage()

        def goes_on() -> bool:
            message.clock.sec += 1
            clock.publish(message)
            return ticks["own"] > 5

        one.until(goes_on)
