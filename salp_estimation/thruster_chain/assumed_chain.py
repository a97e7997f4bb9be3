"""What observability takes a configured robot to be: its model, IMUs, what is known before, and what may wander.

Two readings of one configuration. `laboratory`: IMUs and tolerances as by the data sheets, gains of the thrusters
uncertain, parameters constant. `paper`: what the paper's filter is told, Tables III and IV. Geometry is nominal in
both, so what is predicted is the least that any filter of this robot can reach: tolerances of places, mounting and
sensors only add to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain.chain_model import ChainModel, ImuModel
from salp_estimation.thruster_chain.configuration import ThrusterChainConfiguration
from salp_estimation.thruster_chain.forecast import Forecast, forecast
from salp_estimation.thruster_chain.observed_chain import ObservedChain, blocks, packed
from salp_estimation.thruster_chain.space import BOUND_TO_STDDEV, prior_stddev, published_space


@dataclass(frozen=True, eq=False)
class AssumedChain:
    """A robot as observability takes it.

    Attributes
    ----------
    chain
        Noise is that of one sample.
    design
        (5N + 2,) state at rest, as designed, which the deviations below belong to.
    prior_stddev, noise_density
        (5N + 2,) see `observed_chain.Blocks`; the latter a random walk, per root second.
    rate_hz
        Samples a second of each IMU.
    limit_n, time_constant_s
        Largest thrust, and of how it follows a command.
    dead_band_n
        Commands below do not start a thruster, N; conditions must hold by more than this.
    """

    chain: ObservedChain
    design: Vector
    prior_stddev: Vector
    noise_density: Vector
    rate_hz: float
    limit_n: float
    time_constant_s: float
    dead_band_n: float

    def about(self, state: Vector) -> AssumedChain:
        """The same about another state: masses and inertias keep their relative deviations, as their logarithms do."""
        at, factor = blocks(self.chain.count), np.ones_like(self.design)
        for place in (at.mass, at.inertia):
            factor[place] = state[place] / self.design[place]
        return replace(self, prior_stddev=factor * self.prior_stddev, noise_density=factor * self.noise_density)

    def sampled(self, step_s: float) -> ObservedChain:
        """The chain with the noise of all samples within a step, averaged."""
        return self.chain.averaged(self.rate_hz * step_s)

    def forecast(self, state: Vector, covariance: Matrix) -> Forecast:
        """Which single push would tell most, from where a filter stands: (5N + 2,) and (5N + 2, 5N + 2)."""
        density = self.about(state).noise_density
        return forecast(self.chain, state, covariance, self.limit_n, self.rate_hz, density, self.time_constant_s)

    def started(self, thrust_n: Matrix) -> Matrix:
        """Commands (K, N) without those that do not start a thruster."""
        return np.where(np.abs(thrust_n) < self.dead_band_n, 0.0, thrust_n)


def assumed_chain(configuration: ThrusterChainConfiguration, papers: bool = False) -> AssumedChain:
    """From a configuration, as the data sheets have it, or (`papers`) as the paper's filter is told."""
    names, known = configuration.chain, prior_stddev(configuration)
    space, paper = published_space(configuration), configuration.paper
    model = ChainModel.rods(names.lengths, names.thruster_angles, names.thruster_places, names.imu_places)
    design = packed(np.zeros(names.count), 0.0, names.masses, names.inertias)
    theta, omega = known[space.tangent("headings")], known[space.tangent("rates")]
    if papers:
        return AssumedChain(
            ObservedChain(
                model,
                paper.accelerometer_stddev_m_s2,
                paper.gyro_stddev_rad_s,
                ImuModel[configuration.imu_model.upper()],
            ),
            design,
            packed(theta, omega, paper.mass_stddev_kg, paper.inertia_stddev_kg_m2, 0.0),
            packed(
                np.full(names.count, paper.heading_noise_rad),
                paper.rate_noise_rad_s,
                paper.mass_noise_kg,
                paper.inertia_noise_kg_m2,
                0.0,
            )
            * np.sqrt(paper.rate_hz),
            paper.rate_hz,
            configuration.thruster.limit_n,
            0.0,
            0.0,
        )
    gain = BOUND_TO_STDDEV * configuration.tolerances.thrust_gain_fraction
    prior = packed(theta, omega, known[space.tangent("masses")], known[space.tangent("inertias")], gain)
    return AssumedChain(
        ObservedChain(model, configuration.accelerometer_stddev_m_s2, configuration.gyro_stddev_rad_s),
        design,
        prior,
        np.zeros_like(prior),
        configuration.imu.rate_hz,
        configuration.thruster.limit_n,
        float(np.mean(configuration.thruster.time_constant_s)),
        configuration.thruster.dead_band_n,
    )


def from_published(assumed: AssumedChain, mean: Vector, covariance: Matrix) -> tuple[Vector, Matrix]:
    """State (5N + 2,) and covariance from an estimator's 4N + 4: gains as by design, no correlation with the rest."""
    count = assumed.chain.count
    at, told = blocks(count), 4 * count
    columns = np.r_[at.theta, at.omega, at.mass, at.inertia]
    state, whole = np.ones(at.gain.stop), np.diag(assumed.prior_stddev**2)
    state[at.velocity] = 0.0
    state[columns] = mean[:told]
    whole[np.ix_(columns, columns)] = covariance[:told, :told]
    return state, whole
