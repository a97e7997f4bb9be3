"""Stamps and positions in another unit than they should be, quaternions in another order: what would fit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.judging.replay import EstimateSeries
from onboard_estimation.judging.verdict import LEAST_SHARE

Rows = NDArray[np.float64]
Integers = NDArray[np.int64]

_FACTORS = (1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)
_UNITS = {1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
_YEARS_S = 1e9, 4e9  # 2001 to 2096
_OVERLAP, _LONGER = 0.5, 20.0
_LENGTHS = {1e3: ("millimetres", "kilometres"), 1e2: ("centimetres", "units of 100 m")}
_RATIO = 2.0
_ALIKE = 0.7
_ORDERED_RAD = 0.1


def stamp_unit(text: str) -> str:
    """In which unit a number would be a time of today in seconds, in brackets; empty where in none."""
    try:
        number = float(text)
    except ValueError:
        return ""
    for factor, name in _UNITS.items():
        if _YEARS_S[0] < number * factor < _YEARS_S[1]:
            return f" (in {name} it would be one: multiply stamps by {factor:g})"
    return ""


def stamp_factor(stamps_ns: Integers, true_ns: Integers) -> str:
    """What the stamps (K,) must be multiplied by to be those of the truth (M,), as words; empty where by nothing."""
    first, last = true_ns[0], true_ns[-1]
    for factor in _FACTORS:
        start, end = stamps_ns[0] * factor, stamps_ns[-1] * factor
        lengths = sorted((end - start, last - first))
        if min(end, last) - max(start, first) > _OVERLAP * lengths[0] and lengths[1] < _LONGER * lengths[0]:
            return f"its stamps are in another unit: multiplied by {factor:g} they are those of the truth"
    return ""


def unit_notes(
    name: str,
    estimates: EstimateSeries,
    parts: Mapping[str, Rows],
    known: NDArray[np.bool_],
    true_ns: NDArray[np.int64],
) -> list[str]:
    """Sentences where numbers are the truth's but for units of stamps or positions, or the order of quaternions.

    Parameters
    ----------
    estimates
        K; their positions come first, then their attitude, if they have one.
    parts, known
        Parts of the true state by name, and where (K,) they are known; a position, or a planar pose.
    true_ns
        (M,) stamps of the truth.
    """
    if known.mean() < LEAST_SHARE and (factor := stamp_factor(estimates.stamps_ns, true_ns)):
        return [f"{name}: {factor}."]
    true = next(iter(parts.values()))[known]
    true = true[:, :2] if "pose" in parts else true
    notes = _scale(name, estimates.means[known, : true.shape[1]], true)
    if "attitude" in parts:
        notes += _order(name, estimates.means[known, 3:], parts["attitude"][known])
    return notes


def _scale(name: str, places: Rows, true: Rows) -> list[str]:
    """Whether positions (K, d) are the true ones but for a factor of 1000 or 100, whatever frame they are in."""
    spreads = [one - one.mean(axis=0) for one in (places, true)]
    sizes = [float(np.linalg.norm(one)) for one in spreads]
    if not min(sizes) > 0.0:
        return []
    ratio = sizes[0] / sizes[1]
    larger = max(ratio, 1.0 / ratio)
    factor = next((one for one in _LENGTHS if 1.0 / _RATIO < larger / one < _RATIO), None)
    alike = np.linalg.svd(spreads[0].T @ spreads[1], compute_uv=False).sum() / (sizes[0] * sizes[1])
    if factor is None or alike < _ALIKE:
        return []
    (fine, coarse), (small, large) = _LENGTHS[factor], (name, "the truth") if ratio > 1.0 else ("the truth", name)
    return [
        f"{name} goes {ratio:.4g} times as far as the truth and otherwise the same way: most likely {small} is in "
        f"{fine} (multiply its positions by {1.0 / factor:g}), or {large} in {coarse} (by {factor:g})."
    ]


def _order(name: str, attitudes: Rows, true: Rows) -> list[str]:
    """Whether attitudes (K, 4) turn as the true ones once quaternions are taken in another order."""

    def apart(*both: Rows) -> float:
        """RMS difference of the turns since the start, whatever frames they are given in, rad."""
        first, second = (Rotation.from_quat(one[0]).inv() * Rotation.from_quat(one) for one in both)
        return float(np.sqrt(np.mean(np.square((first.inv() * second).magnitude()))))

    limit = min(_ORDERED_RAD, 0.1 * apart(attitudes, true))
    return [
        f"{name} turns as the truth does if quaternions are taken in another order: most likely {name} has w {place}, "
        f"or the truth w {other}. Name the columns in a line above them, as in # stamp x y z qw qx qy qz."
        for place, other, order in (("first", "last", [1, 2, 3, 0]), ("last", "first", [3, 0, 1, 2]))
        if apart(attitudes[:, order], true) < limit
    ]
