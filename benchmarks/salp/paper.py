"""The LandSalp paper made again."""

from __future__ import annotations

from benchmarks.measuring import Row, paper_rows


def reproduce_landsalp(quick: bool) -> list[Row]:
    """The LandSalp paper's figures, its own filter and ours beside it: what came out as printed, and why not.

    Scenario `hardware`: days 930000 and 930001 teach and judge (runs of 90 s and 48 s), five others teach together, and
    days 100 and 101 judge alone.
    """
    return paper_rows("salp", quick)
