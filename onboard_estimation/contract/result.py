"""What an evaluation knows in the end: the one structure that metrics, plots, report and verdict read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Estimate, Matrix, PhaseEvent, Vector
from onboard_estimation.base.presentation import (
    error_keys,
    format_number,
    metric_label,
    percent,
    quantity,
    shown_figures,
    words,
)


@dataclass(frozen=True, eq=False)
class Panel:
    """One diagram over time.

    Attributes
    ----------
    label, unit
        Of the vertical axis; the unit as computed (`rad`, `m/s`): it is shown in degrees, centimetres and so on.
    lines
        (K,) float64 in `unit` by name, NaN where unknown.
    band
        (K,) half-width of a band about zero, three standard deviations; None: no band.
    interval
        Low and high, in which the lines are to be with 95 % probability; the axis is logarithmic then.
    note
        A few words above it.
    """

    label: str
    unit: str
    lines: Mapping[str, Vector]
    band: Vector | None = None
    interval: tuple[float, float] | None = None
    note: str = ""


@dataclass(frozen=True, eq=False)
class PanelGroup:
    """Diagrams that belong together, one below the other."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure that is not over time, as PNG.

    Attributes
    ----------
    png
        The file's bytes; the report holds them.
    caption
        What it shows, with its full stop: also for those who cannot see it.
    """

    png: bytes
    caption: str


@dataclass(frozen=True, eq=False)
class ReportSection:
    """What a robot adds to the report of a run.

    Attributes
    ----------
    sentences
        What was found and what the diagrams mean, in order.
    time_s
        (K,) seconds since the first estimate, for all panels.
    """

    title: str
    sentences: tuple[str, ...]
    time_s: Vector
    groups: tuple[PanelGroup, ...]
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Note:
    """What the reader of a judged run must know.

    Attributes
    ----------
    sentence
        With its full stop.
    verdict
        A few words for the verdict; empty: it does not touch the verdict.
    """

    sentence: str
    verdict: str = ""


_AXES = frozenset("xyz")

FAULT = "fault"
"""Group of the metrics, and name of the events, of what was put into a run to see whether it is noticed."""
FOREIGN = "trajectory"
"""In the place of a robot's name: nobody knows whose estimates they are."""


@dataclass(frozen=True)
class PartResult:
    """One named block of the state (`pose`, `joint_angles`, `velocity`, ...) against the truth.

    All arrays have the length K of the record; where `matched` is false there was no truth and they hold NaN.

    Attributes
    ----------
    names, units
        One of each per dimension: `("x", "y", "heading")`, `("m", "m", "rad")`.
    estimate, truth
        (K, a) float64, coordinates of the block. The estimate after alignment with the truth.
    error
        (K, d) float64: estimate minus truth in the tangent space, in `convention`.
    stddev
        (K, d) float64: standard deviations of the error: the filter's own, and the truth's noise where it is stated;
        NaN where the filter does not say.
    nees
        (K,) float64: normalised estimation error squared, with the same noise; NaN likewise.
    convention
        What the error means, e.g. "body frame of the truth".
    covariance
        (K, d, d) float64, whose diagonal is the square of `stddev`; None: not known.
    """

    name: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    estimate: NDArray[np.float64]
    truth: NDArray[np.float64]
    error: NDArray[np.float64]
    stddev: NDArray[np.float64]
    nees: NDArray[np.float64]
    matched: NDArray[np.bool_]
    convention: str = ""
    covariance: NDArray[np.float64] | None = None

    @property
    def states_its_error(self) -> bool:
        """The filter says how sure it is."""
        return bool(np.isfinite(self.stddev).any())

    @property
    def is_turn(self) -> bool:
        """A rotation in space, which is estimated as a quaternion."""
        return self.estimate.shape[1] > len(self.names)

    def judged(self, time_s: Vector, settle_s: float) -> NDArray[np.bool_]:
        """(K,) where the part is judged: after the start that is left out, if it has a truth there."""
        used = np.asarray(self.matched & (time_s >= time_s[0] + settle_s), dtype=np.bool_)
        return used if used.any() else self.matched

    def rms(self, where: NDArray[np.bool_]) -> dict[str, float]:
        """RMS error by unit: of a place, a velocity or a turn that of its length, of a list that of all in it."""
        out = {}
        for unit in dict.fromkeys(self.units):
            columns = [index for index, one in enumerate(self.units) if one == unit]
            squares = self.error[where][:, columns] ** 2
            is_vector = self.is_turn or _AXES.issuperset(self.names[index] for index in columns)
            out[unit] = float(np.sqrt(np.mean(squares.sum(axis=1) if is_vector else squares)))
        return out


