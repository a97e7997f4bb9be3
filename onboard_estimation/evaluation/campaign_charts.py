"""Charts of a campaign as SVG within its page: every run a dot that opens it, and many runs' errors over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from onboard_estimation.evaluation.presentation import display_unit, format_number
from onboard_estimation.evaluation.report_tables import text
from onboard_estimation.measurement import Vector

COLOURS = 8
_WIDTH, _LEFT, _RIGHT, _ROW, _AXIS = 900.0, 190.0, 20.0, 30.0, 34.0
_OVERLAY_HEIGHT, _OVERLAY_LEFT = 220.0, 70.0
_MOST_LINES = 60
_MOST_POINTS = 200


class Dot(NamedTuple):
    """A run in a strip: its figure, what it is called, and the page that it opens (empty: none)."""

    value: float
    name: str
    page: str


class Bundle(NamedTuple):
    """Errors of a group over time.

    Attributes
    ----------
    name
        Of the group.
    colour
        Number of its colour.
    time_s
        (K,).
    errors
        (N, K) magnitudes, one row a run, NaN where unknown.
    claimed
        (K,) median over the runs of the stated standard deviation.
    """

    name: str
    colour: int
    time_s: Vector
    errors: NDArray[np.float64]
    claimed: Vector


def strips(rows: Sequence[tuple[str, int, Sequence[Dot]]], label: str) -> str:
    """A row of dots for each group: its name, the number of its colour, its runs."""
    values = np.array([dot.value for _, _, dots in rows for dot in dots])
    place, ticks = _scale(values, _LEFT, _WIDTH - _RIGHT)
    height = _ROW * len(rows) + _AXIS
    out = [_opened(height, label)]
    out += _grid(ticks, place, height - _AXIS, label)
    for number, (name, colour, dots) in enumerate(rows):
        y = _ROW * (number + 0.5)
        out.append(f'<text x="{_LEFT - 10:g}" y="{y + 4:g}" text-anchor="end">{text(name)}</text>')
        known = [dot for dot in dots if np.isfinite(dot.value)]
        for index, dot in enumerate(known):
            # A little up and down, so that equal ones are told apart; always the same.
            shift = (index * 0.618034 % 1.0 - 0.5) * 0.5 * _ROW
            circle = (
                f'<circle class="fill-{colour % COLOURS}" cx="{place(dot.value):.1f}" cy="{y + shift:.1f}" r="4">'
                f"<title>{text(dot.name)}: {format_number(dot.value)}</title></circle>"
            )
            out.append(f'<a href="{text(dot.page)}">{circle}</a>' if dot.page else circle)
        if known:
            x = place(float(np.median([dot.value for dot in known])))
            out.append(f'<line class="median" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 13:g}" y2="{y + 13:g}"/>')
    return "".join([*out, "</svg>"])


def overlay(bundles: Sequence[Bundle], label: str, unit: str) -> str:
    """Errors of all groups over time: each run, or where they are many the range of most; medians; what is claimed."""
    largest = max((float(np.nanmax(one.errors)) for one in bundles if np.isfinite(one.errors).any()), default=0.0)
    shown, factor = display_unit(unit, largest)
    top = factor * largest
    end_s = max(float(one.time_s[-1]) for one in bundles)
    across, times = _scale(np.array([0.0, end_s]), _OVERLAY_LEFT, _WIDTH - _RIGHT)
    height = _OVERLAY_HEIGHT + _AXIS
    up, levels = _scale(np.array([0.0, top]), _OVERLAY_HEIGHT, 8.0)
    out = [_opened(height, label), *_grid(times, across, _OVERLAY_HEIGHT, "time (s)")]
    for level in levels:
        y = up(level)
        out.append(f'<line class="rule" x1="{_OVERLAY_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text class="faint" x="{_OVERLAY_LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{level:g}</text>')
    out.append(
        f'<text class="faint" x="{_OVERLAY_LEFT - 8:g}" y="{height - 6:g}" text-anchor="end">{text(shown)}</text>'
    )
    singly = sum(len(one.errors) for one in bundles) <= _MOST_LINES
    for one in bundles:
        out += _bundle(one, singly, across, lambda value: up(factor * value))
    return "".join([*out, "</svg>"])


def key(colour: int) -> str:
    """A short line in a group's colour, for a legend."""
    return (
        f'<svg viewBox="0 0 20 4" aria-hidden="true"><line class="line-{colour % COLOURS}" x1="0" x2="20" y1="2" '
        'y2="2" stroke-width="4"/></svg>'
    )


def _bundle(one: Bundle, singly: bool, across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    step = max(1, -(-len(one.time_s) // _MOST_POINTS))
    starts = np.arange(0, len(one.time_s), step)
    time_s = one.time_s[starts]
    # Of the instants that become one point the largest error is kept.
    errors = np.fmax.reduceat(one.errors, starts, axis=1)
    known = np.isfinite(errors).any(axis=0)
    colour = one.colour % COLOURS
    out = []
    if singly:
        out += [_line("line", colour, time_s, row, across, up) for row in errors]
    elif known.any():
        low, high = np.nanquantile(errors[:, known], [0.1, 0.9], axis=0)
        there = time_s[known]
        points = [f"{across(t):.1f},{up(v):.1f}" for t, v in zip(there, high, strict=True)]
        points += [f"{across(t):.1f},{up(v):.1f}" for t, v in zip(there[::-1], low[::-1], strict=True)]
        out.append(f'<polygon class="area fill-{colour}" points="{" ".join(points)}"/>')
    if known.any() and len(errors) > 1:
        middle = np.full(len(time_s), np.nan)
        middle[known] = np.nanmedian(errors[:, known], axis=0)
        out.append(_line("middle", colour, time_s, middle, across, up))
    out.append(_line("claimed", colour, time_s, one.claimed[starts], across, up))
    return out


def _line(
    kind: str,
    colour: int,
    time_s: Vector,
    values: Vector,
    across: Callable[[float], float],
    up: Callable[[float], float],
) -> str:
    words, pen = [], "M"
    for t, value in zip(time_s.tolist(), values.tolist(), strict=True):
        if not np.isfinite(value):
            pen = "M"
            continue
        words.append(f"{pen}{across(t):.1f} {max(up(value), 0.0):.1f}")
        pen = "L"
    return f'<path class="{kind} line-{colour}" d="{"".join(words)}"/>'


def _opened(height: float, label: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH:g} {height:g}" role="group" aria-label="{text(label)}">'


def _grid(ticks: Sequence[float], place: Callable[[float], float], bottom: float, label: str) -> list[str]:
    out = []
    for tick in ticks:
        x = place(tick)
        out.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom:g}"/>')
        out.append(f'<text class="faint" x="{x:.1f}" y="{bottom + 14:g}" text-anchor="middle">{tick:g}</text>')
    middle = 0.5 * (_LEFT + _WIDTH - _RIGHT)
    out.append(f'<text class="faint" x="{middle:g}" y="{bottom + 29:g}" text-anchor="middle">{text(label)}</text>')
    return out


def _scale(values: Vector, first: float, last: float) -> tuple[Callable[[float], float], list[float]]:
    """Linear, from zero on, with round ticks."""
    known = values[np.isfinite(values)]
    top = float(known.max()) if len(known) and known.max() > 0.0 else 1.0
    ticks = [float(tick) for tick in MaxNLocator(6).tick_values(0.0, top) if 0.0 <= tick <= 1.02 * top]
    return (lambda value: first + (last - first) * value / (1.02 * top)), ticks
