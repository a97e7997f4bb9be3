"""The cases of `fuzz_bags`: a valid bag with a change, which its format, its number and the run's seed make again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import zstandard

from benchmarks.fuzz_bags_bytes import change_bytes
from benchmarks.fuzz_bags_mcap import change_mcap
from benchmarks.fuzz_bags_metadata import change_folder, change_metadata
from benchmarks.fuzz_bags_ros1 import change_ros1
from benchmarks.fuzz_bags_seeds import METADATA, Files, Seed, seeds
from benchmarks.fuzz_bags_sqlite import change_sqlite

FORMATS = ("mcap", "sqlite3", "ros1")
_LONE_SHARE = 0.6  # a folder's metadata.yaml takes longer than its messages


@dataclass(frozen=True)
class Case:
    """A changed bag: the valid one, and the files with the change."""

    bag_format: str
    number: int
    seed: Seed
    files: Files

    def write(self, folder: Path) -> Path:
        """Write the files into an empty folder; gives the path to open."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder / self.seed.entry if self.seed.entry else folder


def make_case(bag_format: str, number: int, run_seed: int, scratch: Path) -> Case:
    """Case `number` of a run; `scratch` is a file that may be written."""
    rng = Random(f"{bag_format} {run_seed} {number}")
    lone = [seed for seed in seeds(bag_format) if seed.entry]
    seed = rng.choice(lone if rng.random() < _LONE_SHARE else seeds(bag_format))
    return Case(bag_format, number, seed, _changed(seed.files, bag_format, rng, scratch))


def _changed(files: Files, bag_format: str, rng: Random, scratch: Path) -> Files:
    if METADATA in files and rng.random() < 0.4:
        if rng.random() < 0.25:
            return change_folder(files, rng)
        return {**files, METADATA: change_metadata(files[METADATA], rng)}
    name = rng.choice([name for name in files if name != METADATA])
    content = files[name]
    if bag_format == "mcap":
        content = _changed_mcap(content, name, rng)
    elif bag_format == "ros1":
        content = change_ros1(content, rng)
    elif name.endswith(".db3"):
        content = change_sqlite(content, rng, scratch)
    else:  # a log or journal
        content = change_bytes(content, rng, range(0, len(content), 64))
    return {**files, name: content}


def _changed_mcap(content: bytes, name: str, rng: Random) -> bytes:
    if not name.endswith(".zstd"):
        return change_mcap(content, rng)
    if rng.random() < 0.4:
        return change_bytes(content, rng)
    return zstandard.compress(change_mcap(zstandard.decompress(content), rng))
