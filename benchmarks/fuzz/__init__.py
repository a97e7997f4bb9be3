"""Coverage-guided fuzzing of what reads bytes that nobody vouches for: inputs, coverage, findings.

    python -m benchmarks.fuzz serial_frames --inputs 10_000_000     # needs `pip install atheris`
    python -m benchmarks.fuzz serial_frames --keep-corpus           # the same, then the least corpus goes to the tests
    python -m benchmarks.fuzz serial_frames --replay FILE           # one input again; needs no atheris

A target is a module in `targets` with a `TARGET` (`target.Target`); it has its name and need be listed nowhere.
"""

from __future__ import annotations

from typing import Any


def run(quick: bool) -> list[dict[str, Any]]:
    """A row a target."""
    from benchmarks.fuzz.session import fuzz, row
    from benchmarks.fuzz.target import names

    return [row(fuzz(name, inputs=20_000 if quick else 10_000_000)) for name in names()]
