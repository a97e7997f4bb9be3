"""What observability asks of a chain: its model, the noise of its IMUs, what is known before, and what may wander.

There are two readings of a configuration (`assumed_chain`). The laboratory's: IMUs and tolerances as by the data
sheets, gains of the thrusters uncertain, parameters constant. The paper's: what its filter is told, Tables III and IV.
Geometry is nominal in both, so what is predicted is the least that any filter of this robot can reach: tolerances of
places, mounting and sensors only add to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.dynamics import rods
from thruster_chain_estimation.model.space import BOUND_TO_STDDEV, prior_stddev


class Blocks(NamedTuple):
    """Where in the 5N states what is: rad, rad/s, kg, kg m^2, gains.

    A gain is thrust by command, 1 by design. Only the first two move.
    """

    theta: slice
    omega: slice
    mass: slice
    inertia: slice
    gain: slice


def blocks(count: int) -> Blocks:
    """Of a chain of `count` links."""
    return Blocks(*(slice(block * count, (block + 1) * count) for block in range(5)))


def quantities(count: int) -> tuple[str, ...]:
    """Names of the 5N states: theta1, ..., omega1, ..., m1, ..., j1, ..., g1, ..."""
    return tuple(f"{letter}{link + 1}" for letter in ("theta", "omega", "m", "j", "g") for link in range(count))


def packed(theta: ArrayLike, omega: ArrayLike, mass: ArrayLike, inertia: ArrayLike, gain: ArrayLike = 1.0) -> Matrix:
    """States (5N,), or (K, 5N), from their blocks, which broadcast to the headings' shape."""
    headings = np.asarray(theta, dtype=np.float64)
    return np.concatenate([np.broadcast_to(one, headings.shape) for one in (headings, omega, mass, inertia, gain)], -1)


def given_and_motion(states: NDArray[Any], thrust_n: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(3N, P) and (2N, P) of `dynamics`, from states (5N, P) and commanded thrust (N, P), or (N, 1)."""
    at = blocks(len(states) // 5)
    given = np.concatenate([1.0 / states[at.mass], 1.0 / states[at.inertia], states[at.gain] * thrust_n])
    return given, states[: at.omega.stop].copy()


@dataclass(frozen=True, eq=False)
class ObservedChain:
    """A chain and its IMUs.

    Attributes
    ----------
    links
        See `dynamics.rods`.
    accelerometer_stddev_m_s2, gyro_stddev_rad_s
        White noise of one sample; by default the paper's (Table IV).
    physical
        Whether accelerometers read what those on links do; else the paper's equation, see `dynamics`.
    """

    links: Matrix
    accelerometer_stddev_m_s2: float = 0.01
    gyro_stddev_rad_s: float = 1e-3
    physical: bool = True

    @property
    def count(self) -> int:
        """Number of links N."""
        return len(self.links)

    @property
    def noise(self) -> Vector:
        """(3N,) standard deviations of the outputs: of each link acceleration along x, along y, turning rate."""
        return np.tile(
            [self.accelerometer_stddev_m_s2, self.accelerometer_stddev_m_s2, self.gyro_stddev_rad_s], self.count
        )

    def averaged(self, samples: float) -> ObservedChain:
        """IMUs whose one sample stands for several."""
        share = max(samples, 1.0) ** -0.5
        return replace(
            self,
            accelerometer_stddev_m_s2=self.accelerometer_stddev_m_s2 * share,
            gyro_stddev_rad_s=self.gyro_stddev_rad_s * share,
        )


@dataclass(frozen=True, eq=False)
class AssumedChain:
    """A robot as observability takes it.

    Attributes
    ----------
    chain
        Noise is that of one sample.
    design
        (5N,) state at rest, as designed, which the deviations below belong to.
    prior_stddev, noise_density
        (5N,) see `Blocks`; the latter a random walk, per root second.
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
    time_constant_s: float = 0.0
    dead_band_n: float = 0.0

    def noise_about(self, state: Vector) -> Vector:
        """(5N,) the noise density about another state: masses and inertias walk in shares, as their logarithms do."""
        at, factor = blocks(self.chain.count), np.ones_like(self.design)
        parameters = slice(at.mass.start, at.inertia.stop)
        factor[parameters] = state[parameters] / self.design[parameters]
        return factor * self.noise_density

    def started(self, thrust_n: Matrix) -> Matrix:
        """Commands (K, N) without those that do not start a thruster."""
        return np.where(np.abs(thrust_n) < self.dead_band_n, 0.0, thrust_n)

    def from_published(self, mean: Vector, covariance: Matrix) -> tuple[Vector, Matrix]:
        """State (5N,) and covariance from an estimator's 4N + 4: gains as by design, not correlated with the rest."""
        told = 4 * self.chain.count
        state, whole = np.ones_like(self.design), np.diag(self.prior_stddev**2)
        state[:told], whole[:told, :told] = mean[:told], covariance[:told, :told]
        return state, whole


def assumed_chain(configuration: ThrusterChainConfiguration, papers: bool = False) -> AssumedChain:
    """From a configuration, as the data sheets have it, or (`papers`) as the paper's filter is told."""
    chain, paper, thruster = configuration.chain, configuration.paper, configuration.thruster
    links = rods(chain.lengths, chain.thruster_angles, chain.thruster_places, chain.imu_places)
    theta, omega, mass, inertia = prior_stddev(configuration)[: 4 * chain.count].reshape(4, -1)
    design = packed(np.zeros(chain.count), 0.0, chain.masses, chain.inertias)
    if papers:
        imus = paper.accelerometer_stddev_m_s2, paper.gyro_stddev_rad_s, configuration.imu_model == "physical"
        prior = packed(theta, omega, paper.mass_stddev_kg, paper.inertia_stddev_kg_m2, 0.0)
        headings = np.full(chain.count, paper.heading_noise_rad)
        noise = packed(headings, paper.rate_noise_rad_s, paper.mass_noise_kg, paper.inertia_noise_kg_m2, 0.0)
        walk = noise * np.sqrt(paper.rate_hz)
        return AssumedChain(ObservedChain(links, *imus), design, prior, walk, paper.rate_hz, thruster.limit_n)
    prior = packed(theta, omega, mass, inertia, BOUND_TO_STDDEV * configuration.tolerances.thrust_gain_fraction)
    return AssumedChain(
        ObservedChain(links, configuration.accelerometer_stddev_m_s2, configuration.gyro_stddev_rad_s),
        design,
        prior,
        np.zeros_like(prior),
        configuration.imu.rate_hz,
        thruster.limit_n,
        float(np.mean(thruster.time_constant_s)),
        thruster.dead_band_n,
    )
