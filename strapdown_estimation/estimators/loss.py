"""What is left to know where readings were missing, wrong or contradictory, and how the filter finds back.

An error-state filter is linear about its estimate: with an attitude that may be wrong by a radian, its covariance means
nothing. So the estimate of a filter that is lost stands still where it was last believed, with a covariance that grows
as fast as feet move, until the IMU stands on the ground. Gravity then gives the tilt, contact the velocity. The heading
is lost as far as it may have turned: nothing on board tells it. What the ground contradicts by no more than a foot can
do is not put back: it stands where it has come to, less what its velocity was wrong by.

A heading error t turns the path walked since, d, by 1 - cos t along it, which is no linear error: the filter has no
place for it. What it publishes gets it added, (E[(1 - cos t)^2] d d^T for the position.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Matrix, Measurement, Vector
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.moments import Moments
from strapdown_estimation.estimators.alignment import Aligned
from strapdown_estimation.estimators.contact import Claim
from strapdown_estimation.model import state as model
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.model.state import attitude

UNKNOWN_ANGLE_VARIANCE = math.pi**2 / 3.0
"""Of an angle that may be anything, rad^2."""
_CONTRADICTING_READINGS = 5
"""So many readings on the ground that contradict the state, one after another, are believed."""
_CONTRADICTING_TILT_RAD = 0.7
"""Gravity further off than this is no heel that rolls: 0.4 rad is the most in walks that are well."""
_CONTRADICTING_SPEED_M_S = 2.5
"""The same for the speed of a foot on the ground: 2.1 m/s is the most, for one reading."""
_FASTEST_M_S = 12.0
"""A velocity wrong by more than a runner's foot swings with is no drift: the path since is worth nothing."""
_FLAT_M_S2 = 2.0
_FLAT_RAD_S = 1.0
_LEAST_TILT_STDDEV_RAD = 0.05
_LEAST_SPEED_STDDEV_M_S = 0.1
_P = slice(model.POSITION, model.POSITION + 3)


class Lost(NamedTuple):
    """What a lost filter goes back to.

    Attributes
    ----------
    since_ns
        When the state was last believed.
    position, variance
        (3,) and (3, 3): then.
    heading_variance
        Of the heading once it is found again, rad^2.
    """

    since_ns: int
    position: Vector
    variance: Matrix
    heading_variance: float


class Trust(NamedTuple):
    """How far the ground agrees with the filter.

    Attributes
    ----------
    believed_ns, believed
        When it last did, and the state then.
    turned_at
        (3,) where the heading became uncertain, see `with_turned_path`; None: nowhere.
    contradictions
        Readings on the ground in a row that contradicted the state.
    lost
        What there is to go back to; None: it is not lost.
    """

    believed_ns: int
    believed: Moments
    turned_at: Vector | None = None
    contradictions: int = 0
    lost: Lost | None = None

    def stated(self, moments: Moments) -> Matrix:
        """The covariance, with what the filter has no place for."""
        if self.turned_at is None or self.lost is not None:
            return moments.covariance
        return with_turned_path(self.turned_at, *moments)

    def judged(
        self, moments: Moments, measurement: Measurement, claim: Claim, innovation: Innovation | None
    ) -> tuple[Trust, str]:
        """With the next reading, what was claimed and what came of it; and why to be set upright, empty where not.

        A velocity that is wrong by less is no reason: contacts correct it, and the position with it.
        """
        if not claim.in_contact:
            return (self if self.contradictions == 0 else self._replace(contradictions=0)), ""
        if innovation is None or not is_flat(claim):
            return self, ""
        tilt_rad, speed_m_s = tilted(moments.mean, measurement.value), float(np.linalg.norm(innovation.value))
        if tilt_rad <= _CONTRADICTING_TILT_RAD and (innovation.accepted or speed_m_s <= _CONTRADICTING_SPEED_M_S):
            if innovation.accepted:
                return Trust(measurement.stamp_ns, moments, self.turned_at), ""
            return self._replace(contradictions=0), ""
        if self.contradictions + 1 < _CONTRADICTING_READINGS:
            return self._replace(contradictions=self.contradictions + 1), ""
        reason = (
            f"the ground contradicts {measurement.sensor}, by {speed_m_s:.2g} m/s and {math.degrees(tilt_rad):.0f} deg"
        )
        if innovation.accepted or speed_m_s > _FASTEST_M_S:
            return self.gone(math.inf), reason
        return self._come_to(measurement.stamp_ns, moments, innovation), reason

    def _come_to(self, stamp_ns: int, moments: Moments, innovation: Innovation) -> Trust:
        """Lost, but where it has come to, less what its velocity is wrong by; as unsure as that is much."""
        since_s = (stamp_ns - self.believed_ns) / NANOSECONDS_PER_SECOND
        error = 0.5 * since_s * (attitude(moments.mean) @ innovation.value)
        lost = self._last_believed(math.inf)
        variance = lost.variance + float(error @ error) * np.eye(3)
        return self._replace(contradictions=0, lost=lost._replace(position=moments.mean[_P] + error, variance=variance))

    def gone(self, turned_rad: float) -> Trust:
        """Lost since it was last believed; the heading may have turned by so much (standard deviation)."""
        return self._replace(contradictions=0, lost=self._last_believed(turned_rad))

    def _last_believed(self, turned_rad: float) -> Lost:
        stated = self.stated(self.believed)
        variance = heading_variance(self.believed.mean, stated) + turned_rad**2
        return Lost(self.believed_ns, self.believed.mean[_P], stated[_P, _P], min(variance, UNKNOWN_ANGLE_VARIANCE))