@dataclass(frozen=True)
class Drawing:
    """The robot seen from above (or from the side), for plots and the report's time slider.

    Attributes
    ----------
    estimate, truth
        (K, P, 2) float64, metres: a polyline of P points per instant (NaN where there is no truth).
    ellipse
        (K, 2, 2) float64, m^2: covariance of the drawn position, centred on `centre`.
    centre
        (K, 2) float64, metres: where the ellipse is drawn (the estimated position).
    axes
        Labels of the two axes with units.
    over_time
        The first coordinate is no place but the time since the first estimate, s, of a robot that goes up and down
        only. The axes have scales of their own.
    """

    estimate: NDArray[np.float64]
    truth: NDArray[np.float64]
    ellipse: NDArray[np.float64]
    centre: NDArray[np.float64]
    axes: tuple[str, str] = ("x (m)", "y (m)")
    over_time: bool = False


@dataclass(frozen=True)
class KeyFigure:
    """One of the five figures that a report begins with.

    Attributes
    ----------
    label
        What it is of, in words.
    value
        With its unit.
    note
        What kind of number it is, or what it should be.
    """

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Phases:
    """When a robot with a cycle was in which phase, as it was estimated; all in seconds since the first estimate.

    Attributes
    ----------
    spans
        (M, 2) begin and end by the phase's name, in the order of the cycle.
    cycle
        What people call one cycle: "hop".
    cycles
        (N, 2) begin and end of each.
    """

    spans: Mapping[str, Matrix]
    cycle: str
    cycles: Matrix


@dataclass(frozen=True)
class EvaluationResult:
    """A judged run: the record, its parts against the truth, the metrics and the verdict.

    Attributes
    ----------
    source
        "simulated", "recorded" or "unknown": said wherever a figure is shown.
    time_s
        (K,) float64, seconds since the first estimate.
    stamps_ns, mean, covariance
        The record: (K,) int64, (K, a) and (K, n, n) float64.
    matched_ratio
        Share of the estimates that have a truth within the allowed gap.
    sensors
        Per sensor: `received`, `used`, `late`, `gated`, `duplicates`, `invalid`, `out_of_range`,
        `incomplete`, `rate_hz`, `mean_nis`.
    metrics
        What `metrics.json` holds, units in the key names.
    notes
        Losses and settings that the reader must know, one sentence each.
    events
        Intervals worth marking on time axes, e.g. {"contact": (M, 2) seconds}.
    phase_events
        What the filter saw begin, in the order of being seen; stamps as in `stamps_ns`.
    figures
        What a report of this kind of robot begins with, see `key_figures`; none: what suits any.
    phases
        Of a robot that repeats a cycle.
    learned
        What the filter had learned by the end, see `Estimator.learned`.
    sections
        What the robot adds to the report, see `Robot.report_sections`.
    start
        The initial state that the filter was given; None: it had its configured one.
    """

    robot: str
    estimator: str
    source: str
    bag: str
    time_s: Vector
    stamps_ns: NDArray[np.int64]
    mean: Matrix
    covariance: NDArray[np.float64]
    parts: Mapping[str, PartResult]
    drawing: Drawing | None
    matched_ratio: float
    sensors: Mapping[str, Mapping[str, float]]
    metrics: dict[str, Any]
    verdict: str
    command: str
    notes: tuple[str, ...] = ()
    events: Mapping[str, Matrix] = field(default_factory=dict)
    phase_events: tuple[PhaseEvent, ...] = ()
    figures: tuple[KeyFigure, ...] = ()
    phases: Phases | None = None
    learned: Any = None
    sections: tuple[ReportSection, ...] = ()
    start: Estimate | None = None

    @property
    def settle_s(self) -> float:
        """How much at the start the figures leave out."""
        return float(self.metrics.get("run", {}).get("left_out_at_start_s", 0.0))

    @property
    def facts(self) -> dict[str, str]:
        """What every record of the run says of it, as JSON: `robot`, `estimator`, `source`, `verdict`, `command`."""
        return {name: getattr(self, name) for name in ("robot", "estimator", "source", "verdict", "command")}

    @property
    def provenance(self) -> str:
        """What every figure says of itself: simulated or recorded, robot, estimator, bag."""
        return f"{self.source.upper()} data, {self.robot}, {self.estimator}, {Path(self.bag).name}"


