"""Algorithm 1 of the paper (Ewering et al.), line by line: `algorithm_1`.

An auxiliary particle filter on x = (q, q'), three coordinates of the arc and their rates, whose bending stiffness k is
a reduced-rank Gaussian process of q with the weights integrated out. Numbers are the paper's (Section VII-A): M = 40
functions on [-1, 1]^3 over q in half widths of `learning.half_width_...`, N = 500, l = 1, sigma_f^2 = 100, psi = 4;
nothing is forgotten. With `learning.hyper_parameters` sigma_f^2 and l walk, eq. (24).

The paper's q is (dx, dy, dL), m, with dx = d bx; d is not in its text, and is the arm of a chamber's centre here, so
that k in N m/rad is d^2 times k in N/m. Nor is the unit of the prior's k: it is 100 N/m, in which a function of
deviation sigma_f reaches the stiffness that the paper prints.

The lines are those of `MarginalizedParticleFilter`, which names them, without its gate, recovery and offsets. The paper
is left where its text cannot be run, or not well; the first two are as printed with `literal`:

- the process is about the configured stiffness, not about zero, and no k is below a quarter of it;
- nu = 3, not 1, with which the first samples are Cauchy's;
- the factor on statistics in eq. (17) is 1: with the printed gamma = 0 they would be erased at each step;
- line 5 needs k_t before line 13 draws it: it is the mean of (22) at the auxiliary state. Resampling is systematic.

f_nom is the grey box with what is identified of it, x its first six columns, without what `marginalized_pf` has beside
(creep, payload, unknown moments); Sigma_omega and Sigma_e are those of `filter`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.gating import OPEN
from onboard_estimation.filtering.marginalized_particles import MarginalizedParticleFilter, ParticleFilterSettings
from onboard_estimation.filtering.normal_inverse_gamma import FixedPrior
from onboard_estimation.filtering.particle_weights import moments, normalised
from onboard_estimation.filtering.walking_prior import HyperParameterWalk, WalkingPrior
from softrobot_estimation.estimators.particle_estimator import ParticleEstimator, Tracked
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration

UNIT_N_PER_M, PSI, SIGMA_F, LENGTH_SCALE = 100.0, 4.0, 10.0, 1.0
"""Of the prior; the last over half widths of the box."""
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


class Algorithm1Estimator(ParticleEstimator):
    """Tip and stiffness by Algorithm 1.

    Parameters
    ----------
    literal
        The prior as printed: about zero, nu = 1.
    """

    def __init__(self, configuration: SoftRobotConfiguration, literal: bool = False) -> None:
        super().__init__(configuration)
        box = self.unknown.basis
        basis = replace(
            box, length_scales=tuple(LENGTH_SCALE * one for one in box.half_widths), kernel="squared_exponential"
        )
        self.unknown = replace(self.unknown, basis=basis, memory_s=np.inf)
        if literal:
            self.unknown = replace(self.unknown, constants=(0.0,), lowest=None)
        scatter = PSI * (UNIT_N_PER_M * configuration.chambers.centre_radius_m**2) ** 2
        prior = basis, (scatter,), 1.0 if literal else 3.0, SIGMA_F
        walks = configuration.learning.hyper_parameters
        self._prior = WalkingPrior(*prior, RandomWalk()) if walks else FixedPrior(*prior)

    def _built(self, moment_stddev_n_m: float) -> MarginalizedParticleFilter:
        noise, count = np.zeros(kernels.ROW), self.configuration.learning.particles
        noise[kernels.RATES : kernels.RELAXED] = self.rate_walk
        settings = ParticleFilterSettings(
            noise, np.diag(self.wrench_stddev**2), noise, count, gate=OPEN, least_effective_share=0.0
        )
        tracker = MarginalizedParticleFilter(self._model, self.unknown, settings)
        tracker.prior = self._prior
        return tracker

    def begun(self, rows: Vector, stddev: Vector, stiffness: float, stiffness_stddev: float) -> Tracked:
        """x_0 drawn there, k_0 from its prior, w_0 = 1 / N; the grey box's other columns stand still."""
        filtered = super().begun(rows, _of_state(stddev), stiffness, stiffness_stddev)
        cloud, prior = filtered.cloud, self._prior
        rng, draws = cloud.draws.generator()
        phi, _ = self.unknown.basis.functions(self._model.places(cloud.states), prior.factors)
        normals = np.zeros((len(phi), prior.walking))
        k = prior.predict(cloud.learned, np.arange(len(phi)), phi, 0.0, 1.0, normals)  # type: ignore[arg-type]
        drawn = k.means + np.sqrt(k.variances) * rng.standard_t(k.degrees_of_freedom, k.means.shape)
        values = np.maximum(self.unknown.constants + drawn, self.unknown.lowest or -np.inf)
        return filtered._replace(cloud=cloud._replace(values=values, draws=draws))

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
