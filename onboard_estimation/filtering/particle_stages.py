"""What passes between the stages of a particle filter's step: a reading, what predictions say of it, what was drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.normal_inverse_gamma import Statistics
from onboard_estimation.filtering.particle_weights import scatter
from onboard_estimation.filtering.walking_prior import WalkingStatistics

Array = NDArray[np.float64]

SURPLUS_SHARE = 0.1
"""Weight of the newest step in what is known of how far drawn outputs scatter about auxiliary ones."""


class Seen(NamedTuple):
    """A measurement (m,), with zeros for what was not measured, and the numbers of its elements that were."""

    values: Array
    heard: NDArray[np.int64]


class Auxiliary(NamedTuple):
    """First stage: measured less predicted (N, m), the covariance of what was heard, and what it says of particles."""

    errors: Array
    covariance: Array
    whitening: Array
    constant: float
    log_densities: Array
    innovation: Innovation


class Drawn(NamedTuple):
    """Second stage, before it is weighted."""

    states: Array
    values: Array
    learned: Statistics | WalkingStatistics
    dead: NDArray[np.bool_] | None
    clamped: int


def surplus(before: Array | None, densities: Array, differences: Array) -> Array:
    """(m, m) scatter of drawn outputs about auxiliary ones, with these differences (N, m)."""
    mean, newest = np.empty(differences.shape[1]), np.empty((differences.shape[1],) * 2)
    scatter(np.ones(len(differences)), densities, differences, mean, newest)
    return newest if before is None else before + SURPLUS_SHARE * (newest - before)


def without(dead: NDArray[np.bool_] | None, log_weights: Array) -> Array:
    """Logarithms of weights, -inf for the dead (N,), if there are any."""
    return log_weights if dead is None else np.where(dead, -np.inf, log_weights)


def logarithms(weights: Array) -> Array:
    """Of weights that may be zero."""
    with np.errstate(divide="ignore"):
        return np.log(weights)
