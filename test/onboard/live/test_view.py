"""The live picture: records from runs, bags and the graph; curves; the page, on this machine only, with data in it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, command, refusal, salp_recording
from numpy.typing import NDArray

from onboard_estimation.bags.message_types import new
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.measurement import Estimate, Measurement, neutral_value
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import EPOCH_NS, write_series
from onboard_estimation.live.followed import ShownRun, Subject
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.diagnostics import OK, STALE, HealthReport
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.view.live import health_table
from onboard_estimation.view.recorded import load_records, namespaces_with_estimates
from onboard_estimation.view.robot import MOST_PLOTS, curves
from salp_estimation.robot import ROBOT as SALP

NO_VIEWER = pytest.mark.skipif(find_spec("viser") is None, reason="viser is not installed (extra `view`)")
NO_RUNTIME = pytest.mark.live
JOINTS = "sensor_msgs/msg/JointState"
SPACE = CONFIGURATION.chain.build().space()
LONGEST_WAIT_S = 60.0
Rows = NDArray[np.float64]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a simulated bag `walk` and its run `run`."""
    folder = tmp_path_factory.mktemp("view")
    recording = salp_recording(6.0)
    with BagWriter(folder / "walk", "mcap", custom_data={"source": "simulated"}) as writer:
        write_series(writer, [*recording.sensors, *recording.truth], "/salp")
    before = Path.cwd()
    os.chdir(folder)
    try:
        outcome = command("evaluate", "walk", "--output", "run")
    finally:
        os.chdir(before)
    assert outcome.code == 0, outcome.error
    return folder


def load_one(path: Path, **options: Any) -> ShownRun:
    (record,) = load_records(path, EvaluateOptions(), **options)
    return record


def test_a_run_is_shown_as_it_was_judged(place: Path) -> None:
    record = load_one(place / "run")
    metrics = json.loads((place / "run" / "metrics.json").read_text())
    assert record.subject.robot is SALP
    # A run of 6 s is too short to leave its start out.
    rms_deg = np.rad2deg(np.sqrt(np.mean(record.errors()["joint_angles"] ** 2, axis=0)))
    assert rms_deg == pytest.approx([find(metrics, f"alpha_{j}_rmse_deg") for j in (1, 2)], rel=1e-6)
    assert set(record.bodies) == set(CONFIGURATION.chain.link_names)
    assert json.loads((place / "run" / "run.json").read_text())["verdict"][1:] in record.notes[0]


def find(metrics: Any, key: str) -> float:
    """The first figure of that name, however deep."""
    if isinstance(metrics, dict):
        if key in metrics:
            return float(metrics[key])
        for value in metrics.values():
            if not np.isnan(inner := find(value, key)):
                return inner
    return np.nan


def test_a_bag_of_sensors_is_replayed_and_gives_the_same(place: Path) -> None:
    run, replayed = load_one(place / "run"), load_one(place / "walk")
    np.testing.assert_array_equal(replayed.stamps_ns, run.stamps_ns)
    np.testing.assert_allclose(replayed.means, run.means, atol=1e-12)
    np.testing.assert_allclose(replayed.covariances, run.covariances, atol=1e-15)
    np.testing.assert_allclose(replayed.truth["pose"], run.truth["pose"], equal_nan=True)


def test_a_recorded_graph_is_shown_without_a_replay(place: Path, tmp_path: Path) -> None:
    """Two robots in one bag; of several estimates with one stamp the last counts."""
    run = load_one(place / "run")
    messages = EstimateMessages(SPACE, new)
    recording = salp_recording(6.0)
    with BagWriter(tmp_path / "live", "mcap") as writer:
        for namespace, moved in (("/salp", 0.0), ("/lab/other", 1.0)):
            for index in range(0, len(run.stamps_ns), 5):
                estimate = run.at(index).estimate
                for shift in (5.0, moved):
                    shifted = replace(estimate, mean=estimate.mean + shift * np.eye(5)[0])
                    for output in messages(shifted, ("state", "state_covariance")):
                        name = f"{namespace}/{output.topic}"
                        writer.write(name, output.message_type, estimate.stamp_ns, output.message)
        write_series(writer, list(recording.truth), "/salp")
        # What a robot is, in a namespace of another name, follows from its sensors.
        write_series(writer, list(recording.sensors), "/lab/other")
    other, salp = load_records(tmp_path / "live", EvaluateOptions())
    assert (other.subject.namespace, salp.subject.namespace) == ("/lab/other", "/salp")
    np.testing.assert_allclose(salp.means, run.means[::5])
    np.testing.assert_allclose(other.means[:, 0], run.means[::5, 0] + 1.0)
    np.testing.assert_allclose(salp.covariances, run.covariances[::5])
    assert set(salp.truth) == {"pose", "joint_angles"}
    assert other.truth == {}
    (only,) = load_records(tmp_path / "live", EvaluateOptions(namespace="salp"))
    assert only.subject.namespace == "/salp"


