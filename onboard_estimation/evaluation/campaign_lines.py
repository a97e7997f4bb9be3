"""What a campaign's tables show, in words: for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from onboard_estimation.evaluation.campaign_summary import (
    Difference,
    Figures,
    Group,
    PartConsistency,
    differing_axes,
)
from onboard_estimation.evaluation.presentation import format_number, metric_label, words


class FigureLine(NamedTuple):
    """A figure of a group.

    Attributes
    ----------
    group, runs
        Name of the group and how many runs it has; empty where the line before is of the same.
    figure, key
        Part and figure in words, and the figure's name within its part, which has the unit.
    of
        The figure itself.
    consistency
        NEES with its interval, shares within one and three standard deviations; empty where nothing can be said.
    """

    group: str
    runs: str
    figure: str
    key: str
    of: Figures
    median: str
    worst: str
    consistency: tuple[str, str, str]


class DifferenceLine(NamedTuple):
    """What changes where one label does.

    Attributes
    ----------
    axis, change
        Along which axis, from which label to which.
    figure, key
        As in `FigureLine`.
    numbers
        Pairs, medians before and after, and the mean change with its interval.
    """

    axis: str
    change: str
    figure: str
    key: str
    numbers: tuple[str, str, str, str]
    verdict: str


def figure_lines(groups: Sequence[Group]) -> Iterator[FigureLine]:
    """Every figure of every group."""
    axes = differing_axes(groups)
    for group in groups:
        label, count = group.name(axes), str(len(group.rows))
        for one in group.figures:
            part, figure, key = _in_words(one.name)
            median, worst = (format_number(value, 3) for value in (one.median, one.largest))
            yield FigureLine(label, count, figure, key, one, median, worst, _consistency(group.consistency.get(part)))
            label = count = ""


def difference_lines(found: Sequence[Difference]) -> Iterator[DifferenceLine]:
    """Every difference."""
    for one in found:
        _, figure, key = _in_words(one.figure)
        low, high = one.interval
        between = "" if math.isnan(low) else f" ({format_number(low, 2)} to {format_number(high, 2)})"
        before, after, change = (
            format_number(value, 3) for value in (one.median_before, one.median_after, one.mean_change)
        )
        numbers = (str(one.pairs), before, after, f"{change}{between}")
        axis = one.axis.replace("_", " ")
        yield DifferenceLine(axis, f"{one.before or 'default'} to {one.after}", figure, key, numbers, one.verdict)


def _in_words(name: str) -> tuple[str, str, str]:
    """Part of a figure's name, part and figure in words, and its name within the part."""
    part, _, key = name.partition(".")
    return part, f"{words(part)}: {metric_label(key)[0]}", key


def _consistency(one: PartConsistency | None) -> tuple[str, str, str]:
    if one is None:
        return ("", "", "")
    low, high = one.interval
    between = "" if math.isnan(low) else f" ({low:.2f} to {high:.2f})"
    return f"{one.nees:.2f}{between}", f"{one.within_1_sigma:.3f}", f"{one.within_3_sigma:.3f}"
