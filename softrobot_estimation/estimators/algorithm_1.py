"""Algorithm 1 of the paper (Ewering et al.), line by line: `algorithm_1`.

An auxiliary particle filter on x = (q, q'), three coordinates of the arc and their rates, whose bending stiffness k is
a reduced-rank Gaussian process of q with the weights integrated out. Numbers are the paper's (Section VII-A): M = 40
functions on [-1, 1]^3 over q in half widths of `learning.half_width_...`, N = 500, l = 1, sigma_f^2 = 100, psi = 4;
nothing is forgotten. With `learning.hyper_parameters` sigma_f^2 and l walk, eq. (24).

The paper's q is (dx, dy, dL), m, with dx = d bx; d is not in its text, and is the arm of a chamber's centre here, so
that k in N m/rad is d^2 times k in N/m. Nor is the unit of the prior's k: it is 100 N/m, in which a function of
deviation sigma_f reaches the stiffness that the paper prints.

The paper is left where its text cannot be run, or not well; each is a field of `Prior`, and `LITERAL` has none but the
last two:

- the process is about the configured stiffness, not about zero, and no k is below a quarter of it;
- nu = 3, not 1, with which the first samples are Cauchy's;
- the factor on statistics in eq. (17) is 1: with the printed gamma = 0 they would be erased at each step;
- line 5 needs k_t before line 13 draws it: it is the mean of (22) at the auxiliary state. Resampling is systematic.

There is neither gate nor recovery, no offset of the sensor, no creep: what `marginalized_pf` has beside. f_nom is the
grey box with what is identified of it, x its first six columns; Sigma_omega and Sigma_e are those of `filter`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.marginalized_particles import (
    Cloud,
    GreyBoxModel,
    MarginalizedParticleFilter,
    ParticleFilterSettings,
    StepInfo,
    UnknownFunction,
)
from onboard_estimation.filtering.normal_inverse_gamma import FixedPrior
from onboard_estimation.filtering.particle_weights import (
    effective_sample_size,
    factorised,
    log_constant,
    log_densities,
    moments,
    normalised,
    systematic,
)
from onboard_estimation.filtering.walking_prior import HyperParameterWalk, WalkingPrior
from onboard_estimation.learning.reduced_rank import ReducedRankBasis
from softrobot_estimation.estimators.particle_estimator import ParticleEstimator, Tracked, stiffness_prior
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration

_LEAST_SHARE = 0.01
"""Of the particles' unweighted covariance, in what is published."""


@dataclass(frozen=True)
class RandomWalk(HyperParameterWalk):
    """Eq. (24): sigma_f^2 and l add a normal step each; they are turned back at their least values.

    Attributes
    ----------
    deviation_noise, length_noise
        Roots of Sigma_zeta, of sigma_f^2 and of l as shares of where they start, per sqrt(s). The paper has none.
    farthest_deviation, farthest_length
        One over the least shares.
    """

    deviation_noise: float = 0.3
    length_noise: float = 0.1
    farthest_deviation: float = 100.0
    farthest_length: float = 4.0

    def walked(self, logs: Matrix, normals: Matrix, step_s: float) -> Matrix:
        """Logarithms (N, 2) of the roots of sigma_f^2 and of l, as shares, after a step."""
        least = 1.0 / np.array([self.farthest_deviation, self.farthest_length])
        shares = np.exp(logs * [2.0, 1.0])
        shares += np.sqrt(step_s) * np.array([self.deviation_noise, self.length_noise]) * normals
        return np.asarray(np.log(least + np.abs(shares - least)) / [2.0, 1.0])


