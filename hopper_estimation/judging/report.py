"""What an evaluation of the hopper says beside errors and consistency: hops, phases, agility, ground, sensors.

Its report begins with five figures, the height over time, and the phases by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.estimators.sensor_faults import sensor_notes
from hopper_estimation.judging.hop_metrics import commands_at, hop_errors
from hopper_estimation.judging.hop_truth import TrueHops, true_hops
from hopper_estimation.judging.hops import LONGEST_CYCLE_S, HopCycles, HopEvents, hop_cycles, match_events
from hopper_estimation.model import agility, phases
from hopper_estimation.model.configuration import COMMANDED_HEIGHT, HIGH_G, LOW_G, HopperConfiguration
from hopper_estimation.model.phases import Array
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.presentation import metric_label, shown_figures
from onboard_estimation.base.series import Series
from onboard_estimation.contract.result import (
    Drawing,
    EvaluationResult,
    KeyFigure,
    Note,
    Panel,
    PanelGroup,
    Phases,
    ReportSection,
    error_figures,
    honesty_figures,
)

_FEWEST_SAMPLES = 50
_SAME_TOUCHDOWN_S = 0.1
_DRIFT_HOPS = 30
_DIAGRAMS = "Readings are those along the leg. Before the first touchdown the phase is called startup."


def hop_figures(
    configuration: HopperConfiguration, series: Sequence[Series], result: EvaluationResult
) -> dict[str, Any]:
    """For `metrics.json`: M1 to M5, timing of events, agility, ground."""
    height, start_ns = result.parts["height"].estimate[:, 0], int(result.stamps_ns[0])
    events = HopEvents.from_phase_events(result.phase_events, start_ns)
    # At a touchdown the ground is the standing height below the body: its leg is extended.
    landed_m = events.height_m[events.kind == phases.TOUCHDOWN] - configuration.robot.standing_height_m
    grounds = landed_m if configuration.ground_changes else 0.0
    cycles = hop_cycles(events, result.time_s, height, configuration.robot.standing_height_m, grounds)
    hops: dict[str, Any] = {"hops_estimated": len(cycles)}
    out: dict[str, Any] = {"hops": hops}
    truth = _true_hops(configuration, result)
    if truth is not None:
        velocity = result.parts["vertical_velocity"].estimate[:, 0]
        command = None
        if (heights := _told_by(series).get(COMMANDED_HEIGHT.sensor)) is not None:
            given_s = (heights.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
            command = commands_at(truth.cycles.apex_s, given_s, heights.values[:, 2])
        hops |= hop_errors(truth, result.time_s, height, velocity, cycles, command).summary()
        out["agility_true"] = agility_of(truth.cycles)
        if configuration.ground_changes:
            out["ground"] = _ground(events, landed_m, truth)
        span = (float(truth.time_s[0]), float(truth.time_s[-1]))
        timings = [
            match_events(truth.events, events, kind, span, truth.unknown_s) for kind in range(len(phases.EVENTS))
        ]
        out["events"] = {name: one.summary() for name, one in zip(phases.EVENTS, timings, strict=True)}
    out["agility_estimated"] = agility_of(cycles)
    return {name: value for name, value in out.items() if value}


def _told_by(series: Sequence[Series]) -> dict[str, Series]:
    """What each sensor told, of those that told anything."""
    return {one.channel.sensor: one for one in series if len(one.stamps_ns)}


def _true_hops(configuration: HopperConfiguration, result: EvaluationResult) -> TrueHops | None:
    """None where motion capture tells of no hop: there are the errors along the way."""
    height, ground = result.parts["height"], None if configuration.ground_changes else 0.0
    known = height.matched
    if "vertical_velocity" not in result.parts or int(np.sum(known)) < _FEWEST_SAMPLES:
        return None
    try:
        truth = true_hops(result.time_s[known], height.truth[known, 0], configuration.robot.standing_height_m, ground)
    except UserError:
        return None  # too slow or too short a truth
    return truth if len(truth.cycles) else None


def _ground(events: HopEvents, landed_m: Array, truth: TrueHops) -> dict[str, Any]:
    """Drift of the ground's height, over the touchdowns that estimate and truth share."""
    touchdowns_s, true_s = events.times_s(phases.TOUCHDOWN), truth.events.times_s(phases.TOUCHDOWN)
    if not len(touchdowns_s) or not len(true_s):
        return {}
    nearest = np.array([int(np.argmin(np.abs(true_s - at))) for at in touchdowns_s])
    if not np.all(np.diff(nearest) == 1) or np.any(np.abs(true_s[nearest] - touchdowns_s) > _SAME_TOUCHDOWN_S):
        return {}  # a touchdown that is missing has no place in a sum over hops
    # Of the start, before the first touchdown, nothing is wrong.
    error = np.append(0.0, landed_m - truth.ground_m[nearest])
    out: dict[str, Any] = {"touchdowns": len(nearest), "drift_hops": _DRIFT_HOPS}
    drift = error[_DRIFT_HOPS:] - error[:-_DRIFT_HOPS]  # over every stretch of so many hops
    if len(drift):
        out["ground_height_drift_mean_abs_m"] = float(np.mean(np.abs(drift)))
    return out | {"ground_height_final_error_m": float(error[-1])}


