"""Text of unknown origin, for a line that a person reads: names of files and topics, what a bag says of itself."""

from __future__ import annotations


def printable(text: str, replacement: str = "\N{REPLACEMENT CHARACTER}") -> str:
    """Without control characters and ends of lines: terminals obey them, fonts have no glyph for them."""
    return "".join(character if character.isprintable() else replacement for character in text)
