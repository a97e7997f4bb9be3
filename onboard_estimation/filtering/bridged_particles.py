"""A marginalised particle filter that does not run out of particles: part of each correction moves them.

Where outputs are exact beside what is not known, or a state has a dozen components, hardly any particle is likely, and
weights alone leave a handful of ancestors. Here the likelihood of a measurement is split into powers g and 1 - g: the
first moves all particles and their values of the unknown function, by the gain of their own covariance (ensemble Kalman
filter with perturbed measurements), the second weighs them. This is the ensemble Kalman particle filter (Frei and
Künsch, "Bridging the ensemble Kalman and particle filters", Biometrika 2013), with g the smallest of `SHARES` that
leaves enough effective particles. With g = 0 it is a particle filter; for linear and normal models any g is exact as
particles get many.

The unknown function is learned from values that have been moved, at the places before: a correction is small beside its
length scales. The children of a step are drawn by the weights of the last one; the auxiliary weights of Algorithm 1 are
of no use where particles are moved, and only tell whether a measurement is possible at all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.marginalized_particles import MarginalizedParticleFilter
from onboard_estimation.filtering.particle_cloud import Cloud, StepInfo
from onboard_estimation.filtering.particle_stages import Auxiliary, Seen, logarithms, surplus
from onboard_estimation.filtering.particle_weights import effective_sample_size, log_constant, normalised, systematic

Array = NDArray[np.float64]

SHARES = (0.0, 0.5, 0.75, 0.9, 0.97, 1.0)
"""Of the likelihood that may move particles, the least first."""
ENOUGH = 0.5
"""Effective particles that the rest has to leave, as a share of all."""


class _Split(NamedTuple):
    """How a measurement is used.

    Attributes
    ----------
    share
        Of its likelihood that moves particles.
    errors
        (N, h) measured less predicted, of the elements that were heard, after the move.
    weights
        (N,) of the rest.
    """

    share: float
    errors: Array
    weights: Array


class BridgedParticleFilter(MarginalizedParticleFilter):
    """See the module; built, started and stepped as its base class is."""

    def _corrected(
        self,
        cloud: Cloud,
        rng: np.random.Generator,
        step_s: float,
        ahead: Array,
        inputs: Array,
        seen: Seen,
        auxiliary: Auxiliary,
    ) -> tuple[Cloud, StepInfo]:
        """The cloud resampled by its weights, moved on, moved by the measurement, weighted by what is left of it."""
        alive = np.isfinite(auxiliary.errors[:, seen.heard]).all(axis=1)
        before, _ = normalised(np.where(alive, cloud.log_weights, -np.inf))
        ancestors = systematic(before, float(rng.random()))
        states = self._shaken(ahead[ancestors], rng, step_s)
        phi, clamped = self.prior.functions(self.model.places(states))
        normals = rng.standard_normal((len(states), self.prior.walking))
        learned: Any = cloud.learned  # of the prior's own kind
        prediction: Any = self.prior.predict(learned, ancestors, phi, step_s, self.unknown.kept(step_s), normals)
        drawn = rng.standard_t(prediction.degrees_of_freedom, prediction.means.shape)
        values = self._bounded(prediction.means + np.sqrt(prediction.variances) * drawn)
        offsets = cloud.offsets[ancestors]
        errors = seen.values - (self.model.outputs(states, inputs, values) + offsets)
        lost = ~np.isfinite(errors[:, seen.heard]).all(axis=1)
        if lost.any():  # the process noise took them where there is no robot: they stay where they were expected
            states[lost], errors[lost] = ahead[ancestors[lost]], auxiliary.errors[ancestors[lost]]
        heard = errors[:, seen.heard]
        normal = rng.standard_normal(heard.shape) @ np.linalg.cholesky(auxiliary.covariance).T
        split = _split(heard, normal, auxiliary)
        if split.share > 0.0:
            # A particle's offsets are what its past makes of the outputs: they go with what is moved.
            together = np.hstack([states, values, offsets])
            deviations = heard - heard.mean(axis=0)
            across = -(together - together.mean(axis=0)).T @ deviations / len(heard)
            within = deviations.T @ deviations / len(heard) + auxiliary.covariance / split.share
            together += (heard + normal / np.sqrt(split.share)) @ np.linalg.solve(within, across.T)
            states = together[:, : states.shape[1]]
            n, p = states.shape[1], values.shape[1]
            values = self._bounded(together[:, n : n + p] - self._constants)
            offsets = together[:, n + p :]
        expected = auxiliary.errors[ancestors] - errors
        moved = errors.copy()
        moved[:, seen.heard] = split.errors
        since = cloud.steps_since_spread
        after = cloud._replace(
            states=states,
            values=values,
            learned=self.prior.observe(prediction, values - self._constants),
            log_weights=logarithms(split.weights),
            surplus=surplus(cloud.surplus, np.zeros(len(heard)), expected),
            rejected_in_a_row=0,
            collapsed_in_a_row=0,
            steps_since_spread=None if since is None else since + 1,
        )
        innovation = auxiliary.innovation
        log_likelihood = log_constant(innovation.root) - 0.5 * innovation.nis
        size = effective_sample_size(split.weights)
        info = StepInfo(innovation, log_likelihood, size, size, clamped, False)
        return self._offsets_corrected(after, offsets, moved, seen, auxiliary.covariance), info


def _split(errors: Array, normal: Array, auxiliary: Auxiliary) -> _Split:
    """With the least share that leaves enough particles; `normal` (N, h) are draws of the measurement's noise."""
    deviations = errors - errors.mean(axis=0)
    spread = deviations.T @ deviations / len(errors)
    found = None
    for share in SHARES:
        moved = errors
        if share > 0.0:
            gain = np.linalg.solve(spread + auxiliary.covariance / share, spread)
            moved = errors - (errors + normal / np.sqrt(share)) @ gain
        squares = ((moved @ auxiliary.whitening.T) ** 2).sum(axis=1)
        weights, _ = normalised(-0.5 * (1.0 - share) * squares)
        found = _Split(share, moved, weights)
        if effective_sample_size(weights) >= ENOUGH * len(weights):
            break
    assert found is not None
    return found
