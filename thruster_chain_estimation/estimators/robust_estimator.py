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

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import (
    IMU,
    NANOSECONDS_PER_SECOND,
    Estimate,
    Matrix,
    Measurement,
    Notice,
    Vector,
)
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.sensor_trust import fault_news
from thruster_chain_estimation.estimators import jointed_navigation as jointed
from thruster_chain_estimation.estimators import parameter_filter
from thruster_chain_estimation.estimators.jumps import NAMES, UNITS, BiasJump
from thruster_chain_estimation.estimators.loose_links import Closing
from thruster_chain_estimation.estimators.repeated_readings import Repetitions
from thruster_chain_estimation.model import inertial_layout, parameter_layout, space
from thruster_chain_estimation.model.calibration import Calibration
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

LONGEST_GAP_S = 5.0
SLOW = 4.2e-5
"""Processor time by that of what is recorded, by the cube of the links: covariances have 16 N + 2 and 14 N + 8 rows.
Measured of 100 links, 42; of 60 it is 11, of 30 it is 2.3 (one core of a server, 2026)."""
SLOWEST = 30.0
"""At which ten seconds take five minutes."""
UNSEEN_M_S = 0.5
"""Of each axis, at which a chain may go on meanwhile."""
MOVING_N = 1e-6
RATE_OF_REACH = 2.0
"""rad/s at which an unknown part of the chain may turn."""
SILENT = "is silent: the heading of its link grows uncertain, and is lost if that lasts"
STUCK = "repeats one reading: it is stuck, and left out until its readings change"
LOST = "leaves its link's heading lost until both sides of a pin feel a push: nothing is learned of masses meanwhile"
RESTING_RAD_S, RESTING_M_S = 0.02, 0.02
"""A given start with less is taken for one at rest."""


