"""The process that `session` starts: one target under atheris, with flags of libFuzzer."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from random import Random
from typing import Any

from benchmarks.fuzz.target import load

INSTRUMENTED = (
    "drivers",
    "hopper_estimation",
    "onboard_estimation",
    "salp_estimation",
    "softrobot_estimation",
    "strapdown_estimation",
)


def main() -> None:
    """`python -m benchmarks.fuzz.child TARGET FLAGS...`."""
    atheris: Any = import_module("atheris")  # it has no types, and is not there for every Python
    name, *flags = sys.argv[1:]
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # it cannot compile what is instrumented
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        target = load(name)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        changed = bytes(atheris.Mutate(data, most))
        return target.mend(changed, Random(seed))[:most] if seed & 1 else changed

    # libFuzzer starts itself again to merge, by a shell: hence the first word.
    command = f"{sys.executable} -m benchmarks.fuzz.child {name}"
    atheris.Setup([command, *flags], target.check, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
