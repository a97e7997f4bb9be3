"""What contact tells of velocity and rotation: the point of contact stands, and at rest the IMU does not turn."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onboard_estimation.filtering.gating import Gate, Innovation, decide
from onboard_estimation.filtering.moments import Moments, innovate, update
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.reading_parts import IMU
from strapdown_estimation.configuration import Contact
from strapdown_estimation.contact_detection import Claim
from strapdown_estimation.hidden_motion import steady
from strapdown_estimation.model import DIMENSION, GYRO_BIAS, SPACE, contact_velocity

_BIAS = SPACE.coordinates("gyro_bias")
_RATE_JACOBIAN = np.zeros((3, DIMENSION))
_RATE_JACOBIAN[:, GYRO_BIAS : GYRO_BIAS + 3] = np.eye(3)
_IDENTITY = np.eye(3)


class Refusals(NamedTuple):
    """When a contact was last believed, and for how long in all, s, contacts have been refused since."""

    believed_ns: int
    refused_s: float = 0.0


class ContactUpdates:
    """Claims of contact go in, corrected moments come out.

    Parameters
    ----------
    parameters
        See `Contact`.
    """

    def __init__(self, parameters: Contact) -> None:
        self._parameters = parameters
        # One rejection is enough where recovery is allowed at all: time decides that, not a count.
        self._gate = Gate(parameters.gate_probability, recover_after=1)

    def stand_still(
        self, refusals: Refusals, moments: Moments, stamp_ns: int, reading: Vector, step_s: float, claim: Claim
    ) -> tuple[Refusals, Moments, Innovation]:
        """Zero velocity of the point of contact, behind the gate.

        Refused for too long, the velocity is doubted instead of the contact. The gate's inflation is reported and not
        used: it would widen attitude and biases as well, which nothing speaks against. The velocity is wrong by as much
        as the innovation says, and that error has grown since the last contact, so that the position is wrong in
        proportion.
        """
        p = self._parameters
        velocity, jacobian = contact_velocity(moments.mean, reading)
        variance = (
            p.speed_stddev_m_s**2
            + (p.speed_per_rate_m * claim.rate_rms) ** 2
            + (p.speed_per_deviation_s * claim.deviation_rms) ** 2
        )
        innovation = innovate(moments, -velocity, jacobian, variance * _IDENTITY)
        enough_s = p.recover_at_rest_s if claim.at_rest else p.recover_moving_s
        decision = decide(self._gate, innovation.nis, 3, 0, may_recover=refusals.refused_s >= enough_s)
        if decision.inflation > 1.0:
            since_s = (stamp_ns - refusals.believed_ns) / NANOSECONDS_PER_SECOND
            widening = steady((velocity @ velocity) * _IDENTITY, since_s)
            moments = Moments(moments.mean, moments.covariance + widening)
            innovation = replace(
                innovate(moments, -velocity, jacobian, variance * _IDENTITY), inflation=decision.inflation
            )
        elif not decision.accepted:
            refused = Refusals(refusals.believed_ns, refusals.refused_s + step_s)
            return refused, moments, replace(innovation, accepted=False)
        noise = variance * _samples_as_one(p.speed_correlation_s, step_s) * _IDENTITY
        moments, _, _ = update(SPACE, moments, -velocity, jacobian, noise)
        return Refusals(stamp_ns), moments, innovation

    def rest(self, moments: Moments, reading: Vector, step_s: float, claim: Claim) -> Moments:
        """Zero rotation: what the gyro reads at rest is its bias, but for a person's swaying.

        The swaying is taken as large as the gyro shows it, noise included, and as slow as configured.
        """
        variance = claim.rate_rms**2 / 3.0 * _samples_as_one(self._parameters.sway_correlation_s, step_s)
        rate = reading[IMU.angular_velocity] - moments.mean[_BIAS]
        moments, _, _ = update(SPACE, moments, rate, _RATE_JACOBIAN, variance * _IDENTITY)
        return moments


def _samples_as_one(correlation_s: float, step_s: float) -> float:
    """Factor on a noise variance that makes samples `step_s` apart count as often as they are independent."""
    return max(1.0, 2.0 * correlation_s / step_s)
