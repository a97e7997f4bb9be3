"""Pressures of a simulated run, and messages of its sensors.

Set points of the chambers and their way through regulator and hose; then samples at a rate, stamped on arrival, some
lost: the same whatever the pieces. Their random numbers are drawn a row for each sample, normal and even ones from
generators of their own.

Set points are rest, steps, sinusoids, noise and circles, in random order. A cycle of 45 s has each of them once; the
next is drawn anew. Which cycle is which follows from the seed and its number alone, so that a robot may go on for ever,
piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Matrix, Vector
from onboard_estimation.base.series import Series, stamps_between

Stamps = NDArray[np.int64]
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


def of_chambers(
    channel: Callable[[str], Channel], names: Sequence[str], messages: tuple[Stamps, Matrix]
) -> list[Series]:
    """What is recorded of each chamber, of messages with numbers (K, C) of all of them."""
    stamps_ns, values = messages
    return [Series(channel(name), stamps_ns, values[:, [place]]) for place, name in enumerate(names)]


@dataclass(frozen=True)
class Way:
    """From a sample to its stamp: delay, normal jitter (its size), seldom much more; and what is lost."""

    delay_s: float = 0.0
    jitter_stddev_s: float = 0.0
    rare_share: float = 0.0
    rare_jitter_s: float = 0.0
    largest_jitter_s: float = 0.0
    lost_share: float = 0.0


class Stream:
    """Of one sensor, whose samples have `noises` normal random numbers each; its generator is used up by it."""

    def __init__(self, rate_hz: float, rng: np.random.Generator, noises: int = 0, way: Way | None = None) -> None:
        self._rate_hz, self._noises, self._way = rate_hz, noises, way or Way()
        self._normal, self._even = rng.spawn(2)
        self._at_ns = 0
        self._waiting: tuple[Stamps, Matrix] | None = None

    def samples(self, stop_ns: int) -> tuple[Stamps, Matrix]:
        """When it samples from where it stands up to `stop_ns`, which is left out, and its noise (K, noises)."""
        at = stamps_between(self._at_ns, stop_ns, self._rate_hz)
        self._at_ns = max(self._at_ns, stop_ns)
        return at, self._normal.normal(size=(len(at), self._noises + 1))

    def messages(
        self, at_ns: Stamps, noise: Matrix, values: Matrix, stop_ns: int, there: NDArray[np.bool_] | None = None
    ) -> tuple[Stamps, Matrix]:
        """Stamps and values of what arrives before `stop_ns`, of these samples and of those that were on their way."""
        way, chance = self._way, self._even.random(size=(len(at_ns), 3))
        jitter_s = way.jitter_stddev_s * np.abs(noise[:, -1])
        jitter_s += np.where(chance[:, 0] < way.rare_share, -way.rare_jitter_s * np.log1p(-chance[:, 1]), 0.0)
        late_ns = np.round(NANOSECONDS_PER_SECOND * (way.delay_s + np.minimum(jitter_s, way.largest_jitter_s)))
        stamps, arrives = at_ns + late_ns.astype(np.int64), chance[:, 2] >= way.lost_share
        if there is not None:
            arrives &= there
        stamps, values = stamps[arrives], values[arrives]
        if self._waiting is not None:
            stamps, values = np.concatenate([self._waiting[0], stamps]), np.vstack([self._waiting[1], values])
        due = stamps < stop_ns
        self._waiting = stamps[~due], values[~due]
        return stamps[due], values[due]


class Gaps:
    """When something is hidden: again and again, for a while, from its start on visible for some seconds."""

    def __init__(self, period_s: float, length_s: tuple[float, float], rng: np.random.Generator) -> None:
        self._period_s, self._length_s, self._rng = period_s, length_s, rng
        self._edges_s = [0.0]  # hidden from odd to even ones

    def visible(self, time_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        """(K,) at times (K,)."""
        while len(time_s) and self._edges_s[-1] <= time_s[-1]:
            start_s = self._edges_s[-1] + self._rng.exponential(self._period_s)
            self._edges_s += [start_s, start_s + self._rng.uniform(*self._length_s)]
        found: NDArray[np.bool_] = np.searchsorted(self._edges_s, time_s, side="right") % 2 == 1
        return found
