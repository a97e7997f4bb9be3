"""A real soft arm at pressures left out, and a real beam under loads left out: recorded markers, nothing simulated.

The figures of `docs/softrobot.md`, and its picture of the arm. Needs the recordings; nothing here is timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import t as student_t

from benchmarks.recordings import recordings
from benchmarks.softrobot.real_arm import (
    LARGEST_BENDING_RAD,
    MarkedArc,
    PressureStep,
    StiffnessLaw,
    fit_arc,
    fit_course,
    fit_stiffness,
    predicted_deflections,
    read_pressure_step,
)
from benchmarks.softrobot.real_beam import (
    Beam,
    BeamModel,
    BeamMotion,
    Measured,
    Release,
    arc,
    fit_modulus,
    read_releases,
    rod,
)
from benchmarks.timing import row
from onboard_estimation.contract.picture import BAND_COLOUR, ESTIMATE_COLOUR, TRUTH_COLOUR

Array = NDArray[np.float64]

PICTURE = Path(__file__).parents[2] / "docs" / "soft_arm.png"
TARGET = 0.15
LOADS = {0.0: "beam_gravity_V2_a.c3d", 0.052: "beam_load52_V2_a.c3d", 0.101: "beam_load101_V2_a.c3d"}
BEAM = Beam(length_m=0.1, side_m=0.03, density_kg_m3=1085.0)
UNSURE_BEAMS = {
    "density": [replace(BEAM, density_kg_m3=density) for density in (1020.0, 1150.0)],
    "place of the load": [replace(BEAM, load_height_m=height) for height in (-0.5 * BEAM.side_m, 0.5 * BEAM.side_m)],
}
"""What is not known of the beam, at its bounds.

Of the silicone nothing is written down: makers' data sheets of those that cure by platinum say 1.02 to 1.15 g/cm^3. Of
the load the README of the recordings says `at its tip`: anywhere on the end's face, its middle on average.
"""
SHOWN = {"sag_m": ("sag", "mm", 1e3, 2), "frequency_hz": ("frequency", "Hz", 1.0, 3)}


@dataclass(frozen=True)
class Predicted:
    """A figure of the beam under a load that its modulus was not fitted to."""

    modulus: Measured
    motion: BeamMotion
    value: float
    uncertainty: float


@dataclass(frozen=True)
class LeftOut:
    """That figure as it was measured, and by both models."""

    release: Release
    figure: str
    measured: Measured
    rod: Predicted
    arc: Predicted


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows of the arm and of the beam; first those with targets."""
    folder = recordings("soft_arm")
    steps = arm_steps(folder)
    releases = read_releases({load_kg: folder / name for load_kg, name in LOADS.items()})
    predictions = [beam_prediction(releases, one, figure) for one in releases for figure in ("sag_m", "frequency_hz")]
    left_out = [(step, [one for one in steps if one is not step]) for step in steps]
    if not quick:
        FigureCanvasAgg(arm_figure(steps)).print_png(PICTURE, metadata={"Software": None})
    return [
        *(deflection_row(step, others) for step, others in left_out),
        *beam_rows(predictions),
        *law_rows(steps),
        *(course_cells(step, others) for step, others in left_out),
        *(release_cells(one) for one in releases),
        *(prediction_cells(one) for one in predictions),
    ]


def arm_steps(folder: Path) -> list[PressureStep]:
    """All of the arm, lowest pressure first."""
    return sorted(map(read_pressure_step, folder.glob("*mbar*.c3d")), key=lambda step: step.pressure_mbar)


def fitted(steps: Sequence[PressureStep]) -> tuple[MarkedArc, StiffnessLaw]:
    """The arc and the law of these steps' plateaus."""
    shape = fit_arc(steps)
    bendings = shape.bending([step.plateau()[0] for step in steps])
    return shape, fit_stiffness([step.pressure_mbar for step in steps], bendings)