@dataclass(frozen=True)
class Prior:
    """Numbers of (9) and (16); the first two are not the paper's, the unit of k is not in its text, see the module."""

    nu: float = 3.0
    about_nominal: bool = True
    unit_n_per_m: float = 100.0
    psi: float = 4.0
    sigma_f_squared: float = 100.0
    length_scale: float = 1.0
    walk: RandomWalk = RandomWalk()

    def of(self, configuration: SoftRobotConfiguration) -> tuple[UnknownFunction, FixedPrior | WalkingPrior]:
        """The unknown k(q), N m/rad, and the statistics eta_0."""
        usual, d = stiffness_prior(configuration), configuration.chambers.centre_radius_m
        box = usual.basis
        scales = tuple(self.length_scale * width for width in box.half_widths)
        basis = ReducedRankBasis(box.centre, box.half_widths, scales, box.function_count)
        sigma_f = float(np.sqrt(self.sigma_f_squared))
        scatters = (self.psi * (self.unit_n_per_m * d**2) ** 2,)
        prior = (
            WalkingPrior(basis, scatters, self.nu, sigma_f, self.walk)
            if configuration.learning.hyper_parameters
            else FixedPrior(basis, scatters, self.nu, sigma_f)
        )
        if self.about_nominal:
            return replace(usual, basis=basis), prior
        return replace(usual, basis=basis, constants=(0.0,), lowest=None), prior


LITERAL = Prior(nu=1.0, about_nominal=False)


class Algorithm1(MarginalizedParticleFilter):
    """The filter; particles are a `Cloud`: x^i `states`, k^i `values`, w^i `log_weights`, eta^i `learned`."""

    def __init__(
        self,
        model: GreyBoxModel,
        unknown: UnknownFunction,
        prior: FixedPrior | WalkingPrior,
        settings: ParticleFilterSettings,
    ) -> None:
        super().__init__(model, unknown, settings)
        self.prior = prior

    def start(self, mean: ArrayLike, covariance: ArrayLike, key: int) -> Cloud:
        """Initialisation: x_0 about the mean, k_0 from its prior there, w_0 = 1 / N."""
        cloud = super().start(mean, covariance, key)
        rng, draws = cloud.draws.generator()
        phi, _ = self.unknown.basis.functions(self.model.places(cloud.states), self.prior.factors)
        normals = np.zeros((len(phi), self.prior.walking))
        k = self.prior.predict(cloud.learned, np.arange(len(phi)), phi, 0.0, 1.0, normals)
        t = rng.standard_t(k.degrees_of_freedom, k.means.shape)
        return cloud._replace(values=self._bounded(k.means + np.sqrt(k.variances) * t), draws=draws)

    def step(
        self,
        cloud: Cloud,
        step_s: float,
        measured: ArrayLike | None,
        inputs: ArrayLike = (),
        inputs_now: ArrayLike | None = None,
    ) -> tuple[Cloud, StepInfo]:
        """Lines 2 to 16; arguments as they are there: y_t is `measured`, u_{t-1} and u_t are the inputs."""
        f_nom, h_nom, basis, prior = self.model.propagate, self.model.outputs, self.unknown.basis, self.prior
        u_before = np.asarray(inputs, dtype=np.float64)
        u = u_before if inputs_now is None else np.asarray(inputs_now, dtype=np.float64)
        y = np.full(len(self._noise), np.nan) if measured is None else np.asarray(measured, dtype=np.float64)
        heard = np.flatnonzero(np.isfinite(y))
        sigma_e = self._noise[np.ix_(heard, heard)]
        root, whitening = factorised(sigma_e)

        def log_likelihood(errors: Matrix) -> Vector:
            out = np.empty(len(errors))
            log_densities(errors, heard, whitening, log_constant(root), out)
            return out

        rng, draws = cloud.draws.generator()
        # 3: auxiliary states
        x_auxiliary = f_nom(cloud.states, u_before, cloud.values, step_s)
        # 4 to 6: first-stage weights; k_t is not drawn yet, and is its mean mu of (23)
        phi, _ = basis.functions(self.model.places(x_auxiliary), prior.factors)
        mu = np.einsum("npm,nm->np", cloud.learned.means, phi)
        auxiliary_errors = y - h_nom(x_auxiliary, u, self._bounded(mu)) - cloud.offsets
        log_auxiliary = log_likelihood(auxiliary_errors)
        log_auxiliary[~np.isfinite(x_auxiliary).all(axis=1)] = -np.inf  # where there is no robot
        first_stage, log_total = normalised(cloud.log_weights + log_auxiliary)
        # 7: resampling
        a = systematic(first_stage, float(rng.random()))
        # 12: states; f_nom of the ancestors is known from line 3
        x = x_auxiliary[a] + np.sqrt(step_s) * self._process_noise * rng.standard_normal(x_auxiliary.shape)
        # 2, 8 to 11, 13: statistics (17), hyper-parameters (24) with their V of (8), and k_t by (22) and (23)
        phi, clamped = basis.functions(self.model.places(x), prior.factors)
        zeta = rng.standard_normal((len(x), prior.walking))
        student = prior.predict(cloud.learned, a, phi, step_s, 1.0, zeta)
        t = rng.standard_t(student.degrees_of_freedom, student.means.shape)
        k = self._bounded(student.means + np.sqrt(student.variances) * t)
        # 14, 15: statistics of the ancestors with (phi, k), eq. (15)
        eta = prior.observe(student, k - self._constants)
        # 16: weights (19)
        errors = y - h_nom(x, u, k) - cloud.offsets
        ratios = log_likelihood(errors) - log_auxiliary[a]
        weights, log_sum = normalised(ratios)
        after = cloud._replace(states=x, values=k, log_weights=ratios - log_sum, learned=eta, draws=draws)
        seen: Innovation | None = None
        if len(heard):
            mean, spread = moments(
                np.exp(cloud.log_weights), np.where(np.isfinite(auxiliary_errors), auxiliary_errors, 0.0)[:, heard]
            )
            _, drawn = moments(weights, np.where(np.isfinite(errors), errors - auxiliary_errors[a], 0.0)[:, heard])
            root, inverse = factorised(spread + drawn + sigma_e)
            seen = Innovation(mean, root, float(((inverse @ mean) ** 2).sum()), True)
        return after, StepInfo(seen, log_total + log_sum - np.log(len(x)), effective_sample_size(weights), clamped)


