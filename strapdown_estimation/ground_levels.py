"""Heights at which the foot has stood: what a zero-height update may be measured against.

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
from typing import Literal, NamedTuple

import numpy as np

from onboard_estimation.filtering.gating import gate_threshold
from onboard_estimation.filtering.moments import Moments, update
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from strapdown_estimation import model
from strapdown_estimation.configuration import Ground

_HEIGHT = model.POSITION + 2
_CLIMB = model.VELOCITY + 2
_HEIGHT_JACOBIAN = np.zeros((1, model.DIMENSION))
_HEIGHT_JACOBIAN[0, _HEIGHT] = 1.0


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


def height_noise(variance: float, bound: float) -> float | None:
    """Noise variance of an update that brings a height's variance down to `bound` (m^2); None: it is there already."""
    if variance <= bound:
        return None
    return variance * bound / (variance - bound)


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
        noise = height_noise(variance, level.variance + unevenness**2)
        if noise is not None:
            risen = np.array([level.height - height])
            moments, _, _ = update(model.SPACE, moments, risen, _HEIGHT_JACOBIAN, np.array([[noise]]))
    return GroundState(levels, Stance(stamp_ns, kind, min(flattest, rate_rms))), moments