def deflection_row(step: PressureStep, others: Sequence[PressureStep]) -> dict[str, Any]:
    """The tip at a pressure left out."""
    shape, law = fitted(others)
    expected, lower, upper = 1e3 * range_of_deflection(shape, law, step.pressure_mbar)
    measured = 1e3 * step.plateau()[1]
    off = expected / measured - 1.0
    case = f"arm, {step.pressure_mbar:g} mbar left out, deflection of the tip"
    figure = f"{expected:.2f} mm ({lower:.1f} to {upper:.1f}); measured {measured:.2f} mm: {off:+.1%}"
    return row(case, figure, f"within {TARGET:.0%}", abs(off) <= TARGET)


def range_of_deflection(shape: MarkedArc, law: StiffnessLaw, pressure_mbar: float) -> Array:
    """(3,) m: expected, and the bounds of 90 %."""
    found = law.range(pressure_mbar)
    return shape.deflection([found.expected_rad, found.lower_rad, found.upper_rad])


def law_rows(steps: Sequence[PressureStep]) -> list[dict[str, Any]]:
    """What all recordings together say, and what a constant stiffness makes of pressures left out."""
    shape, law = fitted(steps)
    course = fit_course(law, shape, steps)
    places = np.radians([0.0, 20.0, 60.0])
    known = ", ".join(
        f"{k:.0f} +- {k * s:.0f}" for k, s in zip(law.stiffness_mbar_rad(places), law.log_stddev(places), strict=True)
    )
    reached = f"{1e3 * course.rise_s:.0f} ms, {course.frequency_hz:.2f} Hz, {course.damping_ratio:.3f}, "
    constant = []
    for step in steps:
        others = [one for one in steps if one is not step]
        arc_of, pressures = fit_arc(others), np.array([one.pressure_mbar for one in others])
        bendings = arc_of.bending([one.plateau()[0] for one in others])
        stiffness = np.exp(np.mean(np.log(pressures / bendings)))
        bending = min(step.pressure_mbar / stiffness, LARGEST_BENDING_RAD)
        constant.append(f"{step.pressure_mbar:g} mbar {arc_of.deflection(bending)[0] / step.plateau()[1] - 1.0:+.0%}")
    return [
        {"case": "arm, stiffness over gain at 0, 20, 60 deg", "figure": f"{known} mbar/rad"},
        {"case": "arm, rise, frequency, damping ratio, creep", "figure": f"{reached}{course.creep_share:.1%}"},
        {"case": "arm, one constant stiffness, the tip at a pressure left out", "figure": ", ".join(constant)},
    ]


def course_cells(step: PressureStep, others: Sequence[PressureStep]) -> dict[str, Any]:
    """The whole course at a pressure left out, and where it is before the valve opens."""
    shape, law = fitted(others)
    predicted = predicted_deflections(fit_course(law, shape, others), shape, step)
    error, plateau = predicted - step.deflections_m, step.plateau()[1]
    rising, late = step.times_s < 0.5, step.times_s > step.end_s - 1.0

    def share(chosen: Any) -> str:
        return f"{np.sqrt(np.mean(error[chosen] ** 2)) / plateau:.1%}"

    ends = 1e3 * predicted[late].mean(), 1e3 * step.deflections_m[late].mean()
    cells = {
        "left out": f"{step.pressure_mbar:g} mbar",
        "RMS of all, of the plateau": share(slice(None)),
        "first 0.5 s": share(rising),
        "later": share(~rising),
        "last second, mm": f"{ends[0]:.2f}",
        "measured, mm": f"{ends[1]:.2f}",
        "off": f"{ends[0] / ends[1] - 1.0:+.1%}",
    }
    return {"case": cells["left out"], "table": "The arm's whole course at a pressure left out", "cells": cells}


def beam_prediction(releases: Sequence[Release], release: Release, figure: str) -> LeftOut:
    """One figure under a load left out, by both models."""
    found = (foretold(model, releases, release, figure) for model in (rod, arc))
    return LeftOut(release, figure, getattr(release, figure), *found)


