"""NatNet's messages: recorded ones, those of the emulator in every version, damaged ones."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from natnet_samples import NAMES, TICKS, TIME_S, frame_of, poses

from benchmarks.drivers.fuzz import kept
from benchmarks.drivers.fuzz_streams import natnet_frame, natnet_models
from drivers.emulators import natnet
from drivers.motion_capture import optitrack_protocol as protocol
from drivers.motion_capture.optitrack_protocol import VERSIONS, Kind, NatNetFault, RigidBody, ServerInfo, Version


@pytest.fixture
def recorded(shared_data: Path) -> Path:
    folder = shared_data / "natnet"
    if not folder.is_dir():
        pytest.skip(f"no recorded NatNet messages in {folder}")
    return folder


def content(folder: Path, name: str, kind: Kind) -> bytes:
    found, payload = protocol.payload((folder / f"{name}_packet_v3.bin").read_bytes())
    assert found == kind
    return payload


@pytest.mark.data
def test_recorded_messages_have_their_known_content(recorded: Path) -> None:
    """As the tests of python_natnet, where the recordings are from, have it."""
    info = protocol.server_info(content(recorded, "serverinfo", Kind.SERVER_INFO))
    assert info == ServerInfo("Motive", (2, 1, 0, 0), (3, 0), 3312787, 1511, True, "239.255.42.99")
    assert protocol.rigid_bodies(content(recorded, "modeldef", Kind.MODELS), (3, 0)) == (RigidBody("RaceQuad", 2, -1),)
    assert protocol.echo(content(recorded, "echoresponse", Kind.ECHO)) == (278554190, 1416498545924)
    assert protocol.echo_request(278554190) == (recorded / "echorequest_packet_v3.bin").read_bytes()
    assert content(recorded, "connect", Kind.CONNECT)[-4:] == bytes([3, 0, 0, 0])

    frame = protocol.parse_frame(content(recorded, "mocapframe", Kind.FRAME), (3, 0))
    assert (frame.number, frame.ids.tolist(), frame.tracked.tolist()) == (162734, [2], [True])
    np.testing.assert_allclose(frame.poses[:, :3], [[0.1744466, 1.4471314, -0.7343040]], atol=1e-6)
    np.testing.assert_allclose(frame.poses[:, 3:], [[-0.0545942, 0.5099482, 0.0437036, -0.8573577]], atol=1e-6)
    assert frame.time_s == pytest.approx(1356.1166667)
    assert frame.ticks == (1416497730518, 1416497745808, 1416497748722)
    assert not frame.models_changed

    kind, payload = protocol.payload((recorded / "mocapframe_packet_occluded_v3.bin").read_bytes())
    frame = protocol.parse_frame(payload, (3, 0))
    assert (kind, frame.number, frame.ids.tolist()) == (Kind.FRAME, 269007, [7])
    np.testing.assert_allclose(frame.poses[:, :3], [[-0.1541316, 0.2829448, 0.4706643]], atol=1e-6)
    assert frame.ticks is not None
    assert frame.ticks[0] == 8642283567331


@pytest.mark.parametrize("version", VERSIONS, ids=protocol.shown)
def test_every_version_comes_back_to_the_bit(version: Version) -> None:
    sent = replace(poses(20), tracked=np.arange(20) % 3 != 0)
    kind, payload = protocol.payload(natnet_frame(frame_of(sent, 77), version))
    assert kind == Kind.FRAME
    got = protocol.parse_frame(payload, version)
    assert (got.number, got.ids.tolist(), got.models_changed) == (77, list(range(1, 21)), version >= (2, 6))
    seen = sent.tracked
    np.testing.assert_array_equal(got.poses[seen], sent.poses[seen])
    if version >= (2, 6):
        np.testing.assert_array_equal(got.tracked, sent.tracked)
    else:  # no flag: no pose
        assert not got.poses[~seen, 3:].any()
    assert got.time_s == TIME_S or (version == (2, 5) and np.isnan(got.time_s))
    assert got.ticks == (TICKS if version >= (3, 0) else None)
    kind, payload = protocol.payload(natnet_models(NAMES, version))
    assert kind == Kind.MODELS
    assert protocol.rigid_bodies(payload, version) == tuple(RigidBody(name, k) for k, name in enumerate(NAMES, 1))
    info = ServerInfo("Motive", (3, 1, 0, 2), version)
    if version >= (3, 0):
        info = replace(info, clock_hz=10_000_000, data_port=1511, is_multicast=False, group="239.1.2.3")
    assert protocol.server_info(protocol.payload(natnet.server_info(info))[1]) == info


def test_what_a_fuzzer_kept_is_read_or_refused() -> None:
    """Inputs that take other ways through the reader, as each kind of message; the first byte is the version's number.

    Changed ones, in every version and through the whole client: `test_fuzz_corpus`.
    """
    for data in kept("natnet"):
        version = VERSIONS[(data[0] if data else 0) % len(VERSIONS)]
        of_version = (partial(one, version=version) for one in (protocol.parse_frame, protocol.rigid_bodies))
        for parse in (*of_version, protocol.payload, protocol.server_info, protocol.echo):
            for message in (data[1:], data[5:]):
                with suppress(NatNetFault):
                    parse(message)


@pytest.mark.parametrize("version", [(2, 5), (3, 0), (4, 2)], ids=protocol.shown)
def test_a_frame_cut_anywhere_is_refused(version: Version) -> None:
    whole = natnet_frame(frame_of(poses()), version)[4:]
    without_ptp = len(whole) - 8 if version >= (4, 1) else -1
    for length in range(len(whole) - 4):  # what comes last, an end mark, is not needed
        if length == without_ptp:
            continue  # as long as a frame that has no time by a PTP clock, which is read
        with pytest.raises(NatNetFault):
            protocol.parse_frame(whole[:length], version)
    if version >= (4, 1):
        found = protocol.parse_frame(whole[:-14] + whole[-6:], version)
        assert found.ticks == TICKS


def test_lying_counts_and_lengths_are_refused_with_what_is_wrong() -> None:
    with pytest.raises(NatNetFault, match="shorter than it says"):
        protocol.payload(struct.pack("<HH", 7, 9) + bytes(8))
    for count in (-1, 2**31 - 1, 10_000):
        with pytest.raises(NatNetFault, match="count beyond"):
            protocol.parse_frame(struct.pack("<3i", 1, 0, 0) + struct.pack("<i", count) + bytes(100), (3, 0))
        with pytest.raises(NatNetFault, match="count beyond"):
            protocol.rigid_bodies(struct.pack("<i", count) + bytes(100), (3, 0))
    with pytest.raises(NatNetFault, match="section beyond"):
        protocol.parse_frame(struct.pack("<3i", 1, 0, 1_000_000) + bytes(100), (4, 1))
    with pytest.raises(NatNetFault, match="text without an end"):
        protocol.rigid_bodies(struct.pack("<2i", 1, 1) + b"x" * 1000, (3, 0))
    with pytest.raises(NatNetFault, match="unknown kind"):
        protocol.rigid_bodies(struct.pack("<2i", 1, 77) + bytes(100), (4, 0))
    assert protocol.rigid_bodies(struct.pack("<3i", 1, 77, 100) + bytes(100), (4, 1)) == ()
    info = protocol.server_info(
        protocol.payload(natnet.server_info(ServerInfo("Mo\x1b[2Jtive", (1, 0, 0, 0), (2, 9))))[1]
    )
    (body,) = protocol.rigid_bodies(protocol.payload(natnet.models(["a\x1b]0;b\n"], (4, 1)))[1], (4, 1))
    assert (info.application + body.name).isprintable()
    with pytest.raises(NatNetFault, match="clock that none has"):
        protocol.server_info(bytes(260) + bytes([3, 0, 0, 0]) + bytes(15))
