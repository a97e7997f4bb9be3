"""Every shipped node under malformed messages and requests on everything that it listens to: it says so, and goes on.

Run as a script, this file is the process with the nodes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from embedded_ros.messages import message_class, service_class, support
from embedded_ros.wire import Qos
from embedded_ros.wire.services import _joined, _split
from environment import with_support
from live_graph import LONGEST_WAIT_S, await_being_heard, call, collect, listening_node, spin_until, wait_until
from rtps import Forger, malformed, too_long

pytestmark = [
    pytest.mark.usefixtures("compiled_kernels"),
    pytest.mark.timeout(400),
    pytest.mark.live,
]
NODES = {
    "/salp/salp_estimator": "salp_estimation.nodes.estimator:SalpPoseShapeNode",
    "/salp/salp_simulator": "salp_estimation.nodes.simulator:SalpSimulatorNode",
    "/salp/markers": "onboard_estimation.nodes.markers:MarkerNode",
    "/hopper/hopper_estimator": "hopper_estimation.nodes.estimator:HopperEstimatorNode",
    "/hopper/hopper_simulator": "hopper_estimation.nodes.simulator:HopperSimulatorNode",
}
KINDS = {
    "Imu", "JointState", "PoseWithCovarianceStamped", "PoseStamped", "PointStamped", "Odometry", "String",
    "DiagnosticArray", "Trigger_Request", "SetBool_Request", "GetParameters_Request", "SetRate_Request",
}  # fmt: skip
"""Of what the nodes listen to; there is more."""
OTHER = support(message_class("diagnostic_msgs/msg/KeyValue"))
PLAIN = ("/view", "/recorder", "/bag_player")
PARAMETERS = (
    "salp_simulator:imu_rate_hz:=100.0",
    "hopper_simulator:imu_rate_hz:=200.0",
    "hopper_simulator:control:=estimate",
)


def serve(bag: Path) -> None:
    """All nodes in one executor, and what view, recorder and player do beside theirs, until SIGINT."""
    import importlib

    import rclpy
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
    from rclpy.node import Node

    from onboard_estimation.evaluation.options import EvaluateOptions
    from onboard_estimation.live.growing_bag import GrowingBag
    from onboard_estimation.live.player_services import offer_services
    from onboard_estimation.live.recorder import Recorder, Selection
    from onboard_estimation.live.schedule import Schedule
    from onboard_estimation.live.signals import StopRequest
    from onboard_estimation.live.view_live import LiveGraph

    arguments = ["--ros-args"]
    for name in NODES:
        _, space, short = name.split("/")
        arguments += ["-r", f"{short}:__ns:=/{space}"]
    for parameter in PARAMETERS:
        arguments += ["-p", parameter]
    rclpy.init(args=arguments)
    nodes = []
    for target in NODES.values():
        module, _, cls = target.partition(":")
        nodes.append(getattr(importlib.import_module(module), cls)())
    view, recording, player = (Node(name[1:]) for name in PLAIN)
    graph = LiveGraph(view, EvaluateOptions())
    view.create_timer(0.2, graph.look_for_robots)
    recorder = Recorder(recording, GrowingBag(bag), Selection(everything=True))
    stop = StopRequest()
    writing = threading.Thread(target=recorder.run, args=(stop,))
    writing.start()
    offer_services(player, Schedule(0, stop))
    executor = SingleThreadedExecutor()
    for node in (*nodes, view, recording, player):
        executor.add_node(node)
    print("ready", flush=True)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        stop.make()
        writing.join()
    print(f"recorded {recorder.recorded.message_count}", flush=True)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The process with the nodes, once they are all there, and what it says."""
    said = folder / "said.txt"
    with said.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(folder / "bag")], stdout=log, stderr=log, env=with_support()
        )
    try:
        wait_until(lambda: "ready\n" in said.read_text() or process.poll() is not None)
        assert process.poll() is None, said.read_text()
        yield process, said
    finally:
        process.kill()
        process.wait()


