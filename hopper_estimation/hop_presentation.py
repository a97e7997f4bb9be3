"""What the report of a hopper begins with: five figures, its height over time, and the phases by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.hops import LONGEST_CYCLE_S
from hopper_estimation.phases import DROP, LONGEST_FLIGHT_S, LONGEST_STANCE_S, PHASES, REBOUND, STARTUP
from onboard_estimation.evaluation.result import (
    Drawing,
    EvaluationResult,
    KeyFigure,
    Phases,
    error_figures,
    honesty_figures,
)
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Array = NDArray[np.float64]


def presented(configuration: HopperConfiguration, result: EvaluationResult) -> EvaluationResult:
    """The judged run with its figures, drawing and phases."""
    return replace(
        result, figures=tuple(_figures(result)), drawing=_drawing(configuration, result), phases=hop_phases(result)
    )


def phase_of(result: EvaluationResult, as_seen: bool = True) -> NDArray[np.int64]:
    """(K,) phase at each estimate; one that outlasts any ends as the filter's.

    Parameters
    ----------
    as_seen
        From events as the filter came to know of them; otherwise from when they happened.
    """
    phase = np.full(len(result.stamps_ns), STARTUP, dtype=np.int64)
    begins = [event.seen_ns if as_seen else event.stamp_ns for event in result.phase_events]
    order = np.argsort(np.array(begins, dtype=np.int64), kind="stable")
    begin_ns = np.array(begins, dtype=np.int64)[order]
    row = np.searchsorted(begin_ns, result.stamps_ns, side="right") - 1
    numbers = np.array([event.phase for event in result.phase_events], dtype=np.int64)[order]
    if len(numbers):
        known = row >= 0
        phase[known] = numbers[row[known]]
        since_s = (result.stamps_ns[known] - begin_ns[row[known]]) / NANOSECONDS_PER_SECOND
        longest_s = np.where(phase[known] == DROP, LONGEST_FLIGHT_S, LONGEST_STANCE_S)
        phase[known] = np.where((phase[known] != REBOUND) & (since_s > longest_s), STARTUP, phase[known])
    return phase


def hop_phases(result: EvaluationResult) -> Phases:
    """Phases as spans, and hops from apex to apex."""
    phase, time_s = phase_of(result, as_seen=False), result.time_s
    starts = np.flatnonzero(np.diff(phase, prepend=-1))
    ends = np.append(starts[1:], len(phase) - 1)
    kinds = phase[starts]
    spans = np.column_stack([time_s[starts], time_s[ends]])
    drops = np.flatnonzero(kinds == DROP)
    whole = [
        (time_s[starts[one]], time_s[starts[next_one]])
        for one, next_one in pairwise(drops)
        if STARTUP not in kinds[one:next_one] and time_s[starts[next_one]] - time_s[starts[one]] <= LONGEST_CYCLE_S
    ]
    named = {name.replace("_", " "): spans[kinds == number] for number, name in enumerate(PHASES)}
    return Phases({name: one for name, one in named.items() if len(one)}, "hop", np.array(whole).reshape(-1, 2))


def _figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    figures = result.metrics.get(result.robot, {})
    hops, events = figures.get("hops", {}), figures.get("events", {})
    yield from islice(error_figures(result), 1)
    if "m3_apex_height_mape_percent" in hops:
        yield KeyFigure("Apex height: error", f"{hops['m3_apex_height_mape_percent']:.1f} %", "mean of all hops")
        found = hops["hops"] - hops["missed_hops"]
        extra = hops["extra_hops"]
        yield KeyFigure("Hops found", f"{found} of {hops['hops']}", f"and {extra} that were none" if extra else "")
    if "seen_after_median_s" in events.get("touchdown", {}):
        delay_ms = 1e3 * events["touchdown"]["seen_after_median_s"]
        yield KeyFigure("Touchdown seen after", f"{delay_ms:.1f} ms", "median")
    yield from islice(honesty_figures(result), 1)


def _drawing(configuration: HopperConfiguration, result: EvaluationResult) -> Drawing | None:
    """Leg and body at each instant, side by side in time."""
    part = result.parts.get("height")
    if part is None:
        return None
    count = len(result.time_s)
    ellipse = np.zeros((count, 2, 2))
    ellipse[:, 1, 1] = part.stddev[:, 0] ** 2
    estimate, truth = (_standing(configuration, result.time_s, height[:, 0]) for height in (part.estimate, part.truth))
    return Drawing(estimate, truth, ellipse, estimate[:, 1], ("time (s)", "height (m)"), over_time=True)


def _standing(configuration: HopperConfiguration, time_s: Array, height_m: Array) -> Array:
    """(K, 2, 2) foot and body; on level ground the foot does not go below it while the leg is compressed."""
    foot_m = height_m - configuration.robot.standing_height_m
    if not configuration.ground_changes:
        foot_m = np.maximum(foot_m, 0.0)
    return np.stack([np.column_stack([time_s, foot_m]), np.column_stack([time_s, height_m])], axis=1)
