"""Minimise a cost over parameters within bounds, with one seed or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.learning.optimisation.genetic import Evaluate, genetic
from onboard_estimation.learning.optimisation.library_methods import (
    covariance_matrix_adaptation,
    differential_evolution,
)
from onboard_estimation.learning.optimisation.problem import (
    Objective,
    Problem,
    Progress,
    ProgressCallback,
    Result,
    Settings,
)
from onboard_estimation.learning.optimisation.run import Run

METHODS: dict[str, Callable[[Evaluate, Settings, NDArray[np.float64]], str]] = {
    "genetic": genetic,
    "differential_evolution": differential_evolution,
    "cma": covariance_matrix_adaptation,
}
"""By name: runs on (costs of shares, settings, individuals to begin with); returns why it stopped early, or ""."""


def minimise(
    method: str,
    problem: Problem,
    objective: Objective,
    settings: Settings,
    progress: ProgressCallback | None = None,
    state_file: Path | None = None,
    initial: ArrayLike | None = None,
) -> Result:
    """Find parameters of low cost.

    The same seed gives the same result. A cost that is not finite, or 1e100 and more, counts as the worst.

    Parameters
    ----------
    method
        `genetic` (the hopper's paper, section IV-B), `differential_evolution` (SciPy) or `cma` (CMA-ES).
    objective
        Costs (P,) of a population (P, n) in the parameters' units. Its exceptions pass through.
    progress
        Called after each generation that is computed.
    state_file
        Written after each generation. If it is there, the run is continued from it, with every method to the same
        result, bit by bit, as without the interruption. Asking for more generations lengthens a finished run.
        An interrupt (Ctrl-C) loses at most the generation that is being computed.
    initial
        (n,) or (k, n), individuals of the first population; the others are drawn evenly from the whole range. CMA-ES
        takes the first as its starting point; without one it starts in the middle of the range.

    Raises
    ------
    UserError
        Unknown method, `initial` that does not fit, a state file that is damaged or of another run, no finite cost at
        all, or the package `cma` is needed and not installed.
    """
    if method not in METHODS:
        raise UserError(f"unknown optimiser {method!r}; there are {', '.join(METHODS)}")
    start = _start(problem, settings, initial)
    run = Run(method, problem, objective, settings, start, progress, state_file)
    return run.result(METHODS[method](run.evaluate, settings, start))


@dataclass(frozen=True)
class SeedResults:
    """Results of several seeds, in the order of the seeds."""

    results: tuple[Result, ...]

    @property
    def costs(self) -> NDArray[np.float64]:
        """(S,), cost of each seed's best."""
        return np.array([result.cost for result in self.results])

    @property
    def best(self) -> Result:
        """Result of lowest cost."""
        return self._ranked()[0]

    @property
    def median(self) -> Result:
        """Result of median cost; of an even number of seeds the better one of the middle two."""
        return self._ranked()[(len(self.results) - 1) // 2]

    @property
    def worst(self) -> Result:
        """Result of highest cost."""
        return self._ranked()[-1]

    def _ranked(self) -> list[Result]:
        return sorted(self.results, key=lambda result: result.cost)


def minimise_seeds(
    method: str,
    problem: Problem,
    objective: Objective,
    settings: Settings,
    seeds: Sequence[int],
    progress: ProgressCallback | None = None,
    state_file: Path | None = None,
    initial: ArrayLike | None = None,
) -> SeedResults:
    """`minimise` with each of several seeds, one after the other: the objective is what uses all cores.

    Parameters
    ----------
    settings
        Its own seed is not used.
    seeds
        Each once.
    progress
        Its share is that of all seeds together.
    state_file
        Each seed has its own: `training.npz` becomes `training_seed_3.npz`.

    Raises
    ------
    UserError
        As `minimise`; no seeds, or one of them twice.
    """
    if not seeds or len(set(seeds)) < len(seeds):
        raise UserError(f"seeds {list(seeds)}: at least one is needed, and each only once")

    def report_of(number: int) -> ProgressCallback | None:
        if progress is None:
            return None
        return lambda one: progress(_with_share(one, (number + one.share) / len(seeds)))

    results = []
    for number, seed in enumerate(seeds):
        path = None if state_file is None else seed_path(state_file, seed)
        own = replace(settings, seed=seed)
        results.append(minimise(method, problem, objective, own, report_of(number), path, initial))
    return SeedResults(tuple(results))


def seed_path(path: Path, seed: int) -> Path:
    """State file of one of several seeds."""
    return path.with_name(f"{path.stem}_seed_{seed}{path.suffix}")


def _with_share(one: Progress, share: float) -> Progress:
    return one._replace(share=share)


def _start(problem: Problem, settings: Settings, initial: ArrayLike | None) -> NDArray[np.float64]:
    if initial is None:
        return np.empty((0, problem.count))
    start = problem.to_shares(np.atleast_2d(np.asarray(initial, dtype=np.float64)))
    if start.ndim != 2 or len(start) > settings.individuals:
        raise UserError(f"initial individuals of shape {start.shape}, at most {settings.individuals} rows are possible")
    return start
