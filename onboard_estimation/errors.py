"""Errors that a user can mend: one clear line with numbers and a way out."""

from __future__ import annotations

from collections.abc import Sequence

from onboard_estimation.printable import printable

EXIT_BAD_INPUT = 2
"""Exit code of commands and nodes on bad input or wrong usage."""


class UserError(Exception):
    """Bad input or wrong usage. The command line prints the message as one line and exits with code 2.

    Names of files and topics that the message quotes cannot write to the terminal, nor break the line. `details` stand
    below the message, a line each.
    """

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join(printable(line) for line in (message, *details)))
