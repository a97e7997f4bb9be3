"""The NatNet client against the emulated server on real sockets: both transports, restart, other models, its clock."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count

import numpy as np
import pytest

from drivers.emulators import natnet_messages
from drivers.emulators.natnet import EXTRA_BODY, NatNetServer, NatNetServerConfiguration
from drivers.motion_capture.axes import Axes
from drivers.motion_capture.bodies import BodyPoses
from drivers.optitrack import protocol
from drivers.optitrack.client import NatNetClient
from drivers.optitrack.protocol import VERSIONS, Kind, ServerInfo, shown
from drivers.optitrack.sockets import Addresses
from onboard_estimation.errors import UserError

pytestmark = pytest.mark.timeout(120)
NAMES = ("base", "link_1")
GROUP = "239.255.42.99"
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

    def __init__(self, transport: str = "unicast", version: str = "4.1", latency_s: float = 0.0, **faults: float):
        self.configuration = NatNetServerConfiguration(
            version=version, transport=transport, command_port=free_port(), data_port=free_port(),
            camera_latency_s=0.002, **faults,
        )  # fmt: skip
        self.server = NatNetServer(NAMES, self.configuration)
        chosen = self.configuration
        group = GROUP if transport == "multicast" else None
        addresses = Addresses("127.0.0.1", "127.0.0.1", group, chosen.command_port, chosen.data_port)
        self.said: list[str] = []
        self.got: list[BodyPoses] = []
        self.sent: dict[int, BodyPoses] = {}
        self._numbers = count(1)
        self._due_s = 0.0
        self.client = NatNetClient(addresses, Axes("y"), latency_s, self.said.append)

    def turn(self) -> None:
        """A frame, where one is due, and what has come."""
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + PERIOD_S
            poses = pose(next(self._numbers))
            self.sent[poses.stamp_ns] = poses
            self.server.submit(poses)
        self.got += self.client.poll(0.002)

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


@pytest.mark.parametrize("transport", ["unicast", "multicast"])
@pytest.mark.parametrize("version", [shown(one) for one in VERSIONS])
def test_frames_come_through_to_the_bit(make: Callable[..., Pair], transport: str, version: str) -> None:
    pair = make(transport, version)
    pair.until(lambda: len(pair.got) >= 30)
    assert pair.client.info is not None
    assert shown(pair.client.info.version) == version
    assert (pair.client.health.lost, pair.client.health.late, pair.client.health.unreadable) == (0, 0, {})
    assert any(f"NatNet {version}" in text for text in pair.said)
    for seen in pair.got:
        sent = pair.of(seen)
        assert seen.names == NAMES
        assert seen.tracked.tolist() == sent.tracked.tolist()
        np.testing.assert_array_equal(seen.positions_m[seen.tracked], sent.positions_m[sent.tracked])
        np.testing.assert_array_equal(seen.quaternions_xyzw[seen.tracked], sent.quaternions_xyzw[sent.tracked])


@pytest.mark.parametrize("version", ["3.0", "4.2"])
def test_stamps_are_those_of_the_exposures(make: Callable[..., Pair], version: str) -> None:
    pair = make("unicast", version, clock_skew_ppm=120.0)
    pair.until(lambda: len(pair.got) >= 600)
    errors_s = np.array([1e-9 * (seen.stamp_ns - pair.of(seen).stamp_ns) for seen in pair.got[200:]])
    # The quickest echo of a second bounds it by half a round trip; this machine runs other tests as well.
    assert np.median(np.abs(errors_s)) < 1e-3
    assert pair.client.stamps is not None
    assert pair.client.stamps.is_echoed
    assert pair.client.stamps.echoes > 10


@pytest.mark.parametrize("version", ["2.5", "2.7", "2.11"])
def test_without_ticks_stamps_are_arrivals_less_the_latency_and_it_is_said(
    make: Callable[..., Pair], version: str
) -> None:
    pair = make("unicast", version, latency_s=0.002)
    pair.until(lambda: len(pair.got) >= 400)
    errors_s = np.array([1e-9 * (seen.stamp_ns - pair.of(seen).stamp_ns) for seen in pair.got[100:]])
    assert abs(np.median(errors_s)) < 5e-3
    assert any("stamps are arrivals less latency_s (2 ms)" in text for text in pair.said)


def test_a_restart_is_heard_and_followed(make: Callable[..., Pair]) -> None:
    pair = make("unicast", "4.1")
    pair.until(lambda: len(pair.got) >= 200)
    pair.server.restart()
    before = len(pair.got)
    pair.until(lambda: pair.client.health.reconnections and len(pair.got) >= before + 200)
    assert pair.client.health.reconnections == 1
    assert pair.client.info is not None
    errors_s = np.array([1e-9 * (seen.stamp_ns - pair.of(seen).stamp_ns) for seen in pair.got[-100:]])
    assert np.median(np.abs(errors_s)) < 1e-3  # by the new clock


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
        assert not list(pair.client.poll(0.01))
    assert "no answer from a NatNet server" in pair.client.trouble
    pair.server = NatNetServer(NAMES, pair.configuration)
    pair.until(lambda: pair.got)
    assert pair.client.trouble == ""


def test_a_change_of_models_is_asked_for_and_no_frame_has_wrong_names(make: Callable[..., Pair]) -> None:
    pair = make("unicast", "3.1")
    pair.until(lambda: pair.got)
    pair.server.change_models()
    pair.until(lambda: pair.got[-1].names == (*NAMES, EXTRA_BODY))
    pair.server.change_models()
    pair.until(lambda: pair.got[-1].names == NAMES)
    assert pair.client.health.model_changes == 2
    for seen in pair.got:
        sent = pair.of(seen)
        np.testing.assert_array_equal(seen.positions_m[:2][sent.tracked], sent.positions_m[sent.tracked])


def test_frames_that_do_not_come_are_counted_by_their_numbers(make: Callable[..., Pair]) -> None:
    pair = make("unicast", "4.2", drop_rate=0.2, seed=3)
    pair.until(lambda: len(pair.got) >= 300)
    lost, numbers = pair.client.health.lost, pair.server.number
    assert 0.1 * numbers < lost < 0.3 * numbers


class LyingServer:
    """Answers what it is told to, whatever is asked."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(5.0)
        self.port = int(self.socket.getsockname()[1])

    def answer(self, *messages: bytes) -> None:
        _, client = self.socket.recvfrom(2048)
        for message in messages:
            self.socket.sendto(message, client)

    def close(self) -> None:
        self.socket.close()


