"""The DataStream client against the emulated server on real sockets: gone and back, lying, occluded, restarted."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from live_graph import LONGEST_WAIT_S, wait_until
from scipy.spatial.transform import Rotation

from drivers.emulators.vicon import DataStreamServer
from drivers.motion_capture.bodies import BodyPoses
from drivers.motion_capture.vicon_protocol import OBJECT_ENUMS, PACKET, block, encode_uints
from drivers.motion_capture.vicon_receiver import Receiver, ViconConfiguration

BODIES = ["box", "arm/upper", "arm/lower"]
RATE_HZ = 200.0


def frame(number: int, *occluded: str) -> BodyPoses:
    """That of no other number."""
    turn = Rotation.from_rotvec([0.1, 1e-3 * number, -0.4]).as_quat()
    rows = np.tile([number / 3e3, -1e-3, 10.0 + 1e-3 * number, *turn], (len(BODIES), 1))
    return BodyPoses(0, tuple(BODIES), rows, np.array([name not in occluded for name in BODIES]))


def latency() -> dict[str, float]:
    return {"all": 0.002}


def tracked(seen: BodyPoses) -> list[str]:
    return [name for name, is_seen in zip(seen.names, seen.tracked.tolist(), strict=True) if is_seen]


class Pair:
    """A server and a client, which take turns."""

    def __init__(self) -> None:
        self.server = DataStreamServer("127.0.0.1", 0, BODIES, RATE_HZ)
        self.said: list[str] = []
        self.got: list[BodyPoses] = []
        self.number = 1000
        self.sent: list[int] = []
        self.client = Receiver(
            ViconConfiguration(port=self.server.port), lambda sentence, _: self.said.append(sentence)
        )

    def turn(self, *occluded: str) -> None:
        """A frame, where somebody wants it."""
        self.server.serve()
        if any(one.is_streaming for one in self.server._clients):
            self.number += 1
            self.sent.append(self.number)
            self.server.send(self.number, frame(self.number, *occluded), latency)
        self.got += self.client.read(0.005)

    def until(self, true: Callable[[], object], *occluded: str) -> None:
        end_s = time.monotonic() + LONGEST_WAIT_S
        while not true():
            assert time.monotonic() < end_s, self.said
            self.turn(*occluded)

    def close(self) -> None:
        self.client.connection.close()
        self.server.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_poses_come_through_to_a_few_bits(pair: Pair) -> None:
    pair.until(lambda: len(pair.got) >= 100)
    wrong = {name: count for name, count in pair.client.health.counts.items() if name != "frames" and count}
    assert not wrong
    for number, seen in zip(pair.sent, pair.got, strict=False):
        assert tracked(seen) == BODIES
        np.testing.assert_allclose(seen.poses, frame(number).poses, rtol=0.0, atol=1e-14)
    assert pair.said[0].endswith("connected")
    assert "the server knows box, arm/upper, arm/lower" in pair.said


def test_bodies_that_are_occluded_or_wrong_and_frames_that_were_not_sent(pair: Pair) -> None:
    pair.until(lambda: len(pair.got) >= 10)
    pair.until(lambda: tracked(pair.got[-1]) == ["box", "arm/lower"], "arm/upper")
    pair.until(lambda: tracked(pair.got[-1]) == [], *BODIES)
    pair.until(lambda: tracked(pair.got[-1]) == BODIES)
    wrong = frame(1)
    wrong.poses[1:, :3] = [[np.nan], [1e3]]
    pair.number += 1
    pair.server.send(pair.number, wrong, latency)
    pair.until(lambda: pair.client.health.counts["invalid_poses"] == 2)
    assert any(tracked(seen) == ["box"] for seen in pair.got)
    pair.number += 7
    pair.until(lambda: pair.client.health.counts["lost"] == 7)
    pair.server.send(pair.number + 1_999_999_763, wrong, latency)
    pair.until(lambda: pair.client.health.counts["doubted"] == 1)
    assert pair.client.health.counts["lost"] == 7


def test_bodies_and_rate_that_change_are_told(pair: Pair) -> None:
    pair.until(lambda: len(pair.got) >= 10)
    pair.server.tell(["other", *BODIES], 100.0)
    pair.until(lambda: pair.client.clock.rate_hz == 100.0)
    pair.until(lambda: tracked(pair.got[-1]) == BODIES)  # by their names, though their ids are others now
    assert pair.client.names == ("other", *BODIES)


def test_a_client_that_was_sent_away_comes_again_also_when_the_server_was_away_and_began_anew(pair: Pair) -> None:
    pair.until(lambda: len(pair.got) >= 50)
    pair.server.disconnect()
    count = len(pair.got)
    pair.until(lambda: len(pair.got) >= count + 50)
    assert pair.client.connection.losses == 1
    assert any("closed the connection; trying again" in sentence for sentence in pair.said)
    pair.server.close()
    pair.until(lambda: "Connection refused" in pair.client.connection.trouble)
    pair.server.listen()
    pair.number = 3
    count = len(pair.got)
    pair.until(lambda: len(pair.got) >= count + 50)
    clock = pair.client.device_clock
    assert clock is not None
    assert (clock.jumps, pair.client.health.counts["doubted"]) == (1, 4)
    assert (np.diff([seen.stamp_ns for seen in pair.got]) > 0).all()


def test_a_stream_that_lies_is_left_and_tried_again_later_each_time() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(LONGEST_WAIT_S)
    taken: list[float] = []

    def serve() -> None:
        for _ in range(4):
            made, _ = listener.accept()
            taken.append(time.monotonic())
            made.sendall(block(PACKET, block(OBJECT_ENUMS, encode_uints([2, 5]))))
            made.recv(4096)
            made.close()

    server = threading.Thread(target=serve)
    server.start()
    said: list[str] = []
    client = Receiver(ViconConfiguration(port=listener.getsockname()[1]), lambda sentence, _: said.append(sentence))
    wait_until(lambda: client.read(0.01) == [] and client.health.counts.get("unreadable_no_DataStream", 0) >= 4)
    server.join(10.0)
    client.close()
    listener.close()
    assert (np.diff(taken) > [0.19, 0.39, 0.79]).all()
    assert any("does not offer global segments" in one and "trying again" in one for one in said)
