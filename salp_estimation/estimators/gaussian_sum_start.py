"""A start that may be further off than it is said to be: a second filter, which began with wider joint angles.

Joint angles are not measured, only what their turning does to the gyros; and a filter that is told them wrongly, and
surely, explains the gyros by everything else that it learns. So the start is taken as it should be: told well with a
high probability, and several times further off else. A Gaussian filter follows each of the two (a Gaussian sum:
Alspach & Sorenson, "Nonlinear Bayesian estimation using Gaussian sum approximations", 1972), the gyros' readings weigh
them, and the moments of both together are published. After two cycles of a gait the likelier one goes on alone.

A robot unlike those that the model was trained with may let the second filter seem the likelier one though the start
was told well. That costs little, for it is as good then within some per cent; so nobody is told that a start was wrong.

Without a residual model the gyros cannot tell: where a link's turning rate may be 0.1 rad/s off, as without one, twelve
seconds change the odds of a start that is 20 deg off by e^6 at most, and not at all sideways. Only the filter with a
model doubts.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numba import njit

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix
from onboard_estimation.filtering.state_space import StateSpace

Followed = TypeVar("Followed")

FACTOR = 4.0
"""How many times wider the joint angles of the second filter begin."""
WIDEST_RAD = math.radians(30.0)
"""They begin no wider than that: two links that are 60 deg further than thought are not where anybody put them."""
DECIDED_S = 12.0
"""Two cycles of the gaits, of which the robot is driven: standing, the gyros tell nothing of the joint angles."""


class WideComponent(NamedTuple, Generic[Followed]):
    """What the second filter has made of all measurements.

    Attributes
    ----------
    state
        After the last of them.
    prior
        Logarithm of the odds that the start was told well, before the first.
    driven, driven_ns
        Whether the robot is driven, and how long it was.
    """

    state: Followed
    prior: float
    driven: bool = False
    driven_ns: int = 0

    @property
    def is_over(self) -> bool:
        """Whether one of both is to go on alone."""
        return self.driven_ns >= DECIDED_S * NANOSECONDS_PER_SECOND

    def narrow_probability(self, evidence: float, other_evidence: float) -> float:
        """Probability, by the logarithms of how likely the gyros' readings were to this filter and to the other."""
        odds = self.prior + evidence - other_evidence
        return 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0


def widened(space: StateSpace, covariance: Matrix) -> Matrix | None:
    """The covariance with wider joint angles, correlations as they are; None where these are wide already."""
    joints = space.tangent("joint_angles")
    stddevs = np.sqrt(np.diagonal(covariance)[joints])
    factors = np.clip(WIDEST_RAD / np.maximum(stddevs, 1e-9), 1.0, FACTOR)
    if (factors <= 1.0).all():
        return None
    scales = np.ones(len(covariance))
    scales[joints] = factors
    wider: Matrix = covariance * np.outer(scales, scales)
    return wider


@njit(cache=True, error_model="numpy")
def log_density(innovation: float, spread: float, own: float, repeated: float, share: float, threshold: float) -> float:
    """Of a gyro's reading, less a constant, where the filter takes errors that last for white noise.

    n readings with errors of their own, r, and one in common, v, are corrected by as if each had n v of its own: all
    together then tell as much of the state as they do. But the determinant of their covariance has (r + n v)^(n - 1)
    then in the place of r^(n - 1), and their squares about their mean are divided by r + n v in the place of r. Both
    are put right here, the second by its expectation: else a filter that takes more for errors that last would be found
    less likely, or likelier, for that alone.

    Parameters
    ----------
    innovation, spread
        Measured minus expected, rad/s, and its variance as the correction takes it.
    own, repeated, share
        r, n v and n, see above: `spread` is own + repeated + what is not known of the state.
    threshold
        NIS above which the gate refuses a reading: one that is further off says no more than that.
    """
    more = repeated / own
    less = (1.0 - 1.0 / share) * (math.log1p(more) - more / (1.0 + more))
    return -0.5 * (min(innovation * innovation / spread, threshold) + math.log(spread) - less)


def mixture(space: StateSpace, weight: float, one: Estimate, other: Estimate) -> Estimate:
    """Moments of `one` with that weight and `other` with the rest; both have the same stamp."""
    if weight == 1.0:
        return one
    apart = space.minus(other.mean, one.mean)
    mean = space.plus(one.mean, (1.0 - weight) * apart)
    covariance = np.zeros_like(one.covariance)
    for share, part in ((weight, one), (1.0 - weight, other)):
        off = space.minus(part.mean, mean)
        inverse = np.linalg.inv(space.right_jacobian(off))  # to errors about the mixture's mean from the part's
        covariance += share * (inverse @ part.covariance @ inverse.T + np.outer(off, off))
    return Estimate(one.stamp_ns, mean, 0.5 * (covariance + covariance.T))
