"""Command lines of README.md and docs/, as a reader would copy them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = {
    "dask",
    "ln",
    "mkdir",
    "sudo",
    "onboard-estimation",
    "make",
    "ros2",
    "python",
    "python3",
    "pip",
    "cd",
    "git",
    "source",
    "export",
    "npm",
    "esptool",
    "mpremote",
}


@dataclass(frozen=True)
class Line:
    """A command: the page, its line there, its words; `whole` where it stands in a block and is complete."""

    page: str
    number: int
    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.number}: {' '.join(self.words)}"


def pages(repository: Path) -> list[Path]:
    examples = (repository / "examples").rglob("*.md")
    return [repository / "README.md", *sorted((repository / "docs").glob("*.md")), *sorted(examples)]


def lines(repository: Path, commands: set[str]) -> list[Line]:
    """All command lines; `commands` are those of `onboard-estimation`, which inline code may leave out."""
    return [line for page in pages(repository) for line in _of_page(repository, page, commands)]


def inline_code(page: Path) -> Iterator[tuple[int, str]]:
    """(number of the line, text) of each piece of code within text and tables."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("    "):
            for code in re.findall(r"`([^`]+)`", line):
                yield number, code.replace("\\|", "|")


def _of_page(repository: Path, page: Path, commands: set[str]) -> Iterator[Line]:
    name = page.relative_to(repository).as_posix()
    for block in _blocks(page):
        words = [(number, part) for number, line in block for part in _commands(line)]
        if any(part[0] in PROGRAMS for _, part in words):  # not an equation, nor Python
            yield from (Line(name, number, part, whole=True) for number, part in words)
    for number, code in inline_code(page):
        # `topic list|echo` names several at once.
        for part in _commands(code) if "|" not in code else ():
            if part[0] in PROGRAMS and len(part) > 1:
                yield Line(name, number, part, whole=False)
            elif part[0] in commands and len(part) > 1 and not part[1].startswith("("):
                yield Line(name, number, ("onboard-estimation", *part), whole=False)


def _blocks(page: Path) -> Iterator[list[tuple[int, str]]]:
    """Indented blocks and fenced ones that are not Python: their numbered lines."""
    block: list[tuple[int, str]] = []
    fence, before = "", ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fence = "" if fence else line
        elif "python" not in fence and (fence or (line.startswith("    ") and (block or not before.strip()))):
            block.append((number, line.strip()))
        elif block:
            yield block
            block = []
        before = line
    if block:
        yield block


def _commands(line: str) -> Iterator[tuple[str, ...]]:
    """Words of each command of a line, without comment and without what stands for something left out."""
    try:
        words = shlex.split(line.replace("<this repository>", "REPOSITORY"), comments=True)
    except ValueError:  # an apostrophe in an equation
        return
    part: list[str] = []
    for word in [*words, "&&"]:
        if word == "&&":
            if part:
                yield (part[0].removeprefix(".venv/bin/"), *part[1:])
            part = []
        elif not word.startswith("[") and word != "...":
            part.append(word.removesuffix("..."))