def foretold(model: BeamModel, releases: Sequence[Release], release: Release, figure: str) -> Predicted:
    """By the modulus that fits this figure of the other loads; unsure by the modulus, and by UNSURE_BEAMS, refitted."""
    others = {one.load_kg: getattr(one, figure) for one in releases if one is not release}

    def value(beam: Beam, modulus_pa: float) -> float:
        return float(getattr(model(beam, modulus_pa, release.load_kg), figure))

    modulus = fit_modulus(model, BEAM, others, figure)
    motion = model(BEAM, modulus.value, release.load_kg)
    expected = float(getattr(motion, figure))
    changes = [value(BEAM, modulus.value + modulus.uncertainty) - expected]
    for beams in UNSURE_BEAMS.values():
        bounds = [value(beam, fit_modulus(model, beam, others, figure).value) for beam in beams]
        changes.append(max(abs(bound - expected) for bound in bounds))
    return Predicted(modulus, motion, expected, float(np.linalg.norm(changes)))


def beam_rows(predictions: Sequence[LeftOut]) -> list[dict[str, Any]]:
    """The rod against what was measured, within both uncertainties; and what the beams say of the material."""
    rows = []
    for one in predictions:
        word, unit, scale, digits = SHOWN[one.figure]
        predicted, measured = one.rod.value, one.measured
        both = float(np.hypot(measured.uncertainty, one.rod.uncertainty))
        off = abs(predicted - measured.value) / both
        figure = f"{scale * predicted:.{digits}f} {unit}; measured {scale * measured.value:.{digits}f} +- "
        figure += f"{scale * measured.uncertainty:.{digits}f}: {predicted / measured.value - 1.0:+.1%}, "
        figure += f"{off:.2f} uncertainties"
        case = f"beam, {1e3 * one.release.load_kg:g} g left out, {word}, rod"
        rows.append(row(case, figure, "<= 1 uncertainty of both", off <= 1.0))
    releases = list({one.release.load_kg: one.release for one in predictions}.values())
    return [*rows, *damping_rows(releases), *material_rows(releases)]


def damping_rows(releases: Sequence[Release]) -> list[dict[str, Any]]:
    """Damping ratio as a power of the frequency, through those of two loads, against that of the load left out.

    Beside it, what one ratio for all loads would say: the weighted mean of the others.
    """
    rows = []
    for release in releases:
        first, second = (one for one in releases if one is not release)
        place = np.log(release.frequency_hz.value / first.frequency_hz.value)
        place /= np.log(second.frequency_hz.value / first.frequency_hz.value)
        shares = np.array([1.0 - place, place])
        ratios = [one.damping_ratio for one in (first, second)]
        powered = float(np.exp(shares @ np.log([one.value for one in ratios])))
        unsure = powered * float(np.linalg.norm(shares * [one.uncertainty / one.value for one in ratios]))
        weights = np.array([one.uncertainty**-2 for one in ratios])
        single = Measured(float(weights @ [one.value for one in ratios] / weights.sum()), float(weights.sum() ** -0.5))
        measured = release.damping_ratio
        off = abs(powered - measured.value) / np.hypot(measured.uncertainty, unsure)
        single_off = abs(single.value - measured.value) / np.hypot(measured.uncertainty, single.uncertainty)
        figure = f"{powered:.3f}; measured {measured.value:.3f} +- {measured.uncertainty:.3f}: {off:.1f} uncertainties "
        figure += f"(one ratio for all: {single.value:.3f}, {single_off:.1f})"
        case = f"beam, {1e3 * release.load_kg:g} g left out, damping ratio, power of the frequency"
        rows.append(row(case, figure, "<= 1 uncertainty of both", off <= 1.0))
    return rows


def material_rows(releases: Sequence[Release]) -> list[dict[str, Any]]:
    """Young's modulus by each figure and model."""
    rows = []
    for name, model, beam in (
        ("rod", rod, BEAM),
        ("rod that does not shear", rod, replace(BEAM, shears=False)),
        ("arc", arc, BEAM),
    ):
        for figure, word in (("sag_m", "sags"), ("frequency_hz", "frequencies")):
            found = fit_modulus(model, beam, {one.load_kg: getattr(one, figure) for one in releases}, figure)
            text = f"{1e-3 * found.value:.0f} +- {1e-3 * found.uncertainty:.0f} kPa"
            rows.append({"case": f"beam, Young's modulus by all {word}, {name}", "figure": text})
    return rows


