"""Files of whoever, read within bounds: what is no regular file may block or never end, what is large takes all memory.

What then parses them in C or C++ is bounded as follows. sqlite3, NumPy's `.npy`, zstandard, lz4 and bz2 read what was
checked before: no journal of the file's own, sizes that fit the bytes that are there, output up to a limit
(`bags.sqlite`, `learning.model_file`, `bags.blocks`). YAML is read by PyYAML's own Python and not by libyaml, MCAP's
records by Python, JSON by Python's scanner within these bounds; XML is written and never read. Only HEBI's library is
known to abort on a damaged file: it runs in a process of its own (`drivers.hebi.log`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from onboard_estimation.base.errors import UserError

MOST_TEXT_BYTES = 16 * 2**20
"""Of a file of parameters, settings or results."""
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, to be read.

    Raises
    ------
    OSError
        It is none, or cannot be opened; `strerror` says why.
    """
    # Some devices do something when they are opened. Should it become a pipe now, this does not wait for a writer.
    _refuse_others(path, path.stat().st_mode)
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    try:
        _refuse_others(path, os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def _refuse_others(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS[stat.S_IFMT(mode)]}, not a file", str(path))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What is done within reads it; UserError where that fails."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def read_bounded(path: Path, where: str, most_bytes: int = MOST_TEXT_BYTES, if_absent: str = "") -> bytes:
    """All bytes of a regular file.

    Parameters
    ----------
    where
        Begin of sentences, with the path.
    if_absent
        What is to be done where there is no such file.

    Raises
    ------
    UserError
        It cannot be read, is no regular file, or has more bytes than allowed.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            # One of /proc tells no size.
            content = file.read(most_bytes + 1) if size <= most_bytes else b""
    except OSError as error:
        if if_absent and isinstance(error, FileNotFoundError):
            raise UserError(f"{where}: there is no such file; {if_absent}") from None
        raise UserError(f"{where}: cannot be read: {error.strerror or error}") from error
    if max(size, len(content)) > most_bytes:
        raise UserError(f"{where}: has {max(size, len(content)):,} bytes, more than the {most_bytes:,} that are read")
    return content


def read_bounded_text(path: Path, where: str, most_bytes: int = MOST_TEXT_BYTES, if_absent: str = "") -> str:
    """As `read_bounded`, of a text in UTF-8."""
    try:
        return read_bounded(path, where, most_bytes, if_absent).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: is no UTF-8 text (byte {error.start})") from error
