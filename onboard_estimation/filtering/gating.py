"""Gating of measurements by probability, with a way back after many rejections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onboard_estimation.base.measurement import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Innovation:
    """What an update saw.

    Attributes
    ----------
    value
        (m,) measured minus predicted.
    root
        (m, m) lower root of its predicted covariance.
    nis
        Normalised innovation squared: chi-square with m degrees of freedom for a consistent filter.
    accepted
        Whether the state was corrected.
    inflation
        Factor by which the state's covariance was inflated to let this measurement in (1: not at all).
    """

    value: Vector
    root: Matrix
    nis: float
    accepted: bool
    inflation: float = 1.0

    @property
    def covariance(self) -> Matrix:
        """(m, m) predicted covariance."""
        return self.root @ self.root.T

    @property
    def normalised(self) -> list[float]:
        """Each element of `value` in its standard deviation."""
        if len(self.value) == 1:  # NumPy takes longer to divide one number than the filter to correct
            return [float(self.value[0]) / abs(float(self.root[0, 0]))]
        return (self.value / np.sqrt(np.sum(self.root**2, axis=1))).tolist()


@lru_cache(maxsize=256)
def gate_threshold(probability: float, degrees_of_freedom: int) -> float:
    """NIS that a consistent filter stays below with that probability: the chi-square quantile.

    By itself, since `scipy.special` would be a tenth of what a node with a gate holds in memory, and of its start.
    """
    if probability >= 1.0:
        return math.inf
    low, high = 0.0, 1.0
    while _beyond(high, degrees_of_freedom) > 1.0 - probability:
        low, high = high, 2.0 * high
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if _beyond(middle, degrees_of_freedom) > 1.0 - probability else (low, middle)
    return high


def _beyond(value: float, degrees_of_freedom: int) -> float:
    """Probability that chi-square is larger: Abramowitz and Stegun, eq. (26.4.4) and (26.4.5)."""
    half, odd = 0.5 * value, degrees_of_freedom % 2
    powers = [0.5 * odd + number for number in range(degrees_of_freedom // 2)]
    terms = [math.exp(power * math.log(half) - half - math.lgamma(power + 1.0)) for power in powers]
    return sum(terms, math.erfc(math.sqrt(half)) if odd else 0.0)


@dataclass(frozen=True, slots=True)
class Gate:
    """Accepts a measurement when its NIS is within a probability's bound.

    A filter that has gone astray rejects everything and would never come back. After `recover_after` rejections in a
    row the filter's covariance is inflated until the next measurement just fits, and that measurement is used.

    Parameters
    ----------
    probability
        Share of good measurements that pass, e.g. 0.997.
    recover_after
        Rejections in a row after which the covariance is inflated; 0: never.

    Raises
    ------
    ValueError
        A probability outside (0, 1].
    """

    probability: float = 0.997
    recover_after: int = 20

    def __post_init__(self) -> None:
        if not 0.0 < self.probability <= 1.0:
            raise ValueError(f"gate probability must be in (0, 1], got {self.probability}")

    def threshold(self, degrees_of_freedom: int) -> float:
        """Largest NIS that passes."""
        return gate_threshold(self.probability, degrees_of_freedom)


OPEN = Gate(1.0, 0)
"""Accepts everything."""


class Decision(NamedTuple):
    """What a gate makes of a measurement.

    Attributes
    ----------
    accepted
        Within the bound: the state is to be corrected.
    inflation
        More than 1: the filter is to recover. Its covariance is multiplied by this, and the measurement is used. Exact
        where the state's share dominates the innovation's covariance; else too small, and the next rejection inflates
        again.
    rejected_in_a_row
        With this one; the filter's state keeps it until the next measurement of the same kind.
    """

    accepted: bool
    inflation: float
    rejected_in_a_row: int


_ACCEPTED = Decision(True, 1.0, 0)


def decide(
    gate: Gate, nis: float, degrees_of_freedom: int, rejected_in_a_row: int, may_recover: bool = True
) -> Decision:
    """The decision on a measurement with that NIS, after so many rejections.

    `may_recover` is false while other sensors confirm the state: then it is this sensor that has gone astray, and not
    the filter. Rejections count on.
    """
    threshold = gate_threshold(gate.probability, degrees_of_freedom)
    if nis <= threshold:
        return _ACCEPTED
    if may_recover and 0 < gate.recover_after <= rejected_in_a_row + 1:
        return Decision(False, max(1.0, nis / threshold), 0)
    return Decision(False, 1.0, rejected_in_a_row + 1)
