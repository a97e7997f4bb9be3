"""Refusing, before the work, a recording whose numbers do not fit into the memory that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from onboard_estimation.base.errors import UserError
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.replay import LARGE_STATE

_FILES = {"memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"), "": ("memory.max", "memory.current")}
"""Limit and use of a control group, of version 1 and 2."""


def estimate_bytes(space: StateSpace) -> int:
    """What an estimate takes at least until it is judged: stamp and time, mean and truth, covariance; of each dimension
    error, standard deviation and a share of the NEES. Nothing of a large state, of which not all estimates are kept.
    """
    if space.dimension > LARGE_STATE:
        return 0
    return 8 * (2 + 2 * len(space.origin()) + space.dimension**2 + 3 * space.dimension)


def refuse_too_large(name: str, messages: int, needed_bytes: int, free_bytes: int | None = None) -> None:
    """Raise UserError where not even what surely is needed is free.

    Parameters
    ----------
    free_bytes
        None: what this machine has, see `free_memory_bytes`; where nobody tells, nothing is refused.
    """
    free = free_memory_bytes() if free_bytes is None else free_bytes
    if free is not None and needed_bytes > free:
        raise UserError(
            f"{name} is too long for this machine: its {messages:,} messages and their estimates take at least "
            f"{1e-9 * needed_bytes:.2g} GB of memory, {1e-9 * free:.2g} GB are free. Cut it (ros2 bag convert, with "
            "start_time_ns and end_time_ns in its output options), leave sensors out (--drop), or free memory"
        )


def free_memory_bytes(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The least that the system and the control groups of this process leave; None where neither tells.

    Swap, and what a group holds of files, can be had as well.
    """
    free = list(_left_by_groups(proc, groups))
    with suppress(OSError):
        found = re.findall(r"^(?:MemAvailable|SwapFree): +(\d+) kB", (proc / "meminfo").read_text(), re.MULTILINE)
        free += [1024 * sum(map(int, found))] if found else []
    return min(free, default=None)


def _left_by_groups(proc: Path, groups: Path) -> Iterator[int]:
    with suppress(OSError):
        for _, kind, path in (line.split(":", 2) for line in (proc / "self/cgroup").read_text().splitlines()):
            if kind not in _FILES:
                continue
            limit, used = _FILES[kind]
            for folder in (place := groups / kind / path.strip("/"), *place.parents):
                with suppress(OSError, ValueError):  # "max": none
                    stat = (folder / "memory.stat").read_text()
                    held = re.search(r"^(?:file|total_cache) (\d+)$", stat, re.MULTILINE)
                    left = int((folder / limit).read_text()) - int((folder / used).read_text())
                    yield left + (int(held[1]) if held else 0)
