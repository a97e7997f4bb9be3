"""Cut and damaged recordings: what is readable is read, how much is said, and lengths that lie cost no memory.

Some hundred changed bags are held against the reference readers; the rest is what those cannot tell. `python -m
benchmarks.fuzzing mcap sqlite3 ros1` does the former at length.
"""

from __future__ import annotations

import bz2
import random
import re
import sqlite3
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from bag_formats import SAMPLES, WRITTEN, contents
from bag_samples import JAZZY, START_NS, Sample, serialised, walk, write_mcap, write_ros1, write_rosbag2

from benchmarks.core.bag_cases import Case, kept_cases, scratch_folder, seeds
from benchmarks.core.bag_references import read_references
from benchmarks.core.fuzz_bags import FORMATS, originals, read_ours, run_case
from benchmarks.core.fuzz_bags import judge as held
from benchmarks.fuzzing import judge
from onboard_estimation.bags import blocks as bag_blocks
from onboard_estimation.bags import mcap_files as bag_mcap
from onboard_estimation.bags import sqlite as bag_sqlite
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.base.measurement import Channel


def cut(source: Path, share: float) -> Path:
    """The beginning of a file, beside it."""
    target, content = source.with_name(f"cut{source.suffix}"), source.read_bytes()
    target.write_bytes(content[: int(len(content) * share)])
    return target


def message_ends(content: bytes) -> list[int]:
    """End of each message record in a file without compression, found by the messages' own bytes."""
    ends, position = [], 0
    for _, _, data in WRITTEN:
        position = content.index(data, position) + len(data)
        ends.append(position)
    return ends


def chunks_of(content: bytes) -> list[int]:
    """Places of the chunks of an MCAP file."""
    found, position = [], 8
    while position < len(content) - 8:
        opcode, size = struct.unpack_from("<BQ", content, position)
        found += [position] * (opcode == 6)
        position += 9 + size
    return found


# Cut off


TEXT = "std_msgs/msg/String"
LONG = [Sample("/x", TEXT, START_NS + n, JAZZY.types[TEXT]("ab" * (n * 37 % 10_000))) for n in range(100)]
LOST_BYTES = {"whole.mcap": 150_000, "whole.db3": 50_000, "whole.bag": 150_000}
"""Of a file that is cut at most: lz4 and zstd compress blocks of 64 and 128 kB, a database has lists of its pages."""


@pytest.mark.parametrize(
    "kind", ["mcap none", "mcap lz4", "mcap zstd", "mcap bare", "sqlite3", "sqlite3 long", "ros1 none", "ros1 lz4"]
)
def test_what_stands_before_a_cut_is_read_and_the_rest_is_said(kind: str, tmp_path: Path) -> None:
    storage, _, how = kind.partition(" ")
    samples = LONG if how == "long" else walk(300)
    if storage == "mcap":
        bare, size = how == "bare", 1_000_000
        whole = write_mcap(tmp_path / "whole.mcap", samples, "none" if bare else how, not bare, chunk_size=size)
    elif storage == "sqlite3":
        whole = write_rosbag2(tmp_path / "whole", samples, "sqlite3") / "whole.db3"
    else:
        whole = write_ros1(tmp_path / "whole.bag", samples, how)
    written = contents(whole)[0]
    total = sum(len(data) for _, _, data in written)
    for share in (0.3, 0.5, 0.7, 0.95):
        found, damage = contents(cut(whole, share))
        assert found == written[: len(found)]
        assert share * total - sum(len(data) for _, _, data in found) < LOST_BYTES[whole.name]
        assert re.match(r"cut\.\w+ (ends in the middle of a record|is cut off|was not closed)", damage), damage


def test_an_mcap_without_compression_loses_nothing_that_stands_before_the_cut(tmp_path: Path) -> None:
    content = write_mcap(tmp_path / "whole.mcap", SAMPLES, "none").read_bytes()
    ends, path = message_ends(content), tmp_path / "cut.mcap"
    for length in (ends[5], ends[5] - 1, ends[100] + 3, ends[-1], len(content) - 8):
        path.write_bytes(content[:length])
        found, damage = contents(path)
        assert found == WRITTEN[: sum(end <= length for end in ends)]
        assert f"readable are {len(found):,}" in damage


def test_the_sentence_about_a_cut_bag_has_numbers(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES)
    (folder / "bag.mcap").write_bytes((folder / "bag.mcap").read_bytes()[:50_000])
    found, damage = contents(folder)
    assert 0 < len(found) < len(WRITTEN)
    seconds = (found[-1][1] - found[0][1]) / 1e9
    assert damage.startswith("bag.mcap ends in the middle of a record; ")
    assert f"readable are {len(found)} of {len(WRITTEN)} ({len(found) / len(WRITTEN):.1%}) messages" in damage
    assert f"over {seconds:.2f} s" in damage
    assert re.search(r"\d+\.\d% of 50\.0 kB$", damage)


