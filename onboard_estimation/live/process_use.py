"""What processes take of a machine, from Linux's /proc: time on the cores, resident memory."""

from __future__ import annotations

import os
from pathlib import Path

_IDLE = slice(3, 5)
"""Columns of /proc/stat in which no core works: idle, and waiting for a disk."""


def cpu_s(pid: int) -> float:
    """Time on a core that a process used so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def busy_s() -> float:
    """Time that all cores worked since the machine started, and, where it is a virtual one, were given to others."""
    first = Path("/proc/stat").read_text().partition("\n")[0]
    # user, nice, system, idle, waiting, interrupts, soft interrupts, stolen; guests are within user and nice
    ticks = [int(word) for word in first.split()[1:9]]
    return (sum(ticks) - sum(ticks[_IDLE])) / os.sysconf("SC_CLK_TCK")