class Target:
    """One subscription or service of a node, with two writers of ours that it has matched.

    `silent` writes nothing itself: samples are forged in its name, and one that is lost holds up those after it.
    `honest` gets through to everybody, with whatever CycloneDDS agrees to write.
    """

    def __init__(self, participant: Any, owner: str, endpoint: Any) -> None:
        self.is_request = endpoint.kind == "request"
        if self.is_request:
            service = support(service_class(endpoint.type_name.removesuffix("_Request")))
            self.kind = service.request
            self.silent, self.honest = (participant.create_client(endpoint.topic, service).writer for _ in range(2))
        else:
            self.kind = support(message_class(endpoint.type_name))
            qos = Qos(transient_local=True, depth=1)
            self.silent = participant.create_writer(endpoint.topic, self.kind, qos)
            # A hash of another definition, and another type under the same name.
            self.honest = participant._writer(self.silent.topic, self.kind, qos, f"typehash=RIHS01_{'0' * 64};")
            participant.create_writer(endpoint.topic, OTHER, qos).write(OTHER.serialize(OTHER.cls()))
        what = "request to" if self.is_request else "message on"
        self.complaint = f"[{owner.strip('/').replace('/', '.')}]: a {what} {endpoint.topic} is left out"
        valid = self.kind.serialize(self.kind.cls())
        self.valid = _joined(1, 1, valid) if self.is_request else valid

    def payloads(self, seed: int) -> Iterator[bytes]:
        """All that cannot be read; of topics also what can, and means nothing, as long as its stamp is none."""
        for payload in malformed(self.valid, seed):
            try:
                self.kind.deserialize(_split(payload)[2] if self.is_request else payload)
            except ValueError:
                yield payload
            else:
                if not self.is_request and payload[4:12] == self.valid[4:12]:
                    yield payload


def listening(node: Any, owner: str) -> list[Any]:
    """All endpoints at which a node listens, those of its services too."""
    space, _, name = owner.rpartition("/")
    endpoints = node.context.participant.graph.by_node(space or "/", name)
    return [one for one in endpoints if not one.is_writer and one.kind in ("topic", "request")]


@pytest.mark.slow
def test_every_node_survives_what_cannot_be_read(ros_domain: int, tmp_path: Path) -> None:
    with serving(tmp_path) as (process, said), listening_node("attacker", "/") as node:
        owners = [*NODES, *PLAIN]
        estimates = {
            robot: collect(node, "nav_msgs/msg/Odometry", f"/{robot}/odometry") for robot in ("salp", "hopper")
        }
        spin_until(node, lambda: all(estimates.values()))
        # View and recorder subscribe to what they discover, some time after the others are heard.
        spin_until(
            node,
            lambda: {one.type_name.split("/")[-1] for all_of in owners for one in listening(node, all_of)} >= KINDS,
        )
        participant = node.context.participant
        targets = [Target(participant, owner, endpoint) for owner in owners for endpoint in listening(node, owner)]
        await_being_heard(node, *owners)
        forger = Forger(ros_domain)
        for seed, target in enumerate(targets):
            for payload in target.payloads(seed):
                forger.send(target.silent.gid, payload)
                time.sleep(0.0005)  # a burst would overflow a socket's buffer, and prove nothing
        missing = [target for target in targets if not target.complaint.startswith("[recorder]: a message")]

        def all_is_said() -> bool:
            """What was overtaken in a short queue, or lost, is sent once more."""
            text = said.read_text()
            missing[:] = [target for target in missing if target.complaint not in text]
            for target in missing:
                target.honest.write(too_long(target.valid))
            return not missing or process.poll() is not None

        try:
            spin_until(node, all_is_said)
        finally:
            assert process.poll() is None, said.read_text()
            assert not missing, [target.complaint for target in missing]
        forger.close()
        assert said.read_text().count("deserialization") >= 10, "CycloneDDS has not seen the forged samples"
        # And all of it still works.
        await_being_heard(node, *owners)
        for heard in estimates.values():
            heard.clear()
        spin_until(node, lambda: all(len(heard) > 20 for heard in estimates.values()))
        assert call(node, "std_srvs/srv/Trigger", "/salp/reset").success
        assert call(node, "std_srvs/srv/SetBool", "/salp/imu/link_1/enable", data=True).success
        assert call(node, "rosbag2_interfaces/srv/SetRate", "/bag_player/set_rate", rate=2.0).success
        process.send_signal(signal.SIGINT)
        assert process.wait(LONGEST_WAIT_S) == 0, said.read_text()
        assert "Traceback" not in said.read_text()
        assert "recorded 0" not in said.read_text()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
