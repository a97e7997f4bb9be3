"""Is each quantity as sure as it should be? Errors against stated deviations: alone, together, and in each phase.

A mean NEES of one may hide errors that lie mostly between one and two sigma, a phase that is far too sure and another
that is too unsure, or marginals that are right with a cross-covariance that is not. So every dimension is checked
alone, by the size of its errors and by coverage, over the whole run and in each of its stretches; and every part of the
state together, by its joint NEES.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from onboard_estimation.evaluation.result import PartResult
from onboard_estimation.filtering.consistency import effective_sample_size, nees, overconfidence_p_value
from onboard_estimation.measurement import Vector

Mask = NDArray[np.bool_]
Rows = NDArray[np.float64]

# A filter's claims mislead when its errors are 1.5 times, or a third of, what it states.
OVERCONFIDENT_FACTOR = 1.5
CONSERVATIVE_FACTOR = 1.0 / 3.0
# Coverage of Gaussian errors that are 1.5 times as large as stated, at one and at three standard deviations.
LEAST_COVERAGE = {1: 0.5, 3: 0.95}
_EXPECTED_COVERAGE = {sigmas: 2.0 * float(norm.cdf(sigmas)) - 1.0 for sigmas in LEAST_COVERAGE}
# Of a stretch with fewer estimates nothing is said.
FEWEST_IN_STRETCH = 50
# Errors of one run are correlated, often over most of the run, and then even a consistent filter's look too large in
# many runs. It is called overconfident only where that has less than this probability, over all that is checked.
SIGNIFICANCE = 0.01
_WINDOW_S = 2.0
_STARTS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Check:
    """How errors compare with what the filter states of them.

    Attributes
    ----------
    name
        What is checked, in words: `alpha_2 (joint angles)`, `height while dropping`; of a joint check the part.
    part, columns
        Part of the state, and which of its dimensions.
    where
        (K,) the instants.
    stretch
        What stretch of the run, in words; empty: all of it.
    factor
        RMS of the errors in stated standard deviations; of several dimensions the root of the mean NEES for each.
        Infinite where the filter is wrong in what it states to be exact.
    coverage
        Share of the errors within one and three stated standard deviations; empty for several dimensions together.
    """

    name: str
    part: PartResult
    columns: tuple[int, ...]
    where: Mask
    stretch: str
    factor: float
    coverage: Mapping[int, float]

    @property
    def joint(self) -> bool:
        """Several dimensions together, cross-covariances included."""
        return len(self.columns) > 1

    @property
    def too_small_coverage(self) -> int | None:
        """The number of standard deviations within which too few errors lie; None: enough lie within each."""
        return next((n for n, share in self.coverage.items() if share < LEAST_COVERAGE[n]), None)

    @property
    def fails(self) -> bool:
        """Errors are larger than stated, by chance or not."""
        return self.factor > OVERCONFIDENT_FACTOR or self.too_small_coverage is not None

    def p_value(self) -> float:
        """Probability that a consistent filter looks as bad in one run whose errors are as correlated."""
        dimensions = len(self.columns)
        samples = self._samples()
        by_size = overconfidence_p_value(self.factor**2 * dimensions, dimensions, samples)
        sigmas = self.too_small_coverage
        if sigmas is None:
            return by_size
        count = round(samples)
        within = math.floor(self.coverage[sigmas] * count)
        return min(by_size, float(binom.cdf(within, count, _EXPECTED_COVERAGE[sigmas])))

    def small_p_value(self) -> float:
        """Probability that a consistent filter's errors look as small in one run in which they are as correlated."""
        dimensions = len(self.columns)
        samples = self._samples()
        return 1.0 - overconfidence_p_value(self.factor**2 * dimensions, dimensions, samples)

    def _samples(self) -> float:
        """How many independent samples the errors are worth."""
        return max(effective_sample_size(_normalised(self.part, self.where, self.columns)), 1.0)

    def since_s(self, time_s: Vector) -> float:
        """Start of the first two seconds that are mostly outside three stated deviations, else the first instant.

        Parameters
        ----------
        time_s
            (K,) of the run.
        """
        normalised = _normalised(self.part, self.where, self.columns)
        outside = np.max(np.abs(normalised), axis=1) > 2.0 * OVERCONFIDENT_FACTOR
        return _first_lasting(outside, time_s[self.where])


def checks(
    parts: Mapping[str, PartResult], time_s: Vector, settle_s: float, stretches: Mapping[str, Mask]
) -> list[Check]:
    """All that can be checked of a run: each dimension and each part together, over the run and in every stretch.

    Parameters
    ----------
    stretches
        (K,) where each is, by its words for a sentence (`while dropping`).
    """
    return [check for part in parts.values() for check in _of_part(part, time_s, settle_s, stretches)]


def judged_instants(part: PartResult, time_s: Vector, settle_s: float) -> Mask:
    """(K,) where the part is judged: after the start that is left out, if it has a truth there."""
    used = np.asarray(part.matched & (time_s >= time_s[0] + settle_s), dtype=np.bool_)
    return used if used.any() else part.matched