class PastTick(NamedTuple):
    """How errors of both filters went through a tick: those of the navigation by its transition and by the pins."""

    transition: Matrix
    pinned: jointed.Pinned | None
    parameters: parameter_filter.ParameterPassage
    closings: tuple[Closing, ...] = ()


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
    silent, stuck
        Links that are gone on without.
    repetitions
        Of each link's IMU.
    moving
        It was given a start in motion.
    restarted, passed
        What the last measurement did, for whoever looks back: whether the navigation was started anew, and ticks.
    """

    start_ns: int | None
    navigation: jointed.NavigationState
    parameters: parameter_filter.ParameterState
    ticks: int = 0
    pushed: bool = False
    silent: frozenset[int] = frozenset()
    stuck: frozenset[int] = frozenset()
    repetitions: tuple[Repetitions, ...] = ()
    moving: bool = False
    restarted: bool = False
    passed: tuple[PastTick, ...] = ()


class RobustEstimator(Estimator[RobustState]):
    """Two filters, see the module; UserError for a chain too long to be filtered in any useful time."""

    linearised = False

    def __init__(self, configuration: ThrusterChainConfiguration, calibration: Calibration | None = None) -> None:
        count = configuration.chain.count
        if (slow := SLOW * count**3) > SLOWEST:
            raise UserError(
                f"robust: of {count} links each second would take about {slow:.0f} s of a processor; take "
                f"--estimator gyros, which learns no masses, or at most {int((SLOWEST / SLOW) ** (1.0 / 3.0))} links"
            )
        if calibration is None and configuration.calibration:
            calibration = Calibration.load(Path(configuration.calibration), configuration)
        imus, parameters = calibration or (None, None)
        self.configuration = configuration
        self.space = space.published_space(configuration)
        chain = self._chain = configuration.chain
        # Where masses and inertias are, one after the other.
        self._told = slice(self.space.tangent("masses").start, self.space.tangent("inertias").stop)
        self._link_of = {f"imu/{name}": link for link, name in enumerate(chain.link_names)}
        self._unrepeated = (Repetitions(),) * chain.count
        self._delay_s = configuration.imu.delay_s
        self.navigation = jointed.JointedNavigation(configuration, imus)
        self.parameters = parameter_filter.ParameterFilter(configuration, parameters)
        self._shared_clock = inertial_layout.clock_stddev_s(configuration) ** 2 / chain.count
        self._clock_share = self._shared_clock / (self._shared_clock + float(self.parameters.delay.covariance[0, 0]))
        self._centre_m = space.BOUND_TO_STDDEV * configuration.tolerances.centre_of_mass_m

    def start(self, initial: Estimate | None) -> RobustState:
        """At rest, at the headings given, or as configured."""
        chain, start = self._chain, self.configuration.initial
        headings, position = self.configuration.initial_headings_rad, np.array(start.position_m)
        covariance = start.heading_stddev_rad**2 * np.eye(chain.count)
        if initial is not None:
            headings = initial.mean[self.space.coordinates("headings")]
            position = initial.mean[self.space.coordinates("position")]
            covariance = initial.covariance[self.space.tangent("headings"), self.space.tangent("headings")]
        headings = np.unwrap(headings)  # a joint's angle is a difference, and its cable and its stops know it
        middle = space.link_positions(chain.lengths, headings[None], chain.masses, position[None])[0, 0]
        c, s = np.cos(headings[0]), np.sin(headings[0])
        first = middle + np.array([[c, -s], [s, c]]) @ chain.imu_places[0]
        navigation = self.navigation.start(headings, covariance, first)
        # The whole is where it is: a first heading that is wrong has put the first link elsewhere.
        place, spread = slice(self.navigation.chain + 2, self.navigation.chain + 4), navigation.covariance
        by = space.first_by_headings(chain.lengths, headings, chain.masses)
        spread[place, self.navigation.headings] = by @ covariance
        spread[self.navigation.headings, place] = (by @ covariance).T
        spread[place, place] += by @ covariance @ by.T
        if initial is None:
            return RobustState(None, navigation, self.parameters.start(), repetitions=self._unrepeated)
        rates, velocity = (
            initial.mean[self.space.coordinates("rates")],
            initial.mean[self.space.coordinates("velocity")],
        )
        moving = bool((np.abs(rates) > RESTING_RAD_S).any() or (np.abs(velocity) > RESTING_M_S).any())
        if moving:
            middles = space.link_velocities(chain.lengths, headings[None], rates[None], chain.masses, velocity[None])[0]
            navigation = self.navigation.set_moving(navigation, rates, middles)
        parameters = self.parameters.start()
        return RobustState(initial.stamp_ns, navigation, parameters, repetitions=self._unrepeated, moving=moving)

    def step(self, state: RobustState, measurement: Measurement) -> Step:
        """Take a command, or a reading and all ticks that it makes possible."""
        start_ns = measurement.stamp_ns if state.start_ns is None else state.start_ns
        state = state._replace(start_ns=start_ns, restarted=False, passed=())
        now_s = (measurement.stamp_ns - start_ns) / NANOSECONDS_PER_SECOND
        if measurement.sensor == space.COMMAND:
            pushed = state.pushed or bool((np.abs(measurement.value) > MOVING_N).any())
            parameters = self.parameters.commanded(state.parameters, now_s, measurement.value)
            return Step(state._replace(parameters=parameters, pushed=pushed))
        rate, force = measurement.value[IMU.angular_velocity], measurement.value[IMU.linear_acceleration]
        if not (np.isfinite(rate[2]) and np.isfinite(force[:2]).all()):
            return Step(state, used=False)
        reading = np.array([now_s - self._delay_s, rate[2], force[0], force[1]])
        before, state, innovation = state, self._heard(state, self._link_of[measurement.sensor], reading), None
        said: list[str] = []
        if (gap_s := now_s - state.navigation.tick_s) > LONGEST_GAP_S:
            state = self._restarted(state, now_s)
            said.append(f"nothing was heard for {gap_s:.1f} s: headings are lost, what was learned is kept")
        while True:
            tick_s = (state.ticks + 1) * jointed.TICK_NS / NANOSECONDS_PER_SECOND
            if tick_s > now_s - self._delay_s or not self.navigation.ready(state.navigation, tick_s, now_s):
                break
            at_rest = not (state.pushed or state.moving) and tick_s < self.configuration.initial.rest_s
            tick = self.navigation.advanced(state.navigation, tick_s)
            navigation, innovation, pinned = self.navigation.pinned(tick, at_rest)
            moved = self.navigation.moved(tick, navigation)
            parameters, passage = self.parameters.ticked(state.parameters, tick_s, moved, not state.pushed)
            if len(parameters.window) == parameter_filter.WINDOW:
                parameters, passage = self.parameters.learned(parameters, passage)
            navigation, parameters = self.guided(state, navigation, parameters, tick_s)
            state = state._replace(
                navigation=navigation,
                parameters=parameters,
                ticks=state.ticks + 1,
                passed=(*state.passed, PastTick(tick.transition, pinned, passage, tick.closings)),
            )
            state = state._replace(silent=self._silent(state, now_s))
            at_s = start_ns / NANOSECONDS_PER_SECOND + tick_s
            if passage.taken_over:
                said.append(f"masses changed at about {at_s:.2f} s: they are learned anew")
            if tick.jump is not None:
                said.append(self._jump_notice(tick.jump, at_s))
        for link in sorted(set(_lost(before)) - set(_lost(state))):
            said.append(
                f"the heading of {self._chain.link_names[link]} is found again, by what both sides of a pin feel"
            )
        news = fault_news(self.sensor_faults(before), self.sensor_faults(state), measurement.stamp_ns)
        estimate = self.told(state, measurement.stamp_ns) if state.passed else None
        used = self._link_of[measurement.sensor] not in state.stuck
        return Step(state, estimate, innovation, (*map(Notice, said), *news), used)

    def sensor_faults(self, state: RobustState) -> dict[str, str]:
        """IMUs that are silent or stuck, and those of links whose heading is lost."""
        found: dict[str, str] = {}
        for links, words in ((state.silent, SILENT), (state.stuck, STUCK), (_lost(state), LOST)):
            for link in links:
                sensor = f"imu/{self._chain.link_names[link]}"
                found[sensor] = f"{found[sensor]}; {words}" if sensor in found else f"{sensor} {words}"
        return found

    def _heard(self, state: RobustState, link: int, reading: Vector) -> RobustState:
        """With one more reading of a link's IMU, unless it is stuck."""
        repetitions, readings = state.repetitions[link].heard(reading)
        navigation, stuck = state.navigation, state.stuck - {link} | ({link} if repetitions.stuck else set())
        for one in readings:
            navigation = self.navigation.heard(navigation, link, one)
        kept = (*state.repetitions[:link], repetitions, *state.repetitions[link + 1 :])
        return state._replace(navigation=navigation, repetitions=kept, stuck=stuck)

    def told(self, state: RobustState, stamp_ns: int) -> Estimate:
        """The estimate at a stamp, from a state that has come up to it."""
        assert state.start_ns is not None
        now_s, navigation = (stamp_ns - state.start_ns) / NANOSECONDS_PER_SECOND, state.navigation
        chain, count, belief, rates = (
            self._chain,
            self._chain.count,
            parameter_filter.weighed(state.parameters),
            navigation.rates,
        )
        late_s, surer = self._shared(navigation, belief)
        headings, by = self.navigation.ahead(navigation, now_s + late_s)
        links = np.arange(count)
        logs = parameter_layout.LINK * links + np.array([[parameter_layout.LOG_MASS], [parameter_layout.LOG_INERTIA]])
        scales = np.concatenate([chain.masses, chain.inertias]) * np.exp(belief.mean[logs.ravel()])
        middle, velocity = self.navigation.first_middle(navigation.mean, rates)
        off = belief.mean[self.parameters.chain + parameter_layout.VELOCITY_X :][:4]
        middle, velocity = middle + off[2:], velocity + off[:2]
        middle = middle + velocity * (now_s + late_s - navigation.tick_s)
        pose, about = (chain.lengths, headings[None]), (scales[:count], np.zeros((1, 2)))
        places = space.link_positions(*pose, *about)[0]
        turning = space.link_velocities(*pose, rates[None], *about)[0, 0]
        mean = np.concatenate([headings, rates, scales, middle - places[0], velocity - turning])
        covariance = np.zeros((self.space.dimension, self.space.dimension))
        place = self.space.tangent("headings")
        covariance[place, place] = by @ navigation.covariance @ by.T - surer * np.outer(rates, rates)
        place, biases = self.space.tangent("rates"), inertial_layout.LINK * links + inertial_layout.GYRO_BIAS
        covariance[place, place] = navigation.covariance[np.ix_(biases, biases)]
        unheard = np.where(navigation.blind, jointed.UNSEEN_RAD_S, self.configuration.gyro_stddev_rad_s)
        covariance[place, place] += np.diag(unheard**2)
        known = belief.covariance[np.ix_(logs.ravel(), logs.ravel())]
        covariance[self._told, self._told] = known * np.outer(scales, scales)
        self._put_odometry(covariance, navigation, belief, state.pushed)
        self._put_centre(covariance, places, scales[:count])
        return Estimate(stamp_ns, self.space.plus(mean, np.zeros(self.space.dimension)), covariance)

    def _shared(self, navigation: jointed.NavigationState, belief: Moments) -> tuple[float, float]:
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

    def _put_odometry(
        self, covariance: Matrix, navigation: jointed.NavigationState, belief: Moments, pushed: bool
    ) -> None:
        """Position and velocity: the navigation's own, and the parameter filter's error of them, whichever is less."""
        headings, known = self.navigation.headings, navigation.covariance
        chain, base = self.navigation.chain, self.parameters.chain
        unsure = covariance[self.space.tangent("headings"), self.space.tangent("headings")]
        # A lost heading leaves what hangs on it anywhere within its reach, not beyond.
        shrunk = np.minimum(1.0, 1.0 / np.sqrt(np.maximum(np.diag(unsure), 1e-12)))
        by = space.first_by_headings(self._chain.lengths, navigation.mean[headings], self._chain.masses)
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
                together = headings[~navigation.lost]
                turned = known[ours : ours + 2, together].mean(axis=1)
                turn = float(known[np.ix_(together, together)].mean())
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

    def _restarted(self, state: RobustState, now_s: float) -> RobustState:
        """Headings anew after a gap that no integration bridges."""
        ticks, before = int(now_s * NANOSECONDS_PER_SECOND / jointed.TICK_NS), state.navigation
        velocity, gap_s = self.navigation.chain, now_s - before.tick_s
        place = slice(velocity + 2, velocity + 4)
        lost = jointed.ANY_RAD**2 * np.eye(self._chain.count)
        navigation = self.navigation.start(before.mean[self.navigation.headings], lost, before.mean[place])
        unseen = np.repeat([UNSEEN_M_S, UNSEEN_M_S * gap_s], 2)
        navigation.covariance[range(velocity, place.stop), range(velocity, place.stop)] += unseen**2
        return state._replace(
            navigation=navigation._replace(tick_s=ticks * jointed.TICK_NS / NANOSECONDS_PER_SECOND),
            parameters=self.parameters.after_gap(state.parameters, UNSEEN_M_S, UNSEEN_M_S * gap_s),
            ticks=ticks,
            restarted=True,
        )

    @staticmethod
    def _silent(state: RobustState, now_s: float) -> frozenset[int]:
        last_s = [readings[-1, 0] if len(readings) else -np.inf for readings in state.navigation.readings]
        silent = frozenset(link for link, at_s in enumerate(last_s) if now_s - at_s > 2.0 * jointed.SILENT_S)
        return silent - state.stuck

    def _jump_notice(self, jump: BiasJump, tick_s: float) -> str:
        """Which bias has jumped."""
        sensors = list[str]()
        for number in jump.biases:
            link, kind = divmod(number, len(NAMES))
            sensors.append(f"the {NAMES[kind]} of imu/{self._chain.link_names[link]}")
        unit = UNITS[jump.biases[0] % len(UNITS)]
        others = f" (or it is {', or '.join(sensors[1:])})" if sensors[1:] else ""
        return (
            f"{sensors[0]} reads about {jump.size:+.1g} {unit} more than before, told at {tick_s:.2f} s{others}: its "
            "bias is learned anew; look at its supply and temperature if that comes again"
        )

    def guided(
        self,
        state: RobustState,
        navigation: jointed.NavigationState,
        parameters: parameter_filter.ParameterState,
        tick_s: float,
    ) -> tuple[jointed.NavigationState, parameter_filter.ParameterState]:
        """With what else is known at a tick: nothing, but where it is calibrated."""
        return navigation, parameters


def _lost(state: RobustState) -> list[int]:
    return [int(link) for link in np.flatnonzero(state.navigation.lost)]
