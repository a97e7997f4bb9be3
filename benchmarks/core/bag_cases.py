"""Bags that are judged: small valid ones of every format and kind, those once read wrongly, and these with changes.

The valid ones were written by our own writer, `mcap`, `rosbags` and sqlite3: lone files, folders, split, compressed by
chunk, message or file, without index or checksums, in small pages, with what a recorder that is killed leaves.
"""

from __future__ import annotations

import bz2
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import lz4.frame  # type: ignore[import-untyped]
import zstandard

from benchmarks.fuzzing import DRAWS, change_bytes

Files = dict[str, bytes]

CORPUS = Path(__file__).parents[2] / "test" / "onboard" / "bags" / "corpus"
"""Folders `format/seed/what is wrong` of files: `valid`, or as a fuzzer found or a person made them."""
METADATA = "metadata.yaml"
_LONE_SHARE, _METADATA_SHARE, _KEPT_SHARE, _WITHIN_SHARE = 0.6, 0.4, 0.3, 0.5
_WORDS = (
    *(b"", b"0", b"-1", b".nan", b"9" * 5000, b"[]", b"{a: b}", b"null", b'"\\e[31m\\n"', b"!!binary AAAA", b"&a [*a]"),
    *(b"../../etc/passwd", b"a.mcap", b"a.db3", b"message", b"file", b"zstd"),
)
_PACKED: dict[bytes, tuple[Callable[[], Any], Callable[[bytes], bytes]]] = {
    b"\x28\xb5\x2f\xfd": (lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.compress),
    b"\x04\x22\x4d\x18": (lz4.frame.LZ4FrameDecompressor, lz4.frame.compress),
    b"BZh": (bz2.BZ2Decompressor, bz2.compress),
}


class Seed(NamedTuple):
    """A valid bag: its files, and which of them is opened (empty: the folder that holds them)."""

    name: str
    files: Files
    entry: str = ""


@dataclass(frozen=True)
class Case:
    """A bag that is judged: the valid one, and its files, which were changed."""

    bag_format: str
    number: int
    seed: Seed
    files: Files
    name: str = ""

    def write(self, folder: Path) -> Path:
        """Write the files into an empty folder; gives the path to open."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder / self.seed.entry if self.seed.entry else folder


@cache
def seeds(bag_format: str) -> dict[str, Seed]:
    """The valid bags of a format (`mcap`, `sqlite3` or `ros1`) by name."""
    found = {}
    for folder in sorted(CORPUS.glob(f"{bag_format}/*/valid")):
        files, name = _files(folder), folder.parent.name
        found[name] = Seed(name, files, "" if METADATA in files else next(iter(files)))
    return found


@cache
def kept_cases(bag_format: str) -> list[Case]:
    """Bags that were once read wrongly."""
    return [
        Case(bag_format, 0, seeds(bag_format)[one.parent.name], _files(one), one.relative_to(CORPUS).as_posix())
        for one in sorted(CORPUS.glob(f"{bag_format}/*/*"))
        if one.name != "valid"
    ]


def _files(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder, in memory where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def make_case(bag_format: str, number: int) -> Case:
    """Case of a random number."""
    rng, known = Random(number), list(seeds(bag_format).values())
    lone = [seed for seed in known if seed.entry]  # a folder's metadata.yaml takes longer than its messages
    seed = rng.choice(lone if rng.random() < _LONE_SHARE else known)
    case = Case(bag_format, number, seed, seed.files)
    if rng.random() < _KEPT_SHARE:
        case = rng.choice(kept_cases(bag_format))
    return Case(bag_format, number, case.seed, _changed(case.files, rng, [*seed.files.values()]))


def _changed(files: Files, rng: Random, others: list[bytes]) -> Files:
    if METADATA in files and rng.random() < _METADATA_SHARE:
        lines = files[METADATA].splitlines()
        place = rng.randrange(len(lines))
        lines[place] = lines[place].partition(b": ")[0] + b": " + rng.choice(_WORDS)
        changed = b"\n".join(lines) if rng.random() < 0.5 else change_bytes(files[METADATA], _draw(rng))
        return {**files, METADATA: changed}
    name = rng.choice([name for name in files if name != METADATA])
    if len(files) > 1 and rng.random() < 0.05:  # gone, or under another name
        rest = {one: content for one, content in files.items() if one != name}
        return rest if rng.random() < 0.5 else {**rest, rng.choice(("other", "a\nb", "x" * 100)) + name: files[name]}
    content = _changed_within(files[name], rng) if rng.random() < _WITHIN_SHARE else None
    return {**files, name: content or change_bytes(files[name], _draw(rng), others)}


def _draw(rng: Random) -> list[int]:
    return [rng.getrandbits(32) for _ in range(DRAWS)]


def _changed_within(content: bytes, rng: Random) -> bytes | None:
    """A block that is compressed, changed and put back where its length stays; None: there is none."""
    if not (blocks := _blocks(content)):
        return None
    start, stop, raw, pack = rng.choice(blocks)
    packed = pack(change_bytes(raw, _draw(rng)))
    return content[:start] + packed[: stop - start].ljust(stop - start, b"\0") + content[stop:]


@cache
def _blocks(content: bytes) -> list[tuple[int, int, bytes, Callable[[bytes], bytes]]]:
    """Begin, end, content of all that is compressed, and what compresses it."""
    found = []
    for sign, (reader, pack) in _PACKED.items():
        start = -1
        while (start := content.find(sign, start + 1)) >= 0:
            one = reader()
            with suppress(Exception):  # it only begins like one
                raw = one.decompress(content[start:])
                if one.eof:
                    found.append((start, len(content) - len(one.unused_data), raw, pack))
    return found
