"""The live picture: records from the graph; curves; the page, on this machine only, with data in it."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, command, refusal
from live_graph import LONGEST_WAIT_S, wait_until
from numpy.typing import NDArray
from test_view_access import NO_VIEWER, free_port

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate, Measurement, neutral_value
from onboard_estimation.base.series import truth_channel
from onboard_estimation.contract.reported import poses_of_bodies
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import EPOCH_NS
from onboard_estimation.live.followed import ShownRun, Subject
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.messages import new as live_new
from onboard_estimation.live.session import graph_node, spin_beside
from onboard_estimation.live.signals import StopRequest
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import OK, STALE, HealthReport
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.sensor_messages import to_message
from onboard_estimation.view.live import LiveGraph, health_table, subjects
from onboard_estimation.view.robot import Plots, RobotPicture, curves
from onboard_estimation.view.server import LOOPBACK, open_server
from salp_estimation.robot import ROBOT as SALP

JOINTS = "sensor_msgs/msg/JointState"
SPACE = CONFIGURATION.chain.build().space()
Rows = NDArray[np.float64]


def test_a_missing_viser_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    assert "onboard_estimation[view]" in refusal("view", "--no-browser")


@NO_VIEWER
def test_robots_are_found_by_their_names_or_topics() -> None:
    """Two robots in one graph: what one is, in a namespace of another name, follows from its sensors."""
    topics = {f"/{space}/{one}": JOINTS for space in ("salp", "lab/other") for one in ("state", "state_covariance")}
    topics |= {f"/lab/other/{one.topic}": one.message_type for one in SALP.channels(CONFIGURATION)}
    assert [one.namespace for _, one in subjects(topics, EvaluateOptions())] == ["/lab/other", "/salp"]
    assert [one.namespace for _, one in subjects(topics, EvaluateOptions(namespace="salp"))] == ["/salp"]


def sample_record(count: int = 2000) -> ShownRun:
    rng = np.random.default_rng(1)
    truth = np.cumsum(rng.normal(size=(count, 5)), axis=0) * 1e-3
    error = rng.normal(size=(count, 5)) * [0.01, 0.02, 0.01, 0.03, 0.04]
    means = SPACE.plus(truth, error)
    parts = {"pose": truth[:, :3], "joint_angles": truth[:, 3:].copy()}
    parts["joint_angles"][100:300] = np.nan
    covariance = np.diag(np.square([0.01, 0.02, 0.01, 0.03, 0.04]))
    stamps = EPOCH_NS + 50_000_000 * np.arange(count)
    subject, bodies = Subject("/salp", SALP, CONFIGURATION, SPACE), poses_of_bodies(SALP, CONFIGURATION, SPACE, truth)
    return ShownRun(subject, stamps, means, np.tile(covariance, (count, 1, 1)), bodies, parts)


def test_curves_have_bands_of_two_deviations_where_there_is_truth() -> None:
    record = sample_record()
    found = curves(record)
    assert list(found)[:3] == ["alpha_1 error (deg)", "alpha_2 error (deg)", "x error (cm)"]
    time_s, upper, lower, value = found["alpha_2 error (deg)"]
    np.testing.assert_allclose(upper, np.rad2deg(0.08))
    np.testing.assert_allclose(lower, np.rad2deg(-0.08))
    assert (time_s[0], time_s[-1]) == (pytest.approx(-1999 * 0.05), 0.0)
    assert len(value) / len(found["x error (cm)"][-1]) == pytest.approx(0.9, abs=0.01)
    assert np.isfinite(value).all()
    assert np.mean(np.abs(value) <= np.rad2deg(0.08)) == pytest.approx(0.954, abs=0.03)
    assert time_s.size <= 700
    _, upper, _, value = curves(replace(record, truth={}))["alpha_2 (deg)"]
    np.testing.assert_allclose(upper - value, np.rad2deg(0.08))


async def received(port: int, wanted: set[str]) -> None:
    """Return once the text of all messages that a client of the page gets holds all that is wanted."""
    import msgspec
    import viser
    import websockets
    import zstandard

    text = ""
    protocol = websockets.Subprotocol(f"viser-v{viser.__version__}")
    address = f"ws://127.0.0.1:{port}"
    async with websockets.connect(address, subprotocols=[protocol], max_size=None) as client:
        while not all(word in text for word in wanted):
            frame = await asyncio.wait_for(client.recv(), LONGEST_WAIT_S)
            assert isinstance(frame, bytes)
            size, compressed = struct.unpack("<QQ", frame[:16])
            plain = zstandard.ZstdDecompressor().decompress(frame[16 : 16 + compressed], max_output_size=size)
            text += str(msgspec.msgpack.decode(plain))


@NO_VIEWER
def test_a_truth_that_takes_the_place_of_another_has_its_own_shape() -> None:
    """As where one body is occluded: a box of a body that nobody says more of, then a link's parts."""
    record = sample_record(1)
    moment, nothing = record.at(0), np.zeros((0, 2))
    with open_server(LOOPBACK, free_port(), ()) as (server, _):
        picture = RobotPicture(server, record.subject)
        seen = []
        for bodies in ({"stranger": moment.bodies["link_1"], **moment.bodies}, moment.bodies, {}):
            picture.show(replace(moment, bodies=bodies), nothing, nothing)
            shown = [one for name, one in picture._drawn.items() if name.startswith("/salp/truth/") and one.visible]
            seen.append([tuple(one.dimensions) if hasattr(one, "dimensions") else one.radius for one in shown])
        assert seen[0][1:] == seen[1]
        assert seen[0][0] not in seen[1]
        assert seen[2] == []


