"""Pieces of work in processes, each with one thread for NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from benchmarks.run import ONE_THREAD

Made = TypeVar("Made")


def in_turns(function: Callable[..., Made], jobs: Iterable[Sequence[Any]], workers: int = 2) -> list[Made]:
    """What a function makes of each job's arguments, in their order; progress is printed."""
    for name in ONE_THREAD:  # before a process of the pool imports NumPy
        os.environ[name] = "1"
    found = []
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for number, one in enumerate(pool.map(function, *zip(*jobs, strict=True)), 1):
            found.append(one)
            print(f"{getattr(function, '__name__', 'done')} {number}", flush=True)
    return found
