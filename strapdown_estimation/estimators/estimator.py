"""Error-state Kalman filter of a strapped-down IMU that stands on the ground at times.

Per reading: the state moves by the reading (eqs. (3) to (7), `model`), the contact detector looks at the last few
readings, and in contact up to three measurements are inferred (the paper's IMUPTs):

- the point of contact has no velocity, behind a gate: in a slow lift a contact can be claimed falsely;
- at rest, the rotation is zero but for a person's swaying;
- the height is that of a level stood on before, or of new ground.

Readings that are missing for long, stuck, or in contradiction to gravity and contact make the filter lost until the IMU
stands again: see `loss`. Everything is causal and without lag.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Measurement, Notice, Vector
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.pipeline.estimator import Estimator, Event, Step
from strapdown_estimation.estimators.alignment import Aligned, StillReadings, align, as_given
from strapdown_estimation.estimators.contact import (
    ORIGIN,
    UNSEEN,
    Claim,
    ContactState,
    GroundState,
    Levels,
    Refusals,
    detected,
    stand_on,
    stand_still,
    turn_nowhere,
)
from strapdown_estimation.estimators.loss import Trust, found, is_flat, unknown
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.model.state import EQUAL_EXTREMES, POSITION, SPACE, Coverage, Prediction


class Filtered(NamedTuple):
    """The filter since its start: its moments, and what each part of it keeps.

    Attributes
    ----------
    start
        What was known then.
    """

    start: Aligned
    moments: Moments
    coverage: Coverage
    refusals: Refusals
    ground: GroundState
    trust: Trust


class StrapdownState(NamedTuple):
    """All that readings change.

    Attributes
    ----------
    stamp_ns
        Of the last reading, or of the start.
    contact
        The last readings, and what the detector said of them.
    still
        Readings at rest, until there are enough of them to start.
    filtered
        None before the start.
    repetitions
        How often the last reading has been repeated.
    first_of_equals
        The state before the first repetition, which a stuck sensor is put back to; None: the last reading was new.
    """

    stamp_ns: int
    contact: ContactState
    still: StillReadings = ()
    filtered: Filtered | None = None
    repetitions: int = 0
    first_of_equals: StrapdownState | None = None


class StrapdownEstimator(Estimator[StrapdownState]):
    """Readings of one IMU in, estimates out: once it has lain still, or at once from a state that is given."""

    space = SPACE

    def __init__(self, configuration: Strapdown) -> None:
        self._configuration = configuration
        self._prediction = Prediction(configuration)

    def start(self, initial: Estimate | None) -> StrapdownState:
        """Waiting for the IMU to lie still; or at `initial`, from where on it may move, on ground that is not known."""
        state = StrapdownState(0, UNSEEN)
        if initial is None:
            return state
        given = as_given(Moments(*SPACE.moments(initial.mean, initial.covariance)), self._configuration)
        return _started(state, given, initial.stamp_ns, ())

    def step(self, state: StrapdownState, measurement: Measurement) -> Step:
        """Take a reading (6,): gyro x y z (rad/s), accelerometer x y z (m/s^2)."""
        filtered = state.filtered
        if filtered is None:
            return self._aligned(state, measurement)
        repetitions, first_of_equals = 0, None
        if filtered.start.stuck_after and _is_repetition(state.contact, measurement.value):
            repetitions, first_of_equals = state.repetitions + 1, state.first_of_equals or state
            if repetitions >= filtered.start.stuck_after:
                return _stuck(first_of_equals, repetitions, filtered.start.stuck_after, measurement)
        contact = detected(self._configuration.contact, state.contact, measurement.stamp_ns, measurement.value)
        before = filtered.trust.lost
        filtered, innovation, events = self._followed(state, filtered, contact.claim, measurement)
        if filtered.trust.lost is not None and before is None:
            contact = contact._replace(peak=0.0)  # which was none: contact is rest until there is another one
        stamp_ns, moments = measurement.stamp_ns, filtered.moments
        after = StrapdownState(stamp_ns, contact, (), filtered, repetitions, first_of_equals)
        estimate = Estimate(stamp_ns, moments.mean, filtered.trust.stated(moments))
        return Step(after, estimate, innovation, events)

    def _aligned(self, state: StrapdownState, measurement: Measurement) -> Step:
        """Before the start, or at it."""
        stamp_ns, reading = measurement.stamp_ns, measurement.value
        contact = detected(self._configuration.contact, state.contact, stamp_ns, reading)
        still, aligned = align(state.still, stamp_ns, reading, contact.claim.energy, self._configuration)
        state = StrapdownState(stamp_ns, contact, still)
        if aligned is None:
            return Step(state)
        return Step(_started(state, aligned, stamp_ns, ORIGIN), Estimate(stamp_ns, *aligned.moments))

    def _followed(
        self, state: StrapdownState, before: Filtered, claim: Claim, measurement: Measurement
    ) -> tuple[Filtered, Innovation | None, tuple[Event, ...]]:
        """The reading filtered, or a way found back to what there is to filter; events where it was lost."""
        imu, filtered, innovation = self._configuration.imu, before, None
        step_s = (measurement.stamp_ns - state.stamp_ns) / NANOSECONDS_PER_SECOND
        said = list[str]()
        if before.trust.lost is None:
            if step_s > imu.longest_gap_s:
                trust = before.trust.gone(step_s * imu.hidden_rate_stddev_rad_s)
                filtered = before._replace(ground=GroundState(()), trust=trust)
                said.append(
                    f"no readings of {measurement.sensor} for {step_s:.2f} s{_at(measurement)}: lost until it stands "
                    "on the ground, and the heading is uncertain from then on"
                )
            elif step_s > 0.0:  # not so for a first reading at the very start
                filtered, innovation, reason = self._filtered(state.contact, before, claim, measurement, step_s)
                if reason:
                    said.append(f"{reason}{_at(measurement)}: set upright, and the heading is uncertain from then on")
                if filtered.coverage.cut_off and not before.coverage.cut_off:
                    said.append(self._cut_off(filtered.coverage, measurement))
        events = tuple(map(Notice, said))
        return self._sought(filtered, measurement, claim), innovation, events

    def _cut_off(self, coverage: Coverage, measurement: Measurement) -> str:
        """What to say of the first axis that is seen to be cut off below its range."""
        axis = int(np.argmax(coverage.equal >= EQUAL_EXTREMES))
        what, unit, name = ("accelerometer", "m/s^2", "m_s2") if axis >= 3 else ("gyro", "rad/s", "rad_s")
        return (
            f"the {what} of {measurement.sensor} is cut off at {coverage.largest[axis]:.3g} {unit}{_at(measurement)}: "
            f"what it hides widens the uncertainty, set imu.{what}_range_{name}"
        )

    def health(self, state: StrapdownState) -> dict[str, float]:
        """Time since a contact that was believed, and the speed: a foot swings for a second or two, below 12 m/s."""
        if state.filtered is None:
            return {}
        since_s = (state.stamp_ns - state.filtered.refusals.believed_ns) / NANOSECONDS_PER_SECOND
        velocity = state.filtered.moments.mean[SPACE.coordinates("velocity")]
        return {"since_contact_s": since_s, "speed_m_s": float(np.linalg.norm(velocity))}

    def _filtered(
        self, earlier: ContactState, before: Filtered, claim: Claim, measurement: Measurement, step_s: float
    ) -> tuple[Filtered, Innovation | None, str]:
        """The state moved, corrected by what contact tells, and judged; why to set it upright, if at all."""
        stamp_ns, reading, known = measurement.stamp_ns, measurement.value, self._configuration
        start, moments, coverage, refusals, ground, trust = before
        if earlier.stamps_ns:
            coverage, moments = self._prediction.step(coverage, moments, earlier.readings[-1], reading, step_s)
        else:  # the first reading since a start that was given: how often readings come cannot be told yet
            _, moments = self._prediction.step(coverage, moments, reading, reading, step_s)
        innovation = None
        if claim.in_contact:
            at = stamp_ns, reading, step_s, claim
            refusals, moments, innovation = stand_still(known, refusals, moments, *at)
            if innovation.accepted and claim.at_rest:
                moments = turn_nowhere(known.contact, moments, reading, step_s, claim)
            if innovation.accepted and known.ground.enabled:
                rules = known.ground, known.contact.release_s
                ground, moments = stand_on(*rules, ground, moments, stamp_ns, claim.rate_rms)
        trust, reason = trust.judged(moments, measurement, claim, innovation)
        return Filtered(start, moments, coverage, refusals, ground, trust), innovation, reason

    def _sought(self, filtered: Filtered, measurement: Measurement, claim: Claim) -> Filtered:
        """Where it is lost: found again on the ground, or further away than before."""
        lost, stamp_ns, mean = filtered.trust.lost, measurement.stamp_ns, filtered.moments.mean
        if lost is None:
            return filtered
        if not (claim.in_contact and is_flat(claim)):
            return filtered._replace(moments=unknown(lost, stamp_ns, mean, self._configuration))
        seen = measurement.value, claim.deviation_rms
        moments = found(lost, stamp_ns, mean, *seen, filtered.start, self._configuration)
        trust = Trust(stamp_ns, moments, turned_at=moments.mean[POSITION : POSITION + 3])
        return filtered._replace(moments=moments, refusals=Refusals(stamp_ns), trust=trust)


def _at(measurement: Measurement) -> str:
    return f", at {measurement.stamp_ns / NANOSECONDS_PER_SECOND:.3f} s"


def _started(state: StrapdownState, aligned: Aligned, stamp_ns: int, levels: Levels) -> StrapdownState:
    """Believed as it is, on ground of those levels."""
    moments, coverage = aligned.moments, Coverage(aligned.typical_step_s)
    kept = coverage, Refusals(stamp_ns), GroundState(levels), Trust(stamp_ns, moments)
    contact = state.contact.calibrated(aligned.gyro_bias, aligned.specific_force_m_s2)
    return StrapdownState(stamp_ns, contact, (), Filtered(aligned, moments, *kept))


def _is_repetition(contact: ContactState, reading: Vector) -> bool:
    """Whether the reading equals the last one."""
    last = contact.readings[-1:]
    return bool(len(last) and reading[5] == last[0, 5] and np.array_equal(reading, last[0]))


def _stuck(before: StrapdownState, repetitions: int, stuck_after: int, measurement: Measurement) -> Step:
    """Back before the first of the equal readings, and so for as long as they come; said once."""
    events: tuple[Event, ...] = ()
    if repetitions == stuck_after:
        sentence = (
            f"{repetitions + 1} equal readings in a row of {measurement.sensor}, at "
            f"{measurement.stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: stuck, left out until they change"
        )
        events = (Notice(sentence),)
    return Step(before._replace(repetitions=repetitions, first_of_equals=before), events=events, used=False)
