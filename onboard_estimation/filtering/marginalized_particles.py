"""Marginalised particle filter: tracks a state while it learns a function that the model does not know.

The model x' = f(x, u, k), y = h(x, u, k) + offset + e is known but for k = g(x), noisily; e is normal. Particles are
states and values of k. What they say of g is a sum of basis functions whose weights are integrated out: each particle
has its own statistics (`normal_inverse_gamma`). This is Algorithm 1 of the paper on marginalised particle filters for
soft robots, an auxiliary particle filter (Pitt and Shephard, 1999); its lines are named where they are.

Left on purpose: line 5 of the algorithm uses k before it is drawn, here it is the mean of its prediction at the
auxiliary state; resampling is systematic; g has a constant mean, and k may have a lowest value; forgetting never
forgets the prior. New are offsets of the outputs, on random walks: given a trajectory they are linear and Gaussian, so
each particle carries their means, and one covariance does for all. A measurement that the cloud does not allow is left
out, and after many in a row the cloud, which has followed the model since the last good one, is spread anew: particles
keep what they have learned.

**Bridged.** Where outputs are exact beside what is not known, or a state has a dozen components, hardly any particle is
likely, and weights alone leave a handful of ancestors. With `ParticleFilterSettings.bridged` the likelihood of a
measurement is split into powers g and 1 - g: the first moves all particles and their values of the unknown function, by
the gain of their own covariance (ensemble Kalman filter with perturbed measurements), the second weighs them. This is
the ensemble Kalman particle filter (Frei and Künsch, "Bridging the ensemble Kalman and particle filters", Biometrika
2013), with g the smallest of `SHARES` that leaves enough effective particles. With g = 0 it is a particle filter; for
linear and normal models any g is exact as particles get many. The unknown function is learned from values that have
been moved, at the places before: a correction is small beside its length scales. The children of a step are drawn by
the weights of the last one; the auxiliary weights are of no use where particles are moved, and only tell whether a
measurement is possible at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.filtering.conjugate_kernels import row_products
from onboard_estimation.filtering.gating import Gate, Innovation, decide
from onboard_estimation.filtering.normal_inverse_gamma import FixedPrior, Statistics
from onboard_estimation.filtering.particle_weights import (
    Draws,
    effective_sample_size,
    factorised,
    log_constant,
    log_densities,
    moments,
    normalised,
    scatter,
    systematic,
)
from onboard_estimation.filtering.walking_prior import HyperParameterWalk, WalkingPrior, WalkingStatistics
from onboard_estimation.learning.reduced_rank import LearnedFunction, ReducedRankBasis

Array = NDArray[np.float64]

SETTLING_STEPS = 10
"""Measurements after a recovery during which particles are moved: an exact sensor would leave a handful of so wide a
cloud, and so hardly any choice of what it does not measure."""
SOON_STEPS, MOST_DOUBLINGS = 100, 4
"""A cloud that is lost again within so many steps is spread twice as wide, up to so many times."""
SURPLUS_SHARE = 0.1
"""Weight of the newest step in what is known of how far drawn outputs scatter about auxiliary ones."""
SHARES = (0.0, 0.5, 0.75, 0.9, 0.97, 1.0)
"""Of the likelihood that may move particles, the least first."""
ENOUGH = 0.5
"""Effective particles that the rest has to leave, as a share of all."""


class GreyBoxModel(Protocol):
    """What is known of a robot: functions of N particles at once.

    `inputs` are whatever the caller of `MarginalizedParticleFilter.step` passes; `values` (N, p) are k. Rows that have
    no answer are NaN: such particles die.
    """

    def propagate(self, states: Array, inputs: Array, values: Array, step_s: float) -> Array:
        """f: states (N, n) after a step, without noise."""
        ...

    def outputs(self, states: Array, inputs: Array, values: Array) -> Array:
        """h: (N, m)."""
        ...

    def places(self, states: Array) -> Array:
        """What the unknown function depends on, (N, d) in the units of its basis."""
        ...


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

    def prior(self) -> FixedPrior | WalkingPrior:
        """Statistics of particles: where they start, and how they go on."""
        nu = self.degrees_of_freedom  # of which psi / (nu - 2) is the mean of the noise's variance
        scatters = tuple((nu - 2.0) * (self.noise_share * stddev) ** 2 for stddev in self.stddevs)
        if self.walk is None:
            return FixedPrior(self.basis, scatters, nu, 1.0 / self.noise_share, self.sample_weight)
        return WalkingPrior(self.basis, scatters, nu, 1.0 / self.noise_share, self.walk, self.sample_weight)


@dataclass(frozen=True)
class ParticleFilterSettings:
    """Noise and recovery.

    Attributes
    ----------
    process_noise
        (n,) standard deviations per sqrt(s) of the states' components; 0: without noise.
    measurement_covariance
        (m, m) of e.
    recovery_stddevs
        (n,) how far a lost cloud is spread; doubled with every recovery that does not help.
    particle_count
        N.
    offset_noise, offset_stddevs
        (m,) of the outputs' offsets: per sqrt(s), and at the start. None: there are no offsets.
    gate
        A measurement beyond its probability is left out, after `recover_after` of them in a row the cloud is spread.
    least_effective_share
        A first-stage effective sample size below this share of N, as often in a row, spreads the cloud as well.
    bridged
        Whether a part of each correction moves the particles, see the module; else all of it weighs them.
    """

    process_noise: ArrayLike
    measurement_covariance: ArrayLike
    recovery_stddevs: ArrayLike
    particle_count: int = 500
    offset_noise: ArrayLike | None = None
    offset_stddevs: ArrayLike | None = None
    gate: Gate = field(default_factory=lambda: Gate(1.0 - 1e-6, 20))
    least_effective_share: float = 0.005
    bridged: bool = False


class Cloud(NamedTuple):
    """State of the filter: a value, all random numbers to come included. Arrays in it are never written.

    Attributes
    ----------
    states, values
        (N, n) and (N, p).
    log_weights
        (N,), normalised.
    learned
        Statistics of the unknown function.
    offsets, offset_covariance
        (N, m) means, and their covariance (m, m), the same for all particles.
    surplus
        (m, m) by how much outputs scatter about auxiliary ones; None before the first measurement.
    draws
        Random numbers to come.
    rejected_in_a_row, collapsed_in_a_row
        Measurements left out, and steps with hardly an effective particle, up to now.
    spreads, spreads_in_vain
        How often the cloud was spread anew: in all, and of late.
    steps_since_spread
        Measurements since the last time; None where there was none.
    """

    states: Array
    values: Array
    log_weights: Array
    learned: Statistics | WalkingStatistics
    offsets: Array
    offset_covariance: Array
    surplus: Array | None
    draws: Draws
    rejected_in_a_row: int = 0
    collapsed_in_a_row: int = 0
    spreads: int = 0
    spreads_in_vain: int = 0
    steps_since_spread: int | None = None

    @property
    def settling(self) -> bool:
        """Whether it was spread a short while ago."""
        return self.steps_since_spread is not None and self.steps_since_spread < SETTLING_STEPS

    def spread_anew(self) -> Cloud:
        """The counts of a cloud that is spread anew: the wider, the sooner after the last time."""
        since = self.steps_since_spread
        in_vain = self.spreads_in_vain + 1 if since is not None and since < SOON_STEPS else 0
        return self._replace(
            spreads=self.spreads + 1,
            spreads_in_vain=in_vain,
            steps_since_spread=0,
            rejected_in_a_row=0,
            collapsed_in_a_row=0,
        )


class StepInfo(NamedTuple):
    """What a step saw.

    Attributes
    ----------
    innovation
        Measured less predicted, of the elements that were measured; None where there were none.
    log_likelihood
        Of the measurement given all before: an unbiased estimate of the likelihood, where particles are moved that of
        a normal one; 0 where it was left out.
    effective_sample_size
        Of the weights after the step.
    clamped
        Particles outside the box of the basis.
    spread
        Whether the cloud was spread anew.
    """

    innovation: Innovation | None
    log_likelihood: float
    effective_sample_size: float
    clamped: int
    spread: bool = False


class _Reading(NamedTuple):
    """A measurement (m,), with zeros for what was not measured, the elements that were, and what acts meanwhile."""

    values: Array
    heard: NDArray[np.int64]
    inputs: Array
    step_s: float


class _Auxiliary(NamedTuple):
    """First stage: measured less predicted (N, m), the covariance of what was heard, and what it says of particles."""

    errors: Array
    covariance: Array
    whitening: Array
    constant: float
    log_densities: Array
    innovation: Innovation

    @property
    def log_likelihood(self) -> float:
        """Of a normal measurement."""
        return log_constant(self.innovation.root) - 0.5 * self.innovation.nis


class _Drawn(NamedTuple):
    """Second stage, before it is weighted: the children's states, and values of the function with their prediction."""

    states: Array
    values: Array
    prediction: Any
    dead: NDArray[np.bool_] | None
    clamped: int


