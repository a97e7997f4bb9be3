"""Errors that a user can mend: one clear line with numbers and a way out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

EXIT_BAD_INPUT = 2
"""Exit code of commands and nodes on bad input or wrong usage."""
EXIT_NOT_JUDGED = 3
"""Of an evaluation in which estimates and truth together cover too little of the recording."""
_LONGEST_NAME, _LONGEST_LINE = 80, 4000


def printable(text: str, replacement: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """Without control characters and ends of lines: terminals obey them, fonts have no glyph for them."""
    return "".join(character if character.isprintable() else replacement for character in text)


def short(text: str) -> str:
    """Printable, and no longer than a name is: one that stands in a file may have any length."""
    return printable(text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}\N{HORIZONTAL ELLIPSIS}")


def first_of(words: Sequence[str], most: int, between: str = ", ", rest: str = " and {} more") -> str:
    """The first of many in a row, and how many more there are."""
    return between.join(words[:most]) + (rest.format(len(words) - most) if len(words) > most else "")


class UserError(Exception):
    """Bad input or wrong usage. The command line prints the message as one line and exits with code 2.

    Names of files and topics that the message quotes cannot write to the terminal, nor break the line, nor fill the
    screen: of what is too long the middle is left out. `details` stand below the message, a line each.
    """

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join(printable(_without_middle(line)) for line in (message, *details)))


def _without_middle(line: str) -> str:
    half = _LONGEST_LINE // 2
    return line if len(line) <= _LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"


@contextmanager
def said_of(what: object) -> Iterator[None]:
    """Errors within are said as of this, a recording or a file; those that name it already stay as they are."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error) if str(error).startswith(str(what)) else f"{what}: {error}") from error


def disk_fault(error: Exception, place: Path) -> str:
    """Why something could not be written, with what is free where it was to be: `no space left on device (3 MB free)`.

    Parameters
    ----------
    error
        An OSError, or one of sqlite3's.
    place
        A path on the same disk; it need not exist.
    """
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    reason = reason[:1].lower() + reason[1:]
    for folder in (place.absolute(), *place.absolute().parents):
        try:
            return f"{reason} ({shutil.disk_usage(folder).free / 1e6:.1f} MB free in {folder})"
        except OSError:
            continue
    return reason
