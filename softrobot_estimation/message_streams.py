"""Messages of a simulated sensor: sampled at a rate, stamped on arrival, some lost; the same whatever the pieces.

Random numbers are drawn a row for each sample, normal and even ones from generators of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix
from onboard_estimation.simulation import stamps_between

Stamps = NDArray[np.int64]


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
