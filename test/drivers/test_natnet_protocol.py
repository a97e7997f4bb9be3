"""NatNet's parsers: recorded messages, each version as the emulator writes it, and messages that lie."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.emulators import natnet_messages
from drivers.emulators.natnet_messages import Times
from drivers.motion_capture.bodies import BodyPoses
from drivers.optitrack import descriptions, frames, protocol
from drivers.optitrack.descriptions import RigidBody
from drivers.optitrack.protocol import VERSIONS, Kind, NatNetFault, ServerInfo, Version, shown

each_version = pytest.mark.parametrize("version", VERSIONS, ids=shown)
NAMES = ("base", "Körper 2", "link_1")
TIMES = Times(12.25, 2**63 + 1, 2**63 + 2, 2**64 - 1)


def poses(seed: int = 1) -> BodyPoses:
    """Of three bodies, the second not tracked; as float32 has them."""
    rng = np.random.default_rng(seed)
    positions, quaternions = rng.normal(size=(3, 3)), rng.normal(size=(3, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    return BodyPoses(
        1, NAMES, positions.astype("<f4").astype(float), quaternions.astype("<f4").astype(float),
        np.array([True, False, True]),
    )  # fmt: skip


def content(message: bytes, kind: Kind) -> bytes:
    found, payload = protocol.payload(message)
    assert found == kind
    assert len(payload) == len(message) - 4
    return payload


def frame(version: Version, with_others: bool = True) -> bytes:
    return content(
        natnet_messages.frame(77, poses(), TIMES, version, changed=True, with_others=with_others), Kind.FRAME
    )


def models(version: Version) -> bytes:
    return content(natnet_messages.models(NAMES, version, with_others=True), Kind.MODELS)


@pytest.fixture
def recorded(shared_data: Path) -> Path:
    folder = shared_data / "natnet"
    if not folder.is_dir():
        pytest.skip(f"no recorded messages in {folder}")
    return folder


def recorded_message(folder: Path, name: str) -> tuple[int, bytes]:
    return protocol.payload((folder / f"{name}_v3.bin").read_bytes())


def test_recorded_connection(recorded: Path) -> None:
    kind, payload = recorded_message(recorded, "serverinfo_packet")
    assert kind == Kind.SERVER_INFO
    assert protocol.server_info(payload) == ServerInfo(
        "Motive", (2, 1, 0, 0), (3, 0), 3_312_787, 1511, True, "239.255.42.99"
    )
    assert recorded_message(recorded, "connect_packet")[0] == Kind.CONNECT


def test_recorded_models(recorded: Path) -> None:
    kind, payload = recorded_message(recorded, "modeldef_packet")
    assert kind == Kind.MODELS
    assert descriptions.parse(payload, (3, 0)) == (RigidBody("RaceQuad", 2, -1),)


def test_recorded_echo(recorded: Path) -> None:
    kind, payload = recorded_message(recorded, "echoresponse_packet")
    assert kind == Kind.ECHO
    assert protocol.echo(payload) == (278_554_190, 1_416_498_545_924)
    request = (recorded / "echorequest_packet_v3.bin").read_bytes()
    assert protocol.echo_request(278_554_190) == request


@pytest.mark.parametrize(
    ("name", "number", "body", "position", "quaternion", "time_s", "ticks"),
    [
        (
            "mocapframe_packet", 162_734, 2, (0.17444664, 1.4471314, -0.73430401),
            (-0.05459423, 0.50994819, 0.04370357, -0.85735768), 1356.1166666666666,
            (1_416_497_730_518, 1_416_497_745_808, 1_416_497_748_722),
        ),
        (
            "mocapframe_packet_occluded", 269_007, 7, (-0.15413156, 0.2829448, 0.47066432),
            (-3.33928881e-04, -1.48212755e-04, 5.24857594e-03, -9.99986172e-01), 8966.9,
            (8_642_283_567_331, 8_642_283_582_567, 8_642_283_586_925),
        ),
    ],
)  # fmt: skip
def test_recorded_frames(
    recorded: Path, name: str, number: int, body: int, position: tuple[float, ...], quaternion: tuple[float, ...],
    time_s: float, ticks: tuple[int, int, int],
) -> None:  # fmt: skip
    kind, payload = recorded_message(recorded, name)
    assert kind == Kind.FRAME
    found = frames.parse(payload, (3, 0))
    assert (found.number, found.ids.tolist(), found.tracked.tolist()) == (number, [body], [True])
    np.testing.assert_allclose(found.positions_m, [position], rtol=1e-7)
    np.testing.assert_allclose(found.quaternions_xyzw, [quaternion], rtol=1e-7)
    assert found.time_s == time_s
    assert (found.exposure_ticks, found.received_ticks, found.transmitted_ticks) == ticks
    assert not found.models_changed


@each_version
@pytest.mark.parametrize("with_others", [False, True])
def test_frames_come_through_to_the_bit(version: Version, with_others: bool) -> None:
    sent, found = poses(), frames.parse(frame(version, with_others), version)
    assert (found.number, found.ids.tolist(), found.models_changed) == (77, [1, 2, 3], True)
    seen = sent.tracked if version < (2, 6) else np.ones(3, dtype=bool)
    np.testing.assert_array_equal(found.positions_m[seen], sent.positions_m[seen])
    np.testing.assert_array_equal(found.quaternions_xyzw[seen], sent.quaternions_xyzw[seen])
    if version >= (2, 6):
        assert found.tracked.tolist() == [True, False, True]
    else:  # without a flag: the client takes a quaternion of no length for a body that is not seen
        assert not found.quaternions_xyzw[1].any()
    assert found.time_s == TIMES.software_s
    ticks = (found.exposure_ticks, found.received_ticks, found.transmitted_ticks)
    told = (TIMES.exposure_ticks, TIMES.received_ticks, TIMES.transmitted_ticks)
    assert ticks == (told if version >= (3, 0) else (None, None, None))


@each_version
def test_models_come_through(version: Version) -> None:
    expected = tuple(RigidBody(name, number) for number, name in enumerate(NAMES, 1))
    assert descriptions.parse(models(version), version) == expected


@each_version
def test_connections_come_through(version: Version) -> None:
    told = ServerInfo("emulator", (1, 2, 3, 4), version, 10_000_000, 1511, False, "239.255.42.99")
    found = protocol.server_info(content(natnet_messages.server_info(told), Kind.SERVER_INFO))
    assert found == (told if version >= (3, 0) else ServerInfo("emulator", (1, 2, 3, 4), version))


@each_version
def test_what_ends_early_is_refused_at_every_place(version: Version) -> None:
    whole = frame(version)
    for length in range(len(whole) - 4):  # the last four bytes say nothing
        with pytest.raises(NatNetFault):
            frames.parse(whole[:length], version)
    whole = models(version)
    for length in range(len(whole)):
        with pytest.raises(NatNetFault):
            descriptions.parse(whole[:length], version)


@pytest.mark.parametrize("count", [-1, -(2**31), 2**31 - 1, 1000])
@each_version
def test_counts_and_sizes_that_lie_are_refused(version: Version, count: int) -> None:
    lie = struct.pack("<i", count)
    with pytest.raises(NatNetFault):
        descriptions.parse(lie + models(version)[4:], version)
    whole = frame(version, with_others=False)
    if version >= (4, 1):  # the size is what counts there
        with pytest.raises(NatNetFault):
            frames.parse(whole[:8] + struct.pack("<i", count if count != 1000 else 10**6) + whole[12:], version)
    else:
        with pytest.raises(NatNetFault):
            frames.parse(whole[:4] + lie + whole[8:], version)
    bodies = whole.index(struct.pack("<i7f", 1, *poses().positions_m[0], *poses().quaternions_xyzw[0]))
    place = bodies - (8 if version >= (4, 1) else 4)
    assert whole[place : place + 4] == struct.pack("<i", 3)
    with pytest.raises(NatNetFault):
        frames.parse(whole[:place] + lie + whole[place + 4 :], version)


def test_headers_that_lie_are_refused_and_longer_ones_cut() -> None:
    data = protocol.message(Kind.ECHO, bytes(16))
    for length in range(len(data)):
        with pytest.raises(NatNetFault):
            protocol.payload(data[:length])
    assert protocol.payload(data + b"more") == (Kind.ECHO, bytes(16))


def test_a_clock_that_none_has_is_refused() -> None:
    for clock_hz in (0, 1, 2**64 - 1):
        told = ServerInfo("", (0, 0, 0, 0), (3, 0), clock_hz, 1511, True, "239.255.42.99")
        with pytest.raises(NatNetFault):
            protocol.server_info(natnet_messages.server_info(told)[4:])


def test_what_a_client_asks_is_as_others_ask() -> None:
    kind, asked = protocol.payload(protocol.connect((4, 1)))
    assert (kind, len(asked)) == (Kind.CONNECT, 270)
    assert asked.startswith(b"Ping\0")
    assert asked[265:267] == bytes([4, 1])
    assert protocol.message(Kind.KEEP_ALIVE) == struct.pack("<HH", 10, 0)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=300), version=st.sampled_from(VERSIONS))
def test_any_bytes_are_read_or_refused(data: bytes, version: Version) -> None:
    for parse in (
        protocol.payload,
        protocol.server_info,
        protocol.echo,
        lambda one: frames.parse(one, version),
        lambda one: descriptions.parse(one, version),
    ):
        try:
            parse(data)
        except NatNetFault:
            continue


@settings(max_examples=300, deadline=None)
@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_messages_with_changed_bytes_are_read_or_refused(data: st.DataObject, version: Version) -> None:
    for whole, parse in ((frame(version), frames.parse), (models(version), descriptions.parse)):
        changed = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 4))):
            changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        try:
            found = parse(bytes(changed), version)
        except NatNetFault:
            continue
        assert len(found.ids if isinstance(found, frames.Frame) else found) <= len(whole) // 12
