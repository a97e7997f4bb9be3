"""Drivers in processes of their own with emulated devices: losses, errors of stamps, latency and share of a core.

A process is the device, and keeps the instant that each numbered sample is of; the driver's node maps it; another
process listens and keeps what stamp each sample got and when it came. Of motion capture, a body's x is the number of
its frame; on the serial line, the low-g sensor's x axis counts.
`python -m benchmarks.drivers.captured DEVICE JSON` is the device.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.live import await_rest, end, heard, node, result, role, shares_of, start
from benchmarks.measuring import Array, Row, row
from drivers.serial_imu.frames import FrameReader, Sample, encode_sample
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2

BODIES = 20
NAMES = tuple(f"body_{number}" for number in range(BODIES))
LARGEST_SHARE, MEDIAN_S, P99_S = 0.15, 50e-6, 300e-6
NATNET_HZ, NATNET_PORTS, NATNET_SKEW_PPM = 240.0, {"command_port": 15101, "data_port": 15111}, 60.0
VICON_HZ, VICON_PORT, VICON_SKEW = 600.0, 15801, 40e-6
LATENCY_S, TOLD_JITTER_S, UNTOLD_JITTER_S = 0.004, 0.001, 0.0002
FAR = "largest_distance_m:=100000.0"
"""Frames are numbered by where a body is."""
SERIAL_HZ = 1000.0
ERROR_RATES = {1e-4: 0.996, 1e-3: 0.96, 5e-3: 0.83}
"""Share of damaged bytes, and of the frames that have to be read all the same."""
_BATCH = 20_000
_NUMBERS, _COUNTS_A_G = 30_000, 2048.0
"""Samples are numbered by the counts of the low-g sensor's x axis, which this many fit into."""
_STARTS_S, _SETTLES_S, _TOGETHER_S = 6.0, 5.0, 10.0
"""Device and driver find each other; the driver finds the device's clock; driver and estimator start in one process."""


class Driven(NamedTuple):
    """What came of a run: (K,) instants of the samples sent; number, stamp and arrival of those heard."""

    sent_ns: Array
    number: Array
    stamp_ns: Array
    came_ns: Array
    share: float
    told: dict[str, Any]
    reports: list[Any]

    def lost_row(self, name: str, said: str = "") -> Row:
        """The first may be missed: who listens is not known before."""
        expected = len(self.sent_ns) - int(self.number[0])
        lost = expected - len(np.unique(self.number))
        return row(f"{name}: lost", f"{lost} of {expected:,}{said}", "0", lost == 0)

    def share_row(self, name: str, limit: float) -> Row:
        """Of a core."""
        figure = f"{100.0 * self.share:.1f} %"
        return row(f"{name}: core used by the node", figure, f"<= {100.0 * limit:g} %", self.share <= limit)


def driven(
    driver: Sequence[str], device: str, seconds: float, listening: dict[str, Any], numbers: Callable[[Array], Array],
    namespace: str = "/lab",
) -> Driven:  # fmt: skip
    """A driver (executable and parameters) with a device of this module for so long."""
    with tempfile.TemporaryDirectory() as folder:
        sent, came = Path(folder) / "sent.npy", Path(folder) / "came.npz"
        port = [f"port:={folder}/port"] if device == "serial" else []
        listener = role("listen", keep=str(came), namespace=namespace, **listening)
        process = node(driver[:1], *driver[1:], *port, namespace=namespace)
        await_rest(process)
        asked = {"kept": str(sent), "seconds": seconds + _STARTS_S, "folder": folder}
        source = start(["benchmarks.drivers.captured", device, json.dumps(asked)])
        time.sleep(_STARTS_S)
        share = shares_of([process], 0.8 * seconds)[0]
        told, reports = result(source, seconds + 60.0), result(listener, 60.0)["reports"]
        end(process)
        got = heard(came)
        return Driven(np.load(sent), numbers(got["number"]), got["stamp_ns"], got["came_ns"], share, told, reports)


def motion_capture(quick: bool) -> list[Row]:
    """Drivers of motion capture with emulated servers: losses, errors of stamps and share of a core, twenty bodies."""
    driver = ["optitrack", FAR, *(f"{name}:={port}" for name, port in NATNET_PORTS.items())]
    seconds = 10.0 if quick else 60.0
    return [row for many in (1, BODIES) for row in _captured("NatNet", driver, NATNET_HZ, seconds, many)]


def vicon_stream(quick: bool) -> list[Row]:
    """The Vicon driver against an emulated server: losses, share of a core, stamps against its exposures.

    A clock that is 40 ppm off; each frame is sent after a latency that is told and a jitter that is not.
    """
    return _captured("Vicon", ["vicon", FAR, f"port:={VICON_PORT}"], VICON_HZ, 15.0 if quick else 60.0, 1)


