"""What simulators of all robots do alike: magnitudes from a file, draws, slow processes, digits, samples in between."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.configuration import load, parameter
from onboard_estimation.base.installed import resource

Array = NDArray[np.float64]
Magnitudes = TypeVar("Magnitudes")

_LONGEST_SPREAD = 2.5
"""Draws are cut off at so many standard deviations: no wheel with negative friction, no mass below zero."""


def magnitude(default: Any = MISSING, most: float | None = None, above_zero: bool = False) -> Any:
    """A field of a scenario: zero or more, or above it. What it is, the class's docstring and the file tell."""
    least: dict[str, Any] = {"exclusive_minimum" if above_zero else "minimum": 0.0}
    return parameter(default, "", maximum=most, **least)


def magnitudes(kind: type[Magnitudes], file: str) -> Magnitudes:
    """Those of a scenario, from its file beside the code; UserError where it is not as it should be."""
    return load(kind, resource(file))


def spread(rng: np.random.Generator, stddev: float, *shape: int) -> Array:
    """Draws from a normal distribution that is cut off."""
    return stddev * np.clip(rng.normal(size=shape), -_LONGEST_SPREAD, _LONGEST_SPREAD)


def first_order(share: float, keep: float, values: Array, before: Array) -> Array:
    """First-order filter along the first axis: each is `keep` of the one before and `share` of its value."""
    from scipy.signal import lfilter  # nodes that estimate do without

    filtered, _ = lfilter([share], [1.0, -keep], values, axis=0, zi=keep * before[None])
    return np.asarray(filtered)


def wandered(rng: np.random.Generator, keep: float, count: int, before: Array, stddev: float = 1.0) -> Array:
    """So many steps of Ornstein-Uhlenbeck processes of a standard deviation, of which a step leaves `keep`."""
    return first_order(1.0, keep, np.sqrt(1.0 - keep**2) * stddev * rng.normal(size=(count, *before.shape)), before)


def digits(values: Array, steps: ArrayLike) -> Array:
    """Rounded to the digits of a sensor, where it has any."""
    size = np.asarray(steps, dtype=np.float64)
    return np.where(size > 0.0, np.round(values / np.where(size > 0.0, size, 1.0)) * size, values)


def sampled(rows: Array, since_ns: NDArray[np.int64], step_ns: int) -> Array:
    """Rows (K, n), a step apart, at times since the first of them, between two on the line through both."""
    row, within_ns = np.divmod(since_ns, step_ns)
    share = (within_ns / step_ns)[:, None]
    return (1.0 - share) * rows[row] + share * rows[np.minimum(row + 1, len(rows) - 1)]
