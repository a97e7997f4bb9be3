"""What an evaluation of the hopper says beside errors and consistency: hops, phases, agility, ground, sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hopper_estimation import agility, ground_height
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.hop_matching import event_summary
from hopper_estimation.hop_metrics import HopErrors, commands_at, hop_errors
from hopper_estimation.hop_presentation import phase_of
from hopper_estimation.hop_truth import TrueHops, true_hops
from hopper_estimation.hops import HopCycles, HopEvents, hop_cycles
from hopper_estimation.optical_flow import distance_error_ratio
from hopper_estimation.phases import APEX, EVENTS, PHASES, STARTUP, TOUCHDOWN
from hopper_estimation.sensor_notes import sensor_notes
from hopper_estimation.topics import COMMANDED_HEIGHT, HIGH_G, LOW_G
from onboard_estimation.capabilities.reported import Note, Panel, PanelGroup, ReportSection
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.series import Series

Array = NDArray[np.float64]

_FEWEST_SAMPLES = 50
_SAME_TOUCHDOWN_S = 0.1


_DIAGRAMS = "Readings are those along the leg. Before the first touchdown the phase is called startup."


class HopReview:
    """The hops of a judged run.

    Attributes
    ----------
    truth
        None where motion capture tells of no hop.
    cycles
        The estimate's own.
    errors
        None without a truth.
    """

    def __init__(self, configuration: HopperConfiguration, series: Sequence[Series], result: EvaluationResult) -> None:
        self.configuration = configuration
        standing = configuration.robot.standing_height_m
        self.start_ns = int(result.stamps_ns[0])
        self.time_s = result.time_s
        height, velocity = result.parts["height"], result.parts.get("vertical_velocity")
        self.height = height.estimate[:, 0]
        self.events = HopEvents.from_phase_events(result.phase_events, self.start_ns)
        grounds = self._grounds()
        self.cycles: HopCycles = hop_cycles(self.events, self.time_s, self.height, standing, grounds)
        self.truth: TrueHops | None = None
        self.errors: HopErrors | None = None
        known = height.matched
        if velocity is None or int(np.sum(known)) < _FEWEST_SAMPLES:
            return
        ground = None if configuration.ground_changes else 0.0
        try:
            truth = true_hops(self.time_s[known], height.truth[known, 0], standing, ground)
        except UserError:
            return  # too slow or too short a truth: there are the errors along the way
        if not len(truth.cycles):
            return
        self.truth = truth
        command = commands_of(series, self.start_ns, truth.cycles.apex_s)
        self.errors = hop_errors(
            result.estimator,
            truth,
            self.time_s,
            self.height,
            velocity.estimate[:, 0],
            self.cycles,
            command,
        )

    def _grounds(self) -> Array | float:
        """(T,) estimated height of the ground at each touchdown; zero on level ground."""
        if not self.configuration.ground_changes:
            return 0.0
        return estimated_grounds(self.configuration, self.events)


def estimated_grounds(configuration: HopperConfiguration, events: HopEvents) -> Array:
    """(T,) height of the ground after each touchdown: the standing height below the body, its leg extended."""
    rows = events.kind == TOUCHDOWN
    return events.height_m[rows] - configuration.robot.standing_height_m


def commands_of(series: Sequence[Series], start_ns: int, at_s: Array) -> Array | None:
    """Commanded hop height at times since `start_ns`; None where none was told."""
    found = next((one for one in series if one.channel.sensor == COMMANDED_HEIGHT.sensor and len(one.stamps_ns)), None)
    if found is None:
        return None
    touchdowns_s = (found.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    return commands_at(at_s, touchdowns_s, found.values[:, 2])


def coverage_by_phase(result: EvaluationResult) -> dict[str, dict[str, float]]:
    """Shares of errors within one and three standard deviations in each phase, by quantity and phase."""
    phase = phase_of(result)
    out: dict[str, dict[str, float]] = {}
    for name in ("height", "vertical_velocity"):
        part = result.parts.get(name)
        if part is None:
            continue
        ratio = np.abs(part.error[:, 0]) / part.stddev[:, 0]
        for number, words in enumerate(PHASES):
            chosen = ratio[(phase == number) & np.isfinite(ratio)]
            if len(chosen) >= _FEWEST_SAMPLES:
                out.setdefault(name, {})
                out[name] |= {
                    f"{words}_within_1_sigma": float(np.mean(chosen < 1.0)),
                    f"{words}_within_3_sigma": float(np.mean(chosen < 3.0)),
                }
    return out


def hop_figures(
    configuration: HopperConfiguration, series: Sequence[Series], result: EvaluationResult
) -> dict[str, Any]:
    """For `metrics.json`: M1 to M5, timing of events, coverage by phase, agility, ground, optical flow."""
    review = HopReview(configuration, series, result)
    hops: dict[str, Any] = {"hops_estimated": len(review.cycles)}
    out: dict[str, Any] = {"hops": hops}
    if review.truth is not None and review.errors is not None:
        hops |= review.errors.summary()
        height = result.parts["height"]
        flying = height.matched & (height.truth[:, 0] > configuration.robot.standing_height_m)
        flying &= phase_of(result) != STARTUP
        if int(np.sum(flying)) >= _FEWEST_SAMPLES:
            ratio = distance_error_ratio(result.time_s[flying], height.truth[flying, 0], height.estimate[flying, 0])
            hops["optical_flow_distance_error_percent"] = 100.0 * ratio
        out["agility_true"] = _agility(review.truth.cycles)
        if configuration.ground_changes:
            out["ground"] = _ground(configuration, review)
        span = (float(review.truth.time_s[0]), float(review.truth.time_s[-1]))
        out["events"] = event_summary(review.truth.events, review.events, span, review.truth.unknown_s)
    out["agility_estimated"] = _agility(review.cycles)
    out["coverage"] = coverage_by_phase(result)
    return {name: value for name, value in out.items() if value}


def _ground(configuration: HopperConfiguration, review: HopReview) -> dict[str, Any]:
    """Drift of the ground's height, over the touchdowns that estimate and truth share."""
    assert review.truth is not None
    touchdowns = np.flatnonzero(review.events.kind == TOUCHDOWN)
    touchdowns_s, true_s = review.events.happened_s[touchdowns], review.truth.events.times_s(TOUCHDOWN)
    if not len(touchdowns) or not len(true_s):
        return {}
    nearest = np.array([int(np.argmin(np.abs(true_s - at))) for at in touchdowns_s])
    if not np.all(np.diff(nearest) == 1) or np.any(np.abs(true_s[nearest] - touchdowns_s) > _SAME_TOUCHDOWN_S):
        return {}  # a touchdown that is missing has no place in a sum over hops
    standing = configuration.robot.standing_height_m
    grounds = estimated_grounds(configuration, review.events)
    before = np.concatenate([[0.0], grounds[:-1]])
    touchdown = review.events.height_m[touchdowns] - before
    apex = np.full(len(touchdowns), np.nan)
    apexes = review.events.kind == APEX
    for row, at in enumerate(touchdowns_s[1:], start=1):
        found = np.flatnonzero(
            apexes & (review.events.happened_s > touchdowns_s[row - 1]) & (review.events.happened_s < at)
        )
        if len(found):
            apex[row] = review.events.height_m[found[0]] - before[row]
    return ground_height.summary(apex, touchdown, review.truth.ground_m[nearest], standing)


