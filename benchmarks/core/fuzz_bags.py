"""Bags with changed bytes: our reader against the readers of `mcap`, `rosbags` and sqlite3, every message compared.

Valid bags of every format and kind, and those of `test/onboard/bags/corpus`, which a fuzzer that knew the formats
has made sound but odd, are changed without a look at what the bytes mean; what lies compressed is changed within.
What has to hold is in `bag_judge`.
"""

from __future__ import annotations

import bz2
import io
import re
import struct
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lz4.frame  # type: ignore[import-untyped]
import zstandard
from rich.console import Console

from benchmarks.core.bag_cases import Case, Files, make_case, scratch_folder, seeds
from benchmarks.core.bag_references import Message, Reading, read_references
from benchmarks.fuzzing import PLACES, Draw, Session, Target
from onboard_estimation.bags import blocks as bag_blocks
from onboard_estimation.bags import mcap_files as bag_mcap
from onboard_estimation.bags import sqlite as bag_sqlite
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.base.errors import UserError
from onboard_estimation.inspection.inspect import inspect_bag, render

Counts = Counter[Message]

AS_REFERENCE, MORE, SAID, REFUSED = "as reference", "more than reference", "said damaged", "refused"

_CLAIM = re.compile(r"readable are [\d,]+ of [\d,]+ \(100\.0%\)")
_LOSS = re.compile(r"readable are [\d,]+ of [\d,]+ \(|left out|belong to no topic")
_ALL = re.compile(r"\b100\.0% of")
_COMPRESSED = re.compile(rb"\x28\xb5\x2f\xfd|\x04\x22\x4d\x18|BZh")
_JOURNAL = b"\xd9\xd5\x05\xf9"
_MOST_UNPACKED_BYTES = 2**22


@dataclass
class Ours:
    """What our reader delivered; `refused` is the sentence of its `UserError`."""

    messages: list[Message] = field(default_factory=list)
    damage: str = ""
    refused: str = ""
    texts: list[str] = field(default_factory=list)
    block_messages: list[Message] | None = None


@dataclass
class Judgement:
    """A class, and the kinds of rules that were broken, each with what happened."""

    outcome: str
    findings: dict[str, str] = field(default_factory=dict)


def read_ours(path: Path, deep: bool) -> Ours:
    """Open the bag and read all its messages; `deep`: in all ways."""
    ours = Ours()
    try:
        with open_bag(path) as bag:
            ours.damage = bag.damage or ""
            topics = list(bag.topics.values())
            ours.texts = [ours.damage, bag.distribution or "", *bag.topics, *(topic.message_type for topic in topics)]
            raws = list(bag.messages())
            ours.messages = [(raw.topic, raw.log_time_ns, raw.data) for raw in raws]
            counts = {topic.name: topic.count for topic in topics if topic.count}
            assert Counter(raw.topic for raw in raws) == counts, "messages are not as many as their topics say"
            if deep:
                ours.block_messages = _from_blocks(bag)
                for raw in raws:
                    with suppress(UserError):  # a message that is none may be refused
                        bag.deserialize(raw)
                for topic in bag.topics:
                    ours.texts.append(bag.encoding(topic))
                    bag.is_standard(topic), bag.has_header(topic)
        if deep:
            console = Console(file=io.StringIO(), width=200)
            with console.capture() as capture:
                console.print(render(inspect_bag(path)))
            ours.texts += capture.get().splitlines()
    except UserError as error:
        ours.refused = str(error) or "(no reason given)"
        ours.texts.append(str(error))
    return ours


def read_in_pieces(path: Path) -> Ours:
    """The same as `read_ours`, in blocks of a few messages, as of a large file, and windows of a few bytes."""
    few = [patch.object(module, "BLOCK_MESSAGES", 3) for module in (bag_mcap, bag_sqlite)]
    with patch.object(bag_blocks, "_WINDOW_BYTES", 64), few[0], few[1]:
        return read_ours(path, False)


def _from_blocks(bag: Any) -> list[Message]:
    """All messages, read in bulk, in log order."""
    names = list(bag.topics)
    found = []
    for block in bag.blocks(names):
        data = block.buffer.tobytes()
        columns = (block.topics, block.log_times_ns, block.starts, block.lengths, block.order)
        for topic, stamp, start, length, order in zip(*(column.tolist() for column in columns), strict=True):
            found.append((order, (names[topic], stamp, data[start : start + length])))
    return [message for _, message in sorted(found, key=lambda entry: entry[0])]