def test_a_run_whose_bag_has_gone_is_shown_without_truth(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "run", tmp_path / "run")
    record = load_one(tmp_path / "run")
    assert record.truth == {}
    assert any("--bag" in note for note in record.notes)
    again = load_one(tmp_path / "run", bag_path=place / "walk")
    assert set(again.truth) == {"pose", "joint_angles"}


def test_refusals_say_what_to_do(place: Path, tmp_path: Path) -> None:
    assert "does not exist" in refusal("view", tmp_path / "nothing")
    broken = tmp_path / "run"
    shutil.copytree(place / "run", broken)
    (broken / "run.json").write_text("[1, 2]")
    assert "run.json holds a list, not a mapping" in refusal("view", broken)
    (broken / "run.json").write_text('{"robot": "crab"}')
    assert "no robot 'crab'" in refusal("view", broken)


def test_without_the_viewer_the_command_says_how_to_get_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    assert "onboard_estimation[view]" in refusal("view", place / "run", "--no-browser")


def test_namespaces_need_both_topics_of_the_right_type() -> None:
    topics = {
        "/a/state": JOINTS,
        "/a/state_covariance": JOINTS,
        "/b/state_covariance": JOINTS,
        "/c/state": "std_msgs/msg/String",
        "/c/state_covariance": JOINTS,
        "/state": JOINTS,
        "/state_covariance": JOINTS,
    }
    assert namespaces_with_estimates(topics) == ["", "/a"]


def sample_record(count: int = 2000) -> ShownRun:
    rng = np.random.default_rng(1)
    truth = np.cumsum(rng.normal(size=(count, 5)), axis=0) * 1e-3
    error = rng.normal(size=(count, 5)) * [0.01, 0.02, 0.01, 0.03, 0.04]
    means = SPACE.plus(truth, error)
    parts = {"pose": truth[:, :3], "joint_angles": truth[:, 3:].copy()}
    parts["joint_angles"][100:300] = np.nan
    covariance = np.diag(np.square([0.01, 0.02, 0.01, 0.03, 0.04]))
    stamps = EPOCH_NS + 50_000_000 * np.arange(count)
    subject = Subject("/salp", SALP, CONFIGURATION, SPACE)
    return ShownRun(subject, stamps, means, np.tile(covariance, (count, 1, 1)), truth=parts)


def test_curves_have_bands_of_two_deviations_and_gaps_where_there_is_no_truth() -> None:
    record = sample_record()
    found = {curve.title: curve for curve in curves(record)}
    assert len(found) == MOST_PLOTS
    angle = found["alpha_2 (deg)"]
    np.testing.assert_allclose(angle.upper - angle.estimate, np.rad2deg(0.08))
    np.testing.assert_allclose(angle.estimate - angle.lower, np.rad2deg(0.08))
    assert angle.time_s[-1] == pytest.approx(1999 * 0.05)
    share = np.mean(np.isnan(angle.truth))
    assert share == pytest.approx(0.1, abs=0.01)
    inside = np.abs(angle.truth - angle.estimate) <= np.rad2deg(0.08)
    assert inside[np.isfinite(angle.truth)].mean() == pytest.approx(0.954, abs=0.03)
    (position,) = (curve for title, curve in found.items() if title.startswith("position error"))
    np.testing.assert_allclose(position.upper, 100.0 * 0.02 * np.sqrt(5.991), rtol=1e-3)
    assert np.mean(position.estimate) == pytest.approx(100.0 * np.mean(np.hypot(*error_xy(record).T)), rel=0.1)
    assert curves(record, until_now=True)[0].time_s[-1] == 0.0
    assert curves(record)[0].time_s.size <= 700