def release_cells(release: Release) -> dict[str, Any]:
    """What is read from a recording."""

    def shown(one: Measured, scale: float, digits: int) -> str:
        return f"{scale * one.value:.{digits}f} +- {scale * one.uncertainty:.{digits}f}"

    cells = {
        "load": f"{1e3 * release.load_kg:g} g",
        "sag, mm": shown(release.sag_m, 1e3, 1),
        "turn of the end, deg": f"{np.degrees(release.turn_rad):.1f}",
        "frequency, Hz": shown(release.frequency_hz, 1.0, 2),
        "damping ratio": shown(release.damping_ratio, 1.0, 3),
    }
    return {"case": cells["load"], "table": "The beam as recorded", "cells": cells}


def prediction_cells(found: LeftOut) -> dict[str, Any]:
    """Rod and arc side by side."""
    word, unit, scale, digits = SHOWN[found.figure]
    measured = found.measured
    cells = {
        "left out": f"{1e3 * found.release.load_kg:g} g",
        "figure": f"{word}, {unit}",
        "measured": f"{scale * measured.value:.{digits}f} +- {scale * measured.uncertainty:.{digits}f}",
    }
    for name, one in (("rod", found.rod), ("arc", found.arc)):
        share = f"{one.value / measured.value - 1.0:+.1%}"
        cells[name] = f"{scale * one.value:.{digits}f} +- {scale * one.uncertainty:.{digits}f} ({share})"
        cells[f"turn of the end by the {name}, deg"] = f"{np.degrees(one.motion.turn_rad):.1f}"
    return {"case": cells["left out"], "table": "The beam under a load left out", "cells": cells}


def arm_figure(steps: Sequence[PressureStep]) -> Figure:
    """The law of all steps against bending; each step's course as recorded and as the others foretell it."""
    shape, law = fitted(steps)
    quiet = {"axes.grid": True, "font.size": 9.0, "grid.color": "#CCCCCC", "legend.frameon": False}
    with style.context(["default", quiet]):
        figure = Figure(figsize=(9.0, 3.6), dpi=110, layout="constrained")
        left, right = figure.subplots(1, 2)
        bendings = np.radians(np.linspace(0.5, 80.0, 200))
        stiffness = law.stiffness_mbar_rad(bendings)
        factor = np.exp(student_t.ppf(0.95, law.degrees_of_freedom) * np.hypot(law.log_stddev(bendings), law.scatter))
        left.fill_between(np.degrees(bendings), stiffness / factor, stiffness * factor, color=BAND_COLOUR, alpha=0.3)
        left.plot(np.degrees(bendings), stiffness, color=ESTIMATE_COLOUR, label="law, and 90 % of runs")
        seen = shape.bending([step.plateau()[0] for step in steps])
        read = [step.pressure_mbar for step in steps] / seen
        left.plot(np.degrees(seen), read, "o", color=TRUTH_COLOUR, label="plateaus at 2 s")
        left.set(xlabel="bending (deg)", ylabel="stiffness over gain (mbar/rad)", ylim=(0.0, None))
        for step in steps:
            others = [one for one in steps if one is not step]
            of_others, their_law = fitted(others)
            predicted = predicted_deflections(fit_course(their_law, of_others, others), of_others, step)
            labels = ("recorded", "foretold by the other pressures") if step is steps[0] else (None, None)
            right.plot(step.times_s, 1e3 * step.deflections_m, color=TRUTH_COLOUR, label=labels[0])
            right.plot(step.times_s, 1e3 * predicted, color=ESTIMATE_COLOUR, linestyle="--", label=labels[1])
            end = (step.end_s, 1e3 * step.deflections_m[-1])
            right.annotate(f" {step.pressure_mbar:g} mbar", end, va="center", fontsize=8.0)
        right.set(xlabel="since the tip began to move (s)", ylabel="tip moved by (mm)", xlim=(0.0, 7.2))
        left.legend()
        right.legend(loc="center right", bbox_to_anchor=(1.0, 0.41))
    return figure
