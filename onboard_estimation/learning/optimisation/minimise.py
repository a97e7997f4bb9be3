"""Minimise a cost over parameters within bounds, with one seed or several, whatever the method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.learning.optimisation.methods import Method
from onboard_estimation.learning.optimisation.problem import (
    Objective,
    Problem,
    Progress,
    ProgressCallback,
    Result,
    Settings,
)

WORST_COST = 1e100
"""Given to optimisers for a cost that is not finite; their arithmetic (means, squares) stays finite with it."""


def minimise(
    method: Method,
    problem: Problem,
    objective: Objective,
    settings: Settings,
    progress: ProgressCallback | None = None,
    initial: ArrayLike | None = None,
) -> Result:
    """Find parameters of low cost.

    The same seed gives the same result. A cost that is not finite, or 1e100 and more, counts as the worst.

    Parameters
    ----------
    method
        Of the module `methods`.
    objective
        Costs (P,) of a population (P, n) in the parameters' units. Its exceptions pass through.
    progress
        Called after each generation that is computed.
    initial
        (n,) or (k, n), individuals of the first population; the others are drawn evenly from the whole range. Methods
        without a population need one, and start there.

    Raises
    ------
    UserError
        No finite cost at all.
    """
    start = np.empty((0, problem.count)) if initial is None else problem.to_shares(np.atleast_2d(initial))
    run = _Run(problem, objective, settings, progress)
    method(run.evaluate, problem, settings, start)
    return run.result()


def minimise_seeds(
    method: Method,
    problem: Problem,
    objective: Objective,
    settings: Settings,
    seeds: Sequence[int],
    progress: ProgressCallback | None = None,
) -> list[Result]:
    """`minimise` with each of several seeds, one after the other: the objective is what uses all cores.

    Parameters
    ----------
    settings
        Its own seed is not used.
    seeds
        Each once.
    progress
        Its share is that of all seeds together.

    Raises
    ------
    UserError
        As `minimise`; no seeds, or one of them twice.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise UserError(f"seeds {list(seeds)}: at least one is needed, and each only once")
    results = []
    for number, seed in enumerate(seeds):

        def told(one: Progress, number: int = number) -> None:
            if progress is not None:
                progress(one._replace(share=(number + one.share) / len(seeds)))

        results.append(minimise(method, problem, objective, replace(settings, seed=seed), told))
    return results


class _Run:
    """Between an optimiser, which knows shares of ranges, and the objective, which knows parameters in their units."""

    def __init__(
        self,
        problem: Problem,
        objective: Objective,
        settings: Settings,
        progress: ProgressCallback | None,
    ) -> None:
        self._problem, self._objective, self._settings = problem, objective, settings
        self._progress = progress
        self._best, self._best_cost, self._generation, self._evaluations = np.empty(0), np.inf, 0, 0

    def evaluate(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Costs (P,) of one generation (P, n); `WORST_COST` where the objective's is not finite."""
        shares = np.ascontiguousarray(shares, dtype="<f8")  # SciPy's come by columns, compiled objectives want rows
        costs = self._ask(shares)
        self._generation += 1
        self._evaluations += len(costs)
        place = int(np.argmin(costs))
        if costs[place] < self._best_cost:
            self._best, self._best_cost = self._problem.to_units(shares[place]), float(costs[place])
        self._report(min(1.0, self._generation / self._settings.generations))
        return np.where(np.isfinite(costs), costs, WORST_COST)

    def result(self) -> Result:
        """What came out; UserError if not one cost was finite."""
        if not np.isfinite(self._best_cost):
            raise UserError(
                f"none of {self._evaluations} costs was finite, so there is nothing to choose from: check the data "
                "that the cost is computed from, and the bounds"
            )
        if self._generation < self._settings.generations:
            self._report(1.0)
        return Result(self._settings.seed, self._best, self._best_cost, self._evaluations)

    def _ask(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        costs = np.asarray(self._objective(self._problem.to_units(shares)), dtype=np.float64)
        if costs.shape != shares.shape[:1]:
            raise ValueError(f"the objective gave costs of shape {costs.shape} for {len(shares)} individuals")
        return np.where(np.isfinite(costs) & (np.abs(costs) < WORST_COST), costs, np.inf)

    def _report(self, share: float) -> None:
        if self._progress is not None:
            self._progress(Progress(self._settings.seed, self._generation, self._best_cost, share))
