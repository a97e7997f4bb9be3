"""Frames and servers for tests of OptiTrack's driver."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration
from drivers.motion_capture.bodies import BodyPoses
from drivers.motion_capture.optitrack_client import NatNetClient, OptitrackConfiguration

LOOPBACK = "127.0.0.1"
NAMES = ("base", "link 1", "link 2")
PERIOD_NS = 5_000_000


def poses(count: int = len(NAMES), stamp_ns: int = 0, seed: int = 1) -> BodyPoses:
    """Of bodies, with numbers that float32 has."""
    rng = np.random.default_rng(seed)
    quaternions = rng.normal(size=(count, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    names = tuple(NAMES[place] if place < len(NAMES) else f"body_{place}" for place in range(count))
    positions = rng.normal(size=(count, 3)).astype(np.float32).astype(np.float64)
    quaternions = quaternions.astype(np.float32).astype(np.float64)
    return BodyPoses(stamp_ns, names, positions, quaternions, np.ones(count, dtype=np.bool_))


def free_ports() -> tuple[int, int]:
    """Two UDP ports that nobody has at the moment."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second,
    ):
        first.bind((LOOPBACK, 0))
        second.bind((LOOPBACK, 0))
        return first.getsockname()[1], second.getsockname()[1]


@contextmanager
def serving(names: tuple[str, ...] = NAMES, **options: Any) -> Iterator[tuple[NatNetServer, NatNetServerConfiguration]]:
    """A server on ports of its own."""
    if "command_port" not in options:
        options["command_port"], options["data_port"] = free_ports()
    configuration = NatNetServerConfiguration(**options)
    server = NatNetServer(names, configuration)
    try:
        yield server, configuration
    finally:
        server.close()


@contextmanager
def connected(configuration: NatNetServerConfiguration, **options: Any) -> Iterator[tuple[NatNetClient, list[str]]]:
    """A client of that server, and what it tells."""
    shared = ("transport", "multicast_group", "command_port", "data_port", "up_axis")
    chosen = {name: getattr(configuration, name) for name in shared}
    told: list[str] = []
    client = NatNetClient(OptitrackConfiguration(**{**chosen, **options}), told.append)
    try:
        yield client, told
    finally:
        client.close()


class Stream:
    """Submits frames in real time while it is polled, and keeps what the client makes of them."""

    def __init__(self, server: NatNetServer, client: NatNetClient, sent: BodyPoses | None = None) -> None:
        self._server, self._client, self._sent = server, client, sent or poses()
        self._next_ns = time.time_ns()
        self.stamps_ns: list[int] = []
        self.got: list[BodyPoses] = []

    def until(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Until it holds; fails after the timeout."""
        end_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end_s, f"not within {timeout_s:g} s: {self._client.trouble}"
            while self._next_ns <= time.time_ns():
                self._server.submit(replace(self._sent, stamp_ns=self._next_ns))
                self.stamps_ns.append(self._next_ns)
                self._next_ns += PERIOD_NS
            self.got.extend(self._client.read(0.002))

    def further(self, count: int) -> None:
        """Until so many frames more have come."""
        before = len(self.got)
        self.until(lambda: len(self.got) >= before + count)