@NO_VIEWER
def test_the_page_is_served_on_this_machine_only_and_gets_the_data() -> None:
    from urllib.request import urlopen

    record = sample_record()
    with open_server(LOOPBACK, free_port(), ()) as (server, address):
        port = server.get_port()
        RobotPicture(server, record.subject).show(record.at(-1), record.means[:, :2], record.truth["pose"][:, :2])
        Plots(server, "/salp").show(curves(record))
        with pytest.raises(ConnectionRefusedError):  # by another address of this machine
            socket.create_connection(("127.0.0.2", port))
        page = urlopen(address, timeout=LONGEST_WAIT_S).read()
        assert b"<html" in page.lower()
        # Nothing that the page would have to fetch from elsewhere.
        assert not re.findall(rb'(?:src|href)="https?://', page)
        drawn = {"/salp/estimate/1", "/salp/truth/2", "/salp/position_95/0", "/salp/heading_95/0"}
        asyncio.run(received(port, drawn | {"alpha_2 error (deg)", "position: "}))


@NO_VIEWER
@pytest.mark.live
@pytest.mark.usefixtures("ros_domain")
def test_a_taken_port_and_a_strange_host_are_refused_and_listening_for_others_warns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refusal("view", "--no-browser", "--port", str(port))
    assert "192.0.2.1" in refusal("view", "--no-browser", "--host", "192.0.2.1")
    monkeypatch.setattr(StopRequest, "__bool__", lambda _: True)
    seen = command("view", "--no-browser", "--host", "0.0.0.0", "--port", str(free_port()))
    assert seen.code == 0
    assert "warning: everybody who reaches 0.0.0.0 can look" in seen.out


def test_rates_have_a_heading_and_optional_topics_may_be_silent() -> None:
    """The table of the live panel, of what a node's diagnostics say when an optional topic has nothing to tell."""
    required = SALP.channels(CONFIGURATION)
    pipeline = Pipeline(SALP.estimator(CONFIGURATION, "ukf"), required)
    channels = [required[0], replace(required[1], required=False)]
    for step in range(1, 50):
        for channel in channels:
            pipeline.process(Measurement(EPOCH_NS + 10_000_000 * step, channel.sensor, neutral_value(channel)))
    report = HealthReport(new, "salp")

    def reported() -> list[tuple[str, Any]]:
        found = {
            status.name: (status.message, status.level) for status in report(pipeline, channels, EPOCH_NS, 50).status
        }
        return [found[f"salp: {channel.sensor}"] for channel in channels]

    assert all(text.endswith(" Hz") for text, _ in reported())
    (said, level), (optional, level_of_optional) = reported()
    assert "silent" in said
    assert optional == "optional; 49 so far, none at the moment"
    assert (level, level_of_optional) == (STALE[0], OK[0])
    table = health_table({f"salp: {channels[1].sensor}": (optional, "1.02")})
    heading, _, rows = table.strip().partition("\n\n")
    assert heading.startswith("**salp**: messages per second")
    assert all(cell.strip() for cell in rows.splitlines()[0].strip("|").split("|"))
    assert f"| {channels[1].sensor} | optional; 49 so far, none at the moment | 1.02 |" in rows
    assert health_table({}) == ""


