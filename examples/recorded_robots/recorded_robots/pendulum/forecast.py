"""What a pendulum's filter foresees against what came: an estimate moved ahead, without the angles measured since."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.filtering.unscented import Unscented
from recorded_robots.pendulum.estimator import ANGLES, TORQUES, PendulumEstimator


class Forecasts(NamedTuple):
    """Forecasts over one horizon.

    Attributes
    ----------
    horizon_s
        How far ahead.
    errors, stddevs
        (K, N) measured less foreseen joint angles, and the standard deviation foreseen, rad.
    """

    horizon_s: float
    errors: Matrix
    stddevs: Matrix

    @property
    def rms_rad(self) -> float:
        """Over all forecasts and joints."""
        return float(np.sqrt(np.mean(self.errors**2)))

    def coverage(self, sigmas: float) -> float:
        """Share of errors within so many standard deviations."""
        return float(np.mean(np.abs(self.errors) <= sigmas * self.stddevs))


class Motion(NamedTuple):
    """A recording's angles (K, N) and the torques (K, N) that act from one to the next, rad and N m; stamps (K,) ns."""

    stamps_ns: NDArray[np.int64]
    angles: Matrix
    torques: Matrix

    @classmethod
    def of(cls, series: Sequence[Series], count: int) -> Motion:
        """Torques are those that came last, none before the first."""
        by_sensor = {one.channel.sensor: one for one in series}
        measured, torques = by_sensor[ANGLES], by_sensor.get(TORQUES)
        acting = np.zeros((len(measured.stamps_ns), count))
        if torques is not None and len(torques.stamps_ns):
            last = np.searchsorted(torques.stamps_ns, measured.stamps_ns, side="right") - 1
            acting = np.where(last[:, None] >= 0, torques.values[np.maximum(last, 0)], 0.0)
        return cls(measured.stamps_ns, measured.values, acting)

    def at(self, stamps_ns: NDArray[np.int64]) -> Motion:
        """At some of its stamps: those of the estimates."""
        rows = np.searchsorted(self.stamps_ns, stamps_ns)
        return Motion(self.stamps_ns[rows], self.angles[rows], self.torques[rows])

    def pieces(self, longest_gap_s: float) -> list[slice]:
        """The stretches between gaps."""
        gaps = np.flatnonzero(np.diff(self.stamps_ns) > longest_gap_s * NANOSECONDS_PER_SECOND) + 1
        bounds = [0, *gaps.tolist(), len(self.stamps_ns)]
        return [slice(first, last) for first, last in itertools.pairwise(bounds)]


def forecast(
    estimator: PendulumEstimator,
    motion: Motion,
    means: Matrix,
    covariances: NDArray[np.float64],
    horizons_s: Sequence[float],
    settle_s: float = 0.2,
    every_s: float = 0.25,
) -> list[Forecasts]:
    """Forecasts from estimates (K, a) and (K, n, n) at the stamps of the motion, over each of the horizons.

    A horizon of zero is that of the next angles. Forecasts start `every_s`, the first `settle_s` after the start of a
    piece, and end within it.
    """
    count, gap_s = motion.angles.shape[1], estimator.configuration.longest_gap_s
    errors: list[list[Vector]] = [[] for _ in horizons_s]
    stddevs: list[list[Vector]] = [[] for _ in horizons_s]
    unscented, part = Unscented(estimator.space), estimator.space.part("joint_angles")
    for piece in motion.pieces(gap_s):
        stamps = motion.stamps_ns[piece]
        seconds = (stamps - stamps[0]) / NANOSECONDS_PER_SECOND
        for start_s in np.arange(settle_s, seconds[-1], every_s):
            first = int(np.searchsorted(seconds, start_s))
            ends = [max(first + 1, int(np.searchsorted(seconds, seconds[first] + ahead))) for ahead in horizons_s]
            points = unscented.start(means[piece][first], covariances[piece][first])
            for k in range(first, min(max(ends), len(stamps) - 1)):
                torque = motion.torques[piece][k]
                points = estimator.predicted(points, torque, seconds[k + 1] - seconds[k])
                for number in (place for place, end in enumerate(ends) if end == k + 1):
                    errors[number].append(part.minus(motion.angles[piece][k + 1], points.mean[:count]))
                    stddevs[number].append(np.sqrt(np.diag(unscented.covariance(points))[:count]))
    shape = (-1, count)
    return [
        Forecasts(horizon_s, np.reshape(error, shape), np.reshape(stddev, shape))
        for horizon_s, error, stddev in zip(horizons_s, errors, stddevs, strict=True)
    ]
