"""Errors that a user can mend: one clear line with numbers and a way out."""

from __future__ import annotations

from collections.abc import Sequence


def printable(text: str, replacement: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """Without control characters and ends of lines: terminals obey them, fonts have no glyph for them."""
    return "".join(character if character.isprintable() else replacement for character in text)


class UserError(Exception):
    """Bad input or wrong usage. The command line prints the message as one line and exits with code 2.

    Names of files and topics that the message quotes cannot write to the terminal, nor break the line. `details` stand
    below the message, a line each.
    """

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join(printable(line) for line in (message, *details)))
