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

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.estimator import Estimator, Event, Step
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.moments import Moments, predict
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Notice, Vector
from strapdown_estimation import model
from strapdown_estimation.alignment import Aligned, StillReadings, align, as_given
from strapdown_estimation.configuration import Imu, Strapdown
from strapdown_estimation.contact import (
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
from strapdown_estimation.loss import Trust, found, is_flat, unknown
from strapdown_estimation.model import POSITION, SPACE, attitude, move_with_noise

# The state moved by the readings at both ends of a step, and its covariance with what moves without being measured.

# A rotation that is less certain than this is not known at all.
_UNKNOWN_ANGLE_RAD = 1.0


_SATURATED = 0.99


def hidden_motion(
    rotation: Matrix, change: Vector, step_s: float, lost_s: float, beyond: NDArray[np.int64], imu: Imu
) -> Matrix:
    """(18, 18) covariance of motion that was not measured: `lost_s` seconds of a step, axes beyond their range.

    Of a lost reading one knows that it lay about between its neighbours; of a longer gap, nothing. What a saturated
    axis hides has one sign while it lasts: after n steps its variance is n^2 times that of one.

    Parameters
    ----------
    rotation
        (3, 3) from the IMU to the world.
    change
        (6,) size of the change of the reading over the step: rad/s, m/s^2.
    beyond
        (6,) for how many readings each axis has been beyond its range.
    """
    angle, speed = 0.5 * lost_s * float(change[:3].max()), 0.5 * lost_s * float(change[3:].max())
    if lost_s > imu.largest_step_s:
        angle, speed = lost_s * imu.hidden_rate_stddev_rad_s, lost_s * imu.hidden_acceleration_stddev_m_s2
    growth = np.maximum(2 * beyond - 1, 0)
    angles = angle**2 + growth[:3] * (step_s * imu.hidden_rate_stddev_rad_s) ** 2
    speeds = speed**2 + growth[3:] * (step_s * imu.hidden_acceleration_stddev_m_s2) ** 2
    noise = steady((rotation * speeds) @ rotation.T, step_s)
    turn = slice(model.ATTITUDE, model.ATTITUDE + 3)
    noise[turn, turn] = np.diag(np.minimum(angles, _UNKNOWN_ANGLE_RAD**2))
    return noise


def steady(speeds: Matrix, duration_s: float) -> Matrix:
    """(18, 18) covariance of an unknown steady acceleration.

    `speeds` (3, 3) is the covariance of the velocity that it adds in `duration_s` seconds, along the world's axes.
    """
    noise = np.zeros((model.DIMENSION, model.DIMENSION))
    p, v = slice(model.POSITION, model.POSITION + 3), slice(model.VELOCITY, model.VELOCITY + 3)
    noise[v, v] = speeds
    noise[p, v] = noise[v, p] = 0.5 * duration_s * speeds
    noise[p, p] = (0.5 * duration_s) ** 2 * speeds
    return noise


class Coverage(NamedTuple):
    """How completely the readings have shown the motion.

    Attributes
    ----------
    typical_step_s
        Between two readings none of which is lost; infinite as long as it is not known.
    beyond
        (6,) for how many readings each axis has been beyond its range.
    """

    typical_step_s: float
    beyond: NDArray[np.int64]


class Prediction:
    """Readings go in, moved moments come out.

    Parameters
    ----------
    configuration
        See `Strapdown`.
    """

    def __init__(self, configuration: Strapdown) -> None:
        imu = self._imu = configuration.imu
        self._gravity_m_s2 = configuration.start.gravity_m_s2
        self._noise = np.array(
            [
                imu.acceleration_noise_m_s2_sqrt_hz,
                imu.rate_noise_rad_s_sqrt_hz,
                imu.acceleration_noise_share_sqrt_hz,
                imu.rate_noise_share_sqrt_hz,
                imu.accelerometer_bias_walk_m_s2_sqrt_s,
                imu.gyro_bias_walk_rad_s_sqrt_s,
                configuration.contact.lever_arm_walk_m_sqrt_s,
            ]
        )
        self._range = np.repeat([imu.gyro_range_rad_s, imu.accelerometer_range_m_s2], 3) * _SATURATED

    def step(
        self, coverage: Coverage, moments: Moments, before: Vector, reading: Vector, step_s: float
    ) -> tuple[Coverage, Moments]:
        """Moved by the readings (6,) at both ends of the step, long steps in pieces."""
        typical_s, beyond_for = coverage
        pieces = max(1, math.ceil(step_s / self._imu.largest_step_s - 1e-9))
        begin, change = before, (reading - before) / pieces
        for _ in range(pieces):
            end = begin + change if pieces > 1 else reading
            moved = move_with_noise(moments.mean, begin, end, step_s / pieces, self._gravity_m_s2, self._noise)
            moments = predict(moments, *moved)
            begin = end
        beyond = (np.abs(reading) >= self._range) | (np.abs(before) >= self._range)
        if beyond.any() or beyond_for.any():
            beyond_for = np.where(beyond, beyond_for + 1, 0)
        lost_s = step_s - typical_s if step_s > 1.5 * typical_s else 0.0
        if lost_s > 0.0 or beyond.any():
            size = np.abs(reading - before)
            hidden = hidden_motion(attitude(moments.mean), size, step_s, lost_s, beyond_for, self._imu)
            moments = Moments(moments.mean, moments.covariance + hidden)
        if math.isinf(typical_s):
            typical_s = step_s
        return Coverage(typical_s + 0.02 * (min(step_s, 2.0 * typical_s) - typical_s), beyond_for), moments


_NOT_BEYOND = np.zeros(6, dtype=np.int64)


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
        filtered, innovation, events = self._followed(state, filtered, contact.claim, measurement)
        if events:
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
        reason, turned_rad = "", math.inf
        if before.trust.lost is None:
            if step_s > imu.longest_gap_s:
                turned_rad = step_s * imu.hidden_rate_stddev_rad_s
                reason = f"no readings of {measurement.sensor} for {step_s:.2f} s"
            elif step_s > 0.0:  # not so for a first reading at the very start
                filtered, innovation, reason = self._filtered(state.contact, before, claim, measurement, step_s)
        events: tuple[Event, ...] = ()
        if reason:
            filtered = filtered._replace(ground=GroundState(()), trust=filtered.trust.gone(turned_rad))
            sentence = (
                f"{reason}, at {measurement.stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: lost until it stands on the "
                "ground, and the heading is uncertain from then on"
            )
            events = (Notice(sentence),)
        return self._sought(filtered, measurement, claim), innovation, events

    def _filtered(
        self, earlier: ContactState, before: Filtered, claim: Claim, measurement: Measurement, step_s: float
    ) -> tuple[Filtered, Innovation | None, str]:
        """The state moved, corrected by what contact tells, and judged; why it is to be lost, empty where it is not."""
        stamp_ns, reading, known = measurement.stamp_ns, measurement.value, self._configuration
        start, moments, coverage, refusals, ground, trust = before
        if earlier.stamps_ns:
            coverage, moments = self._prediction.step(coverage, moments, earlier.readings[-1], reading, step_s)
        else:  # the first reading since a start that was given: how often readings come cannot be told yet
            _, moments = self._prediction.step(coverage, moments, reading, reading, step_s)
        innovation = None
        if claim.in_contact:
            refusals, moments, innovation = stand_still(
                known.contact, refusals, moments, stamp_ns, reading, step_s, claim
            )
            if innovation.accepted and claim.at_rest:
                moments = turn_nowhere(known.contact, moments, reading, step_s, claim)
            if innovation.accepted and known.ground.enabled:
                ground, moments = stand_on(
                    known.ground, known.contact.release_s, ground, moments, stamp_ns, claim.rate_rms
                )
        trust, reason = trust.judged(moments, measurement, claim, innovation)
        return Filtered(start, moments, coverage, refusals, ground, trust), innovation, reason

    def _sought(self, filtered: Filtered, measurement: Measurement, claim: Claim) -> Filtered:
        """Where it is lost: found again on the ground, or further away than before."""
        lost, stamp_ns, mean = filtered.trust.lost, measurement.stamp_ns, filtered.moments.mean
        if lost is None:
            return filtered
        if not (claim.in_contact and is_flat(claim)):
            return filtered._replace(moments=unknown(lost, stamp_ns, mean, self._configuration))
        moments = found(
            lost, stamp_ns, mean, measurement.value, claim.deviation_rms, filtered.start, self._configuration
        )
        trust = Trust(stamp_ns, moments, turned_at=moments.mean[POSITION : POSITION + 3])
        return filtered._replace(moments=moments, refusals=Refusals(stamp_ns), trust=trust)


def _started(state: StrapdownState, aligned: Aligned, stamp_ns: int, levels: Levels) -> StrapdownState:
    """Believed as it is, on ground of those levels."""
    moments = aligned.moments
    return state._replace(
        stamp_ns=stamp_ns,
        contact=state.contact.calibrated(aligned.gyro_bias, aligned.specific_force_m_s2),
        still=(),
        filtered=Filtered(
            aligned,
            moments,
            Coverage(aligned.typical_step_s, _NOT_BEYOND),
            Refusals(stamp_ns),
            GroundState(levels),
            Trust(stamp_ns, moments),
        ),
    )


def _is_repetition(contact: ContactState, reading: Vector) -> bool:
    """Whether the reading equals the last one."""
    if not contact.stamps_ns:
        return False
    last = contact.readings[-1]
    return bool(reading[5] == last[5] and np.array_equal(reading, last))


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
