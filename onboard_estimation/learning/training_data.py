"""Training data of Gaussian processes: checked, and in units in which all numbers are of the order of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError

Array = NDArray[np.float64]

FEWEST_POINTS = 20
LENGTH_SCALE_BOUNDS = (0.02, 5.0)
"""Length scales, in units of `input_scales`. The upper one keeps the variance growing away from the data, even along
an input that the training targets did not seem to depend on. Measured on gaits: from 10 to 5, errors inside the data
grow by a few hundredths of themselves, and the squared errors of a gait that was not trained, over their predicted
variance, fall from up to 20 to 6."""
NOISE_VARIANCE_BOUNDS = (1e-6, 1e2)
"""In units of the targets' mean square."""


@dataclass(frozen=True)
class TrainingData:
    """Inputs less their mean and over their scale, targets over theirs.

    The targets' mean is left in: away from the data a prediction is to fade to zero, to the model without residuals.

    Attributes
    ----------
    inputs
        (n, d), in units of `input_scales` about `input_means`.
    targets
        (n, m), in units of `target_scales`.
    input_means, input_scales
        (d,), in the inputs' units. Scales are standard deviations; 1 where an input never changed.
    target_scales
        (m,), root mean squares, in the targets' units; 1 where a target is always zero.
    """

    inputs: Array
    targets: Array
    input_means: Array
    input_scales: Array
    target_scales: Array

    @classmethod
    def normalised(cls, inputs: ArrayLike, targets: ArrayLike) -> TrainingData:
        """Of inputs (n, d) and targets (n, m).

        Raises
        ------
        UserError
            Wrong shapes, numbers that are not finite, or fewer than FEWEST_POINTS points.
        """
        x = np.ascontiguousarray(inputs, dtype=np.float64)
        y = np.ascontiguousarray(targets, dtype=np.float64)
        if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or 0 in (x.shape[-1], y.shape[-1]):
            raise UserError(f"training data: inputs (n, d) and targets (n, m) are needed, not {x.shape} and {y.shape}")
        bad = int((~(np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1))).sum())
        if bad:
            raise UserError(f"training data: {bad} of {len(x)} points hold a number that is not finite; leave them out")
        if len(x) < FEWEST_POINTS:
            raise UserError(
                f"training data: {len(x)} points, at least {FEWEST_POINTS} are needed; record for longer or lower the "
                "interval between points"
            )
        scales = x.std(axis=0)
        scales[scales <= 1e-12 * np.abs(x).max(axis=0, initial=0.0)] = 1.0
        target_scales = np.sqrt(np.mean(y * y, axis=0))
        target_scales[target_scales == 0.0] = 1.0
        means = x.mean(axis=0)
        return cls((x - means) / scales, y / target_scales, means, scales, target_scales)


def check_inputs(inputs: ArrayLike, dimensions: int) -> Array:
    """Inputs (k, d) of a prediction as contiguous float64; UserError where they do not have `dimensions` columns."""
    x = np.ascontiguousarray(inputs, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != dimensions:
        raise UserError(f"inputs of shape (k, {dimensions}) are needed, not {x.shape}")
    return x