class MarginalizedParticleFilter:
    """Algorithm 1 over any grey-box model.

        basis = ReducedRankBasis(centre=(0.0,), half_widths=(2.0,), length_scales=(0.4,))
        unknown = UnknownFunction(basis, constants=(0.0,), stddevs=(3.0,))
        settings = ParticleFilterSettings([0.0, 0.05], [[1e-4]], recovery_stddevs=[0.1, 0.5])
        tracker = MarginalizedParticleFilter(model, unknown, settings)
        cloud = tracker.start([0.0, 0.0], np.diag([0.01, 0.1]), key=1)
        cloud, info = tracker.step(cloud, step_s, measured, inputs)
        moments(np.exp(cloud.log_weights), cloud.states), tracker.learned_function(cloud).predict(places)

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
    """

    def __init__(self, model: GreyBoxModel, unknown: UnknownFunction, settings: ParticleFilterSettings) -> None:
        self.model, self.unknown, self.settings = model, unknown, settings
        self.prior: Any = unknown.prior()  # its statistics are of its own kind, which types cannot tell
        self._process_noise = np.array(settings.process_noise, dtype=np.float64)
        self._recovery = np.array(settings.recovery_stddevs, dtype=np.float64)
        self._noise = np.array(settings.measurement_covariance, dtype=np.float64)
        offset_noise, self._offset_stddevs = (
            np.zeros(len(self._noise)) if value is None else np.array(value, dtype=np.float64)
            for value in (settings.offset_noise, settings.offset_stddevs)
        )
        self._offset_growth = np.diag(offset_noise**2)
        self._constants = np.array(unknown.constants, dtype=np.float64)
        self._lowest = np.array(np.full(len(unknown.constants), -np.inf) if unknown.lowest is None else unknown.lowest)

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
        eigenvalues, vectors = np.linalg.eigh(np.asarray(covariance, dtype=np.float64))
        root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        return Cloud(
            states=np.asarray(mean, dtype=np.float64) + rng.standard_normal((count, n)) @ root.T,
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
        values = np.full(len(self._noise), np.nan) if measured is None else np.asarray(measured, dtype=np.float64)
        there = np.isfinite(values)
        seen = _Reading(np.where(there, values, 0.0), np.flatnonzero(there), u_now, step_s)
        rng, draws = cloud.draws.generator()
        cloud = cloud._replace(draws=draws, offset_covariance=cloud.offset_covariance + step_s * self._offset_growth)
        ahead = self.model.propagate(cloud.states, u, cloud.values, step_s)
        if not len(seen.heard):
            return self._left_out(cloud, rng, self._shaken(ahead, rng, step_s), seen, None)
        auxiliary, gate = self._auxiliary(cloud, ahead, seen), self.settings.gate
        if cloud.surplus is not None and not cloud.settling:  # else nothing is known yet of how far outputs scatter
            decision = decide(gate, auxiliary.innovation.nis, len(seen.heard), cloud.rejected_in_a_row)
            if decision.inflation > 1.0 or 0 < gate.recover_after <= cloud.collapsed_in_a_row:
                cloud = cloud.spread_anew()
                factor = 2.0 ** min(cloud.spreads_in_vain, MOST_DOUBLINGS)
                ahead = ahead + factor * self._recovery * rng.standard_normal(ahead.shape)
                auxiliary = self._auxiliary(cloud, ahead, seen)
            elif not decision.accepted:
                cloud = cloud._replace(rejected_in_a_row=decision.rejected_in_a_row)
                return self._left_out(cloud, rng, self._shaken(ahead, rng, step_s), seen, auxiliary.innovation)
        corrected = self._bridged if self.settings.bridged or cloud.settling else self._weighed
        return corrected(cloud, rng, ahead, seen, auxiliary)

    def learned_function(self, cloud: Cloud) -> LearnedFunction:
        """What all particles have learned, as one function: mean and covariance of their mixture.

        Writes out a matrix for each particle: some milliseconds for 500.
        """
        weights, prior, learned = np.exp(cloud.log_weights), self.prior, cloud.learned
        means = self.mean_weights(cloud)
        noise = prior.scatters_of(learned) / (learned.degrees_of_freedom - 2.0)
        matrices = prior.covariances(learned)
        factors = np.ones(matrices.shape[1]) if prior.factors is None else prior.factors
        covariances = []
        for output in range(noise.shape[1]):
            _, between = moments(weights, learned.means[:, output])
            within = np.tensordot(weights * noise[:, output], matrices, axes=1)
            covariances.append(np.outer(factors, factors) * (within + between))
        deviations = np.sqrt(weights @ noise)
        return LearnedFunction(self.unknown.basis, self._constants, means, np.array(covariances), deviations)

    def mean_weights(self, cloud: Cloud) -> Array:
        """(p, M) of the basis functions, what all particles have learned in the mean."""
        means = np.tensordot(np.exp(cloud.log_weights), cloud.learned.means, axes=1)
        return np.asarray(means if self.prior.factors is None else means * self.prior.factors)

    def _auxiliary(self, cloud: Cloud, ahead: Array, seen: _Reading) -> _Auxiliary:
        """What the particles' predictions say of the measurement: lines 3 to 5, with k its predicted mean."""
        phi, _ = self.unknown.basis.functions(self.model.places(ahead), self.prior.factors)
        expected = np.empty(cloud.values.shape)
        row_products(cloud.learned.means, phi, expected)
        values = self._bounded(expected)
        errors = seen.values - (self.model.outputs(ahead, seen.inputs, values) + cloud.offsets)
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
        return _Auxiliary(errors, covariance, whitening, constant, densities, innovation)

    def _shaken(self, ahead: Array, rng: np.random.Generator, step_s: float) -> Array:
        """Predicted states with process noise: line 12."""
        return ahead + np.sqrt(step_s) * self._process_noise * rng.standard_normal(ahead.shape)

    def _drawn(
        self, cloud: Cloud, rng: np.random.Generator, step_s: float, states: Array, ancestors: NDArray[np.int64]
    ) -> _Drawn:
        """Values of the children of `ancestors`, who are in `states`: lines 2, 8 to 11, 13 and 14."""
        dead = None
        if not np.isfinite(states).all():  # the dead weigh nothing; numbers they need all the same
            dead = np.asarray(~np.isfinite(states).all(axis=1))
            states = np.where(dead[:, None], cloud.states[ancestors], states)
        phi, clamped = self.unknown.basis.functions(self.model.places(states), self.prior.factors)
        normals = rng.standard_normal((len(states), self.prior.walking))
        kept = float(np.exp(-step_s / self.unknown.memory_s))  # lambda
        prediction = self.prior.predict(cloud.learned, ancestors, phi, step_s, kept, normals)
        drawn = rng.standard_t(prediction.degrees_of_freedom, prediction.means.shape)
        values = self._bounded(prediction.means + np.sqrt(prediction.variances) * drawn)
        return _Drawn(states, values, prediction, dead, clamped)

    def _continued(self, cloud: Cloud, drawn: _Drawn, log_weights: Array, **more: Any) -> Cloud:
        """The cloud of the children, who have learned from their values: line 15."""
        learned = self.prior.observe(drawn.prediction, drawn.values - self._constants)
        return cloud._replace(
            states=drawn.states, values=drawn.values, learned=learned, log_weights=log_weights, **more
        )

    def _left_out(
        self, cloud: Cloud, rng: np.random.Generator, states: Array, seen: _Reading, innovation: Innovation | None
    ) -> tuple[Cloud, StepInfo]:
        """The cloud moved on, without a measurement."""
        drawn = self._drawn(cloud, rng, seen.step_s, states, np.arange(len(states)))
        weights, _ = normalised(_without(drawn.dead, cloud.log_weights))
        refused = None if innovation is None else replace(innovation, accepted=False)
        info = StepInfo(refused, 0.0, effective_sample_size(weights), drawn.clamped)
        return self._continued(cloud, drawn, _logarithms(weights)), info

    def _weighed(
        self, cloud: Cloud, rng: np.random.Generator, ahead: Array, seen: _Reading, auxiliary: _Auxiliary
    ) -> tuple[Cloud, StepInfo]:
        """The cloud resampled by what its predictions say, moved on, and weighted by what came of it: lines 6 to 16."""
        first, log_total = normalised(cloud.log_weights + auxiliary.log_densities)
        ancestors = systematic(first, float(rng.random()))
        shaken = self._shaken(ahead.take(ancestors, axis=0), rng, seen.step_s)
        drawn = self._drawn(cloud, rng, seen.step_s, shaken, ancestors)
        offsets = cloud.offsets.take(ancestors, axis=0)
        errors = seen.values - (self.model.outputs(drawn.states, seen.inputs, drawn.values) + offsets)
        densities = np.empty(len(errors))
        log_densities(errors, seen.heard, auxiliary.whitening, auxiliary.constant, densities)
        densities = _without(drawn.dead, densities)
        ratios = densities - auxiliary.log_densities[ancestors]
        weights, log_sum = normalised(ratios)
        collapsed = effective_sample_size(first) < self.settings.least_effective_share * len(first)
        moved = auxiliary.errors.take(ancestors, axis=0) - errors
        after = self._continued(
            cloud,
            drawn,
            ratios - log_sum,
            **self._corrected_counts(cloud, densities, moved),
            **self._corrected_offsets(cloud, offsets, errors, seen, auxiliary.covariance),
            collapsed_in_a_row=cloud.collapsed_in_a_row + 1 if collapsed else 0,
        )
        log_likelihood = log_total + log_sum - float(np.log(len(first)))
        return after, StepInfo(auxiliary.innovation, log_likelihood, effective_sample_size(weights), drawn.clamped)

    def _bridged(
        self, cloud: Cloud, rng: np.random.Generator, ahead: Array, seen: _Reading, auxiliary: _Auxiliary
    ) -> tuple[Cloud, StepInfo]:
        """The cloud resampled by its weights, moved on, moved by the measurement, weighted by what is left of it."""
        before, _ = normalised(_without(auxiliary.log_densities == -np.inf, cloud.log_weights))
        ancestors = systematic(before, float(rng.random()))
        drawn = self._drawn(cloud, rng, seen.step_s, self._shaken(ahead[ancestors], rng, seen.step_s), ancestors)
        states, values, offsets = drawn.states, drawn.values, cloud.offsets[ancestors]
        errors = seen.values - (self.model.outputs(states, seen.inputs, values) + offsets)
        lost = ~np.isfinite(errors[:, seen.heard]).all(axis=1)
        if lost.any():  # the process noise took them where there is no robot: they stay where they were expected
            states[lost], errors[lost] = ahead[ancestors[lost]], auxiliary.errors[ancestors[lost]]
        heard = errors[:, seen.heard]
        normal = rng.standard_normal(heard.shape) @ np.linalg.cholesky(auxiliary.covariance).T
        share, left, weights = _split(heard, normal, auxiliary)
        if share > 0.0:
            # A particle's offsets are what its past makes of the outputs: they go with what is moved.
            together = np.hstack([states, values, offsets])
            deviations = heard - heard.mean(axis=0)
            across = -(together - together.mean(axis=0)).T @ deviations / len(heard)
            within = deviations.T @ deviations / len(heard) + auxiliary.covariance / share
            together += (heard + normal / np.sqrt(share)) @ np.linalg.solve(within, across.T)
            states, values, offsets = np.split(together, np.cumsum([states.shape[1], values.shape[1]]), axis=1)
            # Contiguous as they are drawn, so that models are compiled but once.
            states, values = np.ascontiguousarray(states), self._bounded(values - self._constants)
        moved = errors.copy()
        moved[:, seen.heard] = left
        after = self._continued(
            cloud,
            drawn._replace(states=states, values=values),
            _logarithms(weights),
            **self._corrected_counts(cloud, np.zeros(len(heard)), auxiliary.errors[ancestors] - errors),
            **self._corrected_offsets(cloud, offsets, moved, seen, auxiliary.covariance),
            collapsed_in_a_row=0,
        )
        size, spread = effective_sample_size(weights), cloud.steps_since_spread == 0
        return after, StepInfo(auxiliary.innovation, auxiliary.log_likelihood, size, drawn.clamped, spread)

    def _corrected_counts(self, cloud: Cloud, densities: Array, differences: Array) -> dict[str, Any]:
        """Of a cloud whose measurement was used; drawn outputs differ from auxiliary ones by `differences` (N, m)."""
        mean, newest = np.empty(differences.shape[1]), np.empty((differences.shape[1],) * 2)
        scatter(np.ones(len(differences)), densities, differences, mean, newest)
        before, since = cloud.surplus, cloud.steps_since_spread
        return {
            "surplus": newest if before is None else before + SURPLUS_SHARE * (newest - before),
            "rejected_in_a_row": 0,
            "steps_since_spread": None if since is None else since + 1,
        }

    def _corrected_offsets(
        self, cloud: Cloud, offsets: Array, errors: Array, seen: _Reading, covariance: Array
    ) -> dict[str, Array]:
        """Kalman's correction of every particle's offsets; its gain is the same for all."""
        before = cloud.offset_covariance
        if not before.any():
            return {}
        gain = np.linalg.solve(covariance, before[seen.heard]).T
        heard = np.where(np.isfinite(errors), errors, 0.0)[:, seen.heard]  # of the dead
        after = before - gain @ before[seen.heard]
        return {"offsets": offsets + heard @ gain.T, "offset_covariance": 0.5 * (after + after.T)}

    def _bounded(self, deviations: Array) -> Array:
        """Values of the function, from what is learned of them."""
        return np.asarray(np.maximum(self._constants + deviations, self._lowest))


def _split(errors: Array, normal: Array, auxiliary: _Auxiliary) -> tuple[float, Array, Array]:
    """How a measurement is used: the least share that leaves enough particles, errors and weights after the move.

    `errors` (N, h) are those of the elements that were heard, `normal` (N, h) draws of the measurement's noise.
    """
    deviations = errors - errors.mean(axis=0)
    spread = deviations.T @ deviations / len(errors)
    for share in SHARES:
        moved = errors
        if share > 0.0:
            gain = np.linalg.solve(spread + auxiliary.covariance / share, spread)
            moved = errors - (errors + normal / np.sqrt(share)) @ gain
        squares = ((moved @ auxiliary.whitening.T) ** 2).sum(axis=1)
        weights, _ = normalised(-0.5 * (1.0 - share) * squares)
        if effective_sample_size(weights) >= ENOUGH * len(weights):
            break
    return share, moved, weights


def _without(dead: NDArray[np.bool_] | None, log_weights: Array) -> Array:
    """Logarithms of weights, -inf for the dead (N,), if there are any."""
    return log_weights if dead is None else np.where(dead, -np.inf, log_weights)


def _logarithms(weights: Array) -> Array:
    """Of weights that may be zero."""
    with np.errstate(divide="ignore"):
        return np.log(weights)
