"""Whether an IMU is stuck: it repeats its reading for longer than quantised noise does by chance.

How often the digits of a sound sensor are the same twice is learned from itself, while it is well: a gyro with coarse
digits and little noise repeats itself at rest, which an accelerometer of 8192 digits in g does once in hundred. So many
repetitions in a row are told that chance makes them once in `CHANCE` readings, ten minutes of a month at 200 Hz.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onboard_estimation.base.measurement import Vector

CHANCE = 1e-9
SELDOM, FIRST = 0.05, 0.5
"""Least share of repetitions that is believed of gyro and accelerometer each, and that at the start."""
MEMORY = 100
"""Readings over which it is learned."""
HELD = 10
"""Readings that are held back at most until it is clear whether they are repetitions by chance."""


class Repetitions(NamedTuple):
    """What is known of one IMU's repetitions, first of its gyro, then of its accelerometer.

    Attributes
    ----------
    last
        Its last reading (4,): stamp, rate, specific force; None before it.
    in_a_row
        Repetitions of each up to the last reading.
    share
        Of the readings that repeat the one before.
    held
        Readings that repeat the one before as a whole, not yet passed on.
    """

    last: Vector | None = None
    in_a_row: tuple[int, int] = (0, 0)
    share: tuple[float, float] = (FIRST, FIRST)
    held: tuple[Vector, ...] = ()

    @property
    def stuck(self) -> bool:
        """Whether the gyro, the accelerometer, or both repeat themselves beyond chance."""
        chances = [max(share, SELDOM) ** count for share, count in zip(self.share, self.in_a_row, strict=True)]
        whole = math.prod(max(share, SELDOM) for share in self.share) ** min(self.in_a_row)
        return min(*chances, whole) < CHANCE

    def heard(self, reading: Vector) -> tuple[Repetitions, tuple[Vector, ...]]:
        """With one more reading, and those that are to be used now."""
        if self.last is None:
            return self._replace(last=reading), (reading,)
        same = bool(reading[1] == self.last[1]), bool((reading[2:] == self.last[2:]).all())
        counts = tuple(count + 1 if again else 0 for again, count in zip(same, self.in_a_row, strict=True))
        after = self._replace(last=reading, in_a_row=counts)
        if after.stuck:
            return after._replace(held=()), ()
        share = tuple(old + (again - old) / MEMORY for again, old in zip(same, self.share, strict=True))
        seldom = math.prod(max(one, SELDOM) for one in share) ** HELD < CHANCE
        if all(same) and seldom:
            return after._replace(share=share, held=(*self.held, reading)), ()
        return after._replace(share=share, held=()), (*self.held, reading)
