"""One run of an optimiser: asks the objective, keeps the history, stores it and restores it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.learning.optimisation import state_file
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


class Run:
    """Between an optimiser, which knows shares of ranges, and the objective, which knows parameters in their units.

    Parameters
    ----------
    start
        (k, n), shares of the individuals that the optimiser begins with; belongs to the identity of a stored run.
    path
        Of the state file, None for none. What it holds is replayed: see `state_file`.

    Raises
    ------
    UserError
        The state file is damaged, or belongs to another problem, method, settings or start.
    """

    def __init__(
        self,
        method: str,
        problem: Problem,
        objective: Objective,
        settings: Settings,
        start: NDArray[np.float64],
        progress: ProgressCallback | None,
        path: Path | None,
    ) -> None:
        self._method, self._problem, self._objective, self._settings = method, problem, objective, settings
        self._progress, self._path = progress, path
        self._best_costs: list[float] = []
        self._best, self._best_cost = np.empty(0), np.inf
        identity = _identity(method, problem, settings, start)
        found = None if path is None else state_file.load(path)
        if found is not None:
            _require_same(found, identity, settings, path)
        self._stored = state_file.StoredRun(identity) if found is None else found
        self._restored = len(self._stored.costs)

    def evaluate(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Costs (P,) of one generation (P, n); `WORST_COST` where the objective's is not finite.

        The generation is stored before anything is told of it.
        """
        shares = np.ascontiguousarray(shares)  # SciPy's come by columns, compiled objectives want rows
        generation = len(self._best_costs)
        digest = state_file.digest(shares)
        restored = generation < self._restored
        if restored:
            self._require_same_generation(generation, digest)
        else:
            self._stored.costs.append(self._ask(shares))
            self._stored.digests.append(digest)
        costs = self._stored.costs[generation]
        place = int(np.argmin(costs))
        if costs[place] < self._best_cost:
            self._best, self._best_cost = self._problem.to_units(shares[place]), float(costs[place])
        self._best_costs.append(self._best_cost)
        if not restored:
            self._stored.best, self._stored.best_cost = self._best, self._best_cost
            if self._path is not None:
                state_file.save(self._path, self._stored)
            self._report(generation + 1, (generation + 1) / self._settings.generations)
        return np.where(np.isfinite(costs), costs, WORST_COST)

    def result(self, stopped: str) -> Result:
        """What came out; UserError if not one cost was finite."""
        costs = self._stored.costs
        evaluations = sum(len(one) for one in costs)
        non_finite = sum(int((~np.isfinite(one)).sum()) for one in costs)
        if non_finite == evaluations:
            raise UserError(
                f"none of {evaluations} costs was finite, so there is nothing to choose from: check the data that the "
                "cost is computed from, and the bounds"
            )
        if stopped or self._restored == self._settings.generations:
            self._report(len(costs), 1.0)
        return Result(
            method=self._method,
            seed=self._settings.seed,
            best=self._best,
            cost=self._best_cost,
            best_costs=np.array(self._best_costs),
            median_costs=np.array([float(np.median(one)) for one in costs]),
            evaluations=evaluations,
            non_finite=non_finite,
            restored_generations=self._restored,
            stopped=stopped,
        )

    def _ask(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        costs = np.asarray(self._objective(self._problem.to_units(shares)), dtype=np.float64)
        if costs.shape != shares.shape[:1]:
            raise ValueError(f"the objective gave costs of shape {costs.shape} for {len(shares)} individuals")
        return np.where(np.isfinite(costs) & (np.abs(costs) < WORST_COST), costs, np.inf)

    def _report(self, generation: int, share: float) -> None:
        if self._progress is not None:
            self._progress(Progress(self._settings.seed, generation, self._best_cost, share))

    def _require_same_generation(self, generation: int, digest: bytes) -> None:
        if digest == self._stored.digests[generation]:
            return
        here = state_file.library_versions()
        differences = [
            f"{name} {self._stored.libraries.get(name)}, here {version}"
            for name, version in here.items()
            if self._stored.libraries.get(name) != version
        ]
        raise UserError(
            f"state file {self._path}: the run cannot be continued: generation {generation + 1} of "
            f"{self._restored} comes out differently here (made with {'; '.join(differences) or 'another machine'}). "
            "Start anew with another state file"
        )


def _identity(method: str, problem: Problem, settings: Settings, start: NDArray[np.float64]) -> dict[str, Any]:
    """All that the course of a run depends on. Not the number of generations: more of them continue the same run."""
    without_length = {name: value for name, value in asdict(settings).items() if name != "generations"}
    return {"method": method, "problem": problem.as_dict(), "settings": without_length, "start": start.tolist()}


def _require_same(found: state_file.StoredRun, identity: dict[str, Any], settings: Settings, path: Path | None) -> None:
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
    if len(found.costs) > settings.generations:
        raise UserError(
            f"state file {path}: holds {len(found.costs)} generations, {settings.generations} are asked for; ask for "
            "at least as many, or give another path"
        )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