class Algorithm1Estimator(ParticleEstimator):
    """Tip and stiffness by Algorithm 1.

    Parameters
    ----------
    prior
        Of the stiffness.
    """

    def __init__(self, configuration: SoftRobotConfiguration, prior: Prior = Prior()) -> None:
        super().__init__(configuration)
        self.unknown, self._prior = prior.of(configuration)

    def _built(self, moment_stddev_n_m: float) -> Algorithm1:
        noise = np.zeros(kernels.ROW)
        noise[kernels.RATES : kernels.RELAXED] = self.rate_walk
        covariance = np.diag(self.wrench_stddev**2)
        count = self.configuration.learning.particles
        settings = ParticleFilterSettings(noise, covariance, np.zeros(kernels.ROW), count)
        return Algorithm1(self._model, self.unknown, self._prior, settings)

    def begun(self, rows: Vector, stddev: Vector, stiffness: float, stiffness_stddev: float) -> Tracked:
        """x_0 drawn there; the grey box's other columns stand still."""
        return super().begun(rows, _of_state(stddev), stiffness, stiffness_stddev)

    def published(self, filtered: Tracked, chambers_pa: Vector) -> tuple[Vector, Matrix]:
        """Moments of all particles; where one has nearly all weight, their spread keeps the covariance regular."""
        mean, covariance = super().published(filtered, chambers_pa)
        cloud = filtered.cloud
        even = np.where(cloud.log_weights > -np.inf, 0.0, -np.inf)
        weights, _ = normalised(even)
        tips = self.grey_box.tips(cloud.states, cloud.values[:, 0], chambers_pa)
        return mean, covariance + _LEAST_SHARE * moments(weights, tips)[1]

    def placed(self, filtered: Tracked, row: Vector, stddev: Vector) -> Tracked:
        """x drawn anew; particles keep what they have learned."""
        return super().placed(filtered, row, _of_state(stddev))


def _of_state(stddev: Vector) -> Vector:
    """Deviations of x alone."""
    return np.where(np.arange(len(stddev)) < kernels.RELAXED, stddev, 0.0)
