"""Rauch-Tung-Striebel smoothing on state spaces: an oracle for filters, and for smoothers that go another way.

Needs of each step the filtered and predicted moments and the cross-covariance between the state before and after the
prediction (Sarkka, "Bayesian filtering and smoothing", 2013, algorithms 8.2 and 10.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.state_space import StateSpace


@dataclass(frozen=True, slots=True)
class FilterStep:
    """One prediction followed by updates.

    Attributes
    ----------
    predicted_mean, predicted_covariance
        After the prediction; unused for the first step.
    cross_covariance
        (n, n) covariance of the errors before (rows) and after (columns) the prediction; unused for the first step.
    mean, covariance
        After the updates.
    """

    predicted_mean: Vector
    predicted_covariance: Matrix
    cross_covariance: Matrix
    mean: Vector
    covariance: Matrix


def smooth(space: StateSpace, steps: Sequence[FilterStep]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means (K, a) and covariances (K, n, n) of every state given all measurements.

    Raises
    ------
    ValueError
        There are no steps.
    """
    if not steps:
        raise ValueError("nothing to smooth: the record has no steps")
    means = np.array([step.mean for step in steps])
    covariances = np.array([step.covariance for step in steps])
    for k in range(len(steps) - 2, -1, -1):
        following = steps[k + 1]
        gain = _gain(following)
        correction = space.minus(means[k + 1], following.predicted_mean)
        step = gain @ correction
        means[k] = space.plus(steps[k].mean, step)
        # Covariances are compared in one tangent space, at the predicted mean, and end in that of the smoothed one.
        back = np.linalg.inv(space.right_jacobian(correction))
        change = back @ covariances[k + 1] @ back.T - following.predicted_covariance
        covariance = steps[k].covariance + gain @ change @ gain.T
        jacobian = space.right_jacobian(step)
        covariance = jacobian @ covariance @ jacobian.T
        covariances[k] = 0.5 * (covariance + covariance.T)
    return means, covariances


def _gain(following: FilterStep) -> Matrix:
    """C P^-1 of a step, by least squares on unit variances: exact parts of a state have no inverse to be taken."""
    scale = np.sqrt(np.diag(following.predicted_covariance))
    scale[scale == 0.0] = 1.0
    correlation = following.predicted_covariance / np.outer(scale, scale)
    gain = np.linalg.lstsq(correlation, following.cross_covariance.T / scale[:, None], rcond=None)[0].T
    return gain / scale
