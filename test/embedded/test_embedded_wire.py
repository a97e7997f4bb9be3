"""The wire between real processes: topics, quality of service, services, the graph, and its limits.

Run as a script, this file is the other process: `python test_embedded_wire.py ROLE`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_ros.messages import message_class, service_class, support
from embedded_ros.wire import DdsError, Participant, Qos, WaitSet
from embedded_ros.wire.loopback import sockets_open
from embedded_ros.wire.participant import Membership
from onboard_estimation.errors import UserError

STRING = support(message_class("std_msgs/msg/String"))
IMAGE = support(message_class("sensor_msgs/msg/Image"))
SET_BOOL = support(service_class("std_srvs/srv/SetBool"))
KEEP_ALL = Qos(depth=0)
TIMEOUT_S = 60.0
NODE = ("/there", "peer")


def text(content: str) -> bytes:
    return STRING.serialize(STRING.cls(data=content))


def until(condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> Any:
    """Wait for something to be true; its value."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.005)
    raise AssertionError("timed out")


def taken(reader: Any, count: int, waitset: WaitSet) -> list[Any]:
    """The next samples of a reader."""
    found: list[Any] = []
    end = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < end:
        if waitset.wait(0.1):
            found += reader.take(100)
    return found


def greet(writer: Any, reader: Any, waitset: WaitSet) -> None:
    """Send words until one comes back: the other process has found both endpoints, and nothing is on its way."""
    sent = 0
    answers: list[str] = []

    def answered() -> bool:
        nonlocal sent
        if not answers:
            sent += 1
            assert writer.write(text(f"probe {sent}"))
        waitset.wait(0.1)
        answers.extend(STRING.deserialize(sample.payload).data for sample in reader.take(1000))
        return f"probe {sent}" in answers

    until(answered)


# The other process


def peer_echo(participant: Participant, node: Membership) -> None:
    """Sends back what comes, on both topics."""
    pairs = {}
    waitset = WaitSet(participant)
    for kind in (STRING, IMAGE):
        name = kind.name.rpartition("/")[2].lower()
        reader = participant.create_reader(f"/ask_{name}", kind, KEEP_ALL, node)
        pairs[reader] = participant.create_writer(f"/answer_{name}", kind, KEEP_ALL, node)
        waitset.attach(reader)
    print("ready", flush=True)
    while True:
        for reader in waitset.wait(None):
            for sample in reader.take():
                pairs[reader].write(sample.payload)


def peer_late(participant: Participant, node: Membership) -> None:
    """Reads a topic that was published before it came."""
    reader = participant.create_reader("/latched", STRING, Qos(transient_local=True, depth=10), node)
    waitset = WaitSet(participant)
    waitset.attach(reader)
    samples = taken(reader, 3, waitset)
    print(" ".join(STRING.deserialize(sample.payload).data for sample in samples), flush=True)


def peer_serve(participant: Participant, node: Membership) -> None:
    """Answers a service and sees nobody's answers but its own."""
    server = participant.create_server("/enable", SET_BOOL, node=node)
    waitset = WaitSet(participant)
    waitset.attach(server)
    print("ready", flush=True)
    while True:
        waitset.wait(None)
        for request_id, payload in server.take():
            request = SET_BOOL.request.deserialize(payload)
            response = SET_BOOL.response.cls(success=request.data, message=f"{request.data}")
            server.reply(request_id, SET_BOOL.response.serialize(response))


def peer_best_effort(participant: Participant, node: Membership) -> None:
    """Offers less than is asked for."""
    writer = participant.create_writer("/weak", STRING, Qos(reliable=False), node)
    print(*until(lambda: writer.incompatible_qos()[0] and writer.incompatible_qos()), writer.matched(), flush=True)
    signal.pause()  # until it is killed


def peer_wait(participant: Participant, node: Membership) -> None:
    """Waits for ever, until Ctrl-C."""
    waitset = WaitSet(participant)
    try:
        print("ready", flush=True)  # whoever reads it may interrupt at once
        while True:
            waitset.wait(None)
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def peer_leave(participant: Participant, node: Membership) -> None:
    """Ends without closing anything."""
    participant.create_reader("/leave", STRING, KEEP_ALL, node)
    participant.create_writer("/leave", STRING, KEEP_ALL, node).write(text("x"))
    waitset = WaitSet(participant)
    threading.Thread(target=waitset.wait, args=(None,), daemon=True).start()
    print("leaving", flush=True)