def _agility(cycles: HopCycles) -> dict[str, Any]:
    # An estimate that is far off may tell of an apex below the standing height: that is no hop to be agile in.
    sound = (
        (cycles.hop_height_m > 0.0) & (cycles.drop_height_m > 0.0) & (cycles.rebound_s > 0.0) & (cycles.drop_s > 0.0)
    )
    if not sound.any():
        return {}
    return agility.summary(
        cycles.hop_height_m[sound],
        cycles.drop_height_m[sound],
        cycles.stance_s[sound],
        cycles.rebound_s[sound],
        cycles.drop_s[sound],
    )


def hop_section(
    configuration: HopperConfiguration, series: Sequence[Series], result: EvaluationResult
) -> ReportSection:
    """Hops in words, and diagrams of the errors by hop and of what the sensors read."""
    figures: Mapping[str, Any] = result.metrics.get(result.robot, {})
    sentences = [*hop_sentences(figures), _DIAGRAMS]
    height = result.parts["height"]
    panels = [Panel("height", "m", {"estimate": height.estimate[:, 0], "truth": height.truth[:, 0]})]
    readings = {}
    for channel, words in ((LOW_G, "low-g"), (HIGH_G, "high-g")):
        one = next((one for one in series if one.channel.sensor == channel.sensor and len(one.stamps_ns)), None)
        if one is not None:
            readings[words] = np.interp(result.stamps_ns, one.stamps_ns, one.values[:, 5])
    if readings:
        panels.append(Panel("readings", "m/s^2", readings))
    groups = (PanelGroup("Height and readings", tuple(panels)),)
    return ReportSection("Hops", tuple(sentences), result.time_s, groups)


def hop_sentences(figures: Mapping[str, Any]) -> list[str]:
    """The figures of `hop_figures` in words."""
    out = []
    hops = figures.get("hops")
    if hops is not None and "m3_apex_height_mape_percent" in hops:
        out.append(
            f"{hops['hops']} hops: apex height off by {hops['m3_apex_height_mape_percent']:.1f} % in the mean "
            f"(median {hops['apex_height_percent_error_median']:.1f} %), apex time by "
            f"{1e3 * hops['m4_apex_time_mae_s']:.0f} ms; height along the way by "
            f"{hops['m1_height_nmae_percent']:.1f} %, velocity by {hops['m2_velocity_nmae_percent']:.1f} %."
        )
        out.append(f"Hops that were missed: {hops['missed_hops']}; told without being there: {hops['extra_hops']}.")
    elif hops is not None:
        out.append(f"{hops['hops_estimated']} hops by the estimate; the truth tells of none to compare with.")
    events = figures.get("events", {})
    words = [
        f"{name.replace('_', ' ')} seen after {1e3 * events[name]['seen_after_median_s']:.1f} ms, told to "
        f"{1e3 * events[name]['time_error_abs_median_s']:.1f} ms"
        for name in EVENTS
        if "seen_after_median_s" in events.get(name, {})
    ]
    if words:
        out.append(f"Events, medians: {'; '.join(words)}.")
    agile = figures.get("agility_true") or figures.get("agility_estimated")
    if agile:
        out.append(
            f"Hopping agility {agile['hopping_agility_m_s']:.2f} m/s, vertical jumping agility "
            f"{agile['vertical_jumping_agility_m_s']:.2f} m/s, at hops of {agile['hop_height_m']:.2f} m."
        )
    ground = figures.get("ground")
    if ground:
        out.append(f"Height of the ground, summed up over the hops: {_ground_words(ground)}.")
    return out


def _ground_words(ground: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in ground.items())


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
