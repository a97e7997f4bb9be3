"""Speed of the command line and of what reads bags, and a first start with nothing there."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mcap.stream_reader import StreamReader
from rosbags.rosbag2 import Reader

from benchmarks.measuring import case, interleaved, recordings
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Series, imu_channel, stamps_ns
from onboard_estimation.judging.simulated_bags import write_series

RUNS_UNASKED = ("evaluate_bag",)
CHANNEL = imu_channel("foot")
_COUNT, _QUICK_COUNT = 500_000, 20_000
_OURS = "ours, to columns"


def bag_reading(quick: bool) -> list[dict[str, Any]]:
    """Reading the messages of a bag: the libraries' readers and ours, the same bag of IMU messages in turns, CPU time.

    Raw is every message's bytes; columns are the numbers of every message, as an evaluation needs them. What all hand
    out is counted before anything is timed.
    """
    count = _QUICK_COUNT if quick else _COUNT
    stamps = stamps_ns(count / 840.0, 840.0)[:count]
    series = Series(CHANNEL, stamps, np.random.default_rng(1).normal(size=(count, 6)))
    storages: tuple[str, ...] = ("mcap", "sqlite3")
    rows = []
    for storage in storages:
        with tempfile.TemporaryDirectory() as folder:
            bag = Path(folder) / "bag"
            with BagWriter(bag, storage) as writer:
                write_series(writer, [series], "", 0)
            readers = _readers(bag, storage)
            for name, read in readers.items():
                if (found := read()) != count:
                    raise AssertionError(f"{name} found {found} messages of {count} in {storage}")
            samples = interleaved(readers, 2 if quick else 7, block_s=0.0, clock=time.process_time)
            samples = {name: times / count for name, times in samples.items()}
            rows += [case(f"{storage}, {count:,} messages", samples, _OURS, peer) for peer in readers if peer != _OURS]
    return rows


def _readers(bag: Path, storage: str) -> dict[str, Callable[[], int]]:
    """Each reads all of the bag and gives the number of messages."""
    (file,) = (path for path in bag.iterdir() if path.suffix in (".mcap", ".db3"))

    def ours() -> int:
        with open_bag(bag) as opened:
            return len(read_channels(opened, {f"/{CHANNEL.topic}": CHANNEL})[f"/{CHANNEL.topic}"].values)

    def ours_raw() -> int:
        with open_bag(bag) as opened:
            return sum(len(block.starts) for block in opened.blocks({f"/{CHANNEL.topic}"}))

    def rosbags_raw() -> int:
        with Reader(bag) as reader:
            return sum(1 for _ in reader.messages())

    def mcap_raw() -> int:
        with file.open("rb") as opened:
            return sum(type(record).__name__ == "Message" for record in StreamReader(opened).records)

    def sqlite_raw() -> int:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as opened:
            cursor = opened.execute("SELECT timestamp, data FROM messages")
            return sum(len(rows) for rows in iter(lambda: cursor.fetchmany(10_000), []))

    library = {"mcap": ("`mcap`, raw", mcap_raw), "sqlite3": ("Python's sqlite3, raw", sqlite_raw)}[storage]
    return {_OURS: ours, "ours, raw": ours_raw, "`rosbags`, raw": rosbags_raw, library[0]: library[1]}


_MINUTE_TARGET_S = 5.0
_WALK = "2018-02-09-11-16-53"


def evaluate_bag(quick: bool) -> list[dict[str, Any]]:
    """`evaluate` on a bag of a minute, as a user types it: a new process, kernels compiled before.

    Two simulated bags of 60 s, and the longest of the recorded walks (61 s) where the recordings are there.
    """
    with tempfile.TemporaryDirectory() as folder:
        return [_evaluate_row(name, bag, Path(folder), 1 if quick else 3) for name, bag in _bags(Path(folder))]


def _bags(folder: Path) -> Iterator[tuple[str, Path]]:
    for robot in ("salp", "strapdown"):
        _run_command("simulate", robot, "--output", str(folder / robot))
        yield f"{robot}, simulated, 60 s", folder / robot
    try:
        walk = recordings("pyshoe_vicon") / f"{_WALK}.mat"
    except UserError as error:
        print(error)
        return
    _run_command("convert", "pyshoe", str(walk), "--output", str(folder / "walk"))
    yield "strapdown, recorded, 61 s", folder / "walk"


def _evaluate_row(name: str, bag: Path, folder: Path, repetitions: int) -> dict[str, Any]:
    _run_command("evaluate", str(bag), "--output", str(folder / f"{bag.name}_warm"))
    seconds = []
    for repetition in range(repetitions):
        start = time.perf_counter()
        _run_command("evaluate", str(bag), "--output", str(folder / f"{bag.name}_{repetition}"))
        seconds.append(time.perf_counter() - start)
    return case(name, {"evaluate": np.array(seconds)}, "evaluate", target_s=_MINUTE_TARGET_S)


def _run_command(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "onboard_estimation", *words], check=True, stdout=subprocess.DEVNULL)


REPOSITORY = Path(__file__).resolve().parents[2]
TARGETS_S = {"demo": 240.0, "test": 480.0}
INHERITED = ("PATH", "PYENV_ROOT", "LANG", "LC_ALL", "SSL_CERT_FILE", "ONBOARD_ESTIMATION_DATA")


def from_nothing(quick: bool) -> list[dict[str, Any]]:
    """`make demo` and `make test` in fresh clones with empty caches: set-up, download and compilation included.

    With the processor time of the target alone, after the installation. Clones what is committed; needs the package
    index.
    """
    rows = []
    for target, limit_s in TARGETS_S.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            clone, environment = folder / "clone", _environment(folder)
            subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
            set_up = ".venv/.runtime" if target == "demo" else ".venv/.development"
            taken = [_made(one, clone, environment) for one in (set_up, target)]
        samples = {"make": np.array([sum(seconds for seconds, _ in taken)])}
        rows.append(case(f"make {target}", samples, "make", target_s=limit_s, cpu_s=round(taken[1][1], 1)))
    return rows


def _made(target: str, clone: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds that a target takes, and of processor time."""

    def used_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    start_s, before_s = time.perf_counter(), used_s()
    subprocess.run(["make", target], cwd=clone, env=environment, check=True)
    return time.perf_counter() - start_s, used_s() - before_s


def _environment(folder: Path) -> dict[str, str]:
    """As of a new user: no caches, no environment; only where packages come from is kept."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or "proxy" in name.lower() or name.startswith("PIP_")
    }
    for name, place in (("HOME", "home"), ("XDG_CACHE_HOME", "cache"), ("PIP_CACHE_DIR", "pip"), ("TMPDIR", "tmp")):
        (folder / place).mkdir()
        environment[name] = str(folder / place)
    return environment
