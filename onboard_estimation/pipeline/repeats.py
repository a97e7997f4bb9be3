"""Readings that a sensor gives again: frozen is not fresh."""

from __future__ import annotations

from typing import NamedTuple


class Repeats(NamedTuple):
    """Of one sensor, a value as states are.

    Attributes
    ----------
    content
        Of its last reading; equal bytes are the same reading, NaN and all. Empty: there was none.
    in_a_row
        Readings up to the last that repeat the one before.
    """

    content: bytes = b""
    in_a_row: int = 0

    def heard(self, content: bytes) -> Repeats:
        """After one more reading."""
        return Repeats(content, self.in_a_row + 1 if content == self.content else 0)
