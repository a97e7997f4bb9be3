"""Bags that change, lie or set traps: nothing is lost or doubled in silence, and nothing else ever happens."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import mcap.writer
import pytest
import yaml
from bag_samples import IMU, JAZZY, START_NS, Sample, imu, serialised, walk, write_mcap, write_ros1, write_rosbag2
from environment import with_support

from onboard_estimation.bags import files as bag_files
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.blocks import FileBytes
from onboard_estimation.bags.files import bounded_yaml
from onboard_estimation.base.errors import UserError

SAMPLES = walk(150)
WRITTEN = serialised(SAMPLES)

Make = Callable[[Path], Path]
FILES: dict[str, Make] = {
    "mcap": lambda folder: write_mcap(folder / "a.mcap", SAMPLES, "none"),
    "mcap zstd": lambda folder: write_mcap(folder / "a.mcap", SAMPLES, "zstd"),
    "mcap bare": lambda folder: write_mcap(folder / "a.mcap", SAMPLES, "none", chunks=False),
    "sqlite3": lambda folder: write_rosbag2(folder / "bag", SAMPLES, "sqlite3") / "bag.db3",
    "ros1": lambda folder: write_ros1(folder / "a.bag", SAMPLES),
}


def read(path: Path) -> tuple[list[tuple[str, int, bytes]], str]:
    with open_bag(path) as bag:
        return [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages()], bag.damage or ""


def split_bag(folder: Path, parts: int, named: list[str], samples: list[Sample] = SAMPLES) -> Path:
    """A bag of several MCAP files, `part_0.mcap` and so on, whose metadata names some of them."""
    folder.mkdir()
    size = len(samples) // parts
    for place in range(parts):
        write_mcap(folder / f"part_{place}.mcap", samples[place * size : (place + 1) * size])
    write_metadata(folder, relative_file_paths=named, message_count=len(named) * size)
    return folder


def write_metadata(folder: Path, **information: object) -> None:
    (folder / "metadata.yaml").write_text(yaml.safe_dump({"rosbag2_bagfile_information": information}))


# Files that change


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_shrinks_while_it_is_read_is_said(kind: str, tmp_path: Path) -> None:
    """In a process of its own, which a mapped file would end by a signal."""
    path = FILES[kind](tmp_path)
    words = "import sys; from test_hostile_bags import shrink_under_reader; shrink_under_reader(sys.argv[1])"
    found = subprocess.run(
        [sys.executable, "-c", words, str(path)],
        cwd=Path(__file__).parent,
        env=with_support(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, (found.returncode, found.stderr)
    assert "cannot be read any more: it became shorter while it was read" in found.stdout


def shrink_under_reader(name: str) -> None:
    with open_bag(name) as bag:
        os.truncate(name, 4096)
        try:
            list(bag.messages())
        except UserError as error:
            print(error)


def test_a_file_that_is_written_anew_while_it_is_read_is_said(tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none", chunks=False)
    with open_bag(path) as bag:
        content = bytearray(path.read_bytes())
        content[1000:2000] = bytes(1000)
        path.write_bytes(content)
        os.utime(path, ns=(1, 1))
        with pytest.raises(UserError, match=r"a\.mcap cannot be read any more: it was changed while it was read"):
            list(bag.messages())


def test_a_file_that_grows_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none")
    with open_bag(path) as bag:
        with path.open("ab") as file:
            file.write(bytes(1000))
        assert [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages()] == WRITTEN


# What a killed recorder leaves


def killed_recorder(folder: Path, statements: list[str], super_journal: Path | None = None) -> Path:
    """A bag as a recorder leaves it that is killed in the middle of a transaction which it had begun to write."""
    bag = write_rosbag2(folder / "recorded", SAMPLES, "sqlite3")
    database = sqlite3.connect(bag / "recorded.db3", isolation_level=None)
    database.execute("PRAGMA cache_size = 5")
    database.execute("BEGIN")
    for statement in statements:
        database.execute(statement)
    killed = folder / "killed"
    shutil.copytree(bag, killed)
    database.execute("ROLLBACK")
    database.close()
    if super_journal is not None:
        name = os.fsencode(super_journal)
        with (killed / "recorded.db3-journal").open("ab") as file:
            file.write(struct.pack(">I", 0) + name + struct.pack(">II", len(name), sum(name)))
            file.write(bytes.fromhex("d9d505f920a163d7"))
    return killed


UNCOMMITTED = [
    "DELETE FROM messages WHERE id <= 40",
    "INSERT INTO messages(topic_id, timestamp, data) SELECT topic_id, timestamp + 1, zeroblob(300) FROM messages",
]


def test_only_what_was_committed_is_read_and_the_bag_is_left_as_it_is(tmp_path: Path) -> None:
    killed = killed_recorder(tmp_path, UNCOMMITTED)
    before = {file.name: file.read_bytes() for file in killed.iterdir()}
    ignored = sqlite3.connect(f"{(killed / 'recorded.db3').as_uri()}?mode=ro&immutable=1", uri=True)
    assert ignored.execute("SELECT count(*) FROM messages").fetchone()[0] != len(WRITTEN)
    ignored.close()
    found, damage = read(killed)
    assert found == WRITTEN
    assert "recorded.db3 was not closed (what was not committed was taken back with recorded.db3-journal)" in damage
    assert {file.name: file.read_bytes() for file in killed.iterdir()} == before


def test_a_journal_cannot_make_us_remove_another_file(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("three years of work")
    found, _ = read(killed_recorder(tmp_path, UNCOMMITTED, thesis))
    assert thesis.read_text() == "three years of work"
    assert found == WRITTEN


def test_a_journal_that_is_over_is_none(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3")
    (folder / "bag.db3-journal").write_bytes(bytes(512))
    assert read(folder) == (WRITTEN, "")


# Which files belong to a bag


def test_files_that_the_metadata_omits_are_read_and_said(tmp_path: Path) -> None:
    found, damage = read(split_bag(tmp_path / "bag", 3, ["part_0.mcap", "part_1.mcap"]))
    assert found == WRITTEN[: len(found)]
    assert len(found) == len(WRITTEN) // 3 * 3
    assert "metadata.yaml does not name 1 more files that are there (part_2.mcap)" in damage


def test_a_file_that_is_listed_twice_is_read_once(tmp_path: Path) -> None:
    folder = split_bag(tmp_path / "bag", 1, ["part_0.mcap", "part_0.mcap"])
    write_metadata(folder, relative_file_paths=["part_0.mcap", "part_0.mcap"], message_count=len(WRITTEN))
    found, damage = read(folder)
    assert found == WRITTEN
    assert "metadata.yaml names part_0.mcap more than once" in damage


def copied(folder: Path) -> None:
    shutil.copyfile(folder / "part_0.mcap", folder / "part_0 (copy).mcap")


def linked(folder: Path) -> None:
    (folder / "z.mcap").symlink_to("part_0.mcap")


@pytest.mark.parametrize("double", [copied, linked])
@pytest.mark.parametrize("metadata", [True, False])
def test_a_copy_beside_the_original_is_left_out_and_said(
    double: Callable[[Path], None], metadata: bool, tmp_path: Path
) -> None:
    folder = split_bag(tmp_path / "bag", 1, ["part_0.mcap"])
    double(folder)
    if not metadata:
        (folder / "metadata.yaml").unlink()
    found, damage = read(folder)
    assert found == WRITTEN
    assert f"was left out: most of its {len(WRITTEN)} messages are in " in damage


def test_recordings_of_one_time_with_other_topics_are_one_bag(tmp_path: Path) -> None:
    for name, part in (("imu", "/imu"), ("mocap", "/ground_truth")):
        write_mcap(tmp_path / f"{name}.mcap", [sample for sample in SAMPLES if sample.topic.startswith(part)])
    found, _ = read(tmp_path)
    assert sorted(found) == sorted(entry for entry in WRITTEN if entry[0].startswith(("/imu", "/ground_truth")))


@pytest.mark.parametrize("chunks", [True, False])
def test_files_that_were_joined_are_read_each(chunks: bool, tmp_path: Path) -> None:
    half = len(SAMPLES) // 2
    # The second numbers its topics anew, and in another order.
    first = write_mcap(tmp_path / "first", SAMPLES[:half], chunks=chunks, compression="none")
    second = write_mcap(tmp_path / "second", SAMPLES[half + 2 :], chunks=chunks, compression="none")
    (tmp_path / "a.mcap").write_bytes(first.read_bytes() + second.read_bytes())
    assert read(tmp_path / "a.mcap") == (WRITTEN[:half] + WRITTEN[half + 2 :], "")
    (tmp_path / "twice.mcap").write_bytes(first.read_bytes() * 2)
    found, damage = read(tmp_path / "twice.mcap")
    assert found == WRITTEN[:half]
    assert "twice.mcap was left out: most of its" in damage
    (tmp_path / "more.mcap").write_bytes(first.read_bytes() + b"what is this?")
    found, damage = read(tmp_path / "more.mcap")
    assert found == WRITTEN[:half]
    assert "13 bytes that follow the end of more.mcap were left out" in damage


def test_more_messages_than_the_bag_says_it_has_are_said(tmp_path: Path) -> None:
    folder = split_bag(tmp_path / "bag", 1, ["part_0.mcap"])
    write_metadata(folder, relative_file_paths=["part_0.mcap"], message_count=len(WRITTEN) - 7)
    assert "7 more messages than the bag says it has" in read(folder)[1]


def test_one_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    long = "x" * 300 + ".mcap"
    folder = split_bag(tmp_path / "bag", 1, ["part_0.mcap", long, "nul\0.mcap", "..", "folder.mcap"])
    (folder / "folder.mcap").mkdir()
    os.mkfifo(folder / "pipe.mcap")
    (folder / "pipe.db3").symlink_to("pipe.mcap")
    (folder / "zero.mcap").symlink_to("/dev/zero")
    (folder / "loop.mcap").symlink_to("loop.mcap")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "socket.mcap"))
        found, damage = read(folder)
    assert found == WRITTEN
    assert "4 of 5 files are missing" in damage


@pytest.mark.parametrize("name", ["pipe.mcap", "pipe.db3", "metadata.yaml"])
def test_a_pipe_is_no_bag_and_blocks_nobody(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match=r"it is no regular file|holds no \.mcap or \.db3 file"):
        open_bag(tmp_path / name)
    with pytest.raises(UserError, match=r"it is no regular file|holds no \.mcap or \.db3 file"):
        open_bag(tmp_path)


# Damage that must not pass for the end, or for nothing


def opcodes(content: bytes) -> list[tuple[int, int]]:
    """(place, opcode) of the records outside of chunks."""
    found, position = [], 8
    while position < len(content) - 8:
        opcode, size = struct.unpack_from("<BQ", content, position)
        found.append((position, opcode))
        position += 9 + size
    return found


@pytest.mark.parametrize("opcode", [2, 5, 7, 9, 12, 15, 0x40, 0x90])
def test_a_chunk_that_became_another_record_is_said(opcode: int, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none")
    content = bytearray(path.read_bytes())
    chunks = [place for place, kind in opcodes(bytes(content)) if kind == 6]
    content[chunks[3]] = opcode
    path.write_bytes(content)
    found, damage = read(path)
    assert set(found) < set(WRITTEN)
    assert len(found) > len(WRITTEN) - 90
    assert f"bytes of a.mcap are damaged, from byte {chunks[3]:,} on" in damage
    assert f"readable are {len(found)} of {len(WRITTEN)} ({len(found) / len(WRITTEN):.1%}) messages" in damage
    assert "100.0%" not in damage


def test_good_records_are_read_whatever_an_index_without_checksum_says(tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none", crc=False)
    content = bytearray(path.read_bytes())
    for place, kind in opcodes(bytes(content)):
        if kind == 8:
            content[place + 25 : place + 33] = struct.pack("<Q", 1000 + place)
    path.write_bytes(content)
    assert read(path)[0] == WRITTEN


@pytest.mark.parametrize("inside", [True, False])
def test_a_message_with_an_impossible_time_is_left_out_and_said(inside: bool, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none", chunks=inside, crc=False)
    content = bytearray(path.read_bytes())
    place = content.index(WRITTEN[100][2]) - 16
    content[place : place + 8] = b"\xff" * 8
    path.write_bytes(content)
    found, damage = read(path)
    assert found == WRITTEN[:100] + WRITTEN[101:]
    assert "1 of the messages in a.mcap have an impossible time" in damage


@pytest.mark.parametrize("inside", [True, False])
def test_a_record_of_an_unknown_kind_is_skipped_and_said(inside: bool, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none", chunks=inside, crc=False)
    content = bytearray(path.read_bytes())
    place = content.index(WRITTEN[100][2]) - 31
    assert content[place] == 5
    content[place] = 0x12
    path.write_bytes(content)
    found, damage = read(path)
    assert found == WRITTEN[:100] + WRITTEN[101:]
    assert "1 of the records in a.mcap are of no known kind" in damage


def test_the_checksum_of_the_data_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with path.open("wb") as file:
        writer = mcap.writer.Writer(file, use_chunking=False, enable_data_crcs=True)
        writer.start()
        schema = writer.register_schema(IMU, "ros2msg", JAZZY.generate_msgdef(IMU, ros_version=2)[0].encode())
        channel = writer.register_channel("/imu", "cdr", schema)
        for step in range(50):
            data = bytes(JAZZY.serialize_cdr(imu(START_NS + step, (step, 0, 0), (0, 0, 0)), IMU))
            writer.add_message(channel, START_NS + step, data, START_NS + step)
        writer.finish()
    found, damage = read(path)
    assert (len(found), damage) == (50, "")
    content = bytearray(path.read_bytes())
    content[content.index(found[30][2]) + 200] ^= 1
    path.write_bytes(content)
    found, damage = read(path)
    assert len(found) == 50
    assert "the checksum of a.mcap is wrong, some of its messages may be" in damage


def test_one_number_with_two_descriptions_is_said(tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none", crc=False)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"/wrench")
    content[place : place + 7] = b"/wrunch"
    path.write_bytes(content)
    found, damage = read(path)
    assert found == WRITTEN
    assert "1 of the descriptions of topics and types in a.mcap contradict others" in damage


def test_a_ros1_bag_that_is_cut_between_two_records_is_said(tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "a.bag", walk(3000))
    content = path.read_bytes()
    whole, _ = read(path)
    position, chunks = 13, []
    while position < len(content):
        (head,) = struct.unpack_from("<I", content, position)
        (data,) = struct.unpack_from("<I", content, position + 4 + head)
        if b"op=\x05" in content[position : position + 4 + head]:
            chunks.append(position)
        position += 8 + head + data
    assert len(chunks) > 2
    path.write_bytes(content[: chunks[2]])
    found, damage = read(path)
    assert found == whole[: len(found)]
    assert "a.bag is cut off" in damage
    assert f"{len(chunks) - 2} of {len(chunks)} chunks of a.bag are missing" in damage
    # A damaged record in the middle costs its chunk, because the index names the next one.
    damaged = bytearray(content)
    damaged[chunks[1] : chunks[1] + 4] = b"\xff" * 4
    path.write_bytes(damaged)
    found, damage = read(path)
    assert set(found) < set(whole)
    assert found[-1] == whole[-1]
    assert f"{chunks[2] - chunks[1]:,} bytes of a.bag are damaged" in damage
    assert f"readable are {len(found):,} of {len(whole):,}" in damage


def test_a_ros1_chunk_that_holds_less_than_it_says_is_said(tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "a.bag", SAMPLES)
    content = bytearray(path.read_bytes())
    place = content.index(b"size=") + 5
    (size,) = struct.unpack_from("<I", content, place)
    struct.pack_into("<I", content, place, size + 1)
    path.write_bytes(content)
    assert f"it holds {size:,} bytes of {size + 1:,}" in read(path)[1]


# Tables that lie


@pytest.mark.parametrize("root", ["x", b"\1", 0, -5, 2**40, 2.5])
def test_a_table_that_starts_nowhere_is_damage(root: object, tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3")
    with closing(sqlite3.connect(folder / "bag.db3")) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'messages'", (root,))
        database.commit()
    found, damage = read(folder)
    assert found == WRITTEN
    assert "bag.db3 is damaged" in damage


def test_rows_that_are_no_messages_are_counted(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3")
    with sqlite3.connect(folder / "bag.db3") as database:
        database.execute("UPDATE messages SET timestamp = -timestamp WHERE id = 3")
        database.execute("UPDATE messages SET timestamp = 'noon' WHERE id = 4")
        database.execute("UPDATE messages SET data = 'text' WHERE id = 5")
        database.execute("UPDATE messages SET topic_id = 'x' WHERE id = 6")
        first, last = -(2**63), 2**63 - 1
        database.execute("UPDATE messages SET id = ? WHERE id = 7", (first,))
        database.execute("UPDATE messages SET id = ? WHERE id = 8", (last,))
    database.close()
    found, damage = read(folder)
    assert found == WRITTEN[:2] + WRITTEN[6:]
    assert "4 rows were left out of bag.db3: a time before 1970, or not of the types that a message has" in damage
    assert f"readable are {len(WRITTEN) - 4} of {len(WRITTEN)}" in damage


def edit_schema(path: Path, old: bytes, new: bytes) -> Path:
    content = path.read_bytes()
    assert content.count(old) >= 1
    assert len(old) == len(new)
    path.write_bytes(content.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"serialization_format TEXT", b"serialization_f\xffrmat TEXT"),
        (b"CREATE TABLE topics", b"CREATE TABLE top\xffcs"),
        (b"topic_id INTEGER", b"top\xffc_id INTEGER"),
    ],
)
def test_a_schema_that_is_no_text_gives_messages_or_one_line(old: bytes, new: bytes, tmp_path: Path) -> None:
    path = edit_schema(write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3") / "bag.db3", old, new)
    said = ""
    try:
        said = f"{len(read(path)[0])} messages"
    except UserError as error:
        said = str(error)
    assert said == f"{len(WRITTEN)} messages" or (said.isprintable() and "bag.db3" in said)


TRAPS = {
    "generated": "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL, "
    "data BLOB GENERATED ALWAYS AS (zeroblob(900000000)))",
    "view": "CREATE VIEW messages AS SELECT 1 AS id, 1 AS topic_id, 1 AS timestamp, zeroblob(900000000) AS data",
    "other view": "CREATE VIEW other AS SELECT zeroblob(900000000) AS data",
    "virtual": "CREATE VIRTUAL TABLE  messages USING fts5(id, topic_id, timestamp, data)",
}


@pytest.mark.parametrize("trap", TRAPS)
def test_tables_that_compute_are_refused_before_they_do(trap: str, tmp_path: Path) -> None:
    path = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3") / "bag.db3"
    with sqlite3.connect(path) as database:
        if trap != "other view":
            database.execute("DROP TABLE messages")
        database.execute(TRAPS[trap])
        if trap == "generated":
            for step in range(400):
                database.execute("INSERT INTO messages(topic_id, timestamp) VALUES (1, ?)", (step,))
    database.close()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=r"computed, which no bag has|without the tables|beside tables and indices"):
        open_bag(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_a_table_under_a_false_name_does_not_compute_either(tmp_path: Path) -> None:
    """The columns `name` and `type` of the schema can say anything; sqlite3 goes by the statement."""
    path = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3") / "bag.db3"
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE messages")
        database.execute(TRAPS["view"])
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET type = 'table' WHERE name = 'messages'")
    database.close()
    with pytest.raises(UserError, match="without the tables"):
        open_bag(path)


# Metadata


def test_metadata_that_would_take_minutes_is_refused_and_the_messages_are_read(tmp_path: Path) -> None:
    lines = ["a0: &a0 {k0: 0, k1: 1, k2: 2, k3: 3}"]
    for step in range(1, 12):
        aliases = ", ".join([f"*a{step - 1}"] * 8)
        lines.append(f"a{step}: &a{step} {{<<: [{aliases}]}}")
    folder = split_bag(tmp_path / "bag", 1, ["part_0.mcap"])
    (folder / "metadata.yaml").write_text("rosbag2_bagfile_information:\n  " + "\n  ".join(lines))
    found, damage = read(folder)
    assert found == WRITTEN
    assert "metadata.yaml is damaged" in damage


@pytest.mark.parametrize("text", ["[" + "1," * 3000 + "1]", "1:" * 40 + "1", "0x" + "F" * 100, "[" * 5000, "&a [*a]"])
def test_yaml_that_no_bag_holds_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_files, "_MAX_NODES", 1000)
    with pytest.raises(ValueError, match="no YAML that a bag holds"):
        bounded_yaml(text)


@pytest.mark.parametrize("count", ["0xFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "-5", "true", "[1, 2]", "1.5", "many", "9" * 60])
def test_a_message_count_that_is_none_is_said(count: str, tmp_path: Path) -> None:
    folder = split_bag(tmp_path / "bag", 1, ["part_0.mcap"])
    text = (folder / "metadata.yaml").read_text()
    (folder / "metadata.yaml").write_text(text.replace(f"message_count: {len(WRITTEN)}", f"message_count: {count}"))
    found, damage = read(folder)
    assert found == WRITTEN
    assert "metadata.yaml is damaged (message_count)" in damage


def test_files_that_are_no_list_are_said(tmp_path: Path) -> None:
    folder = split_bag(tmp_path / "bag", 1, ["part_0.mcap"])
    write_metadata(folder, relative_file_paths="part_0.mcap", message_count=len(WRITTEN))
    assert "metadata.yaml is damaged" in read(folder)[1]


def test_messages_compressed_one_by_one_are_known_without_metadata(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3", "message")
    (folder / "metadata.yaml").unlink()
    assert read(folder)[0] == WRITTEN
    assert read(folder / "bag.db3")[0] == WRITTEN


# Names


HOSTILE = "a\n\x1b[2J\x07[red].mcap"


def test_names_of_files_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    folder = split_bag(tmp_path / "bag", 1, ["part_0.mcap", f"gone {HOSTILE}"])
    content = (folder / "part_0.mcap").read_bytes()
    (folder / HOSTILE).write_bytes(content[: len(content) // 2])
    for path in (folder, folder / HOSTILE):
        _, damage = read(path)
        assert damage.isprintable()
    for path in (tmp_path / HOSTILE, folder / HOSTILE / "x"):
        with pytest.raises(UserError) as error:
            open_bag(path)
        assert str(error.value).isprintable()


@pytest.mark.slow
def test_names_cannot_write_to_the_terminal_through_the_commands(tmp_path: Path) -> None:
    """Of files and of topics; nor are they taken for markup, which would end in a traceback."""
    folder = tmp_path / "b\x1b[2J\n"
    folder.mkdir()
    samples = [sample._replace(topic=f"{sample.topic}[/b]\x1b[2J") for sample in SAMPLES]
    write_mcap(folder / HOSTILE, samples, "none")
    missing = tmp_path / "no\x1b[2J\nthing"
    for words, code in ((["inspect", str(folder)], 0), (["evaluate", str(folder)], 2), (["inspect", str(missing)], 2)):
        found = subprocess.run(
            [sys.executable, "-m", "onboard_estimation", *words], capture_output=True, text=True, timeout=100
        )
        assert found.returncode == code, found.stderr
        output = found.stdout + found.stderr
        assert "Traceback" not in output
        assert all(line.isprintable() for line in output.split("\n"))
        if code:
            assert found.stderr.count("\n") == 1


def test_reading_in_pieces_gives_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    content = os.urandom(5_000_000)
    path.write_bytes(content)
    file = FileBytes(path)
    assert file.read(4_999_000, 5_000_000) == content[4_999_000:]
    for start, least in ((0, 10), (2_097_150, 10), (100, 4_000_000), (4_999_995, 100), (5_000_000, 1), (5, 0)):
        window = file.window(start, least)
        assert len(window) >= min(least, len(content) - start)
        assert bytes(window) == content[start : start + len(window)]
    file.close()
    file.close()
