"""Gaussian processes of reduced rank: a sum of M fixed functions with independent weights (Solin and Särkkä, 2020).

On a box, a stationary kernel is nearly sum_m S(sqrt(e_m)) phi_m(x) phi_m(x'), with the Laplace operator's
eigenfunctions phi_m and eigenvalues e_m there, and the kernel's spectral density S: eqs. (3) to (8) of the paper on
marginalised particle filters for soft robots. What was a function is linear in M weights with prior variances S: that
is what makes it learnable at a constant cost.

Coordinates are scaled by their length scales, so that the kernel is one of distance alone, and the M functions with the
smallest eigenvalues are those of the largest prior variances, however long the box is in each direction.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.learning import model_file
from onboard_estimation.learning.model_file import ModelHeader

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Kernel = Literal["squared_exponential", "matern_3_2", "matern_5_2"]
KERNELS: tuple[str, ...] = get_args(Kernel)
_SMOOTHNESS = {"matern_3_2": 1.5, "matern_5_2": 2.5}

# Taylor's polynomials of cos(pi p / 2) and sin(pi p / 2) / p in p^2, highest power first: for |p| <= 1 they hold to
# rounding, and a processor works at both at once, which it does not at calls of the library.
_TERMS = 12
_COSINE = np.array([(-1) ** k * (0.5 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(_TERMS)][::-1])
_SINE = np.array([(-1) ** k * (0.5 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(_TERMS)][::-1])


@dataclass(frozen=True)
class ReducedRankBasis:
    """M functions on a box, and how much each of them varies under a kernel of unit variance.

    All functions are zero on the box's edge, and so is what they can learn: choose half widths some two length scales
    wider than where data will be. Places nearer to the edge than `margin` are taken to lie on that inner box.

    Attributes
    ----------
    centre, half_widths, length_scales
        (d,) each, in the units of the coordinates.
    function_count
        M.
    kernel
        One of KERNELS.
    margin
        Share of the half widths next to the edge where the functions are not evaluated.

    Raises
    ------
    UserError
        Lengths that do not fit together, or numbers that make no box.
    """

    centre: tuple[float, ...]
    half_widths: tuple[float, ...]
    length_scales: tuple[float, ...]
    function_count: int = 40
    kernel: Kernel = "squared_exponential"
    margin: float = 0.05

    def __post_init__(self) -> None:
        lengths = (*self.half_widths, *self.length_scales)
        sound = len(self.half_widths) == len(self.length_scales) == len(self.centre) > 0
        sound = sound and all(0.0 < value < np.inf for value in lengths) and bool(np.isfinite(self.centre).all())
        if not (sound and self.function_count >= 1 and 0.0 <= self.margin < 1.0 and self.kernel in KERNELS):
            raise UserError(
                f"no basis: {self}; it needs, for every coordinate, a finite centre, a half width and a length scale "
                f"above zero, at least one function, a margin in [0, 1) and one of {', '.join(KERNELS)}"
            )

    @property
    def dimensions(self) -> int:
        """d."""
        return len(self.centre)

    @cached_property
    def _scaled_half_widths(self) -> Array:
        return np.array(self.half_widths) / np.array(self.length_scales)

    @cached_property
    def indices(self) -> Indices:
        """(M, d), from 1: half waves of each function along each coordinate, by rising eigenvalue."""
        widths = self._scaled_half_widths

        def entry(tuple_: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
            return float(((np.array(tuple_) / widths) ** 2).sum()), tuple_

        # A tuple's eigenvalue is larger than those of the tuples below it: the frontier always holds the next one.
        frontier = [entry((1,) * self.dimensions)]
        seen = {frontier[0][1]}
        chosen: list[tuple[int, ...]] = []
        while len(chosen) < self.function_count:
            _, smallest = heapq.heappop(frontier)
            chosen.append(smallest)
            for i in range(self.dimensions):
                following = (*smallest[:i], smallest[i] + 1, *smallest[i + 1 :])
                if following not in seen:
                    seen.add(following)
                    heapq.heappush(frontier, entry(following))
        return np.array(chosen, dtype=np.int64)

    @cached_property
    def eigenvalues(self) -> Array:
        """(M,), in coordinates over their length scales."""
        return ((0.5 * np.pi * self.indices / self._scaled_half_widths) ** 2).sum(axis=1)

    def log_spectral_densities(self, log_length_factors: ArrayLike = 0.0) -> Array:
        """(..., M) log prior variances of the weights, for a kernel of unit variance: eq. (8), and its like for Matern.

        Parameters
        ----------
        log_length_factors
            (...) logarithms of factors on all length scales; the functions stay as they are.
        """
        logs, d = np.asarray(log_length_factors, dtype=np.float64)[..., None], self.dimensions
        if self.kernel == "squared_exponential":
            return 0.5 * d * np.log(2.0 * np.pi) + d * logs - 0.5 * np.exp(2.0 * logs) * self.eigenvalues
        nu = _SMOOTHNESS[self.kernel]
        constant = (
            d * np.log(2.0 * np.sqrt(np.pi)) + np.log(math.gamma(nu + 0.5 * d) / math.gamma(nu)) + nu * np.log(2.0 * nu)
        )
        shifted = 2.0 * nu * np.exp(-2.0 * logs) + self.eigenvalues
        return constant - 2.0 * nu * logs - (nu + 0.5 * d) * np.log(shifted)

    def functions(self, places: ArrayLike, factors: Array | None = None) -> tuple[Array, int]:
        """phi (K, M) at `places` (K, d), and how many places had to be clamped to the inner box.

        Parameters
        ----------
        places
            In the units of the coordinates. Coordinates that are no number count as clamped.
        factors
            (M,) that the functions are multiplied by.

        Raises
        ------
        UserError
            Places with another number of coordinates.
        """
        x = np.ascontiguousarray(places, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.dimensions:
            raise UserError(f"inputs of shape (k, {self.dimensions}) are needed, not {x.shape}")
        out = np.empty((len(x), self.function_count))
        scale = self._norm if factors is None else self._norm * factors
        clamped = eigenfunctions(x, *self._box, 1.0 - self.margin, self.indices, scale, out)
        return out, clamped

    @cached_property
    def _norm(self) -> Array:
        return np.full(self.function_count, 1.0 / np.sqrt(np.prod(self._scaled_half_widths)))

    @cached_property
    def _box(self) -> tuple[Array, Array]:
        return np.array(self.centre, dtype=np.float64), np.array(self.half_widths, dtype=np.float64)


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def eigenfunctions(
    places: Array, centre: Array, half_widths: Array, reach: float, indices: Indices, factors: Array, out: Array
) -> int:
    """Into `out` (K, M) the functions at `places` (K, d), times `factors` (M,); how many places were clamped.

    A place beyond the share `reach` of the half widths (d,) from the centre is taken to lie there; one that is no
    number, at the lower end. With t = pi (p + 1) / 2, p the place in half widths, the factors are sin(j t) for whole
    numbers j, which all follow from the first: sin(j t) = 2 cos t sin((j - 1) t) - sin((j - 2) t).
    """
    dimensions, count, highest, clamped = places.shape[1], factors.size, 0, 0
    chosen = np.empty((dimensions, count), np.uint64)  # unsigned: no index needs to be looked at for its sign
    for m in range(count):
        for i in range(dimensions):
            chosen[i, m] = indices[m, i]
            highest = max(highest, indices[m, i])
    sines = np.empty(highest + 1)
    for k in range(places.shape[0]):
        result, outside = out[k], False
        for m in range(count):
            result[m] = factors[m]
        for i in range(dimensions):
            place = (places[k, i] - centre[i]) / half_widths[i]
            if not abs(place) <= reach:
                place = reach if place > reach else -reach
                outside = True
            square, cosine, sine = place * place, _COSINE[0], _SINE[0]
            for term in range(1, _TERMS):
                cosine = cosine * square + _COSINE[term]
                sine = sine * square + _SINE[term]
            twice_cosine = -2.0 * place * sine
            sines[1], last, before = cosine, cosine, 0.0
            for j in range(2, highest + 1):
                last, before = twice_cosine * last - before, last
                sines[j] = last
            wanted = chosen[i]
            for m in range(count):
                result[m] *= sines[wanted[m]]
        clamped += outside
    return clamped


# A function that was learned as a sum of basis functions: mean and deviation anywhere in its box.


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
        model_file.refuse_no_covariance(values["covariances"], f"{where}: covariances")
        if (values["noise_stddevs"] < 0.0).any():
            raise UserError(f"{where}: noise_stddevs below zero; train it anew")
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
