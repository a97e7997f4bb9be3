"""The paper's filter as an estimator of the suite: `paper_ukf`.

It takes the robot to be what its configuration says: no biases, no lag of the thrusters, a level plane, no drag. For
robots that are not, see the other estimator of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from onboard_estimation.pipeline import sensor_trust
from onboard_estimation.pipeline.estimator import Estimator, Event, Step
from thruster_chain_estimation.estimators.paper_filter import Moments, PaperFilter
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.model.space import COMMAND, initial_mean, prior_stddev, published_space


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
    partners
        By link, those that it was last heard together with, itself among them: at first all.
    heard, heard_ns
        Links that were heard at the instant that is being gathered, in that order, and its stamp.
    waiting
        Readings (3,) of that instant that have not been used yet, by link.
    untold
        By link, what its last correction saw, until its next message tells it.
    unlike
        By link, its last readings in a row of which the accelerations did not fit, and the rate did.
    """

    moments: Moments
    stamp_ns: int | None
    thrust: Vector
    imus: tuple[sensor_trust.SensorTrust, ...]
    partners: tuple[frozenset[int], ...]
    untold: tuple[Innovation | None, ...]
    heard: tuple[int, ...] = ()
    heard_ns: int | None = None
    waiting: tuple[tuple[int, Vector], ...] = ()
    unlike: tuple[int, ...] = ()


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
            (sensor_trust.SensorTrust(),) * count,
            (frozenset(range(count)),) * count,
            (None,) * count,
            unlike=(0,) * count,
        )

    def step(self, state: PaperState, measurement: Measurement) -> Step:
        """Take a command; or gather readings, and correct where those of an instant are whole."""
        stamp_ns, sensor, value, before = measurement.stamp_ns, measurement.sensor, measurement.value, state
        if state.stamp_ns is None:
            state = replace(state, stamp_ns=stamp_ns)
        events: list[Event] = []
        if state.waiting and stamp_ns > (state.heard_ns or 0):
            state = self._corrected(state, events)
        state = self._predicted(state, stamp_ns)
        if sensor == COMMAND:
            events += sensor_trust.fault_news(self.sensor_faults(before), self.sensor_faults(state), stamp_ns)
            return Step(replace(state, thrust=np.array(value)), events=tuple(events))
        link = self._link_of[sensor]
        reading = np.append(value[IMU.linear_acceleration][:2], value[IMU.angular_velocity][2])
        state = replace(_gathered(state, link, stamp_ns), waiting=(*state.waiting, (link, reading)))
        told, estimate = state.untold[link], None
        if state.partners[state.heard[0]] <= set(state.heard):  # it is whole
            state = self._corrected(state, events)
            estimate = Estimate(stamp_ns, *self._filter.published(state.moments))
        if told is None or state.untold[link] is told:
            told, untold = state.untold[link], list(state.untold)
            untold[link] = None
            state = replace(state, untold=tuple(untold))
        events += sensor_trust.fault_news(self.sensor_faults(before), self.sensor_faults(state), stamp_ns)
        return Step(state, estimate, told, tuple(events))

    def _configured(self) -> tuple[Vector, Matrix]:
        configuration, stddev = self.configuration, prior_stddev(self.configuration)
        stddev[self.space.tangent("masses")] = configuration.paper.mass_stddev_kg
        stddev[self.space.tangent("inertias")] = configuration.paper.inertia_stddev_kg_m2
        position = np.array(configuration.initial.position_m)
        return initial_mean(configuration, configuration.initial_headings_rad, position), np.diag(stddev**2)

    def _predicted(self, state: PaperState, stamp_ns: int) -> PaperState:
        assert state.stamp_ns is not None  # set by every step
        if stamp_ns <= state.stamp_ns:
            return state
        moments = self._filter.predict(state.moments, state.thrust, sensor_trust.bridged_s(stamp_ns - state.stamp_ns))
        return replace(state, moments=moments, stamp_ns=stamp_ns)

    def _corrected(self, state: PaperState, events: list[Event]) -> PaperState:
        """By all readings that wait; their stamp is that of the last prediction."""
        stamp_ns, imus, untold, unlike = state.stamp_ns, list(state.imus), list(state.untold), list(state.unlike)
        assert stamp_ns is not None
        heard, measured = np.array([link for link, _ in state.waiting]), np.array([one for _, one in state.waiting])
        moments, seen = self._filter.update(state.moments, state.thrust, heard, measured, self._thresholds)
        inflation, used = 1.0, []
        for k, link in enumerate(heard):
            imu, (nis, gyro_nis) = imus[link], seen.nis[k]
            is_due = imu.rejected_in_a_row + 1 >= self._gate.recover_after
            may_recover = not (is_due and sensor_trust.others_are_well(state.imus, link, stamp_ns))
            whole = bool(nis <= self._thresholds[0])
            decision = decide(self._gate, 0.0 if whole else gyro_nis, 1, imu.rejected_in_a_row, may_recover)
            if not may_recover and decision.rejected_in_a_row == self._gate.recover_after > 0:
                sentence = (
                    f"{decision.rejected_in_a_row} turning rates in a row of imu/{self._names[link]}, at "
                    f"{stamp_ns / NANOSECONDS_PER_SECOND:.3f} s, contradict the state that the other IMUs confirm: "
                    "refused until they fit it"
                )
                events.append(Notice(sentence))
            unlike[link] = unlike[link] + 1 if decision.accepted and not whole else 0
            inflation = max(inflation, decision.inflation)
            heeded = decision.accepted or decision.inflation > 1.0
            if heeded:
                used.append(k)
            trust = imu.trust + (heeded - imu.trust) / sensor_trust.TRUST_READINGS
            imus[link] = sensor_trust.SensorTrust(stamp_ns, decision.rejected_in_a_row, trust)
            untold[link] = Innovation(
                seen.innovations[k], seen.roots[k], float(nis), whole or decision.inflation > 1.0, decision.inflation
            )
        if self._are_unlike(unlike) and not self._are_unlike(state.unlike):
            events.append(self._unlike_notice(stamp_ns))
        if inflation > 1.0:
            wider = self._filter.inflated(state.moments, inflation)
            moments, _ = self._filter.update(
                wider, state.thrust, heard[used], measured[used], np.array([self._thresholds[0], np.inf])
            )
        return replace(state, moments=moments, imus=tuple(imus), waiting=(), untold=tuple(untold), unlike=tuple(unlike))

    def _are_unlike(self, unlike: Sequence[int]) -> bool:
        """Whether the accelerations of most links are not what the model says: one sensor alone may be wrong itself."""
        lasting = sum(count >= self._gate.recover_after > 0 for count in unlike)
        return 2 * lasting > len(unlike)

    def _unlike_notice(self, stamp_ns: int) -> Notice:
        """That the model of the accelerometers is not that of the readings."""
        model = self.configuration.imu_model
        other = {"physical": "paper", "paper": "physical"}[model]
        return Notice(
            f"{self._gate.recover_after} accelerations in a row of most IMUs, at "
            f"{stamp_ns / NANOSECONDS_PER_SECOND:.3f} s, are not what imu_model={model} makes of the motion, while its "
            f"turning rates fit: try --set imu_model={other}, or, as this filter knows no biases, tilt and mounting "
            "errors, --estimator robust"
        )

    def sensor_faults(self, state: PaperState) -> dict[str, str]:
        """IMUs that have been silent for long."""
        first_ns = (state.stamp_ns or 0) - sensor_trust.SILENT_S * NANOSECONDS_PER_SECOND
        last_ns = {name: imu.last_ns for name, imu in zip(self._names, state.imus, strict=True)}
        last_ns |= {self._names[link]: state.stamp_ns for link, _ in state.waiting}
        imus = [f"imu/{name}" for name, at_ns in last_ns.items() if at_ns is not None and at_ns < first_ns]
        return {imu: f"{imu} is silent: the filter goes on with the others" for imu in imus}


def _gathered(state: PaperState, link: int, stamp_ns: int) -> PaperState:
    """With one more message at the instant that is being gathered, or the first of the next one."""
    if stamp_ns == state.heard_ns:
        return replace(state, heard=(*state.heard, link))
    together = frozenset(state.heard)
    partners = tuple(together if other in together else known for other, known in enumerate(state.partners))
    return replace(state, partners=partners, heard=(link,), heard_ns=stamp_ns)
