"""What a recorder that was killed left beside a sqlite3 file: a journal of changes to take back, or a log of messages.

Both have to be worked into the file before it is read: with a rollback journal (`-journal`) there, the file holds rows
that were never committed, and lacks others; a write-ahead log (`-wal`) holds the last messages. sqlite3 does that when
it opens them; a user's recording is left as it is, so it happens to a copy.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from onboard_estimation.errors import printable
from onboard_estimation.evaluation.bag_blocks import BlockError, FileBytes, is_regular

_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_FREE_SHARE = 0.5
_TRIES = 3


def without_log(file: FileBytes, stack: ExitStack) -> tuple[FileBytes, list[str]]:
    """The file itself where nothing is beside it, else a copy that holds what was committed; and what is to be said.

    `stack` removes the copy.

    Raises
    ------
    BlockError
        There is no room for a copy, or the recorder is still writing.
    """
    journal, log = (file.path.with_name(file.path.name + suffix) for suffix in ("-journal", "-wal"))
    beside = [path for path in (journal, log) if _is_open(path)]
    if not beside:
        return file, []
    names = " and ".join(printable(path.name) for path in beside)
    copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bag-"))) / "bag.db3"
    most = _copy(file.path, beside, copy)
    try:
        _take_over(copy, most)
    except sqlite3.Error as error:
        lost = (
            "messages that were never committed may be among those read"
            if journal in beside
            else "messages are missing"
        )
        return file, [f"{names} cannot be used ({error}): {lost}"]
    taken = "what was not committed was taken back with" if journal in beside else "its last messages were taken from"
    found = FileBytes(copy, file.path.name)
    stack.callback(found.close)
    return found, [f"{file.name} was not closed ({taken} {names})"]


def _is_open(path: Path) -> bool:
    """Whether a journal or log holds something: a journal that is over has its header overwritten, or no length."""
    if not is_regular(path):
        return False
    with path.open("rb") as file:
        start = file.read(len(_JOURNAL_MAGIC))
    return start == _JOURNAL_MAGIC if path.name.endswith("-journal") else bool(start)


def _copy(path: Path, beside: list[Path], copy: Path) -> int:
    """Copy a database and what is beside it, as they were at one moment; gives how many bytes they have."""
    sources = {path: copy} | {
        source: copy.with_name(copy.name + source.name.removeprefix(path.name)) for source in beside
    }
    for _ in range(_TRIES):
        before = [source.stat() for source in sources]
        size = sum(state.st_size for state in before)
        if size > shutil.disk_usage(copy.parent).free * _FREE_SHARE:
            raise BlockError(f"its copy needs more than half of the space that is left in {copy.parent.parent}")
        for source, target in sources.items():
            shutil.copyfile(source, target)
        if [(state.st_size, state.st_mtime_ns) for state in before] == [
            (state.st_size, state.st_mtime_ns) for state in map(Path.stat, sources)
        ]:
            return size
    raise BlockError("it is being written to; stop the recorder first")


def _take_over(copy: Path, most: int) -> None:
    """Let sqlite3 work the journal or log into the copy; sqlite3.Error where it cannot."""
    journal = copy.with_name(copy.name + "-journal")
    if journal.exists():
        # A journal may end in the name of a further file, which sqlite3 removes, whatever that is. With one byte more,
        # it does not look there; rosbag2 writes no such name.
        with journal.open("ab") as file:
            file.write(b"\0")
    with closing(sqlite3.connect(copy)) as database:
        # Without this, sqlite3 refuses a file that is shorter than its header says.
        database.execute("PRAGMA writable_schema = ON")
        database.execute("PRAGMA schema_version").fetchone()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if copy.stat().st_size > most:
        raise sqlite3.DatabaseError("it makes the file larger than the two were")