def _captured(system: str, driver: list[str], rate_hz: float, seconds: float, listened: int) -> list[Row]:
    topics = [f"ground_truth/{name}/pose" for name in NAMES[:listened]]
    kind, place = "geometry_msgs/msg/PoseStamped", "pose.position.x"
    listening = {"topic": topics[0], "kind": kind, "number": place, "depth": 20_000, "unread": topics[1:]}
    found = driven(driver, system, seconds, listening, lambda numbers: np.round(numbers).astype(np.int64))
    counted = [values["lost"] for _, said in found.reports for _, values in said.values() if "lost" in values]
    errors_s = 1e-9 * np.abs(found.stamp_ns - found.sent_ns[found.number])
    errors_s = errors_s[found.number >= found.number.min() + _SETTLES_S * rate_hz]
    median_s, p99_s = np.percentile(errors_s, [50.0, 99.0])
    name = f"{system} at {rate_hz:g} Hz, {BODIES} bodies, {listened} heard, {seconds:.0f} s"
    errors = f"median {1e6 * median_s:.0f} us, 99 % {1e6 * p99_s:.0f} us, worst {1e6 * errors_s.max():.0f} us"
    target, met = f"<= {1e6 * MEDIAN_S:.0f} us, {1e6 * P99_S:.0f} us", median_s <= MEDIAN_S and p99_s <= P99_S
    return [
        found.lost_row(
            name, f"; {', '.join(counted) or 'not'} counted by the driver, {found.told['missed']} not taken"
        ),
        found.share_row(name, LARGEST_SHARE),
        row(f"{name}: error of stamps", errors, target, met),
    ]


