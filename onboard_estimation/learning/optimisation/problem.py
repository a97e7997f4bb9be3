"""What is optimised, and how: named parameters within bounds, the optimiser's settings, and what comes out.

The optimisers see every parameter as a number between 0 and 1, linear or logarithmic between its bounds; the objective
sees parameters in their own units.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class Problem:
    """Parameters and their bounds.

    Attributes
    ----------
    names
        Of the n parameters, each once.
    lower, upper
        (n,), in the parameters' units; no cost is asked for outside of them.
    scale
        (n,), `linear` or `log`: how a parameter is spread between its bounds. `log` for what may vary by powers of ten.
    """

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    scale: tuple[str, ...]

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
        """Shares (..., n) in 0 to 1 of parameters (..., n) in their units; ValueError outside of the bounds."""
        given = np.asarray(values, dtype=np.float64)
        lower, upper, log = self._arrays()
        if not ((given >= lower) & (given <= upper)).all():  # not a number: outside
            raise ValueError(f"parameters {given.tolist()} outside of the bounds {self.lower} to {self.upper}")
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
        number), first step of the pattern search.
    """

    individuals: int = 1000
    generations: int = 20
    seed: int = 0
    elite_fraction: float = 0.05
    crossover_fraction: float = 0.80
    initial_step: float = 0.3


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
    seed
        Of its random numbers.
    best
        (n,), parameters with the lowest cost found, in their units.
    cost
        Of `best`.
    evaluations
        Costs that were computed, in all generations.
    """

    seed: int
    best: NDArray[np.float64]
    cost: float
    evaluations: int


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
    cost_changes_percent
        (n, m), of the cost at the optimum. Not a number where the value would be out of bounds, so that no cost was
        asked for, and where the parameter is 0, of which there are no percents; infinite where the cost was not finite.
    """

    names: tuple[str, ...]
    changes_percent: NDArray[np.float64]
    cost_changes_percent: NDArray[np.float64]

    @property
    def largest_ratios(self) -> NDArray[np.float64]:
        """(n,), the most percent of the cost for each percent of the parameter; not a number where there is none."""
        ratios = np.abs(self.cost_changes_percent / self.changes_percent)
        largest = np.where(np.isfinite(ratios), ratios, -1.0).max(axis=1)
        return np.where(largest < 0.0, np.nan, largest)


def sensitivity(problem: Problem, objective: Objective, optimum: ArrayLike, changes_percent: ArrayLike) -> Sensitivity:
    """Change each parameter by some percents of its value, all others as they are.

    Parameters
    ----------
    optimum
        (n,), parameters in their units.
    changes_percent
        (m,), e.g. -10 to 10, without 0. All costs are asked for in one call.

    Raises
    ------
    UserError
        The cost at the optimum is 0 or not finite, so that there are no percents of it.
    """
    best, changes = np.asarray(optimum, dtype=np.float64), np.unique(np.asarray(changes_percent, dtype=np.float64))
    values = best[:, None] * (1.0 + changes / 100.0)
    lower, upper = np.array(problem.lower)[:, None], np.array(problem.upper)[:, None]
    parameters, places = np.nonzero((values >= lower) & (values <= upper) & (best[:, None] != 0.0))
    population = np.tile(best, (1 + len(parameters), 1))
    population[1 + np.arange(len(parameters)), parameters] = values[parameters, places]
    cost, *others = np.asarray(objective(population), dtype=np.float64)
    if not np.isfinite(cost) or cost == 0.0:
        raise UserError(f"the cost at the optimum is {cost:g}: there are no percents of it; take a point with a cost")
    changed = np.full(values.shape, np.nan)
    changed[parameters, places] = 100.0 * (np.where(np.isfinite(others), others, np.inf) - cost) / abs(cost)
    return Sensitivity(problem.names, changes, changed)