def lied_to(server: LyingServer, said: list[str]) -> NatNetClient:
    return NatNetClient(Addresses("127.0.0.1", "127.0.0.1", None, server.port, 1), Axes("z"), 0.0, said.append)


@pytest.mark.parametrize("version", [(1, 9), (2, 4), (3, 2), (4, 3), (255, 255)])
def test_versions_that_are_not_understood_are_refused_with_those_that_are(version: tuple[int, int]) -> None:
    info = natnet_messages.server_info(ServerInfo("Motive", (9, 0, 0, 0), version, 10**7, 1511, False, GROUP))
    with closing(LyingServer()) as server, closing(lied_to(server, [])) as client:
        list(client.poll(0.0))
        server.answer(info)
        with pytest.raises(UserError) as refused:
            list(client.poll(5.0))
    assert f"NatNet {shown(version)}" in str(refused.value)
    assert all(shown(one) in str(refused.value) for one in VERSIONS)


def test_what_lies_is_counted_by_its_reason_and_harms_nothing() -> None:
    told = natnet_messages.server_info(ServerInfo("Motive", (2, 1, 0, 0), (3, 0), 10**7, 1511, False, GROUP))
    lies = (
        b"", b"\0", b"\xff" * 1400, protocol.message(Kind.FRAME), protocol.message(Kind.MODELS, b"\xff" * 4),
        protocol.message(Kind.ECHO, bytes(16)), protocol.message(Kind.SERVER_INFO, b"x"),
        b"\x07\0\xff\xff", protocol.message(Kind.TEXT, b"text without an end"),
    )  # fmt: skip
    with closing(LyingServer()) as server, closing(lied_to(server, [])) as client:
        list(client.poll(0.0))
        server.answer(told, *lies)
        end_s = time.monotonic() + 10.0
        while sum(client.health.unreadable.values()) < 8 and time.monotonic() < end_s:
            list(client.poll(0.05))
        assert sum(client.health.unreadable.values()) == 8
        assert len(client.health.unreadable) <= 5  # reasons are words of the program's own
        assert client.info is not None
        assert client.health.frames == 0


def test_an_interface_of_another_host_is_said() -> None:
    for group in (None, GROUP):
        with pytest.raises(UserError, match="interface has to be an address of this host"):
            NatNetClient(Addresses("127.0.0.1", "192.0.2.1", group, 1510, free_port()), Axes("z"), 0.0, print)


def test_datagrams_of_others_than_the_server_are_left_out(make: Callable[..., Pair]) -> None:
    pair = make("multicast")
    pair.until(lambda: pair.got)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.2", 0))
        other.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        other.sendto(protocol.message(Kind.FRAME, b"\xff" * 50), (GROUP, pair.configuration.data_port))
        pair.until(lambda: pair.client.foreign)
    assert pair.client.health.unreadable == {}


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
