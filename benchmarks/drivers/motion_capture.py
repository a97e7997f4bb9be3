"""Drivers of motion capture with emulated servers: losses, errors of the stamps and share of a core, twenty bodies.

A process is the server, and keeps the instant that each frame is of; the driver's node maps it; another process listens
and keeps what stamp each frame got. A body's x is the number of its frame.
`python -m benchmarks.drivers.motion_capture SYSTEM FILE SECONDS` is the server.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live import await_rest, end, heard, node, result, role, share_of, start
from benchmarks.measuring import row

BODIES = 20
NAMES = tuple(f"body_{number}" for number in range(BODIES))
LARGEST_SHARE, MEDIAN_S, P99_S = 0.15, 50e-6, 300e-6
NATNET_HZ, NATNET_PORTS, NATNET_SKEW_PPM = 240.0, {"command_port": 15101, "data_port": 15111}, 60.0
VICON_HZ, VICON_PORT, VICON_SKEW = 600.0, 15801, 40e-6
LATENCY_S, TOLD_JITTER_S, UNTOLD_JITTER_S = 0.004, 0.001, 0.0002
_STARTS_S, _SETTLES_S = 6.0, 5.0
"""Server and driver find each other; the driver finds the server's clock."""


def motion_capture(quick: bool) -> list[dict[str, Any]]:
    """Drivers of motion capture with emulated servers: losses, errors of stamps and share of a core, twenty bodies."""
    parameters = [f"{name}:={port}" for name, port in NATNET_PORTS.items()]
    seconds = 10.0 if quick else 60.0
    return [
        one
        for listened in (1, BODIES)
        for one in _case("NatNet", "optitrack", NATNET_HZ, parameters, seconds, listened)
    ]


def vicon_stream(quick: bool) -> list[dict[str, Any]]:
    """The Vicon driver against an emulated server: losses, share of a core, stamps against its exposures.

    A clock that is 40 ppm off; each frame is sent after a latency that is told and a jitter that is not.
    """
    return _case("Vicon", "vicon", VICON_HZ, [f"port:={VICON_PORT}"], 15.0 if quick else 60.0, 1)


def _case(
    system: str, executable: str, rate_hz: float, parameters: list[str], seconds: float, listened: int
) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        sent, came = Path(folder) / "sent.npy", Path(folder) / "came.npz"
        topics = [f"ground_truth/{name}/pose" for name in NAMES[:listened]]
        listener = role(
            "listen", topic=topics[0], kind="geometry_msgs/msg/PoseStamped", number="pose.position.x", keep=str(came),
            depth=20_000, unread=topics[1:],
        )  # fmt: skip
        driver = node([executable], *parameters)
        await_rest(driver)
        server = start(["benchmarks.drivers.motion_capture", system, str(sent), str(seconds + _STARTS_S)])
        time.sleep(_STARTS_S)
        share = share_of(driver, seconds - 2.0)
        told = result(server, seconds + 60.0)
        reports = result(listener, 60.0)["reports"]
        end(driver)
        sent_ns, got = np.load(sent), heard(came)
    number = np.round(got["number"]).astype(np.int64)
    expected = len(sent_ns) - int(number.min())
    lost = expected - len(np.unique(number))
    counted = [values["lost"] for _, said in reports for _, values in said.values() if "lost" in values]
    errors_s = 1e-9 * np.abs(got["stamp_ns"] - sent_ns[number])[number >= number.min() + _SETTLES_S * rate_hz]
    median_s, p99_s = np.percentile(errors_s, [50.0, 99.0])
    case = f"{system} at {rate_hz:g} Hz, {BODIES} bodies, {listened} heard, {seconds:.0f} s"
    figure = f"{lost} of {expected:,}; {', '.join(counted) or 'not'} counted by the driver, {told['missed']} not taken"
    errors = f"median {1e6 * median_s:.0f} us, 99 % {1e6 * p99_s:.0f} us, worst {1e6 * errors_s.max():.0f} us"
    return [
        row(f"{case}: frames lost", figure, "0", lost == 0),
        row(
            f"{case}: core used by the node", f"{100.0 * share:.1f} %", f"<= {100.0 * LARGEST_SHARE:g} %",
            share <= LARGEST_SHARE,
        ),
        row(
            f"{case}: error of stamps", errors, f"<= {1e6 * MEDIAN_S:.0f} us, {1e6 * P99_S:.0f} us",
            median_s <= MEDIAN_S and p99_s <= P99_S,
        ),
    ]  # fmt: skip


def _serve_natnet(kept: str, seconds: float) -> int:
    from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration
    from drivers.motion_capture.bodies import BodyPoses
    from onboard_estimation.realtime.budget import sleep_until

    server = NatNetServer(NAMES, NatNetServerConfiguration(clock_skew_ppm=NATNET_SKEW_PPM, **NATNET_PORTS))
    time.sleep(3.0)  # the driver finds it
    sent_ns = np.zeros(round(seconds * NATNET_HZ), dtype=np.int64)
    quaternions, tracked = np.tile([0.0, 0.0, 0.0, 1.0], (BODIES, 1)), np.ones(BODIES, dtype=np.bool_)
    start_ns = time.monotonic_ns()
    for number in range(len(sent_ns)):
        sleep_until(start_ns + round(number * 1e9 / NATNET_HZ))
        sent_ns[number] = time.time_ns()
        positions = np.full((BODIES, 3), float(number))
        server.submit(BodyPoses(int(sent_ns[number]), NAMES, positions, quaternions, tracked))
    time.sleep(1.0)
    server.close()
    np.save(kept, sent_ns)
    return 0


def _serve_vicon(kept: str, seconds: float) -> int:
    from drivers.emulators.vicon import DataStreamServer
    from onboard_estimation.realtime.budget import sleep_until

    count, rng = round(seconds * VICON_HZ), np.random.default_rng(0)
    server = DataStreamServer("127.0.0.1", VICON_PORT, list(NAMES), VICON_HZ)
    end_s = time.monotonic() + 60.0
    while not server.clients and time.monotonic() < end_s:
        server.serve(0.1)
    first_ns, wall_ns = time.monotonic_ns() + 100_000_000, time.time_ns() - time.monotonic_ns()
    exposed_ns = first_ns + np.round(np.arange(count) * (1e9 / VICON_HZ * (1.0 + VICON_SKEW))).astype(np.int64)
    told_s = LATENCY_S + rng.uniform(0.0, TOLD_JITTER_S, count)
    due_ns = exposed_ns + np.round(1e9 * (told_s + rng.exponential(UNTOLD_JITTER_S, count))).astype(np.int64)
    due_ns, turned = np.maximum.accumulate(due_ns), np.eye(3)
    for number in range(count):
        server.serve()
        sleep_until(int(due_ns[number]))
        position_mm = np.array([1e3 * number, 0.0, 0.0])
        # What waking and encoding took too long is not the network's: it is told, as a server would that was held up.
        began_ns = int(due_ns[number]) - round(1e9 * float(told_s[number]))
        server.send(number, dict.fromkeys(NAMES, (position_mm, turned)), partial(_told, began_ns))
    np.save(kept, exposed_ns + wall_ns)
    server.serve(1.0)
    time.sleep(1.0)
    server.close()
    return server.missed


def _told(began_ns: int) -> dict[str, float]:
    return {"all": 1e-9 * (time.monotonic_ns() - began_ns)}


if __name__ == "__main__":
    missed = {"NatNet": _serve_natnet, "Vicon": _serve_vicon}[sys.argv[1]](sys.argv[2], float(sys.argv[3]))
    print(f'{{"missed": {missed}}}')
