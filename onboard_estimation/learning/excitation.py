"""Which inputs were hardly moved in the training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Excitation:
    """How far one input was moved in the training data.

    Attributes
    ----------
    name, unit
        Of the input.
    lowest, highest
        Range that holds 98 % of the data, so that a few outliers do not count, in the input's unit.
    smallest_range
        What would have been enough, in the input's unit.
    """

    name: str
    unit: str
    lowest: float
    highest: float
    smallest_range: float

    @property
    def excited(self) -> bool:
        """Whether the range was wide enough."""
        return self.highest - self.lowest >= self.smallest_range

    def __str__(self) -> str:
        verdict = "moved" if self.excited else "hardly moved"
        return (
            f"{self.name} {verdict}: {self.lowest:.3g} to {self.highest:.3g} {self.unit}, "
            f"a range of {self.smallest_range:.3g} is wanted"
        )


def excitation(
    inputs: ArrayLike, names: Sequence[str], units: Sequence[str], smallest_ranges: ArrayLike
) -> tuple[Excitation, ...]:
    """How far each of the inputs (n, d) was moved, against `smallest_ranges` (d,) in their units.

    Raises
    ------
    UserError
        No inputs, or numbers of names, units, ranges and columns that differ.
    """
    x = np.asarray(inputs, dtype=np.float64)
    ranges = np.asarray(smallest_ranges, dtype=np.float64)
    if x.ndim != 2 or not len(x) or {len(names), len(units), *ranges.shape} != {x.shape[1]}:
        raise UserError(
            f"excitation: inputs {x.shape}, {len(names)} names, {len(units)} units and ranges {ranges.shape} do not "
            "fit together"
        )
    lowest, highest = np.percentile(x, [1.0, 99.0], axis=0)
    return tuple(
        Excitation(name, unit, float(low), float(high), float(wanted))
        for name, unit, low, high, wanted in zip(names, units, lowest, highest, ranges, strict=True)
    )
