"""Whether an IMU is stuck: it repeats its reading for longer than quantised noise does by chance.

How often the digits of a sound sensor are the same twice is learned from itself, while it is well: a gyro with coarse
digits and little noise repeats itself at rest, which an accelerometer of 8192 digits in g does once in hundred. So many
repetitions in a row are told that chance makes them once in `CHANCE` readings, ten minutes of a month at 200 Hz.
"""

from __future__ import annotations

from typing import NamedTuple

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
    stuck
        Whether the gyro, the accelerometer, or both repeat themselves beyond chance.
    """

    last: Vector | None = None
    in_a_row: tuple[int, int] = (0, 0)
    share: tuple[float, float] = (FIRST, FIRST)
    held: tuple[Vector, ...] = ()
    stuck: bool = False

    def heard(self, reading: Vector) -> tuple[Repetitions, tuple[Vector, ...]]:
        """With one more reading, and those that are to be used now."""
        if self.last is None:
            return self._replace(last=reading), (reading,)
        (_, rate, along, across), (_, last_rate, last_along, last_across) = reading.tolist(), self.last.tolist()
        gyro, accelerometer = rate == last_rate, along == last_along and across == last_across
        counts = (self.in_a_row[0] + 1) * gyro, (self.in_a_row[1] + 1) * accelerometer
        chances = [max(one, SELDOM) for one in self.share]
        whole = chances[0] * chances[1]
        if min(chances[0] ** counts[0], chances[1] ** counts[1], whole ** min(counts)) < CHANCE:
            return Repetitions(reading, counts, self.share, (), stuck=True), ()
        share = tuple(
            old + (again - old) / MEMORY for again, old in zip((gyro, accelerometer), self.share, strict=True)
        )
        if gyro and accelerometer and whole**HELD < CHANCE:
            return Repetitions(reading, counts, share, (*self.held, reading)), ()
        return Repetitions(reading, counts, share), (*self.held, reading)
