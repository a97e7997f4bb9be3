"""FilterPy's unscented filters as peers: run through the measurements of ours, compared before anything is timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.measuring import Array

Runner = Callable[..., list[tuple[Array, Array]]]
"""Runs a filter through its measurements; with `True`, gives mean and covariance after each."""


def filterpy_runner(tracker: Any, mean: Array, covariance: Array, measured: Sequence[Array]) -> Runner:
    """Runs FilterPy's from that start."""

    def run(record: bool = False) -> list[tuple[Array, Array]]:
        tracker.x, tracker.P, found = mean.copy(), covariance.copy(), []
        for one in measured:
            tracker.predict()
            tracker.update(one)
            if record:
                found.append((tracker.x, tracker.P))
        return found

    return run


def agreement(ours: Runner, theirs: Runner, tolerance: float, in_deviations: bool = False) -> float:
    """Largest difference of means and covariances over all steps; RuntimeError where they are not the same."""
    largest = 0.0
    for (mean, covariance), (other_mean, other) in zip(ours(True), theirs(True), strict=True):
        scale = np.sqrt(np.diag(other)) if in_deviations else np.ones(len(mean))
        largest = max(largest, np.abs((mean - other_mean) / scale).max())
        largest = max(largest, np.abs((covariance - other) / np.outer(scale, scale)).max())
    if not largest <= tolerance:
        raise RuntimeError(
            f"our filter and FilterPy's differ by {largest:.2g}, more than {tolerance:g}. FilterPy 2 is needed: "
            "older ones do not draw sigma points anew after a prediction"
        )
    return float(largest)
