"""What an evaluation knows in the end: the one structure that metrics, plots, report and verdict read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, PhaseEvent, Vector
from onboard_estimation.base.presentation import display_unit, format_number, unit_suffix, words


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

    @property
    def provenance(self) -> str:
        """What every figure says of itself: simulated or recorded, robot, estimator, bag."""
        return f"{self.source.upper()} data, {self.robot}, {self.estimator}, {Path(self.bag).name}"


COUNT = 5


def key_figures(result: EvaluationResult) -> tuple[KeyFigure, ...]:
    """Five: the robot's own, then errors, what sigma is worth, and, where there is no truth, what was estimated."""
    candidates = [
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


def error_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """RMS error of each part with a truth: of a position as a distance, of angles as one."""
    for name in result.parts:
        group = _group(result, name)
        if (error := _number(group, "position_ate_rmse_m")) is not None:
            yield KeyFigure("Position error", _quantity(error, "m"), "RMS of the distance")
            if (heading := _number(group, "heading_rmse_deg")) is not None:
                yield KeyFigure("Heading error", f"{format_number(heading, 3)} deg", "RMS")
        elif (angle := _number(group, "rmse_deg")) is not None:
            yield KeyFigure(f"{words(name)}: error", f"{format_number(angle, 3)} deg", "RMS")
        else:
            part = result.parts[name]
            unit = part.units[0] if part.units and set(part.units) == {part.units[0]} else ""
            rms = [_number(group, f"{one}_rmse{unit_suffix(unit)}") for one in part.names]
            known = [one for one in rms if one is not None]
            if unit in ("m", "m/s", "m/s^2") and len(known) == len(part.names):
                yield KeyFigure(f"{words(name)}: error", _quantity(math.hypot(*known), unit), "RMS")


def honesty_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """Of the part whose uncertainty is worst: share of errors within it, and mean NEES."""
    groups = {name: _group(result, name) for name in result.parts}
    shares = {name: one for name, group in groups.items() if (one := _number(group, "coverage_1_sigma")) is not None}
    if shares:
        worst = min(shares, key=lambda name: shares[name])
        third = _number(groups[worst], "coverage_3_sigma")
        value = f"{100.0 * shares[worst]:.0f} %" + (
            f" / {format_number(100.0 * third, 3)} %" if third is not None else ""
        )
        label = "Errors within 1 / 3 sigma" if third is not None else "Errors within 1 sigma"
        yield KeyFigure(label, value, f"{words(worst).lower()}; Gaussian: 68 / 99.7 %")
    key = "mean_nees_per_degree_of_freedom"
    nees = {name: one for name, group in groups.items() if (one := _number(group, key)) is not None}
    if nees:
        worst = max(nees, key=lambda name: nees[name])
        note = f"mean NEES per degree of freedom, {words(worst).lower()}; expected 1"
        yield KeyFigure("Squared error / claimed", format_number(nees[worst], 3), note)


def _path_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    for name in result.parts:
        group = _group(result, name)
        length = _number(group, "true_path_length_m")
        percent = _number(group, "final_position_error_percent_of_path")
        if percent is not None and length is not None:
            note = f"of the path of {_quantity(length, 'm')}"
            yield KeyFigure("Position error at the end", f"{format_number(percent, 3)} %", note)
        if (largest := _number(group, "position_ate_max_m")) is not None:
            yield KeyFigure("Largest position error", _quantity(largest, "m"))


def _run_figures(result: EvaluationResult) -> Iterator[KeyFigure]:
    """What can be said of every run."""
    duration_s = float(result.time_s[-1] - result.time_s[0])
    yield KeyFigure("Duration", f"{format_number(duration_s)} s")
    yield KeyFigure("Truth", f"{100.0 * result.matched_ratio:.0f} %", "of the estimates have one")
    received = sum(counts.get("received", 0.0) for counts in result.sensors.values())
    if received > 0.0:
        used = sum(counts.get("used", 0.0) for counts in result.sensors.values())
        yield KeyFigure("Readings used", f"{100.0 * used / received:.1f} %", f"of {received:.0f}")
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


def _quantity(value: float, unit: str) -> str:
    shown, factor = display_unit(unit, abs(value))
    return f"{format_number(factor * value, 3)} {shown}"
