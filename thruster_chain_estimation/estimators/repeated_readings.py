"""Whether an IMU is stuck: it repeats its reading for longer than quantised noise does by chance.

How often the digits of a sound sensor are the same twice is learned from itself, while it is well: a gyro with coarse
digits and little noise repeats itself at rest, which an accelerometer of 8192 digits in g does once in hundred. So many
repetitions in a row are told that chance makes them once in `CHANCE` readings, ten minutes of a month at 200 Hz.
"""

from __future__ import annotations

from typing import NamedTuple

from onboard_estimation.base.measurement import Vector
from onboard_estimation.pipeline.repeats import Repeats

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
    known
        Of each.
    share
        Of the readings that repeat the one before.
    held
        Readings that repeat the one before as a whole, not yet passed on.
    stuck
        Whether the gyro, the accelerometer, or both repeat themselves beyond chance.
    """

    known: tuple[Repeats, Repeats] = (Repeats(), Repeats())
    share: tuple[float, ...] = (FIRST, FIRST)
    held: tuple[Vector, ...] = ()
    stuck: bool = False

    def heard(self, reading: Vector) -> tuple[Repetitions, tuple[Vector, ...]]:
        """With one more reading (4,): stamp, rate, specific force; and those that are to be used now."""
        values, (gyro, accelerometer) = reading + 0.0, self.known  # no zero has a sign
        known = gyro.heard(values[1:2].tobytes()), accelerometer.heard(values[2:].tobytes())
        if not gyro.content:
            return self._replace(known=known), (reading,)
        counts = [one.in_a_row for one in known]
        chances = [max(one, SELDOM) for one in self.share]
        whole = chances[0] * chances[1]
        if min(chances[0] ** counts[0], chances[1] ** counts[1], whole ** min(counts)) < CHANCE:
            return Repetitions(known, self.share, (), stuck=True), ()
        share = tuple(old + ((count > 0) - old) / MEMORY for count, old in zip(counts, self.share, strict=True))
        if all(counts) and whole**HELD < CHANCE:
            return Repetitions(known, share, (*self.held, reading)), ()
        return Repetitions(known, share), (*self.held, reading)
