"""The paper on Algorithm 1, made again."""

from __future__ import annotations

from benchmarks.measuring import Row, paper_rows


def reproduce_softrobot(quick: bool) -> list[Row]:
    """The soft robot's paper: its tables and figures on simulated robots of its kind, beside what it prints."""
    return paper_rows("softrobot", quick)
