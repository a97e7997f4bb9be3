"""Every shipped node under malformed messages on everything that it listens to: it says so, and goes on.

Run as a script, this file is the process with the nodes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from environment import with_support
from live_graph import (
    LONGEST_WAIT_S,
    await_being_heard,
    call,
    collect,
    die_with_this,
    listening_node,
    spin_until,
    wait_until,
)
from malformed import malformed

from onboard_estimation.live.messages import interface_class, serialized

pytestmark = [pytest.mark.usefixtures("compiled_kernels"), pytest.mark.live]
NODES = {
    "/salp/salp_estimator": "salp_estimation.nodes:SalpPoseShapeNode",
    "/salp/salp_simulator": "salp_estimation.nodes:SalpSimulatorNode",
    "/salp/markers": "onboard_estimation.nodes.markers:MarkerNode",
    "/hopper/hopper_estimator": "hopper_estimation.nodes:HopperEstimatorNode",
    "/hopper/hopper_simulator": "hopper_estimation.nodes:HopperSimulatorNode",
}
KINDS = {
    "Imu", "JointState", "PoseWithCovarianceStamped", "PoseStamped", "PointStamped", "Odometry", "String",
    "DiagnosticArray",
}  # fmt: skip
"""Of what the nodes listen to; there is more."""
PLAIN = ("/view", "/recorder")
PARAMETERS = (
    "salp_simulator:imu_rate_hz:=100.0",
    "hopper_simulator:imu_rate_hz:=200.0",
    "hopper_simulator:control:=estimate",
)


def serve(bag: Path) -> None:
    """All nodes in one executor, and what view and recorder do beside theirs, until SIGINT."""
    import importlib

    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.node import Node
    from rclpy.signals import SignalHandlerOptions

    from onboard_estimation.bags.writing import BagWriter
    from onboard_estimation.judging.options import EvaluateOptions
    from onboard_estimation.live.recorder import Recorder, Selection
    from onboard_estimation.live.signals import StopRequest
    from onboard_estimation.view.live import LiveGraph

    arguments = ["--ros-args"]
    for name in NODES:
        _, space, short = name.split("/")
        arguments += ["-r", f"{short}:__ns:=/{space}"]
    for parameter in PARAMETERS:
        arguments += ["-p", parameter]
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    nodes = []
    for target in NODES.values():
        module, _, cls = target.partition(":")
        nodes.append(getattr(importlib.import_module(module), cls)())
    view, recording = (Node(name[1:]) for name in PLAIN)
    graph = LiveGraph(view, EvaluateOptions())
    view.create_timer(0.2, graph.look_for_robots)
    recorder = Recorder(recording, BagWriter(bag, grows=True), Selection(everything=True))
    stop = StopRequest()
    writing = threading.Thread(target=recorder.run, args=(stop,))
    writing.start()
    executor = SingleThreadedExecutor()
    for node in (*nodes, view, recording):
        executor.add_node(node)
    asked = threading.Event()  # an exception amid a callback would leave the executor with what is destroyed
    signal.signal(signal.SIGINT, lambda *_: asked.set())
    print("ready", flush=True)
    while not asked.is_set():
        executor.spin_once(timeout_sec=0.1)
    stop.make()
    while writing.is_alive():  # what is in the recorder's queues
        executor.spin_once(timeout_sec=0.1)
    print(f"recorded {recorder.recorded.message_count}", flush=True)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The process with the nodes, once they are all there, and what it says."""
    said = folder / "said.txt"
    with said.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(folder / "bag")],
            stdout=log, stderr=log, env=with_support(), preexec_fn=die_with_this,
        )  # fmt: skip
    try:
        wait_until(lambda: "ready\n" in said.read_text() or process.poll() is not None)
        assert process.poll() is None, said.read_text()
        yield process, said
    finally:
        process.kill()
        process.wait()


def malformed_for(kind: Any, seed: int) -> Iterator[bytes]:
    """All that cannot be read; also what can, and means nothing, as long as its stamp is none."""
    from rclpy.serialization import deserialize_message

    valid = serialized(kind())
    for payload in malformed(valid, seed):
        try:
            deserialize_message(payload, kind)
        except RuntimeError:
            yield payload
        else:
            if payload[4:12] == valid[4:12]:
                yield payload


def listened_topics(node: Any, owner: str) -> set[tuple[str, str]]:
    """Topics, with their types, at which a node listens; as long as it is not found, none."""
    from rclpy.node import NodeNameNonExistentError

    space, _, name = owner.rpartition("/")
    try:
        found = node.get_subscriber_names_and_types_by_node(name, space or "/")
    except NodeNameNonExistentError:
        return set()
    return {(topic, kinds[0]) for topic, kinds in found}


@pytest.mark.slow
@pytest.mark.usefixtures("ros_domain")
def test_every_node_survives_what_cannot_be_read(tmp_path: Path) -> None:
    """Requests are not tried: rclpy sends no bytes to a service."""
    from rclpy.qos import DurabilityPolicy, QoSProfile

    with serving(tmp_path) as (process, said), listening_node("attacker", "/") as node:
        owners = [*NODES, *PLAIN]
        estimates = {
            robot: collect(node, "nav_msgs/msg/Odometry", f"/{robot}/odometry") for robot in ("salp", "hopper")
        }
        spin_until(node, lambda: all(estimates.values()))

        def listened() -> set[tuple[str, str]]:
            return {found for owner in owners for found in listened_topics(node, owner)}

        # View and recorder subscribe to what they discover, some time after the others are heard.
        spin_until(node, lambda: {kind.rpartition("/")[2] for _, kind in listened()} >= KINDS)
        kinds = {topic: interface_class(kind) for topic, kind in listened()}
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        publishers = {topic: node.create_publisher(kind, topic, latched) for topic, kind in kinds.items()}
        await_being_heard(node, *owners)
        for seed, (topic, publisher) in enumerate(publishers.items()):
            for payload in malformed_for(kinds[topic], seed):
                publisher.publish(payload)
                node.executor.spin_once(timeout_sec=0.001)  # a burst would overflow the queues, and prove nothing
                assert process.poll() is None, (topic, payload, said.read_text())
        missing = ["/salp/imu/link_1/data_raw", "/hopper/imu/low_g/data_raw"]

        def all_is_said() -> bool:
            """What was overtaken in a queue, or not said because another one was just before, is sent once more."""
            text = said.read_text()
            missing[:] = [topic for topic in missing if f"a message on {topic} is left out" not in text]
            for topic in missing:
                publishers[topic].publish(serialized(kinds[topic]())[:16])
            return not missing or process.poll() is not None

        try:
            spin_until(node, all_is_said)
        finally:
            assert not missing, said.read_text()[-5000:]
        # And all of it still works.
        await_being_heard(node, *owners)
        for heard in estimates.values():
            heard.clear()
        spin_until(node, lambda: all(len(heard) > 20 for heard in estimates.values()))
        assert call(node, "std_srvs/srv/Trigger", "/salp/reset").success
        assert call(node, "std_srvs/srv/SetBool", "/salp/imu/link_1/enable", data=True).success
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST_WAIT_S) == 0, said.read_text()
        assert "Traceback" not in said.read_text()
        assert "recorded 0" not in said.read_text()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