class Peer:
    """Another process in one of the roles above."""

    def __init__(self, role: str, **environment: str) -> None:
        root = str(Path(__file__).resolve().parents[2])
        self.process = subprocess.Popen(
            [sys.executable, __file__, role],
            env={**os.environ, "PYTHONPATH": root, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextlib.contextmanager
def peer(role: str, **environment: str) -> Iterator[Peer]:
    started = Peer(role, **environment)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


@pytest.fixture
def participant(ros_domain: int) -> Iterator[Participant]:
    made = Participant()
    assert made.domain_id == ros_domain
    yield made
    made.close()


@pytest.fixture
def waitset(participant: Participant) -> WaitSet:
    return WaitSet(participant)


# Topics


def test_messages_go_to_another_process_and_back(participant: Participant, waitset: WaitSet) -> None:
    here = participant.add_node("/here", "tester")
    with peer("echo") as other:
        assert other.line() == "ready"
        writer = participant.create_writer("/ask_string", STRING, KEEP_ALL, here)
        reader = participant.create_reader("/answer_string", STRING, KEEP_ALL, here)
        waitset.attach(reader)
        until(lambda: writer.matched() and reader.matched())
        greet(writer, reader, waitset)
        before = time.time_ns()
        for number in range(500):
            assert writer.write(text(f"{number} ä"))
        samples = taken(reader, 500, waitset)
        assert [STRING.deserialize(sample.payload).data for sample in samples] == [f"{n} ä" for n in range(500)]
        assert all(before <= s.source_stamp_ns <= s.received_stamp_ns <= time.time_ns() for s in samples)
        (publisher,) = until(lambda: participant.graph.publishers("/answer_string"))
        assert {sample.writer_gid for sample in samples} == {publisher.gid}
        assert writer.wait_for_acknowledgements(TIMEOUT_S)

        image_writer = participant.create_writer("/ask_image", IMAGE, KEEP_ALL)
        image_reader = participant.create_reader("/answer_image", IMAGE, KEEP_ALL)
        waitset.attach(image_reader)
        until(lambda: image_writer.matched() and image_reader.matched())
        content = os.urandom(3_000_001)
        message = IMAGE.cls(data=content, encoding="mono8", width=3_000_001, height=1)
        for _ in range(2):
            assert image_writer.write(IMAGE.serialize(message))
        images = taken(image_reader, 2, waitset)
        assert [IMAGE.deserialize(image.payload) == message for image in images] == [True, True]


def test_a_late_reader_gets_the_newest_that_the_writer_keeps(participant: Participant) -> None:
    writer = participant.create_writer("/latched", STRING, Qos(transient_local=True, depth=3))
    for number in range(7):
        writer.write(text(str(number)))
    with peer("late") as other:
        assert other.line() == "4 5 6"


def test_a_volatile_reader_gets_nothing_old(participant: Participant, waitset: WaitSet) -> None:
    writer = participant.create_writer("/latched", STRING, Qos(transient_local=True, depth=3))
    writer.write(text("old"))
    reader = participant.create_reader("/latched", STRING, Qos(depth=3))
    waitset.attach(reader)
    until(lambda: reader.matched())
    writer.write(text("new"))
    assert [STRING.deserialize(sample.payload).data for sample in taken(reader, 1, waitset)] == ["new"]


def test_history_keeps_the_newest(participant: Participant) -> None:
    writer = participant.create_writer("/topic", STRING, KEEP_ALL)
    reader = participant.create_reader("/topic", STRING, Qos(depth=2))
    until(lambda: writer.matched())
    for number in range(9):
        writer.write(text(str(number)))
    assert [STRING.deserialize(reader.take(1)[0].payload).data for _ in range(2)] == ["7", "8"]
    assert reader.take() == []


@pytest.mark.slow
@pytest.mark.parametrize("depth", [5, 0])
def test_a_reader_that_stands_still_stops_no_writer(participant: Participant, depth: int) -> None:
    with peer("echo") as other:
        assert other.line() == "ready"
        writer = participant.create_writer("/ask_image", IMAGE, Qos(depth=depth))
        until(lambda: writer.matched())
        other.process.send_signal(signal.SIGSTOP)
        payload = IMAGE.serialize(IMAGE.cls(data=bytes(200_000)))
        assert all(writer.write(payload) for _ in range(20))


def test_incompatible_quality_of_service_is_told_on_both_sides(participant: Participant) -> None:
    reader = participant.create_reader("/weak", STRING, Qos(reliable=True))
    with peer("best_effort") as other:
        assert other.line() == "1 RELIABILITY 0"
        until(lambda: reader.incompatible_qos()[0])
        assert reader.incompatible_qos() == (1, "RELIABILITY")
        assert reader.matched() == 0


def test_another_type_on_the_same_topic_does_not_match(participant: Participant) -> None:
    writer = participant.create_writer("/topic", support(message_class("std_msgs/msg/Int32")), Qos())
    reader = participant.create_reader("/topic", STRING, Qos())
    fitting = participant.create_writer("/topic", STRING, Qos())
    until(lambda: reader.matched() and fitting.matched())
    assert (writer.matched(), reader.matched()) == (0, 1)
    until(lambda: participant.graph.topics().get("/topic") == ["std_msgs/msg/Int32", "std_msgs/msg/String"])


def test_what_is_not_a_message_is_not_written(participant: Participant) -> None:
    writer = participant.create_writer("/topic", STRING, Qos())
    with pytest.raises(ValueError, match="no message of"):
        writer.write(b"\0\1\0\0\xff\xff\xff\xff")
    writer.close()
    writer.close()
    with pytest.raises(DdsError):
        writer.write(text("late"))


def test_a_waitset_is_woken_by_another_thread_and_lets_go(participant: Participant, waitset: WaitSet) -> None:
    reader = participant.create_reader("/topic", STRING, Qos())
    waitset.attach(reader)
    assert waitset.wait(0.0) == []
    waitset.wake()
    assert waitset.wait(None) == []
    writer = participant.create_writer("/topic", STRING, Qos())
    until(lambda: writer.matched())
    writer.write(text("x"))
    assert until(lambda: waitset.wait(0.1)) == [reader]
    waitset.detach(reader)
    assert waitset.wait(0.0) == []
    waitset.close()
    waitset.close()
    waitset.wake()


# Services


def test_services_answer_the_one_who_asked(participant: Participant, waitset: WaitSet) -> None:
    with peer("serve") as other:
        assert other.line() == "ready"
        first, second = (participant.create_client("/enable", SET_BOOL) for _ in range(2))
        for client in (first, second):
            until(client.is_ready)
            waitset.attach(client)
        asked = {}
        for client, value in ((first, True), (second, False), (first, False)):
            request = SET_BOOL.request.serialize(SET_BOOL.request.cls(data=value))
            asked[client, client.call(request)] = value
        answers: dict[Any, bool] = {}

        def all_answered() -> bool:
            for client in waitset.wait(0.1):
                for sequence, payload in client.take():
                    response = SET_BOOL.response.deserialize(payload)
                    assert response.message == str(response.success)
                    answers[client, sequence] = response.success
            return len(answers) >= 3

        until(all_answered)
        assert answers == asked
        other.process.send_signal(signal.SIGTERM)


# The graph


def test_graph_shows_another_process_until_it_ends(participant: Participant) -> None:
    graph = participant.graph
    participant.add_node("/", "watcher")
    lease = "<CycloneDDS><Domain><Discovery><LeaseDuration>1s</LeaseDuration></Discovery></Domain></CycloneDDS>"
    with peer("echo", CYCLONEDDS_URI=lease) as other:
        assert other.line() == "ready"
        expected = (
            [("peer", "/there"), ("watcher", "/")],
            4,
            [("peer", "/there", "sensor_msgs/msg/Image", IMAGE.type_hash, KEEP_ALL, False)],
            {"/answer_image": ["sensor_msgs/msg/Image"], "/answer_string": ["std_msgs/msg/String"]},
        )
        # With so short a lease the other process is gone for a while when it gets no processor for a second.
        seen = -1

        def complete() -> bool:
            nonlocal seen
            seen = graph.changes
            return shown(graph) == expected

        until(complete)
        other.process.kill()
        until(lambda: graph.node_names() == [("watcher", "/")])
        until(lambda: not graph.topics() and graph.changes > seen)
    with pytest.raises(LookupError, match="no node /there/peer"):
        graph.by_node(*NODE)


def shown(graph: Any) -> Any:
    """What the graph knows of the process `echo`; None where that has just gone."""
    names = graph.node_names()
    infos = graph.subscribers("/ask_image")
    try:
        endpoints, published = graph.by_node(*NODE), graph.names_by_node(*NODE, "topic", True)
    except LookupError:
        return None
    described = [(one.node, one.namespace, one.type_name, one.type_hash, one.qos, one.is_writer) for one in infos]
    return names, len(endpoints), described, published


def test_graph_follows_nodes_endpoints_and_services_of_this_process(participant: Participant) -> None:
    graph = participant.graph
    name = ("/a", "b")
    node = participant.add_node(*name)
    waitset = WaitSet(participant)
    waitset.attach(graph.change)
    server = participant.create_server("/enable", SET_BOOL, node=node)
    client = participant.create_client("/other", SET_BOOL, node=node)
    assert until(lambda: waitset.wait(0.1)) == [graph.change]
    assert graph.change.take()
    until(lambda: graph.services() == {"/enable": ["std_srvs/srv/SetBool"], "/other": ["std_srvs/srv/SetBool"]})
    until(lambda: graph.names_by_node(*name, "request", False) == {"/enable": ["std_srvs/srv/SetBool"]})
    until(lambda: graph.names_by_node(*name, "request", True) == {"/other": ["std_srvs/srv/SetBool"]})
    assert graph.topics() == {}
    server.close()
    client.close()
    until(lambda: not graph.services())
    participant.remove_node(node)
    until(lambda: not graph.node_names())


# Limits and ends


def test_two_domains_in_one_process_do_not_meet(participant: Participant, ros_domain: int) -> None:
    elsewhere = Participant(domain_id=ros_domain + 100)  # tests take domains up to 100
    try:
        writer = elsewhere.create_writer("/topic", STRING, Qos())
        reader = participant.create_reader("/topic", STRING, Qos())
        same = participant.create_writer("/topic", STRING, Qos())
        until(lambda: same.matched() and reader.matched())
        assert (writer.matched(), reader.matched()) == (0, 1)
        with pytest.raises(UserError, match=rf"domain {ros_domain} is open with discovery range LOCALHOST"):
            Participant(discovery="SUBNET")
    finally:
        elsewhere.close()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what sockets are bound to")
def test_nothing_listens_to_other_machines(ros_domain: int) -> None:
    before = sockets_open()
    made = Participant()
    try:
        bound = {}
        for descriptor, _ in sockets_open() - before:
            with socket.socket(fileno=os.dup(descriptor)) as found:
                if found.type == socket.SOCK_DGRAM:
                    device = found.getsockopt(socket.SOL_SOCKET, 25, 16).rstrip(b"\0")
                    bound[found.getsockname()] = device
        assert len(bound) >= 2
        assert all(address[0] == "127.0.0.1" or device == b"lo" for address, device in bound.items()), bound
    finally:
        made.close()


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("ROS_DOMAIN_ID", "233", "from 0 to 232"),
        ("ROS_DOMAIN_ID", "-1", "from 0 to 232"),
        ("ROS_DOMAIN_ID", "x", "from 0 to 232"),
        ("ROS_AUTOMATIC_DISCOVERY_RANGE", "EVERYWHERE", "OFF, LOCALHOST, SUBNET, SYSTEM_DEFAULT"),
        ("ROS_STATIC_PEERS", "10.0.0.1;<Peer>", "no address or host name"),
        ("CYCLONEDDS_URI", "<CycloneDDS><Nonsense/></CycloneDDS>", "look at CYCLONEDDS_URI"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    ros_domain: int, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=told):
        Participant()


def test_a_full_domain_says_what_to_do(ros_domain: int) -> None:
    with contextlib.ExitStack() as taken_ports:
        for index in range(120):  # DDSI's port of each participant's discovery
            held = taken_ports.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with contextlib.suppress(OSError):  # another program has it, which serves as well
                held.bind(("0.0.0.0", 7400 + 250 * ros_domain + 10 + 2 * index))
        with pytest.raises(UserError, match=r"120 processes .* another ROS_DOMAIN_ID"):
            Participant()
    Participant().close()


@pytest.mark.parametrize("name", ["relative", "/", "/a/", "//a", "/1a", "/a b", "/a__b", "/ä", "", "/" + 300 * "a"])
def test_names_that_ros_refuses_are_refused(participant: Participant, name: str) -> None:
    with pytest.raises(ValueError, match="invalid topic name"):
        participant.create_writer(name, STRING, Qos())
    with pytest.raises(ValueError, match="invalid service name"):
        participant.create_client(name, SET_BOOL)


def test_ends_are_clean(ros_domain: int) -> None:
    with peer("leave") as left, peer("wait") as waiting:
        assert left.line() == "leaving"
        assert (left.process.wait(TIMEOUT_S), left.process.communicate()[1]) == (0, "")
        assert waiting.line() == "ready"
        waiting.process.send_signal(signal.SIGINT)
        assert waiting.line() == "interrupted"
        assert (waiting.process.wait(TIMEOUT_S), waiting.process.communicate()[1]) == (0, "")
    made = Participant()
    reader = made.create_reader("/topic", STRING, Qos())
    waitset = WaitSet(made)
    waitset.attach(reader)
    made.close()
    made.close()
    reader.close()
    waitset.close()
    with pytest.raises(RuntimeError, match="closed"):
        made.create_reader("/topic", STRING, Qos())


if __name__ == "__main__":
    made = Participant()
    globals()[f"peer_{sys.argv[1]}"](made, made.add_node(*NODE))
