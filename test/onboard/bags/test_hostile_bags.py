"""Bags that change, lie or set traps: nothing is lost or doubled in silence, and nothing else ever happens."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from bag_formats import FORMATS, SAMPLES, WRITTEN, contents
from bag_samples import IMU, START_NS, Sample, imu, serialised, walk, write_mcap, write_rosbag2
from evaluation_samples import command

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.atomic_file import to_json
from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.inspection.inspect import inspect_bag
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.simulated_bags import simulate_to_bag
from onboard_estimation.report import run_folder
from onboard_estimation.report.evaluate import evaluate_bag, evaluate_trajectory


def bag_of_parts(folder: Path, parts: int, named: list[str], samples: list[Sample] = SAMPLES) -> Path:
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


@pytest.mark.parametrize("kind", ["mcap", "mcap bare", "sqlite3", "ros1"])
def test_a_file_that_shrinks_while_it_is_read_is_said(kind: str, tmp_path: Path) -> None:
    """A mapped file would end the process by a signal."""
    path = FORMATS[kind](tmp_path, SAMPLES)
    path = path if path.is_file() else next(path.glob("bag.*"))
    with open_bag(path) as bag:
        os.truncate(path, 4096)
        with pytest.raises(UserError, match="cannot be read any more: it became shorter while it was read"):
            list(bag.messages())


def test_a_file_that_is_written_anew_while_it_is_read_is_said_and_one_that_grows_is_read_as_it_was(
    tmp_path: Path,
) -> None:
    path = write_mcap(tmp_path / "a.mcap", SAMPLES, "none", chunks=False)
    with open_bag(path) as bag:
        with path.open("ab") as file:
            file.write(bytes(1000))
        assert [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages()] == WRITTEN
    with open_bag(path) as bag:
        content = bytearray(path.read_bytes())
        content[1000:2000] = bytes(1000)
        path.write_bytes(content)
        os.utime(path, ns=(1, 1))
        with pytest.raises(UserError, match=r"a\.mcap cannot be read any more: it was changed while it was read"):
            list(bag.messages())


# What a killed recorder leaves


def killed_recorder(folder: Path, begin: list[str], statements: list[str]) -> Path:
    """A bag as a recorder leaves it that is killed in the middle of what it had begun to write."""
    bag = write_rosbag2(folder / "bag", SAMPLES, "sqlite3")
    with closing(sqlite3.connect(bag / "bag.db3", isolation_level=None)) as database:
        for statement in [*begin, *statements]:
            database.execute(statement)
        killed = shutil.copytree(bag, folder / "killed")
    return killed


UNCOMMITTED = [
    "DELETE FROM messages WHERE id <= 20",
    "INSERT INTO messages(topic_id, timestamp, data) SELECT topic_id, timestamp + 1, zeroblob(300) FROM messages",
]


def test_only_what_was_committed_is_read_and_neither_the_bag_nor_another_file_is_changed(tmp_path: Path) -> None:
    """A journal that names a super-journal has sqlite3 remove that one."""
    killed = killed_recorder(tmp_path, ["PRAGMA cache_size = 5", "BEGIN"], UNCOMMITTED)
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("three years of work")
    name = os.fsencode(thesis)
    with closing(sqlite3.connect(f"{(killed / 'bag.db3').as_uri()}?mode=ro&immutable=1", uri=True)) as ignored:
        assert ignored.execute("SELECT count(*) FROM messages").fetchone()[0] != len(WRITTEN)
    for super_journal in (False, True):
        if super_journal:
            with (killed / "bag.db3-journal").open("ab") as file:
                file.write(struct.pack(">I", 0) + name + struct.pack(">II", len(name), sum(name)))
                file.write(bytes.fromhex("d9d505f920a163d7"))
        before = {file.name: file.read_bytes() for file in killed.iterdir()}
        found, damage = contents(killed)
        assert found == WRITTEN
        assert "bag.db3 was not closed (what was not committed was taken back with bag.db3-journal)" in damage
        assert {file.name: file.read_bytes() for file in killed.iterdir()} == before
        assert thesis.read_text() == "three years of work"


def test_messages_in_the_log_of_a_killed_recorder_are_read_and_the_bag_is_left_as_it_is(tmp_path: Path) -> None:
    late = [
        Sample("/late", IMU, START_NS + 10**12 + step, imu(START_NS, (step, 0, 0), (0, 0, 0))) for step in range(40)
    ]
    rows = [f"INSERT INTO messages VALUES (NULL, 99, {time}, x'{data.hex()}')" for _, time, data in serialised(late)]
    topic = "INSERT INTO topics SELECT 99, '/late', type, serialization_format, '', '' FROM topics WHERE id = 1"
    killed = killed_recorder(tmp_path, ["PRAGMA journal_mode = WAL", topic], rows)
    (killed / "metadata.yaml").unlink()
    (killed / "bag.db3-shm").unlink()
    before = {file.name: file.read_bytes() for file in killed.iterdir()}
    assert len(before["bag.db3-wal"]) > 10_000
    found, damage = contents(killed)
    assert found == WRITTEN + serialised(late)
    assert "bag.db3-wal" in damage
    assert {file.name: file.read_bytes() for file in killed.iterdir()} == before


# Which files belong to a bag


def test_files_that_the_metadata_omits_or_names_twice_are_read_once_and_said(tmp_path: Path) -> None:
    found, damage = contents(bag_of_parts(tmp_path / "a", 3, ["part_0.mcap", "part_1.mcap", "part_1.mcap"]))
    assert found == WRITTEN[: len(WRITTEN) // 3 * 3]
    assert "metadata.yaml does not name 1 more files that are there (part_2.mcap)" in damage
    assert "metadata.yaml names part_1.mcap more than once" in damage


def copied(folder: Path) -> None:
    shutil.copyfile(folder / "part_0.mcap", folder / "part_0 (copy).mcap")


def linked(folder: Path) -> None:
    (folder / "z.mcap").symlink_to("part_0.mcap")
    (folder / "metadata.yaml").unlink()


@pytest.mark.parametrize("double", [copied, linked])
def test_a_copy_beside_the_original_is_left_out_and_said(double: Callable[[Path], None], tmp_path: Path) -> None:
    folder = bag_of_parts(tmp_path / "bag", 1, ["part_0.mcap"])
    double(folder)
    found, damage = contents(folder)
    assert found == WRITTEN
    assert f"was left out: most of its {len(WRITTEN)} messages are in " in damage


def test_recordings_of_one_time_with_other_topics_are_one_bag(tmp_path: Path) -> None:
    for name, part in (("imu", "/imu"), ("mocap", "/ground_truth")):
        write_mcap(tmp_path / f"{name}.mcap", [sample for sample in SAMPLES if sample.topic.startswith(part)])
    found, _ = contents(tmp_path)
    assert sorted(found) == sorted(entry for entry in WRITTEN if entry[0].startswith(("/imu", "/ground_truth")))


@pytest.mark.parametrize("chunks", [True, False])
def test_what_follows_the_end_of_a_file_is_left_out(chunks: bool, tmp_path: Path) -> None:
    half = len(SAMPLES) // 2
    # The second numbers its topics anew, and in another order.
    first, second = (
        write_mcap(tmp_path / "part", part, "none", chunks=chunks).read_bytes()
        for part in (SAMPLES[:half], SAMPLES[half + 2 :])
    )
    for behind in (second, first, b"what is this?"):
        (tmp_path / "a.mcap").write_bytes(first + behind)
        found, damage = contents(tmp_path / "a.mcap")
        assert found == WRITTEN[:half]
        assert f"{len(behind):,} bytes that follow the end of a.mcap were left out" in damage


def test_one_file_that_cannot_be_read_does_not_hide_the_others_nor_lead_out_of_the_folder(tmp_path: Path) -> None:
    write_mcap(tmp_path / "other.mcap", walk(5))
    named = ["part_0.mcap", "x" * 300 + ".mcap", "nul\0.mcap", "..", "folder.mcap", "../other.mcap"]
    folder = bag_of_parts(tmp_path / "bag", 1, named)
    (folder / "folder.mcap").mkdir()
    os.mkfifo(folder / "pipe.mcap")
    (folder / "pipe.db3").symlink_to("pipe.mcap")
    (folder / "zero.mcap").symlink_to("/dev/zero")
    (folder / "loop.mcap").symlink_to("loop.mcap")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "socket.mcap"))
        found, damage = contents(folder)
    assert found == WRITTEN
    assert "5 of 6 files are missing" in damage


@pytest.mark.parametrize("name", ["pipe.mcap", "metadata.yaml"])
def test_a_pipe_is_no_bag_and_blocks_nobody(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(UserError, match=r"it is a pipe, not a file|holds no \.mcap or \.db3 file"):
            open_bag(path)


# Tables that lie


def test_rows_that_are_no_messages_are_counted(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3")
    with closing(sqlite3.connect(folder / "bag.db3")) as database:
        for number, change in enumerate(
            ("timestamp = -timestamp", "timestamp = 'noon'", "data = 'text'", "topic_id = 'x'"), 3
        ):
            database.execute(f"UPDATE messages SET {change} WHERE id = {number}")
        database.execute("UPDATE messages SET id = ? WHERE id = 7", (-(2**63),))
        database.execute("UPDATE messages SET id = ? WHERE id = 8", (2**63 - 1,))
        database.commit()
    found, damage = contents(folder)
    assert found == WRITTEN[:2] + WRITTEN[6:]
    assert "4 rows were left out of bag.db3: a time before 1970, or not of the types that a message has" in damage
    assert f"readable are {len(WRITTEN) - 4} of {len(WRITTEN)}" in damage


GONE, BLOB = "DROP TABLE messages", "zeroblob(900000000)"
VIEW = f"CREATE VIEW messages AS SELECT 1 AS id, 1 AS topic_id, 1 AS timestamp, {BLOB} AS data"
TRAPS = {
    "generated": [
        GONE,
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL, "
        f"data BLOB GENERATED ALWAYS AS ({BLOB}))",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) "
        "INSERT INTO messages(topic_id, timestamp) SELECT 1, i FROM n",
    ],
    "view": [GONE, VIEW],
    "other view": [f"CREATE VIEW other AS SELECT {BLOB} AS data"],
    "virtual": [GONE, "CREATE VIRTUAL TABLE  messages USING fts5(id, topic_id, timestamp, data)"],
    # The columns `name` and `type` of the schema can say anything; sqlite3 goes by the statement.
    "false name": [
        *(GONE, VIEW, "PRAGMA writable_schema = ON"),
        "UPDATE sqlite_master SET type = 'table' WHERE name = 'messages'",
    ],
}


@pytest.mark.parametrize("trap", TRAPS)
def test_tables_that_compute_are_refused_before_they_do(trap: str, tmp_path: Path) -> None:
    path = write_rosbag2(tmp_path / "bag", SAMPLES, "sqlite3") / "bag.db3"
    with closing(sqlite3.connect(path)) as database:
        for statement in TRAPS[trap]:
            database.execute(statement)
        database.commit()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=r"computed, which no bag has|without the tables|beside tables and indices"):
        open_bag(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


# Metadata


ALIASES = ["a0: &a0 {k0: 0, k1: 1, k2: 2, k3: 3}"] + [
    f"a{step}: &a{step} {{<<: [{', '.join([f'*a{step - 1}'] * 8)}]}}" for step in range(1, 12)
]
COUNTED = "rosbag2_bagfile_information:\n  relative_file_paths: [part_0.mcap]\n  message_count: "


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "\0", "a: 1", "rosbag2_bagfile_information: 3", "[" * 5000),
        "rosbag2_bagfile_information:\n  " + "\n  ".join(ALIASES),  # that would take minutes
        "rosbag2_bagfile_information: {relative_file_paths: part_0.mcap}",
        *(COUNTED + count for count in ("0xFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "-5", "true", "1.5", "many", "9" * 60)),
        None,
    ],
    ids=lambda text: repr(text)[-20:],
)
def test_damaged_metadata_does_no_harm_and_is_said(text: str | None, tmp_path: Path) -> None:
    folder = bag_of_parts(tmp_path / "bag", 1, ["part_0.mcap"])
    (folder / "metadata.yaml").unlink()
    if text is not None:
        (folder / "metadata.yaml").write_text(text)
    found, damage = contents(folder)
    assert found == WRITTEN
    assert f"metadata.yaml is {'missing' if text is None else 'damaged'}" in damage
    assert ("(message_count)" in damage) == (text or "").startswith(COUNTED)
    assert f"readable are {len(WRITTEN)} messages" in damage


# Names


def test_names_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    """Of files and of topics; nor are they taken for markup, which would end in a traceback."""
    hostile = "a\n\x1b[2J\x07[red].mcap"
    samples = [sample._replace(topic=f"{sample.topic}[/b]\x1b[2J") for sample in SAMPLES]
    folder = bag_of_parts(tmp_path / "b\x1b[2J\n", 1, ["part_0.mcap", f"gone {hostile}"], samples)
    content = write_mcap(folder / hostile, samples, "none").read_bytes()
    (folder / hostile).write_bytes(content[: len(content) // 2])
    missing = tmp_path / "no\x1b[2J\nthing"
    for words, code in (
        *((["inspect", path], 0) for path in (folder, folder / hostile)),
        *((["inspect", path], 2) for path in (missing, folder / hostile / "x")),
        (["evaluate", folder], 2),
    ):
        outcome = command(*words)
        assert outcome.code == code, outcome.error
        assert all(line.isprintable() for line in (outcome.out + outcome.error).split("\n"))
        assert not code or outcome.error.count("\n") == 1


def recorded(name: str, path: Path, duration_s: float = 3.0) -> Path:
    robot: Any = find_robot(name)
    scenario, described = next(iter(robot.scenarios.items()))
    variant = next(iter(described.variants), "")
    simulate_to_bag(robot, robot.configuration_type(), scenario, variant, duration_s, 1, path)
    return path


def rewritten(bag: Path, path: Path, change: Callable[[str, int, bytes], bytes]) -> Path:
    """The bag with other bytes: `change` is given topic, number of the message on it, and its bytes."""
    counts: dict[str, int] = {}
    with open_bag(bag) as old, BagWriter(path, custom_data=old.custom_data) as new:
        for raw in old.messages():
            counts[raw.topic] = counts.get(raw.topic, -1) + 1
            data = change(raw.topic, counts[raw.topic], raw.data)
            new.write_serialized(raw.topic, old.topics[raw.topic].message_type, raw.log_time_ns, data)
    return path


def test_tails_and_dead_messages_that_no_filter_hears_change_no_figure_and_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third message has no tail, the others four or eight bytes that mean nothing."""
    monkeypatch.setattr(run_folder, "write_plots", lambda *_: None)
    dead = "/hopper/leg/state"

    def spoil(topic: str, number: int, data: bytes) -> bytes:
        return data[:-9] if topic == dead else data + b"\x7f\xf0\x01\xff" * (number % 3)

    plain = recorded("hopper", tmp_path / "plain")
    bag, run = rewritten(plain, tmp_path / "spoilt", spoil), tmp_path / "run"
    before = evaluate_bag(plain, EvaluateOptions(robot="hopper"), keep=None).result
    outcome = command("evaluate", bag, "--robot", "hopper", "--output", run)
    assert outcome.code == 0, outcome
    assert json.loads((run / "metrics.json").read_text()) == json.loads(to_json(before.metrics))
    with open_bag(plain) as opened:
        counts = {topic: found.count for topic, found in opened.topics.items()}
    tailed = {topic: count - (count + 2) // 3 for topic, count in counts.items() if topic != dead}
    said = {f"{topic}: {count} messages carry up to 8 bytes behind their end" for topic, count in tailed.items()}
    said.add(f"{dead}: {counts[dead]} messages left out: does not decode as sensor_msgs/msg/JointState.")
    notes = json.loads((run / "run.json").read_text())["notes"]
    assert {note.partition(", as rmw_fastrtps")[0] for note in notes if note not in before.notes} == said
    assert all(one in " ".join(outcome.out.split()) and one in (run / "report.html").read_text() for one in said)
    found = inspect_bag(bag)
    (finding,) = [one for one in found.findings if "bytes behind their end" in one.text]
    assert finding.severity == "note"
    assert {topic.name: (topic.undecodable, topic.tailed) for topic in found.topics} == {
        topic: (0, tailed[topic]) if topic != dead else (counts[dead], 0) for topic in counts
    }


@pytest.mark.usefixtures("without_pictures")
def test_dead_truth_is_said_where_a_trajectory_is_judged(tmp_path: Path) -> None:
    """Which reads no sensor of the robot's."""
    topic = "/strapdown/ground_truth/foot/pose"

    def kill(name: str, number: int, data: bytes) -> bytes:
        return data[:30] if name == topic and number % 2 else data

    plain = recorded("strapdown", tmp_path / "plain")
    bag = rewritten(plain, tmp_path / "dead", kill)
    with open_bag(bag) as opened:
        count = opened.topics[topic].count
    options = EvaluateOptions(trajectory=topic, truth=bag)
    notes = evaluate_trajectory(plain, options, tmp_path / "run").result.notes
    assert f"{topic}: {count // 2} messages left out: does not decode as geometry_msgs/msg/PoseStamped." in notes
