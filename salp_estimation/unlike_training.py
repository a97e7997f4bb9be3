"""Is the robot unlike those that its residual model was trained with? A weak wheel, a payload, another build.

The model says how friction, thrust and harness differ from run to run, and the filter estimates them for the robot at
hand. For a robot of that population, the square of what each parameter is found to be off by is in the mean its prior
variance less what is still unknown of it. `unlikeness` is the sum of the squares over the sum of these expectations,
each parameter in its spread: 1 for a robot of the population, and for one that is k times further off k^2.

A prior that is so much too narrow also says too much of the joint angles, which are found together with the parameters.
So their published variance is multiplied by it where that is more than held-out runs asked for: it is what an empirical
Bayes estimate of the spread asks for, were all that is not known of the joint angles due to the parameters. From
`TOLD_FROM` on a sentence says it.
"""

from __future__ import annotations

import math

from numba import njit

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Notice, Vector

LEAST = 4.0
"""So many parameters' worth is expected at least: of fewer the sum of squares says little."""
TOLD_FROM, TOLD_TO = 6.0, 4.0
"""Unlikeness from which on it is told, and below which it is over: none of twenty robots as in training got there
in a minute (`salp_surprises`)."""


@njit(cache=True, error_model="numpy")
def unlikeness(deviations: Vector, covariance: Matrix, prior: Vector) -> float:
    """See above; 0 where a model knows of no differences between robots.

    Parameters
    ----------
    deviations, covariance
        (p,) the parameters less those of the population, and (p, p) of them.
    prior
        (p,) their variances from robot to robot.
    """
    squares = expected = 0.0
    for i in range(prior.shape[0]):
        if prior[i] > 0.0:
            squares += deviations[i] ** 2 / prior[i]
            expected += max(1.0 - covariance[i, i] / prior[i], 0.0)
        else:
            expected += 1.0  # no difference between robots was found in few runs: that it is so counts for the robot
    return float(squares / max(expected, LEAST))


def sentence(level: float) -> str:
    """For diagnostics, without a full stop."""
    return (
        f"the robot moves unlike those that its residual model was trained with, {math.sqrt(level):.1f} times as far "
        "from them as they are from each other; its joint angles are taken for that many times less sure. Is a wheel "
        "weak, is it loaded? Else train a model with this robot as it is"
    )


def notice(level: float, stamp_ns: int) -> Notice:
    """For the log and the notes of a run."""
    return Notice(f"at {stamp_ns / NANOSECONDS_PER_SECOND:.3f} s: {sentence(level)}")
