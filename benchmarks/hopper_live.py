"""The hopper's live estimator with both accelerometers at 840 Hz: latency, losses, and phases against those offline.

A simulated run (scenario `hardware`, heights `mixed`) is sent in real time, each reading with the stamp of its sending.
What was sent is then filtered offline. With the events executor, and with the ordinary one.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.live_processes import EXECUTORS, await_rest, estimator, result, role, row, settle, start, warm_up
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.robot import ROBOT
from hopper_estimation.topics import LOW_G
from onboard_estimation.evaluation.bags import open_bag
from onboard_estimation.evaluation.recording import from_simulator
from onboard_estimation.evaluation.replay import replay
from onboard_estimation.live.machine_facts import cpu_s, resident_mb
from onboard_estimation.simulation import Recording, Series

_SAMPLES_APART = 2
_STARTS_S = 8.0
"""A composed process starts, and those that listen find it."""
_SHARE = 0.20
"""Of a core that the estimator may take."""


class Told(NamedTuple):
    """A phase event as a message has it."""

    name: str
    stamp_ns: int
    seen_ns: int


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows for each executor."""
    warm_up("hopper")
    rows = []
    for executor in EXECUTORS:
        rows += _live(executor, 16.0 if quick else 60.0)
        rows += _composed(executor, 8.0 if quick else 30.0)
    return rows


def _composed(executor: str, seconds: float) -> list[dict[str, Any]]:
    """Simulator and estimator in one process, with a listener of the odometry only, and with a recorder of all."""
    rows = []
    for recorded in (False, True):
        with tempfile.TemporaryDirectory() as folder, estimator(executor, "hopper", composed=True) as node:
            bag = Path(folder) / "bag"
            words = ["onboard_estimation", "record", "--all", "-o", str(bag), "--duration", str(seconds + _STARTS_S)]
            listener = role(["watch", "--robot", "hopper"])
            recorder = start(words) if recorded else None
            time.sleep(_STARTS_S)
            before_s, begin_s = cpu_s(node.pid), time.monotonic()
            time.sleep(seconds)
            used = (cpu_s(node.pid) - before_s) / (time.monotonic() - begin_s)
            kept = ""
            if recorder is not None:
                recorder.communicate(timeout=60.0)
                with open_bag(bag) as opened:
                    stamps_ns = [raw.log_time_ns for raw in opened.messages() if raw.topic == f"/hopper/{LOW_G.topic}"]
                rate_hz = (len(stamps_ns) - 1) / (1e-9 * (stamps_ns[-1] - stamps_ns[0]))
                kept = f"; {len(stamps_ns):,} low-g readings in the bag, {rate_hz:.0f} a second"
            node.terminate()
            got = result(listener, 90.0)
        settle()
        allowed, what = (0.25, "a recorder of all topics") if recorded else (0.08, "no recorder")
        name = f"{executor} executor: hopper, simulator and estimator in one process, {what}: core used"
        figure = f"{100.0 * used:.1f} %; odometry at {got['per_second']:.0f} Hz{kept}"
        rows.append(row(name, figure, f"<= {100.0 * allowed:.0f} %", used <= allowed))
    return rows