def test_a_ros1_bag_that_was_not_closed_or_whose_chunk_holds_less_than_it_says(tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "whole.bag", SAMPLES)
    expected, _ = contents(path)
    content = bytearray(path.read_bytes())
    place = content.index(b"index_pos=") + len("index_pos=")
    (index,) = struct.unpack_from("<Q", content, place)
    (tmp_path / "walk.bag.active").write_bytes(content[:place] + bytes(8) + content[place + 8 : index])
    found, damage = contents(tmp_path / "walk.bag.active")
    assert found == expected
    assert "was not closed" in damage
    place = content.index(b"size=") + 5
    (size,) = struct.unpack_from("<I", content, place)
    struct.pack_into("<I", content, place, size + 1)
    path.write_bytes(content)
    assert f"it holds {size:,} bytes of {size + 1:,}" in contents(path)[1]


# Damage that must not pass for the end, or for nothing


@pytest.mark.parametrize(("offset", "to"), [(0, b"\x0f"), (1, b"\xff" * 8)], ids=["kind", "length"])
def test_reading_goes_on_at_the_next_chunk_behind_a_damaged_place(offset: int, to: bytes, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none")
    content = bytearray(path.read_bytes())
    chunk = chunks_of(bytes(content))[3]
    content[chunk + offset : chunk + offset + len(to)] = to
    path.write_bytes(content)
    found, damage = contents(path)
    assert set(found) < set(WRITTEN)
    assert len(found) > len(WRITTEN) - 90
    assert f"bytes of a.mcap are damaged, from byte {chunk:,} on" in damage
    assert f"readable are {len(found)} of {len(WRITTEN)} ({len(found) / len(WRITTEN):.1%}) messages" in damage


def test_the_checksum_of_the_data_is_looked_at(tmp_path: Path) -> None:
    seed = seeds("mcap")["unchunked-crc"]
    path = tmp_path / "a.mcap"
    path.write_bytes(seed.files["a.mcap"])
    whole, damage = contents(path)
    assert damage == ""
    path.write_bytes(seed.files["a.mcap"].replace(whole[5][2], whole[5][2][:-2] + b"!\0"))
    found, damage = contents(path)
    assert len(found) == len(whole)
    assert "the checksum of a.mcap is wrong, some of its messages may be" in damage


def test_rows_behind_a_damaged_page_are_found(tmp_path: Path) -> None:
    samples = walk(200)
    folder = write_rosbag2(tmp_path / "bag", samples, "sqlite3")
    content = bytearray((folder / "bag.db3").read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    page = next(place for place in range(middle, len(content), 4096) if content[place] == 13)  # of rows, not an index
    content[page : page + 4096] = bytes(4096)
    (folder / "bag.db3").write_bytes(content)
    found, damage = contents(folder)
    assert "bag.db3 is damaged" in damage
    assert set(found) < set(serialised(samples))
    assert len(samples) - 40 < len(found) < len(samples)


# Lengths that lie


def record(opcode: int, content: bytes, length: int | None = None) -> bytes:
    return struct.pack("<BQ", opcode, len(content) if length is None else length) + content


def chunk(raw_size: int, compression: bytes, data: bytes) -> bytes:
    head = struct.pack("<QQQII", 0, 0, raw_size, 0, len(compression)) + compression
    return record(6, head + struct.pack("<Q", len(data)) + data)


BOMB = zstandard.compress(bytes(2**28))


def peak_bytes(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("tail", "as_index"),
    [
        (chunk(2**63, b"zstd", BOMB), False),
        (chunk(1000, b"zstd", BOMB), False),
        (chunk(bag_blocks.MAX_BLOCK_BYTES, b"zstd", b"\x28\xb5\x2f\xfd" + bytes(50)), False),
        (chunk(bag_blocks.MAX_BLOCK_BYTES, b"lz4", b"\x04\x22\x4d\x18" + bytes(50)), False),
        (record(6, b"", 2**64 - 1), False),
        (record(5, bytes(22), 2**64 - 1), False),
        (record(5, bytes(3)), False),
        (record(3, b"\1\0\xff\xff\xff\xff"), False),
        (record(4, b"\1\0\1\0\xff\xff\xff\x7f/x"), False),
        (record(12, b"\7\0\0\0rosbag2\xff\xff\xff\xff"), False),
        (chunk(1000, b"zstd", BOMB), True),
        (chunk(1000, b"lz4", b"no frame"), True),
        (record(6, struct.pack("<QQQIIQ", 0, 0, 1000, 0, 0, 2**63)), True),
        (record(8, b"", 2**63), True),
    ],
    ids=str,
)
def test_lengths_that_lie_cost_no_memory(tail: bytes, as_index: bool, tmp_path: Path) -> None:
    """Among the data, or where the index should be."""
    content = write_mcap(tmp_path / "whole.mcap", SAMPLES, "none").read_bytes()
    data = content[: message_ends(content)[-1]] + (b"" if as_index else tail) + record(15, bytes(4))
    index = tail + record(2, struct.pack("<QQI", len(data), 0, 0)) if as_index else record(2, bytes(20))
    path = tmp_path / "bag.mcap"
    path.write_bytes(data + index + bag_mcap.MAGIC)
    found: list[object] = []
    assert peak_bytes(lambda: found.extend(contents(path)[0])) < 20e6
    assert [message for message in found if message in WRITTEN] == WRITTEN
    assert as_index or found == WRITTEN


@pytest.mark.parametrize(
    ("name", "compress"), [("zstd", zstandard.compress), ("lz4", lz4.frame.compress), ("bz2", bz2.compress)]
)
def test_no_more_is_decompressed_than_allowed(name: str, compress: Callable[[bytes], bytes]) -> None:
    raw = bytes(range(256)) * 4000
    data = compress(raw)
    assert bag_blocks.decompress(data, name, len(raw)) == raw
    with pytest.raises(bag_blocks.BlockError, match=r"more than the 1,023,999 bytes"):
        bag_blocks.decompress(data, name, len(raw) - 1)
    noise = random.Random(1).randbytes(2_000_000)
    beginning = bag_blocks.decompress(compress(noise)[:1_500_000], name, 2**24)
    assert beginning == noise[: len(beginning)]
    assert len(beginning) > 500_000


def test_a_message_that_claims_more_than_it_has_costs_no_memory(tmp_path: Path) -> None:
    names = b"\0\1\0\0" + bytes(8) + b"\1\0\0\0\0" + bytes(3) + struct.pack("<I", 2**31) + bytes(1000)
    path = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3")
    with sqlite3.connect(path / "bag.db3") as database:
        (topic,) = database.execute("SELECT id FROM topics WHERE name = '/actuators/state'").fetchone()
        database.execute("UPDATE messages SET data = ? WHERE topic_id = ?", (names, topic))
    database.close()
    channel = Channel("state", "sensor_msgs/msg/JointState", "state")
    with open_bag(path) as bag:
        assert peak_bytes(lambda: read_channels(bag, {"/actuators/state": channel})) < 20e6


def test_the_number_of_messages_is_capped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bag_blocks, bag_mcap, bag_sqlite):
        monkeypatch.setattr(module, "MAX_MESSAGES", 100, raising=False)
        monkeypatch.setattr(module, "BLOCK_MESSAGES", 40, raising=False)
    for storage in ("mcap", "sqlite3"):
        _, damage = contents(write_rosbag2(tmp_path / storage, SAMPLES, storage))
        assert "holds more than 100 messages, the rest was left out" in damage


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as path:
        yield path


@pytest.mark.parametrize("case", [one for name in FORMATS for one in kept_cases(name)], ids=lambda case: case.name)
def test_what_was_once_read_wrongly(case: Case, folder: Path) -> None:
    assert run_case(case, folder).findings == {}


@pytest.mark.parametrize("bag_format", FORMATS)
def test_new_changes_are_read_as_the_references_read_them(bag_format: str) -> None:
    tally = judge(bag_format, range(2))
    assert tally.findings == {}
    assert min(tally.outcomes[name] for name in ("as reference", "said damaged", "refused")) > 10


def test_the_judge_finds_a_message_that_is_lost_changed_or_doubled(folder: Path) -> None:
    seed = seeds("mcap")["lz4"]
    case = Case("mcap", 1, seed, seed.files)
    (folder / "files").mkdir()
    ours = read_ours(case.write(folder / "files"), False)
    references, written = read_references(case, folder / "files", folder), originals("mcap")["lz4"]
    assert held(case, ours, references, written).findings == {}
    whole = ours.messages
    (topic, stamp, data), rest = whole[5], whole[:5] + whole[6:]
    changed, moved = (topic, stamp, data[:-1] + b"!"), ("/other", stamp, data)
    for wrong in (
        rest,
        *([*whole[:5], one, *whole[6:]] for one in (changed, moved)),
        *([*whole[:6], *whole[5:]], [*rest, whole[5]]),  # doubled, late
    ):
        ours.messages = wrong
        assert held(case, ours, references, written).findings
    ours.messages, ours.damage = rest, "it is damaged; readable are 23 of 24 (100.0%) messages"
    assert "claims 100 % with messages lost" in held(case, ours, references, written).findings
