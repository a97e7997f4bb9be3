"""Pressures of a simulated run: set points of the chambers, and their way through regulator and hose.

Set points are rest, steps, sinusoids, noise and circles, in random order. A cycle of 45 s has each of them once; the
next is drawn anew. Which cycle is which follows from the seed and its number alone, so that a robot may go on for ever,
piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from onboard_estimation.measurement import Matrix, Vector

Pattern = Callable[[Vector], Matrix]
"""Gauge pressures (K, C), Pa, at times (K,), s, from the start of the recording."""

FIRST_REST_S = 1.5
LENGTHS_S = {"rest": 3.5, "steps": 10.0, "sinusoids": 10.0, "noise": 10.0, "circles": 10.0}
CYCLE_S = FIRST_REST_S + sum(LENGTHS_S.values())

_STEP_S = (0.6, 1.6)
_SINUSOID_HZ = (0.2, 1.8)
_NOISE_HZ, _TONES = (0.1, 3.0), 12
_CIRCLE_HZ = (0.2, 1.2)


def mixture(angles_rad: Vector, largest_pa: float, rng: np.random.Generator) -> Pattern:
    """Of a robot with chambers at these angles."""
    seed, count = int(rng.integers(2**62)), len(angles_rad)

    def cycle(number: int, since_s: Vector) -> Matrix:
        own = np.random.default_rng([seed, number])
        out, start_s = np.zeros((len(since_s), count)), FIRST_REST_S
        for kind in own.permutation(list(LENGTHS_S)).tolist():
            rows = (since_s >= start_s) & (since_s < start_s + LENGTHS_S[kind])
            out[rows] = _PARTS[kind](angles_rad, since_s[rows] - start_s, own) if kind != "rest" else 0.0
            start_s += LENGTHS_S[kind]
        return out

    def pattern(time_s: Vector) -> Matrix:
        numbers = np.floor_divide(time_s, CYCLE_S).astype(np.int64)
        out = np.zeros((len(time_s), count))
        for number in np.unique(numbers).tolist():
            rows = numbers == number
            out[rows] = cycle(number, time_s[rows] - number * CYCLE_S)
        return np.round(largest_pa * np.clip(out, 0.0, 1.0))

    return pattern


# Each gives shares (K, C) of the largest pressure, and draws the same numbers whatever the times.


def _steps(angles_rad: Vector, time_s: Vector, own: np.random.Generator) -> Matrix:
    """One or two chambers at a time, each step held for about a second."""
    count = round(LENGTHS_S["steps"] / _STEP_S[0]) + 1
    edges_s = np.cumsum(own.uniform(*_STEP_S, count))
    sizes = own.uniform(0.1, 0.9, (count, len(angles_rad)))
    places = own.permuted(np.tile(np.arange(len(angles_rad)), (count, 1)), axis=1)
    used = places < own.integers(1, 3, (count, 1))
    levels: Matrix = np.where(used, sizes, 0.0)
    return levels[np.minimum(np.searchsorted(edges_s, time_s), count - 1)]


def _sinusoids(angles_rad: Vector, time_s: Vector, own: np.random.Generator) -> Matrix:
    """In every chamber one of its own."""
    shape = len(angles_rad)
    middle, size = own.uniform(0.25, 0.5, shape), own.uniform(0.15, 0.35, shape)
    frequency_hz, phase = own.uniform(*_SINUSOID_HZ, shape), own.uniform(0.0, 2.0 * np.pi, shape)
    waves: Matrix = middle + size * np.sin(2.0 * np.pi * frequency_hz * time_s[:, None] + phase)
    return waves


def _noise(angles_rad: Vector, time_s: Vector, own: np.random.Generator) -> Matrix:
    """Limited in its band: many sinusoids in every chamber."""
    shape = (_TONES, len(angles_rad))
    frequency_hz, phase = own.uniform(*_NOISE_HZ, shape), own.uniform(0.0, 2.0 * np.pi, shape)
    tones = np.sin(2.0 * np.pi * frequency_hz * time_s[:, None, None] + phase).sum(axis=1)
    wave: Matrix = 0.35 + 0.18 * np.sqrt(2.0 / _TONES) * tones
    return wave


def _circles(angles_rad: Vector, time_s: Vector, own: np.random.Generator) -> Matrix:
    """The tip goes round, either way, ever wider."""
    turning_hz = own.uniform(*_CIRCLE_HZ) * own.choice([-1.0, 1.0])
    first, last = own.uniform(0.1, 0.25), own.uniform(0.25, 0.4)
    size = first + (last - first) * time_s[:, None] / LENGTHS_S["circles"]
    circle: Matrix = last + size * np.cos(2.0 * np.pi * turning_hz * time_s[:, None] - angles_rad)
    return circle


_PARTS = {"steps": _steps, "sinusoids": _sinusoids, "noise": _noise, "circles": _circles}


@njit(cache=True)
def pneumatics(
    regulators: Matrix, lags_s: Vector, goals: Matrix, step_s: float, state: Matrix, outlets: Matrix, chambers: Matrix
) -> None:
    """Pressures at outlets and in chambers (K, C) as each step starts; `state` (3, C): outlet, its rate, chamber."""
    for k in range(len(goals)):
        for c in range(goals.shape[1]):
            outlets[k, c], chambers[k, c] = state[0, c], state[2, c]
            frequency, damping, fastest = regulators[c, 0], regulators[c, 1], regulators[c, 2]
            pull = frequency * frequency * (goals[k, c] - state[0, c]) - 2.0 * damping * frequency * state[1, c]
            state[1, c] = min(max(state[1, c] + step_s * pull, -fastest), fastest)
            state[0, c] += step_s * state[1, c]
            state[2, c] += (1.0 - np.exp(-step_s / lags_s[c])) * (state[0, c] - state[2, c])
