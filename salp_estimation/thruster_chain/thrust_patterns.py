"""Commands of the simulated runs: the paper's square waves, and a laboratory's mixture that excites everything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Vector = NDArray[np.float64]
Pattern = Callable[[Vector], Rows]
"""Commanded thrusts (K, N), N, at times (K,), s, from the start of the recording."""

_FIRST_S, _ON_S, _PERIOD_S, _PULSES = 0.2, 0.1, 0.3, 3
_LATER = 0.2
_STRETCH_S = 4.0
_KINDS = ("square", "pulses", "chirp", "steps", "pause")


def square_waves(count: int, amplitude_n: float = 1.0, without: int | None = None) -> Pattern:
    """The paper's: from 0.2 s on, 0.1 s on and 0.2 s off, all together.

    The paper's run ends after a second, with three pulses forward. From then on pulses are weak, backward, forward,
    forward, backward: nothing slows the paper's chain down, and it is not to turn ever faster.
    """
    use = np.full(count, amplitude_n)
    if without is not None:
        use[without] = 0.0

    def pattern(time_s: Vector) -> Rows:
        # Edges are on whole microseconds, whatever the rounding of times in seconds.
        since_us = np.round(1e6 * (np.asarray(time_s) - _FIRST_S)).astype(np.int64)
        number, within_us = np.divmod(since_us, round(1e6 * _PERIOD_S))
        later = np.where(np.isin((number - _PULSES) % 4, (1, 2)), _LATER, -_LATER)
        sign = np.where(number < _PULSES, 1.0, later)
        pulse = np.where((since_us >= 0) & (within_us < round(1e6 * _ON_S)), sign, 0.0)
        return pulse[:, None] * use

    return pattern


def laboratory_mixture(
    count: int, limit_n: float, rest_s: float, rng: np.random.Generator, without: int | None = None
) -> Pattern:
    """After the rest, four seconds each of square waves, pulses, chirps, random steps, and a pause; again and again.

    Every thruster has amplitudes, periods and phases of its own, in each stretch drawn anew. The second half of a
    stretch is the first in reverse: the robot has to stay on its table.
    """
    seed = int(rng.integers(2**62))
    begin_s = rest_s + 0.3

    def stretch(number: int, link: int, since_s: Vector) -> Vector:
        own = np.random.default_rng([seed, number, link])
        kind = _KINDS[number % len(_KINDS)]
        largest_n, period_s = limit_n * own.uniform(0.3, 0.9), own.uniform(0.3, 0.9)
        phase, sign = own.uniform(0.0, 1.0), own.choice((-1.0, 1.0))
        size, since_s = np.where(since_s < 0.5 * _STRETCH_S, largest_n, -largest_n), since_s % (0.5 * _STRETCH_S)
        turn = (since_s / period_s + phase) % 1.0
        if kind == "square":
            return sign * size * np.where(turn < 0.5, 1.0, -1.0)
        if kind == "pulses":
            back = np.where(np.floor(since_s / period_s + phase) % 2 == 0, 1.0, -1.0)
            return sign * size * back * (turn < 0.25)
        if kind == "chirp":
            return sign * size * np.sin(2.0 * np.pi * (0.5 * since_s + 0.7 * since_s**2) + 2.0 * np.pi * phase)
        if kind == "steps":
            steps = own.uniform(-1.0, 1.0, round(0.5 * _STRETCH_S / 0.2) + 1)
            return size * steps[np.floor(since_s / 0.2).astype(np.int64)]
        return np.zeros(len(since_s))

    def pattern(time_s: Vector) -> Rows:
        out = np.zeros((len(time_s), count))
        since_s = np.asarray(time_s) - begin_s
        numbers = np.floor(since_s / _STRETCH_S).astype(np.int64)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            rows = numbers == number
            for link in range(count):
                if link != without:
                    out[rows, link] = stretch(number, link, since_s[rows] - number * _STRETCH_S)
        return np.round(out, 3)

    return pattern
