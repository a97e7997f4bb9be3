"""What the report of a run says of the stiffness: its course with the bending, and whence a filter had its numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onboard_estimation.capabilities.reported import Note, Panel, PanelGroup, Picture, ReportSection
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.measurement import Matrix, Vector
from softrobot_estimation.configuration import SoftRobotConfiguration
from softrobot_estimation.filter_model import configured_model
from softrobot_estimation.grey_box import GreyBox
from softrobot_estimation.nominal_segment import coordinates_of_tip
from softrobot_estimation.space import SPACE
from softrobot_estimation.stiffness_picture import LearnedStiffness, stiffness_picture


def section(configuration: SoftRobotConfiguration, result: EvaluationResult, settle_s: float) -> ReportSection:
    """Stiffness with three standard deviations, and the angle of bending, over time."""
    box = GreyBox(configuration)
    stiffness, tangent = result.mean[:, SPACE.coordinates("stiffness")][:, 0], SPACE.tangent("stiffness").start
    stddev = np.sqrt(result.covariance[:, tangent, tangent])
    places = result.mean[:, SPACE.coordinates("position")]
    shapes = coordinates_of_tip(box.segment, places, box.beyond_m)
    bending = np.hypot(*shapes[:, :2].T)
    lines = {
        "estimate": stiffness,
        "3 sigma above": stiffness + 3.0 * stddev,
        "3 sigma below": stiffness - 3.0 * stddev,
    }
    truth = result.parts.get("stiffness")
    if truth is not None and truth.matched.any():
        lines["truth"] = truth.truth[:, 0]
    panels = Panel("stiffness", "N m/rad", lines), Panel("bending", "rad", {"estimate": bending})
    settled = result.time_s >= min(settle_s, result.time_s[-1])  # of a run shorter than that, its end
    return ReportSection(
        "Stiffness",
        (
            "Stiffness in bending as the filter has it, the law of the configuration included, and how far the segment "
            "is bent.",
            _by_bending(stiffness[settled], bending[settled]),
        ),
        result.time_s,
        (PanelGroup("Stiffness and bending", panels),),
        () if result.learned is None else (_map(result, shapes[settled]),),
    )


def _map(result: EvaluationResult, path: Matrix) -> Picture:
    """What the particles had learned by the end of the run, and where it was (K, 3)."""
    learned = LearnedStiffness(result.learned, path)
    return Picture(
        stiffness_picture(
            learned, f"{result.source}, {Path(result.bag).name}: stiffness as {result.estimator} learned it"
        ),
        "Stiffness that the particles had learned by the end, without the law of the configuration, over bending: its "
        "mean and its standard deviation; right: along elongation.",
    )


def _by_bending(stiffness: Vector, bending: Vector) -> str:
    """Medians of the thirds of a run in which it was bent least and most."""
    order = np.argsort(bending)
    third = max(len(order) // 3, 1)
    (straight, low), (bent, high) = (
        (float(np.median(bending[rows])), float(np.median(stiffness[rows]))) for rows in (order[:third], order[-third:])
    )
    return (
        f"In the third of the run in which it was bent least ({straight:.2f} rad) its median is {low:.3f} N m/rad, in "
        f"that in which it was bent most ({bent:.2f} rad) {high:.3f} N m/rad: {100.0 * (high / low - 1.0):+.0f} %."
    )


def notes(configuration: SoftRobotConfiguration, result: EvaluationResult) -> tuple[Note, ...]:
    """Parameters that came from a model, and whether particles had lost the robot."""
    found = []
    model = configured_model(configuration)
    tuned = {} if model is None else model.tuned.get(result.estimator, {})
    if tuned:
        values = ", ".join(f"{name} {value:.3g}" for name, value in tuned.items())
        found.append(Note(f"Of the model, in place of the configuration's: {values}."))
    if lost := int(result.metrics["run"].get("times_lost", 0)):
        times = "once" if lost == 1 else f"{lost} times"
        found.append(
            Note(f"The particles had lost the robot {times} and were spread anew.", f"lost {times} and found again")
        )
    return tuple(found)
