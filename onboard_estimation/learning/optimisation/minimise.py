"""Minimise a cost over parameters within bounds, with one seed or several: the method is an argument, all else is one.

Whatever the method, a run tells its progress after each generation, and may be continued from its state file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.installed import versions
from onboard_estimation.learning.optimisation import state_file as states
from onboard_estimation.learning.optimisation.methods import METHODS
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
        `genetic` (the hopper's paper, section IV-B), `differential_evolution` (SciPy), `cma` (CMA-ES), `gradient`
        (SciPy's L-BFGS-B with slopes by differences) or `pattern` (one parameter at a time).
    objective
        Costs (P,) of a population (P, n) in the parameters' units. Its exceptions pass through.
    progress
        Called after each generation that is computed.
    state_file
        Written after each generation. If it is there, the run is continued from it, with every method to the same
        result, bit by bit, as without the interruption. Asking for more generations lengthens a finished run.
        An interrupt (Ctrl-C) loses at most the generation that is being computed.
    initial
        (n,) or (k, n), individuals of the first population; the others are drawn evenly from the whole range. Methods
        without a population take the first as their starting point, and without one the middle of the range.

    Raises
    ------
    UserError
        Unknown method, `initial` that does not fit, a state file that is damaged or of another run, no finite cost at
        all, or the package `cma` is needed and not installed.
    """
    if method not in METHODS:
        raise UserError(f"unknown optimiser {method!r}; there are {', '.join(METHODS)}")
    start = np.empty((0, problem.count))
    if initial is not None:
        start = problem.to_shares(np.atleast_2d(np.asarray(initial, dtype=np.float64)))
    if start.ndim != 2 or len(start) > settings.individuals:
        raise UserError(f"initial individuals of shape {start.shape}, at most {settings.individuals} rows are possible")
    run = _Run(problem, objective, settings, progress, state_file, _identity(method, problem, settings, start))
    return run.result(method, METHODS[method](run.evaluate, problem, settings, start))


@dataclass(frozen=True)
class SeedResults:
    """Results of several seeds, in the order of the seeds."""

    results: tuple[Result, ...]

    @property
    def best(self) -> Result:
        """Result of lowest cost."""
        return min(self.results, key=lambda result: result.cost)


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
    results = []
    for number, seed in enumerate(seeds):

        def told(one: Progress, number: int = number) -> None:
            if progress is not None:
                progress(one._replace(share=(number + one.share) / len(seeds)))

        path = None if state_file is None else seed_path(state_file, seed)
        results.append(minimise(method, problem, objective, replace(settings, seed=seed), told, path, initial))
    return SeedResults(tuple(results))


def seed_path(path: Path, seed: int) -> Path:
    """State file of one of several seeds."""
    return path.with_name(f"{path.stem}_seed_{seed}{path.suffix}")


class _Run:
    """Between an optimiser, which knows shares of ranges, and the objective, which knows parameters in their units.

    It keeps all costs, stores them, and replays what a state file at `path` holds: see `state_file`.
    """

    def __init__(
        self,
        problem: Problem,
        objective: Objective,
        settings: Settings,
        progress: ProgressCallback | None,
        path: Path | None,
        identity: dict[str, Any],
    ) -> None:
        self._problem, self._objective, self._settings = problem, objective, settings
        self._progress, self._path = progress, path
        self._best, self._best_cost, self._generation = np.empty(0), np.inf, 0
        found = None if path is None else states.load(path)
        if found is not None:
            _require_same(found, identity, path)
        self._stored = states.StoredRun(identity) if found is None else found
        self._restored = len(self._stored.costs)

    def evaluate(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Costs (P,) of one generation (P, n); `WORST_COST` where the objective's is not finite.

        The generation is stored before anything is told of it.
        """
        shares = np.ascontiguousarray(shares)  # SciPy's come by columns, compiled objectives want rows
        digest = states.digest(shares)
        restored = self._generation < self._restored
        if restored:
            self._require_same_generation(digest)
        else:
            self._stored.costs.append(self._ask(shares))
            self._stored.digests.append(digest)
        costs = self._stored.costs[self._generation]
        self._generation += 1
        place = int(np.argmin(costs))
        if costs[place] < self._best_cost:
            self._best, self._best_cost = self._problem.to_units(shares[place]), float(costs[place])
        if not restored:
            self._stored.best, self._stored.best_cost = self._best, self._best_cost
            if self._path is not None:
                states.save(self._path, self._stored)
            self._report(min(1.0, self._generation / self._settings.generations))
        return np.where(np.isfinite(costs), costs, WORST_COST)

    def result(self, method: str, stopped: str) -> Result:
        """What came out; UserError if not one cost was finite."""
        if self._generation < self._restored:
            raise UserError(
                f"state file {self._path}: holds {self._restored} generations, {self._settings.generations} are asked "
                "for; ask for at least as many, or give another path"
            )
        costs = np.concatenate(self._stored.costs)
        if not np.isfinite(costs).any():
            raise UserError(
                f"none of {len(costs)} costs was finite, so there is nothing to choose from: check the data that the "
                "cost is computed from, and the bounds"
            )
        if stopped or self._restored == self._generation:
            self._report(1.0)
        non_finite = int((~np.isfinite(costs)).sum())
        return Result(method, self._settings.seed, self._best, self._best_cost, len(costs), non_finite, stopped)

    def _ask(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        costs = np.asarray(self._objective(self._problem.to_units(shares)), dtype=np.float64)
        if costs.shape != shares.shape[:1]:
            raise ValueError(f"the objective gave costs of shape {costs.shape} for {len(shares)} individuals")
        return np.where(np.isfinite(costs) & (np.abs(costs) < WORST_COST), costs, np.inf)

    def _report(self, share: float) -> None:
        if self._progress is not None:
            self._progress(Progress(self._settings.seed, self._generation, self._best_cost, share))

    def _require_same_generation(self, digest: bytes) -> None:
        if digest == self._stored.digests[self._generation]:
            return
        differences = [
            f"{name} {self._stored.libraries.get(name)}, here {version}"
            for name, version in versions(states.LIBRARIES).items()
            if self._stored.libraries.get(name) != version
        ]
        raise UserError(
            f"state file {self._path}: the run cannot be continued: generation {self._generation + 1} of "
            f"{self._restored} comes out differently here (made with {'; '.join(differences) or 'another machine'}). "
            "Start anew with another state file"
        )


def _identity(method: str, problem: Problem, settings: Settings, start: NDArray[np.float64]) -> dict[str, Any]:
    """All that the course of a run depends on. Not the number of generations: more of them continue the same run."""
    without_length = {name: value for name, value in asdict(settings).items() if name != "generations"}
    return {"method": method, "problem": problem.as_dict(), "settings": without_length, "start": start.tolist()}


def _require_same(found: states.StoredRun, identity: dict[str, Any], path: Path | None) -> None:
    def flat(part: dict[str, Any]) -> dict[str, Any]:
        inner = {name: value for value in part.values() if isinstance(value, dict) for name, value in value.items()}
        return {**{name: value for name, value in part.items() if not isinstance(value, dict)}, **inner}

    there, here = flat(found.identity), flat(identity)
    differences = [
        f"{name} is {_short(there.get(name))}, here {_short(here.get(name))}"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name)
    ]
    if differences:
        raise UserError(
            f"state file {path}: of another optimisation ({'; '.join(differences)}); give another path, or delete it "
            "to start anew"
        )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
