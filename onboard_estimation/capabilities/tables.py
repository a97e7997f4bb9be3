"""What commands show of a robot's work, a training or a gait: figures, sentences and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class ReportTable:
    """A table of a report; the headings in `right` stand over numbers."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...] = ()


class ShownReport(Protocol):
    """The outcome of a robot's work."""

    def summary(self) -> dict[str, Any]:
        """All figures, units in the names, for JSON."""

    def sentences(self) -> list[str]:
        """What it is, what it comes from, and what the reader must know."""

    def tables(self) -> list[ReportTable]:
        """What was found."""
