"""What the inertial navigation knows of its own velocity, for the filter that finds more of its error by drag.

The parameter filter has the errors of the navigation's velocity and position in its state. Without drag it must believe
of them what the navigation does: they grow as the navigation's covariance does, by whatever causes, and what the pins
tell is told here as a measurement that makes of the one covariance the other (the channel filter of distributed
estimation: Durrant-Whyte, Rao and Hu, "Toward a fully decentralized architecture for multi-sensor data fusion", 1990).

A turn of the whole, to which drag is blind, is taken out of all of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Matrix, Vector
from salp_estimation.thruster_chain.inertial_layout import HEADING, LINK, chain_part

NOTHING = 1e-7
"""Share of a variance that is too small to be told of."""


class NavigationErrors(NamedTuple):
    """Of a tick; errors are truth minus estimate.

    Attributes
    ----------
    drift
        (2, 2) by how much the covariance of the velocity grew, (m/s)^2.
    told, by, variances
        (k,), (k, 2), (k,) what the pins told of the velocity: measured, how it depends on it, its noise.
    change
        (4,) by which estimates of velocity and position were moved then.
    """

    drift: Matrix
    told: Vector
    by: Matrix
    variances: Vector
    change: Vector


def own(covariance: Matrix, count: int) -> Matrix:
    """(2, 2) of the errors of the velocity, but for what a turn of the whole does to it."""
    headings, chain = LINK * np.arange(count) + HEADING, chain_part(count)
    velocity = slice(chain, chain + 2)
    turn = float(covariance[np.ix_(headings, headings)].mean())
    by_turn = covariance[velocity, headings].mean(axis=1)
    errors: Matrix = covariance[velocity, velocity] - np.outer(by_turn, by_turn) / max(turn, 1e-12)
    return errors


def of_tick(before: Matrix, predicted: Matrix, after: Matrix, change: Vector) -> NavigationErrors:
    """From the (2, 2) of `own` before a tick, after its prediction, and after its correction; `change` (4,)."""
    return NavigationErrors(_positive(predicted - before), *_told(predicted, after, change[:2]), change)


def _told(before: Matrix, after: Matrix, change: Vector) -> tuple[Vector, Matrix, Vector]:
    """The measurement that moves zero to `change`, and makes `after` of the covariance `before`.

    Along the axes in which both covariances are diagonal, the first all ones, the second's entries m are 1 / (1 + 1/r)
    for a measurement with the variance r, whose value is the change by its gain, 1 - m.
    """
    deviations = np.sqrt(np.maximum(np.diag(before), 1e-20))
    whitener = np.linalg.inv(np.linalg.cholesky(before / np.outer(deviations, deviations) + 1e-12 * np.eye(2)))
    whitener = whitener / deviations
    left, axes = np.linalg.eigh(whitener @ after @ whitener.T)
    left = np.maximum(left, 1e-9)
    seen = left < 1.0 - NOTHING
    by, gain = axes.T[seen] @ whitener, 1.0 - left[seen]
    return by @ change / gain, by, left[seen] / gain


def _positive(matrix: Matrix) -> NDArray[np.float64]:
    values, axes = np.linalg.eigh(0.5 * (matrix + matrix.T))
    positive: NDArray[np.float64] = (axes * np.maximum(values, 0.0)) @ axes.T
    return positive
