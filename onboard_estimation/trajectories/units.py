"""Stamps and positions in another unit than they should be: the factor of 1000, a million or 1e9 that would fit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]

_FACTORS = (1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)
_UNITS = {1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
_YEARS_S = 1e9, 4e9  # 2001 to 2096
_OVERLAP, _LONGER = 0.5, 20.0
_RATIO = 2.0
_ALIKE = 0.7


def stamp_unit(text: str) -> str:
    """In which unit a number would be a time of today in seconds, in brackets; empty where in none."""
    try:
        number = float(text)
    except ValueError:
        return ""
    fitting = [name for factor, name in _UNITS.items() if _YEARS_S[0] < number * factor < _YEARS_S[1]]
    return f" (in {fitting[0]} it would be one)" if fitting else ""


def stamp_factor(stamps_ns: NDArray[np.int64], true_ns: NDArray[np.int64]) -> str:
    """What the stamps (K,) must be multiplied by to be those of the truth (M,), as words; empty where by nothing."""
    first, last = true_ns[0], true_ns[-1]
    for factor in _FACTORS:
        start, end = stamps_ns[0] * factor, stamps_ns[-1] * factor
        lengths = sorted((end - start, last - first))
        if min(end, last) - max(start, first) > _OVERLAP * lengths[0] and lengths[1] < _LONGER * lengths[0]:
            return f"its stamps are in another unit: multiplied by {factor:g} they are those of the truth"
    return ""


def scale_note(name: str, means: Rows, parts: Mapping[str, Rows], known: NDArray[np.bool_]) -> list[str]:
    """A sentence where positions are the truth's but for a factor of 1000, whatever frame they are in.

    Parameters
    ----------
    means
        (K, a) estimates; their positions come first.
    parts, known
        Parts of the true state by name, and where (K,) they are known; a position, or a planar pose.
    """
    true = next(iter(parts.values()))[known]
    true = true[:, :2] if "pose" in parts else true
    spreads = [one - one.mean(axis=0) for one in (means[known, : true.shape[1]], true)]
    sizes = [float(np.linalg.norm(one)) for one in spreads]
    if not min(sizes) > 0.0:
        return []
    ratio = sizes[0] / sizes[1]
    factor = 1e-3 if ratio > 1.0 else 1e3
    alike = np.linalg.svd(spreads[0].T @ spreads[1], compute_uv=False).sum() / (sizes[0] * sizes[1])
    if not 1.0 / _RATIO < ratio * factor < _RATIO or alike < _ALIKE:
        return []
    whose = "it is in millimetres" if ratio > 1.0 else "the truth is in millimetres, or it in kilometres"
    return [
        f"{name} goes {ratio:.4g} times as far as the truth and otherwise the same way: most likely {whose}. "
        f"Multiply its positions by {factor:g}."
    ]
