"""Covariance of a sum over correlated instants: what a sandwich of an estimator's covariance is filled with.

Newey and West (1987), Bartlett's kernel; its width after Andrews (1991), "Heteroskedasticity and autocorrelation
consistent covariance matrix estimation", eq. 6.2 and 6.4, first-order autoregressions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Matrix

_LEAST_WIDTH = 25.0  # samples, five periods of the cut-off: noise of a position, differentiated, is anticorrelated


def long_run_covariance(steps: Sequence[NDArray[np.int64]], scores: Matrix, bread: Matrix) -> Matrix:
    """Covariance (p, p) of the sum of the scores.

    Parameters
    ----------
    steps
        One array a run, K elements in all: numbers of the regular steps, increasing; gaps are gaps in the numbers.
    scores
        (K, p): each instant's share of the gradient.
    bread
        (p, p) inverse of the information: the width is chosen for the coefficients, not for the scores.
    """
    stops = np.cumsum([len(run) for run in steps])
    regular = []
    for run, part in zip(steps, np.split(scores, stops[:-1]), strict=True):
        placed = np.zeros((int(run[-1] - run[0]) + 1, scores.shape[1]))
        placed[run - run[0]] = part  # zero in gaps
        regular.append(placed)
    longest = len(scores) / len(steps) / 4.0
    width = min(max(_andrews_width([part @ bread for part in regular], len(scores)), _LEAST_WIDTH), longest)
    out = scores.T @ scores
    for lag in range(1, int(width) + 1):
        for part in regular:
            if lag < len(part):
                cross = part[lag:].T @ part[:-lag]
                out = out + (1.0 - lag / (width + 1.0)) * (cross + cross.T)
    return out


def _andrews_width(influences: Sequence[Matrix], count: int) -> float:
    """Width of Bartlett's kernel for first-order autoregressions, pooled over coefficients and runs."""
    lagged = sum((part[1:] * part[:-1]).sum(axis=0) for part in influences)
    power = sum((part[:-1] ** 2).sum(axis=0) for part in influences)
    used = np.asarray(power) > 0.0
    rho = np.clip(np.asarray(lagged)[used] / np.asarray(power)[used], -0.97, 0.97)
    alpha = np.mean(4.0 * rho**2 / ((1.0 - rho) ** 6 * (1.0 + rho) ** 2)) / np.mean(1.0 / (1.0 - rho) ** 4)
    return float(1.1447 * (alpha * count) ** (1.0 / 3.0))
