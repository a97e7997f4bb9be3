"""What `identify` shows of a soft robot: parameters with intervals, and how the free run errs before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onboard_estimation.capabilities.tables import ReportTable
from onboard_estimation.measurement import Matrix, Vector


@dataclass(frozen=True)
class Parameter:
    """One line of the table; `low` and `high` bound the 95 % interval.

    Attributes
    ----------
    prior_share
        Standard deviation, by that which was known beforehand; NaN where nothing was.
    determined
        Whether the recordings tell it; else it keeps to what was known beforehand, and so does the interval.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    configured: float
    prior_share: float
    determined: bool
    source: str


@dataclass(frozen=True, eq=False)
class FreeRun:
    """One recording against the model on its pressures alone, in the base's frame.

    Attributes
    ----------
    times_s, measured_m, before_m, after_m
        (G,), (G, 3): motion capture, the model with the configured and with the identified parameters. NaN where the
        tip was not seen, or the model has fallen over.
    delay_s
        Of motion capture behind the wrench; None where it is not known.
    """

    name: str
    times_s: Vector
    measured_m: Matrix
    before_m: Matrix
    after_m: Matrix
    delay_s: float | None

    def errors_mm(self, places_m: Matrix) -> tuple[float, float, float, float]:
        """RMS in space and along x, y and z."""
        squares = np.nanmean(np.square(1e3 * (places_m - self.measured_m)), axis=0)
        x, y, z = np.sqrt(squares).tolist()
        return float(np.sqrt(squares.sum())), x, y, z

    @property
    def fallen(self) -> bool:
        """Whether the model falls over with the configured parameters."""
        return bool((np.isnan(self.before_m) & np.isfinite(self.measured_m)).any())

    def figures(self) -> dict[str, object]:
        """For JSON."""
        names = ("rms_mm", "rms_x_mm", "rms_y_mm", "rms_z_mm")
        return {
            "name": self.name,
            "capture_delay_s": self.delay_s,
            "configured_falls": self.fallen,
            "before": dict(zip(names, self.errors_mm(self.before_m), strict=True)),
            "after": dict(zip(names, self.errors_mm(self.after_m), strict=True)),
        }


def parameter_table(title: str, parameters: Sequence[Parameter]) -> ReportTable:
    """All of them beside the configured values."""
    headings = ("parameter", "value", "95 % interval", "unit", "configured", "known from")
    rows = tuple(
        (
            one.name,
            f"{one.value:.4g}",
            f"{one.low:.4g} to {one.high:.4g}",
            one.unit,
            f"{one.configured:.4g}",
            "recordings" if one.determined else "before",
        )
        for one in parameters
    )
    return ReportTable(title, headings, rows, right=(headings[1], headings[2], headings[4]))


def free_run_table(runs: Sequence[FreeRun]) -> ReportTable:
    """Errors of the tip by pressures alone."""
    headings = ("recording", "capture late, ms", "configured, mm RMS", "identified, mm RMS", "x", "y", "z")
    rows = []
    for run in runs:
        after = run.errors_mm(run.after_m)
        before = f"{run.errors_mm(run.before_m)[0]:.2f}{' until it falls over' if run.fallen else ''}"
        delay = "not known" if run.delay_s is None else f"{1e3 * run.delay_s:.1f}"
        rows.append((run.name, delay, before, *(f"{one:.2f}" for one in after)))
    return ReportTable("tip by pressures alone against motion capture", headings, tuple(rows), right=headings[1:])
