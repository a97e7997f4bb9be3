"""The NatNet client against the emulated server on real sockets: both transports, restart, other models, its clock."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration
from drivers.motion_capture import optitrack_protocol as protocol
from drivers.motion_capture.bodies import BodyPoses
from drivers.motion_capture.optitrack_client import NatNetClient, OptitrackConfiguration

pytestmark = pytest.mark.timeout(120)
NAMES = ("base", "link_1")
LONGEST_S = 40.0
PERIOD_S = 0.005


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def pose(number: int) -> BodyPoses:
    """Of that frame alone, as float32 has it."""
    half = 0.001 * (number % 1000)
    quaternion = np.array([0.0, np.sin(half), 0.0, np.cos(half)], dtype=np.float32).astype(float)
    positions = np.array([[number / 1024, 2.0, -3.0], [-number / 1024, 0.5, 0.25]])
    return BodyPoses(time.time_ns(), NAMES, positions, np.tile(quaternion, (2, 1)), np.array([True, number % 7 != 0]))


class Pair:
    """A server and a client of their own ports."""

    def __init__(self, transport: str = "unicast", version: str = "4.1", latency_s: float = 0.0, **faults: Any):
        self.configuration = NatNetServerConfiguration(
            version=version, transport=transport, command_port=free_port(), data_port=free_port(),
            camera_latency_s=0.002, **faults,
        )  # fmt: skip
        self.server = NatNetServer(NAMES, self.configuration)
        chosen = self.configuration
        ports = {"command_port": chosen.command_port, "data_port": chosen.data_port}
        self.said: list[str] = []
        self.got: list[BodyPoses] = []
        self.sent: dict[int, BodyPoses] = {}
        self._numbers = count(1)
        self._due_s = 0.0
        asked = OptitrackConfiguration(transport=transport, latency_s=latency_s, **ports)
        self.client = NatNetClient(asked, self.said.append)

    def turn(self) -> None:
        """A frame, where one is due, and what has come."""
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + PERIOD_S
            poses = pose(next(self._numbers))
            self.sent[poses.stamp_ns] = poses
            self.server.submit(poses)
        self.got += self.client.read(0.002)

    def until(self, true: Callable[[], object]) -> None:
        end_s = time.monotonic() + LONGEST_S
        while not true():
            assert time.monotonic() < end_s, (self.said, vars(self.client.health))
            self.turn()

    def of(self, seen: BodyPoses) -> BodyPoses:
        """What was sent: that of the same position, which no other frame has."""
        return next(one for one in self.sent.values() if one.positions_m[0, 0] == seen.positions_m[0, 0])

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def make() -> Iterator[Callable[..., Pair]]:
    pairs: list[Pair] = []

    def made(*values: object, **more: object) -> Pair:
        pairs.append(Pair(*values, **more))  # type: ignore[arg-type]
        return pairs[-1]

    yield made
    for pair in pairs:
        pair.close()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.5", "2.7", "2.11"])
def test_without_ticks_stamps_are_arrivals_less_the_latency_and_it_is_said(
    make: Callable[..., Pair], version: str
) -> None:
    pair = make("unicast", version, latency_s=0.002)
    pair.until(lambda: len(pair.got) >= 400)
    errors_s = np.array([1e-9 * (seen.stamp_ns - pair.of(seen).stamp_ns) for seen in pair.got[100:]])
    assert abs(np.median(errors_s)) < 5e-3
    assert any("stamps are arrivals less latency_s (2 ms)" in text for text in pair.said)


def test_a_server_of_another_version_in_its_place_is_followed(make: Callable[..., Pair]) -> None:
    pair = make("unicast", "3.0")
    pair.until(lambda: len(pair.got) >= 20)
    pair.server.close()
    pair.server = NatNetServer(NAMES, NatNetServerConfiguration(**{**vars(pair.configuration), "version": "4.2"}))
    before = len(pair.got)
    pair.until(lambda: len(pair.got) >= before + 20)
    assert pair.client.health.reconnections >= 1
    assert pair.client.info is not None
    assert pair.client.info.version == (4, 2)


def test_a_server_that_comes_later_is_found(make: Callable[..., Pair]) -> None:
    pair = make("multicast")
    pair.server.close()
    end_s = time.monotonic() + 0.7
    while time.monotonic() < end_s:
        assert not list(pair.client.read(0.01))
    assert "no answer from a NatNet server" in pair.client.trouble
    pair.server = NatNetServer(NAMES, pair.configuration)
    pair.until(lambda: pair.got)
    assert pair.client.trouble == ""


def test_a_flood_of_echoes_and_connections_is_bounded(make: Callable[..., Pair]) -> None:
    """No more clients than a server keeps; nobody else's frames stop."""
    pair = make("unicast")
    pair.until(lambda: pair.got)
    others = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(40)]
    for one in others:
        one.sendto(protocol.connect(), ("127.0.0.1", pair.configuration.command_port))
    before = len(pair.got)
    pair.until(lambda: len(pair.got) >= before + 50)
    assert len(pair.server._clients) <= 16
    for one in others:
        one.close()