def judge(case: Case, ours: Ours, references: list[Reading], originals: list[Message]) -> Judgement:
    """Hold what we delivered against the rules 1 to 4."""
    findings = {}
    if bad := next((text for text in ours.texts if not text.isprintable()), None):
        findings["prints control characters"] = repr(bad)
    if ours.refused:
        for reference in references[:1] if case.bag_format != "ros1" else references:
            beyond = any(stamp >= 2**63 for _, stamp, _ in reference.messages)
            beyond |= "only version 2.0" in ours.refused  # of which rosbags takes any character for the point
            if reference.messages and not reference.error and not beyond:
                findings["refuses what a reference reads"] = f"{reference.reader}: {ours.refused}"
        return Judgement(REFUSED, findings)
    sets = _comparable([ours.messages, originals, *(reference.messages for reference in references)], case.bag_format)
    delivered, original, *theirs = map(Counter, sets)
    lost = original - delivered
    if sets[0] != sorted(sets[0], key=lambda message: message[1]):
        findings["is not in log order"] = ""
    if invented := _invented(delivered, [original, *theirs], case):
        findings["delivers what is not in the file"] = repr(invented)
    if ours.damage:
        claims_all = _ALL.search(ours.damage) and not _LOSS.search(ours.damage)
        if len(ours.messages) < len(originals) and (
            _CLAIM.search(ours.damage) or (claims_all and any(lost & messages for messages in theirs))
        ):
            findings["claims 100 % with messages lost"] = f"{sum(lost.values())} lost: {ours.damage}"
        return Judgement(SAID, findings)
    pairs = list(zip(references, theirs, strict=True))
    findings |= _silent_loss(delivered, lost, pairs, len(originals), case)
    as_reference = all(not reference.error and delivered == messages for reference, messages in pairs)
    return Judgement(AS_REFERENCE if as_reference else MORE, findings)


def _silent_loss(
    delivered: Counts, lost: Counts, pairs: list[tuple[Reading, Counts]], originals: int, case: Case
) -> dict[str, str]:
    """What speaks against a bag that we call whole."""
    findings, count = {}, sum(delivered.values())
    can_tell = case.seed.name != "no-index"  # what is cut out of it leaves no trace
    for number, (reference, messages) in enumerate(pairs):
        name = reference.reader
        # An index can name one message twice, and hold other stamps than the messages themselves.
        missing = messages - delivered if number == 0 and name != "rosbags" else _unknown(messages, delivered)
        if missing:
            findings[f"silently lacks messages of {name}"] = f"{sum(missing.values())} of {sum(messages.values())}"
        elif reference.error and count < originals and can_tell:
            findings[f"silently lost where {name} fails"] = f"{sum(lost.values())} lost, {reference.error}"
        if reference.declared is not None and reference.declared > count:
            findings[f"silently less than declared to {name}"] = f"{count} of {reference.declared}"
        if reference.unusable and count < originals:
            findings[f"silently drops rows of {name}"] = f"{reference.unusable} rows"
    first, messages = pairs[0]
    if not first.error and first.reader != "rosbags" and (extra := delivered - messages):
        findings[f"silently more than {first.reader}"] = f"{sum(extra.values())} more"
    return findings


def _unknown(messages: Counts, delivered: Counts) -> Counts:
    known = {(topic, data) for topic, _, data in delivered}
    return Counter({message: count for message, count in messages.items() if (message[0], message[2]) not in known})


def _comparable(lists: list[list[Message]], bag_format: str) -> list[list[Message]]:
    """Messages whose topics can be compared: as ROS 1 names them alike, or without where names were made printable."""
    plain = all(topic.isprintable() and len(topic) < 200 for messages in lists[1:] for topic, _, _ in messages)

    def named(topic: str) -> str:
        if not plain:
            return ""
        return "/" + "/".join(part for part in topic.split("/") if part) if bag_format == "ros1" else topic

    return [[(named(topic), stamp, data) for topic, stamp, data in messages] for messages in lists]


def _invented(delivered: Counts, known: list[Counts], case: Case) -> list[Message]:
    """Messages that nobody wrote, or more of them than were written."""
    suspects = {one: count for one, count in delivered.items() if count > max(messages[one] for messages in known)}
    places = list(_all_bytes(case.files)) if suspects else []
    return [message for message, count in suspects.items() if _occurrences(message, places, case.bag_format) < count]


def _occurrences(message: Message, places: list[bytes], bag_format: str) -> int:
    _, stamp, data = message
    if bag_format == "sqlite3" and len(places) > 1 and any(place.startswith(_JOURNAL) for place in places):
        return 2**31  # pages put together of two files
    if bag_format == "sqlite3":  # long data goes on in other pages
        return sum(place.count(data[:16]) for place in places) if data else 2**31
    if bag_format == "mcap":
        pattern = re.escape(struct.pack("<Q", stamp)) + b".{8}" + re.escape(data)
        pattern = re.escape(struct.pack("<Q", 22 + len(data))) + b".{6}" + pattern
    else:
        pattern = re.escape(struct.pack("<I", len(data)) + data)
    return sum(len(re.findall(b"(?=" + pattern + b")", place, re.DOTALL)) for place in places)


