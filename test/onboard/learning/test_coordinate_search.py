"""The search along one coordinate at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.learning.optimisation.coordinate_search import maximise

Array = NDArray[np.float64]


def test_a_narrow_hill_is_climbed_and_evaluations_are_counted() -> None:
    top, seen = np.array([0.9, -1.4, 0.2]), []

    def hill(x: Array) -> float:
        seen.append(x)
        return -float(((x - top) ** 2 * [1.0, 4.0, 9.0]).sum()) - 0.5 * float((x[0] - 0.9) * (x[1] + 1.4))

    found = maximise(hill, [0.5, 0.5, 0.5], 2.0, 60, hill(np.zeros(3)))
    np.testing.assert_allclose(found.best, top, atol=0.12)
    assert found.value == hill(found.best)
    assert found.evaluations == len(seen) - 2 <= 60


def test_it_stays_within_its_bounds_and_its_budget() -> None:
    seen: list[Array] = []

    def slope(x: Array) -> float:
        seen.append(x)
        return float(x.sum())

    found = maximise(slope, [1.0, -1.0], 1.5, 7, 0.0)
    assert len(seen) == found.evaluations <= 7
    np.testing.assert_array_equal(found.best, [1.5, 1.5])
    assert max(np.abs(x).max() for x in seen) == 1.5


def test_it_never_ends_worse_than_it_began() -> None:
    """Every other place is worse, or has no value."""

    def peak(x: Array) -> float:
        return 1.0 if not x.any() else float("nan") if x[0] else -np.inf

    found = maximise(peak, [0.7, 0.7], 2.0, 50, 1.0)
    np.testing.assert_array_equal(found.best, 0.0)
    assert found.value == 1.0
    assert found.evaluations < 20  # steps that lead nowhere get smaller, until it is over
