"""The paper's filter as an estimator of the suite: `paper_ukf`.

It takes the robot to be what its configuration says: no biases, no lag of the thrusters, a level plane, no drag. For
robots that are not, see the other estimator of the chain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from onboard_estimation.filtering.gating import Gate, Innovation, decide
from onboard_estimation.pipeline.estimator import Estimator, Event, Step
from onboard_estimation.pipeline.sensor_trust import SILENT_S, TRUST_READINGS, SensorTrust, bridged_s, others_are_well
from thruster_chain_estimation.estimators.paper_filter import Moments, PaperFilter
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.space import COMMAND, published_space


class StampGroups(NamedTuple):
    """What is known of that; a value.

    Attributes
    ----------
    partners
        By sensor, those that it was last heard together with, itself among them.
    stamp_ns
        Of the instant that is being gathered; None before the first.
    heard
        Sensors that were heard at that instant, in that order.
    """

    partners: tuple[frozenset[int], ...]
    stamp_ns: int | None = None
    heard: tuple[int, ...] = ()

    @classmethod
    def start(cls, count: int) -> StampGroups:
        """So many sensors, which are all expected to speak together."""
        return cls((frozenset(range(count)),) * count)

    def is_over(self, stamp_ns: int) -> bool:
        """Whether something that comes at that stamp ends the instant that is being gathered."""
        return self.stamp_ns is not None and stamp_ns > self.stamp_ns

    def with_sensor(self, sensor: int, stamp_ns: int) -> StampGroups:
        """One more message."""
        if self.stamp_ns == stamp_ns:
            return self._replace(heard=(*self.heard, sensor))
        return StampGroups(self._learned(), stamp_ns, (sensor,))

    @property
    def is_whole(self) -> bool:
        """Whether all that were expected have been heard."""
        return self.partners[self.heard[0]] <= set(self.heard)

    def _learned(self) -> tuple[frozenset[int], ...]:
        together = frozenset(self.heard)
        return tuple(together if sensor in together else known for sensor, known in enumerate(self.partners))


@dataclass(frozen=True, slots=True)
class PaperState:
    """All that measurements change.

    Attributes
    ----------
    moments
        Of the filter, at `stamp_ns`; None: that of the last measurement is the first.
    stamp_ns
        Of the last prediction; None before the first measurement, where no initial state was given.
    thrust
        (N,) commanded last, N.
    imus
        What is known of each link's IMU.
    groups, waiting
        Which of them speak together; readings (3,) of the present instant that have not been used yet, by link.
    untold
        By link, what its last correction saw, until its next message tells it.
    silent
        Links whose IMUs have not been heard for long, which has been said.
    """

    moments: Moments
    stamp_ns: int | None
    thrust: Vector
    imus: tuple[SensorTrust, ...]
    groups: StampGroups
    waiting: tuple[tuple[int, Vector], ...]
    untold: tuple[Innovation | None, ...]
    silent: frozenset[int]


class PaperEstimator(Estimator[PaperState]):
    """Headings, turning rates, masses and inertias of the links; place and velocity of their common centre of mass.

    Measurements
    ------------
    thrusters/command
        (N,) thrusts, N, acting until the next command. Before the first one there is none.
    imu/<link>
        (6,) gyro and accelerometer; x and y of the accelerometer and z of the gyro are used. Readings of several links
        with one stamp are used together, once the last of them is there: that step has the estimate. What a link's
        readings were against the prediction is told with its next message, for its own counters. Readings that do not
        fit are refused; the gyro's is used nevertheless where it alone fits, and only gyros that do not fit, of links
        that no others confirm, widen the covariance: an accelerometer with a bias must not.
    """

    def __init__(self, configuration: ThrusterChainConfiguration) -> None:
        names = configuration.chain.link_names
        self.space = published_space(configuration)
        self.configuration = configuration
        self._filter = PaperFilter(configuration)
        self._names = names
        self._link_of = {f"imu/{name}": link for link, name in enumerate(names)}
        self._gate = Gate(configuration.gate_probability, configuration.recover_after)
        self._thresholds = np.array([self._gate.threshold(3), self._gate.threshold(1)])

    def start(self, initial: Estimate | None) -> PaperState:
        """From an initial state; or at rest as configured, with masses and inertias as designed (Table III)."""
        count = len(self._names)
        mean, covariance = self._configured() if initial is None else (initial.mean, initial.covariance)
        return PaperState(
            self._filter.start(mean, covariance),
            None if initial is None else initial.stamp_ns,
            np.zeros(count),
            (SensorTrust(),) * count,
            StampGroups.start(count),
            (),
            (None,) * count,
            frozenset(),
        )

    def step(self, state: PaperState, measurement: Measurement) -> Step:
        """Take a command; or gather readings, and correct where those of an instant are whole."""
        stamp_ns, sensor, value = measurement.stamp_ns, measurement.sensor, measurement.value
        if state.stamp_ns is None:
            state = replace(state, stamp_ns=stamp_ns)
        events: list[Event] = []
        if state.waiting and state.groups.is_over(stamp_ns):
            state = self._corrected(state, events)
        state = self._predicted(state, stamp_ns)
        if sensor == COMMAND:
            return Step(replace(state, thrust=np.array(value)), events=tuple(events))
        link = self._link_of[sensor]
        reading = np.append(value[IMU.linear_acceleration][:2], value[IMU.angular_velocity][2])
        groups = state.groups.with_sensor(link, stamp_ns)
        state = replace(state, groups=groups, waiting=(*state.waiting, (link, reading)))
        told, estimate = state.untold[link], None
        if groups.is_whole:
            state = self._corrected(state, events)
            estimate = Estimate(stamp_ns, *self._filter.published(state.moments))
        if told is None or state.untold[link] is told:
            told, state = state.untold[link], replace(state, untold=_placed(state.untold, link, None))
        state = self._listened(state, link, stamp_ns, events)
        return Step(state, estimate, told, tuple(events))

    def _configured(self) -> tuple[Vector, Matrix]:
        configuration, space = self.configuration, self.space
        chain, initial, paper = configuration.chain, configuration.initial, configuration.paper
        mean, stddev = np.zeros(space.dimension), np.empty(space.dimension)
        for part, value, deviation in (
            ("headings", configuration.initial_headings_rad, initial.heading_stddev_rad),
            ("rates", 0.0, initial.rate_stddev_rad_s),
            ("masses", chain.masses, paper.mass_stddev_kg),
            ("inertias", chain.inertias, paper.inertia_stddev_kg_m2),
            ("position", initial.position_m, initial.position_stddev_m),
            ("velocity", 0.0, initial.velocity_stddev_m_s),
        ):
            mean[space.coordinates(part)], stddev[space.tangent(part)] = value, deviation
        return mean, np.diag(stddev**2)

    def _predicted(self, state: PaperState, stamp_ns: int) -> PaperState:
        assert state.stamp_ns is not None  # set by every step
        if stamp_ns <= state.stamp_ns:
            return state
        moments = self._filter.predict(state.moments, state.thrust, bridged_s(stamp_ns - state.stamp_ns))
        return replace(state, moments=moments, stamp_ns=stamp_ns)

    def _corrected(self, state: PaperState, events: list[Event]) -> PaperState:
        """By all readings that wait; their stamp is that of the last prediction."""
        stamp_ns, imus, untold = state.stamp_ns, list(state.imus), list(state.untold)
        assert stamp_ns is not None
        heard, measured = np.array([link for link, _ in state.waiting]), np.array([one for _, one in state.waiting])
        moments, seen = self._filter.update(state.moments, state.thrust, heard, measured, self._thresholds)
        inflation, used = 1.0, []
        for k, link in enumerate(heard):
            imu, (nis, gyro_nis) = imus[link], seen.nis[k]
            is_due = imu.rejected_in_a_row + 1 >= self._gate.recover_after
            may_recover = not (is_due and others_are_well(state.imus, link, stamp_ns))
            whole = bool(nis <= self._thresholds[0])
            decision = decide(self._gate, 0.0 if whole else gyro_nis, 1, imu.rejected_in_a_row, may_recover)
            if not may_recover and decision.rejected_in_a_row == self._gate.recover_after > 0:
                events.append(self._contradiction(link, decision.rejected_in_a_row, stamp_ns))
            inflation = max(inflation, decision.inflation)
            heeded = decision.accepted or decision.inflation > 1.0
            if heeded:
                used.append(k)
            trust = imu.trust + (heeded - imu.trust) / TRUST_READINGS
            imus[link] = SensorTrust(stamp_ns, decision.rejected_in_a_row, trust)
            untold[link] = Innovation(
                seen.innovations[k], seen.roots[k], float(nis), whole or decision.inflation > 1.0, decision.inflation
            )
        if inflation > 1.0:
            wider = self._filter.inflated(state.moments, inflation)
            moments, _ = self._filter.update(
                wider, state.thrust, heard[used], measured[used], np.array([self._thresholds[0], np.inf])
            )
        return replace(state, moments=moments, imus=tuple(imus), waiting=(), untold=tuple(untold))

    def _listened(self, state: PaperState, link: int, stamp_ns: int, events: list[Event]) -> PaperState:
        """Say once which IMUs have fallen silent."""
        silent = set(state.silent) - {link}
        for other, imu in enumerate(state.imus):
            if other in silent or other == link or imu.last_ns is None:
                continue
            if stamp_ns - imu.last_ns > SILENT_S * NANOSECONDS_PER_SECOND:
                silent.add(other)
                events.append(
                    Notice(
                        f"nothing of imu/{self._names[other]} for {SILENT_S:g} s, at "
                        f"{stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: the filter goes on with the others, and what "
                        f"only that IMU tells of {self._names[other]} grows less certain"
                    )
                )
        return replace(state, silent=frozenset(silent))

    def _contradiction(self, link: int, rejected: int, stamp_ns: int) -> Notice:
        return Notice(
            f"{rejected} turning rates in a row of imu/{self._names[link]}, at "
            f"{stamp_ns / NANOSECONDS_PER_SECOND:.3f} s, contradict the state that the other IMUs confirm: refused "
            "until they fit it"
        )


def _placed(items: tuple[Innovation | None, ...], place: int, item: Innovation | None) -> tuple[Innovation | None, ...]:
    return (*items[:place], item, *items[place + 1 :])