COUNT = 5


def own_figures(result: EvaluationResult) -> list[KeyFigure]:
    """What a report of this kind of robot begins with and no other."""
    common = {one.label for one in (*error_figures(result), *honesty_figures(result))}
    return [one for one in (*_fault_figures(result), *result.figures) if one.label not in common]


def key_figures(result: EvaluationResult) -> tuple[KeyFigure, ...]:
    """Five: the robot's own, then errors, what sigma is worth, and, where there is no truth, what was estimated."""
    candidates = [
        *_fault_figures(result),
        *result.figures,
        *error_figures(result),
        *honesty_figures(result),
        *_path_figures(result),
        *_run_figures(result),
    ]
    found: dict[str, KeyFigure] = {}
    for figure in candidates:
        found.setdefault(figure.label, figure)
    return tuple(found.values())[:COUNT]


_FIRST_UNITS = ("m", "m/s", "m/s^2", "deg")
_LABELS = {"position_ate_rmse_m": "Position error", "heading_rmse_deg": "Heading error"}
_NOTES = {"position_ate_rmse_m": "RMS of the distance", "rotation_ate_rmse_deg": "RMS of the turn"}


def error_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """RMS error of each part with a truth that is a place, a velocity or angles, see `PartResult.rms`."""
    for name in result.parts:
        group = _group(result, name)
        for key in error_keys(group):
            if metric_label(key)[1] in _FIRST_UNITS and _number(group, key) is not None:
                label = _LABELS.get(key, f"{words(name)}: error")
                yield KeyFigure(label, shown_figures(group)[key], _NOTES.get(key, "RMS"))


def honesty_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """Of the part whose uncertainty is worst: share of errors within it, and mean NEES."""
    groups = {name: _group(result, name) for name in result.parts}
    shares = {name: one for name, group in groups.items() if (one := _number(group, "coverage_1_sigma")) is not None}
    if shares:
        worst = min(shares, key=lambda name: shares[name])
        value = f"{format_number(100.0 * shares[worst])} / {percent(groups[worst]['coverage_3_sigma'])}"
        yield KeyFigure("Errors within 1 / 3 sigma", value, f"{words(worst).lower()}; Gaussian: 68 / 99.7 %")
    key = "mean_nees_per_degree_of_freedom"
    nees = {name: one for name, group in groups.items() if (one := _number(group, key)) is not None}
    if nees:
        worst = max(nees, key=lambda name: nees[name])
        note = f"mean NEES per degree of freedom, {words(worst).lower()}; expected 1"
        yield KeyFigure("Squared error / claimed", format_number(nees[worst]), note)


def _fault_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    if group := _group(result, FAULT):
        after_s = _number(group, "told_after_s")
        share = _number(group, "coverage_3_sigma_after")
        note = "" if share is None else f"errors within 3 sigma after it: {percent(share)}"
        yield KeyFigure("Fault told", "no" if after_s is None else f"after {quantity(after_s, 's')}", note)


def _path_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    for name in result.parts:
        group = _group(result, name)
        shown = shown_figures({key: value for key, value in group.items() if _number(group, key) is not None})
        if (at_end := shown.get("final_position_error_percent_of_path")) is not None:
            note = f"of the path of {shown['true_path_length_m']}"
            yield KeyFigure("Position error at the end", at_end.removesuffix(" of the path"), note)
        if (largest := shown.get("position_ate_max_m")) is not None:
            yield KeyFigure("Largest position error", largest)


def _run_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """What can be said of every run."""
    duration_s = float(result.time_s[-1] - result.time_s[0])
    yield KeyFigure("Duration", quantity(duration_s, "s"))
    yield KeyFigure("Truth", percent(result.matched_ratio), "of the estimates have one")
    received = sum(counts.get("received", 0.0) for counts in result.sensors.values())
    if received > 0.0:
        used = sum(counts.get("used", 0.0) for counts in result.sensors.values())
        yield KeyFigure("Readings used", percent(used / received), f"of {received:.0f}")
    yield KeyFigure("Estimates", str(result.time_s.size))
    yield KeyFigure("Sensors", str(len(result.sensors)))
    yield KeyFigure("Parts estimated", str(len(result.parts)))


def _group(result: EvaluationResult, name: str) -> Mapping[str, Any]:
    group = result.metrics.get(name)
    return group if isinstance(group, Mapping) else {}


def _number(group: Mapping[str, Any], key: str) -> float | None:
    """None where it is missing, not finite or a list."""
    value = group.get(key)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
