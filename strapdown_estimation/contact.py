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

What a contact tells of velocity and rotation: the point of contact stands, and at rest the IMU does not turn. What it
tells of the height has `ground_levels`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.gating import Gate, Innovation, decide
from onboard_estimation.filtering.moments import Moments, innovate, update
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.reading_parts import IMU
from strapdown_estimation import model
from strapdown_estimation.configuration import Contact
from strapdown_estimation.model import contact_velocity
from strapdown_estimation.prediction import steady

_BIAS = model.SPACE.coordinates("gyro_bias")
_RATE_JACOBIAN = np.zeros((3, model.DIMENSION))
_RATE_JACOBIAN[:, model.GYRO_BIAS : model.GYRO_BIAS + 3] = np.eye(3)
_IDENTITY = np.eye(3)


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
    p: Contact, refusals: Refusals, moments: Moments, stamp_ns: int, reading: Vector, step_s: float, claim: Claim
) -> tuple[Refusals, Moments, Innovation]:
    """Zero velocity of the point of contact, behind the gate.

    Refused for too long, the velocity is doubted instead of the contact. The gate's inflation is reported and not used:
    it would widen attitude and biases as well, which nothing speaks against. The velocity is wrong by as much as the
    innovation says, and that error has grown since the last contact, so that the position is wrong in proportion.
    """
    velocity, jacobian = contact_velocity(moments.mean, reading)
    variance = (
        p.speed_stddev_m_s**2
        + (p.speed_per_rate_m * claim.rate_rms) ** 2
        + (p.speed_per_deviation_s * claim.deviation_rms) ** 2
    )
    innovation = innovate(moments, -velocity, jacobian, variance * _IDENTITY)
    enough_s = p.recover_at_rest_s if claim.at_rest else p.recover_moving_s
    # One rejection is enough where recovery is allowed at all: time decides that, not a count.
    gate = Gate(p.gate_probability, recover_after=1)
    decision = decide(gate, innovation.nis, 3, 0, may_recover=refusals.refused_s >= enough_s)
    if decision.inflation > 1.0:
        since_s = (stamp_ns - refusals.believed_ns) / NANOSECONDS_PER_SECOND
        widening = steady((velocity @ velocity) * _IDENTITY, since_s)
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