def _of_part(part: PartResult, time_s: Vector, settle_s: float, stretches: Mapping[str, Mask]) -> Iterator[Check]:
    judged = judged_instants(part, time_s, settle_s) & np.isfinite(part.stddev).all(axis=1)
    if not judged.any():
        return
    for stretch, mask in {"": judged, **stretches}.items():
        where = judged & mask
        if stretch and np.count_nonzero(where) < FEWEST_IN_STRETCH:
            continue
        for column in range(len(part.names)):
            yield _alone(part, column, where, stretch)
        if len(part.names) > 1:
            yield _together(part, where, stretch)


def _alone(part: PartResult, column: int, where: Mask, stretch: str) -> Check:
    normalised = np.abs(_normalised(part, where, (column,)))
    factor = float(np.sqrt(np.mean(np.square(normalised))))
    coverage = {sigmas: float(np.mean(normalised <= sigmas)) for sigmas in LEAST_COVERAGE}
    words = part.name.replace("_", " ")
    name = f"{part.names[column]} ({words})" if len(part.names) > 1 else words
    return Check(f"{name} {stretch}".rstrip(), part, (column,), where, stretch, factor, coverage)


def _together(part: PartResult, where: Mask, stretch: str) -> Check:
    exact_but_wrong = np.any((part.stddev[where] == 0.0) & (part.error[where] != 0.0))
    known = part.nees[where]
    known = known[np.isfinite(known)]  # a singular covariance has none
    mean = float(np.mean(known)) if len(known) else 0.0
    factor = math.inf if exact_but_wrong else math.sqrt(mean / len(part.names))
    name = f"{part.name.replace('_', ' ')} {stretch}".rstrip()
    return Check(name, part, tuple(range(len(part.names))), where, stretch, factor, {})


def _normalised(part: PartResult, where: Mask, columns: tuple[int, ...]) -> Rows:
    """(S, d) errors in stated standard deviations."""
    error, stddev = part.error[where][:, columns], part.stddev[where][:, columns]
    # What is stated to be exact, and is, is not in excess; and where it is not, without bound.
    out: Rows = np.divide(error, stddev, out=np.where(error == 0.0, 0.0, np.inf), where=stddev > 0.0)
    return out


def worst_pair(check: Check) -> tuple[str, str] | None:
    """Of a joint check the two dimensions whose errors contradict their stated cross-covariance most.

    None where no two alone explain it, or the covariances are not known.
    """
    part = check.part
    if part.covariance is None:
        return None
    error, stddev, covariance = (values[check.where] for values in (part.error, part.stddev, part.covariance))
    factors = {}
    for pair in itertools.combinations(range(len(part.names)), 2):
        columns = list(pair)
        values = scaled_nees(error[:, columns], covariance[:, columns][:, :, columns], stddev[:, columns])
        values = values[np.isfinite(values)]
        factors[pair] = math.sqrt(float(np.mean(values)) / 2.0) if len(values) else 0.0
    (first, second), factor = max(factors.items(), key=lambda entry: entry[1])
    return (part.names[first], part.names[second]) if factor > OVERCONFIDENT_FACTOR else None


def scaled_nees(error: Rows, covariance: Rows, stddev: Rows) -> Vector:
    """NEES (K,) of (K, d) errors; NaN where rounding has made the covariance singular, as after a gross inflation."""
    if error.shape[1] == 1:  # a number has no correlation, and there may be millions of them
        variance = covariance[:, 0, 0]
        usable = (variance > 0.0) & np.isfinite(variance)
        return np.divide(error[:, 0] ** 2, variance, out=np.full(len(error), np.nan), where=usable)
    with np.errstate(divide="ignore", invalid="ignore"):  # what is exactly known has no correlation
        correlation = covariance / (stddev[:, :, None] * stddev[:, None, :])
        normalised = error / stddev
    usable = np.asarray(np.isfinite(correlation).all(axis=(1, 2)), dtype=np.bool_)
    smallest = np.linalg.eigvalsh(np.where(usable[:, None, None], correlation, 0.0))[:, 0]
    usable &= smallest > error.shape[1] * np.finfo(np.float64).eps
    return nees(np.where(usable[:, None], normalised, np.nan), correlation)


def _first_lasting(outside: Mask, times: Vector) -> float:
    """Start of the first window that is mostly outside; the first instant where there is none."""
    outside_before = np.concatenate(([0], np.cumsum(outside)))
    starts = np.flatnonzero(outside)
    for piece in np.array_split(starts, max(len(starts) // _STARTS_AT_ONCE, 1)):
        ends = np.searchsorted(times, times[piece] + _WINDOW_S)
        lasting = 2 * (outside_before[ends] - outside_before[piece]) > ends - piece
        if lasting.any():
            return float(times[piece[np.argmax(lasting)]])
    return float(times[0])
