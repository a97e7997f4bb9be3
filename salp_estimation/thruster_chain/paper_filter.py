"""The paper's filter of a thruster chain as functions on moments: its state, its noise, and the compiled steps.

It is what `multilink_inertial_parameters` describes, for any number of links, with what the page leaves open settled:
masses and inertias are estimated as logarithms; the standard deviations that Tables III and IV give in kg and kg m^2
are taken at the masses of the design; sigma points have no excess weight, so that covariances are sums of squares.
They lie sqrt(12) standard deviations out whatever the number of states, as the cubature rule has them for the paper's
twelve: nearer ones see too little of how the readings bend, and one first push in a thousand then leads to a wrong
place; with the rule's own sqrt(4 N) a long chain's headings would be turned by radians. Place and velocity of the
centre of mass of the chain ride along (last row of equation (11)): dead reckoning, with a covariance that grows.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.large_unscented import Array, Indices
from onboard_estimation.filtering.manifold_kernels import wrap
from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain import paper_kernels as kernels
from salp_estimation.thruster_chain.chain_model import ChainModel, checked_inertia
from salp_estimation.thruster_chain.configuration import ThrusterChainConfiguration
from salp_estimation.thruster_chain.imu import ImuModel

SPREAD, EXCESS = math.sqrt(12.0), 0.0
LONGEST_STEP_S = 0.01
_LEAST_VARIANCE = 1e-18  # what is known exactly at the start, but not held: the filter needs roots
_OPEN = np.full(2, math.inf)
_UNKNOWN_LOGARITHM = 1.0
"""Standard deviation of the logarithm of a mass of which nothing is known: any within a factor of three."""
_UNKNOWN_HEADING_RAD = math.pi / math.sqrt(3.0)


class Moments(NamedTuple):
    """A state of the filter; values, never written.

    Attributes
    ----------
    rows
        (n,) rows of the full state that are estimated, see `paper_kernels`; parameters that are not are held.
    nominal
        (4N,) or (4N + 4,) full state, of which the other rows hold.
    mean, covariance
        (n,) and (n, n).
    """

    rows: Indices
    nominal: Vector
    mean: Vector
    covariance: Matrix


class Seen(NamedTuple):
    """What k links read against what was predicted: (k, 3) x, y and rate, (k, 3, 3) lower roots, NIS.

    The latter, (k, 2), are those of all three readings and of the rate alone.
    """

    innovations: Matrix
    roots: NDArray[np.float64]
    nis: Vector


class PaperFilter:
    """The filter of one configuration; it has no state.

    Parameters
    ----------
    configuration
        Geometry, design, and the section `paper`.
    dead_reckoned
        Whether place and velocity of the centre of mass are states as well; the paper's filter has 4N states.
    """

    def __init__(self, configuration: ThrusterChainConfiguration, dead_reckoned: bool = True) -> None:
        chain, paper = configuration.chain, configuration.paper
        n, half = chain.count, 0.5 * chain.lengths
        ahead = np.column_stack([half, np.zeros(n)])
        self.model = ChainModel.build(
            -ahead, ahead, chain.thruster_angles, chain.thruster_places, imu_places=chain.imu_places
        )
        self.count = n
        self._physical = ImuModel[configuration.imu_model.upper()] is ImuModel.PHYSICAL
        self._size = 4 * n + 4 * dead_reckoned
        # Where the published state, headings and rates first, finds its parts in the filter's.
        self._places = np.r_[2 * n : 4 * n, 0 : 2 * n, 4 * n : self._size]
        noise = np.zeros(self._size)
        noise[:n], noise[n : 2 * n] = paper.mass_noise_kg / chain.masses, paper.inertia_noise_kg_m2 / chain.inertias
        noise[2 * n : 3 * n], noise[3 * n : 4 * n] = paper.heading_noise_rad, paper.rate_noise_rad_s
        self._noise = noise**2 * paper.rate_hz
        largest = np.full(self._size, math.inf)
        largest[: 2 * n], largest[2 * n : 3 * n] = _UNKNOWN_LOGARITHM, _UNKNOWN_HEADING_RAD
        largest[3 * n : 4 * n] = configuration.gyro.range_rad_s / math.sqrt(3.0)
        self._largest = largest
        accelerometer, gyro = paper.accelerometer_stddev_m_s2, paper.gyro_stddev_rad_s
        self._variances = np.square([accelerometer, accelerometer, gyro])

    def start(self, mean: Vector, covariance: Matrix) -> Moments:
        """From a published mean (4N + 4,) and covariance; masses and inertias without variance are held.

        Raises
        ------
        UserError
            Masses or inertias that are not positive.
        """
        n, places = self.count, self._places
        mass, inertia = checked_inertia(mean[2 * n : 3 * n], mean[3 * n : 4 * n], n)
        scale = np.ones(self._size)
        scale[: 2 * n] = np.concatenate([mass, inertia])
        nominal, wide = np.empty(self._size), np.empty((self._size, self._size))
        nominal[places] = mean[: self._size]
        nominal[: 2 * n] = np.log(scale[: 2 * n])
        wide[np.ix_(places, places)] = covariance[: self._size, : self._size]
        wide /= np.outer(scale, scale)
        rows = np.flatnonzero((np.diag(wide) > 0.0) | (np.arange(self._size) >= 2 * n))
        chosen = wide[np.ix_(rows, rows)]
        exact = np.diag(chosen) <= 0.0
        chosen[exact, exact] = _LEAST_VARIANCE
        return Moments(rows, nominal, nominal[rows], chosen)

    def predict(self, moments: Moments, thrust: Vector, duration_s: float) -> Moments:
        """After that many seconds under thrusts (N,), N."""
        rows, nominal, mean, covariance = moments
        model = self.model
        moved = kernels.predict(
            model.links,
            model.gravity,
            model.pivoted,
            rows,
            nominal,
            mean,
            covariance,
            self._noise[rows],
            self._largest[rows] ** 2,
            thrust,
            duration_s,
            LONGEST_STEP_S,
            SPREAD,
            EXCESS,
            self._scratch(rows),
        )
        return Moments(rows, nominal, *moved)

    def update(
        self, moments: Moments, thrust: Vector, heard: Indices, measured: Matrix, thresholds: Vector = _OPEN
    ) -> tuple[Moments, Seen]:
        """Corrected by what the IMUs of the links `heard` (k,) read (k, 3): x and y, m/s^2, and turning rate, rad/s.

        A link's accelerations are left out where the NIS of its readings is above the first threshold; its rate as well
        where that alone has one above the second.
        """
        rows, nominal, mean, covariance = moments
        k, model = len(heard), self.model
        seen = Seen(np.empty((k, 3)), np.empty((k, 3, 3)), np.empty((k, 2)))
        corrected = kernels.update(
            self._physical,
            model.links,
            model.gravity,
            model.pivoted,
            rows,
            nominal,
            mean,
            covariance,
            thrust,
            SPREAD,
            EXCESS,
            heard,
            measured,
            self._variances,
            thresholds,
            kernels.BENT,
            self._scratch(rows),
            *seen,
        )
        return Moments(rows, nominal, *corrected), seen

    def _scratch(self, rows: Indices) -> Array:
        return _scratch(kernels.scratch_size(self._size, 2 * self.count, len(rows)))

    def inflated(self, moments: Moments, factor: float) -> Moments:
        """With so many times the covariance, but nothing less certain than what is not known at all."""
        wider = moments.covariance * factor
        shrunk = np.minimum(1.0, self._largest[moments.rows] / np.sqrt(np.diag(wider)))
        return moments._replace(covariance=wider * np.outer(shrunk, shrunk))

    def published(self, moments: Moments) -> tuple[Vector, Matrix]:
        """Mean and covariance with headings in (-pi, pi], masses in kg (medians), inertias in kg m^2."""
        n, places = self.count, self._places
        full, scale = moments.nominal.copy(), np.ones(self._size)
        full[moments.rows] = moments.mean
        full[: 2 * n] = scale[: 2 * n] = np.exp(full[: 2 * n])
        full[2 * n : 3 * n] = [wrap(heading) for heading in full[2 * n : 3 * n]]
        wide: Array = np.zeros((self._size, self._size))
        wide[np.ix_(moments.rows, moments.rows)] = moments.covariance
        wide *= np.outer(scale, scale)
        return full[places], wide[np.ix_(places, places)]


@lru_cache(maxsize=4)
def _scratch(size: int) -> Array:
    """Shared by all filters of that size: kernels hold the interpreter's lock, so that no two run at a time."""
    return np.empty(size)
