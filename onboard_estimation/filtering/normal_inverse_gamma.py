"""What each particle has learned of an unknown function: normal-inverse-gamma statistics, updated by rank one.

A sample is k = a^T phi + v, v ~ N(0, sigma^2), with a | sigma^2 ~ N(m, sigma^2 C) and sigma^2 inverse gamma with nu
degrees of freedom and scatter psi: eqs. (9) to (15) of the paper on marginalised particle filters for soft robots. Here
phi are basis functions times the roots of their prior variances, so that C is the identity before anything is learned.
A sample changes m, C and psi by rank one (m = r1^-1 s1, C = r1^-1 in the paper's terms): nothing is inverted.

**Forgetting.** Of what was learned a share lambda is kept, of the prior all: the posterior is the one of samples
weighted by lambda^age and the full prior. The factor on C, psi and nu fades the prior too. To psi and nu it is given
back at once, to C one weight at a time in turn, by the rank-one update of an observation that the weight is zero, when
that weight's prior has faded to LEAST_PRIOR_SHARE. So between that, less what M more steps take, and all of it stands;
m, C and psi are exactly those of that prior. After a gap in the data all are given back at once.

**Sharing.** A particle's C is a matrix that it shares with its relatives, less outer products of the vectors of the
steps since: C = c B - sum_t c_t u_t u_t^T. Only these vectors are new in a step; whose they are is told by the
ancestors' numbers, so that resampling copies no matrix. When there are many steps, the oldest are folded into new
matrices, one for each ancestor of then that has descendants still, which are few. No array is written once it is part
of a state: states share most of their memory, and an old one stays valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering import conjugate_kernels as kernels
from onboard_estimation.learning.reduced_rank import LearnedFunction, ReducedRankBasis

Array = NDArray[np.float64]

_NO_VARIANCE = 1e-200
"""Of the prior: so small a weight is of no use, and is left as it is."""


Indices = NDArray[np.int64]
FOLDED_LOSSES = 8
"""How many outer products are folded at once; up to twice as many are kept."""
LEAST_PRIOR_SHARE = 0.95
"""A weight's prior is given back once so much of it is left."""
FADED_PRIOR_SHARE = 0.1
"""With less of any weight's prior left, after a gap in the data, all are given back at once."""


def recalled(function: LearnedFunction, factors: Array, noise_variances: Array, weight: float) -> tuple[Array, Array]:
    """What a function tells of p outputs with weights in units of the prior's deviations.

    That is information (M, M) beside the identity, never negative, and moments (p, M): information, the prior's
    included, times means.

    Parameters
    ----------
    factors
        (M,) deviations of the prior's weights, for a noise of unit variance.
    noise_variances
        (p,) of the samples.
    weight
        Of its samples, from 0 to 1: deviations of what was learned grow by one over its root.
    """
    prior = np.outer(factors, factors)
    usable = prior > _NO_VARIANCE
    precisions = []
    for covariance, variance in zip(function.covariances, noise_variances, strict=True):
        scaled = np.where(usable, covariance / np.where(usable, prior, 1.0) / variance, np.eye(len(factors)))
        precisions.append(np.linalg.inv(scaled))
    values, vectors = np.linalg.eigh(np.mean(precisions, axis=0))
    # A mixture of particles may be wider than the prior somewhere: there it tells nothing.
    information = weight * (vectors * np.maximum(values - 1.0, 0.0)) @ vectors.T
    means = function.weights / np.where(usable.diagonal(), factors, np.inf)
    return information, weight * means @ (vectors * values) @ vectors.T


class Statistics(NamedTuple):
    """Of N particles, p outputs, M weights; see the module.

    Attributes
    ----------
    matrices
        (B, M, M), shared.
    losses
        Of the steps since, the oldest first: K arrays (N', M), u_t of the particles of then.
    lineages
        (1 + K, N) for each particle of now: the number of its matrix, then its ancestors' rows in the losses.
    scales
        (1 + K,) c and c_t.
    means
        (N, p, M) m.
    scatters
        (N, p) psi.
    degrees_of_freedom
        nu, the same for all.
    prior_shares
        (M,) how much of each weight's prior stands.
    next_restored
        Weight whose prior is given back next.
    """

    matrices: Array
    losses: tuple[Array, ...]
    lineages: Indices
    scales: Array
    means: Array
    scatters: Array
    degrees_of_freedom: float
    prior_shares: Array
    next_restored: int


class Prediction(NamedTuple):
    """Of the next sample of each particle, before it is drawn: Student's t, eqs. (22) and (23).

    Attributes
    ----------
    means
        (N, p) mu.
    variances
        (N, p) Lambda, squared scales (the variance is nu / (nu - 2) times as large).
    degrees_of_freedom
        nu.
    gains, widths
        (N, M) C phi, and (N,) 1 + phi^T C phi.
    statistics
        Before the sample.
    """

    means: Array
    variances: Array
    degrees_of_freedom: float
    gains: Array
    widths: Array
    statistics: Statistics


