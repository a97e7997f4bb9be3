"""What `tune` may change: parameters of a configuration, each between bounds."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from onboard_estimation.base.configuration import Parameter, describe, to_mapping
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.presentation import flatten
from onboard_estimation.learning.optimisation.problem import LINEAR, LOG, Problem

FACTOR = 30.0
"""A parameter is searched between its value divided by this and times this, where no bounds are given."""
_NOISE = re.compile(r"noise|stddev|error|walk|sigma|density|variance")
# What judges, or is drawn from when a run is judged: tuning it would move the goal.
_NOT_NOISE = re.compile(r"truth|^initial\.|probability|_time_s$")
_RANGE = re.compile(r"(?P<low>[^.]+(?:\.\d+)?(?:[eE][+-]?\d+)?)\.\.(?P<high>.+)")

_FORM = "write NAME=LOW..HIGH with LOW below HIGH, e.g. =0.001..0.1"


@dataclass(frozen=True)
class Tunable:
    """A parameter, or the common factor of all elements of one that is a list.

    Attributes
    ----------
    name
        Dotted.
    value
        Number or list, as configured.
    low, high
        Bounds, of a list those of the factor.
    scale
        `log` or `linear`.
    """

    name: str
    unit: str
    value: float | tuple[float, ...]
    low: float
    high: float
    scale: str

    @property
    def start(self) -> float:
        """Where the search begins: the value, or a factor of one."""
        return 1.0 if isinstance(self.value, tuple) else self.value

    @property
    def is_log(self) -> bool:
        """Searched on a logarithmic scale."""
        return self.scale == LOG

    def moved(self, factor: float) -> float:
        """The start times a factor, on a linear scale so many tenths of the range further, within the bounds."""
        moved = factor * self.start if self.is_log else self.start + (factor - 1.0) * 0.1 * (self.high - self.low)
        return min(max(moved, self.low), self.high)

    def changed(self, number: float) -> float | list[float]:
        """The parameter for a number between the bounds."""
        return [number * one for one in self.value] if isinstance(self.value, tuple) else number


Ranges = Mapping[str, tuple[float, float] | None]
"""Between which bounds parameters are searched, by their dotted names; None: a factor of 30 either way."""


def parse_ranges(texts: Sequence[str]) -> dict[str, tuple[float, float] | None]:
    """`NAME` or `NAME=LOW..HIGH`; UserError where a text is none, or a name comes twice."""
    ranges: dict[str, tuple[float, float] | None] = {}
    for text in texts:
        name, equals, span = text.partition("=")
        if name in ranges:
            raise UserError(f"--parameter {name} is given twice")
        found = _RANGE.fullmatch(span.strip())
        try:
            ranges[name] = (float(found["low"]), float(found["high"])) if found else None
        except ValueError:
            found = None
        if equals and not found:
            raise UserError(f"--parameter {text}: {_FORM}")
    return ranges


def tunables(configuration: Any, asked: Ranges = MappingProxyType({})) -> list[Tunable]:
    """What is to be tuned.

    Parameters
    ----------
    asked
        None: all whose names are those of noise, and that are not zero.

    Raises
    ------
    UserError
        No such parameter, no number, or no bounds: all faults in one line.
    """
    known = {one.name: one for one in describe(type(configuration)) if one.type_name.startswith("float")}
    values = {".".join(keys): value for keys, value in flatten(to_mapping(configuration))}
    if not asked:
        found = [
            _tunable(one, values[name], None)
            for name, one in known.items()
            if _NOISE.search(name.rpartition(".")[2]) and not _NOT_NOISE.search(name) and _is_positive(values[name])
        ]
        if not found:
            raise UserError(f"no parameter is called noise: name some with --parameter; there are {', '.join(known)}")
        return found
    out: dict[str, Tunable] = {}
    faults = []
    for name, bounds in asked.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 3, 0.4)
            faults.append(
                f"--parameter {name}: no such number; {'the nearest are' if near else 'there are'} "
                f"{', '.join(near or known)}"
            )
            continue
        try:
            out[name] = _tunable(known[name], values[name], bounds)
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("; ".join(faults))
    return list(out.values())


def problem_of(chosen: Sequence[Tunable]) -> Problem:
    """What an optimiser needs to know of them."""
    return Problem(
        tuple(one.name for one in chosen),
        tuple("" if isinstance(one.value, tuple) else one.unit for one in chosen),
        tuple(one.low for one in chosen),
        tuple(one.high for one in chosen),
        tuple(one.scale for one in chosen),
    )


def _tunable(parameter: Parameter, value: Any, bounds: tuple[float, float] | None) -> Tunable:
    name = parameter.name
    if bounds is not None and not -math.inf < bounds[0] < bounds[1] < math.inf:
        raise UserError(f"--parameter {name}={bounds[0]:g}..{bounds[1]:g}: {_FORM}")
    if isinstance(value, list):
        if not _is_positive(value):
            raise UserError(
                f"--parameter {name}: the elements of a list share a factor, and one is not above 0: {value}"
            )
        low, high = bounds or (1.0 / FACTOR, FACTOR)
        return Tunable(name, parameter.unit, tuple(float(one) for one in value), low, high, LOG)
    value = float(value)
    if bounds is None:
        if value <= 0.0:
            raise UserError(f"--parameter {name} is {value:g}: say between which bounds, --parameter {name}=LOW..HIGH")
        bounds = value / FACTOR, value * FACTOR
        if parameter.minimum is not None:
            bounds = max(bounds[0], float(parameter.minimum)), bounds[1]
        if parameter.maximum is not None:
            bounds = bounds[0], min(bounds[1], float(parameter.maximum))
    low, high = bounds
    if not low <= value <= high:
        raise UserError(f"--parameter {name}: it is {value:g}, which is outside of {low:g}..{high:g}")
    return Tunable(name, parameter.unit, value, low, high, LOG if low > 0.0 else LINEAR)


def _is_positive(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(one > 0.0 for one in values)
