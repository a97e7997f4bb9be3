"""The serial driver on a pseudo-terminal: losses, latency and share of a core, alone and with the hopper's estimator.

Ten minutes at 1 kHz: a process sends a numbered sample when it is due and keeps when; another counts the messages
and keeps when each came. Then driver and estimator in one process, the simulated hopper at 840 Hz on the wire.
`python -m benchmarks.drivers.serial_imu PORT FILE SECONDS` is the device.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live import await_rest, end, heard, node, result, role, share_of, start
from benchmarks.measuring import row
from drivers.serial_imu.frames import FrameReader, Sample, encode_sample
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2

RATE_HZ = 1000
ERROR_RATES = {1e-4: 0.996, 1e-3: 0.96, 5e-3: 0.83}
"""Share of damaged bytes, and of the frames that have to be read all the same."""
_BATCH = 20_000
_STARTS_S = 10.0
_NUMBERS, _COUNTS_A_G = 30_000, 2048.0
"""Samples are numbered by the counts of the low-g sensor's x axis, which this many fit into."""


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows."""
    seconds = 20.0 if quick else 600.0
    rows = [_damaged(rate, least, 200_000 if quick else 10_000_000 // 3) for rate, least in ERROR_RATES.items()]
    return [*rows, *_alone(seconds), _composed(min(seconds, 30.0))]


def _damaged(rate: float, least: float, count: int) -> dict[str, Any]:
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
    total = batches * _BATCH
    share = read / total
    figure = f"{100.0 * share:.2f} % read; {wrong} accepted that were not sent"
    met = share >= least and not wrong
    return row(f"bytes damaged at {rate:g}, {total:,} frames", figure, f">= {100.0 * least:g} %, 0", met)


def _alone(seconds: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        port, sent, came = (Path(folder) / name for name in ("port", "sent.npy", "came.npz"))
        listener = role(
            "listen", topic="imu/low_g/data_raw", kind="sensor_msgs/msg/Imu", number="linear_acceleration.x",
            keep=str(came), reliable=True, namespace="/hopper",
        )  # fmt: skip
        driver = node(["serial_imu"], f"port:={port}", namespace="/hopper")
        await_rest(driver)
        sender = start(["benchmarks.drivers.serial_imu", str(port), str(sent), str(seconds)])
        time.sleep(_STARTS_S)
        used = share_of(driver, 0.8 * seconds - _STARTS_S)
        result(sender, seconds + 60.0)
        result(listener, 60.0)
        end(driver)
        sent_ns, got = np.load(sent), heard(came)
    number = np.round(got["number"] / STANDARD_GRAVITY_M_S2 * _COUNTS_A_G)
    # Numbers start again; messages come in order, and one is never as late as a whole round.
    whole = np.unwrap(number, period=_NUMBERS).astype(np.int64)
    latency_ms = 1e-6 * (got["came_ns"] - sent_ns[whole])
    # The first second tells the ranges, and who listens is not known before.
    expected = len(sent_ns) - int(whole[0])
    lost = expected - len(np.unique(whole))
    name = f"serial IMU at {RATE_HZ} Hz for {seconds:.0f} s"
    median_ms, p99_ms = np.percentile(latency_ms, [50.0, 99.0])
    late = f"median {median_ms:.2f} ms, 99 % {p99_ms:.2f} ms, worst {latency_ms.max():.1f} ms"
    return [
        row(f"{name}: samples that did not become messages", f"{lost} of {expected:,}", "0", lost == 0),
        row(f"{name}: sent to message received", late, "median <= 0.5 ms", median_ms <= 0.5),
        row(f"{name}: core used by the node", f"{100.0 * used:.1f} %", "<= 6 %", used <= 0.06),
    ]


def _composed(seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        port, parameters = Path(folder) / "port", Path(folder) / "parameters.yaml"
        parameters.write_text(
            f"/**/serial_imu:\n  ros__parameters:\n    port: {port}\n"
            f"/**/serial_imu_emulator:\n  ros__parameters:\n    link: {port}\n"
        )
        places: dict[str, Any] = {"namespace": "/hopper", "files": (parameters,)}
        listener = role("listen", topic="odometry", kind="nav_msgs/msg/Odometry", namespace="/hopper", reliable=True)
        device, together = (
            node(["serial_imu_emulator"], **places),
            node(["composed", "serial_imu", "hopper_estimator"], **places),
        )
        time.sleep(_STARTS_S)
        used = share_of(together, seconds)
        end(together, device)
        got = result(listener, 90.0)
    name = "serial driver and hopper's estimator in one process, 840 Hz: core used"
    return row(name, f"{100.0 * used:.1f} %; odometry at {got['per_second']:.0f} Hz", "<= 10 %", used <= 0.10)


def _send(port: str, kept: str, seconds: float) -> None:
    from drivers.emulators.serial_imu import Reading, SerialDevice, SerialFaults
    from drivers.serial_imu.frames import Settings
    from onboard_estimation.realtime.budget import sleep_until

    told = Settings(0, 0, low_g_range=3, gyro_range=3, high_g_range=1, low_pass=0, rate_hz=RATE_HZ)
    device = SerialDevice(Path(port), told, SerialFaults())
    time.sleep(3.0)  # the driver finds it
    sent_ns = np.zeros(round(seconds * RATE_HZ), dtype=np.int64)
    value = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.8])
    start_ns, period_ns = time.monotonic_ns(), 1_000_000_000 // RATE_HZ
    for number in range(len(sent_ns)):
        sleep_until(start_ns + number * period_ns)
        value[3] = number % _NUMBERS / _COUNTS_A_G * STANDARD_GRAVITY_M_S2
        sent_ns[number] = time.time_ns()
        device.send([Reading(number * period_ns, value, value)])
    time.sleep(1.0)
    np.save(kept, sent_ns)
    device.close()
    print(f'{{"sent": {len(sent_ns)}, "unsent": {device.unsent}}}')


if __name__ == "__main__":
    _send(sys.argv[1], sys.argv[2], float(sys.argv[3]))