@pytest.mark.live
@pytest.mark.usefixtures("ros_domain")
def test_the_live_graph_becomes_a_record_with_its_truth() -> None:
    """Truth that comes before, with and after its estimate; a clock that jumps back; a message of another robot."""
    run = sample_record(100)
    true = run.subject.true_parts(run.bodies)["pose"]
    with graph_node("test_publisher") as publisher, ExitStack() as stack:
        from rclpy.node import Node

        graph, outputs = LiveGraph(node := Node("view_test"), EvaluateOptions()), _Publishers(publisher)
        stack.enter_context(spin_beside(node))
        assert "Waiting for an estimator" in graph.status()
        outputs.announce(("state", "state_covariance"), JOINTS)
        wait_until(lambda: (graph.look_for_robots(), list(graph.robots) == ["/salp"])[1])
        bodies = CONFIGURATION.chain.link_names
        outputs.announce([f"ground_truth/{body}/pose" for body in bodies], "geometry_msgs/msg/PoseStamped")
        wait_until(outputs.matched)
        start = run.at(0)

        def all_is_heard() -> bool:
            """The other side may not have found this one yet: what is sent until then is lost."""
            outputs.estimate(start.estimate)
            outputs.truth(start.estimate.stamp_ns, dict(start.bodies))
            record = graph.robots["/salp"].record()
            return record is not None and "pose" in record.truth

        wait_until(all_is_heard)
        for index in range(60):
            moment = run.at(index)
            first, second = list(bodies)[:1], list(bodies)[1:]
            outputs.truth(moment.estimate.stamp_ns, {body: moment.bodies[body] for body in first})
            outputs.estimate(moment.estimate)
            outputs.truth(moment.estimate.stamp_ns + 2_000_000, {body: moment.bodies[body] for body in second})
            time.sleep(0.01)
        wait_until(lambda: seen(graph) == 60 and np.isfinite(graph.robots["/salp"].record().truth["pose"][-1]).all())  # type: ignore[union-attr]
        record = graph.robots["/salp"].record()
        assert record is not None
        np.testing.assert_array_equal(record.stamps_ns, run.stamps_ns[:60])
        np.testing.assert_allclose(record.means, run.means[:60])
        np.testing.assert_allclose(record.covariances, run.covariances[:60])
        known = np.isfinite(record.truth["pose"]).all(axis=1)
        assert known.mean() > 0.9
        np.testing.assert_allclose(record.truth["pose"][known], true[:60][known], atol=1e-9)
        way, true_way = graph.robots["/salp"].ways()
        assert len(way) > 5
        assert way.shape[1] == true_way.shape[1] == 2
        # A bag played again: what was is forgotten.
        outputs.estimate(run.at(0).estimate)
        wait_until(lambda: seen(graph) == 1)
        outputs.raw("state", 7)
        wait_until(lambda: "another robot" in graph.status())
        graph.robots["/salp"].aside(lambda: 1 // 0)
        assert "the picture of /salp has ended: ZeroDivisionError" in graph.status()


class _Publishers:
    """What a robot publishes under /salp."""

    def __init__(self, node: Any) -> None:
        self._node, self._made = node, dict[str, Any]()
        self._messages = EstimateMessages(SPACE, live_new)

    def announce(self, topics: Any, kind: str) -> None:
        for topic in topics:
            self._made[topic] = self._node.create_publisher(interface_class(kind), f"/salp/{topic}", 100)

    def matched(self) -> bool:
        return all(one.get_subscription_count() > 0 for one in self._made.values())

    def estimate(self, estimate: Estimate) -> None:
        for output in self._messages(estimate, ("state", "state_covariance")):
            self._made[output.topic].publish(output.message)

    def raw(self, topic: str, count: int) -> None:
        self._made[topic].publish(live_new(JOINTS, name=["x"] * count, position=np.zeros(count)))

    def truth(self, stamp_ns: int, bodies: dict[str, Rows]) -> None:
        for body, pose in bodies.items():
            channel = truth_channel(body)
            self._made[channel.topic].publish(to_message(live_new, channel, stamp_ns, pose))


def seen(graph: Any) -> int:
    record = graph.robots["/salp"].record()
    return 0 if record is None else len(record.stamps_ns)
