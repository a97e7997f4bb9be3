"""A real soft arm at pressures left out, and a real beam under loads left out: recorded markers, nothing simulated.

The figures of `docs/softrobot.md`, and its picture of the arm. Needs the recordings; nothing here is timed.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg

from benchmarks.measuring import Row, recordings
from benchmarks.softrobot.real_arm import arm_figure, course_row, deflection_row, law_rows, read_pressure_step
from benchmarks.softrobot.real_beam import beam_rows, damping_rows, material_rows, read_releases, release_row

PICTURE = Path(__file__).parents[2] / "docs" / "soft_arm.png"


def run(quick: bool) -> list[Row]:
    """Rows of the arm and of the beam; first those with targets."""
    folder = recordings("soft_arm")
    steps = sorted(map(read_pressure_step, folder.glob("*mbar*.c3d")), key=lambda step: step.pressure_mbar)
    releases = read_releases(folder)
    beams, tables = beam_rows(releases)
    if not quick:
        FigureCanvasAgg(arm_figure(steps)).print_png(PICTURE, metadata={"Software": None})
    return [
        *(deflection_row(step, steps) for step in steps),
        *beams,
        *damping_rows(releases),
        *material_rows(releases),
        *law_rows(steps),
        *(course_row(step, steps) for step in steps),
        *(release_row(one) for one in releases),
        *tables,
    ]
