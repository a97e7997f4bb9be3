"""What is optimised, and how: named parameters within bounds, the optimiser's settings, and what comes out.

The optimisers see every parameter as a number between 0 and 1, linear or logarithmic between its bounds; the objective
sees parameters in their own units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.errors import UserError

Objective = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Costs (P,) of a population (P, n) of parameters in their units, within the bounds. Called with a whole generation at
once. The same parameters must give the same cost."""

LINEAR, LOG = "linear", "log"
SCALES = (LINEAR, LOG)
FEWEST_INDIVIDUALS = 5


@dataclass(frozen=True)
class Problem:
    """Parameters and their bounds.

    Attributes
    ----------
    names
        Of the n parameters, each once.
    units
        (n,), for people; "" without unit.
    lower, upper
        (n,), in the parameters' units; no cost is asked for outside of them.
    scale
        (n,), `linear` or `log`: how a parameter is spread between its bounds. `log` for what may vary by powers of ten.
    fingerprint
        What the objective was made of, e.g. a hash of training data and estimator. A stored run is continued only if
        it is the same.

    Raises
    ------
    UserError
        From the constructor, with every fault: lengths that differ, names twice, bounds that are not finite, not in
        order, or not positive where the scale is `log`.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    scale: tuple[str, ...]
    fingerprint: str = ""

    def __post_init__(self) -> None:
        for name in ("names", "units", "scale"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("lower", "upper"):  # plain numbers, so that problems compare and are written as JSON
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        faults = self._faults()
        if faults:
            raise UserError(f"parameters cannot be optimised: {'; '.join(faults)}")

    def _faults(self) -> list[str]:
        lengths = {name: len(getattr(self, name)) for name in ("names", "units", "lower", "upper", "scale")}
        if len(set(lengths.values())) > 1:
            return [f"numbers of values that differ: {lengths}"]
        if not self.names:
            return ["there is no parameter"]
        faults = [f"the name {name} is there {count} times" for name, count in Counter(self.names).items() if count > 1]
        for name, low, high, scale in zip(self.names, self.lower, self.upper, self.scale, strict=True):
            # A range that overflows would make every parameter infinite.
            if not low < high or not np.isfinite(high - low):
                faults.append(f"{name} has bounds {low:g} and {high:g}, finite ones in ascending order are needed")
            if scale not in SCALES:
                faults.append(f"{name} has scale {scale!r}, one of {', '.join(SCALES)} is needed")
            if scale == LOG and low <= 0.0:
                faults.append(f"{name} has lower bound {low:g}, with scale log it must be positive")
        return faults

    @property
    def count(self) -> int:
        """Number n of parameters."""
        return len(self.names)

    def to_units(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Parameters (..., n) in their units from shares (..., n) of their ranges; never outside of the bounds."""
        lower, upper, log = self._arrays()
        low, high = lower.copy(), upper.copy()
        np.log(lower, where=log, out=low)
        np.log(upper, where=log, out=high)
        values = low + np.clip(shares, 0.0, 1.0) * (high - low)
        np.exp(values, where=np.broadcast_to(log, values.shape), out=values)
        return np.clip(values, lower, upper)  # rounding may leave them by a hair

    def to_shares(self, values: ArrayLike) -> NDArray[np.float64]:
        """Shares (..., n) in 0 to 1 of parameters (..., n) in their units.

        Raises
        ------
        UserError
            Another number of parameters, not finite, or outside of the bounds.
        """
        given = np.asarray(values, dtype=np.float64)
        if given.shape[-1:] != (self.count,):
            raise UserError(f"parameters of shape {given.shape}, {self.count} are needed: {', '.join(self.names)}")
        lower, upper, log = self._arrays()
        outside = ~((given >= lower) & (given <= upper))  # not a number: outside
        if outside.any():
            place = tuple(np.argwhere(outside)[0])
            k = int(place[-1])
            raise UserError(
                f"{self.names[k]} = {given[place]:g} is outside of its bounds {lower[k]:g} to {upper[k]:g} "
                f"({self.units[k] or 'no unit'}); give a value within, or move the bounds"
            )
        linear = (given - lower) / (upper - lower)
        safe_lower, safe_given = np.where(log, lower, 1.0), np.where(log, given, 1.0)
        logarithmic = np.log(safe_given / safe_lower) / np.log(np.where(log, upper, np.e) / safe_lower)
        return np.where(log, logarithmic, linear)

    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        return np.array(self.lower), np.array(self.upper), np.array([scale == LOG for scale in self.scale])


@dataclass(frozen=True)
class Settings:
    """How long and how is searched. The defaults are the paper's, section IV-B.

    Attributes
    ----------
    individuals
        Of a population, at least 5.
    generations
        Populations in all, the first (random) one included: at most individuals * generations costs are computed.
        A population is what a method asks for at once.
    seed
        Of all random numbers: the same seed gives the same result.
    elite_fraction
        Genetic algorithm: share of a population that lives on unchanged.
    crossover_fraction
        Genetic algorithm: share of a population that is made by crossover; the rest is made by mutation.
    initial_step
        Share of each parameter's range: first step size of the genetic algorithm's mutation (the paper gives no
        number), first standard deviation of CMA-ES, first step of the pattern search.

    Raises
    ------
    UserError
        From the constructor, with every fault.
    """

    individuals: int = 1000
    generations: int = 20
    seed: int = 0
    elite_fraction: float = 0.05
    crossover_fraction: float = 0.80
    initial_step: float = 0.3

    def __post_init__(self) -> None:
        for name in ("individuals", "generations", "seed"):  # NumPy's integers are none to JSON
            object.__setattr__(self, name, int(getattr(self, name)))
        faults = []
        if self.individuals < FEWEST_INDIVIDUALS:
            faults.append(f"individuals is {self.individuals}, at least {FEWEST_INDIVIDUALS} are needed")
        if self.generations < 1:
            faults.append(f"generations is {self.generations}, at least 1 is needed")
        if self.seed < 0:
            faults.append(f"seed is {self.seed}, it must not be negative")
        if not 0.0 <= self.elite_fraction <= 0.5:
            faults.append(f"elite_fraction is {self.elite_fraction:g}, it must be in 0 to 0.5")
        if not (self.crossover_fraction >= 0.0 and self.elite_fraction + self.crossover_fraction <= 1.0 + 1e-12):
            faults.append(
                f"crossover_fraction is {self.crossover_fraction:g}, it must be in 0 to {1.0 - self.elite_fraction:g}: "
                "what elites leave"
            )
        if not 0.0 < self.initial_step <= 1.0:
            faults.append(f"initial_step is {self.initial_step:g}, it must be above 0 and at most 1")
        if faults:
            raise UserError(f"optimiser's settings: {'; '.join(faults)}")


