"""A function that was learned as a sum of basis functions: mean and deviation anywhere in its box, and its file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.learning import model_file
from onboard_estimation.learning.model_header import ModelHeader
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

    KIND: ClassVar[str] = "reduced_rank_gaussian_process"

    def predict(self, places: ArrayLike) -> tuple[Array, Array]:
        """Means (K, p) and standard deviations (K, p) of the function, without noise, at `places` (K, d)."""
        phi, _ = self.basis.functions(places)
        variances = np.einsum("km,pml,kl->kp", phi, self.covariances, phi, optimize=True)
        return self.constants + phi @ self.weights.T, np.sqrt(np.maximum(variances, 0.0))

    def save(self, path: Path, header: ModelHeader) -> None:
        """Write it; the header's kind is `KIND`, its inputs are the d coordinates, its outputs the p outputs.

        Raises
        ------
        UserError
            It cannot be written, or the header is that of another kind of model.
        """
        self._check_header(header, f"model {path}")
        model_file.save(path, header, self.arrays())

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
    def load(cls, path: Path) -> tuple[LearnedFunction, ModelHeader]:
        """A function and what its file says about itself.

        Raises
        ------
        UserError
            No such file, damaged, another kind of model, or arrays that do not fit together.
        """
        header, arrays = model_file.load(path)
        if header.kind != cls.KIND:
            raise UserError(f"model {path}: of the kind {header.kind}; a learned function is of the kind {cls.KIND}")
        return cls.of_arrays(arrays, header, f"model {path}"), header

    @classmethod
    def of_arrays(cls, arrays: model_file.Arrays, header: ModelHeader, where: str) -> LearnedFunction:
        """From what a file holds, which may be more; UserError, beginning with `where`, if it does not fit."""
        missing = [name for name in ("box", "kernel", "margin", *_ARRAYS) if name not in arrays]
        if missing:
            raise UserError(f"{where}: a learned function without {', '.join(missing)}; train it anew")
        p, m = len(header.output_names), arrays["weights"].shape[-1] if arrays["weights"].ndim else 0
        shapes = {
            "box": (3, len(header.input_names)),
            "kernel": (1,),
            "margin": (1,),
            "constants": (p,),
            "weights": (p, m),
            "covariances": (p, m, m),
            "noise_stddevs": (p,),
        }
        wrong = [
            f"{name} {arrays[name].shape}, not {shape}" for name, shape in shapes.items() if arrays[name].shape != shape
        ]
        number = int(arrays["kernel"][0]) if not wrong else 0
        if wrong or not 0 <= number < len(KERNELS):
            raise UserError(f"{where}: arrays that do not fit together: {'; '.join(wrong) or f'kernel {number}'}")
        centre, half_widths, length_scales = (tuple(map(float, row)) for row in arrays["box"])
        kernel: Any = KERNELS[number]
        basis = ReducedRankBasis(centre, half_widths, length_scales, m, kernel, float(arrays["margin"][0]))
        return cls(basis, *(np.array(arrays[name], dtype=np.float64) for name in _ARRAYS))

    def _check_header(self, header: ModelHeader, where: str) -> None:
        """UserError where it is not a header of this function."""
        if header.kind != self.KIND:
            raise UserError(f"{where}: a header of the kind {header.kind}; a learned function is of {self.KIND}")
        for name, given, needed in (
            ("input", len(header.input_names), self.basis.dimensions),
            ("output", len(header.output_names), len(self.constants)),
        ):
            if given != needed:
                raise UserError(f"{where}: {given} {name} names in the header, the function has {needed}")


_ARRAYS = ("constants", "weights", "covariances", "noise_stddevs")
