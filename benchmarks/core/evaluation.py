"""Speed of the command line and of what reads bags, and a first start with nothing there."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mcap.stream_reader import StreamReader
from rosbags.rosbag2 import Reader

from benchmarks.measuring import Row, case, interleaved, recordings
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.series import Series, imu_channel, stamps_ns
from onboard_estimation.judging.simulated_bags import write_series

RUNS_UNASKED = ("evaluate_bag",)
CHANNEL = imu_channel("foot")
_COUNT, _QUICK_COUNT = 500_000, 20_000
_OURS = "ours, to columns"


def bag_reading(quick: bool) -> list[Row]:
    """Reading the messages of a bag: the libraries' readers and ours, the same bag of IMU messages in turns, CPU time.

    Raw is every message's bytes; columns are the numbers of every message, as an evaluation needs them. What all hand
    out is counted before anything is timed.
    """
    count = _QUICK_COUNT if quick else _COUNT
    stamps = stamps_ns(count / 840.0, 840.0)[:count]
    series = Series(CHANNEL, stamps, np.random.default_rng(1).normal(size=(count, 6)))
    rows = []
    for storage in ("mcap", "sqlite3"):
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


def evaluate_bag(quick: bool) -> list[Row]:
    """`evaluate` on a bag of a minute, as a user types it: a new process, kernels compiled before.

    Two simulated bags of 60 s, and the longest of the recorded walks (61 s).
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        made = {
            "salp, simulated, 60 s": ("simulate", "salp"),
            "strapdown, simulated, 60 s": ("simulate", "strapdown"),
            "strapdown, recorded, 61 s": ("convert", "pyshoe", str(recordings("pyshoe_vicon") / f"{_WALK}.mat")),
        }
        for number, (name, words) in enumerate(made.items()):
            bag = f"{folder}/{number}"
            _run_command(*words, "--output", bag)
            seconds = [_run_command("evaluate", bag, "--output", f"{bag}_{k}") for k in range(2 if quick else 4)]
            rows.append(case(name, {"evaluate": np.array(seconds[1:])}, "evaluate", target_s=_MINUTE_TARGET_S))
    return rows


def _run_command(*words: str) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "onboard_estimation", *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


REPOSITORY = Path(__file__).resolve().parents[2]
TARGETS_S = {"demo": (".venv/.runtime", 240.0), "test": (".venv/.development", 480.0)}
"""By target: what sets it up, and how long both may take."""
INHERITED = ("PATH", "PYENV_ROOT", "LANG", "LC_ALL", "SSL_CERT_FILE", "ONBOARD_ESTIMATION_DATA")
FRESH = ("HOME", "XDG_CACHE_HOME", "PIP_CACHE_DIR", "TMPDIR")


def from_nothing(quick: bool) -> list[Row]:
    """`make demo` and `make test` in fresh clones with empty caches: set-up, download and compilation included.

    With the processor time of the target alone, after the installation. Clones what is committed; needs the package
    index. As of a new user: no caches, no environment; only where packages come from is kept.
    """
    rows = []
    kept = {name: value for name, value in os.environ.items() if name in INHERITED or name.startswith("PIP_")}
    kept |= {name: value for name, value in os.environ.items() if "proxy" in name.lower()}
    for target, (set_up, limit_s) in TARGETS_S.items():
        with tempfile.TemporaryDirectory() as folder:
            clone = Path(folder) / "clone"
            environment = {**kept, **{name: tempfile.mkdtemp(dir=folder) for name in FRESH}}
            subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
            start_s = time.perf_counter()
            subprocess.run(["make", set_up], cwd=clone, env=environment, check=True)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(["make", target], cwd=clone, env=environment, check=True)
            samples, after = np.array([time.perf_counter() - start_s]), resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)
        rows.append(case(f"make {target}", {"make": samples}, "make", target_s=limit_s, cpu_s=cpu_s))
    return rows
