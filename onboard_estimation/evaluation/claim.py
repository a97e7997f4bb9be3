"""One run to a folder: who comes second learns it before the work, not after it.

A claim is a lock that the operating system gives back when its process ends, however that ends. It lies in the folder
for temporary files, so that nothing is left beside the run; where locks do not work there is no claim, and the check
when the run is written remains.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onboard_estimation.errors import UserError


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Claim a folder until the block is left.

    Raises
    ------
    UserError
        Another process, or another block of this one, has claimed it (says which).
    """
    claim = _claim(folder)
    if claim is False:
        raise UserError(f"{folder}: {_holder(folder)} is writing a run there; name another --output, or wait for it")
    try:
        yield
    finally:
        if claim is not None:
            _give_up(folder, claim)


@contextmanager
def claimed_free(path: Path) -> Iterator[Path]:
    """Claim the path if nothing is there, else the first of `path-2`, `path-3`, ... that is free and not claimed."""
    candidate, number = path, 1
    while candidate.exists() or (claim := _claim(candidate)) is False:
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    try:
        yield candidate
    finally:
        if claim is not None:
            _give_up(candidate, claim)


def _place(folder: Path) -> Path:
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"onboard_estimation-run-{name}.lock"


def _claim(folder: Path) -> int | bool | None:
    """Descriptor of the lock; None where locks do not work, False where somebody else has it."""
    place = _place(folder)
    while True:
        try:
            claim = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(claim).st_ino == place.stat().st_ino:
                os.truncate(claim, 0)
                os.pwrite(claim, str(os.getpid()).encode(), 0)
                return claim
        except BlockingIOError:
            os.close(claim)
            return False
        except FileNotFoundError:
            pass  # given up between the two looks
        except OSError:
            os.close(claim)
            return None
        os.close(claim)


def _give_up(folder: Path, claim: int) -> None:
    with suppress(OSError):
        _place(folder).unlink()
    os.close(claim)


def _holder(folder: Path) -> str:
    try:
        return f"process {int(_place(folder).read_text())}"
    except (OSError, ValueError):
        return "another process"
