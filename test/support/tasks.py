"""Functions that tests send to workers: they must be found there by name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np


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


def process(_: int) -> int:
    return os.getpid()
