"""Gating of measurements by probability, with a way back after many rejections."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv

from onboard_estimation.measurement import Matrix, Vector


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
        covariance: Matrix = self.root @ self.root.T
        return covariance

    @property
    def normalised(self) -> list[float]:
        """Each element of `value` in its standard deviation."""
        if len(self.value) == 1:  # NumPy takes longer to divide one number than the filter to correct
            return [float(self.value[0]) / abs(float(self.root[0, 0]))]
        out: list[float] = (self.value / np.sqrt(np.sum(self.root**2, axis=1))).tolist()
        return out


@lru_cache(maxsize=256)
def gate_threshold(probability: float, degrees_of_freedom: int) -> float:
    """NIS that a consistent filter stays below with that probability."""
    # The chi-square quantile; scipy.stats has it under its name, and takes half a second to import.
    return float(2.0 * gammaincinv(0.5 * degrees_of_freedom, probability))


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

    Attributes
    ----------
    may_recover
        False while other sensors confirm the state: then it is this sensor that has gone astray, and not the filter.
        Rejections count on.
    """

    def __init__(self, probability: float = 0.997, recover_after: int = 20) -> None:
        if not 0.0 < probability <= 1.0:
            raise ValueError(f"gate probability must be in (0, 1], got {probability}")
        self.probability = probability
        self.recover_after = recover_after
        self.may_recover = True
        self.rejected_in_a_row = 0

    def threshold(self, degrees_of_freedom: int) -> float:
        """Largest NIS that passes."""
        return gate_threshold(self.probability, degrees_of_freedom)

    def count(self, accepted: bool) -> bool:
        """Count a decision; true where the filter is to recover now: inflate its covariance and use the measurement."""
        if accepted:
            self.rejected_in_a_row = 0
            return False
        self.rejected_in_a_row += 1
        if self.may_recover and 0 < self.recover_after <= self.rejected_in_a_row:
            self.rejected_in_a_row = 0
            return True
        return False

    def inflation(self, innovation: Innovation) -> float:
        """Factor on the state's covariance that brings the innovation to the gate's bound, at least 1.

        Exact where the state's share dominates the innovation's covariance; else too small, and the next rejection
        inflates again.
        """
        return max(1.0, innovation.nis / gate_threshold(self.probability, len(innovation.value)))

    def snapshot(self) -> int:
        """Its only state, for filters that are rolled back."""
        return self.rejected_in_a_row

    def restore(self, snapshot: int) -> None:
        """Return to a snapshot."""
        self.rejected_in_a_row = snapshot