def _live(executor: str, seconds: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder, estimator(executor, "hopper") as node:
        kept = Path(folder) / "sent.npz"
        listener = role(["watch", "--robot", "hopper"])
        await_rest(node)
        before_s = cpu_s(node.pid)
        words = ["drive", "--robot", "hopper", "--seconds", str(seconds), "--keep", str(kept)]
        sent = result(role(words), seconds + 120.0)
        used = (cpu_s(node.pid) - before_s) / sent["seconds"]
        got, memory_mb = result(listener, 90.0), resident_mb(node.pid)
        series, evenly = _series(kept, "stamps_ns"), _series(kept, "due_ns")
    settle()
    name = f"{executor} executor: hopper, two accelerometers at 840 Hz for {seconds:.0f} s"
    lost = sent["sent"] - got["taken"][LOW_G.sensor]
    median_us, p99_us = got["latency_median_us"], got["latency_p99_us"]
    return [
        row(
            f"{name}: low-g reading in to odometry out, median",
            f"{median_us / 1e3:.2f} ms",
            "<= 2 ms",
            median_us <= 2000.0,
        ),
        row(
            f"{name}: low-g reading in to odometry out, 99 %",
            f"{p99_us / 1e3:.2f} ms; 99.9 % {got['latency_p999_us'] / 1e3:.2f} ms, "
            f"worst {got['latency_worst_us'] / 1e3:.1f} ms",
            "<= 5 ms",
            p99_us <= 5000.0,
        ),
        row(
            f"{name}: low-g readings that the node did not get",
            f"{lost} of {sent['sent']:,} ({got['received']:,} estimates out)",
            "0",
            lost == 0,
        ),
        row(
            f"{name}: core used by the estimator",
            f"{100.0 * used:.0f} %; sending takes {100.0 * sent['cpu']:.0f} %, receiving {100.0 * got['cpu']:.0f} %",
            f"<= {100.0 * _SHARE:.0f} %",
            used <= _SHARE,
        ),
        row(f"{name}: resident memory of the estimator", f"{memory_mb:.0f} MB", "<= 120 MB", memory_mb <= 120.0),
        *_phases(name, got["events"], series, evenly),
    ]


def _phases(
    name: str, heard: list[list[Any]], series: tuple[Series, ...], evenly: tuple[Series, ...]
) -> list[dict[str, Any]]:
    """Rows on the events: those published against those of the offline filter on what was sent.

    A sender that is held up sends, and stamps, several readings at once. What that does to the filter shows beside the
    same readings with the simulated sensors' own times (`evenly`).
    """
    live = [Told(*event[:3]) for event in heard]
    offline = _offline(series)
    same_order = [event.name for event in live] == [event.name for event in offline]
    (low_ns,) = (one.stamps_ns for one in series if one.channel.sensor == LOW_G.sensor)
    apart = _samples_apart(live, offline, low_ns) if same_order else np.full(1, len(low_ns))
    equal = len(set(live) & set(offline))
    delay_ms = [1e-6 * (received_ns - seen_ns) for _, _, seen_ns, received_ns in heard]
    worst = int(apart.max(initial=0))
    rare_ms = np.percentile(1e-6 * np.diff(low_ns), [1.0, 99.0])
    return [
        row(
            f"{name}: phase events live and offline, in the same order",
            f"{len(live)} live, {len(offline)} offline, {equal} the same to the nanosecond",
            "the same order",
            same_order and len(live) > 0,
        ),
        row(
            f"{name}: phase decisions live and offline, apart at most",
            f"{worst} samples" if same_order else "not the same events",
            f"<= {_SAMPLES_APART} samples",
            same_order and worst <= _SAMPLES_APART,
        ),
        row(
            f"{name}: phase events by the times of sending, and by the sensors' own times",
            f"{len(offline)}, and {len(_offline(evenly))}; 98 % of the readings were sent "
            f"{rare_ms[0]:.2f} to {rare_ms[1]:.2f} ms after the one before",
        ),
        row(
            f"{name}: reading that shows an event to its message",
            f"median {np.median(delay_ms):.2f} ms, worst {max(delay_ms):.2f} ms" if delay_ms else "no event",
        ),
    ]


def _samples_apart(live: list[Told], offline: list[Told], low_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """(E,) samples between the decisions of each pair of events."""
    places = [np.searchsorted(low_ns, [event.seen_ns for event in events]) for events in (live, offline)]
    return np.abs(places[0] - places[1])


def _offline(series: tuple[Series, ...]) -> list[Told]:
    """Events of KF1 on what was sent."""
    recording = from_simulator(Recording(series, ()), ())
    configuration = HopperConfiguration()
    found = replay(ROBOT, configuration, ROBOT.estimators[0], recording, None, configuration.lag_s)
    return [Told(event.name, event.stamp_ns, event.seen_ns) for event in found.events]


def _series(kept: Path, times: str) -> tuple[Series, ...]:
    """What was sent; its stamps are those of sending (`stamps_ns`) or those of the simulated sensors (`due_ns`)."""
    with np.load(kept) as arrays:
        stems = [(channel, channel.sensor.replace("/", ".")) for channel in ROBOT.channels(HopperConfiguration())]
        return tuple(
            Series(channel, arrays[f"{stem}.{times}"], arrays[f"{stem}.values"])
            for channel, stem in stems
            if f"{stem}.values" in arrays
        )
