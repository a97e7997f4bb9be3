"""Exact derivatives by nilpotent numbers: each symbol e_k has e_k^2 = 0, so that products of different ones remain.

A `Jet` a + b e_1 + c e_2 + d e_1 e_2 + ... carries a value and all mixed derivatives in which every symbol appears at
most once. f(x + e v) = f(x) + e f'(x) v holds exactly, and for several symbols in turn it gives Lie derivatives along
different vector fields: x + e f(x) is the flow of f as far as e can tell. No step, no cancellation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Jet:
    """Arrays by products of symbols: part `mask` belongs to the product of all e_k whose bit k is set; 0 is the value.

    Absent parts are zero. Parts of one jet may have different shapes that broadcast against each other: what does not
    depend on a direction needs no axis of directions.
    """

    __slots__ = ("parts",)
    __array_ufunc__ = None  # so that array * jet asks the jet

    def __init__(self, parts: Mapping[int, Array]) -> None:
        self.parts = dict(parts)

    @property
    def value(self) -> Array:
        """What is left when every symbol is zero."""
        return self.parts[0]

    def __add__(self, other: Jet | Array | float) -> Jet:
        theirs = other.parts if isinstance(other, Jet) else {0: np.asarray(other)}
        parts = dict(self.parts)
        for mask, part in theirs.items():
            parts[mask] = parts[mask] + part if mask in parts else part
        return Jet(parts)

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return Jet({mask: -part for mask, part in self.parts.items()})

    def __sub__(self, other: Jet | Array | float) -> Jet:
        return self + (-other)

    def __rsub__(self, other: Array | float) -> Jet:
        return -self + other

    def __mul__(self, other: Jet | Array | float) -> Jet:
        return self._bilinear(other, np.multiply)

    __rmul__ = __mul__

    def __matmul__(self, other: Jet | Array) -> Jet:
        return self._bilinear(other, np.matmul)

    def __rmatmul__(self, other: Array) -> Jet:
        return Jet({mask: np.matmul(other, part) for mask, part in self.parts.items()})

    def __getitem__(self, key: Any) -> Jet:
        return self.each(lambda part: part[key])

    def each(self, change: Callable[[Array], Array]) -> Jet:
        """A linear change of every part, such as another shape."""
        return Jet({mask: change(part) for mask, part in self.parts.items()})

    def times(self, symbol: int) -> Jet:
        """The jet times e_symbol."""
        bit = 1 << symbol
        return Jet({mask | bit: part for mask, part in self.parts.items() if not mask & bit})

    def _bilinear(self, other: Jet | Array | float, product: Callable[..., Array]) -> Jet:
        theirs = other.parts if isinstance(other, Jet) else {0: np.asarray(other)}
        parts: dict[int, Array] = {}
        for mask, part in self.parts.items():
            for their_mask, their_part in theirs.items():
                if not mask & their_mask:
                    term = product(part, their_part)
                    both = mask | their_mask
                    parts[both] = parts[both] + term if both in parts else term
        return Jet(parts)

    def _nilpotent(self) -> Jet:
        return Jet({mask: part for mask, part in self.parts.items() if mask})


def cos_sin(angle: Jet) -> tuple[Jet, Jet]:
    """Cosine and sine, by the addition theorem with the series of the nilpotent part, which ends."""
    nilpotent = angle._nilpotent()
    cosine, sine = np.cos(angle.value), np.sin(angle.value)
    series = [Jet({0: np.ones(1)}), Jet({0: np.zeros(1)})]
    term, order = nilpotent, 1
    while term.parts:
        sign = -1.0 if order % 4 in (2, 3) else 1.0
        series[order % 2] = series[order % 2] + sign * term
        order += 1
        term = (term * nilpotent) * (1.0 / order)
    return series[0] * cosine - series[1] * sine, series[0] * sine + series[1] * cosine


def reciprocal(jet: Jet) -> Jet:
    """1 / jet by the geometric series, which ends."""
    inverse = 1.0 / jet.value
    ratio = -jet._nilpotent() * inverse
    total, term = Jet({0: np.ones(1)}), ratio
    while term.parts:
        total = total + term
        term = term * ratio
    return total * inverse


def stacked(jets: list[Jet], axis: int) -> Jet:
    """Jets of a shape side by side along an axis that is there already (negative), absent parts as zeros."""
    masks = sorted({mask for jet in jets for mask in jet.parts})
    parts = {}
    for mask in masks:
        known = [jet.parts.get(mask, np.zeros_like(jet.value)) for jet in jets]
        batch = np.broadcast_shapes(*(part.shape[:-2] for part in known))
        parts[mask] = np.concatenate([np.broadcast_to(part, batch + part.shape[-2:]) for part in known], axis=axis)
    return Jet(parts)


def solve(matrix: Jet, right: Jet) -> Jet:
    """`matrix`^-1 `right` (..., n, n) and (..., n, m): order by order, with the inverse of the value alone."""
    inverse = np.linalg.inv(matrix.value)
    bits = max(0, *matrix.parts, *right.parts).bit_length()
    parts: dict[int, Array] = {}
    for mask in range(1 << bits):
        rest = right.parts.get(mask)
        for part_mask, part in matrix.parts.items():
            if part_mask and not part_mask & ~mask and (mask ^ part_mask) in parts:
                term = part @ parts[mask ^ part_mask]
                rest = -term if rest is None else rest - term
        if rest is not None:
            parts[mask] = inverse @ rest
    return Jet(parts)