def error_xy(record: ShownRun) -> Rows:
    return record.means[:, :2] - record.truth["pose"][:, :2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def viewing(folder: Path, *words: str | Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command in a process of its own, from the line that says where the picture is."""
    process, port = started_viewer(folder, *words)
    while port is None:  # somebody took the port between our look and the command's
        process, port = started_viewer(folder, *words)
    try:
        yield process, port
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(LONGEST_WAIT_S)


def started_viewer(folder: Path, *words: str | Path) -> tuple[subprocess.Popen[str], int | None]:
    """The command and its port, once it says where the picture is; None where the port was taken."""
    port = free_port()
    line = [sys.executable, "-m", "onboard_estimation", "view", *map(str, words), "--no-browser", "--port", str(port)]
    with (folder / "view.log").open("w") as log:
        process = subprocess.Popen(line, cwd=folder, stdout=log, stderr=subprocess.STDOUT, text=True)
    try:
        until(lambda: "picture: " in (folder / "view.log").read_text() or process.poll() is not None, LONGEST_WAIT_S)
    except BaseException:
        process.kill()
        process.wait(LONGEST_WAIT_S)
        raise
    said = (folder / "view.log").read_text()
    if "picture: " in said:
        return process, port
    assert f":{port}" in said, said
    return process, None


def listening_addresses(port: int) -> set[str]:
    """Local addresses on which some process of this machine listens on a port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            address, _, number = local.partition(":")
            if state == "0A" and int(number, 16) == port:
                found.add(address)
    return found


async def received(port: int, wanted: set[str], seconds: float = LONGEST_WAIT_S) -> str:
    """Text of all messages that a client of the page gets, until it holds all that is wanted."""
    import msgspec
    import viser
    import websockets
    import zstandard

    text = ""
    protocol = websockets.Subprotocol(f"viser-v{viser.__version__}")
    address = f"ws://127.0.0.1:{port}"
    end = time.monotonic() + seconds
    async with websockets.connect(address, subprotocols=[protocol], max_size=None) as client:
        while not all(word in text for word in wanted):
            assert time.monotonic() < end, f"not received: {sorted(word for word in wanted if word not in text)}"
            frame = await asyncio.wait_for(client.recv(), seconds)
            assert isinstance(frame, bytes)
            size, compressed = struct.unpack("<QQ", frame[:16])
            plain = zstandard.ZstdDecompressor().decompress(frame[16 : 16 + compressed], max_output_size=size)
            text += str(msgspec.msgpack.decode(plain))
    return text


@NO_VIEWER
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's list of sockets")
@pytest.mark.slow
def test_the_page_is_served_on_this_machine_only_and_gets_the_data(place: Path) -> None:
    from urllib.request import urlopen

    with viewing(place, "run") as (process, port):
        assert listening_addresses(port) == {"0100007F"}  # 127.0.0.1
        page = urlopen(f"http://127.0.0.1:{port}", timeout=LONGEST_WAIT_S).read()
        assert b"<html" in page.lower()
        # Nothing that the page would have to fetch from elsewhere.
        assert not re.findall(rb'(?:src|href)="https?://', page)
        wanted = {
            "/salp/estimate/link_1",
            "/salp/truth/link_3",
            "/salp/position_95",
            "/salp/heading_95",
            "alpha_2 (deg)",
        }
        asyncio.run(received(port, {*wanted, "position: ", "time (s)"}))
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST_WAIT_S) == 0
    log = (place / "view.log").read_text()
    assert "Traceback" not in log
    assert "warning" not in log


@NO_VIEWER
def test_a_taken_port_and_a_strange_host_are_refused(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refusal("view", place / "run", "--no-browser", "--port", str(port))
    assert "192.0.2.1" in refusal("view", place / "run", "--no-browser", "--host", "192.0.2.1")


@NO_VIEWER
@pytest.mark.slow
def test_listening_for_others_warns(place: Path) -> None:
    with viewing(place, "run", "--host", "0.0.0.0") as (process, _):
        assert "warning: everybody who reaches 0.0.0.0 can look" in (place / "view.log").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_WAIT_S) == 0


def test_rates_have_a_heading_and_optional_topics_may_be_silent() -> None:
    """The table of the live panel, of what a node's diagnostics say when an optional topic has nothing to tell."""
    pipeline = Pipeline(SALP.estimator(CONFIGURATION, "ukf"), SALP.channels(CONFIGURATION))
    required = SALP.channels(CONFIGURATION)
    channels = [required[0], replace(required[1], required=False)]
    for step in range(1, 50):
        for channel in channels:
            pipeline.process(Measurement(EPOCH_NS + 10_000_000 * step, channel.sensor, neutral_value(channel)))
    report = HealthReport(new, "salp")
    first, silent = (report(pipeline, channels, EPOCH_NS, 50) for _ in range(2))

    def said(message: Any) -> dict[str, str]:
        return {status.name: status.message for status in message.status}

    names = [f"salp: {channel.sensor}" for channel in channels]
    assert all(said(first)[name].endswith(" Hz") for name in names)
    assert "silent" in said(silent)[names[0]]
    assert said(silent)[names[1]] == "optional; 49 so far, none at the moment"
    levels = {
        status.name: bytes([status.level]) if isinstance(status.level, int) else status.level
        for status in silent.status
    }
    assert (levels[names[0]], levels[names[1]]) == (STALE, OK)
    table = health_table({name: (text, "1.02") for name, text in said(silent).items()})
    heading, _, rows = table.strip().partition("\n\n")
    assert heading.startswith("**salp**: messages per second")
    head = rows.splitlines()[0]
    assert all(cell.strip() for cell in head.strip("|").split("|"))
    assert f"| {channels[1].sensor} | optional; 49 so far, none at the moment | 1.02 |" in rows
    assert health_table({}) == ""


@NO_RUNTIME
@pytest.mark.usefixtures("ros_domain")
def test_the_live_graph_becomes_a_record_with_its_truth(place: Path) -> None:
    """Truth that comes before, with and after its estimate; a clock that jumps back; a message of another robot."""
    from onboard_estimation.live.session import graph_node
    from onboard_estimation.view.live import LiveGraph

    run = load_one(place / "run")
    messages = EstimateMessages(SPACE, new)
    with graph_node("test_publisher") as publisher, second_node("view_test") as node:
        outputs = _Publishers(publisher)
        graph = LiveGraph(node, EvaluateOptions())
        assert "Waiting for an estimator" in graph.status()
        outputs.announce(("state", "state_covariance"), JOINTS)
        until(lambda: (graph.look_for_robots(), list(graph.robots) == ["/salp"])[1])
        bodies = CONFIGURATION.chain.link_names
        outputs.announce([f"ground_truth/{body}/pose" for body in bodies], "geometry_msgs/msg/PoseStamped")
        until(outputs.matched)
        for index in range(60):
            moment = run.at(index)
            first, second = list(bodies)[:1], list(bodies)[1:]
            outputs.truth(moment.estimate.stamp_ns, {body: moment.bodies[body] for body in first})
            outputs.estimate(messages, moment.estimate)
            outputs.truth(moment.estimate.stamp_ns + 2_000_000, {body: moment.bodies[body] for body in second})
            time.sleep(0.01)
        until(lambda: seen(graph) == 60 and np.isfinite(graph.robots["/salp"].record().truth["pose"][-1]).all())  # type: ignore[union-attr]
        record = graph.robots["/salp"].record()
        assert record is not None
        np.testing.assert_array_equal(record.stamps_ns, run.stamps_ns[:60])
        np.testing.assert_allclose(record.means, run.means[:60])
        np.testing.assert_allclose(record.covariances, run.covariances[:60])
        known = np.isfinite(record.truth["pose"]).all(axis=1)
        assert known.mean() > 0.9
        np.testing.assert_allclose(record.truth["pose"][known], run.truth["pose"][:60][known], atol=1e-9)
        way, true_way = graph.robots["/salp"].ways()
        assert len(way) > 5
        assert way.shape[1] == true_way.shape[1] == 2
        # A bag played again: what was is forgotten.
        outputs.estimate(messages, run.at(0).estimate)
        until(lambda: seen(graph) == 1)
        outputs.raw("state", 7)
        until(lambda: "another robot" in graph.status())


class _Publishers:
    """What a robot publishes under /salp."""

    def __init__(self, node: Any) -> None:
        self._node, self._made = node, dict[str, Any]()

    def announce(self, topics: Any, kind: str) -> None:
        from onboard_estimation.live.messages import interface_class

        for topic in topics:
            self._made[topic] = self._node.create_publisher(interface_class(kind), f"/salp/{topic}", 100)

    def matched(self) -> bool:
        return all(one.get_subscription_count() > 0 for one in self._made.values())

    def estimate(self, messages: EstimateMessages, estimate: Estimate) -> None:
        from onboard_estimation.live.messages import new as live_new

        live = EstimateMessages(messages.space, live_new)
        for output in live(estimate, ("state", "state_covariance")):
            self._made[output.topic].publish(output.message)

    def raw(self, topic: str, count: int) -> None:
        from onboard_estimation.live.messages import new as live_new

        self._made[topic].publish(live_new(JOINTS, name=["x"] * count, position=np.zeros(count)))

    def truth(self, stamp_ns: int, bodies: dict[str, Rows]) -> None:
        from onboard_estimation.base.series import truth_channel
        from onboard_estimation.live.messages import new as live_new
        from onboard_estimation.ros.sensor_messages import to_message

        for body, pose in bodies.items():
            channel = truth_channel(body)
            self._made[channel.topic].publish(to_message(live_new, channel, stamp_ns, pose))


@contextmanager
def second_node(name: str) -> Iterator[Any]:
    """Another node of this process, spun in a thread."""
    from rclpy.node import Node

    from onboard_estimation.live.session import spin_beside

    node = Node(name)
    with spin_beside(node):
        yield node


def seen(graph: Any) -> int:
    record = graph.robots["/salp"].record()
    return 0 if record is None else len(record.stamps_ns)


def until(condition: Any, seconds: float = LONGEST_WAIT_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)
