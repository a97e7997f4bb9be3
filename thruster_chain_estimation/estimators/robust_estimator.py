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
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.sensor_trust import fault_news
from thruster_chain_estimation.estimators import jointed_navigation as jointed
from thruster_chain_estimation.estimators import parameter_filter, robust_publication
from thruster_chain_estimation.estimators.inertial_kernels import Stood
from thruster_chain_estimation.estimators.jumps import NAMES, UNITS, BiasJump
from thruster_chain_estimation.estimators.loose_links import Closing
from thruster_chain_estimation.estimators.repeated_readings import Repetitions
from thruster_chain_estimation.model import inertial_layout, space
from thruster_chain_estimation.model.calibration import Calibration
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration

LONGEST_GAP_S = 5.0
SLOW = 2e-5
"""Processor time by that of what is recorded, by the cube of the links: covariances have 16 N + 2 and 14 N + 8 rows.
Measured of 100 links, 20; of 30 it is 1.2 (one core of a server, 2026)."""
SLOWEST = 30.0
"""At which ten seconds take five minutes."""
UNSEEN_M_S = 0.5
"""Of each axis, at which a chain may go on meanwhile."""
MOVING_N = 1e-6
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
        self._link_of = {f"imu/{name}": link for link, name in enumerate(chain.link_names)}
        self._unrepeated = (Repetitions(),) * chain.count
        self._delay_s = configuration.imu.delay_s
        self.navigation = jointed.JointedNavigation(configuration, imus)
        self.parameters = parameter_filter.ParameterFilter(configuration, parameters)
        clock = inertial_layout.clock_stddev_s(configuration) ** 2 / chain.count
        self._design = robust_publication.Design(
            self.navigation.geometry,
            chain.masses,
            chain.inertias,
            clock,
            clock / (clock + float(self.parameters.delay.covariance[0, 0])),
            float(self.parameters.delay.mean[0]),
            float(configuration.gyro_stddev_rad_s),
            float(space.BOUND_TO_STDDEV * configuration.tolerances.centre_of_mass_m),
        )

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
        news: tuple[Notice, ...] = ()
        if (before.silent, before.stuck, _lost(before)) != (state.silent, state.stuck, _lost(state)):
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
        navigation, parameters = state.navigation, state.parameters
        mean, covariance = robust_publication.publish(
            (stamp_ns - state.start_ns) / NANOSECONDS_PER_SECOND,
            Stood(*navigation[:5]),
            robust_publication.Links(navigation.blind, navigation.lost, state.pushed),
            (parameters.belief, parameters.challenger),
            parameter_filter.share_of_challenger(parameters),
            self._design,
        )
        return Estimate(stamp_ns, mean, covariance)

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
    return np.flatnonzero(state.navigation.lost).tolist()
