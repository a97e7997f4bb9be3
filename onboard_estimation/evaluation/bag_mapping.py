"""A file as memory, of which no more stays resident than is being read."""

from __future__ import annotations

import mmap
from pathlib import Path

COMPILED_FROM_BYTES = 64 * 2**20
"""A smaller file is indexed before numba is imported."""

_FORGOTTEN_AT_ONCE_BYTES = 64 * 2**20


class MappedFile:
    """A file that is read from its start to its end, perhaps more than once.

    Attributes
    ----------
    view
        The whole file, read-only.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.view = memoryview(self._map)
        self._forgotten = 0

    def forget(self, position: int) -> None:
        """Give back memory that holds the file before this place; it is read again where it is still needed."""
        length = (position - self._forgotten) // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        if length < 0:
            self._forgotten = 0
        elif length >= _FORGOTTEN_AT_ONCE_BYTES and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, self._forgotten, length)
            self._forgotten += length

    def close(self) -> None:
        """Let go of the file; arrays that still look into it keep it open."""
        try:
            self.view.release()
            self._map.close()
        except BufferError:
            pass
