"""Exact derivatives by nilpotent numbers: each symbol e_k has e_k^2 = 0, so that products of different ones remain.

A `Jet` a + b e_1 + c e_2 + d e_1 e_2 + ... carries a value and all mixed derivatives in which every symbol appears at
most once. f(x + e v) = f(x) + e f'(x) v holds exactly, and for several symbols in turn it gives Lie derivatives along
different vector fields: x + e f(x) is the flow of f as far as e can tell. No step, no cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Jet:
    """A number by products of symbols: part `mask` belongs to the product of the e_k whose bit k is set; 0: its value.

    Parts are arrays of many such numbers, and may have different shapes that broadcast against each other: what does
    not depend on a direction needs no axis of directions. Absent parts are zero.
    """

    __slots__ = ("parts",)
    __array_ufunc__ = None  # so that array * jet asks the jet

    def __init__(self, parts: Mapping[int, Array]) -> None:
        self.parts = dict(parts)

    @property
    def real(self) -> Array:
        """What is left when every symbol is zero."""
        return self.parts[0]

    def __add__(self, other: Jet | Array | float) -> Jet:
        parts = dict(self.parts)
        for mask, part in _parts(other).items():
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
        parts: dict[int, Array] = {}
        for mask, part in self.parts.items():
            for their_mask, their_part in _parts(other).items():
                if not mask & their_mask:
                    both = mask | their_mask
                    parts[both] = parts[both] + part * their_part if both in parts else part * their_part
        return Jet(parts)

    __rmul__ = __mul__

    def __truediv__(self, other: Jet) -> Jet:
        return self * (1.0 / other)

    def __rtruediv__(self, other: float) -> Jet:
        """By the geometric series, which ends."""
        ratio = -self._nilpotent() * (1.0 / self.real)
        total, term = Jet({0: np.ones(1)}), ratio
        while term.parts:
            total, term = total + term, term * ratio
        return total * (other / self.real)

    def sine_cosine(self) -> tuple[Jet, Jet]:
        """By the addition theorem with the series of the nilpotent part, which ends."""
        nilpotent = self._nilpotent()
        sine, cosine = np.sin(self.real), np.cos(self.real)
        series = [Jet({0: np.ones(1)}), Jet({0: np.zeros(1)})]
        term, order = nilpotent, 1
        while term.parts:
            series[order % 2] = series[order % 2] + (-1.0 if order % 4 in (2, 3) else 1.0) * term
            order += 1
            term = (term * nilpotent) * (1.0 / order)
        return series[0] * sine + series[1] * cosine, series[0] * cosine - series[1] * sine

    def times(self, symbol: int) -> Jet:
        """The jet times e_symbol."""
        bit = 1 << symbol
        return Jet({mask | bit: part for mask, part in self.parts.items() if not mask & bit})

    def _nilpotent(self) -> Jet:
        return Jet({mask: part for mask, part in self.parts.items() if mask})


def _parts(number: Jet | Array | float) -> Mapping[int, Array]:
    return number.parts if isinstance(number, Jet) else {0: np.asarray(number)}
