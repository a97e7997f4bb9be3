"""How much the cost changes when one parameter leaves its optimum (`hopper_phase_and_height.txt`, figure 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.learning.optimisation.problem import Objective, Problem


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