class Progress(NamedTuple):
    """What is told after every generation.

    Attributes
    ----------
    seed
        Of the run.
    generation
        Number of generations that are done, from 1.
    best_cost
        So far; infinite while none was finite.
    share
        Of the whole work, 0 to 1.
    """

    seed: int
    generation: int
    best_cost: float
    share: float


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True)
class Result:
    """Outcome of one run.

    Attributes
    ----------
    method
        Name of the optimiser.
    seed
        Of its random numbers.
    best
        (n,), parameters with the lowest cost found, in their units.
    cost
        Of `best`.
    evaluations
        Costs that were computed, in all generations.
    non_finite
        Of these, how many were not finite and thus taken as the worst.
    stopped
        Why it ended before the last generation, by the optimiser's own name of the criterion; "" if it did not.
    """

    method: str
    seed: int
    best: NDArray[np.float64]
    cost: float
    evaluations: int
    non_finite: int
    stopped: str


# How much the cost changes when one parameter leaves its optimum (`hopper_phase_and_height.txt`, figure 4).


@dataclass(frozen=True)
class Sensitivity:
    """Costs along each parameter, the others at their optimum.

    Attributes
    ----------
    names
        Of the n parameters.
    changes_percent
        (m,), ascending, of the parameter's value at the optimum.
    values
        (n, m), of the changed parameter, in its unit.
    cost
        At the optimum.
    cost_changes_percent
        (n, m), of the cost at the optimum. Not a number where the value would be out of bounds, so that no cost was
        asked for, and where the parameter is 0, of which there are no percents; infinite where the cost was not finite.
    """

    names: tuple[str, ...]
    changes_percent: NDArray[np.float64]
    values: NDArray[np.float64]
    cost: float
    cost_changes_percent: NDArray[np.float64]

    @property
    def ratios(self) -> NDArray[np.float64]:
        """(n, m), percent of the cost for each percent of the parameter, without sign; above 1: sensitive."""
        ratios = np.full_like(self.cost_changes_percent, np.nan)
        np.divide(self.cost_changes_percent, self.changes_percent, out=ratios, where=self.changes_percent != 0.0)
        return np.abs(ratios)

    @property
    def largest_ratios(self) -> NDArray[np.float64]:
        """(n,), the largest of the finite ratios of each parameter; not a number where there are none."""
        finite = np.where(np.isfinite(self.ratios), self.ratios, -1.0)
        largest = finite.max(axis=1)
        return np.where(largest < 0.0, np.nan, largest)


def sensitivity(problem: Problem, objective: Objective, optimum: ArrayLike, changes_percent: ArrayLike) -> Sensitivity:
    """Change each parameter by some percents of its value, all others as they are.

    Parameters
    ----------
    optimum
        (n,), parameters in their units.
    changes_percent
        (m,), e.g. -10 to 10. All costs are asked for in one call.

    Raises
    ------
    UserError
        `optimum` does not fit the problem; no changes, or some that are not finite; the cost at the optimum is 0 or
        not finite, so that there are no percents of it.
    """
    best = np.asarray(optimum, dtype=np.float64)
    if best.ndim != 1:
        raise UserError(f"optimum of shape {best.shape}, ({problem.count},) is needed")
    problem.to_shares(best)  # which checks it
    changes = np.unique(np.asarray(changes_percent, dtype=np.float64))
    if not changes.size or not np.isfinite(changes).all():
        raise UserError(f"changes of {changes.tolist()} %: at least one is needed, and all must be finite")
    values = best[:, None] * (1.0 + changes / 100.0)
    lower, upper = np.array(problem.lower)[:, None], np.array(problem.upper)[:, None]
    asked = (values >= lower) & (values <= upper) & (best[:, None] != 0.0)
    parameters, places = np.nonzero(asked)
    population = np.tile(best, (1 + len(parameters), 1))
    population[1 + np.arange(len(parameters)), parameters] = values[parameters, places]
    costs = np.asarray(objective(population), dtype=np.float64)
    if costs.shape != (len(population),):
        raise ValueError(f"the objective gave costs of shape {costs.shape} for {len(population)} individuals")
    cost = float(costs[0])
    if not np.isfinite(cost) or cost == 0.0:
        raise UserError(f"the cost at the optimum is {cost:g}: there are no percents of it; take a point with a cost")
    changed = np.full(values.shape, np.nan)
    others = np.where(np.isfinite(costs[1:]), costs[1:], np.inf)
    changed[parameters, places] = 100.0 * (others - cost) / abs(cost)
    return Sensitivity(problem.names, changes, values, cost, changed)
