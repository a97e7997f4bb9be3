"""What a function that was learned before tells of weights, as if its samples had been seen with a lesser weight.

Under a normal prior of unit variances, samples are an information matrix beside the identity and a vector. Taken from
the posterior that was kept and multiplied by a weight, they widen what was learned, and only that: where nothing was,
the prior stands, and forgetting goes on as if nothing had been interrupted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.learning.learned_function import LearnedFunction

Array = NDArray[np.float64]

_NO_VARIANCE = 1e-200
"""Of the prior: so small a weight is of no use, and is left as it is."""


class Recalled(NamedTuple):
    """Of p outputs with weights in units of the prior's deviations.

    Attributes
    ----------
    information
        (M, M) beside the identity, never negative.
    moments
        (p, M) information, the prior's included, times means.
    """

    information: Array
    moments: Array

    @property
    def covariance(self) -> Array:
        """(M, M) of the weights, with the prior."""
        return np.asarray(np.linalg.inv(np.eye(len(self.information)) + self.information))


def recalled(function: LearnedFunction, factors: Array, noise_variances: Array, weight: float) -> Recalled:
    """What a function tells.

    Parameters
    ----------
    factors
        (M,) deviations of the prior's weights, for a noise of unit variance.
    noise_variances
        (p,) of the samples.
    weight
        Of its samples, from 0 to 1: deviations of what was learned grow by one over its root.
    """
    prior = np.outer(factors, factors)
    usable = prior > _NO_VARIANCE
    precisions = []
    for covariance, variance in zip(function.covariances, noise_variances, strict=True):
        scaled = np.where(usable, covariance / np.where(usable, prior, 1.0) / variance, np.eye(len(factors)))
        precisions.append(np.linalg.inv(scaled))
    values, vectors = np.linalg.eigh(np.mean(precisions, axis=0))
    # A mixture of particles may be wider than the prior somewhere: there it tells nothing.
    information = weight * (vectors * np.maximum(values - 1.0, 0.0)) @ vectors.T
    means = function.weights / np.where(usable.diagonal(), factors, np.inf)
    return Recalled(information, weight * means @ (vectors * values) @ vectors.T)