def serial_imu(quick: bool) -> list[Row]:
    """The serial driver on a pseudo-terminal: losses, latency, share of a core, alone and with the hopper's estimator.

    Ten minutes at 1 kHz; then driver and estimator in one process, the simulated hopper at 840 Hz on the wire.
    """
    seconds = 20.0 if quick else 600.0
    rows = [_damaged(rate, least, 200_000 if quick else 10_000_000 // 3) for rate, least in ERROR_RATES.items()]
    listening = {"topic": "imu/low_g/data_raw", "kind": "sensor_msgs/msg/Imu", "number": "linear_acceleration.x"}

    def counted(numbers: Array) -> Array:
        """Numbers start again; messages come in order, and one is never as late as a whole round."""
        return np.unwrap(np.round(numbers / STANDARD_GRAVITY_M_S2 * _COUNTS_A_G), period=_NUMBERS).astype(np.int64)

    found = driven(["serial_imu"], "serial", seconds, {**listening, "reliable": True}, counted, "/hopper")
    late_ms = 1e-6 * (found.came_ns - found.sent_ns[found.number])
    name = f"serial IMU at {SERIAL_HZ:g} Hz for {seconds:.0f} s"
    median_ms, p99_ms = np.percentile(late_ms, [50.0, 99.0])
    late = f"median {median_ms:.2f} ms, 99 % {p99_ms:.2f} ms, worst {late_ms.max():.1f} ms"
    return [
        *rows,
        found.lost_row(name),
        row(f"{name}: sent to message received", late, "median <= 0.5 ms", median_ms <= 0.5),
        found.share_row(name, 0.06),
        _composed(min(seconds, 30.0)),
    ]


def _damaged(rate: float, least: float, count: int) -> Row:
    """Random frames with random bytes in the place of some of theirs."""
    rng, read, wrong = np.random.default_rng(round(1e4 * rate)), 0, 0
    batches = -(-count // _BATCH)
    for _ in range(batches):
        counts = rng.integers(-32768, 32768, (_BATCH, 10)).tolist()
        sent = {
            Sample(k % 256, 1000 * k, tuple(row[:3]), tuple(row[3:6]), row[6], tuple(row[7:]), 0)
            for k, row in enumerate(counts)
        }
        data = np.frombuffer(b"".join(encode_sample(one) for one in sent), dtype=np.uint8).copy()
        hit = rng.random(len(data)) < rate
        data[hit] ^= rng.integers(1, 256, np.count_nonzero(hit)).astype(np.uint8)
        found = FrameReader().feed(data.tobytes())
        read += len(found)
        wrong += len(set(found) - sent)
    share = read / (batches * _BATCH)
    figure = f"{100.0 * share:.2f} % read; {wrong} accepted that were not sent"
    case, target = f"bytes damaged at {rate:g}, {batches * _BATCH:,} frames", f">= {100.0 * least:g} %, 0"
    return row(case, figure, target, share >= least and not wrong)


def _composed(seconds: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        port, parameters = Path(folder) / "port", Path(folder) / "parameters.yaml"
        parameters.write_text(
            f"/**/serial_imu:\n  ros__parameters:\n    port: {port}\n"
            f"/**/serial_imu_emulator:\n  ros__parameters:\n    link: {port}\n"
        )
        places: dict[str, Any] = {"namespace": "/hopper", "files": (parameters,)}
        listener = role("listen", topic="odometry", kind="nav_msgs/msg/Odometry", namespace="/hopper", reliable=True)
        device = node(["serial_imu_emulator"], **places)
        together = node(["composed", "serial_imu", "hopper_estimator"], **places)
        time.sleep(_TOGETHER_S)
        used = shares_of([together], seconds)[0]
        end(together, device)
        got = result(listener, 90.0)
    name = "serial driver and hopper's estimator in one process, 840 Hz: core used"
    return row(name, f"{100.0 * used:.1f} %; odometry at {got['per_second']:.0f} Hz", "<= 10 %", used <= 0.10)


# The devices.


def _natnet(kept: str, seconds: float, folder: str) -> int:
    from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration
    from drivers.motion_capture.bodies import BodyPoses

    server = NatNetServer(NAMES, NatNetServerConfiguration(clock_skew_ppm=NATNET_SKEW_PPM, **NATNET_PORTS))
    tracked, turn = np.ones(BODIES, dtype=np.bool_), (0.0, 0.0, 0.0, 1.0)
    late_ns = round(1e9 * LATENCY_S)

    def send(number: int, now_ns: int) -> None:
        poses = np.tile([*3 * (float(number),), *turn], (BODIES, 1))
        server.send(BodyPoses(now_ns - late_ns, NAMES, poses, tracked))

    np.save(kept, _sent(NATNET_HZ, seconds, send) - late_ns)
    server.close()
    return 0


def _serial(kept: str, seconds: float, folder: str) -> int:
    from drivers.emulators.serial_imu import Reading, SerialDevice, SerialFaults
    from drivers.serial_imu.frames import Settings

    told = Settings(0, 0, low_g_range=3, gyro_range=3, high_g_range=1, low_pass=0, rate_hz=round(SERIAL_HZ))
    device, value = SerialDevice(Path(folder) / "port", told, SerialFaults()), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.8])

    def send(number: int, now_ns: int) -> None:
        value[3] = number % _NUMBERS / _COUNTS_A_G * STANDARD_GRAVITY_M_S2
        device.send([Reading(number * round(1e9 / SERIAL_HZ), value, value)])

    np.save(kept, _sent(SERIAL_HZ, seconds, send))
    device.close()
    return 0


def _sent(rate_hz: float, seconds: float, send: Callable[[int, int], None]) -> Array:
    """On a schedule, from when the driver has found the device: (K,) the instants."""
    from onboard_estimation.realtime.budget import sleep_until

    time.sleep(3.0)
    sent_ns, start_ns = np.zeros(round(seconds * rate_hz), dtype=np.int64), time.monotonic_ns()
    for number in range(len(sent_ns)):
        sleep_until(start_ns + round(number * 1e9 / rate_hz))
        sent_ns[number] = time.time_ns()
        send(number, int(sent_ns[number]))
    time.sleep(1.0)
    return sent_ns


def _vicon(kept: str, seconds: float, folder: str) -> int:
    from drivers.emulators.vicon import DataStreamServer
    from drivers.motion_capture.bodies import BodyPoses
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
    due_ns, tracked = np.maximum.accumulate(due_ns), np.ones(len(NAMES), dtype=np.bool_)
    for number in range(count):
        server.serve()
        sleep_until(int(due_ns[number]))
        poses = np.tile([float(number), 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (len(NAMES), 1))
        # What waking and encoding took too long is not the network's: it is told, as a server would that was held up.
        began_ns = int(due_ns[number]) - round(1e9 * float(told_s[number]))
        server.send(number, BodyPoses(0, tuple(NAMES), poses, tracked), partial(_told, began_ns))
    np.save(kept, exposed_ns + wall_ns)
    server.serve(1.0)
    time.sleep(1.0)
    server.close()
    return server.missed


def _told(began_ns: int) -> dict[str, float]:
    return {"all": 1e-9 * (time.monotonic_ns() - began_ns)}


if __name__ == "__main__":
    missed = {"NatNet": _natnet, "Vicon": _vicon, "serial": _serial}[sys.argv[1]](**json.loads(sys.argv[2]))
    print(f'{{"missed": {missed}}}')
