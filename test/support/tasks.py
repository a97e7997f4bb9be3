"""Functions that tests send to workers: they must be found there by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info


def square(number: int) -> int:
    if number == 3:
        raise ValueError("three is not squared")
    return number * number


def deadly(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def deadly_once(mark: str) -> str:
    """Kills its worker the first time that it is done anywhere."""
    path = Path(mark)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return path.name


def product(seed: int) -> bytes:
    """A matrix product that rounds otherwise with several threads."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(300, 300)) @ rng.normal(size=(300, 300))).tobytes()


def in_other_order(task: tuple[str, bool]) -> str:
    """The task that waits ends after the one that does not, though it may begin before."""
    path, waits = Path(task[0]), task[1]
    end_s = time.monotonic() + 60.0
    while waits and not path.exists() and time.monotonic() < end_s:
        time.sleep(0.01)
    path.touch()
    return "waited" if waits else "did not"


def blas_threads(_: int) -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def process(_: int) -> int:
    return os.getpid()
