"""The live picture: records from runs, bags and the graph; curves; the page, on this machine only, with data in it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, command, refusal, salp_recording
from live_graph import LONGEST_WAIT_S, die_with_this, kill_group, wait_until
from numpy.typing import NDArray
from test_view_access import NO_VIEWER, free_port

from onboard_estimation.bags.message_types import new
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.measurement import Estimate, Measurement, neutral_value
from onboard_estimation.base.series import truth_channel
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import EPOCH_NS, write_series
from onboard_estimation.live.followed import ShownRun, Subject
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.messages import new as live_new
from onboard_estimation.live.session import graph_node, spin_beside
from onboard_estimation.live.signals import StopRequest
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.report import run_folder
from onboard_estimation.ros.diagnostics import OK, STALE, HealthReport
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.sensor_messages import to_message
from onboard_estimation.view.live import LiveGraph, health_table
from onboard_estimation.view.recorded import load_records
from onboard_estimation.view.robot import curves
from salp_estimation.robot import ROBOT as SALP

JOINTS = "sensor_msgs/msg/JointState"
SPACE = CONFIGURATION.chain.build().space()
Rows = NDArray[np.float64]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a simulated bag `walk` and its run `run`."""
    folder = tmp_path_factory.mktemp("view")
    recording = salp_recording(6.0)
    with BagWriter(folder / "walk", "mcap", custom_data={"source": "simulated"}) as writer:
        write_series(writer, [*recording.sensors, *recording.truth], "/salp")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for part in ("write_plots", "write_report"):
            patch.setattr(run_folder, part, lambda *_: None)
        outcome = command("evaluate", "walk", "--output", "run")
    assert outcome.code == 0, outcome.error
    return folder


def load_one(path: Path, **options: Any) -> ShownRun:
    (record,) = load_records(path, EvaluateOptions(), **options)
    return record


def test_a_run_is_shown_as_it_was_judged_and_its_bag_replayed_the_same(place: Path) -> None:
    run = load_one(place / "run")
    metrics = (place / "run" / "metrics.json").read_text()
    assert run.subject.robot is SALP
    # A run of 6 s is too short to leave its start out.
    rms_deg = np.rad2deg(np.sqrt(np.mean(run.errors()["joint_angles"] ** 2, axis=0)))
    judged_deg = [float(re.findall(rf'"alpha_{j}_rmse_deg": ([\d.]+)', metrics)[0]) for j in (1, 2)]
    assert rms_deg == pytest.approx(judged_deg, rel=1e-6)
    assert set(run.bodies) == set(CONFIGURATION.chain.link_names)
    assert json.loads((place / "run" / "run.json").read_text())["verdict"][1:] in run.notes[0]
    replayed = load_one(place / "walk")
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


def test_refusals_say_what_to_do(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "does not exist" in refusal("view", tmp_path / "nothing")
    broken = tmp_path / "run"
    shutil.copytree(place / "run", broken)
    (broken / "run.json").write_text("[1, 2]")
    assert "run.json holds a list, not a mapping" in refusal("view", broken)
    (broken / "run.json").write_text('{"robot": "crab"}')
    assert "no robot 'crab'" in refusal("view", broken)
    monkeypatch.setitem(sys.modules, "viser", None)
    assert "onboard_estimation[view]" in refusal("view", place / "run", "--no-browser")


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
    assert list(found)[:3] == ["alpha_1 error (deg)", "alpha_2 error (deg)", "x error (cm)"]
    angle = found["alpha_2 error (deg)"]
    np.testing.assert_allclose(angle.upper, np.rad2deg(0.08))
    np.testing.assert_allclose(angle.lower, np.rad2deg(-0.08))
    assert angle.time_s[-1] == pytest.approx(1999 * 0.05)
    known = angle.value[np.isfinite(angle.value)]
    assert len(known) / len(angle.value) == pytest.approx(0.9, abs=0.01)
    assert np.mean(np.abs(known) <= np.rad2deg(0.08)) == pytest.approx(0.954, abs=0.03)
    assert curves(record, until_now=True)[0].time_s[-1] == 0.0
    assert curves(record)[0].time_s.size <= 700
    value = {one.title: one for one in curves(replace(record, truth={}))}["alpha_2 (deg)"]
    np.testing.assert_allclose(value.upper - value.value, np.rad2deg(0.08))


@contextmanager
def viewing(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command in a process of its own, from the line that says where the picture is."""
    log = folder / "view.log"

    def started() -> tuple[subprocess.Popen[bytes], int]:
        line = [sys.executable, "-m", "onboard_estimation", "view", *words, "--no-browser", "--port"]
        port = free_port()
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*line, str(port)],
                cwd=folder,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=die_with_this,
            )
        return process, port

    process, port = started()
    try:
        wait_until(lambda: "picture: " in log.read_text() or process.poll() is not None)
        if process.poll() is not None and f":{port}" in log.read_text():  # somebody took it between our look and its
            process, port = started()
            wait_until(lambda: "picture: " in log.read_text() or process.poll() is not None)
        assert "picture: " in log.read_text(), log.read_text()
        yield process, port
    finally:
        kill_group(process)


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
@pytest.mark.slow
def test_the_page_is_served_on_this_machine_only_and_gets_the_data(place: Path) -> None:
    from urllib.request import urlopen

    with viewing(place, "run") as (process, port):
        with pytest.raises(ConnectionRefusedError):  # by another address of this machine
            socket.create_connection(("127.0.0.2", port))
        page = urlopen(f"http://127.0.0.1:{port}", timeout=LONGEST_WAIT_S).read()
        assert b"<html" in page.lower()
        # Nothing that the page would have to fetch from elsewhere.
        assert not re.findall(rb'(?:src|href)="https?://', page)
        drawn = {"/salp/estimate/link_1", "/salp/truth/link_3", "/salp/position_95", "/salp/heading_95"}
        asyncio.run(received(port, drawn | {"alpha_2 error (deg)", "position: ", "time (s)"}))
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST_WAIT_S) == 0
    log = (place / "view.log").read_text()
    assert "Traceback" not in log
    assert "warning" not in log


@NO_VIEWER
def test_a_taken_port_and_a_strange_host_are_refused_and_listening_for_others_warns(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refusal("view", place / "run", "--no-browser", "--port", str(port))
    assert "192.0.2.1" in refusal("view", place / "run", "--no-browser", "--host", "192.0.2.1")
    monkeypatch.setattr(StopRequest, "__bool__", lambda _: True)
    seen = command("view", place / "run", "--no-browser", "--host", "0.0.0.0", "--port", str(free_port()))
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
def test_the_live_graph_becomes_a_record_with_its_truth(place: Path) -> None:
    """Truth that comes before, with and after its estimate; a clock that jumps back; a message of another robot."""
    run = load_one(place / "run")
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
        np.testing.assert_allclose(record.truth["pose"][known], run.truth["pose"][:60][known], atol=1e-9)
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
