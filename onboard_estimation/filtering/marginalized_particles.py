"""Marginalised particle filter: tracks a state while it learns a function that the model does not know.

The model x' = f(x, u, k), y = h(x, u, k) + offset + e is known but for k = g(x), noisily; e is normal. Particles are
states and values of k. What they say of g is a sum of basis functions whose weights are integrated out: each particle
has its own statistics (`normal_inverse_gamma`). This is Algorithm 1 of the paper on marginalised particle filters for
soft robots, an auxiliary particle filter (Pitt and Shephard, 1999).

Left on purpose: line 5 of the algorithm uses k before it is drawn, here it is the mean of its prediction at the
auxiliary state; resampling is systematic; g has a constant mean, and k may have a lowest value; forgetting never
forgets the prior. New are offsets of the outputs, on random walks: given a trajectory they are linear and Gaussian, so
each particle carries their means, and one covariance does for all. A measurement that the cloud does not allow is left
out, and after many in a row the cloud, which has followed the model since the last good one, is spread anew: particles
keep what they have learned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.filtering.conjugate_kernels import row_products
from onboard_estimation.filtering.draws import Draws
from onboard_estimation.filtering.gating import Innovation, decide
from onboard_estimation.filtering.normal_inverse_gamma import FixedPrior
from onboard_estimation.filtering.particle_cloud import (
    Cloud,
    CloudEstimate,
    GreyBoxModel,
    ParticleFilterSettings,
    StepInfo,
)
from onboard_estimation.filtering.particle_stages import Auxiliary, Drawn, Seen, logarithms, surplus, without
from onboard_estimation.filtering.particle_weights import (
    effective_sample_size,
    factorised,
    log_constant,
    log_densities,
    moments,
    normalised,
    scatter,
    systematic,
)
from onboard_estimation.filtering.unknown_function import UnknownFunction
from onboard_estimation.filtering.walking_prior import WalkingPrior
from onboard_estimation.learning.learned_function import LearnedFunction

Array = NDArray[np.float64]

SOON_STEPS = 100
"""A cloud that is lost again within so many steps is spread twice as wide."""


class MarginalizedParticleFilter:
    """Algorithm 1 over any grey-box model.

        basis = ReducedRankBasis(centre=(0.0,), half_widths=(2.0,), length_scales=(0.4,))
        unknown = UnknownFunction(basis, constants=(0.0,), stddevs=(3.0,))
        settings = ParticleFilterSettings([0.0, 0.05], [[1e-4]], recovery_stddevs=[0.1, 0.5])
        tracker = MarginalizedParticleFilter(model, unknown, settings)
        cloud = tracker.start([0.0, 0.0], np.diag([0.01, 0.1]), key=1)
        cloud, info = tracker.step(cloud, step_s, measured, inputs)
        tracker.estimate(cloud).state, tracker.learned_function(cloud).predict(places)

    A step calls `model.propagate` once and `model.outputs` twice (three times where the cloud is spread anew), each for
    all particles, and `model.places` as often as `outputs`. Nuisance parameters are further components of the state,
    with their own process noise, which `propagate` leaves as they are.

    Parameters
    ----------
    model
        f, h and what the unknown function depends on.
    unknown
        Prior of the function.
    settings
        Noise and recovery.

    Raises
    ------
    UserError
        Settings that do not fit together.
    """

    def __init__(self, model: GreyBoxModel, unknown: UnknownFunction, settings: ParticleFilterSettings) -> None:
        self.model, self.unknown, self.settings = model, unknown, settings
        self.prior: FixedPrior | WalkingPrior = unknown.prior()
        self._process_noise = np.array(settings.process_noise, dtype=np.float64)
        self._recovery = np.array(settings.recovery_stddevs, dtype=np.float64)
        self._noise = np.array(settings.measurement_covariance, dtype=np.float64)
        m = len(self._noise)
        self._offset_noise, self._offset_stddevs = (
            np.zeros(m) if value is None else np.array(value, dtype=np.float64)
            for value in (settings.offset_noise, settings.offset_stddevs)
        )
        self._check()
        self._offset_growth = np.diag(self._offset_noise**2)
        self._constants = np.array(unknown.constants, dtype=np.float64)
        self._lowest = np.array(np.full(len(unknown.constants), -np.inf) if unknown.lowest is None else unknown.lowest)

    def _check(self) -> None:
        """UserError where shapes do not fit together or numbers cannot be."""
        n, m = len(self._process_noise), len(self._noise)
        for name, values, size in (
            ("process_noise", self._process_noise, n),
            ("recovery_stddevs", self._recovery, n),
            ("offset_noise", self._offset_noise, m),
            ("offset_stddevs", self._offset_stddevs, m),
        ):
            if values.shape != (size,) or not (np.isfinite(values).all() and (values >= 0.0).all()):
                raise UserError(f"{name} of a particle filter is {values}; {size} numbers, zero or more, are needed")
        noise = self._noise
        if noise.shape != (m, m) or not np.array_equal(noise, noise.T) or not (np.linalg.eigvalsh(noise) > 0.0).all():
            raise UserError(f"measurement_covariance is {noise.tolist()}; a symmetric, positive matrix is needed")
        if self.settings.particle_count < 2:
            raise UserError(f"{self.settings.particle_count} particles; a particle filter needs two or more, say 500")

    def start(self, mean: ArrayLike, covariance: ArrayLike, key: int) -> Cloud:
        """A cloud that has learned nothing.

        Parameters
        ----------
        mean, covariance
            (n,) and (n, n) of the state; components without variance are allowed.
        key
            Seed, not negative.
        """
        rng, draws = Draws(key).generator()
        n, m, count = len(self._process_noise), len(self._noise), self.settings.particle_count
        centre, spread = np.asarray(mean, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
        if centre.shape != (n,) or spread.shape != (n, n):
            raise UserError(f"a start of shapes {centre.shape} and {spread.shape}; ({n},) and ({n}, {n}) are needed")
        eigenvalues, vectors = np.linalg.eigh(spread)
        root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        return Cloud(
            states=centre + rng.standard_normal((count, n)) @ root.T,
            values=np.tile(self._constants, (count, 1)),
            log_weights=np.full(count, -np.log(count)),
            learned=self.prior.start(count),
            offsets=np.zeros((count, m)),
            offset_covariance=np.diag(self._offset_stddevs**2),
            surplus=None,
            draws=draws,
        )

    def step(
        self,
        cloud: Cloud,
        step_s: float,
        measured: ArrayLike | None,
        inputs: ArrayLike = (),
        inputs_now: ArrayLike | None = None,
    ) -> tuple[Cloud, StepInfo]:
        """The cloud after `step_s`, given what was measured then.

        Parameters
        ----------
        step_s
            s, more than zero.
        measured
            (m,); elements that are NaN were not measured. None: nothing was.
        inputs, inputs_now
            For `propagate`; and for `outputs`, the same where none are given.

        Raises
        ------
        ArithmeticError
            No particle has outputs that are numbers.
        """
        u = np.asarray(inputs, dtype=np.float64)
        u_now = u if inputs_now is None else np.asarray(inputs_now, dtype=np.float64)
        rng, draws = cloud.draws.generator()
        cloud = cloud._replace(draws=draws, offset_covariance=cloud.offset_covariance + step_s * self._offset_growth)
        ahead = self.model.propagate(cloud.states, u, cloud.values, step_s)
        seen = self._seen(measured)
        if not len(seen.heard):
            return self._left_out(cloud, rng, step_s, self._shaken(ahead, rng, step_s), None)
        if cloud.settling:
            ahead = self._shaken(ahead, rng, step_s)
        auxiliary = self._auxiliary(cloud, ahead, u_now, seen)
        if cloud.settling:
            return self._settled(cloud, rng, step_s, ahead, seen, auxiliary)
        gate = self.settings.gate
        if cloud.surplus is not None:  # else nothing is known yet of how far outputs scatter
            decision = decide(gate, auxiliary.innovation.nis, len(seen.heard), cloud.rejected_in_a_row)
            if decision.inflation > 1.0 or 0 < gate.recover_after <= cloud.collapsed_in_a_row:
                cloud = _spread(cloud)
                ahead = self._shaken(ahead, rng, step_s)
                ahead += cloud.spread_factor * self._recovery * rng.standard_normal(ahead.shape)
                auxiliary = self._auxiliary(cloud, ahead, u_now, seen)
                return self._settled(cloud, rng, step_s, ahead, seen, auxiliary)
            if not decision.accepted:
                cloud = cloud._replace(rejected_in_a_row=decision.rejected_in_a_row)
                return self._left_out(cloud, rng, step_s, self._shaken(ahead, rng, step_s), auxiliary.innovation)
        return self._corrected(cloud, rng, step_s, ahead, u_now, seen, auxiliary)

    def estimate(self, cloud: Cloud) -> CloudEstimate:
        """Weighted means and covariances."""
        weights = np.exp(cloud.log_weights)
        offsets, spread = moments(weights, cloud.offsets)
        return CloudEstimate(
            *moments(weights, cloud.states), *moments(weights, cloud.values), offsets, spread + cloud.offset_covariance
        )

    def learned_function(self, cloud: Cloud) -> LearnedFunction:
        """What all particles have learned, as one function: mean and covariance of their mixture.

        Writes out a matrix for each particle: some milliseconds for 500.
        """
        weights, prior = np.exp(cloud.log_weights), self.prior
        learned = _own(cloud)
        nu = learned.degrees_of_freedom
        noise = prior.scatters_of(learned) / (nu - 2.0)
        matrices = prior.covariances(learned)
        factors = prior.factors if isinstance(prior, FixedPrior) else np.ones(matrices.shape[1])
        means, covariances = [], []
        for output in range(noise.shape[1]):
            mean, between = moments(weights, learned.means[:, output])
            within = np.tensordot(weights * noise[:, output], matrices, axes=1)
            means.append(factors * mean)
            covariances.append(np.outer(factors, factors) * (within + between))
        return LearnedFunction(
            self.unknown.basis,
            self._constants,
            np.array(means),
            np.array(covariances),
            np.sqrt(weights @ noise),
        )

    def _seen(self, measured: ArrayLike | None) -> Seen:
        """What was measured, checked."""
        m = len(self._noise)
        values = np.full(m, np.nan) if measured is None else np.asarray(measured, dtype=np.float64)
        if values.shape != (m,):
            raise UserError(f"a measurement of shape {values.shape}; this model has {m} outputs")
        there = np.isfinite(values)
        return Seen(np.where(there, values, 0.0), np.flatnonzero(there))

    def _auxiliary(self, cloud: Cloud, ahead: Array, inputs: Array, seen: Seen) -> Auxiliary:
        """What the particles' predictions say of the measurement: lines 3 to 5, with k its predicted mean."""
        phi, _ = self.prior.functions(self.model.places(ahead))
        expected = np.empty(cloud.values.shape)
        row_products(cloud.learned.means, phi, expected)
        values = self._bounded(expected)
        errors = seen.values - (self.model.outputs(ahead, inputs, values) + cloud.offsets)
        block = np.ix_(seen.heard, seen.heard)
        covariance = (self._noise + cloud.offset_covariance)[block]
        root, whitening = factorised(covariance)
        constant = log_constant(root)
        densities, mean, spread = np.empty(len(errors)), np.empty(len(self._noise)), np.empty(self._noise.shape)
        log_densities(errors, seen.heard, whitening, constant, densities)
        scatter(np.exp(cloud.log_weights), densities, errors, mean, spread)
        total = spread[block] + covariance
        if cloud.surplus is not None:
            total += cloud.surplus[block]
        total_root, inverse = factorised(total)
        value = mean[seen.heard]
        normal = inverse @ value
        innovation = Innovation(value, total_root, float(normal @ normal), True)
        return Auxiliary(errors, covariance, whitening, constant, densities, innovation)

    def _shaken(self, ahead: Array, rng: np.random.Generator, step_s: float) -> Array:
        """Predicted states with process noise: line 12."""
        return ahead + np.sqrt(step_s) * self._process_noise * rng.standard_normal(ahead.shape)

    def _drawn(
        self, cloud: Cloud, rng: np.random.Generator, step_s: float, states: Array, ancestors: NDArray[np.int64]
    ) -> Drawn:
        """Values of the children of `ancestors`, who are in `states`, and what they learn of them: lines 2, 8 to 15."""
        dead, learned = None, _own(cloud)
        if not np.isfinite(states).all():  # the dead weigh nothing; numbers they need all the same
            dead = np.asarray(~np.isfinite(states).all(axis=1))
            states = np.where(dead[:, None], cloud.states[ancestors], states)
        phi, clamped = self.prior.functions(self.model.places(states))
        normals = rng.standard_normal((len(states), self.prior.walking))
        kept = self.unknown.kept(step_s)
        prediction: Any = self.prior.predict(learned, ancestors, phi, step_s, kept, normals)
        drawn = rng.standard_t(prediction.degrees_of_freedom, prediction.means.shape)
        values = self._bounded(prediction.means + np.sqrt(prediction.variances) * drawn)
        return Drawn(states, values, self.prior.observe(prediction, values - self._constants), dead, clamped)

    def _left_out(
        self, cloud: Cloud, rng: np.random.Generator, step_s: float, states: Array, innovation: Innovation | None
    ) -> tuple[Cloud, StepInfo]:
        """The cloud moved on, without a measurement."""
        drawn = self._drawn(cloud, rng, step_s, states, np.arange(len(states)))
        weights, _ = normalised(without(drawn.dead, cloud.log_weights))
        refused = None if innovation is None else replace(innovation, accepted=False)
        info = StepInfo(refused, 0.0, effective_sample_size(weights), float(len(states)), drawn.clamped, False)
        return cloud._replace(
            states=drawn.states, values=drawn.values, learned=drawn.learned, log_weights=logarithms(weights)
        ), info

    def _settled(
        self, cloud: Cloud, rng: np.random.Generator, step_s: float, ahead: Array, seen: Seen, auxiliary: Auxiliary
    ) -> tuple[Cloud, StepInfo]:
        """A cloud that was spread a short while ago, moved towards what was measured (ensemble Kalman filter).

        Of a cloud as wide as that, an exact sensor would leave but a few particles, and so hardly any choice of what it
        does not measure. Moved by the gain of their own covariance, all live on, with what they have learned.
        """
        weights, _ = normalised(np.where(auxiliary.log_densities > -np.inf, cloud.log_weights, -np.inf))
        ancestors = systematic(weights, float(rng.random()))
        states, errors = ahead[ancestors], auxiliary.errors[ancestors][:, seen.heard]
        covariance = auxiliary.covariance
        root, _ = factorised(covariance)
        deviations = errors - errors.mean(axis=0)
        together = deviations.T @ deviations / len(states) + covariance
        gain = -np.linalg.solve(together, deviations.T @ (states - states.mean(axis=0)) / len(states)).T
        moved = states + (errors + rng.standard_normal(errors.shape) @ root.T) @ gain.T
        drawn = self._drawn(cloud, rng, step_s, moved, ancestors)
        even, _ = normalised(without(drawn.dead, np.zeros(len(states))))
        innovation = auxiliary.innovation
        log_likelihood = log_constant(innovation.root) - 0.5 * innovation.nis
        after = cloud._replace(
            states=drawn.states,
            values=drawn.values,
            learned=drawn.learned,
            log_weights=logarithms(even),
            offsets=cloud.offsets[ancestors],
            steps_since_spread=(cloud.steps_since_spread or 0) + 1,
        )
        size = effective_sample_size(even)
        info = StepInfo(innovation, log_likelihood, size, size, drawn.clamped, cloud.steps_since_spread == 0)
        return after, info

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
        """The cloud resampled by what its predictions say, moved on, and weighted by what came of it: lines 6 to 16."""
        first, log_total = normalised(cloud.log_weights + auxiliary.log_densities)
        ancestors = systematic(first, float(rng.random()))
        drawn = self._drawn(cloud, rng, step_s, self._shaken(ahead.take(ancestors, axis=0), rng, step_s), ancestors)
        offsets = cloud.offsets.take(ancestors, axis=0)
        errors = seen.values - (self.model.outputs(drawn.states, inputs, drawn.values) + offsets)
        densities = np.empty(len(errors))
        log_densities(errors, seen.heard, auxiliary.whitening, auxiliary.constant, densities)
        if drawn.dead is not None:
            densities[drawn.dead] = -np.inf
        ratios = densities - auxiliary.log_densities[ancestors]
        weights, log_sum = normalised(ratios)
        first_size = effective_sample_size(first)
        collapsed = first_size < self.settings.least_effective_share * len(first)
        since = cloud.steps_since_spread
        after = cloud._replace(
            states=drawn.states,
            values=drawn.values,
            learned=drawn.learned,
            log_weights=ratios - log_sum,
            surplus=surplus(cloud.surplus, densities, auxiliary.errors.take(ancestors, axis=0) - errors),
            rejected_in_a_row=0,
            collapsed_in_a_row=cloud.collapsed_in_a_row + 1 if collapsed else 0,
            steps_since_spread=None if since is None else since + 1,
        )
        log_likelihood = log_total + log_sum - float(np.log(len(first)))
        size = effective_sample_size(weights)
        info = StepInfo(auxiliary.innovation, log_likelihood, size, first_size, drawn.clamped, False)
        return self._offsets_corrected(after, offsets, errors, seen, auxiliary.covariance), info

    def _offsets_corrected(self, cloud: Cloud, offsets: Array, errors: Array, seen: Seen, covariance: Array) -> Cloud:
        """Kalman's correction of every particle's offsets; its gain is the same for all."""
        before = cloud.offset_covariance
        if not before.any():
            return cloud
        gain = np.linalg.solve(covariance, before[seen.heard]).T
        heard = np.where(np.isfinite(errors), errors, 0.0)[:, seen.heard]  # of the dead
        after = before - gain @ before[seen.heard]
        return cloud._replace(offsets=offsets + heard @ gain.T, offset_covariance=0.5 * (after + after.T))

    def _bounded(self, deviations: Array) -> Array:
        """Values of the function, from what is learned of them."""
        return np.asarray(np.maximum(self._constants + deviations, self._lowest))


def _spread(cloud: Cloud) -> Cloud:
    """The counts of a cloud that is spread anew: the wider, the sooner after the last time."""
    since = cloud.steps_since_spread
    in_vain = cloud.spreads_in_vain + 1 if since is not None and since < SOON_STEPS else 0
    return cloud._replace(
        spreads=cloud.spreads + 1,
        spreads_in_vain=in_vain,
        steps_since_spread=0,
        rejected_in_a_row=0,
        collapsed_in_a_row=0,
    )


def _own(cloud: Cloud) -> Any:
    """What was learned, in the statistics of the filter's own prior: of which kind, types cannot tell."""
    return cloud.learned
