"""Headings, masses and inertias of a chain of unknown build: the estimator `robust`.

Two filters, one after the other. `JointedNavigation` finds headings from the IMUs and the pins alone; nothing that is
assumed of forces enters it. `ParameterFilter` explains the motion it saw by thrust, drag and friction, and so learns
masses and inertias; it also corrects the dead-reckoned velocity, by drag.

Ticks are 10 ms apart. Each waits until all IMUs that are heard were heard up to it, on clocks that differ. Then both
beliefs become an estimate at the stamp of the newest measurement. Headings are the navigation's, turned on from its
last tick; masses and inertias are the parameter filter's, which also knows the error of the dead-reckoned velocity, by
drag. What all IMUs' clocks have in common cannot be seen by them; but it looks like a delay of all thrust, which has
none to speak of. So far the parameter filter does correct a heading: by when it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from onboard_estimation.base.measurement import (
    IMU,
    NANOSECONDS_PER_SECOND,
    Estimate,
    Matrix,
    Measurement,
    Notice,
    Vector,
)
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.pipeline.estimator import Estimator, Event, Step
from thruster_chain_estimation.estimators.jointed_navigation import (
    SILENT_S,
    TICK_NS,
    JointedNavigation,
    NavigationState,
    Passage,
)
from thruster_chain_estimation.estimators.parameter_filter import (
    ParameterFilter,
    ParameterPassage,
    ParameterState,
    weighed,
)
from thruster_chain_estimation.model import inertial_layout, parameter_layout
from thruster_chain_estimation.model.calibration import Calibration
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.space import (
    COMMAND,
    first_by_headings,
    link_positions,
    link_velocities,
    published_space,
)

LONGEST_GAP_S = 5.0
LOST_RAD = np.pi / np.sqrt(3.0)
"""Deviation of each heading after such a gap: it may be any."""
UNSEEN_M_S = 0.5
"""Of each axis, at which a chain may go on meanwhile."""
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
    navigation: NavigationState
    parameters: ParameterState
    ticks: int = 0
    pushed: bool = False
    silent: frozenset[int] = frozenset()
    moving: bool = False


class PastTick(NamedTuple):
    """How errors of both filters went through a tick."""

    navigation: Passage
    parameters: ParameterPassage


class Followed(NamedTuple):
    """What came of a measurement, and how, for whoever looks back.

    Attributes
    ----------
    step
        The estimator's.
    begun_anew
        The navigation was, before the ticks.
    ticks
        In order.
    """

    step: Step
    begun_anew: bool = False
    ticks: tuple[PastTick, ...] = ()


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
        self._centre_m = inertial_layout.OF_TOLERANCE * configuration.tolerances.centre_of_mass_m

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
        headings = np.unwrap(headings)  # a joint's angle is a difference, and its cable and its stops know it
        middle = link_positions(chain.lengths, headings[None], chain.masses, position[None])[0, 0]
        c, s = np.cos(headings[0]), np.sin(headings[0])
        first = middle + np.array([[c, -s], [s, c]]) @ chain.imu_places[0]
        mean, spread = inertial_layout.started(
            self.configuration, headings, covariance, first, None if self.calibration is None else self.calibration.imus
        )
        # The whole is where it is: a first heading that is wrong has put the first link elsewhere.
        by, first_place = (
            first_by_headings(chain.lengths, headings, chain.masses),
            inertial_layout.chain_part(count) + 2,
        )
        spread[first_place : first_place + 2, self.navigation.headings] = by @ covariance
        spread[self.navigation.headings, first_place : first_place + 2] = (by @ covariance).T
        spread[first_place : first_place + 2, first_place : first_place + 2] += by @ covariance @ by.T
        navigation = self.navigation.start(mean, spread)
        if initial is None:
            return RobustState(None, navigation, self.parameters.start())
        rates, velocity = initial.mean[space.coordinates("rates")], initial.mean[space.coordinates("velocity")]
        moving = bool((np.abs(rates) > RESTING_RAD_S).any() or (np.abs(velocity) > RESTING_M_S).any())
        if moving:
            middles = link_velocities(chain.lengths, headings[None], rates[None], chain.masses, velocity[None])[0]
            navigation = self.navigation.set_moving(navigation, rates, middles)
        return RobustState(initial.stamp_ns, navigation, self.parameters.start(), moving=moving)

    def step(self, state: RobustState, measurement: Measurement) -> Step:
        """Take a command, or a reading and all ticks that it makes possible."""
        return self.followed(state, measurement).step

    def followed(self, state: RobustState, measurement: Measurement) -> Followed:
        """As `step`, with what happened at each tick."""
        if state.start_ns is None:
            state = state._replace(start_ns=measurement.stamp_ns)
        assert state.start_ns is not None
        now_s = (measurement.stamp_ns - state.start_ns) / NANOSECONDS_PER_SECOND
        if measurement.sensor == COMMAND:
            pushed = state.pushed or bool((np.abs(measurement.value) > MOVING_N).any())
            parameters = self.parameters.commanded(state.parameters, now_s, measurement.value)
            return Followed(Step(state._replace(parameters=parameters, pushed=pushed)))
        rate, force = measurement.value[IMU.angular_velocity], measurement.value[IMU.linear_acceleration]
        if not (np.isfinite(rate[2]) and np.isfinite(force[:2]).all()):
            return Followed(Step(state, used=False))
        reading = np.array([now_s - self._delay_s, rate[2], force[0], force[1]])
        state = state._replace(
            navigation=self.navigation.heard(state.navigation, self._link_of[measurement.sensor], reading)
        )
        followed = self._ticked(state, now_s)
        if not followed.ticks:
            return followed
        return followed._replace(
            step=followed.step._replace(estimate=self.told(followed.step.state, measurement.stamp_ns))
        )

    def told(self, state: RobustState, stamp_ns: int) -> Estimate:
        """The estimate at a stamp, from a state that has come up to it."""
        assert state.start_ns is not None
        now_s, navigation = (stamp_ns - state.start_ns) / NANOSECONDS_PER_SECOND, state.navigation
        chain, belief, rates = self._chain, weighed(state.parameters), navigation.rates
        late_s, surer = self._shared(navigation, belief)
        headings, by = self.navigation.ahead(navigation, now_s + late_s)
        masses, inertias = parameter_layout.LOG_MASS, parameter_layout.LOG_INERTIA
        logs = (parameter_layout.LINK * np.arange(chain.count) + np.array([[masses], [inertias]])).ravel()
        scales = np.concatenate([chain.masses, chain.inertias]) * np.exp(belief.mean[logs])
        middle, velocity = self.navigation.first_middle(navigation.mean, rates)
        off = belief.mean[self.parameters.chain + parameter_layout.VELOCITY_X :][:4]
        middle, velocity = middle + off[2:], velocity + off[:2]
        middle = middle + velocity * (now_s + late_s - navigation.tick_s)
        pose = chain.lengths, headings[None]
        links = link_positions(*pose, scales[: chain.count], np.zeros((1, 2)))[0]
        turning = link_velocities(*pose, rates[None], scales[: chain.count], np.zeros((1, 2)))[0, 0]
        mean = np.concatenate([headings, rates, scales, middle - links[0], velocity - turning])
        covariance = np.zeros((self.space.dimension, self.space.dimension))
        place = self.space.tangent("headings")
        covariance[place, place] = by @ navigation.covariance @ by.T - surer * np.outer(rates, rates)
        links_of, place = inertial_layout.LINK * np.arange(chain.count), self.space.tangent("rates")
        biases = links_of + inertial_layout.GYRO_BIAS
        covariance[place, place] = navigation.covariance[np.ix_(biases, biases)]
        covariance[place, place] += self.configuration.gyro_stddev_rad_s**2 * np.eye(chain.count)
        covariance[self._told, self._told] = belief.covariance[np.ix_(logs, logs)] * np.outer(scales, scales)
        self._put_odometry(covariance, navigation, belief, state.pushed)
        self._put_centre(covariance, links, scales[: chain.count])
        return Estimate(stamp_ns, self.space.plus(mean, np.zeros(self.space.dimension)), covariance)

    @property
    def _told(self) -> slice:
        """Where masses and inertias are, one after the other."""
        return slice(self.space.tangent("masses").start, self.space.tangent("inertias").stop)

    def _shared(self, navigation: NavigationState, belief: Moments) -> tuple[float, float]:
        """How late all stamps of IMUs are, s, given the delay that thrust seems to have; how much less its variance.

        Nothing, where the navigation was told the time by motion capture.
        """
        clocks = self.navigation.clocks
        if float(navigation.covariance[np.ix_(clocks, clocks)].mean()) < 0.9 * self._shared_clock:
            return 0.0, 0.0
        delay, share = self.parameters.chain + parameter_layout.DELAY, self._clock_share
        left = self._shared_clock * (1.0 - share) + share**2 * float(belief.covariance[delay, delay])
        late_s = share * float(belief.mean[delay] - self.parameters.delay.mean[0])
        return late_s, 0.9 * max(0.0, self._shared_clock - left)

    def _put_odometry(self, covariance: Matrix, navigation: NavigationState, belief: Moments, pushed: bool) -> None:
        """Position and velocity: the navigation's own, and the parameter filter's error of them, whichever is less."""
        headings, known = self.navigation.headings, navigation.covariance
        chain, base = inertial_layout.chain_part(self._chain.count), self.parameters.chain
        unsure = covariance[self.space.tangent("headings"), self.space.tangent("headings")]
        # A lost heading leaves what hangs on it anywhere within its reach, not beyond.
        shrunk = np.minimum(1.0, 1.0 / np.sqrt(np.maximum(np.diag(unsure), 1e-12)))
        by = first_by_headings(self._chain.lengths, navigation.mean[headings], self._chain.masses)
        reach = by @ (unsure * np.outer(shrunk, shrunk)) @ by.T
        for name, ours, theirs in (
            ("position", chain + 2, base + parameter_layout.POSITION_X),
            ("velocity", chain, base + parameter_layout.VELOCITY_X),
        ):
            place = self.space.tangent(name)
            covariance[place, place] = known[ours : ours + 2, ours : ours + 2]
            if pushed:
                covariance[place, place] = belief.covariance[theirs : theirs + 2, theirs : theirs + 2]
                covariance[place, place] += 1e-4 * np.eye(2)
                # Drag says nothing of a turn of the whole, by which the whole way is wrong.
                turned = known[ours : ours + 2, headings].mean(axis=1)
                turn = float(known[np.ix_(headings, headings)].mean())
                covariance[place, place] += np.outer(turned, turned) / max(turn, 1e-12)
            covariance[place, place] += (1.0 if name == "position" else RATE_OF_REACH**2) * reach

    def _put_centre(self, covariance: Matrix, links: Matrix, masses: Vector) -> None:
        """Where the centre of mass is in the chain hangs on how heavy each link is, and on where in it.

        From the links' middles (N, 2) about it.
        """
        by, place, heavy = links.T / masses.sum(), self.space.tangent("position"), self.space.tangent("masses")
        known = by @ covariance[heavy, self._told]
        covariance[place, place] += known[:, : len(masses)] @ by.T
        covariance[place, place] += self._centre_m**2 * np.sum((masses / masses.sum()) ** 2) * np.eye(2)
        covariance[place, self._told] += known
        covariance[self._told, place] += known.T

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
        gap_s = now_s - state.navigation.tick_s
        velocity = inertial_layout.chain_part(count)
        for first, stddev in ((velocity, UNSEEN_M_S), (place, UNSEEN_M_S * gap_s)):
            spread[[first, first + 1], [first, first + 1]] += stddev**2
        navigation = self.navigation.start(mean, spread)._replace(tick_s=ticks * TICK_NS / NANOSECONDS_PER_SECOND)
        parameters = self.parameters.after_gap(state.parameters, UNSEEN_M_S, UNSEEN_M_S * gap_s)
        return state._replace(navigation=navigation, parameters=parameters, ticks=ticks)

    def _ticked(self, state: RobustState, now_s: float) -> Followed:
        innovation: Innovation | None = None
        events: tuple[Event, ...] = ()
        ticks: tuple[PastTick, ...] = ()
        gap_s = now_s - state.navigation.tick_s
        if begun_anew := gap_s > LONGEST_GAP_S:
            events = (Notice(f"nothing was heard for {gap_s:.1f} s: headings are lost, what was learned is kept"),)
            state = self._begun_again(state, now_s)
        while True:
            tick_s = (state.ticks + 1) * TICK_NS / NANOSECONDS_PER_SECOND
            if tick_s > now_s - self._delay_s or not self.navigation.ready(state.navigation, tick_s, now_s):
                return Followed(Step(state, None, innovation, events), begun_anew, ticks)
            at_rest = not (state.pushed or state.moving) and tick_s < self._rest_s
            navigation, did, innovation, passed = self.navigation.tick(state.navigation, tick_s, at_rest)
            parameters, learned = self.parameters.ticked(state.parameters, tick_s, did, not state.pushed)
            ticks = (*ticks, PastTick(passed, learned))
            navigation, parameters = self.guided(state, navigation, parameters, tick_s)
            if parameters.changes > state.parameters.changes:
                sentence = f"masses changed at about {self._clock(state, tick_s):.2f} s: they are learned anew"
                events = (*events, Notice(sentence))
            silent = frozenset(
                link
                for link, readings in enumerate(navigation.readings)
                if now_s - (readings[-1, 0] if len(readings) else -np.inf) > 2.0 * SILENT_S
            )
            for link in silent - state.silent:
                name = self._chain.link_names[link]
                sentence = (
                    f"the IMU of {name} is silent at {self._clock(state, now_s):.2f} s: its heading grows uncertain, "
                    "and is lost if that lasts; then nothing more is learned of masses"
                )
                events = (*events, Notice(sentence))
            state = state._replace(navigation=navigation, parameters=parameters, ticks=state.ticks + 1, silent=silent)

    def guided(
        self, state: RobustState, navigation: NavigationState, parameters: ParameterState, tick_s: float
    ) -> tuple[NavigationState, ParameterState]:
        """With what else is known at a tick: nothing, but where it is calibrated."""
        return navigation, parameters

    @staticmethod
    def _clock(state: RobustState, at_s: float) -> float:
        return (state.start_ns or 0) / NANOSECONDS_PER_SECOND + at_s
