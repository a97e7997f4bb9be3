"""A function that was learned as a sum of basis functions: mean and deviation anywhere in its box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.learning import model_file
from onboard_estimation.learning.model_file import ModelHeader
from onboard_estimation.learning.reduced_rank import KERNELS, ReducedRankBasis

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LearnedFunction:
    """p outputs, each a constant plus weighted basis functions, with what is not known of the weights.

    Attributes
    ----------
    basis
        M functions of d coordinates.
    constants
        (p,) means of the prior.
    weights, covariances
        (p, M) and (p, M, M).
    noise_stddevs
        (p,) of what varies about the function from sample to sample.
    """

    basis: ReducedRankBasis
    constants: Array
    weights: Array
    covariances: Array
    noise_stddevs: Array

    def predict(self, places: ArrayLike) -> tuple[Array, Array]:
        """Means (K, p) and standard deviations (K, p) of the function, without noise, at `places` (K, d)."""
        phi, _ = self.basis.functions(places)
        variances = np.einsum("km,pml,kl->kp", phi, self.covariances, phi, optimize=True)
        return self.constants + phi @ self.weights.T, np.sqrt(np.maximum(variances, 0.0))

    def arrays(self) -> model_file.Arrays:
        """What a file holds of it, by name."""
        basis = self.basis
        return {
            "box": np.array([basis.centre, basis.half_widths, basis.length_scales], dtype=np.float64),
            "kernel": np.array([KERNELS.index(basis.kernel)]),
            "margin": np.array([basis.margin]),
            **{name: getattr(self, name) for name in _ARRAYS},
        }

    @classmethod
    def of_arrays(cls, arrays: model_file.Arrays, header: ModelHeader, where: str) -> LearnedFunction:
        """From what a file holds, which may be more; UserError, beginning with `where`, if it does not fit."""
        p, d = len(header.output_names), len(header.input_names)
        values = model_file.fitting(arrays, _SHAPES, f"{where}: learned function", p=p, d=d)
        number = int(values["kernel"][0])
        if not 0 <= number < len(KERNELS):
            raise UserError(f"{where}: arrays that do not fit together: kernel {number}")
        centre, half_widths, length_scales = (tuple(map(float, row)) for row in values["box"])
        kernel: Any = KERNELS[number]
        basis = ReducedRankBasis(
            centre, half_widths, length_scales, values["weights"].shape[1], kernel, float(values["margin"][0])
        )
        return cls(basis, *(values[name] for name in _ARRAYS))


_ARRAYS = {"constants": "p", "weights": "p M", "covariances": "p M M", "noise_stddevs": "p"}
_SHAPES = {"box": "3 d", "kernel": "1", "margin": "1", **_ARRAYS}