def heading_variance(mean: Vector, covariance: Matrix) -> float:
    """Variance of a turn about the vertical, rad^2."""
    up = attitude(mean)[2]
    return float(up @ covariance[model.ATTITUDE : model.ATTITUDE + 3, model.ATTITUDE : model.ATTITUDE + 3] @ up)


def is_flat(claim: Claim) -> bool:
    """Whether an IMU in contact moves so little that its accelerometer shows where up is."""
    return claim.deviation_rms < _FLAT_M_S2 and claim.rate_rms < _FLAT_RAD_S


def tilted(mean: Vector, reading: Vector) -> float:
    """Angle, rad, between up by the state and up by the reading (6,) of an IMU that lies flat."""
    force = reading[IMU.linear_acceleration]
    upwards = float(attitude(mean)[2] @ force) / max(float(np.linalg.norm(force)), 1e-9)
    return math.acos(min(max(upwards, -1.0), 1.0))


def unknown(lost: Lost, stamp_ns: int, mean: Vector, configuration: Strapdown) -> Moments:
    """State of a filter that is lost: where it was, as far as it may have come."""
    imu = configuration.imu
    elapsed_s = (stamp_ns - lost.since_ns) / NANOSECONDS_PER_SECOND
    moved = (imu.hidden_speed_stddev_m_s * elapsed_s) ** 2
    state = mean.copy()
    for name, value in (("position", lost.position), ("velocity", 0.0), ("lever_arm", 0.0)):
        state[model.SPACE.coordinates(name)] = value
    covariance = model.block_diagonal(
        position=lost.variance + moved * np.eye(3),
        velocity=imu.hidden_speed_stddev_m_s**2 * np.eye(3),
        attitude=UNKNOWN_ANGLE_VARIANCE * np.eye(3),
        accelerometer_bias=imu.accelerometer_bias_stddev_m_s2**2 * np.eye(3),
        gyro_bias=imu.gyro_bias_stddev_rad_s**2 * np.eye(3),
        lever_arm=configuration.contact.lever_arm_stddev_m**2 * np.eye(3),
    )
    return Moments(state, covariance)


def found(
    lost: Lost, stamp_ns: int, mean: Vector, reading: Vector, deviation_rms: float, start: Aligned, p: Strapdown
) -> Moments:
    """State of a filter whose IMU lies flat on the ground, by its reading (6,).

    Biases are those of the start: bad readings may have spoilt the estimated ones.
    """
    state, covariance = unknown(lost, stamp_ns, mean, p)
    state[model.SPACE.coordinates("accelerometer_bias")] = start.accelerometer_bias
    state[model.SPACE.coordinates("gyro_bias")] = start.gyro_bias
    turn = Rotation.from_quat(mean[model.QUATERNION : model.QUATERNION + 4])
    up = turn.apply(reading[IMU.linear_acceleration] - start.accelerometer_bias)
    level, _ = Rotation.align_vectors(np.array([[0.0, 0.0, 1.0]]), up[None] / np.linalg.norm(up))
    rotation = level * turn
    state[model.QUATERNION : model.QUATERNION + 4] = rotation.as_quat()
    tilt = _LEAST_TILT_STDDEV_RAD**2 + (deviation_rms / p.start.gravity_m_s2) ** 2
    vertical = np.outer(rotation.as_matrix()[2], rotation.as_matrix()[2])
    turned, moving = (model.SPACE.tangent(name) for name in ("attitude", "velocity"))
    covariance[turned, turned] = tilt * (np.eye(3) - vertical) + lost.heading_variance * vertical
    covariance[moving, moving] = (_LEAST_SPEED_STDDEV_M_S**2 + p.contact.speed_stddev_m_s**2) * np.eye(3)
    return Moments(state, covariance)


def with_turned_path(origin: Vector, mean: Vector, covariance: Matrix) -> Matrix:
    """Covariance with what a heading that is not known does to the path since the origin (3,), and to the velocity."""
    variance = heading_variance(mean, covariance)
    squared = 1.0 - 2.0 * math.exp(-0.5 * variance) + 0.5 * (1.0 + math.exp(-2.0 * variance))
    along = np.zeros(model.DIMENSION)
    along[model.POSITION : model.POSITION + 2] = mean[model.POSITION : model.POSITION + 2] - origin[:2]
    along[model.VELOCITY : model.VELOCITY + 2] = mean[model.VELOCITY : model.VELOCITY + 2]
    return covariance + squared * np.outer(along, along)
