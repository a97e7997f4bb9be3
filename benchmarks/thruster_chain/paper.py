"""The paper of the thruster chain, made again."""

from __future__ import annotations

from benchmarks.measuring import Row, paper_rows


def reproduce_multilink(quick: bool) -> list[Row]:
    """The thruster chain's paper: its tables, figures and theorems beside what comes out, and thrusts designed."""
    return paper_rows("thruster_chain", quick)
