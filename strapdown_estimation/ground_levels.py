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

from dataclasses import dataclass
from typing import NamedTuple

from onboard_estimation.filtering.gating import gate_threshold


class Level(NamedTuple):
    """Height of the IMU over a piece of ground, m, with its variance, m^2."""

    height: float
    variance: float


@dataclass(frozen=True, slots=True)
class GroundLevels:
    """The levels known, the one used last at the end, as a value: methods give the changed collection.

    Attributes
    ----------
    levels
        At start, the height zero at which the IMU was aligned: exact by definition.
    largest_count
        Beyond it, the level not used for longest is forgotten.
    """

    levels: tuple[Level, ...] = (Level(0.0, 0.0),)
    largest_count: int = 32

    def match(self, height: float, variance: float, unevenness: float, gate_probability: float) -> int | None:
        """Index of the level that a contact at that height (m) and variance (m^2) is on; None: new ground.

        `unevenness` is the standard deviation among contacts on one level, m.
        """
        best, best_distance = None, gate_threshold(gate_probability, 1)
        for index, level in enumerate(self.levels):
            spread = abs(variance - level.variance) + 2.0 * unevenness**2
            distance = (height - level.height) ** 2 / spread
            if distance <= best_distance:
                best, best_distance = index, distance
        return best

    def used(self, index: int) -> GroundLevels:
        """With that level as the one used last."""
        rest = self.levels[:index] + self.levels[index + 1 :]
        return GroundLevels((*rest, self.levels[index]), self.largest_count)

    def with_new(self, height: float, variance: float) -> GroundLevels:
        """With one more level, used last."""
        kept = self.levels[-(self.largest_count - 1) :] if self.largest_count > 1 else ()
        return GroundLevels((*kept, Level(height, variance)), self.largest_count)

    def with_last_at(self, height: float, variance: float) -> GroundLevels:
        """With another height for the level used last."""
        return GroundLevels((*self.levels[:-1], Level(height, variance)), self.largest_count)


def height_noise(variance: float, bound: float) -> float | None:
    """Noise variance of an update that brings a height's variance down to `bound` (m^2); None: it is there already."""
    if variance <= bound:
        return None
    return variance * bound / (variance - bound)
