"""What an evaluation knows in the end: the one structure that metrics, plots, report and verdict read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.reported import ReportSection
from onboard_estimation.measurement import Matrix, PhaseEvent, Vector

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
