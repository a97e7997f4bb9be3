"""Changes of a bag's folder for `fuzz_bags`: of its metadata.yaml, and of which files are there under which name."""

from __future__ import annotations

import re
from random import Random

from benchmarks.fuzz_bags_bytes import change_bytes, change_items
from benchmarks.fuzz_bags_seeds import METADATA, Files

_VALUES = (
    "",
    "0",
    "-1",
    "1e300",
    ".nan",
    "0x" + "F" * 400,
    "9" * 5000,
    "2026-13-45",
    "[]",
    "{}",
    "[1, 2]",
    "{a: b}",
    "null",
    "true",
    "'text'",
    '"\\e[31m\\n"',
    "!!python/object/apply:os.getcwd []",
    "!!binary AAAA",
    "&a [*a]",
    "*missing",
    "~" * 300,
    "../../etc/passwd",
    "a.mcap",
    "a.db3",
    "a_0.mcap",
    METADATA,
    "message",
    "MESSAGE",
    "file",
    "zstd",
)


def change_metadata(content: bytes, rng: Random) -> bytes:
    """Change some bytes, some lines, or the value of a key."""
    kind = rng.random()
    if kind < 0.25:
        return change_bytes(content, rng)
    lines = content.decode().splitlines()
    if kind < 0.5:
        change_items(lines, rng)
    elif kind < 0.55:
        lines.append("a: &a [" + "[], " * 9 + "]")
        lines += [f"{new}: &{new} [" + f"*{old}, " * 9 + "]" for old, new in zip("abcdefg", "bcdefgh", strict=True)]
    else:
        place = rng.randrange(len(lines))
        lines[place] = re.sub(r"(?<=[:-]) [^{]*$", lambda _: " " + rng.choice(_VALUES), lines[place], count=1)
    return ("\n".join(lines) + "\n").encode()


def change_folder(files: Files, rng: Random) -> Files:
    """Remove, double, rename or empty a file."""
    changed = dict(files)
    name = rng.choice(list(files))
    kind = rng.randrange(6)
    if kind == 0 and len(changed) > 1:
        del changed[name]
    elif kind == 1 and name != METADATA:
        changed[rng.choice(("b_7", "a_9", "0", "\x1b[31m", "x" * 100)) + name] = changed[name]
    elif kind == 2:
        changed[rng.choice(("other", "a\nb", "caf\u00e9")) + name] = changed.pop(name)
    elif kind == 3:
        changed[name] = b""
    elif kind == 4:
        changed[name] = rng.choice(list(files.values()))
    else:
        changed[rng.choice(("note.txt", "a.mcap-wal", "a.db3-journal", "a.db3-wal"))] = changed[name]
    return changed