@dataclass(frozen=True)
class FixedPrior:
    """Prior of the weights and of the noise, and how statistics go on from it.

    Attributes
    ----------
    basis
        M functions and their prior variances, for a function of unit deviation.
    scatters
        (p,) psi of the prior.
    degrees_of_freedom
        nu of the prior.
    deviation_to_noise
        Deviation of the function over that of its noise.
    sample_weight
        In (0, 1], how much a sample counts; with less than 1 its likelihood is taken to that power.
    """

    basis: ReducedRankBasis
    scatters: tuple[float, ...]
    degrees_of_freedom: float
    deviation_to_noise: float
    sample_weight: float = 1.0

    walking: ClassVar[int] = 0
    """Hyper-parameters of each particle: none."""

    @cached_property
    def factors(self) -> Array:
        """(M,) roots of the prior variances of the weights, in units of the noise's variance."""
        return np.asarray(self.deviation_to_noise * np.exp(0.5 * self.basis.log_spectral_densities()))

    def start(self, count: int) -> Statistics:
        """Of `count` particles that have learned nothing."""
        m, p = self.basis.function_count, len(self.scatters)
        return Statistics(
            matrices=np.eye(m)[None],
            losses=(),
            lineages=np.zeros((1, count), dtype=np.int64),
            scales=np.ones(1),
            means=np.zeros((count, p, m)),
            scatters=np.tile(np.array(self.scatters, dtype=np.float64), (count, 1)),
            degrees_of_freedom=self.degrees_of_freedom,
            prior_shares=np.ones(m),
            next_restored=0,
        )

    def recall(self, count: int, function: LearnedFunction, weight: float) -> Statistics:
        """Of `count` particles that know what was learned before, see `recalled`, and how noisy it was."""
        noise = function.noise_stddevs**2
        information, moments = recalled(function, self.factors, noise, weight)
        covariance = np.asarray(np.linalg.inv(np.eye(len(information)) + information), dtype=np.float64)
        return self.start(count)._replace(
            matrices=covariance[None],
            means=np.tile(moments @ covariance, (count, 1, 1)),
            scatters=np.tile((self.degrees_of_freedom - 2.0) * noise, (count, 1)),
        )

    def predict(
        self,
        statistics: Statistics,
        ancestors: Indices,
        functions: Array,
        step_s: float,
        kept: float,
        normals: Array,
    ) -> Prediction:
        """The next sample's distribution for the children of `ancestors`.

        Parameters
        ----------
        ancestors
            (N,) a row of `statistics` for each child.
        functions
            (N, M) phi where the children are.
        step_s, kept
            Time since the last sample, and lambda of it.
        normals
            (N, 0): nothing walks here.
        """
        children = self._forgotten(_descended(statistics, ancestors), kept)
        gains = _multiplied(children, functions)
        means, widths = np.empty(children.scatters.shape), np.empty(len(functions))
        kernels.predict(children.means, gains, functions, means, widths)
        nu = children.degrees_of_freedom
        variances = widths[:, None] * children.scatters / nu
        return Prediction(means, variances, nu, gains, widths, children)

    def observe(self, prediction: Prediction, samples: Array) -> Statistics:
        """Statistics with the samples (N, p) drawn from a prediction; eqs. (15) by rank one."""
        before = prediction.statistics
        means, scatters = before.means.copy(), before.scatters.copy()
        factors = np.empty_like(prediction.gains)
        widths = prediction.widths + (1.0 / self.sample_weight - 1.0)
        kernels.observe(prediction.gains, widths, samples - prediction.means, means, scatters, factors)
        return _folded(
            _lost(before, factors)._replace(
                means=means, scatters=scatters, degrees_of_freedom=before.degrees_of_freedom + self.sample_weight
            )
        )

    def scatters_of(self, statistics: Statistics) -> Array:
        """(N, p) psi."""
        return statistics.scatters

    def covariances(self, statistics: Statistics) -> Array:
        """(N, M, M) C of every particle, written out."""
        return _written_out(statistics, len(statistics.losses), np.arange(len(statistics.means)))

    def _forgotten(self, children: Statistics, kept: float) -> Statistics:
        """Statistics whose samples weigh `kept` of what they did, with one weight's prior given back."""
        if kept == 1.0:
            return children
        lost, coordinate = 1.0 - kept, children.next_restored
        shares = kept * children.prior_shares
        if shares.min() < FADED_PRIOR_SHARE:
            return self._refreshed(children, kept)
        faded = children._replace(
            scales=children.scales / kept,
            scatters=kept * children.scatters + lost * np.array(self.scatters),
            degrees_of_freedom=kept * children.degrees_of_freedom + lost * self.degrees_of_freedom,
            prior_shares=shares,
        )
        if shares[coordinate] > LEAST_PRIOR_SHARE:
            return faded
        precision = 1.0 - shares[coordinate]
        shares[coordinate] = 1.0
        means, scatters = faded.means.copy(), faded.scatters.copy()
        columns = _multiplied(faded, np.tile(np.eye(len(shares))[coordinate], (len(means), 1)))
        factors, errors = np.empty_like(columns), -means[:, :, coordinate]
        kernels.observe(columns, 1.0 / precision + columns[:, coordinate], errors, means, scatters, factors)
        return _lost(faded, factors)._replace(
            means=means, scatters=scatters, next_restored=(coordinate + 1) % len(shares)
        )

    def _refreshed(self, children: Statistics, kept: float) -> Statistics:
        """The same after so long a gap that all priors are given back at once: by inversion."""
        lost, identity = 1.0 - kept, np.eye(len(children.prior_shares))
        faded = kept * np.linalg.inv(self.covariances(children))
        matrices = np.linalg.inv(faded + identity * (1.0 - kept * children.prior_shares))
        moments = np.einsum("nij,npj->npi", faded, children.means)
        means = np.einsum("nij,npj->npi", matrices, moments)
        explained = np.einsum("npi,npi->np", moments, children.means - means)
        return children._replace(
            matrices=0.5 * (matrices + matrices.transpose(0, 2, 1)),
            losses=(),
            lineages=np.arange(len(means))[None],
            scales=np.ones(1),
            means=means,
            scatters=kept * children.scatters + lost * np.array(self.scatters) + explained,
            degrees_of_freedom=kept * children.degrees_of_freedom + lost * self.degrees_of_freedom,
            prior_shares=np.ones(len(identity)),
        )


