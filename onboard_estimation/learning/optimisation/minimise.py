"""Minimise a cost over parameters within bounds, with one seed or several: the method is an argument, all else is one.

Whatever the method, a run tells its progress after each generation, and may be continued from its state file: every
cost that was computed, generation by generation. Optimisers are deterministic for a seed, so a run is continued by
running it again with the stored costs in place of the objective, up to where they end: exact for every method, whatever
it keeps inside, and quick, since the objective takes nearly all of the time. A digest of each generation's individuals
shows whether it really was the same run.

A state file is an `.npz` of plain arrays without pickle; one of them, `header`, holds JSON as UTF-8 bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import versions
from onboard_estimation.learning.model_file import MOST_ARRAYS, read_arrays
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
FORMAT_VERSION = 1
LARGEST_FILE_BYTES = 256 * 1024 * 1024
LIBRARIES = ("numpy", "scipy", "cma")
"""That the course of a run depends on."""
_DIGEST_BYTES = 32
_KINDS = {"header": ("u1", 1), "costs": ("f8", 1), "sizes": ("i8", 1), "digests": ("u1", 2), "best": ("f8", 1)}
_KINDS["best_cost"] = ("f8", 0)
"""Type and dimensions of each array."""


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

    It keeps all costs, stores them, and replays what a state file at `path` holds.
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
        found = None if path is None else load_state(path)
        if found is not None:
            _require_same(found, identity, path)
        self._stored = StoredRun(identity) if found is None else found
        self._restored = len(self._stored.costs)

    def evaluate(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Costs (P,) of one generation (P, n); `WORST_COST` where the objective's is not finite.

        The generation is stored before anything is told of it.
        """
        shares = np.ascontiguousarray(shares)  # SciPy's come by columns, compiled objectives want rows
        digest = digest_of(shares)
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
                save_state(self._path, self._stored)
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
            for name, version in versions(LIBRARIES).items()
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
    identity = {"method": method, "problem": asdict(problem), "settings": without_length, "start": start.tolist()}
    known: dict[str, Any] = json.loads(json.dumps(identity))  # as the file has it: tuples become lists
    return known


def _require_same(found: StoredRun, identity: dict[str, Any], path: Path | None) -> None:
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


@dataclass
class StoredRun:
    """What a state file holds.

    Attributes
    ----------
    identity
        Of problem, method and settings, as JSON knows it.
    costs
        Of each generation that is done, (P,); infinite where the objective's was not finite.
    digests
        Of each generation's individuals.
    best
        (n,), parameters with the lowest cost so far, in their units; empty while none was finite.
    best_cost
        Of `best`; infinite while none was finite.
    libraries
        Versions of the libraries that it was made with.
    """

    identity: dict[str, Any]
    costs: list[NDArray[np.float64]] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    best: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    best_cost: float = np.inf
    libraries: dict[str, str] = field(default_factory=lambda: versions(LIBRARIES))


def digest_of(population: NDArray[np.float64]) -> bytes:
    """SHA-256 of a population's shape and numbers."""
    shape = np.array(population.shape, dtype="<i8").tobytes()
    return hashlib.sha256(shape + np.ascontiguousarray(population, dtype="<f8").tobytes()).digest()


def save_state(path: Path, run: StoredRun) -> None:
    """Write it, all or nothing: whoever reads `path` meanwhile, or after an interrupt, finds the old or the new file.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    header = {"format_version": FORMAT_VERSION, "libraries": run.libraries, "identity": run.identity}
    buffer = io.BytesIO()
    np.savez(
        buffer,
        header=np.frombuffer(json.dumps(header, sort_keys=True, allow_nan=False).encode(), dtype=np.uint8),
        costs=np.concatenate([np.empty(0), *run.costs]),
        sizes=np.array([len(costs) for costs in run.costs], dtype=np.int64),
        digests=np.frombuffer(b"".join(run.digests), dtype=np.uint8).reshape(-1, _DIGEST_BYTES),
        best=run.best,
        best_cost=np.float64(run.best_cost),
    )
    with suppress(OSError):  # said when the file cannot be written
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue(), f"state file {path}")


def load_state(path: Path) -> StoredRun | None:
    """The run in the file, or None where there is no such file.

    Raises
    ------
    UserError
        Not such a file, of another format version, too large, or damaged.
    """
    where = f"state file {path}"
    what, way_out = "the state of an optimisation", "give another path, or delete it to start anew"
    try:
        arrays = read_arrays(path, where, what, way_out, LARGEST_FILE_BYTES, MOST_ARRAYS)
    except FileNotFoundError:
        return None
    try:
        return _stored(arrays)
    except (ValueError, KeyError, RecursionError) as error:
        raise UserError(f"{where}: not {what}, or damaged ({error}); {way_out}") from error


def _stored(arrays: Mapping[str, NDArray[Any]]) -> StoredRun:
    """The run of a file's arrays; ValueError or KeyError where they are none."""
    if {name: (value.dtype.str[1:], value.ndim) for name, value in arrays.items()} != _KINDS:
        raise ValueError(f"arrays {', '.join(f'{name} {value.dtype}' for name, value in sorted(arrays.items()))}")
    header = json.loads(arrays["header"].tobytes().decode())
    if not isinstance(header, dict) or header.get("format_version") != FORMAT_VERSION:
        raise ValueError(f"not of format version {FORMAT_VERSION}")
    identity, libraries = header["identity"], header["libraries"]
    if not (isinstance(identity, dict) and isinstance(libraries, dict)):
        raise ValueError("a header without identity or libraries")
    costs, sizes, digests = arrays["costs"], arrays["sizes"], arrays["digests"]
    if (sizes < 1).any() or sizes.sum() != len(costs) or digests.shape != (len(sizes), _DIGEST_BYTES):
        raise ValueError(f"{len(costs)} costs and {len(digests)} digests for {len(sizes)} generations")
    if np.isnan(costs).any():
        raise ValueError("a cost that is not a number")
    return StoredRun(
        identity,
        np.split(costs, np.cumsum(sizes)[:-1]) if len(sizes) else [],
        [row.tobytes() for row in digests],
        arrays["best"],
        float(arrays["best_cost"]),
        libraries,
    )