def agility_of(cycles: HopCycles) -> dict[str, Any]:
    """Means over hops, see `agility.summary`."""
    # An estimate that is far off may tell of an apex below the standing height: that is no hop to be agile in.
    hop, drop, stance_s = cycles.hop_height_m, cycles.drop_height_m, cycles.liftoff_s - cycles.touchdown_s
    rising_s, falling_s = cycles.apex_s - cycles.liftoff_s, cycles.touchdown_s - cycles.previous_apex_s
    sound = (hop > 0.0) & (drop > 0.0) & (rising_s > 0.0) & (falling_s > 0.0)
    return agility.summary(*(one[sound] for one in (hop, drop, stance_s, rising_s, falling_s)))


def hop_sections(
    configuration: HopperConfiguration, series: Sequence[Series], result: EvaluationResult
) -> tuple[ReportSection, ...]:
    """Hops in words, and diagrams of the errors by hop and of what the sensors read."""
    figures: Mapping[str, Any] = result.metrics.get(result.robot, {})
    sentences = [*hop_sentences(figures), _DIAGRAMS]
    height = result.parts["height"]
    panels = [Panel("height", "m", {"estimate": height.estimate[:, 0], "truth": height.truth[:, 0]})]
    told, words = _told_by(series), {LOW_G.sensor: "low-g", HIGH_G.sensor: "high-g"}
    there = {word: told[sensor] for sensor, word in words.items() if sensor in told}
    readings = {word: np.interp(result.stamps_ns, one.stamps_ns, one.values[:, 5]) for word, one in there.items()}
    if readings:
        panels.append(Panel("readings", "m/s^2", readings))
    groups = (PanelGroup("Height and readings", tuple(panels)),)
    return (ReportSection("Hops", tuple(sentences), result.time_s, groups),)


def hop_sentences(figures: Mapping[str, Any]) -> list[str]:
    """The figures of `hop_figures` in words."""
    out = []
    hops = figures.get("hops")
    if hops is not None and "m3_apex_height_mape_percent" in hops:
        off = shown_figures(hops)
        out.append(
            f"{hops['hops']} hops: apex height off by {off['m3_apex_height_mape_percent']} in the mean "
            f"(median {off['apex_height_error_median_percent']}), apex time by {off['m4_apex_time_mae_s']}; height "
            f"along the way by {off['m1_height_nmae_percent']}, velocity by {off['m2_velocity_nmae_percent']}."
        )
        out.append(f"Hops that were missed: {hops['missed_hops']}; told without being there: {hops['extra_hops']}.")
    elif hops is not None:
        out.append(f"{hops['hops_estimated']} hops by the estimate; the truth tells of none to compare with.")
    events = {name: shown_figures(one) for name, one in figures.get("events", {}).items()}
    words = [
        f"{name.replace('_', ' ')} seen after {events[name]['seen_after_median_s']}, told to "
        f"{events[name]['time_error_abs_median_s']}"
        for name in phases.EVENTS
        if "seen_after_median_s" in events.get(name, {})
    ]
    if words:
        out.append(f"Events, medians: {'; '.join(words)}.")
    agile = shown_figures(figures.get("agility_true") or figures.get("agility_estimated") or {})
    if agile:
        out.append(
            f"Hopping agility {agile['hopping_agility_m_s']}, vertical jumping agility "
            f"{agile['vertical_jumping_agility_m_s']}, at hops of {agile['hop_height_m']}."
        )
    ground = shown_figures(figures.get("ground", {}))
    if ground:
        words = [f"{metric_label(name)[0].lower()} {value}" for name, value in ground.items()]
        out.append(f"Height of the ground, summed up over the hops: {', '.join(words)}.")
    return out


