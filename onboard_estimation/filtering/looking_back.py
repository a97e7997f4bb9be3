"""What later measurements say of a filter's state: the Rauch-Tung-Striebel smoother without an inverse of a covariance.

Bryson and Frazier's form (Bierman, "Fixed interval smoothing with discrete measurements", Int. J. Control 18, 1973):
the same means and covariances, but it goes back through single corrections, minds no constants that hardly anything
reveals, and keeps a few vectors of each step instead of matrices. With x and P the filter's state and covariance at an
instant, all measurements after it say

    smoothed state = x - P adjoint,    smoothed covariance = P - P information P,

and both are carried back through a prediction with transition F, and a correction with slopes H, gain K, innovation v
and its covariance S, by

    adjoint <- F^T adjoint                              information <- F^T information F
    adjoint <- (I - K H)^T adjoint - H^T S^-1 v         information <- (I - K H)^T information (I - K H) + H^T S^-1 H.

The noise of the process does not appear: neither does a covariance that was inflated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.moments import Moments
from onboard_estimation.measurement import Matrix, Vector

Rows = NDArray[np.float64]


class Later(NamedTuple):
    """The `adjoint` (n,) and the `information` (n, n) of all that was measured after an instant."""

    adjoint: Vector
    information: Matrix

    @classmethod
    def nothing(cls, size: int) -> Later:
        """After the last measurement."""
        return cls(np.zeros(size), np.zeros((size, size)))

    def before_correction(self, slopes: Rows, gain: Rows, precision: Matrix, innovation: Vector) -> Later:
        """Before a correction by k numbers: `slopes` (k, n), `gain` (n, k), `precision` S^-1, `innovation` (k,)."""
        along = self.information @ gain
        half = slopes.T @ (0.5 * (gain.T @ along + precision)) - along
        change = half @ slopes
        earlier = self.adjoint - slopes.T @ (gain.T @ self.adjoint + precision @ innovation)
        return Later(earlier, self.information + change + change.T)

    def smoothed(self, filtered: Moments) -> Moments:
        """Moments of plain numbers, given what came later too."""
        mean, covariance = filtered
        told = covariance @ self.information @ covariance
        return Moments(mean - covariance @ self.adjoint, covariance - 0.5 * (told + told.T))
