"""What a node needs to start and not to run: pages of libraries, half of what a node holds resident.

LLVM links the kernels when a node starts, and is not called again; of Fast DDS, NumPy and Python much is used once too.
Those pages, 110 MB that were read from the libraries' files by then, would be counted as the node's as long as it runs,
and be the last that the system drops when memory is short. Given back, they are parts of files that were read: they go
first, and what is called again, 7 MB, comes back at once.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_DO_NOT_NEED = 4  # MADV_DONTNEED, in Linux on every processor but Alpha
_READ_ONLY = ("r--p", "r-xp")
_CHANGED = ("Anonymous", "Private_Dirty", "Shared_Dirty", "Swap")


def release_libraries() -> None:
    """Give the pages of libraries back to the system, which reads them from their files where they are needed again.

    Only what is mapped read-only and is as in the file: what the loader or a debugger has changed stays. Does nothing
    where the system is not Linux or does not tell.
    """
    if sys.platform != "linux":
        return
    try:
        with Path("/proc/self/smaps").open(encoding="utf-8", errors="replace") as lines:
            ranges = list(unchanged_ranges(lines))
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError, ValueError):
        return
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, length in ranges:
        advise(start, length, _DO_NOT_NEED)


def unchanged_ranges(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Address and length of what is mapped read-only from files and not changed, by lines of `smaps`."""
    current: tuple[int, int] | None = None
    known: set[str] = set()
    for line in lines:
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):  # a new mapping: range, rights, offset, device, inode, file
            if current is not None and known.issuperset(_CHANGED):
                yield current
            current, known = None, set()
            if len(rest) == 5 and rest[0] in _READ_ONLY and rest[4].startswith("/"):
                start, end = (int(word, 16) for word in first.split("-"))
                current = (start, end - start)
        elif current is not None and first[:-1] in _CHANGED:
            known.add(first[:-1])
            if rest[0] != "0":
                current = None
    if current is not None and known.issuperset(_CHANGED):
        yield current
