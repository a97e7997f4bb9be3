"""A writer for every format of bag that is read, and what a bag holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from bag_samples import JAZZY, START_NS, Sample, serialised, walk, write_mcap, write_ros1, write_rosbag2
from rosbags.rosbag2 import StoragePlugin, Writer

from onboard_estimation.bags.bag import open_bag

SAMPLES = walk(60)
WRITTEN = serialised(SAMPLES)

FORMATS: dict[str, Callable[[Path, list[Sample]], Path]] = {
    "mcap": lambda folder, samples: write_rosbag2(folder / "bag", samples),
    "mcap storage zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap", "storage"),
    "mcap file zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap", "file"),
    "mcap message zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap", "message"),
    "mcap lz4": lambda folder, samples: write_mcap(folder / "bag.mcap", samples, "lz4"),
    "mcap bare": lambda folder, samples: write_mcap(folder / "bag.mcap", samples, "none", chunks=False),
    "sqlite3": lambda folder, samples: write_rosbag2(folder / "bag", samples, "sqlite3"),
    "sqlite3 message zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "sqlite3", "message"),
    "ros1": lambda folder, samples: write_ros1(folder / "bag.bag", samples),
    "ros1 bz2": lambda folder, samples: write_ros1(folder / "bag.bag", samples, "bz2"),
    "ros1 lz4": lambda folder, samples: write_ros1(folder / "bag.bag", samples, "lz4"),
}


def contents(path: Path) -> tuple[list[tuple[str, int, bytes]], str]:
    """All messages as (topic, log time, bytes), and what is said of damage."""
    with open_bag(path) as bag:
        return [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages()], bag.damage or ""


def write_bytes(
    path: Path, messages: Iterable[bytes], message_type: str, definition: str | None = None, topic: str = "/x"
) -> Path:
    """An MCAP bag of one topic with these bytes as its messages, of a type that is known or defined here."""
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        if definition is None:
            connection = writer.add_connection(topic, message_type, typestore=JAZZY)
        else:
            connection = writer.add_connection(topic, message_type, msgdef=definition, rihs01="RIHS01_0")
        for number, data in enumerate(messages):
            writer.write(connection, START_NS + number, data)
    return path
