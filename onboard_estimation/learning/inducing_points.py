"""Where inducing points start: spread over the training inputs, dense data or not.

Gaits fill a thin curve in the space of inputs, and some parts of it are visited seldom. The farthest-point rule gives
the seldom parts their points (what matters for the worst case); Lloyd's rule then moves each to its cell's mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def spread_points(inputs: Array, count: int, rounds: int = 5) -> Array:
    """At most `count` points (M, d) among inputs (n, d), no two equal; the same for the same inputs.

    Parameters
    ----------
    rounds
        Of Lloyd's rule.
    """
    from scipy.spatial import cKDTree  # nodes take the points as they were found

    points = farthest_points(inputs, count)
    for _ in range(rounds):
        _, nearest = cKDTree(points).query(inputs)
        sizes = np.bincount(nearest, minlength=len(points))
        sums = np.stack([np.bincount(nearest, column, len(points)) for column in inputs.T], axis=1)
        points = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], points)
    return np.unique(points, axis=0)


def farthest_points(inputs: Array, count: int) -> Array:
    """At most `count` of the inputs, each the farthest from those before it; the first is nearest to the mean."""
    chosen = [int(np.argmin(np.sum((inputs - inputs.mean(axis=0)) ** 2, axis=1)))]
    distance = np.sum((inputs - inputs[chosen[0]]) ** 2, axis=1)
    while len(chosen) < count:
        farthest = int(np.argmax(distance))
        if distance[farthest] == 0.0:
            break
        chosen.append(farthest)
        distance = np.minimum(distance, np.sum((inputs - inputs[farthest]) ** 2, axis=1))
    return inputs[chosen]
