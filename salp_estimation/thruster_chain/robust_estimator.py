"""Headings, masses and inertias of a chain of unknown build: the estimator `robust`.

Two filters, one after the other. `JointedNavigation` finds headings from the IMUs and the pins alone; nothing that is
assumed of forces enters it. `ParameterFilter` explains the motion it saw by thrust, drag and friction, and so learns
masses and inertias; it also corrects the dead-reckoned velocity, by drag.

Ticks are 10 ms apart. Each waits until all IMUs that are heard were heard up to it, on clocks that differ; what is
published is turned on from there to the stamp of the newest measurement.

What all IMUs' clocks have in common cannot be seen by them; but it looks like a delay of all thrust, which has none to
speak of. So far the parameter filter does correct a heading: by when it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.estimator import Estimator, Event, Step
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from onboard_estimation.reading_parts import IMU
from salp_estimation.thruster_chain import inertial_layout, parameter_layout
from salp_estimation.thruster_chain.calibration import Calibration
from salp_estimation.thruster_chain.channels import COMMAND
from salp_estimation.thruster_chain.configuration import ThrusterChainConfiguration
from salp_estimation.thruster_chain.inertial_layout import Belief
from salp_estimation.thruster_chain.jointed_navigation import JointedNavigation, NavigationState
from salp_estimation.thruster_chain.parameter_filter import ParameterFilter, ParameterState, weighed
from salp_estimation.thruster_chain.space import link_positions, link_velocities, published_space

TICK_NS = 10_000_000
LONGEST_GAP_S = 5.0
LOST_RAD = 1.0
"""Deviation of each heading after such a gap."""
MOVING_N = 1e-6
RATE_OF_REACH = 2.0
"""rad/s at which an unknown part of the chain may turn."""
RESTING_RAD_S, RESTING_M_S = 0.02, 0.02
"""A given start with less is taken for one at rest."""


class RobustState(NamedTuple):
    """All that measurements change.

    Attributes
    ----------
    start_ns
        Stamp that seconds are counted from; None before the first measurement.
    initial
        What was given for the start.
    navigation, parameters
        Of the two filters.
    ticks
        How many there were.
    pushed
        A thruster was asked for something: no rest any more.
    silent
        Links that are gone on without.
    moving
        It was given a start in motion.
    """

    start_ns: int | None
    initial: Estimate | None
    navigation: NavigationState
    parameters: ParameterState
    ticks: int = 0
    pushed: bool = False
    silent: frozenset[int] = frozenset()
    moving: bool = False


class RobustEstimator(Estimator[RobustState]):
    """Two filters, see the module."""

    def __init__(self, configuration: ThrusterChainConfiguration, calibration: Calibration | None = None) -> None:
        if calibration is None and configuration.calibration:
            calibration = Calibration.load(Path(configuration.calibration), configuration)
        self.calibration = calibration
        self.configuration = configuration
        self.space = published_space(configuration)
        chain = configuration.chain
        self._chain = chain
        self._link_of = {f"imu/{name}": link for link, name in enumerate(chain.link_names)}
        self._delay_s = configuration.imu.delay_s
        self._rest_s = configuration.initial.rest_s
        self.navigation = JointedNavigation(configuration)
        self.parameters = ParameterFilter(configuration, None if calibration is None else calibration.parameters)
        self._shared_clock = inertial_layout.clock_stddev_s(configuration) ** 2 / chain.count
        self._clock_share = self._shared_clock / (self._shared_clock + float(self.parameters.delay.covariance[0, 0]))

    def start(self, initial: Estimate | None) -> RobustState:
        """At rest, at the headings given, or as configured."""
        chain, count, space = self._chain, self._chain.count, self.space
        start = self.configuration.initial
        headings, position = self.configuration.initial_headings_rad, np.array(start.position_m)
        covariance = start.heading_stddev_rad**2 * np.eye(count)
        if initial is not None:
            headings = initial.mean[space.coordinates("headings")]
            position = initial.mean[space.coordinates("position")]
            place = space.tangent("headings")
            covariance = initial.covariance[place, place]
        middle = link_positions(chain.lengths, headings[None], chain.masses, position[None])[0, 0]
        c, s = np.cos(headings[0]), np.sin(headings[0])
        first = middle + np.array([[c, -s], [s, c]]) @ chain.imu_places[0]
        mean, spread = inertial_layout.started(
            self.configuration, headings, covariance, first, None if self.calibration is None else self.calibration.imus
        )
        # The whole is where it is: a first heading that is wrong has put the first link elsewhere.
        by, first_place = self._first_by_headings(headings), inertial_layout.chain_part(count) + 2
        spread[first_place : first_place + 2, self.navigation.headings] = by @ covariance
        spread[self.navigation.headings, first_place : first_place + 2] = (by @ covariance).T
        spread[first_place : first_place + 2, first_place : first_place + 2] += by @ covariance @ by.T
        navigation = self.navigation.start(mean, spread)
        if initial is None:
            return RobustState(None, None, navigation, self.parameters.start())
        rates, velocity = initial.mean[space.coordinates("rates")], initial.mean[space.coordinates("velocity")]
        moving = bool((np.abs(rates) > RESTING_RAD_S).any() or (np.abs(velocity) > RESTING_M_S).any())
        if moving:
            middles = link_velocities(chain.lengths, headings[None], rates[None], chain.masses, velocity[None])[0]
            navigation = self.navigation.set_moving(navigation, rates, middles)
        return RobustState(initial.stamp_ns, initial, navigation, self.parameters.start(), moving=moving)

    def step(self, state: RobustState, measurement: Measurement) -> Step:
        """Take a command, or a reading and all ticks that it makes possible."""
        if state.start_ns is None:
            state = state._replace(start_ns=measurement.stamp_ns)
        assert state.start_ns is not None
        now_s = (measurement.stamp_ns - state.start_ns) / NANOSECONDS_PER_SECOND
        if measurement.sensor == COMMAND:
            pushed = state.pushed or bool((np.abs(measurement.value) > MOVING_N).any())
            parameters = self.parameters.commanded(state.parameters, now_s, measurement.value)
            return Step(state._replace(parameters=parameters, pushed=pushed))
        rate, force = measurement.value[IMU.angular_velocity], measurement.value[IMU.linear_acceleration]
        if not (np.isfinite(rate[2]) and np.isfinite(force[:2]).all()):
            return Step(state, used=False)
        reading = np.array([now_s - self._delay_s, rate[2], force[0], force[1]])
        state = state._replace(
            navigation=self.navigation.heard(state.navigation, self._link_of[measurement.sensor], reading)
        )
        state, innovation, events, moved = self._ticked(state, now_s)
        if not moved:
            return Step(state)
        return Step(state, self._estimate(state, measurement.stamp_ns, now_s), innovation, events)

    def _begun_again(self, state: RobustState, now_s: float) -> RobustState:
        """Headings anew after a gap that no integration bridges."""
        ticks = int(now_s * NANOSECONDS_PER_SECOND / TICK_NS)
        before, count = state.navigation.mean, self._chain.count
        place = inertial_layout.chain_part(count) + 2
        mean, spread = inertial_layout.started(
            self.configuration,
            before[self.navigation.headings],
            LOST_RAD**2 * np.eye(count),
            before[place : place + 2],
            None if self.calibration is None else self.calibration.imus,
        )
        navigation = self.navigation.start(mean, spread)._replace(tick_s=ticks * TICK_NS / NANOSECONDS_PER_SECOND)
        return state._replace(navigation=navigation, ticks=ticks)

    def _ticked(
        self, state: RobustState, now_s: float
    ) -> tuple[RobustState, Innovation | None, tuple[Event, ...], bool]:
        innovation: Innovation | None = None
        events: tuple[Event, ...] = ()
        moved = False
        if now_s - state.navigation.tick_s > LONGEST_GAP_S:
            gap_s = now_s - state.navigation.tick_s
            events = (Notice(f"nothing was heard for {gap_s:.1f} s: headings are lost, what was learned is kept"),)
            state = self._begun_again(state, now_s)
        while True:
            tick_s = (state.ticks + 1) * TICK_NS / NANOSECONDS_PER_SECOND
            if not self.navigation.ready(state.navigation, tick_s, now_s):
                return state, innovation, events, moved
            if tick_s > now_s - self._delay_s:
                return state, innovation, events, moved
            at_rest = not (state.pushed or state.moving) and tick_s < self._rest_s
            navigation, did, innovation = self.navigation.tick(state.navigation, tick_s, at_rest)
            parameters = self.parameters.ticked(state.parameters, tick_s, did, not state.pushed)
            navigation, parameters = self.guided(state, navigation, parameters, tick_s)
            if parameters.changes > state.parameters.changes:
                sentence = f"masses changed at about {self._clock(state, tick_s):.2f} s: they are learned anew"
                events = (*events, Notice(sentence))
            silent = frozenset(
                link
                for link, readings in enumerate(navigation.readings)
                if now_s - (readings[-1, 0] if len(readings) else -np.inf) > 2.0 * 0.1
            )
            for link in silent - state.silent:
                name = self._chain.link_names[link]
                sentence = (
                    f"the IMU of {name} is silent at {self._clock(state, now_s):.2f} s: its heading grows uncertain, "
                    "and is lost if that lasts; then nothing more is learned of masses"
                )
                events = (*events, Notice(sentence))
            state = state._replace(navigation=navigation, parameters=parameters, ticks=state.ticks + 1, silent=silent)
            moved = True

    def guided(
        self, state: RobustState, navigation: NavigationState, parameters: ParameterState, tick_s: float
    ) -> tuple[NavigationState, ParameterState]:
        """With what else is known at a tick: nothing, but where it is calibrated."""
        return navigation, parameters

    @staticmethod
    def _clock(state: RobustState, at_s: float) -> float:
        return (state.start_ns or 0) / NANOSECONDS_PER_SECOND + at_s

    def _estimate(self, state: RobustState, stamp_ns: int, now_s: float) -> Estimate:
        """Both filters' beliefs in the published space, at a stamp."""
        space, chain, count = self.space, self._chain, self._chain.count
        navigation, belief = state.navigation, weighed(state.parameters)
        base = parameter_layout.chain_part(count)
        late_s, surer = self._shared(navigation, belief, base)
        headings, by = self.navigation.ahead(navigation, now_s + late_s)
        places = parameter_layout.LINK * np.arange(count)
        masses = chain.masses * np.exp(belief.mean[places + parameter_layout.LOG_MASS])
        inertias = chain.inertias * np.exp(belief.mean[places + parameter_layout.LOG_INERTIA])
        mean, covariance = space.origin(), np.zeros((space.dimension, space.dimension))
        middle, velocity = self.navigation.first_middle(navigation)
        off = belief.mean[base + parameter_layout.VELOCITY_X : base + parameter_layout.POSITION_Y + 1]
        middle, velocity = middle + off[2:], velocity + off[:2]
        middle = middle + velocity * (now_s + late_s - navigation.tick_s)
        rates = navigation.rates
        position = middle - (link_positions(chain.lengths, headings[None], masses, np.zeros((1, 2)))[0, 0])
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
        covariance[place, place] += self.configuration.gyro_stddev_rad_s**2 * np.eye(count)
        self._put_parameters(covariance, belief.covariance, places, masses, inertias)
        self._put_odometry(covariance, state, belief.covariance, base)
        return Estimate(stamp_ns, space.plus(mean, np.zeros(space.dimension)), covariance)

    def _shared(self, navigation: NavigationState, belief: Belief, base: int) -> tuple[float, float]:
        """How late all stamps of IMUs are, s, given the delay that thrust seems to have; how much less its variance.

        Nothing, where the navigation was told the time by motion capture.
        """
        clocks = self.navigation.clocks
        if float(navigation.covariance[np.ix_(clocks, clocks)].mean()) < 0.9 * self._shared_clock:
            return 0.0, 0.0
        delay, share = base + parameter_layout.DELAY, self._clock_share
        left = self._shared_clock * (1.0 - share) + share**2 * float(belief.covariance[delay, delay])
        late_s = share * float(belief.mean[delay] - self.parameters.delay.mean[0])
        return late_s, 0.9 * max(0.0, self._shared_clock - left)

    def _put_parameters(
        self, covariance: Matrix, believed: Matrix, places: NDArray[np.intp], masses: Vector, inertias: Vector
    ) -> None:
        at = np.concatenate([places + parameter_layout.LOG_MASS, places + parameter_layout.LOG_INERTIA])
        scales = np.concatenate([masses, inertias])
        block = slice(self.space.tangent("masses").start, self.space.tangent("inertias").stop)
        covariance[block, block] = believed[np.ix_(at, at)] * np.outer(scales, scales)

    def _put_odometry(self, covariance: Matrix, state: RobustState, believed: Matrix, base: int) -> None:
        """Position and velocity: the navigation's own, and the parameter filter's error of them, whichever is less."""
        chain = inertial_layout.chain_part(self._chain.count)
        known = state.navigation.covariance
        reach = self._reach(state, covariance[self.space.tangent("headings"), self.space.tangent("headings")])
        for name, ours, theirs in (
            ("position", chain + 2, base + parameter_layout.POSITION_X),
            ("velocity", chain, base + parameter_layout.VELOCITY_X),
        ):
            place = self.space.tangent(name)
            covariance[place, place] = known[ours : ours + 2, ours : ours + 2]
            if state.pushed:
                covariance[place, place] = believed[theirs : theirs + 2, theirs : theirs + 2]
                covariance[place, place] += 1e-4 * np.eye(2)
                # Drag says nothing of a turn of the whole, by which the whole way is wrong.
                turned = known[ours : ours + 2, self.navigation.headings].mean(axis=1)
                turn = float(known[np.ix_(self.navigation.headings, self.navigation.headings)].mean())
                covariance[place, place] += np.outer(turned, turned) / max(turn, 1e-12)
            covariance[place, place] += (1.0 if name == "position" else RATE_OF_REACH**2) * reach

    def _reach(self, state: RobustState, headings: Matrix) -> Matrix:
        """(2, 2) covariance of the centre of mass against the first link's middle, by headings that are unsure."""
        by = self._first_by_headings(state.navigation.mean[self.navigation.headings])
        # A lost heading leaves what hangs on it anywhere within its reach, not beyond.
        shrunk = np.minimum(1.0, 1.0 / np.sqrt(np.maximum(np.diag(headings), 1e-12)))
        covariance: Matrix = by @ (headings * np.outer(shrunk, shrunk)) @ by.T
        return covariance

    def _first_by_headings(self, headings: Vector) -> Matrix:
        """(2, N) how the first link's middle moves about the centre of mass of all, by each heading."""
        lengths, masses, step = self._chain.lengths, self._chain.masses, 1e-5
        turned = headings + step * np.vstack([np.eye(len(headings)), -np.eye(len(headings))])
        first = link_positions(lengths, turned, masses, np.zeros((len(turned), 2)))[:, 0]
        by: Matrix = ((first[: len(headings)] - first[len(headings) :]) / (2.0 * step)).T
        return by
