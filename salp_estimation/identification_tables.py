"""What `identify` shows of a chain's drag: coefficients with intervals, and measured against predicted rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onboard_estimation.capabilities.tables import ReportTable
from salp_estimation.validation import Signal, Validation


@dataclass(frozen=True)
class Coefficient:
    """One line of the table; `low` and `high` bound the 95 % interval and are infinite where nothing is known.

    Attributes
    ----------
    ratio, ratio_low, ratio_high
        To d_xx of the first wheel: what commands and motion alone determine. In m for a mixed element, m^2 for turning.
    poor
        The interval is wider than a tenth of the value (of the geometric mean of both axes' for a mixed element).
    held
        Not estimated.
    """

    name: str
    unit: str
    value: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    configured: float
    poor: bool
    held: bool

    @property
    def interval(self) -> str:
        """The 95 % interval in words."""
        if self.held:
            return "held"
        if not self.high < float("inf"):
            return "not determined"
        return f"{self.low:.5g} to {self.high:.5g}{' (poor)' if self.poor else ''}"


def coefficient_table(title: str, coefficients: Sequence[Coefficient]) -> ReportTable:
    """All coefficients beside the configured ones."""
    headings = ("coefficient", "value", "95 % interval", "unit", "ratio to the first", "configured")
    rows = tuple(
        (one.name, f"{one.value:.6g}", one.interval, one.unit, f"{one.ratio:.5g}", f"{one.configured:.6g}")
        for one in coefficients
    )
    return ReportTable(title, headings, rows, right=(*headings[1:3], *headings[4:]))


def validation_table(validations: Sequence[Validation]) -> ReportTable:
    """How well the identified drag predicts what was measured, and how well the configured one did."""
    headings = ("recording", "signal", "RMS", "with configured drag", "unit", "variance explained")
    rows = tuple(
        ("" if number else validation.name, *_signal_cells(one))
        for validation in validations
        for number, one in enumerate(validation.signals)
    )
    return ReportTable("measured against predicted", headings, rows, right=(*headings[2:4], headings[5]))


def _signal_cells(one: Signal) -> tuple[str, ...]:
    factor, unit = (100.0, "cm/s") if one.unit == "m/s" else (float(np.rad2deg(1.0)), "deg/s")
    errors = (f"{factor * rms:.3g}" for rms in (one.rms, one.rms_before))
    return (one.name, *errors, unit, f"{100.0 * one.explained:.2f} %")
