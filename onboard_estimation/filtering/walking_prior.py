"""Normal-inverse-gamma statistics under a prior that each particle tries out: hyper-parameters on a random walk.

With every step a particle's prior variances change, all M of them: no update of low rank has that posterior. So sums
are kept instead, r1 and s1 of eq. (15) without the prior, and solved once a step: one Cholesky factor of
I + D r1 D, D^2 the prior's variances, gives the weights and what the next sample's variance needs (eqs. (14), (23)).
Forgetting is a factor on the sums, and exact: they hold no prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering import information_kernels as kernels
from onboard_estimation.filtering.conjugate_kernels import predict
from onboard_estimation.filtering.recalled import recalled
from onboard_estimation.learning.learned_function import LearnedFunction
from onboard_estimation.learning.reduced_rank import ReducedRankBasis

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class HyperParameterWalk:
    """How the logarithms of two factors walk, one on the function's deviation, one on its length scales; eq. (24).

    Attributes
    ----------
    deviation_noise, length_noise
        Standard deviations of their steps, per sqrt(s).
    farthest_deviation, farthest_length
        Factors stay between these and one over these; walks turn back there.
    """

    deviation_noise: float = 0.05
    length_noise: float = 0.05
    farthest_deviation: float = 5.0
    farthest_length: float = 3.0

    def walked(self, logs: Array, normals: Array, step_s: float) -> Array:
        """The logarithms (N, 2) after a step; `normals` (N, 2) are standard."""
        moved = logs + np.sqrt(step_s) * np.array([self.deviation_noise, self.length_noise]) * normals
        ends = np.log([self.farthest_deviation, self.farthest_length])
        reflected = np.where(np.abs(moved) > ends, np.sign(moved) * 2.0 * ends - moved, moved)
        return np.asarray(np.clip(reflected, -ends, ends))


class WalkingStatistics(NamedTuple):
    """Of N particles, p outputs, M weights; see the module.

    Attributes
    ----------
    log_factors
        (N, 2) logarithms of the factors on deviation and length scales.
    information, moments, squares
        (N, M (M + 1) / 2), (N, p, M), (N, p): r1 without the prior, s1 and s2.
    means
        (N, p, M) of the weights, under the hyper-parameters of now.
    degrees_of_freedom
        nu, the same for all.
    """

    log_factors: Array
    information: Array
    moments: Array
    squares: Array
    means: Array
    degrees_of_freedom: float


class WalkingPrediction(NamedTuple):
    """Of the next sample of each particle; the first three as `normal_inverse_gamma.Prediction` has them.

    Attributes
    ----------
    gains, widths
        (N, M) C phi, and (N,) 1 + phi^T C phi.
    weights
        (N, p, M) means of the weights before the sample.
    statistics, ancestors, functions, kept, log_factors
        Of the parents; and of the children, what becomes of their statistics.
    """

    means: Array
    variances: Array
    degrees_of_freedom: float
    gains: Array
    widths: Array
    weights: Array
    statistics: WalkingStatistics
    ancestors: Indices
    functions: Array
    kept: float
    log_factors: Array


@dataclass(frozen=True)
class WalkingPrior:
    """Statistics whose prior each particle tries out for itself.

    Attributes
    ----------
    basis
        M functions and their prior variances, for a function of unit deviation.
    scatters
        (p,) psi of the prior.
    degrees_of_freedom
        nu of the prior.
    deviation_to_noise
        Deviation of the function over that of its noise, where walks start.
    walk
        Of the hyper-parameters.
    sample_weight
        In (0, 1], how much a sample counts; with less than 1 its likelihood is taken to that power.
    """

    basis: ReducedRankBasis
    scatters: tuple[float, ...]
    degrees_of_freedom: float
    deviation_to_noise: float
    walk: HyperParameterWalk
    sample_weight: float = 1.0

    walking: ClassVar[int] = 2
    """Hyper-parameters of each particle: `predict` wants so many normal numbers."""

    def start(self, count: int) -> WalkingStatistics:
        """Of `count` particles that have learned nothing."""
        m, p = self.basis.function_count, len(self.scatters)
        return WalkingStatistics(
            log_factors=np.zeros((count, 2)),
            information=np.zeros((count, m * (m + 1) // 2)),
            moments=np.zeros((count, p, m)),
            squares=np.zeros((count, p)),
            means=np.zeros((count, p, m)),
            degrees_of_freedom=self.degrees_of_freedom,
        )

    def recall(self, count: int, function: LearnedFunction, weight: float) -> WalkingStatistics:
        """Of `count` particles that know what was learned before, see `recalled`; of its noise, what the prior says."""
        roots = self._prior_roots(np.zeros((1, 2)))[0]
        known = recalled(function, roots, np.array(self.scatters) / (self.degrees_of_freedom - 2.0), weight)
        inverse = 1.0 / np.maximum(roots, np.sqrt(np.finfo(np.float64).tiny))
        moments, means = known.moments * inverse, known.moments @ known.covariance * roots
        information = (known.information * np.outer(inverse, inverse))[np.triu_indices(len(roots))]
        return self.start(count)._replace(
            information=np.tile(information, (count, 1)),
            moments=np.tile(moments, (count, 1, 1)),
            squares=np.tile((moments * means).sum(axis=1), (count, 1)),
            means=np.tile(means, (count, 1, 1)),
        )

    def functions(self, places: Array) -> tuple[Array, int]:
        """(N, M) basis functions at places (N, d), and how many places were clamped."""
        return self.basis.functions(places)

    def predict(
        self,
        statistics: WalkingStatistics,
        ancestors: Indices,
        functions: Array,
        step_s: float,
        kept: float,
        normals: Array,
    ) -> WalkingPrediction:
        """The next sample's distribution for the children of `ancestors`, whose priors have walked.

        Parameters
        ----------
        ancestors
            (N,) a row of `statistics` for each child.
        functions
            (N, M) where the children are.
        step_s, kept
            Time since the last sample, and lambda of it.
        normals
            (N, 2) standard normal numbers, the steps of the walks.
        """
        n, p = len(functions), len(self.scatters)
        log_factors = self.walk.walked(statistics.log_factors[ancestors], normals, step_s)
        gains, weights = np.empty_like(functions), np.empty((n, p, functions.shape[1]))
        roots = self._prior_roots(log_factors)
        kernels.posteriors(
            statistics.information, statistics.moments, ancestors, kept, roots, functions, gains, weights
        )
        means, explained, widths = np.empty((n, p)), np.empty((n, p)), np.empty(n)
        predict(weights, gains, functions, means, widths)
        for q in range(p):
            explained[:, q] = np.einsum("nm,nm->n", statistics.moments[ancestors, q], weights[:, q])
        prior = np.array(self.scatters)
        scatters = prior + kept * np.maximum(statistics.squares[ancestors] - explained, 0.0)
        nu = kept * statistics.degrees_of_freedom + (1.0 - kept) * self.degrees_of_freedom
        variances = widths[:, None] * scatters / nu
        return WalkingPrediction(
            means, variances, nu, gains, widths, weights, statistics, ancestors, functions, kept, log_factors
        )

    def observe(self, prediction: WalkingPrediction, samples: Array) -> WalkingStatistics:
        """Statistics with the samples (N, p) drawn from a prediction."""
        old, ancestors, kept = prediction.statistics, prediction.ancestors, prediction.kept
        information = np.empty((len(ancestors), old.information.shape[1]))
        moments = np.empty_like(prediction.weights)
        kernels.add_samples(
            *(old.information, old.moments, ancestors, kept, prediction.functions, samples, self.sample_weight),
            information,
            moments,
        )
        shares = (samples - prediction.means) / (prediction.widths + (1.0 / self.sample_weight - 1.0))[:, None]
        return WalkingStatistics(
            log_factors=prediction.log_factors,
            information=information,
            moments=moments,
            squares=kept * old.squares[ancestors] + self.sample_weight * samples**2,
            means=prediction.weights + shares[:, :, None] * prediction.gains[:, None, :],
            degrees_of_freedom=prediction.degrees_of_freedom + self.sample_weight,
        )

    def scatters_of(self, statistics: WalkingStatistics) -> Array:
        """(N, p) psi."""
        explained = np.einsum("npm,npm->np", statistics.moments, statistics.means)
        return np.asarray(np.array(self.scatters) + np.maximum(statistics.squares - explained, 0.0))

    def covariances(self, statistics: WalkingStatistics) -> Array:
        """(N, M, M) C of every particle, written out."""
        n, _, m = statistics.means.shape
        out = np.empty((n, m, m))
        kernels.covariances(statistics.information, self._prior_roots(statistics.log_factors), out)
        return out

    def _prior_roots(self, log_factors: Array) -> Array:
        """(N, M) roots of the prior variances of the weights, in units of the noise's variance."""
        logs = 0.5 * self.basis.log_spectral_densities(log_factors[:, 1]) + log_factors[:, :1]
        return np.asarray(self.deviation_to_noise * np.exp(logs))