def hop_notes(
    configuration: HopperConfiguration, series: Sequence[Series], result: EvaluationResult
) -> tuple[Note, ...]:
    """What the reader must know: sensors that are missing or clipped, hops that were missed."""
    notes = [Note(sentence) for sentence in hop_sentences(result.metrics.get(result.robot, {}))]
    notes += sensor_notes(configuration, result.estimator, series, int(result.stamps_ns[0]))
    hops = result.metrics.get(result.robot, {}).get("hops", {})
    if hops.get("missed_hops", 0) or hops.get("extra_hops", 0):
        words = f"{hops['missed_hops']} of {hops['hops']} hops missed, {hops['extra_hops']} extra"
        notes.append(Note(f"Hops: {words}.", words))
    return tuple(notes)


def presented(
    configuration: HopperConfiguration, series: Sequence[Series], result: EvaluationResult
) -> EvaluationResult:
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
    begins = [(event.seen_ns if as_seen else event.stamp_ns, event.phase) for event in result.phase_events]
    begin_ns, numbers = np.array(sorted(begins, key=lambda one: one[0]), dtype=np.int64).reshape(-1, 2).T
    row = np.searchsorted(begin_ns, result.stamps_ns, side="right")
    phase = np.append(phases.STARTUP, numbers)[row]
    since_s = (result.stamps_ns - np.append(result.stamps_ns[:1], begin_ns)[row]) / NANOSECONDS_PER_SECOND
    longest_s = np.where(phase == phases.DROP, phases.LONGEST_FLIGHT_S, phases.LONGEST_STANCE_S)
    return np.where((phase != phases.REBOUND) & (since_s > longest_s), phases.STARTUP, phase)


def phase_stretches(configuration: HopperConfiguration, result: EvaluationResult) -> dict[str, NDArray[np.bool_]]:
    """(K,) instants of each phase, in words."""
    phase = phase_of(result)
    return {words: phase == number for number, words in enumerate(phases.PHASE_WORDS)}


def hop_phases(result: EvaluationResult) -> Phases:
    """Phases as spans, and hops from apex to apex."""
    phase, time_s = phase_of(result, as_seen=False), result.time_s
    starts = np.flatnonzero(np.diff(phase, prepend=-1))
    ends = np.append(starts[1:], len(phase) - 1)
    kinds = phase[starts]
    spans = np.column_stack([time_s[starts], time_s[ends]])
    drops = np.flatnonzero(kinds == phases.DROP)
    begin_s = time_s[starts]
    whole = [
        (begin_s[one], begin_s[following])
        for one, following in pairwise(drops)
        if phases.STARTUP not in kinds[one:following] and begin_s[following] - begin_s[one] <= LONGEST_CYCLE_S
    ]
    named = {name.replace("_", " "): spans[kinds == number] for number, name in enumerate(phases.PHASES)}
    return Phases({name: one for name, one in named.items() if len(one)}, "hop", np.array(whole).reshape(-1, 2))


def _figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    figures = result.metrics.get(result.robot, {})
    hops, events = figures.get("hops", {}), figures.get("events", {})
    yield from islice(error_figures(result), 1)
    if "m3_apex_height_mape_percent" in hops:
        yield KeyFigure("Apex height: error", shown_figures(hops)["m3_apex_height_mape_percent"], "mean of all hops")
        found = hops["hops"] - hops["missed_hops"]
        extra = hops["extra_hops"]
        yield KeyFigure("Hops found", f"{found} of {hops['hops']}", f"and {extra} that were none" if extra else "")
    if "seen_after_median_s" in events.get("touchdown", {}):
        yield KeyFigure("Touchdown seen after", shown_figures(events["touchdown"])["seen_after_median_s"], "median")
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
