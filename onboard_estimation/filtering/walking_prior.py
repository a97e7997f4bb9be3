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
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.conjugate_kernels import predict
from onboard_estimation.filtering.normal_inverse_gamma import recalled
from onboard_estimation.learning.reduced_rank import LearnedFunction, ReducedRankBasis

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
_SUMS = {"contract", "reassoc"}


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _eliminate(system: Array, first: int, last: int) -> None:
    """The rows `first` to `first` + 4 (or to `last`), and what they take off the rows below, up to `last`.

    Four at once: a row below is then read and written once for four. All loops run over slices, which begin at their
    first element: indices that might be negative are not turned into vector instructions.
    """
    end = min(first + 4, last)
    for k in range(first, end):
        row = system[k, k:]
        inverse = 1.0 / np.sqrt(row[0])
        for j in range(row.size):
            row[j] *= inverse
        row[0] = inverse
        for i in range(1, end - k):
            weight, part, target = row[i], row[i:], system[k + i, k + i :]
            for j in range(target.size):
                target[j] -= weight * part[j]
    if end < first + 4:
        return
    for i in range(end, last):
        r0, r1, r2, r3 = system[first, i:], system[first + 1, i:], system[first + 2, i:], system[first + 3, i:]
        a0, a1, a2, a3 = r0[0], r1[0], r2[0], r3[0]
        target = system[i, i:]
        for j in range(target.size):
            target[j] -= a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _solve(system: Array, solutions: Array) -> None:
    """Into `solutions` (q, M) A^-1 b for the q columns b that follow those of A in the rows of `system` (M, M + q).

    Only A's upper triangle is read. A = U^T U; the columns on the right turn into U^-T b as the rows are eliminated.
    `system` is used up: its upper triangle holds U, and the inverses of U's diagonal.
    """
    m = system.shape[0]
    for first in range(0, m, 4):
        _eliminate(system, first, m)
    for k in range(m - 1, -1, -1):
        row = system[k, k + 1 : m]
        for q in range(solutions.shape[0]):
            known, total = solutions[q, k + 1 :], system[k, m + q]
            for j in range(row.size):
                total -= row[j] * known[j]
            solutions[q, k] = total * system[k, k]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _scaled_precision(triangle: Array, kept: float, roots: Array, system: Array) -> None:
    """Into the left of `system` I + D kept R D, D the roots of the prior variances: none is too small for that."""
    m, start = roots.size, 0
    for k in range(m):
        row, weight, others, part = system[k, k:m], kept * roots[k], roots[k:], triangle[start : start + m - k]
        for j in range(row.size):
            row[j] = weight * others[j] * part[j]
        row[0] += 1.0
        start += m - k


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _posteriors(
    information: Array,
    moments: Array,
    ancestors: Indices,
    kept: float,
    roots: Array,
    functions: Array,
    gains: Array,
    means: Array,
) -> None:
    """Into `gains` (N, M) C phi and into `means` (N, p, M) C s1 of the children of `ancestors`.

    C^-1 is the inverse of the prior's variances, `roots` (N, M) squared, plus `kept` of the ancestor's `information`;
    s1 is `kept` of its `moments` (N, p, M); `functions` (N, M) are the children's phi.
    """
    m, outputs = functions.shape[1], means.shape[1]
    system, solutions = np.empty((m, m + 1 + outputs)), np.empty((1 + outputs, m))
    for i in range(functions.shape[0]):
        ancestor, root = ancestors[i], roots[i]
        _scaled_precision(information[ancestor], kept, root, system)
        for j in range(m):
            system[j, m] = root[j] * functions[i, j]
            for q in range(outputs):
                system[j, m + 1 + q] = root[j] * kept * moments[ancestor, q, j]
        _solve(system, solutions)
        for j in range(m):
            gains[i, j] = root[j] * solutions[0, j]
            for q in range(outputs):
                means[i, q, j] = root[j] * solutions[1 + q, j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _add_samples(
    information: Array,
    moments: Array,
    ancestors: Indices,
    kept: float,
    functions: Array,
    samples: Array,
    weight: float,
    new_information: Array,
    new_moments: Array,
) -> None:
    """Into the new arrays `kept` of the ancestors' sums, and `weight` times phi phi^T and phi k of `samples` (N, p)."""
    m = functions.shape[1]
    for i in range(functions.shape[0]):
        ancestor, phi, start = ancestors[i], functions[i], 0
        for k in range(m):
            old, new = information[ancestor, start : start + m - k], new_information[i, start : start + m - k]
            value, others = weight * phi[k], phi[k:]
            for j in range(new.size):
                new[j] = kept * old[j] + value * others[j]
            start += m - k
        for q in range(samples.shape[1]):
            for j in range(m):
                new_moments[i, q, j] = kept * moments[ancestor, q, j] + weight * phi[j] * samples[i, q]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _covariances(information: Array, roots: Array, out: Array) -> None:
    """Into `out` (N, M, M) C of every particle."""
    m = roots.shape[1]
    system = np.empty((m, 2 * m))
    for i in range(out.shape[0]):
        _scaled_precision(information[i], 1.0, roots[i], system)
        for k in range(m):
            for j in range(m):
                system[k, m + j] = roots[i, k] if k == j else 0.0
        _solve(system, out[i])
        for k in range(m):
            for j in range(m):
                out[i, k, j] *= roots[i, j]


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
    factors: ClassVar[None] = None
    """Of basis functions: none, prior variances are each particle's own."""

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
        noise = np.array(self.scatters) / (self.degrees_of_freedom - 2.0)
        information, moments = recalled(function, roots, noise, weight)
        inverse = 1.0 / np.maximum(roots, np.sqrt(np.finfo(np.float64).tiny))
        means = moments @ np.linalg.inv(np.eye(len(roots)) + information) * roots
        moments = moments * inverse
        information = (information * np.outer(inverse, inverse))[np.triu_indices(len(roots))]
        return self.start(count)._replace(
            information=np.tile(information, (count, 1)),
            moments=np.tile(moments, (count, 1, 1)),
            squares=np.tile((moments * means).sum(axis=1), (count, 1)),
            means=np.tile(means, (count, 1, 1)),
        )

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
        _posteriors(statistics.information, statistics.moments, ancestors, kept, roots, functions, gains, weights)
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
        _add_samples(
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
        _covariances(statistics.information, self._prior_roots(statistics.log_factors), out)
        return out

    def _prior_roots(self, log_factors: Array) -> Array:
        """(N, M) roots of the prior variances of the weights, in units of the noise's variance."""
        logs = 0.5 * self.basis.log_spectral_densities(log_factors[:, 1]) + log_factors[:, :1]
        return np.asarray(self.deviation_to_noise * np.exp(logs))
