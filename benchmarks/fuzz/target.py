"""What a target of the fuzzer is: properties that hold for any bytes, and where to begin."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from random import Random

from benchmarks.fuzz import targets


def unchanged(data: bytes, random: Random) -> bytes:
    """For formats without a checksum."""
    return data


@dataclass(frozen=True)
class Target:
    """One reader of bytes.

    Attributes
    ----------
    check
        Raises where a property does not hold for the input. The first bytes of an input may choose how the others come:
        where they are cut, when they arrive.
    seeds
        Inputs to begin with.
    mend
        Puts right what random changes hardly ever do (framing, checksums, lengths); the fuzzer calls it for half of
        the inputs. What it mends of an input is for the random numbers to choose.
    longest
        Bytes of an input.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    mend: Callable[[bytes, Random], bytes] = unchanged
    longest: int = 512


def names() -> list[str]:
    """Of all targets."""
    return sorted(module.name for module in pkgutil.iter_modules(targets.__path__))


def load(name: str) -> Target:
    """A target; what it reads with is imported only now, so that the fuzzer can instrument it."""
    target = import_module(f"benchmarks.fuzz.targets.{name}").TARGET
    assert isinstance(target, Target)
    return target
