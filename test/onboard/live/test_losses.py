"""What is lost on the way to an estimator is counted and said; two publishers on one topic are named."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_graph import await_being_heard, collect, listening_node, running, spin_until

from hopper_estimation.model.configuration import LOW_G
from onboard_estimation.base.measurement import neutral_value
from onboard_estimation.live.losses import KEPT, Losses, WithInformation
from onboard_estimation.live.messages import interface_class, new
from onboard_estimation.ros.sensor_messages import to_message

PERIOD_NS = 1_000_000


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.lists(st.booleans(), min_size=2)), min_size=1, max_size=3),
    st.booleans(),
)
def test_each_publisher_has_numbers_of_its_own(sent: list[tuple[int, list[bool]]], at_a_time: bool) -> None:
    """Whether each publishes when the one before has ended, as a restarted driver does, or all of them in turns."""
    numbered = []
    for publisher, (first, arrives) in enumerate(sent):
        for place, has_come in enumerate([True, *arrives, True]):
            at_ns = (10 * place + publisher) * PERIOD_NS + (0 if at_a_time else publisher * 10**12)
            numbered.append((at_ns, publisher * 10**7 + first + place, has_come))
    losses = Losses()
    for at_ns, number, has_come in sorted(numbered):
        if has_come:
            losses.see({"publication_sequence_number": number, "source_timestamp": 10**18 + at_ns})
    if at_a_time or len(sent) == 1:
        assert losses.count == sum(not has_come for _, _, has_come in numbered)
    assert (losses.mixed > 0) == (at_a_time and len(sent) > 1)


_LISTENER = """
import time
from rclpy.qos import QoSProfile, ReliabilityPolicy
from onboard_estimation.live.losses import Losses
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.session import spun_node
with spun_node("listener", None) as node:
    numbered, told, nobody, taken = Losses(), Losses(), Losses(), []
    def take(data, information):
        taken.append(data)
        numbered.see(information)
        told.see({"publication_sequence_number": 2**64 - 1})
    kind, qos = interface_class("std_msgs/msg/Empty"), QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
    told._listening = node, numbered.listen(node, kind, "/lossy", qos, take)
    node.destroy_subscription(nobody.listen(node, kind, "/gone", qos, take))
    nobody.see({})
    print(nobody.count, nobody.are_counted, flush=True)
    while True:
        time.sleep(0.05)
        print(len(taken), numbered.count, told.count, flush=True)
"""


@pytest.mark.live
@pytest.mark.usefixtures("ros_domain")
def test_losses_are_told_by_the_middleware_where_messages_have_no_numbers() -> None:
    """As rclpy of ROS 2 Humble gives none. Where it tells nothing either, that is known, and said."""
    with (
        listening_node("talker") as node,
        subprocess.Popen([sys.executable, "-c", _LISTENER], stdout=subprocess.PIPE, text=True) as listener,
    ):
        try:
            assert listener.stdout is not None
            assert listener.stdout.readline().split() == ["None", "False"]
            output = node.create_publisher(interface_class("std_msgs/msg/Empty"), "/lossy", KEPT)
            spin_until(node, lambda: output.get_subscription_count() > 0)
            row = ["0"]

            def send(count: int) -> list[str]:
                for _ in range(count):
                    output.publish(new("std_msgs/msg/Empty"))
                    time.sleep(2e-4)
                return listener.stdout.readline().split()  # type: ignore[union-attr]

            while int(row[0]) < 100:
                row = send(20)
            listener.send_signal(signal.SIGSTOP)
            for _ in range(3000):
                output.publish(new("std_msgs/msg/Empty"))
                time.sleep(2e-4)
            listener.send_signal(signal.SIGCONT)
            spin_until(node, lambda: row.extend(send(20)) or int(row[-1]) == int(row[-2]) > 500)  # type: ignore[func-returns-value]
        finally:
            listener.kill()


@pytest.mark.parametrize("received", [(b"data", {"a": 1}), ((b"data", {"a": 1}),), (b"data",)])
def test_every_executor_and_rclpy_hands_messages_on_in_its_way(received: tuple[Any, ...]) -> None:
    taken: list[Any] = []
    WithInformation(lambda message, information: taken.append((message, information)))(*received)
    assert taken == [(b"data", {} if received == (b"data",) else {"a": 1})]


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.usefixtures("compiled_kernels", "ros_domain")
@pytest.mark.parametrize("reliable", [False, True])
def test_a_stalled_estimator_counts_what_it_lost_and_names_two_publishers(tmp_path: Path, reliable: bool) -> None:
    """What is sent reliably by one who keeps it is not lost."""
    from rclpy.node import Node

    words = ("-p", f"reliable_sensors:={reliable}", "-p", "waiting_period_s:=0.5", "-p", "diagnostics_period_s:=0.2")
    with (
        running("hopper_estimator", tmp_path, *words, namespace="/hopper") as estimator,
        listening_node("driver", namespace="/hopper") as node,
    ):
        estimator.wait_for("hopper, estimator bounce")
        reports = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        kind = interface_class(LOW_G.message_type)
        first = node.create_publisher(kind, LOW_G.topic, KEPT)
        await_being_heard(node, "/hopper/hopper_estimator")
        begin_ns, sent = time.time_ns(), 0

        def send(count: int, output: Any, ahead_ns: int = 0) -> None:
            nonlocal sent
            for _ in range(count):
                value = np.array(neutral_value(LOW_G)) + 1e-3 * (sent % 7)
                output.publish(to_message(new, LOW_G, begin_ns + sent * PERIOD_NS + ahead_ns, value))
                sent += 1
                time.sleep(1e-9 * PERIOD_NS)

        def counted(part: str = LOW_G.sensor) -> dict[str, str]:
            found = [one for one in (reports[-1].status if reports else ()) if one.hardware_id == part]
            return {pair.key: pair.value for one in found for pair in one.values}

        send(500, first)
        estimator.popen.send_signal(signal.SIGSTOP)
        send(3000, first)
        estimator.popen.send_signal(signal.SIGCONT)
        send(500, first)

        def all_is_there() -> bool:
            send(1, first)
            return sum(int(counted().get(name, 0)) for name in ("received", "lost")) >= sent - 300

        spin_until(node, all_is_there)
        spin_until(node, lambda: sum(int(counted().get(name, 0)) for name in ("received", "lost")) == sent)
        lost = int(counted()["lost"])
        assert (lost == 0) if reliable else (lost > 1000), lost
        if not reliable:
            estimator.wait_for(f"lost on the way here, or in this node's full queue: {lost} of ")
            said = {one.message for report in reports for one in report.status if one.hardware_id == LOW_G.sensor}
            assert any("lost on the way here, or in the full queue of this node" in one for one in said)
        other = Node("second_driver", namespace="/hopper")
        second = other.create_publisher(kind, LOW_G.topic, KEPT)
        spin_until(node, lambda: second.get_subscription_count() > 0)

        def both_are_heard() -> bool:
            send(20, first)
            send(20, second, ahead_ns=20 * 10**9)
            names = "/hopper/driver and /hopper/second_driver at a time"
            return names in estimator.output and int(counted("filter")["clock_jumps"]) > 8

        spin_until(node, both_are_heard, 40.0)
        other.destroy_node()
    assert estimator.output.count("at a time: end all but one of them") == 1
    assert estimator.output.count("clock jumped by") < 10
