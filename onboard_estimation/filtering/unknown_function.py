"""What is known beforehand of a function that a filter is to learn, and what it is to forget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard_estimation.errors import UserError
from onboard_estimation.filtering.normal_inverse_gamma import FixedPrior
from onboard_estimation.filtering.walking_prior import HyperParameterWalk, WalkingPrior
from onboard_estimation.learning.reduced_rank import ReducedRankBasis


@dataclass(frozen=True)
class UnknownFunction:
    """A function of d coordinates with p outputs: constants, and Gaussian processes of the same kernel about them.

    Attributes
    ----------
    basis
        M functions on a box of the d coordinates.
    constants
        (p,) means of the outputs.
    stddevs
        (p,) how far the function departs from them, in the outputs' units.
    noise_share
        Deviation of samples about the function, over the function's. It is where learning of the noise starts: sigma^2
        and with it the function's deviation are learned. Every step takes a sample, so what a robot does not repeat
        exactly (creep, hysteresis) is noise too.
    degrees_of_freedom
        How sure the noise is, from 3 on: with less, some samples are drawn from very far away.
    sample_weight
        In (0, 1], how much every step's sample counts. With 1 all is exact, for very many particles. Few soon share
        one past, whose samples are taken for independent of each other but are not: what they learned looks surer than
        it is. With a weight of some 1 / (steps over which samples err alike) it does not.
    memory_s
        What was learned is forgotten with this time constant; infinite: never. The prior is never forgotten.
    lowest
        (p,) no sample is taken below; None: everywhere.
    walk
        Of hyper-parameters, each particle's own; None: they are fixed, and a step costs a fifth.

    Raises
    ------
    UserError
        Numbers that do not fit together, or that make no prior.
    """

    basis: ReducedRankBasis
    constants: tuple[float, ...]
    stddevs: tuple[float, ...]
    noise_share: float = 0.1
    degrees_of_freedom: float = 5.0
    sample_weight: float = 1.0
    memory_s: float = np.inf
    lowest: tuple[float, ...] | None = None
    walk: HyperParameterWalk | None = None

    def __post_init__(self) -> None:
        p = len(self.constants)
        if not p or len(self.stddevs) != p or (self.lowest is not None and len(self.lowest) != p):
            raise UserError(
                f"an unknown function of {p} constants, {len(self.stddevs)} deviations and "
                f"{p if self.lowest is None else len(self.lowest)} lowest values; every output needs one of each"
            )
        if not (np.isfinite(self.constants).all() and all(0.0 < value < np.inf for value in self.stddevs)):
            raise UserError(f"an unknown function of constants {self.constants} and deviations {self.stddevs}")
        if not 0.0 < self.sample_weight <= 1.0:
            raise UserError(f"sample_weight {self.sample_weight} of an unknown function; it must be in (0, 1]")
        if not (0.0 < self.noise_share < np.inf and self.memory_s > 0.0):
            raise UserError(
                f"noise_share {self.noise_share} and memory_s {self.memory_s} of an unknown function must be above zero"
            )
        if not 3.0 <= self.degrees_of_freedom < np.inf:
            raise UserError(
                f"{self.degrees_of_freedom} degrees of freedom; take 3 or more: with 2, samples have no variance"
            )

    def prior(self) -> FixedPrior | WalkingPrior:
        """Statistics of particles: where they start, and how they go on."""
        nu = self.degrees_of_freedom  # of which psi / (nu - 2) is the mean of the noise's variance
        scatters = tuple((nu - 2.0) * (self.noise_share * stddev) ** 2 for stddev in self.stddevs)
        if self.walk is None:
            return FixedPrior(self.basis, scatters, nu, 1.0 / self.noise_share, self.sample_weight)
        return WalkingPrior(self.basis, scatters, nu, 1.0 / self.noise_share, self.walk, self.sample_weight)

    def kept(self, step_s: float) -> float:
        """lambda: what is kept of what was learned, over a step."""
        return float(np.exp(-step_s / self.memory_s))
