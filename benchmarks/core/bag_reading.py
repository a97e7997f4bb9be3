"""Reading the messages of a bag: the libraries' readers and ours, the same bag of IMU messages in turns, CPU time.

Raw is every message's bytes; columns are the numbers of every message, as an evaluation needs them. What all hand out
is counted before anything is timed.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mcap.stream_reader import StreamReader
from rosbags.rosbag2 import Reader

from benchmarks.timing import case, interleaved
from onboard_estimation.evaluation.bag_writing import BagWriter, Storage
from onboard_estimation.evaluation.bags import open_bag
from onboard_estimation.evaluation.bulk import read_channels
from onboard_estimation.evaluation.simulated_bags import write_series
from onboard_estimation.series import Series
from onboard_estimation.simulation import imu_channel, stamps_ns

CHANNEL = imu_channel("foot")
_COUNT, _QUICK_COUNT = 500_000, 20_000
_OURS = "ours, to columns"


def run(quick: bool) -> list[dict[str, Any]]:
    """One row for each peer of each storage, all against our reading to columns."""
    count = _QUICK_COUNT if quick else _COUNT
    stamps = stamps_ns(count / 840.0, 840.0)[:count]
    series = Series(CHANNEL, stamps, np.random.default_rng(1).normal(size=(count, 6)))
    storages: tuple[Storage, ...] = ("mcap", "sqlite3")
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


def _readers(bag: Path, storage: Storage) -> dict[str, Callable[[], int]]:
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
