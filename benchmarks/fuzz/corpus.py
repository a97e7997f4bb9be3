"""The inputs that the tests keep: a line of hexadecimal digits each, so that a change of one can be read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "test" / "fuzz_corpus"
_MOST_CHARACTERS = 11_000  # a target: files of the tests stay small, 100 kB in all


def kept(name: str) -> list[bytes]:
    """Of a target; none where there is no file."""
    path = FOLDER / f"{name}.hex"
    return [bytes.fromhex(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(name: str, inputs: Iterable[bytes]) -> Path:
    """In place of those kept; the short ones first, as many as fit."""
    path, text = FOLDER / f"{name}.hex", ""
    for data in sorted(set(inputs) - {b""}, key=lambda one: (len(one), one)):
        line = f"{data.hex()}\n"
        if len(text) + len(line) > _MOST_CHARACTERS:
            break
        text += line
    path.write_text(text)
    return path
