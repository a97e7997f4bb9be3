"""SHA-256 of what a run was made of, worked out while the recording is read and filtered."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal

_PIECE_BYTES = 1 << 20


def content_hash(path: Path, stop: threading.Event | None = None) -> str:
    """SHA-256, hexadecimal, of a file, or of all files of a folder with their names; empty where it was stopped."""
    digest = hashlib.sha256()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        digest.update(file.relative_to(path).as_posix().encode() if path.is_dir() else b"")
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE_BYTES):
                digest.update(piece)
                if stop is not None and stop.is_set():
                    return ""
    return digest.hexdigest()


class ContentHashes:
    """Hashes of some files or folders, by role, from a thread beside; a context manager that ends the thread.

    A bag of an hour takes seconds, in which Python is free for other work.
    """

    def __init__(self, inputs: Mapping[str, Path]) -> None:
        self._inputs = dict(inputs)
        self._found: dict[str, str] = {}
        self._fault: OSError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="content hashes", daemon=True)
        self._thread.start()

    def __enter__(self) -> ContentHashes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self._stop.set()
        self._thread.join()
        return False

    def result(self) -> dict[str, str]:
        """Hash by role, as soon as all are there; OSError where a file cannot be read."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault
        return self._found

    def _work(self) -> None:
        try:
            for role, path in self._inputs.items():
                self._found[role] = content_hash(path, self._stop)
        except OSError as error:
            self._fault = error
