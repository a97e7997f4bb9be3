"""What the estimator `robust` tells: the beliefs of its two filters in the published space, at a stamp.

Headings are the navigation's, turned on from its last tick; masses and inertias are the parameter filter's, which also
knows the error of the dead-reckoned velocity, by drag.

What all IMUs' clocks have in common cannot be seen by them; but it looks like a delay of all thrust, which has none to
speak of. So far the parameter filter does correct a heading: by when it was.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.moments import Moments
from onboard_estimation.measurement import Estimate, Matrix, Vector
from salp_estimation.thruster_chain import inertial_layout, parameter_layout
from salp_estimation.thruster_chain.configuration import ThrusterChainConfiguration
from salp_estimation.thruster_chain.jointed_navigation import JointedNavigation, NavigationState
from salp_estimation.thruster_chain.parameter_filter import ParameterFilter, ParameterState, weighed
from salp_estimation.thruster_chain.space import first_by_headings, link_positions, link_velocities, published_space

RATE_OF_REACH = 2.0
"""rad/s at which an unknown part of the chain may turn."""


class Publication:
    """How both beliefs become one estimate; it has no state but its settings."""

    def __init__(
        self, configuration: ThrusterChainConfiguration, navigation: JointedNavigation, parameters: ParameterFilter
    ) -> None:
        self._configuration, self._chain = configuration, configuration.chain
        self._space = published_space(configuration)
        self._navigation, self._parameters = navigation, parameters
        self._centre_m = inertial_layout.OF_TOLERANCE * configuration.tolerances.centre_of_mass_m
        self._shared_clock = inertial_layout.clock_stddev_s(configuration) ** 2 / configuration.chain.count
        self._clock_share = self._shared_clock / (self._shared_clock + float(parameters.delay.covariance[0, 0]))

    def estimate(
        self, navigation: NavigationState, parameters: ParameterState, stamp_ns: int, now_s: float, pushed: bool
    ) -> Estimate:
        """Both filters' beliefs in the published space, at a stamp; `pushed`: thrust has begun to tell of forces."""
        space, chain, count = self._space, self._chain, self._chain.count
        belief = weighed(parameters)
        base = parameter_layout.chain_part(count)
        late_s, surer = self._shared(navigation, belief, base)
        headings, by = self._navigation.ahead(navigation, now_s + late_s)
        places = parameter_layout.LINK * np.arange(count)
        masses = chain.masses * np.exp(belief.mean[places + parameter_layout.LOG_MASS])
        inertias = chain.inertias * np.exp(belief.mean[places + parameter_layout.LOG_INERTIA])
        mean, covariance = space.origin(), np.zeros((space.dimension, space.dimension))
        middle, velocity = self._navigation.first_middle(navigation)
        off = belief.mean[base + parameter_layout.VELOCITY_X : base + parameter_layout.POSITION_Y + 1]
        middle, velocity = middle + off[2:], velocity + off[:2]
        middle = middle + velocity * (now_s + late_s - navigation.tick_s)
        rates = navigation.rates
        position = middle - link_positions(chain.lengths, headings[None], masses, np.zeros((1, 2)))[0, 0]
        velocity = (
            velocity - link_velocities(chain.lengths, headings[None], rates[None], masses, np.zeros((1, 2)))[0, 0]
        )
        for name, value in (
            ("headings", headings),
            ("rates", rates),
            ("masses", masses),
            ("inertias", inertias),
            ("position", position),
            ("velocity", velocity),
        ):
            mean[space.coordinates(name)] = value
        place = space.tangent("headings")
        known = by @ navigation.covariance @ by.T
        covariance[place, place] = known - surer * np.outer(rates, rates)
        place = space.tangent("rates")
        biases = inertial_layout.LINK * np.arange(count) + inertial_layout.GYRO_BIAS
        covariance[place, place] = navigation.covariance[np.ix_(biases, biases)]
        covariance[place, place] += self._configuration.gyro_stddev_rad_s**2 * np.eye(count)
        self._put_parameters(covariance, belief.covariance, places, masses, inertias)
        self._put_odometry(covariance, navigation, belief, base, pushed)
        self._put_centre(covariance, headings, masses)
        return Estimate(stamp_ns, space.plus(mean, np.zeros(space.dimension)), covariance)

    def _shared(self, navigation: NavigationState, belief: Moments, base: int) -> tuple[float, float]:
        """How late all stamps of IMUs are, s, given the delay that thrust seems to have; how much less its variance.

        Nothing, where the navigation was told the time by motion capture.
        """
        clocks = self._navigation.clocks
        if float(navigation.covariance[np.ix_(clocks, clocks)].mean()) < 0.9 * self._shared_clock:
            return 0.0, 0.0
        delay, share = base + parameter_layout.DELAY, self._clock_share
        left = self._shared_clock * (1.0 - share) + share**2 * float(belief.covariance[delay, delay])
        late_s = share * float(belief.mean[delay] - self._parameters.delay.mean[0])
        return late_s, 0.9 * max(0.0, self._shared_clock - left)

    def _put_parameters(
        self, covariance: Matrix, believed: Matrix, places: NDArray[np.intp], masses: Vector, inertias: Vector
    ) -> None:
        at = np.concatenate([places + parameter_layout.LOG_MASS, places + parameter_layout.LOG_INERTIA])
        scales = np.concatenate([masses, inertias])
        block = slice(self._space.tangent("masses").start, self._space.tangent("inertias").stop)
        covariance[block, block] = believed[np.ix_(at, at)] * np.outer(scales, scales)

    def _put_odometry(
        self, covariance: Matrix, navigation: NavigationState, belief: Moments, base: int, pushed: bool
    ) -> None:
        """Position and velocity: the navigation's own, and the parameter filter's error of them, whichever is less."""
        chain = inertial_layout.chain_part(self._chain.count)
        known = navigation.covariance
        reach = self._reach(navigation, covariance[self._space.tangent("headings"), self._space.tangent("headings")])
        for name, ours, theirs in (
            ("position", chain + 2, base + parameter_layout.POSITION_X),
            ("velocity", chain, base + parameter_layout.VELOCITY_X),
        ):
            place = self._space.tangent(name)
            covariance[place, place] = known[ours : ours + 2, ours : ours + 2]
            if pushed:
                covariance[place, place] = belief.covariance[theirs : theirs + 2, theirs : theirs + 2]
                covariance[place, place] += 1e-4 * np.eye(2)
                # Drag says nothing of a turn of the whole, by which the whole way is wrong.
                turned = known[ours : ours + 2, self._navigation.headings].mean(axis=1)
                turn = float(known[np.ix_(self._navigation.headings, self._navigation.headings)].mean())
                covariance[place, place] += np.outer(turned, turned) / max(turn, 1e-12)
            covariance[place, place] += (1.0 if name == "position" else RATE_OF_REACH**2) * reach

    def _put_centre(self, covariance: Matrix, headings: Vector, masses: Vector) -> None:
        """Where the centre of mass is in the chain hangs on how heavy each link is, and on where in it."""
        at = link_positions(self._chain.lengths, headings[None], masses, np.zeros((1, 2)))[0]
        by = at.T / masses.sum()
        place, heavy = self._space.tangent("position"), self._space.tangent("masses")
        with_them = slice(heavy.start, self._space.tangent("inertias").stop)  # which go with the masses
        known = by @ covariance[heavy, with_them]
        from_masses = known[:, : len(masses)] @ by.T
        covariance[place, place] += from_masses
        covariance[place, place] += self._centre_m**2 * np.sum((masses / masses.sum()) ** 2) * np.eye(2)
        covariance[place, with_them] += known
        covariance[with_them, place] += known.T

    def _reach(self, navigation: NavigationState, headings: Matrix) -> Matrix:
        """(2, 2) covariance of the centre of mass against the first link's middle, by headings that are unsure."""
        at = navigation.mean[self._navigation.headings]
        by = first_by_headings(self._chain.lengths, at, self._chain.masses)
        # A lost heading leaves what hangs on it anywhere within its reach, not beyond.
        shrunk = np.minimum(1.0, 1.0 / np.sqrt(np.maximum(np.diag(headings), 1e-12)))
        covariance: Matrix = by @ (headings * np.outer(shrunk, shrunk)) @ by.T
        return covariance
