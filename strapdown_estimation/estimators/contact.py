"""Ground contact from the readings of an IMU.

Over a short window that ends now, the energy of the motion is

    E^2 = mean |w|^2 + c^2 mean |f - g u|^2,    u the direction of the window's mean specific force f

which is the statistic of the likelihood-ratio detector of Skog, Handel, Nilsson and Rantakokko, "Zero-velocity
detection - an algorithm evaluation", 2010, eq. (13), as an angular rate in rad/s. There, contact is E below a threshold
that has to suit the gait. Here, the threshold follows the motion,

    contact:  E < max(rest energy, share * (recent peak of E - what is slow))

since a foot that stands still rolls, and does so in proportion to the gait: in recorded walks E in stance is 2 to 10 %
of its peak in swing, slow or fast. Something that is lifted by hand moves slowly, without peaks, and any fixed
threshold that finds the stance of a fast walk takes half of such a lift for standing. A motion that has no peak above
what is slow has no swing, and what is not at rest then is no stance.

`at rest` is the stricter claim: below the rest energy without a break for some tenths of a second.

What a contact tells of velocity and rotation: the point of contact stands, and at rest the IMU does not turn.

Heights at which the foot has stood: what a zero-height update may be measured against.

A contact is either on a level that is known, or on new ground: the ground need not be flat, and a box that is climbed
must not be pressed down to the floor. The nearest level (in standard deviations) within a gate is taken, else a new
level is noted.

How sure one may be. The error of a level's height is the error that the filter had when it stood there first, and that
error is still in the state: both share it. A height that is only ever carried on from contact to contact grows its
variance step by step, so the height now and that of a level differ by what was added between, |P_now - P_level|, and by
the unevenness of both contacts. That decides which level it is. (Taking both as independent, the gate widens with every
stair, until a stair fits into it.)

Nor is anything learnt by returning to a level: the update brings the variance of the height down to that of the level
plus its unevenness and never below, which is the scalar case of covariance intersection (Julier and Uhlmann, 1997).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.filtering.gating import Gate, Innovation, decide, gate_threshold
from onboard_estimation.filtering.moments import Moments, innovate, update
from strapdown_estimation.model import state as model
from strapdown_estimation.model.configuration import Contact, Ground, Strapdown
from strapdown_estimation.model.state import contact_velocity, steady

_BIAS, _BIAS_ERROR = model.SPACE.coordinates("gyro_bias"), model.SPACE.tangent("gyro_bias")
_RATE_JACOBIAN = np.zeros((3, model.DIMENSION))
_RATE_JACOBIAN[:, model.GYRO_BIAS : model.GYRO_BIAS + 3] = np.eye(3)
_IDENTITY = np.eye(3)
_HEIGHT = model.POSITION + 2
_CLIMB = model.VELOCITY + 2
_HEIGHT_JACOBIAN = np.zeros((1, model.DIMENSION))
_HEIGHT_JACOBIAN[0, _HEIGHT] = 1.0


class Claim(NamedTuple):
    """What the detector says of one instant.

    Attributes
    ----------
    in_contact, at_rest
        The two claims; the second implies the first.
    energy, threshold
        E and what it was compared with, rad/s.
    rate_rms
        Root mean square of the rotation over the window, rad/s.
    deviation_rms
        Root mean square of the specific force's deviation from gravity over the window, m/s^2.
    """

    in_contact: bool
    at_rest: bool
    energy: float
    threshold: float
    rate_rms: float
    deviation_rms: float


@njit(cache=True)
def window_energy(window: NDArray[np.float64], at_rest: NDArray[np.float64]) -> tuple[float, float]:
    """Root mean squares of the rotation (rad/s) and of the specific force's deviation from gravity (m/s^2).

    Parameters
    ----------
    window
        (K, 6) gyro and accelerometer readings.
    at_rest
        (4,) what an IMU at rest reads: gyro x y z and the size of the specific force. NaN where it is not known yet:
        the mean of the window is taken, so that only what changes within the window counts.
    """
    count = window.shape[0]
    mean = np.zeros(6)
    for k in range(count):
        for i in range(6):
            mean[i] += window[k, i] / count
    rate = force = 0.0
    for k in range(count):
        for i in range(3):
            bias = mean[i] if np.isnan(at_rest[i]) else at_rest[i]
            rate += (window[k, i] - bias) ** 2
            force += window[k, 3 + i] ** 2
    size = np.sqrt(mean[3] ** 2 + mean[4] ** 2 + mean[5] ** 2)
    reference = size if np.isnan(at_rest[3]) else at_rest[3]
    # mean |f - g u|^2 = mean |f|^2 - 2 g |mean f| + g^2
    deviation = force / count - 2.0 * reference * size + reference**2
    return np.sqrt(rate / count), np.sqrt(max(deviation, 0.0))


class ContactState(NamedTuple):
    """What the detector keeps of the readings, as values.

    Attributes
    ----------
    at_rest
        (4,) what the IMU reads at rest, see `window_energy`.
    stamps_ns, readings
        The window: K stamps and (K, 6).
    peak
        Recent peak of the energy, forgotten with time, rad/s.
    still_since_ns
        Since when the energy has been that of rest; None: it is not.
    claim
        What is said of the last reading.
    """

    at_rest: Vector
    stamps_ns: tuple[int, ...]
    readings: Matrix
    peak: float
    still_since_ns: int | None
    claim: Claim

    def calibrated(self, gyro: Vector, specific_force: float) -> ContactState:
        """Knowing what the IMU reads at rest: gyro (3,) rad/s and the size of the specific force, m/s^2."""
        return self._replace(at_rest=np.array([*gyro, specific_force]))


UNSEEN = ContactState(np.full(4, np.nan), (), np.empty((0, 6)), 0.0, None, Claim(False, False, 0.0, 0.0, 0.0, 0.0))
"""Before the first reading."""


def detected(p: Contact, state: ContactState, stamp_ns: int, reading: Vector) -> ContactState:
    """With the next reading (6,) in order of stamps, and what the readings up to it say of its instant."""
    at_rest, stamps_ns, readings, peak, still_since_ns, _ = state
    elapsed = (stamp_ns - stamps_ns[-1]) / NANOSECONDS_PER_SECOND if stamps_ns else 0.0
    first, window_ns = 0, round(p.window_s * NANOSECONDS_PER_SECOND)
    while first < len(stamps_ns) and stamps_ns[first] <= stamp_ns - window_ns:
        first += 1
    stamps_ns = (*stamps_ns[first:], stamp_ns)
    readings = np.concatenate((readings[first:], reading[None]))
    rate_rms, deviation_rms = window_energy(readings, at_rest)
    energy = math.hypot(rate_rms, p.acceleration_weight_rad_s_m * deviation_rms)

    peak = max(energy, peak * math.exp(-elapsed / p.peak_decay_s))
    threshold = max(p.rest_energy_rad_s, p.relative_energy * (peak - p.slow_energy_rad_s))
    # One or two readings say nothing of a motion.
    known = len(stamps_ns) > 2
    if energy >= p.rest_energy_rad_s:
        still_since_ns = None
    elif still_since_ns is None:
        still_since_ns = stamp_ns
    # The window's first reading counts as much as its last: rest has gone on for the window's length already.
    rest_ns = round((p.rest_duration_s - p.window_s) * NANOSECONDS_PER_SECOND)
    rests = known and still_since_ns is not None and stamp_ns - still_since_ns >= rest_ns
    claim = Claim(known and energy < threshold, rests, energy, threshold, rate_rms, deviation_rms)
    return ContactState(at_rest, stamps_ns, readings, peak, still_since_ns, claim)


class Refusals(NamedTuple):
    """When a contact was last believed, and for how long in all, s, contacts have been refused since."""

    believed_ns: int
    refused_s: float = 0.0


def stand_still(
    known: Strapdown, refusals: Refusals, moments: Moments, stamp_ns: int, reading: Vector, step_s: float, claim: Claim
) -> tuple[Refusals, Moments, Innovation]:
    """Zero velocity of the point of contact, behind the gate.

    Refused for too long, the velocity is doubted instead of the contact. The gate's inflation is reported and not used:
    it would widen attitude and biases as well, which nothing speaks against. The velocity is wrong by as much as the
    innovation says, and that error has grown since the last contact, so that the position is wrong in proportion. What
    made it grow may go on: the gyro's bias may have moved as far as one is expected to be off at start.
    """
    p = known.contact
    velocity, jacobian = contact_velocity(moments.mean, reading)
    variance = (
        p.speed_stddev_m_s**2
        + (p.speed_per_rate_m * claim.rate_rms) ** 2
        + (p.speed_per_deviation_s * claim.deviation_rms) ** 2
    )
    innovation = innovate(moments, -velocity, jacobian, variance * _IDENTITY)
    # One rejection is enough where recovery is allowed at all: time decides that, not a count.
    gate = Gate(p.gate_probability, recover_after=1)
    decision = decide(gate, innovation.nis, 3, 0, may_recover=refusals.refused_s >= p.recover_s)
    if decision.inflation > 1.0:
        since_s = (stamp_ns - refusals.believed_ns) / NANOSECONDS_PER_SECOND
        widening = steady((velocity @ velocity) * _IDENTITY, since_s)
        widening[_BIAS_ERROR, _BIAS_ERROR] += known.imu.gyro_bias_stddev_rad_s**2 * _IDENTITY
        moments = Moments(moments.mean, moments.covariance + widening)
        innovation = replace(innovate(moments, -velocity, jacobian, variance * _IDENTITY), inflation=decision.inflation)
    elif not decision.accepted:
        refused = Refusals(refusals.believed_ns, refusals.refused_s + step_s)
        return refused, moments, replace(innovation, accepted=False)
    noise = variance * _samples_as_one(p.speed_correlation_s, step_s) * _IDENTITY
    moments, _, _ = update(model.SPACE, moments, -velocity, jacobian, noise)
    return Refusals(stamp_ns), moments, innovation


def turn_nowhere(p: Contact, moments: Moments, reading: Vector, step_s: float, claim: Claim) -> Moments:
    """Zero rotation: what the gyro reads at rest is its bias, but for a person's swaying.

    The swaying is taken as large as the gyro shows it, noise included, and as slow as configured.
    """
    variance = claim.rate_rms**2 / 3.0 * _samples_as_one(p.sway_correlation_s, step_s)
    rate = reading[IMU.angular_velocity] - moments.mean[_BIAS]
    moments, _, _ = update(model.SPACE, moments, rate, _RATE_JACOBIAN, variance * _IDENTITY)
    return moments


def _samples_as_one(correlation_s: float, step_s: float) -> float:
    """Factor on a noise variance that makes samples `step_s` apart count as often as they are independent."""
    return max(1.0, 2.0 * correlation_s / step_s)


class Level(NamedTuple):
    """Height of the IMU over a piece of ground, m, with its variance, m^2."""

    height: float
    variance: float


Levels = tuple[Level, ...]
"""The levels known, the one used last at the end."""
ORIGIN: Levels = (Level(0.0, 0.0),)
"""The height zero at which the IMU was aligned: exact by definition."""


def match(levels: Levels, height: float, variance: float, unevenness: float, gate_probability: float) -> int | None:
    """Index of the level that a contact at that height (m) and variance (m^2) is on; None: new ground.

    `unevenness` is the standard deviation among contacts on one level, m.
    """
    best, best_distance = None, gate_threshold(gate_probability, 1)
    for index, level in enumerate(levels):
        spread = abs(variance - level.variance) + 2.0 * unevenness**2
        distance = (height - level.height) ** 2 / spread
        if distance <= best_distance:
            best, best_distance = index, distance
    return best


class Stance(NamedTuple):
    """The contact that goes on, or went on last.

    Attributes
    ----------
    until_ns
        Last reading at which it was believed.
    level
        `unknown` while the foot settles, then `known` on a level stood on before, or `new`: its height becomes one.
    flattest
        Least rotation seen in it, rad/s.
    """

    until_ns: int
    level: Literal["unknown", "known", "new"]
    flattest: float


class GroundState(NamedTuple):
    """Levels stood on, and the last contact; None: there was none."""

    levels: Levels
    stance: Stance | None = None


def stand_on(
    p: Ground, release_s: float, state: GroundState, moments: Moments, stamp_ns: int, rate_rms: float
) -> tuple[GroundState, Moments]:
    """With a contact that is believed, `rate_rms` (rad/s) its rotation: on which level it is, and the height.

    Without contact for `release_s`, the foot has left the ground. Of more levels than may be, the one not used for
    longest is forgotten.
    """
    levels, stance = state
    if stance is None or stamp_ns - stance.until_ns > round(release_s * NANOSECONDS_PER_SECOND):
        stance = Stance(stamp_ns, "unknown", math.inf)
    _, kind, flattest = stance
    height, variance = float(moments.mean[_HEIGHT]), float(moments.covariance[_HEIGHT, _HEIGHT])
    unevenness = math.hypot(p.unevenness_m, p.height_per_rate_m_s * rate_rms)
    if kind == "unknown" and moments.covariance[_CLIMB, _CLIMB] <= p.settled_speed_m_s**2:
        index = match(levels, height, variance, unevenness, p.gate_probability)
        if index is None:
            kind, levels = "new", (*levels, Level(height, variance))[-p.largest_count :]
        else:
            kind, levels = "known", (*levels[:index], *levels[index + 1 :], levels[index])
    if kind == "new" and rate_rms <= flattest:
        levels = (*levels[:-1], Level(height, variance))
    if kind == "known":
        level = levels[-1]
        bound = level.variance + unevenness**2  # that an update brings the variance down to
        if variance > bound:
            risen, noise = np.array([level.height - height]), np.array([[variance * bound / (variance - bound)]])
            moments, _, _ = update(model.SPACE, moments, risen, _HEIGHT_JACOBIAN, noise)
    return GroundState(levels, Stance(stamp_ns, kind, min(flattest, rate_rms))), moments
