"""Errors that a user can mend: one clear line with numbers and a way out."""

from __future__ import annotations

EXIT_BAD_INPUT = 2
"""Exit code of commands and nodes on bad input or wrong usage."""


class UserError(Exception):
    """Bad input or wrong usage. The command line prints the message as one line and exits with code 2."""
