"""Picture of the real arm: its stiffness against bending, and its tip's course at pressures left out.

`python -m benchmarks.softrobot.soft_arm_picture FILE` writes the one of the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.stats import t as student_t

from benchmarks.recordings import recordings
from benchmarks.softrobot.soft_arm import arm_steps, fitted
from benchmarks.softrobot.soft_arm_study.arm_course import fit_course, predicted_deflections
from benchmarks.softrobot.soft_arm_study.arm_step import PressureStep
from onboard_estimation.errors import UserError
from onboard_estimation.picture import BAND_COLOUR, ESTIMATE_COLOUR, TRUTH_COLOUR

_STYLE = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.0,
    "grid.color": "#CCCCCC",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
}


def write_picture(steps: Sequence[PressureStep], file: Path) -> None:
    """Both panels."""
    with style.context(["default", _STYLE]):
        figure = Figure(figsize=(9.0, 3.6), dpi=110, layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_stiffness(left, steps)
        draw_courses(right, steps)
        try:
            FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror or error}") from error


def draw_stiffness(axes: Axes, steps: Sequence[PressureStep]) -> None:
    """The law of all steps, where 90 % of runs lie about it, and what each plateau says by itself."""
    shape, law = fitted(steps)
    bendings = np.radians(np.linspace(0.5, 80.0, 200))
    stiffness = law.stiffness_mbar_rad(bendings)
    factor = np.exp(student_t.ppf(0.95, law.degrees_of_freedom) * np.hypot(law.log_stddev(bendings), law.scatter))
    places = np.degrees(bendings)
    axes.fill_between(places, stiffness / factor, stiffness * factor, color=BAND_COLOUR, alpha=0.3, linewidth=0.0)
    axes.plot(places, stiffness, color=ESTIMATE_COLOUR, label="law, and 90 % of runs")
    seen = shape.bending([step.plateau()[0] for step in steps])
    read = [step.pressure_mbar for step in steps] / seen
    axes.plot(np.degrees(seen), read, "o", color=TRUTH_COLOUR, label="plateaus at 2 s")
    axes.set(xlabel="bending (deg)", ylabel="stiffness over gain (mbar/rad)", ylim=(0.0, None))
    axes.legend()


def draw_courses(axes: Axes, steps: Sequence[PressureStep]) -> None:
    """Each step as recorded and as the others foretell it."""
    for step in steps:
        others = [one for one in steps if one is not step]
        shape, law = fitted(others)
        predicted = predicted_deflections(fit_course(law, shape, others), shape, step)
        first = step is steps[0]
        axes.plot(step.times_s, 1e3 * step.deflections_m, color=TRUTH_COLOUR, label="recorded" if first else None)
        label = "foretold by the other pressures" if first else None
        axes.plot(step.times_s, 1e3 * predicted, color=ESTIMATE_COLOUR, linestyle="--", label=label)
        end = (step.end_s, 1e3 * step.deflections_m[-1])
        axes.annotate(f" {step.pressure_mbar:g} mbar", end, va="center", fontsize=8.0)
    axes.set(xlabel="since the tip began to move (s)", ylabel="tip moved by (mm)", xlim=(0.0, 7.2))
    axes.legend(loc="center right", bbox_to_anchor=(1.0, 0.41))


def main(arguments: Sequence[str]) -> int:
    """Write the picture of the documentation."""
    if len(arguments) != 1:
        print("usage: python -m benchmarks.softrobot.soft_arm_picture FILE.png", file=sys.stderr)
        return 2
    try:
        write_picture(arm_steps(recordings("soft_arm")), Path(arguments[0]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
