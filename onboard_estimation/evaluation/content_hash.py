"""SHA-256 of what a run was made of, worked out while the recording is read and filtered."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def content_hashes(inputs: Mapping[str, Path | None]) -> Iterator[Future[dict[str, str]]]:
    """Hashes of some files or folders, by role, from a thread beside; leaving the block ends the thread.

    A bag of an hour takes seconds, in which Python is free for other work. `Future.result` waits for them, and raises
    OSError where a file cannot be read.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(1, "content hashes") as pool:
        try:
            yield pool.submit(lambda: {role: content_hash(path, stop) for role, path in inputs.items() if path})
        finally:
            stop.set()