def _multiplied(statistics: Statistics, vectors: Array) -> Array:
    """(N, M) each particle's C times its row of `vectors` (N, M)."""
    out = np.empty_like(vectors)
    kernels.multiply(statistics.matrices, _padded(statistics), statistics.lineages, statistics.scales, vectors, out)
    return out


def _padded(statistics: Statistics) -> tuple[Array, ...]:
    """The losses, and what nobody looks at up to the length that kernels are compiled for."""
    return statistics.losses + (statistics.matrices[0],) * (2 * FOLDED_LOSSES - len(statistics.losses))


def _descended(statistics: Statistics, ancestors: Indices) -> Statistics:
    """The statistics of the children of `ancestors`."""
    return statistics._replace(
        lineages=statistics.lineages.take(ancestors, axis=1),
        means=statistics.means.take(ancestors, axis=0),
        scatters=statistics.scatters.take(ancestors, axis=0),
    )


def _lost(statistics: Statistics, factors: Array) -> Statistics:
    """The statistics with one more outer product taken off, that of every particle's own row of `factors` (N, M)."""
    rows, count = statistics.lineages.shape
    lineages, scales = np.empty((rows + 1, count), dtype=np.int64), np.empty(rows + 1)
    lineages[:rows], lineages[rows] = statistics.lineages, np.arange(count)
    scales[:rows], scales[rows] = statistics.scales, 1.0
    return statistics._replace(losses=(*statistics.losses, factors), lineages=lineages, scales=scales)


def _folded(statistics: Statistics) -> Statistics:
    """The same with few losses: the oldest are in new matrices, one for each ancestor of then that has descendants."""
    if len(statistics.losses) < 2 * FOLDED_LOSSES:
        return statistics
    # Whoever shares an ancestor at the last of the folded losses shares all before it.
    _, first, matrix_of = np.unique(statistics.lineages[FOLDED_LOSSES], return_index=True, return_inverse=True)
    return statistics._replace(
        matrices=_written_out(statistics, FOLDED_LOSSES, first),
        losses=statistics.losses[FOLDED_LOSSES:],
        lineages=np.vstack([matrix_of, statistics.lineages[FOLDED_LOSSES + 1 :]]),
        scales=np.append(1.0, statistics.scales[FOLDED_LOSSES + 1 :]),
    )


def _written_out(statistics: Statistics, count: int, particles: Indices) -> Array:
    """(B, M, M) the matrices of so many particles with their oldest `count` losses."""
    lineages = statistics.lineages.take(particles, axis=1)
    out = np.empty((len(particles), *statistics.matrices.shape[1:]))
    kernels.write_out(statistics.matrices, _padded(statistics), lineages, statistics.scales, count, out)
    return out