def _all_bytes(files: Files) -> Iterator[bytes]:
    """The files, and whatever can be decompressed from any place in them."""
    left = list(files.values())
    while left:
        content = left.pop()
        yield content
        left += filter(None, (_unpacked(content[found.start() :]) for found in _COMPRESSED.finditer(content)))


def _unpacked(data: bytes) -> bytes:
    """What there is of compressed data, however it goes on."""
    reader: Any = lz4.frame.LZ4FrameDecompressor()
    if data.startswith(b"BZh"):
        reader = bz2.BZ2Decompressor()
    elif data.startswith(b"\x28"):
        reader = zstandard.ZstdDecompressor().decompressobj()
    found = b""
    with suppress(Exception):  # any damage
        for byte in data:  # one by one, so that damage behind a block does not take the block away
            found += reader.decompress(bytes([byte]))
            if len(found) > _MOST_UNPACKED_BYTES or getattr(reader, "eof", False):
                break
    return found


FORMATS = PLACES[__name__]
_DEEP_EVERY, _IN_PIECES_EVERY = 64, 8


@cache
def originals(bag_format: str) -> dict[str, list[Message]]:
    """The messages of every valid bag, by its name; all readers have to agree on them."""
    found = {}
    with scratch_folder() as folder:
        for name, seed in seeds(bag_format).items():
            ours, references = read_case(Case(bag_format, 0, seed, seed.files), folder, deep=True)
            for reference in references:
                same = Counter(reference.messages) == Counter(ours.messages) and not reference.error
                if not same and not any(one.endswith(("-wal", "-journal")) for one in seed.files):
                    raise ValueError(f"{bag_format} {name} is not valid to {reference.reader}: {reference.error}")
            found[name] = references[0].messages
    return found


def read_case(case: Case, folder: Path, deep: bool = False) -> tuple[Ours, list[Reading]]:
    """What we and the references read; `folder` is emptied before."""
    files, copies = _emptied(folder / "files"), _emptied(folder / "copies")
    ours = read_ours(case.write(files), deep)
    return ours, read_references(case, files, copies)


def run_case(case: Case, folder: Path) -> Judgement:
    """What our reader makes of it, in several ways, and whether that is right."""
    deep, in_pieces = case.number % _DEEP_EVERY == 0, case.number % _IN_PIECES_EVERY == 0
    try:
        path = case.write(_emptied(folder / "files"))
        other = read_in_pieces(path) if in_pieces else None
        ours, references = read_case(case, folder, deep)
    except Exception as error:  # whatever our reader let through
        return Judgement("failed", {"an exception": "".join(traceback.format_exception(error))})
    written = originals(case.bag_format)[case.seed.name]
    judgement = judge(case, ours, references, written)
    if other is not None and _differ(ours, other, len(written)):
        readings = (reading.damage or reading.refused or "whole" for reading in (ours, other))
        judgement.findings["small pieces give something else"] = " / ".join(readings)
    if ours.block_messages is not None and ours.block_messages != ours.messages and not ours.refused:
        judgement.findings["blocks hold something else than messages"] = ""
    return judgement


def _differ(ours: Ours, other: Ours, written: int) -> bool:
    """Whether the other reading has other messages, or says nothing of lost ones."""
    if ours.messages != other.messages or bool(ours.refused) != bool(other.refused):
        return True
    return bool(ours.damage) != bool(other.damage) and len(ours.messages) < written


def _emptied(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    return folder


@cache
def _scratch() -> Path:
    """One folder a process."""
    return _STACK.enter_context(scratch_folder())


_STACK = ExitStack()


class Bags(Session):
    """Of a format; a finding is a rule that is broken."""

    def __init__(self, bag_format: str, _: int) -> None:
        self._format = bag_format

    def make(self, draw: Draw) -> Case:
        """A bag, its files changed."""
        return make_case(self._format, draw[0] << 32 | draw[1])

    def take(self, data: Case) -> str:
        """Read by ours, and by the references."""
        judgement = run_case(data, _scratch())
        assert not judgement.findings, "; ".join(f"{kind}: {detail}" for kind, detail in judgement.findings.items())
        return judgement.outcome


_CODE = ("onboard_estimation/bags/*.py", "onboard_estimation/ros/message_layouts.py")
TARGETS = {name: Target(partial(Bags, name), _CODE, 333_334) for name in FORMATS}
