"""Cut and damaged recordings: what is readable is read, how much is said, and nothing else ever happens."""

from __future__ import annotations

import bz2
import random
import re
import shutil
import sqlite3
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from bag_samples import (
    IMU,
    JAZZY,
    START_NS,
    Sample,
    imu,
    serialised,
    walk,
    write_mcap,
    write_ros1,
    write_rosbag2,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onboard_estimation.bags import blocks as bag_blocks
from onboard_estimation.bags import mcap_files as bag_mcap
from onboard_estimation.bags import sqlite as bag_sqlite
from onboard_estimation.bags.bag import Bag, open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel
from onboard_estimation.inspection.inspect import inspect_bag, render
from onboard_estimation.ros.measurements import value_types

SAMPLES = walk(150)
WRITTEN = serialised(SAMPLES)


def read(path: Path) -> tuple[list[tuple[str, int, bytes]], str]:
    with open_bag(path) as bag:
        return [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages()], bag.damage or ""


def cut(source: Path, target: Path, length: int) -> Path:
    target.write_bytes(source.read_bytes()[:length])
    return target


def mcap_message_ends(content: bytes) -> list[int]:
    """End of each message record in a file without compression, found by the messages' own bytes."""
    ends, position = [], 0
    for _, _, data in WRITTEN:
        position = content.index(data, position) + len(data)
        ends.append(position)
    return ends


@pytest.mark.parametrize("chunks", [True, False])
def test_a_cut_mcap_gives_every_message_before_the_cut(chunks: bool, tmp_path: Path) -> None:
    whole = write_mcap(tmp_path / "whole.mcap", SAMPLES, "none", chunks=chunks)
    content = whole.read_bytes()
    ends = mcap_message_ends(content)
    for length in [*range(ends[0], len(content) - 1, 1777), ends[5], ends[5] - 1, ends[-1], len(content) - 8]:
        found, damage = read(cut(whole, tmp_path / "cut.mcap", length))
        assert found == WRITTEN[: sum(end <= length for end in ends)]
        share = f"readable are {len(found):,}"
        assert share in damage
        assert "cut.mcap ends in the middle of a record" in damage or "was not closed" in damage


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_cut_compressed_mcap_gives_what_was_in_the_cut_chunk_too(compression: str, tmp_path: Path) -> None:
    samples = walk(2000)
    written = serialised(samples)
    whole = write_mcap(tmp_path / "whole.mcap", samples, compression, chunk_size=1_000_000)
    size = whole.stat().st_size
    counts = []
    for length in range(size // 50, size, size // 50):
        try:
            found, damage = read(cut(whole, tmp_path / "cut.mcap", length))
        except UserError as error:
            found, damage = [], str(error)
        assert found == written[: len(found)]
        assert "cut.mcap" in damage
        counts.append(len(found))
    assert counts == sorted(counts)
    # lz4 and zstd compress blocks of 64 and 128 kB; a chunk is 1 MB.
    message_bytes = sum(len(data) + 31 for _, _, data in written) / len(written)
    lost = [length * len(written) / 50 - count for length, count in enumerate(counts, start=1)]
    assert max(lost) * message_bytes < 250_000
    assert counts[-1] > 0.95 * len(written)


def test_the_sentence_about_a_cut_bag_has_numbers(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES)
    file = folder / "bag.mcap"
    file.write_bytes(file.read_bytes()[:100_000])
    found, damage = read(folder)
    assert 0 < len(found) < len(WRITTEN)
    seconds = (found[-1][1] - found[0][1]) / 1e9
    assert damage.startswith("bag.mcap ends in the middle of a record; ")
    assert f"readable are {len(found)} of {len(WRITTEN)} ({len(found) / len(WRITTEN):.1%}) messages" in damage
    assert f"over {seconds:.2f} s" in damage
    assert re.search(r"\d+\.\d% of 100\.0 kB$", damage)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_recorder_that_was_killed_leaves_no_metadata(storage: str, tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES, storage)
    (folder / "metadata.yaml").unlink()
    found, damage = read(folder)
    assert found == WRITTEN
    assert "metadata.yaml is missing" in damage
    assert f"readable are {len(WRITTEN)} messages" in damage
    assert "100.0%" in damage


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\0", b"a: 1", b"rosbag2_bagfile_information: 3", b"[" * 50_000]
)
def test_damaged_metadata_does_no_harm(content: bytes, tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES)
    (folder / "metadata.yaml").write_bytes(content)
    found, damage = read(folder)
    assert found == WRITTEN
    assert "metadata.yaml is damaged" in damage


def test_a_cut_sqlite3_file_gives_its_first_rows(tmp_path: Path) -> None:
    samples = walk(4000)
    written = serialised(samples)
    folder = write_rosbag2(tmp_path / "bag", samples, "sqlite3")
    content = (folder / "bag.db3").read_bytes()
    counts = []
    for share in (0.05, 0.3, 0.5, 0.8, 0.95):
        found, damage = read(cut(folder / "bag.db3", tmp_path / "cut.db3", int(len(content) * share)))
        assert found == written[: len(found)]
        assert "cut.db3 is cut off" in damage
        assert f"readable are {len(found):,}" in damage
        counts.append(len(found) / len(written))
    for count, share in zip(counts, (0.05, 0.3, 0.5, 0.8, 0.95), strict=True):
        assert count > share - 0.1


def test_rows_that_fill_several_pages_are_found_in_a_cut_file(tmp_path: Path) -> None:
    text = "std_msgs/msg/String"
    samples = [
        Sample("/x", text, START_NS + n, JAZZY.types[text](chr(65 + n % 26) * (n * 37 % 20_000))) for n in range(400)
    ]
    written = serialised(samples)
    file = write_rosbag2(tmp_path / "bag", samples, "sqlite3") / "bag.db3"
    found, _ = read(cut(file, tmp_path / "cut.db3", file.stat().st_size // 2))
    assert found == written[: len(found)]
    assert len(found) > 150


def test_rows_behind_a_damaged_page_are_found(tmp_path: Path) -> None:
    samples = walk(2000)
    folder = write_rosbag2(tmp_path / "bag", samples, "sqlite3")
    file = folder / "bag.db3"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    page = next(place for place in range(middle, len(content), 4096) if content[place] == 13)  # of rows, not an index
    content[page : page + 4096] = bytes(4096)
    file.write_bytes(content)
    found, damage = read(folder)
    assert "bag.db3 is damaged" in damage
    assert set(found) < set(serialised(samples))
    assert len(samples) - 40 < len(found) < len(samples)


def test_messages_in_the_log_of_a_killed_recorder_are_read_and_the_bag_is_left_as_it_is(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3")
    recorder = sqlite3.connect(folder / "bag.db3", isolation_level=None)
    recorder.execute("PRAGMA journal_mode = WAL")
    late = [
        Sample("/late", IMU, START_NS + 10**12 + step, imu(START_NS, (step, 0, 0), (0, 0, 0))) for step in range(40)
    ]
    recorder.execute(
        "INSERT INTO topics SELECT 99, '/late', type, serialization_format, '', '' FROM topics WHERE id = 1"
    )
    for sample in late:
        data = bytes(JAZZY.serialize_cdr(sample.message, IMU))
        recorder.execute("INSERT INTO messages VALUES (NULL, 99, ?, ?)", (sample.log_time_ns, data))
    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)
    recorder.close()
    (killed / "metadata.yaml").unlink()
    (killed / "bag.db3-shm").unlink()
    before = {file.name: file.read_bytes() for file in killed.iterdir()}
    assert len(before["bag.db3-wal"]) > 10_000
    found, damage = read(killed)
    assert found == WRITTEN + serialised(late)
    assert "bag.db3-wal" in damage
    assert {file.name: file.read_bytes() for file in killed.iterdir()} == before


@pytest.mark.parametrize("compression", ["none", "bz2", "lz4"])
def test_a_cut_ros1_bag_gives_what_is_before_the_cut(compression: str, tmp_path: Path) -> None:
    samples = walk(4000 if compression == "bz2" else 1500)
    whole = write_ros1(tmp_path / "whole.bag", samples, compression)
    expected, _ = read(whole)
    size = len(whole.read_bytes())
    for share in (0.3, 0.6, 0.9):
        found, damage = read(cut(whole, tmp_path / "cut.bag", int(size * share)))
        assert found == expected[: len(found)]
        # bz2 gives blocks of up to 900 kB or nothing.
        assert len(found) / len(expected) > share - (0.05 if compression == "none" else 0.35)
        assert "cut.bag ends in the middle of a record or is damaged" in damage


def test_a_ros1_bag_that_was_not_closed(tmp_path: Path) -> None:
    whole = write_ros1(tmp_path / "whole.bag", SAMPLES)
    expected, _ = read(whole)
    content = bytearray(whole.read_bytes())
    place = content.index(b"index_pos=") + len("index_pos=")
    (index,) = struct.unpack_from("<Q", content, place)
    content[place : place + 8] = bytes(8)
    (tmp_path / "walk.bag.active").write_bytes(content[:index])
    found, damage = read(tmp_path / "walk.bag.active")
    assert found == expected
    assert "was not closed" in damage


def test_a_damaged_chunk_is_left_out_and_said(tmp_path: Path) -> None:
    whole = write_mcap(tmp_path / "whole.mcap", SAMPLES, "none")
    content = bytearray(whole.read_bytes())
    ends = mcap_message_ends(bytes(content))
    content[ends[300] - 5] ^= 1
    (tmp_path / "flipped.mcap").write_bytes(content)
    found, damage = read(tmp_path / "flipped.mcap")
    assert set(found) < set(WRITTEN)
    assert len(found) > len(WRITTEN) - 90
    assert "1 of " in damage
    assert "its checksum is wrong" in damage


def test_reading_goes_on_at_the_next_chunk_behind_a_damaged_place(tmp_path: Path) -> None:
    whole = write_mcap(tmp_path / "whole.mcap", SAMPLES, "none")
    content = bytearray(whole.read_bytes())
    chunks = [place for place in range(len(content) - 9) if content[place] == 6 and _is_chunk(content, place)]
    content[chunks[3] + 1 : chunks[3] + 9] = b"\xff" * 8
    (tmp_path / "flipped.mcap").write_bytes(content)
    found, damage = read(tmp_path / "flipped.mcap")
    assert set(found) < set(WRITTEN)
    assert len(found) > len(WRITTEN) - 90
    assert f"bytes of flipped.mcap are damaged, from byte {chunks[3]:,} on" in damage


def _is_chunk(content: bytearray, place: int) -> bool:
    opcode, size = struct.unpack_from("<BQ", content, place)
    return opcode == 6 and 15_000 < size < 40_000 and place + 9 + size < len(content)


def test_a_cut_file_of_a_compressed_bag(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", walk(3000), "mcap", "file")
    file = next(folder.glob("*.zstd"))
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])
    found, damage = read(folder)
    written = serialised(walk(3000))
    assert found == written[: len(found)]
    assert len(found) > len(written) * 0.5
    assert "ends in the middle of a record" in damage


def test_a_damaged_message_of_a_compressed_bag_is_one_message(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3", "message")
    database = sqlite3.connect(folder / "bag.db3")
    database.execute("UPDATE messages SET data = substr(data, 1, 30) WHERE id = 7")
    database.commit()
    database.close()
    found, _ = read(folder)
    assert found[:6] + found[7:] == WRITTEN[:6] + WRITTEN[7:]
    assert found[6][2] == b""


# Lengths that lie


def record(opcode: int, content: bytes, length: int | None = None) -> bytes:
    return struct.pack("<BQ", opcode, len(content) if length is None else length) + content


def chunk(raw_size: int, compression: bytes, data: bytes) -> bytes:
    head = struct.pack("<QQQII", 0, 0, raw_size, 0, len(compression)) + compression
    return record(6, head + struct.pack("<Q", len(data)) + data)


def peak_bytes(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "tail",
    [
        chunk(2**63, b"zstd", zstandard.compress(bytes(2**28))),
        chunk(1000, b"zstd", zstandard.compress(bytes(2**28))),
        chunk(bag_blocks.MAX_BLOCK_BYTES, b"zstd", b"\x28\xb5\x2f\xfd" + bytes(50)),
        chunk(bag_blocks.MAX_BLOCK_BYTES, b"lz4", b"\x04\x22\x4d\x18" + bytes(50)),
        record(6, b"", 2**64 - 1),
        record(5, bytes(22), 2**64 - 1),
        record(5, bytes(3)),
        record(3, b"\1\0\xff\xff\xff\xff"),
        record(4, b"\1\0\1\0\xff\xff\xff\x7f/x"),
        record(12, b"\7\0\0\0rosbag2\xff\xff\xff\xff"),
    ],
)
def test_lengths_that_lie_cost_no_memory(tail: bytes, tmp_path: Path) -> None:
    content = write_mcap(tmp_path / "whole.mcap", SAMPLES, "none").read_bytes()
    end = mcap_message_ends(content)[-1]
    path = tmp_path / "bag.mcap"
    path.write_bytes(content[:end] + tail + record(15, bytes(4)) + record(2, bytes(20)) + bag_mcap.MAGIC)
    found: list[object] = []
    assert peak_bytes(lambda: found.extend(read(path)[0])) < 20e6
    assert found == WRITTEN


@pytest.mark.parametrize(
    "index",
    [
        chunk(1000, b"zstd", zstandard.compress(bytes(2**28))),
        chunk(1000, b"lz4", b"no frame"),
        record(6, struct.pack("<QQQIIQ", 0, 0, 1000, 0, 0, 2**63)),
        record(8, b"", 2**63),
    ],
)
def test_an_index_that_holds_what_no_index_has_costs_no_memory(index: bytes, tmp_path: Path) -> None:
    content = write_mcap(tmp_path / "whole.mcap", SAMPLES, "none").read_bytes()
    end = mcap_message_ends(content)[-1]
    data = content[:end] + record(15, bytes(4))
    path = tmp_path / "bag.mcap"
    path.write_bytes(data + index + record(2, struct.pack("<QQI", len(data), 0, 0)) + bag_mcap.MAGIC)
    found: list[object] = []
    assert peak_bytes(lambda: found.extend(read(path)[0])) < 20e6
    assert [message for message in found if message in WRITTEN] == WRITTEN


@pytest.mark.parametrize(
    ("name", "compress"), [("zstd", zstandard.compress), ("lz4", lz4.frame.compress), ("bz2", bz2.compress)]
)
def test_no_more_is_decompressed_than_allowed(name: str, compress: Callable[[bytes], bytes]) -> None:
    raw = bytes(range(256)) * 4000
    data = compress(raw)
    assert bag_blocks.decompress(data, name, len(raw)) == raw
    with pytest.raises(bag_blocks.BlockError, match=r"more than the 1,023,999 bytes"):
        bag_blocks.decompress(data, name, len(raw) - 1)
    beginning = bag_blocks.decompress(compress(random.Random(1).randbytes(2_000_000))[:1_500_000], name, 2**24)
    assert beginning == random.Random(1).randbytes(2_000_000)[: len(beginning)]
    assert len(beginning) > 500_000


def test_a_message_that_claims_more_than_it_has_costs_no_memory(tmp_path: Path) -> None:
    names = b"\0\1\0\0" + bytes(8) + b"\1\0\0\0\0" + bytes(3) + struct.pack("<I", 2**31) + bytes(1000)
    path = tmp_path / "bag"
    write_rosbag2(path, SAMPLES, "sqlite3")
    database = sqlite3.connect(path / "bag.db3")
    (topic,) = database.execute("SELECT id FROM topics WHERE name = '/actuators/state'").fetchone()
    database.execute("UPDATE messages SET data = ? WHERE topic_id = ?", (names, topic))
    database.commit()
    database.close()
    channel = Channel("state", "sensor_msgs/msg/JointState", "state")
    with open_bag(path) as bag:
        assert peak_bytes(lambda: read_channels(bag, {"/actuators/state": channel})) < 20e6


def test_the_number_of_messages_is_capped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bag_blocks, bag_mcap, bag_sqlite):
        monkeypatch.setattr(module, "MAX_MESSAGES", 100, raising=False)
        monkeypatch.setattr(module, "BLOCK_MESSAGES", 40, raising=False)
    for storage in ("mcap", "sqlite3"):
        _, damage = read(write_rosbag2(tmp_path / storage, SAMPLES, storage))
        assert "holds more than 100 messages, the rest was left out" in damage


def test_tables_that_compute_are_no_recording(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "endless.db3")
    database.execute("CREATE TABLE topics(id INTEGER, name TEXT, type TEXT, serialization_format TEXT)")
    database.execute("INSERT INTO topics VALUES (1, '/x', 'sensor_msgs/msg/Imu', 'cdr')")
    database.execute(
        "CREATE VIEW messages AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
        "SELECT id, 1 AS topic_id, id AS timestamp, x'00' AS data FROM n"
    )
    database.commit()
    database.close()
    with pytest.raises(UserError, match="without the tables"):
        open_bag(tmp_path / "endless.db3")


# Anything at all


class Originals(dict[str, bytes]):
    """Contents of undamaged files; a failing example does not print them."""

    def __repr__(self) -> str:
        return "originals"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    folder = tmp_path_factory.mktemp("originals")
    small = walk(40)
    write_rosbag2(folder / "a", small, "sqlite3")
    write_rosbag2(folder / "b", small, "mcap", "file")
    return Originals(
        {
            "none.mcap": write_mcap(folder / "none.mcap", small, "none", crc=False).read_bytes(),
            "bare.mcap": write_mcap(folder / "bare.mcap", small, "none", chunks=False).read_bytes(),
            "zstd.mcap": write_mcap(folder / "zstd.mcap", small, "zstd").read_bytes(),
            "lz4.mcap": write_mcap(folder / "lz4.mcap", small, "lz4").read_bytes(),
            "rows.db3": (folder / "a" / "a.db3").read_bytes(),
            "file.mcap.zstd": next((folder / "b").glob("*.zstd")).read_bytes(),
            "none.bag": write_ros1(folder / "none.bag", small).read_bytes(),
            "lz4.bag": write_ros1(folder / "lz4.bag", small, "lz4").read_bytes(),
            "bz2.bag": write_ros1(folder / "bz2.bag", small, "bz2").read_bytes(),
        }
    )


@contextmanager
def one_line() -> Iterator[None]:
    """A UserError may come, if it is one line."""
    try:
        yield
    except UserError as error:
        if "\n" in str(error):
            pytest.fail(f"more than one line: {error}")


def read_all(bag: Bag) -> int:
    """Read in every way there is; only faults of single messages and types may come."""
    count = 0
    for raw in bag.messages():
        count += 1
        with one_line():
            bag.deserialize(raw)
    for name, topic in bag.topics.items():
        if topic.message_type in value_types():
            column = read_channels(bag, {name: Channel(name, topic.message_type, name)})[name]
            assert len(column.stamps_ns) + sum(column.faults.values()) == topic.count
    return count


edits = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.one_of(st.binary(min_size=1, max_size=8), st.integers(1, 255))), max_size=6
)


@pytest.mark.parametrize(
    "name",
    ["none.mcap", "bare.mcap", "zstd.mcap", "lz4.mcap", "rows.db3", "file.mcap.zstd", "none.bag", "lz4.bag", "bz2.bag"],
)
@given(edits=edits, length=st.one_of(st.just(1.0), st.floats(0.0, 1.0)))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_damage_gives_messages_or_one_line(
    name: str,
    originals: Originals,
    tmp_path: Path,
    edits: list[tuple[float, bytes | int]],
    length: float,
) -> None:
    content = bytearray(originals[name])
    for place, change in edits:
        start = int(place * (len(content) - 1))
        if isinstance(change, int):
            content[start] ^= change
        else:
            content[start : start + len(change)] = change
    path = tmp_path / name
    path.write_bytes(content[: int(len(content) * length)])
    with one_line():
        with open_bag(path) as bag:
            assert read_all(bag) == sum(topic.count for topic in bag.topics.values())
            assert "\n" not in (bag.damage or "")
        render(inspect_bag(path))


@given(
    content=st.binary(max_size=400), start=st.sampled_from([b"", bag_mcap.MAGIC, bag_sqlite.MAGIC, b"#ROSBAG V2.0\n"])
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_gives_messages_or_one_line(content: bytes, start: bytes, tmp_path: Path) -> None:
    path = tmp_path / "any.mcap"
    path.write_bytes(start + content)
    with pytest.raises(UserError) as error:
        open_bag(path)
    assert "\n" not in str(error.value)
