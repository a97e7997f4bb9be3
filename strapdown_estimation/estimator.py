"""Error-state Kalman filter of a strapped-down IMU that stands on the ground at times.

Per reading: the state moves by the reading (eqs. (3) to (7), `strapdown_model`), the contact detector looks at the last
few readings, and in contact up to three measurements are inferred (the paper's IMUPTs):

- the point of contact has no velocity, behind a gate: in a slow lift a contact can be claimed falsely;
- at rest, the rotation is zero but for a person's swaying;
- the height is that of a level stood on before, or of new ground (`ground_levels`).

Readings that are missing for long, stuck, or in contradiction to gravity and contact make the filter lost until the IMU
stands again: see `strapdown_loss`. Everything is causal and without lag.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.gating import Innovation, gate_threshold
from onboard_estimation.filtering.kalman import ErrorStateFilter, innovation_root, normalised_square
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Measurement, Vector
from onboard_estimation.pipeline import Estimator
from strapdown_estimation.alignment import align_at_rest
from strapdown_estimation.configuration import Strapdown
from strapdown_estimation.contact_detection import ContactDetector, ContactState
from strapdown_estimation.ground_levels import GroundLevels, height_noise
from strapdown_estimation.hidden_motion import hidden_motion, steady
from strapdown_estimation.loss import (
    CONTRADICTING_READINGS,
    Lost,
    anchor_at,
    contradicts,
    found,
    is_flat,
    lost_at,
    unknown,
    with_turned_path,
)
from strapdown_estimation.model import (
    DIMENSION,
    GYRO_BIAS,
    POSITION,
    SPACE,
    VELOCITY,
    attitude,
    contact_velocity,
    move_with_noise,
)

_HEIGHT = POSITION + 2
_CLIMB = VELOCITY + 2
_BIAS = SPACE.coordinates("gyro_bias")
_RATE_JACOBIAN = np.zeros((3, DIMENSION))
_RATE_JACOBIAN[:, GYRO_BIAS : GYRO_BIAS + 3] = np.eye(3)
_HEIGHT_JACOBIAN = np.zeros((1, DIMENSION))
_HEIGHT_JACOBIAN[0, _HEIGHT] = 1.0
_IDENTITY = np.eye(3)
_SATURATED = 0.99


class _Standing(NamedTuple):
    """The contact that goes on.

    Attributes
    ----------
    until_ns
        Last reading at which it was believed.
    level
        `_UNKNOWN` while the foot settles, then `_KNOWN` on a level stood on before, or `_NEW`: its height becomes one.
    flattest
        Least rotation seen in it, rad/s.
    """

    until_ns: int
    level: int
    flattest: float


_UNKNOWN, _KNOWN, _NEW = range(3)


class _Believed(NamedTuple):
    """The filter when the ground last agreed with it: kept at every such reading, made an `Anchor` of when it is lost.

    Attributes
    ----------
    turned_at
        Where the heading became uncertain, see `with_turned_path`; None: nowhere.
    """

    stamp_ns: int
    mean: Vector
    covariance: Matrix
    turned_at: Vector | None


_STATE = (
    "contact",
    "_still",
    "_stamp_ns",
    "_reading",
    "_typical_step_s",
    "_beyond",
    "_levels",
    "_standing",
    "_believed_ns",
    "_refused_s",
    "_start_biases",
    "_stuck_after",
    "_equal",
    "_before_equal",
    "_believed",
    "_lost",
    "_turned_at",
    "_contradictions",
)
"""What readings change, beside the filter and the detector; all of it values, never written."""


class StrapdownEstimator(Estimator):
    """Readings of one IMU in, estimates out once it has lain still.

    Attributes
    ----------
    contact
        What the detector said of the last reading; None before the first.
    """

    space = SPACE

    def __init__(self, configuration: Strapdown) -> None:
        super().__init__()
        self.configuration = configuration
        self._detector = ContactDetector(configuration.contact)
        imu = configuration.imu
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
        self._gate = gate_threshold(configuration.contact.gate_probability, 3)
        self.reset()

    def reset(self) -> None:
        """Forget all readings: the IMU has to lie still again."""
        self.contact: ContactState | None = None
        self._detector.reset()
        self._filter: ErrorStateFilter | None = None
        self._still: tuple[tuple[int, Vector], ...] = ()
        self._stamp_ns = 0
        self._reading: Vector = np.zeros(6)
        self._typical_step_s = math.inf
        self._beyond: NDArray[np.int64] = np.zeros(6, dtype=np.int64)
        self._levels = GroundLevels(largest_count=self.configuration.ground.largest_count)
        self._standing: _Standing | None = None
        self._believed_ns = 0
        self._refused_s = 0.0
        self._start_biases: Vector = np.zeros(6)
        self._stuck_after = 0
        self._equal = 0
        self._before_equal: tuple[Any, ...] | None = None
        self._believed: _Believed | None = None
        self._lost: Lost | None = None
        self._turned_at: Vector | None = None
        self._contradictions = 0

    def snapshot(self) -> tuple[Any, ...]:
        """All state that `apply` changes."""
        moments = None if self._filter is None else (self._filter.mean, self._filter.covariance)
        return moments, self._detector.snapshot(), *(getattr(self, name) for name in _STATE)

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Return to a snapshot."""
        moments, detector, *rest = snapshot
        if moments is None:
            self._filter = None
        else:
            self._filter = self._filter or ErrorStateFilter(SPACE, *moments)
            self._filter.mean, self._filter.covariance = moments
        self._detector.restore(detector)
        for name, value in zip(_STATE, rest, strict=True):
            setattr(self, name, value)

    def apply(self, measurement: Measurement) -> Estimate | None:
        """Take a reading (6,): gyro x y z (rad/s), accelerometer x y z (m/s^2)."""
        stamp, reading = measurement.stamp_ns, measurement.value
        if self._is_stuck(measurement):
            self.left_out = True
            return None
        step = (stamp - self._stamp_ns) / NANOSECONDS_PER_SECOND
        self.contact = self._detector.add(stamp, reading)
        if self._filter is None:
            self._filter = self._align(stamp, reading, self.contact)
        else:
            self._go_on(self._filter, measurement, step, self.contact)
        self._stamp_ns, self._reading = stamp, reading
        if self._filter is None:
            return None
        return Estimate(stamp, self._filter.mean, self._stated_covariance(self._filter))

    def _stated_covariance(self, kalman: ErrorStateFilter) -> Matrix:
        """The filter's, with what it has no place for."""
        if self._turned_at is None or self._lost is not None:
            return kalman.covariance
        return with_turned_path(self._turned_at, kalman.mean, kalman.covariance)

    def _go_on(self, kalman: ErrorStateFilter, measurement: Measurement, step: float, contact: ContactState) -> None:
        """Filter a reading, or find back to what there is to filter."""
        stamp, reading = measurement.stamp_ns, measurement.value
        if self._lost is None and step > self.configuration.imu.longest_gap_s:
            turned = step * self.configuration.imu.hidden_rate_stddev_rad_s
            self._lose(measurement, turned, f"no readings of {measurement.sensor} for {step:.2f} s")
        if self._lost is None:
            self._predict(kalman, reading, step)
            self._correct(kalman, stamp, reading, step, contact)
            self._doubt(kalman, measurement, contact)
        if self._lost is None:
            return
        if contact.in_contact and is_flat(contact.deviation_rms, contact.rate_rms):
            kalman.mean, kalman.covariance = found(
                self._lost,
                stamp,
                kalman.mean,
                reading,
                contact.deviation_rms,
                self._start_biases,
                self.configuration,
            )
            self._turned_at = kalman.mean[POSITION : POSITION + 3].copy()
            self._believed = _Believed(stamp, kalman.mean, kalman.covariance, None)
            self._lost, self._believed_ns, self._refused_s = None, stamp, 0.0
        else:
            kalman.mean, kalman.covariance = unknown(self._lost, stamp, kalman.mean, self.configuration)

    def _doubt(self, kalman: ErrorStateFilter, measurement: Measurement, contact: ContactState) -> None:
        """Be lost where an IMU on the ground contradicts the state, reading after reading."""
        if not contact.in_contact:
            self._contradictions = 0
            return
        seen = self.last_innovation
        if seen is None or not is_flat(contact.deviation_rms, contact.rate_rms):
            return
        speed = float(np.linalg.norm(seen.value))
        if seen.inflation > 1.0 and not contact.at_rest:
            self._contradictions = CONTRADICTING_READINGS
        elif contradicts(kalman.mean, measurement.value, seen.accepted, speed):
            self._contradictions += 1
        else:
            self._contradictions = 0
            if seen.accepted:
                self._believed = _Believed(measurement.stamp_ns, kalman.mean, kalman.covariance, self._turned_at)
        if self._contradictions >= CONTRADICTING_READINGS:
            self._lose(
                measurement, math.inf, f"the ground contradicts {measurement.sensor}, by {speed:.2g} m/s or in its tilt"
            )

    def _lose(self, measurement: Measurement, turned_rad: float, reason: str) -> None:
        """Go back to what was last believed, heading aside."""
        assert self._believed is not None  # since the alignment
        stamp_ns, mean, covariance, turned_at = self._believed
        stated = covariance if turned_at is None else with_turned_path(turned_at, mean, covariance)
        self._lost = lost_at(anchor_at(stamp_ns, mean, stated), turned_rad)
        self._contradictions = 0
        self._standing = None
        self._levels = GroundLevels((), self.configuration.ground.largest_count)
        self._detector.forget_peak()
        self.notice = (
            f"{reason}, at {measurement.stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: lost until it stands on the ground, "
            "and the heading is uncertain from then on"
        )

    def _is_stuck(self, measurement: Measurement) -> bool:
        """Whether the reading is one of many that are equal; those before it are taken back."""
        value, last = measurement.value, self._reading
        if self._stuck_after == 0 or value[5] != last[5] or not np.array_equal(value, last):
            self._equal, self._before_equal = 0, None
            return False
        if self._equal == 0:
            self._before_equal = self.snapshot()
        self._equal += 1
        if self._equal == self._stuck_after and self._before_equal is not None:
            self.restore(self._before_equal)
            self._equal = self._stuck_after
            self.notice = (
                f"{self._equal + 1} equal readings in a row of {measurement.sensor}, at "
                f"{measurement.stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: stuck, left out until they change"
            )
        return self._equal >= self._stuck_after

    def _align(self, stamp: int, reading: Vector, contact: ContactState) -> ErrorStateFilter | None:
        """Collect readings at rest; enough of them start the filter."""
        p = self.configuration
        self._still = () if contact.energy >= p.contact.rest_energy_rad_s else (*self._still, (stamp, reading))
        duration = (stamp - self._still[0][0]) / NANOSECONDS_PER_SECOND if self._still else 0.0
        if duration < p.start.duration_s:
            return None
        readings = np.array([one for _, one in self._still])
        self._still = ()
        gyro, force = readings[:, :3], readings[:, 3:]
        # A steady turn does not fluctuate: it shows as a bias that no gyro has.
        if np.abs(gyro.mean(axis=0)).max() > 5.0 * math.hypot(p.imu.gyro_bias_stddev_rad_s, gyro.std(axis=0).max()):
            return None
        mean, covariance = align_at_rest(gyro, force, duration, p)
        self._start_biases = np.concatenate([mean[SPACE.coordinates("accelerometer_bias")], mean[_BIAS]])
        equal = _longest_run(readings)
        self._stuck_after = 0 if equal > p.imu.stuck_readings else p.imu.stuck_readings * equal
        self._believed = _Believed(stamp, mean, covariance, None)
        self._detector.calibrate(mean[_BIAS], float(np.linalg.norm(force.mean(axis=0))))
        self._believed_ns = stamp
        self._typical_step_s = duration / (len(readings) - 1)
        return ErrorStateFilter(SPACE, mean, covariance)

    def _predict(self, kalman: ErrorStateFilter, reading: Vector, step: float) -> None:
        """Move the state by the readings at both ends of the step, long steps in pieces."""
        imu, gravity = self.configuration.imu, self.configuration.start.gravity_m_s2
        pieces = max(1, math.ceil(step / imu.largest_step_s - 1e-9))
        begin, change = self._reading, (reading - self._reading) / pieces
        for _ in range(pieces):
            end = begin + change if pieces > 1 else reading
            kalman.predict(*move_with_noise(kalman.mean, begin, end, step / pieces, gravity, self._noise))
            begin = end
        beyond = (np.abs(reading) >= self._range) | (np.abs(self._reading) >= self._range)
        if beyond.any() or self._beyond.any():
            self._beyond = np.where(beyond, self._beyond + 1, 0)
        lost = step - self._typical_step_s if step > 1.5 * self._typical_step_s else 0.0
        if lost > 0.0 or beyond.any():
            size = np.abs(reading - self._reading)
            hidden = hidden_motion(attitude(kalman.mean), size, step, lost, self._beyond, imu)
            kalman.covariance = kalman.covariance + hidden
        self._typical_step_s += 0.02 * (min(step, 2.0 * self._typical_step_s) - self._typical_step_s)

    def _correct(
        self, kalman: ErrorStateFilter, stamp: int, reading: Vector, step: float, contact: ContactState
    ) -> None:
        """What contact tells, where there is contact."""
        release = round(self.configuration.contact.release_s * NANOSECONDS_PER_SECOND)
        if self._standing is not None and stamp - self._standing.until_ns > release:
            self._standing = None
        if not contact.in_contact:
            return
        self.last_innovation = self._stand_still(kalman, stamp, reading, step, contact)
        if not self.last_innovation.accepted:
            self._refused_s += step
            return
        self._believed_ns, self._refused_s = stamp, 0.0
        if contact.at_rest:
            self._rest(kalman, reading, step, contact)
        if self.configuration.ground.enabled:
            self._stand_on_ground(kalman, stamp, contact)

    def _stand_still(
        self, kalman: ErrorStateFilter, stamp: int, reading: Vector, step: float, contact: ContactState
    ) -> Innovation:
        """Zero velocity of the point of contact, behind the gate.

        Refused for too long, the velocity is doubted instead of the contact: it is wrong by as much as the innovation
        says, and that error has grown since the last contact, so that the position is wrong in proportion.
        """
        p = self.configuration.contact
        velocity, jacobian = contact_velocity(kalman.mean, reading)
        variance = (
            p.speed_stddev_m_s**2
            + (p.speed_per_rate_m * contact.rate_rms) ** 2
            + (p.speed_per_deviation_s * contact.deviation_rms) ** 2
        )
        innovation = self._judge(kalman, -velocity, jacobian, variance)
        if not innovation.accepted:
            if self._refused_s < (p.recover_at_rest_s if contact.at_rest else p.recover_moving_s):
                return innovation
            since = (stamp - self._believed_ns) / NANOSECONDS_PER_SECOND
            kalman.covariance = kalman.covariance + steady((velocity @ velocity) * _IDENTITY, since)
            inflation = innovation.nis / self._gate
            again = self._judge(kalman, -velocity, jacobian, variance)
            innovation = replace(again, accepted=True, inflation=inflation)
        noise = variance * _samples_as_one(p.speed_correlation_s, step)
        kalman.update(-velocity, jacobian, noise * _IDENTITY)
        return innovation

    def _judge(self, kalman: ErrorStateFilter, value: Vector, jacobian: Matrix, variance: float) -> Innovation:
        root = innovation_root(kalman.covariance, jacobian, variance * _IDENTITY)
        nis = normalised_square(root, value)
        return Innovation(value, root, nis, nis <= self._gate)

    def _rest(self, kalman: ErrorStateFilter, reading: Vector, step: float, contact: ContactState) -> None:
        """Zero rotation: what the gyro reads at rest is its bias, but for a person's swaying.

        The swaying is taken as large as the gyro shows it, noise included, and as slow as configured.
        """
        correlation = self.configuration.contact.sway_correlation_s
        variance = contact.rate_rms**2 / 3.0 * _samples_as_one(correlation, step)
        kalman.update(reading[:3] - kalman.mean[_BIAS], _RATE_JACOBIAN, variance * _IDENTITY)

    def _stand_on_ground(self, kalman: ErrorStateFilter, stamp: int, contact: ContactState) -> None:
        """Height of the level that the foot is on, or a new level."""
        p = self.configuration.ground
        height = float(kalman.mean[_HEIGHT])
        variance = float(kalman.covariance[_HEIGHT, _HEIGHT])
        unevenness = math.hypot(p.unevenness_m, p.height_per_rate_m_s * contact.rate_rms)
        _, state, flattest = self._standing or _Standing(stamp, _UNKNOWN, math.inf)
        settled = kalman.covariance[_CLIMB, _CLIMB] <= p.settled_speed_m_s**2
        if state == _UNKNOWN and settled:
            index = self._levels.match(height, variance, unevenness, p.gate_probability)
            self._levels = self._levels.with_new(height, variance) if index is None else self._levels.used(index)
            state = _NEW if index is None else _KNOWN
        if state == _NEW and contact.rate_rms <= flattest:
            self._levels = self._levels.with_last_at(height, variance)
        if state == _KNOWN:
            level = self._levels.levels[-1]
            noise = height_noise(variance, level.variance + unevenness**2)
            if noise is not None:
                kalman.update(np.array([level.height - height]), _HEIGHT_JACOBIAN, np.array([[noise]]))
        self._standing = _Standing(stamp, state, min(flattest, contact.rate_rms))


def _longest_run(readings: Matrix) -> int:
    """Most equal readings (N, 6) in a row: 1 where all differ from the one before."""
    changes = np.flatnonzero(np.append(True, (readings[1:] != readings[:-1]).any(axis=1)))
    return int(np.diff(np.append(changes, len(readings))).max())


def _samples_as_one(correlation_s: float, step: float) -> float:
    """Factor on a noise variance that makes samples `step` seconds apart count as often as they are independent."""
    return max(1.0, 2.0 * correlation_s / step)
