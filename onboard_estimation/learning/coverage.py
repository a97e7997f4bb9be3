"""Which inputs the training data covers: where predictions rest on data, and which inputs were hardly moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError

Array = NDArray[np.float64]

COVERED_SHARE = 0.5
"""A point counts as covered by an output's data where the latent variance is below this share of the prior one."""


class Predictor(Protocol):
    """A model with a variance: `ExactGaussianProcesses`, `SparseGaussianProcesses`."""

    @property
    def signal_variances(self) -> Array:
        """Prior variances (m,)."""

    def predict(self, inputs: ArrayLike) -> tuple[Array, Array]:
        """Means and latent variances (k, m)."""


@dataclass(frozen=True)
class Coverage:
    """How far inputs lie within the training data.

    Attributes
    ----------
    covered
        Share of the points, in [0, 1], at which every output rests on data.
    covered_by_output
        (m,), the same share of each output by itself.
    variance_share
        (m,), latent variance over prior variance, mean over the points: 0 on the data, 1 far from it.
    """

    covered: float
    covered_by_output: Array
    variance_share: Array


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


def covered(model: Predictor, inputs: ArrayLike, share: float = COVERED_SHARE) -> Coverage:
    """How much of the inputs (k, d), k >= 1, the training data of a model covers.

    Raises
    ------
    UserError
        No inputs, or of another number of columns than the model's.
    """
    _, variances = model.predict(inputs)
    if not len(variances):
        raise UserError("coverage: there are no inputs to judge")
    relative = variances / model.signal_variances
    below = relative < share
    return Coverage(float(below.all(axis=1).mean()), below.mean(axis=0), relative.mean(axis=0))


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
