"""The hopper's paper, made again."""

from __future__ import annotations

from benchmarks.measuring import Row, paper_rows


def reproduce_hopping(quick: bool) -> list[Row]:
    """Tables and figures of the paper on KF1 and its hopping phases: printed, and on simulated robots."""
    return paper_rows("hopper", quick)
